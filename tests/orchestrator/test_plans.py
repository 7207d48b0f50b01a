"""Runs of stored plans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmultiagent import (
    ConfigurationError,
    InvalidTaskDependenciesError,
    InvalidTaskRequirementsError,
    OpenMultiAgent,
    TaskSpec,
    TeamRunResult,
)
from openmultiagent.tasks import PlanArtifact
from tests.support import proves
from tests.support.teams import Model, Seen


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def spec(title: str, *depends_on: str, **fields: Any) -> TaskSpec:
    return TaskSpec.of(task(title, *depends_on, **fields))


async def first_run(model: Model, *tasks: dict[str, Any], **options: Any) -> TeamRunResult:
    return await OpenMultiAgent(default_adapter=model, **options).run_tasks(team(), list(tasks))


def asked(result: TeamRunResult) -> list[Any]:
    return [
        (record.id, record.title, record.assignee, record.depends_on, record.max_retries, record.priority, record.role)
        for record in result.tasks
    ]


@proves("DSP-100")
async def test_the_plan_of_a_run_is_done_again_with_the_same_ids_and_assignees() -> None:
    model = Model({"First": "the facts"})
    first = await first_run(
        model,
        task("Second", "First", role="writer", max_retries=3, retry_delay=0.5, priority="high", metadata={"k": "v"}),
        task("First", memory_scope="all", id="stable-first-id"),
    )
    assert first.plan is not None
    stored = json.loads(json.dumps(first.plan.to_dict()))
    kept = json.dumps(stored)
    again = Model({"First": "the facts"})
    seen = Seen()
    result = await OpenMultiAgent(default_adapter=again, listeners=[seen]).run_from_plan(team(), stored)
    assert json.dumps(stored) == kept
    assert result.success
    assert asked(result) == asked(first)
    assert again.calls == ["First", "Second"]
    assert "the facts" in again.prompts[1]
    assert result.tasks[0].metadata == first.tasks[0].metadata
    assert result.plan == first.plan
    assert not {"coordinator"} & set(result.agent_results)
    from_object = await OpenMultiAgent(default_adapter=Model()).run_from_plan(team(), first.plan)
    assert asked(from_object) == asked(first)


@proves("DSP-101")
async def test_a_plan_has_a_goal_and_may_be_edited() -> None:
    plan = PlanArtifact([spec("A", id="a1", assignee="a"), spec("B", "a1", id="b1")], goal="Reach it.")
    record = plan.to_dict()
    record["tasks"][0]["assignee"] = "b"
    record["tasks"][1]["description"] = "Do it otherwise."
    record["tasks"].append({"id": "c1", "title": "C", "description": "More.", "depends_on": ["a1"]})
    model = Model()
    result = await OpenMultiAgent(default_adapter=model).run_from_plan(team(), record)
    assert result.goal == "Reach it."
    assert result.tasks[0].assignee == "b"
    assert sorted(model.calls) == ["A", "B", "C"]
    assert any("Do it otherwise." in prompt for prompt in model.prompts)


@proves("DSP-102")
@pytest.mark.parametrize(
    ("plan", "error", "text"),
    [
        (5, ConfigurationError, "plan"),
        ({"version": 2, "tasks": []}, ConfigurationError, "version 1"),
        ({"version": True, "tasks": []}, ConfigurationError, "version 1"),
        ({"version": 1, "tasks": [task("A")]}, ConfigurationError, "has no id"),
        ({"version": 1, "tasks": [task("A", "B", id="a"), task("B", id="b")]}, InvalidTaskDependenciesError, "'B'"),
        ({"version": 1, "tasks": [task("A", "b", id="a"), task("B", "a", id="b")]}, InvalidTaskDependenciesError, "a"),
        ({"version": 1, "tasks": [task("A", id="a", assignee="nobody")]}, InvalidTaskRequirementsError, "nobody"),
        (
            {"version": 1, "tasks": [task("A", id="a", requires={"required_capabilities": ["x"]})]},
            InvalidTaskRequirementsError,
            "'A'|\"A\"",
        ),
        ({"version": 1, "tasks": [task("A", id="a", max_cost_budget=1.0)]}, ConfigurationError, "cost budget"),
    ],
)
def test_what_is_no_plan_for_this_team_is_refused_by_the_call_itself(
    plan: Any, error: type[Exception], text: str
) -> None:
    model, seen = Model(), Seen()
    with pytest.raises(error, match=text):
        OpenMultiAgent(default_adapter=model, listeners=[seen]).run_from_plan(team(), plan)  # type: ignore[unused-coroutine]
    assert (model.calls, seen) == ([], [])


@proves("DSP-103")
async def test_a_plan_keeps_to_options_and_gates_like_any_run() -> None:
    plan = PlanArtifact([spec("A", id="a1"), spec("B", "a1", id="b1")])
    kinds: list[str] = []

    async def middleware(call: Any, call_next: Any) -> Any:
        kinds.append(call.kind)
        return await call_next()

    oma = OpenMultiAgent(
        default_adapter=Model(tokens=5), on_task_dispatch=lambda about: about.title == "A", middleware=[middleware]
    )
    refused = await oma.run_from_plan(team(), plan, run_id="r", metadata={"k": "v"})
    assert (str(refused.status), [record.status for record in refused.tasks]) == ("rejected", ["completed", "skipped"])
    assert (refused.identity.run_id, refused.metadata, kinds) == ("r", {"k": "v"}, ["plan"])
    small = await OpenMultiAgent(default_adapter=Model(tokens=5)).run_from_plan(team(), plan, max_token_budget=4)
    assert str(small.status) == "budget_exhausted"

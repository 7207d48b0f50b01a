"""What tasks demand of agents."""

from __future__ import annotations

from typing import Any

import pytest

from openmultiagent import AgentConfig, ConfigurationError, InvalidTaskRequirementsError, Tool, tool
from openmultiagent.tasks import (
    AgentSelector,
    Scheduler,
    SchedulingStrategy,
    TaskRequirementIssue,
    TaskRequirements,
    TaskSpec,
    declared_provider,
    validate_task_requirements,
)
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves
from tests.tasks.scheduling import Job, agent, agents

STRATEGIES: list[SchedulingStrategy] = [
    "round-robin",
    "least-busy",
    "capability-match",
    "dependency-first",
    "composite",
]


@tool
def edit(path: str) -> str:
    """Edit a file."""
    return path


@tool
def search(query: str) -> str:
    """Search."""
    return query


class Repository:
    name = "repository"

    async def open(self) -> list[Tool]:
        return [edit]

    async def aclose(self) -> None: ...


NEEDS: list[tuple[dict[str, Any], AgentConfig, AgentConfig, str]] = [
    ({"required_tools": ["edit"]}, agent("able", tools=[edit]), agent("other", tools=[search]), "has no tool 'edit'"),
    (
        {"required_tools": ["edit"]},
        agent("able", tools=[edit]),
        agent("other", tools=[edit], disallowed_tools=["edit"]),
        "has no tool 'edit'",
    ),
    (
        {"required_tools": ["edit"]},
        agent("able", tools=[edit]),
        agent("other", tools=[Repository()]),
        "known only during a run",
    ),
    (
        {"required_capabilities": ["audit", "law"]},
        agent("able", capabilities=["law", "audit", "tax"]),
        agent("other", "I do audit and law", capabilities=["audit"]),
        "does not declare the capability 'law'",
    ),
    (
        {"required_provider": "openai"},
        agent("able", provider="openai"),
        agent("other", provider="gemini"),
        "uses the provider 'gemini', not 'openai'",
    ),
    (
        {"required_provider": "anthropic"},
        agent("able"),
        agent("other", adapter=ScriptedAdapter(["anthropic"])),
        "declares no provider",
    ),
]


@proves("SCH-1", "SCH-2", "SCH-3", "SCH-4")
@pytest.mark.parametrize(("requires", "able", "other", "reason"), NEEDS)
def test_each_requirement_filters_alone(
    requires: dict[str, Any], able: AgentConfig, other: AgentConfig, reason: str
) -> None:
    task = Job("t", requires=TaskRequirements(**requires))
    assert validate_task_requirements([task], [other, able]) == []
    assert AgentSelector().select(task, [other, able]).eligible == (able,)
    (issue,) = validate_task_requirements([task], [other])
    assert (issue.code, issue.task_id, issue.assignee) == ("NO_ELIGIBLE_AGENT", "t", None)
    assert issue.reasons[0].startswith("other excluded: ")
    assert reason in issue.reasons[0]


@proves("SCH-4")
def test_every_agent_runs_on_the_backend_llm() -> None:
    team = agents("a")
    assert validate_task_requirements([Job("t", requires=TaskRequirements(required_backend="llm"))], team) == []
    (issue,) = validate_task_requirements([Job("t", requires=TaskRequirements(required_backend="acp"))], team)
    assert "runs on the backend 'llm', not 'acp'" in issue.reasons[0]


@proves("SCH-3")
def test_a_provider_that_a_route_decides_is_the_one_that_counts() -> None:
    team = [agent("a", provider="anthropic"), agent("b", provider="anthropic")]
    task = Job("t", requires=TaskRequirements(required_provider="openai"))

    def routed(config: AgentConfig, subject: Any) -> str | None:
        return "openai" if config.name == "b" and subject is task else declared_provider(config)

    assert [issue.code for issue in validate_task_requirements([task], team)] == ["NO_ELIGIBLE_AGENT"]
    assert validate_task_requirements([task], team, provider_of=routed) == []
    assert Scheduler(provider_of=routed).schedule([task], team) == {"t": "b"}
    assert AgentSelector(provider_of=routed).select(task, team).agent is team[1]


@proves("SCH-2")
def test_all_that_an_agent_lacks_is_told_at_once() -> None:
    requires = TaskRequirements(
        required_tools=["edit", "search"], required_capabilities=["law"], required_provider="openai"
    )
    (issue,) = validate_task_requirements([Job("t", requires=requires)], agents("a"))
    (reason,) = issue.reasons
    assert reason == (
        "a excluded: has no tool 'edit', 'search'; does not declare the capability 'law'; "
        "uses the provider 'anthropic', not 'openai'"
    )


@proves("SCH-1", "SCH-5")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("requires", "able", "other", "reason"), NEEDS)
def test_every_strategy_picks_the_only_agent_that_can_and_nobody_otherwise(
    strategy: SchedulingStrategy, requires: dict[str, Any], able: AgentConfig, other: AgentConfig, reason: str
) -> None:
    task = Job("t", "other other", "other", requires=TaskRequirements(**requires))
    assert Scheduler(strategy).schedule([task], [other, able]) == {"t": able.name}
    assert Scheduler(strategy).schedule_task(task, [other, able], loads={able.name: 9}) == able.name
    scheduler = Scheduler(strategy)
    for call in (lambda: scheduler.schedule([task], [other]), lambda: scheduler.schedule_task(task, [other])):
        with pytest.raises(InvalidTaskRequirementsError) as caught:
            call()
        (issue,) = caught.value.issues
        assert (issue["code"], issue["task_id"], issue["task_title"]) == ("NO_ELIGIBLE_AGENT", "t", "other other")
        assert reason in issue["reasons"][0]


@proves("SCH-5")
def test_a_schedule_that_fails_tells_all_faults_and_uses_up_no_turn() -> None:
    scheduler = Scheduler("round-robin")
    impossible = TaskRequirements(required_capabilities=["flying"])
    tasks = [Job("a"), Job("b", requires=impossible), Job("c", requires=impossible)]
    with pytest.raises(InvalidTaskRequirementsError) as caught:
        scheduler.schedule(tasks, agents("x", "y"))
    assert [issue["task_id"] for issue in caught.value.issues] == ["b", "c"]
    assert scheduler.schedule([Job("a")], agents("x", "y")) == {"a": "x"}


@proves("SCH-6")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_agents_only_requirements_are_an_error(strategy: SchedulingStrategy) -> None:
    scheduler = Scheduler(strategy)
    for requires in (None, TaskRequirements()):
        assert scheduler.schedule([Job("t", requires=requires)], []) == {}
        assert scheduler.schedule_task(Job("t", requires=requires), []) is None
    with pytest.raises(InvalidTaskRequirementsError) as caught:
        scheduler.schedule([Job("t", requires=TaskRequirements(required_tools=["edit"]))], [])
    assert caught.value.issues[0]["reasons"] == ["there are no agents"]


@proves("SCH-7")
def test_an_assignee_must_suit_its_task() -> None:
    reader, writer = agent("reader"), agent("writer", tools=[edit])
    task = Job("t", "Edit it", assignee="reader", requires=TaskRequirements(required_tools=["edit"]))
    assert validate_task_requirements([task], [reader, writer]) == [
        TaskRequirementIssue(
            "ASSIGNEE_REQUIREMENTS_MISMATCH",
            "t",
            "Edit it",
            assignee="reader",
            reasons=("reader excluded: has no tool 'edit'",),
        )
    ]
    task.assignee = "writer"
    assert validate_task_requirements([task], [reader, writer]) == []


@proves("SCH-7")
def test_an_assignee_that_is_not_in_the_team_is_an_issue_with_or_without_requirements() -> None:
    team = agents("anna", "bert")
    tasks = [
        Job("1", assignee="ana"),
        Job("2"),
        Job("3", assignee="ghost", requires=TaskRequirements(required_tools=["edit"])),
    ]
    issues = validate_task_requirements(tasks, team)
    assert [(issue.code, issue.task_id, issue.assignee) for issue in issues] == [
        ("INVALID_ASSIGNEE", "1", "ana"),
        ("INVALID_ASSIGNEE", "3", "ghost"),
    ]
    assert issues[0].reasons == ("'ana' is no agent of the team; its agents: 'anna', 'bert'",)


@proves("SCH-7")
def test_such_an_assignee_counts_as_none_where_names_are_not_strict() -> None:
    team = [agent("anna", tools=[edit])]
    tasks = [
        Job("1", assignee="ghost"),
        Job("2", assignee="ghost", requires=TaskRequirements(required_tools=["edit"])),
        Job("3", assignee="ghost", requires=TaskRequirements(required_tools=["search"])),
    ]
    (issue,) = validate_task_requirements(tasks, team, strict_assignees=False)
    assert (issue.code, issue.task_id, issue.assignee) == ("NO_ELIGIBLE_AGENT", "3", None)


@proves("SCH-7")
@pytest.mark.parametrize(
    ("status", "checked"),
    [("pending", True), ("blocked", True), ("in_progress", True)]
    + [(status, False) for status in ("completed", "failed", "skipped")],
)
def test_tasks_that_have_ended_are_not_checked(status: str, checked: bool) -> None:
    task = Job("t", status=status, assignee="ghost", requires=TaskRequirements(required_tools=["edit"]))
    assert bool(validate_task_requirements([task], agents("a"))) is checked


@proves("SCH-7")
def test_an_issue_is_plain_data_in_the_error() -> None:
    (issue,) = validate_task_requirements([Job("t", "T", assignee="x")], [])
    assert issue.to_dict() == {
        "code": "INVALID_ASSIGNEE",
        "task_id": "t",
        "task_title": "T",
        "assignee": "x",
        "reasons": ["'x' is no agent of the team; its agents: there are none"],
    }
    assert InvalidTaskRequirementsError([issue.to_dict()]).issues == [issue.to_dict()]


@proves("SCH-8")
@pytest.mark.parametrize(
    "call",
    [
        lambda team: validate_task_requirements([Job("t")], team),
        lambda team: Scheduler().schedule([Job("t")], team),
        lambda team: AgentSelector().select("x", team),
    ],
)
def test_a_team_is_agents_with_different_names(call: Any) -> None:
    with pytest.raises(ConfigurationError, match="two agents are named 'a'"):
        call(agents("a", "b", "a"))
    with pytest.raises(ConfigurationError, match="agents takes AgentConfig"):
        call(["a"])


@proves("SCH-2")
@pytest.mark.parametrize("capabilities", ["law", [""], [3], None])
def test_capabilities_are_a_list_of_texts(capabilities: Any) -> None:
    with pytest.raises(ConfigurationError, match="capabilities"):
        agent("a", capabilities=capabilities)


@proves("SCH-2")
def test_capabilities_are_kept_as_they_were_when_the_agent_was_made() -> None:
    given = ["law"]
    config = agent("a", capabilities=given)
    given.append("tax")
    assert config.capabilities == ("law",)


@proves("SCH-20")
def test_a_specification_is_selected_for_like_a_task() -> None:
    spec = TaskSpec("Edit the draft", "Mend it", requires=TaskRequirements(required_tools=["edit"]))
    able = agent("able", tools=[edit])
    assert AgentSelector().select(spec, [agent("draft"), able]).agent is able
    found = AgentSelector().select(spec, agents("draft"))
    assert found.error is not None
    assert (found.error.code, found.error.task_title) == ("NO_ELIGIBLE_AGENT", "Edit the draft")

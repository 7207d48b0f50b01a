"""What a run of tasks came to."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import (
    AgentRunResult,
    ConfigurationError,
    ErrorInfo,
    InvalidTaskDependenciesError,
    LLMMessage,
    PlanArtifact,
    RunIdentity,
    RunMetrics,
    RunStatus,
    Task,
    TaskExecutionMetrics,
    TaskExecutionRecord,
    TaskRequirements,
    TaskSpec,
    TeamRunResult,
    TextBlock,
    TokenUsage,
    ToolCallRecord,
    UsageEntry,
)
from openmultiagent.outcome import StatusCode
from openmultiagent.tasks import (
    TaskInput,
    copy_team_result,
    create_task,
    derive_run_status,
    merge_agent_results,
    merge_usage_reports,
    read_task_input,
    run_metrics,
)
from tests.support import proves

WHO = RunIdentity("run", 1, "a" * 32, "b" * 16)
CALL = ToolCallRecord(tool_name="grep", tool_use_id="1", input={"q": [1]}, output="x", is_error=False, duration=0.1)


def entry(tokens: int, agent: str = "w", phase: str = "worker") -> UsageEntry:
    return UsageEntry(agent, "m", "p", phase, TokenUsage(input_tokens=tokens), cost=0.25, requests=1)


def result(code: StatusCode = "ok", output: str = "out", tokens: int = 1, **fields: Any) -> AgentRunResult[Any]:
    given: dict[str, Any] = {
        "success": code == "ok",
        "status": RunStatus(code, None if code == "ok" else f"{code}!"),
        "stop_reason": "end_turn" if code == "ok" else "error",
        "output": output,
        "messages": [LLMMessage.assistant(output)],
        "identity": WHO,
        "token_usage": TokenUsage(input_tokens=tokens),
        "usage_report": (entry(tokens),),
        "tool_calls": (CALL,),
    }
    return AgentRunResult(**(given | fields))


# --- merging ---------------------------------------------------------------------------------------------------------


@proves("TSK-60")
def test_the_results_of_one_agent_are_merged() -> None:
    parts = [
        result(output="a", tokens=1, structured={"n": 1}, flags=("x",)),
        result(output="", tokens=2, structured={"n": 2}, flags=("y", "x")),
        result(output="c", tokens=4, stop_reason="max_turns"),
    ]
    merged = merge_agent_results(parts)
    assert (merged.success, merged.status, merged.stop_reason) == (True, RunStatus("ok"), "max_turns")
    assert (merged.output, merged.structured, merged.flags) == ("a\n\n---\n\nc", {"n": 2}, ("x", "y"))
    assert [message.content for message in merged.messages] == [part.messages[0].content for part in parts]
    assert merged.token_usage.input_tokens == 7
    assert merged.usage_report == (
        UsageEntry("w", "m", "p", "worker", TokenUsage(input_tokens=7), cost=0.75, requests=3),
    )
    assert len(merged.tool_calls) == 3
    assert merge_agent_results(parts[:1]) is parts[0]


@proves("TSK-60")
def test_a_merged_failure_has_the_status_of_the_most_telling_one() -> None:
    info = ErrorInfo(kind="budget", message="over")
    error = RuntimeError("x")
    parts = [
        result("error", "a"),
        result("budget_exhausted", "b", error_info=info, error=error, stop_reason="budget"),
        result(output="c"),
        result("timeout"),
    ]
    merged = merge_agent_results(parts)
    assert (merged.success, merged.status.code, merged.stop_reason) == (False, "budget_exhausted", "budget")
    assert (merged.error_info, merged.error) == (info, error)
    assert merge_agent_results([result(), result("rejected"), result("error")]).status.code == "error"
    assert merge_agent_results([result(), result("rejected")]).status.code == "rejected"


@proves("TSK-60", "TSK-64")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 100))))
def test_merged_usage_adds_up(given_entries: list[tuple[str, str, int]]) -> None:
    entries = [entry(tokens, agent, phase) for agent, phase, tokens in given_entries]
    merged = merge_usage_reports(entries)
    keys = [(each.agent, each.phase) for each in merged]
    assert len(keys) == len(set(keys))
    assert keys == list(dict.fromkeys((each.agent, each.phase) for each in entries))
    for total, parts in ((merged, entries),):
        assert sum(each.usage.input_tokens for each in total) == sum(each.usage.input_tokens for each in parts)
        assert sum(each.cost for each in total) == sum(each.cost for each in parts)
        assert sum(each.requests for each in total) == len(parts)


# --- status and figures ----------------------------------------------------------------------------------------------


def task(status: str = "completed", text: str | None = None, **fields: Any) -> Task:
    return create_task(TaskSpec("T", "d", **fields)).replace(status=status, result=text)


@proves("TSK-61")
@pytest.mark.parametrize(
    ("codes", "statuses", "code", "message"),
    [
        ([], [], "ok", None),
        (["ok", "ok"], ["completed", "skipped"], "ok", None),
        (["ok", "error", "cancelled", "timeout"], ["failed"], "timeout", "timeout!"),
        (["cancelled", "budget_exhausted"], [], "budget_exhausted", "budget_exhausted!"),
        (["suspended", "error"], ["in_progress"], "suspended", "suspended!"),
        (["ok"], ["completed", "failed"], "error", "task 'T' failed: no reason given"),
        (["ok"], ["blocked"], "error", "task 'T' is blocked"),
        (["ok", "rejected", "rejected"], ["completed", "failed", "failed"], "rejected", "rejected!"),
        (["rejected", "error"], ["failed", "failed"], "error", "task 'T' failed: no reason given"),
        (["rejected"], ["failed", "failed"], "error", "task 'T' failed: no reason given"),
        (["rejected"], ["failed", "blocked"], "error", "task 'T' failed: no reason given"),
        (["rejected", "cancelled"], ["failed", "failed"], "cancelled", "cancelled!"),
    ],
)
def test_the_status_of_a_run(
    codes: list[StatusCode], statuses: list[str], code: StatusCode, message: str | None
) -> None:
    status = derive_run_status(dict(zip("abcd", map(result, codes), strict=False)), map(task, statuses))
    assert (status.code, status.message) == (code, message)


@proves("TSK-61")
def test_what_ended_a_run_from_outside_wins_and_texts_are_short_and_without_secrets() -> None:
    forced = RunStatus("rejected", "no")
    assert derive_run_status({"a": result("timeout")}, [task("failed")], forced=forced) is forced
    status = derive_run_status({}, [task("failed", "api_key=abcdefghijkl; " + "y " * 500)])
    assert "abcdefghijkl" not in str(status.message)
    assert len(status.message or "") == 256
    assert derive_run_status({"a": result("error", status=RunStatus("error"), output="why")}, []).message == "why"


@proves("TSK-61")
def test_what_a_revision_makes_up_for_does_not_count() -> None:
    failed = task("failed", id="a").replace(recovered_by_revision=1)
    for code in ("error", "timeout", "budget_exhausted"):
        results = {"a": result(code), "b": result()}
        assert derive_run_status(results, [failed, task(id="b")]) == RunStatus("ok")
    assert derive_run_status(results | {"c": result("timeout")}, [failed, task("failed", id="c")]).code == "timeout"
    assert derive_run_status({}, [failed, task("failed", id="c")]).code == "error"
    assert derive_run_status({}, [failed.replace(status="in_progress")]).message == "task 'T' is in_progress"


def metrics(duration: float, tokens: int = 0, retries: int = 0) -> TaskExecutionMetrics:
    began = datetime(2025, 1, 1, tzinfo=UTC)
    return TaskExecutionMetrics.of(
        result(tokens=tokens), started_at=began, ended_at=began, duration=duration, retries=retries
    )


@proves("TSK-62")
def test_the_figures_of_a_run() -> None:
    records = [
        TaskExecutionRecord(task=task(), metrics=metrics(1.0, 10, 1)),
        TaskExecutionRecord(task=task(), metrics=metrics(3.0, 20)),
        TaskExecutionRecord(task=task("failed"), metrics=metrics(9.0, 5, 2)),
        TaskExecutionRecord(task=task("skipped")),
        TaskExecutionRecord(task=task("blocked")),
    ]
    used = TokenUsage(input_tokens=30, output_tokens=17)  # a coordinator was asked as well
    assert run_metrics(records, used) == RunMetrics(
        total_tokens=47,
        total_retries=3,
        error_count=3,
        failure_count=1,
        completed_count=2,
        min_task_duration=1.0,
        max_task_duration=3.0,
        avg_task_duration=2.0,
        total_duration=4.0,
    )
    assert run_metrics([], used) is None
    none = run_metrics(records[2:], used)
    assert none is not None
    assert (none.avg_task_duration, none.min_task_duration, none.completed_count) == (0.0, 0.0, 0)
    assert metrics(-1.0).duration == 0.0


# --- the result ------------------------------------------------------------------------------------------------------


def full_result(**changes: Any) -> TeamRunResult:
    asked = TaskSpec(
        "Read",
        [TextBlock.new("x")],
        assignee="w",
        metadata={"k": ["a"]},
        requires=TaskRequirements(required_tools=["grep"]),
    )
    tasks = [
        create_task(asked, id="t1").replace(status="completed", result="out"),
        create_task(TaskSpec("B", "d"), depends_on=["t1"]),
    ]
    given: dict[str, Any] = {
        "success": True,
        "status": RunStatus("ok"),
        "final_output": "answer",
        "goal": read_task_input([TextBlock.new("Do it")], "goal"),
        "tasks": (
            TaskExecutionRecord(task=tasks[0], metrics=metrics(1.5, 3)),
            TaskExecutionRecord(task=tasks[1]),
        ),
        "task_results": {"t1": result(tokens=3)},
        "agent_results": {"w": result(tokens=3), "coordinator": result(tokens=4)},
        "decomposition": result(tokens=1),
        "synthesis": result(tokens=3),
        "total_token_usage": TokenUsage(input_tokens=7),
        "usage_report": (entry(3), entry(4, "coordinator", "synthesis")),
        "plan": PlanArtifact.of_tasks(tasks, goal="g"),
        "routing_decision": {"mode": "team", "reasons": ["x"]},
        "metrics": run_metrics(
            [TaskExecutionRecord(task=tasks[0], metrics=metrics(1.5, 3))], TokenUsage(input_tokens=3)
        ),
        "identity": WHO,
        "error_info": ErrorInfo(kind="tool", message="m"),
        "metadata": {"tags": ["x"]},
        "flags": ("flag",),
    }
    return TeamRunResult(**(given | changes))


@proves("TSK-63")
def test_a_result_is_equal_to_what_its_json_is_read_as() -> None:
    made = full_result()
    text = made.to_json()
    read = TeamRunResult.from_json(text)
    assert read == made
    assert read.to_json() == text
    assert isinstance(read.goal, TaskInput)
    bare = TeamRunResult(success=True, status=RunStatus("ok"), identity=WHO)
    assert TeamRunResult.from_dict(json.loads(bare.to_json())) == bare
    failed = bare.replace(error=RuntimeError("secret"), plan_only=True, goal="g")
    assert "secret" not in failed.to_json()
    assert TeamRunResult.from_json(failed.to_json()) == failed.replace(error=None)


class Decision:
    def to_dict(self) -> dict[str, Any]:
        return {"mode": "single"}


NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]


@proves("TSK-63")
def test_a_decision_that_describes_itself_is_asked() -> None:
    assert full_result(routing_decision=Decision()).to_dict()["routing_decision"] == {"mode": "single"}


@proves("TSK-63")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        (json.dumps(full_result().to_dict() | {"success": 1}), "the record has success 1: it must be bool"),
        (json.dumps(full_result().to_dict() | {"total_token_usage": {"input_tokens": -1}}), "whole numbers from 0"),
        ("[]", "cannot be read: AttributeError"),
        ("{}", "cannot be read: KeyError"),
        (json.dumps(full_result().to_dict() | {"status": {"code": "fine"}}), "'fine' is none of"),
        (json.dumps(full_result().to_dict() | {"tasks": [{}]}), "task lacks 'title'"),
        (json.dumps(full_result().to_dict() | {"metrics": {"x": 1}}), "cannot be read: TypeError"),
    ],
)
def test_what_is_no_result_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        TeamRunResult.from_json(text)


def poison(made: TeamRunResult) -> None:
    for each in (*made.task_results.values(), *made.agent_results.values()):
        each.messages.clear()
        each.tool_calls[0].input.clear()
    for record in made.tasks:
        if record.metrics is not None:
            record.metrics.tool_calls[0].input.clear()
    made.task_results.clear()
    made.agent_results.clear()
    assert made.metadata is not None
    made.metadata.clear()
    made.routing_decision.clear()


@proves("TSK-63")
@pytest.mark.parametrize("make_copy", [copy_team_result, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_is_equal_and_independent(make_copy: Callable[[TeamRunResult], TeamRunResult]) -> None:
    made = full_result()
    expected = made.to_dict()
    first, second = make_copy(made), make_copy(made)
    assert first == made
    poison(first)
    assert second == made
    assert made.to_dict() == expected
    assert copy.copy(made) == made


class UnpicklableError(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError


@proves("TSK-63")
def test_an_error_that_does_not_pickle_is_left_out() -> None:
    made = full_result(error=UnpicklableError())
    assert pickle.loads(pickle.dumps(made)) == made.replace(error=None)
    assert copy.deepcopy(made).error is made.error


@proves("TSK-63")
def test_a_record_has_the_fields_of_its_task() -> None:
    record = full_result().tasks[0]
    assert (record.id, record.title, record.status, record.assignee) == ("t1", "Read", "completed", "w")
    assert (record.depends_on, record.result, record.description) == ((), "out", "x")
    assert (record.role, record.priority, record.spec) == (None, "normal", record.task.spec)
    assert TaskExecutionRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@proves("TSK-64")
def test_usage_by_phase_and_by_agent() -> None:
    made = full_result(usage_report=(entry(3), entry(4, "coordinator", "synthesis"), entry(5, "v")))
    assert {key: usage.input_tokens for key, usage in made.usage_by_phase().items()} == {"worker": 8, "synthesis": 4}
    assert {key: usage.input_tokens for key, usage in made.usage_by_agent().items()} == {
        "w": 3,
        "coordinator": 4,
        "v": 5,
    }


# --- plans -----------------------------------------------------------------------------------------------------------


def plan() -> PlanArtifact:
    tasks = [
        create_task(TaskSpec("A", "a", metadata={"k": 1}, retry_delay=0.5), id="a"),
        create_task(TaskSpec("B", "b", depends_on=["A"], priority="high"), id="b", depends_on=["a"]).replace(
            assignee="w"
        ),
    ]
    return PlanArtifact.of_tasks(tasks, goal="g")


@proves("TSK-65")
def test_a_plan_is_equal_to_what_its_json_is_read_as() -> None:
    made = plan()
    assert PlanArtifact.from_json(made.to_json()) == made
    assert made.to_dict()["tasks"][1] == {
        "title": "B",
        "description": "b",
        "id": "b",
        "assignee": "w",
        "depends_on": ["a"],
        "priority": "high",
    }
    structured = PlanArtifact(made.tasks, goal=[LLMMessage.user("x")])
    assert PlanArtifact.from_json(structured.to_json()) == structured
    assert PlanArtifact([]).to_tasks() == []


@proves("TSK-65")
def test_the_tasks_of_a_plan() -> None:
    tasks = plan().to_tasks()
    assert [(task.id, task.depends_on, task.assignee, task.status) for task in tasks] == [
        ("a", (), None, "pending"),
        ("b", ("a",), "w", "pending"),
    ]
    assert PlanArtifact.of_tasks(tasks, goal="g") == plan()


@proves("TSK-65")
def test_an_edited_plan_is_checked_again() -> None:
    record = plan().to_dict()
    record["tasks"][1]["depends_on"] = ["A", "x"]
    with pytest.raises(InvalidTaskDependenciesError, match="depends on 'A', which is the id of no task") as caught:
        PlanArtifact.from_dict(record).to_tasks()
    assert [issue["reference"] for issue in caught.value.issues] == ["A", "x"]
    record["tasks"][1]["depends_on"] = ["a"]
    record["tasks"][0]["depends_on"] = ["b"]
    with pytest.raises(InvalidTaskDependenciesError, match="in a circle: A -> B -> A"):
        PlanArtifact.from_dict(record).to_tasks()


@proves("TSK-65")
@pytest.mark.parametrize(
    ("record", "text"),
    [
        ([], "a plan must be a mapping, got list"),
        ({"version": 2, "tasks": []}, "version 1"),
        ({"version": 1}, "a plan has version, goal and tasks"),
        ({"version": 1, "tasks": [], "extra": 1}, "a plan has version, goal and tasks"),
        ({"version": 1, "tasks": "x"}, "tasks must be a list, got str"),
        ({"version": 1, "tasks": [{"title": "t", "description": "d"}]}, r"tasks\[0\] 't' has no id"),
        ({"version": 1, "tasks": [{"title": "t"}]}, r"tasks\[0\] lacks 'description'"),
        ({"version": 1, "tasks": [], "goal": 3}, "goal must be a string"),
        ({"version": 10**5000, "tasks": []}, "got <int whose repr raises ValueError>"),
        ({"version": 1, "tasks": [], "content_hash": NESTED}, "got <list whose repr raises RecursionError>"),
    ],
)
def test_what_is_no_plan_is_refused(record: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        PlanArtifact.from_dict(record)
    with pytest.raises(ConfigurationError, match="a plan must be JSON"):
        PlanArtifact.from_json("{")

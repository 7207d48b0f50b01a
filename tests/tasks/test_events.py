"""The events of a run of tasks."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest

from openmultiagent import AgentRunResult, LLMMessage, RunIdentity, RunStatus
from openmultiagent.events import Event, EventBus
from openmultiagent.outcome import copy_result
from openmultiagent.tasks import (
    RunFailed,
    RunFailure,
    RunWarning,
    TaskCompleted,
    TaskEvent,
    TaskFailed,
    TaskRetried,
    TaskRetry,
    TaskSkipped,
    TaskSpec,
    TaskStarted,
    copy_failure,
    create_task,
)
from tests.support import proves


def result() -> AgentRunResult[Any]:
    return AgentRunResult(
        success=False,
        status=RunStatus("error"),
        stop_reason="error",
        output="x",
        messages=[LLMMessage.assistant("x")],
        identity=RunIdentity("r"),
    )


TASK = create_task(TaskSpec("T", "d"))
RETRY = TaskRetry(attempt=1, max_attempts=2, error="x", next_delay=0.5)
FAILURE = RunFailure(message="no", code="X", result=result(), issues=({"code": "Y"},))
EVENTS: dict[str, Event[Any]] = {
    "task_start": TaskStarted(agent="w", task="t", payload=TASK),
    "task_complete": TaskCompleted(agent="w", task="t", payload=result(), copy=copy_result),
    "task_failed": TaskFailed(agent="w", task="t", payload=FAILURE, copy=copy_failure),
    "task_skipped": TaskSkipped(task="t", payload=TASK),
    "task_retry": TaskRetried(agent="w", task="t", payload=RETRY),
    "warning": RunWarning(task="t", payload={"code": "INVALID_ASSIGNEE"}, copy=copy.deepcopy),
    "error": RunFailed(payload=RunFailure(message="no"), copy=copy_failure),
}


@proves("TSK-70")
def test_each_kind_of_event_has_a_wire_name() -> None:
    assert {event.type for event in EVENTS.values()} == set(EVENTS)
    assert {type(event) for event in EVENTS.values()} == set(get_args(TaskEvent))
    assert all(event.type == name for name, event in EVENTS.items())


@proves("TSK-70")
@pytest.mark.parametrize("name", EVENTS)
def test_each_listener_gets_a_payload_of_its_own(name: str) -> None:
    seen: list[Event[Any]] = []
    bus = EventBus("run", [seen.append, seen.append])
    bus.emit(EVENTS[name])
    first, second = seen
    assert first is not second
    assert first.data == second.data
    assert (first.type, first.task, first.run_id) == (name, EVENTS[name].task, "run")
    if name in ("task_complete", "warning"):
        assert first.data is not second.data


@proves("TSK-70")
def test_a_copied_failure_shares_nothing() -> None:
    copied = copy_failure(FAILURE)
    assert copied == FAILURE
    assert copied.result is not None
    copied.result.messages.clear()
    copied.issues[0].clear()
    assert RunFailure(message="no", code="X", result=result(), issues=({"code": "Y"},)) == FAILURE
    assert copy_failure(RunFailure(message="m")) == RunFailure(message="m")

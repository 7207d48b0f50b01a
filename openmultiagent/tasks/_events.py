"""The events of a run of tasks, for progress listeners."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .._record import record
from ..events import Event
from ..outcome import AgentRunResult, ErrorInfo, copy_result
from ._retry import TaskRetry
from ._task import Task

__all__ = [
    "RunFailed",
    "RunFailure",
    "RunWarning",
    "TaskCompleted",
    "TaskEvent",
    "TaskFailed",
    "TaskRetried",
    "TaskSkipped",
    "TaskStarted",
    "copy_failure",
]


@record(kw_only=True)
class RunFailure:
    """Something that failed in a run."""

    message: str
    code: str | None = None
    """A stable, upper-case word for programs."""
    error_info: ErrorInfo | None = None
    result: AgentRunResult[Any] | None = None
    """What the agent came to, if it was run."""
    issues: tuple[dict[str, Any], ...] = ()
    """The single faults, where there are several."""


def copy_failure(failure: RunFailure) -> RunFailure:
    """Return a failure that shares nothing mutable with the given one, apart from exceptions.

    Args:
        failure: The failure to copy.
    """
    result = None if failure.result is None else copy_result(failure.result)
    return RunFailure(
        message=failure.message,
        code=failure.code,
        error_info=failure.error_info,
        result=result,
        issues=tuple(dict(issue) for issue in failure.issues),
    )


class TaskStarted(Event[Task]):
    """An agent begins with a task; ``data`` is the task, in progress."""

    type: ClassVar[Literal["task_start"]] = "task_start"
    __slots__ = ()


class TaskCompleted(Event[AgentRunResult[Any]]):
    """A task is done; ``data`` is its result."""

    type: ClassVar[Literal["task_complete"]] = "task_complete"
    __slots__ = ()


class TaskFailed(Event[RunFailure]):
    """A task failed, by itself or with one that it depends on; ``data`` says why, and has its result if it was run."""

    type: ClassVar[Literal["task_failed"]] = "task_failed"
    __slots__ = ()


class TaskSkipped(Event[Task]):
    """A task is left out; ``data`` is the task, with the reason as its ``result``."""

    type: ClassVar[Literal["task_skipped"]] = "task_skipped"
    __slots__ = ()


class TaskRetried(Event[TaskRetry]):
    """An attempt at a task failed, and there will be another."""

    type: ClassVar[Literal["task_retry"]] = "task_retry"
    __slots__ = ()


class RunWarning(Event[dict[str, Any]]):
    """Something is odd and the run goes on; ``data`` has a ``code`` and what else there is to know."""

    type: ClassVar[Literal["warning"]] = "warning"
    __slots__ = ()


class RunFailed(Event[RunFailure]):
    """A part of a run failed that is no task, or the run could not go on; ``data`` says what."""

    type: ClassVar[Literal["error"]] = "error"
    __slots__ = ()


TaskEvent = TaskStarted | TaskCompleted | TaskFailed | TaskSkipped | TaskRetried | RunWarning | RunFailed
"""Every kind of event that a run of tasks adds to those of its agents."""

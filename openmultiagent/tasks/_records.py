"""A task on the record of a run, and the figures of all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from .._record import record
from ..outcome import AgentRunResult, ToolCallRecord, plain_data
from ..usage import NO_USAGE, TokenUsage
from ._spec import TaskSpec
from ._task import AskedFields, Task, TaskStatus, read_time

__all__ = ["RunMetrics", "TaskExecutionMetrics", "TaskExecutionRecord", "run_metrics"]


@record(kw_only=True)
class TaskExecutionMetrics:
    """What the execution of one task took."""

    started_at: datetime
    ended_at: datetime
    duration: float
    """Seconds, its retries and the waits before them included."""
    token_usage: TokenUsage = NO_USAGE
    """Of all attempts."""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """Those of the last attempt."""
    retries: int = 0
    """Attempts after the first."""

    @classmethod
    def of(
        cls, result: AgentRunResult[Any], *, started_at: datetime, ended_at: datetime, duration: float, retries: int = 0
    ) -> TaskExecutionMetrics:
        """Return the figures of a task that came to a result.

        Args:
            result: What ``execute_with_retry`` returned.
            started_at: When it began.
            ended_at: When it ended.
            duration: Seconds between, by a clock that never goes back.
            retries: Attempts after the first.
        """
        return cls(
            started_at=started_at,
            ended_at=ended_at,
            duration=max(duration, 0.0),
            token_usage=result.token_usage,
            tool_calls=_copied(result.tool_calls),
            retries=retries,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON data, which ``from_dict`` reads."""
        calls = [{item.name: getattr(call, item.name) for item in fields(call)} for call in self.tool_calls]
        return {
            "started_at": self.started_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "duration": self.duration,
            "token_usage": self.token_usage.to_dict(),
            "tool_calls": [call | {"input": plain_data(call["input"])} for call in calls],
            "retries": self.retries,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TaskExecutionMetrics:
        """Return the figures that ``to_dict`` described.

        Args:
            record: What it returned, possibly after a trip through JSON.
        """
        return cls(
            started_at=read_time(record["started_at"], "metrics.started_at"),
            ended_at=read_time(record["ended_at"], "metrics.ended_at"),
            duration=float(record["duration"]),
            token_usage=TokenUsage.from_dict(record["token_usage"]),
            tool_calls=tuple(ToolCallRecord(**copy.deepcopy(dict(call))) for call in record["tool_calls"]),
            retries=int(record["retries"]),
        )


def _copied(calls: Iterable[ToolCallRecord]) -> tuple[ToolCallRecord, ...]:
    return tuple(replace(call, input=copy.deepcopy(call.input)) for call in calls)


@record(kw_only=True)
class TaskExecutionRecord(AskedFields):
    """A task as its run left it."""

    task: Task
    """The task; what was asked for is an attribute of the record, too."""
    metrics: TaskExecutionMetrics | None = None
    """None for a task that was not run."""

    @property
    def spec(self) -> TaskSpec:
        """What was asked for."""
        return self.task.spec

    @property
    def _asked(self) -> TaskSpec:
        return self.task.spec

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.id

    @property
    def status(self) -> TaskStatus:
        """What became of it."""
        return self.task.status

    @property
    def assignee(self) -> str | None:
        """Name of the agent that did it, or was to."""
        return self.task.assignee

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Ids of the tasks that it depended on."""
        return self.task.depends_on

    @property
    def result(self) -> str | None:
        """The output when it was completed, the reason when it failed or was skipped."""
        return self.task.result

    @property
    def superseded_by_revision(self) -> int | None:
        """Number of the plan revision that left it out."""
        return self.task.superseded_by_revision

    @property
    def recovered_by_revision(self) -> int | None:
        """Number of the plan revision that makes up for what it came to."""
        return self.task.recovered_by_revision

    def copy(self) -> TaskExecutionRecord:
        """Return a record that shares nothing mutable with this one."""
        if self.metrics is None or not self.metrics.tool_calls:
            return self
        return replace(self, metrics=replace(self.metrics, tool_calls=_copied(self.metrics.tool_calls)))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON data, which ``from_dict`` reads."""
        return self.task.to_dict() | {"metrics": None if self.metrics is None else self.metrics.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TaskExecutionRecord:
        """Return the record that ``to_dict`` described; the mapping is left as it is.

        Args:
            record: What it returned, possibly after a trip through JSON.

        Raises:
            ConfigurationError: It describes no task.
        """
        state = dict(record)
        metrics = state.pop("metrics", None)
        return cls(
            task=Task.from_dict(state), metrics=None if metrics is None else TaskExecutionMetrics.from_dict(metrics)
        )


@record(kw_only=True)
class RunMetrics:
    """Figures of a run of tasks. Durations are in seconds."""

    total_tokens: int
    """Input and output tokens of the run; a coordinator's and a profiler's are among them."""
    total_retries: int
    error_count: int
    """Tasks that failed, were skipped, or never could start."""
    failure_count: int
    """Tasks that failed."""
    completed_count: int
    min_task_duration: float
    """Of completed tasks, as are the next three; 0 if there are none."""
    max_task_duration: float
    avg_task_duration: float
    total_duration: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON data."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def run_metrics(records: Iterable[TaskExecutionRecord], usage: TokenUsage) -> RunMetrics | None:
    """Return the figures of a run; None without tasks.

    Args:
        records: The records of its tasks.
        usage: What all its model calls have used.
    """
    records = list(records)
    if not records:
        return None
    metrics = [record.metrics for record in records if record.metrics is not None]
    statuses = [record.status for record in records]
    durations = [r.metrics.duration for r in records if r.status == "completed" and r.metrics is not None]
    total = sum(durations)
    return RunMetrics(
        total_tokens=usage.total_tokens,
        total_retries=sum(each.retries for each in metrics),
        error_count=sum(statuses.count(each) for each in ("failed", "skipped", "blocked")),
        failure_count=statuses.count("failed"),
        completed_count=statuses.count("completed"),
        min_task_duration=min(durations, default=0.0),
        max_task_duration=max(durations, default=0.0),
        avg_task_duration=total / len(durations) if durations else 0.0,
        total_duration=total,
    )

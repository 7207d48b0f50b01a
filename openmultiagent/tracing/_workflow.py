"""The spans of what happens in a run of tasks: each task, and the plan.

They hang below the span of the run, and the spans of agents below them. A task's span is linked to those of the tasks
that it depends on, which end before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode

from .._record import record
from ..outcome import AgentRunResult
from ..redaction import redact_sensitive_text
from . import _names as names
from ._failures import run_error_type

__all__ = ["TracedTask", "dependency_links", "end_task", "plan_attributes", "task_attributes"]

_MAX_NAME = 256
"""The most characters of a title or a role."""


@record(kw_only=True)
class TracedTask:
    """What a span tells of a task."""

    run_id: str
    id: str
    title: str
    agent: str
    """Name of the agent that does it."""
    priority: str
    role: str | None = None
    metadata: Mapping[str, Any] | None = None
    depends_on: Sequence[SpanContext] = ()
    """The spans of the tasks that it depends on."""

    def __post_init__(self) -> None:
        # Models write both, and they reach spans whether content is captured or not.
        object.__setattr__(self, "title", _short(self.title))
        if self.role is not None:
            object.__setattr__(self, "role", _short(self.role))


def _short(text: str) -> str:
    return redact_sensitive_text(text)[:_MAX_NAME]


def task_attributes(task: TracedTask) -> dict[str, Any]:
    """Return the attributes of the span of a task that begins.

    Args:
        task: The task.
    """
    attributes: dict[str, Any] = {
        names.RUN_ID: task.run_id,
        names.TASK_ID: task.id,
        names.TASK_TITLE: task.title,
        names.TASK_PRIORITY: task.priority,
        names.AGENT_NAME: task.agent,
    }
    if task.role is not None:
        attributes[names.TASK_ROLE] = task.role
    for key, value in (task.metadata or {}).items():
        attributes[names.TASK_METADATA_PREFIX + key] = value
    return attributes


def dependency_links(spans: Iterable[SpanContext]) -> list[Link]:
    """Return the links to the spans of what something depends on.

    Args:
        spans: These spans; those that nobody recorded are left out.
    """
    return [Link(span, {names.LINK_RELATION: "depends_on"}) for span in spans if span.is_valid]


def plan_attributes(run_id: str, tasks: int) -> dict[str, Any]:
    """Return the attributes of the span in which a plan is approved.

    Args:
        run_id: The run.
        tasks: How many tasks the plan has.
    """
    return {names.RUN_ID: run_id, names.PLAN_TASKS: tasks}


def end_task(span: Span, result: AgentRunResult[Any], *, retries: int) -> None:
    """Say on a task's span what became of it.

    Args:
        span: The span.
        result: What the task came to.
        retries: How often it was tried again.
    """
    span.set_attributes({names.STATUS: result.status.code, names.TASK_RETRIES: retries})
    cause = run_error_type(result)
    if cause is not None:
        span.set_attribute(names.ERROR_TYPE, cause)
        span.set_status(Status(StatusCode.ERROR, f"openmultiagent.{result.status.code}"))

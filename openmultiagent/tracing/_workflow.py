"""The spans of what happens in a run of tasks: each task, the plan, and the profiling of a goal.

They hang below the span of the run, and the spans of agents below them. A task's span is linked to those of the tasks
that it depends on, which end before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode
from typing_extensions import Unpack

from .._record import record
from ..outcome import AgentRunResult
from ..redaction import redact_sensitive_text
from ..usage import TokenUsage
from . import _names as names
from ._failures import run_error_type

__all__ = [
    "ProfileOutcome",
    "TracedTask",
    "dependency_links",
    "end_profile",
    "end_task",
    "plan_attributes",
    "profile_attributes",
    "task_attributes",
]

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


class ProfileOutcome(TypedDict):
    """What came of the profiling of a goal."""

    version: str
    """Version of the profiler."""
    outcome: str
    """What follows from the profile."""
    confidence: float | None
    """How sure it is, if there is one."""
    fault: str | None
    """Why there is none."""
    usage: TokenUsage | None
    """What it used, if that is known."""


def profile_attributes(run_id: str, threshold: float) -> dict[str, Any]:
    """Return the attributes of the span in which a goal is profiled.

    Args:
        run_id: The run.
        threshold: How sure the profile has to be.
    """
    return {names.RUN_ID: run_id, names.ROUTING_STRATEGY: "hybrid", names.ROUTING_THRESHOLD: threshold}


def end_profile(span: Span, **known: Unpack[ProfileOutcome]) -> None:
    """Say on the span of a profiling what came of it.

    Args:
        span: The span.
        known: What came of it.
    """
    span.set_attributes({names.ROUTING_VERSION: known["version"], names.ROUTING_OUTCOME: known["outcome"]})
    confidence, fault, usage = known["confidence"], known["fault"], known["usage"]
    if confidence is not None:
        span.set_attribute(names.ROUTING_CONFIDENCE, confidence)
    if usage is not None:
        span.set_attributes({names.TOTAL_INPUT: usage.input_tokens, names.TOTAL_OUTPUT: usage.output_tokens})
    if fault is not None:
        span.set_attributes({names.ROUTING_FALLBACK: fault, names.ERROR_TYPE: fault})
        span.set_status(Status(StatusCode.ERROR))


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

"""The receipt of a run: what was executed, by whom, with which models and tools, in which order, and how it ended.

It holds facts only, no prompts, answers, tool inputs or error texts, so it can be kept where those must not be. Not a
trace: no times of single steps, and nothing of what was only planned. Invariant: making one never fails; what is not
known makes it ``partial``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ._record import record
from ._shown import shown
from .errors import StoreError
from .identity import RunIdentity
from .outcome import AgentRunResult, ErrorKind, StatusCode, StopReason, ToolCallRecord
from .usage import TokenUsage, UsageEntry

__all__ = ["ExecutedTool", "ExecutionReceipt", "build_execution_receipt"]

_VERSION = 1


@record(kw_only=True)
class ExecutedTool:
    """A tool call that was made."""

    name: str
    tool_use_id: str
    is_error: bool
    """Also when the gate refused it, or there is no such tool."""
    duration: float
    """Seconds."""


@record(kw_only=True)
class ExecutionReceipt:
    """What a run executed."""

    identity: RunIdentity | None = None
    """Run id, attempt and ids of the span."""
    status: StatusCode | None = None
    stop_reason: StopReason | None = None
    error_kind: ErrorKind | None = None
    """Where a failure came from."""
    error_code: str | None = None
    """The failure's own code."""
    mode: Literal["single", "multi-agent"] = "single"
    """Whether more than one agent worked."""
    roles_executed: tuple[str, ...] = ()
    """The agents that made model calls; none when a middleware answered in their place."""
    execution_order: tuple[str, ...] = ()
    """The same, in the order of their first calls; of a team by when they began, and none if that is not known."""
    task_roles_executed: tuple[str, ...] = ()
    """The roles of the tasks that were executed, where tasks have one."""
    dependency_edges: tuple[tuple[str, str], ...] = ()
    """Pairs of agents of which the second worked on what the first had done."""
    independent_review_occurred: bool = False
    """Whether an agent worked on what another had done."""
    models: tuple[UsageEntry, ...] = ()
    """Calls, tokens and cost by agent, model, provider and phase, in the order of their first calls."""
    tools: tuple[ExecutedTool, ...] = ()
    """The tool calls, in the order in which they were asked for."""
    total_tokens: TokenUsage | None = None
    duration: float | None = None
    """Seconds for the whole run."""
    flags: tuple[str, ...] = ()
    partial: bool = False
    """Whether something is not known: the agent, the duration, the tokens of a call, when an agent of a team began, or
    a task that another one depends on."""

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain JSON data."""
        data = {"version": _VERSION, **asdict(self)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()} | {
            "identity": None if self.identity is None else _plain_identity(self.identity)
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExecutionReceipt:
        """Return the receipt that ``to_dict`` made the data of.

        Args:
            data: Plain JSON data; keys that are not known are left out.

        Raises:
            StoreError: It is no receipt, or one of a version that is not known.
        """
        given: object = data
        version = given.get("version") if isinstance(given, Mapping) else None
        if version != _VERSION:
            raise StoreError(f"this is no execution receipt of version {_VERSION}: its version is {shown(version)}")
        try:
            return _reader().validate_python({key: value for key, value in data.items() if key != "version"})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise StoreError(f"this is no execution receipt: {place}: {first['msg']}") from None


def build_execution_receipt(result: object) -> ExecutionReceipt:
    """Return the receipt of a run; never raises.

    Args:
        result: The result of a run of an agent, or of tasks. Anything else gives an empty receipt that is ``partial``.
    """
    try:
        return _of_agent(result) if isinstance(result, AgentRunResult) else _of_tasks(result)
    except Exception:  # noqa: BLE001 - isolation boundary: a result that somebody made may hold anything
        return ExecutionReceipt(partial=True)


def _of_agent(result: AgentRunResult[Any]) -> ExecutionReceipt:
    error, usage = result.error_info, result.token_usage
    roles = tuple(dict.fromkeys(entry.agent for entry in result.usage_report))
    answered_elsewhere = not roles and bool(result.messages)
    return ExecutionReceipt(
        identity=result.identity,
        status=result.status.code,
        stop_reason=result.stop_reason,
        error_kind=None if error is None else error.kind,
        error_code=None if error is None else error.code,
        mode="multi-agent" if len(roles) > 1 else "single",
        roles_executed=roles,
        execution_order=roles,
        models=tuple(result.usage_report),
        tools=tuple(_tool(call) for call in ([] if answered_elsewhere else result.tool_calls)),
        total_tokens=usage,
        duration=result.duration,
        flags=tuple(result.flags),
        partial=answered_elsewhere or result.duration is None or usage.unknown_calls > 0,
    )


def _of_tasks(result: Any) -> ExecutionReceipt:
    """Return the receipt of a team's result, whose class is of a part above this one."""
    error, usage = result.error_info, result.token_usage
    known = {task.id: task for task in result.tasks}
    executed = {task.id: task for task in result.tasks if _is_executed(task)}
    measured = [task.metrics for task in executed.values() if task.metrics is not None]
    begun: dict[str, datetime] = {}
    for task in sorted((task for task in executed.values() if task.metrics is not None), key=_start_of):
        begun.setdefault(task.assignee, _start_of(task))
    roles = tuple(dict.fromkeys(task.assignee for task in executed.values()))
    needed = [(executed.get(needs), task) for task in executed.values() for needs in task.depends_on]
    edges = dict.fromkeys((a.assignee, b.assignee) for a, b in needed if a is not None and a.assignee != b.assignee)
    is_known = all(needs in known for task in result.tasks for needs in task.depends_on)
    return ExecutionReceipt(
        identity=result.identity,
        status=result.status.code,
        error_kind=None if error is None else error.kind,
        error_code=None if error is None else error.code,
        mode="multi-agent" if len(roles) > 1 else "single",
        roles_executed=roles,
        execution_order=tuple(begun) if len(begun) == len(roles) else (),
        task_roles_executed=tuple(dict.fromkeys(task.role for task in executed.values() if task.role)),
        dependency_edges=tuple(edges),
        independent_review_occurred=bool(edges),
        models=tuple(result.usage_report),
        tools=tuple(_tool(call) for metrics in measured for call in metrics.tool_calls),
        total_tokens=usage,
        duration=_span([(metrics.started_at, metrics.ended_at) for metrics in measured]),
        flags=tuple(result.flags),
        partial=not measured or len(begun) < len(roles) or not is_known or usage.unknown_calls > 0,
    )


def _is_executed(task: Any) -> bool:
    by_agent = bool(task.assignee) and task.assignee.partition(":")[0] not in ("coordinator", "unknown")
    # A task that failed since another one did was never begun: it has no figures.
    return by_agent and (task.metrics is not None or task.status in ("in_progress", "completed"))


def _start_of(task: Any) -> datetime:
    start: datetime = task.metrics.started_at
    return start


def _span(times: Sequence[tuple[datetime, datetime]]) -> float | None:
    if not times:
        return None
    return (max(end for _start, end in times) - min(start for start, _end in times)).total_seconds()


def _tool(call: ToolCallRecord) -> ExecutedTool:
    return ExecutedTool(
        name=call.tool_name, tool_use_id=call.tool_use_id, is_error=call.is_error, duration=call.duration
    )


def _plain_identity(identity: RunIdentity) -> dict[str, Any]:
    data = asdict(identity)
    return data | {"links": list(data["links"])}


@cache
def _reader() -> TypeAdapter[ExecutionReceipt]:
    return TypeAdapter(ExecutionReceipt)

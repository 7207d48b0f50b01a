"""The receipt of a run: what was executed, by whom, with which models and tools, in which order, and how it ended.

It holds facts only, no prompts, answers, tool inputs or error texts, so it can be kept where those must not be. Not a
trace: no times of single steps, and nothing of what was only planned. Invariant: making one never fails; what is not
known makes it ``partial``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ._record import record
from ._shown import shown
from .errors import StoreError
from .identity import RunIdentity
from .outcome import AgentRunResult, ErrorKind, StatusCode, StopReason
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
    """The same, in the order of their first calls."""
    models: tuple[UsageEntry, ...] = ()
    """Calls, tokens and cost by agent, model, provider and phase, in the order of their first calls."""
    tools: tuple[ExecutedTool, ...] = ()
    """The tool calls, in the order in which they were asked for."""
    total_tokens: TokenUsage | None = None
    duration: float | None = None
    """Seconds for the whole run."""
    flags: tuple[str, ...] = ()
    partial: bool = False
    """Whether something is not known: the agent, the duration, or the tokens of a call."""

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
        result: The result of a run. Anything else gives an empty receipt that is ``partial``.
    """
    try:
        return _of_agent(result) if isinstance(result, AgentRunResult) else ExecutionReceipt(partial=True)
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
        tools=tuple(
            ExecutedTool(
                name=call.tool_name, tool_use_id=call.tool_use_id, is_error=call.is_error, duration=call.duration
            )
            for call in ([] if answered_elsewhere else result.tool_calls)
        ),
        total_tokens=usage,
        duration=result.duration,
        flags=tuple(result.flags),
        partial=answered_elsewhere or result.duration is None or usage.unknown_calls > 0,
    )


def _plain_identity(identity: RunIdentity) -> dict[str, Any]:
    data = asdict(identity)
    return data | {"links": list(data["links"])}


@cache
def _reader() -> TypeAdapter[ExecutionReceipt]:
    return TypeAdapter(ExecutionReceipt)

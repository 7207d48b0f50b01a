"""Asking before each call: may this tool run with this input?

Not here: who is asked (a hook of the agent's or the orchestrator's) and what the answer is based on. Invariants: the
gate sees a copy of the checked input, so nothing that it does to it reaches the tool; without a clear answer the tool
does not run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, Self, get_args

from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import to_jsonable_python

from .._log import get_logger
from .._record import record
from .._shown import shown
from ..identity import copy_metadata
from ._call import copy_json
from ._context import ToolContext
from ._isolation import failure_fields, run_isolated
from ._result import ToolResult, describe_error
from ._tool import Tool

__all__ = [
    "GateFault",
    "ToolAction",
    "ToolCallContext",
    "ToolDecision",
    "ToolGate",
    "ask_gate",
    "refusal",
    "with_decision",
]

_log = get_logger(__name__)

ToolAction = Literal["allow", "deny", "rewrite", "suspend"]
"""What is to become of a call."""

_ACTIONS = get_args(ToolAction)
_KEYS = ("action", "reason", "updated_input")
_SHOWN_CHARS = 50
_ADVICE = "return ToolDecision.allow(), .deny(reason), .rewrite(updated_input) or .suspend(reason)"


@record(kw_only=True)
class ToolCallContext:
    """A call that waits for a decision."""

    tool_name: str
    input: dict[str, Any]
    """The checked input as plain JSON data, defaults filled in; the gate's own copy."""
    agent: str = ""
    """Name of the agent that calls."""
    consequential: bool = False
    """Whether the tool is declared to have consequences (``Tool.consequential``)."""
    run_id: str = ""
    tool_call_id: str = ""
    """The model's id of the call."""
    turn: int = 0
    """The turn of the run, counted from 1."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The metadata of the run, as its caller gave it; the gate's own copy."""


@record
class ToolDecision:
    """What a gate says about a call; a mapping with these fields is as good."""

    action: ToolAction
    reason: str | None = None
    """Why; the model reads the reason of a refusal."""
    updated_input: Mapping[str, Any] | None = field(default=None, repr=False)
    """The input to run with instead, for ``rewrite``; checked like the model's."""

    @classmethod
    def allow(cls, reason: str | None = None) -> Self:
        """Return the decision that the call runs as it is.

        Args:
            reason: For the record.
        """
        return cls("allow", reason)

    @classmethod
    def deny(cls, reason: str | None = None) -> Self:
        """Return the decision that the call does not run; the run goes on.

        Args:
            reason: What the model is told.
        """
        return cls("deny", reason)

    @classmethod
    def rewrite(cls, updated_input: Mapping[str, Any], reason: str | None = None) -> Self:
        """Return the decision that the call runs with another input.

        Args:
            updated_input: The whole input; checked like the model's.
            reason: For the record.
        """
        return cls("rewrite", reason, updated_input)

    @classmethod
    def suspend(cls, reason: str | None = None) -> Self:
        """Return the decision that the call waits until somebody has looked at it.

        Runs cannot wait yet: for now the call does not run, and the model is told why.

        Args:
            reason: What there is to look at.
        """
        return cls("suspend", reason)


ToolGate = Callable[[ToolCallContext], object]
"""A gate: ``def gate(call)``, plain or async, returning a ``ToolDecision`` or a mapping with its fields."""


class GateFault(Exception):  # noqa: N818 - a signal between two modules, never raised to a user
    """There is no decision, and this is the text that the model reads."""


async def ask_gate(gate: ToolGate, tool: Tool, value: Any, context: ToolContext) -> ToolDecision:
    """Return the decision about a call.

    Args:
        gate: Who decides.
        tool: The tool.
        value: The checked input; not changed.
        context: What the tool would be told about the call.

    Raises:
        GateFault: The gate raised, or what it returned is no decision.
    """

    async def decide() -> ToolDecision:
        returned = gate(_question(tool, value, context))
        return _read(tool, await returned if inspect.isawaitable(returned) else returned)

    outcome = await run_isolated(decide)
    await checkpoint_if_cancelled()  # the gate may have caught the cancellation, and answered all the same
    failure = outcome.failure
    if isinstance(outcome.value, ToolDecision):
        return outcome.value
    if isinstance(failure, GateFault):
        raise failure
    _log.warning(
        "tool_gate_failed",
        tool=tool.name,
        agent=context.agent,
        run_id=context.run_id,
        tool_call_id=context.tool_call_id,
        **failure_fields(failure),
    )
    what = describe_error(failure) if isinstance(failure, Exception) else "a cancellation of its own"
    raise GateFault(f'Tool "{tool.name}" was not run: on_tool_call hook threw {what}')


def refusal(tool: Tool, decision: ToolDecision) -> str | None:
    """Return what the model is told when the call does not run; None when it does.

    Args:
        tool: The tool.
        decision: What the gate said.
    """
    because = f": {decision.reason}" if decision.reason else ""
    if decision.action == "deny":
        return f'Tool "{tool.name}" was denied{because}'
    if decision.action == "suspend":
        return f'Tool "{tool.name}" was not run: it would have to be suspended, which this run cannot be{because}'
    return None


def with_decision(result: ToolResult, decision: ToolDecision) -> ToolResult:
    """Return the result with the decision in its metadata, as ``tool_call_gate``.

    Args:
        result: What became of the call.
        decision: What the gate said about it.
    """
    gate: dict[str, str] = {"action": decision.action}
    if decision.reason is not None:
        gate["reason"] = decision.reason
    return replace(result, metadata={**(result.metadata or {}), "tool_call_gate": gate})


def _question(tool: Tool, value: Any, context: ToolContext) -> ToolCallContext:
    # As JSON: the values themselves (models, custom types) are the tool's, and a rewritten input is checked again.
    shown = copy_json(value) if tool.input_adapter is None else _plain(value)
    if not isinstance(shown, dict):
        raise TypeError(f"the input is written out as {type(shown).__name__}, not as an object")
    return ToolCallContext(
        tool_name=tool.name,
        input=shown,
        agent=context.agent,
        consequential=tool.consequential,
        run_id=context.run_id,
        tool_call_id=context.tool_call_id,
        turn=context.turn,
        metadata=copy_metadata(context.metadata) or {},
    )


def _plain(value: object) -> Any:
    return to_jsonable_python(value, by_alias=True, round_trip=True, serialize_unknown=True)


def _read(tool: Tool, returned: object) -> ToolDecision:
    decision = returned
    if isinstance(returned, Mapping):
        unknown = [key for key in returned if key not in _KEYS]
        if unknown:
            raise _invalid(tool, f"the key {shown(unknown[0], _SHOWN_CHARS)} is unknown")
        decision = ToolDecision(**{"action": None, **returned})
    if not isinstance(decision, ToolDecision):
        raise _invalid(tool, f"it is of type {type(returned).__name__}")
    fault = _fault_of(decision.action, decision.reason, decision.updated_input)
    if fault is not None:
        raise _invalid(tool, fault)
    if decision.updated_input is None:
        return decision
    return replace(decision, updated_input=copy_json(dict(decision.updated_input)))


def _invalid(tool: Tool, fault: str) -> GateFault:
    return GateFault(f'Tool "{tool.name}" was not run: invalid on_tool_call decision: {fault}; {_ADVICE}')


def _fault_of(action: object, reason: object, updated_input: object) -> str | None:
    if not isinstance(action, str) or action not in _ACTIONS:
        return f"action {shown(action, _SHOWN_CHARS)} is none of {', '.join(_ACTIONS)}"
    if reason is not None and not isinstance(reason, str):
        return "reason must be a string"
    if action == "rewrite" and not isinstance(updated_input, Mapping):
        return "rewrite needs updated_input, a mapping with the whole input"
    if action != "rewrite" and updated_input is not None:
        return f"{action} takes no updated_input; use rewrite"
    return None

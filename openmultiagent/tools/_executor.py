"""Runs one tool call and turns whatever happens into a result.

Not here: how the calls of a turn are started (an agent's turn does), middleware, tracing. Invariants: a fault of a
tool is a result, never an exception; a cancellation of the caller is an exception, never a result; what is not in the
registry, over its cap, or not let through by the gate never runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar, checkpoint_if_cancelled
from pydantic import ValidationError

from .._log import get_logger
from .._shown import shown
from ..errors import ConfigurationError
from ._admission import CallCaps, CallLine
from ._call import ToolCall
from ._confirmation import Confirmation
from ._context import ToolContext
from ._gate import GateFault, ToolDecision, ToolGate, ask_gate, refusal, with_decision
from ._isolation import failure_fields, run_isolated
from ._registry import ToolRegistry
from ._result import ToolResult, as_tool_result, describe_error, error_result, issue_lines
from ._tool import Tool, check_seconds, check_whole

__all__ = ["ToolExecutor"]

_log = get_logger(__name__)

_SHOWN_NAMES = 50
"""Tools that are listed for a model that asked for one that does not exist."""

_SHOWN_NAME_CHARS = 100
"""How much is repeated of a name that a model made up."""


class ToolExecutor:
    """Runs tool calls, each within its limits and apart from the others.

    Caps of tools (``max_calls``) count all calls of one executor, so an agent's run has an executor of its own.

    Args:
        registry: The tools that may run; looked up anew at each call.
        max_concurrency: The most calls that run at a time on one event loop; further ones wait, which does not count as
            their own time.
        default_timeout: Seconds for a call of a tool that has no limit of its own; ``math.inf`` for none.
        max_output_chars: The most characters of a text for the model, for tools that have no limit of their own; None
            for no limit.
        on_tool_call: Asked before each call, when the input has been checked and the tool has not been run.
        confirmation: Asked about calls that have consequences where there is no gate, and told of those that the gate
            refuses; None where no such call needs a confirmation.

    Raises:
        ConfigurationError: A limit is no sensible number, or the gate cannot be called.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        max_concurrency: int = 16,
        default_timeout: float = 120.0,
        max_output_chars: int | None = None,
        on_tool_call: ToolGate | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        check_whole(max_concurrency, "max_concurrency")
        check_seconds(default_timeout, "default_timeout")
        if max_output_chars is not None:
            check_whole(max_output_chars, "max_output_chars")
        if on_tool_call is not None and not callable(on_tool_call):
            raise ConfigurationError(f"on_tool_call must be a function of a ToolCallContext, got {shown(on_tool_call)}")
        self._registry = registry
        self._max_concurrency = max_concurrency
        self._default_timeout = default_timeout
        self._max_output_chars = max_output_chars
        self._gate = on_tool_call
        self._confirmation = confirmation
        self._caps = CallCaps()
        self._places: dict[str, int] = {}
        self._is_ordered = False

    def announce(self, calls: Sequence[ToolCall]) -> None:
        """Tell of the calls of a turn, in their order, before the first of them starts.

        It makes the order count: which calls are over a cap, and which wait for an exclusive one. Calls that were never
        announced are served in the order in which they come.

        Args:
            calls: All calls of the turn.
        """
        known = [(call.id, tool) for call in calls if (tool := self._registry.get(call.tool_name)) is not None]
        self._caps.reserve(known)
        self._places = {call_id: place for place, (call_id, _) in enumerate(known)}
        self._is_ordered = any(tool.exclusive for _, tool in known)

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call; whatever goes wrong with the tool is an error result.

        Only a cancellation of the caller, ``KeyboardInterrupt`` and ``SystemExit`` are raised.

        Args:
            call: The call.
            context: What the tool is told about it.
        """
        tool = self._registry.get(call.tool_name)
        if tool is None:
            return error_result(self._unknown(call.tool_name))
        value, fault = _checked_input(tool, call)
        if fault is None and not self._caps.take(call.id, tool):
            fault = f'Tool "{tool.name}" was not run: it may be called at most {tool.max_calls} time(s) in a run'
        if fault is not None:
            return self._result(tool, error_result(fault))
        gate = self._gate
        if gate is None and self._confirmation is not None and tool.consequential:
            gate = self._confirmation.missing_gate()
        if gate is None:
            return self._result(tool, await self._run_in_turn(tool, value, call, context))
        return await self._run_gated(gate, tool, value, call, context)

    async def _run_gated(
        self, gate: ToolGate, tool: Tool, value: Any, call: ToolCall, context: ToolContext
    ) -> ToolResult:
        may_run = False
        decision: ToolDecision | None = None
        try:
            decision = await ask_gate(gate, tool, value, context)
            fault = refused = refusal(tool, decision)
            if decision.updated_input is not None:
                value, fault = _checked_input(tool, call.replace(input=dict(decision.updated_input)))
            may_run = fault is None
        except GateFault as error:
            fault = refused = str(error)
        finally:
            if not may_run:
                self._caps.give_back(tool)
        if refused is not None and self._confirmation is not None and tool.consequential:
            self._confirmation.reject(context.agent, refused)
        returned = await self._run_in_turn(tool, value, call, context) if fault is None else error_result(fault)
        result = self._result(tool, returned)
        return result if decision is None else with_decision(result, decision)

    async def _run_in_turn(self, tool: Tool, value: Any, call: ToolCall, context: ToolContext) -> object:
        loop = self._on_this_loop()
        line, place = loop.line, self._places.get(call.id)
        starts = is_in = False
        try:
            # First the line, then a slot: who waits in line must hold nothing that others need to go on.
            ordered = self._is_ordered and place is not None
            if not line.enter_nowait(exclusive=tool.exclusive, ordered=ordered):
                await line.enter(place, exclusive=tool.exclusive)
            is_in = True
            async with loop.slots:
                await checkpoint_if_cancelled()  # the slot may have come at the same moment as a cancellation
                starts = True
                return await self._run(tool, value, context)
        finally:
            if is_in:
                line.leave()
            if not starts:
                self._caps.give_back(tool)

    async def _run(self, tool: Tool, value: Any, context: ToolContext) -> object:
        seconds = self._default_timeout if tool.timeout is None else tool.timeout
        outcome = await run_isolated(lambda: _invoke(tool, value, context), seconds=seconds)
        if outcome.timed_out:
            return error_result(_timed_out(tool, seconds))
        if outcome.failure is None:
            return outcome.value
        _log_failure(outcome.failure, context)
        if isinstance(outcome.failure, Exception):
            return error_result(f'Tool "{tool.name}" threw an error: {describe_error(outcome.failure)}')
        return error_result(f'Tool "{tool.name}" threw an error: it was cancelled by something that it uses')

    def _result(self, tool: Tool, returned: object) -> ToolResult:
        limit = self._max_output_chars if tool.max_output_chars is None else tool.max_output_chars
        return as_tool_result(
            tool.name, returned, output=tool.output_adapter, use_validated=tool.use_validated_output, limit=limit
        )

    def _on_this_loop(self) -> _Loop:
        # An event loop's own, since one executor may serve several.
        loops = _LOOPS.get(None)
        if loops is None:
            loops = WeakKeyDictionary()
            _LOOPS.set(loops)
        loop = loops.get(self)
        if loop is None:
            loop = loops[self] = _Loop(self._max_concurrency)
        return loop

    def _unknown(self, name: str) -> str:
        names = self._registry.names()
        listed = ", ".join(names[:_SHOWN_NAMES]) or "none"
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return (
            f'Tool "{name[:_SHOWN_NAME_CHARS]}" is not registered, or not granted to this agent. '
            f"Available tools: {listed}{more}."
        )


class _Loop:
    """What the calls of an executor on one event loop share."""

    __slots__ = ("line", "slots")

    def __init__(self, max_concurrency: int) -> None:
        self.line = CallLine()
        self.slots = anyio.Semaphore(max_concurrency, fast_acquire=True)


_LOOPS: RunVar[WeakKeyDictionary[ToolExecutor, _Loop] | None] = RunVar("openmultiagent_tool_loops")


async def _invoke(tool: Tool, value: Any, context: ToolContext) -> object:
    if tool.is_async:
        returned = tool.execute(value, context)
    else:
        # The thread sees the caller's context variables; anyio copies them. In a tuple, since trio refuses coroutines.
        (returned,) = await anyio.to_thread.run_sync(lambda: (tool.execute(value, context),), abandon_on_cancel=True)
    return await returned if inspect.isawaitable(returned) else returned


def _checked_input(tool: Tool, call: ToolCall) -> tuple[Any, str | None]:
    """Return the input as the tool gets it and None, or anything and what is wrong."""
    start = f'Invalid input for tool "{tool.name}":'
    if call.input_error is not None:
        fault = f"the arguments could not be read: {call.input_error}"
        return None, f"{start} {fault}. The tool was not run; call it again with one JSON object."
    value: Any = call.input  # a model's, or a middleware's: it may be anything
    if not isinstance(value, dict):
        return None, f"{start}\n- input: must be an object, got {type(value).__name__}"
    if tool.input_adapter is None:
        return value, None
    try:
        return tool.input_adapter.validate_python(value), None
    except ValidationError as error:
        return None, f"{start}\n{issue_lines(error)}"
    except Exception as error:  # noqa: BLE001 - a user's own validators run here, and may raise anything
        return None, f"{start}\n- input: {describe_error(error)}"


def _timed_out(tool: Tool, seconds: float) -> str:
    text = f'Tool "{tool.name}" timed out after {seconds:g}s'
    return text if tool.is_async else f"{text}; it runs in a thread that cannot be stopped, so it may still be working"


def _log_failure(failure: BaseException, context: ToolContext) -> None:
    _log.warning(
        "tool_failed",
        tool=context.tool_name,
        agent=context.agent,
        run_id=context.run_id,
        tool_call_id=context.tool_call_id,
        **failure_fields(failure),
    )

"""Runs one tool call and turns whatever happens into a result.

Not here: which calls run and in which order (an agent's turn decides), middleware, tracing. Invariants: a fault of a
tool is a result, never an exception; a cancellation of the caller is an exception, never a result; what is not in the
registry never runs.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar
from pydantic import ValidationError

from .._log import get_logger
from ._call import ToolCall
from ._context import ToolContext
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

    Args:
        registry: The tools that may run; looked up anew at each call.
        max_concurrency: The most calls that run at a time on one event loop; further ones wait, which does not count as
            their own time.
        default_timeout: Seconds for a call of a tool that has no limit of its own; ``math.inf`` for none.
        max_output_chars: The most characters of a text for the model, for tools that have no limit of their own; None
        for
            no limit.

    Raises:
        ConfigurationError: A limit is no sensible number.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        max_concurrency: int = 16,
        default_timeout: float = 120.0,
        max_output_chars: int | None = None,
    ) -> None:
        check_whole(max_concurrency, "max_concurrency")
        check_seconds(default_timeout, "default_timeout")
        if max_output_chars is not None:
            check_whole(max_output_chars, "max_output_chars")
        self._registry = registry
        self._max_concurrency = max_concurrency
        self._default_timeout = default_timeout
        self._max_output_chars = max_output_chars

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
        limit = self._max_output_chars if tool.max_output_chars is None else tool.max_output_chars
        value, fault = _checked_input(tool, call)
        if fault is not None:
            return as_tool_result(tool.name, error_result(fault), limit=limit)
        async with self._slots():
            returned = await self._run(tool, value, context)
        return as_tool_result(tool.name, returned, output=tool.output_adapter, limit=limit)

    async def _run(self, tool: Tool, value: Any, context: ToolContext) -> object:
        seconds = self._default_timeout if tool.timeout is None else tool.timeout
        caller = _Caller()
        failure: BaseException | None = None
        returned: object = None
        scope = anyio.move_on_after(seconds)
        try:
            with scope:
                returned = await _invoke(tool, value, context)
        except Exception as error:  # noqa: BLE001 - the boundary between tools and runs
            failure = error
        except BaseException as error:
            cancellation = _cancellation_in(error)
            if cancellation is None:
                raise
            if caller.is_cancelled():
                raise cancellation from None
            failure = error
        if caller.was_cancelled_natively():
            # The tool caught a cancellation that was meant for its caller, and asyncio delivers it only once.
            raise asyncio.CancelledError
        if scope.cancelled_caught or (failure is not None and scope.cancel_called):
            return error_result(_timed_out(tool, seconds))
        if failure is None:
            return returned
        _log_failure(failure, context)
        if isinstance(failure, Exception):
            return error_result(f'Tool "{tool.name}" threw an error: {describe_error(failure)}')
        return error_result(f'Tool "{tool.name}" threw an error: it was cancelled by something that it uses')

    def _slots(self) -> anyio.Semaphore:
        # An event loop's own, since one executor may serve several.
        slots = _SLOTS.get(None)
        if slots is None:
            slots = WeakKeyDictionary()
            _SLOTS.set(slots)
        semaphore = slots.get(self)
        if semaphore is None:
            semaphore = slots[self] = anyio.Semaphore(self._max_concurrency, fast_acquire=True)
        return semaphore

    def _unknown(self, name: str) -> str:
        names = self._registry.names()
        listed = ", ".join(names[:_SHOWN_NAMES]) or "none"
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return f'Tool "{name[:_SHOWN_NAME_CHARS]}" is not registered. Available tools: {listed}{more}.'


_SLOTS: RunVar[WeakKeyDictionary[ToolExecutor, anyio.Semaphore] | None] = RunVar("openmultiagent_tool_slots")


class _Caller:
    """Tells whether the code around a tool is being cancelled, as opposed to something inside the tool."""

    def __init__(self) -> None:
        on_asyncio = anyio.get_cancelled_exc_class() is asyncio.CancelledError
        self._task = asyncio.current_task() if on_asyncio else None
        self._requests = 0 if self._task is None else self._task.cancelling()

    def is_cancelled(self) -> bool:
        """Whether a scope around the tool is cancelled, or the task itself."""
        return anyio.current_effective_deadline() == -math.inf or self.was_cancelled_natively()

    def was_cancelled_natively(self) -> bool:
        """Whether asyncio's ``Task.cancel`` was called meanwhile; a scope undoes its own calls of it on exit."""
        return self._task is not None and self._task.cancelling() > self._requests


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


def _cancellation_in(error: BaseException) -> BaseException | None:
    """Return the cancellation that an exception is or holds; None if it holds what no tool may keep to itself."""
    kinds = (anyio.get_cancelled_exc_class(), asyncio.CancelledError)
    found: BaseException | None = None
    pending = [error]
    while pending:
        item = pending.pop()
        if isinstance(item, BaseExceptionGroup):
            pending.extend(item.exceptions)
        elif isinstance(item, kinds):
            found = item
        elif not isinstance(item, Exception):
            return None
    return found


def _timed_out(tool: Tool, seconds: float) -> str:
    text = f'Tool "{tool.name}" timed out after {seconds:g}s'
    return text if tool.is_async else f"{text}; it runs in a thread that cannot be stopped, so it may still be working"


def _log_failure(failure: BaseException, context: ToolContext) -> None:
    _log.warning(
        "tool failed",
        tool=context.tool_name,
        agent=context.agent,
        run_id=context.run_id,
        tool_call_id=context.tool_call_id,
        exc_info=failure,
    )

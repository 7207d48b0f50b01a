"""Runs what is not ours, a tool or a gate, and tells what it came to.

Invariants: a fault of it is an outcome, never an exception; a cancellation of the caller is an exception, never an
outcome, also when it was caught in there or turned into another error.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from .._deadlines import loop_clock
from ..outcome import describe_error
from ..redaction import redact_start

__all__ = ["Outcome", "failure_fields", "run_isolated"]

_MAX_TRACEBACK = 16_384
"""Characters of a traceback in a log line."""


@dataclass(slots=True)
class Outcome:
    """What it came to: a value, a failure, or nothing in time."""

    value: object = None
    failure: BaseException | None = None
    """An ``Exception``, or a cancellation that nobody out here asked for."""
    timed_out: bool = False


async def run_isolated(operation: Callable[[], Awaitable[object]], *, seconds: float = math.inf) -> Outcome:
    """Run an operation and return what it came to.

    Only a cancellation of the caller, ``KeyboardInterrupt``, ``SystemExit`` and other exceptions that are no
    ``Exception`` are raised.

    Args:
        operation: What to run.
        seconds: How long it may take.
    """
    caller = _Caller()
    value: object = None
    failure: BaseException | None = None
    line = loop_clock().line(seconds)
    scope = line.scope()
    try:
        with scope:
            line.join(scope)
            try:
                value = await operation()
            finally:
                line.leave(scope)
    except Exception as error:  # noqa: BLE001 - the boundary between what is not ours and a run
        failure = error
    except BaseException as error:
        cancellation = _cancellation_in(error)
        if cancellation is None:
            raise
        if caller.is_cancelled():
            raise cancellation from None
        failure = error
    if caller.was_cancelled_natively():
        # It caught a cancellation that was meant for its caller, and asyncio delivers that only once.
        raise asyncio.CancelledError
    if scope.cancelled_caught or (failure is not None and scope.cancel_called):
        return Outcome(timed_out=True)
    return Outcome(value, failure)


def failure_fields(failure: BaseException | None) -> dict[str, str]:
    """Return what a log line says of a failure: the error, and where it was raised, both redacted.

    A logger's own rendering of an exception would show its text, and those of its causes, as they are.

    Args:
        failure: What was raised, if anything.
    """
    if failure is None:
        return {}
    frames = "".join(traceback.format_tb(failure.__traceback__))
    return {"error": describe_error(failure), "traceback": redact_start(frames, _MAX_TRACEBACK)}


class _Caller:
    """Tells whether the code around the operation is being cancelled, as opposed to something inside it."""

    def __init__(self) -> None:
        on_asyncio = anyio.get_cancelled_exc_class() is asyncio.CancelledError
        self._task = asyncio.current_task() if on_asyncio else None
        self._requests = 0 if self._task is None else self._task.cancelling()

    def is_cancelled(self) -> bool:
        """Whether a scope around the operation is cancelled, or the task itself."""
        return anyio.current_effective_deadline() == -math.inf or self.was_cancelled_natively()

    def was_cancelled_natively(self) -> bool:
        """Whether asyncio's ``Task.cancel`` was called meanwhile; a scope undoes its own calls of it on exit."""
        return self._task is not None and self._task.cancelling() > self._requests


def _cancellation_in(error: BaseException) -> BaseException | None:
    """Return the cancellation that an exception is or holds; None if it holds what nobody may keep to itself."""
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

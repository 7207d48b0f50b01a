"""Time limits of operations that nearly always end long before: one timer for all of the same limit.

A cancel scope with a deadline sets a timer of the event loop and takes it away again, which on asyncio costs as much
as everything else around a quick model call. Operations with the same limit end their time in the order in which they
began, so they stand in line, and only the first of the line needs a timer. Invariants: an operation is cancelled
through a cancel scope of its own, at its deadline and not before; one that has ended leaves nothing behind but the
timer of its line, which is set at most once in the time of the limit; the number of lines is bounded.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Protocol

from anyio import CancelScope
from anyio.abc import AsyncBackend
from anyio.lowlevel import current_token

__all__ = ["Line", "LoopClock", "loop_clock"]

_MAX_LINES = 64
"""Limits that share a timer on an event loop; operations with further ones have timers of their own."""


class Line(Protocol):
    """The operations with one limit on one event loop.

    Each enters a scope, joins, and leaves on every path; what stands behind the scope is reached at the limit only.
    """

    def scope(self) -> CancelScope:
        """Return the scope of an operation."""
        ...

    def join(self, scope: CancelScope) -> None:
        """Begin the time of an operation.

        Args:
            scope: Its scope, which is entered.
        """
        ...

    def leave(self, scope: CancelScope) -> None:
        """End the time of an operation.

        Args:
            scope: Its scope.
        """
        ...


class LoopClock:
    """The time limits of one event loop; ``loop_clock`` returns it.

    Args:
        loop: The loop when it is one of asyncio, else None: then every operation has a timer of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self._backend: type[AsyncBackend] = current_token().backend_class
        self._lines: dict[float, _SharedTimer] = {}
        self.checkpoint_if_cancelled = self._backend.checkpoint_if_cancelled
        """``anyio.lowlevel.checkpoint_if_cancelled``, without its look at what kind of loop is running."""

    def line(self, seconds: float) -> Line:
        """Return the line of the operations with this limit.

        Args:
            seconds: The limit; infinity is none.
        """
        line = self._lines.get(seconds)
        if line is not None:
            return line
        if self.loop is None or seconds == math.inf or len(self._lines) >= _MAX_LINES:
            return _OwnTimer(seconds, self._backend)
        line = self._lines[seconds] = _SharedTimer(seconds, self._backend, self.loop, self._lines)
        return line


class _OwnTimer:
    def __init__(self, seconds: float, backend: type[AsyncBackend]) -> None:
        self._seconds = seconds
        self._backend = backend

    def scope(self) -> CancelScope:
        deadline = self._backend.current_time() + self._seconds
        return self._backend.create_cancel_scope(deadline=deadline, shield=False)

    def join(self, scope: CancelScope) -> None:
        """Do nothing: its timer is set."""

    def leave(self, scope: CancelScope) -> None:
        """Do nothing: the scope takes its timer away."""


class _SharedTimer:
    __slots__ = ("_is_set", "_lines", "_loop", "_seconds", "_time", "_waiting", "scope")

    def __init__(
        self,
        seconds: float,
        backend: type[AsyncBackend],
        loop: asyncio.AbstractEventLoop,
        lines: dict[float, _SharedTimer],
    ) -> None:
        self.scope: Callable[[], CancelScope] = type(backend.create_cancel_scope())
        self._seconds = seconds
        self._loop = loop
        self._time = loop.time
        self._lines = lines
        self._waiting: dict[CancelScope, float] = {}
        """The deadline of each operation, the first one first."""
        self._is_set = False

    def join(self, scope: CancelScope) -> None:
        deadline = self._waiting[scope] = self._time() + self._seconds
        if not self._is_set:
            self._is_set = True
            self._set(deadline)

    def leave(self, scope: CancelScope) -> None:
        self._waiting.pop(scope, None)

    def _ring(self) -> None:
        now, due, following = self._time(), [], None
        for scope, deadline in self._waiting.items():
            if deadline > now:
                following = deadline
                break
            due.append(scope)
        for scope in due:
            self._waiting.pop(scope)
            scope.cancel("deadline exceeded")
        if following is None:
            self._is_set = False
            self._lines.pop(self._seconds, None)
        else:
            self._set(following)

    def _set(self, deadline: float) -> None:
        # In a context of its own: that of whoever comes first would be kept alive for the time of the limit.
        self._loop.call_at(deadline, self._ring, context=Context())


class _Here(threading.local):
    clock: LoopClock | None = None


_HERE = _Here()


def loop_clock() -> LoopClock:
    """Return the clock of the event loop that is running; on asyncio it is kept while the loop is the thread's."""
    try:
        # A task, since trio may run as a guest of asyncio, and then runs in callbacks of its loop.
        running = asyncio.get_running_loop()
        loop = None if asyncio.current_task(running) is None else running
    except RuntimeError:
        loop = None
    if loop is None:
        return LoopClock(None)
    clock = _HERE.clock
    if clock is None or clock.loop is not loop:
        clock = _HERE.clock = LoopClock(loop)
    return clock

"""The stream of a run: its events while they happen, and its result afterwards.

The run goes on in a detached task with a cancel scope of its own, so the stream may be entered, consumed and left in
different tasks, inside generators, or simply dropped. Invariants: the run never refers to the stream, so dropping the
stream cancels it; no cancel scope, task group or span context is held while the consumer has control.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, cast

import anyio
from anyio.lowlevel import checkpoint

from .._detached import Detached
from ..events import Event
from ..outcome import AgentRunResult, copy_result
from ._environment import EventSink
from ._events import AgentStreamEvent, StreamDone, StreamFailed

__all__ = ["AgentStream"]

_BUFFER = 64
"""Events that may wait for the consumer; then the run waits."""
_CHECKPOINT_EVERY = 16
"""Events after which a side of the channel lets others run: passing an event that is there already never yields."""
_LEAVE_TIMEOUT = 5.0
"""Seconds that ``async with`` waits at its end for a cancelled run."""

Runner = Callable[[EventSink], Awaitable[AgentRunResult[Any]]]


class _Channel:
    """A bounded queue from the run to the consumer."""

    __slots__ = ("_closed", "_items", "_passed", "_room", "_wake", "sequence")

    def __init__(self) -> None:
        self._items: deque[Event[Any]] = deque()
        self._wake: anyio.Event | None = None
        self._room: anyio.Event | None = None
        self._closed = False
        self._passed = 0
        self.sequence = 0

    async def send(self, event: Event[Any]) -> None:
        while len(self._items) >= _BUFFER and not self._closed:
            self._room = anyio.Event()
            await self._room.wait()
        self.put(event)
        if self.sequence % _CHECKPOINT_EVERY == 0:
            await checkpoint()

    def put(self, event: Event[Any]) -> None:
        self.sequence += 1
        event.sequence = self.sequence
        self._items.append(event)
        if self._wake is not None:
            self._wake.set()

    def close(self) -> None:
        self._closed = True
        for event in (self._wake, self._room):
            if event is not None:
                event.set()

    async def receive(self) -> Event[Any] | None:
        while not self._items:
            if self._closed:
                return None
            self._wake = anyio.Event()
            await self._wake.wait()
        event = self._items.popleft()
        if self._room is not None:
            self._room.set()
        self._passed += 1
        if self._passed % _CHECKPOINT_EVERY == 0:
            await checkpoint()
        return event


class AgentStream:
    """The events of a run, for one consumer.

    Iterate it (``async for event in stream``), best inside ``async with stream:``, whose end cancels a run that is
    not finished and waits for it. Without ``async with``, leaving the loop early cancels the run when the stream is
    dropped, and waits for nothing. The run starts at the first step; the input was checked when the stream was made.
    """

    def __init__(self, run_id: str, runner: Runner) -> None:
        self.run_id = run_id
        self._channel = _Channel()
        self._receiving = False
        self._started = False
        self._left = False
        self._task: Detached[AgentRunResult[Any]] = Detached(
            _body(run_id, self._channel, runner), context=copy_context()
        )

    @property
    def result(self) -> AgentRunResult[Any]:
        """The result of the run, after the stream has ended.

        Raises:
            RuntimeError: The run has not ended yet, or the stream was left before it did.
        """
        if self._task.result is not None:
            return self._task.result
        if self._task.error is not None:
            raise self._task.error
        if self._left or self._task.done:
            raise RuntimeError("the stream was left before its run ended, so there is no result")
        raise RuntimeError("the run has not ended: iterate the stream to its end before reading its result")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentStreamEvent:
        if self._receiving:
            raise RuntimeError("this stream has a consumer already; make one stream per consumer")
        self._start()
        self._receiving = True
        finished = False
        try:
            event = await self._channel.receive()
            finished = True
        finally:
            self._receiving = False
            if not finished:  # the consumer was cancelled
                self._task.cancel()
        if event is not None:
            return cast(AgentStreamEvent, event)
        if self._task.error is not None:
            raise self._task.error
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the run if it is not finished, and wait for its end, at most five seconds."""
        self._left = True
        self._channel.close()
        self._task.cancel()
        with anyio.move_on_after(_LEAVE_TIMEOUT, shield=True):
            await self._task.wait()

    def __del__(self) -> None:
        if self._started:
            self._task.cancel()

    def _start(self) -> None:
        if not self._started and not self._left:
            self._started = True
            self._task.on_finish(self._channel.close)
            self._task.start()


def _body(run_id: str, channel: _Channel, runner: Runner) -> Callable[[], Awaitable[AgentRunResult[Any]]]:
    # A closure over the channel, not over the stream: the stream must be free to be collected.
    async def run() -> AgentRunResult[Any]:
        async def send(event: Event[Any]) -> None:
            event.run_id = run_id
            await channel.send(event)

        result = await runner(send)
        await send(_terminal(result))
        return result

    return run


def _terminal(result: AgentRunResult[Any]) -> Event[Any]:
    if result.error is not None and result.status.code in ("error", "rejected", "timeout"):
        return StreamFailed(payload=result.error)
    return StreamDone(payload=result, copy=copy_result)

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
from typing import Any, Generic, Self, cast

import anyio
from anyio.lowlevel import checkpoint
from typing_extensions import TypeVar

from .._detached import Detached
from ..events import Event
from ..outcome import AgentRunResult, copy_result
from ._events import AgentStreamEvent, StreamDone, StreamFailed, TextDelta, TurnRestarted, TurnStarted
from ._partial import PartialReader
from ._structured import OutputFormat, output_format

__all__ = ["AgentStream", "PartialStream", "RunStream", "StreamSink"]

_BUFFER = 64
"""Events that may wait for the consumer; then the run waits."""
_CHECKPOINT_EVERY = 16
"""Events after which a side of the channel lets others run: passing an event that is there already never yields."""
_LEAVE_TIMEOUT = 5.0
"""Seconds that ``async with`` waits at its end for a cancelled run."""

T = TypeVar("T", default=Any)
R = TypeVar("R")


class StreamSink:
    """Where a run sends the events of its stream; it waits while the consumer is behind.

    Args:
        run_id: The run.
        channel: The way to the consumer.
    """

    __slots__ = ("_channel", "_run_id")

    def __init__(self, run_id: str, channel: _Channel) -> None:
        self._run_id = run_id
        self._channel = channel

    async def __call__(self, event: Event[Any]) -> None:
        """Pass an event on.

        Args:
            event: It belongs to the stream from now on.
        """
        event.run_id = self._run_id
        await self._channel.send(event)

    def put(self, event: Event[Any]) -> None:
        """Pass an event on without waiting: for the few that a run makes itself.

        Args:
            event: It belongs to the stream from now on.
        """
        event.run_id = self._run_id
        self._channel.put(event)


Runner = Callable[[StreamSink], Awaitable[R]]


class PartialStream:
    """The prefixes of a structured answer, for one consumer.

    Args:
        stream: The stream of the run, which is consumed.
        output: The format of the answer.
    """

    def __init__(self, stream: AgentStream[Any], output: OutputFormat[Any]) -> None:
        self._stream = stream
        self._reader = PartialReader(output)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while True:
            event = await anext(self._stream)
            if isinstance(event, TurnStarted | TurnRestarted):
                self._reader.restart()
            elif isinstance(event, TextDelta):
                prefix = self._reader.feed(event.data)
                if prefix is not None:
                    return prefix


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
            if self._room is None:  # else others wait already: the agents of a team send to one stream
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
            self._room = None
        self._passed += 1
        if self._passed % _CHECKPOINT_EVERY == 0:
            await checkpoint()
        return event


class RunStream(Generic[R]):
    """The events of a run, for one consumer.

    Iterate it (``async for event in stream``), best inside ``async with stream:``, whose end cancels a run that is
    not finished and waits for it. Without ``async with``, leaving the loop early cancels the run when the stream is
    dropped, and waits for nothing. The run starts at the first step; the input was checked when the stream was made.

    Args:
        run_id: The run.
        runner: Does it, and sends its events.
        last: Makes the last event from its result.
    """

    def __init__(self, run_id: str, runner: Runner[R], last: Callable[[R], Event[Any]]) -> None:
        self.run_id = run_id
        self._channel = _Channel()
        self._receiving = False
        self._started = False
        self._left = False
        self._task: Detached[R] = Detached(
            _body(StreamSink(run_id, self._channel), runner, last), context=copy_context()
        )

    @property
    def result(self) -> R:
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

    async def __anext__(self) -> Any:
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
            return event
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


class AgentStream(RunStream[AgentRunResult[T]], Generic[T]):
    """The events of an agent's run, for one consumer.

    Iterate it (``async for event in stream``), best inside ``async with stream:``, whose end cancels a run that is
    not finished and waits for it. Without ``async with``, leaving the loop early cancels the run when the stream is
    dropped, and waits for nothing. The run starts at the first step; the input was checked when the stream was made.
    """

    def __init__(self, run_id: str, runner: Runner[AgentRunResult[T]]) -> None:
        super().__init__(run_id, runner, _terminal)

    def partial(self, kind: Any) -> PartialStream:
        """Return the answer while it is being written, as plain JSON prefixes; it consumes the stream.

        Only finished fields are in a prefix, each checked against the type, and the string that is just growing; a
        later prefix never contradicts an earlier one. The answer itself is ``result.structured`` afterwards.

        Args:
            kind: The ``output_schema`` of the agent.

        Raises:
            ConfigurationError: Pydantic cannot describe the type.
        """
        return PartialStream(self, output_format(kind))

    async def __anext__(self) -> AgentStreamEvent:
        return cast(AgentStreamEvent, await super().__anext__())


def _body(sink: StreamSink, runner: Runner[R], last: Callable[[R], Event[Any]]) -> Callable[[], Awaitable[R]]:
    # A closure over the channel, not over the stream: the stream must be free to be collected.
    async def run() -> R:
        result = await runner(sink)
        await sink(last(result))
        return result

    return run


def _terminal(result: AgentRunResult[Any]) -> Event[Any]:
    if result.error is not None and result.status.code in ("error", "rejected", "timeout"):
        return StreamFailed(payload=result.error)
    return StreamDone(payload=result, copy=copy_result)

"""What of several attempts at one model call, or at one run, goes into the stream.

A middleware may call on twice, one after the other or at the same time. Invariant: the pieces of two attempts never
mix, and what the stream has delivered since the last restart belongs to the answer that counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..adapters import LLMResponse, ModelCall, ModelNext, StreamSink
from ..events import Event
from ..messages import ContentBlock, copy_blocks
from ._environment import EventSink
from ._events import TurnRestarted, TurnStarted

__all__ = ["ModelAttempts", "RunAttempts"]

R = TypeVar("R")


class ModelAttempts:
    """The attempts at one model call of a stream; while one of them feeds it, others are made without one.

    Args:
        sink: The stream.
        operation: Makes the call.
    """

    def __init__(self, sink: StreamSink, operation: ModelNext) -> None:
        self._sink = sink
        self._operation = operation
        self._is_feeding = False
        self._fed: list[ContentBlock] | None = None

    async def make(self, call: ModelCall) -> LLMResponse:
        """Make one attempt.

        Args:
            call: The call; this attempt's own.
        """
        if self._is_feeding:
            call.sink = None
            return await self._operation(call)
        self._is_feeding = True
        try:
            response = await self._operation(call)
            self._fed = copy_blocks(response.content)  # the middleware may change what it gets
            return response
        finally:
            self._is_feeding = False

    async def settle(self, response: LLMResponse) -> None:
        """Void what was delivered, unless it is what the answer says.

        Args:
            response: What the middleware returned.
        """
        if self._fed != getattr(response, "content", None):
            await self._sink.begin()


class RunAttempts:
    """The times that the agent of one stream is run; while one of them feeds it, others are not streamed.

    Args:
        sink: The stream.
        agent: Name of the agent.
    """

    def __init__(self, sink: EventSink, agent: str) -> None:
        self._sink = sink
        self._agent = agent
        self._is_feeding = False
        self._has_fed = False

    async def make(self, run: Callable[[EventSink | None], Awaitable[R]]) -> R:
        """Run the agent once more.

        Args:
            run: Runs it, with its events going where it is told.
        """
        if self._is_feeding:
            return await run(None)
        self._is_feeding = True
        try:
            if self._has_fed:
                self._has_fed = False
                await self._sink(TurnRestarted(agent=self._agent, payload=1))
            return await run(self._feed)
        finally:
            self._is_feeding = False

    async def _feed(self, event: Event[Any]) -> None:
        self._has_fed = self._has_fed or not isinstance(event, TurnStarted)
        await self._sink(event)

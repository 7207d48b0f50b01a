"""From the pieces of an answer to the events of a run's stream.

Invariant: every tool call that is announced is answered by a result event, and every turn that starts ends or is
followed by the stream's last event.
"""

from __future__ import annotations

from typing import Any

from ..adapters import StreamEvent
from ..events import Event
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolResultBlock, ToolUseBlock
from ._environment import EventSink
from ._events import (
    LoopDetected,
    ReasoningDelta,
    TextDelta,
    ToolCalled,
    ToolInputReceived,
    ToolReturned,
    TurnFinished,
    TurnRestarted,
    TurnStarted,
    copy_block,
)
from ._loops import LoopInfo

__all__ = ["TurnSink"]


class TurnSink:
    """Turns the pieces of one answer into events of the run's stream."""

    def __init__(self, sink: EventSink, agent: str, turn: int) -> None:
        self._sink = sink
        self._agent = agent
        self._turn = turn
        self._streamed = False

    async def start(self) -> None:
        await self._emit(TurnStarted, self._turn)

    async def begin(self) -> None:
        """Void what has been delivered, when the call of this turn is made again."""
        if self._streamed:
            self._streamed = False
            await self._emit(TurnRestarted, self._turn)

    async def deliver(self, event: StreamEvent) -> None:
        """Pass on one piece of the answer; complete tool calls wait for the end of the turn."""
        if event.type == "text":
            self._streamed = True
            await self._emit(TextDelta, event.data)
        elif event.type == "reasoning":
            self._streamed = True
            await self._emit(ReasoningDelta, event.data)
        elif event.type == "tool_input_delta":
            self._streamed = True
            await self._emit(ToolInputReceived, event.data)

    async def deliver_rest(self, content: list[ContentBlock]) -> None:
        """Deliver an answer that was not streamed.

        Args:
            content: The blocks of the answer.
        """
        if self._streamed:
            return
        for block in content:
            if isinstance(block, TextBlock) and block.text:
                await self._emit(TextDelta, block.text)
            elif isinstance(block, ReasoningBlock) and block.text:
                await self._emit(ReasoningDelta, block.text)

    async def announce(self, calls: list[ToolUseBlock]) -> None:
        """Deliver the complete tool calls, which are about to be answered.

        Args:
            calls: The tool calls of the answer.
        """
        for call in calls:
            await self._sink(ToolCalled(agent=self._agent, payload=call, copy=copy_block))

    async def finish(self, results: list[ToolResultBlock]) -> None:
        """Deliver the results of the calls, and the end of the turn.

        Args:
            results: One for each call.
        """
        for block in results:
            await self._sink(ToolReturned(agent=self._agent, payload=block, copy=copy_block))
        await self._emit(TurnFinished, self._turn)

    async def tell_loop(self, info: LoopInfo) -> None:
        """Say that the agent repeats itself.

        Args:
            info: What was found.
        """
        await self._emit(LoopDetected, info)

    async def _emit(self, kind: type[Event[Any]], payload: object) -> None:
        await self._sink(kind(agent=self._agent, payload=payload))

"""The events of an agent's run: those for progress listeners, and those of a stream."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from ..adapters import ToolInputDelta
from ..budget import BudgetError
from ..events import Event
from ..messages import LLMMessage, ToolResultBlock, ToolUseBlock
from ..outcome import AgentRunResult
from ._loops import LoopInfo

__all__ = [
    "AgentFinished",
    "AgentStarted",
    "AgentStreamEvent",
    "BudgetExceeded",
    "LoopDetected",
    "ReasoningDelta",
    "StreamDone",
    "StreamFailed",
    "TextDelta",
    "ToolCalled",
    "ToolInputReceived",
    "ToolReturned",
    "TurnFinished",
    "TurnRestarted",
    "TurnStarted",
]


class AgentStarted(Event[dict[str, str | Sequence[LLMMessage]]]):
    """An agent's run began; ``data`` is ``{"prompt": str}`` for a string input, else ``{"messages": [...]}``."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"
    __slots__ = ()


class AgentFinished(Event[AgentRunResult[Any]]):
    """An agent's run ended, in whatever way; ``data`` is its result. The last event of a run."""

    type: ClassVar[Literal["agent_complete"]] = "agent_complete"
    __slots__ = ()


class BudgetExceeded(Event[BudgetError]):
    """A limit of the run's budget was reached; ``data`` is the error."""

    type: ClassVar[Literal["budget_exceeded"]] = "budget_exceeded"
    __slots__ = ()


class TurnStarted(Event[int]):
    """A model call begins; ``data`` is its number in the run, from 1."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"
    __slots__ = ()


class TextDelta(Event[str]):
    """A piece of the answer's text."""

    type: ClassVar[Literal["text"]] = "text"
    __slots__ = ()


class ReasoningDelta(Event[str]):
    """A piece of the model's reasoning."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    __slots__ = ()


class ToolInputReceived(Event[ToolInputDelta]):
    """A piece of the JSON text of a tool call's input."""

    type: ClassVar[Literal["tool_input_delta"]] = "tool_input_delta"
    __slots__ = ()


class ToolCalled(Event[ToolUseBlock]):
    """The model calls a tool; ``data`` is the complete call."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    __slots__ = ()


class ToolReturned(Event[ToolResultBlock]):
    """A tool has answered; ``data`` is what the model gets to see."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    __slots__ = ()


class TurnFinished(Event[int]):
    """A model call and its tools are done; ``data`` is the number of the turn."""

    type: ClassVar[Literal["turn_complete"]] = "turn_complete"
    __slots__ = ()


class TurnRestarted(Event[int]):
    """The model call of this turn is made again: what its stream has delivered so far is void."""

    type: ClassVar[Literal["turn_restart"]] = "turn_restart"
    __slots__ = ()


class LoopDetected(Event[LoopInfo]):
    """The agent repeats itself; ``data`` says what, and how often."""

    type: ClassVar[Literal["loop_detected"]] = "loop_detected"
    __slots__ = ()


class StreamDone(Event[AgentRunResult[Any]]):
    """The run ended with a result; ``data`` is it. The last event of a stream."""

    type: ClassVar[Literal["done"]] = "done"
    __slots__ = ()


class StreamFailed(Event[BaseException]):
    """The run failed; ``data`` is the exception. The last event of a stream, whose ``result`` has the rest."""

    type: ClassVar[Literal["error"]] = "error"
    __slots__ = ()


AgentStreamEvent = (
    TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolInputReceived
    | ToolCalled
    | ToolReturned
    | TurnFinished
    | TurnRestarted
    | LoopDetected
    | StreamDone
    | StreamFailed
)
"""Every kind of event that a stream delivers."""


def copy_block(block: Any) -> Any:
    """Return an independent copy of a block, as the payload of an event.

    Args:
        block: A content block.
    """
    return copy.deepcopy(block)

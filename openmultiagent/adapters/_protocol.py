"""What an adapter is: the port between a conversation and a model provider.

Not here: HTTP, providers, retries. Invariant: an adapter neither changes the messages and options that it gets nor
hands out references into them, so a built-in adapter may read a run's conversation in place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, Protocol, runtime_checkable

from .._record import record
from ..messages import ContentBlock, LLMMessage, ToolUseBlock
from ..usage import TokenUsage
from ._settings import ReasoningCompression, ThinkingConfig

__all__ = [
    "AdapterCapabilities",
    "LLMAdapter",
    "LLMChatOptions",
    "LLMResponse",
    "LLMToolDef",
    "StreamEvent",
    "StreamEventType",
    "StreamingAdapter",
    "ToolInputDelta",
]


@record
class LLMToolDef:
    """A tool as the model is told about it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the input object."""


@record(kw_only=True)
class LLMChatOptions:
    """Everything about one model call besides the messages; None means "not set"."""

    model: str
    system_prompt: str | None = None
    tools: Sequence[LLMToolDef] = ()
    max_tokens: int | None = None
    """The most tokens that the answer may have."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: Sequence[str] | None = None
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: str | None = None
    """``auto``, ``required``, ``none``, or the name of a tool."""
    thinking: ThinkingConfig | None = None
    cache: Literal["auto"] | None = None
    """``auto`` lets the provider cache what calls of one conversation have in common, where it must be told to."""
    preserve_reasoning_as_text: bool | None = None
    """Whether reasoning that cannot go back to its provider as such is sent as text; otherwise it is left out."""
    compress_reasoning_text: bool | ReasoningCompression | None = None
    """Whether reasoning that is sent as text is cut: None and True to 1,200 characters, False not at all."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer's text must match; sent by adapters that can have the provider enforce it."""
    check_history: bool | None = None
    """Whether the adapter refuses a history that the provider would refuse; None does so for the calls of an agent."""
    extra_body: Mapping[str, Any] | None = None
    """Further fields of the request body; never the model, messages, tools or stream flags."""


@record
class LLMResponse:
    """A model's answer."""

    content: list[ContentBlock]
    _: KW_ONLY
    id: str = ""
    """The provider's id of the answer."""
    model: str = ""
    """The model that answered, as the provider names it."""
    stop_reason: str = "end_turn"
    """``end_turn``, ``tool_use``, ``max_tokens``, ``content_filter``, ``stop_sequence``, or the provider's own word."""
    usage: TokenUsage | None = None
    """None when the provider reported none, which is not the same as zero."""


@record
class ToolInputDelta:
    """A piece of the JSON text of a tool call's input, as it arrives."""

    tool_use_id: str
    name: str
    delta: str


StreamEventType = Literal["text", "reasoning", "tool_input_delta", "tool_use", "done", "error"]
"""The kinds of ``StreamEvent``."""


@record
class StreamEvent:
    """One step of a streamed answer.

    ``data`` is a ``str`` for ``text`` and ``reasoning``, a ``ToolInputDelta``, a complete ``ToolUseBlock`` for
    ``tool_use``, the ``LLMResponse`` for ``done``, and the exception for ``error``. A stream ends with exactly one
    ``done`` or ``error``, and the content of ``done`` is what ``chat`` would have returned.
    """

    type: StreamEventType
    data: str | ToolInputDelta | ToolUseBlock | LLMResponse | Exception


@record(kw_only=True)
class AdapterCapabilities:
    """What the caller of an adapter may rely on."""

    read_only: bool = False
    """The adapter changes neither the messages that it gets nor, later, the blocks that it returns; none is copied."""
    structured_output: bool = False
    """The provider can be made to answer by ``output_schema``."""
    echoes_reasoning: Literal["never", "own-issued", "tool-use-only"] = "never"
    """Which reasoning blocks the adapter sends back natively: none, those that it issued itself with their signature,
    or those of a conversation with tool calls."""


@runtime_checkable
class LLMAdapter(Protocol):
    """A model provider. ``stream``, ``capabilities`` and ``aclose`` are optional; see ``StreamingAdapter``."""

    name: str

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        """Return the model's answer to a conversation.

        Args:
            messages: The conversation; must not be changed.
            options: Everything else about the call.

        Raises:
            InvalidMessageError: The conversation cannot be sent as it is; no request was made.
            AdapterError: The provider refused, failed or could not be reached.
        """
        ...


@runtime_checkable
class StreamingAdapter(LLMAdapter, Protocol):
    """An adapter that can also deliver an answer while it is being written."""

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        """Return the events of the answer; invalid input raises at the latest on the first step.

        Args:
            messages: The conversation; must not be changed.
            options: Everything else about the call.

        Raises:
            InvalidMessageError: The conversation cannot be sent as it is; no request was made.
        """
        ...

"""What a script is made of: responses, their delivery, and how each becomes an answer or the pieces of a stream.

Not here: the calls that ask for them. Invariant: a response of a script is never handed out itself, only copies of it,
so a response may be used any number of times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, replace

from .._record import record
from ..adapters import LLMChatOptions, LLMResponse, StreamEvent, ToolInputDelta
from ..errors import AdapterError, ConfigurationError, LLMConnectionError, LLMProtocolError
from ..messages import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    copy_blocks,
    replace_lone_surrogates,
)
from ..usage import TokenUsage

__all__ = [
    "Reply",
    "Response",
    "ScriptExhaustedError",
    "Scripted",
    "answer_of",
    "check_response",
    "pieces_of",
    "scripted",
]


class ScriptExhaustedError(AdapterError):
    """More model calls were made than the script has responses.

    Args:
        responses: How many responses the script has.
        call: The number of the call that found none, from 1.
        provider: Name of the adapter.
    """

    code = "SCRIPT_EXHAUSTED"
    field_names = (*AdapterError.field_names, "responses", "call")

    def __init__(self, *, responses: int, call: int, provider: str) -> None:
        held = f"{responses} response{'' if responses == 1 else 's'}"
        super().__init__(
            f"the script of adapter {provider!r} has {held}, and this is model call {call}: add a response, "
            "or give a callable in place of the list, which serves every call",
            provider=provider,
        )
        self.responses, self.call = responses, call


@record
class Scripted:
    """A response together with the way it is delivered.

    Times are in seconds. A *piece* is one event of a stream: a chunk of text, of reasoning or of a tool call's input,
    or a complete tool call.
    """

    content: str | Sequence[ContentBlock] | LLMResponse = ""
    """The answer, as in a plain response."""
    _: KW_ONLY
    usage: TokenUsage | None = None
    """What the answer reports; None leaves it unknown, or as the ``LLMResponse`` has it."""
    stop_reason: str | None = None
    """None is ``tool_use`` with a tool call, else ``end_turn``, or as the ``LLMResponse`` has it."""
    delay: float = 0.0
    """How long the answer takes, or its first piece."""
    piece_delay: float = 0.0
    """How long each further piece of a stream takes."""
    chunk_size: int = 16
    """Characters of a chunk of a stream."""
    cut_after: int | None = None
    """The connection breaks after so many pieces: an ``LLMProtocolError``, in ``chat`` too."""
    fail_after: int | None = None
    """``error`` comes after so many pieces; 0 when only ``error`` is given."""
    error: Exception | None = None
    """What comes instead of the answer; an ``LLMConnectionError`` when only ``fail_after`` is given."""

    def __post_init__(self) -> None:
        for name in ("delay", "piece_delay"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"Scripted.{name} must be a number of seconds, 0 or more, got {value!r}")
        for name, least in (("chunk_size", 1), ("cut_after", 0), ("fail_after", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigurationError(f"Scripted.{name} must be {least} or more, got {value!r}")
        if self.cut_after is not None and (self.fail_after is not None or self.error is not None):
            raise ConfigurationError("Scripted takes cut_after, or fail_after and error, not both")
        check_response(self.content, "Scripted.content", plain=True)

    def failure(self, provider: str) -> tuple[int, Exception] | None:
        """Return after how many pieces the answer fails and with what; None when it does not.

        Args:
            provider: Name of the adapter.
        """
        if self.cut_after is not None:
            text = f"the answer of {provider} broke off after {self.cut_after} pieces, as scripted"
            return self.cut_after, LLMProtocolError(text, provider=provider)
        if self.error is not None:
            return self.fail_after or 0, self.error
        if self.fail_after is not None:
            text = f"the connection to {provider} failed after {self.fail_after} pieces, as scripted"
            return self.fail_after, LLMConnectionError(text, provider=provider)
        return None


_BLOCKS = (TextBlock, ReasoningBlock, ToolUseBlock, ToolResultBlock, ImageBlock, FileBlock)

Response = str | Sequence[ContentBlock] | LLMResponse | Scripted | BaseException
"""An answer, or an exception that is raised in its place."""

Reply = Response | Callable[[list[LLMMessage], LLMChatOptions], Response | Awaitable[Response]]
"""What a script is made of: a response, or a function that makes one from a call's messages and options."""


def check_response(response: object, where: str, *, plain: bool = False) -> None:
    """Refuse what is no response.

    Args:
        response: Anything.
        where: What errors call it.
        plain: Whether only an answer will do, no wrapper and no exception.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(response, str | LLMResponse) or (not plain and isinstance(response, Scripted | BaseException)):
        return
    if not isinstance(response, Sequence) or isinstance(response, bytes | bytearray):
        kinds = "a str, a list of blocks or an LLMResponse" + (
            "" if plain else ", an exception, a Scripted or a callable"
        )
        raise ConfigurationError(f"{where} must be {kinds}, got {type(response).__name__}")
    for index, block in enumerate(response):
        if not isinstance(block, _BLOCKS):
            raise ConfigurationError(f"{where}[{index}] must be a content block, got {type(block).__name__}")


def scripted(response: Response) -> Scripted:
    """Return a response as one that says how it is delivered.

    Args:
        response: Any response.

    Raises:
        BaseException: The response is an exception that is no ``Exception``, such as ``KeyboardInterrupt``.
    """
    if isinstance(response, Scripted):
        return response
    if isinstance(response, Exception):
        return Scripted(error=response)
    if isinstance(response, BaseException):
        raise response
    return Scripted(response)


def answer_of(script: Scripted, *, id: str, model: str) -> LLMResponse:  # noqa: A002 - the field's name
    """Return the answer of a response; it shares nothing mutable with the response.

    Args:
        script: The response.
        id: The answer's id, unless the response is an ``LLMResponse``.
        model: The answer's model, unless the response is an ``LLMResponse``.
    """
    content = script.content
    if isinstance(content, LLMResponse):
        answer = replace(content, content=copy_blocks(content.content))
    else:
        blocks: list[ContentBlock] = _text(content) if isinstance(content, str) else copy_blocks(content)
        stop_reason = "tool_use" if any(isinstance(block, ToolUseBlock) for block in blocks) else "end_turn"
        answer = LLMResponse(blocks, id=id, model=model, stop_reason=stop_reason)
    return replace(
        answer,
        usage=answer.usage if script.usage is None else script.usage,
        stop_reason=answer.stop_reason if script.stop_reason is None else script.stop_reason,
    )


def _text(text: str) -> list[ContentBlock]:
    return [TextBlock.new(replace_lone_surrogates(text))]  # as built-in adapters do with what a model writes


def pieces_of(answer: LLMResponse, chunk_size: int) -> Iterator[StreamEvent]:
    """Yield the pieces of a streamed answer, without the ``done`` at the end.

    Args:
        answer: The answer.
        chunk_size: Characters of a chunk.
    """
    for block in answer.content:
        if isinstance(block, TextBlock):
            yield from (StreamEvent("text", chunk) for chunk in _chunks(block.text, chunk_size))
        elif isinstance(block, ReasoningBlock):
            yield from (StreamEvent("reasoning", chunk) for chunk in _chunks(block.text, chunk_size))
        elif isinstance(block, ToolUseBlock):
            text = json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
            for chunk in _chunks(text, chunk_size):
                yield StreamEvent("tool_input_delta", ToolInputDelta(block.id, block.name, chunk))
            yield StreamEvent("tool_use", *copy_blocks([block]))  # type: ignore[arg-type]  # a tool block's copy is one


def _chunks(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))

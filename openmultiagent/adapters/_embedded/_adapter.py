"""The embedded engine as an adapter.

It is no language model: it reads, counts and picks sentences. It needs no key and no network, keeps nothing between
calls, never calls a tool, and gives the same answer to the same conversation. Invariant: the messages are only read,
and a long conversation is worked on in a worker thread, so the event loop is not held up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import anyio.lowlevel
import anyio.to_thread

from ...messages import Conversation, LLMMessage, TextBlock, coerce_messages, normalize_for_provider
from ...usage import TokenUsage
from .._protocol import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent
from ._answer import Answer, make_answer
from ._request import read_request

__all__ = ["INLINE_CHARACTERS", "MODEL_NAME", "EmbeddedAdapter"]

MODEL_NAME = "embedded-extractive-1"
"""What ``LLMResponse.model`` says: the engine and the version of its rules."""

INLINE_CHARACTERS = 4_000
"""Characters of a conversation up to which the work is done on the event loop: it takes under 10 ms."""


class EmbeddedAdapter:
    """A small text engine in place of a model: extractive summaries, key terms, and sentences that answer a question.

    It is no language model. ``options.max_tokens`` and ``options.system_prompt`` are used; the model, the tools and all
    sampling settings are ignored.
    """

    name = "embedded"
    capabilities = AdapterCapabilities(read_only=True)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        """Return the answer to a conversation.

        Args:
            messages: The conversation; it is only read, and checked unless it is a run's own.
            options: The system prompt and ``max_tokens`` count, at four characters a token.

        Raises:
            InvalidMessageError: The conversation is not valid.
        """
        answer = await _answer(messages, options)
        await anyio.lowlevel.checkpoint()
        return _response(answer)

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> EmbeddedStream:
        """Return the answer sentence by sentence as ``text`` events, then ``done``.

        Args:
            messages: The conversation; it is only read, and checked unless it is a run's own.
            options: As for ``chat``.

        Raises:
            InvalidMessageError: The conversation is not valid; raised by the first step.
        """
        return EmbeddedStream(messages, options)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class EmbeddedStream:
    """The events of one answer; it holds nothing open, so it may be dropped at any time.

    Args:
        messages: The conversation; it is only read, and checked unless it is a run's own.
        options: Everything else about the call.
    """

    def __init__(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> None:
        self._messages = messages
        self._options = options
        self._events: Iterator[StreamEvent] | None = None

    def __aiter__(self) -> EmbeddedStream:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._events is None:
            self._events = _events(await _answer(self._messages, self._options))
        await anyio.lowlevel.checkpoint()
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """End the stream."""
        self._events = iter(())


async def _answer(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Answer:
    checked = messages if isinstance(messages, Conversation) else coerce_messages(messages)
    request = read_request(*normalize_for_provider(checked, options.system_prompt))
    work = partial(make_answer, request, options.max_tokens)
    if request.size <= INLINE_CHARACTERS:
        return work()
    # Pure work on strings that nobody changes: nothing is lost when it is abandoned.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _events(answer: Answer) -> Iterator[StreamEvent]:
    for piece in answer.pieces:
        yield StreamEvent("text", piece)
    yield StreamEvent("done", _response(answer))


def _response(answer: Answer) -> LLMResponse:
    return LLMResponse(
        [TextBlock.new("".join(answer.pieces))],
        model=MODEL_NAME,
        stop_reason="max_tokens" if answer.is_cut else "end_turn",
        usage=TokenUsage(input_tokens=answer.read_tokens, output_tokens=answer.written_tokens),
    )

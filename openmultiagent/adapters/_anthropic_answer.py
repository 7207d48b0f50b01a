"""Answers of the Anthropic Messages protocol: from JSON, whole or in events, to a response and its events.

Not here: bytes and connections. Invariants: whatever JSON comes, nothing but an ``AdapterError`` is raised; the
response at the end of a stream is what the same answer would have given in one piece; the work is linear in its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from ..errors import AdapterError
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock, replace_lone_surrogates
from ..usage import TokenUsage
from ._faults import Redactor, payload_error
from ._pieces import (
    GrowingText,
    JsonObject,
    PayloadReader,
    call_id_of,
    count_of,
    counts_of,
    known_counts,
    made_tool_use,
    raw_text_of,
    text_of,
)
from ._protocol import LLMResponse, StreamEvent, ToolInputDelta

__all__ = ["AnswerReader", "StreamReader"]

_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status that goes with each error; an error in the middle of a stream has no other."""


class AnswerReader:
    """What reading a whole answer and reading a stream have in common.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked, for answers that do not name theirs.
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        self._provider = provider
        self._json = PayloadReader(provider=provider, what="message", redact=redact)
        self._id = ""
        self._model = model
        self._stop: str | None = None
        self._counts: dict[str, int | None] = {}
        self._thinking = 0
        self._blocks: list[_Block] = []
        self._call_ids: set[str] = set()

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds.

        Args:
            body: The body of a 2xx response.

        Raises:
            LLMProtocolError: It is no answer.
            AdapterError: It is an error in the clothes of an answer.
        """
        text = body.decode("utf-8-sig", "replace")
        payload = self._payload(text)
        content = payload.get("content")
        if not isinstance(content, list):
            raise self._json.fault("the answer has no content", text)
        self._take_message(payload)
        for item in content:
            self._open(self._json.object_of(item, "content[]"))
        return self._response()

    def _payload(self, text: str) -> JsonObject:
        payload = self._json.parsed(text)
        if payload.get("error"):
            raise self._vendor_error(payload["error"], text)
        return payload

    def _vendor_error(self, error: object, text: str) -> AdapterError:
        return payload_error(self._provider, error, body=text, redact=self._json.redact, statuses=_STATUSES)

    def _take_message(self, message: JsonObject) -> None:
        self._id = text_of(message.get("id")) or self._id
        self._model = text_of(message.get("model")) or self._model
        self._take_end(message, message.get("usage"))

    def _take_end(self, delta: JsonObject, usage: object) -> None:
        self._stop = text_of(delta.get("stop_reason")) or self._stop
        # ANT-20: every report counts from the start, so the last one of each kind is the sum.
        self._counts.update(counts_of(usage, _COUNTS))
        details = usage.get("output_tokens_details") if isinstance(usage, dict) else None
        self._thinking = count_of(details, "thinking_tokens") or self._thinking

    def _open(self, item: JsonObject) -> _Block:
        block = _Block(text_of(item.get("type")))
        if block.kind == "text":
            block.add(raw_text_of(item.get("text")))
        elif block.kind == "thinking":
            block.add(raw_text_of(item.get("thinking")))
            block.proof = text_of(item.get("signature"))
        elif block.kind == "redacted_thinking":
            block.proof = text_of(item.get("data"))
        elif block.kind == "tool_use":
            block.name = text_of(item.get("name"))
            if not block.name:
                raise self._json.fault("a tool call has no name")
            block.call_id = call_id_of(text_of(item.get("id")), self._call_ids, prefix="toolu_")
            self._call_ids.add(block.call_id)
            block.input = item.get("input")
        else:
            block.add(self._json.marker(block.kind))
        self._blocks.append(block)
        return block

    def _response(self) -> LLMResponse:
        content = list(self._content())
        return LLMResponse(
            content, id=self._id, model=self._model, stop_reason=self._stop_reason(), usage=self._usage()
        )

    def _content(self) -> Iterator[ContentBlock]:
        for block in self._blocks:
            if block.kind == "tool_use":
                yield self._call(block)
                continue
            text = block.text.whole()
            if block.kind == "thinking":
                if text or block.proof:  # the text may be withheld; its signature is still wanted back
                    yield ReasoningBlock(text=text, signature=block.proof or None, provenance=self._provider)
            elif block.kind == "redacted_thinking":
                if block.proof:
                    yield ReasoningBlock(text="", redacted_data=block.proof, provenance=self._provider)
            elif text:
                yield TextBlock.new(text)

    def _call(self, block: _Block) -> ToolUseBlock:
        if block.made is None:
            # ANT-17: the API closes the JSON of a call that the limit cut, so it cannot be told from a whole one.
            cut = self._stop in _CUT and block is self._blocks[-1]
            arguments = None if cut else "".join(block.json) or block.input
            block.made = made_tool_use(block.call_id, block.name, arguments, cut=cut)
        return block.made

    def _stop_reason(self) -> str:
        stop = self._stop or "end_turn"
        calls = any(block.kind == "tool_use" for block in self._blocks)
        if stop in ("end_turn", "tool_use"):
            return "tool_use" if calls else "end_turn"
        return stop

    def _usage(self) -> TokenUsage | None:
        counts = known_counts(self._counts, _COUNTS)
        if counts is None or not {"input_tokens", "output_tokens"} & self._counts.keys():
            return None
        fresh, output, read, written = counts
        return TokenUsage(
            input_tokens=fresh + read + written,  # the vendor leaves the cached ones out
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=self._thinking,
        )


class StreamReader(AnswerReader):
    """Reads the events of one streamed answer."""

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        super().__init__(provider=provider, model=model, redact=redact)
        self._by_index: dict[object, _Block] = {}
        self._told: set[str] = set()
        self._ended_call: _Block | None = None
        self.done = False
        """Whether the server said that nothing follows."""
        self._handlers: Mapping[str, Callable[[JsonObject], Iterator[StreamEvent]]] = {
            "message_start": self._on_start,
            "content_block_start": self._on_block_start,
            "content_block_delta": self._on_block_delta,
            "content_block_stop": self._on_block_stop,
            "message_delta": self._on_end,
            "message_stop": self._on_stop,
            "error": self._on_error,
        }

    def feed(self, data: str) -> Iterable[StreamEvent]:
        """Return the events of one server-sent event.

        Args:
            data: Its data.

        Raises:
            LLMProtocolError: It is no event of an answer.
            AdapterError: The provider failed in the middle of the answer.
        """
        if self.done or not data.strip():
            return ()
        payload = self._payload(data)
        handler = self._handlers.get(text_of(payload.get("type")))
        return () if handler is None else handler(payload)  # ANT-21: there are pings, and there will be more kinds

    def finish(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body: the rest of the texts, open tool calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        if not self.done:
            raise self._json.fault("the stream ended before the answer did (no message_stop)")
        for block in self._blocks:
            yield from self._close(block)
        response = self._response()
        for part in response.content:
            if isinstance(part, ToolUseBlock) and part.id not in self._told:
                yield StreamEvent("tool_use", part)
        yield StreamEvent("done", response)

    def _on_start(self, payload: JsonObject) -> Iterator[StreamEvent]:
        self._take_message(self._json.object_of(payload.get("message"), "message"))
        yield from ()

    def _on_block_start(self, payload: JsonObject) -> Iterator[StreamEvent]:
        block = self._open(self._json.object_of(payload.get("content_block"), "content_block"))
        self._by_index[_index(payload)] = block
        yield from self._tell_ended_call()
        if block.first:
            yield StreamEvent(block.event, block.first)

    def _on_block_delta(self, payload: JsonObject) -> Iterator[StreamEvent]:
        block = self._by_index.get(_index(payload))
        if block is None:
            raise self._json.fault("a piece of a block came before the block")
        delta = self._json.object_of(payload.get("delta"), "delta")
        kind = delta.get("type")
        if (block.kind, kind) in (("text", "text_delta"), ("thinking", "thinking_delta")):
            piece = block.text.add(raw_text_of(delta.get(block.kind)))
            if piece:
                yield StreamEvent(block.event, piece)
        elif (block.kind, kind) == ("thinking", "signature_delta"):
            block.proof = text_of(delta.get("signature"))
        elif (block.kind, kind) == ("tool_use", "input_json_delta"):
            given = delta.get("partial_json")
            piece = raw_text_of(given)
            if isinstance(given, dict):  # some servers send the object itself
                block.input = given
            elif piece:
                block.json.append(piece)
                shown = ToolInputDelta(block.call_id, block.name, replace_lone_surrogates(piece))
                yield StreamEvent("tool_input_delta", shown)

    def _on_block_stop(self, payload: JsonObject) -> Iterator[StreamEvent]:
        block = self._by_index.get(_index(payload))
        if block is None:
            return
        yield from self._close(block)
        if block.kind == "tool_use":
            # ANT-17: it is told with the next event, which says whether this call was the last and was cut.
            yield from self._tell_ended_call()
            self._ended_call = block

    def _on_end(self, payload: JsonObject) -> Iterator[StreamEvent]:
        self._take_end(self._json.object_of(payload.get("delta"), "delta"), payload.get("usage"))
        if self._stop is not None:
            yield from self._tell_ended_call()

    def _on_stop(self, payload: JsonObject) -> Iterator[StreamEvent]:  # noqa: ARG002 - one handler among others
        self.done = True
        yield from ()

    def _on_error(self, payload: JsonObject) -> Iterator[StreamEvent]:
        raise self._vendor_error(payload.get("error"), "")

    def _tell_ended_call(self) -> Iterator[StreamEvent]:
        block, self._ended_call = self._ended_call, None
        if block is not None and block.call_id not in self._told:
            self._told.add(block.call_id)
            yield StreamEvent("tool_use", self._call(block))

    def _close(self, block: _Block) -> Iterator[StreamEvent]:
        rest = block.text.end()
        if rest:
            yield StreamEvent(block.event, rest)


class _Block:
    """A block of the answer, as it grows."""

    __slots__ = ("call_id", "first", "input", "json", "kind", "made", "name", "proof", "text")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = GrowingText()
        self.first = ""
        """What of the text came with the start of the block, and can be shown."""
        self.proof = ""
        """The signature of reasoning, or the reasoning that only the provider can read."""
        self.call_id = ""
        self.name = ""
        self.input: object = None
        self.json: list[str] = []
        self.made: ToolUseBlock | None = None

    def add(self, piece: str) -> None:
        self.first = self.text.add(piece)

    @property
    def event(self) -> Literal["reasoning", "text"]:
        """The kind of the events that its text makes."""
        return "reasoning" if self.kind == "thinking" else "text"


def _index(payload: JsonObject) -> object:
    index = payload.get("index")
    return index if isinstance(index, int) else None

"""Answers of Amazon Bedrock's Converse API: from JSON or an event stream to a response and its events.

Not here: connections. Invariants: whatever comes, nothing but an ``AdapterError`` is raised; the response at the end of
a stream is what the same blocks would have given in one piece; the work is linear in the length of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from ..errors import AdapterError
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock, replace_lone_surrogates
from ..usage import TokenUsage
from ._event_stream import EventStreamDecoder, EventStreamError, EventStreamMessage
from ._faults import Redactor, payload_error
from ._pieces import (
    GrowingText,
    JsonObject,
    PayloadReader,
    call_id_of,
    counts_of,
    known_counts,
    made_tool_use,
    raw_text_of,
    text_of,
)
from ._protocol import LLMResponse, StreamEvent, ToolInputDelta

__all__ = ["AnswerReader", "StreamReader"]

_FILTERED = frozenset({"content_filtered", "guardrail_intervened"})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_STATUSES: Mapping[str, int] = {
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "modelErrorException": 424,
    "modelStreamErrorException": 424,
    "modelNotReadyException": 429,
    "throttlingException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""The HTTP status that AWS's service model gives each exception; in a stream it has no other."""

_Kind = Literal["text", "reasoning", "call", "marker"]


class AnswerReader:
    """What reading a whole answer and reading a stream have in common.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked; answers do not name theirs.
        request_id: AWS's id of the request, which is all the id that an answer has.
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, model: str, request_id: str, redact: Redactor) -> None:
        self._json = PayloadReader(provider=provider, what="Converse answer", redact=redact)
        self._model = model
        self._id = request_id
        self._stop = ""
        self._counts: dict[str, int | None] = {}
        self._blocks: list[_Open] = []
        self._ids: set[str] = set()

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds.

        Args:
            body: The body of a 2xx response.

        Raises:
            LLMProtocolError: It is no answer.
        """
        text = body.decode("utf-8-sig", "replace")
        payload = self._json.parsed(text)
        if "output" not in payload:
            raise self._json.fault("the answer has no output", text)
        message = self._json.object_of(
            self._json.object_of(payload["output"], "output").get("message"), "output.message"
        )
        for block in self._json.objects_of(message.get("content"), "output.message.content"):
            self._take_block(block)
        self._stop = text_of(payload.get("stopReason"))
        self._take_usage(payload)
        return self._response()

    def _take_block(self, block: JsonObject) -> None:
        if "text" in block:
            self._add("text").text.add(raw_text_of(block["text"]))
        elif _is_client_call(block):
            call = self._json.object_of(block["toolUse"], "toolUse")
            made = self._add_call(call)
            value = call.get("input")
            made.value = value if isinstance(value, dict) else None
            if not isinstance(value, dict | None):  # some gateways send the text of the object
                made.arguments.append(value if isinstance(value, str) else json.dumps(value))
        elif "reasoningContent" in block:
            reasoning = self._json.object_of(block["reasoningContent"], "reasoningContent")
            text = self._json.object_of(reasoning.get("reasoningText"), "reasoningText")
            self._take_reasoning(self._add("reasoning"), {**reasoning, **text})
        elif "citationsContent" in block:
            cited = self._json.object_of(block["citationsContent"], "citationsContent")
            made = self._add("text")
            for part in self._json.objects_of(cited.get("content"), "citationsContent.content"):
                made.text.add(raw_text_of(part.get("text")))
        elif block:
            self._add("marker").text.add(self._json.marker(next(iter(block))))

    def _add(self, kind: _Kind) -> _Open:
        made = _Open(kind)
        self._blocks.append(made)
        return made

    def _add_call(self, call: JsonObject) -> _Open:
        made = self._add("call")
        made.name = text_of(call.get("name"))
        if not made.name:
            raise self._json.fault("a tool call has no name")
        made.id = call_id_of(text_of(call.get("toolUseId")), self._ids, prefix="tooluse_")
        self._ids.add(made.id)
        return made

    def _take_reasoning(self, block: _Open, piece: JsonObject) -> str:
        """Add a piece of reasoning; return what is new of its text."""
        block.signature = text_of(piece.get("signature")) or block.signature
        block.redacted = text_of(piece.get("redactedContent")) or block.redacted
        return block.text.add(raw_text_of(piece.get("text")))

    def _take_usage(self, payload: JsonObject) -> None:
        self._counts.update(counts_of(self._json.object_of(payload.get("usage"), "usage"), _COUNTS))

    def _response(self) -> LLMResponse:
        content = [block for opened in self._blocks if (block := self._block(opened)) is not None]
        return LLMResponse(
            content, id=self._id, model=self._model, stop_reason=self._stop_reason(), usage=self._usage()
        )

    def _block(self, block: _Open) -> ContentBlock | None:
        if block.kind == "call":
            arguments = "".join(block.arguments) if block.value is None else block.value
            return made_tool_use(block.id, block.name, arguments, cut=self._stop in _CUT)
        text = block.text.whole()
        if block.kind == "reasoning" and (text or block.signature or block.redacted):
            return ReasoningBlock(
                text=text,
                signature=block.signature or None,
                redacted_data=block.redacted or None,
                provenance=self._json.provider,
            )
        return TextBlock.new(text) if text else None

    def _stop_reason(self) -> str:
        if self._stop in _FILTERED:
            return "content_filter"
        if self._stop in ("", "end_turn", "stop_sequence") and any(block.kind == "call" for block in self._blocks):
            return "tool_use"
        return self._stop or "end_turn"

    def _usage(self) -> TokenUsage | None:
        """Return the counts; None when there are none that make sense, which is not the same as zero."""
        counts = known_counts(self._counts, _COUNTS)
        if counts is None or not self._counts:
            return None
        fresh, output, read, written = counts
        return TokenUsage(
            input_tokens=fresh + read + written,  # BED-21: AWS counts what is cached apart
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )


class StreamReader(AnswerReader):
    """Reads the body of one streamed answer."""

    is_over = False
    """Never known: the usage follows the end of the message."""

    def __init__(self, *, provider: str, model: str, request_id: str, redact: Redactor) -> None:
        super().__init__(provider=provider, model=model, request_id=request_id, redact=redact)
        self._decoder = EventStreamDecoder()
        self._by_index: dict[tuple[int, _Kind], _Open] = {}
        self._stopped = False

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.

        Raises:
            LLMProtocolError: It is no answer.
            AdapterError: It is an exception of the service.
        """
        try:
            for message in self._decoder.feed(chunk):
                yield from self._message(message)
        except EventStreamError as error:
            raise self._json.fault(f"no event stream: {error}") from error

    def close(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body: the rest of the texts, the calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        try:
            self._decoder.close()
        except EventStreamError as error:
            raise self._json.fault(f"no event stream: {error}") from error
        if not self._stopped:
            raise self._json.fault("the stream ended before the answer did (no messageStop)")
        for block in self._blocks:
            yield from _rest(block)
        response = self._response()
        yield from (StreamEvent("tool_use", block) for block in response.content if isinstance(block, ToolUseBlock))
        yield StreamEvent("done", response)

    def _message(self, message: EventStreamMessage) -> Iterator[StreamEvent]:
        headers = message.headers
        kind = headers.get(":message-type")
        text = message.payload.decode("utf-8", "replace")
        if kind == "error":
            words = {"type": headers.get(":error-code"), "message": headers.get(":error-message")}
            raise self._service_error(words, text)
        if kind == "exception":
            payload = self._json.parsed(text)
            raise self._service_error({"type": headers.get(":exception-type"), "message": payload.get("message")}, text)
        event = headers.get(":event-type")
        if event == "contentBlockStart":
            yield from self._take_start(self._json.parsed(text))
        elif event == "contentBlockDelta":
            yield from self._take_delta(self._json.parsed(text))
        elif event == "contentBlockStop":
            index = _index(self._json.parsed(text))
            for opened in ("text", "reasoning"):
                if (block := self._by_index.pop((index, opened), None)) is not None:
                    yield from _rest(block)
        elif event == "messageStop":
            self._stopped = True
            self._stop = text_of(self._json.parsed(text).get("stopReason"))
        elif event == "metadata":
            self._take_usage(self._json.parsed(text))

    def _take_start(self, payload: JsonObject) -> Iterator[StreamEvent]:
        start = self._json.object_of(payload.get("start"), "start")
        if _is_client_call(start):
            call = self._json.object_of(start["toolUse"], "toolUse")
            self._by_index[_index(payload), "call"] = self._add_call(call)
        elif start:
            yield from self._take_unknown(_index(payload), next(iter(start)))

    def _take_delta(self, payload: JsonObject) -> Iterator[StreamEvent]:
        index = _index(payload)
        delta = self._json.object_of(payload.get("delta"), "delta")
        if "text" in delta:
            piece = self._at(index, "text").text.add(raw_text_of(delta["text"]))
            yield from _shown("text", piece)
        elif "reasoningContent" in delta:
            reasoning = self._json.object_of(delta["reasoningContent"], "reasoningContent")
            yield from _shown("reasoning", self._take_reasoning(self._at(index, "reasoning"), reasoning))
        elif "toolUse" in delta and (index, "marker") not in self._by_index:
            call = self._by_index.get((index, "call"))
            if call is None:
                raise self._json.fault("a tool call has no name")
            given = self._json.object_of(delta["toolUse"], "toolUse").get("input")
            piece = raw_text_of(given)
            if isinstance(given, dict):  # some gateways send the object itself
                call.value = given
            elif piece:
                call.arguments.append(piece)
                yield StreamEvent(
                    "tool_input_delta", ToolInputDelta(call.id, call.name, replace_lone_surrogates(piece))
                )
        elif delta and "citation" not in delta:
            yield from self._take_unknown(index, next(iter(delta)))

    def _take_unknown(self, index: int, kind: str) -> Iterator[StreamEvent]:
        """Put a text in the place of a block of an unknown kind, once."""
        if (index, "marker") not in self._by_index:
            yield StreamEvent("text", self._at(index, "marker").text.add(self._json.marker(kind)))

    def _at(self, index: int, kind: _Kind) -> _Open:
        block = self._by_index.get((index, kind))
        if block is None:
            block = self._by_index[index, kind] = self._add(kind)
        return block

    def _service_error(self, words: JsonObject, body: str) -> AdapterError:
        error = payload_error(self._json.provider, words, body=body, redact=self._json.redact, statuses=_STATUSES)
        if error.error_type == "modelStreamErrorException":
            error.retryable = True  # AWS: "Retry your request", although its status is 424
        return error


class _Open:
    """A block of the answer, to which more may come."""

    __slots__ = ("arguments", "id", "kind", "name", "redacted", "signature", "text", "value")

    def __init__(self, kind: _Kind) -> None:
        self.kind: _Kind = kind
        self.text = GrowingText()
        self.signature = ""
        self.redacted = ""
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.value: JsonObject | None = None


def _is_client_call(block: JsonObject) -> bool:
    """Say whether a block is a call that is ours to run; AWS runs those of its own tools."""
    call = block.get("toolUse")
    return "toolUse" in block and not (isinstance(call, dict) and call.get("type") == "server_tool_use")


def _index(payload: JsonObject) -> int:
    index = payload.get("contentBlockIndex")
    return index if isinstance(index, int) else 0


def _shown(kind: Literal["text", "reasoning"], piece: str) -> Iterator[StreamEvent]:
    if piece:
        yield StreamEvent(kind, piece)


def _rest(block: _Open) -> Iterator[StreamEvent]:
    """Yield the end of a text that nothing continues any more."""
    return _shown("reasoning" if block.kind == "reasoning" else "text", block.text.end())

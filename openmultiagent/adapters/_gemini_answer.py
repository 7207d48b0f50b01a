"""Answers of the Gemini API: from JSON, whole or in server-sent events, to a response and its events.

Not here: connections. Invariants: whatever JSON comes, nothing but an ``AdapterError`` is raised; the response at the
end of a stream is what the same parts would have given in one piece; the work is linear in the length of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from ..usage import TokenUsage
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
from ._protocol import LLMResponse, StreamEvent

__all__ = ["AnswerReader", "StreamReader"]

_FILTERED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)
_ORDINARY = {"": "end_turn", "STOP": "end_turn", "FINISH_REASON_UNSPECIFIED": "end_turn", "MAX_TOKENS": "max_tokens"}
_COUNTS = (
    *("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount"),
    *("thoughtsTokenCount", "cachedContentTokenCount"),
)
_ANSWER_KEYS = frozenset({"candidates", "promptFeedback", "usageMetadata", "responseId", "modelVersion"})


class AnswerReader:
    """Reads an answer from one or more payloads, each of which continues the one before.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked, for answers that do not name theirs.
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        self._json = PayloadReader(provider=provider, what="generateContent answer", redact=redact)
        self._id = ""
        self._model = model
        self._finish = ""
        self._blocked = False
        self._counts: dict[str, int | None] = {}
        self._open: list[_Open] = []
        self._ids: set[str] = set()

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds: one payload, or an array of them, as in a stream without events.

        Args:
            body: The body of a 2xx response.

        Raises:
            LLMProtocolError: It is no answer.
            AdapterError: It is an error in the clothes of an answer.
        """
        text = body.decode("utf-8-sig", "replace")
        payloads = self._json.all_parsed(text)
        for payload in payloads:
            self._take(payload, text)
        if not any(_ANSWER_KEYS & payload.keys() for payload in payloads):
            raise self._json.fault("the answer has no candidates", text)
        return self._response()

    def _take(self, payload: JsonObject, text: str) -> list[StreamEvent]:
        """Add a payload; return the events that it gives rise to."""
        if payload.get("error"):
            raise payload_error(self._json.provider, payload["error"], body=text, redact=self._json.redact)
        self._id = text_of(payload.get("responseId")) or self._id
        self._model = text_of(payload.get("modelVersion")) or self._model
        usage = self._json.object_of(payload.get("usageMetadata"), "usageMetadata")
        self._counts.update(counts_of(usage, _COUNTS))  # GEM-22: cumulative, so the latest counts
        feedback = self._json.object_of(payload.get("promptFeedback"), "promptFeedback")
        reason = text_of(feedback.get("blockReason"))
        self._blocked = self._blocked or bool(reason and not reason.endswith("_UNSPECIFIED"))
        candidates = self._json.objects_of(payload.get("candidates"), "candidates")
        if not candidates or candidates[0].get("index") not in (0, None):
            return []
        self._finish = text_of(candidates[0].get("finishReason")) or self._finish
        content = self._json.object_of(candidates[0].get("content"), "candidates[0].content")
        parts = self._json.objects_of(content.get("parts"), "candidates[0].content.parts")
        return [event for part in parts for event in self._take_part(part)]

    def _take_part(self, part: JsonObject) -> list[StreamEvent]:
        signature = text_of(part.get("thoughtSignature"))
        if part.get("functionCall") is not None:
            return self._take_call(self._json.object_of(part["functionCall"], "functionCall"), signature)
        text = raw_text_of(part.get("text"))
        if text:
            return self._take_text("reasoning" if part.get("thought") is True else "text", text, signature)
        kind = next((key for key, value in part.items() if isinstance(value, dict) and key[-8:] != "Metadata"), None)
        if kind is not None:
            return self._start(_Open("text", closed=True)) + self._grow(self._json.marker(kind))
        return self._sign(signature) if signature else []

    def _take_text(self, kind: Literal["text", "reasoning"], text: str, signature: str) -> list[StreamEvent]:
        last = self._open[-1] if self._open else None
        goes_on = last is not None and last.kind == kind and not last.signature and not last.closed
        events = [] if goes_on else self._start(_Open(kind))
        events += self._grow(text)
        return events + self._sign(signature) if signature else events

    def _take_call(self, call: JsonObject, signature: str) -> list[StreamEvent]:
        made = _Open("call", signature=signature)
        made.name = text_of(call.get("name"))
        if not made.name:
            raise self._json.fault("a function call has no name")
        prefix = f"gemini-{time.time_ns() // 1_000_000}-"
        made.id = call_id_of(text_of(call.get("id")), self._ids, prefix=prefix)
        self._ids.add(made.id)
        arguments = call.get("args")
        if isinstance(arguments, str | dict | None):
            made.arguments = arguments if arguments is not None else {}
        else:
            raise self._json.fault(f"args must be an object, got {type(arguments).__name__}")
        return self._start(made)

    def _sign(self, signature: str) -> list[StreamEvent]:
        """Keep a signature: with the reasoning or call that it follows, or as a block of its own (GEM-16)."""
        last = self._open[-1] if self._open else None
        if last is None or last.kind == "text" or last.signature:
            return self._start(_Open("reasoning", signature=signature))
        last.signature = signature
        return []

    def _start(self, block: _Open) -> list[StreamEvent]:
        events = self._end_text()
        self._open.append(block)
        return events

    def _grow(self, text: str) -> list[StreamEvent]:
        last = self._open[-1]
        piece = last.text.add(text)
        return [StreamEvent(last.event, piece)] if piece else []

    def _end_text(self) -> list[StreamEvent]:
        """Return the rest of the last text, which nothing continues any more."""
        last = self._open[-1] if self._open else None
        rest = last.text.end() if last is not None else ""
        return [StreamEvent(last.event, rest)] if last is not None and rest else []

    def _response(self) -> LLMResponse:
        content = [self._block(block) for block in self._open]
        return LLMResponse(
            content, id=self._id, model=self._model, stop_reason=self._stop_reason(), usage=self._usage()
        )

    def _block(self, block: _Open) -> ContentBlock:
        signature = block.signature or None
        if block.kind == "call":
            cut = self._finish == "MAX_TOKENS"
            return made_tool_use(block.id, block.name, block.arguments, cut=cut, signature=signature)
        if block.kind == "reasoning":
            return ReasoningBlock(text=block.text.whole(), signature=signature, provenance=self._json.provider)
        return TextBlock.new(block.text.whole())

    def _stop_reason(self) -> str:
        if self._finish in _FILTERED or (self._blocked and not self._finish):
            return "content_filter"
        if self._finish != "MAX_TOKENS" and any(block.kind == "call" for block in self._open):
            return "tool_use"
        return _ORDINARY.get(self._finish) or self._finish.lower()

    def _usage(self) -> TokenUsage | None:
        """Return the counts; None when there are none that make sense, which is not the same as zero."""
        counts = known_counts(self._counts, _COUNTS)
        if counts is None or not self._counts:
            return None
        prompt, tool_prompt, candidates, thoughts, cached = counts
        return TokenUsage(
            input_tokens=prompt + tool_prompt,
            output_tokens=candidates + thoughts,
            cache_read_tokens=cached,
            reasoning_tokens=thoughts,
        )


class StreamReader(AnswerReader):
    """Reads the body of one streamed answer."""

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        super().__init__(provider=provider, model=model, redact=redact)
        self.done = False
        """Always false: no event says that nothing follows."""

    def feed(self, data: str) -> list[StreamEvent]:
        """Return the events of one server-sent event.

        Args:
            data: Its data.

        Raises:
            LLMProtocolError: It is no answer.
            AdapterError: It is an error in the clothes of an answer.
        """
        return self._take(self._json.parsed(data), data) if data.strip() else []

    def finish(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body: the rest of the text, the calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        if not self._finish and not self._blocked:
            raise self._json.fault("the stream ended before the answer did (no finishReason)")
        yield from self._end_text()
        response = self._response()
        yield from (StreamEvent("tool_use", block) for block in response.content if isinstance(block, ToolUseBlock))
        yield StreamEvent("done", response)


class _Open:
    """A block of the answer, to which more may come."""

    __slots__ = ("arguments", "closed", "id", "kind", "name", "signature", "text")

    def __init__(
        self, kind: Literal["text", "reasoning", "call"], *, signature: str = "", closed: bool = False
    ) -> None:
        self.kind = kind
        self.signature = signature
        self.closed = closed
        """Whether further text starts a block of its own."""
        self.text = GrowingText()
        self.id = ""
        self.name = ""
        self.arguments: str | JsonObject = {}

    @property
    def event(self) -> Literal["text", "reasoning"]:
        return "reasoning" if self.kind == "reasoning" else "text"

"""Answers of OpenAI's Responses API: from JSON, whole or in events, to a response and its events.

Not here: bytes and connections. Invariants: whatever JSON comes, nothing but an ``AdapterError`` is raised; the
response at the end of a stream is what the same answer would have given in one piece; the work is linear in its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..errors import AdapterError, UnsupportedToolCallError
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock, replace_lone_surrogates
from ..usage import TokenUsage
from ._faults import Redactor, payload_error
from ._pieces import (
    JsonObject,
    MendedText,
    PayloadReader,
    call_id_of,
    count_of,
    counts_of,
    made_tool_use,
    raw_text_of,
    text_of,
)
from ._protocol import LLMResponse, StreamEvent, ToolInputDelta
from ._responses_request import join_signature

__all__ = ["AnswerReader", "StreamReader"]

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING_DELTAS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_BETWEEN_PARTS = "\n\n"
"""What stands between two parts of a summary, which the API sends as items of a list."""

_STATUSES = {"rate_limit_exceeded": 429, "server_error": 500}
"""HTTP statuses that the codes of errors stand for; any other is a fault of the request."""


class AnswerReader:
    """Reads one answer.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked, for answers that do not name theirs.
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        self._payloads = PayloadReader(provider=provider, what="response of the Responses API", redact=redact)
        self._provider = provider
        self._redact = redact
        self._model = model
        self._call_ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._markers: dict[str, str] = {}

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds.

        Args:
            body: The body of a 2xx response.

        Raises:
            LLMProtocolError: It is no response.
            UnsupportedToolCallError: The model called something else than a function.
            AdapterError: The response has failed.
        """
        text = body.decode("utf-8-sig", "replace")
        return self._response(self._payloads.parsed(text), text)

    def _response(self, payload: JsonObject, text: str) -> LLMResponse:
        status = text_of(payload.get("status"))
        if payload.get("error") or status == "failed":
            raise self._error(payload.get("error"), text)
        if status not in ("", "completed", "incomplete"):
            raise self._payloads.fault(f"the response is {status}, although its answer has ended", text)
        if not isinstance(payload.get("output"), list):
            raise self._payloads.fault("the answer has no output", text)
        reason = text_of(
            self._payloads.object_of(payload.get("incomplete_details"), "incomplete_details").get("reason")
        )
        cut = reason == "max_output_tokens"
        content: list[ContentBlock] = []
        refused = False
        for number, item in enumerate(self._payloads.objects_of(payload["output"], "output")):
            content.extend(self._blocks(item, number, cut=cut))
            refused = refused or any(_is_refusal(part) for part in _list_of(item.get("content")))
        called = any(isinstance(block, ToolUseBlock) for block in content)
        return LLMResponse(
            content,
            id=text_of(payload.get("id")),
            model=text_of(payload.get("model")) or self._model,
            stop_reason=_stop_reason(status, reason, called=called, refused=refused),
            usage=_usage(payload.get("usage")),
        )

    def _error(self, error: object, text: str) -> AdapterError:
        told = dict(error) if isinstance(error, dict) else {}
        code = text_of(told.get("code"))
        told["type"] = text_of(told.get("type")) or code
        statuses = {told["type"]: _STATUSES.get(code, 400)} if code else {}
        return payload_error(self._provider, told, body=text, redact=self._redact, statuses=statuses)

    def _blocks(self, item: JsonObject, number: int, *, cut: bool) -> Iterator[ContentBlock]:
        kind = text_of(item.get("type"))
        if kind == "message":
            yield from self._message(item)
        elif kind == "reasoning":
            yield from self._reasoning(item)
        elif kind == "function_call":
            yield self._call(item, number, cut=cut and text_of(item.get("status")) != "completed")
        elif kind == "custom_tool_call":
            raise UnsupportedToolCallError(provider=self._provider, tool_type=kind)
        else:
            yield TextBlock.new(self._marker(kind))

    def _message(self, item: JsonObject) -> Iterator[ContentBlock]:
        for part in self._payloads.objects_of(item.get("content"), "output[].content"):
            kind = text_of(part.get("type"))
            if kind in ("output_text", "refusal"):
                text = text_of(part.get("text" if kind == "output_text" else "refusal"))
            else:
                text = self._marker(kind)
            if text:
                yield TextBlock.new(text)

    def _reasoning(self, item: JsonObject) -> Iterator[ContentBlock]:
        summary = [text_of(part.get("text")) for part in self._payloads.objects_of(item.get("summary"), "summary")]
        # Servers with open models tell the reasoning itself.
        whole = [text_of(part.get("text")) for part in self._payloads.objects_of(item.get("content"), "content")]
        text = _BETWEEN_PARTS.join(summary) or "".join(whole)
        encrypted = text_of(item.get("encrypted_content"))
        signature = join_signature(text_of(item.get("id")), encrypted) if encrypted else None
        if text or signature:
            yield ReasoningBlock(text=text, signature=signature, provenance=self._provider)

    def _call(self, item: JsonObject, number: int, *, cut: bool) -> ToolUseBlock:
        name = text_of(item.get("name"))
        if not name:
            raise self._payloads.fault("a function call has no name")
        arguments = item.get("arguments")
        if not isinstance(arguments, str | dict):
            arguments = ""
        return made_tool_use(self._call_id(item, number), name, arguments, cut=cut)

    def _call_id(self, item: JsonObject, number: int) -> str:
        key = text_of(item.get("id")) or str(number)
        known = self._call_ids.get(key)
        if known is None:
            known = self._call_ids[key] = call_id_of(text_of(item.get("call_id")), self._taken)
            self._taken.add(known)
        return known

    def _marker(self, kind: str) -> str:
        """Return the text that stands for something that has no block of its own here; logged once an answer."""
        if kind not in self._markers:
            self._markers[kind] = self._payloads.marker(kind)
        return self._markers[kind]


class StreamReader(AnswerReader):
    """Reads the events of one streamed answer."""

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        super().__init__(provider=provider, model=model, redact=redact)
        self._items: dict[int, JsonObject] = {}
        self._text = MendedText()  # the whole texts come once more, at the end
        self._reasoning_text = MendedText()
        self._answer: LLMResponse | None = None
        self._takers: Mapping[str, Callable[[JsonObject], Iterator[StreamEvent]]] = {
            **dict.fromkeys(_TEXT_DELTAS, self._take_text),
            **dict.fromkeys(_REASONING_DELTAS, self._take_reasoning),
            "response.reasoning_summary_part.added": self._take_part,
            "response.output_item.added": self._take_item,
            "response.output_item.done": self._take_item,
            "response.function_call_arguments.delta": self._take_arguments,
        }
        self.done = False
        """Whether the response is complete."""

    def feed(self, data: str) -> list[StreamEvent]:
        """Return the events of one server-sent event.

        Args:
            data: Its data.

        Raises:
            LLMProtocolError: It is no event of a response.
            UnsupportedToolCallError: The model called something else than a function.
            AdapterError: The response has failed.
        """
        data = data.strip()
        if self.done or not data or data == "[DONE]":
            return []
        event = self._payloads.parsed(data)
        kind = text_of(event.get("type"))
        if kind == "error" or (not kind and event.get("error")):
            raise self._error(event.get("error") or {key: event[key] for key in event if key != "type"}, data)
        if kind in _TERMINAL:
            self._take_end(kind, event, data)
            return []
        taker = self._takers.get(kind)
        return [] if taker is None else list(taker(event))

    def finish(self) -> list[StreamEvent]:
        """Return the events at the end of the body: the rest of the texts, the tool calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        response = self._answer
        if response is None:
            raise self._payloads.fault("the stream ended before the answer did (no response.completed)")
        events = [StreamEvent("reasoning", rest)] if (rest := self._reasoning_text.end()) else []
        events.extend([StreamEvent("text", rest)] if (rest := self._text.end()) else [])
        events.extend(StreamEvent("tool_use", block) for block in response.content if isinstance(block, ToolUseBlock))
        events.append(StreamEvent("done", response))
        return events

    def _take_end(self, kind: str, event: JsonObject, data: str) -> None:
        response = self._payloads.object_of(event.get("response"), "response")
        payload = {"status": kind.removeprefix("response."), **response}
        if not payload.get("output"):  # some servers leave it to the events
            payload["output"] = [self._items[index] for index in sorted(self._items)]
        self._answer = self._response(payload, data)
        self._items.clear()
        self.done = True

    def _take_text(self, event: JsonObject) -> Iterator[StreamEvent]:
        piece = self._text.add(raw_text_of(event.get("delta")))
        if piece:
            yield StreamEvent("text", piece)

    def _take_reasoning(self, event: JsonObject) -> Iterator[StreamEvent]:
        piece = self._reasoning_text.add(raw_text_of(event.get("delta")))
        if piece:
            yield StreamEvent("reasoning", piece)

    def _take_part(self, event: JsonObject) -> Iterator[StreamEvent]:
        if _index(event, "summary_index"):
            yield from self._take_reasoning({"delta": _BETWEEN_PARTS})

    def _take_item(self, event: JsonObject) -> Iterator[StreamEvent]:
        item = self._payloads.object_of(event.get("item"), "item")
        self._items[_index(event, "output_index")] = item
        if item.get("type") not in (None, "message", "reasoning", "function_call") and event["type"].endswith("done"):
            yield StreamEvent("text", self._marker(text_of(item.get("type"))))

    def _take_arguments(self, event: JsonObject) -> Iterator[StreamEvent]:
        number = _index(event, "output_index")
        item = self._items.get(number, {})
        piece = replace_lone_surrogates(raw_text_of(event.get("delta")))
        if piece and item:
            yield StreamEvent(
                "tool_input_delta", ToolInputDelta(self._call_id(item, number), text_of(item.get("name")), piece)
            )


def _stop_reason(status: str, reason: str, *, called: bool, refused: bool) -> str:
    if status == "incomplete":
        return "max_tokens" if reason == "max_output_tokens" else reason or "incomplete"
    if called:
        return "tool_use"
    return "refusal" if refused else "end_turn"


def _is_refusal(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "refusal"


def _list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _index(event: JsonObject, key: str) -> int:
    index = event.get(key)
    return index if isinstance(index, int) and not isinstance(index, bool) else 0


def _usage(value: object) -> TokenUsage | None:
    """Return the counts; None when there are none that make sense, which is not the same as zero."""
    told = counts_of(value, ("input_tokens", "output_tokens"))
    if not isinstance(value, dict) or not told or None in told.values():
        return None
    prompt, output = (value.get(f"{side}_tokens_details") for side in ("input", "output"))
    return TokenUsage(
        input_tokens=told.get("input_tokens") or 0,
        output_tokens=told.get("output_tokens") or 0,
        cache_read_tokens=count_of(prompt, "cached_tokens") or 0,
        cache_write_tokens=count_of(prompt, "cache_write_tokens") or 0,
        reasoning_tokens=count_of(output, "reasoning_tokens") or 0,
    )

"""Answers of the OpenAI chat protocol: from JSON, whole or in chunks, to a response and its events.

Not here: bytes and connections. Invariants: whatever JSON comes, nothing but an ``AdapterError`` is raised; the
response at the end of a stream is what the same answer would have given in one piece; the work is linear in its length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..errors import UnsupportedToolCallError
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
    made_tool_use,
    raw_text_of,
    text_of,
)
from ._protocol import LLMResponse, StreamEvent, ToolInputDelta
from ._text_tool_calls import extract_tool_calls

__all__ = ["AnswerReader", "StreamReader"]

_TOTALS = ("prompt_tokens", "completion_tokens")
_STOP_REASONS = {"stop": "end_turn", "tool_calls": "end_turn", "length": "max_tokens"}
"""``tool_calls`` alone means nothing: the calls that came decide (MOD-23)."""


class AnswerReader:
    """What reading a whole answer and reading a stream have in common.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked, for answers that do not name theirs.
        redact: Takes secrets out of what goes into errors.
        text_tools: Names of the tools whose calls are looked for in the text of an answer without calls; none when
            empty.
    """

    def __init__(self, *, provider: str, model: str, redact: Redactor, text_tools: Collection[str] = ()) -> None:
        self._provider = provider
        self._json = PayloadReader(provider=provider, what="chat completion", redact=redact)
        self._text_tools = text_tools
        self._id = ""
        self._model = model
        self._finish: str | None = None
        self._usage: TokenUsage | None = None
        self._reasoning = GrowingText()
        self._text = GrowingText()
        self._refusal = GrowingText()
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds.

        Args:
            body: The body of a 2xx response.

        Raises:
            LLMProtocolError: It is no answer.
            UnsupportedToolCallError: The model called something else than a function.
            AdapterError: It is an error in the clothes of an answer.
        """
        text = body.decode("utf-8-sig", "replace")
        payload = self._head(text)
        choice = self._first_choice(payload)
        if choice is None:
            raise self._json.fault("the answer has no choices", text)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise self._json.fault(f"choices[0].message must be an object, got {type(message).__name__}")
        self._take_finish(choice)
        self._take_texts(message)
        for item in self._json.objects_of(message.get("tool_calls"), "tool_calls"):
            call = self._new_call(item)
            self._take_call(call, item)
        return self._response()

    def _head(self, text: str) -> JsonObject:
        payload = self._json.parsed(text)
        if payload.get("error"):
            raise payload_error(self._provider, payload["error"], body=text, redact=self._json.redact)
        self._id = text_of(payload.get("id")) or self._id
        self._model = text_of(payload.get("model")) or self._model
        if usage := payload.get("usage"):
            self._take_usage(usage)
        return payload

    def _take_usage(self, usage: object) -> None:
        told = counts_of(usage, _TOTALS)
        if told:  # MOD-17: the last report counts, also one that makes no sense
            self._usage = None if None in told.values() else _usage(usage)

    def _first_choice(self, payload: JsonObject) -> JsonObject | None:
        choices = self._json.objects_of(payload.get("choices"), "choices")
        return choices[0] if choices else None

    def _take_finish(self, choice: JsonObject) -> None:
        if finish := choice.get("finish_reason"):
            self._finish = text_of(finish) or self._finish

    def _take_texts(self, message: JsonObject) -> tuple[str, str, str]:
        """Add the texts of a message or delta; return what is new of reasoning, text and refusal."""
        get = message.get  # once for each chunk of a stream: what is not there costs no call
        content, reasoning, refusal = get("content"), "", get("refusal")
        thoughts, text = ("", content) if isinstance(content, str) else self._content(content)
        if get("reasoning_content") or get("reasoning"):
            reasoning = _loose_text(get("reasoning_content")) or _loose_text(get("reasoning"))
        return (
            self._reasoning.add(reasoning + thoughts) if reasoning or thoughts else "",
            self._text.add(text) if text else "",
            self._refusal.add(raw_text_of(refusal)) if refusal else "",
        )

    def _content(self, content: object) -> tuple[str, str]:
        """Return reasoning and text: some servers send both as parts of the content."""
        if content is None:
            return "", ""
        if not isinstance(content, list):
            raise self._json.fault(f"content must be a string, got {type(content).__name__}")
        thoughts = [part["thinking"] for part in content if isinstance(part, dict) and "thinking" in part]
        return "".join(map(_loose_text, thoughts)), _loose_text(content)

    def _new_call(self, item: JsonObject) -> _Call:
        given = text_of(item.get("id"))
        call = _Call(call_id_of(given, self._by_id.keys()))
        self._calls.append(call)
        if given:
            self._by_id[given] = call
        return call

    def _take_call(self, call: _Call, item: JsonObject) -> str:
        """Add what a tool call, or a piece of one, says; return what is new of its arguments."""
        kind = item.get("type")
        if kind not in (None, "", "function"):
            raise UnsupportedToolCallError(provider=self._provider, tool_type=text_of(kind) or type(kind).__name__)
        function = self._json.object_of(item.get("function") or None, "tool_calls[].function")
        call.name = text_of(function.get("name")) or call.name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            call.value = arguments
            return ""
        if not isinstance(arguments, str | None):
            raise self._json.fault(f"arguments of a tool call must be a string, got {type(arguments).__name__}")
        if arguments:
            call.arguments.append(arguments)
        return arguments or ""

    def _response(self) -> LLMResponse:
        reasoning, text, refusal = (part.whole() for part in (self._reasoning, self._text, self._refusal))
        content: list[ContentBlock] = []
        if reasoning:
            content.append(ReasoningBlock(text=reasoning, provenance=self._provider))
        content.extend(TextBlock.new(part) for part in (text, refusal) if part)
        calls = list(self._tool_uses()) or (extract_tool_calls(text, self._text_tools) if self._text_tools else [])
        content.extend(calls)
        stop_reason = self._stop_reason(called=bool(calls))
        return LLMResponse(content, id=self._id, model=self._model, stop_reason=stop_reason, usage=self._usage)

    def _tool_uses(self) -> Iterator[ToolUseBlock]:
        for call in self._calls:
            if not call.name:
                raise self._json.fault("a tool call has no name")
            yield call.block(cut=self._finish == "length")

    def _stop_reason(self, *, called: bool) -> str:
        finish = self._finish or "stop"
        if called and finish not in ("length", "content_filter"):
            return "tool_use"
        if self._refusal:
            return "refusal"
        return _STOP_REASONS.get(finish, finish)


class StreamReader(AnswerReader):
    """Reads the chunks of one streamed answer."""

    def __init__(self, *, provider: str, model: str, redact: Redactor, text_tools: Collection[str] = ()) -> None:
        super().__init__(provider=provider, model=model, redact=redact, text_tools=text_tools)
        self._by_index: dict[int, _Call] = {}
        self._started = False
        self.done = False
        """Whether the server said that nothing follows."""

    def feed(self, data: str) -> list[StreamEvent]:
        """Return the events of one chunk.

        Args:
            data: The data of one server-sent event.

        Raises:
            LLMProtocolError: It is no chunk of an answer.
            UnsupportedToolCallError: The model called something else than a function.
            AdapterError: It is an error in the clothes of a chunk.
        """
        data = data.strip()
        if data == "[DONE]":
            self.done = True
        if self.done or not data:
            return []
        choice = self._first_choice(self._head(data))  # MOD-20: none in chunks about usage or filters
        if choice is None or choice.get("index") not in (0, None):
            return []
        self._started = True
        self._take_finish(choice)
        delta = self._json.object_of(choice.get("delta") or None, "choices[0].delta")
        reasoning, text, refusal = self._take_texts(delta)
        events = [StreamEvent("reasoning", reasoning)] if reasoning else []
        if text:
            events.append(StreamEvent("text", text))
        if refusal:
            events.append(StreamEvent("text", refusal))
        if calls := delta.get("tool_calls"):
            events.extend(self._take_calls(calls))
        return events

    def _take_calls(self, calls: object) -> Iterator[StreamEvent]:
        for item in self._json.objects_of(calls, "tool_calls"):
            call = self._call_of(item)
            piece = self._take_call(call, item)
            if piece:
                yield StreamEvent("tool_input_delta", call.delta(piece))

    def finish(self) -> list[StreamEvent]:
        """Return the events at the end of the body: the rest of the texts, the tool calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        if self._finish is None and not self.done:
            raise self._json.fault("the stream ended before the answer did (no finish_reason and no [DONE])")
        if not self._started:
            raise self._json.fault("the answer has no choices")
        events = [StreamEvent("reasoning", rest)] if (rest := self._reasoning.end()) else []
        events.extend(StreamEvent("text", rest) for part in (self._text, self._refusal) if (rest := part.end()))
        response = self._response()
        events.extend(StreamEvent("tool_use", block) for block in response.content if isinstance(block, ToolUseBlock))
        events.append(StreamEvent("done", response))
        return events

    def _call_of(self, item: JsonObject) -> _Call:
        index = item.get("index")
        if isinstance(index, int):
            call = self._by_index.get(index)
            if call is None:
                call = self._by_index[index] = self._new_call(item)
            return call
        # MOD-22: a server without indexes tells its calls apart by their ids, or sends one after the other.
        given = text_of(item.get("id"))
        if given:
            return self._by_id.get(given) or self._new_call(item)
        return self._calls[-1] if self._calls else self._new_call(item)


class _Call:
    """A tool call that grows piece by piece."""

    __slots__ = ("arguments", "id", "name", "value")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.arguments: list[str] = []
        self.value: JsonObject | None = None

    def delta(self, piece: str) -> ToolInputDelta:
        return ToolInputDelta(self.id, self.name, replace_lone_surrogates(piece))

    def block(self, *, cut: bool) -> ToolUseBlock:
        arguments = "".join(self.arguments) if self.value is None else self.value
        return made_tool_use(self.id, self.name, arguments, cut=cut)


def _loose_text(value: object) -> str:
    """Return a text that is a string, or a list of strings and of objects that hold one."""
    if not isinstance(value, list):
        return raw_text_of(value)
    parts: list[str] = []
    for item in value:
        if isinstance(item, dict):
            found = (item.get(key) for key in ("text", "content", "reasoning_content"))
            parts.append(next((text for text in found if isinstance(text, str)), ""))
        else:
            parts.append(raw_text_of(item))
    return "".join(parts)


def _usage(value: Any) -> TokenUsage:
    prompt, completion = (value.get(f"{side}_tokens_details") for side in ("prompt", "completion"))
    # What was read from a cache stands in OpenAI's place, in DeepSeek's, or in that of Kimi.
    cached = (
        count_of(prompt, "cached_tokens"),
        count_of(value, "prompt_cache_hit_tokens"),
        count_of(value, "cached_tokens"),
    )
    return TokenUsage(
        input_tokens=count_of(value, "prompt_tokens") or 0,
        output_tokens=count_of(value, "completion_tokens") or 0,
        cache_read_tokens=next((count for count in cached if count is not None), 0),
        cache_write_tokens=count_of(prompt, "cache_write_tokens") or 0,
        reasoning_tokens=count_of(completion, "reasoning_tokens") or 0,
    )

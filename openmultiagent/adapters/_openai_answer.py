"""Answers of the OpenAI chat protocol: from JSON, whole or in chunks, to a response and its events.

Not here: bytes and connections. Invariants: whatever JSON comes, nothing but an ``AdapterError`` is raised; the
response at the end of a stream is what the same answer would have given in one piece; the work is linear in its length.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from ..errors import InvalidMessageError, LLMProtocolError, UnsupportedToolCallError
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock, replace_lone_surrogates
from ..usage import TokenUsage
from ._faults import Redactor, kept, payload_error
from ._protocol import LLMResponse, StreamEvent, ToolInputDelta
from ._tool_input import parse_tool_input

__all__ = ["AnswerReader", "StreamReader"]

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "end_turn", "length": "max_tokens"}
"""``tool_calls`` alone means nothing: the calls that came decide (MOD-23)."""

JsonObject = dict[str, Any]


class AnswerReader:
    """What reading a whole answer and reading a stream have in common.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        model: The model that was asked, for answers that do not name theirs.
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        self._provider = provider
        self._redact = redact
        self._id = ""
        self._model = model
        self._finish: str | None = None
        self._usage: TokenUsage | None = None
        self._reasoning = _Text()
        self._text = _Text()
        self._refusal = _Text()
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
            raise self._fault("the answer has no choices", text)
        message = self._object(choice.get("message"), "choices[0].message")
        self._take_finish(choice)
        self._take_texts(message)
        for item in self._items(message.get("tool_calls"), "tool_calls"):
            call = self._new_call(item)
            self._take_call(call, item)
        return self._response()

    def _head(self, text: str) -> JsonObject:
        try:
            payload = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"not valid JSON: {error}", text) from error
        payload = self._object(payload, "the answer")
        if payload.get("error"):
            raise payload_error(self._provider, payload["error"], body=text, redact=self._redact)
        self._id = _string(payload.get("id")) or self._id
        self._model = _string(payload.get("model")) or self._model
        self._usage = _usage(payload.get("usage")) or self._usage
        return payload

    def _first_choice(self, payload: JsonObject) -> JsonObject | None:
        choices = self._items(payload.get("choices"), "choices")
        return choices[0] if choices else None

    def _take_finish(self, choice: JsonObject) -> None:
        self._finish = _string(choice.get("finish_reason")) or self._finish

    def _take_texts(self, message: JsonObject) -> tuple[str, str, str]:
        """Add the texts of a message or delta; return what is new of reasoning, text and refusal."""
        reasoning = _loose_text(message.get("reasoning_content")) or _loose_text(message.get("reasoning"))
        return (
            self._reasoning.add(reasoning),
            self._text.add(self._content(message.get("content"))),
            self._refusal.add(_raw_string(message.get("refusal"))),
        )

    def _content(self, content: object) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            raise self._fault(f"content must be a string, got {type(content).__name__}")
        return _loose_text(content)

    def _new_call(self, item: JsonObject) -> _Call:
        given = _string(item.get("id"))
        # A result finds its call by the id: none, or one that was given twice, would lose it.
        call = _Call(given if given and given not in self._by_id else f"call_{os.urandom(12).hex()}")
        self._calls.append(call)
        if given:
            self._by_id[given] = call
        return call

    def _take_call(self, call: _Call, item: JsonObject) -> str:
        """Add what a tool call, or a piece of one, says; return what is new of its arguments."""
        kind = item.get("type")
        if kind not in (None, "", "function"):
            raise UnsupportedToolCallError(provider=self._provider, tool_type=_string(kind) or type(kind).__name__)
        function = self._object(item.get("function") or {}, "tool_calls[].function")
        call.name = _string(function.get("name")) or call.name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            call.value = arguments
            return ""
        if not isinstance(arguments, str | None):
            raise self._fault(f"arguments of a tool call must be a string, got {type(arguments).__name__}")
        if arguments:
            call.arguments.append(arguments)
        return arguments or ""

    def _response(self) -> LLMResponse:
        reasoning, text, refusal = (part.whole() for part in (self._reasoning, self._text, self._refusal))
        content: list[ContentBlock] = []
        if reasoning:
            content.append(ReasoningBlock(text=reasoning, provenance=self._provider))
        content.extend(TextBlock(text=part) for part in (text, refusal) if part)
        content.extend(self._tool_uses())
        return LLMResponse(content, id=self._id, model=self._model, stop_reason=self._stop_reason(), usage=self._usage)

    def _tool_uses(self) -> Iterator[ToolUseBlock]:
        for call in self._calls:
            if not call.name:
                raise self._fault("a tool call has no name")
            yield call.block(cut=self._finish == "length")

    def _stop_reason(self) -> str:
        finish = self._finish or "stop"
        if self._calls and finish not in ("length", "content_filter"):
            return "tool_use"
        if self._refusal:
            return "refusal"
        return _STOP_REASONS.get(finish, finish)

    def _object(self, value: object, what: str) -> JsonObject:
        if not isinstance(value, dict):
            raise self._fault(f"{what} must be an object, got {type(value).__name__}")
        return value

    def _items(self, value: object, what: str) -> list[JsonObject]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._fault(f"{what} must be an array, got {type(value).__name__}")
        return [self._object(item, f"{what}[]") for item in value]

    def _fault(self, reason: str, body: str | None = None) -> LLMProtocolError:
        return LLMProtocolError(
            kept(f"{self._provider} API sent something that is no chat completion: {reason}", self._redact),
            provider=self._provider,
            body=None if body is None else kept(body, self._redact),
        )


class StreamReader(AnswerReader):
    """Reads the chunks of one streamed answer."""

    def __init__(self, *, provider: str, model: str, redact: Redactor) -> None:
        super().__init__(provider=provider, model=model, redact=redact)
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
        delta = self._object(choice.get("delta") or {}, "choices[0].delta")
        reasoning, text, refusal = self._take_texts(delta)
        events = [StreamEvent("reasoning", reasoning)] if reasoning else []
        events.extend(StreamEvent("text", piece) for piece in (text, refusal) if piece)
        for item in self._items(delta.get("tool_calls"), "tool_calls"):
            call = self._call_of(item)
            piece = self._take_call(call, item)
            if piece:
                events.append(StreamEvent("tool_input_delta", call.delta(piece)))
        return events

    def finish(self) -> list[StreamEvent]:
        """Return the events at the end of the body: the rest of the texts, the tool calls, and ``done``.

        Raises:
            LLMProtocolError: The answer is not complete.
        """
        if self._finish is None and not self.done:
            raise self._fault("the stream ended before the answer did (no finish_reason and no [DONE])")
        if not self._started:
            raise self._fault("the answer has no choices")
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
        given = _string(item.get("id"))
        if given:
            return self._by_id.get(given) or self._new_call(item)
        return self._calls[-1] if self._calls else self._new_call(item)


class _Text:
    """A text that grows piece by piece; the halves of a surrogate pair may come in two pieces."""

    __slots__ = ("_half", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._half = ""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, piece: str) -> str:
        """Add a piece; return what can be shown now."""
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        piece = replace_lone_surrogates(piece)
        if piece:
            self._parts.append(piece)
        return piece

    def end(self) -> str:
        """Add what was held back; return it."""
        rest, self._half = replace_lone_surrogates(self._half), ""
        if rest:
            self._parts.append(rest)
        return rest

    def whole(self) -> str:
        """Return the whole text."""
        self.end()
        return "".join(self._parts)


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
        if self.value is None:
            value, fault = parse_tool_input(replace_lone_surrogates("".join(self.arguments)), cut=cut)
        else:
            value, fault = replace_lone_surrogates(self.value), None
        try:
            return ToolUseBlock(id=self.id, name=self.name, input=value, input_error=fault)
        except InvalidMessageError as error:  # NaN, too deep, or too large a number
            fault = f"the arguments are no JSON data: {error}"
            return ToolUseBlock(id=self.id, name=self.name, input={}, input_error=fault)


def _string(value: object) -> str:
    return replace_lone_surrogates(value) if isinstance(value, str) else ""


def _raw_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _loose_text(value: object) -> str:
    """Return a text that is a string, or a list of strings and of objects that hold one."""
    if not isinstance(value, list):
        return _raw_string(value)
    parts: list[str] = []
    for item in value:
        if isinstance(item, dict):
            found = (item.get(key) for key in ("text", "content", "reasoning_content"))
            parts.append(next((text for text in found if isinstance(text, str)), ""))
        else:
            parts.append(_raw_string(item))
    return "".join(parts)


def _usage(value: object) -> TokenUsage | None:
    """Return the counts; None when there are none, which is not the same as zero."""
    if not isinstance(value, dict):
        return None
    if not any(isinstance(value.get(key), int) for key in ("prompt_tokens", "completion_tokens")):
        return None
    return TokenUsage(
        input_tokens=_count(value, "prompt_tokens"),
        output_tokens=_count(value, "completion_tokens"),
        cache_read_tokens=_count(value.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(value.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(counts: object, key: str) -> int:
    count = counts.get(key) if isinstance(counts, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0

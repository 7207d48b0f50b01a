"""What the answers of all protocols are made of, and the two that OpenAI has.

They are written by the providers' documentation and not with the library's adapters in mind: a test of both would
otherwise prove nothing. Not here: connections and time. Invariant: the events of a stream come to the same answer as
the whole.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..adapters import LLMResponse
from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from ..usage import TokenUsage
from ._served import Refused, Served

__all__ = ["JsonObject", "OpenAIChat", "OpenAIResponses", "ProtocolForms", "WireEvent", "arguments_text", "chunks_of"]

JsonObject = dict[str, Any]

WireEvent = tuple[str | None, JsonObject | str]
"""An event of a stream: its name, if it has one, and its data."""


class ProtocolForms(ABC):
    """How a provider writes down an answer.

    Args:
        answer: The answer.
        served: How it is delivered.
    """

    stream_type: ClassVar[str] = "text/event-stream"
    """The content type of streams."""
    types: ClassVar[dict[int, str]]
    """The provider's words for kinds of errors, by status."""

    def __init__(self, answer: LLMResponse, served: Served) -> None:
        self.answer = answer
        self.served = served
        self.quirks = served.quirks
        self.content: list[ContentBlock] = [] if "no_choices" in served.quirks else list(answer.content)

    @abstractmethod
    def whole(self) -> JsonObject:
        """Return the answer in one piece."""

    @abstractmethod
    def events(self) -> Iterator[WireEvent]:
        """Yield the events of the streamed answer."""

    @classmethod
    @abstractmethod
    def refusal(cls, refused: Refused) -> JsonObject:
        """Return the body of a refusal."""

    @classmethod
    def failure(cls, refused: Refused) -> WireEvent:
        """Return the event that tells of a failure within a stream."""
        return None, cls.refusal(refused)

    @classmethod
    def refusal_headers(cls, refused: Refused) -> Mapping[str, str]:  # noqa: ARG003 - one signature for all protocols
        """Return the headers of a refusal."""
        return {}

    @classmethod
    def framed(cls, event: WireEvent, *, crlf: bool) -> bytes:
        """Return the bytes of an event."""
        name, data = event
        end = "\r\n" if crlf else "\n"
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        head = "" if name is None else f"event: {name}{end}"
        return f"{head}data: {text}{end}{end}".encode()

    @classmethod
    def failed(cls, refused: Refused, *, crlf: bool) -> bytes:
        """Return the bytes that tell of a failure within a stream."""
        return cls.framed(cls.failure(refused), crlf=crlf)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of an answer."""
        return {}

    @property
    def calls(self) -> list[ToolUseBlock]:
        """The tool calls of the answer."""
        return [block for block in self.content if isinstance(block, ToolUseBlock)]

    def call_id(self, block: ToolUseBlock) -> str | None:
        """Return the id that a call is sent with."""
        if "no_call_ids" in self.quirks:
            return None
        return "call_same" if "same_call_ids" in self.quirks else block.id

    def chunks(self, text: str) -> Iterator[str]:
        """Yield a text in pieces."""
        return chunks_of(text, self.served.chunk_size)

    def arguments(self, block: ToolUseBlock) -> str:
        """Return the JSON text of a call's input, or what is left of it."""
        text = arguments_text(block)
        return text[: len(text) // 2] if "broken_arguments" in self.quirks else text


def chunks_of(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces.

    Args:
        text: The text.
        size: Characters of a piece.
    """
    return (text[start : start + size] for start in range(0, len(text), size))


def arguments_text(block: ToolUseBlock) -> str:
    """Return the JSON text of a call's input.

    Args:
        block: The call.
    """
    return json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))


class _OpenAI(ProtocolForms):
    types: ClassVar[dict[int, str]] = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}

    @classmethod
    def refusal(cls, refused: Refused) -> JsonObject:
        kind = refused.type or cls.types.get(refused.status, "invalid_request_error")
        return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}}


class OpenAIChat(_OpenAI):
    """The Chat Completions protocol."""

    def whole(self) -> JsonObject:
        """Return a ``chat.completion``."""
        choices = [{"index": 0, "message": self._message(), "finish_reason": self._finish()}]
        body: JsonObject = {
            "id": self.answer.id,
            "object": "chat.completion",
            "model": self.answer.model,
            "choices": [] if "no_choices" in self.quirks else choices,
        }
        if self.answer.usage is not None:
            body["usage"] = _chat_usage(self.answer.usage)
        return body

    def events(self) -> Iterator[WireEvent]:
        """Yield ``chat.completion.chunk`` objects and ``[DONE]``."""
        if "empty_chunks" in self.quirks:
            yield self._chunk(choices=[])
            yield self._chunk(choices=None)
            yield self._chunk(choices=[{"index": 0, "delta": None, "finish_reason": None}])
        if "no_choices" not in self.quirks:
            yield self._delta({"role": "assistant"})
            for delta in self._deltas():
                yield self._delta(delta)
            if "no_finish" not in self.quirks:
                yield self._chunk(choices=[{"index": 0, "delta": {}, "finish_reason": self._finish()}])
        if self.answer.usage is not None:
            yield self._chunk(choices=[], usage=_chat_usage(self.answer.usage))
        if "no_finish" not in self.quirks:
            yield None, "[DONE]"

    def _message(self) -> JsonObject:
        texts = [block.text for block in self.content if isinstance(block, TextBlock)]
        reasoning = [block.text for block in self.content if isinstance(block, ReasoningBlock)]
        message: JsonObject = {"role": "assistant", "content": "".join(texts) if texts else None}
        if reasoning:
            message["reasoning_content"] = "".join(reasoning)
        if self.calls:
            message["tool_calls"] = [self._call(block, self._arguments(block)) for block in self.calls]
        return message

    def _deltas(self) -> Iterator[JsonObject]:
        for kind, key in ((ReasoningBlock, "reasoning_content"), (TextBlock, "content")):
            for block in self.content:
                if isinstance(block, kind):
                    yield from ({key: chunk} for chunk in self.chunks(block.text))
        for index, block in enumerate(self.calls):
            arguments = self._arguments(block)
            if not isinstance(arguments, str):
                yield {"tool_calls": [{"index": index, **self._call(block, arguments)}]}
                continue
            yield {"tool_calls": [{"index": index, **self._call(block, "")}]}
            for chunk in self.chunks(arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": chunk}}]}

    def _arguments(self, block: ToolUseBlock) -> str | JsonObject:
        return block.input if "object_arguments" in self.quirks else self.arguments(block)

    def _call(self, block: ToolUseBlock, arguments: str | JsonObject) -> JsonObject:
        call: JsonObject = {"type": "function", "function": {"name": block.name, "arguments": arguments}}
        call_id = self.call_id(block)
        return call if call_id is None else {"id": call_id, **call}

    def _finish(self) -> str | None:
        if "no_finish" in self.quirks:
            return None
        words = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
        return words.get(self.answer.stop_reason, self.answer.stop_reason)

    def _delta(self, delta: JsonObject) -> WireEvent:
        return self._chunk(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    def _chunk(self, **fields: Any) -> WireEvent:
        extra = {"unheard_of": {"x": 1}} if "unknown_events" in self.quirks else {}
        return None, {
            "id": self.answer.id,
            "object": "chat.completion.chunk",
            "model": self.answer.model,
            **fields,
            **extra,
        }


def _chat_usage(usage: TokenUsage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


class OpenAIResponses(_OpenAI):
    """The Responses protocol."""

    def whole(self) -> JsonObject:
        """Return a ``response``."""
        stop = self.answer.stop_reason
        cut = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}.get(stop)
        body: JsonObject = {
            "id": self.answer.id,
            "object": "response",
            "status": "completed" if cut is None else "incomplete",
            "model": self.answer.model,
            "output": [self._item(index, block) for index, block in enumerate(self.content)],
            "error": None,
            "incomplete_details": None if cut is None else {"reason": cut},
        }
        if self.answer.usage is not None:
            body["usage"] = _responses_usage(self.answer.usage)
        return body

    def events(self) -> Iterator[WireEvent]:
        """Yield the events of a response, each with its number."""
        for number, event in enumerate(self._events()):
            yield event["type"], {**event, "sequence_number": number}

    @classmethod
    def failure(cls, refused: Refused) -> WireEvent:
        """Return an ``error`` event."""
        code = refused.code or cls.types.get(refused.status, "invalid_request_error")
        return "error", {"type": "error", "code": code, "message": refused.message, "param": None}

    def _events(self) -> Iterator[JsonObject]:
        whole = self.whole()
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        if "unknown_events" in self.quirks:
            yield {"type": "response.unheard_of", "item_id": "x"}
        if "empty_chunks" in self.quirks:
            yield {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": ""}
        for index, (block, item) in enumerate(zip(self.content, whole["output"], strict=True)):
            yield from self._item_events(index, block, item)
        if "no_finish" not in self.quirks:
            yield {"type": f"response.{whole['status']}", "response": whole}

    def _item_events(self, index: int, block: ContentBlock, item: JsonObject) -> Iterator[JsonObject]:
        place = {"item_id": item.get("id"), "output_index": index}
        blank: JsonObject = {"content": [], "summary": [], "arguments": ""}
        empty = {**item, "status": "in_progress", **{key: blank[key] for key in blank.keys() & item.keys()}}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        if isinstance(block, ToolUseBlock):
            text = item["arguments"] if isinstance(item["arguments"], str) else ""
            for chunk in self.chunks(text):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": chunk}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        elif isinstance(block, ReasoningBlock):
            if block.text:
                part = {**place, "summary_index": 0}
                yield {"type": "response.reasoning_summary_part.added", **part, "part": _summary("")}
                for chunk in self.chunks(block.text):
                    yield {"type": "response.reasoning_summary_text.delta", **part, "delta": chunk}
                yield {"type": "response.reasoning_summary_text.done", **part, "text": block.text}
        elif isinstance(block, TextBlock):
            part = {**place, "content_index": 0}
            yield {"type": "response.content_part.added", **part, "part": _output_text("")}
            for chunk in self.chunks(block.text):
                yield {"type": "response.output_text.delta", **part, "delta": chunk}
            yield {"type": "response.output_text.done", **part, "text": block.text}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def _item(self, index: int, block: ContentBlock) -> JsonObject:
        if isinstance(block, ToolUseBlock):
            loose = "object_arguments" in self.quirks
            item: JsonObject = {
                "type": "function_call",
                "id": f"fc_{index}",
                "status": "completed" if self.answer.stop_reason != "max_tokens" else "incomplete",
                "name": block.name,
                "arguments": block.input if loose else self.arguments(block),
            }
            call_id = self.call_id(block)
            return item if call_id is None else {**item, "call_id": call_id}
        if isinstance(block, ReasoningBlock):
            item_id, _, encrypted = (block.signature or f"rs_{index}:").partition(":")
            summary = [_summary(block.text)] if block.text else []
            item = {"type": "reasoning", "id": item_id, "summary": summary}
            return {**item, "encrypted_content": encrypted} if encrypted else item
        text = block.text if isinstance(block, TextBlock) else ""
        content = [_output_text(text)]
        return {"type": "message", "id": f"msg_{index}", "status": "completed", "role": "assistant", "content": content}


def _output_text(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def _summary(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}


def _responses_usage(usage: TokenUsage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }

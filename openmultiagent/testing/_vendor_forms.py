"""The answers of Anthropic's Messages and of Google's Gemini protocol.

They are written by the providers' documentation and not with the library's adapters in mind: a test of both would
otherwise prove nothing. Not here: connections and time. Invariant: the events of a stream come to the same answer as
the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from ..usage import TokenUsage
from ._protocol_forms import JsonObject, ProtocolForms, WireEvent
from ._served import Refused

__all__ = ["AnthropicMessages", "GeminiContent"]


class AnthropicMessages(ProtocolForms):
    """The Messages protocol."""

    types: ClassVar[dict[int, str]] = {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        504: "timeout_error",
        529: "overloaded_error",
    }

    @classmethod
    def refusal(cls, refused: Refused) -> JsonObject:
        """Return an ``error``."""
        kind = refused.type or cls.types.get(refused.status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": refused.message}, "request_id": "req_fake"}

    @classmethod
    def failure(cls, refused: Refused) -> WireEvent:
        """Return an ``error`` event."""
        return "error", cls.refusal(refused)

    def whole(self) -> JsonObject:
        """Return a ``message``."""
        return {
            **self._message(),
            "content": [self._block(block) for block in self.content],
            "stop_reason": self._stop(),
            **_anthropic_usage(self.answer.usage),
        }

    def events(self) -> Iterator[WireEvent]:
        """Yield the events of a message, each with its name."""
        for event in self._events():
            yield event["type"], event

    def _events(self) -> Iterator[JsonObject]:
        begun = {**self._message(), "content": [], "stop_reason": None, **_anthropic_usage(self.answer.usage, output=1)}
        yield {"type": "message_start", "message": begun}
        if "empty_chunks" in self.quirks:
            yield {"type": "ping"}
        if "unknown_events" in self.quirks:
            yield {"type": "unheard_of", "x": 1}
        for index, block in enumerate(self.content):
            yield {"type": "content_block_start", "index": index, "content_block": self._start(block)}
            for delta in self._deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        if "no_finish" not in self.quirks:
            end = {"stop_reason": self._stop(), "stop_sequence": None}
            yield {"type": "message_delta", "delta": end, **_anthropic_usage(self.answer.usage)}
            yield {"type": "message_stop"}

    def _message(self) -> JsonObject:
        head = {"id": self.answer.id, "type": "message", "role": "assistant", "model": self.answer.model}
        return {**head, "stop_sequence": None}

    def _stop(self) -> str | None:
        words = {"content_filter": "refusal"}
        return None if "no_finish" in self.quirks else words.get(self.answer.stop_reason, self.answer.stop_reason)

    def _block(self, block: ContentBlock) -> JsonObject:
        if isinstance(block, ToolUseBlock):
            loose = {"object_arguments", "broken_arguments"} & self.quirks
            return {**self._call(block), "input": self.arguments(block) if loose else block.input}
        if isinstance(block, ReasoningBlock) and not block.redacted_data:
            return {"type": "thinking", "thinking": block.text, "signature": block.signature or ""}
        return {**self._start(block), "text": block.text} if isinstance(block, TextBlock) else self._start(block)

    def _start(self, block: ContentBlock) -> JsonObject:
        if isinstance(block, ToolUseBlock):
            return {**self._call(block), "input": {}}
        if isinstance(block, ReasoningBlock):
            if block.redacted_data:
                return {"type": "redacted_thinking", "data": block.redacted_data}
            return {"type": "thinking", "thinking": "", "signature": ""}
        return {"type": "text", "text": ""}

    def _call(self, block: ToolUseBlock) -> JsonObject:
        call_id = self.call_id(block)
        call = {"type": "tool_use", "name": block.name}
        return call if call_id is None else {**call, "id": call_id}

    def _deltas(self, block: ContentBlock) -> Iterator[JsonObject]:
        if isinstance(block, ToolUseBlock):
            if "object_arguments" in self.quirks:
                yield {"type": "input_json_delta", "partial_json": block.input}
                return
            for chunk in self.chunks(self.arguments(block)):
                yield {"type": "input_json_delta", "partial_json": chunk}
        elif isinstance(block, TextBlock):
            for chunk in self.chunks(block.text):
                yield {"type": "text_delta", "text": chunk}
        elif isinstance(block, ReasoningBlock) and not block.redacted_data:
            for chunk in self.chunks(block.text):
                yield {"type": "thinking_delta", "thinking": chunk}
            if block.signature:
                yield {"type": "signature_delta", "signature": block.signature}


def _anthropic_usage(usage: TokenUsage | None, *, output: int | None = None) -> JsonObject:
    if usage is None:
        return {}
    counts: JsonObject = {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens if output is None else min(output, usage.output_tokens),
    }
    if output is None and usage.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return {"usage": counts}


class GeminiContent(ProtocolForms):
    """The generateContent protocol."""

    types: ClassVar[dict[int, str]] = {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }

    @classmethod
    def refusal(cls, refused: Refused) -> JsonObject:
        """Return an ``error``."""
        word = refused.type or cls.types.get(refused.status, "INVALID_ARGUMENT")
        return {"error": {"code": refused.status, "message": refused.message, "status": word}}

    def whole(self) -> JsonObject:
        """Return a ``GenerateContentResponse``."""
        return self._payload([self._part(block) for block in self.content], last=True)

    def events(self) -> Iterator[WireEvent]:
        """Yield ``GenerateContentResponse`` objects, each of which continues the one before."""
        if "empty_chunks" in self.quirks:
            yield None, {"responseId": self.answer.id}
            yield None, {"candidates": []}
        if "unknown_events" in self.quirks:
            yield None, {"unheardOf": {"x": 1}, "responseId": self.answer.id}
        parts = [part for block in self.content for part in self._pieces(block)]
        for part in parts[:-1]:
            yield None, self._payload([part], last=False)
        yield None, self._payload(parts[-1:], last=True)

    def _payload(self, parts: list[JsonObject], *, last: bool) -> JsonObject:
        candidate: JsonObject = {"index": 0, "content": {"role": "model", "parts": parts}}
        if last and "no_finish" not in self.quirks:
            candidate["finishReason"] = self._finish()
        payload: JsonObject = {"responseId": self.answer.id, "modelVersion": self.answer.model}
        if "no_choices" not in self.quirks:
            payload["candidates"] = [candidate]
        if last and self.answer.usage is not None:
            payload["usageMetadata"] = _gemini_usage(self.answer.usage)
        return payload

    def _finish(self) -> str:
        words = {"max_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
        stop = self.answer.stop_reason
        return "STOP" if stop in ("end_turn", "tool_use", "stop_sequence") else words.get(stop, stop.upper())

    def _pieces(self, block: ContentBlock) -> Iterator[JsonObject]:
        part = self._part(block)
        if "text" not in part:
            yield part
            return
        chunks = list(self.chunks(part["text"])) or [""]
        signature = part.pop("thoughtSignature", None)
        for number, chunk in enumerate(chunks, 1):
            ending = {"thoughtSignature": signature} if signature and number == len(chunks) else {}
            yield {**part, "text": chunk, **ending}

    def _part(self, block: ContentBlock) -> JsonObject:
        if isinstance(block, ToolUseBlock):
            loose = {"object_arguments", "broken_arguments"} & self.quirks
            call = {"name": block.name, "args": self.arguments(block) if loose else block.input}
            call_id = self.call_id(block)
            part: JsonObject = {"functionCall": call if call_id is None else {"id": call_id, **call}}
        elif isinstance(block, ReasoningBlock):
            part = {"text": block.text, "thought": True}
        else:
            part = {"text": block.text if isinstance(block, TextBlock) else ""}
        signature = block.signature if isinstance(block, ToolUseBlock | ReasoningBlock) else None
        return {**part, "thoughtSignature": signature} if signature else part


def _gemini_usage(usage: TokenUsage) -> JsonObject:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "totalTokenCount": usage.total_tokens,
    }

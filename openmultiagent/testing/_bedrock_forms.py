"""The answers of Amazon Bedrock's Converse API, as JSON and as AWS's event streams.

They are written by AWS's documentation and not with the library's adapter in mind: a test of both would otherwise prove
nothing. Not here: connections and time. Invariant: the events of a stream come to the same answer as the whole.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from ..messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from ..usage import TokenUsage
from ._protocol_forms import JsonObject, ProtocolForms, WireEvent
from ._served import Refused

__all__ = ["BedrockConverse"]

_STRING = 7
"""The type of a header that is a text."""


class BedrockConverse(ProtocolForms):
    """The Converse protocol."""

    stream_type: ClassVar[str] = "application/vnd.amazon.eventstream"
    types: ClassVar[dict[int, str]] = {
        401: "UnrecognizedClientException",
        403: "AccessDeniedException",
        404: "ResourceNotFoundException",
        408: "ModelTimeoutException",
        424: "ModelErrorException",
        429: "ThrottlingException",
        503: "ServiceUnavailableException",
    }

    @classmethod
    def refusal(cls, refused: Refused) -> JsonObject:
        """Return the message of an exception; its name is in a header."""
        return {"message": refused.message}

    @classmethod
    def refusal_headers(cls, refused: Refused) -> Mapping[str, str]:
        """Return the name of an exception."""
        return {"x-amzn-errortype": f"{cls._exception(refused)}:http://internal.amazon.com/coral/com.amazon.bedrock/"}

    @classmethod
    def framed(cls, event: WireEvent, *, crlf: bool) -> bytes:  # noqa: ARG003 - there are no lines
        """Return a message of an event stream."""
        name, data = event
        headers = {":event-type": name or "", ":content-type": "application/json", ":message-type": "event"}
        return _message(headers, data)

    @classmethod
    def failed(cls, refused: Refused, *, crlf: bool) -> bytes:  # noqa: ARG003 - there are no lines
        """Return a message that holds an exception."""
        name = cls._exception(refused)
        headers = {":exception-type": name[0].lower() + name[1:], ":content-type": "application/json"}
        return _message({**headers, ":message-type": "exception"}, cls.refusal(refused))

    @property
    def headers(self) -> Mapping[str, str]:
        """The id of the request, which is all the id that an answer has."""
        return {"x-amzn-requestid": self.answer.id}

    def whole(self) -> JsonObject:
        """Return the body of a ``ConverseResponse``."""
        content = [self._part(block) for block in self.content]
        body: JsonObject = {"output": {"message": {"role": "assistant", "content": content}}, **self._end()}
        return {**body, **self._metadata()}

    def events(self) -> Iterator[WireEvent]:
        """Yield the events of a ``ConverseStreamOutput``, each with its name."""
        yield "messageStart", {"role": "assistant", "p": "abcdefgh"}
        if "unknown_events" in self.quirks:
            yield "unheardOf", {"x": 1}
        if "empty_chunks" in self.quirks:
            yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {}}
        for index, block in enumerate(self.content):
            place: JsonObject = {"contentBlockIndex": index}
            if isinstance(block, ToolUseBlock):
                yield "contentBlockStart", {**place, "start": {"toolUse": self._call(block)}}
            for delta in self._deltas(block):
                yield "contentBlockDelta", {**place, "delta": delta, "p": "abcd"}
            yield "contentBlockStop", {**place, "p": "ab"}
        if "no_finish" not in self.quirks:
            yield "messageStop", self._end()
            yield "metadata", self._metadata()

    @classmethod
    def _exception(cls, refused: Refused) -> str:
        otherwise = "InternalServerException" if refused.status >= 500 else "ValidationException"
        return refused.type or cls.types.get(refused.status, otherwise)

    def _end(self) -> JsonObject:
        words = {"content_filter": "content_filtered"}
        stop = words.get(self.answer.stop_reason, self.answer.stop_reason)
        return {"stopReason": None if "no_finish" in self.quirks else stop}

    def _metadata(self) -> JsonObject:
        usage = {} if self.answer.usage is None else {"usage": _usage(self.answer.usage)}
        return {**usage, "metrics": {"latencyMs": 1}}

    def _part(self, block: ContentBlock) -> JsonObject:
        if isinstance(block, ToolUseBlock):
            loose = {"object_arguments", "broken_arguments"} & self.quirks
            return {"toolUse": {**self._call(block), "input": self.arguments(block) if loose else block.input}}
        if isinstance(block, ReasoningBlock):
            if block.redacted_data:
                return {"reasoningContent": {"redactedContent": block.redacted_data}}
            return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": block.signature}}}
        return {"text": block.text if isinstance(block, TextBlock) else ""}

    def _call(self, block: ToolUseBlock) -> JsonObject:
        call_id = self.call_id(block)
        return {"name": block.name} if call_id is None else {"toolUseId": call_id, "name": block.name}

    def _deltas(self, block: ContentBlock) -> Iterator[JsonObject]:
        if isinstance(block, ToolUseBlock):
            if "object_arguments" in self.quirks:
                yield {"toolUse": {"input": block.input}}
                return
            for chunk in self.chunks(self.arguments(block)):
                yield {"toolUse": {"input": chunk}}
        elif isinstance(block, ReasoningBlock):
            for chunk in self.chunks(block.text):
                yield {"reasoningContent": {"text": chunk}}
            if block.redacted_data:
                yield {"reasoningContent": {"redactedContent": block.redacted_data}}
            elif block.signature:
                yield {"reasoningContent": {"signature": block.signature}}
        elif isinstance(block, TextBlock):
            for chunk in self.chunks(block.text):
                yield {"text": chunk}


def _usage(usage: TokenUsage) -> JsonObject:
    return {
        "inputTokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }


def _message(headers: Mapping[str, str], data: JsonObject | str) -> bytes:
    """Return a message with its lengths, its headers and both of its checksums."""
    block = b"".join(map(_header, headers.items()))
    payload = json.dumps(data, ensure_ascii=False).encode()
    lengths = struct.pack("!II", len(block) + len(payload) + 16, len(block))
    message = lengths + struct.pack("!I", zlib.crc32(lengths)) + block + payload
    return message + struct.pack("!I", zlib.crc32(message))


def _header(header: tuple[str, str]) -> bytes:
    name, value = (text.encode() for text in header)
    return struct.pack("!B", len(name)) + name + struct.pack("!BH", _STRING, len(value)) + value

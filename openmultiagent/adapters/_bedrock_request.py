"""Requests of Amazon Bedrock's Converse API: from a conversation and its options to the bytes of a body.

Not here: HTTP, signatures, answers. Invariants: everything that cannot be expressed raises before a request exists;
nothing of the conversation is changed; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .._patterns import lazy_pattern
from ..errors import UnsupportedContentError, UnsupportedToolResultContentError
from ..messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    LLMMessage,
    MediaSource,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultTextPart,
    ToolUseBlock,
)
from ._entry import enter
from ._http_adapter import json_bytes, merged_turns, padded_base64
from ._protocol import LLMChatOptions, LLMToolDef
from ._reasoning import echo

__all__ = ["encode_request"]

JsonObject = dict[str, Any]

_PROTOCOL = "Amazon Bedrock Converse"
_DEFAULT_MAX_TOKENS = 4_096
_GO_ON = "Continue."
_CACHE_POINT: JsonObject = {"cachePoint": {"type": "default"}}
_IMAGE_FORMATS = {"image/jpeg": "jpeg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENT_FORMATS = {
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "text/html": "html",
    "text/markdown": "md",
    "application/pdf": "pdf",
    "text/plain": "txt",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
}
_NOT_IN_NAMES = lazy_pattern(r"[^A-Za-z0-9 ()\[\]-]+")
_NAME_LENGTH = 200
_ID = lazy_pattern(r"[A-Za-z0-9_.:-]{1,64}")
_STRUCTURAL = frozenset({"model", "messages", "tools", "stream", "stream_options"})
_UnsupportedError = type[UnsupportedContentError] | type[UnsupportedToolResultContentError]


def encode_request(
    messages: Sequence[LLMMessage], options: LLMChatOptions, *, adapter_name: str, prefill: bool = False
) -> bytes:
    """Return the body of a request, streamed or not: the address makes the difference.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the API has no word for is left out.
        adapter_name: Name of the adapter, which tells its own reasoning from that of others.
        prefill: Whether a conversation may end with an assistant message, which the model then continues.

    Raises:
        InvalidMessageError: The conversation is not valid.
        UnsupportedContentError: A block cannot be expressed.
        UnsupportedToolResultContentError: A part of a tool result cannot be expressed.
        ConfigurationError: An option is no JSON data.
    """
    system, turns = enter(messages, options, "bedrock")
    encoder = _TurnEncoder(adapter_name, options)
    encoded = merged_turns((turn.role.value, encoder.blocks(turn)) for turn in turns)
    body: JsonObject = {"messages": [{"role": role, "content": _ordered(blocks)} for role, blocks in encoded]}
    if body["messages"] and body["messages"][-1]["role"] == Role.ASSISTANT:
        _end(body["messages"], prefill=prefill)
    if system and system.strip():
        body["system"] = [{"text": system}]
    if options.cache == "auto":
        _mark_for_cache(body)
    if options.tools and not (options.tool_choice == "none" and not encoder.has_tool_blocks):
        body["toolConfig"] = _tool_config(options)
    body["inferenceConfig"] = _inference_config(options)
    more = _additional_fields(options)
    if more:
        body["additionalModelRequestFields"] = more
    return json_bytes(body)


def _end(sent: list[JsonObject], *, prefill: bool) -> None:
    """Make a conversation that ends with the assistant acceptable: most models want it to end with the user."""
    last = sent[-1]["content"][-1]
    if not prefill:
        sent.append({"role": "user", "content": [{"text": _GO_ON}]})
    elif "text" in last:
        last["text"] = last["text"].rstrip()  # models refuse blanks at the end


def _mark_for_cache(body: JsonObject) -> None:
    """Mark the ends of what the next call of the conversation begins with; tools precede the system text."""
    if "system" in body:
        body["system"].append(_CACHE_POINT)
    if body["messages"]:
        body["messages"][-1]["content"].append(_CACHE_POINT)


def _inference_config(options: LLMChatOptions) -> JsonObject:
    bare = options.max_tokens is None and options.temperature is None and options.top_p is None
    fields = {
        "maxTokens": _DEFAULT_MAX_TOKENS if bare else options.max_tokens,
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": None if options.stop is None else list(options.stop),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _additional_fields(options: LLMChatOptions) -> JsonObject:
    fields: JsonObject = {} if options.top_k is None else {"top_k": options.top_k}
    return {**fields, **{key: value for key, value in (options.extra_body or {}).items() if key not in _STRUCTURAL}}


def _tool_config(options: LLMChatOptions) -> JsonObject:
    config: JsonObject = {"tools": [{"toolSpec": _tool(tool)} for tool in options.tools]}
    choice = options.tool_choice
    if choice == "auto":
        config["toolChoice"] = {"auto": {}}
    elif choice == "required":
        config["toolChoice"] = {"any": {}}
    elif choice is not None and choice != "none":  # BED-9: the API has no word for "none"
        config["toolChoice"] = {"tool": {"name": choice}}
    return config


def _tool(tool: LLMToolDef) -> JsonObject:
    described = {"description": tool.description} if tool.description.strip() else {}  # an empty one is refused
    return {"name": tool.name, **described, "inputSchema": {"json": tool.input_schema}}


class _TurnEncoder:
    """Encodes the blocks of one request's messages, in which no two documents may have the same name."""

    def __init__(self, adapter_name: str, options: LLMChatOptions) -> None:
        self._adapter_name = adapter_name
        self._options = options
        self._names: dict[str, int] = {}
        self.has_tool_blocks = False

    def blocks(self, turn: LLMMessage) -> list[JsonObject]:
        return [encoded for block in turn.content if (encoded := self._block(block)) is not None]

    def _block(self, block: object) -> JsonObject | None:
        if isinstance(block, ReasoningBlock):
            block = echo(block, adapter_name=self._adapter_name, options=self._options)
            if isinstance(block, ReasoningBlock):
                return _reasoning(block)
        if isinstance(block, TextBlock):
            return {"text": block.text} if block.text.strip() else None  # BED-11: blank text is refused
        if isinstance(block, ToolUseBlock):
            self.has_tool_blocks = True
            return {"toolUse": {"toolUseId": _tool_use_id(block.id), "name": block.name, "input": block.input}}
        if isinstance(block, ToolResultBlock):
            self.has_tool_blocks = True
            return self._tool_result(block)
        return self._media(block)

    def _media(self, block: object) -> JsonObject | None:
        if isinstance(block, ImageBlock):
            return _image(block.source, UnsupportedContentError)
        if isinstance(block, FileBlock):
            return self._document(block.filename, block.source, UnsupportedContentError)
        return None

    def _tool_result(self, block: ToolResultBlock) -> JsonObject:
        content: list[JsonObject] = []
        for part in [ToolResultTextPart(text=block.content)] if isinstance(block.content, str) else block.content:
            if isinstance(part, ToolResultTextPart):
                content.append({"text": part.text})
            elif isinstance(part, ToolResultFilePart):
                content.append(self._document(part.filename, part.source, UnsupportedToolResultContentError))
            else:
                content.append(_image(part.source, UnsupportedToolResultContentError))
        status = "error" if block.is_error else "success"
        return {"toolResult": {"toolUseId": _tool_use_id(block.tool_use_id), "content": content, "status": status}}

    def _document(self, filename: str, source: MediaSource, error: _UnsupportedError) -> JsonObject:
        if not isinstance(source, Base64Source):
            raise error(provider=_PROTOCOL, content_type="file-url", detail="send the file's content as base64")
        kind = _DOCUMENT_FORMATS.get(source.media_type.lower())
        if kind is None:
            raise error(provider=_PROTOCOL, content_type=f"file:{source.media_type}")
        document = {"format": kind, "name": self._name(filename), "source": {"bytes": padded_base64(source.data)}}
        return {"document": document}

    def _name(self, filename: str) -> str:
        name = " ".join(_NOT_IN_NAMES.sub(" ", filename).split())[:_NAME_LENGTH].strip() or "tool result"
        count = self._names[name] = self._names.get(name, 0) + 1
        if count == 1:
            return name
        suffix = f" ({count})"
        return self._name(f"{name[: _NAME_LENGTH - len(suffix)]}{suffix}")


def _ordered(blocks: list[JsonObject]) -> list[JsonObject]:
    """Return the blocks with results in front, and with a text beside documents: models insist on both."""
    results = [block for block in blocks if "toolResult" in block]
    others = [block for block in blocks if "toolResult" not in block]
    if any("document" in block for block in others) and not any("text" in block for block in others):
        others.append({"text": "See the attached documents."})
    return [*results, *others]


def _tool_use_id(given: str) -> str:
    """Return an id that the API takes; other providers' ids may be longer, or of other characters."""
    return given if _ID.fullmatch(given) else f"call_{hashlib.sha256(given.encode()).hexdigest()[:32]}"


def _reasoning(block: ReasoningBlock) -> JsonObject:
    if block.redacted_data:
        return {"reasoningContent": {"redactedContent": block.redacted_data}}
    return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": block.signature}}}


def _image(source: MediaSource, error: _UnsupportedError) -> JsonObject:
    if not isinstance(source, Base64Source):
        raise error(provider=_PROTOCOL, content_type="image-url", detail="send the image's content as base64")
    kind = _IMAGE_FORMATS.get(source.media_type.lower())
    if kind is None:
        raise error(provider=_PROTOCOL, content_type=f"image:{source.media_type}")
    return {"image": {"format": kind, "source": {"bytes": padded_base64(source.data)}}}

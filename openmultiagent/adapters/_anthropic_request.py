"""Requests of the Anthropic Messages protocol: from a conversation and its options to the bytes of a body.

Not here: HTTP, keys, answers. Invariants: everything that cannot be expressed raises before a request exists; nothing
of the conversation is changed; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import (
    ConfigurationError,
    InvalidMessageError,
    UnsupportedContentError,
    UnsupportedToolResultContentError,
)
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
    ToolResultPart,
    ToolResultTextPart,
    ToolUseBlock,
)
from ._entry import enter
from ._http_adapter import json_bytes
from ._protocol import LLMChatOptions, LLMToolDef
from ._reasoning import echo
from ._schema_dialects import anthropic_schema, with_schema_told
from ._settings import ThinkingConfig

__all__ = ["encode_request"]

_PROTOCOL = "Anthropic Messages"
_STRUCTURAL = frozenset({"model", "messages", "tools", "stream", "stream_options", "system"})
_SAMPLING = ("temperature", "top_p", "top_k")
_DEFAULT_MAX_TOKENS = 4_096  # the protocol demands a number
_LEAST_BUDGET = 1_024
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_MARKED_TURNS = 2  # with the tools and the system text these are the four marks that a request may have
_GO_ON = "Continue."
_WITHOUT_SCHEMAS = (
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
)
"""Models that do not take an output schema: those before Claude 4.5."""

JsonObject = dict[str, Any]
_Parts = tuple[list[JsonObject], list[JsonObject], list[JsonObject]]
"""Tool results, the files that came with them, and the rest."""


def encode_request(
    messages: Sequence[LLMMessage],
    options: LLMChatOptions,
    *,
    stream: bool,
    adapter_name: str = "anthropic",
    prefill: bool = False,
) -> bytes:
    """Return the body of a request.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the protocol has no word for is left out.
        stream: Whether the answer shall be streamed.
        adapter_name: Provenance of the reasoning that goes back as such.
        prefill: Whether a conversation may end with an assistant message, which the model then continues.

    Raises:
        InvalidMessageError: The conversation is not valid, or has nothing in it that can be sent.
        UnsupportedContentError: A block cannot be expressed.
        UnsupportedToolResultContentError: A part of a tool result cannot be expressed.
        ConfigurationError: The thinking budget is out of range, or an option is no JSON data.
    """
    system, turns = enter(messages, options, "anthropic")
    schema = _output_schema(options)
    if options.output_schema is not None and schema is None:
        system = with_schema_told(system, options.output_schema)
    body = _settings(options, schema)
    body.update(_extra(options))  # ANT-4
    body["model"] = options.model
    body["messages"] = _messages(turns, options, adapter_name, prefill=prefill)
    if not _blank(system):
        body["system"] = system
    if options.tools:
        body["tools"] = [_tool(tool) for tool in options.tools]
    thinking = _thinking(options.thinking, body["max_tokens"])
    if thinking is not None:
        body["thinking"] = thinking
    if options.cache == "auto":
        _mark_for_cache(body)
    if stream:
        body["stream"] = True
    return json_bytes(body)


def _output_schema(options: LLMChatOptions) -> JsonObject | None:
    if options.output_schema is None or options.model.startswith(_WITHOUT_SCHEMAS):
        return None
    return anthropic_schema(options.output_schema)


def _settings(options: LLMChatOptions, schema: JsonObject | None) -> JsonObject:
    fields: JsonObject = {"max_tokens": _DEFAULT_MAX_TOKENS if options.max_tokens is None else options.max_tokens}
    fields.update({name: getattr(options, name) for name in _SAMPLING})
    fields["stop_sequences"] = None if options.stop is None else list(options.stop)
    if options.tools:  # without tools the API refuses it
        fields["tool_choice"] = _tool_choice(options.tool_choice, options.parallel_tool_calls)
    thinking = options.thinking
    if thinking is not None and thinking.enabled and thinking.mode == "adaptive" and thinking.effort is not None:
        fields["output_config"] = {"effort": thinking.effort}
    if schema is not None:  # MOD-53
        fields.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
    return {name: value for name, value in fields.items() if value is not None}


def _extra(options: LLMChatOptions) -> JsonObject:
    own = _STRUCTURAL if options.thinking is None else _STRUCTURAL | {"thinking"}
    extra = options.extra_body or {}
    return {key: value for key, value in extra.items() if key not in own and value is not None}


def _tool_choice(choice: str | None, parallel: bool | None) -> JsonObject | None:  # noqa: FBT001 - an option's value
    if choice == "none":
        return {"type": "none"}
    if choice is None and parallel is not False:
        return None
    if choice is None or choice == "auto":
        made: JsonObject = {"type": "auto"}
    elif choice == "required":
        made = {"type": "any"}
    else:
        made = {"type": "tool", "name": choice}
    if parallel is False:
        made["disable_parallel_tool_use"] = True
    return made


def _thinking(thinking: ThinkingConfig | None, max_tokens: object) -> JsonObject | None:
    if thinking is None or not thinking.enabled:
        return None
    if thinking.mode == "adaptive":
        return {"type": "adaptive"}
    budget = _LEAST_BUDGET if thinking.budget_tokens is None else thinking.budget_tokens
    if budget < _LEAST_BUDGET:
        raise ConfigurationError(f"{_PROTOCOL}: thinking.budget_tokens must be >= {_LEAST_BUDGET} (got {budget})")
    if isinstance(max_tokens, int) and budget >= max_tokens:
        raise ConfigurationError(
            f"{_PROTOCOL}: thinking.budget_tokens ({budget}) must be < max_tokens ({max_tokens}); raise max_tokens"
        )
    return {"type": "enabled", "budget_tokens": budget}


def _tool(tool: LLMToolDef) -> JsonObject:
    schema = {"type": "object", **tool.input_schema}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _mark_for_cache(body: JsonObject) -> None:
    """Mark where the common beginning of the conversation's calls ends; the API looks for the longest one it knows."""
    if "tools" in body:
        _mark(body["tools"][-1])
    if "system" in body:
        body["system"] = [_text(body["system"])]
        _mark(body["system"][0])
    # The turn before the last was marked by the call before, so what that call wrote is found again.
    for message in [message for message in body["messages"] if message["role"] == "user"][-_MARKED_TURNS:]:
        _mark(message["content"][-1])


def _mark(block: JsonObject) -> None:
    block["cache_control"] = {"type": "ephemeral"}


def _messages(
    turns: Sequence[LLMMessage], options: LLMChatOptions, adapter_name: str, *, prefill: bool
) -> list[JsonObject]:
    # Turns of one role become one message, of which the results come first, then their files, then everything else.
    merged: list[tuple[Role, _Parts]] = []
    for turn in turns:
        own = turn.role == Role.ASSISTANT
        parts: _Parts = ([], [], list(_assistant(turn, options, adapter_name))) if own else _user(turn)
        if not any(parts):
            continue  # it has nothing to say, and the API refuses empty messages
        if not merged or merged[-1][0] != turn.role:
            merged.append((turn.role, ([], [], [])))
        for whole, part in zip(merged[-1][1], parts, strict=True):
            whole.extend(part)
    if not merged:
        raise InvalidMessageError(
            f"messages must have something to send: {_PROTOCOL} takes no empty texts", path="messages"
        )
    sent = [{"role": str(role), "content": [*first, *second, *rest]} for role, (first, second, rest) in merged]
    if sent[-1]["role"] == Role.ASSISTANT:
        _end(sent, prefill=prefill)
    return sent


def _end(sent: list[JsonObject], *, prefill: bool) -> None:
    """Make a conversation that ends with the assistant acceptable: newer models want it to end with the user."""
    last = sent[-1]["content"][-1]
    if not prefill:
        sent.append({"role": "user", "content": [_text(_GO_ON)]})
    elif last["type"] == "text":
        last["text"] = last["text"].rstrip()  # the API refuses blanks at the end


def _assistant(turn: LLMMessage, options: LLMChatOptions, adapter_name: str) -> Iterator[JsonObject]:
    for block in turn.content:
        if isinstance(block, ToolUseBlock):
            yield {"type": "tool_use", "id": _wire_id(block.id), "name": block.name, "input": block.input}
            continue
        kept = echo(block, adapter_name=adapter_name, options=options) if isinstance(block, ReasoningBlock) else block
        if isinstance(kept, ReasoningBlock):
            yield _reasoning(kept)
        elif isinstance(kept, TextBlock) and not _blank(kept.text):
            yield _text(kept.text)


def _reasoning(block: ReasoningBlock) -> JsonObject:
    if block.redacted_data:
        return {"type": "redacted_thinking", "data": block.redacted_data}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _user(turn: LLMMessage) -> _Parts:
    results: list[JsonObject] = []
    files: list[JsonObject] = []
    rest: list[JsonObject] = []
    for block in turn.content:
        if isinstance(block, ToolResultBlock):
            results.append(_tool_result(block))
            files.extend(_attachments(block))
        elif isinstance(block, ImageBlock):
            rest.append(_image(block.source, _unsupported))
        elif isinstance(block, FileBlock):
            rest.append(_document(block.filename, block.source, _unsupported))
        elif isinstance(block, TextBlock):
            rest.extend([] if _blank(block.text) else [_text(block.text)])
        else:
            raise UnsupportedContentError(provider=_PROTOCOL, content_type=block.type)
    return results, files, rest


def _tool_result(result: ToolResultBlock) -> JsonObject:
    content: str | list[JsonObject]
    if isinstance(result.content, str):
        content = result.content
    else:
        content = [part for item in result.content for part in _result_part(item)] or ""
    sent: JsonObject = {"type": "tool_result", "tool_use_id": _wire_id(result.tool_use_id), "content": content}
    if result.is_error is not None:
        sent["is_error"] = result.is_error
    return sent


def _result_part(part: ToolResultPart) -> list[JsonObject]:
    if isinstance(part, ToolResultTextPart):
        return [] if _blank(part.text) else [_text(part.text)]
    if isinstance(part, ToolResultFilePart):
        return [_text(f"[File attachment follows: {part.filename}]")]
    return [_image(part.source, _unsupported_in_result)]


def _attachments(result: ToolResultBlock) -> list[JsonObject]:
    """Return the files of a result, which stand behind all results of their message."""
    parts = () if isinstance(result.content, str) else result.content
    return [
        _document(part.filename, part.source, _unsupported_in_result)
        for part in parts
        if isinstance(part, ToolResultFilePart)
    ]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(source: MediaSource, unsupported: Any) -> JsonObject:
    if source.media_type is not None and source.media_type not in _IMAGES:
        raise unsupported(f"image:{source.media_type}", "send it as JPEG, PNG, GIF or WebP")
    return {"type": "image", "source": _source(source)}


def _document(filename: str, source: MediaSource, unsupported: Any) -> JsonObject:
    if source.media_type not in (_PDF, None):
        raise unsupported(f"file:{source.media_type}", "send it as PDF, or its content as text")
    return {"type": "document", "title": filename, "source": _source(source)}


def _source(source: MediaSource) -> JsonObject:
    if isinstance(source, Base64Source):
        return {"type": "base64", "media_type": source.media_type, "data": source.data}
    return {"type": "url", "url": source.url}


def _unsupported(content_type: str, detail: str) -> UnsupportedContentError:
    return UnsupportedContentError(provider=_PROTOCOL, content_type=content_type, detail=detail)


def _unsupported_in_result(content_type: str, detail: str) -> UnsupportedToolResultContentError:
    return UnsupportedToolResultContentError(provider=_PROTOCOL, content_type=content_type, detail=detail)


def _blank(text: str | None) -> bool:
    return text is None or not text or text.isspace()


def _wire_id(call_id: str) -> str:
    """Return an id that the API takes: calls of other providers may have dots or colons in theirs."""
    if re.fullmatch(r"[a-zA-Z0-9_-]+", call_id):
        return call_id
    digest = hashlib.blake2s(call_id.encode(), digest_size=6).hexdigest()
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', call_id)}_{digest}"

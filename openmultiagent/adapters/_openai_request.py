"""Requests of the OpenAI chat protocol: from a conversation and its options to the bytes of a body.

Not here: HTTP, keys, answers. Invariants: everything that cannot be expressed raises before a request exists; nothing
of the conversation is changed; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ConfigurationError, UnsupportedContentError, UnsupportedToolResultContentError
from ..messages import (
    Base64Source,
    Conversation,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
    coerce_messages,
    normalize_for_provider,
)
from ._protocol import LLMChatOptions, LLMToolDef

__all__ = ["encode_request", "max_tokens_field_for"]

_PROTOCOL = "OpenAI-compatible Chat Completions"
_STRUCTURAL = frozenset({"model", "messages", "tools", "stream", "stream_options"})
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "seed")
_REASONING_MODELS = ("o1", "o3", "o4", "gpt-5")

JsonObject = dict[str, Any]


def encode_request(
    messages: Sequence[LLMMessage],
    options: LLMChatOptions,
    *,
    stream: bool,
    max_tokens_field: str | None = None,
    empty_content: str | None = None,
) -> bytes:
    """Return the body of a request.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the protocol has no word for is left out.
        stream: Whether the answer shall be streamed.
        max_tokens_field: Where the limit of the answer goes; chosen by the name of the model unless given.
        empty_content: What stands for the text of an assistant message that has none.

    Raises:
        InvalidMessageError: The conversation is not valid.
        UnsupportedContentError: A block cannot be expressed.
        UnsupportedToolResultContentError: A part of a tool result cannot be expressed.
        ConfigurationError: An option is no JSON data.
    """
    checked = messages if isinstance(messages, Conversation) else coerce_messages(messages)
    system, turns = normalize_for_provider(checked, options.system_prompt)
    body = _sampling(options, max_tokens_field or max_tokens_field_for(options.model))
    # MOD-7: what the caller adds wins over the settings, never over what makes the request what it is.
    body.update({key: value for key, value in (options.extra_body or {}).items() if key not in _STRUCTURAL})
    body["model"] = options.model
    body["messages"] = [*_system(system), *_encoded(turns, empty_content)]
    if options.tools:
        body["tools"] = [_tool(tool) for tool in options.tools]
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return _bytes(body)


def max_tokens_field_for(model: str) -> str:
    """Return the name of the field for the answer's limit: OpenAI's reasoning models refuse the older one.

    Args:
        model: The model's name, with or without a vendor's prefix (``openai/o3``) or that of a fine-tuned model.
    """
    name = model.rpartition("/")[2].removeprefix("ft:")
    return "max_completion_tokens" if name.startswith(_REASONING_MODELS) else "max_tokens"


def _sampling(options: LLMChatOptions, max_tokens_field: str) -> JsonObject:
    fields: JsonObject = {max_tokens_field: options.max_tokens}
    fields.update({name: getattr(options, name) for name in _SAMPLING})
    fields["stop"] = None if options.stop is None else list(options.stop)
    if options.tools:  # without tools the API refuses both
        fields["parallel_tool_calls"] = options.parallel_tool_calls
        fields["tool_choice"] = _tool_choice(options.tool_choice)
    effort = options.thinking.effort if options.thinking is not None else None
    fields["reasoning_effort"] = None if effort == "max" else effort  # not a word of this protocol
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str | None) -> str | JsonObject | None:
    if choice is None or choice in ("auto", "required", "none"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _tool(tool: LLMToolDef) -> JsonObject:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _system(text: str | None) -> list[JsonObject]:
    return [{"role": "system", "content": text}] if text else []


def _encoded(turns: Sequence[LLMMessage], empty_content: str | None) -> Iterator[JsonObject]:
    # MOD-11: all results of a round stand together, also when the caller put each into a message of its own.
    waiting: list[JsonObject] = []
    for turn in turns:
        results = [block for block in turn.content if isinstance(block, ToolResultBlock)]
        if not results:
            yield from waiting
            waiting = []
        if turn.role == Role.ASSISTANT:
            yield from _assistant(turn, empty_content)
            continue
        yield from (_tool_message(result) for result in results)
        parts = [part for result in results for part in _attachments(result)]
        parts.extend(_user_part(block) for block in turn.content if not isinstance(block, ToolResultBlock))
        if parts:
            waiting.append({"role": "user", "content": _lone_text(parts)})
    yield from waiting


def _assistant(turn: LLMMessage, empty_content: str | None) -> Iterator[JsonObject]:
    text = "".join([block.text for block in turn.content if isinstance(block, TextBlock)])
    calls = [_call(block) for block in turn.content if isinstance(block, ToolUseBlock)]
    if text or calls:
        message: JsonObject = {"role": "assistant", "content": text or empty_content}
        if calls:
            message["tool_calls"] = calls
        yield message


def _call(block: ToolUseBlock) -> JsonObject:
    arguments = json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _lone_text(parts: list[JsonObject]) -> str | list[JsonObject]:
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


def _user_part(block: object) -> JsonObject:
    if isinstance(block, TextBlock):
        return _text(block.text)
    if isinstance(block, ImageBlock):
        return _image(block.url, block.detail)
    if isinstance(block, FileBlock):
        if not isinstance(block.source, Base64Source):
            raise UnsupportedContentError(
                provider=_PROTOCOL, content_type="file-url", detail="send the file's content as base64"
            )
        return _file(block.filename, block.source)
    raise UnsupportedContentError(provider=_PROTOCOL, content_type=type(block).__name__)


def _tool_message(result: ToolResultBlock) -> JsonObject:
    content = result.content
    if isinstance(content, str):
        text = f"[tool error] {content}" if result.is_error else content
        return {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
    parts = [_text(part.text) for part in content if isinstance(part, ToolResultTextPart)]
    media = len(content) - len(parts)
    if media:
        parts.append(_text(f"[{media} tool-result attachment(s) follow in the next user message.]"))
    return {"role": "tool", "tool_call_id": result.tool_use_id, "content": parts}


def _attachments(result: ToolResultBlock) -> list[JsonObject]:
    """Return what a ``tool`` message cannot hold, for the user message behind it."""
    if isinstance(result.content, str):
        return []
    media = [_media(part) for part in result.content if not isinstance(part, ToolResultTextPart)]
    return [_text(f"Attachments for tool call {result.tool_use_id}:"), *media] if media else []


def _media(part: ToolResultImagePart | ToolResultFilePart) -> JsonObject:
    source = part.source
    if isinstance(part, ToolResultImagePart):
        return _image(source.url if isinstance(source, UrlSource) else _data_uri(source), ImageDetail.AUTO)
    if not isinstance(source, Base64Source):
        raise UnsupportedToolResultContentError(
            provider=_PROTOCOL, content_type="file-url", detail="return the file's content as base64"
        )
    return _file(part.filename, source)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(url: str, detail: ImageDetail) -> JsonObject:
    image = {"url": url} if detail == ImageDetail.AUTO else {"url": url, "detail": str(detail)}
    return {"type": "image_url", "image_url": image}


def _file(filename: str, source: Base64Source) -> JsonObject:
    return {"type": "file", "file": {"filename": filename, "file_data": _data_uri(source)}}


def _data_uri(source: Base64Source) -> str:
    return f"data:{source.media_type};base64,{source.data}"


def _bytes(body: JsonObject) -> bytes:
    try:
        return json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain_mapping
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # Messages were checked, so it is one of the other parts.
        raise ConfigurationError(
            f"the request cannot be written as JSON: {error}; "
            "see extra_body, the sampling settings and the schemas of the tools"
        ) from error


def _plain_mapping(value: object) -> JsonObject:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")

"""Requests of OpenAI's Responses API: from a conversation and its options to the bytes of a body.

Not here: HTTP, keys, answers. Invariants: everything that cannot be expressed raises before a request exists; nothing
of the conversation is changed; nothing is kept by the server; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import UnsupportedContentError
from ..messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    MediaSource,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
)
from ._entry import enter
from ._http_adapter import json_bytes
from ._openai_request import JsonObject, data_uri, function_tool, tool_choice_of
from ._protocol import LLMChatOptions
from ._reasoning import echo
from ._schema_dialects import openai_output_schema, with_schema_told
from ._settings import ThinkingConfig

__all__ = ["encode_request", "join_signature", "split_signature"]

_PROTOCOL = "OpenAI Responses"
_STRUCTURAL = frozenset({"model", "input", "instructions", "tools", "stream", "stream_options", "messages"})
_ENCRYPTED = "reasoning.encrypted_content"
_WITHOUT_REASONING = ("gpt-3.5", "gpt-4", "chatgpt-4")
"""Models that refuse to be asked for encrypted reasoning, having none."""


def encode_request(
    messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool, adapter_name: str
) -> bytes:
    """Return the body of a request.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the API has no word for is left out.
        stream: Whether the answer shall be streamed.
        adapter_name: Name of the adapter, which tells its own reasoning from that of others.

    Raises:
        InvalidMessageError: The conversation is not valid.
        UnsupportedContentError: A block cannot be expressed.
        ConfigurationError: An option is no JSON data.
    """
    system, turns = enter(messages, options, "openai")
    body = _settings(options)
    if options.output_schema is not None and "text" not in body:
        system = with_schema_told(system, options.output_schema)
    # RSP-5: what the caller adds wins over the settings, never over what makes the request what it is.
    body.update({key: value for key, value in (options.extra_body or {}).items() if key not in _STRUCTURAL})
    body["model"] = options.model
    if system:
        body["instructions"] = system
    body["input"] = [item for turn in turns for item in _items(turn, options, adapter_name)]
    if options.tools:
        # Without the word, the API would hold every schema to its strict rules.
        body["tools"] = [{"type": "function", **function_tool(tool), "strict": False} for tool in options.tools]
    body["stream"] = stream
    return json_bytes(body)


def join_signature(item_id: str, encrypted: str) -> str:
    """Return the signature of a reasoning block: what the API needs to know its own reasoning again.

    Args:
        item_id: The id of the reasoning item; may be empty.
        encrypted: Its encrypted content.
    """
    return f"{item_id}:{encrypted}"


def split_signature(signature: str) -> tuple[str, str]:
    """Return the id of a reasoning item and its encrypted content.

    Args:
        signature: What ``join_signature`` returned.
    """
    item_id, _, encrypted = signature.partition(":")
    return item_id, encrypted


def _settings(options: LLMChatOptions) -> JsonObject:
    fields: JsonObject = {
        "max_output_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "reasoning": _reasoning(options.thinking),
        "text": _text_format(options.output_schema),
        "store": False,
        "include": None if options.model.startswith(_WITHOUT_REASONING) else [_ENCRYPTED],
    }
    if options.tools:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
        fields["tool_choice"] = tool_choice_of(options.tool_choice, lambda name: {"name": name})
    return {name: value for name, value in fields.items() if value is not None}


def _reasoning(thinking: ThinkingConfig | None) -> JsonObject | None:
    if thinking is None or not thinking.enabled:
        return None  # how much a model reasons by itself, and whether that can be switched off, differs by model
    return {"summary": "auto"} if thinking.effort is None else {"effort": thinking.effort, "summary": "auto"}


def _text_format(schema: Mapping[str, Any] | None) -> JsonObject | None:
    described = None if schema is None else openai_output_schema(schema)
    return None if described is None else {"format": {"type": "json_schema", **described}}


def _items(turn: LLMMessage, options: LLMChatOptions, adapter_name: str) -> Iterator[JsonObject]:
    if turn.role == Role.ASSISTANT:
        yield from _assistant_items(turn, options, adapter_name)
        return
    yield from (_output(block) for block in turn.content if isinstance(block, ToolResultBlock))
    parts = [_part(block) for block in turn.content if not isinstance(block, ToolResultBlock)]
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        yield {"role": "user", "content": parts[0]["text"]}
    elif parts:
        yield {"role": "user", "content": parts}


def _assistant_items(turn: LLMMessage, options: LLMChatOptions, adapter_name: str) -> Iterator[JsonObject]:
    """Yield items in the order of the blocks: the API wants reasoning right in front of what it led to."""
    texts: list[str] = []
    for block in turn.content:
        sent = (
            echo(block, adapter_name=adapter_name, options=options, takes_redacted=False)
            if isinstance(block, ReasoningBlock)
            else block
        )
        if isinstance(sent, TextBlock):
            texts.append(sent.text)
            continue
        if isinstance(sent, ReasoningBlock | ToolUseBlock):
            yield from _message(texts)
            yield _reasoning_item(sent) if isinstance(sent, ReasoningBlock) else _call(sent)
    yield from _message(texts)


def _message(texts: list[str]) -> Iterator[JsonObject]:
    text = "".join(texts)
    texts.clear()
    if text:
        yield {"role": "assistant", "content": text}


def _reasoning_item(block: ReasoningBlock) -> JsonObject:
    item_id, encrypted = split_signature(block.signature or "")
    item: JsonObject = {"type": "reasoning", "id": item_id} if item_id else {"type": "reasoning"}
    item["summary"] = [{"type": "summary_text", "text": block.text}] if block.text else []
    item["encrypted_content"] = encrypted
    return item


def _call(block: ToolUseBlock) -> JsonObject:
    arguments = json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
    return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}


def _output(block: ToolResultBlock) -> JsonObject:
    content = block.content
    if isinstance(content, str):
        output: str | list[JsonObject] = f"[tool error] {content}" if block.is_error else content
    else:
        output = [
            _text(part.text)
            if isinstance(part, ToolResultTextPart)
            else _image(part.source)
            if isinstance(part, ToolResultImagePart)
            else _file(part.filename, part.source)
            for part in content
        ]
    return {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}


def _part(block: object) -> JsonObject:
    if isinstance(block, TextBlock):
        return _text(block.text)
    if isinstance(block, ImageBlock):
        return _image(block.source, block.detail, url=block.url)
    if isinstance(block, FileBlock):
        return _file(block.filename, block.source)
    raise UnsupportedContentError(provider=_PROTOCOL, content_type=type(block).__name__)


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _image(source: MediaSource, detail: ImageDetail = ImageDetail.AUTO, *, url: str | None = None) -> JsonObject:
    address = url or (source.url if isinstance(source, UrlSource) else data_uri(source))
    return {"type": "input_image", "image_url": address, "detail": str(detail)}


def _file(filename: str, source: MediaSource) -> JsonObject:
    if isinstance(source, Base64Source):
        return {"type": "input_file", "filename": filename, "file_data": data_uri(source)}
    return {"type": "input_file", "file_url": source.url}

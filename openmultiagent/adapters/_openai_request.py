"""Requests of the OpenAI chat protocol: from a conversation and its options to the bytes of a body.

Not here: HTTP, keys, answers. Invariants: everything that cannot be expressed raises before a request exists; nothing
of the conversation is changed; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UnsupportedContentError, UnsupportedToolResultContentError
from ..messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
)
from ._entry import enter
from ._http_adapter import json_bytes
from ._openai_profile import OpenAIProfile
from ._protocol import LLMChatOptions, LLMToolDef
from ._reasoning import echo
from ._schema_dialects import openai_output_schema, schema_name, with_schema_told
from ._settings import ThinkingConfig

__all__ = ["JsonObject", "data_uri", "encode_request", "function_tool", "max_tokens_field_for", "tool_choice_of"]

_PROTOCOL = "OpenAI-compatible Chat Completions"
_STRUCTURAL = frozenset({"model", "messages", "tools", "stream", "stream_options"})
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty")
_REASONING_MODELS = ("o1", "o3", "o4", "gpt-5")

JsonObject = dict[str, Any]


def encode_request(
    messages: Sequence[LLMMessage],
    options: LLMChatOptions,
    *,
    stream: bool,
    provider: str = "openai",
    profile: OpenAIProfile | None = None,
    max_tokens_field: str | None = None,
    empty_content: str | None = None,
) -> bytes:
    """Return the body of a request.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the protocol has no word for is left out.
        stream: Whether the answer shall be streamed.
        provider: Name of the adapter, which its own reasoning has as its provenance.
        profile: How the server departs from the protocol.
        max_tokens_field: Where the limit of the answer goes; chosen by the profile and the name of the model unless
            given.
        empty_content: What stands for the text of an assistant message that has none.

    Raises:
        InvalidMessageError: The conversation is not valid.
        UnsupportedContentError: A block cannot be expressed.
        UnsupportedToolResultContentError: A part of a tool result cannot be expressed.
        ConfigurationError: An option is no JSON data.
    """
    profile = profile or OpenAIProfile()
    system, turns = enter(messages, options, "openai")
    body = _settings(options, profile, max_tokens_field)
    if options.output_schema is not None and profile.structured_output is not None and "response_format" not in body:
        system = with_schema_told(system, options.output_schema)
    # MOD-7: what the caller adds wins over the settings, never over what makes the request what it is.
    if profile.takes_extra_body:
        body.update({key: value for key, value in (options.extra_body or {}).items() if key not in _STRUCTURAL})
    body["model"] = options.model
    assistant = _assistant_encoder(turns, options, provider, profile, empty_content)
    body["messages"] = [*_system(system), *_encoded(turns, assistant)]
    if options.tools:
        body["tools"] = [{"type": "function", "function": function_tool(tool)} for tool in options.tools]
    body["stream"] = stream
    if stream and profile.usage_on_request:
        body["stream_options"] = {"include_usage": True}
    return json_bytes(body)


def max_tokens_field_for(model: str) -> str:
    """Return the name of the field for the answer's limit: OpenAI's reasoning models refuse the older one.

    Args:
        model: The model's name, with or without a vendor's prefix (``openai/o3``) or that of a fine-tuned model.
    """
    name = model.rpartition("/")[2].removeprefix("ft:")
    return "max_completion_tokens" if name.startswith(_REASONING_MODELS) else "max_tokens"


def _settings(options: LLMChatOptions, profile: OpenAIProfile, max_tokens_field: str | None) -> JsonObject:
    limit = max_tokens_field or profile.max_tokens_field or max_tokens_field_for(options.model)
    fields: JsonObject = {limit: options.max_tokens}
    fields.update({name: getattr(options, name) for name in _SAMPLING})
    fields[profile.seed_field] = options.seed
    fields["stop"] = None if options.stop is None else list(options.stop)
    if options.tools:  # without tools the API refuses both
        fields["parallel_tool_calls"] = options.parallel_tool_calls
        fields["tool_choice"] = tool_choice_of(options.tool_choice, lambda name: {"function": {"name": name}})
    fields.update(_thinking(options.thinking, profile))
    fields["response_format"] = _response_format(options.output_schema, profile)
    return {name: value for name, value in fields.items() if value is not None and name not in profile.unsent}


def _thinking(thinking: ThinkingConfig | None, profile: OpenAIProfile) -> JsonObject:
    if thinking is None:
        return {}  # the server's own default applies
    fields: JsonObject = {"reasoning_effort": thinking.effort if thinking.effort in profile.efforts else None}
    if profile.thinking == "thinking":
        fields["thinking"] = {"type": "enabled" if thinking.enabled else "disabled"}
    elif profile.thinking == "enable_thinking":
        fields["enable_thinking"] = thinking.enabled
        fields["thinking_budget"] = thinking.budget_tokens if thinking.enabled else None
    return fields


def _response_format(schema: Mapping[str, Any] | None, profile: OpenAIProfile) -> JsonObject | None:
    if schema is None or profile.structured_output is None:
        return None
    if profile.structured_output == "json_object":
        return {"type": "json_object", "schema": schema}
    if not profile.strict_schemas:
        described: JsonObject | None = {"name": schema_name(schema), "schema": schema, "strict": True}
    else:
        described = openai_output_schema(schema)
    return None if described is None else {"type": "json_schema", "json_schema": described}


def tool_choice_of(choice: str | None, named: Callable[[str], JsonObject]) -> str | JsonObject | None:
    """Return the choice of a tool as the APIs of OpenAI have it.

    Args:
        choice: ``auto``, ``required``, ``none``, or the name of a tool.
        named: What is sent for a name, besides the type.
    """
    if choice is None or choice in ("auto", "required", "none"):
        return choice
    return {"type": "function", **named(choice)}


def function_tool(tool: LLMToolDef) -> JsonObject:
    """Return a tool as the APIs of OpenAI are told about it.

    Args:
        tool: The tool.
    """
    return {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}


def _system(text: str | None) -> list[JsonObject]:
    return [{"role": "system", "content": text}] if text else []


_Encoder = Callable[[LLMMessage], JsonObject | None]


def _encoded(turns: Sequence[LLMMessage], assistant: _Encoder) -> Iterator[JsonObject]:
    # MOD-11: all results of a round stand together, also when the caller put each into a message of its own.
    waiting: list[JsonObject] = []
    for turn in turns:
        if turn.role == Role.ASSISTANT:
            message = assistant(turn)
            if message is not None:
                yield from waiting
                waiting = []
                yield message
            continue
        results = [block for block in turn.content if isinstance(block, ToolResultBlock)]
        yield from (_tool_message(result) for result in results)
        parts = [part for result in results for part in _attachments(result)]
        parts.extend(_user_part(block) for block in turn.content if not isinstance(block, ToolResultBlock))
        if parts:
            waiting.append({"role": "user", "content": _lone_text(parts)})
    yield from waiting


def _assistant_encoder(
    turns: Sequence[LLMMessage],
    options: LLMChatOptions,
    provider: str,
    profile: OpenAIProfile,
    empty_content: str | None,
) -> _Encoder:
    echoes = profile.echoes_reasoning
    tools_used = echoes != "never" and any(isinstance(block, ToolUseBlock) for turn in turns for block in turn.content)

    def encode(turn: LLMMessage) -> JsonObject | None:
        texts: list[str] = []
        reasoning: list[str] = []
        calls: list[JsonObject] = []
        for block in turn.content:
            sent = (
                echo(block, adapter_name=provider, options=options, echoes=echoes, tools_used=tools_used)
                if isinstance(block, ReasoningBlock)
                else block
            )
            if isinstance(sent, TextBlock):
                texts.append(sent.text)
            elif isinstance(sent, ReasoningBlock):
                reasoning.append(sent.text)
            elif isinstance(sent, ToolUseBlock):
                calls.append(_call(sent))
        return _assistant("".join(texts) or empty_content, "".join(reasoning), calls) if any(texts) or calls else None

    return encode


def _assistant(text: str | None, reasoning: str, calls: list[JsonObject]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": text}
    if reasoning:  # MOD-43
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


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
        return _image(source.url if isinstance(source, UrlSource) else data_uri(source), ImageDetail.AUTO)
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
    return {"type": "file", "file": {"filename": filename, "file_data": data_uri(source)}}


def data_uri(source: Base64Source) -> str:
    """Return what a file or image is sent as when its bytes are at hand.

    Args:
        source: The bytes.
    """
    return f"data:{source.media_type};base64,{source.data}"

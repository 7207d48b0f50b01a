"""Requests of the Gemini API: from a conversation and its options to the bytes of a body.

Not here: HTTP, keys, answers. Invariants: everything that cannot be expressed raises before a request exists; nothing
of the conversation is changed; the bytes are strict JSON in UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ConfigurationError, UnsupportedContentError
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
    tool_result_text,
)
from ._entry import enter
from ._http_adapter import json_bytes, merged_turns, padded_base64
from ._protocol import LLMChatOptions, LLMToolDef
from ._reasoning import echo
from ._schema_dialects import gemini_schema, with_schema_told
from ._settings import ThinkingConfig

__all__ = ["encode_request"]

JsonObject = dict[str, Any]

_PROTOCOL = "Gemini generateContent"
_DEFAULT_MAX_TOKENS = 4_096
_ROLES = {Role.USER: "user", Role.ASSISTANT: "model"}
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_TOOLS_OR_SCHEMA = ("gemini-1", "gemini-2")
"""Models that take no output schema beside tools."""
_STRUCTURAL = frozenset(
    {"contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config"}
    | {"model", "messages", "stream", "stream_options"}
)


def encode_request(messages: Sequence[LLMMessage], options: LLMChatOptions, *, adapter_name: str) -> bytes:
    """Return the body of a request, streamed or not: the address makes the difference.

    Args:
        messages: The conversation; checked here, unless it is a run's own, which is checked as it grows.
        options: Everything else about the call; what the API has no word for is left out.
        adapter_name: Name of the adapter, which tells its own reasoning from that of others.

    Raises:
        InvalidMessageError: The conversation is not valid.
        UnsupportedContentError: A block cannot be expressed.
        ConfigurationError: An option is no JSON data.
    """
    system, turns = enter(messages, options, "gemini")
    schema = _output_schema(options)
    if options.output_schema is not None and schema is None:
        system = with_schema_told(system, options.output_schema)
    names = {block.id: block.name for turn in turns for block in turn.content if isinstance(block, ToolUseBlock)}
    encoded = ((_ROLES[turn.role], _parts(turn, names, adapter_name, options)) for turn in turns)
    # GEM-8: what the caller adds wins over the settings, never over what makes the request what it is.
    extra = {key: value for key, value in (options.extra_body or {}).items() if key not in _STRUCTURAL}
    config = extra.pop("generationConfig", {})
    if not isinstance(config, Mapping):
        raise ConfigurationError(f"extra_body.generationConfig must be an object, got {type(config).__name__}")
    body: JsonObject = {"contents": [{"role": role, "parts": parts} for role, parts in merged_turns(encoded)]}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if options.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in options.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _calling(options.tool_choice)}
    body["generationConfig"] = {**_generation_config(options), **_answer_format(schema), **config}
    body.update(extra)
    return json_bytes(body)


def _generation_config(options: LLMChatOptions) -> JsonObject:
    thinking = options.thinking
    return _known(
        maxOutputTokens=_DEFAULT_MAX_TOKENS if options.max_tokens is None else options.max_tokens,
        temperature=options.temperature,
        topP=options.top_p,
        topK=options.top_k,
        presencePenalty=options.presence_penalty,
        frequencyPenalty=options.frequency_penalty,
        stopSequences=None if options.stop is None else list(options.stop),
        seed=options.seed,
        thinkingConfig=_thinking(thinking) if thinking is not None and thinking.enabled else None,
    )


def _output_schema(options: LLMChatOptions) -> JsonObject | None:
    if options.output_schema is None or (options.tools and options.model.startswith(_TOOLS_OR_SCHEMA)):
        return None
    return gemini_schema(options.output_schema)


def _answer_format(schema: JsonObject | None) -> JsonObject:
    return {} if schema is None else {"responseMimeType": "application/json", "responseJsonSchema": schema}  # MOD-52


def _thinking(thinking: ThinkingConfig) -> JsonObject:
    # Without a budget the model decides by itself how long to think, which is what "adaptive" means.
    budget = thinking.budget_tokens if thinking.mode == "budget" else None
    return _known(includeThoughts=True, thinkingBudget=budget)


def _calling(choice: str | None) -> JsonObject:
    mode = _MODES.get(choice or "auto")
    return {"mode": mode} if mode is not None else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _tool(tool: LLMToolDef) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema}


def _parts(turn: LLMMessage, names: Mapping[str, str], adapter_name: str, options: LLMChatOptions) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in turn.content:
        if isinstance(block, ReasoningBlock):
            _add_reasoning(parts, echo(block, adapter_name=adapter_name, options=options, takes_redacted=False))
        elif isinstance(block, ToolResultBlock):
            parts.append(_function_response(block, names.get(block.tool_use_id, block.tool_use_id)))
        else:
            parts.append(_part(block))
    return parts


def _add_reasoning(parts: list[JsonObject], block: ReasoningBlock | TextBlock | None) -> None:
    if isinstance(block, TextBlock):
        parts.append({"text": block.text})
    elif block is not None and block.text:
        parts.append({"text": block.text, "thought": True, "thoughtSignature": block.signature})
    elif block is not None:
        # GEM-16: a signature without text belongs to the text in front of it.
        last = parts[-1] if parts else {}
        if last.keys() != {"text"}:
            last = {"text": ""}
            parts.append(last)
        last["thoughtSignature"] = block.signature


def _part(block: object) -> JsonObject:
    if isinstance(block, TextBlock):
        return {"text": block.text}
    if isinstance(block, ToolUseBlock):
        call: JsonObject = {"functionCall": {"id": block.id, "name": block.name, "args": block.input}}
        if block.signature:
            call["thoughtSignature"] = block.signature
        return call
    if isinstance(block, ImageBlock | FileBlock):
        return _media(block.source)
    raise UnsupportedContentError(provider=_PROTOCOL, content_type=type(block).__name__)


def _function_response(block: ToolResultBlock, name: str) -> JsonObject:
    media = list(_attachments(block))
    text = tool_result_text(block.content)
    if media and not any(isinstance(part, ToolResultTextPart) for part in block.content):
        text = f"[{len(media)} tool-result attachment(s)]"
    response: JsonObject = {
        "id": block.tool_use_id,
        "name": name,
        "response": {"content": text, "isError": bool(block.is_error)},
    }
    if media:
        response["parts"] = media
    return {"functionResponse": response}


def _attachments(block: ToolResultBlock) -> Iterator[JsonObject]:
    if isinstance(block.content, str):
        return
    for part in block.content:
        if not isinstance(part, ToolResultTextPart):
            yield _media(part.source, part.filename if isinstance(part, ToolResultFilePart) else None)


def _media(source: MediaSource, display_name: str | None = None) -> JsonObject:
    if isinstance(source, Base64Source):
        return {
            "inlineData": _known(mimeType=source.media_type, data=padded_base64(source.data), displayName=display_name)
        }
    return {"fileData": _known(mimeType=source.media_type, fileUri=source.url, displayName=display_name)}


def _known(**fields: object) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}

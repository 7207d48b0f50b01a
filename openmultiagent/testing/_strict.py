"""What the real providers would refuse in a request: pairs of calls and results, roles, texts, signatures.

It looks at the JSON of the wire, with code of its own, so that a mistake in the library's checks or adapters shows. The
rules and the words of the refusals are the providers' own, as they were in November 2026. Invariant: whatever JSON
comes, the answer is a refusal or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["STRICT", "Complaint"]

JsonObject = dict[str, Any]

_NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
_RESULT_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
_RESULT_TURN = "Please ensure that function response turn comes immediately after a function call turn."
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_BEDROCK_START = "A conversation must start with a user message. Try again with a conversation that starts with one."
_BEDROCK_TURNS = "A conversation must alternate between user and assistant roles. Make sure the roles alternate."
_BEDROCK_BLOCKS = frozenset(
    {"text", "image", "document", "video", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent"}
)
_PARTS = frozenset({"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"})


class Complaint(Exception):  # noqa: N818 - no error of the library, but the answer to a request
    """Why a request is refused.

    Args:
        message: The provider's words.
        param: The part of the request that it is about, for the providers that name it.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param = message, param


def _openai_chat(body: JsonObject, path: str) -> None:  # noqa: ARG001 - one signature for all protocols
    _need(body, "model", str)
    messages = _need(body, "messages", list)
    if not messages:
        raise Complaint("Invalid 'messages': empty array. Expected an array with minimum length 1.", "messages")
    if not body.get("tools"):
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                raise Complaint(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", name
                )
    owed: dict[str, int] = {}
    for index, message in enumerate(map(_object, messages)):
        where = f"messages.[{index}].role"
        role = message.get("role")
        if role == "tool":
            if owed.pop(str(message.get("tool_call_id")), None) is None:
                text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                raise Complaint(f"Invalid parameter: {text}", where)
            _openai_content(message, index)
            continue
        _openai_answered(owed)
        if role not in ("system", "developer", "user", "assistant"):
            raise Complaint(f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user'.", where)
        calls = message.get("tool_calls")
        if role == "assistant" and calls is not None:
            owed = dict.fromkeys(_openai_calls(calls, index), index)
        elif message.get("content") is None:
            raise Complaint("Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content")
        if message.get("content") is not None:
            _openai_content(message, index)
    _openai_answered(owed)


def _openai_answered(owed: Mapping[str, int]) -> None:
    if owed:
        raise Complaint(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(owed)}",
            f"messages.[{next(iter(owed.values()))}].role",
        )


def _openai_calls(calls: object, index: int) -> Iterator[str]:
    where = f"messages.[{index}].tool_calls"
    if not isinstance(calls, list) or not calls:
        raise Complaint(f"Invalid '{where}': empty array. Expected an array with minimum length 1.", where)
    seen: set[str] = set()
    for call in map(_object, calls):
        call_id, function = call.get("id"), _object(call.get("function"))
        if not isinstance(call_id, str) or not call_id or call_id in seen:
            raise Complaint(f"Invalid or duplicate value for '{where}.id'.", where)
        if not isinstance(function.get("arguments"), str) or not function.get("name"):
            raise Complaint(f"Invalid type for '{where}.function': expected a name and arguments as a string.", where)
        seen.add(call_id)
        yield call_id


def _openai_content(message: JsonObject, index: int) -> None:
    content = message.get("content")
    where = f"messages.[{index}].content"
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise Complaint("Invalid type for 'content': expected a string or a non-empty array of parts.", where)
    for part in map(_object, content):
        kind = part.get("type")
        if kind not in ("text", "image_url", "file", "refusal") or not isinstance(part.get(kind), dict | str):
            raise Complaint(f"Invalid value: {kind!r}.", where)
        if kind == "file" and not {"file_data", "file_id"} & part[kind].keys():
            raise Complaint("Missing required parameter: file_data or file_id.", where)
        if message.get("role") == "tool" and kind != "text":
            raise Complaint(f"Invalid value: {kind!r}. Supported values are: 'text'.", where)


def _openai_responses(body: JsonObject, path: str) -> None:  # noqa: ARG001 - one signature for all protocols
    _need(body, "model", str)
    items = body.get("input")
    if isinstance(items, str):
        return
    if not isinstance(items, list) or not items:
        raise Complaint("Invalid type for 'input': expected a string or a non-empty array of items.", "input")
    calls: dict[str, bool] = {}
    for item in map(_object, items):
        key = str(item.get("call_id"))
        if item.get("type") == "function_call":
            if not isinstance(item.get("arguments"), str) or not item.get("call_id"):
                raise Complaint("Invalid function_call: expected a call_id and arguments as a string.", "input")
            calls[key] = False
        elif item.get("type") == "function_call_output":
            if calls.get(key) is not False and "previous_response_id" not in body:
                raise Complaint(f"No tool call found for function call output with call_id {key}.", "input")
            calls[key] = True
    for key, answered in calls.items():
        if not answered:
            raise Complaint(f"No tool output found for function call {key}.", "input")


def _anthropic(body: JsonObject, path: str) -> None:  # noqa: ARG001 - one signature for all protocols
    _need(body, "model", str)
    if _need(body, "max_tokens", int) < 1:
        raise Complaint("max_tokens: Input should be greater than or equal to 1")
    messages = [_object(message) for message in _need(body, "messages", list)]
    if not messages:
        raise Complaint("messages: at least one message is required")
    owed: dict[str, int] = {}
    answered: set[str] = set()
    ids: set[str] = set()
    role, leads = "", True
    for index, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant"):
            raise Complaint(f'messages: Unexpected role "{message.get("role")}".')
        if message["role"] != role:
            role, leads = message["role"], True
            if role == "assistant":
                _anthropic_answered(owed)
                owed, answered = {}, set()
        for place, block in _anthropic_blocks(message, index):
            kind = block.get("type")
            if role == "assistant" and kind == "tool_use":
                owed[_anthropic_call(block, place, ids)] = index
            elif role == "user" and kind == "tool_result":
                _anthropic_result(block, place, owed, answered, leads=leads)
            elif kind in ("tool_use", "tool_result"):
                raise Complaint(f"{place}: `{kind}` blocks are not allowed in {role} messages")
            else:
                leads = False
    _anthropic_answered(owed)
    if role == "assistant":
        raise Complaint(_NO_PREFILL)


def _anthropic_blocks(message: JsonObject, index: int) -> Iterator[tuple[str, JsonObject]]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or not blocks:
        raise Complaint(f"messages.{index}: all messages must have non-empty content")
    for number, block in enumerate(map(_object, blocks)):
        place = f"messages.{index}.content.{number}"
        _anthropic_block(block, place)
        yield place, block


def _anthropic_block(block: JsonObject, place: str) -> None:
    kind = block.get("type")
    if kind == "text":
        if not isinstance(block.get("text"), str) or not block["text"]:
            raise Complaint("messages: text content blocks must be non-empty")
        if block["text"].isspace():
            raise Complaint("messages: text content blocks must contain non-whitespace text")
    elif kind == "thinking" and not block.get("signature"):
        raise Complaint(f"{place}.thinking.signature: Field required")
    elif kind == "image":
        source = _object(block.get("source"))
        if source.get("type") == "base64" and source.get("media_type") not in _IMAGES:
            raise Complaint(f"{place}.image.source.base64.media_type: Input should be one of {', '.join(_IMAGES)}")
    elif kind not in ("tool_use", "tool_result", "thinking", "redacted_thinking", "document"):
        raise Complaint(f"{place}: Input tag {kind!r} found using 'type' does not match any of the expected tags")


def _anthropic_call(block: JsonObject, place: str, ids: set[str]) -> str:
    call_id = block.get("id")
    if not isinstance(call_id, str) or re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) is None:
        raise Complaint(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if call_id in ids:
        raise Complaint(f"{place}: `tool_use` ids must be unique")
    if not block.get("name") or not isinstance(block.get("input"), dict):
        raise Complaint(f"{place}.tool_use.input: Input should be a valid dictionary")
    ids.add(call_id)
    return call_id


def _anthropic_result(block: JsonObject, place: str, owed: dict[str, int], answered: set[str], *, leads: bool) -> None:
    key = str(block.get("tool_use_id"))
    if key in answered:
        raise Complaint(
            f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {key}"
        )
    if key not in owed:
        raise Complaint(
            f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {key}. Each `tool_result` block must "
            "have a corresponding `tool_use` block in the previous message."
        )
    if not leads:
        _anthropic_answered(owed)
    if block.get("is_error") and not str(block.get("content") or "").strip():
        raise Complaint(f"{place}.tool_result: content cannot be empty if `is_error` is true")
    content = block.get("content")
    for part in map(_object, content if isinstance(content, list) else ()):
        _anthropic_block(part, place)
    del owed[key]
    answered.add(key)


def _anthropic_answered(owed: Mapping[str, int]) -> None:
    if owed:
        raise Complaint(
            f"messages.{next(iter(owed.values()))}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(owed)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        )


def _gemini(body: JsonObject, path: str) -> None:
    contents = [_object(content) for content in _need(body, "contents", list)]
    if not contents:
        raise Complaint("* GenerateContentRequest.contents: contents is not specified")
    owed = 0
    before = ""
    for index, content in enumerate(contents):
        role = content.get("role", "user")
        if role not in ("user", "model", "function"):
            raise Complaint("Please use a valid role: user, model.")
        parts = list(_gemini_parts(content, index))
        calls = sum("functionCall" in part for part in parts)
        results = sum("functionResponse" in part for part in parts)
        if results and not owed:
            raise Complaint(_RESULT_TURN)
        if results != owed:
            raise Complaint(_RESULT_COUNT)
        if calls and before != "user":
            raise Complaint(_CALL_TURN)
        owed, before = calls, "model" if role == "model" else "user"
    if owed:
        raise Complaint(_RESULT_COUNT)
    if "/gemini-3" in path:
        _gemini_signatures(contents)


def _gemini_parts(content: JsonObject, index: int) -> Iterator[JsonObject]:
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise Complaint(f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.")
    for number, part in enumerate(map(_object, parts)):
        if not _PARTS & part.keys():
            where = f"* GenerateContentRequest.contents[{index}].parts[{number}].data"
            raise Complaint(f"{where}: required oneof field 'data' must have one initialized field")
        yield part


def _gemini_signatures(contents: list[JsonObject]) -> None:
    """Gemini 3 wants the signature of the first call of each step behind the user's last words."""
    last = max((n for n, content in enumerate(contents) if _speaks(content)), default=-1)
    for content in contents[last + 1 :]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            name = _object(calls[0]["functionCall"]).get("name")
            raise Complaint(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                f"work correctly. Additional data, function call `default_api:{name}`."
            )


def _speaks(content: JsonObject) -> bool:
    return content.get("role") != "model" and any("functionResponse" not in part for part in content["parts"])


def _bedrock(body: JsonObject, path: str) -> None:  # noqa: ARG001 - one signature for all protocols
    messages = [_object(message) for message in _need(body, "messages", list)]
    if not messages:
        raise Complaint("A conversation must start with a user message. Try again with at least one message.")
    owed: dict[str, int] = {}
    before = "assistant"
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise Complaint(
                f"Value {role!r} at 'messages.{index}.role' failed to satisfy constraint: [user, assistant]"
            )
        if role == before:
            raise Complaint(_BEDROCK_TURNS if index else _BEDROCK_START)
        before = role
        owed = _bedrock_turn(message, index, owed)
    if before != "user":
        raise Complaint(_NO_PREFILL)
    if "toolConfig" not in body and any(_bedrock_tools(message) for message in messages):
        raise Complaint("The toolConfig field must be defined when using toolUse and toolResult content blocks.")


def _bedrock_turn(message: JsonObject, index: int, owed: Mapping[str, int]) -> dict[str, int]:
    """Check the blocks of a message against the calls before it; return the calls in it."""
    place = f"messages.{index}.content"
    content = message.get("content")
    if not isinstance(content, list) or not content:
        raise Complaint(f"The content field in the Message object at messages.{index} is empty. Add a ContentBlock.")
    calls: dict[str, int] = {}
    results: list[str] = []
    for number, block in enumerate(map(_object, content)):
        if not _BEDROCK_BLOCKS & block.keys():
            raise Complaint(f"The ContentBlock object at {place}.{number} must set one of its keys.")
        if "text" in block and not str(block["text"] or "").strip():
            raise Complaint(f"The text field in the ContentBlock object at {place}.{number} is blank. Add text to it.")
        if "toolUse" in block:
            call = _object(block["toolUse"])
            calls[_bedrock_id(call, f"{place}.{number}.toolUse")] = index
            if not call.get("name") or not isinstance(call.get("input"), dict):
                raise Complaint(
                    f"The format of the value at {place}.{number}.toolUse.input is invalid. Give an object."
                )
        if "toolResult" in block:
            results.append(_bedrock_id(_object(block["toolResult"]), f"{place}.{number}.toolResult"))
    missing = [key for key in owed if key not in results]
    if missing:
        raise Complaint(f"Expected toolResult blocks at {place} for the following Ids: {', '.join(missing)}")
    if len(results) != len(owed):
        raise Complaint(
            f"The number of toolResult blocks at {place} exceeds the number of toolUse blocks of previous turn."
        )
    return calls


def _bedrock_id(block: JsonObject, place: str) -> str:
    given = block.get("toolUseId")
    if not isinstance(given, str) or re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", given) is None:
        raise Complaint(f"Value at '{place}.toolUseId' failed to satisfy constraint: [a-zA-Z0-9_.:-]+, at most 64")
    return given


def _bedrock_tools(message: JsonObject) -> bool:
    return any("toolUse" in block or "toolResult" in block for block in message["content"])


def _need(body: JsonObject, name: str, kind: type) -> Any:
    value = body.get(name)
    if not isinstance(value, kind) or value is True:
        raise Complaint(f"{name}: Field required", name)
    return value


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise Complaint(f"Invalid type: expected an object, got {type(value).__name__}.")
    return value


STRICT: Mapping[str, Callable[[JsonObject, str], None]] = {
    "openai": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
"""By protocol: raise a ``Complaint`` for a request that the provider would refuse; given its body and its path."""

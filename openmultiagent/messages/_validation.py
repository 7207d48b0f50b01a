"""The check of whole conversations: messages, and mappings like messages.

What is handed to the library is walked in document order, and the first fault is told with its path. Invariant: what is
returned is valid and consists of models only; it may share them with what was read, so a copy has to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from ..errors import InvalidMessageError
from ._faults import Fault, json_type
from ._images import IMAGE_DETAILS, ImageBlock, ImageDetail, source_from_url
from ._json import plain_json, replace_lone_surrogates
from ._media import image_media_type_fault
from ._models import (
    ContentBlock,
    FileBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from ._reading import (
    Fields,
    fields_of,
    kind_of,
    read_filename,
    read_optional_text,
    read_source,
    read_text,
    read_tool_result_content,
    same_or_made,
)

__all__ = ["as_list", "is_sequence", "read_content", "read_message", "read_messages"]

_ROLES: Mapping[object, Role] = {role.value: role for role in Role}

_ALLOWED: Mapping[Role, tuple[str, ...]] = {
    Role.SYSTEM: ("text",),
    Role.USER: ("text", "image", "file", "tool_result"),
    Role.ASSISTANT: ("text", "reasoning", "tool_use"),
    Role.TOOL: ("tool_result",),
}
"""Which blocks may stand under which role."""


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Say whether a value is a sequence of things, not of characters or bytes.

    Args:
        value: Anything.
    """
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def as_list(value: object, root: str) -> list[Any]:
    """Return the items of a sequence of messages.

    Args:
        value: Anything.
        root: What errors call it.

    Raises:
        InvalidMessageError: It is no list, tuple or other sequence.
    """
    if is_sequence(value):
        return list(value)
    fields = fields_of(value)
    hint = "" if fields is None or "content" not in fields else "; wrap the message in a list: [message]"
    raise InvalidMessageError(f"{root} must be an array, got {json_type(value)}{hint}", path=root)


def read_messages(values: Iterable[object], root: str, *, start: int = 0) -> list[LLMMessage]:
    """Return valid messages: those that are models already as they are, others made new.

    Args:
        values: Messages or mappings like messages.
        root: What errors call them.
        start: The index of the first, for errors.

    Raises:
        InvalidMessageError: One is not valid; the path says where.
    """
    return [read_message(value, f"{root}[{index}]") for index, value in enumerate(values, start)]


def read_message(value: object, path: str) -> LLMMessage:
    """Return a valid message: the same object when it is one through and through, else one made of its fields.

    Args:
        value: A message or a mapping like one.
        path: What errors call it.

    Raises:
        InvalidMessageError: It is not valid; the path says where.
    """
    try:
        return _read_message(value)
    except Fault as fault:
        raise fault.at(path) from None


def _read_message(value: object) -> LLMMessage:
    fields = fields_of(value)
    if fields is None:
        raise Fault(f"must be an object, got {json_type(value)}")
    content = fields.get("content")
    if not isinstance(content, list | tuple):
        raise Fault(f"must be a ContentBlock[], got {json_type(content)}", ".content")
    given = fields.get("role")
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise Fault(f"must be one of {', '.join(Role)}", ".role")
    return same_or_made(value, LLMMessage, {"role": role, "content": read_content(content, role)})


def read_content(content: list[Any] | tuple[Any, ...], role: Role) -> list[ContentBlock]:
    """Return the valid blocks of a message: the same list when all of them are models already, else another one.

    Args:
        content: Blocks or mappings like blocks.
        role: Who speaks, which decides on the kinds of blocks.

    Raises:
        Fault: One is not valid, or may not stand there.
    """
    if type(content) is list and role is not Role.TOOL and all(map(_is_plain_text, content)):
        return content
    allowed = _ALLOWED[role]
    blocks: list[ContentBlock] = []
    same = type(content) is list
    for index, item in enumerate(content):
        try:
            block = _read_block(item)
            if block.type not in allowed:
                raise _misplaced(block.type, role)
        except Fault as fault:
            raise fault.within(f".content[{index}]") from None
        blocks.append(block)
        same = same and block is item
    if role is Role.TOOL and not blocks:
        raise Fault("must have at least one tool_result block in a tool message", ".content")
    return content if same else blocks  # type: ignore[return-value]  # a list, if it is the same


def _misplaced(kind: str, role: Role) -> Fault:
    allowed = ", ".join(_ALLOWED[role])
    return Fault(f'has type "{kind}", which is not allowed in a message of role "{role}"; allowed: {allowed}')


def _read_block(value: object) -> ContentBlock:
    if _is_plain_text(value):
        return value
    fields = fields_of(value)
    kind = None if fields is None else kind_of(fields)
    if fields is None or kind is None:
        hint = "; this is a message, not a block" if fields is not None and "role" in fields else ""
        raise Fault(f'must be a content block with a string "type"{hint}')
    reader = _READERS.get(kind)
    if reader is None:
        shown = replace_lone_surrogates(kind[:100])  # an error must be fit for a log
        raise Fault(f'"{shown}" is not supported; known: {", ".join(_READERS)}', ".type")
    return reader(value, fields)


def _is_plain_text(value: object) -> TypeGuard[TextBlock]:
    """Say whether a block is text that needs no further look, as by far the most blocks are."""
    if type(value) is not TextBlock:
        return False
    fields = value.__dict__
    text, kind = fields.get("text"), fields.get("type")
    return type(text) is str and text.isascii() and type(kind) is str and kind == "text"


def _read_text_block(value: object, fields: Fields) -> TextBlock:
    return same_or_made(value, TextBlock, {"type": fields["type"], "text": read_text(fields, "text")})


def _read_reasoning(value: object, fields: Fields) -> ReasoningBlock:
    given = "redactedData" if "redacted_data" not in fields and "redactedData" in fields else "redacted_data"
    made = {
        "type": "reasoning",
        "text": read_text(fields, "text"),
        "signature": read_optional_text(fields, "signature"),
        "redacted_data": read_optional_text(fields, given),
        "provenance": read_optional_text(fields, "provenance"),
    }
    return same_or_made(value, ReasoningBlock, made)


def _read_tool_use(value: object, fields: Fields) -> ToolUseBlock:
    made: dict[str, Any] = {"type": "tool_use", "id": read_text(fields, "id"), "name": read_text(fields, "name")}
    given = fields.get("input")
    if not isinstance(given, Mapping):
        raise Fault("must be an object", ".input")
    try:
        made["input"] = plain_json(given)
    except Fault as fault:
        raise fault.within(".input") from None
    made["signature"] = read_optional_text(fields, "signature")
    made["input_error"] = read_optional_text(fields, "input_error")
    return same_or_made(value, ToolUseBlock, made)


def _read_tool_result(value: object, fields: Fields) -> ToolResultBlock:
    tool_use_id = read_text(fields, "tool_use_id")
    is_error = fields.get("is_error")
    if is_error is not None and not isinstance(is_error, bool):
        raise Fault("must be a boolean when provided", ".is_error")
    try:
        content = read_tool_result_content(fields.get("content"))
    except Fault as fault:
        raise fault.within(".content") from None
    if is_error and not isinstance(content, str):
        raise Fault("must be a string for an error tool result", ".content")
    made = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error}
    return same_or_made(value, ToolResultBlock, made)


def _read_image(value: object, fields: Fields) -> ImageBlock:
    if "url" in fields and "source" not in fields:
        try:
            source = source_from_url(fields["url"])
        except InvalidMessageError as error:
            raise Fault(f"is invalid: {error.message}", ".url") from None
    else:
        source = read_source(fields, typed=False)
    fault = None if source.media_type is None else image_media_type_fault(source.media_type)
    if fault is not None:
        raise Fault(fault, ".source.media_type")
    given = fields.get("detail")
    detail = ImageDetail.AUTO if given is None else IMAGE_DETAILS.get(given) if isinstance(given, str) else None
    if detail is None:
        raise Fault(f"must be one of {', '.join(ImageDetail)}", ".detail")
    return same_or_made(value, ImageBlock, {"type": "image", "source": source, "detail": detail})


def _read_file(value: object, fields: Fields) -> FileBlock:
    filename = read_filename(fields)
    return same_or_made(
        value, FileBlock, {"type": "file", "filename": filename, "source": read_source(fields, typed=False)}
    )


_READERS: Mapping[str, Callable[[object, Fields], ContentBlock]] = {
    "text": _read_text_block,
    "reasoning": _read_reasoning,
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "image": _read_image,
    "file": _read_file,
}

"""Tool results: how their content is stored, copied, measured, summed up and stripped of media.

Content is a string or a non-empty list of parts. Not here: how it is checked (``_reading``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..errors import InvalidMessageError
from ._base import Model
from ._clone import clone
from ._explain import takes_tool_result
from ._faults import Fault
from ._json import plain_json
from ._parts import ToolResultContent, ToolResultFilePart, ToolResultImagePart, ToolResultPart, ToolResultTextPart
from ._reading import read_tool_result_content
from ._sources import Base64Source

__all__ = [
    "copy_tool_result_content",
    "part_size",
    "stored_tool_result",
    "strip_tool_result_media",
    "summarize_tool_result",
    "tool_result_has_media",
    "tool_result_parts",
    "tool_result_size",
    "tool_result_text",
]

_PART_KINDS = frozenset({"text", "image", "file"})

_MEDIA_SIZE = 32
"""Characters that a media part counts for besides its data, type and name."""


def copy_tool_result_content(value: object, path: str = "model_output") -> ToolResultContent:
    """Check what a tool wants the model to see, and return a private copy with known keys only.

    Args:
        value: A string, or a non-empty list of parts or mappings that look like parts.
        path: What errors call the value.

    Raises:
        TypeError: It is neither; the text begins with the place of the fault.
    """
    try:
        content = read_tool_result_content(value)
    except Fault as fault:
        raise TypeError(f"{path}{fault.where} {fault.text}") from None
    copied: ToolResultContent = clone(content)
    return copied


def stored_tool_result(content: object) -> object:
    """Return what a tool result block stores for a value: text, parts, or the compact JSON text of anything else.

    Args:
        content: Anything.

    Raises:
        InvalidMessageError: It is not JSON-like.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, Model):
        return [content]
    if _looks_like_parts(content):
        return content
    try:
        return json.dumps(plain_json(content), ensure_ascii=False, separators=(",", ":"))
    except Fault as fault:
        raise InvalidMessageError(f"ToolResultBlock.content{fault.where} {fault.text}") from None


def _looks_like_parts(content: object) -> bool:
    if not isinstance(content, list | tuple) or not content:
        return False
    return any(isinstance(item, Model) for item in content) or all(_looks_like_part(item) for item in content)


def _looks_like_part(item: object) -> bool:
    kind = item.get("type") if isinstance(item, Mapping) else None
    return isinstance(kind, str) and kind in _PART_KINDS


@takes_tool_result
def tool_result_parts(content: ToolResultContent) -> list[ToolResultPart]:
    """Return a tool result's parts; a string is one text part.

    Args:
        content: Valid content; its parts are handed out, not copied.

    Raises:
        InvalidMessageError: It is no such content.
    """
    return [ToolResultTextPart(text=content)] if isinstance(content, str) else list(content)


@takes_tool_result
def tool_result_text(content: ToolResultContent) -> str:
    """Return the text of a tool result, its text parts joined by newlines.

    Args:
        content: Valid content.

    Raises:
        InvalidMessageError: It is no such content.
    """
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, ToolResultTextPart))


@takes_tool_result
def tool_result_has_media(content: ToolResultContent) -> bool:
    """Say whether a tool result has an image or a file.

    Args:
        content: Valid content.

    Raises:
        InvalidMessageError: It is no such content.
    """
    return not isinstance(content, str) and any(not isinstance(part, ToolResultTextPart) for part in content)


@takes_tool_result
def tool_result_size(content: ToolResultContent) -> int:
    """Return the size of a tool result in characters, media as they are sent.

    Args:
        content: Valid content.

    Raises:
        InvalidMessageError: It is no such content.
    """
    return len(content) if isinstance(content, str) else sum(map(part_size, content))


def part_size(part: ToolResultPart) -> int:
    """Return the size of one part of a tool result in characters.

    Args:
        part: A valid part.
    """
    if isinstance(part, ToolResultTextPart):
        return len(part.text)
    source = part.source
    data = source.data if isinstance(source, Base64Source) else source.url
    name = part.filename if isinstance(part, ToolResultFilePart) else ""
    return len(data) + len(source.media_type or "") + len(name) + _MEDIA_SIZE


@takes_tool_result
def summarize_tool_result(content: ToolResultContent) -> str:
    """Return a tool result as text for records and logs: media are named, never shown.

    Args:
        content: Valid content.

    Raises:
        InvalidMessageError: It is no such content.
    """
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, ToolResultTextPart) else _placeholder(part) for part in content)


@takes_tool_result
def strip_tool_result_media(content: ToolResultContent) -> ToolResultContent:
    """Return a tool result in which a text stands for each image and file.

    Args:
        content: Valid content; it stays as it is, and its text parts are shared.

    Raises:
        InvalidMessageError: It is no such content.
    """
    if isinstance(content, str):
        return content
    return [
        part if isinstance(part, ToolResultTextPart) else ToolResultTextPart(text=_placeholder(part))
        for part in content
    ]


def _placeholder(part: ToolResultImagePart | ToolResultFilePart) -> str:
    how = "inline data" if isinstance(part.source, Base64Source) else "URL reference"
    if isinstance(part, ToolResultFilePart):
        return f"[file: {part.filename}; {part.source.media_type}; {how}]"
    return f"[image: {part.source.media_type}; {how}]"

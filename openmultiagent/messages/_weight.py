"""The most tokens that a message can come to, for those who must never be surprised: its UTF-8 bytes.

Tokenizers of language models work on bytes, and a token has at least one, so a text has no more tokens than bytes;
mostly it has a quarter of that. Not an estimate (``estimate_tokens``). Invariants: the bytes of an image never count;
measuring a text that is ASCII does not look at it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidMessageError
from ._explain_messages import takes_message
from ._faults import json_type
from ._images import ImageBlock
from ._models import ContentBlock, FileBlock, LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from ._parts import ToolResultImagePart, ToolResultPart, ToolResultTextPart
from ._sources import Base64Source, MediaSource

__all__ = ["most_tokens", "most_tokens_of_json", "most_tokens_of_text"]

_MESSAGE_OVERHEAD = 8
"""What providers put around a message: its role and marks."""

_LARGE_IMAGE = 4_800
"""The most that a provider says an image costs (Anthropic's high resolution, 4,784)."""
_IMAGE_TOKENS = {"low": 512, "auto": _LARGE_IMAGE, "high": _LARGE_IMAGE}


@takes_message
def most_tokens(message: LLMMessage) -> int:
    """Return the most tokens that a message can come to when it is sent.

    What a URL leads to cannot be measured: it counts as one large image.

    Args:
        message: The message.

    Raises:
        InvalidMessageError: It is no valid message.
    """
    return _MESSAGE_OVERHEAD + sum(map(_of_block, message.content))


def most_tokens_of_text(text: str | None) -> int:
    """Return the number of bytes of a text, in UTF-8.

    Args:
        text: The text; None is none.

    Raises:
        InvalidMessageError: It is neither.
    """
    if text is not None and not isinstance(text, str):
        raise InvalidMessageError(f"text must be a string or None, got {json_type(text)}", path="text")
    return _bytes(text)


def _bytes(text: str | None) -> int:
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def most_tokens_of_json(value: Mapping[str, Any] | None) -> int:
    """Return the number of bytes of JSON data when it is written.

    Args:
        value: The data; None is none.

    Raises:
        InvalidMessageError: It is no mapping, or cannot be written.
    """
    if value is None:
        return 0
    if not isinstance(value, Mapping):
        raise InvalidMessageError(f"value must be an object or None, got {json_type(value)}", path="value")
    try:
        return _bytes(json.dumps(value, ensure_ascii=False, default=str))
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidMessageError(f"value cannot be written as JSON: {error}", path="value") from error


def _of_block(block: ContentBlock) -> int:
    if isinstance(block, TextBlock):
        return _bytes(block.text)
    if isinstance(block, ReasoningBlock):
        hidden = _bytes(block.signature) + _bytes(block.redacted_data)
        return _bytes(block.text) + hidden
    if isinstance(block, ToolUseBlock):
        named = _bytes(block.id) + _bytes(block.name) + _bytes(block.signature)
        return named + most_tokens_of_json(block.input)
    if isinstance(block, ImageBlock):
        return _IMAGE_TOKENS[block.detail]
    if isinstance(block, FileBlock):
        return _of_file(block.source, block.filename)
    content = block.content
    inside = _bytes(content) if isinstance(content, str) else sum(map(_of_part, content))
    return _bytes(block.tool_use_id) + inside


def _of_part(part: ToolResultPart) -> int:
    if isinstance(part, ToolResultTextPart):
        return _bytes(part.text)
    return _LARGE_IMAGE if isinstance(part, ToolResultImagePart) else _of_file(part.source, part.filename)


def _of_file(source: MediaSource, name: str) -> int:
    # A page of a document is read as an image beside its text.
    data = source.data if isinstance(source, Base64Source) else source.url
    return _LARGE_IMAGE + _bytes(data) + _bytes(name)

"""The most tokens that a message can come to, for those who must never be surprised: its UTF-8 bytes.

Tokenizers of language models work on bytes, and a token has at least one, so a text has no more tokens than bytes;
mostly it has a quarter of that. Not an estimate (``estimate_tokens``). Invariants: the bytes of an image never count;
measuring a text that is ASCII does not look at it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


def most_tokens(message: LLMMessage) -> int:
    """Return the most tokens that a message can come to when it is sent.

    What a URL leads to cannot be measured: it counts as one large image.

    Args:
        message: The message.
    """
    return _MESSAGE_OVERHEAD + sum(map(_of_block, message.content))


def most_tokens_of_text(text: str | None) -> int:
    """Return the number of bytes of a text, in UTF-8.

    Args:
        text: The text; None is none.
    """
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def most_tokens_of_json(value: Mapping[str, Any] | None) -> int:
    """Return the number of bytes of JSON data when it is written.

    Args:
        value: The data; None is none.
    """
    return 0 if value is None else most_tokens_of_text(json.dumps(value, ensure_ascii=False, default=str))


def _of_block(block: ContentBlock) -> int:
    if isinstance(block, TextBlock):
        return most_tokens_of_text(block.text)
    if isinstance(block, ReasoningBlock):
        hidden = most_tokens_of_text(block.signature) + most_tokens_of_text(block.redacted_data)
        return most_tokens_of_text(block.text) + hidden
    if isinstance(block, ToolUseBlock):
        named = most_tokens_of_text(block.id) + most_tokens_of_text(block.name) + most_tokens_of_text(block.signature)
        return named + most_tokens_of_json(block.input)
    if isinstance(block, ImageBlock):
        return _IMAGE_TOKENS[block.detail]
    if isinstance(block, FileBlock):
        return _of_file(block.source, block.filename)
    content = block.content
    inside = most_tokens_of_text(content) if isinstance(content, str) else sum(map(_of_part, content))
    return most_tokens_of_text(block.tool_use_id) + inside


def _of_part(part: ToolResultPart) -> int:
    if isinstance(part, ToolResultTextPart):
        return most_tokens_of_text(part.text)
    return _LARGE_IMAGE if isinstance(part, ToolResultImagePart) else _of_file(part.source, part.filename)


def _of_file(source: MediaSource, name: str) -> int:
    # A page of a document is read as an image beside its text.
    data = source.data if isinstance(source, Base64Source) else source.url
    return _LARGE_IMAGE + most_tokens_of_text(data) + most_tokens_of_text(name)

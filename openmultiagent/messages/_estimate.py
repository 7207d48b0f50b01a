"""How many tokens a conversation has, about: characters over four.

It is an estimate for decisions such as "shorten the history now", not a tokenizer and not a bill. Invariant: the bytes
of an image never count, since no provider counts them; an image costs what its detail says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from .._shown import shown
from ..errors import ConfigurationError
from ._explain_messages import takes_message, takes_messages
from ._images import ImageBlock
from ._models import ContentBlock, FileBlock, LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from ._parts import ToolResultContent, ToolResultImagePart
from ._sources import Base64Source
from ._tool_results import part_size

__all__ = ["estimate_message_chars", "estimate_tokens", "is_approaching_limit"]

_CHARS_PER_TOKEN = 4

_IMAGE_CHARS = {"low": 85 * 4, "auto": 200 * 4, "high": 300 * 4}
"""What an image counts for, by detail; an image in a tool result has none and counts as ``auto``."""

_MESSAGE_OVERHEAD = 8
_CONVERSATION_OVERHEAD = 16
_FILE_OVERHEAD = 32


@takes_messages
def estimate_tokens(messages: Sequence[LLMMessage], *, overhead: bool = False) -> int:
    """Return about how many tokens a conversation has.

    Args:
        messages: The conversation.
        overhead: Also count what providers put around messages: 16 characters for a conversation, 8 for each message,
            and the ids and names of tool calls.

    Raises:
        InvalidMessageError: Something in it is no valid message.
    """
    chars = sum(_message_chars(message, overhead=overhead) for message in messages)
    if overhead and messages:
        chars += _CONVERSATION_OVERHEAD
    return -(-chars // _CHARS_PER_TOKEN)


@takes_message
def estimate_message_chars(message: LLMMessage, *, overhead: bool = False) -> int:
    """Return how many characters a message counts for, so that a growing conversation can be estimated step by step.

    Args:
        message: The message.
        overhead: As for ``estimate_tokens``, without what is counted once for the conversation.

    Raises:
        InvalidMessageError: It is no valid message.
    """
    return _message_chars(message, overhead=overhead)


def _message_chars(message: LLMMessage, *, overhead: bool) -> int:
    chars = _MESSAGE_OVERHEAD if overhead else 0
    for block in message.content:
        chars += _block_chars(block) + (_name_chars(block) if overhead else 0)
    return chars


def is_approaching_limit(messages: Sequence[LLMMessage], limit: int, margin: float = 0.9) -> bool:
    """Tell whether a conversation has more tokens, by estimate, than a share of a limit.

    Args:
        messages: The conversation.
        limit: The limit, in tokens; more than 0.
        margin: The share of the limit, more than 0.

    Raises:
        ConfigurationError: The limit or the margin is no positive number.
        InvalidMessageError: Something in the conversation is no valid message.
    """
    for name, value in (("limit", limit), ("margin", margin)):
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ConfigurationError(
                f"is_approaching_limit: {name} must be a finite number above 0, got {shown(value)}"
            )
    try:
        most = int(limit * margin)
    except OverflowError:  # a whole number beyond all floats
        most = limit
    return estimate_tokens(messages) > most


def _block_chars(block: ContentBlock) -> int:
    if isinstance(block, TextBlock | ReasoningBlock):
        return len(block.text)
    if isinstance(block, ToolUseBlock):
        # As it is sent: escaping non-ASCII characters would make Chinese text weigh up to six times as much.
        return len(json.dumps(block.input, separators=(",", ":"), ensure_ascii=False))
    if isinstance(block, ImageBlock):
        return _IMAGE_CHARS[block.detail]
    if isinstance(block, FileBlock):
        source = block.source
        payload = source.data if isinstance(source, Base64Source) else source.url
        return len(payload) + len(source.media_type or "") + len(block.filename) + _FILE_OVERHEAD
    return _tool_result_chars(block.content)


def _tool_result_chars(content: ToolResultContent) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(_IMAGE_CHARS["auto"] if isinstance(part, ToolResultImagePart) else part_size(part) for part in content)


def _name_chars(block: ContentBlock) -> int:
    if isinstance(block, ToolUseBlock):
        return len(block.id) + len(block.name)
    return len(block.tool_use_id) if block.type == "tool_result" else 0

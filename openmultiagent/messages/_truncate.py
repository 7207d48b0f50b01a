"""Cutting off the old part of a conversation.

Not here: summaries, or when to cut. Invariant: a tool call and its result stay together, so that a provider does not
meet one without the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._shown import shown
from ..errors import ConfigurationError
from ._copy import copy_messages
from ._explain_messages import takes_messages
from ._models import LLMMessage, ToolResultBlock, ToolUseBlock
from ._normalize import leading_system_messages

__all__ = ["truncate_messages"]


@takes_messages
def truncate_messages(
    messages: Sequence[LLMMessage],
    keep: int = 10,
    preserve_system: bool = True,  # noqa: FBT001, FBT002 - the known call
) -> list[LLMMessage]:
    """Return copies of the last messages of a conversation.

    The cut never parts a tool call from its result. An exchange (a message with tool calls, and everything up to the
    last of their results) that does not fit whole into ``keep`` is left out, except when it is the newest: that one is
    kept whole, though it be longer than ``keep``.

    Args:
        messages: The conversation; it is not changed.
        keep: How many messages to keep, at least 0.
        preserve_system: Keep the system messages that the conversation begins with in addition to ``keep``.

    Raises:
        ConfigurationError: ``keep`` is no whole number of at least 0, or ``preserve_system`` no boolean.
        InvalidMessageError: Something in the conversation is no valid message.
    """
    if type(keep) is not int or keep < 0:
        raise ConfigurationError(f"truncate_messages: keep must be a whole number of at least 0, got {shown(keep)}")
    if not isinstance(preserve_system, bool):
        raise ConfigurationError(
            f"truncate_messages: preserve_system must be True or False, got {shown(preserve_system)}"
        )
    lead = leading_system_messages(messages) if preserve_system else 0
    kept = [*messages[:lead], *messages[_cut(messages, lead, keep) :]]
    return copy_messages(kept)


def _cut(messages: Sequence[LLMMessage], start: int, keep: int) -> int:
    """Return the index of the first message to keep, at or after ``start``."""
    wanted = max(start, len(messages) - keep)
    if keep == 0 or wanted == start:
        return wanted
    boundaries = _boundaries(messages)
    following = next((index for index in range(wanted, len(messages)) if boundaries[index]), None)
    if following is not None:
        return following
    return max(start, next(index for index in reversed(range(wanted)) if boundaries[index]))


def _boundaries(messages: Sequence[LLMMessage]) -> list[bool]:
    """Tell for each message whether a cut before it leaves all calls together with their results."""
    callers = _callers(messages)
    boundaries = [True] * len(messages)
    first_needed = len(messages)
    for index in reversed(range(len(messages))):
        first_needed = min(first_needed, callers[index])
        boundaries[index] = first_needed >= index
    return boundaries


def _callers(messages: Sequence[LLMMessage]) -> list[int]:
    """Tell for each message which is the first one that it cannot be without: itself, or one whose calls it answers."""
    latest: dict[str, int] = {}  # ids may come again in a later turn: a result answers the latest call before it
    callers = []
    for index, message in enumerate(messages):
        first = index
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                latest[block.id] = index
            elif isinstance(block, ToolResultBlock):
                first = min(first, latest.get(block.tool_use_id, index))
        callers.append(first)
    return callers

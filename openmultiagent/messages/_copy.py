"""Private copies of messages and blocks.

Not here: how a copy is made (``_clone``). Invariant: a copy equals what it was made of and shares nothing with it that
can be changed, and its cost follows the number of blocks, never the bytes in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidMessageError
from ._clone import clone
from ._models import ContentBlock, LLMMessage
from ._validation import as_list, read_message

__all__ = ["UnreadMessages", "copy_blocks", "copy_message", "copy_messages"]


class UnreadMessages:
    """Messages that nobody changes any more, and of which whoever reads them makes a copy.

    Args:
        messages: The messages; the list belongs to this object from now on.
    """

    __slots__ = ("shared",)

    def __init__(self, messages: list[LLMMessage]) -> None:
        self.shared = messages
        """The messages themselves: to be read, never changed."""

    def copy(self) -> list[LLMMessage]:
        """Return copies of the messages, for their receiver to keep and change."""
        return copy_messages(self.shared)


def copy_messages(messages: Iterable[LLMMessage | Mapping[str, Any]]) -> list[LLMMessage]:
    """Return private copies of messages.

    Args:
        messages: Messages, which are copied as they are; mappings like messages, which are checked and read.

    Raises:
        InvalidMessageError: They are no collection, a mapping is no valid message, or a message holds data that is
            not JSON-like.
    """
    copies = []
    for index, message in enumerate(_items(messages, "messages")):
        known = message if isinstance(message, LLMMessage) else read_message(message, f"messages[{index}]")
        try:
            copies.append(clone(known))
        except Exception as error:  # a foreign object's own copying can raise anything
            raise _uncopyable(f"messages[{index}]", error) from error
    return copies


def copy_message(message: LLMMessage | Mapping[str, Any]) -> LLMMessage:
    """Return a private copy of one message.

    Args:
        message: A message, which is copied as it is, or a mapping like one, which is checked and read.

    Raises:
        InvalidMessageError: The mapping is no valid message, or the message holds data that is not JSON-like.
    """
    return copy_messages([message])[0]


def copy_blocks(blocks: Iterable[ContentBlock]) -> list[ContentBlock]:
    """Return private copies of content blocks.

    Args:
        blocks: Content blocks, which are copied as they are.

    Raises:
        InvalidMessageError: They are no collection, or a block holds data that is not JSON-like.
    """
    items = _items(blocks, "content")
    try:
        return [clone(block) for block in items]
    except Exception as error:
        raise _uncopyable("content", error) from error


def _items(values: Any, root: str) -> Iterable[Any]:
    if type(values) is list:
        return values
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        as_list(values, root)  # which says what is wrong
    return values  # type: ignore[no-any-return]


def _uncopyable(path: str, error: Exception) -> InvalidMessageError:
    reason = "it is nested too deeply, or contains itself" if isinstance(error, RecursionError) else str(error)
    return InvalidMessageError(f"{path} must be cloneable structured data (JSON-like): {reason:.200}", path=path)

"""Sections of prompts about a team: what its agents remember, and what they wrote to each other.

What stands in them was written by models. Invariant: no value can look like a heading or like the next item, since
every line of it but the first is indented.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .._shown import shown
from ..errors import ConfigurationError
from ..stores import MemoryEntry
from ._message import BusMessage

__all__ = ["MESSAGES_HEADING", "check_whole", "message_item", "summarize"]

MESSAGES_HEADING = "## Messages from team members"
"""Above the messages to an agent in its prompt."""

_UNKNOWN = "_unknown"
"""In place of a writer, for keys without one."""


def summarize(
    entries: Iterable[MemoryEntry],
    task_ids: Collection[str] | None,
    max_value_chars: int,
    *,
    without: Collection[str] = (),
) -> str:
    """Return entries as a section of a prompt, grouped by their writers; an empty text when there are none.

    Args:
        entries: What there is.
        task_ids: Only the results of these tasks; everything unless given.
        max_value_chars: Longer values are cut.
        without: Not the results of these tasks.

    Raises:
        ConfigurationError: The limit is no whole number from 3.
    """
    check_whole(max_value_chars, 3, "max_value_chars")
    wanted = None if task_ids is None else {f"task:{task_id}:result" for task_id in task_ids}
    unwanted = {f"task:{task_id}:result" for task_id in without}
    groups: dict[str, list[str]] = {}
    for entry in entries:
        writer, slash, key = entry.key.partition("/")
        if not slash:
            writer, key = _UNKNOWN, entry.key
        if key not in unwanted and (wanted is None or key in wanted):
            groups.setdefault(writer, []).append(f"- {key}: {_indented(_cut(entry.value, max_value_chars))}")
    if not groups:
        return ""
    sections = ["\n".join([f"### {name}", *items]) for name, items in groups.items()]
    return "\n\n".join(["## Shared Team Memory", *sections])


def check_whole(value: object, least: int, what: str) -> None:
    """Refuse what is no whole number, or too small a one.

    Args:
        value: Anything.
        least: The least that is good.
        what: What the caller calls it, for the error.

    Raises:
        ConfigurationError: It is not good.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{what} must be a whole number from {least}, got {shown(value)}")


def message_item(message: BusMessage) -> str:
    """Return a message as an item of a prompt.

    Args:
        message: The message.
    """
    return f"- **{message.sender}**: {_indented(message.content)}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}…"


def _indented(text: str) -> str:
    return "\n  ".join(text.splitlines())

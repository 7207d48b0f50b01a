"""What a store holds: entries, what may be in one, and which keys are whose.

Not here: stores. Invariant: an entry never changes, and its metadata are nobody else's: they are copied on the way in
and on the way out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from datetime import UTC, datetime
from typing import Any

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ..messages import copy_json_data

__all__ = [
    "APPROVAL_PREFIX",
    "CHECKPOINT_PREFIX",
    "RESERVED_PREFIXES",
    "VALUE_ENCODING",
    "MemoryEntry",
    "checked_expiry",
    "checked_key",
    "checked_metadata",
    "checked_text",
    "copy_metadata",
    "is_reserved",
    "now",
    "stored_entry",
]

CHECKPOINT_PREFIX = "__oma_checkpoint__/"
"""Begins the keys of checkpoints."""

APPROVAL_PREFIX = "__oma_approval__/"
"""Begins the keys of approvals."""

RESERVED_PREFIXES = (CHECKPOINT_PREFIX, APPROVAL_PREFIX)
"""Begin the keys of what the library itself stores, which is no shared memory."""

VALUE_ENCODING = "shared_memory_value_encoding"
"""The metadata key that says how a value of shared memory was made a text; ``json``, or absent for a plain text."""

_MAX_KEY = 512
_INT64 = 2**63
_ATOMS = (str, int, float, bool, type(None))


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


@record
class MemoryEntry:
    """A text under a key, as a store keeps it."""

    key: str
    value: str
    _: KW_ONLY
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """JSON-like data that go with the value."""
    created_at: datetime = field(default_factory=now)
    """When the key was first set, in UTC; later values of the key keep it."""
    expires_at_turn: int | None = None
    """The turn from which on shared memory hides it; None for ever."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON data."""
        return {
            "key": self.key,
            "value": self.value,
            "metadata": copy_metadata(self.metadata),
            "created_at": self.created_at.isoformat(),
            "expires_at_turn": self.expires_at_turn,
        }

    @staticmethod
    def from_dict(record: Any, *, where: str = "entry") -> MemoryEntry:
        """Make the entry that ``to_dict`` described; the record is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.
            where: What the caller calls the record, for the error.

        Raises:
            StoreError: The record is broken; says where.
        """
        if not isinstance(record, Mapping):
            raise StoreError(f"{where} must be an object, got {type(record).__name__}", field=where)
        try:
            return MemoryEntry(
                checked_key(record.get("key")),
                checked_text(record.get("value"), "value"),
                metadata=checked_metadata(record.get("metadata", {}), is_stored=True),
                created_at=_time(record.get("created_at")),
                expires_at_turn=checked_expiry(record.get("expires_at_turn")),
            )
        except (ConfigurationError, ValueError) as error:
            raise StoreError(f"{where} is broken: {error}", field=where) from error


def stored_entry(entry: MemoryEntry) -> MemoryEntry:
    """Return an entry with metadata of its own.

    Args:
        entry: An entry that a store holds, or is given.
    """
    return MemoryEntry(
        entry.key,
        entry.value,
        metadata=copy_metadata(entry.metadata),
        created_at=entry.created_at,
        expires_at_turn=entry.expires_at_turn,
    )


def is_reserved(key: str) -> bool:
    """Tell whether a key belongs to the library itself.

    Args:
        key: The key.
    """
    return key.startswith(RESERVED_PREFIXES)


def checked_key(key: object) -> str:
    """Return a key that a store takes.

    Args:
        key: Anything.

    Raises:
        ConfigurationError: It is no text of 1 to 512 characters, or one that UTF-8 cannot express.
    """
    text = checked_text(key, "key")
    if not 1 <= len(text) <= _MAX_KEY:
        raise ConfigurationError(f"key must have 1 to {_MAX_KEY} characters, got {len(text)}: {shown(text)}")
    return text


def checked_text(text: object, what: str) -> str:
    """Return a text that a store takes.

    Args:
        text: Anything.
        what: What the caller calls it, for the error.

    Raises:
        ConfigurationError: It is no text, or one that UTF-8 cannot express.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"{what} must be a str, got {type(text).__name__}: {shown(text)}")
    checked: str = copy_json_data(text, root=what)
    return checked


def checked_metadata(metadata: object, *, is_stored: bool = False) -> dict[str, Any]:
    """Return a copy of metadata that a store takes.

    Args:
        metadata: A mapping of JSON-like data, or None for none.
        is_stored: Whether it comes from a record, where it must be a mapping.

    Raises:
        ConfigurationError: It is no such mapping; says where.
    """
    if metadata is None and not is_stored:
        return {}
    if not isinstance(metadata, Mapping):
        raise ConfigurationError(f"metadata must be a mapping, got {type(metadata).__name__}: {shown(metadata)}")
    checked: dict[str, Any] = copy_json_data(metadata, root="metadata")
    return checked


def checked_expiry(turn: object) -> int | None:
    """Return a turn that a store takes.

    Args:
        turn: The turn from which on an entry is hidden; None for never.

    Raises:
        ConfigurationError: It is no whole number from 0.
    """
    if turn is None:
        return None
    if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < _INT64:
        raise ConfigurationError(f"expires_at_turn must be a whole number from 0, or None, got {shown(turn)}")
    return int(turn)


def copy_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of metadata that were checked once.

    Args:
        metadata: JSON-like data.
    """
    return {key: item if type(item) in _ATOMS else copy.deepcopy(item) for key, item in metadata.items()}


def _time(text: object) -> datetime:
    if not isinstance(text, str):
        raise ConfigurationError(f"created_at must be a time in ISO form, got {shown(text)}")
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ConfigurationError(f"created_at {shown(text)} has no time zone")
    return time.astimezone(UTC)

"""The store that lives as long as its process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ._entry import (
    MemoryEntry,
    checked_expiry,
    checked_key,
    checked_metadata,
    checked_text,
    now,
    stored_entry,
)

__all__ = ["InMemoryStore"]

_Entries: TypeAlias = list[MemoryEntry]


class InMemoryStore:
    """Keeps entries in a dict. It may be used from any number of tasks, event loops and threads."""

    def __init__(self) -> None:
        self._entries: dict[str, MemoryEntry] = {}
        self._lock = threading.Lock()

    async def get(self, key: str) -> MemoryEntry | None:
        """Return the entry of a key; None when there is none.

        Args:
            key: The key.
        """
        found = self._entries.get(key)
        return None if found is None else stored_entry(found)

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Set the value and the metadata of a key, which from now on does not expire.

        Args:
            key: The key, of 1 to 512 characters.
            value: The value.
            metadata: JSON-like data; none unless given.

        Raises:
            ConfigurationError: An argument cannot be stored.
        """
        self._put(_made(key, value, metadata))

    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Set a key, with the turn at which it expires.

        Args:
            key: The key.
            value: As for ``set``.
            expires_at_turn: The turn, from 0.
            metadata: As for ``set``.

        Raises:
            ConfigurationError: An argument cannot be stored.
        """
        self._put(_made(key, value, metadata, expires_at_turn))

    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set a key if it has a value, in one step; return whether it had.

        Args:
            key: The key.
            expected: The value that it must have; None if it must not be there.
            value: As for ``set``.
            metadata: As for ``set``.

        Raises:
            ConfigurationError: An argument cannot be stored.
        """
        made = _made(key, value, metadata)
        with self._lock:
            found = self._entries.get(key)
            if (None if found is None else found.value) != expected:
                return False
            self._replace(made, found)
            return True

    async def list(self) -> _Entries:
        """Return all entries, in the order in which their keys were first set."""
        return [stored_entry(entry) for entry in self._all()]

    async def search(self, query: str) -> _Entries:
        """Return the entries whose key or value has a text in it, in any case.

        Args:
            query: The text; an empty one finds everything.
        """
        wanted = query.casefold()
        return [
            stored_entry(entry)
            for entry in self._all()
            if wanted in entry.key.casefold() or wanted in entry.value.casefold()
        ]

    async def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one.

        Args:
            key: The key.
        """
        with self._lock:
            self._entries.pop(key, None)

    async def clear(self) -> None:
        """Delete everything."""
        with self._lock:
            self._entries = {}

    async def restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        """Replace everything by entries as they are.

        Args:
            entries: What is there afterwards.
            keep: Prefixes of keys that are left as they are.
        """
        made = {entry.key: stored_entry(entry) for entry in entries}
        with self._lock:
            kept = {key: entry for key, entry in self._entries.items() if key.startswith(tuple(keep))}
            self._entries = kept | made

    def copy(self) -> InMemoryStore:
        """Return a store with the same entries; from now on each goes its own way."""
        other = InMemoryStore()
        with self._lock:
            other._entries = dict(self._entries)
        return other

    @property
    def size(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def has(self, key: str) -> bool:
        """Tell whether there is an entry.

        Args:
            key: The key.
        """
        return key in self._entries

    def _all(self) -> _Entries:
        with self._lock:
            return [*self._entries.values()]

    def _put(self, made: MemoryEntry) -> None:
        with self._lock:
            self._replace(made, self._entries.get(made.key))

    def _replace(self, made: MemoryEntry, found: MemoryEntry | None) -> None:
        if found is not None:
            made = MemoryEntry(
                made.key,
                made.value,
                metadata=made.metadata,
                created_at=found.created_at,
                expires_at_turn=made.expires_at_turn,
            )
        self._entries[made.key] = made


def _made(key: str, value: str, metadata: Mapping[str, Any] | None, expires_at_turn: int | None = None) -> MemoryEntry:
    return MemoryEntry(
        checked_key(key),
        checked_text(value, "value"),
        metadata=checked_metadata(metadata),
        created_at=now(),
        expires_at_turn=checked_expiry(expires_at_turn),
    )

"""What every store does, and what some do besides.

A store keeps texts with metadata under keys, in the order in which the keys were first set. Five methods make a store;
the further protocols are looked for where they help, and what needs one says so. ``openmultiagent.testing.conformance``
checks a store of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .._shown import shown
from ..errors import ConfigurationError
from ._entry import MemoryEntry

__all__ = ["AtomicStore", "ExpiringStore", "MemoryStore", "RestorableStore", "require_store"]

_Entries: TypeAlias = list[MemoryEntry]
"""Within the classes below ``list`` is a method."""

_METHODS = ("get", "set", "list", "delete", "clear")


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps texts under keys. What it returns is the caller's: no change to it reaches the store."""

    async def get(self, key: str) -> MemoryEntry | None:
        """Return the entry of a key; None when there is none.

        Args:
            key: The key.
        """
        ...

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Set the value and the metadata of a key, which from now on does not expire.

        Args:
            key: The key; one that is there keeps its ``created_at`` and its place in the order.
            value: The value.
            metadata: JSON-like data; none unless given.
        """
        ...

    async def list(self) -> _Entries:
        """Return all entries, in the order in which their keys were first set."""
        ...

    async def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one.

        Args:
            key: The key.
        """
        ...

    async def clear(self) -> None:
        """Delete everything."""
        ...


@runtime_checkable
class AtomicStore(MemoryStore, Protocol):
    """A store on which several can agree who was first."""

    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set a key if it has a value, in one step; return whether it had.

        Args:
            key: The key.
            expected: The value that it must have; None if it must not be there.
            value: As for ``set``.
            metadata: As for ``set``.
        """
        ...


@runtime_checkable
class ExpiringStore(MemoryStore, Protocol):
    """A store whose entries may expire; it keeps the turn, and leaves it to the reader to hide them."""

    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Set a key as ``set`` does, with the turn at which it expires.

        Args:
            key: The key.
            value: As for ``set``.
            expires_at_turn: The turn from which on it is hidden.
            metadata: As for ``set``.
        """
        ...


@runtime_checkable
class RestorableStore(MemoryStore, Protocol):
    """A store whose content can be replaced in one step."""

    async def restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        """Replace everything by entries as they are, times included; all of it, or nothing.

        Args:
            entries: What is there afterwards, in this order.
            keep: Prefixes of keys that are left as they are, and that no entry has.
        """
        ...


def require_store(store: object, *, where: str) -> MemoryStore:
    """Return a store, after a look at its methods.

    Args:
        store: Anything.
        where: Who wants it, for the error.

    Raises:
        ConfigurationError: It lacks one of the five methods.
    """
    missing = [name for name in _METHODS if not callable(getattr(store, name, None))]
    if missing or isinstance(store, type):
        lacks = "is a class, not an instance of it" if isinstance(store, type) else f"has no {', '.join(missing)}"
        raise ConfigurationError(
            f"{where} must be a store with async get, set, list, delete and clear; {shown(store)} {lacks}"
        )
    checked: MemoryStore = store  # type: ignore[assignment]  # what was just looked for
    return checked

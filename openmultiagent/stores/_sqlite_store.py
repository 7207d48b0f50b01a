"""The store that is a SQLite file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from .._sqlite import FileKind, SQLiteFile, transaction
from ..errors import StoreError
from ._entry import MemoryEntry, checked_expiry, checked_key, checked_metadata, checked_text, now

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SQLiteStore"]

_Entries: TypeAlias = list[MemoryEntry]
_Row: TypeAlias = tuple[str, str, str, str, int | None]

_KIND = FileKind(
    "memory store",
    application_id=0x6F6D616D,  # "omam"
    version=1,
    schema="""
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    value TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at_turn INTEGER
)""",
    synchronous="FULL",  # what is set is on the disk: checkpoints rely on it
)

_COLUMNS = "key, value, metadata, created_at, expires_at_turn"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608 - constants
_UPSERT = (
    f"{_INSERT} ON CONFLICT (key) DO UPDATE SET value = excluded.value, metadata = excluded.metadata,"
    " expires_at_turn = excluded.expires_at_turn"
)
_SELECT = f"SELECT {_COLUMNS} FROM entries"  # noqa: S608 - constants


class SQLiteStore:
    """Keeps entries in a SQLite file, which is opened, or made for its owner's eyes only, by the first call.

    It may be used from any number of tasks and event loops, and so may the file from any number of stores and
    processes on one machine. When a call returns, what it did is on the disk.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SQLiteFile(path, _KIND)

    async def get(self, key: str) -> MemoryEntry | None:
        """Return the entry of a key; None when there is none.

        Args:
            key: The key.

        Raises:
            StoreError: The file cannot be read, is broken, or is something else.
        """
        checked_text(key, "key")
        row: _Row | None = await self._file.run(
            lambda file: file.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
        )
        return None if row is None else self._entry(row)

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Set the value and the metadata of a key, which from now on does not expire.

        Args:
            key: The key, of 1 to 512 characters.
            value: The value.
            metadata: JSON-like data; none unless given.

        Raises:
            ConfigurationError: An argument cannot be stored.
            StoreError: The file cannot be written, is broken, or is something else.
        """
        row = _made(key, value, metadata)
        await self._file.run(lambda file: file.execute(_UPSERT, row))

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
            StoreError: The file cannot be written, is broken, or is something else.
        """
        row = _made(key, value, metadata, expires_at_turn)
        await self._file.run(lambda file: file.execute(_UPSERT, row))

    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set a key if it has a value, in one step among all processes; return whether it had.

        Args:
            key: The key.
            expected: The value that it must have; None if it must not be there.
            value: As for ``set``.
            metadata: As for ``set``.

        Raises:
            ConfigurationError: An argument cannot be stored.
            StoreError: The file cannot be written, is broken, or is something else.
        """
        row = _made(key, value, metadata)
        if expected is not None:
            checked_text(expected, "expected")
        return await self._file.run(lambda file: _compare_and_set(file, expected, row))

    async def list(self) -> _Entries:
        """Return all entries, in the order in which their keys were first set.

        Raises:
            StoreError: The file cannot be read, is broken, or is something else.
        """
        rows: Sequence[_Row] = await self._file.run(lambda file: file.execute(f"{_SELECT} ORDER BY seq").fetchall())
        return [self._entry(row) for row in rows]

    async def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one.

        Args:
            key: The key.

        Raises:
            StoreError: The file cannot be written, is broken, or is something else.
        """
        checked_text(key, "key")
        await self._file.run(lambda file: file.execute("DELETE FROM entries WHERE key = ?", (key,)))

    async def clear(self) -> None:
        """Delete everything.

        Raises:
            StoreError: The file cannot be written, is broken, or is something else.
        """
        await self._file.run(lambda file: file.execute("DELETE FROM entries"))

    async def restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        """Replace everything by entries as they are; all of it, or nothing.

        Args:
            entries: What is there afterwards.
            keep: Prefixes of keys that are left as they are.

        Raises:
            ConfigurationError: An entry cannot be stored.
            StoreError: The file cannot be written, is broken, or is something else.
        """
        made = [_made(each.key, each.value, each.metadata, each.expires_at_turn, each.created_at) for each in entries]
        await self._file.run(lambda file: _restore(file, made, tuple(keep)))

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._file.aclose()

    def _entry(self, row: _Row) -> MemoryEntry:
        key, value, metadata, created_at, expires_at_turn = row
        where = f"memory store {self._file.path}: entry {key!r}"
        try:
            data = json.loads(metadata)
        except ValueError as error:
            raise StoreError(f"{where} has broken metadata: {error}") from error
        record = {
            "key": key,
            "value": value,
            "metadata": data,
            "created_at": created_at,
            "expires_at_turn": expires_at_turn,
        }
        return MemoryEntry.from_dict(record, where=where)


def _made(
    key: str,
    value: str,
    metadata: Mapping[str, Any] | None,
    expires_at_turn: int | None = None,
    created_at: datetime | None = None,
) -> _Row:
    return (
        checked_key(key),
        checked_text(value, "value"),
        json.dumps(checked_metadata(metadata), ensure_ascii=False, separators=(",", ":")),
        (created_at or now()).isoformat(),
        checked_expiry(expires_at_turn),
    )


def _compare_and_set(file: sqlite3.Connection, expected: str | None, row: _Row) -> bool:
    if expected is None:
        return file.execute(f"{_INSERT} ON CONFLICT (key) DO NOTHING", row).rowcount == 1
    key, value, metadata = row[:3]
    return (
        file.execute(
            "UPDATE entries SET value = ?, metadata = ?, expires_at_turn = NULL WHERE key = ? AND value = ?",
            (value, metadata, key, expected),
        ).rowcount
        == 1
    )


def _restore(file: sqlite3.Connection, rows: Sequence[tuple[Any, ...]], keep: tuple[str, ...]) -> None:
    with transaction(file):
        kept = " AND ".join(["1", *("substr(key, 1, ?) <> ?" for _ in keep)])
        values = [value for prefix in keep for value in (len(prefix), prefix)]
        file.execute(f"DELETE FROM entries WHERE {kept}", values)  # noqa: S608 - own words only
        file.executemany(_UPSERT, rows)

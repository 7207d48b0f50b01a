"""What the agents of a team remember together: JSON values in a store, each in the namespace of its writer.

Not here: where values are kept (``stores``), and when a turn has passed (whoever runs tasks says so). Invariants: what
the library itself keeps in the same store is neither shown nor touched; what is in the store is text, and only what was
stored as JSON is read as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ..messages import copy_json_data
from ..outcome import describe_error
from ..stores import (
    RESERVED_PREFIXES,
    VALUE_ENCODING,
    ExpiringStore,
    InMemoryStore,
    MemoryEntry,
    MemoryStore,
    RestorableStore,
    is_reserved,
    require_store,
)
from ._names import check_name
from ._summary import check_whole, summarize

__all__ = ["UNSET", "SharedMemory", "SharedMemoryEntry", "Unset"]


class Unset:
    """The type of ``UNSET``, which stands for an argument that was not given where None is a mistake."""

    def __repr__(self) -> str:
        return "UNSET"

    def __copy__(self) -> Unset:
        return self

    def __deepcopy__(self, memo: object) -> Unset:
        return self

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""Stands for a store that was not given. None is refused: it is what a variable holds that should hold a store."""

_VERSION = 1
_JSON = "json"
_AGENT = "agent"


@record
class SharedMemoryEntry:
    """A value of shared memory; it is the reader's own."""

    key: str
    """``agent/key``."""
    value: Any
    """JSON-like data, as they were written."""
    _: KW_ONLY
    agent: str
    """Who wrote it."""
    created_at: datetime
    """When the key was first written, in UTC."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """What the writer added, and ``agent``."""
    expires_at_turn: int | None = None
    """The turn from which on it is hidden; None for never."""


class SharedMemory:
    """Values that agents write, each under its own name, and that all may read.

    Args:
        store: Where they are kept; in memory unless given.

    Raises:
        ConfigurationError: The store is none.
    """

    def __init__(self, store: MemoryStore | Unset = UNSET) -> None:
        self._store: MemoryStore = (
            InMemoryStore() if isinstance(store, Unset) else require_store(store, where="SharedMemory store")
        )
        self._turn = 0

    async def write(
        self, agent: str, key: str, value: Any, metadata: Mapping[str, Any] | None = None, *, schema: Any = None
    ) -> None:
        """Write a value, which does not expire, under ``agent/key``.

        Args:
            agent: Who writes.
            key: The key within the writer's namespace.
            value: JSON-like data. It is copied.
            metadata: JSON-like data to go with it.
            schema: A type, or a ``TypeAdapter``, that the value must be valid for; the value is stored as it is.

        Raises:
            ConfigurationError: An argument cannot be stored, or does not match the schema; says where.
            StoreError: The store failed.
        """
        full_key, text, marks = _prepared(agent, key, value, metadata, schema)
        await self._store.set(full_key, text, marks)

    async def write_expiring(
        self,
        agent: str,
        key: str,
        value: Any,
        ttl_turns: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: Any = None,
    ) -> None:
        """Write a value that is hidden after some turns; it stays in the store.

        With a store that has no ``set_with_expiry`` it does not expire.

        Args:
            agent: Who writes.
            key: The key within the writer's namespace.
            value: As for ``write``.
            ttl_turns: Turns, from 1.
            metadata: As for ``write``.
            schema: As for ``write``.

        Raises:
            ConfigurationError: An argument cannot be stored, or does not match the schema; says where.
            StoreError: The store failed.
        """
        check_whole(ttl_turns, 1, "ttl_turns")
        full_key, text, marks = _prepared(agent, key, value, metadata, schema)
        if isinstance(self._store, ExpiringStore):
            await self._store.set_with_expiry(full_key, text, self._turn + ttl_turns, marks)
        else:
            await self._store.set(full_key, text, marks)

    async def read(self, key: str) -> SharedMemoryEntry | None:
        """Return a value; None when there is none, or it has expired.

        Args:
            key: ``agent/key``.

        Raises:
            StoreError: The store failed, or the value in it is broken.
        """
        if is_reserved(key):
            return None
        found = await self._store.get(key)
        return None if found is None or self._has_expired(found) else _decoded(found)

    async def list_all(self) -> list[SharedMemoryEntry]:
        """Return all values that have not expired.

        Raises:
            StoreError: The store failed, or a value in it is broken.
        """
        return [_decoded(entry) for entry in await self._visible()]

    async def list_by_agent(self, agent: str) -> list[SharedMemoryEntry]:
        """Return all values of one writer that have not expired.

        Args:
            agent: The writer.

        Raises:
            StoreError: The store failed, or a value in it is broken.
        """
        return [_decoded(entry) for entry in await self._visible() if entry.key.startswith(f"{agent}/")]

    async def get_summary(
        self,
        task_ids: Collection[str] | None = None,
        *,
        without_task_ids: Collection[str] = (),
        max_value_chars: int = 200,
    ) -> str:
        """Return what is there as a section of a prompt; an empty text when there is nothing.

        Args:
            task_ids: Only the results of these tasks, kept under ``task:<id>:result``; everything unless given.
            without_task_ids: Leave out the results of these tasks, which the prompt has anyway.
            max_value_chars: Longer values are cut, from 3.

        Raises:
            StoreError: The store failed.
        """
        return summarize(await self._visible(), task_ids, max_value_chars, without=without_task_ids)

    def advance_turn(self) -> int:
        """Begin the next turn, and return its number."""
        self._turn += 1
        return self._turn

    def get_turn_count(self) -> int:
        """Return how many turns have passed."""
        return self._turn

    def set_turn_count(self, turn: int) -> None:
        """Set how many turns have passed.

        Args:
            turn: A whole number from 0.

        Raises:
            ConfigurationError: It is none.
        """
        check_whole(turn, 0, "turn count")
        self._turn = turn

    def get_store(self) -> MemoryStore:
        """Return the store."""
        return self._store

    async def snapshot(self) -> dict[str, Any]:
        """Return what has not expired, and the turn, as plain JSON data.

        Raises:
            StoreError: The store failed.
        """
        entries = [entry.to_dict() for entry in await self._visible()]
        return {"version": _VERSION, "turn_count": self._turn, "entries": entries}

    async def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Replace what is there by a snapshot, times included.

        A store that has ``restore`` replaces everything or nothing. With another one the entries are deleted and set
        one by one: a failure may leave part of them, and ``created_at`` is the time of this call.

        Args:
            snapshot: What ``snapshot`` returned, possibly after a trip through JSON.

        Raises:
            StoreError: It is broken, or of another version (``STORE_VERSION``), and nothing was replaced; or the store
                failed.
        """
        turn, entries = _read_snapshot(snapshot)
        if isinstance(self._store, RestorableStore):
            await self._store.restore(entries, keep=RESERVED_PREFIXES)
        else:
            await self._replace(entries)
        self._turn = turn

    @classmethod
    async def from_snapshot(cls, snapshot: Mapping[str, Any], store: MemoryStore | Unset = UNSET) -> SharedMemory:
        """Return shared memory with the content of a snapshot.

        Args:
            snapshot: What ``snapshot`` returned, possibly after a trip through JSON.
            store: As for the constructor; what is in it is replaced.

        Raises:
            ConfigurationError: The store is none.
            StoreError: As for ``restore``.
        """
        memory = cls(store)
        await memory.restore(snapshot)
        return memory

    async def _replace(self, entries: list[MemoryEntry]) -> None:
        for entry in await self._store.list():
            if not is_reserved(entry.key):
                await self._store.delete(entry.key)
        for entry in entries:
            if entry.expires_at_turn is not None and isinstance(self._store, ExpiringStore):
                await self._store.set_with_expiry(entry.key, entry.value, entry.expires_at_turn, entry.metadata)
            else:
                await self._store.set(entry.key, entry.value, entry.metadata)

    async def _visible(self) -> list[MemoryEntry]:
        entries = await self._store.list()
        return [entry for entry in entries if not is_reserved(entry.key) and not self._has_expired(entry)]

    def _has_expired(self, entry: MemoryEntry) -> bool:
        return entry.expires_at_turn is not None and self._turn >= entry.expires_at_turn


def _prepared(
    agent: str, key: str, value: Any, metadata: Mapping[str, Any] | None, schema: Any
) -> tuple[str, str, dict[str, Any]]:
    """Check everything that is to be written, before anything is."""
    check_name(agent, where="agent")
    _check_key(agent, key)
    where = f"value of {agent}/{key}"
    plain = copy_json_data(value, root=where)
    if schema is not None:
        _check_schema(plain, schema, where)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(f"metadata of {agent}/{key} must be a mapping, got {shown(metadata)}")
    marks = copy_json_data({} if metadata is None else metadata, root=f"metadata of {agent}/{key}")
    if VALUE_ENCODING in marks:
        raise ConfigurationError(f"metadata of {agent}/{key}: {VALUE_ENCODING!r} is set by shared memory itself")
    marks[_AGENT] = agent
    if isinstance(plain, str):
        return f"{agent}/{key}", plain, marks
    marks[VALUE_ENCODING] = _JSON
    return f"{agent}/{key}", json.dumps(plain, ensure_ascii=False, separators=(",", ":")), marks


def _check_key(agent: str, key: object) -> None:
    if not isinstance(key, str) or not key or not key.isprintable():
        raise ConfigurationError(f"key of {agent!r} must be a text without control characters, got {shown(key)}")


def _check_schema(value: Any, schema: Any, where: str) -> None:
    adapter = schema if isinstance(schema, TypeAdapter) else _adapter_of(schema, where)
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'value'}: {item['msg']}" for item in error.errors())
        raise ConfigurationError(f"{where} does not match its schema: {problems}") from None


def _adapter_of(schema: Any, where: str) -> TypeAdapter[Any]:
    build: Callable[[Any], TypeAdapter[Any]] = _cached_adapter
    try:
        hash(schema)
    except TypeError:
        build = TypeAdapter
    try:
        return build(schema)
    except Exception as error:
        raise ConfigurationError(
            f"{where}: schema {shown(schema)} is no type that pydantic can check: {describe_error(error)}"
        ) from error


@lru_cache(maxsize=64)
def _cached_adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def _decoded(entry: MemoryEntry) -> SharedMemoryEntry:
    metadata = dict(entry.metadata)
    value: Any = entry.value
    if metadata.pop(VALUE_ENCODING, None) == _JSON:
        try:
            value = json.loads(entry.value)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"shared memory: the value of {entry.key!r} is no JSON any more: {error}") from error
    writer = metadata.get(_AGENT)
    return SharedMemoryEntry(
        entry.key,
        value,
        agent=writer if isinstance(writer, str) else entry.key.partition("/")[0],
        created_at=entry.created_at,
        metadata=metadata,
        expires_at_turn=entry.expires_at_turn,
    )


def _read_snapshot(snapshot: Any) -> tuple[int, list[MemoryEntry]]:
    if not isinstance(snapshot, Mapping) or snapshot.get("version") != _VERSION:
        found = snapshot.get("version") if isinstance(snapshot, Mapping) else type(snapshot).__name__
        raise StoreError(
            f"snapshot of shared memory must have version {_VERSION}, got {shown(found)}", code="STORE_VERSION"
        )
    turn, records = snapshot.get("turn_count"), snapshot.get("entries")
    if isinstance(turn, bool) or not isinstance(turn, int) or turn < 0 or not isinstance(records, list):
        raise StoreError("snapshot of shared memory must have a turn_count from 0 and a list of entries")
    entries = [MemoryEntry.from_dict(record, where=f"entries[{index}]") for index, record in enumerate(records)]
    return turn, [entry for entry in entries if not is_reserved(entry.key)]

"""Checks of stores: what they keep, in which order, and that they keep their hands off what is not their own.

What a store need not have (``compare_and_set``, ``set_with_expiry``, ``restore``) is checked if it is there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ..._record import record
from ...stores import AtomicStore, ExpiringStore, MemoryEntry, MemoryStore, RestorableStore, require_store
from ._rig import ConformanceError, expect

__all__ = ["STORE_CHECKS", "MakeStore", "StoreCheck", "StoreRig", "check_store"]

MakeStore = Callable[[Path], MemoryStore]
"""Makes a store, given an empty folder that is its own."""

_AT_ONCE = 25
_SECONDS = 30.0
"""How long a check may take."""
_TEXTS = ("", "x", " \n\t", "Grüße, 世界 \U0001f44b \u2028", '{"a": [1]}', "a'b\"c;--%_", "\x00\x01", "y" * 300_000)
_METADATA = {"agent": "a", "n": 1, "f": 1.5, "t": True, "none": None, "words": ["x", {"deep": []}], "ü": "\u2028"}


@record
class StoreRig:
    """A store under test."""

    make: MakeStore
    """Makes it, given an empty folder that is its own for one check; called again for the same folder to see what it
    has kept there, if it is durable."""
    _: KW_ONLY
    is_durable: bool = False
    """Whether two stores that were made for one folder have the same content."""

    @asynccontextmanager
    async def up(self) -> AsyncIterator[MemoryStore]:
        """Make an empty store in a new folder, and close it at the end."""
        async with anyio.TemporaryDirectory() as folder, _closed(self.make(Path(folder))) as store:
            yield store


@record
class StoreCheck:
    """One thing that every store does; call it with the store under test."""

    name: str
    """What the store does, as the name of a test would say it."""
    run: Callable[[StoreRig], Awaitable[None]]

    async def __call__(self, rig: StoreRig) -> None:
        """Make the check; nothing happens when it does not apply.

        Args:
            rig: The store under test.

        Raises:
            ConformanceError: The store fails it.
        """
        try:
            with anyio.fail_after(_SECONDS):
                await self.run(rig)
        except ConformanceError as error:
            raise ConformanceError(f"{self.name}: {error}") from error
        except Exception as error:
            raise ConformanceError(f"{self.name}: {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def _closed(store: MemoryStore) -> AsyncIterator[MemoryStore]:
    try:
        yield store
    finally:
        close = getattr(store, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()


def _content(entries: list[MemoryEntry]) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in entries]


async def _must_have(store: MemoryStore, key: str) -> MemoryEntry:
    found = await store.get(key)
    expect(isinstance(found, MemoryEntry), f"{key!r} was set, and get returns {found!r:.200}")
    assert found is not None  # noqa: S101 - for the type checker
    return found


async def has_the_five_methods(rig: StoreRig) -> None:
    async with rig.up() as store:
        require_store(store, where="a store")


async def starts_empty_and_misses_nothing(rig: StoreRig) -> None:
    async with rig.up() as store:
        expect(await store.list() == [], "a new store is not empty")
        expect(await store.get("a/k") is None, "get of a key that is not there must return None")
        await store.delete("a/k")
        await store.clear()


async def keeps_any_text(rig: StoreRig) -> None:
    async with rig.up() as store:
        for number, text in enumerate(_TEXTS):
            key = f"a/{number} {text[:20]}"
            await store.set(key, text)
            found = await _must_have(store, key)
            expect((found.key, found.value) == (key, text), f"{text!r:.100} became {found.value!r:.100}")
            expect(found.metadata == {}, f"no metadata became {found.metadata!r:.200}")
            expect(found.expires_at_turn is None, "it expires, though it was just set")


async def keeps_metadata_and_the_time(rig: StoreRig) -> None:
    async with rig.up() as store:
        before = datetime.now(UTC) - timedelta(seconds=1)
        await store.set("a/k", "v", _METADATA)
        for found in [await _must_have(store, "a/k"), *await store.list()]:
            expect(found.metadata == _METADATA, f"the metadata became {found.metadata!r:.300}")
            in_time = found.created_at.tzinfo is not None and before <= found.created_at <= datetime.now(UTC)
            expect(in_time, f"created_at is {found.created_at!r}")


async def keeps_the_place_and_the_time_of_a_key(rig: StoreRig) -> None:
    async with rig.up() as store:
        for key in ("z", "a", "m"):
            await store.set(key, "old", {"old": True})
        first = await _must_have(store, "z")
        await store.set("z", "new", {"new": True})
        second = await _must_have(store, "z")
        expect(second.created_at == first.created_at, "a value that is replaced must keep created_at")
        expect(second.metadata == {"new": True}, f"the metadata were not replaced: {second.metadata!r:.200}")
        found = _content(await store.list())
        expect(found == [("z", "new"), ("a", "old"), ("m", "old")], f"the order became {found!r:.200}")


async def deletes_and_clears(rig: StoreRig) -> None:
    async with rig.up() as store:
        for key in ("a", "b", "c"):
            await store.set(key, key)
        await store.delete("b")
        expect(await store.get("b") is None, "a deleted key is still there")
        found = _content(await store.list())
        expect(found == [("a", "a"), ("c", "c")], f"deleting one of three left {found!r:.200}")
        await store.clear()
        expect(await store.list() == [], "clear left something")
        await store.set("b", "again")
        expect(_content(await store.list()) == [("b", "again")], "what is set after clear must be there")


async def shares_nothing_with_its_caller(rig: StoreRig) -> None:
    async with rig.up() as store:
        given: dict[str, Any] = {"words": ["x"]}
        await store.set("a", "v", given)
        given["words"].append("y")
        for found in [await _must_have(store, "a"), *await store.list()]:
            expect(found.metadata == {"words": ["x"]}, "changing metadata reached the store")
            found.metadata["words"].append("z")


async def keeps_all_that_is_set_at_once(rig: StoreRig) -> None:
    async with rig.up() as store:
        async with anyio.create_task_group() as tasks:
            for number in range(_AT_ONCE):
                tasks.start_soon(store.set, f"a/{number}", str(number))
        found = sorted(_content(await store.list()))
        expect(found == sorted((f"a/{number}", str(number)) for number in range(_AT_ONCE)), f"left is {found!r:.500}")


async def compares_before_it_sets(rig: StoreRig) -> None:
    async with rig.up() as store:
        if not isinstance(store, AtomicStore):
            return
        steps: list[tuple[str | None, str, bool]] = [
            ("x", "y", False),
            (None, "", True),
            (None, "x", False),
            ("x", "y", False),
            ("", "x", True),
            ("x", "x", True),
        ]
        for expected, value, wanted in steps:
            done = await store.compare_and_set("k", expected, value, {"value": value})
            expect(done is wanted, f"compare_and_set({expected!r}, {value!r}) returned {done!r}")
        found = await _must_have(store, "k")
        expect((found.value, found.metadata) == ("x", {"value": "x"}), f"left is {found!r:.200}")


async def lets_one_win(rig: StoreRig) -> None:
    async with rig.up() as store:
        if not isinstance(store, AtomicStore):
            return
        won: list[int] = []

        async def compete(number: int) -> None:
            if await store.compare_and_set("k", None, str(number)):
                won.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(_AT_ONCE):
                tasks.start_soon(compete, number)
        expect(len(won) == 1, f"{len(won)} of {_AT_ONCE} won")
        found = await _must_have(store, "k")
        expect(found.value == str(won[0]), f"{won[0]} won, and {found.value!r} is there")


async def keeps_the_turn_of_expiry(rig: StoreRig) -> None:
    async with rig.up() as store:
        if not isinstance(store, ExpiringStore):
            return
        await store.set_with_expiry("k", "v", 3, {"a": 1})
        found = await _must_have(store, "k")
        expect((found.value, found.expires_at_turn) == ("v", 3), f"it became {found!r:.200}")
        expect(found.metadata == {"a": 1}, f"the metadata became {found.metadata!r:.200}")
        await store.set_with_expiry("k", "v", 0)
        expect((await _must_have(store, "k")).expires_at_turn == 0, "0 is a turn")
        await store.set("k", "w")
        found = await _must_have(store, "k")
        expect((found.value, found.expires_at_turn) == ("w", None), "what is set anew must not expire")


async def replaces_its_content_in_one_step(rig: StoreRig) -> None:
    async with rig.up() as store:
        if not isinstance(store, RestorableStore):
            return
        for key in ("a/1", "__own__/1", "__ownx/1"):
            await store.set(key, "old")
        time = datetime(2020, 2, 29, 12, 30, 1, 5, tzinfo=UTC)
        entries = [
            MemoryEntry("b/2", "new", metadata={"w": ["x"]}, created_at=time, expires_at_turn=7),
            MemoryEntry("a/1", "new", created_at=time),
        ]
        await store.restore(entries, keep=("__own__/",))
        entries[0].metadata["w"].append("y")
        found = [entry for entry in await store.list() if entry.key != "__own__/1"]
        entries[0].metadata["w"].pop()
        expect(found == entries, f"the entries became {found!r:.500}")
        expect((await _must_have(store, "__own__/1")).value == "old", "a key with a prefix to keep was touched")
        await store.restore([])
        expect(await store.list() == [], "restoring nothing must leave nothing")


async def finds_what_another_one_kept(rig: StoreRig) -> None:
    if not rig.is_durable:
        return
    async with anyio.TemporaryDirectory() as folder:
        async with _closed(rig.make(Path(folder))) as store:
            for key in ("b", "a", "c"):
                await store.set(key, key, _METADATA)
            if isinstance(store, ExpiringStore):
                await store.set_with_expiry("a", "expiring", 4)
            await store.delete("c")
            kept = await store.list()
        async with _closed(rig.make(Path(folder))) as one, _closed(rig.make(Path(folder))) as other:
            found = await one.list()
            expect(found == kept, f"{kept!r:.300} became {found!r:.300}")
            await one.set("d", "new")
            expect((await _must_have(other, "d")).value == "new", "another store must see what is set")
            await other.clear()
            expect(await one.list() == [], "another store must see that it was cleared")


async def works_on_several_event_loops(rig: StoreRig) -> None:
    loops = ["asyncio", "trio"] if importlib.util.find_spec("trio") else ["asyncio"]
    async with rig.up() as store:

        async def use(key: str) -> None:
            await store.set(key, key)
            await store.list()

        keys = [f"{number}" for number in range(2 * len(loops))]
        for key, loop in zip(keys, [*loops, *reversed(loops)], strict=True):
            await anyio.to_thread.run_sync(partial(anyio.run, use, key, backend=loop))
        found = _content(await store.list())
        expect(found == [(key, key) for key in keys], f"left is {found!r:.200}")


STORE_CHECKS: tuple[StoreCheck, ...] = tuple(
    StoreCheck(run.__name__, run)
    for run in (
        has_the_five_methods,
        starts_empty_and_misses_nothing,
        keeps_any_text,
        keeps_metadata_and_the_time,
        keeps_the_place_and_the_time_of_a_key,
        deletes_and_clears,
        shares_nothing_with_its_caller,
        keeps_all_that_is_set_at_once,
        compares_before_it_sets,
        lets_one_win,
        keeps_the_turn_of_expiry,
        replaces_its_content_in_one_step,
        finds_what_another_one_kept,
        works_on_several_event_loops,
    )
)
"""Every check of stores, in the order in which they are worth reading."""


async def check_store(make: MakeStore, *, is_durable: bool = False) -> None:
    """Make all checks of a store on the running event loop.

    Args:
        make: Makes the store, given an empty folder that is its own for one check.
        is_durable: Whether two stores that were made for one folder have the same content.

    Raises:
        ConformanceError: The store fails a check; the text names all that it fails.
    """
    rig = StoreRig(make, is_durable=is_durable)
    failures: list[ConformanceError] = []
    for check in STORE_CHECKS:
        try:
            await check(rig)
        except ConformanceError as error:
            failures.append(error)
    if failures:
        text = "\n".join(map(str, failures))
        raise ConformanceError(f"{len(failures)} of {len(STORE_CHECKS)} checks failed:\n{text}") from failures[0]

"""The suite for stores: the built-in ones pass it, and one that does wrong is told what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openmultiagent.stores import InMemoryStore, MemoryEntry, RedactingStore, SQLiteStore
from openmultiagent.testing.conformance import STORE_CHECKS, ConformanceError, StoreCheck, StoreRig, check_store
from tests.support import proves

RIGS: dict[str, StoreRig] = {
    "memory": StoreRig(lambda _: InMemoryStore()),
    "sqlite": StoreRig(lambda folder: SQLiteStore(folder / "state.db"), is_durable=True),
    "redacting memory": StoreRig(lambda _: RedactingStore(InMemoryStore())),
    "redacting sqlite": StoreRig(lambda folder: RedactingStore(SQLiteStore(folder / "state.db")), is_durable=True),
}


@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
@pytest.mark.parametrize("rig", RIGS.values(), ids=RIGS)
@proves("STO-2", "STO-3", "STO-5", "STO-6", "STO-7", "STO-8", "STO-30", "STO-50")
async def test_the_built_in_stores_conform(rig: StoreRig, check: StoreCheck) -> None:
    await check(rig)


class Plain:
    """A store that does what stores do, with nothing beyond the five methods; those below do one thing otherwise."""

    def __init__(self) -> None:
        self.inner = InMemoryStore()

    async def get(self, key: str) -> MemoryEntry | None:
        return await self.inner.get(key)

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await self.inner.set(key, value, metadata)

    async def list(self) -> Any:
        return await self.inner.list()

    async def delete(self, key: str) -> None:
        await self.inner.delete(key)

    async def clear(self) -> None:
        await self.inner.clear()


async def test_five_methods_are_enough() -> None:
    await check_store(lambda _: Plain())


class Strips(Plain):
    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await super().set(key, value.strip(), metadata)


class ForgetsMetadata(Plain):
    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await super().set(key, value)


class Reorders(Plain):
    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await self.inner.delete(key)
        await super().set(key, value, metadata)


class Sorts(Plain):
    async def list(self) -> Any:
        return sorted(await super().list(), key=lambda entry: entry.key)


class KeepsDeleted(Plain):
    async def delete(self, key: str) -> None:
        return None


class ClearsNothing(Plain):
    async def clear(self) -> None:
        return None


class RaisesOnMissing(Plain):
    async def get(self, key: str) -> MemoryEntry | None:
        found = await super().get(key)
        if found is None:
            raise KeyError(key)
        return found


class Naive(Plain):
    async def get(self, key: str) -> MemoryEntry | None:
        found = await super().get(key)
        time = datetime(2026, 1, 1)  # noqa: DTZ001 - that is the fault
        return found and MemoryEntry(found.key, found.value, metadata=found.metadata, created_at=time)


class GivesItsOwn(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, Any] = {}

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await super().set(key, value, metadata)
        self.given[key] = metadata or {}

    async def get(self, key: str) -> MemoryEntry | None:
        found = await super().get(key)
        return found and MemoryEntry(key, found.value, metadata=self.given[key], created_at=found.created_at)


class NeverAtomic(InMemoryStore):
    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        await self.set(key, value, metadata)
        return True


class ForgetsTurns(InMemoryStore):
    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        await self.set(key, value, metadata)


class RestoresAll(InMemoryStore):
    async def restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        await super().restore(entries)


class RestoresAnew(InMemoryStore):
    async def restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        await super().restore([MemoryEntry(each.key, each.value, created_at=datetime.now(UTC)) for each in entries])


@pytest.mark.parametrize(
    ("store", "check"),
    [
        (Strips, "keeps_any_text"),
        (ForgetsMetadata, "keeps_metadata_and_the_time"),
        (Naive, "keeps_metadata_and_the_time"),
        (Reorders, "keeps_the_place_and_the_time_of_a_key"),
        (Sorts, "keeps_the_place_and_the_time_of_a_key"),
        (KeepsDeleted, "deletes_and_clears"),
        (ClearsNothing, "deletes_and_clears"),
        (RaisesOnMissing, "starts_empty_and_misses_nothing"),
        (GivesItsOwn, "shares_nothing_with_its_caller"),
        (NeverAtomic, "compares_before_it_sets"),
        (NeverAtomic, "lets_one_win"),
        (ForgetsTurns, "keeps_the_turn_of_expiry"),
        (RestoresAll, "replaces_its_content_in_one_step"),
        (RestoresAnew, "replaces_its_content_in_one_step"),
        (object, "has_the_five_methods"),
    ],
)
@proves("STO-50")
async def test_a_store_that_does_wrong_is_told_what(store: type[Any], check: str) -> None:
    with pytest.raises(ConformanceError, match=check):
        await check_store(lambda _: store())


@proves("STO-50")
async def test_a_store_that_only_says_that_it_is_durable_is_told() -> None:
    with pytest.raises(ConformanceError, match=r"1 of .* checks failed:\nfinds_what_another_one_kept"):
        await check_store(lambda _: InMemoryStore(), is_durable=True)


@proves("STO-50")
async def test_a_store_that_is_broken_in_one_way_fails_one_check(tmp_path: Path) -> None:
    rig = StoreRig(lambda _: ForgetsTurns())
    failed = []
    for check in STORE_CHECKS:
        try:
            await check(rig)
        except ConformanceError:
            failed.append(str(check))
    assert failed == ["keeps_the_turn_of_expiry"]

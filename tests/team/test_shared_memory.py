"""What agents remember together: namespaces, encoding, what is hidden, summaries, snapshots."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter

from openmultiagent import ConfigurationError, StoreError
from openmultiagent.stores import (
    APPROVAL_PREFIX,
    CHECKPOINT_PREFIX,
    VALUE_ENCODING,
    InMemoryStore,
    MemoryEntry,
    RedactingStore,
    SQLiteStore,
)
from openmultiagent.team import UNSET, SharedMemory, SharedMemoryEntry
from tests.support import proves

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Plain:
    """A store with the five methods, and nothing else."""

    def __init__(self) -> None:
        self.inner = InMemoryStore()
        self.calls: list[tuple[Any, ...]] = []

    async def get(self, key: str) -> MemoryEntry | None:
        return await self.inner.get(key)

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        self.calls.append((key, value, metadata))
        await self.inner.set(key, value, metadata)

    async def list(self) -> Any:
        return await self.inner.list()

    async def delete(self, key: str) -> None:
        await self.inner.delete(key)

    async def clear(self) -> None:
        await self.inner.clear()


class Expiring(Plain):
    """A store with the five methods that keeps turns."""

    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        await self.inner.set_with_expiry(key, value, expires_at_turn, metadata)


MAKERS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: InMemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "state.db"),
    "redacting": lambda _: RedactingStore(InMemoryStore()),
    "plain": lambda _: Plain(),
    "expiring": lambda _: Expiring(),
}


@pytest.fixture(params=MAKERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = MAKERS[request.param](tmp_path)
    yield made
    if isinstance(made, SQLiteStore):
        await made.aclose()


async def values(memory: SharedMemory) -> dict[str, Any]:
    return {entry.key: entry.value for entry in await memory.list_all()}


@proves("TEM-30", "TEM-36")
async def test_agents_cannot_overwrite_each_other(store: Any) -> None:
    memory = SharedMemory(store)
    await memory.write("a", "k", "of a")
    await memory.write("b", "k", "of b", {"tags": ["x"]})
    await memory.write("ab", "k", "of ab")
    first = await memory.read("a/k")
    await memory.write("a", "k", "of a again")
    second = await memory.read("a/k")
    assert first is not None
    assert second is not None
    assert (first.value, second.value, second.created_at) == ("of a", "of a again", first.created_at)
    assert await memory.read("c/k") is None
    assert await memory.read("k") is None
    assert [(entry.key, entry.agent, entry.metadata) for entry in await memory.list_all()] == [
        ("a/k", "a", {"agent": "a"}),
        ("b/k", "b", {"tags": ["x"], "agent": "b"}),
        ("ab/k", "ab", {"agent": "ab"}),
    ]
    assert [entry.key for entry in await memory.list_by_agent("a")] == ["a/k"]
    assert await memory.list_by_agent("nobody") == []


@proves("TEM-30", "TEM-36")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "text",
        '{"looks": "like JSON"}',
        "42",
        42,
        0,
        1.5,
        True,
        False,
        None,
        [],
        {},
        [1, [2, None]],
        {"ü": {"x": []}},
    ],
)
async def test_values_come_back_as_they_were(store: Any, value: Any) -> None:
    memory = SharedMemory(store)
    await memory.write("a", "k", value)
    found = await memory.read("a/k")
    assert found is not None
    for each in (found, *await memory.list_all(), *await memory.list_by_agent("a")):
        assert each.value == value
        assert type(each.value) is type(value)
        assert each.metadata == {"agent": "a"}
    raw = await store.get("a/k")
    assert isinstance(raw.value, str)
    assert raw.metadata.get(VALUE_ENCODING) == (None if isinstance(value, str) else "json")


@proves("TEM-30")
async def test_what_is_stored(store: Any) -> None:
    memory = SharedMemory(store)
    await memory.write("a", "k", {"b": [1, "ü"], "a": None})
    await store.set("a/unmarked", '{"x": 1}')
    await store.set("foreign", "v")
    assert [(entry.key, entry.value) for entry in await store.list()] == [
        ("a/k", '{"b":[1,"ü"],"a":null}'),
        ("a/unmarked", '{"x": 1}'),
        ("foreign", "v"),
    ]
    assert await values(memory) == {"a/k": {"b": [1, "ü"], "a": None}, "a/unmarked": '{"x": 1}', "foreign": "v"}
    assert memory.get_store() is store


@proves("TEM-30")
async def test_values_are_the_writers_and_the_readers_own() -> None:
    memory = SharedMemory()
    given, marks = {"list": [1]}, {"tags": ["x"]}
    await memory.write("a", "k", given, marks)
    given["list"].append(2)
    marks["tags"].append("y")
    for _ in range(2):
        found = await memory.read("a/k")
        assert found is not None
        assert (found.value, found.metadata) == ({"list": [1]}, {"tags": ["x"], "agent": "a"})
        found.value["list"].append(3)
        found.metadata["tags"].append("z")


@proves("TEM-30")
async def test_a_marked_value_that_is_no_json_is_told() -> None:
    store = InMemoryStore()
    memory = SharedMemory(store)
    await store.set("a/k", "{", {VALUE_ENCODING: "json"})
    for call in (lambda: memory.read("a/k"), memory.list_all):
        with pytest.raises(StoreError, match="the value of 'a/k' is no JSON any more"):
            await call()


CYCLE: dict[str, Any] = {"deep": []}
CYCLE["deep"].append(CYCLE)


@proves("TEM-31")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "value of a/k .*nan is no JSON number"),
        ({"x": [1, float("inf")]}, r"value of a/k\.x\[1\] .*inf is no JSON number"),
        (CYCLE, "value of a/k.*contains itself"),
        ({"x": {1}}, r"value of a/k\.x .*got set"),
        ({1: 2}, "keys must be strings"),
        (object(), "got object"),
        ("\ud83d", "lone surrogate"),
    ],
)
async def test_a_value_that_is_no_json_is_refused(store: Any, value: Any, text: str) -> None:
    memory = SharedMemory(store)
    with pytest.raises(ConfigurationError, match=text):
        await memory.write("a", "k", value)
    with pytest.raises(ConfigurationError, match=text):
        await memory.write_expiring("a", "k", value, 1)
    assert await store.list() == []


@proves("TEM-31")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("", "k", 1), "agent '' must not be empty"),
        (("a/b", "k", 1), "agent 'a/b' must not contain '/'"),
        (("__oma_checkpoint__", "k", 1), "begins with '__'"),
        (("a", "", 1), "key of 'a' must be a text"),
        (("a", "x\n## y", 1), "key of 'a' must be a text without control characters"),
        (("a", None, 1), "key of 'a' must be a text"),
        (("a", "k" * 512, 1), "key must have 1 to 512 characters, got 514"),
        (("a", "k", 1, [1]), "metadata of a/k must be a mapping"),
        (("a", "k", 1, {"x": float("nan")}), r"metadata of a/k\.x .*nan"),
        (("a", "k", 1, {VALUE_ENCODING: "json"}), "is set by shared memory itself"),
    ],
)
async def test_what_cannot_be_written_is_refused(arguments: Any, text: str) -> None:
    store = InMemoryStore()
    with pytest.raises(ConfigurationError, match=text):
        await SharedMemory(store).write(*arguments)
    assert store.size == 0


@proves("TEM-31")
async def test_the_writer_is_the_writer() -> None:
    memory = SharedMemory()
    await memory.write("a", "k", 1, {"agent": "b", "more": 1})
    (found,) = await memory.list_all()
    assert (found.agent, found.metadata) == ("a", {"agent": "a", "more": 1})
    await memory.write("a", "k", 1, found.metadata)  # what was read can be written again


class Point(BaseModel):
    x: int


class Unhashable:
    __hash__ = None  # type: ignore[assignment]  # that is the point


@proves("TEM-31")
@pytest.mark.parametrize("schema", [Point, TypeAdapter(Point), Annotated[Point, Unhashable()]])
async def test_a_schema_is_kept(store: Any, schema: Any) -> None:
    memory = SharedMemory(store)
    await memory.write("a", "k", {"x": "1"}, schema=schema)
    for value in ({"y": 1}, {"x": "one"}, 3):
        with pytest.raises(ConfigurationError, match=r"value of a/k does not match its schema: (x|value): "):
            await memory.write("a", "k", value, schema=schema)
        with pytest.raises(ConfigurationError, match="does not match its schema"):
            await memory.write_expiring("a", "k", value, 1, schema=schema)
    assert await values(memory) == {"a/k": {"x": "1"}}


@proves("TEM-31")
@pytest.mark.parametrize("schema", [object(), [int], "no such type", 3])
async def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no type that pydantic can check"):
        await SharedMemory().write("a", "k", 1, schema=schema)


@proves("TEM-32", "TEM-36")
async def test_what_the_library_keeps_is_neither_shown_nor_touched(store: Any) -> None:
    own = [f"{CHECKPOINT_PREFIX}run/1", f"{APPROVAL_PREFIX}1"]
    for key in own:
        await store.set(key, "own", {"agent": "__oma_checkpoint__"})
    memory = SharedMemory(store)
    assert await memory.get_summary() == ""
    await memory.write("a", "k", "v")
    assert await memory.read(own[0]) is None
    assert await memory.read(own[1]) is None
    assert [entry.key for entry in await memory.list_all()] == ["a/k"]
    assert await memory.list_by_agent("__oma_checkpoint__") == []
    assert "own" not in await memory.get_summary()
    snapshot = await memory.snapshot()
    assert [entry["key"] for entry in snapshot["entries"]] == ["a/k"]
    entry = MemoryEntry(own[0], "overwritten", created_at=TIME).to_dict()
    await memory.restore({"version": 1, "turn_count": 0, "entries": [entry]})
    assert await values(memory) == {}
    assert [(entry.key, entry.value) for entry in await store.list()] == [(key, "own") for key in own]


@proves("TEM-33")
async def test_what_is_written_for_some_turns_is_hidden_after_them(store: Any) -> None:
    memory = SharedMemory(store)
    keeps_turns = hasattr(store, "set_with_expiry")
    await memory.write_expiring("a", "short", [1], 2, {"m": 1})
    await memory.write("a", "long", 2)
    seen = []
    for _ in range(4):
        read = await memory.read("a/short")
        listed = "a/short" in await values(memory)
        by_agent = "a/short" in [entry.key for entry in await memory.list_by_agent("a")]
        summed = "short" in await memory.get_summary()
        in_snapshot = "a/short" in [entry["key"] for entry in (await memory.snapshot())["entries"]]
        assert (read is not None) is listed is by_agent is summed is in_snapshot
        seen.append(listed)
        memory.advance_turn()
    assert seen == [True, True, not keeps_turns, not keeps_turns]
    assert "a/long" in await values(memory)
    raw = await store.get("a/short")
    assert (raw.value, raw.expires_at_turn) == ("[1]", 2 if keeps_turns else None)
    await memory.write_expiring("a", "short", "again", 1)
    found = await memory.read("a/short")
    assert found is not None
    assert found.expires_at_turn == (5 if keeps_turns else None)
    await memory.write("a", "short", "for ever")
    memory.set_turn_count(100)
    assert (await values(memory))["a/short"] == "for ever"


@proves("TEM-33")
@pytest.mark.parametrize("turns", [0, -1, 1.5, float("nan"), float("inf"), True, "2", None])
async def test_turns_that_make_no_sense_are_refused(turns: Any) -> None:
    memory = SharedMemory()
    with pytest.raises(ConfigurationError, match="ttl_turns must be a whole number from 1"):
        await memory.write_expiring("a", "k", 1, turns)
    assert await memory.list_all() == []


def test_turns_are_counted() -> None:
    memory = SharedMemory()
    assert (memory.get_turn_count(), memory.advance_turn(), memory.advance_turn()) == (0, 1, 2)
    memory.set_turn_count(0)
    assert memory.get_turn_count() == 0
    for turn in (-1, 1.5, True, None):
        with pytest.raises(ConfigurationError, match="turn count must be a whole number from 0"):
            memory.set_turn_count(turn)  # type: ignore[arg-type]  # that is the point


@proves("TEM-34", "TEM-36")
async def test_the_summary(store: Any) -> None:
    memory = SharedMemory(store)
    assert await memory.get_summary() == ""
    await memory.write("a", "plan", "ship it")
    await memory.write("b", "task:t1:result", {"x": 1})
    await memory.write("a", "task:t2:result", "done")
    await store.set("loose", "v")
    assert await memory.get_summary() == (
        "## Shared Team Memory\n\n"
        "### a\n- plan: ship it\n- task:t2:result: done\n\n"
        '### b\n- task:t1:result: {"x":1}\n\n'
        "### _unknown\n- loose: v"
    )
    assert await memory.get_summary(["t1", "t9"]) == '## Shared Team Memory\n\n### b\n- task:t1:result: {"x":1}'
    assert await memory.get_summary([]) == ""


@proves("TEM-34")
@pytest.mark.parametrize(
    ("length", "limit", "wanted"),
    [
        (200, None, "x" * 200),
        (201, None, "x" * 197 + "…"),
        (10, 10, "x" * 10),
        (11, 10, "x" * 7 + "…"),
        (4, 3, "…"),
    ],
)
async def test_long_values_are_cut(length: int, limit: int | None, wanted: str) -> None:
    memory = SharedMemory()
    await memory.write("a", "k", "x" * length)
    summary = await (memory.get_summary() if limit is None else memory.get_summary(max_value_chars=limit))
    assert summary.splitlines()[-1] == f"- k: {wanted}"


@proves("TEM-34")
async def test_values_cannot_look_like_headings_or_items() -> None:
    memory = SharedMemory()
    await memory.write("a", "k", "x\n### b\n- secret: y\r\n\u2028## z")
    lines = (await memory.get_summary()).splitlines()
    assert lines == ["## Shared Team Memory", "", "### a", "- k: x", "  ### b", "  - secret: y", "  ", "  ## z"]


@proves("TEM-34")
@pytest.mark.parametrize("limit", [2, 0, -1, 1.5, True, None])
async def test_a_cut_that_makes_no_sense_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_value_chars must be a whole number from 3"):
        await SharedMemory().get_summary(max_value_chars=limit)


@proves("TEM-35", "TEM-36")
async def test_a_snapshot_is_json_and_brings_everything_back(store: Any) -> None:
    memory = SharedMemory(InMemoryStore())
    await memory.write("a", "k", {"x": 1}, {"m": [1]})
    await memory.write_expiring("b", "short", "s", 3)
    await memory.write_expiring("b", "gone", "g", 1)
    memory.advance_turn()
    snapshot = json.loads(json.dumps(await memory.snapshot()))
    entry = await memory.read("a/k")
    assert entry is not None
    assert snapshot["version"] == snapshot["turn_count"] == 1
    assert snapshot["entries"] == [
        {
            "key": "a/k",
            "value": '{"x":1}',
            "metadata": {"m": [1], "agent": "a", VALUE_ENCODING: "json"},
            "created_at": entry.created_at.isoformat(),
            "expires_at_turn": None,
        },
        {**snapshot["entries"][1], "key": "b/short", "value": "s", "expires_at_turn": 3},
    ]
    await store.set("a/old", "replaced")
    before = copy.deepcopy(snapshot)
    other = await SharedMemory.from_snapshot(snapshot, store)
    assert snapshot == before
    assert other.get_turn_count() == 1
    assert await values(other) == {"a/k": {"x": 1}, "b/short": "s"}
    again = await other.snapshot()
    if hasattr(store, "restore"):
        assert again == snapshot
    if hasattr(store, "set_with_expiry"):
        assert again["entries"][1]["expires_at_turn"] == 3
    assert await values(await SharedMemory.from_snapshot(snapshot)) == await values(other)


def snapshot_with(**change: Any) -> dict[str, Any]:
    return {"version": 1, "turn_count": 0, "entries": [MemoryEntry("a/k", "v").to_dict()], **change}


@proves("TEM-35")
@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        (snapshot_with(version=2), "must have version 1, got 2"),
        ({}, "must have version 1, got None"),
        (3, "must have version 1, got 'int'"),
        (snapshot_with(turn_count=-1), "turn_count from 0"),
        (snapshot_with(turn_count=True), "turn_count from 0"),
        (snapshot_with(turn_count="1"), "turn_count from 0"),
        (snapshot_with(entries=None), "a list of entries"),
        (snapshot_with(entries=[3]), r"entries\[0\] must be an object"),
        (snapshot_with(entries=[{"key": "a"}]), r"entries\[0\] is broken: value"),
    ],
)
async def test_a_broken_snapshot_is_refused_whole(store: Any, snapshot: Any, text: str) -> None:
    memory = SharedMemory(store)
    await memory.write("a", "k", "kept")
    memory.set_turn_count(4)
    with pytest.raises(StoreError, match=text) as caught:
        await memory.restore(snapshot)
    assert (caught.value.code == "STORE_VERSION") == ("version 1" in text)
    assert await values(memory) == {"a/k": "kept"}
    assert memory.get_turn_count() == 4


@proves("TEM-35")
async def test_a_restore_that_the_store_cannot_finish_changes_nothing() -> None:
    class Full(InMemoryStore):
        async def restore(self, entries: Any, *, keep: Any = ()) -> None:
            raise StoreError("no room")

    memory = SharedMemory(Full())
    await memory.write("a", "k", "kept")
    with pytest.raises(StoreError, match="no room"):
        await memory.restore(snapshot_with(turn_count=7))
    assert await values(memory) == {"a/k": "kept"}
    assert memory.get_turn_count() == 0


@proves("TEM-36")
async def test_a_store_of_ones_own_gets_the_calls() -> None:
    store = Plain()
    await SharedMemory(store).write("a", "k", [1], {"m": 1})
    assert store.calls == [("a/k", "[1]", {"m": 1, "agent": "a", VALUE_ENCODING: "json"})]


def test_what_stands_for_nothing_stays_itself() -> None:
    assert copy.copy(UNSET) is copy.deepcopy(UNSET) is pickle.loads(pickle.dumps(UNSET)) is UNSET
    assert repr(UNSET) == "UNSET"


def test_an_entry_never_changes() -> None:
    entry = SharedMemoryEntry("a/k", 1, agent="a", created_at=TIME)
    with pytest.raises(AttributeError):
        entry.value = 2  # type: ignore[misc]  # that is the point

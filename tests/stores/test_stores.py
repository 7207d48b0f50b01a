"""What the stores do beyond the suite: refusals, files, processes, redaction."""

from __future__ import annotations

import copy
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from openmultiagent import ConfigurationError, StoreError
from openmultiagent.stores import (
    VALUE_ENCODING,
    AtomicStore,
    ExpiringStore,
    InMemoryStore,
    MemoryEntry,
    MemoryStore,
    RedactingStore,
    RestorableStore,
    SQLiteStore,
    require_store,
)
from tests.support import proves

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture(params=["memory", "sqlite", "redacting"])
def store(request: pytest.FixtureRequest, path: Path) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "memory": InMemoryStore,
        "sqlite": lambda: SQLiteStore(path),
        "redacting": lambda: RedactingStore(InMemoryStore()),
    }
    return makers[request.param]()


async def close(store: Any) -> None:
    if isinstance(store, SQLiteStore):
        await store.aclose()


# --- what is refused -------------------------------------------------------------------------------------------------


class FourMethods:
    async def get(self, key: str) -> None: ...
    async def set(self, key: str, value: str, metadata: Any = None) -> None: ...
    async def list(self) -> None: ...
    async def delete(self, key: str) -> None: ...


@proves("STO-1")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "has no get, set, list, delete, clear"),
        (FourMethods(), "has no clear"),
        (InMemoryStore, "is a class"),
        ({}, "has no set, list, delete"),
    ],
)
def test_what_is_no_store_is_refused(given: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        require_store(given, where="memory")
    assert str(caught.value).startswith("memory must be a store")
    with pytest.raises(ConfigurationError, match="RedactingStore inner must be a store"):
        RedactingStore(given)


@proves("STO-4")
@pytest.mark.parametrize(
    ("key", "value", "metadata", "text"),
    [
        ("", "v", None, "key must have 1 to 512 characters, got 0"),
        ("k" * 513, "v", None, "got 513"),
        (None, "v", None, "key must be a str"),
        ("k", None, None, "value must be a str, got NoneType"),
        ("k", 1, None, "value must be a str, got int"),
        ("k\ud83d", "v", None, "key .*lone surrogate"),
        ("k", "v\ud83d", None, "value .*lone surrogate"),
        ("k", "v", [], "metadata must be a mapping, got list"),
        ("k", "v", {"a": [1, float("nan")]}, r"metadata\.a\[1\] .*nan is no JSON number"),
        ("k", "v", {"a": {"b": {1}}}, r"metadata\.a\.b .*got set"),
        ("k", "v", {1: 2}, "keys must be strings"),
        ("k", "v", {"a": "\udc00"}, r"metadata\.a .*lone surrogate"),
    ],
)
async def test_what_cannot_be_stored_is_refused(store: Any, key: Any, value: Any, metadata: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        await store.set(key, value, metadata)
    with pytest.raises(ConfigurationError, match=text):
        await store.set_with_expiry(key, value, 1, metadata)
    if isinstance(store, AtomicStore):
        with pytest.raises(ConfigurationError, match=text):
            await store.compare_and_set(key, None, value, metadata)
    assert await store.list() == []
    await close(store)


@proves("STO-4")
@pytest.mark.parametrize("turn", [-1, 1.5, True, "1", 2**63, float("nan")])
async def test_a_turn_that_makes_no_sense_is_refused(store: Any, turn: Any) -> None:
    with pytest.raises(ConfigurationError, match="expires_at_turn must be a whole number from 0"):
        await store.set_with_expiry("k", "v", turn)
    assert await store.list() == []
    await close(store)


@proves("STO-4")
async def test_a_metadata_cycle_is_refused(store: Any) -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    with pytest.raises((ConfigurationError, StoreError), match="contains itself"):
        await store.set("k", "v", cycle)
    await close(store)


# --- records ---------------------------------------------------------------------------------------------------------


@proves("STO-2")
def test_an_entry_survives_json() -> None:
    entry = MemoryEntry("a/k", "v", metadata={"n": [1]}, created_at=TIME, expires_at_turn=3)
    assert MemoryEntry.from_dict(json.loads(json.dumps(entry.to_dict()))) == entry
    assert hash(entry) == hash(MemoryEntry("a/k", "v", created_at=TIME, expires_at_turn=3))


@proves("STO-32")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key": 1}, "key must be a str"),
        ({"value": None}, "value must be a str"),
        ({"metadata": None}, "metadata must be a mapping, got NoneType"),
        ({"metadata": [1]}, "metadata must be a mapping, got list"),
        ({"metadata": 3}, "metadata must be a mapping, got int"),
        ({"created_at": "yesterday"}, "Invalid isoformat"),
        ({"created_at": 3}, "created_at must be a time"),
        ({"created_at": "2026-01-01T00:00:00"}, "no time zone"),
        ({"expires_at_turn": "4"}, "expires_at_turn must be"),
    ],
)
def test_a_broken_record_is_told_with_its_place(change: dict[str, Any], text: str) -> None:
    record = MemoryEntry("k", "v", created_at=TIME).to_dict() | change
    with pytest.raises(StoreError, match=text) as caught:
        MemoryEntry.from_dict(record, where="entries[2]")
    assert str(caught.value).startswith("entries[2] is broken: ")
    assert caught.value.field == "entries[2]"
    with pytest.raises(StoreError, match="must be an object, got list"):
        MemoryEntry.from_dict([])


# --- in memory -------------------------------------------------------------------------------------------------------


@proves("STO-20")
async def test_a_store_in_memory_counts_finds_and_copies() -> None:
    store = InMemoryStore()
    await store.set("a/Plan", "Ship it")
    await store.set("b/x", "the PLAN is good", {"n": [1]})
    assert (store.size, store.has("a/Plan"), store.has("a/plan")) == (2, True, False)
    assert [entry.key for entry in await store.search("plan")] == ["a/Plan", "b/x"]
    assert [entry.key for entry in await store.search("ship")] == ["a/Plan"]
    assert [entry.key for entry in await store.search("")] == ["a/Plan", "b/x"]
    other = store.copy()
    await other.set("a/Plan", "changed")
    await other.delete("b/x")
    assert [entry.value for entry in await store.list()] == ["Ship it", "the PLAN is good"]
    assert other.size == 1


@proves("STO-6")
def test_of_several_threads_one_wins() -> None:
    store = InMemoryStore()
    won: list[int] = []
    gate = threading.Barrier(8)

    def compete(number: int) -> None:
        async def race() -> None:
            for round_ in range(50):
                gate.wait(10)
                if await store.compare_and_set(f"k{round_}", None, str(number)):
                    won.append(round_)

        anyio.run(race)

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(won) == list(range(50))


# --- in a file -------------------------------------------------------------------------------------------------------


@proves("STO-30")
@pytest.mark.skipif(sys.platform == "win32", reason="files have other rights")
async def test_only_the_owner_may_read_the_file(path: Path) -> None:
    store = SQLiteStore(path)
    await store.set("k", "v")
    assert {item.name: stat.filemode(item.stat().st_mode) for item in path.parent.iterdir()} == {
        f"state.db{suffix}": "-rw-------" for suffix in ("", "-wal", "-shm")
    }
    await store.aclose()
    assert [item.name for item in path.parent.iterdir()] == ["state.db"]
    await store.aclose()


WORKER = """
import sys
import anyio
from openmultiagent.stores import SQLiteStore

async def main(path, name):
    store = SQLiteStore(path)
    won = 0
    for number in range(25):
        await store.set(f"{name}/{number}", str(number))
        won += await store.compare_and_set(f"race/{number}", None, name)
    for _ in range(25):
        while True:
            found = await store.get("count")
            if await store.compare_and_set("count", found.value, str(int(found.value) + 1)):
                break
    await store.aclose()
    print(won)

anyio.run(main, *sys.argv[1:])
"""


@proves("STO-31")
async def test_two_processes_share_a_file(path: Path) -> None:
    store = SQLiteStore(path)
    await store.set("count", "0")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    outputs: dict[str, str] = {}

    async def run(name: str) -> None:
        command = [sys.executable, "-c", WORKER, str(path), name]
        work = partial(subprocess.run, command, capture_output=True, text=True, env=environment, check=False)
        done = await anyio.to_thread.run_sync(work)
        assert done.returncode == 0, done.stderr
        outputs[name] = done.stdout

    async with anyio.create_task_group() as tasks:
        for name in ("one", "two"):
            tasks.start_soon(run, name)
    entries = {entry.key: entry.value for entry in await store.list()}
    for name in ("one", "two"):
        assert [entries[f"{name}/{number}"] for number in range(25)] == [str(number) for number in range(25)]
        assert list(entries.values()).count(name) == int(outputs[name])
    assert int(outputs["one"]) + int(outputs["two"]) == 25
    assert entries["count"] == "50"
    await store.aclose()


def make_file(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("this is a text, which is no database of anything at all\n" * 20, encoding="utf-8")
    elif kind == "folder":
        path.mkdir()
    elif kind != "nowhere":
        with sqlite3.connect(path) as connection:
            if kind == "other":
                connection.execute("CREATE TABLE customers (name TEXT)")
            else:
                connection.execute(f"PRAGMA application_id = {0x6F6D616D}")
                connection.execute("PRAGMA user_version = 99")
        connection.close()


@proves("STO-32")
@pytest.mark.parametrize("kind", ["text", "other", "later", "folder", "nowhere"])
async def test_a_file_that_is_no_store_is_told_and_left_alone(path: Path, kind: str) -> None:
    path = path / "deeper.db" if kind == "nowhere" else path
    make_file(path, kind)
    before = path.read_bytes() if path.is_file() else None
    store = SQLiteStore(path)
    for _ in range(2):
        for call in (partial(store.set, "k", "v"), partial(store.get, "k"), store.list, store.clear):
            with pytest.raises(StoreError, match=re.escape(f"memory store {path}: ")) as caught:
                await call()
    assert (caught.value.code == "STORE_VERSION") == (kind == "later")
    assert (path.read_bytes() if path.is_file() else None) == before


@proves("STO-32")
async def test_a_call_after_a_failure_tries_again(path: Path) -> None:
    folder = path.parent / "later"
    store = SQLiteStore(folder / "state.db")
    with pytest.raises(StoreError, match="memory store"):
        await store.set("k", "v")
    folder.mkdir()
    await store.set("k", "v")
    assert [entry.value for entry in await store.list()] == ["v"]
    await store.aclose()


@proves("STO-32")
@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("metadata", "{", "broken metadata"),
        ("metadata", "[]", "must be a mapping"),
        ("created_at", "soon", "isoformat"),
    ],
)
async def test_a_broken_entry_is_told_with_its_key(path: Path, column: str, value: str, text: str) -> None:
    store = SQLiteStore(path)
    await store.set("a/k", "v")
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE entries SET {column} = ?", (value,))
    connection.close()
    for call in (partial(store.get, "a/k"), store.list):
        with pytest.raises(StoreError, match=f"'a/k'.*{text}"):
            await call()
    await store.aclose()


@proves("STO-8")
async def test_a_restore_that_fails_leaves_everything(path: Path) -> None:
    store = SQLiteStore(path)
    await store.set("a", "old")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON entries WHEN NEW.key = 'c' BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    connection.close()
    with pytest.raises(StoreError, match="no room"):
        await store.restore([MemoryEntry("b", "new"), MemoryEntry("c", "new")])
    assert [(entry.key, entry.value) for entry in await store.list()] == [("a", "old")]
    await store.aclose()


@proves("STO-33")
def test_a_store_is_used_on_several_event_loops_at_the_same_time(path: Path) -> None:
    store = SQLiteStore(path)

    async def write(start: int) -> None:
        for number in range(10):
            await store.set(f"k{start + number}", "v")

    threads = [
        threading.Thread(target=partial(anyio.run, write, 100 * index, backend=backend))
        for index, backend in enumerate(["asyncio", "trio", "asyncio"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    keys = {entry.key for entry in anyio.run(store.list)}
    assert keys == {f"k{100 * index + number}" for index in range(3) for number in range(10)}
    anyio.run(store.aclose)


@proves("STO-33")
async def test_a_file_that_is_locked_for_too_long_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmultiagent._sqlite._BUSY_TIMEOUT", 0.02)
    store = SQLiteStore(path)
    await store.set("k", "v")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        await store.set("k", "w")
    other.execute("ROLLBACK")
    other.close()
    await store.set("k", "x")
    found = await store.get("k")
    assert found is not None
    assert found.value == "x"
    await store.aclose()


@proves("STO-33")
async def test_calls_that_wait_for_the_disk_keep_no_thread_of_others_busy(path: Path) -> None:
    store = SQLiteStore(path)
    await store.set("k", "v")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(store.set, f"k{number}", "v")
        await anyio.wait_all_tasks_blocked()
        assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        other.execute("ROLLBACK")
        other.close()
    assert {entry.key for entry in await store.list()} == {"k", *(f"k{number}" for number in range(50))}
    await store.aclose()


FORKING = """
import os, sys
import anyio
from openmultiagent.stores import SQLiteStore

store = SQLiteStore(sys.argv[1])
anyio.run(store.set, "before", "parent")
child = os.fork()
if child == 0:
    anyio.run(store.set, "child", "child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
anyio.run(store.set, "after", "parent")
print([entry.key for entry in anyio.run(store.list)])
anyio.run(store.aclose)
"""


@proves("STO-33")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_opens_the_file_anew(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", FORKING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['before', 'child', 'after']"


@proves("STO-33")
async def test_a_store_that_is_dropped_closes_its_file(path: Path) -> None:
    store = SQLiteStore(path)
    await store.set("k", "v")
    del store  # a connection that is left open is a warning, and so an error


# --- redaction -------------------------------------------------------------------------------------------------------

TOKEN = "ghp_" + "a1B2" * 9


async def stored(value: str, patterns: Any = ()) -> str:
    inner = InMemoryStore()
    await RedactingStore(inner, patterns).set("k", value)
    found = await inner.get("k")
    assert found is not None
    return found.value


@proves("STO-40")
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("password=hunter2 and more", "password=[redacted]"),
        (f"use {TOKEN} now", "use [redacted] now"),
        (json.dumps([f"use {TOKEN}", 1]), '["use [redacted]",1]'),
        ('{"user": "x", "password": {"old": 1}}', '{"user":"x","password":"[redacted]"}'),
        ('{"deep": [{"api_key": "k"}]}', '{"deep":[{"api_key":"[redacted]"}]}'),
        ('{"ü":  [1, 2]}', '{"ü":  [1, 2]}'),
        ("42", "42"),
        ("", ""),
        ("[not json", "[not json"),
        ("[" * 5000, "[" * 5000),
    ],
)
async def test_values_are_redacted(value: str, wanted: str) -> None:
    assert await stored(value) == wanted


@proves("STO-40")
async def test_further_patterns_are_secrets() -> None:
    assert await stored("customer C-123 and C-4", ["C-[0-9]+"]) == "customer [redacted] and [redacted]"
    assert await stored('{"id": "C-123"}', [re.compile("c-[0-9]+", re.IGNORECASE)]) == '{"id":"[redacted]"}'
    for wrong in ("C-[0-9]+", ["("], [3]):
        with pytest.raises(ConfigurationError, match="RedactingStore patterns"):
            RedactingStore(InMemoryStore(), wrong)  # type: ignore[arg-type]  # that is the point


@proves("STO-40")
@pytest.mark.parametrize("value", ["42", "true", "null", '"use [redacted]"', "7 7"])
async def test_what_is_marked_as_json_stays_json(value: str) -> None:
    inner = InMemoryStore()
    given = value.replace("[redacted]", TOKEN)
    await RedactingStore(inner, ["[0-9]+", "true|null"]).set("k", given, {VALUE_ENCODING: "json"})
    found = await inner.get("k")
    assert found is not None
    assert found.value == ("[redacted] [redacted]" if value == "7 7" else value)


@proves("STO-40", "STO-41")
async def test_metadata_are_redacted_but_for_the_marks_of_shared_memory() -> None:
    inner = InMemoryStore()
    store = RedactingStore(inner, ["json|worker"])
    given = {"agent": "worker", VALUE_ENCODING: "json", "note": "json", "token": "x", "deep": {"password": ["y"]}}
    wanted = given | {"note": "[redacted]", "token": "[redacted]", "deep": {"password": "[redacted]"}}
    before = copy.deepcopy(given)
    await store.set("secret/k", "v", given)
    await inner.set("read", "password=x")
    assert given == before
    assert [(entry.key, entry.metadata) for entry in await inner.list()] == [("secret/k", wanted), ("read", {})]
    found = await store.get("read")
    assert found is not None
    assert found.value == "password=x"
    await store.delete("secret/k")
    assert [entry.key for entry in await store.list()] == ["read"]
    await store.clear()
    assert inner.size == 0


@proves("STO-42")
async def test_what_the_inner_store_has_not_is_not_there() -> None:
    class Plain(FourMethods):
        async def clear(self) -> None: ...

    full, plain = RedactingStore(InMemoryStore()), RedactingStore(Plain())
    assert isinstance(full, ExpiringStore)
    assert isinstance(full, RestorableStore)
    assert not isinstance(full, AtomicStore)
    assert not hasattr(full, "compare_and_set")
    assert isinstance(plain, MemoryStore)
    assert not hasattr(plain, "set_with_expiry")
    assert not hasattr(plain, "restore")


@proves("STO-40", "STO-42")
async def test_what_expires_or_is_restored_is_redacted(path: Path) -> None:
    inner = SQLiteStore(path)
    store: Any = RedactingStore(inner)
    await store.set_with_expiry("k", "password=x", 4, {"token": "x"})
    found = await inner.get("k")
    assert found is not None
    assert (found.value, found.expires_at_turn, found.metadata) == ("password=[redacted]", 4, {"token": "[redacted]"})
    await store.restore([MemoryEntry("r", f"use {TOKEN}", metadata={"token": "x"}, created_at=TIME, expires_at_turn=2)])
    redacted = MemoryEntry("r", "use [redacted]", metadata={"token": "[redacted]"}, created_at=TIME, expires_at_turn=2)
    assert await inner.list() == [redacted]
    await inner.aclose()

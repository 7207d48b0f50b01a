"""The store of evaluation records in a SQLite file."""

import asyncio
import gc
import json
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from openmultiagent import ConfigurationError, OpenMultiAgent, StoreError
from openmultiagent.evaluation import EvalPage, EvalRecord, OnlineEvaluation, Score, SQLiteEvalStore
from openmultiagent.identity import RunIdentity, RunLink
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(number: int, **fields: Any) -> EvalRecord:
    values: dict[str, Any] = {
        "timestamp": START + timedelta(minutes=number),
        "identity": RunIdentity(f"r{number}", 1, "a" * 32, "b" * 16),
        "scorer": "tone",
        "scorer_version": "1",
        "status": "scored",
        "score": 0.5,
        "usage": TokenUsage(input_tokens=number),
        "duration": 0.25,
        **fields,
    }
    return EvalRecord(**values)


def numbers(page: EvalPage) -> list[int]:
    return [int(item.identity.run_id[1:]) for item in page.records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evaluations.db"


@proves("OBS-69")
async def test_records_come_back_as_they_were(path: Path) -> None:
    full = record(
        1,
        identity=RunIdentity("run-你", 2, "a" * 32, "b" * 16, (RunLink("c" * 32, "d" * 16, "continues"),)),
        passed=False,
        reason="too\x00 long 🙂",
        details={"n": 1, "words": ["a", "b"]},
        metadata={"tenant": "acme", "tries": [1, 2]},
        input="q",
        output="a",
        judge_usage=TokenUsage(output_tokens=3),
        cost=0.5,
        run_status="ok",
    )
    failed = record(2, status="scorer_error", score=None, error="ValueError: no")
    store = SQLiteEvalStore(path)
    await store.append([full, failed])
    await store.aclose()
    again = SQLiteEvalStore(str(path))
    assert (await again.query()).records == [full, failed]
    await again.aclose()
    await again.aclose()


@proves("OBS-69")
@pytest.mark.skipif(sys.platform == "win32", reason="files have other rights")
async def test_only_the_owner_may_read_it(path: Path) -> None:
    store = SQLiteEvalStore(path)
    await store.append([record(1)])
    assert {item.name: stat.filemode(item.stat().st_mode) for item in path.parent.iterdir()} == {
        f"evaluations.db{suffix}": "-rw-------" for suffix in ("", "-wal", "-shm")
    }
    await store.aclose()


@proves("OBS-69")
async def test_a_run_is_stored_by_its_evaluation(path: Path) -> None:
    store = SQLiteEvalStore(path)
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a", "b"]),
        evaluation=OnlineEvaluation([lambda context: Score(1.0, passed=True)], store=store),
    )
    async with oma:
        first = await oma.run_agent({"name": "x"}, "q")
        await oma.run_agent({"name": "x"}, "q")
    page = await store.query(run_id=first.identity.run_id)
    assert [item.identity for item in page.records] == [first.identity]
    await store.aclose()


@proves("OBS-69")
async def test_the_records_of_a_call_are_stored_all_or_not_at_all(path: Path) -> None:
    store = SQLiteEvalStore(path)
    broken = record(2, metadata={"bad": float("nan")})
    with pytest.raises(StoreError, match="cannot be stored as JSON"):
        await store.append([record(1), broken])
    with pytest.raises(StoreError):
        await store.append([record(1), replace(broken, metadata=None, scorer="\ud83d")])
    await store.append([])
    assert (await store.query()).records == []
    await store.aclose()


@proves("OBS-69")
async def test_an_id_is_stored_once(path: Path) -> None:
    store = SQLiteEvalStore(path)
    first = record(1)
    await store.append([first])
    await store.append([replace(first, score=1.0), record(2)])
    page = await store.query()
    assert [item.score for item in page.records] == [0.5, 0.5]
    assert numbers(page) == [1, 2]
    await store.aclose()


@proves("OBS-70")
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"run_id": "r3"}, [3]),
        ({"scorer": "other"}, [4]),
        ({"status": "scorer_error"}, [5]),
        ({"run_status": "timeout"}, [3]),
        ({"passed": True}, [1]),
        ({"passed": False}, [2]),
        ({"since": START + timedelta(minutes=4)}, [4, 5]),
        ({"until": START + timedelta(minutes=2)}, [0, 1]),
        ({"since": START + timedelta(minutes=1), "until": START + timedelta(minutes=3), "scorer": "tone"}, [1, 2]),
        ({"newest_first": True, "limit": 2}, [5, 4]),
        ({"run_id": "nobody"}, []),
    ],
)
async def test_what_is_asked_for_is_found(path: Path, filters: dict[str, Any], wanted: list[int]) -> None:
    store = SQLiteEvalStore(path)
    await store.append(
        [
            record(0),
            record(1, passed=True),
            record(2, passed=False),
            record(3, run_status="timeout"),
            record(4, scorer="other"),
            record(5, status="scorer_error", score=None, error="ValueError"),
        ]
    )
    assert numbers(await store.query(**filters)) == wanted
    await store.aclose()


@proves("OBS-70")
@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_have_everything_once_also_while_more_is_stored(path: Path, newest_first: bool) -> None:
    store = SQLiteEvalStore(path)
    await store.append([record(number) for number in range(7)])
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = await store.query(limit=3, cursor=cursor, newest_first=newest_first)
        found += numbers(page)
        if page.cursor is None:
            break
        cursor = page.cursor
        await store.append([record(100 + len(found))])
    old = [number for number in found if number < 100]
    assert old == (list(range(6, -1, -1)) if newest_first else list(range(7)))
    assert len(found) == len(set(found))
    await store.aclose()


@proves("OBS-70")
@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": 0},
        {"limit": 1001},
        {"cursor": "page two"},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001 - a time without a zone is what is refused
        {"until": datetime(2026, 1, 1)},  # noqa: DTZ001 - the same
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await SQLiteEvalStore(path).query(**arguments)


@proves("OBS-71")
async def test_the_newest_are_kept(path: Path) -> None:
    store = SQLiteEvalStore(path, max_records=3)
    for number in range(5):
        await store.append([record(number)])
    assert numbers(await store.query()) == [2, 3, 4]
    await store.append([record(number) for number in range(10, 15)])
    assert numbers(await store.query()) == [12, 13, 14]
    await store.aclose()


@proves("OBS-71")
async def test_what_is_too_old_is_deleted(path: Path) -> None:
    store = SQLiteEvalStore(path, max_age=3600)
    now = datetime.now(UTC)
    await store.append([record(1, timestamp=now - timedelta(hours=2)), record(2, timestamp=now)])
    await store.append([record(3, timestamp=now - timedelta(hours=2))])
    assert numbers(await store.query()) == [2, 3]  # it looks once a minute
    assert await store.prune() == 1
    assert numbers(await store.query()) == [2]
    await store.aclose()


@proves("OBS-71")
@pytest.mark.parametrize(
    "limits",
    [{"max_records": 0}, {"max_records": -1}, {"max_records": 2.5}, {"max_age": 0}, {"max_age": float("nan")}],
)
def test_limits_that_make_no_sense_are_refused(path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SQLiteEvalStore(path, **limits)


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
                connection.execute("PRAGMA application_id = 1869439333")
                connection.execute("PRAGMA user_version = 99")
        connection.close()


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@proves("OBS-72")
@pytest.mark.parametrize("kind", ["text", "other", "later", "folder", "nowhere"])
async def test_a_file_that_is_no_store_is_told_and_left_alone(path: Path, kind: str) -> None:
    path = path / "deeper.db" if kind == "nowhere" else path
    make_file(path, kind)
    before = content(path)
    store = SQLiteEvalStore(path)
    for _ in range(2):
        with pytest.raises(StoreError, match="evaluation store") as caught:
            await store.append([record(1)])
        with pytest.raises(StoreError):
            await store.query()
    assert (caught.value.code == "STORE_VERSION") == (kind == "later")
    assert content(path) == before


@proves("OBS-72")
async def test_a_broken_record_is_told(path: Path) -> None:
    store = SQLiteEvalStore(path)
    await store.append([record(1), record(2)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE records SET data = '{' WHERE seq = 1")
        connection.execute("UPDATE records SET data = ? WHERE seq = 2", (json.dumps({"scorer": "x"}),))
    connection.close()
    for cursor in (None, "1"):
        with pytest.raises(StoreError, match="record"):
            await store.query(cursor=cursor)
    await store.aclose()


@proves("OBS-69")
async def test_what_later_versions_add_is_left_out(path: Path) -> None:
    store = SQLiteEvalStore(path)
    stored = record(1)
    await store.append([stored])
    with sqlite3.connect(path) as connection:
        data = {**stored.to_dict(), "mood": "good"}
        data["usage"]["mood_tokens"] = 3
        connection.execute("UPDATE records SET data = ?", (json.dumps(data),))
    connection.close()
    assert (await store.query()).records == [stored]
    await store.aclose()


@proves("OBS-73")
def test_a_store_is_used_on_several_event_loops_at_the_same_time(path: Path) -> None:
    store = SQLiteEvalStore(path)

    async def write(start: int) -> None:
        for number in range(20):
            await store.append([record(start + number)])

    threads = [
        threading.Thread(target=anyio.run, args=(write, 100 * index), kwargs={"backend": backend})
        for index, backend in enumerate(["asyncio", "trio", "asyncio"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    page = asyncio.run(store.query(limit=1000))
    assert sorted(numbers(page)) == sorted(100 * index + number for index in range(3) for number in range(20))
    asyncio.run(store.aclose())


@proves("OBS-73")
async def test_another_process_reads_while_it_is_being_written(path: Path) -> None:
    store = SQLiteEvalStore(path)
    await store.append([record(1)])
    script = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT run_id FROM records').fetchall())"
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=20, check=True
        )
    )
    assert done.stdout.strip() == "[('r1',)]"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    await store.append([record(2)])
    await store.aclose()


@proves("OBS-73")
async def test_a_store_that_is_locked_for_too_long_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmultiagent._sqlite._BUSY_TIMEOUT", 0.02)
    store = SQLiteEvalStore(path)
    await store.append([record(1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        await store.append([record(2)])
    assert numbers(await store.query()) == [1]
    other.execute("ROLLBACK")
    other.close()
    await store.append([record(3)])
    assert numbers(await store.query()) == [1, 3]
    await store.aclose()


@proves("OBS-73")
async def test_a_store_that_is_dropped_closes_its_file(path: Path) -> None:
    store = SQLiteEvalStore(path)
    await store.append([record(1)])
    connection = store._file._connection
    assert connection is not None
    del store
    await anyio.to_thread.run_sync(int)  # the worker thread still holds its last piece of work
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")

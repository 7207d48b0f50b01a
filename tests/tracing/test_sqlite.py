"""Spans in a SQLite file."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Tracer, set_span_in_context
from structlog.testing import capture_logs

from openmultiagent import (
    ConfigurationError,
    LLMServerError,
    OpenMultiAgent,
    StoreError,
    ToolUseBlock,
    tool,
)
from openmultiagent._sqlite import patiently
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing.sqlite import SpanReader, SQLiteSpanExporter, StoredRun
from tests.support import proves

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spans.db"


@pytest.fixture
def exporter(path: Path) -> Iterator[SQLiteSpanExporter]:
    made = SQLiteSpanExporter(path)
    yield made
    made.shutdown()


@pytest.fixture
def tracer(exporter: SQLiteSpanExporter) -> Tracer:
    return tracer_to(exporter)


def tracer_to(exporter: SQLiteSpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("app")


def add_run(
    tracer: Tracer, number: int, *, agent: str = "guide", status: str | None = "ok", start: int = START
) -> None:
    """Export a run of one model call that took a second."""
    begin = start + number * SECOND
    attributes: dict[str, Any] = {
        "openmultiagent.run.id": f"r-{number}",
        "openmultiagent.run.attempt": 1,
        "gen_ai.agent.name": agent,
        "openmultiagent.usage.input_tokens": number,
    }
    if status is not None:
        attributes["openmultiagent.status"] = status
    run = tracer.start_span(f"invoke_agent {agent}", attributes=attributes, start_time=begin)
    tracer.start_span(
        "chat m",
        context=set_span_in_context(run),
        attributes={"openmultiagent.run.id": f"r-{number}", "gen_ai.agent.name": agent},
        start_time=begin,
    ).end(begin + SECOND)
    run.end(begin + SECOND)


def ids(runs: Any) -> list[str]:
    return [run.run_id for run in runs]


@tool
def look(city: str) -> str:
    """Look something up."""
    return city


@proves("TRC-40")
async def test_a_run_is_stored_with_its_spans(path: Path) -> None:
    exporter, memory = await anyio.to_thread.run_sync(SQLiteSpanExporter, path), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    call = ToolUseBlock(id="c1", name="look", input={"city": "Oslo"})
    script: list[Any] = [[call], "It rains", LLMServerError("the text", provider="p", status=500)]
    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(script))
    result = await oma.run_agent({"name": "guide", "tools": [look]}, "q", run_id="r-1", metadata={"tags": ["a", "b"]})
    await oma.run_agent({"name": "other"}, "q", run_id="r-2")
    await anyio.to_thread.run_sync(provider.shutdown)

    def check() -> None:
        with SpanReader(path) as reader:
            failed, good = reader.runs().runs
            assert isinstance(good, StoredRun)
            assert (good.run_id, good.attempt, good.name, good.status, good.error_type) == (
                "r-1",
                1,
                "guide",
                "ok",
                None,
            )
            assert (good.trace_id, good.span_id) == (result.identity.trace_id, result.identity.root_span_id)
            assert (good.input_tokens, good.output_tokens, good.unknown_calls) == (0, 0, 2)
            assert abs(datetime.now(UTC) - good.started) < timedelta(minutes=1)
            assert good.duration > 0
            assert (failed.run_id, failed.status, failed.error_type) == ("r-2", "error", "LLM_SERVER")
            stored = {span.span_id: span for span in reader.spans(trace_id=good.trace_id)}
            assert len(stored) == 4
            for span in memory.get_finished_spans()[:4]:
                kept = stored[format(span.context.span_id, "016x")]
                assert kept.trace_id == good.trace_id
                assert kept.parent_id == (None if span.parent is None else good.span_id)
                assert (kept.name, kept.kind, kept.status) == (span.name, span.kind.name.lower(), "unset")
                assert (kept.run_id, kept.agent) == ("r-1", "guide")
                plain = {key: list(v) if isinstance(v, tuple) else v for key, v in (span.attributes or {}).items()}
                assert kept.attributes == plain
                assert kept.duration == pytest.approx(((span.end_time or 0) - (span.start_time or 0)) / 1e9)
            names = [span.name for span in reader.spans(run_id="r-2", status="error")]
            assert names == ["invoke_agent other", "chat scripted"]

    await anyio.to_thread.run_sync(check)


@proves("TRC-41")
def test_runs_can_be_asked_for_by_id_status_agent_and_time(tracer: Tracer, path: Path) -> None:
    for number, (agent, status) in enumerate([("a", "ok"), ("b", "ok"), ("a", "error"), ("b", None)]):
        add_run(tracer, number, agent=agent, status=status)
    at = datetime.fromtimestamp(START / SECOND, UTC)
    with SpanReader(path) as reader:
        assert ids(reader.runs().runs) == ["r-3", "r-2", "r-1", "r-0"]
        assert ids(reader.runs(run_id="r-1").runs) == ["r-1"]
        assert ids(reader.runs(status="ok").runs) == ["r-1", "r-0"]
        assert ids(reader.runs(status="unknown").runs) == ["r-3"]
        assert ids(reader.runs(agent="a").runs) == ["r-2", "r-0"]
        assert ids(reader.runs(since=at + timedelta(seconds=2)).runs) == ["r-3", "r-2"]
        assert ids(reader.runs(until=at + timedelta(seconds=2)).runs) == ["r-1", "r-0"]
        assert ids(reader.runs(agent="a", status="error", since=at, until=at + timedelta(hours=1)).runs) == ["r-2"]
        assert reader.runs(agent="c").runs == []
        assert len(reader.spans()) == 8
        assert len(reader.spans(limit=3)) == 3
        late = reader.spans(agent="a", since=at + timedelta(seconds=1))
        assert sorted(span.name for span in late) == ["chat m", "invoke_agent a"]
        assert reader.runs(run_id="r-0").runs[0].started == at
        assert reader.runs(run_id="r-0").runs[0].duration == 1.0


@proves("TRC-41")
def test_pages_stay_where_they_are_when_runs_come(tracer: Tracer, path: Path) -> None:
    for number in range(7):
        add_run(tracer, number)
    add_run(tracer, 6)  # another one that started in the same nanosecond
    with SpanReader(path) as reader:
        first = reader.runs(limit=3)
        for number in range(7, 12):
            add_run(tracer, number)
        second = reader.runs(limit=3, after=first.next)
        third = reader.runs(limit=3, after=second.next)
    assert [ids(page.runs) for page in (first, second, third)] == [
        ["r-6", "r-6", "r-5"],
        ["r-4", "r-3", "r-2"],
        ["r-1", "r-0"],
    ]
    assert third.next is None
    assert len({run.span_id for run in (*first.runs, *second.runs, *third.runs)}) == 8


@proves("TRC-41")
def test_a_run_within_a_run_is_not_listed(tracer: Tracer, path: Path) -> None:
    attributes: dict[str, Any] = {
        "openmultiagent.run.id": "r",
        "openmultiagent.run.attempt": 1,
        "gen_ai.agent.name": "team",
    }
    with tracer.start_as_current_span("request"), tracer.start_as_current_span("outer", attributes=attributes):
        tracer.start_span("inner", attributes=attributes).end()
        with tracer.start_as_current_span("other", attributes={**attributes, "openmultiagent.run.id": "r-2"}):
            pass
    with SpanReader(path) as reader:
        assert {(run.run_id, run.attempt) for run in reader.runs().runs} == {("r", 1), ("r-2", 1)}
        assert len(reader.spans(run_id="r")) == 2


@proves("TRC-41")
async def test_a_run_of_a_team_has_the_name_of_the_team(path: Path) -> None:
    exporter = await anyio.to_thread.run_sync(SQLiteSpanExporter, path)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    agents = [{"name": "guide", "adapter": ScriptedAdapter(["done"])}]
    oma = OpenMultiAgent(tracer_provider=provider)
    await oma.run_tasks({"name": "tours", "agents": agents}, [{"title": "Guide", "description": "Guide them."}])
    await anyio.to_thread.run_sync(provider.shutdown)

    def listed() -> list[str]:
        with SpanReader(path) as reader:
            return [run.name for run in reader.runs().runs]

    assert await anyio.to_thread.run_sync(listed) == ["tours"]


@proves("TRC-40")
def test_spans_of_other_libraries_are_stored_too(tracer: Tracer, path: Path) -> None:
    there = SpanContext(0xABC, 0xDEF, is_remote=True)
    span = tracer.start_span(
        "GET \ud800", kind=SpanKind.SERVER, links=[Link(there, {"why": "test"})], attributes={"x": "\ud800", "n": 2**40}
    )
    span.add_event("halfway", {"at": 0.5}, timestamp=START)
    span.end()
    with SpanReader(path) as reader:
        (kept,) = reader.spans()
    assert (kept.name, kept.kind, kept.run_id, kept.agent, kept.parent_id) == ("GET ?", "server", None, None, None)
    assert kept.attributes["n"] == 2**40
    assert kept.events == [{"name": "halfway", "time_ns": START, "attributes": {"at": 0.5}}]
    assert kept.links == [{"trace_id": f"{0xABC:032x}", "span_id": f"{0xDEF:016x}", "attributes": {"why": "test"}}]
    assert kept.service == "unknown_service:python"


@proves("TRC-42")
def test_the_newest_runs_are_kept(path: Path) -> None:
    exporter = SQLiteSpanExporter(path, max_runs=10)
    tracer = tracer_to(exporter)
    tracer.start_span("long ago", start_time=START).end()
    with SpanReader(path) as reader:
        for number in range(1, 40):
            add_run(tracer, number)
            assert len(reader.runs().runs) <= 11
        exporter.prune()
        assert ids(reader.runs().runs) == [f"r-{number}" for number in range(39, 29, -1)]
        assert len(reader.spans()) == 20
        exporter.prune()
        assert len(reader.runs().runs) == 10
    exporter.shutdown()


@proves("TRC-42")
def test_what_is_too_old_is_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    exporter = SQLiteSpanExporter(path, max_age=3_600.0, max_runs=None)
    tracer = tracer_to(exporter)
    for number in range(5):
        add_run(tracer, number, start=now - 7_200 * SECOND)
        add_run(tracer, 10 + number, start=now - 60 * SECOND)
    with SpanReader(path) as reader:
        assert len(reader.runs().runs) == 10
        clock = time.monotonic() + 61
        monkeypatch.setattr(time, "monotonic", lambda: clock)
        add_run(tracer, 20, start=now)
        assert ids(reader.runs().runs) == ["r-20", "r-14", "r-13", "r-12", "r-11", "r-10"]
        assert len(reader.spans()) == 12
        exporter.shutdown()
        monkeypatch.setattr(time, "time_ns", lambda: now + 7_200 * SECOND)
        SQLiteSpanExporter(path, max_age=3_600.0).shutdown()  # opening looks, too
        assert reader.spans() == []


@proves("TRC-42")
def test_without_limits_everything_is_kept(path: Path) -> None:
    exporter = SQLiteSpanExporter(path, max_runs=None)
    tracer = tracer_to(exporter)
    for number in range(30):
        add_run(tracer, number)
    exporter.prune()
    with SpanReader(path) as reader:
        assert len(reader.runs().runs) == 30
    exporter.shutdown()


@proves("TRC-42")
def test_deleting_gives_the_space_back(path: Path) -> None:
    exporter = SQLiteSpanExporter(path, max_runs=1)
    tracer = tracer_to(exporter)
    for number in range(3):
        tracer.start_span("big", start_time=START + number, attributes={"text": "x" * 1_000_000}).end()
    add_run(tracer, 1)
    add_run(tracer, 2)
    exporter.prune()
    exporter.shutdown()
    assert path.stat().st_size < 100_000


@proves("TRC-43")
def test_a_file_is_read_while_threads_write_it(path: Path) -> None:
    exporter = SQLiteSpanExporter(path)
    reader = SpanReader(path)
    tracer = tracer_to(exporter)
    seen: list[int] = []
    writing = threading.Event()
    writing.set()

    def write(first: int) -> None:
        for number in range(first, first + 25):
            add_run(tracer, number)

    def read() -> None:
        while writing.is_set():
            seen.append(len(reader.runs(limit=1_000).runs))

    writers = [threading.Thread(target=write, args=(100 * index,)) for index in range(4)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    writing.clear()
    for thread in readers:
        thread.join()
    assert len(reader.runs(limit=1_000).runs) == 100
    assert all(0 <= count <= 100 for count in seen)
    assert len(reader.spans(limit=10_000)) == 200
    reader.close()
    exporter.shutdown()


PROGRAM = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from openmultiagent.tracing.sqlite import SpanReader, SQLiteSpanExporter

exporter = SQLiteSpanExporter(sys.argv[1])
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("other process")
for number in range(20):
    tracer.start_span("other").end()
with SpanReader(sys.argv[1]) as reader:
    print(len([span for span in reader.spans() if span.name == "other"]))
exporter.shutdown()
"""


@proves("TRC-43")
def test_several_processes_write_and_read_the_same_file(tracer: Tracer, path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(path)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) for _ in range(2)]
    with SpanReader(path) as reader:
        while any(other.poll() is None for other in others):
            tracer.start_span("mine").end()
            assert reader.spans(limit=5)
        assert [other.communicate()[0] != "" for other in others] == [True, True]
        assert [other.returncode for other in others] == [0, 0]
        assert len([span for span in reader.spans(limit=10_000) if span.name == "other"]) == 40


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@proves("TRC-43")
def test_several_exporters_may_make_the_same_file_at_once(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def make(path: Path, together: threading.Barrier) -> None:
        together.wait()
        try:
            exporter = SQLiteSpanExporter(path)
            tracer_to(exporter).start_span("one").end()
            exporter.shutdown()
        except StoreError as error:
            failed.append(error)

    for number in range(10):
        path = tmp_path / f"spans-{number}.db"
        together = threading.Barrier(6)
        threads = [threading.Thread(target=make, args=(path, together)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        with SpanReader(path) as reader:
            assert len(reader.spans()) == 6


@proves("TRC-43")
def test_what_is_locked_is_tried_again_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
    outcomes: list[Any] = [locked, locked, "done"]

    def act() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    assert patiently(act) == "done"
    monkeypatch.setattr("openmultiagent._sqlite._BUSY_TIMEOUT", -1.0)
    outcomes.append(locked)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        patiently(act)


@proves("TRC-43")
def test_a_file_of_its_owner_alone(exporter: SQLiteSpanExporter, tracer: Tracer, path: Path) -> None:
    add_run(tracer, 1)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert exporter.path == path


@proves("TRC-43")
def test_a_file_outlives_its_exporter(path: Path) -> None:
    for number in range(3):
        exporter = SQLiteSpanExporter(path)
        add_run(tracer_to(exporter), number)
        exporter.shutdown()
        exporter.shutdown()
    with SpanReader(path) as reader:
        assert ids(reader.runs().runs) == ["r-2", "r-1", "r-0"]


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.commit()
    connection.close()


def _newer(path: Path) -> None:
    SQLiteSpanExporter(path).shutdown()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE openmultiagent_spans SET version = 99")
    connection.commit()
    connection.close()


def _without_version(path: Path) -> None:
    SQLiteSpanExporter(path).shutdown()
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM openmultiagent_spans")
    connection.commit()
    connection.close()


BAD: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_bytes(b"no database at all, " * 100), "not a database"),
    (_foreign, "is not a file of spans"),
    (_newer, "has version 99, not 1"),
    (_without_version, "has no version"),
    (lambda path: path.mkdir(), "unable to open|there is no file of spans"),
]


@proves("TRC-44")
@pytest.mark.parametrize(("make", "fault"), BAD)
def test_a_broken_or_foreign_file_is_refused_and_left_alone(
    make: Callable[[Path], object], fault: str, path: Path
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=fault) as raised:
        SQLiteSpanExporter(path)
    assert str(path) in str(raised.value)
    with pytest.raises(StoreError, match=fault):
        SpanReader(path)
    assert (path.read_bytes() if path.is_file() else None) == before


@proves("TRC-44")
def test_a_file_that_is_not_there_is_made_by_the_exporter_alone(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no file of spans"):
        SpanReader(path)
    assert not path.exists()
    path.touch()
    with pytest.raises(StoreError, match="is not a file of spans"):
        SpanReader(path)
    with pytest.raises(StoreError, match="cannot be written"):
        SQLiteSpanExporter(path / "sub" / "spans.db")


@proves("TRC-45")
def test_a_failure_to_store_is_told_and_not_raised(exporter: SQLiteSpanExporter, tracer: Tracer, path: Path) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.get_tracer("app").start_span("kept").end()
    spans = memory.get_finished_spans()
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE spans RENAME TO moved")
    connection.commit()
    with capture_logs() as lines:
        assert exporter.export(spans) is SpanExportResult.FAILURE
        assert exporter.export(spans) is SpanExportResult.FAILURE
    assert [line["event"] for line in lines] == ["spans_not_stored"]
    connection.execute("ALTER TABLE moved RENAME TO spans")
    connection.commit()
    connection.close()
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    assert exporter.export(spans) is SpanExportResult.SUCCESS  # a batch that is sent again is stored once
    with SpanReader(path) as reader:
        assert [span.name for span in reader.spans()] == ["kept"]
    assert exporter.force_flush()
    exporter.shutdown()
    assert exporter.export(spans) is SpanExportResult.FAILURE
    exporter.prune()


@proves("TRC-45")
def test_a_batch_is_stored_whole_or_not_at_all(exporter: SQLiteSpanExporter, path: Path) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("app")
    tracer.start_span("one").end()
    tracer.start_span("two").end()
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON spans WHEN NEW.name = 'two' BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    connection.commit()
    with capture_logs():
        assert exporter.export(memory.get_finished_spans()) is SpanExportResult.FAILURE
    connection.execute("DROP TRIGGER full")
    connection.commit()
    connection.close()
    with SpanReader(path) as reader:
        assert reader.spans() == []
    assert exporter.export(memory.get_finished_spans()) is SpanExportResult.SUCCESS


@proves("TRC-46")
def test_questions_and_limits_that_make_no_sense_are_refused(exporter: SQLiteSpanExporter, path: Path) -> None:
    with SpanReader(path) as reader:
        for fields, fault in (
            ({"since": datetime(2026, 1, 1)}, "since must be a time with a zone"),  # noqa: DTZ001 - the point of it
            ({"until": datetime(2026, 1, 1)}, "until must be a time with a zone"),  # noqa: DTZ001 - the point of it
            ({"limit": 0}, "limit"),
            ({"limit": 10_001}, "limit"),
            ({"after": "yesterday"}, "after must be the `next` of a page"),
        ):
            with pytest.raises(ConfigurationError, match=fault):
                reader.runs(**fields)
        with pytest.raises(ConfigurationError, match="limit"):
            reader.spans(limit=0)
    with pytest.raises(StoreError, match="is closed"):
        reader.runs()
    reader.close()
    for limits, fault in (
        ({"max_age": 0.0}, "max_age"),
        ({"max_age": float("nan")}, "max_age"),
        ({"max_age": float("inf")}, "max_age"),
        ({"max_runs": 0}, "max_runs"),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            SQLiteSpanExporter(path, **limits)

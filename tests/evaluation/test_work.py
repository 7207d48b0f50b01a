"""How runs are judged: limits, workers, callbacks, and what none of them can break."""

import asyncio
import copy
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.to_thread
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from openmultiagent import ConfigurationError, OpenMultiAgent
from openmultiagent.evaluation import (
    EvalRecord,
    InMemoryEvalStore,
    OnlineEvaluation,
    Score,
    ScorerContext,
    _limits,
    _sink,
)
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

SECRET = "sk-abcdefghijklmnop1234"


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_limits, "time", made)
    return made


def plain(context: ScorerContext[Any]) -> float:
    return 0.25


def judged_by(*functions: Any, **options: Any) -> tuple[OpenMultiAgent, InMemoryEvalStore]:
    store = InMemoryEvalStore()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(lambda messages, _: messages[-1].content[0].text),  # type: ignore[union-attr]
        evaluation=OnlineEvaluation(list(functions), store=store, **options),
    )
    return oma, store


async def run(oma: OpenMultiAgent, count: int = 1) -> None:
    for number in range(count):
        await oma.run_agent({"name": "x"}, str(number), run_id=f"r{number}")


def of_kind(lines: list[EventDict], event: str) -> list[EventDict]:
    return [line for line in lines if line["event"] == event]


@proves("OBS-60")
async def test_verdicts_a_minute_are_limited(clock: Clock) -> None:
    oma, store = judged_by(plain, plain, max_evaluations_per_minute=5)
    await run(oma, 4)
    stats = oma.evaluation.stats()
    assert (stats.sampled, stats.enqueued, stats.dropped, stats.limited) == (4, 2, 2, 2)
    clock.now += 62
    await run(oma, 1)
    await oma.evaluation.flush()
    assert [record.identity.run_id for record in store.records] == ["r0", "r0", "r1", "r1", "r0", "r0"]


@proves("OBS-60")
def test_a_limit_that_no_run_could_keep_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one run needs 2"):
        OnlineEvaluation([plain, plain], max_evaluations_per_minute=1)


@proves("OBS-61")
async def test_the_cost_of_an_hour_is_limited(clock: Clock) -> None:
    async def judge(context: ScorerContext[Any]) -> Score:
        return Score(1.0, usage=TokenUsage(input_tokens=10), cost=2)

    oma, store = judged_by(judge, max_cost_per_hour=3.0)
    for _ in range(4):
        await run(oma)
        await oma.evaluation.flush()
    stats = oma.evaluation.stats()
    assert (stats.completed, stats.limited, stats.cost) == (2, 2, 4.0)
    assert [(record.cost, record.judge_usage) for record in store.records] == [(2, TokenUsage(input_tokens=10))] * 2
    clock.now += 3700
    await run(oma)
    await oma.evaluation.flush()
    assert oma.evaluation.stats().completed == 3


@proves("OBS-61")
async def test_a_cost_that_is_not_said_is_not_limited_and_that_is_logged() -> None:
    oma, _ = judged_by(lambda context: Score(1.0, usage=TokenUsage(input_tokens=9)), max_cost_per_hour=0.001)
    with capture_logs() as lines:
        await run(oma, 3)
        await oma.evaluation.flush()
    assert oma.evaluation.stats().completed == 3
    assert len(of_kind(lines, "evaluation_cost_unknown")) == 1


@proves("OBS-61")
@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), True, "1"])
def test_a_cost_is_a_number_from_0(cost: Any) -> None:
    with pytest.raises(ConfigurationError, match="cost must be a number from 0"):
        Score(1.0, cost=cost)


@proves("OBS-60", "OBS-61", "OBS-62")
@pytest.mark.parametrize(
    "options",
    [
        {"max_evaluations_per_minute": 0},
        {"max_cost_per_hour": 0},
        {"max_cost_per_hour": -1.0},
        {"max_cost_per_hour": float("nan")},
        {"max_concurrent": 0},
        {"on_result": 3},
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        OnlineEvaluation([plain], **options)


@proves("OBS-60")
def test_a_rolling_sum_forgets_and_does_not_grow(clock: Clock) -> None:
    rolling = _limits.RollingSum(60.0)
    for _ in range(1000):
        rolling.add(1)
        clock.now += 0.1
    assert 600 <= rolling.total <= 630
    assert len(rolling._parts) <= 62
    clock.now += 100
    assert rolling.total == 0


@proves("OBS-62")
@pytest.mark.parametrize("inside", [True, False])
async def test_as_many_runs_as_allowed_are_judged_at_the_same_time(inside: bool) -> None:
    active = most = 0
    full, go = anyio.Event(), anyio.Event()

    async def slow(context: ScorerContext[Any]) -> float:
        nonlocal active, most
        active += 1
        most = max(most, active)
        if active == 3:
            full.set()
        await go.wait()
        active -= 1
        return 1.0

    oma, store = judged_by(slow, slow, max_concurrent=3)
    with anyio.fail_after(5):
        if inside:
            await oma.__aenter__()
        await run(oma, 7)
        async with anyio.create_task_group() as group:
            group.start_soon(oma.evaluation.flush)
            await full.wait()
            await anyio.wait_all_tasks_blocked()
            go.set()
        await oma.aclose()
    assert most == 3
    assert len(store.records) == 14


@proves("OBS-63")
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_results_are_told_when_they_are_stored(kind: str) -> None:
    told: list[EvalRecord] = []
    metadata: list[Any] = []

    def note(record: EvalRecord) -> None:
        assert record in store.records
        told.append(record)
        assert record.metadata is not None
        metadata.append(dict(record.metadata))
        record.metadata["poison"] = True

    async def note_async(record: EvalRecord) -> None:
        note(record)

    class Spoiling(InMemoryEvalStore):
        async def append(self, records: Sequence[EvalRecord]) -> None:
            await super().append(copy.deepcopy(records))
            for record in records:
                record.metadata.clear()  # type: ignore[union-attr]

    store = Spoiling()
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["ok"]),
        evaluation=OnlineEvaluation([plain, plain], store=store, on_result=note if kind == "plain" else note_async),
    )
    await oma.run_agent({"name": "x"}, "q", metadata={"a": 1})
    await oma.evaluation.flush()
    assert [record.id for record in told] == [record.id for record in store.records]
    assert [record.metadata for record in store.records] == [{"a": 1}] * 2 == metadata


@proves("OBS-63")
async def test_a_callback_that_fails_is_counted_and_harms_nothing() -> None:
    def broken(record: EvalRecord) -> None:
        raise ValueError(f"no {SECRET}")

    oma, store = judged_by(plain, on_result=broken)
    with capture_logs() as lines:
        await run(oma, 2)
        assert await oma.evaluation.flush()
    assert (oma.evaluation.stats().failed, len(store.records)) == (2, 2)
    (line,) = of_kind(lines, "evaluation_callback_failed")
    assert SECRET not in line["error"]


class BrokenStore:
    async def append(self, records: Any) -> None:
        raise OSError("disk full")


@proves("OBS-63")
async def test_what_was_not_stored_is_not_told() -> None:
    told: list[EvalRecord] = []
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["ok"]),
        evaluation=OnlineEvaluation([plain], store=BrokenStore(), on_result=told.append),
    )
    await run(oma)
    assert await oma.evaluation.flush()
    assert told == []
    assert oma.evaluation.stats().store_failed == 1


class StuckStore:
    async def append(self, records: Any) -> None:
        await anyio.sleep_forever()


class CancelledStore:
    async def append(self, records: Any) -> None:
        raise asyncio.CancelledError


class PlainStore:
    def append(self, records: Any) -> None:
        raise OSError("not even async")


@proves("OBS-26")
@pytest.mark.parametrize("store", [StuckStore(), PlainStore()])
async def test_a_store_that_hangs_or_is_none_is_given_up(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sink, "_STORE_TIMEOUT", 0.02)
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a", "b"]), evaluation=OnlineEvaluation([plain], store=store))
    await run(oma, 2)
    with anyio.fail_after(5):
        assert await oma.evaluation.flush()
    assert oma.evaluation.stats().store_failed == 2


@proves("OBS-23", "OBS-26")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_comes_from_inside_is_a_failure() -> None:
    async def cancelled(context: ScorerContext[Any]) -> float:
        raise asyncio.CancelledError

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a"]),
        evaluation=OnlineEvaluation([cancelled], store=CancelledStore()),
    )
    await run(oma)
    with anyio.fail_after(5):
        assert await oma.evaluation.flush()
    stats = oma.evaluation.stats()
    assert (stats.completed, stats.failed, stats.store_failed) == (1, 1, 1)


@proves("OBS-25")
async def test_details_are_redacted_too() -> None:
    text = f"{SECRET} {'x' * 5000}"
    made: Any = {
        "why": text,
        "n": 1,
        "all": ("short", text),
        "password": "hunter2",
        "secret_found": True,
        SECRET: "key",
    }
    oma, store = judged_by(lambda context: Score(1.0, details=made))
    await run(oma)
    await oma.evaluation.flush()
    details = store.records[0].details
    assert details is not None
    assert details["n"] == 1
    assert isinstance(details["why"], str)
    assert SECRET not in details["why"]
    assert len(details["why"]) <= 1024
    assert details == {
        "why": details["why"],
        "n": 1,
        "all": ["short", details["why"]],
        "password": "[redacted]",
        "secret_found": True,
        "[redacted]": "key",
    }


@proves("OBS-65")
async def test_the_same_trouble_is_logged_once_a_minute_with_its_number(clock: Clock) -> None:
    def broken(context: ScorerContext[Any]) -> float:
        raise ValueError("no")

    oma, _ = judged_by(broken, max_queue=2)
    with capture_logs() as lines:
        await run(oma, 5)
        await oma.evaluation.flush()
        clock.now += 61
        await run(oma, 3)
        await oma.evaluation.flush()
    assert [line["count"] for line in of_kind(lines, "scorer_failed")] == [1, 2]
    assert [(line["reason"], line["count"]) for line in of_kind(lines, "evaluation_dropped")] == [
        ("queue_full", 1),
        ("queue_full", 3),
    ]


@proves("OBS-66")
@pytest.mark.parametrize("inside", [True, False])
async def test_a_worker_that_dies_fails_one_run_and_keeps_nobody_waiting(inside: bool) -> None:
    async def leaving(context: ScorerContext[Any]) -> float:
        if context.output == "1":
            raise SystemExit(3)
        return 1.0

    oma, store = judged_by(leaving)

    async def flush() -> bool:
        return await oma.evaluation.flush()

    with capture_logs() as lines, anyio.fail_after(5):
        if inside:
            await oma.__aenter__()
        await run(oma, 3)
        with pytest.raises(SystemExit):
            await flush()
        assert await flush()
        await oma.aclose()
    assert [record.identity.run_id for record in store.records] == ["r0", "r2"]
    stats = oma.evaluation.stats()
    assert (stats.completed, stats.failed) == (3, 1)
    assert len(of_kind(lines, "evaluation_worker_failed")) == 1


@proves("OBS-27")
async def test_a_flush_does_not_wait_for_what_comes_later() -> None:
    gate = anyio.Event()

    async def slow(context: ScorerContext[Any]) -> float:
        if context.output == "later":
            await gate.wait()
        return 1.0

    oma, store = judged_by(slow)
    with anyio.fail_after(5):
        async with oma:
            await run(oma)
            await oma.run_agent({"name": "x"}, "later")
            async with anyio.create_task_group() as group:
                group.start_soon(oma.evaluation.flush, 0.05)
            assert len(store.records) == 1
            gate.set()
    assert len(store.records) == 2


@proves("OBS-27")
@pytest.mark.parametrize("hanging", ["store", "on_result"])
async def test_a_flush_that_runs_out_of_time_late_stores_everything_once(hanging: str) -> None:
    patient: list[bool] = []
    stored: list[EvalRecord] = []

    async def hang(record: object) -> None:
        if not patient:
            await anyio.sleep_forever()

    class Store:
        async def append(self, records: Any) -> None:
            if hanging == "store":
                await hang(records)
            stored.extend(records)

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a"]),
        evaluation=OnlineEvaluation([plain], store=Store(), on_result=hang if hanging == "on_result" else None),
    )
    await run(oma)
    assert await oma.evaluation.flush(0.02) == (hanging == "on_result")  # it is judged and stored by then
    patient.append(True)
    assert await oma.evaluation.flush()
    assert oma.evaluation.stats().completed == 1
    assert [record.identity.run_id for record in stored] == ["r0"]


@proves("OBS-27")
async def test_a_flush_that_is_cancelled_loses_nothing() -> None:
    gate, entered = anyio.Event(), anyio.Event()

    async def slow(context: ScorerContext[Any]) -> float:
        entered.set()
        await gate.wait()
        return 1.0

    oma, store = judged_by(slow, max_concurrent=2)
    await run(oma, 3)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(oma.evaluation.flush)
            await entered.wait()
            group.cancel_scope.cancel()
        gate.set()
        assert await oma.evaluation.flush()
    assert sorted(record.identity.run_id for record in store.records) == ["r0", "r1", "r2"]


@proves("OBS-67")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
async def test_runs_may_be_flushed_on_another_event_loop(other: str) -> None:
    gate = threading.Event()

    def slow(context: ScorerContext[Any]) -> float:
        gate.wait(5)
        return 1.0

    oma, store = judged_by(slow)
    flushed: list[bool] = []

    def elsewhere() -> None:
        flushed.append(anyio.run(oma.evaluation.flush, backend=other))

    with anyio.fail_after(10):
        async with oma:
            await run(oma, 3)
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, elsewhere)
                await anyio.wait_all_tasks_blocked()
                gate.set()
    assert flushed == [True]
    assert len(store.records) == 3


@proves("OBS-67")
def test_what_a_loop_did_not_finish_is_judged_on_the_next() -> None:
    async def slow(context: ScorerContext[Any]) -> float:
        await anyio.sleep(0 if patient else 3600)
        return 1.0

    oma, store = judged_by(slow)
    patient: list[bool] = []

    async def enter_and_run() -> None:
        await oma.__aenter__()
        await run(oma, 2)
        await anyio.sleep(0.01)

    for backend in ("asyncio", "trio"):
        anyio.run(enter_and_run, backend=backend)
    assert store.records == []
    patient.append(True)
    assert anyio.run(oma.evaluation.flush)
    assert len(store.records) == 4
    oma.aclose_sync()


@proves("OBS-68")
async def test_closing_drains_within_its_time_and_may_be_repeated() -> None:
    async def slow(context: ScorerContext[Any]) -> float:
        await anyio.sleep(3600 if context.output == "1" else 0)
        return 1.0

    oma, store = judged_by(slow)
    await oma.__aenter__()
    await run(oma, 3)
    with anyio.fail_after(5):
        assert not await oma.evaluation.aclose(0.05)
        assert not await oma.evaluation.aclose(0.05)
    await run(oma)
    stats = oma.evaluation.stats()
    assert (stats.completed, stats.dropped) == (1, 1)
    assert len(store.records) == 1
    assert not oma.evaluation._background
    oma.evaluation.open()
    await oma.evaluation.aclose(0.02)


@proves("OBS-67")
async def test_a_scorer_sees_nothing_of_the_runs_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def look(context: ScorerContext[Any]) -> float:
        seen.append(variable.get())
        return 1.0

    variable: Any = __import__("contextvars").ContextVar("variable", default="unset")
    oma, _ = judged_by(look)
    async with oma:
        variable.set("a run's")
        await run(oma)
    assert seen == ["unset"]

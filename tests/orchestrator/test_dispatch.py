"""When tasks start and in which order, what stops a run, and what holds for every graph whatever happens to it."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    Event,
    LLMMessage,
    OpenMultiAgent,
    TeamRunResult,
    TokenUsage,
)
from openmultiagent.adapters import LLMResponse
from openmultiagent.stores import InMemoryStore
from openmultiagent.tasks import create_task, critical_path
from tests.support import proves
from tests.support.teams import Model, Seen, answer

BACKENDS = ("asyncio", "trio")
SPECIALISTS = [
    AgentConfig("researcher", system_prompt="You research topics and summarize findings."),
    AgentConfig("coder", system_prompt="You implement code."),
]


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


class Doors:
    """Answers that wait until they are let through."""

    def __init__(self, *titles: str) -> None:
        self.open = {title: anyio.Event() for title in titles}
        self.reached = {title: anyio.Event() for title in titles}

    def answers(self, *, tokens: int = 0) -> dict[str, Any]:
        return {title: self._answer(title, tokens) for title in self.open}

    def _answer(self, title: str, tokens: int) -> Any:
        async def wait(_messages: object, _options: object) -> Any:
            self.reached[title].set()
            await self.open[title].wait()
            return answer(f"{title} is done", tokens=tokens)

        return wait


async def run_beside(results: list[TeamRunResult], run: Any) -> None:
    results.append(await run)


# --- order -----------------------------------------------------------------------------------------------------------


@proves("DSP-10")
async def test_a_task_waits_only_for_its_own_dependencies() -> None:
    doors, seen = Doors("A", "B", "C"), Seen()
    oma = OpenMultiAgent(default_adapter=Model(doors.answers()), listeners=[seen])
    results: list[TeamRunResult] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run_beside, results, oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")]))
            await doors.reached["A"].wait()
            await doors.reached["B"].wait()
            assert not doors.reached["C"].is_set()
            doors.open["A"].set()
            await doors.reached["C"].wait()
            doors.open["C"].set()
            doors.open["B"].set()
    assert results[0].success
    order = [(event.type, event.task) for event in seen if event.type in ("task_start", "task_complete")]
    assert order.index(("task_complete", "A")) < order.index(("task_start", "C"))
    assert order.index(("task_start", "C")) < order.index(("task_complete", "B"))


@proves("DSP-11")
@pytest.mark.parametrize(("orchestrators", "teams", "most"), [(3, None, 3), (5, 2, 2), (2, 9, 2), (1, None, 1)])
async def test_no_more_agents_work_than_may(orchestrators: int, teams: int | None, most: int) -> None:
    async def slowly(_messages: object, _options: object) -> Any:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return answer()

    model = Model({f"T{number}": slowly for number in range(12)})
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=orchestrators)
    result = await oma.run_tasks(team("a", "b", max_concurrency=teams), [task(f"T{number}") for number in range(12)])
    assert result.success
    assert model.peak == most


@proves("DSP-11")
@pytest.mark.parametrize("senseless", [0, -1, None, 1.5, True, "5"])
def test_a_width_that_makes_no_sense_is_refused(senseless: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_concurrency must be an integer of 1 or more, got"):
        OpenMultiAgent(max_concurrency=senseless)


@proves("DSP-12")
async def test_tasks_of_one_agent_overlap_and_share_no_conversation() -> None:
    doors = Doors("A", "B")
    model = Model(doors.answers())
    results: list[TeamRunResult] = []
    oma = OpenMultiAgent(default_adapter=model)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            tasks = [task("A"), task("B"), task("C", "A", "B")]
            group.start_soon(run_beside, results, oma.run_tasks(team("a"), tasks))
            await doors.reached["A"].wait()
            await doors.reached["B"].wait()
            doors.open["A"].set()
            doors.open["B"].set()
    assert [len(sent) for sent in model.sent] == [1, 1, 1]
    assert [len(each.messages) for each in results[0].task_results.values()] == [1, 1, 1]


@proves("DSP-13")
@pytest.mark.parametrize(
    ("strategy", "assigned"),
    [
        ("round-robin", {"Implement": "researcher", "Research": "coder", "Summarize": "researcher"}),
        ("least-busy", {"Implement": "researcher", "Research": "coder", "Summarize": "researcher"}),
        ("capability-match", {"Implement": "coder", "Research": "researcher", "Summarize": "researcher"}),
        ("dependency-first", {"Implement": "coder", "Research": "researcher", "Summarize": "researcher"}),
    ],
)
async def test_a_strategy_says_who_does_what(strategy: Any, assigned: dict[str, str]) -> None:
    tasks: list[dict[str, Any]] = [
        {"title": "Implement", "description": "Implement the code."},
        {"title": "Research", "description": "Research the topics."},
        {"title": "Summarize", "description": "Summarize the findings.", "depends_on": ["Research"]},
    ]
    model = Model()
    oma = OpenMultiAgent(default_adapter=model, scheduling_strategy=strategy)
    result = await oma.run_tasks({"name": "crew", "agents": SPECIALISTS}, tasks)
    assert {record.title: record.assignee for record in result.tasks} == assigned


@proves("DSP-13")
async def test_what_is_urgent_and_waited_for_goes_first() -> None:
    model = Model()
    tasks = [task("plain"), task("waited"), task("after", "waited"), task("low", priority="low")]
    tasks.append(task("urgent", priority="critical"))
    await OpenMultiAgent(default_adapter=model, max_concurrency=1).run_tasks(team(), tasks)
    assert model.calls == ["urgent", "waited", "plain", "after", "low"]


# --- virtual time ----------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> list[tuple[str, list[str]]]:
    """Graphs of tasks in any order: names, and what each depends on."""
    names = [f"T{number}" for number in range(draw(st.integers(1, most)))]
    graph = []
    for place, name in enumerate(names):
        before = draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        graph.append((name, before))
    return draw(st.permutations(graph))


@proves("DSP-10")
@given(graph=graphs(), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_takes_as_long_as_its_longest_chain(graph: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    seconds = {name: float(data.draw(st.integers(0, 50))) for name, _ in graph}

    def sleeper(name: str) -> Any:
        async def sleep(_messages: object, _options: object) -> Any:
            await anyio.sleep(seconds[name])
            return answer()

        return sleep

    limit = data.draw(st.sampled_from([100, 2]))
    tasks = [task(name, *before) for name, before in graph]
    oma = OpenMultiAgent(default_adapter=Model({name: sleeper(name) for name, _ in graph}), max_concurrency=limit)

    async def main() -> float:
        start = trio.current_time()
        assert (await oma.run_tasks(team(), tasks)).success
        return trio.current_time() - start

    took = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    path = critical_path([create_task(each) for each in tasks], durations=seconds)
    longest = sum(seconds[each.id] for each in path)
    if limit == 100:
        assert took == pytest.approx(longest)
    else:  # nobody idles while there is something to do
        assert longest - 1e-6 <= took <= sum(seconds.values()) / limit + longest + 1e-6


# --- whatever happens ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """What becomes of a task."""

    attempts: tuple[str, ...]
    """``ok``, ``fails``, ``refused`` (which is never tried again) or ``unknown`` (no usage), one for each attempt."""
    pauses: int
    tokens: int
    retries: int
    timeout: bool
    limit: int | None


FATES = st.builds(
    Fate,
    attempts=st.lists(st.sampled_from(["ok", "ok", "fails", "refused", "unknown"]), min_size=3, max_size=3).map(tuple),
    pauses=st.integers(0, 4),
    tokens=st.integers(0, 20),
    retries=st.integers(0, 2),
    timeout=st.booleans(),
    limit=st.none() | st.integers(1, 20),
)


class RefusedError(Exception):
    """An error that says that there is no use in trying again."""

    status_code = 401


class World:
    """One run of a random graph, and what happened in it."""

    def __init__(self, graph: list[tuple[str, list[str]]], fates: dict[str, Fate], data: st.DataObject) -> None:
        self.graph = dict(graph)
        self.fates = fates
        self.token = CancelToken()
        self.stop_at_call = data.draw(st.none() | st.integers(1, 8), label="token at call")
        self.kill_after = data.draw(st.none() | st.integers(0, 30), label="native cancel after checkpoints")
        self.budget = data.draw(st.none() | st.integers(1, 60), label="budget")
        self.width = data.draw(st.integers(1, 4), label="concurrency")
        self.gate = data.draw(st.sampled_from(["none", "dispatch", "rounds"]), label="gate")
        self.refuse_at = data.draw(st.none() | st.integers(1, 6), label="gate says no")
        self.memory = data.draw(st.booleans(), label="memory")
        self.seen = Seen()
        self.result: TeamRunResult | None = None
        self.asked = 0
        answers = {name: tuple(self._attempt(name, kind) for kind in fate.attempts) for name, fate in fates.items()}
        self.model = Model(answers)
        self.requests: list[tuple[str, TokenUsage | None]] = []

    def _attempt(self, name: str, kind: str) -> Any:
        async def attempt(_messages: Sequence[LLMMessage], _options: object) -> Any:
            fate, place = self.fates[name], len(self.requests)
            self.requests.append((name, None))
            if len(self.requests) == self.stop_at_call:
                self.token.cancel("enough")
            for _ in range(fate.pauses):
                await anyio.lowlevel.checkpoint()
            if kind == "fails":
                raise ValueError("no luck")
            if kind == "refused":
                raise RefusedError("no")
            made = answer(f"{name} is done", tokens=fate.tokens)
            if kind == "unknown":
                made = LLMResponse(made.content)
            self.requests[place] = (name, made.usage)
            return made

        return attempt

    def tasks(self) -> list[dict[str, Any]]:
        return [
            task(
                name,
                *before,
                max_retries=self.fates[name].retries,
                retry_delay=0,
                timeout=500.0 if self.fates[name].timeout else None,
                max_token_budget=self.fates[name].limit,
            )
            for name, before in self.graph.items()
        ]

    async def main(self) -> None:
        async def ask(*_about: object) -> bool:
            self.asked += 1
            await anyio.lowlevel.checkpoint()
            return self.asked != self.refuse_at

        gates: dict[str, Any] = {"none": {}, "dispatch": {"on_task_dispatch": ask}, "rounds": {"on_approval": ask}}
        oma = OpenMultiAgent(
            default_adapter=self.model, max_concurrency=self.width, listeners=[self.seen], **gates[self.gate]
        )
        run = oma.run_tasks(
            team("a", "b", "c", shared_memory=self.memory),
            self.tasks(),
            cancel=self.token,
            max_token_budget=self.budget,
        )
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep, run, group)
                if self.kill_after is not None:
                    for _ in range(self.kill_after):
                        await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()

    async def _keep(self, run: Any, group: anyio.abc.TaskGroup) -> None:
        self.result = await run
        group.cancel_scope.cancel()

    # --- what has to hold ---

    def check_events(self) -> None:
        assert [event.sequence for event in self.seen] == list(range(1, len(self.seen) + 1))
        started_work = (
            "task_start agent_start( task_retry| budget_exceeded)* (task_complete|task_failed) agent_complete"
        )
        whole = re.compile(f"{started_work}|task_failed|task_skipped")
        places: dict[tuple[str | None, str], int] = {}
        for place, each in enumerate(self.seen):
            places.setdefault((each.task, each.type), place)
        for name, before in self.graph.items():
            kinds = " ".join(self.seen.kinds(name))
            assert whole.fullmatch(kinds), (name, kinds)
            for other in before if "task_start" in kinds else ():
                assert places[other, "task_complete"] < places[name, "task_start"]

    def check_result(self) -> None:
        result = self.result
        assert result is not None
        assert [record.id for record in result.tasks] == list(self.graph)
        statuses = {record.id: record.status for record in result.tasks}
        assert set(statuses.values()) <= {"completed", "failed", "skipped"}
        told = {event.task: event.type for event in self.seen if event.type in ENDS}
        assert {name: ENDS[kind] for name, kind in told.items()} == statuses
        for name, before in self.graph.items():
            if statuses[name] == "completed":
                assert all(statuses[other] == "completed" for other in before)
            assert (name in result.task_results) == ("task_start" in self.seen.kinds(name))
        assert result.success == (str(result.status) == "ok")
        if result.success:
            assert set(statuses.values()) == {"completed"}
        if self.budget is not None and result.total_token_usage.total_tokens > self.budget:
            assert str(result.status) in ("budget_exhausted", "cancelled", "rejected")

    def check_ledger(self) -> None:
        result = self.result
        assert result is not None
        known = sum(usage.total_tokens for _, usage in self.requests if usage is not None)
        assert result.total_token_usage.total_tokens == known
        assert sum(entry.requests for entry in result.usage_report) == len(self.requests)
        assert result.total_token_usage.unknown_calls == sum(usage is None for _, usage in self.requests)
        for name, each in result.task_results.items():
            mine = [usage for who, usage in self.requests if who == name]
            assert each.token_usage.total_tokens == sum(usage.total_tokens for usage in mine if usage is not None)
            record = next(record for record in result.tasks if record.id == name)
            assert record.metrics is not None
            assert record.metrics.token_usage == each.token_usage
            assert record.metrics.retries == max(0, self.seen.kinds(name).count("task_retry"))


ENDS = {"task_complete": "completed", "task_failed": "failed", "task_skipped": "skipped"}


@proves("DSP-40", "DSP-41", "DSP-60", "DSP-61")
@pytest.mark.parametrize("backend", BACKENDS)
@given(graph=graphs(7), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_every_task_comes_to_its_end(
    backend: str, graph: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    world = World(graph, {name: data.draw(FATES, label=name) for name, _ in graph}, data)
    anyio.run(world.main, backend=backend)
    world.check_events()
    event(f"ended {None if world.result is None else world.result.status.code}")
    if world.result is not None:
        world.check_result()
        world.check_ledger()


# --- cancellation ----------------------------------------------------------------------------------------------------


@proves("DSP-31")
async def test_a_token_stops_what_is_at_work_and_keeps_what_was_done() -> None:
    doors, seen, token = Doors("B"), Seen(), CancelToken()
    model = Model(doors.answers(), tokens=2)
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    results: list[TeamRunResult] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            tasks = [task("A"), task("B", "A"), task("C", "B"), task("D", "C")]
            group.start_soon(run_beside, results, oma.run_tasks(team(), tasks, cancel=token))
            await doors.reached["B"].wait()
            token.cancel("enough")
    result = results[0]
    assert (str(result.status), result.success) == ("cancelled", False)
    assert "enough" in (result.status.message or "")
    statuses = {record.id: record.status for record in result.tasks}
    assert statuses == {"A": "completed", "B": "failed", "C": "failed", "D": "failed"}
    assert str(result.task_results["B"].status) == "cancelled"
    assert result.task_results["A"].output == "A is done"
    assert result.total_token_usage.input_tokens == 2
    assert seen.kinds("B") == ["task_start", "agent_start", "task_failed", "agent_complete"]


@proves("DSP-32")
async def test_a_native_cancellation_goes_on_after_everything_was_told() -> None:
    doors, seen = Doors("A", "B"), Seen()
    oma = OpenMultiAgent(default_adapter=Model(doors.answers()), listeners=[seen])
    results: list[TeamRunResult] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run_beside, results, oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")]))
            await doors.reached["A"].wait()
            await doors.reached["B"].wait()
            group.cancel_scope.cancel()
    assert results == []
    for name in "AB":
        assert seen.kinds(name) == ["task_start", "agent_start", "task_failed", "agent_complete"]
        assert str(seen.of("agent_complete")[0].data.status) == "cancelled"
    assert seen.kinds("C") == ["task_failed"]


@proves("DSP-32")
@pytest.mark.filterwarnings("ignore:coroutine 'TaskRun.execute' was never awaited:RuntimeWarning")  # as it happens
def test_even_a_task_that_the_loop_ends_before_its_first_step_is_told_of() -> None:
    seen = Seen()

    def end_all(event: Event[Any]) -> None:
        if event.type == "task_start" and event.task == "B":  # the work on A has been handed to the loop, no more
            for other in asyncio.all_tasks():
                other.cancel()

    async def main() -> None:
        oma = OpenMultiAgent(default_adapter=Model(), listeners=[seen, end_all])
        await oma.run_tasks(team(), [task("A"), task("B")])

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    gc.collect()
    assert seen.kinds("A") == ["task_start", "agent_start", "task_failed", "agent_complete"]
    assert seen.of("task_failed")[0].data.result.status.code == "cancelled"


class SlowStore(InMemoryStore):
    """A store that never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = anyio.Event()

    async def set(self, key: str, value: str, metadata: Any = None) -> None:
        self.waits.set()
        await anyio.sleep_forever()

    async def list(self) -> Any:
        self.waits.set()
        await anyio.sleep_forever()


@proves("DSP-33")
@pytest.mark.parametrize("scope", ["dependencies", "all"])
async def test_a_cancelled_run_does_not_wait_for_a_store(scope: str) -> None:
    token, store = CancelToken(), SlowStore()
    oma = OpenMultiAgent(default_adapter=Model())
    results: list[TeamRunResult] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            crew = team("a", shared_memory_store=store)
            tasks = [task("A", memory_scope=scope), task("B", "A")]
            group.start_soon(run_beside, results, oma.run_tasks(crew, tasks, cancel=token))
            await store.waits.wait()
            token.cancel()
    assert str(results[0].status) == "cancelled"
    assert [record.status for record in results[0].tasks] == (
        ["completed", "skipped"] if scope == "dependencies" else ["failed", "failed"]
    )


class BrokenStore(InMemoryStore):
    """A store that cannot be written to."""

    async def set(self, key: str, value: str, metadata: Any = None) -> None:
        raise OSError("disk full")


class UnreadableStore(InMemoryStore):
    """A store that cannot be read."""

    async def list(self) -> Any:
        raise OSError("no disk")


@proves("DSP-34")
async def test_a_store_that_fails_stops_the_run_and_keeps_the_answer() -> None:
    model = Model()
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=1)
    result = await oma.run_tasks(team("a", shared_memory_store=BrokenStore()), [task("A"), task("B"), task("C", "A")])
    assert [record.status for record in result.tasks] == ["completed", "skipped", "skipped"]
    assert str(result.status) == "error"
    assert "disk full" in (result.status.message or "")
    assert result.error_info is not None
    assert result.error_info.kind == "store"
    assert isinstance(result.error, OSError)


@proves("DSP-34")
async def test_a_memory_that_cannot_be_read_fails_the_task_that_wants_it() -> None:
    oma = OpenMultiAgent(default_adapter=Model())
    crew = team("a", shared_memory_store=UnreadableStore())
    result = await oma.run_tasks(crew, [task("A", memory_scope="all"), task("B")])
    assert [record.status for record in result.tasks] == ["failed", "completed"]
    info = result.task_results["A"].error_info
    assert info is not None
    assert info.kind == "store"


# --- conditions ------------------------------------------------------------------------------------------------------


@proves("DSP-27")
@pytest.mark.parametrize("gate", ["", "on_task_dispatch", "on_approval"])
async def test_a_condition_is_looked_at_when_everything_before_is_completed(gate: str) -> None:
    model, seen = Model({"A": "yes", "B": "left", "C": "right"}), Seen()
    asked: list[str] = []

    def ask(*about: Any) -> bool:
        asked.extend(each.id for each in (about[-1] if gate == "on_approval" else about))
        return True

    gates: dict[str, Any] = {gate: ask} if gate else {}
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen], **gates)
    tasks = [
        task("A"),
        task("B", "A", run_if={"contains": "yes"}),
        task("C", "A", run_if={"contains": "yes"}),
        task("D", "B", "C", run_if={"contains": "right"}),
        task("N", "A", run_if={"contains": "yes", "negate": True}),
        task("M", "N", "D"),
    ]
    result = await oma.run_tasks(team(), tasks)
    assert result.success
    assert sorted(model.calls) == ["A", "B", "C", "D"]
    assert {each.id: each.status for each in result.tasks} == {
        **dict.fromkeys("ABCD", "completed"),
        **dict.fromkeys("NM", "skipped"),
    }
    assert (result.tasks[4].result, seen.kinds("N"), seen.kinds("M")) == (
        "its condition does not hold",
        ["task_skipped"],
        ["task_skipped"],
    )
    assert result.final_output == "D is done"
    assert "N" not in asked
    assert model.calls[-1] == "D"  # though one of those before it was enough
    assert result.plan is not None
    again = await OpenMultiAgent(default_adapter=model).run_from_plan(team(), result.plan.to_dict())
    assert [each.status for each in again.tasks] == [each.status for each in result.tasks]


@proves("DSP-27")
async def test_what_was_found_before_tasks_that_are_not_wanted_is_the_output() -> None:
    model = Model({"A": "a draft that is good"})
    tasks = [task("A"), task("B", "A", run_if={"contains": "bad"}), task("C", "B")]
    result = await OpenMultiAgent(default_adapter=model).run_tasks(team(), tasks)
    assert (result.success, result.final_output) == (True, "a draft that is good")

"""Many agents under one cap on how many run at a time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    CancelToken,
    ConfigurationError,
    InvalidMessageError,
    LLMMessage,
    LLMServerError,
)
from openmultiagent.agent import AgentPool, AgentStreamEvent, PoolRun, PoolStatus
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


def said(messages: list[LLMMessage]) -> str:
    block = messages[-1].content[0]
    return str(getattr(block, "text", ""))


def echo(name: str = "a", **fields: Any) -> Agent:
    return Agent(AgentConfig(name, adapter=ScriptedAdapter(lambda messages, _: f"{name}: {said(messages)}"), **fields))


def failing(name: str = "broken") -> Agent:
    def fail(_messages: object, _options: object) -> str:
        raise LLMServerError("out of order", provider="x", status=500)

    return Agent(AgentConfig(name, adapter=ScriptedAdapter(fail)))


class Gate:
    """A model that answers when it is told to, and knows how many are waiting."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        self.waiting: list[str] = []
        self.most = 0

    def agent(self, name: str) -> Agent:
        async def answer(messages: list[LLMMessage], _options: object) -> str:
            self.waiting.append(said(messages))
            self.most = max(self.most, len(self.waiting))
            try:
                await self.opened.wait()
            finally:
                self.waiting.remove(said(messages))
            return said(messages)

        return Agent(AgentConfig(name, adapter=ScriptedAdapter(answer)))


async def settled(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():
            await checkpoint()


async def quiet() -> None:
    """Let everything happen that can happen without anybody else's doing."""
    for _ in range(50):
        await checkpoint()


@asynccontextmanager
async def held(pool: AgentPool, name: str, gate: Gate, text: str = "held") -> AsyncIterator[None]:
    """Keep an agent of the pool busy meanwhile."""

    async def run(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await pool.run(name, text)

    async with anyio.create_task_group() as group:
        await group.start(run)
        await settled(lambda: text in gate.waiting)
        yield
        gate.opened.set()


@proves("POO-1")
@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2"])
def test_the_cap_is_a_whole_number_above_zero(number: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_concurrency must be an integer of 1 or more"):
        AgentPool(max_concurrency=number)


@proves("POO-2")
def test_agents_are_kept_by_name_in_their_order() -> None:
    first, second = echo("first"), echo("second")
    pool = AgentPool([first])
    pool.add(second)
    assert pool.list() == (first, second)
    assert pool.get("second") is second
    assert pool.get("third") is None
    assert pool.remove("first") is first
    assert pool.list() == (second,)


@proves("POO-2")
def test_a_name_is_registered_once() -> None:
    pool = AgentPool([echo("a")])
    with pytest.raises(ConfigurationError, match="agent 'a' is already registered"):
        pool.add(echo("a"))


@proves("POO-3")
def test_an_unknown_name_is_refused_by_the_call() -> None:
    pool = AgentPool([echo("a")])
    with pytest.raises(ConfigurationError, match="agent 'b' is not registered in this pool; registered: a"):
        _ = pool.run("b", "x")
    with pytest.raises(ConfigurationError, match="'b' is not registered"):
        pool.remove("b")


@proves("POO-3")
def test_a_bad_input_is_refused_by_the_call() -> None:
    pool = AgentPool([echo("a")])
    for call in (
        lambda given: pool.run("a", given),
        pool.run_any,
        lambda given: pool.run_ephemeral(echo(), given),
        lambda given: pool.run_parallel([("a", "fine"), ("a", given)]),
    ):
        with pytest.raises(InvalidMessageError):
            call([])
    with pytest.raises(ConfigurationError, match=r"runs\[1\] must be a PoolRun"):
        _ = pool.run_parallel([("a", "fine"), "a"])  # type: ignore[list-item]


@proves("POO-4")
async def test_a_run_is_a_fresh_conversation_with_the_whole_input() -> None:
    agent = echo("a", history=[LLMMessage.user("earlier"), LLMMessage.assistant("yes")])
    messages = [LLMMessage.user("one"), LLMMessage.assistant("two"), LLMMessage.user("three")]
    run = AgentPool([agent]).run("a", messages)
    messages[-1] = LLMMessage.user("changed")  # too late: the input was copied at the call
    result = await run
    assert result.output == "a: three"
    assert isinstance(agent.config.adapter, ScriptedAdapter)
    assert len(agent.config.adapter.calls[0].messages) == 3


@proves("POO-5")
async def test_no_more_runs_than_the_cap_go_on_at_a_time() -> None:
    gate = Gate()
    pool = AgentPool([gate.agent(str(number)) for number in range(3)], max_concurrency=2)
    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(pool.run, str(number), f"run {number}")
        await settled(lambda: len(gate.waiting) == 2)
        await quiet()
        assert len(gate.waiting) == 2
        gate.opened.set()
    assert gate.most == 2


@proves("POO-5")
async def test_the_free_slots_are_told() -> None:
    gate = Gate()
    pool = AgentPool([gate.agent("a")], max_concurrency=3)
    assert pool.available_run_slots == 3
    async with held(pool, "a", gate):
        assert pool.available_run_slots == 2
    assert pool.available_run_slots == 3


@proves("POO-6")
async def test_an_agent_has_one_run_at_a_time_and_who_waits_for_it_holds_no_slot() -> None:
    gate = Gate()
    pool = AgentPool([gate.agent("a"), gate.agent("b")], max_concurrency=2)
    async with held(pool, "a", gate), anyio.create_task_group() as group:
        group.start_soon(pool.run, "a", "second of a")
        await quiet()
        assert gate.waiting == ["held"]
        group.start_soon(pool.run, "b", "first of b")
        await settled(lambda: "first of b" in gate.waiting)
        assert gate.waiting == ["held", "first of b"]
        gate.opened.set()


@proves("POO-6")
async def test_runs_are_served_in_the_order_in_which_they_were_asked_for() -> None:
    served: list[str] = []

    def note(messages: list[LLMMessage], _options: object) -> str:
        served.append(said(messages))
        return "ok"

    pool = AgentPool([Agent(AgentConfig("a", adapter=ScriptedAdapter(note)))])
    await pool.run_parallel([("a", str(number)) for number in range(10)])
    assert served == [str(number) for number in range(10)]


@proves("POO-7")
async def test_an_ephemeral_run_waits_for_a_slot_but_for_no_agent() -> None:
    gate = Gate()
    agent = gate.agent("a")
    pool = AgentPool([agent], max_concurrency=2)
    async with held(pool, "a", gate), anyio.create_task_group() as group:
        group.start_soon(pool.run_ephemeral, agent, "beside it")
        await settled(lambda: "beside it" in gate.waiting)
        group.start_soon(pool.run_ephemeral, gate.agent("other"), "too many")
        await quiet()
        assert gate.waiting == ["held", "beside it"]
        gate.opened.set()
    assert pool.list() == (agent,)


@proves("POO-8")
async def test_agent_and_slot_are_given_back_after_a_failure() -> None:
    pool = AgentPool([failing()], max_concurrency=1)
    first = await pool.run("broken", "x")
    second = await pool.run("broken", "y")
    assert [first.status.code, second.status.code] == ["error", "error"]
    assert pool.available_run_slots == 1


@proves("POO-8")
async def test_agent_and_slot_are_given_back_after_a_cancellation() -> None:
    gate = Gate()
    pool = AgentPool([gate.agent("a")], max_concurrency=1)
    async with anyio.create_task_group() as group:
        group.start_soon(pool.run, "a", "cancelled")
        await settled(lambda: bool(gate.waiting))
        group.cancel_scope.cancel()
    gate.opened.set()
    assert (await pool.run("a", "after it")).output == "after it"
    assert pool.available_run_slots == 1


@proves("POO-9")
@pytest.mark.parametrize("name", ["a", "b"])
async def test_who_waits_for_an_agent_or_a_slot_can_be_cancelled(name: str) -> None:
    gate = Gate()
    pool = AgentPool([gate.agent("a"), gate.agent("b")], max_concurrency=1)
    async with held(pool, "a", gate):
        with anyio.move_on_after(0.01) as scope:
            await pool.run(name, "never")
        assert scope.cancelled_caught
    assert (await pool.run(name, "after it")).success


@proves("POO-9")
@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_token_stops_a_run_that_waits_with_a_result(name: str) -> None:
    gate, token = Gate(), CancelToken()
    pool = AgentPool([gate.agent("a"), gate.agent("b")], max_concurrency=1)
    results: list[AgentRunResult[Any]] = []

    async def run() -> None:
        results.append(await pool.run(name, "never", cancel=token))

    async with held(pool, "a", gate), anyio.create_task_group() as group:
        group.start_soon(run)
        await quiet()
        token.cancel("no longer needed")
        await settled(lambda: bool(results))
        assert gate.waiting == ["held"]
    assert results[0].status.code == "cancelled"
    assert results[0].status.message == "no longer needed"
    assert results[0].identity.run_id


@proves("POO-9")
async def test_a_token_stops_a_run_that_goes_on() -> None:
    gate, token = Gate(), CancelToken()
    pool = AgentPool([gate.agent("a")])

    async def stop() -> None:
        await settled(lambda: bool(gate.waiting))
        token.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        result = await pool.run("a", "x", cancel=token)
    assert result.status.code == "cancelled"
    assert pool.available_run_slots == 5


@proves("POO-10")
async def test_a_list_of_runs_gives_a_list_of_results_in_its_order() -> None:
    pool = AgentPool([echo("a"), echo("b")])
    results = await pool.run_parallel([("b", "1"), PoolRun("a", [LLMMessage.user("2")]), ("b", "3")])
    assert [result.output for result in results] == ["b: 1", "a: 2", "b: 3"]
    assert len({result.identity.run_id for result in results}) == 3
    assert await pool.run_parallel([]) == []


@proves("POO-10")
async def test_a_failure_in_a_list_is_a_result_of_its_own() -> None:
    pool = AgentPool([echo("a"), failing()])
    results = await pool.run_parallel([("broken", "1"), ("nobody", "2"), ("a", "3")])
    assert [result.success for result in results] == [False, False, True]
    unknown = results[1]
    assert unknown.status.code == "error"
    assert unknown.error_info is not None
    assert unknown.error_info.kind == "validation"
    assert "'nobody' is not registered" in unknown.output
    assert unknown.identity.run_id
    assert unknown.identity.trace_id


@proves("POO-10")
async def test_each_run_of_a_list_has_options_of_its_own() -> None:
    token, events = CancelToken(), list[AgentStreamEvent]()
    token.cancel("not this one")
    pool = AgentPool([echo("a")])
    results = await pool.run_parallel([PoolRun("a", "1", cancel=token), PoolRun("a", "2", on_event=events.append)])
    assert [str(result.status) for result in results] == ["cancelled", "ok"]
    assert {event.run_id for event in events} == {results[1].identity.run_id}


@proves("POO-11")
async def test_any_agent_means_each_in_turn() -> None:
    pool = AgentPool([echo("a"), echo("b"), echo("c")])
    assert [(await pool.run_any("x")).output for _ in range(4)] == ["a: x", "b: x", "c: x", "a: x"]
    pool.remove("b")
    pool.remove("c")
    assert [(await pool.run_any("x")).output for _ in range(2)] == ["a: x", "a: x"]


@proves("POO-11")
def test_an_empty_pool_has_no_agent_to_run() -> None:
    with pytest.raises(ConfigurationError, match="an empty pool has no agent"):
        _ = AgentPool().run_any("x")


@proves("POO-12")
async def test_the_states_of_the_agents_are_counted() -> None:
    gate = Gate()
    pool = AgentPool([echo("done"), failing(), gate.agent("busy"), echo("new")])
    await pool.run("done", "x")
    await pool.run("broken", "x")
    async with held(pool, "busy", gate):
        assert pool.status() == PoolStatus(total=4, idle=1, running=1, completed=1, error=1)
    assert pool.status().running == 0


@proves("POO-13")
async def test_events_of_a_run_go_to_its_callback() -> None:
    events: list[AgentStreamEvent] = []
    result = await AgentPool([echo("a")]).run("a", "x", on_event=events.append)
    assert result.output == "a: x"
    assert [event.type for event in events][-2:] == ["turn_complete", "done"]


@proves("POO-13")
async def test_a_callback_that_raises_is_called_no_more_and_harms_nothing() -> None:
    calls: list[object] = []

    def fail(event: object) -> None:
        calls.append(event)
        raise RuntimeError("no")

    assert (await AgentPool([echo("a")]).run("a", "x", on_event=fail)).output == "a: x"
    assert len(calls) == 1


@proves("POO-13")
async def test_a_failed_run_tells_its_error_and_still_has_a_result() -> None:
    events: list[AgentStreamEvent] = []
    result = await AgentPool([failing()]).run("broken", "x", on_event=events.append)
    assert result.status.code == "error"
    assert result.error_info is not None
    assert events[-1].type == "error"


@proves("POO-14")
async def test_drain_waits_for_all_runs_also_those_that_wait_themselves() -> None:
    gate, order = Gate(), list[str]()
    pool = AgentPool([gate.agent("a")])

    async def run(text: str) -> None:
        await pool.run("a", text)
        order.append(text)

    async def drain() -> None:
        await pool.drain()
        order.append("drained")

    async with anyio.create_task_group() as group:
        group.start_soon(run, "first")
        group.start_soon(run, "second")
        await settled(lambda: bool(gate.waiting))
        group.start_soon(drain)
        group.start_soon(drain)
        await quiet()
        assert order == []
        gate.opened.set()
    assert sorted(order[:2]) == ["first", "second"]
    assert order[2:] == ["drained", "drained"]
    await pool.drain()  # nothing goes on: no wait


@proves("POO-15")
async def test_a_pool_that_was_shut_down_has_finished_its_runs_and_takes_no_more() -> None:
    gate, finished = Gate(), list[str]()
    talker = echo("talker")
    pool = AgentPool([gate.agent("a"), talker])
    await talker.prompt("hello")

    async def run() -> None:
        finished.append((await pool.run("a", "under way")).output)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await settled(lambda: bool(gate.waiting))
        group.start_soon(pool.shutdown)
        await quiet()
        assert finished == []
        for call in (
            lambda: pool.run("a", "x"),
            lambda: pool.run_ephemeral(talker, "x"),
            lambda: pool.run_any("x"),
            lambda: pool.run_parallel([("a", "x")]),
        ):
            with pytest.raises(ConfigurationError, match="has been shut down"):
                call()
        gate.opened.set()
    assert finished == ["under way"]
    assert pool.status() == PoolStatus(total=2, idle=2, running=0, completed=0, error=0)
    assert talker.get_history() == []


@proves("POO-3")
@pytest.mark.parametrize("value", [None, 5, "x", b"x", {}, {"a": 1}, [None], [{"name": "x"}], object()])
def test_what_is_no_agent_is_refused_with_what_to_do(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="Agent objects"):
        AgentPool(value if value != {} else [value])
    pool = AgentPool()
    with pytest.raises(ConfigurationError, match=r"Agent\(config\)"):
        pool.add(value)
    with pytest.raises(ConfigurationError, match=r"Agent\(config\)"):
        _ = pool.run_ephemeral(value, "q")


@proves("POO-3")
@pytest.mark.parametrize("value", [None, 5, "x", b"x", {"a": "q"}, object()])
def test_runs_that_are_no_list_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="runs must be a list"):
        _ = AgentPool([echo()]).run_parallel(value)

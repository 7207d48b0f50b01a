"""A service that runs for months: nothing stays behind of runs, streams and consumers."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest
from blockbuster import BlockBuster

from openmultiagent import AgentConfig, Event, OpenMultiAgent, TextBlock, _detached, tool
from openmultiagent.adapters import LLMChatOptions, LLMResponse, StreamEvent
from openmultiagent.evaluation import OnlineEvaluation
from openmultiagent.usage import TokenUsage
from tests.support import proves

FEW = 100
"""Objects that a cache or a pool may hold more or less at any moment; one leaked object a run would be more.

Half of the runs are counted, so tests make at least four times as many: twice the bound would show.
"""


@pytest.fixture(autouse=True, scope="module")
def _only_what_is_new() -> Iterator[None]:
    """Looking through all that was there before takes more time than the runs."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def full_speed(blocking_calls_are_errors: BlockBuster) -> None:
    """Looking at every call that might block takes more time than the runs."""
    blocking_calls_are_errors.deactivate()


class Instant:
    """An adapter that answers at once and keeps nothing; the scripted one keeps every call."""

    name = "instant"

    async def chat(self, messages: Any, options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([TextBlock(text="ok")], usage=TokenUsage(input_tokens=1))

    async def stream(self, messages: Any, options: LLMChatOptions) -> Any:
        for _ in range(5):
            yield StreamEvent("text", "ok ")
            await anyio.lowlevel.checkpoint()
        yield StreamEvent("done", await self.chat(messages, options))


class Failing(Instant):
    async def chat(self, messages: Any, options: LLMChatOptions) -> LLMResponse:
        raise RuntimeError("down")


async def listen(event: Event[Any]) -> None:
    await anyio.lowlevel.checkpoint()


@tool
def look() -> str:
    """Look."""
    return "seen"


async def growth(body: Callable[[int], Awaitable[object]], *, times: int) -> int:
    """How many more objects there are after doing something many times.

    The less of two halves: what is made once may be made in one of them, a leak is in both.
    """
    for number in range(100):
        await body(number)
    counts = [await count()]
    for _ in range(2):
        for number in range(times // 2):
            await body(number)
        counts.append(await count())
    return min(counts[1] - counts[0], counts[2] - counts[1])


async def count() -> int:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    gc.collect()
    return len(gc.get_objects())


@proves("ORC-76")
@pytest.mark.parametrize(("anyio_backend", "times"), [("asyncio", 2_000), ("trio", 400)])
async def test_thousands_of_runs_leave_nothing_behind(times: int) -> None:
    oma = OpenMultiAgent(default_adapter=Instant())
    config = AgentConfig("x", tools=[look])

    async def run(number: int) -> None:
        await oma.run_agent(config, "q")

    assert await growth(run, times=times) < FEW


@proves("ORC-76")
async def test_runs_with_everything_attached_leave_nothing_behind() -> None:
    async def pass_on(call: Any, call_next: Any) -> Any:
        return await call_next()

    async def judge(context: Any) -> float:
        return 1.0

    oma = OpenMultiAgent(
        default_adapter=Instant(),
        listeners=[listen, lambda event: event.data],
        middleware=[pass_on],
        evaluation=OnlineEvaluation([judge]),
    )
    async with oma:
        stream = oma.events()

        async def run_watched(number: int) -> None:
            for_this_run = oma.events(f"r{number}")
            await oma.run_agent({"name": "x"}, "q", run_id=f"r{number}")
            assert len([event async for event in for_this_run]) == 2
            await anext(stream)
            await anext(stream)
            if number % 50 == 0:
                await oma.evaluation.flush()

        assert await growth(run_watched, times=400) < FEW
        assert oma.dropped_events == 0
        assert oma.evaluation.stats().dropped == 0
    assert not _detached._LIVE


@proves("ORC-76")
@pytest.mark.parametrize("adapter", [Failing(), Instant()])
async def test_failed_and_cancelled_runs_leave_nothing_behind(adapter: Instant) -> None:
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=listen)

    async def run(number: int) -> None:
        with anyio.CancelScope() as scope:
            if adapter.name == "instant" and number % 2:
                scope.cancel()
            await oma.run_agent({"name": "x"}, "q")

    assert await growth(run, times=400) < FEW
    assert not _detached._LIVE


@proves("ORC-76")
@pytest.mark.parametrize("way", ["break", "async with", "unused"])
async def test_hundreds_of_streams_that_are_left_early_leave_nothing_behind(way: str) -> None:
    oma = OpenMultiAgent(default_adapter=Instant())

    async def run(number: int) -> None:
        stream = oma.stream_agent({"name": "x"}, "q")
        if way == "async with":
            async with stream:
                await anext(stream)
        elif way == "break":
            async for _ in stream:
                break

    assert await growth(run, times=400) < FEW
    del run
    while _detached._LIVE:
        await anyio.lowlevel.checkpoint()


@proves("ORC-76")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_task_is_left_after_runs_of_every_kind() -> None:
    before = asyncio.all_tasks()
    async with OpenMultiAgent(default_adapter=Instant(), on_progress=listen) as oma:
        for _ in range(20):
            await oma.run_agent({"name": "x"}, "q")
            async with oma.stream_agent({"name": "x"}, "q") as stream:
                await anext(stream)
    assert asyncio.all_tasks() == before


@proves("ORC-76")
def test_synchronous_runs_leave_nothing_behind() -> None:
    oma = OpenMultiAgent(default_adapter=Instant())

    def run(count: int) -> int:
        for _ in range(count):
            oma.run_agent_sync({"name": "x"}, "q")
        gc.collect()
        return len(gc.get_objects())

    counts = [run(100), run(200), run(200)]
    assert min(counts[1] - counts[0], counts[2] - counts[1]) < FEW
    threads = threading.active_count()
    oma.aclose_sync()
    assert threading.active_count() == threads - 1


@proves("ORC-76")
async def test_nothing_of_a_run_is_kept_alive() -> None:
    class Big(Instant):
        pass

    adapter = Big()
    gone = weakref.ref(adapter)
    async with OpenMultiAgent(on_progress=listen) as oma:
        result = await oma.run_agent(AgentConfig("x", adapter=adapter), "q")
        assert result.output == "ok"
        del adapter
        await count()
        assert gone() is None


@proves("ORC-76")
async def test_runs_that_never_wait_leave_room_for_those_who_look_at_them() -> None:
    heard: list[str] = []

    async def look(event: Any) -> None:
        heard.append(event.type)

    async def judge(context: Any) -> float:
        return 1.0

    evaluation = OnlineEvaluation([judge], max_queue=50)
    most = 0
    async with OpenMultiAgent(default_adapter=Instant(), on_progress=look, evaluation=evaluation) as oma:
        for _ in range(500):
            await oma.run_agent({"name": "x"}, "q")
            most = max(most, len(_detached._LIVE))
    stats = oma.evaluation.stats()
    assert (stats.sampled, stats.dropped, stats.completed) == (500, 0, 500)
    assert len(heard) == 1000
    assert most < 200

"""Listeners beside the runs, and `oma.events()`."""

import asyncio
import gc
import threading
import weakref
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from structlog.testing import capture_logs

from openmultiagent import ConfigurationError, Event, OpenMultiAgent
from openmultiagent import events as events_module
from openmultiagent.adapters import LLMChatOptions
from openmultiagent.orchestrator import EventStream, _lifetime, _progress
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


def answers(count: int) -> ScriptedAdapter:
    return ScriptedAdapter([str(number) for number in range(count)])


async def read_to_the_end(stream: EventStream) -> None:
    async for _ in stream:
        pass


async def never(event: Event[Any]) -> None:
    await anyio.sleep_forever()


class Stubborn:
    """An async listener that swallows its cancellation until it is let go."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()
        self.calls = 0

    async def __call__(self, event: Event[Any]) -> None:
        self.calls += 1
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except anyio.get_cancelled_exc_class():
                continue


@proves("ORC-60")
async def test_inside_async_with_no_run_waits_for_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 3600.0)  # outside, a run would wait that long
    monkeypatch.setattr(_progress, "_CLOSE_GRACE", 0.02)
    heard: list[str] = []
    async with OpenMultiAgent(default_adapter=answers(2), listeners=[never, lambda e: heard.append(e.type)]) as oma:
        with anyio.fail_after(5):
            await oma.run_agent({"name": "x"}, "q")
            await oma.run_agent({"name": "x"}, "q")
    assert heard == ["agent_start", "agent_complete"] * 2


@proves("ORC-60")
async def test_a_listener_that_never_returns_is_given_up_some_time_after_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_progress, "_OWNED_GRACE", 0.02)
    ended = anyio.Event()

    async def stuck(event: Event[Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with OpenMultiAgent(default_adapter=answers(1), on_progress=stuck) as oma:
        await oma.run_agent({"name": "x"}, "q")
        with anyio.fail_after(5):
            await ended.wait()
            while oma.dropped_events == 0:
                await anyio.lowlevel.checkpoint()
    assert oma.dropped_events == 1


@proves("ORC-60", "ORC-61")
async def test_a_slow_listener_gets_everything_before_the_orchestrator_is_closed() -> None:
    heard: list[int] = []

    async def slow(event: Event[Any]) -> None:
        await anyio.sleep(0.02)
        heard.append(event.sequence)

    async with OpenMultiAgent(default_adapter=answers(1), on_progress=slow) as oma:
        await oma.run_agent({"name": "x"}, "q")
        assert heard == []
    assert heard == [1, 2]


class Empty(list[str]):
    """A listener that is falsy."""

    def __call__(self, event: Event[Any]) -> None:
        self.append(event.type)


@proves("ORC-20", "ORC-40", "ORC-70")
@pytest.mark.parametrize("entry", ["run", "stream", "sync"])
@pytest.mark.parametrize("fails", [False, True])
async def test_every_entry_point_tells_the_same_events(entry: str, fails: bool) -> None:
    told = Empty()
    script: list[Any] = [RuntimeError("down")] if fails else ["ok"]
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(script), on_progress=told)
    stream = oma.events("r")
    if entry == "run":
        await oma.run_agent({"name": "x"}, "q", run_id="r")
    elif entry == "stream":
        async with oma.stream_agent({"name": "x"}, "q", run_id="r") as deltas:
            assert [delta async for delta in deltas]
    else:
        await anyio.to_thread.run_sync(partial(oma.run_agent_sync, {"name": "x"}, "q", run_id="r"))
    got = [event async for event in stream]
    assert [event.type for event in got] == told == ["agent_start", "agent_complete"]
    assert got[1].data.success is not fails
    await oma.aclose()


@proves("ORC-61")
async def test_a_run_that_goes_on_while_its_orchestrator_is_closed_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_CLOSE_GRACE", 0.02)
    monkeypatch.setattr(_lifetime, "_RUNS_TIMEOUT", 0.02)
    heard: list[str] = []
    closed = anyio.Event()

    async def listener(event: Event[Any]) -> None:
        heard.append(event.type)

    async def wait(messages: object, options: LLMChatOptions) -> str:
        await closed.wait()
        return "ok"

    async def run() -> None:
        outputs.append((await oma.run_agent({"name": "x"}, "q")).output)

    outputs: list[str] = []
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(wait), on_progress=listener)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            async with oma:
                group.start_soon(run)
                await anyio.wait_all_tasks_blocked()
            closed.set()
    assert outputs == ["ok"]
    assert heard == ["agent_start"]
    assert oma.dropped_events == 1


@proves("ORC-67")
@pytest.mark.parametrize("inside", [True, False])
async def test_a_listener_that_swallows_its_cancellation_holds_nothing_and_is_left_out(
    inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)
    monkeypatch.setattr(_progress, "_OWNED_GRACE", 0.02)
    stubborn = Stubborn()
    heard: list[str] = []
    oma = OpenMultiAgent(default_adapter=answers(3), listeners=[stubborn, lambda e: heard.append(e.type)])
    with capture_logs() as lines, anyio.fail_after(5):
        if inside:
            await oma.__aenter__()
        await oma.run_agent({"name": "x"}, "q")
        while not any(line["event"] == "event_listener_stuck" for line in lines):
            await anyio.lowlevel.checkpoint()
        await oma.run_agent({"name": "x"}, "q")
        await oma.aclose()
    assert stubborn.calls == 1
    assert heard == ["agent_start", "agent_complete"] * 2
    stubborn.let_go.set()


@proves("ORC-66")
@pytest.mark.parametrize("inside", [True, False])
async def test_what_ends_the_process_in_a_listener_is_raised(inside: bool) -> None:
    async def leaving(event: Event[Any]) -> None:
        raise SystemExit(3)

    oma = OpenMultiAgent(default_adapter=answers(1), on_progress=leaving)
    if inside:
        await oma.__aenter__()

    async def run_and_close() -> None:
        await oma.run_agent({"name": "x"}, "q")
        await oma.aclose()

    with pytest.raises(SystemExit) as caught:
        await run_and_close()
    assert caught.value.code == 3
    await oma.aclose()


@proves("ORC-60")
async def test_a_run_that_was_to_wait_for_listeners_does_so_when_its_orchestrator_is_entered_meanwhile() -> None:
    heard: list[str] = []

    async def send(event: Event[Any]) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(event.type)

    async def enter(messages: object, options: LLMChatOptions) -> str:
        await oma.__aenter__()
        return "done"

    # Nothing shows before the first event that this listener has something to be awaited.
    told = lambda event: send(event)  # noqa: E731, PLW0108 - as `send` itself it would look async
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(enter), on_progress=told)
    await oma.run_agent({"name": "x"}, "q")
    assert heard == ["agent_start", "agent_complete"]
    await oma.aclose()


@proves("ORC-62")
def test_the_events_of_a_run_end_although_nobody_could_serve_its_listeners() -> None:
    def refuse(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        coroutine.close()
        raise RuntimeError("no more tasks")

    async def main() -> None:
        oma = OpenMultiAgent(default_adapter=answers(1), on_progress=never)
        events, loop = oma.events("mine"), asyncio.get_running_loop()
        loop.set_task_factory(refuse)
        with pytest.raises(RuntimeError, match="no more tasks"):
            await oma.run_agent({"name": "x"}, "q", run_id="mine")
        loop.set_task_factory(None)
        with anyio.fail_after(5):
            await read_to_the_end(events)

    asyncio.run(main())


@proves("ORC-62")
async def test_the_events_of_a_run_end_with_its_last_event() -> None:
    oma = OpenMultiAgent(default_adapter=answers(2))
    events = oma.events("mine")
    await oma.run_agent({"name": "x"}, "other", run_id="other")
    result = await oma.run_agent({"name": "x"}, "q", run_id="mine")
    got = [event async for event in events]
    assert [(event.type, event.run_id, event.sequence) for event in got] == [
        ("agent_start", "mine", 1),
        ("agent_complete", "mine", 2),
    ]
    assert got[0].data == {"prompt": "q"}
    assert got[1].data == result
    assert got[1].data is not result
    assert [event async for event in events] == []


@proves("ORC-62", "ORC-63")
async def test_many_consumers_get_the_events_of_all_runs_until_the_end() -> None:
    seen: dict[int, list[tuple[str, str]]] = {}
    oma = OpenMultiAgent(default_adapter=answers(20))

    async def consume(number: int) -> None:
        stream = oma.events()
        ready.append(number)
        seen[number] = [(event.run_id, event.type) async for event in stream]

    async def run(run_id: str) -> None:
        await oma.run_agent({"name": "x"}, "q", run_id=run_id)

    ready: list[int] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(consume, number)
            while len(ready) < 5:
                await anyio.lowlevel.checkpoint()
            async with anyio.create_task_group() as runs:
                for number in range(20):
                    runs.start_soon(partial(run, f"r{number}"))
            await oma.aclose()
    expected = sorted((f"r{n}", kind) for n in range(20) for kind in ("agent_start", "agent_complete"))
    assert [sorted(got) for got in seen.values()] == [expected] * 5


@proves("ORC-62")
async def test_events_are_delivered_while_the_run_goes_on() -> None:
    seen = anyio.Event()

    async def wait(messages: Any, options: LLMChatOptions) -> str:
        await seen.wait()
        return "ok"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(wait))
    types: list[str] = []

    async def consume() -> None:
        async for event in oma.events("r"):
            types.append(event.type)
            if event.type == "agent_start":
                seen.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            await oma.run_agent({"name": "x"}, "q", run_id="r")
    assert types == ["agent_start", "agent_complete"]


@proves("ORC-62")
async def test_who_comes_in_the_middle_of_a_run_gets_the_rest() -> None:
    opened: list[EventStream] = []

    def open_now(messages: object, options: LLMChatOptions) -> str:
        opened.append(oma.events("r"))
        return "ok"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(open_now))
    await oma.run_agent({"name": "x"}, "q", run_id="r")
    assert [(event.type, event.sequence) async for event in opened[0]] == [("agent_complete", 2)]


@proves("ORC-62")
async def test_after_the_end_there_are_no_events_until_the_orchestrator_is_entered_again() -> None:
    oma = OpenMultiAgent(default_adapter=answers(2))
    await oma.aclose()
    assert [event async for event in oma.events()] == []
    async with oma:
        stream = oma.events("r")
        await oma.run_agent({"name": "x"}, "q", run_id="r")
        assert len([event async for event in stream]) == 2


@proves("ORC-62")
@pytest.mark.parametrize("run_id", ["", "x" * 129, 5])
def test_the_events_of_a_run_that_cannot_be_are_refused(run_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="run_id"):
        OpenMultiAgent().events(run_id)


@proves("ORC-63")
async def test_each_consumer_has_events_of_its_own() -> None:
    oma = OpenMultiAgent(default_adapter=answers(1))
    first, second = oma.events("r"), oma.events("r")
    await oma.run_agent({"name": "x"}, "q", run_id="r")
    async for event in first:
        if event.type == "agent_start":
            event.data["prompt"] = "poison"
        event.run_id = "poison"
    got = [event async for event in second]
    assert (got[0].data, got[0].run_id) == ({"prompt": "q"}, "r")


@proves("ORC-63")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_a_consumer_may_be_on_another_event_loop(backend: str) -> None:
    oma = OpenMultiAgent(default_adapter=answers(1))
    opened = threading.Event()
    kinds: list[str] = []

    async def consume() -> None:
        stream = oma.events("r")
        opened.set()
        kinds.extend([event.type async for event in stream])

    def thread() -> None:
        anyio.run(consume, backend=backend)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, thread)
            await anyio.to_thread.run_sync(opened.wait)
            await oma.run_agent({"name": "x"}, "q", run_id="r")
    assert kinds == ["agent_start", "agent_complete"]


@proves("ORC-64")
async def test_a_slow_consumer_loses_the_oldest_events_and_they_are_counted() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
    everything, fast = oma.events(), oma.events("r599")
    for number in range(600):
        await oma.run_agent({"name": "x"}, "q", run_id=f"r{number}")
    await oma.aclose()
    got = [event async for event in everything]
    assert len(got) == 1024
    assert (got[-1].run_id, got[-1].type) == ("r599", "agent_complete")
    assert everything.dropped == oma.dropped_events == 1200 - 1024
    assert fast.dropped == 0
    assert len([event async for event in fast]) == 2


@proves("ORC-65")
@pytest.mark.parametrize("way", ["dropped", "break", "aclose", "async with", "never read", "cancelled"])
async def test_a_consumer_that_leaves_leaves_nothing_behind(way: str) -> None:
    oma = OpenMultiAgent(default_adapter=answers(3))
    readers = oma._machinery.progress._readers
    stream: Any = oma.events()
    gone = weakref.ref(stream)
    has_readers = [bool(readers.mailboxes)]
    await oma.run_agent({"name": "x"}, "q")
    if way == "break":
        async for _ in stream:
            break
    elif way == "aclose":
        await stream.aclose()
        await stream.aclose()
        assert [event async for event in stream] == []
    elif way == "async with":
        async with stream as entered:
            assert (await anext(entered)).type == "agent_start"
    elif way == "cancelled":
        async with anyio.create_task_group() as group:
            group.start_soon(read_to_the_end, stream)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        del group
    del stream
    if way == "async with":
        del entered
    gc.collect()
    assert gone() is None
    has_readers.append(bool(readers.mailboxes))
    assert has_readers == [True, False]
    await oma.run_agent({"name": "x"}, "q")


@proves("ORC-65")
async def test_closing_a_stream_ends_a_step_that_is_waiting() -> None:
    oma = OpenMultiAgent(default_adapter=answers(1))
    stream = oma.events()
    ended = anyio.Event()

    async def consume() -> None:
        await read_to_the_end(stream)
        ended.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            await ended.wait()
    await oma.run_agent({"name": "x"}, "q")
    assert [event async for event in stream] == []


@proves("ORC-62")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_reading_what_is_there_lets_others_run() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
    stream = oma.events()
    for _ in range(50):
        await oma.run_agent({"name": "x"}, "q")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        for _ in range(100):
            await anext(stream)
        group.cancel_scope.cancel()
    assert turns >= 5

"""Progress events: listeners of every kind, and that none of them can hurt a run or another listener."""

import asyncio
import contextlib
import copy
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from openmultiagent import events as events_module
from openmultiagent._detached import Detached
from openmultiagent.events import Event, EventBus
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])

Payload = dict[str, list[int]]


class Happened(Event[Payload]):
    type = "happened"
    __slots__ = ()


def happened(number: int = 0) -> Happened:
    return Happened(agent="writer", task="t1", payload={"numbers": [number]}, copy=copy.deepcopy)


@pytest.fixture(autouse=True)
def no_listener_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine any call may take long, which would be logged."""
    monkeypatch.setattr(events_module, "_SLOW_LISTENER", 60.0)


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    with capture_logs() as found:
        yield found


async def serve_while(bus: EventBus, body: Callable[[], Awaitable[object]]) -> None:
    """Do something while the bus is served, as a run does it."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(bus.serve)
            await body()
            bus.close()


async def emit(bus: EventBus, count: int = 1) -> None:
    for number in range(count):
        bus.emit(happened(number))


async def leak_a_cancellation() -> None:
    """Raise a cancellation outside the scope that it belongs to, as a client does whose connection died."""
    leaked: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            leaked = error
            raise
    assert leaked is not None
    raise leaked


@proves("EVT-1")
def test_an_event_says_what_happened_where_and_when() -> None:
    before = datetime.now(UTC)
    seen: list[Event[Any]] = []
    bus = EventBus("run-1", [seen.append])
    bus.emit(happened(1))
    bus.emit(happened(2))
    assert [(e.type, e.run_id, e.sequence, e.agent, e.task, e.data) for e in seen] == [
        ("happened", "run-1", 1, "writer", "t1", {"numbers": [1]}),
        ("happened", "run-1", 2, "writer", "t1", {"numbers": [2]}),
    ]
    assert all(before <= event.timestamp <= datetime.now(UTC) for event in seen)
    assert all(isinstance(event, Happened) for event in seen)
    assert repr(seen[0]) == "<Happened #1 agent='writer' task='t1' run_id='run-1'>"
    assert repr(Event(payload=1)) == "<Event #0 run_id=''>"


@proves("EVT-1")
def test_no_event_is_of_the_future() -> None:
    assert all(Event(number).timestamp <= datetime.now(UTC) for number in range(2000))


@proves("EVT-2")
def test_each_listener_has_a_payload_of_its_own() -> None:
    payload: Payload = {"numbers": [1]}
    seen: list[Payload] = []

    def poison(event: Event[Any]) -> None:
        seen.append(event.data)
        event.data["numbers"].append(666)
        event.agent = event.run_id = "poison"
        event.sequence = -1

    later: list[Event[Any]] = []
    bus = EventBus("r", [poison, later.append, poison])
    bus.emit(Happened(agent="writer", payload=payload, copy=copy.deepcopy))
    assert payload == {"numbers": [1]}
    assert later[0].data == {"numbers": [1]}
    assert (later[0].agent, later[0].run_id, later[0].sequence) == ("writer", "r", 1)
    assert seen == [{"numbers": [1, 666]}] * 2
    assert seen[0] is not seen[1]


@proves("EVT-2")
def test_a_payload_is_copied_once_and_only_when_it_is_read() -> None:
    copies: list[int] = []

    def counting(payload: int) -> int:
        copies.append(payload)
        return payload

    seen: list[Event[Any]] = []
    EventBus("r", [seen.append, seen.append]).emit(Event(payload=7, copy=counting))
    assert copies == []
    assert [seen[0].data, seen[0].data] == [7, 7]
    assert copies == [7]


@proves("EVT-2")
def test_a_payload_without_a_copier_is_passed_on_as_it_is() -> None:
    error = ValueError("x")
    seen: list[Event[Any]] = []
    EventBus("r", [seen.append]).emit(Event(payload=error))
    assert seen[0].data is error


@proves("EVT-2")
def test_a_fork_after_reading_has_the_original_payload() -> None:
    event = happened(1)
    event.data["numbers"].append(2)
    assert event.fork().data == {"numbers": [1]}
    assert copy.deepcopy(happened(3)).data == {"numbers": [3]}


@proves("EVT-3")
@pytest.mark.parametrize("error", [ValueError("secret: token=abc"), asyncio.CancelledError("mine"), RecursionError()])
def test_a_listener_that_raises_is_logged_and_left_out_and_the_others_go_on(
    error: BaseException, lines: list[EventDict]
) -> None:
    calls: list[str] = []

    def broken(event: Event[Any]) -> None:
        calls.append("broken")
        raise error

    seen: list[Event[Any]] = []
    bus = EventBus("r", [seen.append, broken, seen.append])
    bus.emit(happened())
    bus.emit(happened())
    assert calls == ["broken"]
    assert [event.sequence for event in seen] == [1, 1, 2, 2]
    assert len(lines) == 1
    assert (lines[0]["event"], lines[0]["run_id"], lines[0]["event_type"]) == ("event_listener_failed", "r", "happened")
    assert lines[0]["listener"].endswith("broken")
    assert lines[0]["error"].startswith(type(error).__name__)
    assert "abc" not in lines[0]["error"]


class Hostile:
    """A listener that fails when it is called, when it is named and when its error is read."""

    def __call__(self, event: Event[Any]) -> None:
        raise HostileError

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __len__(self) -> int:
        return 0


class HostileError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@proves("EVT-3")
def test_a_listener_that_also_fails_to_be_described_is_no_problem(lines: list[EventDict]) -> None:
    bus = EventBus("r", [functools.partial(Hostile())])
    bus.emit(happened())
    assert (lines[0]["listener"], lines[0]["error"]) == (f"{__name__}.Hostile", "HostileError")


@proves("EVT-3")
def test_a_payload_that_cannot_be_copied_fails_only_who_looks_at_it(lines: list[EventDict]) -> None:
    def uncopyable(payload: int) -> int:
        raise AttributeError("cannot copy")

    seen: list[Event[Any]] = []
    bus = EventBus("r", [lambda event: event.data, seen.append])
    bus.emit(Event(payload=1, copy=uncopyable))
    assert len(seen) == len(lines) == 1


@proves("EVT-4")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_is_not_held_up(error: type[BaseException]) -> None:
    def leaving(event: Event[Any]) -> None:
        raise error

    with pytest.raises(error):
        EventBus("r", [leaving]).emit(happened())


@proves("EVT-5")
def test_a_listener_that_blocks_the_thread_is_logged_once_a_run(
    lines: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_SLOW_LISTENER", 0.1)

    def slow(event: Event[Any]) -> None:
        until = time.perf_counter() + 0.11
        while time.perf_counter() < until:
            pass

    bus = EventBus("r", [slow])
    bus.emit(happened())
    bus.emit(happened())
    assert [(line["event"], line["event_type"]) for line in lines] == [("event_listener_blocks", "happened")]
    assert lines[0]["seconds"] >= 0.1
    assert lines[0]["listener"].endswith("slow")


class Recorder:
    """Listeners of every kind that note what they have seen."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def plain(self, event: Event[Any]) -> None:
        self.seen.append(event.sequence)

    async def method(self, event: Event[Any]) -> None:
        await anyio.lowlevel.checkpoint()
        self.seen.append(event.sequence)

    async def with_extra(self, extra: int, event: Event[Any]) -> None:
        await self.method(event)

    def returning(self, event: Event[Any]) -> Awaitable[None]:
        return self.method(event)

    def returning_object(self, event: Event[Any]) -> Awaitable[None]:
        return Later(self.method, event)

    async def __call__(self, event: Event[Any]) -> None:
        await self.method(event)


class Later:
    """An awaitable that is no coroutine, with a ``close`` that is nobody's business."""

    closed = 0

    def __init__(self, function: Callable[[Event[Any]], Awaitable[None]], event: Event[Any]) -> None:
        self.function, self.event = function, event

    def __await__(self) -> Any:
        return self.function(self.event).__await__()

    def close(self) -> None:
        Later.closed += 1
        raise ValueError("not yours to close")


KINDS: dict[str, Callable[[Recorder], Any]] = {
    "method": lambda recorder: recorder.method,
    "callable object": lambda recorder: recorder,
    "partial": lambda recorder: functools.partial(recorder.with_extra, 1),
    "partial of a partial": lambda recorder: functools.partial(functools.partial(recorder.with_extra, 1)),
    "partial of an object": functools.partial,
    "plain function that returns a coroutine": lambda recorder: recorder.returning,
    "plain function that returns an awaitable": lambda recorder: recorder.returning_object,
    "plain": lambda recorder: recorder.plain,
}


@proves("EVT-6")
@pytest.mark.parametrize("kind", KINDS)
async def test_listeners_of_every_kind_get_every_event_in_order(kind: str) -> None:
    recorder = Recorder()
    bus = EventBus("r", [KINDS[kind](recorder)])
    await serve_while(bus, lambda: emit(bus, 50))
    assert recorder.seen == list(range(1, 51))
    assert bus.dropped == 0


@proves("EVT-6")
@pytest.mark.parametrize("kind", KINDS)
def test_a_bus_knows_which_listeners_need_to_be_served(kind: str) -> None:
    bus = EventBus("r", [KINDS[kind](Recorder())])
    assert bus.has_listeners
    assert bus.needs_service is not kind.startswith("plain")
    assert not EventBus("r").needs_service
    assert not EventBus("r").has_listeners


@proves("EVT-6")
async def test_awaitables_that_a_plain_function_returned_are_served_after_the_run() -> None:
    recorder = Recorder()
    bus = EventBus("r", [recorder.returning])
    needs = [bus.needs_service]
    bus.emit(happened())
    bus.close()
    needs.append(bus.needs_service)
    await bus.serve()
    needs.append(bus.needs_service)
    assert needs == [False, True, False]
    assert recorder.seen == [1]


@proves("EVT-6")
async def test_async_listeners_work_side_by_side_and_while_the_run_goes_on() -> None:
    recorder = Recorder()
    entered, done = anyio.Event(), anyio.Event()

    async def waiting(event: Event[Any]) -> None:
        entered.set()
        await done.wait()

    bus = EventBus("r", [waiting, recorder.method])

    async def body() -> None:
        await emit(bus, 3)
        await entered.wait()
        while recorder.seen != [1, 2, 3]:
            await anyio.lowlevel.checkpoint()
        await emit(bus, 1)
        while recorder.seen != [1, 2, 3, 4]:
            await anyio.lowlevel.checkpoint()
        done.set()

    await serve_while(bus, body)


@proves("EVT-3")
async def test_an_async_listener_that_raises_is_left_out_and_its_queue_is_dropped(lines: list[EventDict]) -> None:
    calls: list[int] = []

    async def broken(event: Event[Any]) -> None:
        calls.append(event.sequence)
        raise ValueError("broken")

    recorder = Recorder()
    bus = EventBus("r", [broken, recorder.method])
    await serve_while(bus, lambda: emit(bus, 5))
    assert calls == [1]
    assert recorder.seen == [1, 2, 3, 4, 5]
    assert [(line["event"], line["error"]) for line in lines] == [("event_listener_failed", "ValueError: broken")]


async def raise_group(event: Event[Any]) -> None:
    raise BaseExceptionGroup("mixed", [ValueError("x"), asyncio.CancelledError()])


async def raise_leaked_cancellation(event: Event[Any]) -> None:
    await leak_a_cancellation()


@proves("EVT-3")
@pytest.mark.parametrize("listener", [raise_group, raise_leaked_cancellation])
async def test_a_cancellation_that_comes_from_inside_a_listener_is_its_failure(
    listener: Any, lines: list[EventDict]
) -> None:
    recorder = Recorder()
    bus = EventBus("r", [listener, recorder.method])

    async def body() -> None:
        await emit(bus, 2)
        while len(recorder.seen) < 2:
            await anyio.lowlevel.checkpoint()
        await emit(bus, 2)

    await serve_while(bus, body)
    assert recorder.seen == [1, 2, 3, 4]
    assert [line["event"] for line in lines] == ["event_listener_failed"]


@asyncio_only
@proves("EVT-3")
async def test_a_future_that_was_cancelled_fails_only_its_listener(lines: list[EventDict]) -> None:
    def returning(event: Event[Any]) -> Awaitable[object]:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return future

    bus = EventBus("r", [returning])
    await serve_while(bus, lambda: emit(bus, 3))
    assert [line["event"] for line in lines] == ["event_listener_failed"]


@proves("EVT-4")
async def test_what_ends_the_process_passes_through_the_service_of_async_listeners() -> None:
    async def leaving(event: Event[Any]) -> None:
        raise BaseExceptionGroup("leaving", [KeyboardInterrupt()])

    bus = EventBus("r", [leaving])
    bus.emit(happened())
    bus.close()
    with pytest.raises(BaseExceptionGroup) as caught:
        await bus.serve()
    assert caught.value.subgroup(KeyboardInterrupt) is not None


@proves("EVT-7")
async def test_what_does_not_fit_into_the_queue_is_dropped_and_counted(lines: list[EventDict]) -> None:
    recorder, plain = Recorder(), Recorder()
    bus = EventBus("r", [recorder.method, plain.plain])
    await emit(bus, 1024 + 7)
    assert bus.dropped == 7
    bus.close()
    await bus.serve()
    assert recorder.seen == list(range(1, 1025))
    assert plain.seen == list(range(1, 1032))
    assert {
        "event": "event_listener_too_slow",
        "log_level": "warning",
        "logger": "openmultiagent.events",
        "run_id": "r",
        "unfinished": 0,
        "dropped": 7,
    } in lines


@proves("EVT-8")
async def test_listeners_that_never_return_are_given_up_after_the_grace(
    lines: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)
    finished: list[str] = []

    async def stuck(event: Event[Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            finished.append("closed")

    recorder = Recorder()
    bus = EventBus("r", [stuck, functools.partial(stuck), recorder.method])

    async def body() -> None:
        await emit(bus, 3)
        while len(recorder.seen) < 3:
            await anyio.lowlevel.checkpoint()

    await serve_while(bus, body)
    assert finished == ["closed"] * 2
    assert recorder.seen == [1, 2, 3]
    assert [(line["event"], line["unfinished"]) for line in lines] == [("event_listener_too_slow", 4)]


@proves("EVT-8")
async def test_a_listener_that_fails_while_it_is_given_up_is_logged(
    lines: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)

    async def stuck(event: Event[Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise BaseExceptionGroup("both", [ValueError("x"), KeyError("y"), asyncio.CancelledError()])

    bus = EventBus("r", [stuck])
    await serve_while(bus, lambda: emit(bus, 2))
    assert lines[0]["event"] == "event_listener_failed"


@proves("EVT-8")
async def test_what_is_no_coroutine_is_dropped_without_being_touched(
    monkeypatch: pytest.MonkeyPatch, lines: list[EventDict]
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)
    Later.closed = 0

    async def stuck(event: Event[Any]) -> None:
        await anyio.sleep_forever()

    bus = EventBus("r", [lambda event: Later(stuck, event)])
    await serve_while(bus, lambda: emit(bus, 3))
    assert Later.closed == 0
    assert lines[0]["unfinished"] == 2


@proves("EVT-9")
async def test_a_cancelled_run_still_tells_its_end() -> None:
    recorder = Recorder()
    bus = EventBus("r", [recorder.method])
    service = Detached(bus.serve)
    service.start()
    with anyio.CancelScope() as scope:
        try:
            scope.cancel()
            await anyio.sleep_forever()
        finally:
            bus.emit(happened())
            bus.close()
            with anyio.CancelScope(shield=True):
                await bus.served()
    assert scope.cancelled_caught
    assert recorder.seen == [1]


@proves("EVT-9")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("steps", range(8))
async def test_a_native_cancellation_at_any_moment_leaves_nothing_unawaited(steps: int) -> None:
    async def slow(event: Event[Any]) -> None:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()

    bus = EventBus("r", [slow, slow])
    await emit(bus, 3)
    bus.close()
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(bus.serve())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert asyncio.all_tasks() == before
    if steps == 0:  # never started, so that there was nobody to drop what waits
        await bus.serve()
    assert not any(item.pending for item in bus._subscriptions)


class Stubborn:
    """An async listener that swallows its cancellation until it is let go."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()
        self.cancelled = 0
        self.calls = 0

    async def __call__(self, event: Event[Any]) -> None:
        self.calls += 1
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled += 1


class Hub:
    """Notes what it is told."""

    def __init__(self, *, has_readers: bool = True) -> None:
        self.readers = ["somebody"] if has_readers else []
        self.told: list[int] = []
        self.ended: list[str] = []
        self.dropped = 0
        self.left_out: list[object] = []

    def tell(self, event: Event[Any]) -> None:
        self.told.append(event.sequence)

    def end(self, run_id: str) -> None:
        self.ended.append(run_id)

    def count_dropped(self, count: int) -> None:
        self.dropped += count

    def leave_out(self, listener: object) -> None:
        self.left_out.append(listener)


@proves("EVT-10")
async def test_a_listener_that_swallows_its_cancellation_is_given_up(
    lines: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)
    stubborn, recorder, hub = Stubborn(), Recorder(), Hub()
    bus = EventBus("r", [stubborn, recorder.method], hub=hub)
    service = Detached(bus.serve)
    service.start()
    await emit(bus, 2)
    bus.close()
    with anyio.fail_after(5):
        await bus.served()
    assert not service.done
    assert (stubborn.calls, recorder.seen, hub.dropped) == (1, [1, 2], 1)
    assert hub.left_out == [stubborn]
    assert [line["event"] for line in lines] == ["event_listener_too_slow", "event_listener_stuck"]
    cancelled = stubborn.cancelled
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert stubborn.cancelled == cancelled > 0  # nobody goes on fighting with it
    stubborn.let_go.set()
    with anyio.fail_after(5):
        await service.wait()


@proves("EVT-10")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_listener_that_was_given_up_is_cancelled_again_at_the_end_of_the_loop(
    backend: str, monkeypatch: pytest.MonkeyPatch, lines: list[EventDict]
) -> None:
    monkeypatch.setattr(events_module, "_GRACE", 0.02)
    monkeypatch.setattr(events_module, "_LAST_CHANCE", 0.02)
    ended: list[str] = []
    given_up: list[bool] = []

    async def hard_of_hearing(event: Event[Any]) -> None:
        while not given_up:
            with contextlib.suppress(anyio.get_cancelled_exc_class()):
                await anyio.lowlevel.checkpoint()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    async def main() -> None:
        bus = EventBus("r", [hard_of_hearing])
        Detached(bus.serve).start()
        bus.emit(happened())
        bus.close()
        await bus.served()
        given_up.append(True)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert ended == []

    anyio.run(main, backend=backend)
    assert ended == ["cancelled"]


@proves("EVT-8")
async def test_the_grace_is_what_the_server_says(lines: list[EventDict]) -> None:
    async def stuck(event: Event[Any]) -> None:
        await anyio.sleep_forever()

    bus = EventBus("r", [stuck])
    service = Detached(functools.partial(bus.serve, 0.02))
    service.start()
    await emit(bus, 1)
    bus.close()
    with anyio.fail_after(0.9):
        await service.wait()
    assert [line["event"] for line in lines] == ["event_listener_too_slow"]


@proves("EVT-9")
async def test_a_service_that_is_cancelled_cancels_its_listeners() -> None:
    entered, ended = anyio.Event(), anyio.Event()

    async def waiting(event: Event[Any]) -> None:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    bus = EventBus("r", [waiting])
    service = Detached(bus.serve)
    service.start()
    await emit(bus, 1)
    with anyio.fail_after(5):
        await entered.wait()
        service.cancel()
        await bus.served()
    assert ended.is_set()


@proves("EVT-9")
async def test_who_waits_for_a_service_that_never_began_is_let_go() -> None:
    recorder = Recorder()
    bus = EventBus("r", [recorder.method])
    await emit(bus, 1)
    bus.release()
    await bus.served()
    assert recorder.seen == []


@proves("EVT-11")
async def test_a_hub_is_told_after_the_listeners_and_of_the_end_once() -> None:
    hub = Hub()
    order: list[tuple[int, int]] = []
    bus = EventBus("r", [lambda event: order.append((event.sequence, len(hub.told)))], hub=hub)
    await emit(bus, 2)
    bus.close()
    bus.close()
    assert order == [(1, 0), (2, 1)]
    assert (hub.told, hub.ended) == ([1, 2], ["r"])


@proves("EVT-11")
async def test_a_hub_without_readers_is_told_nothing_and_one_that_gets_some_later_is() -> None:
    hub = Hub(has_readers=False)
    bus = EventBus("r", hub=hub)
    has_listeners = [bus.has_listeners]
    await emit(bus, 1)
    hub.readers.append("somebody")
    has_listeners.append(bus.has_listeners)
    await emit(bus, 1)
    bus.close()
    assert has_listeners == [False, True]
    assert (hub.told, hub.ended) == ([2], ["r"])


@proves("EVT-7")
async def test_what_is_dropped_is_counted_at_the_hub() -> None:
    hub, recorder = Hub(), Recorder()
    bus = EventBus("r", [recorder.method], hub=hub)
    await emit(bus, 1024 + 7)
    assert hub.dropped == 7
    bus.release()
    assert hub.dropped == 7 + 1024


def test_an_event_of_its_own_is_not_copied_for_a_single_listener() -> None:
    copies: list[list[int]] = []

    def counting(payload: list[int]) -> list[int]:
        copies.append(payload)
        return list(payload)

    seen: list[Event[list[int]]] = []
    payload = [1]
    EventBus("r", [seen.append]).emit(Event(payload=payload, copy=counting, is_own=True))
    assert seen[0].data is payload
    assert not copies
    # A fork of it, and events for several, have copies as ever.
    fork = seen[0].fork()
    assert fork.data == [1]
    assert fork.data is not payload
    EventBus("r", [seen.append, seen.append]).emit(Event(payload=payload, copy=counting, is_own=True))
    assert all(event.data is not payload for event in seen[1:])
    assert seen[1].data is not seen[2].data


def test_an_event_of_its_own_is_copied_when_a_hub_reads_it_as_well() -> None:
    hub = Hub()
    seen: list[Event[list[int]]] = []
    payload = [1]
    EventBus("r", [seen.append], hub=hub).emit(Event(payload=payload, copy=list, is_own=True))
    assert seen[0].data == [1]
    assert seen[0].data is not payload
    assert hub.told == [1]


def test_a_payload_that_somebody_else_holds_is_copied_for_a_single_listener() -> None:
    seen: list[Event[list[int]]] = []
    payload = [1]
    EventBus("r", [seen.append]).emit(Event(payload=payload, copy=list))
    assert seen[0].data == [1]
    assert seen[0].data is not payload

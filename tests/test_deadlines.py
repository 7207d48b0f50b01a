"""Time limits that share a timer: they cancel what a scope with a deadline would cancel, when it would."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint, current_token

from openmultiagent._deadlines import _MAX_LINES, LoopClock, loop_clock

LONG = 60.0


async def limited(seconds: float, work: Any, *, clock: LoopClock | None = None) -> str:
    """Do something within a limit, and say what became of it."""
    line = (loop_clock() if clock is None else clock).line(seconds)
    with line.scope() as scope:
        line.join(scope)
        try:
            await work()
        finally:
            line.leave(scope)
        return "done"
    return "too late"


async def nothing() -> None:
    pass


def timers() -> list[asyncio.TimerHandle]:
    """What is set on the loop of asyncio."""
    loop: Any = asyncio.get_running_loop()
    return [handle for handle in loop._scheduled if not handle.cancelled()]


@pytest.fixture
def own_loop(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only on asyncio do operations share timers")


async def test_what_ends_in_time_is_done_and_what_does_not_is_cancelled() -> None:
    assert await limited(LONG, nothing) == "done"
    assert await limited(0.01, anyio.sleep_forever) == "too late"
    assert await limited(LONG, nothing) == "done"


async def test_what_has_no_limit_has_no_timer() -> None:
    assert await limited(math.inf, nothing) == "done"
    with anyio.move_on_after(0.01) as outer:
        await limited(math.inf, anyio.sleep_forever)
    assert outer.cancelled_caught


async def test_each_has_its_own_time() -> None:
    ended: list[tuple[str, str]] = []
    began = anyio.current_time()

    async def run(name: str, after: float, work: Any) -> None:
        await anyio.sleep(after)
        ended.append((name, await limited(0.1, work)))
        times[name] = anyio.current_time() - began

    times: dict[str, float] = {}
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run, "first", 0, anyio.sleep_forever)
            group.start_soon(run, "in between", 0.02, nothing)
            group.start_soon(run, "second", 0.05, anyio.sleep_forever)
    assert sorted(ended) == [("first", "too late"), ("in between", "done"), ("second", "too late")]
    assert 0.1 <= times["first"] < times["second"]
    assert times["second"] >= 0.15


async def test_those_that_began_together_end_together() -> None:
    async with anyio.create_task_group() as group:
        found: list[str] = []

        async def run() -> None:
            found.append(await limited(0.02, anyio.sleep_forever))

        for _ in range(20):
            group.start_soon(run)
    assert found == ["too late"] * 20


async def test_what_swallows_its_cancellation_is_cancelled_again() -> None:
    waits: list[int] = []

    async def stubborn() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            waits.append(1)
            try:
                await anyio.sleep_forever()
            finally:
                waits.append(2)

    assert await limited(0.01, stubborn) == "too late"
    assert waits == [1, 2]


async def test_a_scope_further_out_is_none_of_its_limits() -> None:
    with anyio.move_on_after(0.01) as outer:
        await limited(LONG, anyio.sleep_forever)
    assert outer.cancelled_caught


async def test_a_cancelled_scope_further_out_shows_at_the_checkpoint() -> None:
    clock = loop_clock()
    await clock.checkpoint_if_cancelled()
    with anyio.CancelScope() as outer:
        outer.cancel()
        await clock.checkpoint_if_cancelled()
    assert outer.cancelled_caught


@pytest.mark.usefixtures("own_loop")
async def test_a_thousand_operations_set_one_timer() -> None:
    before = len(timers())
    for _ in range(1_000):
        await limited(LONG, nothing)
    assert len(timers()) == before + 1
    assert loop_clock() is loop_clock()


@pytest.mark.usefixtures("own_loop")
async def test_a_line_with_nobody_in_it_ends_with_its_timer() -> None:
    clock = loop_clock()
    line = clock.line(0.01)
    assert await limited(0.01, nothing) == "done"
    assert clock.line(0.01) is line
    await limited(0.05, anyio.sleep_forever)
    assert clock.line(0.01) is not line
    assert await limited(0.01, anyio.sleep_forever) == "too late"


@pytest.mark.usefixtures("own_loop")
async def test_the_number_of_lines_is_bounded() -> None:
    before = len(timers())
    for number in range(_MAX_LINES * 2):
        assert await limited(LONG + number, nothing) == "done"
    assert len(timers()) - before <= _MAX_LINES
    assert await limited(0.013, anyio.sleep_forever) == "too late"  # one with a timer of its own


@pytest.mark.usefixtures("own_loop")
async def test_a_timer_keeps_nothing_alive_of_who_came_first() -> None:
    class Request:
        pass

    variable: ContextVar[Request] = ContextVar("variable")
    request = Request()
    gone = weakref.ref(request)

    async def first(request: Request) -> None:
        variable.set(request)
        await limited(LONG + 0.5, nothing)

    await asyncio.create_task(first(request))
    del request
    await checkpoint()
    gc.collect()
    assert gone() is None


def test_every_loop_has_its_clock() -> None:
    async def seen() -> tuple[object, str]:
        clock = loop_clock()
        assert clock.loop is current_token().native_token
        return clock, await limited(0.01, anyio.sleep_forever)

    (first, _), (second, outcome) = asyncio.run(seen()), asyncio.run(seen())
    assert first is not second
    assert outcome == "too late"

"""Detached tasks: started anywhere, cancelled from anywhere, dropped at will, and never lost or leaked."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from openmultiagent import _detached
from openmultiagent._detached import Detached, LoopHandle, Signal, loop_poster
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])

variable: ContextVar[str] = ContextVar("variable", default="unset")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert not _detached._LIVE


async def forever() -> None:
    await anyio.sleep_forever()


async def steps(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def finished(task: Detached[Any]) -> None:
    with anyio.fail_after(10):
        await task.wait()
    assert task.done


@proves("CAN-10")
async def test_a_detached_task_outlives_the_scope_that_started_it() -> None:
    release = anyio.Event()

    async def main() -> str:
        await release.wait()
        return "done"

    task: Detached[str] = Detached(main)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            task.start()
            group.cancel_scope.cancel()
            scope.cancel()
    assert not task.done
    release.set()
    await finished(task)
    assert (task.result, task.error) == ("done", None)


@proves("CAN-11")
@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), ExceptionGroup("g", [OSError()])]
)
async def test_a_failure_is_kept_for_the_owner(error: BaseException) -> None:
    async def main() -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    task: Detached[None] = Detached(main)
    task.start()
    await finished(task)
    assert task.error is error
    assert task.result is None


async def raise_leaked_cancellation() -> None:
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


async def raise_asyncio_cancellation() -> None:
    raise asyncio.CancelledError


@proves("CAN-11")
@pytest.mark.parametrize("main", [raise_leaked_cancellation, raise_asyncio_cancellation])
async def test_a_cancellation_that_nobody_asked_for_is_a_failure(main: Callable[[], Awaitable[None]]) -> None:
    task: Detached[None] = Detached(main)
    task.start()
    await finished(task)
    assert task.error is not None
    assert isinstance(task.error, asyncio.CancelledError | RuntimeError)


@proves("CAN-12")
@pytest.mark.parametrize("after", range(4))
async def test_a_cancelled_task_ends_without_result_or_error(after: int) -> None:
    cleaned: list[str] = []

    async def main() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            cleaned.append("up")

    task: Detached[None] = Detached(main)
    task.start()
    await steps(after)
    task.cancel()
    task.cancel()
    await finished(task)
    assert (task.result, task.error) == (None, None)
    assert cleaned == ["up"]
    task.cancel()
    await steps(2)


@proves("CAN-12")
async def test_a_cancel_that_comes_too_late_changes_nothing() -> None:
    async def main() -> int:
        return 1

    task: Detached[int] = Detached(main)
    task.cancel()
    task.start()
    task.cancel()
    await finished(task)
    assert task.result == 1


@proves("CAN-12")
async def test_a_task_is_cancelled_from_another_thread() -> None:
    task: Detached[None] = Detached(forever)
    task.start()
    await anyio.to_thread.run_sync(task.cancel)
    await finished(task)


@proves("CAN-12")
async def test_cleaning_up_may_fail_and_the_error_is_kept() -> None:
    async def main() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    task: Detached[None] = Detached(main)
    task.start()
    await steps(2)
    task.cancel()
    await finished(task)
    assert isinstance(task.error, ValueError)


class Owner:
    """Holds a task, and cancels it when it is dropped."""

    def __init__(self, main: Callable[[], Awaitable[None]]) -> None:
        self.task: Detached[None] = Detached(main)
        self.task.start()

    def __del__(self) -> None:
        self.task.cancel()


@proves("CAN-13")
@pytest.mark.parametrize("in_cycle", [True, False])
async def test_dropping_the_owner_cancels_the_task(in_cycle: bool) -> None:
    ended = anyio.Event()

    async def main() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    owner = Owner(main)
    await steps(2)
    if in_cycle:
        owner.me = owner  # type: ignore[attr-defined]
    del owner
    gc.collect()
    with anyio.fail_after(10):
        await ended.wait()
    await steps(3)


@proves("CAN-13")
async def test_dropping_the_owner_in_another_thread_cancels_the_task() -> None:
    ended = anyio.Event()

    async def main() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    owners = [Owner(main)]
    await steps(2)
    await anyio.to_thread.run_sync(owners.clear)
    with anyio.fail_after(10):
        await ended.wait()
    await steps(3)


@proves("CAN-13")
async def test_a_running_task_is_kept_alive_by_nobody_but_the_library() -> None:
    release = anyio.Event()
    ended = anyio.Event()

    async def main() -> None:
        await release.wait()
        ended.set()

    def start_and_forget() -> None:
        Detached(main).start()

    start_and_forget()
    await steps(2)
    gc.collect()
    release.set()
    with anyio.fail_after(10):
        await ended.wait()
    await steps(3)


@proves("CAN-14")
@pytest.mark.parametrize("given", [True, False])
async def test_a_task_sees_the_context_variables_of_its_maker_and_nothing_flows_back(given: bool) -> None:
    seen: list[str] = []

    async def main() -> None:
        seen.append(variable.get())
        seen.append(await anyio.to_thread.run_sync(variable.get))
        variable.set("changed inside")
        await anyio.lowlevel.checkpoint()

    token = variable.set("as made")
    context: Context | None = copy_context() if given else None
    task: Detached[None] = Detached(main, context=context)
    variable.set("changed later")
    task.start()
    await finished(task)
    assert seen == ["as made", "as made"]
    assert variable.get() == "changed later"
    assert context is None or context[variable] == "as made"
    variable.reset(token)


@proves("CAN-14")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_may_be_made_outside_of_any_loop(backend: str) -> None:
    async def main() -> str:
        with anyio.move_on_after(5):
            await anyio.lowlevel.checkpoint()
        return variable.get()

    token = variable.set("outside")
    task: Detached[str] = Detached(main)
    variable.reset(token)

    async def run() -> None:
        task.start()
        await finished(task)

    anyio.run(run, backend=backend)
    assert task.result == "outside"


@proves("CAN-15")
async def test_whoever_asks_is_told_of_the_end_once() -> None:
    told: list[str] = []
    task: Detached[None] = Detached(forever)
    task.on_finish(lambda: told.append("before the start"))
    task.start()
    task.on_finish(lambda: told.append("while it runs"))
    assert told == []
    task.cancel()
    await finished(task)
    task.on_finish(lambda: told.append("afterwards"))
    await steps(3)
    assert sorted(told) == ["afterwards", "before the start", "while it runs"]


@proves("CAN-15")
async def test_several_may_wait_and_a_task_that_never_started_has_nothing_to_wait_for() -> None:
    task: Detached[None] = Detached(forever)
    await task.wait()
    assert not task.done
    task.start()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(task.wait)
            await steps(2)
            task.cancel()


@asyncio_only
@proves("CAN-16")
@pytest.mark.parametrize("after", range(4))
async def test_a_native_cancellation_at_any_step_ends_the_task(after: int) -> None:
    before = asyncio.all_tasks()
    told: list[int] = []
    task: Detached[None] = Detached(forever)
    task.on_finish(lambda: told.append(1))
    task.start()
    (native,) = asyncio.all_tasks() - before
    for _ in range(after):
        await asyncio.sleep(0)
    native.cancel()
    await finished(task)
    await asyncio.sleep(0)
    assert told == [1]
    assert (task.result, task.error) == (None, None)
    assert asyncio.all_tasks() == before


PROGRAM = """
import gc, anyio
from openmultiagent import _detached

ended = []

async def main():
    try:
        await anyio.sleep_forever()
    finally:
        ended.append(1)

class Owner:
    def __init__(self):
        self.task = _detached.Detached(main)
        self.task.start()
    def __del__(self):
        self.task.cancel()

kept = []

async def run():
    kept.append(Owner())   # outlives the loop
    for _ in range({steps}):
        await anyio.lowlevel.checkpoint()

anyio.run(run, backend={backend!r})
kept.clear()               # cancels on a loop that is no more
gc.collect()
assert not _detached._LIVE, _detached._LIVE
assert len(ended) == 1, ended
"""


@proves("CAN-16")
@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_the_loop_ends_the_task_without_a_word(backend: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM.format(backend=backend, steps=count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@proves("CAN-16")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_posted_to_a_loop_that_has_ended_is_dropped(backend: str) -> None:
    called: list[int] = []

    async def make() -> Callable[[Callable[[], object]], bool]:
        post = loop_poster()
        post(lambda: called.append(1))
        await steps(3)
        return post

    post = anyio.run(make, backend=backend)
    post(lambda: called.append(2))
    thread = threading.Thread(target=post, args=(lambda: called.append(3),))
    thread.start()
    thread.join(10)
    assert called == [1]


@proves("CAN-12")
async def test_a_storm_of_cancels_while_many_tasks_start_and_end() -> None:
    async def main() -> int:
        await steps(3)
        return 1

    tasks: list[Detached[int]] = []
    for number in range(40):
        task: Detached[int] = Detached(main)
        tasks.append(task)
        task.start()
        if number % 2:
            tasks[number // 2].cancel()
        await steps(number % 3)
    for task in tasks:
        await finished(task)
    assert all(task.error is None and task.result in {1, None} for task in tasks)


def elsewhere(main: Callable[[], Awaitable[object]], backend: str) -> threading.Thread:
    """Run something on an event loop of another thread."""
    thread = threading.Thread(target=anyio.run, args=(main,), kwargs={"backend": backend})
    thread.start()
    return thread


@proves("CAN-17")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
async def test_a_task_is_waited_for_on_another_loop(other: str) -> None:
    release = anyio.Event()
    task: Detached[None] = Detached(release.wait)
    task.start()
    seen: list[bool] = []

    async def wait() -> None:
        await task.wait()
        seen.append(task.done)

    thread = elsewhere(wait, other)
    await anyio.wait_all_tasks_blocked()
    release.set()
    await anyio.to_thread.run_sync(thread.join)
    assert seen == [True]
    await Detached(forever).wait()  # one that was never started is not waited for


@proves("CAN-17")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
async def test_no_change_is_missed(other: str) -> None:
    signal = Signal()
    value = 0
    seen: list[int] = []

    async def follow() -> None:
        for wanted in range(1, 301):
            await signal.until(partial(reached, wanted))
            seen.append(wanted)

    def reached(wanted: int) -> bool:
        return value >= wanted

    thread = elsewhere(follow, other)
    for _ in range(300):
        value += 1
        signal.notify()
        await anyio.lowlevel.checkpoint()
    await anyio.to_thread.run_sync(thread.join)
    assert seen == list(range(1, 301))
    assert not signal._waiting


@proves("CAN-17")
async def test_who_stops_waiting_is_forgotten() -> None:
    signal = Signal()
    with anyio.move_on_after(0.01):
        await signal.until(lambda: False)
    assert not signal._waiting
    signal.notify()


@proves("CAN-18")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
async def test_work_is_done_on_another_loop(other: str) -> None:
    here = LoopHandle()
    done_at: list[bool] = []

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        done_at.append(here.is_current)

    async def ask() -> None:
        done_at.append(here.is_current)
        assert await here.run(work, 5)

    thread = elsewhere(ask, other)
    await anyio.to_thread.run_sync(thread.join)
    assert await here.run(work, 5)
    assert done_at == [False, True, True]


@proves("CAN-18")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
async def test_work_that_takes_too_long_is_given_up(other: str) -> None:
    here = LoopHandle()
    results: list[bool] = []

    async def ask() -> None:
        results.append(await here.run(forever, 0.02))

    thread = elsewhere(ask, other)
    await anyio.to_thread.run_sync(thread.join)
    results.append(await here.run(forever, 0.02))
    assert results == [False, False]


@proves("CAN-18")
@pytest.mark.parametrize("ended", ["asyncio", "trio"])
async def test_nothing_is_done_on_a_loop_that_has_ended(ended: str) -> None:
    handles: list[LoopHandle] = []

    async def make() -> None:
        handles.append(LoopHandle())

    thread = elsewhere(make, ended)
    await anyio.to_thread.run_sync(thread.join)
    with anyio.fail_after(5):
        assert not await handles[0].run(forever, 60)


@proves("CAN-18")
async def test_nothing_is_done_on_a_loop_that_stands_still() -> None:
    handles: list[LoopHandle] = []

    async def make() -> None:
        handles.append(LoopHandle())

    def run_once() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(make())
        return loop

    loop = await anyio.to_thread.run_sync(run_once)
    with anyio.fail_after(5):
        assert not await handles[0].run(forever, 60)
    loop.close()

"""Tokens: cancelled from anywhere, at any time, once; and what they stop."""

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from openmultiagent.cancellation import CancelToken
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@proves("CAN-1")
def test_a_token_needs_no_event_loop_and_the_first_cancel_counts() -> None:
    token = CancelToken()
    assert (token.cancelled, token.reason) == (False, None)
    token.cancel("first")
    token.cancel("second")
    token.cancel()
    assert (token.cancelled, token.reason) == (True, "first")


@proves("CAN-1")
def test_a_cancel_without_a_reason_is_a_cancel() -> None:
    token = CancelToken()
    token.cancel()
    token.cancel("too late")
    assert (token.cancelled, token.reason) == (True, None)


@proves("CAN-2")
async def test_a_scope_of_the_token_is_left_when_it_is_cancelled() -> None:
    token = CancelToken()
    with anyio.fail_after(10), token.scope() as scope:
        token.cancel()
        await anyio.sleep_forever()
    assert scope.cancelled_caught


@proves("CAN-2")
async def test_a_token_that_was_cancelled_before_stops_at_the_first_step() -> None:
    token = CancelToken()
    token.cancel()
    steps = []
    with anyio.fail_after(10), token.scope() as scope:
        steps.append("before")
        await anyio.lowlevel.checkpoint()
        steps.append("after")
    assert steps == ["before"]
    assert scope.cancelled_caught


@proves("CAN-2")
async def test_a_cancel_that_stops_nothing_is_not_caught() -> None:
    token = CancelToken()
    with token.scope() as scope:
        await anyio.lowlevel.checkpoint()
    token.cancel()
    await anyio.lowlevel.checkpoint()
    assert not scope.cancelled_caught


@proves("CAN-2")
async def test_an_exception_leaves_the_scope_as_it_is() -> None:
    error = ValueError("x")
    token = CancelToken()
    with pytest.raises(ValueError, match="x") as caught, token.scope():
        raise error
    assert caught.value is error
    token.cancel()


@proves("CAN-3")
async def test_a_cancel_from_another_thread_wakes_what_waits() -> None:
    token = CancelToken()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(token.wait)
            await anyio.to_thread.run_sync(token.cancel, "from a thread")
            await token.wait()
    assert token.reason == "from a thread"


@proves("CAN-3")
async def test_many_threads_may_cancel_at_once_while_scopes_come_and_go() -> None:
    for _ in range(20):
        token = CancelToken()
        barrier = threading.Barrier(4)

        def cancel(number: int, token: CancelToken = token, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(10)
            token.cancel(str(number))

        async def work(token: CancelToken = token) -> None:
            with token.scope():
                await anyio.sleep_forever()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(anyio.to_thread.run_sync, partial(cancel, number))
                group.start_soon(work)
                group.start_soon(anyio.to_thread.run_sync, barrier.wait, 10)
                while not token.cancelled:
                    group.start_soon(work)
                    await anyio.lowlevel.checkpoint()
                group.start_soon(work)
        assert token.reason in {"0", "1", "2"}


@proves("CAN-3")
def test_one_token_stops_runs_on_several_loops() -> None:
    token = CancelToken()
    ready = threading.Barrier(3)
    caught: list[str] = []

    async def run(backend: str) -> None:
        with anyio.fail_after(10), token.scope() as scope:
            await anyio.to_thread.run_sync(ready.wait, 10)
            await anyio.sleep_forever()
        if scope.cancelled_caught:
            caught.append(backend)

    threads = [
        threading.Thread(target=lambda name=name: anyio.run(run, name, backend=name)) for name in ("asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    ready.wait(10)
    token.cancel()
    for thread in threads:
        thread.join(10)
    assert sorted(caught) == ["asyncio", "trio"]


@proves("CAN-3")
async def test_a_cancel_in_a_signal_handler_stops_the_run() -> None:
    token = CancelToken()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: token.cancel("signal"))
    try:
        with anyio.fail_after(10), token.scope() as scope:
            signal.raise_signal(signal.SIGUSR1)
            await anyio.sleep_forever()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert scope.cancelled_caught


@proves("CAN-3")
def test_a_signal_handler_may_interrupt_the_token_itself() -> None:
    token = CancelToken()

    def interrupted() -> None:
        with token._lock:  # where the main thread is when the signal comes
            token.cancel("signal")

    in_thread(interrupted)
    assert token.cancelled


@proves("CAN-3")
async def test_a_cancel_while_a_scope_is_being_opened_is_not_lost() -> None:
    class Interrupting(dict[int, Callable[[], object]]):
        def __setitem__(self, key: int, value: Callable[[], object]) -> None:
            token.cancel()  # a signal handler, between any two steps
            super().__setitem__(key, value)

    token = CancelToken()
    token._callbacks = Interrupting()
    with anyio.fail_after(10), token.scope() as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


@proves("CAN-4")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_has_ended_does_not_hinder_the_others(backend: str) -> None:
    token = CancelToken()
    stranded: list[object] = []
    stopped = threading.Event()

    async def leave_open() -> None:
        subscription = token.subscribed(lambda: None)
        subscription.__enter__()
        stranded.append(subscription)

    async def wait(backend: str) -> None:
        with anyio.fail_after(10):
            await token.wait()
        stopped.set()

    anyio.run(leave_open, backend=backend)
    thread = threading.Thread(target=anyio.run, args=(wait, backend), kwargs={"backend": backend})
    thread.start()
    token.cancel()
    thread.join(10)
    assert stopped.is_set()


@proves("CAN-5")
async def test_a_finished_run_leaves_nothing_with_the_token() -> None:
    token = CancelToken()
    for _ in range(3):
        with token.scope():
            await anyio.lowlevel.checkpoint()
    with anyio.move_on_after(0):
        await token.wait()
    assert not token._callbacks


@proves("CAN-6")
async def test_waiting_ends_at_once_when_the_token_is_cancelled_already() -> None:
    token = CancelToken()
    token.cancel()
    with anyio.fail_after(10):
        await token.wait()


@proves("CAN-6")
async def test_cancelling_who_waits_does_not_cancel_the_token() -> None:
    token = CancelToken()
    with anyio.move_on_after(0) as scope:
        await token.wait()
    assert scope.cancelled_caught
    assert not token.cancelled


@proves("CAN-7")
async def test_a_cancellation_from_further_out_passes_through_the_scope_of_a_token() -> None:
    token = CancelToken()
    with anyio.CancelScope() as outer, token.scope() as scope:
        outer.cancel()
        await anyio.sleep_forever()
    assert outer.cancelled_caught
    assert not scope.cancelled_caught
    assert not token.cancelled


@asyncio_only
@proves("CAN-7")
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("with_token", [True, False])
async def test_a_native_cancellation_always_propagates(steps: int, with_token: bool) -> None:
    token = CancelToken()

    async def run() -> None:
        with token.scope():
            await anyio.sleep_forever()

    task = asyncio.ensure_future(run())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    if with_token:
        token.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@asyncio_only
@proves("CAN-7")
async def test_a_cancelled_scope_leaves_no_trace_in_the_task() -> None:
    token = CancelToken()
    with token.scope():
        token.cancel()
        await anyio.sleep_forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@proves("CAN-2")
@pytest.mark.parametrize("steps", range(6))
async def test_a_token_stops_work_with_children_at_any_moment(steps: int) -> None:
    token = CancelToken()
    left: list[str] = []

    async def child(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            left.append(name)

    async def run() -> None:
        with token.scope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(child, "a")
                group.start_soon(child, "b")
        assert scope.cancelled_caught

    async def later(act: Callable[[], object]) -> None:
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        act()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await later(token.cancel)
    assert len(left) in {0, 2}

"""An event loop in a thread of its own, for callers that have none or cannot wait in theirs.

Invariants: the thread never keeps the process alive; a call works from any thread, any number of times, also while
another event loop is running in the caller's thread, and never waits for itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ..errors import ConfigurationError

__all__ = ["LoopThread"]

sniffio: Any
try:
    import sniffio
except ModuleNotFoundError:  # then there is no trio either
    sniffio = None

R = TypeVar("R")

_CANCEL_TIMEOUT = 5.0
"""Seconds that an interrupted call, or the end of the loop, waits for what it has cancelled."""
_SIGNALS = 0.5
"""Seconds after which somebody who waits for a call looks whether a signal has come."""
_ROUNDS = 5
"""Times that the end of the loop looks for what is still running: what is cancelled may start something else."""
_STOPPED = "the orchestrator was closed while this call was going on"


class LoopThread:
    """Runs coroutines on its loop; the thread starts now, and ends with ``stop``."""

    def __init__(self) -> None:
        self._loop = _new_event_loop()
        self._calls: set[Future[Any]] = set()
        self._thread = threading.Thread(
            target=_main, args=(self._loop, self._calls), name="openmultiagent-sync", daemon=True
        )
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it runs: not after ``stop``, and not in a child process that was forked off."""
        return self._thread.is_alive() and not self._loop.is_closed()

    def check_caller(self, instead: str) -> None:
        """Refuse a call from the loop's own thread, which would wait for itself.

        Args:
            instead: What to write there.

        Raises:
            ConfigurationError: This is that thread.
        """
        if threading.current_thread() is self._thread:
            raise ConfigurationError(
                f"this code runs inside a synchronous call already and would wait for itself: use {instead}"
            )

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine with the caller's context variables, and wait for it.

        An exception that interrupts the waiting, such as ``KeyboardInterrupt``, cancels it first.

        Args:
            work: The coroutine.

        Raises:
            BaseException: Whatever it raises; a ``RuntimeError`` when the loop is stopped meanwhile.
        """
        outcome: Future[R] = Future()
        tasks: list[asyncio.Task[R]] = []
        # Waiting for the future itself is not safe to interrupt: its condition, which is written in Python, may be left
        # with its lock taken, or released twice.
        ended: SimpleQueue[None] = SimpleQueue()
        outcome.add_done_callback(lambda _: ended.put(None))
        self._calls.add(outcome)
        try:
            self._loop.call_soon_threadsafe(_begin, work, outcome, tasks, context=copy_context())
            _wait_for(ended)
            return outcome.result()
        except BaseException:
            if not outcome.done() and self.is_alive:
                self._loop.call_soon_threadsafe(_cancel_first, tasks)
                with suppress(Empty):
                    ended.get(timeout=_CANCEL_TIMEOUT)
            raise
        finally:
            self._calls.discard(outcome)
            if not tasks:
                work.close()  # it never began
            del outcome  # its exception refers to this frame

    def post(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a coroutine and do not wait for it.

        Args:
            work: Must not raise.
        """
        self._loop.call_soon_threadsafe(self._loop.create_task, work)

    def stop(self) -> None:
        """Cancel what is running and end the thread; waits for nothing, may be called again."""
        if self.is_alive:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread.

        Args:
            timeout: Seconds.
        """
        self._thread.join(timeout)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of the extra ``speed`` where it is installed and can be used."""
    try:
        for descriptor in range(3):
            os.fstat(descriptor)  # where one is closed, uvloop would get its number for its own, and abort the process
        loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    except (ModuleNotFoundError, OSError):
        return asyncio.new_event_loop()
    return loop


def _wait_for(ended: SimpleQueue[None]) -> None:
    while True:
        # A signal that comes when the wait is about to begin does not end it, and so would be seen after it only.
        with suppress(Empty):
            ended.get(timeout=_SIGNALS)
            return


def _begin(work: Coroutine[Any, Any, R], outcome: Future[R], tasks: list[asyncio.Task[R]]) -> None:
    if sniffio is not None:  # the caller's own loop may be one of trio
        sniffio.current_async_library_cvar.set("asyncio")
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(partial(_hand_over, outcome))
    tasks.append(task)


def _cancel_first(tasks: list[asyncio.Task[R]]) -> None:
    for task in tasks:
        task.cancel()


def _hand_over(outcome: Future[R], task: asyncio.Task[R]) -> None:
    if task.cancelled():
        outcome.set_exception(RuntimeError(_STOPPED))
        return
    error = task.exception()
    if error is None:
        outcome.set_result(task.result())
    else:
        outcome.set_exception(error)


def _main(loop: asyncio.AbstractEventLoop, calls: set[Future[Any]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_until_stopped(loop)
        loop.run_until_complete(_cancel_all())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        for outcome in list(calls):
            if not outcome.done():
                outcome.set_exception(RuntimeError(_STOPPED))


async def _cancel_all() -> None:
    me = asyncio.current_task()
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)  # a call may be about to begin
        tasks = asyncio.all_tasks() - {me}
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_CANCEL_TIMEOUT / _ROUNDS)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue  # asyncio lets it through here as well; it belongs to the caller, who gets it as the outcome
        return

"""What an orchestrator keeps between runs, from ``async with`` or its first synchronous call to ``aclose``.

Connections and toolsets belong to the event loops that opened them, so each is closed there, from whatever loop
``aclose`` is called on. Invariants: every wait is bounded; closing twice, or closing what was never opened, does
nothing; an orchestrator that is dropped, or still open when the process ends, closes its thread and its connections.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from .._detached import LoopHandle
from .._log import get_logger
from ..adapters import AdapterOwner
from ._execute import Machinery
from ._sync import LoopThread

__all__ = ["Lifetime"]

R = TypeVar("R")

_log = get_logger(__name__)

_RUNS_TIMEOUT = 10.0
"""Seconds that ``aclose`` waits for runs that are going on."""
_DRAIN_TIMEOUT = 10.0
"""Seconds that ``aclose`` gives to evaluations that are still queued."""
_CLOSE_TIMEOUT = 8.0
"""Seconds that connections and toolsets may take to close, on each event loop; they have bounds of their own within."""
_EXIT_TIMEOUT = 2.0
"""Seconds that the end of the process waits for connections of the thread."""


class Lifetime:
    """Opens and closes what belongs to an orchestrator.

    Args:
        machinery: It all.
    """

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._home: LoopHandle | None = None
        self._thread: LoopThread | None = None
        self._thread_home: LoopHandle | None = None
        self._release: weakref.finalize[..., Lifetime] | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    def enter(self) -> None:
        """Keep things between runs from now on; what needs an event loop belongs to the current one."""
        self._home = LoopHandle()
        self._is_closed = False
        self._open()
        self._machinery.toolsets.start()

    def run_sync(self, make: Callable[[], Coroutine[Any, Any, R]], *, instead: str) -> R:
        """Run a coroutine in the thread, which the first call starts, and wait for it.

        Args:
            make: Makes the coroutine, or raises, in the caller's thread.
            instead: What code inside such a call has to write.

        Raises:
            ConfigurationError: This is such code.
            BaseException: Whatever the coroutine raises.
        """
        thread = self._started()
        thread.check_caller(instead)
        return thread.run(make())

    async def aclose(self) -> None:
        """Wait for runs, drain and close everything, within bounds; a cancelled caller does not wait for runs."""
        self._is_closed = True
        machinery = self._machinery
        try:
            await self._wait_for_runs()
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await machinery.evaluation.aclose(_DRAIN_TIMEOUT)
            finally:
                try:
                    await machinery.progress.aclose()
                finally:
                    await self._close_loops()

    def aclose_sync(self) -> None:
        """Do the same, and wait for it; the thread does it if it was started, else an event loop made for this."""
        thread = self._thread
        if thread is None or not thread.is_alive:
            thread = LoopThread()
        thread.check_caller("await oma.aclose()")
        try:
            thread.run(self.aclose())
        finally:
            thread.stop()
            thread.join(_EXIT_TIMEOUT)

    async def _wait_for_runs(self) -> None:
        """Let the runs that are going on end while all that they use is still open; there may always be later ones."""
        activity = self._machinery.activity
        others = activity.others()
        try:
            with anyio.move_on_after(_RUNS_TIMEOUT):
                await activity.settled(others)
        finally:
            if others:
                _log.warning("runs_still_going", runs=len(others), seconds=_RUNS_TIMEOUT)

    async def _close_loops(self) -> None:
        with self._lock:
            home, self._home = self._home, None
            thread, self._thread = self._thread, None
            thread_home, self._thread_home = self._thread_home, None
            release, self._release = self._release, None
        if release is not None:
            release.detach()
        machinery = self._machinery
        toolsets_at = home or thread_home
        if toolsets_at is not None:
            await toolsets_at.run(machinery.toolsets.aclose, _CLOSE_TIMEOUT)
        for loop in (home, thread_home):
            if loop is not None and not loop.is_current:
                await loop.run(machinery.adapters.close_connections, _CLOSE_TIMEOUT)
        await machinery.adapters.aclose()
        if thread is not None and (thread_home is None or not thread_home.is_current):
            thread.stop()  # else the caller stops it: it waits for this

    def _open(self) -> None:
        machinery = self._machinery
        machinery.adapters.is_open = True
        machinery.progress.open()
        machinery.evaluation.open()

    def _started(self) -> LoopThread:
        with self._lock:
            if self._thread is None or not self._thread.is_alive:
                self._thread = thread = LoopThread()
                self._thread_home = thread.run(_handle_of_loop())
                self._release = weakref.finalize(self, _release, thread, self._machinery.adapters)
                if not self._is_closed:
                    self._open()
                    if self._home is None:
                        thread.run(_call(self._machinery.toolsets.start))
            return self._thread


async def _handle_of_loop() -> LoopHandle:
    return LoopHandle()


async def _call(function: Callable[[], object]) -> None:
    function()


def _release(thread: LoopThread, adapters: AdapterOwner) -> None:
    """Close a thread whose owner is gone; waits only at the end of the process, not inside the garbage collector."""
    if not thread.is_alive:
        return
    thread.post(_close_and_stop(thread, adapters))
    if not threading.main_thread().is_alive():
        thread.join(_EXIT_TIMEOUT)


async def _close_and_stop(thread: LoopThread, adapters: AdapterOwner) -> None:
    try:
        await adapters.aclose()
    finally:
        thread.stop()

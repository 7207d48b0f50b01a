"""One at a time, in order, over tasks, threads and event loops.

Not ``anyio.Lock``: that belongs to one event loop, and an agent may be used from several threads that run one each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

import anyio

from .._detached import loop_poster

__all__ = ["Turnstile"]


class Turnstile:
    """Lets one holder pass at a time; who waits is let through in the order of coming, or leaves when cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[Callable[[], None]] = deque()

    async def __aenter__(self) -> None:
        passed = anyio.Event()
        post = loop_poster()

        def let_pass() -> None:
            post(passed.set)

        with self._lock:
            if not self._taken:
                self._taken = True
                return
            self._waiting.append(let_pass)
        try:
            await passed.wait()
        except BaseException:
            self._leave(let_pass)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _leave(self, let_pass: Callable[[], None]) -> None:
        with self._lock:
            if let_pass in self._waiting:
                self._waiting.remove(let_pass)
                return
        self._release()  # it had been let through just then

    def _release(self) -> None:
        with self._lock:
            if not self._waiting:
                self._taken = False
                return
            following = self._waiting.popleft()
        following()

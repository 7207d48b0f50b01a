"""Asking a run to stop from outside, and still getting its result.

Not the native cancellation of a task, which always propagates: a run whose *token* is cancelled returns a result with
status ``cancelled``, its usage and a closed history.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio import CancelScope

from ._detached import loop_poster
from .errors import ConfigurationError

__all__ = ["CancelToken", "check_cancel"]


class CancelToken:
    """A switch that stops the runs it is passed to (``cancel=``).

    It can be made outside an event loop, used for several runs, and cancelled from any thread or signal handler at any
    time; what comes first counts, later calls do nothing.
    """

    def __init__(self) -> None:
        # Re-entrant: a signal handler may interrupt the thread that holds it, and call `cancel`.
        self._lock = threading.RLock()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next_key = 0
        self._cancelled = False
        self._reason: str | None = None

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` has been called."""
        return self._cancelled

    @property
    def reason(self) -> str | None:
        """The reason that the first ``cancel`` gave."""
        return self._reason

    def cancel(self, reason: str | None = None) -> None:
        """Ask every run that was given this token to stop.

        Args:
            reason: Becomes the message of the runs' status.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled, self._reason = True, reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()

    async def wait(self) -> None:
        """Wait until ``cancel`` is called."""
        event = anyio.Event()
        with self.subscribed(event.set):
            await event.wait()

    @contextmanager
    def scope(self) -> Iterator[CancelScope]:
        """Open a cancel scope that ``cancel`` cancels; ``cancelled_caught`` says whether it stopped something."""
        with CancelScope() as scope, self.subscribed(scope.cancel):
            yield scope

    @contextmanager
    def subscribed(self, function: Callable[[], object]) -> Iterator[None]:
        """Have a plain function called, on the current loop, when ``cancel`` is called; at once if it has been.

        Args:
            function: Must not raise or block, and may be called twice.
        """
        post = loop_poster()
        with self._lock:
            key, self._next_key = self._next_key, self._next_key + 1
            self._callbacks[key] = lambda: post(function)
        if self._cancelled:  # asked last: `cancel` may have come at any moment, and twice does no harm
            function()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.pop(key, None)


def check_cancel(cancel: object) -> None:
    """Refuse what is given as ``cancel=`` and is no token.

    Args:
        cancel: The argument; None is fine.

    Raises:
        ConfigurationError: It is something else.
    """
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise ConfigurationError(f"cancel must be a CancelToken, got {type(cancel).__name__}")

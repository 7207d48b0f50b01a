"""The only place that starts work outside a task group, and the posting of calls to a loop from anywhere.

A stream's runner and an orchestrator's background work outlive the scope that starts them: a consumer may take a stream
from one task and leave it in another, or drop it. Such work is one ``Detached`` task with a cancel scope of its own.
Invariants: a detached task never refers to the object that its user holds, so dropping that object can cancel it; its
failure is kept and never lost in the loop; a module-level set keeps it alive, since asyncio itself holds tasks only
weakly.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio import CancelScope, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import current_token

__all__ = ["Detached", "LoopHandle", "Signal", "cancelled_from_outside", "loop_poster"]

T = TypeVar("T")

_LIVE: set[Detached[Any]] = set()


def loop_poster() -> Callable[[Callable[[], object]], bool]:
    """Return a function that has a plain function called by the current loop, from any thread, at any time.

    What is posted after the loop has ended is dropped: there is nobody left to tell. It returns whether that is not so.
    """
    native: Any = current_token().native_token
    schedule = native.call_soon_threadsafe if isinstance(native, asyncio.AbstractEventLoop) else native.run_sync_soon

    def post(function: Callable[[], object]) -> bool:
        try:
            schedule(function)
        except RuntimeError:  # asyncio: closed loop; trio: RunFinishedError is one
            return False
        return True

    return post


def cancelled_from_outside() -> bool:
    """Say whether a cancellation that was just caught is meant for this task, or came out of what it was awaiting."""
    if current_effective_deadline() == -math.inf:  # a scope around here is cancelled
        return True
    if not isinstance(current_token().native_token, asyncio.AbstractEventLoop):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Signal:
    """Wakes whoever waits for something to become true, on any event loop, from any thread.

    It remembers nothing: what became true says so itself.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[object, Callable[[], object]] = {}

    def notify(self) -> None:
        """Have everybody who waits look again; also from signal handlers and ``__del__``."""
        if self._waiting:
            for wake in list(self._waiting.values()):
                wake()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds.

        Args:
            condition: Asked now and at every ``notify``; whoever makes it true calls that afterwards.
        """
        post, key = loop_poster(), object()
        try:
            while True:
                event = anyio.Event()
                # Before it is asked: a `notify` that comes right after that must not be lost.
                self._waiting[key] = partial(post, event.set)
                if condition():
                    return
                await event.wait()
        finally:
            self._waiting.pop(key, None)


class Detached(Generic[T]):
    """A task that no task group holds.

    Args:
        main: The coroutine function to run. It must not refer to the object that owns this task.
        context: The context variables that it sees, in a copy; the current ones unless given.
    """

    def __init__(self, main: Callable[[], Awaitable[T]], *, context: Context | None = None) -> None:
        self._main = main
        self._context = copy_context() if context is None else context
        self._scope: CancelScope | None = None
        self._post: Callable[[Callable[[], object]], bool] | None = None
        self._on_finish: list[Callable[[], object]] = []
        self._ended = Signal()
        self._done = False
        self.result: T | None = None
        """What ``main`` returned."""
        self.error: BaseException | None = None
        """What ``main`` raised."""

    @property
    def done(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self._done

    def start(self) -> None:
        """Start the task on the current event loop."""
        self._scope = CancelScope()
        self._post = loop_poster()
        _LIVE.add(self)
        with ExitStack() as undo:
            undo.callback(_LIVE.discard, self)  # where no task can be made, none would do so
            self._spawn(current_token().native_token)
            undo.pop_all()

    def _spawn(self, native: object) -> None:
        if isinstance(native, asyncio.AbstractEventLoop):
            task = self._context.run(native.create_task, self._run())
            # A task that is cancelled before its first step never enters `_run`.
            task.add_done_callback(lambda _task: self._finish())
        else:
            import trio  # noqa: PLC0415 - trio is optional; here it is the running loop

            trio.lowlevel.spawn_system_task(self._run, context=self._context.copy())

    def on_finish(self, function: Callable[[], object]) -> None:
        """Have a plain function called, on the loop, when the task ends; at once if it has ended.

        Args:
            function: Must not raise or block.
        """
        if self.done:
            function()
        else:
            self._on_finish.append(function)

    async def wait(self) -> None:
        """Wait until the task has ended, on whatever event loop."""
        if self._post is not None:
            await self._ended.until(lambda: self._done)

    def cancel(self) -> None:
        """Ask the task to stop; from any thread, also from ``__del__``; harmless when it has ended."""
        if self._post is not None and self._scope is not None and not self.done:
            self._post(self._scope.cancel)

    async def _run(self) -> None:
        assert self._scope is not None  # noqa: S101 - `start` has made it
        try:
            with self._scope:
                self.result = await self._main()
        except get_cancelled_exc_class() as error:
            if cancelled_from_outside():
                raise
            self.error = RuntimeError("the work was cancelled by something that it uses, not by its owner")
            self.error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - isolation boundary: the owner reads `error`
            self.error = error
        finally:
            self._finish()

    def _finish(self) -> None:
        if self not in _LIVE:
            return
        _LIVE.discard(self)
        self._done = True
        self._ended.notify()
        while self._on_finish:
            self._on_finish.pop()()


class LoopHandle:
    """The event loop that is running where this is made, to have something done there from anywhere."""

    def __init__(self) -> None:
        self._native: Any = current_token().native_token
        self._post = loop_poster()

    @property
    def is_current(self) -> bool:
        """Whether it is the loop that is running here."""
        return self._native is current_token().native_token

    async def run(self, work: Callable[[], Coroutine[Any, Any, object]], timeout: float) -> bool:  # noqa: ASYNC109 - bounds both loops
        """Do something on the loop, shielded, and return whether it was done in time.

        On a loop that has ended, or stands still, nothing is done.

        Args:
            work: Must not raise.
            timeout: Seconds.
        """
        if self.is_current:
            return await _within(work, timeout)
        native = self._native
        if isinstance(native, asyncio.AbstractEventLoop) and not native.is_running():
            return False
        done: list[bool] = []
        changed = Signal()

        async def there() -> None:
            try:
                done.append(await _within(work, timeout))
            finally:
                changed.notify()

        def begin() -> None:
            if isinstance(native, asyncio.AbstractEventLoop):
                tasks.append(Context().run(native.create_task, there()))  # ours says which library we run on
            else:
                import trio  # noqa: PLC0415 - trio is optional; here it is the loop's own library

                trio.lowlevel.spawn_system_task(there, context=Context())

        tasks: list[object] = []  # asyncio holds tasks only weakly
        if not self._post(begin):
            return False
        with anyio.move_on_after(timeout, shield=True):
            await changed.until(lambda: done)
        return done == [True]


async def _within(work: Callable[[], Awaitable[object]], timeout: float) -> bool:  # noqa: ASYNC109 - shielded, too
    with anyio.move_on_after(timeout, shield=True):
        await work()
        return True
    return False

"""Progress events and the bus that tells a run's listeners about them.

Events only tell: nothing that a listener does can fail, delay or alter a run. Every listener gets an event of its own,
whose payload is copied when it is first read, so that who does not look pays nothing. ``EventBus.emit`` is synchronous
and total: it never raises and never waits. Not here: which events there are (the parts that emit them declare them).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Sized
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import anyio

from ._detached import Detached, Signal, cancelled_from_outside
from ._log import get_logger
from .outcome import describe_error

__all__ = ["Event", "EventBus", "EventHub", "EventListener", "is_async_listener"]

D = TypeVar("D")

_log = get_logger(__name__)

_EPOCH = datetime.fromtimestamp(0, UTC)
_QUEUE_LENGTH = 1024
_GRACE = 1.0
"""Seconds that async listeners have after the last event of a run."""
_LAST_CHANCE = 0.1
"""Seconds that a cancelled listener has to clean up before nobody waits for it any longer."""
_SLOW_LISTENER = 0.1
"""Seconds in a synchronous listener after which a line is logged, once a run: it blocks the event loop."""


class Event(Generic[D]):
    """Something that happened in a run.

    Args:
        payload: What ``data`` shows; the sender does not change it any more.
        agent: Name of the agent that it is about.
        task: Id of the task that it is about, if any.
        copy: Makes an independent copy of the payload.
        is_own: Whether nobody else holds the payload, so that a single receiver can have it as it is.
    """

    type: ClassVar[str] = "event"
    """Wire name of the kind of event."""

    __slots__ = ("_copy", "_data", "_is_own", "_payload", "_time", "agent", "run_id", "sequence", "task")

    def __init__(
        self,
        payload: D,
        agent: str | None = None,
        task: str | None = None,
        copy: Callable[[D], D] | None = None,
        is_own: bool = False,  # noqa: FBT001, FBT002 - by position it is twice as quick
    ) -> None:
        self.agent = agent
        self.task = task
        self.run_id = ""
        """The run, set by the bus."""
        self.sequence = 0
        """Position in the run, from 1, set by the bus."""
        self._time = time.time_ns()
        self._payload = payload
        self._copy = copy
        self._is_own = is_own

    @property
    def data(self) -> D:
        """The payload: this event's own copy, made when it is first read."""
        try:
            return self._data  # type: ignore[has-type,no-any-return]
        except AttributeError:
            self._data = self._payload if self._copy is None else self._copy(self._payload)
            return self._data

    @property
    def timestamp(self) -> datetime:
        """When it happened, in UTC."""
        return _EPOCH + timedelta(microseconds=self._time // 1000)

    def fork(self) -> Event[D]:
        """Return an event of the same content that shares no payload with this one."""
        other = object.__new__(type(self))
        other.agent, other.task = self.agent, self.task
        other.run_id, other.sequence, other._time = self.run_id, self.sequence, self._time
        other._payload, other._copy, other._is_own = self._payload, self._copy, False
        return other

    def for_one(self) -> Event[D]:
        """Return the event for its only receiver, which is itself when its payload is nobody else's."""
        if not self._is_own:
            return self.fork()
        self._data = self._payload
        return self

    def __repr__(self) -> str:
        where = "".join(f" {key}={value!r}" for key, value in (("agent", self.agent), ("task", self.task)) if value)
        return f"<{type(self).__name__} #{self.sequence}{where} run_id={self.run_id!r}>"


EventListener = Callable[[Any], object]
"""A plain or async callable that is told of every event."""


class EventHub(Protocol):
    """Who else is told of the events of a run, besides its listeners; ``EventBus`` calls it on the run's thread."""

    @property
    def readers(self) -> Sized:
        """Whoever would read an event now: always the same container, empty while there is nobody."""
        ...

    def tell(self, event: Event[Any]) -> None:
        """Pass an event on.

        Args:
            event: It belongs to the run: a reader gets a fork.
        """
        ...

    def end(self, run_id: str) -> None:
        """Say that a run has no more events.

        Args:
            run_id: The run.
        """
        ...

    def count_dropped(self, count: int) -> None:
        """Count events that a listener was too slow for.

        Args:
            count: How many.
        """
        ...

    def leave_out(self, listener: EventListener) -> None:
        """Tell a listener nothing more in later runs.

        Args:
            listener: It swallows its cancellation, so every call of it would stay behind.
        """
        ...


class _Subscription:
    """One listener during one run."""

    __slots__ = ("call", "dropped", "failed", "keeper", "listener", "pending", "reported_slow", "wake")

    def __init__(self, listener: EventListener) -> None:
        self.listener = listener
        self.pending: deque[Awaitable[object]] | None = None
        """What the listener has returned that is to be awaited; most return nothing."""
        self.wake: anyio.Event | None = None
        self.call: anyio.CancelScope | None = None
        """Around the call that an async listener is in."""
        self.keeper: Detached[None] | None = None
        """Stays with a call that was given up."""
        self.dropped = 0
        self.failed = False
        self.reported_slow = False

    def leave_out(self) -> None:
        self.failed = True
        self.discard()

    def discard(self) -> int:
        left = 0 if self.pending is None else len(self.pending)
        while self.pending:
            returned = self.pending.popleft()
            if isinstance(returned, Coroutine):
                returned.close()  # dropped unclosed, it would warn that it was never awaited
        return left


_NEVER = Signal()
"""Of all runs whose listeners return nothing to be awaited: nobody serves them, and so nobody waits for that."""


class EventBus:
    """The events of one run, on their way to its listeners.

    Every listener is called in place. When it returns an awaitable, that is put in a queue of its own, at most 1,024
    long, which ``serve`` works off in order; what does not fit is dropped and counted. A listener that raises is logged
    and left out for the rest of the run.

    Args:
        run_id: The run.
        listeners: Who is told, in this order.
        are_async: What ``is_async_listener`` says about each, if that is known: finding it out takes its time.
        hub: Who else is told, after them.
    """

    __slots__ = (
        "_closed",
        "_closing",
        "_hub",
        "_idle",
        "_is_served",
        "_logged_dropped",
        "_sequence",
        "_served",
        "_subscriptions",
        "_working",
        "has_subscriptions",
        "needs_service",
        "readers",
        "run_id",
    )

    def __init__(
        self,
        run_id: str,
        listeners: Sequence[EventListener] = (),
        are_async: Sequence[bool] | None = None,
        hub: EventHub | None = None,
    ) -> None:
        self.run_id = run_id
        self._subscriptions: Sequence[_Subscription] = ()
        self.has_subscriptions = bool(listeners)
        """Whether the run has listeners of its own, besides the readers of the hub."""
        self.needs_service = False
        """Whether somebody has to run ``serve``: a listener is async, or has returned an awaitable."""
        if listeners:
            known = [is_async_listener(item) for item in listeners] if are_async is None else are_async
            self._subscriptions = list(map(_Subscription, listeners))
            self.needs_service = True in known
        self._hub = hub
        self.readers: Sized = () if hub is None else hub.readers
        """The readers of the hub: a container that is empty while there are none."""
        self._sequence = 0
        self._closing: anyio.Event | None = None
        self._closed = False
        self._working = 0
        self._idle: anyio.Event | None = None
        self._served = Signal() if self.needs_service else _NEVER
        self._is_served = False
        self._logged_dropped = 0

    @property
    def has_listeners(self) -> bool:
        """Whether anybody is told."""
        return bool(self._subscriptions or self.readers)

    @property
    def dropped(self) -> int:
        """Events that an async listener was too slow for."""
        return sum(item.dropped for item in self._subscriptions)

    def emit(self, event: Event[Any]) -> None:
        """Tell every listener; never raises, never waits.

        Args:
            event: Its run id and sequence number are set here.
        """
        self._sequence += 1
        event.run_id, event.sequence = self.run_id, self._sequence
        has_readers = bool(self.readers)
        is_alone = len(self._subscriptions) == 1 and not has_readers
        for subscription in self._subscriptions:
            if subscription.failed:
                continue
            if subscription.pending is not None and len(subscription.pending) >= _QUEUE_LENGTH:
                subscription.dropped += 1
                if self._hub is not None:
                    self._hub.count_dropped(1)
            else:
                self._call(subscription, event.for_one() if is_alone else event.fork())
        if self._hub is not None and has_readers:
            self._hub.tell(event)

    def skip(self) -> None:
        """Count an event that nobody would have seen, so that later ones have their number."""
        self._sequence += 1

    def close(self) -> None:
        """Say that no event follows, so that ``serve`` ends."""
        if self._closed:
            return
        self._closed = True
        if self._closing is not None:
            self._closing.set()
        if self._is_served:  # the service was cancelled, and more came
            self._drop_what_waits()
        if self._hub is not None and self.readers:
            self._hub.end(self.run_id)

    async def serve(self, grace: float | None = None) -> None:
        """Work off the queues of the async listeners, side by side, until the bus is closed and they are empty.

        Made for a task of its own, which may outlive the run: a listener that swallows its cancellation holds this
        call for ever, but not ``served``.

        Args:
            grace: Seconds that the listeners have together after ``close``; one unless given.
        """
        try:
            await self._serve(_GRACE if grace is None else grace)
        finally:
            self.release()

    async def served(self) -> None:
        """Wait until ``serve`` has ended, or has given up what is left."""
        await self._served.until(lambda: self._is_served)

    def release(self) -> None:
        """Drop what waits for async listeners, and end ``served``: nobody serves, or nobody does any longer."""
        self._drop_what_waits()
        self._is_served, self.needs_service = True, False
        self._served.notify()

    async def _serve(self, grace: float) -> None:
        self._working, self._idle, self._closing = len(self._subscriptions), anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as group:
            for subscription in self._subscriptions:
                group.start_soon(self._work_off, subscription)
            try:
                if not self._closed:
                    await self._closing.wait()
                for subscription in self._subscriptions:
                    if subscription.wake is not None:
                        subscription.wake.set()
                with anyio.move_on_after(grace):
                    await self._idle.wait()
            finally:
                group.cancel_scope.cancel()
                if self._working:
                    await self._give_up()

    async def _give_up(self) -> None:
        """Let the cancelled listeners end; what does not end is left alone, for good."""
        assert self._idle is not None  # noqa: S101 - `_serve` has made it
        with anyio.move_on_after(_LAST_CHANCE, shield=True):
            await self._idle.wait()
        self._drop_what_waits(cancelled=True)
        for subscription in self._subscriptions:
            if subscription.call is not None:
                subscription.failed = True
                # A cancellation that is not obeyed is repeated at every step, and that fight keeps the CPU busy.
                subscription.call.shield = True
                subscription.keeper = Detached(partial(_expose_at_the_end, subscription.call))
                subscription.keeper.start()
                _log.error("event_listener_stuck", run_id=self.run_id, listener=_name(subscription.listener))
                if self._hub is not None:
                    self._hub.leave_out(subscription.listener)
        self.release()

    def _drop_what_waits(self, *, cancelled: bool = False) -> None:
        unfinished = sum(subscription.discard() for subscription in self._subscriptions)
        if self._hub is not None and unfinished:
            self._hub.count_dropped(unfinished)
        dropped, self._logged_dropped = self.dropped - self._logged_dropped, self.dropped
        if cancelled or unfinished or dropped:
            _log.warning("event_listener_too_slow", run_id=self.run_id, unfinished=unfinished, dropped=dropped)

    def _call(self, subscription: _Subscription, event: Event[Any]) -> None:
        started = time.perf_counter()
        try:
            returned = subscription.listener(event)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: a listener cannot fail a run
            self._report(subscription, event.type, error)
            return
        elapsed = time.perf_counter() - started
        if elapsed > _SLOW_LISTENER and not subscription.reported_slow:
            subscription.reported_slow = True
            _log.warning(
                "event_listener_blocks",
                run_id=self.run_id,
                event_type=event.type,
                listener=_name(subscription.listener),
                seconds=round(elapsed, 3),
            )
        if returned is not None and inspect.isawaitable(returned):
            if subscription.pending is None:
                subscription.pending = deque()
            subscription.pending.append(returned)
            self.needs_service = True
            if self._served is _NEVER:
                self._served = Signal()
            if subscription.wake is not None:
                subscription.wake.set()

    async def _work_off(self, subscription: _Subscription) -> None:
        try:
            while True:
                while subscription.pending:
                    await self._finish(subscription, subscription.pending.popleft())
                if self._closed:
                    return
                subscription.wake = anyio.Event()
                await subscription.wake.wait()
        finally:
            assert self._idle is not None  # noqa: S101 - `_serve` has made it
            self._working -= 1
            if not self._working:
                self._idle.set()

    async def _finish(self, subscription: _Subscription, returned: Awaitable[object]) -> None:
        try:
            with anyio.CancelScope() as subscription.call:
                await returned
        except Exception as error:  # noqa: BLE001 - isolation boundary: a listener cannot fail a run
            self._report(subscription, "async", error)
        except (KeyboardInterrupt, SystemExit) as error:
            # In a group: asyncio lets the bare ones out of its loop at once, past everybody who cleans up.
            raise BaseExceptionGroup("a listener ends the process", [error]) from None
        except BaseExceptionGroup as group:  # holds a cancellation, or the end of the process
            if group.subgroup((KeyboardInterrupt, SystemExit)) is not None:
                raise
            self._report(subscription, "async", group)
        except anyio.get_cancelled_exc_class() as error:
            if cancelled_from_outside():
                raise
            self._report(subscription, "async", error)
        finally:
            subscription.call = None
            if subscription.keeper is not None:
                subscription.keeper.cancel()

    def _report(self, subscription: _Subscription, event_type: str, error: BaseException) -> None:
        subscription.leave_out()
        _log.warning(
            "event_listener_failed",
            run_id=self.run_id,
            event_type=event_type,
            listener=_name(subscription.listener),
            error=describe_error(error),
        )


async def _expose_at_the_end(call: anyio.CancelScope) -> None:
    """Take the shield from a call when the event loop ends, which waits for every task that it cancels."""
    try:
        await anyio.sleep_forever()
    finally:
        call.shield = False


def is_async_listener(listener: EventListener) -> bool:
    """Say whether a listener is a coroutine function, or an object that is called like one.

    Args:
        listener: The listener.
    """
    function = _without_partials(listener)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - its kind matters, not whether it is callable


def _name(listener: EventListener) -> str:
    """Return a name for log lines; not its ``repr``, which may be long, and may fail."""
    function = _without_partials(listener)
    named: Any = function if inspect.isroutine(function) else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _without_partials(listener: EventListener) -> EventListener:
    while isinstance(listener, partial):
        listener = listener.func
    return listener

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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import anyio

from ._detached import cancelled_from_outside
from ._log import get_logger
from .outcome import describe_error

__all__ = ["Event", "EventBus", "EventListener"]

D = TypeVar("D")

_log = get_logger(__name__)

_QUEUE_LENGTH = 1024
_GRACE = 1.0
"""Seconds that async listeners have after the last event of a run."""
_SLOW_LISTENER = 0.1
"""Seconds in a synchronous listener after which a line is logged, once a run: it blocks the event loop."""


class Event(Generic[D]):
    """Something that happened in a run.

    Args:
        agent: Name of the agent that it is about.
        task: Id of the task that it is about, if any.
        payload: What ``data`` shows; the sender does not change it any more.
        copy: Makes an independent copy of the payload.
    """

    type: ClassVar[str] = "event"
    """Wire name of the kind of event."""

    __slots__ = ("_copy", "_data", "_payload", "agent", "run_id", "sequence", "task", "timestamp")

    def __init__(
        self, *, agent: str | None = None, task: str | None = None, payload: D, copy: Callable[[D], D] | None = None
    ) -> None:
        self.agent = agent
        self.task = task
        self.run_id = ""
        """The run, set by the bus."""
        self.sequence = 0
        """Position in the run, from 1, set by the bus."""
        self.timestamp = datetime.now(UTC)
        self._payload = payload
        self._copy = copy

    @property
    def data(self) -> D:
        """The payload: this event's own copy, made when it is first read."""
        try:
            return self._data  # type: ignore[has-type,no-any-return]
        except AttributeError:
            self._data = self._payload if self._copy is None else self._copy(self._payload)
            return self._data

    def fork(self) -> Event[D]:
        """Return an event of the same content that shares no payload with this one."""
        other = object.__new__(type(self))
        for name in ("agent", "task", "run_id", "sequence", "timestamp", "_payload", "_copy"):
            setattr(other, name, getattr(self, name))
        return other

    def __repr__(self) -> str:
        where = "".join(f" {key}={value!r}" for key, value in (("agent", self.agent), ("task", self.task)) if value)
        return f"<{type(self).__name__} #{self.sequence}{where} run_id={self.run_id!r}>"


EventListener = Callable[[Any], object]
"""A plain or async callable that is told of every event."""


class _Subscription:
    """One listener during one run."""

    __slots__ = ("dropped", "failed", "listener", "pending", "reported_slow", "wake")

    def __init__(self, listener: EventListener) -> None:
        self.listener = listener
        self.pending: deque[Awaitable[object]] = deque()
        self.wake: anyio.Event | None = None
        self.dropped = 0
        self.failed = False
        self.reported_slow = False

    def leave_out(self) -> None:
        self.failed = True
        self.discard()

    def discard(self) -> int:
        left = len(self.pending)
        while self.pending:
            returned = self.pending.popleft()
            if isinstance(returned, Coroutine):
                returned.close()  # dropped unclosed, it would warn that it was never awaited
        return left


class EventBus:
    """The events of one run, on their way to its listeners.

    Every listener is called in place. When it returns an awaitable, that is put in a queue of its own, at most 1,024
    long, which ``serve`` works off in order; what does not fit is dropped and counted. A listener that raises is logged
    and left out for the rest of the run.

    Args:
        run_id: The run.
        listeners: Who is told, in this order.
    """

    def __init__(self, run_id: str, listeners: Sequence[EventListener] = ()) -> None:
        self.run_id = run_id
        self._subscriptions = [_Subscription(listener) for listener in listeners]
        self._sequence = 0
        self._closing: anyio.Event | None = None
        self._closed = False

    @property
    def has_listeners(self) -> bool:
        """Whether anybody is told."""
        return bool(self._subscriptions)

    @property
    def needs_service(self) -> bool:
        """Whether somebody has to run ``serve``: a listener is async, or has returned an awaitable."""
        return any(item.pending or _is_async(item.listener) for item in self._subscriptions)

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
        for subscription in self._subscriptions:
            if subscription.failed:
                continue
            if len(subscription.pending) >= _QUEUE_LENGTH:
                subscription.dropped += 1
            else:
                self._call(subscription, event.fork())

    def close(self) -> None:
        """Say that no event follows, so that ``serve`` ends."""
        self._closed = True
        if self._closing is not None:
            self._closing.set()

    async def serve(self) -> None:
        """Work off the queues of the async listeners, side by side, until the bus is closed and they are empty.

        After ``close`` the listeners have one second together; shielded, so that a cancelled run still tells its end.
        """
        scope = anyio.CancelScope(shield=True)
        try:
            with scope:
                await self._serve(scope)
        finally:  # a native cancellation on asyncio goes through the shield
            unfinished = sum(subscription.discard() for subscription in self._subscriptions)
            if scope.cancelled_caught or unfinished or self.dropped:
                _log.warning("event_listener_too_slow", run_id=self.run_id, unfinished=unfinished, dropped=self.dropped)

    async def _serve(self, scope: anyio.CancelScope) -> None:
        async with anyio.create_task_group() as group:
            for subscription in self._subscriptions:
                group.start_soon(self._work_off, subscription)
            if not self._closed:
                self._closing = anyio.Event()
                await self._closing.wait()
            for subscription in self._subscriptions:
                if subscription.wake is not None:
                    subscription.wake.set()
            scope.deadline = anyio.current_time() + _GRACE

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
        if inspect.isawaitable(returned):
            subscription.pending.append(returned)
            if subscription.wake is not None:
                subscription.wake.set()

    async def _work_off(self, subscription: _Subscription) -> None:
        while True:
            while subscription.pending:
                try:
                    await subscription.pending.popleft()
                except Exception as error:  # noqa: BLE001 - isolation boundary: a listener cannot fail a run
                    self._report(subscription, "async", error)
                except BaseExceptionGroup as group:  # holds a cancellation, or the end of the process
                    if group.subgroup((KeyboardInterrupt, SystemExit)) is not None:
                        raise
                    self._report(subscription, "async", group)
                except anyio.get_cancelled_exc_class() as error:
                    if cancelled_from_outside():
                        raise
                    self._report(subscription, "async", error)
            if self._closed:
                return
            subscription.wake = anyio.Event()
            await subscription.wake.wait()

    def _report(self, subscription: _Subscription, event_type: str, error: BaseException) -> None:
        subscription.leave_out()
        _log.warning(
            "event_listener_failed",
            run_id=self.run_id,
            event_type=event_type,
            listener=_name(subscription.listener),
            error=describe_error(error),
        )


def _is_async(listener: EventListener) -> bool:
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

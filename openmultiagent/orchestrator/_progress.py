"""Who is told what the runs of an orchestrator are doing, and who serves the listeners that are async.

Invariant: no listener holds a run for longer than its grace, and inside ``async with`` not at all, whatever it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from .._detached import Detached
from ..events import Event, EventBus, EventListener, is_async_listener
from ._event_stream import EventReaders, EventStream

__all__ = ["Progress"]

_OWNED_GRACE = 10.0
"""Seconds that async listeners have after the last event of a run that does not wait for them."""
_CROWD = 64
"""Runs whose async listeners are served beside them, beyond which every run that ends lets others go on for a step."""
_CLOSE_GRACE = 1.0
"""Seconds that ``aclose`` waits for async listeners, and again when it has cancelled them."""


class Progress:
    """The listeners of an orchestrator and the readers of its events; an ``EventHub`` for the runs.

    Args:
        listeners: Told of every event, in this order.
    """

    def __init__(self, listeners: Sequence[EventListener]) -> None:
        self._known = _known(listeners)
        self._readers = EventReaders()
        self.readers = self._readers.mailboxes
        """Whoever would read an event now."""
        self._services: dict[Detached[None], EventBus] = {}
        self.exits: list[BaseException] = []
        """What listeners raised to end the process: in tasks of their own nobody would notice."""
        self.is_owned = False
        """Whether async listeners are served beside the runs, which then do not wait for them."""

    @property
    def dropped(self) -> int:
        """Events that async listeners and readers were too slow for."""
        return self._readers.dropped

    def tell(self, event: Event[Any]) -> None:
        """Pass an event on to its readers.

        Args:
            event: The event.
        """
        self._readers.tell(event)

    def end(self, run_id: str) -> None:
        """Say that a run has no more events.

        Args:
            run_id: The run.
        """
        self._readers.end(run_id)

    def count_dropped(self, count: int) -> None:
        """Count events that a listener was too slow for.

        Args:
            count: How many.
        """
        self._readers.count_dropped(count)

    def leave_out(self, listener: EventListener) -> None:
        """Tell a listener nothing more in later runs.

        Args:
            listener: It is compared by identity.
        """
        self._known = _known([item for item in self._known[0] if item is not listener])

    def bus(self, run_id: str, *further: EventListener) -> EventBus:
        """Return the bus of a new run.

        Args:
            run_id: The run.
            further: Who else is told of this run.
        """
        listeners, are_async = self._known
        if further:
            listeners, are_async = _known([*listeners, *further])
        return EventBus(run_id, listeners, are_async, self)

    def stream(self, run_id: str | None) -> EventStream:
        """Return the events from now on.

        Args:
            run_id: The only run that is of interest, or None.
        """
        return EventStream(self._readers, run_id)

    def serve(self, bus: EventBus, *, waits: bool) -> None:
        """Start to serve the async listeners of a run, in a task beside it.

        Args:
            bus: The run's events.
            waits: Whether the run waits for them at its end.
        """
        service = Detached(partial(bus.serve, None if waits else _OWNED_GRACE))
        service.start()
        self._services[service] = bus
        service.on_finish(partial(self._finish, bus, service))

    async def settle(self, bus: EventBus, *, waits: bool, is_served: bool) -> None:
        """Have a run that has ended wait for its async listeners, if it does.

        Args:
            bus: The run's events, closed.
            waits: Whether the run was to wait for them when it began.
            is_served: Whether somebody serves the listeners already.

        Raises:
            BaseException: What a listener raised to end the process.
        """
        if not is_served and bus.needs_service:  # a listener that looks plain has returned an awaitable
            waits = waits or not self.is_owned  # nobody else would wait for it any more
            self.serve(bus, waits=waits)
        if waits:
            with anyio.CancelScope(shield=True):  # the service ends itself
                await bus.served()
        elif len(self._services) > _CROWD:  # runs that never wait themselves would let no listener go on
            await cancel_shielded_checkpoint()
        if self.exits:
            self._raise_exits()

    def open(self) -> None:
        """Serve async listeners beside the runs, until ``aclose``."""
        self.is_owned = True
        self._readers.is_closed = False

    async def aclose(self) -> None:
        """End all event streams, and give the async listeners a second to end."""
        self.is_owned = False
        self._readers.close()
        services = list(self._services.items())
        await _all_served([bus for _service, bus in services])
        for service, _bus in services:
            service.cancel()
        await _all_served([bus for _service, bus in services])
        self._raise_exits()

    def _finish(self, bus: EventBus, service: Detached[None]) -> None:
        self._services.pop(service, None)
        if service.error is not None:
            self.exits.append(service.error)
        bus.release()

    def _raise_exits(self) -> None:
        if self.exits:
            raise _exit_in(self.exits.pop())


def _known(listeners: Sequence[EventListener]) -> tuple[tuple[EventListener, ...], tuple[bool, ...]]:
    """Return listeners, and which of them are async; in one value, since runs on other threads read it."""
    return tuple(listeners), tuple(map(is_async_listener, listeners))


async def _all_served(buses: Sequence[EventBus]) -> None:
    with anyio.move_on_after(_CLOSE_GRACE, shield=True):
        for bus in buses:
            await bus.served()


def _exit_in(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        found = error.subgroup((KeyboardInterrupt, SystemExit))
        error = (error if found is None else found).exceptions[0]
    return error

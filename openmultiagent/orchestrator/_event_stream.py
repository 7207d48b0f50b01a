"""The progress events of an orchestrator's runs, for consumers that iterate them.

A reader has a bounded mailbox and may be on another event loop than the run. Invariants: telling readers never waits
and never fails; a reader that is dropped, left or closed leaves nothing behind; without readers nothing is computed.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Any, Self

from anyio.lowlevel import checkpoint

from .._detached import Signal
from ..events import Event

__all__ = ["EventReaders", "EventStream"]

_MAILBOX = 1024
"""Events that may wait for a reader. Then the oldest is dropped, so that a run's last event always gets through."""

_CHECKPOINT_EVERY = 16
"""Events after which a reader lets others run: taking an event that is there already never yields."""


class _Mailbox:
    __slots__ = ("changed", "dropped", "ended", "events", "run_id")

    def __init__(self, run_id: str | None) -> None:
        self.run_id = run_id
        self.events: deque[Event[Any]] = deque(maxlen=_MAILBOX)
        self.changed = Signal()
        self.dropped = 0
        self.ended = False

    def end(self) -> None:
        self.ended = True
        self.changed.notify()


class EventReaders:
    """Everybody who reads the events of an orchestrator."""

    def __init__(self) -> None:
        self.dropped = 0
        """Events that listeners and readers were too slow for."""
        self.is_closed = False
        self.mailboxes: dict[int, _Mailbox] = {}
        """One for each reader."""
        self._lock = threading.Lock()  # runs of several event loops may drop at the same time

    def open(self, run_id: str | None) -> _Mailbox:
        """Return a new mailbox; it has ended already when this is closed.

        Args:
            run_id: The only run that is of interest, or None.
        """
        mailbox = _Mailbox(run_id)
        if self.is_closed:
            mailbox.ended = True
        else:
            self.mailboxes[id(mailbox)] = mailbox
        return mailbox

    def discard(self, mailbox: _Mailbox) -> None:
        """Put nothing more into a mailbox.

        Args:
            mailbox: From ``open``.
        """
        self.mailboxes.pop(id(mailbox), None)

    def tell(self, event: Event[Any]) -> None:
        """Put an event of its own into every mailbox that it is for.

        Args:
            event: The event.
        """
        for mailbox in list(self.mailboxes.values()):
            if mailbox.run_id in (None, event.run_id):
                if len(mailbox.events) == _MAILBOX:
                    mailbox.dropped += 1
                    self.count_dropped(1)
                mailbox.events.append(event.fork())
                mailbox.changed.notify()

    def end(self, run_id: str) -> None:
        """End the mailboxes of a run.

        Args:
            run_id: The run, which has told its last event.
        """
        for mailbox in list(self.mailboxes.values()):
            if mailbox.run_id == run_id:
                self.discard(mailbox)
                mailbox.end()

    def close(self) -> None:
        """End all mailboxes."""
        self.is_closed = True
        for mailbox in list(self.mailboxes.values()):
            self.discard(mailbox)
            mailbox.end()

    def count_dropped(self, count: int) -> None:
        """Count events that somebody was too slow for.

        Args:
            count: How many.
        """
        with self._lock:
            self.dropped += count


class EventStream:
    """The progress events of all runs, or of one run, from the moment of the call on; for one consumer.

    Iterate it (``async for event in oma.events()``). It may be left at any time, in any task; ``aclose``, the end of
    ``async with`` or dropping it puts it away.

    Args:
        readers: Where it belongs to.
        run_id: The only run that is of interest; it ends with that run.
    """

    def __init__(self, readers: EventReaders, run_id: str | None = None) -> None:
        self._readers = readers
        self._mailbox = readers.open(run_id)
        self._passed = 0

    @property
    def dropped(self) -> int:
        """Events that this consumer was too slow for: more than 1,024 were waiting, so the oldest went."""
        return self._mailbox.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[Any]:
        mailbox = self._mailbox
        self._passed += 1
        if self._passed % _CHECKPOINT_EVERY == 0:
            await checkpoint()
        while not mailbox.events:
            if mailbox.ended:
                raise StopAsyncIteration
            await mailbox.changed.until(lambda: mailbox.events or mailbox.ended)
        return mailbox.events.popleft()

    async def aclose(self) -> None:
        """Leave: what waits is dropped, and a pending step ends."""
        self._readers.discard(self._mailbox)
        self._mailbox.events.clear()
        self._mailbox.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._readers.discard(self._mailbox)

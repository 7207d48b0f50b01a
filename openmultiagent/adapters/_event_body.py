"""Bodies of streamed answers that are server-sent events with JSON in each.

Not here: what the events of any one protocol mean. Invariant: the events of a chunk that precede a fault in it are
told before the fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ._protocol import StreamEvent
from ._sse import SSEDecoder

__all__ = ["EventBody", "EventReader"]


class EventReader(Protocol):
    """Reads the server-sent events of one answer."""

    done: bool
    """Whether nothing of interest follows."""

    def feed(self, data: str) -> Iterable[StreamEvent]:
        """Return what the data of one server-sent event completes."""
        ...

    def finish(self) -> Iterable[StreamEvent]:
        """Return the events at the end of the body, ``done`` last."""
        ...


class EventBody:
    """The body of a streamed answer.

    Args:
        reader: Reads the events.
    """

    def __init__(self, reader: EventReader) -> None:
        self._lines = SSEDecoder()
        self._reader = reader

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete, although the body may not be."""
        return self._reader.done

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.
        """
        for event in self._lines.feed(chunk):
            yield from self._reader.feed(event.data)

    def close(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body, ``done`` last."""
        for event in self._lines.close():
            yield from self._reader.feed(event.data)
        yield from self._reader.finish()

"""Streamed answers that are server-sent events with JSON in each, and the adapters that read them.

Not here: what the events of any one protocol mean. Invariant: the events of a chunk that precede a fault in it are
told before the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ._http_adapter import WireAdapter, WireRequest
from ._protocol import LLMResponse, StreamEvent
from ._sse import SSEDecoder
from ._streamed_body import BodyReader

if TYPE_CHECKING:
    import httpx

__all__ = ["EventAdapter", "EventBody", "EventReader", "WholeReader"]


class WholeReader(Protocol):
    """Reads one answer that came in one piece."""

    def read(self, body: bytes) -> LLMResponse:
        """Return the response that a whole body holds."""
        ...


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


class EventAdapter(WireAdapter):
    """An adapter whose answers are JSON or, streamed, server-sent events; a subclass names their readers."""

    _answers: ClassVar[Callable[..., WholeReader]]
    """Makes the reader of a whole answer."""
    _streams: ClassVar[Callable[..., EventReader]]
    """Makes the reader of a streamed one, from the same arguments."""

    def _reading(self, request: WireRequest) -> Mapping[str, Any]:
        """Return the arguments that readers are made with."""
        return {"provider": self.name, "model": request.model, "redact": self._redact}

    def _read(self, body: bytes, request: WireRequest, response: httpx.Response) -> LLMResponse:  # noqa: ARG002 - see the base class
        return self._answers(**self._reading(request)).read(body)

    def _reader(self, request: WireRequest, response: httpx.Response) -> BodyReader:  # noqa: ARG002 - see the base class
        return EventBody(self._streams(**self._reading(request)))

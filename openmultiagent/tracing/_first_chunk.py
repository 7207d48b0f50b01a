"""How long a streamed answer keeps its reader waiting."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any

from ..adapters import StreamEvent, StreamSink

__all__ = ["FirstChunk"]


class FirstChunk:
    """A sink that notes when the first piece of an answer comes, and passes everything on.

    Args:
        sink: Where the pieces go.
    """

    __slots__ = ("_sink", "_started", "seconds")

    def __init__(self, sink: StreamSink) -> None:
        self._sink = sink
        self._started = time.perf_counter()
        self.seconds: float | None = None
        """From the start of the call to the first piece; None while there is none."""

    @classmethod
    def around(cls, sink: StreamSink | None) -> FirstChunk | None:
        """Return the sink with a clock, the one that it has if it has one.

        Args:
            sink: Where the pieces go, if anybody wants them.
        """
        return sink if sink is None or isinstance(sink, cls) else cls(sink)

    def begin(self) -> Coroutine[Any, Any, None]:
        """Say that a call starts."""
        return self._sink.begin()

    def deliver(self, event: StreamEvent) -> Coroutine[Any, Any, None]:
        """Pass on one piece.

        Args:
            event: A step of the stream.
        """
        if self.seconds is None:
            self.seconds = time.perf_counter() - self._started
        return self._sink.deliver(event)  # awaited by the caller: a coroutine of our own would cost every piece

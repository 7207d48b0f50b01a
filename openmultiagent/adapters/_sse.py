"""Server-sent events, decoded from bytes as they arrive.

Not a client: it opens nothing and knows nothing of what the events hold. It exists because httpx's ``aiter_lines`` ends
a line at U+2028 and U+0085 too, which cuts JSON strings in two. Invariant: how the body was cut into chunks makes no
difference to the events, and the work is linear in the length of the body.

Format: WHATWG HTML, "Server-sent events", section "Interpreting an event stream"; the one deviation is that an event at
the end of the body counts without the blank line after it, since several servers leave that out.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

__all__ = ["SSEDecoder", "ServerSentEvent"]


class ServerSentEvent(NamedTuple):
    """One event of a stream."""

    data: str
    """The ``data`` lines, joined by line feeds."""
    event: str = ""
    """The ``event`` line; empty when there was none."""


class SSEDecoder:
    """An incremental decoder for one response body."""

    __slots__ = ("_after_cr", "_data", "_event", "_partial", "_utf8")

    def __init__(self) -> None:
        # "utf-8-sig" leaves out a byte order mark at the start; "replace" since one bad byte must not end an answer.
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._partial: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._event = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.
        """
        return self._take(self._utf8.decode(chunk))

    def close(self) -> list[ServerSentEvent]:
        """Return what the end of the body completes."""
        events = self._take(self._utf8.decode(b"", final=True))
        if self._partial:
            self._line("".join(self._partial), events)
            self._partial.clear()
        self._line("", events)
        return events

    def _take(self, text: str) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        if self._after_cr and text:
            # The line ended at the CR already; a LF right behind it is the second half of the same line end.
            self._after_cr = False
            text = text.removeprefix("\n")
        if "\r" in text:
            self._after_cr = text.endswith("\r")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        *whole, rest = text.split("\n")
        for line in whole:
            if self._partial:
                self._partial.append(line)
                self._line("".join(self._partial), events)
                self._partial.clear()
            else:
                self._line(line, events)
        if rest:
            self._partial.append(rest)
        return events

    def _line(self, line: str, events: list[ServerSentEvent]) -> None:
        if not line:
            if self._data:
                events.append(ServerSentEvent("\n".join(self._data), self._event))
                self._data.clear()
            self._event = ""
            return
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "event":
            self._event = value.removeprefix(" ")

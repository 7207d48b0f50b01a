"""Server-sent events, decoded from bytes as they arrive.

Not a client: it opens nothing and knows nothing of what the events hold. It exists because httpx's ``aiter_lines`` ends
a line at U+2028 and U+0085 too, which cuts JSON strings in two. Invariant: how the body was cut into chunks makes no
difference to the events, and the work is linear in the length of the body.

Format: WHATWG HTML, "Server-sent events", section "Interpreting an event stream"; the one deviation is that an event at
the end of the body counts without the blank line after it, since several servers leave that out.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SSEDecoder", "ServerSentEvent"]

_MARK = b"\xef\xbb\xbf"
"""The byte order mark, which may stand at the start of a body."""


class ServerSentEvent(NamedTuple):
    """One event of a stream."""

    data: str
    """The ``data`` lines, joined by line feeds."""
    event: str = ""
    """The ``event`` line; empty when there was none."""


class SSEDecoder:
    """An incremental decoder for one response body."""

    __slots__ = ("_after_cr", "_begun", "_data", "_event", "_partial")

    def __init__(self) -> None:
        # Lines are found among the bytes: in UTF-8 the bytes of line ends are part of no other character.
        self._partial: list[bytes] = []
        self._begun = False
        self._after_cr = False
        self._data: list[str] = []
        self._event = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.
        """
        events: list[ServerSentEvent] = []
        if self._after_cr and chunk:
            # The line ended at the CR already; a LF right behind it is the second half of the same line end.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._partial:
            self._partial.append(lines[0])
            lines[0] = b"".join(self._partial)
            self._partial.clear()
        for line in lines:
            self._line(line, events)
        if rest:
            self._partial.append(rest)
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return what the end of the body completes."""
        events: list[ServerSentEvent] = []
        if self._partial:
            self._line(b"".join(self._partial), events)
            self._partial.clear()
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_MARK)
        if not line:
            if self._data:
                events.append(ServerSentEvent("\n".join(self._data), self._event))
                self._data.clear()
            self._event = ""
            return
        if line.startswith(b"data:"):
            self._data.append(_value(line, 5))
        elif line.startswith(b"event:"):
            self._event = _value(line, 6)
        elif line in (b"data", b"event"):  # without a colon the value is empty
            self._line(line + b":", events)


def _value(line: bytes, start: int) -> str:
    """Return the value of a line, whose one leading space does not count; the line may be as large as an answer."""
    start += line.startswith(b" ", start)
    # "replace" since one bad byte must not end an answer.
    return str(memoryview(line)[start:], "utf-8", "replace")

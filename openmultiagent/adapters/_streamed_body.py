"""The body of the answer to a request for a stream, which some servers and gateways send in one piece all the same.

Not here: the protocols. Invariant: an answer in one piece gives the events and the response that the same answer would
have given as a stream, or an error that says what came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ..errors import LLMProtocolError
from ..messages import ReasoningBlock, TextBlock, ToolUseBlock
from ._protocol import LLMResponse, StreamEvent

__all__ = ["BodyReader", "StreamedBody"]

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""What may precede the first character; the byte order mark is part of it."""
_WHOLE = (b"{", b"[", b"<")
"""What a JSON object, an array and a page begin with; no stream of any protocol begins so."""
_FIELDS = (b"d", b"e", b"i", b"r", b":")
"""What the lines of server-sent events begin with: data, event, id, retry, or a comment."""
_SHOWN = 100


class BodyReader(Protocol):
    """Reads the body of one streamed answer."""

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete, although the server may keep its body open."""
        ...

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a further piece of the body completes."""
        ...

    def close(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body, of which the last is ``done``."""
        ...


class StreamedBody:
    """A body that is a stream or, in spite of the request, a whole answer; its first character tells.

    Args:
        reader: Reads a stream.
        read: Reads a whole answer.
        content_type: What the server says that it sends.
    """

    def __init__(self, reader: BodyReader, read: Callable[[bytes], LLMResponse], *, content_type: str) -> None:
        self._reader = reader
        self._read = read
        self._content_type = content_type
        self._waiting: list[bytes] = []
        self._is_whole: bool | None = None

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete, although the body may not be."""
        return self._reader.is_over

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.
        """
        if self._is_whole is None:
            self._is_whole = self._looks_whole(chunk)
        if self._is_whole is False:
            yield from self._reader.feed(chunk)
        else:
            self._waiting.append(chunk)

    def close(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body, ``done`` last.

        Raises:
            LLMProtocolError: It is no answer, or no complete one.
        """
        if not self._is_whole:
            yield from self._reader.close()
            return
        try:
            response = self._read(b"".join(self._waiting))
        except LLMProtocolError as error:
            came = self._content_type[:_SHOWN] or "something of no stated type"
            raise LLMProtocolError(
                f"{error.message} (a stream was asked for, and {came} came)", provider=error.provider, body=error.body
            ) from error
        yield from _events_of(response)

    def _looks_whole(self, chunk: bytes) -> bool | None:
        """Say what the body is; None as long as nothing of it has come."""
        start = chunk.lstrip(_BLANK)[:1]
        if not start:
            return None
        return start in _WHOLE or (_is_json(self._content_type) and start not in _FIELDS)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _events_of(response: LLMResponse) -> Iterator[StreamEvent]:
    for block in response.content:
        if isinstance(block, TextBlock):
            yield StreamEvent("text", block.text)
        elif isinstance(block, ReasoningBlock) and block.text:
            yield StreamEvent("reasoning", block.text)
        elif isinstance(block, ToolUseBlock):
            yield StreamEvent("tool_use", block)
    yield StreamEvent("done", response)

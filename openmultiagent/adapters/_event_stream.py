"""AWS event streams (``application/vnd.amazon.eventstream``), decoded from bytes as they arrive.

Not a client, and it knows nothing of what the messages hold. Invariants: how the body was cut into chunks makes no
difference to the messages; the work is linear in the length of the body; a message is handed out only when both of its
checksums are right; a header cannot make the decoder wait for more than a message may have.

Format, as AWS documents it for its services and its own clients read it (November 2026): big-endian total length,
length of the headers, CRC-32 of these eight bytes; headers; payload; CRC-32 of everything before. A header is a length
and a name, a type, and a value whose length the type gives, or the value itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from .._record import record

__all__ = ["EventStreamDecoder", "EventStreamError", "EventStreamMessage"]

_PRELUDE = struct.Struct("!III")
_CRC = struct.Struct("!I")
_LENGTH = struct.Struct("!H")
_OVERHEAD = _PRELUDE.size + _CRC.size
_MAX_HEADERS = 128 * 1024
_MAX_PAYLOAD = 24 * 1024 * 1024  # both limits are those of AWS's own clients
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # true, false, integers, a time, a UUID
_BYTES, _STRING = 6, 7


class EventStreamError(Exception):
    """The bytes are no event stream."""


@record
class EventStreamMessage:
    """One message of a stream."""

    headers: Mapping[str, str]
    """The headers that are strings; Bedrock uses no others."""
    payload: bytes


class EventStreamDecoder:
    """An incremental decoder for one response body."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, chunk: bytes) -> Iterator[EventStreamMessage]:
        """Yield the messages that a further piece of the body completes; must be iterated to its end.

        Args:
            chunk: The next bytes, cut anywhere.

        Raises:
            EventStreamError: They are no event stream.
        """
        self._waiting += chunk
        while len(self._waiting) >= _PRELUDE.size:
            total, headers = self._prelude()
            if len(self._waiting) < total:
                return
            message = bytes(self._waiting[:total])
            del self._waiting[:total]  # cheap: the bytes behind are not moved
            yield _message(message, headers)

    def close(self) -> None:
        """Say that the body ended.

        Raises:
            EventStreamError: It ended inside of a message.
        """
        if self._waiting:
            raise EventStreamError(f"the body ended inside of a message, after {len(self._waiting)} bytes of it")

    def _prelude(self) -> tuple[int, int]:
        total, headers, checksum = _PRELUDE.unpack_from(self._waiting)
        if zlib.crc32(self._waiting[:8]) != checksum:
            raise EventStreamError("the checksum of a message's lengths is wrong")
        if headers > _MAX_HEADERS or not 0 <= total - headers - _OVERHEAD <= _MAX_PAYLOAD:
            raise EventStreamError(f"a message of {total} bytes with {headers} bytes of headers cannot be")
        return total, headers


def _message(message: bytes, headers: int) -> EventStreamMessage:
    end = len(message) - _CRC.size
    (checksum,) = _CRC.unpack_from(message, end)
    if zlib.crc32(memoryview(message)[:end]) != checksum:
        raise EventStreamError("the checksum of a message is wrong")
    start = _PRELUDE.size + headers
    return EventStreamMessage(_headers(message[_PRELUDE.size : start]), message[start:end])


def _headers(block: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    place = 0
    try:
        while place < len(block):
            name_end = place + 1 + block[place]
            name = block[place + 1 : name_end].decode()
            kind = block[name_end]
            place = name_end + 1
            if kind in _FIXED_SIZES:
                place += _FIXED_SIZES[kind]
                continue
            if kind not in (_BYTES, _STRING):
                raise EventStreamError(f"header {name!r:.100} has the unknown type {kind}")
            (size,) = _LENGTH.unpack_from(block, place)
            value = block[place + _LENGTH.size : place + _LENGTH.size + size]
            place += _LENGTH.size + size
            if kind == _STRING:
                found[name] = value.decode()
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise EventStreamError(f"the headers of a message cannot be read: {error}") from error
    if place != len(block):
        raise EventStreamError("the headers of a message are shorter than they say")
    return found

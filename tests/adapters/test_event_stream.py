"""AWS event streams.

botocore 1.43 (``botocore.eventstream.EventStreamBuffer``) reads the two frames that stand here in full as the tests
expect them; the other frames come from the encoder that made these two.
"""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters._event_stream import EventStreamDecoder, EventStreamError, EventStreamMessage
from tests.support import proves
from tests.support.event_stream import event, frame, raw_frame

DELTA = bytes.fromhex(
    "0000009400000057b4ab9aee0b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c74610d3a636f6e74656e742d7479"
    "70650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22636f6e74656e74426c6f63"
    "6b496e646578223a302c2264656c7461223a7b2274657874223a224869227d7d1f944657"
)
ALL_TYPES = bytes.fromhex(
    "000000990000007ce087a71f0474727565000566616c736501046279746502cf0573686f727403fff903696e740400000007046c6f6e6705"
    "0000000000000007056279746573060002686906737472696e670700074772c3bcc39f650474696d65080000000000845fed047575696409"
    "000102030405060708090a0b0c0d0e0f046c6173740700007b27666f6f273a27626172277d934e2120"
)
HI = {"contentBlockIndex": 0, "delta": {"text": "Hi"}}


def decode(*chunks: bytes) -> list[EventStreamMessage]:
    decoder = EventStreamDecoder()
    messages = [message for chunk in chunks for message in decoder.feed(chunk)]
    decoder.close()
    return messages


@proves("BED-25")
def test_a_frame_of_aws() -> None:
    headers = {":event-type": "contentBlockDelta", ":content-type": "application/json", ":message-type": "event"}
    assert decode(DELTA) == [
        EventStreamMessage(headers, b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}'),
    ]
    assert event("contentBlockDelta", HI) == DELTA


@proves("BED-25")
def test_headers_of_every_type_are_passed_over() -> None:
    assert decode(ALL_TYPES) == [EventStreamMessage({"string": "Grüße", "last": ""}, b"{'foo':'bar'}")]


@given(st.lists(st.integers(1, 40), max_size=20))
@proves("BED-25")
def test_it_makes_no_difference_how_the_body_is_cut(sizes: list[int]) -> None:
    body = DELTA + ALL_TYPES + frame({}, b"") + DELTA
    chunks = []
    for size in sizes:
        chunks.append(body[:size])
        body = body[size:]
    assert [message.payload for message in decode(*chunks, body)] == [
        b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}',
        b"{'foo':'bar'}",
        b"",
        b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}',
    ]


@proves("BED-25")
def test_byte_by_byte() -> None:
    assert decode(*(DELTA[place : place + 1] for place in range(len(DELTA)))) == decode(DELTA)


@pytest.mark.parametrize("place", [0, 5, 9, 20, 100, len(DELTA) - 1])
@proves("BED-25")
def test_a_changed_byte_is_noticed(place: int) -> None:
    changed = bytearray(DELTA)
    changed[place] ^= 1
    with pytest.raises(EventStreamError, match="checksum"):
        decode(bytes(changed))


def _lengths(total: int, headers: int) -> bytes:
    import zlib

    prelude = struct.pack("!II", total, headers)
    return prelude + struct.pack("!I", zlib.crc32(prelude))


@pytest.mark.parametrize(("total", "headers"), [(15, 0), (20, 8), (2**32 - 1, 0), (200_016, 200_000), (0, 2**32 - 1)])
@proves("BED-25")
def test_impossible_lengths_are_refused_at_once(total: int, headers: int) -> None:
    with pytest.raises(EventStreamError, match="cannot be"):
        decode(_lengths(total, headers))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x01", "cannot be read"),
        (b"\x01a", "cannot be read"),
        (b"\x05a\x00", "cannot be read"),
        (b"\x01a\x07\x00", "cannot be read"),
        (b"\x01\xff\x00", "cannot be read"),
        (b"\x01a\x07\x00\x01\xff", "cannot be read"),
        (b"\x01a\x07\x00\x05hi", "shorter"),
        (b"\x01a\x05\x00", "shorter"),
        (b"\x01a\x0a", "unknown type 10"),
    ],
)
@proves("BED-25")
def test_headers_that_cannot_be_read(block: bytes, reason: str) -> None:
    with pytest.raises(EventStreamError, match=reason):
        decode(raw_frame(block, b""))


@pytest.mark.parametrize("size", [1, 11, 12, len(DELTA) - 1])
@proves("BED-25")
def test_an_end_inside_of_a_message_is_noticed(size: int) -> None:
    with pytest.raises(EventStreamError, match=f"inside of a message, after {size} bytes"):
        decode(DELTA, DELTA[:size])


@proves("BED-25")
def test_what_came_before_a_fault_is_handed_out() -> None:
    messages = EventStreamDecoder().feed(DELTA + b"\x00" * 20)
    assert next(messages) == decode(DELTA)[0]
    with pytest.raises(EventStreamError):
        next(messages)


@given(st.binary(max_size=60))
@proves("BED-25")
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    found: list[Any] = []
    try:
        found = decode(body)
    except EventStreamError:
        return
    assert found == []

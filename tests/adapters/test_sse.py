"""Server-sent events from bytes that were cut anywhere."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters._sse import ServerSentEvent, SSEDecoder
from tests.support import proves


def decode(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*events, *decoder.close()]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@proves("MOD-27")
def test_every_line_end_of_the_format_ends_a_line(end: bytes) -> None:
    body = end.join([b"data: one", b"", b"event: ping", b"data: two", b"", b""])
    assert decode(body) == [ServerSentEvent("one"), ServerSentEvent("two", "ping")]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
@proves("MOD-27")
def test_nothing_else_ends_a_line(separator: str) -> None:
    assert decode(f"data: a{separator}b\n\n".encode()) == [ServerSentEvent(f"a{separator}b")]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\ndata:b\ndata:  c\n\n", [ServerSentEvent("a\nb\n c")]),
        (b": comment\n:\nid: 7\nretry: 5\nunknown\ndata: a\n\n", [ServerSentEvent("a")]),
        (b"event: lonely\n\ndata: a\n\n", [ServerSentEvent("a")]),
        (b"data\n\n", [ServerSentEvent("")]),
        (b"\n\n\n", []),
        (b"", []),
        (b"data: no blank line", [ServerSentEvent("no blank line")]),
        (b"data: no blank line\n", [ServerSentEvent("no blank line")]),
        (b"\xef\xbb\xbfdata: marked\n\n", [ServerSentEvent("marked")]),
        (b"data: bad \xff byte\n\n", [ServerSentEvent("bad \ufffd byte")]),
        (b"data: half \xf0\x9f", [ServerSentEvent("half \ufffd")]),
    ],
)
@proves("MOD-27")
def test_the_format(body: bytes, events: list[ServerSentEvent]) -> None:
    assert decode(body) == events
    assert decode(*[bytes([byte]) for byte in body]) == events


@proves("MOD-27")
def test_a_body_may_be_cut_at_every_byte() -> None:
    body = "event: x\r\ndata: 🎉\u2028é\r\n\r\ndata: {}\r\rdata: end\n\n".encode()
    whole = decode(body)
    assert whole == [ServerSentEvent("🎉\u2028é", "x"), ServerSentEvent("{}"), ServerSentEvent("end")]
    for cut in range(len(body) + 1):
        assert decode(body[:cut], body[cut:]) == whole


@given(
    st.lists(st.sampled_from(["data: ", "data:", "event: e", ":", "\r", "\n", "\r\n", "🎉", "\x85", "a", "\ufeff"])),
    st.lists(st.integers(min_value=1, max_value=7), min_size=1),
)
@proves("MOD-27")
def test_how_the_body_is_cut_makes_no_difference(words: list[str], sizes: list[int]) -> None:
    body = "".join(words).encode()
    chunks = []
    rest, turn = body, 0
    while rest:
        size = sizes[turn % len(sizes)]
        chunks.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert decode(*chunks) == decode(body)


@proves("MOD-27")
def test_a_line_of_many_small_chunks_takes_linear_time() -> None:
    decoder = SSEDecoder()
    started = time.perf_counter()
    decoder.feed(b"data: ")
    for _ in range(200_000):
        decoder.feed(b"0123456789")
    (event,) = decoder.close()
    assert len(event.data) == 2_000_000
    assert time.perf_counter() - started < 10  # some 0.3 s; joined anew at each chunk it would be minutes

"""What a stream keeps while it is read, and when its answer is made."""

import json
import socket
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from openmultiagent.adapters import (
    AnthropicAdapter,
    BedrockAdapter,
    GeminiAdapter,
    LLMChatOptions,
    LLMResponse,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamEvent,
)
from openmultiagent.adapters._pieces import GrowingText
from openmultiagent.messages import LLMMessage, TextBlock
from tests.support import proves
from tests.support.event_stream import event as aws_event

WAIT = 10.0
MEGABYTE = 2**20
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="test-model")


def sse(payload: Any) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n: a comment\n\n".encode()


@dataclass(frozen=True)
class Protocol:
    """The stream of an answer that is one text: events before it, one event for each piece, and events behind it."""

    make: Callable[[str], Any]
    """Makes the adapter for a server."""
    piece: Callable[[str, str], bytes]
    """An event with a piece, and with padding of the kind that vendors send against eavesdroppers."""
    end: Callable[[str], bytes]
    """The last events; given the whole text, which one protocol sends once more."""
    start: bytes = b""
    content_type: str = "text/event-stream"
    repeats: int = 0
    """How often the answer is there once more, at the most, while the event is read that holds the whole of it."""


def responses_end(text: str) -> bytes:
    item = {"type": "message", "id": "i", "content": [{"type": "output_text", "text": text}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    return sse(done) + sse({"type": "response.completed", "response": {"id": "r", "output": [item]}})


PROTOCOLS = {
    "openai": Protocol(
        lambda url: OpenAIAdapter(base_url=url, text_tool_calls=False),
        lambda text, padding: sse({"choices": [{"index": 0, "delta": {"content": text}}], "obfuscation": padding}),
        lambda _: sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n",
    ),
    "anthropic": Protocol(
        lambda url: AnthropicAdapter(base_url=url),
        lambda text, padding: sse(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}, "p": padding}
        ),
        lambda _: (
            sse({"type": "content_block_stop", "index": 0})
            + sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
            + sse({"type": "message_stop"})
        ),
        start=sse({"type": "message_start", "message": {"id": "m"}})
        + sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ),
    "gemini": Protocol(
        lambda url: GeminiAdapter(base_url=url),
        lambda text, padding: sse({"candidates": [{"content": {"parts": [{"text": text}]}}], "p": padding}),
        lambda _: sse({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}),
    ),
    "openai-responses": Protocol(
        lambda url: OpenAIResponsesAdapter(base_url=url),
        lambda text, padding: sse({"type": "response.output_text.delta", "delta": text, "obfuscation": padding}),
        responses_end,
        repeats=6,  # as bytes and as text, for which the decoder of wide characters takes three times as much
    ),
    "bedrock": Protocol(
        lambda url: BedrockAdapter(base_url=url, api_key="k"),
        lambda text, padding: aws_event(
            "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": padding}
        ),
        lambda _: aws_event("contentBlockStop", {"contentBlockIndex": 0}) + aws_event("messageStop", {}),
        content_type="application/vnd.amazon.eventstream",
    ),
}


@contextmanager
def streaming(protocol: Protocol, text: str, padding: int, size: int) -> Iterator[tuple[str, int]]:
    """Serve one stream that repeats a piece; yield the base URL and how often. It allocates nothing meanwhile."""
    event = protocol.piece(text, "x" * padding)
    count = size // len(event)
    end = protocol.end(text * count)
    length = len(protocol.start) + count * len(event) + len(end)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {protocol.content_type}\r\ncontent-length: {length}\r\n\r\n".encode()
    batch = event * 64
    rest = event * (count % 64)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while not request.endswith(b"}"):
                request += connection.recv(65_536)
            connection.sendall(head)
            connection.sendall(protocol.start)
            for _ in range(count // 64):
                connection.sendall(batch)
            connection.sendall(rest)
            connection.sendall(end)
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", count
        thread.join(WAIT)


async def read_to_the_end(adapter: Any) -> tuple[LLMResponse, int, int]:
    """Throw the pieces of an answer away; return the answer, and the most memory before its last event and with it."""
    before = 0
    last: StreamEvent | None = None
    tracemalloc.start()
    try:
        base, _ = tracemalloc.get_traced_memory()
        async for event in adapter.stream(HI, OPTIONS):
            if event.type == "text":
                before = tracemalloc.get_traced_memory()[1]
            last = event
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last is not None
    assert isinstance(last.data, LLMResponse), last.data
    return last.data, before - base, peak - base


def grows_in_place() -> bool:
    """Whether Python lets a text grow in place: not while its lines are traced, as by the measurement of coverage."""
    return sys.gettrace() is None


@pytest.mark.parametrize(
    ("text", "padding"),
    [("only a few words", 4_000), ("a long text " * 340, 0), ("世界" * 680, 0)],
    ids=["small", "large", "large and wide"],
)
@pytest.mark.parametrize("name", PROTOCOLS)
@proves("MOD-59")
async def test_a_stream_keeps_its_answer_and_nothing_else(name: str, text: str, padding: int) -> None:
    protocol = PROTOCOLS[name]
    with streaming(protocol, text, padding, 4 * MEGABYTE) as (url, count):
        adapter = protocol.make(url)
        await adapter._transport._clients.get()  # loaded and connected, which takes memory once
        response, before_the_end, peak = await read_to_the_end(adapter)
        await adapter.aclose()
    (block,) = response.content
    assert isinstance(block, TextBlock)
    assert len(block.text) == count * len(text)
    answer = sys.getsizeof(block.text)
    assert before_the_end <= (0 if protocol.repeats else answer) + MEGABYTE
    at_the_end = protocol.repeats or (0 if answer < MEGABYTE or grows_in_place() else 1)
    assert peak <= answer * (1 + at_the_end) + MEGABYTE


@pytest.mark.parametrize("character", ["a", "é", "世", "\U0001f389"])
@pytest.mark.parametrize("length", [200, 5_000, 300_000])
@proves("MOD-59")
def test_a_large_text_is_made_of_its_pieces_in_their_place(character: str, length: int) -> None:
    growing = GrowingText()
    count = 4 * MEGABYTE // length
    tracemalloc.start()
    try:
        base, _ = tracemalloc.get_traced_memory()
        for _ in range(count):
            growing.add(character * length)
        text = growing.whole()
        peak = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    # Without the texts in what pytest would show of a failure.
    is_right, is_kept = text == character * (count * length), growing.whole() is text
    assert is_right
    assert is_kept
    if grows_in_place():
        assert peak <= sys.getsizeof(text) + MEGABYTE * sys.getsizeof(character * 100) // 100


@proves("MOD-59", "MOD-28")
def test_a_large_text_of_pieces_of_all_kinds() -> None:
    pieces = ["plain " * 50_000, "é" * 200_000, "", "世" * 200_000, "\U0001f389" * 150_000, "plain " * 50_000, "\ud83c"]
    growing = GrowingText()
    for piece in pieces:
        growing.add(piece)
    whole = growing.whole()
    assert growing.add("more") == "more"
    right = "".join(pieces[:-1]) + "\ufffd"
    assert [whole == right, growing.whole() == right + "more"] == [True, True]

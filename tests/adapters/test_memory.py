"""What a stream keeps while it is read."""

import json
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMResponse, OpenAIAdapter
from openmultiagent.messages import LLMMessage, TextBlock
from tests.support import proves
from tests.support.openai_server import WAIT

MEGABYTE = 2**20
BODY = 50 * MEGABYTE
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="test-model")


def chunk(text: str, padding: int) -> bytes:
    """Return an event with a piece of text, and with padding of the kind that vendors send against eavesdroppers."""
    delta = {"content": text}
    payload = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], "obfuscation": "x" * padding}
    return f"data: {json.dumps(payload)}\n\n: a comment\n\n".encode()


@contextmanager
def streaming(event: bytes) -> Iterator[tuple[str, int]]:
    """Serve one stream that repeats an event; yield the base URL and the number of events. It allocates nothing."""
    count = BODY // len(event)
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    length = count * len(event) + len(end)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n".encode()
    batch = event * 64

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while not request.endswith(b"}"):
                request += connection.recv(65_536)
            connection.sendall(head)
            for _ in range(count // 64):
                connection.sendall(batch)
            connection.sendall(event * (count % 64) + end)
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", count
        thread.join(WAIT)


async def read_to_the_end(adapter: OpenAIAdapter) -> tuple[LLMResponse, int, int]:
    """Throw the pieces of an answer away; return the answer, and the most memory before its last event and with it."""
    before = 0
    tracemalloc.start()
    try:
        base, _ = tracemalloc.get_traced_memory()
        async for event in adapter.stream(HI, OPTIONS):
            if event.type == "text":
                before = tracemalloc.get_traced_memory()[1]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(event.data, LLMResponse), event.data
    return event.data, before - base, peak - base


async def warmed(base_url: str) -> OpenAIAdapter:
    """Return an adapter whose client is loaded and connected, which takes memory once."""
    adapter = OpenAIAdapter(base_url=base_url, text_tool_calls=False)
    await adapter._transport._clients.get()
    return adapter


@pytest.mark.parametrize(("text", "padding"), [("only a few words", 4_000), ("a long text " * 340, 0)])
@proves("MOD-59")
async def test_a_stream_keeps_its_answer_and_nothing_else(text: str, padding: int) -> None:
    with streaming(chunk(text, padding)) as (base_url, count):
        adapter = await warmed(base_url)
        response, before_the_end, peak = await read_to_the_end(adapter)
        await adapter.aclose()
    (block,) = response.content
    assert isinstance(block, TextBlock)
    answer = len(block.text)
    assert answer == count * len(text)
    assert before_the_end <= answer + MEGABYTE
    # At the very end the pieces and the whole are there at the same time, which shows when they are large.
    assert peak <= answer * (1 if answer < MEGABYTE else 2) + MEGABYTE

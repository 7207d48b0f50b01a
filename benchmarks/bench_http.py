"""What calls over HTTP cost beside bare httpx, and what the extra ``speed`` saves; printed as ratios.

Run it with ``python benchmarks/bench_http.py``. A server in a process of its own answers at once with prepared bytes,
so that what is measured is the client. It should print at most 1.15 for a call and at most 1.5 for a stream, and, where
the extra is installed, at least 4 for the calls per second with 64 in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

import anyio
import httpx

from openmultiagent.adapters import LLMChatOptions, LLMResponse, OpenAIAdapter
from openmultiagent.messages import Conversation, LLMMessage

CHUNKS = 2_000
IN_FLIGHT = 64
CALLS = 60
CALLS_EACH = 10
ROUNDS = 9

KEY = "sk-of-nobody"
MODEL = "instant"
WORDS = " and so on"
CONVERSATION = Conversation([LLMMessage.user("What is 6 times 7?")])
OPTIONS = LLMChatOptions(model=MODEL, system_prompt="You are a calculator.")
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "You are a calculator."},
        {"role": "user", "content": "What is 6 times 7?"},
    ],
}


def whole_answer() -> bytes:
    """Return the response to a call."""
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
    }
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def streamed_answer() -> bytes:
    """Return the response to a call that asks for a stream; every event is a chunk of the body."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}
    choices = [{"index": 0, "delta": {"content": WORDS}, "finish_reason": None}]
    events = [json.dumps({**base, "choices": choices})] * CHUNKS
    events.append(json.dumps({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    lines = [f"data: {event}\n\n".encode() for event in [*events, "[DONE]"]]
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + body + b"0\r\n\r\n"


class Answering(asyncio.Protocol):
    """One connection of the server.

    Args:
        whole: What it answers.
        streamed: What it answers to those who ask for a stream.
    """

    def __init__(self, whole: bytes, streamed: bytes) -> None:
        self._answers = (whole, streamed)
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body, rest = self._received[end + 4 : end + 4 + length], self._received[end + 4 + length :]
            if len(body) < length:
                return
            self._received = rest
            self._transport.write(self._answers[b'"stream":true' in body])


def serve(ready: Connection) -> None:
    """Tell the port, and answer for ever."""

    async def run() -> None:
        whole, streamed = whole_answer(), streamed_answer()
        server = await asyncio.get_running_loop().create_server(lambda: Answering(whole, streamed), "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Run the server in a process of its own; yield its base URL."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{mine.recv()}/v1"
    finally:
        process.terminate()
        process.join()


async def raw_call(client: httpx.AsyncClient, url: str) -> None:
    """Make a call as one would by hand."""
    response = await client.post(url, json=BODY)
    response.raise_for_status()
    assert response.json()["choices"][0]["message"]["content"] == "42"


async def raw_stream(client: httpx.AsyncClient, url: str) -> None:
    """Read a stream as one would by hand."""
    pieces: list[str] = []
    async with client.stream("POST", url, json={**BODY, "stream": True}) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            pieces.append(json.loads(line[6:])["choices"][0]["delta"].get("content", ""))
    assert len("".join(pieces)) == CHUNKS * len(WORDS)


async def call(adapter: OpenAIAdapter) -> None:
    """Make a call."""
    response = await adapter.chat(CONVERSATION, OPTIONS)
    assert response.stop_reason == "end_turn"


async def stream(adapter: OpenAIAdapter) -> None:
    """Read a stream."""
    length = 0
    async for event in adapter.stream(CONVERSATION, OPTIONS):
        if event.type == "text":
            length += len(str(event.data))
    assert event.type == "done"
    assert isinstance(event.data, LLMResponse)
    assert length == CHUNKS * len(WORDS)


async def seconds(work: Callable[[], Awaitable[None]], times: int) -> float:
    """Return how long some work takes, on average."""
    start = time.perf_counter()
    for _ in range(times):
        await work()
    return (time.perf_counter() - start) / times


async def compare(
    first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]], times: int
) -> list[float]:
    """Return both times in microseconds, and the second as a multiple of the first.

    The two take turns, so that noise hits both, and the middle of the rounds counts.
    """
    rounds: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS + 1):
        one, other = await seconds(first, times), await seconds(second, times)
        rounds.append((one * 1e6, other * 1e6, other / one))
    return [statistics.median(column) for column in zip(*rounds[1:], strict=True)]  # the first opens connections


@contextlib.asynccontextmanager
async def made_adapter(base_url: str, *, fast: bool = True) -> AsyncGenerator[OpenAIAdapter, None]:
    """Make an adapter.

    Args:
        base_url: The server.
        fast: Whether the extra is used, where it is installed.
    """
    adapter = OpenAIAdapter(base_url=base_url, api_key=KEY, text_tool_calls=False)
    adapter._transport._clients.prefers_aiohttp = fast  # noqa: SLF001 - nobody else needs to choose
    try:
        yield adapter
    finally:
        await adapter.aclose()


async def beside_httpx(base_url: str) -> None:
    """Print what calls and streams cost beside bare httpx, on the same transport: httpx's own."""
    url = f"{base_url}/chat/completions"
    async with (
        httpx.AsyncClient(headers={"authorization": f"Bearer {KEY}"}, timeout=60) as client,
        made_adapter(base_url, fast=False) as adapter,
    ):
        for name, raw, ours, times in (
            ("one chat", lambda: raw_call(client, url), lambda: call(adapter), CALLS),
            (f"a stream of {CHUNKS:,} chunks", lambda: raw_stream(client, url), lambda: stream(adapter), 1),
        ):
            bare, mine, ratio = await compare(raw, ours, times)
            print(f"{name:<26} httpx {bare:8,.0f} us   openmultiagent {mine:8,.0f} us   ratio {ratio:.2f}")


async def calls_at_once(adapter: OpenAIAdapter) -> None:
    """Make calls, many at a time."""

    async def one_after_the_other() -> None:
        for _ in range(CALLS_EACH):
            await call(adapter)

    async with anyio.create_task_group() as group:
        for _ in range(IN_FLIGHT):
            group.start_soon(one_after_the_other)


async def with_and_without_extra(base_url: str) -> None:
    """Print what the extra saves."""
    async with made_adapter(base_url, fast=False) as slow, made_adapter(base_url) as fast:
        without, mine, ratio = await compare(lambda: calls_at_once(slow), lambda: calls_at_once(fast), 1)
    number = IN_FLIGHT * CALLS_EACH
    print(
        f"{IN_FLIGHT} calls in flight".ljust(26),
        f"plain {without / number:8,.0f} us   with speed     {mine / number:8,.0f} us   throughput {1 / ratio:.2f}",
    )


def main() -> None:
    """Print the ratios."""
    with server() as base_url:
        anyio.run(beside_httpx, base_url)
        if find_spec("httpx_aiohttp") is None:
            print("the extra is not installed: pip install openmultiagent[speed]")
        else:
            anyio.run(with_and_without_extra, base_url)


if __name__ == "__main__":
    main()

"""The extra ``speed``: aiohttp sends the requests, and nobody can tell but by the clock."""

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import current_token

from openmultiagent.adapters import BedrockAdapter, LLMChatOptions, LLMResponse, OpenAIAdapter, TransportOptions
from openmultiagent.adapters._direct_client import DirectClient
from openmultiagent.cli import main
from openmultiagent.egress import EgressPolicy
from openmultiagent.errors import (
    AdapterError,
    EgressPolicyError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
)
from openmultiagent.messages import LLMMessage
from openmultiagent.orchestrator._sync import LoopThread
from openmultiagent.testing import FakeProviderServer, Hangup, RawBody, Served, Silence
from tests.support import proves

pytest.importorskip("httpx_aiohttp", reason="the extra speed is not installed; nox -s speed runs these tests")

OPTIONS = LLMChatOptions(model="test-model")
HI = [LLMMessage.user("Hi")]
ANSWER = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


WAIT = 10.0
"""Seconds after which something that a test waits for will not come any more."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def adapter_at(base_url: str, *, timeout: float = WAIT, policy: EgressPolicy | None = None) -> OpenAIAdapter:
    transport = TransportOptions(max_retries=0, timeout=timeout)
    return OpenAIAdapter(base_url=base_url, api_key="secret", transport=transport, egress_policy=policy)


def client_of(adapter: OpenAIAdapter) -> httpx.AsyncClient | DirectClient:
    return adapter._transport._clients._by_loop[current_token().native_token]


def is_fast(adapter: OpenAIAdapter) -> bool:
    return type(client_of(adapter)._transport).__name__ == "AiohttpTransport"


async def failure(adapter: OpenAIAdapter, messages: Sequence[LLMMessage] = HI) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        await adapter.chat(messages, OPTIONS)
    await adapter.aclose()
    return caught.value


@contextmanager
def raw_server(answer: bytes, *, reads: bool = True) -> Iterator[tuple[str, list[bytes]]]:
    """Answer every connection with the same bytes, and hang up; a server that does not read does nothing at all."""
    seen: list[bytes] = []
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            connection, _ = listener.accept()
            with connection:
                if over.is_set():
                    return
                if not reads:
                    over.wait(WAIT)
                    return
                seen.append(connection.recv(65_536))
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        port = listener.getsockname()[1]
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/v1", seen
        finally:
            over.set()
            with socket.create_connection(("127.0.0.1", port)):
                thread.join(WAIT)


# --- when it is used -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uvloop", [False, True])
@proves("MOD-55")
def test_it_is_used_on_asyncio(uvloop: bool) -> None:
    async def talk() -> None:
        adapter = adapter_at(server.openai_url)
        assert isinstance(await adapter.chat(HI, OPTIONS), LLMResponse)
        assert is_fast(adapter)
        await adapter.aclose()

    with FakeProviderServer(lambda _: "Hello") as server:
        anyio.run(talk, backend_options={"use_uvloop": uvloop})


@proves("MOD-55")
def test_it_is_not_used_on_trio() -> None:
    async def talk() -> None:
        adapter = adapter_at(server.openai_url)
        await adapter.chat(HI, OPTIONS)
        assert not is_fast(adapter)
        await adapter.aclose()

    with FakeProviderServer(lambda _: "Hello") as server:
        anyio.run(talk, backend="trio")


@pytest.mark.parametrize("policy", [None, EgressPolicy("offline")])
@proves("MOD-55", "EGR-15")
async def test_a_proxy_of_the_environment_is_for_httpx_and_never_used_with_a_policy(
    monkeypatch: pytest.MonkeyPatch, policy: EgressPolicy | None
) -> None:
    async with FakeProviderServer(lambda _: "Hello") as server, FakeProviderServer(lambda _: "Hello") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.openai_url.removesuffix("/v1"))
        adapter = adapter_at(server.openai_url, policy=policy)
        await adapter.chat(HI, OPTIONS)
        assert is_fast(adapter) is (policy is not None)
        await adapter.aclose()
    assert (len(server.requests), len(proxy.requests)) == ((0, 1) if policy is None else (1, 0))


@proves("MOD-58")
def test_the_librarys_own_loops_are_of_uvloop() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    thread = LoopThread()
    try:
        assert type(thread.run(loop())).__module__ == "uvloop"
    finally:
        thread.stop()


@proves("MOD-58")
def test_the_command_line_tool_runs_on_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    run = anyio.run

    def noting(*arguments: Any, **options: Any) -> Any:
        asked.append(options["backend_options"])
        return run(*arguments, **options)

    monkeypatch.setattr(anyio, "run", noting)
    assert main(["agent", "Hi", "--quiet"]) == 0
    assert asked == [{"use_uvloop": True}]


# --- what is sent ----------------------------------------------------------------------------------------------------


@proves("MOD-56")
async def test_an_address_goes_out_as_it_was_signed() -> None:
    with raw_server(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n") as (base_url, seen):
        adapter = BedrockAdapter(
            base_url=base_url, api_key="secret", transport=TransportOptions(max_retries=0), region="eu-west-1"
        )
        with pytest.raises(AdapterError):
            await adapter.chat(HI, LLMChatOptions(model="anthropic.claude-v2:1"))
        await adapter.aclose()
    assert seen[0].startswith(b"POST /v1/model/anthropic.claude-v2%3A1/converse HTTP/1.1\r\n")


@proves("MOD-56")
async def test_the_headers_are_those_of_httpx() -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        fast, slow = adapter_at(server.openai_url), adapter_at(server.openai_url)
        slow._transport._clients.prefers_aiohttp = False
        for adapter in (fast, slow):
            await adapter.chat(HI, OPTIONS)
            await adapter.aclose()
    first, second = server.requests
    assert first.headers == second.headers
    assert first.raw == second.raw


@proves("MOD-56")
async def test_a_large_request_arrives_whole() -> None:
    text = "0123456789" * 100_000
    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_at(server.openai_url)
        await adapter.chat([LLMMessage.user(text)], OPTIONS)
        await adapter.aclose()
    assert server.requests[0].body["messages"][0]["content"] == text
    assert server.requests[0].headers["content-length"] == str(len(server.requests[0].raw))


@proves("MOD-56")
async def test_cookies_are_not_kept() -> None:
    async with FakeProviderServer(lambda _: RawBody(ANSWER, headers={"set-cookie": "a=b"})) as server:
        adapter = adapter_at(server.openai_url)
        for _ in range(2):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()
    assert all("cookie" not in request.headers for request in server.requests)


# --- what comes back -------------------------------------------------------------------------------------------------


@proves("MOD-57")
async def test_a_compressed_answer_is_read() -> None:
    async with FakeProviderServer(
        lambda _: RawBody(gzip.compress(ANSWER), headers={"content-encoding": "gzip"})
    ) as server:
        adapter = adapter_at(server.openai_url)
        assert (await adapter.chat(HI, OPTIONS)).content[0].text == "Hello"  # type: ignore[union-attr]
        await adapter.aclose()


@proves("MOD-57")
async def test_a_long_header_is_read() -> None:
    async with FakeProviderServer(lambda _: RawBody(ANSWER, headers={"x-long": "x" * 20_000})) as server:
        adapter = adapter_at(server.openai_url)
        await adapter.chat(HI, OPTIONS)
        await adapter.aclose()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "RemoteProtocolError: Server disconnected"),
        (b"this is not HTTP\r\n\r\n", "RemoteProtocolError: 400"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", "RemoteProtocolError: Response payload is not completed"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n1234", "content-encoding"),
    ],
)
@proves("MOD-57", "MOD-31")
async def test_whatever_the_server_does_is_an_error_of_the_adapter(answer: bytes, words: str) -> None:
    with raw_server(answer) as (base_url, _):
        error = await failure(adapter_at(base_url))
    assert isinstance(error, LLMConnectionError | LLMProtocolError)
    assert words in error.message
    assert error.retryable


@proves("MOD-57", "MOD-31")
async def test_a_reset_and_a_dead_server() -> None:
    async with FakeProviderServer(lambda _: Hangup()) as server:
        error = await failure(adapter_at(server.openai_url))
        assert "ReadError" in error.message
        assert isinstance(error, LLMConnectionError)
    assert "ConnectError" in (await failure(adapter_at(server.openai_url))).message


@proves("MOD-57", "MOD-41")
async def test_a_server_that_says_nothing() -> None:
    async with FakeProviderServer(lambda _: Silence()) as server:
        error = await failure(adapter_at(server.openai_url, timeout=0.05))
    assert "ReadTimeout" in error.message
    assert "raise TransportOptions.timeout" in error.message


@proves("MOD-57", "MOD-41")
async def test_a_server_that_does_not_read() -> None:
    with raw_server(b"", reads=False) as (base_url, _):
        with anyio.fail_after(WAIT):
            error = await failure(adapter_at(base_url, timeout=0.1), [LLMMessage.user("x" * 20_000_000)])
    assert "WriteTimeout: the server does not read the request" in error.message


@proves("MOD-57", "MOD-31")
async def test_a_stream_that_breaks_off_tells_what_came_before() -> None:
    async with FakeProviderServer(lambda _: Served("one two three", chunk_size=4, cut_after=3)) as server:
        adapter = adapter_at(server.openai_url)
        events = [event async for event in adapter.stream(HI, OPTIONS)]
        await adapter.aclose()
    assert [event.type for event in events] == ["text", "text", "error"]
    assert isinstance(events[-1].data, LLMConnectionError)


@pytest.mark.parametrize("location", ["https://elsewhere.test/v1", "http://xn--/", "http://:bad"])
@proves("MOD-57", "MOD-32", "EGR-13")
async def test_redirects_are_refused(location: str) -> None:
    async with FakeProviderServer(lambda _: RawBody(b"", status=308, headers={"location": location})) as server:
        error = await failure(adapter_at(server.openai_url))
        adapter = adapter_at(server.openai_url, policy=EgressPolicy("offline"))
        with pytest.raises(EgressPolicyError):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()
    assert isinstance(error, LLMBadRequestError)
    assert not error.retryable
    assert len(server.requests) == 2


@proves("MOD-57")
async def test_a_client_that_sent_nothing_is_closed() -> None:
    adapter = adapter_at("http://127.0.0.1:1/v1")
    await adapter._transport._clients.get()
    await adapter.aclose()


@proves("MOD-57")
async def test_an_error_that_is_not_about_http_passes_through() -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_at(server.openai_url)
        await adapter.chat(HI, OPTIONS)
        client_of(adapter)._transport._sender.handle_async_request = broken  # type: ignore[attr-defined]
        with pytest.raises(ZeroDivisionError):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()

"""The adapter against a real HTTP server: happy paths, faults, cancellation, event loops."""

import gc
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

from openmultiagent.adapters import (
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    OpenAIAdapter,
    StreamEvent,
    TransportOptions,
)
from openmultiagent.errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMProtocolError,
    LLMServerError,
)
from openmultiagent.messages import LLMMessage, TextBlock, ToolUseBlock
from openmultiagent.testing import FakeProviderServer, Hangup, RawBody, Refused, Served, Silence
from tests.support import proves

WAIT = 10.0
"""Seconds after which something that a test waits for will not come any more."""
OPTIONS = LLMChatOptions(model="test-model")
HI = [LLMMessage.user("Hi")]
SOON = {"retry-after-ms": "1"}


def adapter_for(server: FakeProviderServer, *, max_retries: int = 0, timeout: float = WAIT) -> OpenAIAdapter:
    transport = TransportOptions(max_retries=max_retries, timeout=timeout)
    return OpenAIAdapter(base_url=server.openai_url, api_key="secret", transport=transport)


async def collect(adapter: OpenAIAdapter) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI, OPTIONS)]


async def eventually(told: Callable[[float], bool]) -> bool:
    """Wait in a thread for something that the server tells."""
    return await anyio.to_thread.run_sync(told, WAIT)


def text_of(response: object) -> str:
    assert isinstance(response, LLMResponse)
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


@proves("MOD-3", "MOD-6")
async def test_chat_and_stream_agree_and_share_a_connection() -> None:
    call = ToolUseBlock(id="call_1", name="search", input={"q": "x"})
    answer = LLMResponse([TextBlock(text="Hello to you"), call], id="a", stop_reason="tool_use")
    async with FakeProviderServer(lambda _: Served(answer, chunk_size=4), api_key="secret") as server:
        adapter = adapter_for(server)
        whole = await adapter.chat(HI, LLMChatOptions(model="test-model", tools=[LLMToolDef("search", "", {})]))
        events = await collect(adapter)
        again = await collect(adapter)
        await adapter.aclose()
    assert whole.content == answer.content
    assert events[-1].data == again[-1].data == whole
    assert [event.data for event in events if event.type == "text"] == ["Hell", "o to", " you"]
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 3
    assert {request.connection for request in server.requests} == {1}


@proves("MOD-12")
async def test_an_image_reaches_the_server_as_the_protocol_wants_it() -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_for(server)
        await adapter.chat([LLMMessage.user_with_base64_image("What is this?", "aW1hZ2U=", "image/png")], OPTIONS)
        await adapter.aclose()
    assert server.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1hZ2U="}},
    ]


@proves("MOD-29", "MOD-4")
async def test_a_wrong_key() -> None:
    async with FakeProviderServer(lambda _: "Hello", api_key="another") as server:
        adapter = adapter_for(server, max_retries=2)
        with pytest.raises(LLMAuthenticationError) as caught:
            await adapter.chat(HI, OPTIONS)
        events = await collect(adapter)
        await adapter.aclose()
    assert (caught.value.status, caught.value.code, caught.value.attempts) == (401, "invalid_api_key", 1)
    assert caught.value.request_id == "req_1"
    assert isinstance(events[0].data, LLMAuthenticationError)
    assert len(server.requests) == 2


@proves("MOD-33", "MOD-6")
async def test_a_server_that_recovers() -> None:
    async with FakeProviderServer(
        [Refused(500, headers=SOON), Hangup(), Refused(429, headers=SOON), "at last"]
    ) as server:
        adapter = adapter_for(server, max_retries=3)
        assert text_of(await adapter.chat(HI, OPTIONS)) == "at last"
        await adapter.aclose()
    assert len(server.requests) == 4
    assert len({request.raw for request in server.requests}) == 1


@proves("MOD-33", "MOD-29")
async def test_a_server_that_does_not() -> None:
    async with FakeProviderServer(lambda _: Refused(503, "overloaded", headers=SOON)) as server:
        adapter = adapter_for(server, max_retries=2)
        with pytest.raises(LLMServerError, match="openai API error 503: overloaded") as caught:
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()
    assert caught.value.attempts == len(server.requests) == 3


@proves("MOD-31")
async def test_a_dead_server() -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_for(server)
    with pytest.raises(LLMConnectionError, match=r"could not be reached.*see whether the server runs") as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.__cause__ is not None
    await adapter.aclose()


@proves("MOD-31")
async def test_a_server_that_hangs_up() -> None:
    async with FakeProviderServer(lambda _: Hangup()) as server:
        adapter = adapter_for(server)
        with pytest.raises(LLMConnectionError):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()


@pytest.mark.parametrize("reply", [Served("Hello", pause_after=0), Served("Hello", pause_after=1)])
@pytest.mark.parametrize("streamed", [True, False])
@proves("MOD-61")
async def test_an_adapter_that_is_closed_with_a_request_in_flight(reply: Served, streamed: bool) -> None:
    errors: list[object] = []

    async def call() -> None:
        if streamed:
            errors.append((await collect(adapter))[-1].data)
            return
        try:
            await adapter.chat(HI, OPTIONS)
        except AdapterError as error:
            errors.append(error)

    async with FakeProviderServer(lambda _: reply) as server:
        adapter = adapter_for(server, max_retries=2)
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await server.wait_until_pausing()
                await adapter.aclose()
    (error,) = errors
    assert isinstance(error, LLMConnectionError)
    assert "openai: the adapter was closed while this request was going on" in str(error)
    assert not error.retryable
    assert error.attempts == len(server.requests) == 1


@proves("MOD-31", "MOD-41")
async def test_a_server_that_says_nothing() -> None:
    async with FakeProviderServer(lambda _: Silence()) as server:
        adapter = adapter_for(server, timeout=0.05)
        with pytest.raises(LLMConnectionError, match=r"ReadTimeout.*raise TransportOptions\.timeout"):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (Served("one two three", chunk_size=4, cut_after=3), LLMConnectionError),
        (Served("one two three", chunk_size=4, end_after=3), LLMProtocolError),
    ],
)
@proves("MOD-4", "MOD-19", "MOD-31", "MOD-35")
async def test_a_stream_that_breaks_off(reply: Served, cls: type[AdapterError]) -> None:
    async with FakeProviderServer(lambda _: reply) as server:
        adapter = adapter_for(server, max_retries=2)
        events = await collect(adapter)
        await adapter.aclose()
    assert [event.type for event in events] == ["text", "text", "error"]
    error = events[-1].data
    assert isinstance(error, cls)
    assert error.retryable
    assert len(server.requests) == 1


@proves("MOD-16")
async def test_a_page_instead_of_an_answer() -> None:
    async with FakeProviderServer(lambda _: RawBody(b"<html>Welcome</html>", content_type="text/html")) as server:
        adapter = adapter_for(server)
        with pytest.raises(LLMProtocolError, match="not valid JSON"):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()


@proves("MOD-5")
async def test_cancelling_a_stream_closes_its_connection() -> None:
    async with FakeProviderServer([Served("one two three", chunk_size=4, pause_after=2), "Hello"]) as server:
        adapter = adapter_for(server)
        first = anyio.Event()

        async def consume() -> None:
            async for _ in adapter.stream(HI, OPTIONS):
                first.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await first.wait()
            tasks.cancel_scope.cancel()
        assert await eventually(server.client_left.wait)
        assert text_of(await adapter.chat(HI, OPTIONS)) == "Hello"
        await adapter.aclose()
        gc.collect()  # a generator left behind would complain now


@proves("MOD-5")
async def test_cancelling_a_call_closes_its_connection() -> None:
    async with FakeProviderServer([Silence(), "Hello"]) as server:
        adapter = adapter_for(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.chat, HI, OPTIONS)
            assert await eventually(server.pausing.wait)
            tasks.cancel_scope.cancel()
        assert await eventually(server.client_left.wait)
        assert text_of(await adapter.chat(HI, OPTIONS)) == "Hello"
        await adapter.aclose()


@proves("MOD-5")
async def test_leaving_a_stream_early_closes_its_connection() -> None:
    async with FakeProviderServer([Served("one two three", chunk_size=4, pause_after=2), "Hello"]) as server:
        adapter = adapter_for(server)
        events = adapter.stream(HI, OPTIONS)
        assert (await anext(events)).data == "one "
        await events.aclose()
        assert await eventually(server.client_left.wait)
        assert text_of(await adapter.chat(HI, OPTIONS)) == "Hello"
        await adapter.aclose()
        gc.collect()


@proves("MOD-5")
async def test_leaving_a_stream_early_while_being_cancelled() -> None:
    async with FakeProviderServer(lambda _: Served("one two three", chunk_size=4, pause_after=2)) as server:
        adapter = adapter_for(server)
        events = adapter.stream(HI, OPTIONS)
        await anext(events)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await events.aclose()
        assert await eventually(server.client_left.wait)
        await adapter.aclose()
        gc.collect()


@proves("MOD-3", "MOD-5")
async def test_a_server_that_keeps_the_body_open_after_its_end_delays_nobody() -> None:
    async with FakeProviderServer(lambda _: Served("Hello", pause_after=99)) as server:
        adapter = adapter_for(server)
        with anyio.fail_after(WAIT / 2):
            events = await collect(adapter)
        assert events[-1].type == "done"
        assert await eventually(server.client_left.wait)
        await adapter.aclose()
        gc.collect()


@proves("MOD-6")
async def test_many_calls_at_once() -> None:
    async with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_for(server)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(collect, adapter)
                tasks.start_soon(adapter.chat, HI, OPTIONS)
        await adapter.aclose()
    assert len(server.requests) == 40


@pytest.mark.parametrize("second", ["asyncio", "trio"])
@pytest.mark.parametrize("first", ["asyncio", "trio"])
@proves("MOD-6")
def test_event_loops_in_turn(first: str, second: str) -> None:
    with FakeProviderServer(lambda _: "Hello") as server:
        adapter = adapter_for(server)

        async def talk() -> str:
            events = await collect(adapter)
            await adapter.aclose()
            await adapter.aclose()
            return text_of(events[-1].data)

        assert anyio.run(talk, backend=first) == "Hello"
        assert anyio.run(talk, backend=second) == "Hello"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@proves("MOD-6")
def test_a_loop_that_ended_without_closing_is_forgotten() -> None:
    def run_three_loops(server: FakeProviderServer) -> None:
        adapter = adapter_for(server)

        async def talk() -> str:
            return text_of(await adapter.chat(HI, OPTIONS))

        assert [anyio.run(talk) for _ in range(3)] == ["Hello"] * 3
        assert len(adapter._transport._clients._by_loop) == 1

    with FakeProviderServer(lambda _: "Hello") as server:
        run_three_loops(server)
        gc.collect()  # what the loops left open complains here, not in the next test

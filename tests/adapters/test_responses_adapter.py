"""The adapter for the Responses API as a whole, with the wire replaced."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
import respx

from openmultiagent.adapters import (
    LLMChatOptions,
    LLMResponse,
    OpenAIResponsesAdapter,
    StreamEvent,
    TransportOptions,
    create_adapter,
)
from openmultiagent.errors import (
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMProtocolError,
    LLMServerError,
)
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolResultBlock, ToolUseBlock
from tests.support import proves

URL = "http://model.test/v1/responses"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="gpt-5")
KEY = "my-very-own-key"

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "search", "arguments": '{"q": 1}'}
MESSAGE = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi \u2028🎉"}]}
ANSWER = {
    "id": "resp_1",
    "model": "gpt-5-x",
    "status": "completed",
    "output": [REASONING, MESSAGE, CALL],
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**ANSWER, "status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Hi \u2028"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "🎉"},
    {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"q": 1}'},
    {"type": "response.completed", "response": ANSWER},
]


def body_of(events: list[dict[str, Any]], end: bytes = b"\n") -> bytes:
    lines = [f"event: {item['type']}\ndata: {json.dumps(item, ensure_ascii=False)}\n\n" for item in events]
    return "".join(lines).encode().replace(b"\n", end)


class Chunks(httpx.AsyncByteStream):
    def __init__(self, body: bytes, size: int) -> None:
        self._chunks = [body[start : start + size] for start in range(0, len(body), size)]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Endless(httpx.AsyncByteStream):
    """A body that stops after its first bytes, and notes that it was closed."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._start
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True


def make(retries: int = 0) -> OpenAIResponsesAdapter:
    return OpenAIResponsesAdapter(
        base_url="http://model.test/v1/", api_key=KEY, transport=TransportOptions(max_retries=retries)
    )


async def stream(adapter: OpenAIResponsesAdapter) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI, OPTIONS)]


@proves("RSP-1", "RSP-10")
async def test_a_conversation_goes_there_and_back(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, json=ANSWER))
    adapter = make()
    response = await adapter.chat(HI, OPTIONS)
    request = route.calls.last.request
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert response.content == [
        ReasoningBlock(text="", signature="rs_1:enc", provenance="openai"),
        TextBlock(text="Hi \u2028🎉"),
        ToolUseBlock(id="c1", name="search", input={"q": 1}),
    ]
    result = ToolResultBlock(tool_use_id="c1", content="42")
    await adapter.chat([*HI, LLMMessage.assistant(response.content), LLMMessage.tool([result])], OPTIONS)
    assert json.loads(route.calls.last.request.content)["input"] == [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"},
        {"role": "assistant", "content": "Hi \u2028🎉"},
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]
    await adapter.aclose()


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@proves("RSP-17", "MOD-27")
async def test_a_stream_gives_the_same_events_however_it_is_cut(
    respx_mock: respx.MockRouter, size: int, end: bytes
) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, json=ANSWER))
    whole = await make().chat(HI, OPTIONS)
    respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=Chunks(body_of(EVENTS, end), size)))
    events = await stream(make())
    assert [event.type for event in events] == ["text", "text", "tool_input_delta", "tool_use", "done"]
    assert events[-1].data == whole
    assert isinstance(whole, LLMResponse)


@proves("RSP-16", "MOD-4")
async def test_failures_are_the_last_event(respx_mock: respx.MockRouter) -> None:
    adapter = make()
    headers = {"x-request-id": "req_9"}
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=body_of(EVENTS[:2]), headers=headers))
    *_, last = await stream(adapter)
    assert isinstance(last.data, LLMProtocolError)
    assert (last.data.status, last.data.request_id) == (200, "req_9")
    respx_mock.post(URL).mock(return_value=httpx.Response(503))
    (event,) = await stream(adapter)
    assert isinstance(event.data, LLMServerError)
    respx_mock.post(URL).mock(return_value=httpx.Response(401, json={"error": {"message": f"not {KEY}"}}))
    with pytest.raises(LLMAuthenticationError) as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.message == "openai API error 401: not [redacted]"


@proves("RSP-1", "MOD-2")
async def test_what_cannot_be_sent_raises_before_a_request(respx_mock: respx.MockRouter) -> None:
    adapter = make()
    with pytest.raises(InvalidMessageError):
        await adapter.chat("Hi", OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError):
        await anext(adapter.stream(["Hi"], OPTIONS))  # type: ignore[list-item]
    with pytest.raises(ConfigurationError):
        await adapter.chat(HI, LLMChatOptions(model="m", extra_body={"a": object()}))
    assert not respx_mock.calls


@proves("MOD-5")
async def test_cancelling_closes_the_response(respx_mock: respx.MockRouter) -> None:
    body = Endless(body_of(EVENTS[:2]))
    respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=body))
    adapter = make()
    texts: list[object] = []

    async def consume() -> None:
        async for event in adapter.stream(HI, OPTIONS):
            texts.append(event.data)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
    assert texts == ["Hi \u2028"]
    assert body.closed
    respx_mock.post(URL).mock(return_value=httpx.Response(200, json=ANSWER))
    assert (await adapter.chat(HI, OPTIONS)).stop_reason == "tool_use"


@proves("RSP-18", "MOD-8")
def test_what_the_adapter_says_of_itself() -> None:
    adapter = create_adapter("openai", api="responses", api_key=KEY, base_url="http://model.test/v1")
    assert isinstance(adapter, OpenAIResponsesAdapter)
    assert repr(adapter) == "OpenAIResponsesAdapter(name='openai', base_url='http://model.test/v1')"
    assert copy.deepcopy(adapter) is adapter
    assert adapter.capabilities.read_only
    assert adapter.capabilities.structured_output
    assert adapter.capabilities.echoes_reasoning == "own-issued"

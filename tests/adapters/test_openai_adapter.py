"""The adapter as a whole, with the wire replaced."""

import json

import httpx
import pytest
import respx

from openmultiagent.adapters import (
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    OpenAIAdapter,
    StreamEvent,
    TransportOptions,
)
from openmultiagent.errors import (
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMProtocolError,
    LLMServerError,
)
from openmultiagent.messages import LLMMessage, TextBlock, ToolUseBlock
from openmultiagent.usage import TokenUsage
from tests.support import proves

URL = "http://model.test/v1/chat/completions"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="gpt-x")
KEY = "my-very-own-key"

CHAT = (
    b'{"id":"cmpl_1","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}'
)
STREAM = (
    b'data: {"id":"cmpl_1","model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1",'
    b'"function":{"name":"search","arguments":"{\\"q\\":"}}]},"finish_reason":null}]}\n\n'
    b'data: {"id":"cmpl_1","model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,'
    b'"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}\n\n'
    b'data: {"id":"cmpl_1","model":"gpt-x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


class Chunks(httpx.AsyncByteStream):
    def __init__(self, body: bytes, size: int) -> None:
        self._chunks = [body[start : start + size] for start in range(0, len(body), size)]

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for chunk in self._chunks:
            yield chunk


def make(retries: int = 0, api_key: str = KEY) -> OpenAIAdapter:
    transport = TransportOptions(max_retries=retries)
    return OpenAIAdapter(base_url="http://model.test/v1", api_key=api_key, transport=transport)


async def stream(adapter: OpenAIAdapter, options: LLMChatOptions = OPTIONS) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI, options)]


def failure(events: list[StreamEvent]) -> Exception:
    assert [event.type for event in events].count("error") == 1
    error = events[-1].data
    assert isinstance(error, Exception)
    return error


@proves("MOD-15", "MOD-16", "MOD-29")
async def test_chat_on_the_wire(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    adapter = make()
    options = LLMChatOptions(model="gpt-x", system_prompt="Be brief.", max_tokens=7, temperature=0.5)
    response = await adapter.chat([LLMMessage.user_with_image("Look é", "https://example.com/a.png")], options)
    assert response == LLMResponse(
        [TextBlock(text="Hello")],
        id="cmpl_1",
        model="gpt-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )
    request = route.calls.last.request
    assert request.content.decode() == (
        '{"max_tokens":7,"temperature":0.5,"model":"gpt-x","messages":['
        '{"role":"system","content":"Be brief."},'
        '{"role":"user","content":[{"type":"text","text":"Look é"},'
        '{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}],"stream":false}'
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("openmultiagent/")
    await adapter.aclose()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@proves("MOD-3", "MOD-27")
async def test_a_stream_gives_the_same_events_however_it_is_cut(
    respx_mock: respx.MockRouter, size: int, end: bytes
) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=Chunks(STREAM.replace(b"\n", end), size)))
    adapter = make()
    events = await stream(adapter)
    assert [event.type for event in events] == ["tool_input_delta", "tool_input_delta", "tool_use", "done"]
    block = ToolUseBlock(id="c1", name="search", input={"q": 1})
    assert events[2].data == block
    assert events[3].data == LLMResponse(
        [block], id="cmpl_1", model="gpt-x", stop_reason="tool_use", usage=TokenUsage(input_tokens=3, output_tokens=2)
    )
    await adapter.aclose()


@proves("MOD-19", "MOD-27")
async def test_a_stream_may_end_without_done_and_without_a_last_line_end(respx_mock: respx.MockRouter) -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=body))
    events = await stream(make())
    assert [event.type for event in events] == ["text", "done"]


@proves("MOD-4", "MOD-19")
async def test_a_cut_stream_is_an_error_event_after_the_text(respx_mock: respx.MockRouter) -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=body, headers={"x-request-id": "req_9"}))
    events = await stream(make())
    assert [event.type for event in events] == ["text", "error"]
    error = failure(events)
    assert isinstance(error, LLMProtocolError)
    assert (error.status, error.request_id, error.retryable) == (200, "req_9", True)


@pytest.mark.parametrize("body", [b"data: {broken\n\n", b'data: {"choices": 7}\n\n', b'{"choices": []}', b""])
@proves("MOD-4", "MOD-16")
async def test_an_unreadable_stream_is_an_error_event(respx_mock: respx.MockRouter, body: bytes) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=body))
    events = await stream(make())
    assert [event.type for event in events] == ["error"]
    assert isinstance(failure(events), LLMProtocolError)


@proves("MOD-4", "MOD-29", "MOD-33")
async def test_a_refusal_before_the_stream_is_an_error_event(respx_mock: respx.MockRouter) -> None:
    headers = {"retry-after-ms": "1"}
    respx_mock.post(URL).mock(return_value=httpx.Response(500, json={"error": {"message": "boom"}}, headers=headers))
    error = failure(await stream(make(retries=2)))
    assert isinstance(error, LLMServerError)
    assert (error.message, error.attempts) == ("openai API error 500: boom", 3)


@proves("MOD-16")
async def test_an_unreadable_answer_names_its_request(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"<html>", headers={"x-request-id": "req_9"}))
    with pytest.raises(LLMProtocolError) as caught:
        await make().chat(HI, OPTIONS)
    assert (caught.value.status, caught.value.request_id, caught.value.body) == (200, "req_9", "<html>")


@proves("MOD-30")
async def test_the_key_itself_is_in_no_error(respx_mock: respx.MockRouter) -> None:
    body = {"error": {"message": f"who is {KEY}?"}}
    respx_mock.post(URL).mock(return_value=httpx.Response(401, json=body))
    with pytest.raises(LLMAuthenticationError) as caught:
        await make().chat(HI, OPTIONS)
    assert caught.value.message == "openai API error 401: who is [redacted]?"
    assert KEY not in json.dumps(caught.value.to_dict())


@proves("MOD-30", "RED-27")
async def test_a_short_key_takes_no_words_apart(respx_mock: respx.MockRouter) -> None:
    body = {"error": {"message": "localhost does not know local"}}
    respx_mock.post(URL).mock(return_value=httpx.Response(401, json=body))
    with pytest.raises(LLMAuthenticationError, match=r"401.*: localhost does not know \[redacted\]"):
        await make(api_key="local").chat(HI, OPTIONS)


@proves("MOD-2")
async def test_what_cannot_be_sent_raises_before_a_request(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL)
    adapter = make()
    bad = [LLMMessage.user("Hi"), "text"]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\] must be an object, got string"):
        await adapter.chat(bad, OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\] must be an object, got string"):
        await anext(adapter.stream(bad, OPTIONS))  # type: ignore[arg-type]
    extra = LLMChatOptions(model="m", extra_body={"a": object()})
    with pytest.raises(ConfigurationError, match="extra_body"):
        await stream(adapter, extra)
    assert not route.called


@proves("MOD-1")
async def test_an_answer_shares_nothing_with_the_request(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    schema = {"type": "object", "properties": {}}
    options = LLMChatOptions(model="gpt-x", tools=[LLMToolDef("a", "", schema)], extra_body={"x": [1]})
    response = await make().chat(HI, options)
    response.content.clear()
    assert [message.to_dict() for message in HI] == [LLMMessage.user("Hi").to_dict()]
    assert options.extra_body == {"x": [1]}
    assert schema == {"type": "object", "properties": {}}

"""The Gemini adapter as a whole, with the wire replaced."""

import copy
import json
from typing import Any

import anyio
import httpx
import pytest
import respx

from openmultiagent.adapters import LLMChatOptions, LLMResponse, StreamEvent, TransportOptions
from openmultiagent.adapters._gemini import GeminiAdapter, create
from openmultiagent.errors import (
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
)
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.wire import Broken, Chunks, Stalled

ROOT = "https://generativelanguage.googleapis.com/v1beta"
URL = f"{ROOT}/models/gemini-x:generateContent"
STREAM_URL = f"{ROOT}/models/gemini-x:streamGenerateContent?alt=sse"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="gemini-x")
KEY = "my-very-own-key"

CHAT = (
    b'{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP"}],'
    b'"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5},"responseId":"r1","modelVersion":"gemini-x"}'
)
STREAM = (
    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Let me\u2028","thought":true}]}}],'
    '"usageMetadata":{"promptTokenCount":3,"thoughtsTokenCount":2},"responseId":"r1","modelVersion":"gemini-x"}\n\n'
    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Grüße 🎉"},{"functionCall":{"id":"c1",'
    '"name":"search","args":{"q":1}},"thoughtSignature":"sig"}]}}],"responseId":"r1","modelVersion":"gemini-x"}\n\n'
    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}],'
    '"usageMetadata":{"promptTokenCount":3,"thoughtsTokenCount":2,"candidatesTokenCount":4},"responseId":"r1",'
    '"modelVersion":"gemini-x"}\n\n'
).encode()
CONTENT: list[Any] = [
    ReasoningBlock(text="Let me\u2028", provenance="gemini"),
    TextBlock(text="Grüße 🎉"),
    ToolUseBlock(id="c1", name="search", input={"q": 1}, signature="sig"),
]


def make(retries: int = 0) -> GeminiAdapter:
    return create(api_key=KEY, transport=TransportOptions(max_retries=retries))


async def stream(adapter: GeminiAdapter, options: LLMChatOptions = OPTIONS) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI, options)]


def failure(events: list[StreamEvent]) -> Exception:
    assert [event.type for event in events].count("error") == 1
    error = events[-1].data
    assert isinstance(error, Exception)
    return error


@proves("GEM-1", "GEM-2")
async def test_chat_on_the_wire(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    adapter = make()
    assert await adapter.chat(HI, OPTIONS) == LLMResponse(
        [TextBlock(text="Hi")],
        id="r1",
        model="gemini-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )
    request = route.calls.last.request
    assert request.content == (
        b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":4096}}'
    )
    assert request.headers["x-goog-api-key"] == KEY
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("openmultiagent/")
    assert KEY not in str(request.url)
    await adapter.aclose()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@proves("GEM-2", "GEM-25")
async def test_a_stream_gives_the_same_events_however_it_is_cut(
    respx_mock: respx.MockRouter, size: int, end: bytes
) -> None:
    body = Chunks(STREAM.replace(b"\n", end), size)
    respx_mock.post(STREAM_URL).mock(return_value=httpx.Response(200, stream=body))
    adapter = make()
    assert await stream(adapter) == [
        StreamEvent("reasoning", "Let me\u2028"),
        StreamEvent("text", "Grüße 🎉"),
        StreamEvent("tool_use", CONTENT[2]),
        StreamEvent(
            "done",
            LLMResponse(
                CONTENT,
                id="r1",
                model="gemini-x",
                stop_reason="tool_use",
                usage=TokenUsage(input_tokens=3, output_tokens=6, reasoning_tokens=2),
            ),
        ),
    ]
    await adapter.aclose()


@pytest.mark.parametrize(
    ("base_url", "model", "expected"),
    [
        (None, "gemini-x", URL),
        (None, "models/gemini-x", URL),
        (None, "tunedModels/mine", f"{ROOT}/tunedModels/mine:generateContent"),
        (None, "a:b?c", f"{ROOT}/models/a%3Ab%3Fc:generateContent"),
        ("https://proxy.test/google", "gemini-x", "https://proxy.test/google/v1beta/models/gemini-x:generateContent"),
        ("https://proxy.test/v1/", "gemini-x", "https://proxy.test/v1/models/gemini-x:generateContent"),
        ("https://proxy.test/v1alpha", "gemini-x", "https://proxy.test/v1alpha/models/gemini-x:generateContent"),
    ],
)
@proves("GEM-2")
async def test_addresses(respx_mock: respx.MockRouter, base_url: str | None, model: str, expected: str) -> None:
    route = respx_mock.post(url__regex=".*").mock(return_value=httpx.Response(200, content=CHAT))
    await create(api_key=KEY, base_url=base_url).chat(HI, LLMChatOptions(model=model))
    assert str(route.calls.last.request.url) == expected


@proves("GEM-1")
async def test_the_key_comes_from_the_first_variable(
    respx_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = respx_mock.post(url__regex=".*").mock(return_value=httpx.Response(200, content=CHAT))
    sent = []
    for gemini, google, argument in [("a", "b", None), ("", "b", None), ("a", "b", "c")]:
        monkeypatch.setenv("GEMINI_API_KEY", gemini)
        monkeypatch.setenv("GOOGLE_API_KEY", google)
        await create(api_key=argument).chat(HI, OPTIONS)
        sent.append(route.calls.last.request.headers["x-goog-api-key"])
    assert sent == ["a", "b", "c"]


@proves("GEM-1")
async def test_without_a_key(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(url__regex="https://proxy.test/.*").mock(return_value=httpx.Response(200, content=CHAT))
    adapter = create(transport=TransportOptions(max_retries=2))
    with pytest.raises(LLMAuthenticationError, match="gemini needs an API key; set GEMINI_API_KEY") as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.attempts == 0
    assert isinstance(failure(await stream(adapter)), LLMAuthenticationError)
    assert not route.called
    await create(base_url="https://proxy.test").chat(HI, OPTIONS)
    assert "x-goog-api-key" not in route.calls.last.request.headers


@pytest.mark.parametrize("arguments", [{"api_key": "a\nb"}, {"base_url": "ftp://x"}])
@proves("GEM-1")
def test_what_cannot_be_an_adapter(arguments: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="gemini"):
        create(**arguments)  # type: ignore[arg-type]


@proves("GEM-3")
async def test_what_cannot_be_sent_raises_before_a_request(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(url__regex=".*")
    adapter = make()
    bad = [LLMMessage.user("Hi"), {"role": "user", "content": [{"type": "video"}]}]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\]"):
        await adapter.chat(bad, OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\]"):
        await anext(adapter.stream(bad, OPTIONS))  # type: ignore[arg-type]
    assert not route.called


@proves("GEM-3", "GEM-23")
async def test_a_cut_stream_is_an_error_event_after_the_text(respx_mock: respx.MockRouter) -> None:
    first = STREAM[: STREAM.index(b"\n\n") + 2]
    route = respx_mock.post(STREAM_URL)
    route.mock(return_value=httpx.Response(200, content=first))
    events = await stream(make())
    assert [event.type for event in events] == ["reasoning", "error"]
    error = failure(events)
    assert isinstance(error, LLMProtocolError)
    assert (error.status, error.retryable) == (200, True)
    route.mock(return_value=httpx.Response(200, stream=Broken(first)))
    events = await stream(make())
    assert [event.type for event in events] == ["reasoning", "error"]
    assert isinstance(failure(events), LLMConnectionError)


@proves("GEM-5")
async def test_refusals(respx_mock: respx.MockRouter) -> None:
    body = {"error": {"code": 400, "message": f"API key not valid: {KEY}", "status": "INVALID_ARGUMENT"}}
    respx_mock.post(URL).mock(return_value=httpx.Response(400, json=body))
    adapter = make(retries=2)
    with pytest.raises(LLMBadRequestError) as caught:
        await adapter.chat(HI, OPTIONS)
    error = caught.value
    assert error.message == "gemini API error 400: API key not valid: [redacted]"
    assert (error.status, error.error_type, error.attempts, error.retryable) == (400, "INVALID_ARGUMENT", 1, False)
    respx_mock.post(STREAM_URL).mock(return_value=httpx.Response(400, json=body))
    assert str(failure(await stream(adapter))) == str(error)


@proves("GEM-4")
async def test_the_key_is_shown_nowhere(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=f"<html>{KEY}".encode()))
    adapter = make()
    with pytest.raises(LLMProtocolError) as caught:
        await adapter.chat(HI, OPTIONS)
    assert KEY not in json.dumps(caught.value.to_dict())
    assert KEY not in repr(adapter)
    assert repr(adapter) == ("GeminiAdapter(name='gemini', base_url='https://generativelanguage.googleapis.com')")
    assert copy.deepcopy(adapter) is adapter


@proves("GEM-5")
async def test_the_delay_that_google_asks_for(respx_mock: respx.MockRouter) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.001s"}
    busy = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [{}, info]}}
    respx_mock.post(URL).mock(side_effect=[httpx.Response(429, json=busy), httpx.Response(200, content=CHAT)])
    assert (await make(retries=1).chat(HI, OPTIONS)).id == "r1"
    respx_mock.post(URL).mock(return_value=httpx.Response(429, json=busy))
    with pytest.raises(LLMRateLimitError) as caught:
        await make().chat(HI, OPTIONS)
    assert caught.value.retry_after == 0.001
    busy["error"]["details"] = [{"retryDelay": "soon"}, 7]
    respx_mock.post(URL).mock(return_value=httpx.Response(429, json=busy, headers={"retry-after": "3"}))
    with pytest.raises(LLMRateLimitError) as caught:
        await make().chat(HI, OPTIONS)
    assert caught.value.retry_after == 3


@proves("GEM-4")
async def test_cancelling_a_stream_closes_the_response(respx_mock: respx.MockRouter) -> None:
    body = Stalled(STREAM[: STREAM.index(b"\n\n") + 2])
    route = respx_mock.post(STREAM_URL).mock(return_value=httpx.Response(200, stream=body))
    adapter = make()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream, adapter)
            await body.waiting.wait()
            tasks.cancel_scope.cancel()
    assert body.closed
    route.mock(return_value=httpx.Response(200, content=STREAM))
    assert (await stream(adapter))[-1].type == "done"
    await adapter.aclose()

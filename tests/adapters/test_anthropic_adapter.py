"""Anthropic's adapter as a whole, with the wire replaced."""

import copy
import json
from typing import Any

import anyio
import httpx
import pytest
import respx

from openmultiagent.adapters import LLMChatOptions, LLMResponse, StreamEvent, TransportOptions
from openmultiagent.adapters._anthropic import AnthropicAdapter, create
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMServerError,
    UnsupportedContentError,
)
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.wire import Broken, Chunks, Stalled

URL = "https://api.anthropic.com/v1/messages"
HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="claude-x")
KEY = "my-very-own-key"

CHAT = (
    b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hello"}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}'
)


def sse(*events: dict[str, Any]) -> bytes:
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ).encode()


START = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 10}}}
TEXT: list[dict[str, Any]] = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi \u2028there"}},
    {"type": "content_block_stop", "index": 0},
]
CALL: list[dict[str, Any]] = [
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "c1", "name": "search", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'}},
    {"type": "content_block_stop", "index": 1},
]
END: list[dict[str, Any]] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]
STREAM = sse(START, {"type": "ping"}, *TEXT, *CALL, *END)


def make(retries: int = 0, **options: Any) -> AnthropicAdapter:
    return AnthropicAdapter(**{"api_key": KEY, **options}, transport=TransportOptions(max_retries=retries))


async def stream(adapter: AnthropicAdapter, messages: Any = None) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI if messages is None else messages, OPTIONS)]


def failure(events: list[StreamEvent]) -> AdapterError:
    assert [event.type for event in events].count("error") == 1
    error = events[-1].data
    assert isinstance(error, AdapterError)
    return error


@proves("ANT-23", "ANT-14")
async def test_chat_on_the_wire(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    adapter = make(headers={"Anthropic-Beta": "context-1m-2025-08-07"})
    assert await adapter.chat(HI, OPTIONS) == LLMResponse(
        [TextBlock(text="Hello")],
        id="msg_1",
        model="claude-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )
    request = route.calls.last.request
    assert request.content == (
        b'{"max_tokens":4096,"model":"claude-x","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}'
    )
    sent = {name: request.headers[name] for name in ("x-api-key", "anthropic-version", "content-type")}
    assert sent == {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    assert request.headers["anthropic-beta"] == "context-1m-2025-08-07"
    assert request.headers["user-agent"].startswith("openmultiagent/")
    assert "authorization" not in request.headers
    await adapter.aclose()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@proves("MOD-27", "MOD-3", "ANT-20", "ANT-21")
async def test_a_stream_gives_the_same_events_however_it_is_cut(
    respx_mock: respx.MockRouter, size: int, end: bytes
) -> None:
    body = STREAM.replace(b"\n", end)
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=Chunks(body, size)))
    adapter = make()
    events = await stream(adapter)
    block = ToolUseBlock(id="c1", name="search", input={"q": 1})
    assert [event.type for event in events] == ["text", "tool_input_delta", "tool_use", "done"]
    assert (events[0].data, events[2].data) == ("Hi \u2028there", block)
    assert events[3].data == LLMResponse(
        [TextBlock(text="Hi \u2028there"), block],
        id="msg_1",
        model="claude-x",
        stop_reason="tool_use",
        usage=TokenUsage(input_tokens=10, output_tokens=7),
    )
    assert json.loads(route.calls.last.request.content)["stream"] is True
    await adapter.aclose()


@proves("ANT-10", "MOD-1")
async def test_reasoning_of_an_answer_goes_back_with_the_next_request(respx_mock: respx.MockRouter) -> None:
    thought = {"type": "thinking", "thinking": "why", "signature": "sig"}
    call = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": 1}}
    answer = {**json.loads(CHAT), "content": [thought, call], "stop_reason": "tool_use"}
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, json=answer))
    adapter = make()
    response = await adapter.chat(HI, OPTIONS)
    assert isinstance(response.content[0], ReasoningBlock)
    result = LLMMessage.user_with_blocks([{"type": "tool_result", "tool_use_id": "c1", "content": "found"}])
    await adapter.chat([*HI, LLMMessage.assistant(response.content), result], OPTIONS)
    assert json.loads(route.calls.last.request.content)["messages"][1]["content"] == [thought, call]


@proves("MOD-4", "ANT-21")
async def test_a_cut_stream_is_an_error_event_after_the_text(respx_mock: respx.MockRouter) -> None:
    response = httpx.Response(200, content=sse(START, *TEXT), headers={"request-id": "req_9"})
    respx_mock.post(URL).mock(return_value=response)
    events = await stream(make())
    assert [event.type for event in events] == ["text", "error"]
    error = failure(events)
    assert isinstance(error, LLMProtocolError)
    assert (error.status, error.request_id, error.retryable) == (200, "req_9", True)


@proves("MOD-4", "MOD-31")
async def test_a_connection_that_breaks_is_an_error_event(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=Broken(sse(START, *TEXT))))
    events = await stream(make(retries=2))
    assert [event.type for event in events] == ["text", "error"]
    assert isinstance(failure(events), LLMConnectionError)


@proves("ANT-22", "MOD-4")
async def test_an_error_in_the_middle_of_a_stream(respx_mock: respx.MockRouter) -> None:
    fault = {"type": "error", "error": {"type": "overloaded_error", "message": f"Overloaded {KEY}"}}
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=sse(START, *TEXT, fault, *END)))
    events = await stream(make())
    assert [event.type for event in events] == ["text", "error"]
    error = failure(events)
    assert isinstance(error, LLMServerError)
    assert (error.status, error.error_type, error.retryable) == (529, "overloaded_error", True)
    assert error.message == "anthropic API error: Overloaded [redacted]"


@proves("ANT-22", "MOD-33")
async def test_an_overloaded_server_is_asked_again(respx_mock: respx.MockRouter) -> None:
    overloaded = httpx.Response(
        529,
        json={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        headers={"retry-after-ms": "1"},
    )
    route = respx_mock.post(URL).mock(side_effect=[overloaded, httpx.Response(200, content=CHAT)])
    assert (await make(retries=1).chat(HI, OPTIONS)).id == "msg_1"
    assert route.call_count == 2


@proves("ANT-22", "MOD-29")
async def test_a_refused_request(respx_mock: respx.MockRouter) -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}
    respx_mock.post(URL).mock(return_value=httpx.Response(400, json=body, headers={"request-id": "req_7"}))
    with pytest.raises(LLMBadRequestError, match="anthropic API error 400: max_tokens: too large") as caught:
        await make(retries=2).chat(HI, OPTIONS)
    error = caught.value
    assert (error.error_type, error.request_id, error.attempts) == ("invalid_request_error", "req_7", 1)
    assert isinstance(failure(await stream(make())), LLMBadRequestError)


@proves("MOD-16", "ANT-22")
async def test_an_unreadable_answer_names_its_request(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=b"<html>", headers={"request-id": "req_9"}))
    with pytest.raises(LLMProtocolError) as caught:
        await make().chat(HI, OPTIONS)
    assert (caught.value.status, caught.value.request_id, caught.value.body) == (200, "req_9", "<html>")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer a-token-of-mine"}])
@proves("ANT-25", "MOD-30")
async def test_no_credential_stands_in_an_error(respx_mock: respx.MockRouter, headers: dict[str, str]) -> None:
    respx_mock.post(URL).mock(return_value=httpx.Response(401, json={"error": {"message": f"{KEY} a-token-of-mine"}}))
    adapter = make(headers=headers)
    with pytest.raises(LLMAuthenticationError) as caught:
        await adapter.chat(HI, OPTIONS)
    shown = json.dumps(caught.value.to_dict()) + repr(adapter)
    assert KEY not in shown
    assert ("a-token-of-mine" in shown) is not bool(headers)


@proves("MOD-2")
async def test_what_cannot_be_sent_raises_before_a_request(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL)
    adapter = make()
    bad = [LLMMessage.user("Hi"), "text"]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\] must be an object, got string"):
        await adapter.chat(bad, OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match=r"messages\[1\] must be an object, got string"):
        await stream(adapter, bad)
    picture = [LLMMessage.user_with_base64_image("Look", "aW1hZ2U=", "image/tiff")]
    with pytest.raises(UnsupportedContentError):
        await stream(adapter, picture)
    assert not route.called


@proves("MOD-5")
async def test_cancelling_a_stream_closes_its_response(respx_mock: respx.MockRouter) -> None:
    body = Stalled(sse(START, *TEXT))
    respx_mock.post(URL).mock(side_effect=[httpx.Response(200, stream=body), httpx.Response(200, content=CHAT)])
    adapter = make()
    seen: list[StreamEvent] = []

    async def consume() -> None:
        seen.extend([event async for event in adapter.stream(HI, OPTIONS)])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await body.waiting.wait()
            group.cancel_scope.cancel()
    assert body.closed
    assert not seen
    assert (await adapter.chat(HI, OPTIONS)).id == "msg_1"


@proves("ANT-21")
async def test_an_answer_is_over_although_the_server_keeps_its_body_open(respx_mock: respx.MockRouter) -> None:
    body = Stalled(STREAM)
    respx_mock.post(URL).mock(return_value=httpx.Response(200, stream=body))
    with anyio.fail_after(5):
        events = await stream(make())
    assert events[-1].type == "done"
    assert body.closed


# --- the adapter itself ----------------------------------------------------------------------------------------------


@proves("ANT-12")
async def test_a_model_that_continues(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    await make(prefill=True).chat([*HI, LLMMessage.assistant("He")], OPTIONS)
    assert json.loads(route.calls.last.request.content)["messages"][-1]["role"] == "assistant"


@proves("MOD-8", "ANT-25")
def test_copies_and_the_repr() -> None:
    adapter = make()
    assert copy.deepcopy(adapter) is adapter
    assert repr(adapter) == "AnthropicAdapter(name='anthropic', base_url='https://api.anthropic.com')"
    assert adapter.capabilities.read_only
    assert adapter.capabilities.echoes_reasoning == "own-issued"


@pytest.mark.parametrize(
    "options", [{"api_key": "a\nb"}, {"headers": {"a b": "c"}, "base_url": ""}, {"headers": {"x": "\n"}}]
)
@proves("MOD-40", "ANT-23")
def test_what_no_request_can_carry_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="anthropic"):
        make(**options)


@proves("ANT-23")
async def test_given_headers_win(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    await make(headers={"ANTHROPIC-VERSION": "2099-01-01", "x-api-key": "another"}).chat(HI, OPTIONS)
    sent = route.calls.last.request.headers
    assert (sent["anthropic-version"], sent["x-api-key"]) == ("2099-01-01", "another")


@pytest.mark.parametrize("key", ["", None])
@proves("ANT-23", "MOD-38")
async def test_without_a_key_the_vendors_own_address_fails_at_the_first_call(
    respx_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    route = respx_mock.post(URL)
    adapter = create(api_key=key)
    with pytest.raises(LLMAuthenticationError, match="set ANTHROPIC_API_KEY") as caught:
        await adapter.chat(HI, OPTIONS)
    assert caught.value.attempts == 0
    assert isinstance(failure(await stream(adapter)), LLMAuthenticationError)
    assert not route.called


@proves("ANT-23")
async def test_credentials_among_the_headers_stand_for_a_key(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    adapter = AnthropicAdapter(key_variable="ANTHROPIC_API_KEY", headers={"Authorization": "Bearer token"})
    await adapter.chat(HI, OPTIONS)
    sent = route.calls.last.request.headers
    assert sent["authorization"] == "Bearer token"
    assert "x-api-key" not in sent


@proves("ANT-23", "MOD-37")
async def test_another_address_gets_no_foreign_key(
    respx_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, f"the-key-in-{name}")
    route = respx_mock.post("http://localhost:9/v1/messages").mock(return_value=httpx.Response(200, content=CHAT))
    await create(base_url="http://localhost:9").chat(HI, OPTIONS)
    sent = route.calls.last.request.headers
    assert "x-api-key" not in sent
    assert "the-key-in" not in str(dict(sent))


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
@proves("ANT-24", "MOD-36")
async def test_keys_and_addresses_come_from_the_environment(
    respx_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, tail: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"https://proxy.test/anthropic{tail}")
    route = respx_mock.post("https://proxy.test/anthropic/v1/messages")
    route.mock(return_value=httpx.Response(200, content=CHAT))
    await create().chat(HI, OPTIONS)
    assert route.calls.last.request.headers["x-api-key"] == "from-the-environment"
    await create(api_key="given").chat(HI, OPTIONS)
    assert route.calls.last.request.headers["x-api-key"] == "given"
    respx_mock.post(URL).mock(return_value=httpx.Response(200, content=CHAT))
    await create(base_url=f"https://api.anthropic.com{tail}").chat(HI, OPTIONS)
    assert route.call_count == 2


@proves("ANT-24")
def test_what_the_environment_gets_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a\nb")
    with pytest.raises(ConfigurationError, match="the value of ANTHROPIC_API_KEY"):
        create()
    with pytest.raises(ConfigurationError, match="api_key"):
        create(api_key="c\nd")
    with pytest.raises(ConfigurationError, match="base_url"):
        create(api_key="k", base_url="ftp://x")

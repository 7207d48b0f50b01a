"""The fake server: its protocols, its faults, its strict mode, and how it is used."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, cast

import anyio
import anyio.to_thread
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.adapters import (
    AnthropicAdapter,
    BedrockAdapter,
    CopilotAdapter,
    GeminiAdapter,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamEvent,
    TransportOptions,
)
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
)
from openmultiagent.messages import ContentBlock, ImageBlock, LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.testing import (
    FakeProviderServer,
    FakeRequest,
    Hangup,
    Quirk,
    RawBody,
    Refused,
    Scripted,
    Served,
    Silence,
)
from openmultiagent.testing._strict import STRICT, Complaint
from openmultiagent.usage import TokenUsage
from tests.support import proves

WAIT = 10.0
RESET = struct.pack("ii", 1, 0)
"""A linger of zero seconds: closing the socket breaks the connection."""
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Making a real one for each client takes longer than the requests do."""
OPTIONS = LLMChatOptions(model="test-model")
HI = [LLMMessage.user("Hi")]
ONCE = TransportOptions(max_retries=0)
ADAPTERS: dict[str, Callable[[FakeProviderServer], LLMAdapter]] = {
    "openai": lambda server: OpenAIAdapter(base_url=server.openai_url, api_key="key", transport=ONCE),
    "openai-responses": lambda server: OpenAIResponsesAdapter(
        base_url=server.openai_url, api_key="key", transport=ONCE
    ),
    "anthropic": lambda server: AnthropicAdapter(base_url=server.anthropic_url, api_key="key", transport=ONCE),
    "gemini": lambda server: GeminiAdapter(base_url=server.gemini_url, api_key="key", transport=ONCE),
    "bedrock": lambda server: BedrockAdapter(base_url=server.bedrock_url, api_key="key", transport=ONCE),
}
PATHS = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/test-model:generateContent",
    "bedrock": "/model/test-model/converse",
}
BODIES: dict[str, dict[str, Any]] = {
    "openai": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "openai-responses": {"model": "m", "input": "Hi"},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "gemini": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "bedrock": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
}
every_protocol = pytest.mark.parametrize("protocol", PATHS)


def post(
    server: FakeProviderServer,
    protocol: str = "openai",
    *,
    stream: bool = False,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    path, body = PATHS[protocol], BODIES[protocol]
    if stream and protocol == "gemini":
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    elif stream and protocol == "bedrock":
        path = f"{path}-stream"
    elif stream:
        body = {**body, "stream": True}
    return httpx.post(server.url + path, json=body, headers=headers, timeout=WAIT, verify=NO_TLS)


def raw_client(server: FakeProviderServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)))


def payloads(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.content.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


async def both(response: Any, protocol: str, **options: Any) -> tuple[LLMResponse | AdapterError, list[StreamEvent]]:
    """What an adapter makes of a response, whole and streamed."""
    async with FakeProviderServer(lambda _: response, **options) as server:
        adapter = cast("OpenAIAdapter", ADAPTERS[protocol](server))
        try:
            whole: LLMResponse | AdapterError = await adapter.chat(HI, OPTIONS)
        except AdapterError as error:
            whole = error
        events = [event async for event in adapter.stream(HI, OPTIONS)]
        await adapter.aclose()
    return whole, events


def is_done_with(event: StreamEvent, answer: LLMResponse) -> bool:
    """Whether a stream ended with an answer; the server counts its answers in their ids."""
    return isinstance(event.data, LLMResponse) and replace(event.data, id=answer.id) == answer


# --- protocols -------------------------------------------------------------------------------------------------------


@every_protocol
@proves("TST-20", "TST-21")
async def test_an_answer_in_each_protocol(protocol: str) -> None:
    usage = TokenUsage(input_tokens=12, output_tokens=7, cache_read_tokens=4, reasoning_tokens=3)
    answer = LLMResponse(
        [
            ReasoningBlock.new("Let me think about this one.", signature="rs_1:proof"),
            TextBlock.new("Grüße \u2028 an alle, und mehr."),
            ToolUseBlock.new("call_1", "look", {"q": "ein Wort", "n": [1, None]}),
            ToolUseBlock.new("call_2", "look", {}),
        ],
        id="answer",
        model="served-model",
        stop_reason="tool_use",
        usage=usage,
    )
    whole, events = await both(answer, protocol)
    assert isinstance(whole, LLMResponse)
    assert is_done_with(events[-1], whole)
    # Bedrock says neither which model has answered nor how many tokens its reasoning took.
    model = "test-model" if protocol == "bedrock" else "served-model"
    usage = replace(usage, reasoning_tokens=0) if protocol == "bedrock" else usage
    assert (whole.id, whole.model, whole.stop_reason, whole.usage) == ("answer", model, "tool_use", usage)
    assert whole.content[1:] == answer.content[1:]
    (reasoning,) = [block for block in whole.content if isinstance(block, ReasoningBlock)]
    assert reasoning.text == "Let me think about this one."
    assert reasoning.signature == (None if protocol == "openai" else "rs_1:proof")


@pytest.mark.parametrize("protocol", ["anthropic", "bedrock"])
@proves("TST-21")
async def test_reasoning_that_only_the_provider_can_read(protocol: str) -> None:
    whole, events = await both([ReasoningBlock.new("", redacted_data="opaque"), TextBlock.new("x")], protocol)
    assert isinstance(whole, LLMResponse)
    assert whole.content[0] == ReasoningBlock.new("", redacted_data="opaque", provenance=protocol)
    assert is_done_with(events[-1], whole)


@every_protocol
@proves("TST-21")
async def test_reasoning_without_a_signature_or_a_text(protocol: str) -> None:
    unsigned = [ReasoningBlock.new("Hm."), TextBlock.new("x")]
    wordless = [ReasoningBlock.new("", signature="rs_1:proof"), TextBlock.new("x")]
    for content in (unsigned, wordless):
        whole, events = await both(content, protocol)
        assert isinstance(whole, LLMResponse)
        assert whole.content[-1] == TextBlock.new("x")
        assert is_done_with(events[-1], whole)


@every_protocol
@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "content_filter"])
@proves("TST-21")
async def test_why_an_answer_ended(protocol: str, stop_reason: str) -> None:
    whole, events = await both(Served("x", stop_reason=stop_reason), protocol)
    assert isinstance(whole, LLMResponse)
    filtered = "refusal" if protocol == "anthropic" else "content_filter"  # the vendor has no other word
    assert whole.stop_reason == (filtered if stop_reason == "content_filter" else stop_reason)
    assert is_done_with(events[-1], whole)


@every_protocol
@proves("TST-20")
def test_what_a_model_is_called_and_an_answer_without_blocks_of_text(protocol: str) -> None:
    with FakeProviderServer([[], [ImageBlock.from_base64("aW1hZ2U=", "image/png")]]) as server:
        body = post(server, protocol).json()
        told = {"gemini": body.get("modelVersion"), "bedrock": None}.get(protocol, body.get("model"))
        assert told == {"gemini": "test-model", "bedrock": None}.get(protocol, "m")
        assert post(server, protocol, stream=True).status_code == 200


@proves("TST-22")
def test_requests_are_recorded() -> None:
    with FakeProviderServer(lambda _: "Hello") as server, httpx.Client(verify=NO_TLS) as client:
        for protocol, path in PATHS.items():
            client.post(f"{server.url}{path}?x=1", json=BODIES[protocol], headers={"X-Test": "y"})
        client.post(f"{server.url}/v1/chat/completions", json={**BODIES["openai"], "stream": True})
        client.post(f"{server.url}/v1beta/models/m:streamGenerateContent", json=BODIES["gemini"])
        client.post(f"{server.url}/model/m%3A0/converse-stream", json=BODIES["bedrock"])
    assert [request.protocol for request in server.requests] == [*PATHS, "openai", "gemini", "bedrock"]
    assert [request.streamed for request in server.requests] == [False] * 5 + [True] * 3
    assert [request.number for request in server.requests] == [1, 2, 3, 4, 5, 6, 7, 8]
    first = server.requests[0]
    assert (first.path, first.headers["x-test"], first.connection) == ("/v1/chat/completions?x=1", "y", 1)
    assert json.loads(first.raw) == first.body == BODIES["openai"]


@proves("TST-22")
def test_what_is_no_request_of_a_provider() -> None:
    with FakeProviderServer(["Hello"]) as server:
        assert httpx.get(f"{server.url}/v1/chat/completions").status_code == 404
        assert httpx.post(f"{server.url}/v1/embeddings", json={}).status_code == 404
        response = httpx.post(f"{server.url}/v1/messages", content=b"no JSON")
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
        assert post(server).status_code == 200
    assert [request.protocol for request in server.requests] == ["unknown", "unknown", "anthropic", "openai"]


@proves("TST-23")
@pytest.mark.parametrize(
    "headers",
    [{"authorization": "Bearer right"}, {"x-api-key": "right"}, {"x-goog-api-key": "right"}, {"api-key": "right"}],
)
def test_a_key(headers: dict[str, str]) -> None:
    with FakeProviderServer(["Hello"], api_key="right") as server:
        assert post(server).status_code == post(server, headers=dict.fromkeys(headers, "wrong")).status_code == 401
        assert post(server, headers=headers).status_code == 200


@proves("TST-35")
def test_a_github_token_is_exchanged_for_a_session_token_that_is_as_good_as_the_key() -> None:
    with FakeProviderServer(["Hello"], api_key="right") as server:
        url = f"{server.copilot_url}/copilot_internal/v2/token"
        assert httpx.get(url, headers={"authorization": "token wrong"}).status_code == 401
        sessions = [httpx.get(url, headers={"authorization": "token right"}).json() for _ in range(2)]
        assert sessions[0]["token"] != sessions[1]["token"]
        assert all(session["expires_at"] > time.time() + 60 for session in sessions)
        shown = {"authorization": f"Bearer {sessions[0]['token']}"}
        assert post(server, headers={"authorization": "Bearer another"}).status_code == 401
        assert post(server, headers=shown).status_code == 200
    assert [request.protocol for request in server.requests] == ["copilot-token"] * 3 + ["openai"] * 2


@proves("TST-35", "PRO-17")
async def test_copilot_against_hosts_of_its_own() -> None:
    async with FakeProviderServer(["Hello", "Hello again"], api_key="right", strict=True) as server:
        url = server.copilot_url
        adapter = CopilotAdapter("right", base_url=url, github_url=url, github_api_url=f"{url}/", transport=ONCE)
        answers = [await adapter.chat(HI, OPTIONS) for _ in range(2)]
        await adapter.aclose()
    assert [answer.content for answer in answers] == [[TextBlock.new("Hello")], [TextBlock.new("Hello again")]]
    assert [request.protocol for request in server.requests] == ["copilot-token", "openai", "openai"]


# --- the script ------------------------------------------------------------------------------------------------------


@proves("TST-20")
def test_responses_are_given_in_the_order_of_the_requests() -> None:
    def second(request: FakeRequest) -> str:
        return f"{request.body['messages'][0]['content']} number {request.number}"

    with FakeProviderServer(["one", second, [TextBlock.new("three")]]) as server:
        texts = [post(server).json()["choices"][0]["message"]["content"] for _ in range(3)]
        exhausted = post(server)
    assert texts == ["one", "Hi number 2", "three"]
    assert exhausted.status_code == 400
    assert "the script has 3 responses, and this is request 4" in exhausted.text


@proves("TST-20")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LLMRateLimitError("slow down", provider="x", status=429, retry_after=0.5), LLMRateLimitError),
        (LLMRateLimitError("slow down", provider="x"), LLMRateLimitError),
        (LLMAuthenticationError("who?", provider="x"), LLMAuthenticationError),
        (LLMBadRequestError("what?", provider="x", status=422), LLMBadRequestError),
        (LLMServerError("oh", provider="x"), LLMServerError),
        (LLMConnectionError("gone", provider="x"), LLMConnectionError),
        (LLMProtocolError("nonsense", provider="x"), LLMProtocolError),
        (ValueError("a bug"), LLMServerError),
        (Scripted("abc", error=ValueError("a bug")), LLMServerError),
        (Scripted("abc", cut_after=0), LLMConnectionError),
        (Scripted("abc", fail_after=0), LLMConnectionError),
    ],
)
async def test_exceptions_are_served_as_what_a_client_reports_with_them(error: Any, kind: type[AdapterError]) -> None:
    whole, events = await both(error, "openai")
    assert isinstance(whole, kind)
    assert [type(event.data) for event in events] == [kind]
    if isinstance(error, AdapterError) and not isinstance(whole, LLMConnectionError | LLMProtocolError):
        assert str(error) in str(whole)
        assert (whole.status, whole.retry_after) == (error.status or whole.status, error.retry_after)


@proves("TST-20")
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Scripted("x" * 64, fail_after=2, error=LLMRateLimitError("slow", provider="x")), AdapterError),
        (Scripted("x" * 64, fail_after=2, error=LLMConnectionError("gone", provider="x")), LLMConnectionError),
        (Scripted("x" * 64, cut_after=2), LLMConnectionError),
    ],
)
async def test_a_scripted_failure_in_the_middle(script: Scripted, kind: type[AdapterError]) -> None:
    _, events = await both(script, "openai")
    assert [event.type for event in events] == ["text", "error"]
    assert isinstance(events[-1].data, kind)


@proves("TST-20")
async def test_a_scripted_answer() -> None:
    usage = TokenUsage(input_tokens=3, output_tokens=1)
    script = Scripted("Hello", usage=usage, stop_reason="max_tokens", delay=0.001, piece_delay=0.001, chunk_size=2)
    whole, events = await both(script, "openai")
    assert isinstance(whole, LLMResponse)
    assert (whole.usage, whole.stop_reason) == (usage, "max_tokens")
    assert [event.data for event in events[:-1]] == ["He", "ll", "o"]
    _, events = await both(Scripted("x" * 64, fail_after=2, error=LLMProtocolError("no", provider="x")), "openai")
    assert [event.type for event in events] == ["error"]


@proves("TST-24")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: FakeProviderServer("Hello"), "must be a list of responses or a callable, got str"),
        (lambda: FakeProviderServer([3]), "the response of the server must be a str"),  # type: ignore[list-item]
        (lambda: FakeProviderServer([KeyboardInterrupt()]), "cannot answer with KeyboardInterrupt"),
        (lambda: Served(3), "Served.content must be a str"),  # type: ignore[arg-type]
        (lambda: Served(delay=-1), "Served.delay must be a number of seconds"),
        (lambda: Served(chunk_size=0), "Served.chunk_size must be 1 or more"),
        (lambda: Served(pause_after=-1), "Served.pause_after must be 0 or more"),
        (lambda: Served(cut_after=1, end_after=1), "Served takes one of cut_after, end_after"),
        (lambda: Refused(200), "Refused.status must be from 300 to 599"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


# --- faults ----------------------------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("stream", [False, True])
@proves("TST-25")
def test_a_refusal_in_the_words_of_the_provider(protocol: str, stream: bool) -> None:
    refused = Refused(429, "slow down", retry_after=1.5, code="too_fast", param="model", headers={"x-more": "y"})
    with FakeProviderServer([refused, Refused(418, type="teapot")]) as server:
        response, other = post(server, protocol, stream=stream), post(server, protocol, stream=stream)
    assert (response.status_code, response.headers["retry-after"], response.headers["x-more"]) == (429, "1.5", "y")
    openai = {"message": "slow down", "type": "rate_limit_error", "param": "model", "code": "too_fast"}
    assert (
        response.json()
        == {
            "openai": {"error": openai},
            "openai-responses": {"error": openai},
            "anthropic": {
                "type": "error",
                "error": {"type": "rate_limit_error", "message": "slow down"},
                "request_id": "req_fake",
            },
            "gemini": {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
            "bedrock": {"message": "slow down"},
        }[protocol]
    )
    assert (other.status_code, "teapot" in other.text + other.headers.get("x-amzn-errortype", "")) == (418, True)
    assert response.headers.get("x-amzn-errortype", "")[:20] == (
        "ThrottlingException:" if protocol == "bedrock" else ""
    )


@every_protocol
@proves("TST-26")
async def test_a_stream_that_is_cut_ends_or_fails(protocol: str) -> None:
    text = "one two three four five six"
    for served, kind in (
        (Served(text, chunk_size=4, cut_after=4), LLMConnectionError),
        (Served(text, chunk_size=4, end_after=4), LLMProtocolError),
        (Served(text, chunk_size=4, fail_after=4, failure=Refused(503, "overloaded")), LLMServerError),
    ):
        whole, events = await both(served, protocol)
        assert isinstance(whole, kind)
        assert [event.type for event in events][-1] == "error"
        assert isinstance(events[-1].data, AdapterError if kind is LLMServerError else kind)


@proves("TST-26")
def test_a_whole_answer_that_is_cut_or_ends() -> None:
    with FakeProviderServer([Served("x", cut_after=0), Served("x", cut_after=1), Served("x", end_after=1)]) as server:
        for _ in range(2):
            with pytest.raises(httpx.TransportError):
                post(server)
        response = post(server)
    assert response.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        response.json()


@proves("TST-26")
def test_no_response_at_all() -> None:
    with FakeProviderServer([Hangup(), "Hello"]) as server:
        with pytest.raises(httpx.TransportError):
            post(server)
        assert post(server).status_code == 200


@proves("TST-26")
def test_any_bytes() -> None:
    raw = RawBody(b"<html>", status=502, content_type="text/html", headers={"server": "proxy"}, split=2)
    with FakeProviderServer([raw]) as server:
        response = post(server)
    assert (response.status_code, response.content) == (502, b"<html>")
    assert (response.headers["content-type"], "proxy" in response.headers.get_list("server")) == ("text/html", True)


@every_protocol
@proves("TST-27")
async def test_streams_that_are_cut_anywhere_are_the_same_streams(protocol: str) -> None:
    content: list[ContentBlock] = [
        TextBlock.new("Grüße \u2028 \u0085 an alle"),
        ToolUseBlock.new("c1", "look", {"q": "\u2028"}),
    ]
    _, plain = await both(Served(content), protocol)
    for served in (Served(content, split=1), Served(content, crlf=True), Served(content, split=1, crlf=True)):
        assert (await both(served, protocol))[1] == plain


@proves("TST-27")
def test_lines_end_as_they_are_asked_to() -> None:
    with FakeProviderServer([Served("x", crlf=True), Served("x")]) as server:
        with_cr, without = post(server, stream=True).content, post(server, stream=True).content
    assert with_cr.count(b"\r\n") == with_cr.count(b"\n") > 0
    assert b"\r" not in without
    assert with_cr.replace(b"\r\n", b"\n") == without.replace(b"answer-2", b"answer-1")


NO_IDS: tuple[Quirk, ...] = ("no_call_ids", "same_call_ids")
CALLS = [ToolUseBlock.new("call_1", "look", {"q": "one"}), ToolUseBlock.new("call_2", "look", {"q": "two"})]


async def quirky(protocol: str, content: Any, *quirks: Quirk) -> tuple[Any, list[StreamEvent]]:
    return await both(Served(content, quirks=frozenset(quirks)), protocol)


@every_protocol
@proves("TST-28")
async def test_quirks_of_calls(protocol: str) -> None:
    for quirk in NO_IDS:
        whole, _ = await quirky(protocol, CALLS, quirk)
        assert len({block.id for block in whole.content}) == 2
    whole, events = await quirky(protocol, CALLS, "broken_arguments")
    assert [bool(block.input_error) for block in whole.content] == [True, True]
    told = [event.data for event in events if isinstance(event.data, ToolUseBlock)]
    assert [bool(block.input_error) for block in told] == [True, True]
    whole, events = await quirky(protocol, CALLS, "object_arguments")
    assert [block.input for block in whole.content] == [{"q": "one"}, {"q": "two"}]
    told = [event.data for event in events if isinstance(event.data, ToolUseBlock)]
    assert [block.input for block in told] == [{"q": "one"}, {"q": "two"}]
    await quirky(protocol, CALLS, "object_arguments", "no_call_ids")


@every_protocol
@proves("TST-28")
def test_calls_have_no_ids_or_the_same(protocol: str) -> None:
    with FakeProviderServer([Served(CALLS, quirks=frozenset({quirk})) for quirk in NO_IDS for _ in range(2)]) as server:
        none, none_streamed, same, same_streamed = (
            post(server, protocol, stream=stream).text for _ in NO_IDS for stream in (False, True)
        )
    assert "call_" not in none.replace("function_call_", "").replace("tool_calls", "").replace('"function_call"', "")
    assert "call_1" not in none_streamed
    assert same.count("call_same") == 2
    assert same_streamed.count("call_same") >= 2


@every_protocol
@proves("TST-28")
async def test_quirks_of_streams(protocol: str) -> None:
    _, plain = await quirky(protocol, "Hello there, all of you")
    assert (await quirky(protocol, "Hello there, all of you", "empty_chunks", "unknown_events"))[1] == plain
    _, events = await quirky(protocol, "Hello", "no_finish")
    assert [event.type for event in events] == ["text", "error"]


@every_protocol
@proves("TST-28")
def test_an_answer_in_one_piece_where_a_stream_was_asked_for(protocol: str) -> None:
    whole = Served("Hello", usage=TokenUsage(input_tokens=1), quirks=frozenset({"no_stream"}))
    failing = replace(whole, fail_after=0, failure=Refused(503))
    with FakeProviderServer([replace(whole, headers={"x-amzn-requestid": "r"}), whole, failing]) as server:
        asked, not_asked = post(server, protocol, stream=True), post(server, protocol)
        assert post(server, protocol, stream=True).status_code == 503
    assert asked.headers["content-type"] == not_asked.headers["content-type"] == "application/json"
    assert asked.text.replace("answer-1", "answer-2") == not_asked.text


@proves("TST-28")
def test_empty_chunks_and_an_answer_without_content() -> None:
    empty = Served("x", quirks=frozenset({"empty_chunks"}))
    nothing = Served("x", usage=TokenUsage(input_tokens=1), quirks=frozenset({"no_choices"}))
    with FakeProviderServer([empty, nothing, nothing, nothing]) as server:
        chunks = payloads(post(server, stream=True))
        assert [chunk["choices"] for chunk in chunks[:2]] == [[], None]
        assert chunks[2]["choices"][0]["delta"] is None
        assert post(server).json()["choices"] == []
        assert [chunk if chunk == "[DONE]" else chunk["choices"] for chunk in payloads(post(server, stream=True))] == [
            [],
            "[DONE]",
        ]
        assert "candidates" not in post(server, "gemini").json()


@proves("TST-28")
async def test_usage_is_reported_or_not() -> None:
    known = TokenUsage(input_tokens=5, output_tokens=2)
    for protocol in ADAPTERS:
        for usage in (known, None):
            whole, events = await both(Served("x", usage=usage), protocol)
            assert isinstance(whole, LLMResponse)
            assert whole.usage == usage
            assert is_done_with(events[-1], whole)


# --- time ------------------------------------------------------------------------------------------------------------


@proves("TST-29")
def test_delays() -> None:
    served = Served("abcd", chunk_size=2, delay=0.03, body_delay=0.03, piece_delay=0.01, headers={"x-late": "y"})
    with FakeProviderServer([served, Served("x", delay=60.0)]) as server:
        start = time.monotonic()
        with httpx.stream(
            "POST", server.url + PATHS["openai"], json={**BODIES["openai"], "stream": True}, verify=NO_TLS
        ) as response:
            headers = time.monotonic() - start
            response.read()
            body = time.monotonic() - start
        assert response.headers["x-late"] == "y"
        assert headers >= 0.03
        assert body >= 0.03 + 0.03 + 5 * 0.01
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url + PATHS["openai"], json=BODIES["openai"], timeout=0.05, verify=NO_TLS)
        assert server.client_left.wait(WAIT)


@proves("TST-30")
async def test_a_pause_ends_with_the_release() -> None:
    async with FakeProviderServer([Served("one two three", chunk_size=4, pause_after=2)]) as server:
        adapter = OpenAIAdapter(base_url=server.openai_url, transport=ONCE)
        async with aclosing(adapter.stream(HI, OPTIONS)) as events:
            assert (await anext(events)).data == "one "
            await server.wait_until_pausing()
            server.release()
            server.release()
            assert [event.type async for event in events][-1] == "done"
        await adapter.aclose()
    assert not server.client_left.is_set()


@proves("TST-30")
async def test_a_pause_before_the_end_of_the_body() -> None:
    async with (
        FakeProviderServer([Served("Hello", pause_after=99)]) as server,
        httpx.AsyncClient(verify=NO_TLS) as client,
    ):
        body = {**BODIES["openai"], "stream": True}
        async with client.stream("POST", server.url + PATHS["openai"], json=body) as response:
            chunks = response.aiter_raw()
            got = b""
            while b"[DONE]" not in got:
                got += await anext(chunks)
            await server.wait_until_pausing()
            server.release()
            with pytest.raises(StopAsyncIteration):
                await anext(chunks)


@pytest.mark.parametrize("response", [Silence(), Served("Hello", pause_after=1), Served("Hello", delay=60.0)])
@proves("TST-31")
async def test_the_server_sees_that_a_client_leaves(response: Any) -> None:
    asked = threading.Event()

    def answer(_: FakeRequest) -> Any:
        asked.set()
        return response

    async with FakeProviderServer(answer) as server:
        adapter = OpenAIAdapter(base_url=server.openai_url, transport=ONCE)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.chat, HI, OPTIONS)
            assert await anyio.to_thread.run_sync(asked.wait, WAIT)
            tasks.cancel_scope.cancel()
        await server.wait_until_client_left()
        await adapter.aclose()


@proves("TST-31")
def test_a_client_that_leaves_while_the_server_writes() -> None:
    with FakeProviderServer([Served("x" * 5_000_000, chunk_size=1000), RawBody(b"x" * 50_000_000)]) as server:
        for body in ({**BODIES["openai"], "stream": True}, BODIES["openai"]):
            server.client_left.clear()
            with httpx.stream("POST", server.url + PATHS["openai"], json=body, verify=NO_TLS) as response:
                next(response.iter_raw())
            assert server.client_left.wait(WAIT)


@proves("TST-31")
def test_a_client_that_breaks_its_connection() -> None:
    with FakeProviderServer([Silence()]) as server:
        with raw_client(server) as client:
            client.sendall(RAW_REQUEST)
            assert server.pausing.wait(WAIT)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        assert server.client_left.wait(WAIT)


RAW_REQUEST = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


@proves("TST-31")
def test_a_client_that_sends_its_next_request_early_has_not_left() -> None:
    asked, sent = threading.Event(), threading.Event()

    def answer(_: FakeRequest) -> Served:
        asked.set()
        assert sent.wait(WAIT)
        return Served("Hello", delay=0.01)

    with FakeProviderServer(answer) as server, raw_client(server) as client:
        client.sendall(RAW_REQUEST)
        assert asked.wait(WAIT)
        client.sendall(RAW_REQUEST)
        sent.set()
        got = b""
        while got.count(b"Hello") < 2:
            got += client.recv(65536)
        assert not server.client_left.is_set()
    assert len(server.requests) == 2


@proves("TST-31")
def test_a_client_that_left_before_the_answer_began() -> None:
    asked, left = threading.Event(), threading.Event()

    def answer(_: FakeRequest) -> str:
        asked.set()
        assert left.wait(WAIT)
        return "Hello"

    with FakeProviderServer(answer) as server:
        with raw_client(server) as client:
            client.sendall(RAW_REQUEST)
            assert asked.wait(WAIT)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        left.set()
        assert server.client_left.wait(WAIT)


@proves("TST-31")
async def test_waiting_for_what_does_not_happen() -> None:
    async with FakeProviderServer(["Hello"]) as server:
        with pytest.raises(TimeoutError, match=r"no client left in the middle of an answer within 0\.01 s"):
            await server.wait_until_client_left(0.01)
        with pytest.raises(TimeoutError, match="the server does not pause"):
            await server.wait_until_pausing(0.01)


@proves("TST-32")
def test_connections_are_kept_or_dropped() -> None:
    with (
        FakeProviderServer(["a", Served("b", drop_connection=True), "c"]) as server,
        httpx.Client(verify=NO_TLS) as client,
    ):
        for _ in range(3):
            client.post(server.url + PATHS["openai"], json=BODIES["openai"])
    assert [request.connection for request in server.requests] == [1, 1, 2]


# --- strictness ------------------------------------------------------------------------------------------------------


def calls_openai(*ids: str) -> dict[str, Any]:
    calls = [{"id": key, "type": "function", "function": {"name": "f", "arguments": "{}"}} for key in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def calls_anthropic(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": key, "name": "f", "input": {}} for key in ids]}


def results_anthropic(*ids: str, **fields: Any) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": key, "content": "x", **fields} for key in ids]
    return {"role": "user", "content": blocks}


def part_gemini(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


USER: dict[str, Any] = {"role": "user", "content": "Hi"}
TOOL: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": "x"}
FC: dict[str, Any] = {"functionCall": {"name": "f", "args": {}}}
FR: dict[str, Any] = {"functionResponse": {"name": "f", "response": {}}}
SAYS: dict[str, Any] = {"text": "Hi"}
CALL_ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT_ITEM = {"type": "function_call_output", "call_id": "a", "output": "x"}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


def claude(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **fields}


def text_block(text: Any, kind: str = "text") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": kind, "text": text}]}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}}


def bedrock(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), **fields}


def part_bedrock(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def call_bedrock(key: Any = "a", **fields: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": key, "name": "f", "input": {}, **fields}}


def result_bedrock(key: str = "a") -> dict[str, Any]:
    return {"toolResult": {"toolUseId": key, "content": [{"text": "x"}]}}


B_USER, B_SAYS = part_bedrock("user", SAYS), part_bedrock("assistant", SAYS)
B_TOOLS: dict[str, Any] = {"toolConfig": {"tools": []}}

FINE: list[tuple[str, dict[str, Any]]] = [
    ("bedrock", bedrock(B_USER)),
    ("bedrock", bedrock(B_USER, B_SAYS, B_USER, system=[{"text": "Be brief."}])),
    (
        "bedrock",
        bedrock(
            B_USER,
            part_bedrock("assistant", SAYS, call_bedrock("a"), call_bedrock("b.c:d-1")),
            part_bedrock("user", result_bedrock("b.c:d-1"), result_bedrock("a"), SAYS),
            **B_TOOLS,
        ),
    ),
    ("openai", chat(USER)),
    (
        "openai",
        chat({"role": "system", "content": "x"}, USER, calls_openai("a"), TOOL, {"role": "assistant", "content": "y"}),
    ),
    ("openai", chat(USER, tools=[{}], tool_choice="auto")),
    ("openai", chat({"role": "user", "content": [{"type": "file", "file": {"file_data": "x"}}]})),
    ("openai-responses", {"model": "m", "input": "Hi"}),
    ("openai-responses", {"model": "m", "input": [USER, CALL_ITEM, USER, OUTPUT_ITEM]}),
    ("openai-responses", {"model": "m", "input": [OUTPUT_ITEM], "previous_response_id": "r"}),
    ("anthropic", claude(USER)),
    ("anthropic", claude({"role": "assistant", "content": "x"}, USER, USER)),
    (
        "anthropic",
        claude(USER, calls_anthropic("a"), calls_anthropic("b"), results_anthropic("b"), results_anthropic("a"), USER),
    ),
    ("anthropic", claude(USER, calls_anthropic("a"), results_anthropic("a", content=[{"type": "text", "text": "x"}]))),
    ("gemini", {"contents": [part_gemini("user", SAYS), part_gemini("model", FC, FC), part_gemini("user", FR, FR)]}),
    ("gemini", {"contents": [part_gemini("user", SAYS), part_gemini("model", FC), part_gemini("function", FR)]}),
]
"""Requests that providers take."""

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("openai", {"messages": [USER]}, "model: Field required"),
    ("openai", chat(), "empty array"),
    ("openai", chat("Hi"), "expected an object, got str"),
    ("openai", chat(USER, tool_choice="auto"), "'tool_choice' is only allowed"),
    ("openai", chat(USER, parallel_tool_calls=False), "'parallel_tool_calls' is only allowed"),
    ("openai", chat(USER, calls_openai("a", "b"), TOOL), "did not have response messages: b"),
    ("openai", chat(USER, calls_openai("a"), USER, TOOL), "did not have response messages: a"),
    ("openai", chat(USER, TOOL), "must be a response to a preceeding message"),
    ("openai", chat(USER, calls_openai("a"), TOOL, TOOL), "must be a response to a preceeding message"),
    ("openai", chat({"role": "model", "content": "x"}), "Invalid value: 'model'"),
    ("openai", chat({"role": "user", "content": None}), "expected a string, got null"),
    ("openai", chat({"role": "user", "content": []}), "non-empty array of parts"),
    ("openai", chat(USER, {"role": "assistant", "tool_calls": []}), "empty array"),
    ("openai", chat(USER, calls_openai("a", "a"), TOOL), "Invalid or duplicate value"),
    ("openai", chat(USER, calls_openai("")), "Invalid or duplicate value"),
    (
        "openai",
        chat(USER, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}),
        "arguments as a string",
    ),
    ("openai", chat(text_block("x", "video")), "Invalid value: 'video'"),
    ("openai", chat({"role": "user", "content": [{"type": "file", "file": {}}]}), "file_data or file_id"),
    (
        "openai",
        chat(USER, calls_openai("a"), {**TOOL, "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
        "Supported values are: 'text'",
    ),
    ("openai-responses", {"model": "m", "input": []}, "non-empty array of items"),
    ("openai-responses", {"model": "m", "input": [OUTPUT_ITEM]}, "No tool call found for function call output"),
    ("openai-responses", {"model": "m", "input": [CALL_ITEM, OUTPUT_ITEM, OUTPUT_ITEM]}, "No tool call found"),
    ("openai-responses", {"model": "m", "input": [CALL_ITEM]}, "No tool output found for function call a"),
    ("openai-responses", {"model": "m", "input": [{**CALL_ITEM, "arguments": {}}]}, "arguments as a string"),
    ("anthropic", {"model": "m", "messages": [USER]}, "max_tokens: Field required"),
    ("anthropic", claude(USER, max_tokens=0), "greater than or equal to 1"),
    ("anthropic", claude(), "at least one message"),
    ("anthropic", claude({"role": "system", "content": "x"}), 'Unexpected role "system"'),
    ("anthropic", claude({"role": "user", "content": []}), "non-empty content"),
    ("anthropic", claude(text_block("")), "must be non-empty"),
    ("anthropic", claude(text_block(" \n")), "non-whitespace text"),
    ("anthropic", claude(text_block("x", "video")), "Input tag 'video'"),
    ("anthropic", claude({"role": "user", "content": [IMAGE]}), "image/jpeg, image/png"),
    ("anthropic", claude(USER, {"role": "assistant", "content": "x"}), "must end with a user message"),
    ("anthropic", claude(USER, calls_anthropic("a"), USER), "without `tool_result` blocks immediately after: a"),
    ("anthropic", claude(USER, calls_anthropic("a"), USER, results_anthropic("a")), "immediately after: a"),
    ("anthropic", claude(USER, results_anthropic("a")), "unexpected `tool_use_id`"),
    ("anthropic", claude(USER, calls_anthropic("a"), results_anthropic("a", "a")), "must have a single result"),
    ("anthropic", claude(USER, calls_anthropic("a", "a"), results_anthropic("a")), "ids must be unique"),
    ("anthropic", claude(USER, calls_anthropic("a.b"), results_anthropic("a.b")), "should match pattern"),
    ("anthropic", claude(USER, calls_anthropic("a"), results_anthropic("a", content="", is_error=True)), "is_error"),
    ("anthropic", claude(USER, calls_anthropic("a"), results_anthropic("a", content=[IMAGE])), "image/jpeg"),
    ("anthropic", claude(calls_anthropic("a") | {"role": "user"}), "not allowed in user messages"),
    (
        "anthropic",
        claude(USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "x"}]}),
        "valid dictionary",
    ),
    (
        "anthropic",
        claude(USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}, USER),
        "signature: Field required",
    ),
    ("bedrock", {}, "messages: Field required"),
    ("bedrock", bedrock(), "must start with a user message"),
    ("bedrock", bedrock(B_SAYS, B_USER), "must start with a user message"),
    ("bedrock", bedrock(B_USER, B_USER), "must alternate"),
    ("bedrock", bedrock(part_bedrock("system", SAYS)), "failed to satisfy constraint: [user, assistant]"),
    ("bedrock", bedrock(B_USER, B_SAYS), "assistant message prefill"),
    ("bedrock", bedrock(part_bedrock("user")), "is empty"),
    ("bedrock", bedrock(part_bedrock("user", {"txt": "x"})), "must set one of its keys"),
    ("bedrock", bedrock(part_bedrock("user", {"text": " "})), "is blank"),
    ("bedrock", bedrock(B_USER, part_bedrock("assistant", call_bedrock(input="{}"))), "input is invalid"),
    ("bedrock", bedrock(B_USER, part_bedrock("assistant", call_bedrock("a b"))), "toolUseId"),
    ("bedrock", bedrock(B_USER, part_bedrock("assistant", call_bedrock(7))), "toolUseId"),
    (
        "bedrock",
        bedrock(B_USER, part_bedrock("assistant", call_bedrock()), B_USER, **B_TOOLS),
        "Expected toolResult blocks at messages.2.content for the following Ids: a",
    ),
    ("bedrock", bedrock(part_bedrock("user", result_bedrock()), **B_TOOLS), "exceeds the number of toolUse blocks"),
    (
        "bedrock",
        bedrock(B_USER, part_bedrock("assistant", call_bedrock()), part_bedrock("user", result_bedrock())),
        "toolConfig field must be defined",
    ),
    ("gemini", {"contents": []}, "contents is not specified"),
    ("gemini", {"contents": [part_gemini("assistant", SAYS)]}, "valid role: user, model"),
    ("gemini", {"contents": [part_gemini("user")]}, "must not be empty"),
    ("gemini", {"contents": [part_gemini("user", {"thought": True})]}, "required oneof field"),
    ("gemini", {"contents": [part_gemini("user", FR)]}, "immediately after a function call turn"),
    ("gemini", {"contents": [part_gemini("model", FC), part_gemini("user", FR)]}, "immediately after a user turn"),
    (
        "gemini",
        {"contents": [part_gemini("user", SAYS), part_gemini("model", FC, FC), part_gemini("user", FR)]},
        "number of function response parts",
    ),
    (
        "gemini",
        {"contents": [part_gemini("user", SAYS), part_gemini("model", FC)]},
        "number of function response parts",
    ),
]
"""Requests that providers refuse, and a part of their words."""


@proves("TST-33")
@pytest.mark.parametrize(("protocol", "body"), FINE)
def test_what_the_provider_takes_is_taken(protocol: str, body: dict[str, Any]) -> None:
    STRICT[protocol](body, "/v1beta/models/gemini-2.5-pro:generateContent")


@proves("TST-33")
@pytest.mark.parametrize(("protocol", "body", "words"), WRONG)
def test_what_the_provider_refuses_is_refused(protocol: str, body: dict[str, Any], words: str) -> None:
    with pytest.raises(Complaint) as caught:
        STRICT[protocol](body, "/v1beta/models/gemini-2.5-pro:generateContent")
    assert words in caught.value.message


@proves("TST-33")
def test_gemini_3_wants_its_signatures_back() -> None:
    signed = {**FC, "thoughtSignature": "s"}
    path = "/v1beta/models/gemini-3-pro:generateContent"
    start = [part_gemini("user", SAYS), part_gemini("model", FC), part_gemini("user", FR), part_gemini("model", SAYS)]
    STRICT["gemini"](
        {
            "contents": [
                *start,
                part_gemini("user", SAYS),
                part_gemini("model", signed, FC),
                part_gemini("user", FR, FR),
            ]
        },
        path,
    )
    with pytest.raises(Complaint, match="missing a thought_signature"):
        STRICT["gemini"]({"contents": [*start]}, path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "parts", "tool_calls", "id", "function", "source", "input"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@proves("TST-33")
@pytest.mark.parametrize("protocol", PATHS)
@given(value=st.lists(json_values, max_size=3))
@settings(deadline=None)
def test_whatever_json_comes_it_is_taken_or_refused(protocol: str, value: list[Any]) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": value, "contents": value, "input": value}
    with suppress(Complaint):
        STRICT[protocol](body, "/v1beta/models/gemini-3-pro:generateContent")


@proves("TST-33")
def test_a_refused_request_uses_up_no_response() -> None:
    with FakeProviderServer(["Hello"], strict=True) as server:
        bad = httpx.post(f"{server.url}/v1/chat/completions", json=chat(USER, TOOL), verify=NO_TLS)
        good = post(server)
    assert (bad.status_code, good.status_code) == (400, 200)
    assert bad.json()["error"]["param"] == "messages.[1].role"
    assert server.complaints == [bad.json()["error"]["message"]]
    with FakeProviderServer(["Hello"]) as server:
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat(USER, TOOL), verify=NO_TLS).status_code == 200


# --- use -------------------------------------------------------------------------------------------------------------


@proves("TST-34")
def test_a_client_in_another_process() -> None:
    program = (
        "import json, sys, urllib.request\n"
        "request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), method='POST')\n"
        "print(json.load(urllib.request.urlopen(request))['choices'][0]['message']['content'])\n"
    )
    with FakeProviderServer(["Hello"]) as server:
        url = f"{server.openai_url}/chat/completions"
        ran = subprocess.run(
            [sys.executable, "-c", program, url, json.dumps(BODIES["openai"])],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    assert ran.stdout == "Hello\n"


@proves("TST-34")
async def test_many_clients_at_once() -> None:
    async with FakeProviderServer(lambda request: f"answer to {request.body['messages'][0]['content']}") as server:
        adapter = OpenAIAdapter(base_url=server.openai_url, transport=ONCE)

        async def ask(number: int) -> None:
            response = await adapter.chat([LLMMessage.user(str(number))], OPTIONS)
            assert response.content == [TextBlock.new(f"answer to {number}")]

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(ask, number)
        await adapter.aclose()
    assert len(server.requests) == 30


@proves("TST-34")
async def test_a_closed_server_is_gone() -> None:
    async with FakeProviderServer([Silence()]) as server:
        adapter = OpenAIAdapter(base_url=server.openai_url, transport=ONCE)
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(LLMConnectionError):
                    await adapter.chat(HI, OPTIONS)

            tasks.start_soon(ask)
            await server.wait_until_pausing()
            await server.__aexit__(None, None, None)
        with pytest.raises(LLMConnectionError):
            await adapter.chat(HI, OPTIONS)
        await adapter.aclose()


@proves("TST-34")
def test_a_server_is_started_once_and_closed_at_any_time() -> None:
    server = FakeProviderServer(["Hello"])
    server.release()
    server.close()
    with pytest.raises(ConfigurationError, match="no address before it is started"):
        _ = server.openai_url
    with server:
        server.start()
        assert post(server).status_code == 200
    server.close()

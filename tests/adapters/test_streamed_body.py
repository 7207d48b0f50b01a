"""Answers in one piece to requests for a stream."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters import (
    AnthropicAdapter,
    AzureOpenAIAdapter,
    BedrockAdapter,
    GeminiAdapter,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamEvent,
    StreamingAdapter,
    TransportOptions,
)
from openmultiagent.adapters._streamed_body import StreamedBody
from openmultiagent.errors import AdapterError, LLMBadRequestError, LLMProtocolError
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.testing import FakeProviderServer, RawBody, Served
from openmultiagent.usage import TokenUsage
from tests.support import proves

HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="m", tools=[LLMToolDef("look", "", {"type": "object"})])
ONCE = TransportOptions(max_retries=0)
ADAPTERS: dict[str, Callable[[FakeProviderServer], LLMAdapter]] = {
    "openai": lambda server: OpenAIAdapter(base_url=server.openai_url, transport=ONCE),
    "azure-openai": lambda server: AzureOpenAIAdapter(endpoint=server.url, api_key="k", transport=ONCE),
    "openai-responses": lambda server: OpenAIResponsesAdapter(base_url=server.openai_url, transport=ONCE),
    "anthropic": lambda server: AnthropicAdapter(base_url=server.anthropic_url, transport=ONCE),
    "gemini": lambda server: GeminiAdapter(base_url=server.gemini_url, transport=ONCE),
    "bedrock": lambda server: BedrockAdapter(base_url=server.bedrock_url, api_key="k", transport=ONCE),
}
every_protocol = pytest.mark.parametrize("protocol", ADAPTERS)
ANSWER = LLMResponse(
    [
        ReasoningBlock.new("Hm.", signature="rs_1:proof"),
        TextBlock.new("Grüße \u2028"),
        ToolUseBlock.new("c1", "look", {"q": "x"}),
        ToolUseBlock.new("c2", "look", {}),
    ],
    id="answer",
    model="m",
    stop_reason="tool_use",
    usage=TokenUsage(input_tokens=7, output_tokens=3),
)


async def streamed(protocol: str, *responses: Any) -> list[list[StreamEvent]]:
    """The events that each response gives."""
    async with FakeProviderServer(responses) as server:
        adapter = cast("StreamingAdapter", ADAPTERS[protocol](server))
        told = [[event async for event in adapter.stream(HI, OPTIONS)] for _ in responses]
        await cast("Any", adapter).aclose()
    return told


@every_protocol
@pytest.mark.parametrize("split", [None, 1, 7])
@proves("MOD-60")
async def test_a_whole_answer_gives_the_events_of_a_stream(protocol: str, split: int | None) -> None:
    whole = Served(ANSWER, quirks=frozenset({"no_stream"}), split=split)
    stream, events = await streamed(protocol, ANSWER, whole)
    assert events[-1] == stream[-1]
    assert isinstance(events[-1].data, LLMResponse)
    for kind in ("text", "reasoning"):
        told, right = ("".join(str(event.data) for event in some if event.type == kind) for some in (events, stream))
        assert told == right != ""
    assert [event for event in events if event.type == "tool_use"] == [
        event for event in stream if event.type == "tool_use"
    ]
    assert [event.type for event in events].count("done") == 1


@every_protocol
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"hello": 1}', "no"),
        (b'{"half": ', "not valid JSON"),
        (b" \n[7]", "must be an object"),
        (b"null", "no"),
        (b"7", "must be an object, got int"),
        (b"upstream timed out", "not valid JSON"),
    ],
)
@proves("MOD-60")
async def test_json_that_is_no_answer_is_named(protocol: str, body: bytes, told: str) -> None:
    ((event,),) = await streamed(protocol, RawBody(body, content_type="application/json; charset=utf-8"))
    error = event.data
    assert isinstance(error, LLMProtocolError)
    assert told in error.message
    assert error.message.endswith("(a stream was asked for, and application/json; charset=utf-8 came)")
    assert error.status == 200


@every_protocol
@proves("MOD-60")
async def test_a_page_is_named(protocol: str) -> None:
    ((event,),) = await streamed(protocol, RawBody(b"\n<html>Log in!</html>", content_type="text/html"))
    assert isinstance(event.data, LLMProtocolError)
    assert "not valid JSON" in event.data.message
    assert "(a stream was asked for, and text/html came); http://" in event.data.message
    assert "is a page of HTML and no API: see whether base_url is right" in event.data.message
    assert not event.data.retryable
    assert "Log in!" in str(event.data.body)


@pytest.mark.parametrize("protocol", ["openai", "azure-openai", "openai-responses", "anthropic", "gemini"])
@proves("MOD-60", "MOD-21")
async def test_an_error_in_one_piece_is_that_error(protocol: str) -> None:
    body = {"error": {"type": "rate_limit_error", "message": "slow down", "code": 400}}
    ((event,),) = await streamed(protocol, RawBody(json.dumps(body).encode()))
    assert isinstance(event.data, LLMBadRequestError if protocol != "anthropic" else AdapterError)
    assert "slow down" in event.data.message


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain", "application/octet-stream"])
@proves("MOD-60")
async def test_the_first_character_counts_whatever_the_server_says_that_it_sends(content_type: str) -> None:
    whole = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
    stream = b'data: {"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n\n'
    first, second, third = await streamed(
        "openai",
        RawBody(whole, content_type=content_type),
        RawBody(b"\xef\xbb\xbf\r\n" + stream, content_type=content_type, split=1),
        RawBody(b": waiting\n\n" + stream, content_type="application/json"),
    )
    assert first == second == third
    assert [event.type for event in first] == ["text", "done"]


@proves("MOD-60")
async def test_gemini_sends_an_array_where_it_was_not_asked_for_events() -> None:
    def payload(text: str, **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": text}]}, **more}]}

    body = json.dumps([payload("Hel"), payload("lo", finishReason="STOP")]).encode()
    (events,) = await streamed("gemini", RawBody(body))
    assert events[0] == StreamEvent("text", "Hello")
    assert isinstance(events[-1].data, LLMResponse)
    assert events[-1].data.stop_reason == "end_turn"


class Reader:
    """Remembers what it was fed."""

    is_over = False

    def __init__(self) -> None:
        self.fed = b""

    def feed(self, chunk: bytes) -> Any:
        self.fed += chunk
        return iter(())

    def close(self) -> Any:
        return iter(())


@given(st.binary(max_size=20), st.lists(st.integers(0, 20)), st.sampled_from(["", "text/event-stream", "a/b+json"]))
@proves("MOD-60")
def test_where_a_body_is_cut_makes_no_difference_to_what_it_is(body: bytes, cuts: list[int], content_type: str) -> None:
    def taken(chunks: Iterable[bytes]) -> tuple[bytes, list[bytes]]:
        whole: list[bytes] = []

        def read(given: bytes) -> LLMResponse:
            whole.append(given)
            return LLMResponse([])

        reader = Reader()
        body = StreamedBody(reader, read, content_type=content_type)
        for chunk in chunks:
            list(body.feed(chunk))
        list(body.close())
        return reader.fed.lstrip(b"\xef\xbb\xbf \t\r\n"), whole

    ends = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    assert taken(body[start:end] for start, end in pairwise(ends)) == taken([body])

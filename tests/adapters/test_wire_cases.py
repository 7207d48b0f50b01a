"""What goes wrong in the field, over every protocol: the same case, a real server, and no protocol left out."""

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from openmultiagent import Agent, AgentConfig
from openmultiagent.adapters import (
    AnthropicAdapter,
    BedrockAdapter,
    GeminiAdapter,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamEvent,
    TransportOptions,
)
from openmultiagent.adapters import _anthropic_answer as anthropic
from openmultiagent.adapters import _bedrock_answer as bedrock
from openmultiagent.adapters import _gemini_answer as gemini
from openmultiagent.adapters import _openai_answer as openai
from openmultiagent.adapters import _responses_answer as responses
from openmultiagent.adapters._openai_request import max_tokens_field_for
from openmultiagent.errors import InvalidMessageError, LLMServerError
from openmultiagent.messages import (
    ContentBlock,
    ImageBlock,
    LLMMessage,
    TextBlock,
    ToolResultBlock,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
)
from openmultiagent.testing import FakeProviderServer, FakeRequest, Hangup, Refused, ServerReply
from tests.support import proves
from tests.support.event_stream import event as aws_event

ONCE = TransportOptions(max_retries=0)
HI = LLMMessage.user("Hi")
LOOK = LLMToolDef("look", "Look.", {"type": "object", "properties": {"q": {"type": "string"}}})
MAKE: dict[str, Callable[[FakeProviderServer, TransportOptions], LLMAdapter]] = {
    "openai": lambda server, how: OpenAIAdapter(base_url=server.openai_url, transport=how),
    "openai-responses": lambda server, how: OpenAIResponsesAdapter(base_url=server.openai_url, transport=how),
    "anthropic": lambda server, how: AnthropicAdapter(base_url=server.anthropic_url, transport=how),
    "gemini": lambda server, how: GeminiAdapter(base_url=server.gemini_url, transport=how),
    "bedrock": lambda server, how: BedrockAdapter(base_url=server.bedrock_url, api_key="k", transport=how),
}
every_protocol = pytest.mark.parametrize("protocol", MAKE)
READING: dict[str, Any] = {"provider": "p", "model": "m", "redact": str}


async def taken(protocol: str, *messages: LLMMessage, model: str = "m", **options: Any) -> FakeRequest:
    """Send a conversation to a server that is as strict as the provider; return what it was sent."""
    async with FakeProviderServer(["Hello"], strict=True) as server:
        adapter = cast("Any", MAKE[protocol](server, ONCE))
        await adapter.chat(list(messages), LLMChatOptions(model=model, **options))
        await adapter.aclose()
    assert server.complaints == []
    return server.requests[0]


def results(*ids: str, image: bool = False) -> LLMMessage:
    parts = [ToolResultTextPart(text="a picture"), ToolResultImagePart(source=PNG.source)] if image else "found"
    return LLMMessage.tool([ToolResultBlock.new(key, cast("Any", parts)) for key in ids])


PNG = ImageBlock.from_base64("aW1hZ2U=", "image/png")
CALLS: list[ContentBlock] = [ToolUseBlock.new("c1", "look", {"q": "a"}), ToolUseBlock.new("c2", "look", {"q": "b"})]


# --- requests --------------------------------------------------------------------------------------------------------


@every_protocol
@proves("MOD-9")
async def test_choices_about_tools_are_not_sent_without_tools(protocol: str) -> None:
    request = await taken(protocol, HI, tool_choice="required", parallel_tool_calls=False)
    for word in (b"tool_choice", b"parallel_tool_calls", b"toolConfig", b"toolChoice", b"disable_parallel"):
        assert word not in request.raw


@every_protocol
@proves("MOD-9")
async def test_a_setting_of_zero_is_a_setting(protocol: str) -> None:
    request = await taken(protocol, HI, temperature=0, top_p=0.0)
    places = {"gemini": "generationConfig", "bedrock": "inferenceConfig"}
    settings = request.body[places[protocol]] if protocol in places else request.body
    assert settings["temperature"] == 0
    assert settings["topP" if protocol in places else "top_p"] == 0


@every_protocol
@proves("MOD-9")
async def test_a_tool_with_free_form_parameters_goes_as_it_is(protocol: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "any": {"type": "object"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    request = await taken(protocol, HI, tools=[LLMToolDef("free", "Anything.", schema)])
    assert schema in list(_dicts(request.body))


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dicts(item)


@every_protocol
@pytest.mark.parametrize("text", ["ends", "ends in space \n"])
@proves("MOD-2")
async def test_a_conversation_that_ends_with_the_assistant_is_taken(protocol: str, text: str) -> None:
    await taken(protocol, HI, LLMMessage.assistant(text))


@every_protocol
@proves("MOD-2")
async def test_a_system_text_in_the_middle_is_refused_before_any_request(protocol: str) -> None:
    conversation = [HI, LLMMessage.assistant("Hello"), LLMMessage.system("Answer in German."), LLMMessage.user("And?")]
    async with FakeProviderServer(["Hello"]) as server:
        adapter = cast("Any", MAKE[protocol](server, ONCE))
        with pytest.raises(InvalidMessageError, match=r"messages\[2\]\.role must not be system after another role"):
            await adapter.chat(conversation, LLMChatOptions(model="m"))
        await adapter.aclose()
    assert server.requests == []


@every_protocol
@proves("MOD-11")
async def test_parallel_tools_that_all_return_pictures_are_taken(protocol: str) -> None:
    conversation = [HI, LLMMessage.assistant(CALLS), results("c1", "c2", image=True)]
    request = await taken(protocol, *conversation, tools=[LOOK])
    assert request.raw.count(b"aW1hZ2U=") == 2


@every_protocol
@proves("MOD-11")
async def test_results_without_words_are_results(protocol: str) -> None:
    silent = LLMMessage.tool([ToolResultBlock.new("c1", ""), ToolResultBlock.new("c2", "0")])
    await taken(protocol, HI, LLMMessage.assistant(CALLS), silent, tools=[LOOK])


@every_protocol
@proves("MOD-15")
async def test_every_character_survives_both_ways(protocol: str) -> None:
    text = "a\x00b \u2028\u2029\x85 [/x] {braces} %s \U0001f389 \ufffd \x7f"
    async with FakeProviderServer([text]) as server:
        adapter = cast("Any", MAKE[protocol](server, ONCE))
        answer = await adapter.chat([LLMMessage.user(text)], LLMChatOptions(model="m"))
        await adapter.aclose()
    assert answer.content == [TextBlock.new(text)]
    assert text in list(_texts(server.requests[0].body))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


@pytest.mark.parametrize("model", ["x/llama-o1:z", "llama3.2:1b", "go1", "my-o3", "a.gpt-5", "GPT", ""])
@proves("MOD-14")
def test_only_the_beginning_of_a_models_name_tells_something(model: str) -> None:
    assert max_tokens_field_for(model) == "max_tokens"


@proves("GEM-16")
async def test_geminis_signature_of_a_parallel_batch_survives_storage_and_stays_where_it_was() -> None:
    batch = [
        ToolUseBlock(id="c1", name="look", input={"q": "a"}, signature="proof"),
        *(ToolUseBlock.new(f"c{number}", "look", {"q": "b"}) for number in (2, 3)),
    ]
    async with FakeProviderServer([batch, batch, "Hello"], strict=True) as server:
        adapter = GeminiAdapter(base_url=server.gemini_url, transport=ONCE)
        options = LLMChatOptions(model="gemini-3-pro", tools=[LOOK])
        answer = await adapter.chat([HI], options)
        events = [event async for event in adapter.stream([HI], options)]
        stored = LLMMessage.assistant(answer.content).model_dump_json()
        await adapter.chat([HI, LLMMessage.model_validate_json(stored), results("c1", "c2", "c3")], options)
        await adapter.aclose()
    assert [event.data for event in events if event.type == "tool_use"] == answer.content
    parts = server.requests[-1].body["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["proof", None, None]
    assert server.complaints == []


# --- answers ---------------------------------------------------------------------------------------------------------


@every_protocol
@proves("MOD-3")
async def test_texts_and_calls_in_turn_are_each_told_once_and_in_order(protocol: str) -> None:
    content: list[ContentBlock] = [TextBlock.new("First this. "), CALLS[0], TextBlock.new("Then that."), CALLS[1]]
    async with FakeProviderServer([content, content]) as server:
        adapter = cast("Any", MAKE[protocol](server, ONCE))
        whole = await adapter.chat([HI], LLMChatOptions(model="m", tools=[LOOK]))
        events: list[StreamEvent] = [event async for event in adapter.stream([HI], LLMChatOptions(model="m"))]
        await adapter.aclose()
    if protocol != "openai":  # which has one text for a message
        assert whole.content == content
    assert cast("LLMResponse", events[-1].data).content == whole.content
    assert "".join(str(event.data) for event in events if event.type == "text") == "First this. Then that."
    assert [event.data for event in events if event.type == "tool_use"] == CALLS


NULLS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "openai": (
        lambda: openai.AnswerReader(**READING),
        {
            **dict.fromkeys(
                ["id", "object", "created", "model", "usage", "service_tier", "system_fingerprint", "error"]
            ),
            "choices": [
                {
                    **dict.fromkeys(["index", "finish_reason", "logprobs", "native_finish_reason"]),
                    "message": {
                        "content": "x",
                        **dict.fromkeys(["role", "refusal", "tool_calls", "reasoning", "reasoning_content", "audio"]),
                    },
                }
            ],
        },
    ),
    "openai-responses": (
        lambda: responses.AnswerReader(**READING),
        {
            **dict.fromkeys(["id", "status", "model", "usage", "error", "incomplete_details", "metadata"]),
            "output": [
                {
                    "type": "message",
                    **dict.fromkeys(["id", "status", "role"]),
                    "content": [{"type": "output_text", "text": "x", "annotations": None, "logprobs": None}],
                }
            ],
        },
    ),
    "anthropic": (
        lambda: anthropic.AnswerReader(**READING),
        {
            **dict.fromkeys(
                ["id", "type", "role", "model", "stop_reason", "stop_sequence", "usage", "container", "error"]
            ),
            "content": [{"type": "text", "text": "x", "citations": None}],
        },
    ),
    "gemini": (
        lambda: gemini.AnswerReader(**READING),
        {
            **dict.fromkeys(["responseId", "modelVersion", "usageMetadata", "promptFeedback", "error"]),
            "candidates": [
                {
                    **dict.fromkeys(["index", "finishReason", "safetyRatings", "groundingMetadata"]),
                    "content": {"role": None, "parts": [{"text": "x", "thought": None, "thoughtSignature": None}]},
                }
            ],
        },
    ),
    "bedrock": (
        lambda: bedrock.AnswerReader(**READING, request_id=""),
        {
            **dict.fromkeys(["stopReason", "usage", "metrics", "trace", "performanceConfig"]),
            "output": {"message": {"role": None, "content": [{"text": "x"}]}},
        },
    ),
}


@every_protocol
@proves("MOD-16")
def test_what_may_be_missing_may_be_null(protocol: str) -> None:
    make, body = NULLS[protocol]
    answer = make().read(json.dumps(body).encode())
    assert (answer.content, answer.model, answer.stop_reason) == ([TextBlock.new("x")], "m", "end_turn")
    assert answer.usage is None


@pytest.mark.parametrize(
    ("arguments", "value", "fault"),
    [
        (None, {}, None),
        ("", {}, None),
        ({}, {}, None),
        ({"a": 1}, {"a": 1}, None),
        ('{"a": 1}', {"a": 1}, None),
        ('"{\\"a\\": 1}"', {"a": 1}, None),
        ("[1]", {}, "must be a JSON object"),
        ("null", {}, "must be a JSON object"),
    ],
)
@pytest.mark.parametrize("protocol", ["openai", "openai-responses", "anthropic", "bedrock"])
@proves("MOD-25")
def test_arguments_come_in_many_forms(protocol: str, arguments: Any, value: dict[str, Any], fault: str | None) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}
    item = {"type": "function_call", "call_id": "c", "name": "look", "arguments": arguments}
    use = {"type": "tool_use", "id": "c", "name": "look", "input": arguments}
    bodies: dict[str, Any] = {
        "openai": {"choices": [{"message": {"tool_calls": [call]}}]},
        "openai-responses": {"output": [item]},
        "anthropic": {"content": [use]},
        "bedrock": {"output": {"message": {"content": [{"toolUse": {**use, "toolUseId": "c", "type": None}}]}}},
    }
    (block,) = NULLS[protocol][0]().read(json.dumps(bodies[protocol]).encode()).content
    assert (block.name, block.input) == ("look", value)
    assert (fault is None) is (block.input_error is None)
    assert (fault or "") in (block.input_error or "")


# --- long streams ----------------------------------------------------------------------------------------------------

PIECE = "forty characters of text, again and ag. " * 16
PIECES = 15_000


def fed(protocol: str) -> LLMResponse:
    """Read an answer that comes in very many pieces."""
    end: list[Any]
    if protocol == "bedrock":
        body = bedrock.StreamReader(**READING, request_id="")
        piece = aws_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": PIECE}})
        for _ in range(PIECES):
            assert len(list(body.feed(piece))) == 1
        list(body.feed(aws_event("messageStop", {})))
        end = list(body.close())
    else:
        reader: Any = {"openai": openai, "openai-responses": responses, "anthropic": anthropic, "gemini": gemini}[
            protocol
        ].StreamReader(**READING)
        start, delta, last = STREAMS[protocol]
        for data in (*start, *[json.dumps(delta)] * PIECES, *last):
            list(reader.feed(data))
        end = list(reader.finish())
    return cast("LLMResponse", end[-1].data)


STREAMS: dict[str, tuple[list[str], Any, list[str]]] = {
    "openai": ([], {"choices": [{"delta": {"content": PIECE}}]}, ["[DONE]"]),
    "openai-responses": (
        [],
        {"type": "response.output_text.delta", "delta": PIECE},
        [
            json.dumps(
                {
                    "type": "response.completed",
                    "response": {
                        "output": [{"type": "message", "content": [{"type": "output_text", "text": PIECE * PIECES}]}]
                    },
                }
            )
        ],
    ),
    "anthropic": (
        ['{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}'],
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": PIECE}},
        ['{"type": "message_stop"}'],
    ),
    "gemini": (
        [],
        {"candidates": [{"content": {"parts": [{"text": PIECE}]}}]},
        ['{"candidates": [{"finishReason": "STOP"}]}'],
    ),
}


@pytest.mark.timeout(15)  # a second; what is copied anew for each piece would be 70 gigabytes
@every_protocol
@proves("MOD-59")
def test_the_work_grows_with_the_answer_and_not_with_its_square(protocol: str) -> None:
    (block,) = fed(protocol).content
    is_whole = cast("TextBlock", block).text == PIECE * PIECES
    assert is_whole


# --- failures --------------------------------------------------------------------------------------------------------


@every_protocol
@proves("MOD-33")
async def test_one_cap_counts_all_kinds_of_failures(protocol: str) -> None:
    soon = {"retry-after-ms": "1"}
    script: list[ServerReply] = [
        Refused(503, headers=soon),
        Hangup(),
        Refused(429, headers=soon),
        Refused(502, headers=soon),
        "too late",
    ]
    async with FakeProviderServer(script) as server:
        adapter = cast("Any", MAKE[protocol](server, TransportOptions(max_retries=3)))
        with pytest.raises(LLMServerError) as caught:
            await adapter.chat([HI], LLMChatOptions(model="m"))
        await adapter.aclose()
    assert (caught.value.status, caught.value.attempts, len(server.requests)) == (502, 4, 4)
    assert len({request.raw for request in server.requests}) == 1


@every_protocol
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
@proves("MOD-33")
async def test_what_may_pass_is_tried_again(protocol: str, status: int) -> None:
    async with FakeProviderServer([Refused(status, headers={"retry-after-ms": "1"}), "Hello"]) as server:
        adapter = cast("Any", MAKE[protocol](server, TransportOptions(max_retries=1)))
        answer = await adapter.chat([HI], LLMChatOptions(model="m"))
        await adapter.aclose()
    assert answer.content == [TextBlock.new("Hello")]


@every_protocol
@proves("MOD-12")
async def test_a_picture_and_a_single_turn(protocol: str) -> None:
    async with FakeProviderServer(["A dot."], strict=True) as server:
        adapter = cast("Any", MAKE[protocol](server, ONCE))
        async with Agent(AgentConfig("x", adapter=adapter, model="m", max_turns=1)) as agent:
            result = await agent.run([LLMMessage.user_with_blocks([TextBlock.new("What is this?"), PNG])])
        await adapter.aclose()
    assert (result.success, result.output) == (True, "A dot.")
    assert b"aW1hZ2U=" in server.requests[0].raw

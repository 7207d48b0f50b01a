"""What comes back from Bedrock: answers whole and in event streams, well-formed and not."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters import LLMResponse, StreamEvent, ToolInputDelta
from openmultiagent.adapters._bedrock_answer import AnswerReader, StreamReader
from openmultiagent.errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
)
from openmultiagent.messages import ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.redaction import redact_sensitive_text
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.event_stream import event, exception, frame

USAGE = {"inputTokens": 10, "outputTokens": 5}


def read(payload: Any) -> LLMResponse:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return AnswerReader(provider="bedrock", model="asked", request_id="r1", redact=redact_sensitive_text).read(body)


def answer(*blocks: Any, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": stop, **more}


def reader() -> StreamReader:
    return StreamReader(provider="bedrock", model="asked", request_id="r1", redact=redact_sensitive_text)


def stream(*frames: bytes) -> list[StreamEvent]:
    stream_reader = reader()
    events = [event for piece in frames for event in stream_reader.feed(piece)]
    return [*events, *stream_reader.close()]


def delta(index: int | None, value: Any) -> bytes:
    place = {} if index is None else {"contentBlockIndex": index}
    return event("contentBlockDelta", {**place, "delta": value, "p": "abcdef"})


def start(index: int | None, value: Any) -> bytes:
    place = {} if index is None else {"contentBlockIndex": index}
    return event("contentBlockStart", {**place, "start": value})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def end(reason: Any = "end_turn", usage: Any = None) -> bytes:
    return event("messageStop", {"stopReason": reason}) + event("metadata", {"usage": usage, "metrics": {}})


def response(events: list[StreamEvent]) -> LLMResponse:
    last = events[-1]
    assert last.type == "done"
    assert isinstance(last.data, LLMResponse)
    return last.data


def reasoning(text: str, signature: str | None = None, redacted: str | None = None) -> ReasoningBlock:
    return ReasoningBlock(text=text, signature=signature, redacted_data=redacted, provenance="bedrock")


def tool(**fields: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": "c1", "name": "search", **fields}}


# --- whole answers ---------------------------------------------------------------------------------------------------


@proves("BED-18", "BED-19")
def test_a_plain_answer() -> None:
    assert read(answer({"text": "Hello"}, usage=USAGE, metrics={"latencyMs": 1})) == LLMResponse(
        [TextBlock(text="Hello")],
        id="r1",
        model="asked",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"totalTokens": 5}, None),
        ({"inputTokens": None, "outputTokens": True}, None),
        ({"inputTokens": 3}, TokenUsage(input_tokens=3)),
        ({"inputTokens": -3}, None),
        (
            {"inputTokens": 3, "outputTokens": 81, "cacheReadInputTokens": 7, "cacheWriteInputTokens": 109_075},
            TokenUsage(input_tokens=109_085, output_tokens=81, cache_read_tokens=7, cache_write_tokens=109_075),
        ),
    ],
)
@proves("BED-21")
def test_usage_is_known_or_not(usage: Any, expected: TokenUsage | None) -> None:
    assert read(answer({"text": "x"}, usage=usage)).usage == expected
    assert response(stream(delta(0, {"text": "x"}), end(usage=usage))).usage == expected


@proves("BED-21")
def test_the_last_usage_counts() -> None:
    events = stream(delta(0, {"text": "x"}), end(usage={"inputTokens": 1, "outputTokens": 1}), end(usage=USAGE))
    assert response(events).usage == TokenUsage(input_tokens=10, output_tokens=5)


@pytest.mark.parametrize(
    ("reason", "calls", "stop_reason"),
    [
        ("end_turn", False, "end_turn"),
        (None, False, "end_turn"),
        ("max_tokens", False, "max_tokens"),
        ("stop_sequence", False, "stop_sequence"),
        ("content_filtered", False, "content_filter"),
        ("guardrail_intervened", True, "content_filter"),
        ("malformed_tool_use", False, "malformed_tool_use"),
        ("tool_use", True, "tool_use"),
        ("end_turn", True, "tool_use"),
        ("stop_sequence", True, "tool_use"),
        (None, True, "tool_use"),
        ("max_tokens", True, "max_tokens"),
    ],
)
@proves("BED-20")
def test_stop_reasons(reason: Any, calls: bool, stop_reason: str) -> None:
    blocks = [{"text": "x"}, *([tool(input={})] if calls else [])]
    assert read(answer(*blocks, stop=reason)).stop_reason == stop_reason
    frames = [start(1, tool()), delta(1, {"toolUse": {"input": "{}"}})] if calls else []
    assert response(stream(delta(0, {"text": "x"}), *frames, end(reason))).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"text": ""}, []),
        ({}, []),
        ({"text": "a\ud800"}, [TextBlock(text="a\ufffd")]),
        (tool(), [ToolUseBlock(id="c1", name="search", input={})]),
        (tool(input={"q": "\ud800"}), [ToolUseBlock(id="c1", name="search", input={"q": "\ufffd"})]),
        ({"reasoningContent": {"reasoningText": {"text": "hmm"}}}, [reasoning("hmm")]),
        ({"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "s"}}}, [reasoning("hmm", "s")]),
        ({"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}, [reasoning("", "s")]),
        ({"reasoningContent": {"redactedContent": "cmVk"}}, [reasoning("", None, "cmVk")]),
        ({"reasoningContent": {}}, []),
        ({"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "citations": []}}, [TextBlock(text="ab")]),
        ({"image": {}}, [TextBlock(text="[unsupported block type: image]")]),
        (tool(type="server_tool_use"), [TextBlock(text="[unsupported block type: toolUse]")]),
    ],
)
@proves("BED-19", "BED-22")
def test_blocks(block: Any, expected: Any) -> None:
    assert read(answer(block)).content == expected


@proves("BED-22")
def test_every_call_has_an_id_of_its_own() -> None:
    calls = [{"toolUse": {"name": "a"}}, {"toolUse": {"toolUseId": "", "name": "b"}}, tool(), tool()]
    ids = [block.id for block in read(answer(*calls)).content if isinstance(block, ToolUseBlock)]
    assert ids[2] == "c1"
    assert len(set(ids)) == 4
    assert all(made.startswith("tooluse_") for made in (ids[0], ids[1], ids[3]))


@pytest.mark.parametrize("value", [[1], "oops", 7, {"a": float("nan")}])
@proves("BED-22")
def test_arguments_that_cannot_be_used_come_with_the_reason(value: Any) -> None:
    (block,) = read(answer(tool(input=value))).content
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert block.input_error


# --- streams ---------------------------------------------------------------------------------------------------------


@proves("BED-24", "BED-22")
def test_a_streamed_answer() -> None:
    events = stream(
        event("messageStart", {"role": "assistant"}),
        delta(0, {"reasoningContent": {"text": "Let me"}}),
        delta(0, {"reasoningContent": {"text": " see"}}),
        delta(0, {"reasoningContent": {"signature": "sig"}}),
        stop(0),
        delta(1, {"text": "Grüße "}),
        delta(1, {"text": "🎉\u2028"}),
        delta(1, {"citation": {"title": "a"}}),
        stop(1),
        start(2, tool()),
        delta(2, {"toolUse": {"input": ""}}),
        delta(2, {"toolUse": {"input": '{"q":'}}),
        delta(2, {"toolUse": {"input": " 1}"}}),
        stop(2),
        end("tool_use", USAGE),
        event("somethingNew", {"a": 1}),
    )
    block = ToolUseBlock(id="c1", name="search", input={"q": 1})
    assert events[:-1] == [
        StreamEvent("reasoning", "Let me"),
        StreamEvent("reasoning", " see"),
        StreamEvent("text", "Grüße "),
        StreamEvent("text", "🎉\u2028"),
        StreamEvent("tool_input_delta", ToolInputDelta("c1", "search", '{"q":')),
        StreamEvent("tool_input_delta", ToolInputDelta("c1", "search", " 1}")),
        StreamEvent("tool_use", block),
    ]
    assert response(events) == LLMResponse(
        [reasoning("Let me see", "sig"), TextBlock(text="Grüße 🎉\u2028"), block],
        id="r1",
        model="asked",
        stop_reason="tool_use",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


@proves("BED-24")
def test_blocks_need_no_stop_and_no_index() -> None:
    events = stream(
        delta(None, {"reasoningContent": {"text": "hmm"}}),
        delta(None, {"reasoningContent": {"redactedContent": "cmVk"}}),
        start(None, tool()),
        delta(None, {"toolUse": {"input": "{}"}}),
        end("tool_use"),
    )
    assert response(events).content == [
        reasoning("hmm", None, "cmVk"),
        ToolUseBlock(id="c1", name="search", input={}),
    ]


@proves("BED-24")
def test_an_index_that_is_used_again_is_another_block() -> None:
    events = stream(delta(0, {"text": "a"}), stop(0), delta(0, {"text": "b"}), end())
    assert response(events).content == [TextBlock(text="a"), TextBlock(text="b")]


@pytest.mark.parametrize("pieces", [(), ("",), ("{", "}")])
@proves("BED-22")
def test_a_call_without_arguments_is_a_call(pieces: tuple[str, ...]) -> None:
    frames = [delta(0, {"toolUse": {"input": piece}}) for piece in pieces]
    made = response(stream(start(0, tool()), *frames, end("tool_use")))
    assert made.content == [ToolUseBlock(id="c1", name="search", input={})]


@pytest.mark.parametrize(
    ("raw", "reason", "fault"),
    [
        ("{oops", "tool_use", "not valid JSON"),
        ("[1]", "tool_use", "must be a JSON object"),
        ('{"a": "b', "max_tokens", "token limit"),
        ('{"a": "b}', "model_context_window_exceeded", "token limit"),
        ("", "max_tokens", "token limit"),
    ],
)
@proves("BED-22")
def test_streamed_arguments_that_cannot_be_used(raw: str, reason: str, fault: str) -> None:
    made = response(stream(start(0, tool()), delta(0, {"toolUse": {"input": raw}}), stop(0), end(reason)))
    (block,) = made.content
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert fault in str(block.input_error)


@proves("BED-19", "BED-24")
def test_unknown_blocks_become_one_text_each() -> None:
    events = stream(
        start(0, {"image": {}}),
        delta(0, {"image": {}}),
        delta(1, {"toolResult": []}),
        start(2, tool(type="server_tool_use")),
        delta(2, {"toolUse": {"input": "{}"}}),
        start(3, {}),
        delta(3, {}),
        end(),
    )
    texts = [f"[unsupported block type: {kind}]" for kind in ("image", "toolResult", "toolUse")]
    assert [event.data for event in events if event.type == "text"] == texts
    assert response(events).content == [TextBlock(text=text) for text in texts]
    assert response(events).stop_reason == "end_turn"


@proves("BED-24")
def test_halves_of_a_character_in_two_pieces_become_one() -> None:
    events = stream(
        event("contentBlockDelta", b'{"delta":{"text":"a\\ud83c"}}'),
        event("contentBlockDelta", b'{"delta":{"text":"\\udf89\\ud83c"}}'),
        stop(0),
        event("contentBlockDelta", b'{"contentBlockIndex":1,"delta":{"reasoningContent":{"text":"b\\ud83c"}}}'),
        end(),
    )
    assert [(event.type, event.data) for event in events[:-1]] == [
        ("text", "a"),
        ("text", "🎉"),
        ("text", "\ufffd"),
        ("reasoning", "b"),
        ("reasoning", "\ufffd"),
    ]
    assert response(events).content == [TextBlock(text="a🎉\ufffd"), reasoning("b\ufffd")]


@pytest.mark.parametrize("frames", [(), (delta(0, {"text": "x"}),), (start(0, tool()), stop(0))])
@proves("BED-27")
def test_a_stream_that_just_ends_has_failed(frames: tuple[bytes, ...]) -> None:
    with pytest.raises(LLMProtocolError, match="ended before the answer did") as caught:
        stream(*frames)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("name", "cls", "status", "retryable"),
    [
        ("throttlingException", LLMRateLimitError, 429, True),
        ("internalServerException", LLMServerError, 500, True),
        ("serviceUnavailableException", LLMServerError, 503, True),
        ("modelStreamErrorException", LLMBadRequestError, 424, True),
        ("validationException", LLMBadRequestError, 400, False),
        ("accessDeniedException", LLMAuthenticationError, 403, False),
        ("somethingNew", LLMServerError, None, True),
    ],
)
@proves("BED-26")
def test_an_exception_ends_a_stream(name: str, cls: type[AdapterError], status: int | None, retryable: bool) -> None:
    stream_reader = reader()
    first = delta(0, {"text": "x"})
    events = stream_reader.feed(first + exception(name, {"message": "slow down"}))
    assert next(events) == StreamEvent("text", "x")
    with pytest.raises(cls, match="bedrock API error: slow down") as caught:
        next(events)
    assert type(caught.value) is cls
    assert (caught.value.status, caught.value.retryable, caught.value.error_type) == (status, retryable, name)


@proves("BED-26")
def test_an_error_message_ends_a_stream() -> None:
    headers = {":message-type": "error", ":error-code": "internalServerException", ":error-message": "boom"}
    with pytest.raises(LLMServerError, match="bedrock API error: boom"):
        stream(frame(headers, b""))


@pytest.mark.parametrize("body", [b"\x00" * 20, delta(0, {"text": "x"})[:-1], b"<html>no stream at all</html>"])
@proves("BED-25")
def test_a_body_that_is_no_event_stream(body: bytes) -> None:
    with pytest.raises(LLMProtocolError, match="no event stream"):
        stream(body)


# --- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not valid JSON"),
        (b"<html>", "not valid JSON"),
        ([], "the payload must be an object"),
        ({}, "no output"),
        ({"output": 7}, "output must be an object"),
        ({"output": {"message": 7}}, "output.message must be an object"),
        ({"output": {"message": {"content": {}}}}, "content must be an array"),
        (answer("x"), r"content\[\] must be an object"),
        (answer({"toolUse": 7}), "toolUse must be an object"),
        (answer({"toolUse": {}}), "no name"),
        (answer({"reasoningContent": 7}), "reasoningContent must be an object"),
        (answer({"citationsContent": {"content": 7}}), "citationsContent.content must be an array"),
        (answer(usage=7), "usage must be an object"),
    ],
)
@proves("BED-22", "BED-23")
def test_what_is_no_answer_says_why(payload: Any, reason: str) -> None:
    with pytest.raises(LLMProtocolError, match=reason) as caught:
        read(payload)
    assert caught.value.message.startswith("bedrock API sent something that is no Converse answer: ")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (event("contentBlockDelta", b"oops"), "not valid JSON"),
        (event("contentBlockDelta", {"delta": 7}), "delta must be an object"),
        (delta(0, {"toolUse": {"input": "{}"}}), "no name"),
        (start(0, {"toolUse": {"toolUseId": "c1"}}), "no name"),
        (start(0, 7), "start must be an object"),
        (event("messageStop", []), "must be an object"),
        (exception("throttlingException", b""), "not valid JSON"),
    ],
)
@proves("BED-22", "BED-23")
def test_what_is_no_event_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(LLMProtocolError, match=reason):
        stream(body)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the API's keys, whose values are right or anything."""
    return st.fixed_dictionaries({}, optional={key: value | _json for key, value in fields.items()}) | _json


_call = _shaped(toolUseId=st.sampled_from(["", "c"]), name=st.just("a"), input=st.just({"q": 1}), type=st.just("x"))
_reasoning = _shaped(reasoningText=_shaped(text=st.just("x"), signature=st.just("s")), redactedContent=st.just("x"))
_block = _shaped(text=st.text(max_size=3), toolUse=_call, reasoningContent=_reasoning, image=st.just({}))
_answer = _shaped(
    output=_shaped(message=_shaped(content=st.lists(_block, max_size=4))),
    stopReason=st.sampled_from(["end_turn", "max_tokens"]),
    usage=_shaped(inputTokens=st.integers()),
)
_payload = _shaped(
    contentBlockIndex=st.integers(0, 2),
    start=_shaped(toolUse=_call),
    delta=_shaped(
        text=st.text(max_size=3),
        toolUse=_shaped(input=st.sampled_from(["", "{", "{}"])),
        reasoningContent=_shaped(text=st.just("x"), signature=st.just("s"), redactedContent=st.just("x")),
    ),
    stopReason=st.just("end_turn"),
    usage=_shaped(inputTokens=st.integers()),
)
_kinds = st.sampled_from(
    ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "other"]
)


@given(_answer)
@proves("BED-23")
def test_no_answer_raises_anything_but_an_adapter_error(payload: Any) -> None:
    with suppress(AdapterError):
        json.dumps([block.to_dict() for block in read(payload).content], allow_nan=False).encode()


@given(st.lists(st.tuples(_kinds, _payload), max_size=5))
@proves("BED-23")
def test_no_event_raises_anything_but_an_adapter_error(events: list[tuple[str, Any]]) -> None:
    frames = [event(kind, json.dumps(payload).encode()) for kind, payload in events]
    with suppress(AdapterError):
        made = stream(*frames, end())
        json.dumps([block.to_dict() for block in response(made).content], allow_nan=False).encode()
        assert [item.type for item in made].count("done") == 1


@given(st.binary(max_size=40))
@proves("BED-23")
def test_no_bytes_raise_anything_but_an_adapter_error(body: bytes) -> None:
    with pytest.raises(AdapterError):
        stream(body)
    with pytest.raises(AdapterError):
        read(body)


_good: st.SearchStrategy[dict[str, Any]] = (
    st.builds(lambda text: {"text": text}, st.text(max_size=6))
    | st.builds(
        lambda text, signature: {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}},
        st.text(max_size=6),
        st.sampled_from(["", "s"]),
    )
    | st.just({"reasoningContent": {"redactedContent": "cmVk"}})
    | st.builds(
        lambda value: {"toolUse": {"name": "a", "input": value}}, st.sampled_from([{}, {"q": "é🎉"}, {"a": [1, None]}])
    )
    | st.just({"image": {}})
)


def _frames(index: int, block: dict[str, Any], size: int) -> list[bytes]:
    def cut(whole: str) -> list[str]:
        return [whole[place : place + size] for place in range(0, len(whole), size)]

    if "text" in block:
        return [delta(index, {"text": piece}) for piece in cut(block["text"])]
    if "toolUse" in block:
        call = {key: value for key, value in block["toolUse"].items() if key != "input"}
        raw = json.dumps(block["toolUse"]["input"])
        return [start(index, {"toolUse": call}), *(delta(index, {"toolUse": {"input": piece}}) for piece in cut(raw))]
    if "image" in block:
        return [start(index, block)]
    whole = block["reasoningContent"]
    pieces: list[dict[str, str]] = [{"text": piece} for piece in cut(whole.get("reasoningText", {}).get("text", ""))]
    pieces.append({"signature": whole["reasoningText"]["signature"]} if "reasoningText" in whole else whole)
    return [delta(index, {"reasoningContent": piece}) for piece in pieces]


@given(
    blocks=st.lists(_good, max_size=5),
    reason=st.sampled_from(["end_turn", "tool_use", "guardrail_intervened"]),
    size=st.integers(1, 5),
)
@proves("BED-24")
def test_a_stream_ends_with_what_chat_would_have_returned(blocks: list[Any], reason: str, size: int) -> None:
    for number, block in enumerate(blocks):
        if "toolUse" in block:
            block["toolUse"]["toolUseId"] = f"c{number}"
    whole = read(answer(*blocks, stop=reason, usage=USAGE))
    frames = [piece for number, block in enumerate(blocks) for piece in [*_frames(number, block, size), stop(number)]]
    events = stream(*frames, end(reason, USAGE))
    assert response(events) == whole
    texts = "".join(str(item.data) for item in events if item.type == "text")
    assert texts == "".join(block.text for block in whole.content if isinstance(block, TextBlock))
    calls = [item.data for item in events if item.type == "tool_use"]
    assert calls == [block for block in whole.content if isinstance(block, ToolUseBlock)]

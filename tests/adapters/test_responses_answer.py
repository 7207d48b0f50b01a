"""What the Responses API answers, whole and in events, well-formed and not."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters import LLMResponse, StreamEvent, ToolInputDelta
from openmultiagent.adapters._responses_answer import AnswerReader, StreamReader
from openmultiagent.errors import (
    AdapterError,
    LLMBadRequestError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
    UnsupportedToolCallError,
)
from openmultiagent.messages import ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.redaction import redact_sensitive_text
from openmultiagent.usage import TokenUsage
from tests.support import proves


def read(payload: Any) -> LLMResponse:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return AnswerReader(provider="openai", model="asked", redact=redact_sensitive_text).read(body)


def stream(*events: Any) -> list[StreamEvent]:
    reader = StreamReader(provider="openai", model="asked", redact=redact_sensitive_text)
    made = [event for item in events for event in reader.feed(item if isinstance(item, str) else json.dumps(item))]
    return [*made, *reader.finish()]


def answer(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-5-x", "status": status, "output": list(output), **more}


def message(*parts: Any, item_id: str = "msg_1") -> dict[str, Any]:
    content = [
        {"type": "output_text", "text": part, "annotations": []} if isinstance(part, str) else part for part in parts
    ]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def call(arguments: Any = '{"q": 1}', call_id: str = "call_1", name: str = "search", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments, **more}


def reasoning(*texts: str, encrypted: str | None = "enc", item_id: str = "rs_1") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": encrypted}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def ended(*output: Any, kind: str = "completed", **more: Any) -> dict[str, Any]:
    return event(kind, response=answer(*output, status=kind, **more))


def response(events: list[StreamEvent]) -> LLMResponse:
    last = events[-1]
    assert last.type == "done"
    assert isinstance(last.data, LLMResponse)
    return last.data


# --- whole answers ---------------------------------------------------------------------------------------------------


@proves("RSP-10")
def test_a_plain_answer() -> None:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }
    assert read(answer(message("Hello"), usage=usage)) == LLMResponse(
        [TextBlock(text="Hello")],
        id="resp_1",
        model="gpt-5-x",
        stop_reason="end_turn",
        usage=TokenUsage(
            input_tokens=10, output_tokens=5, cache_read_tokens=4, cache_write_tokens=3, reasoning_tokens=2
        ),
    )


@proves("RSP-10")
def test_every_kind_of_item() -> None:
    made = read(answer(reasoning("one", "two"), message("a", "", "b"), call()))
    assert made.content == [
        ReasoningBlock(text="one\n\ntwo", signature="rs_1:enc", provenance="openai"),
        TextBlock(text="a"),
        TextBlock(text="b"),
        ToolUseBlock(id="call_1", name="search", input={"q": 1}),
    ]
    assert made.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("item", "blocks"),
    [
        (reasoning(), [ReasoningBlock(text="", signature="rs_1:enc", provenance="openai")]),
        (reasoning("x", encrypted=None), [ReasoningBlock(text="x", provenance="openai")]),
        (reasoning(encrypted=None), []),
        (
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}, {"text": "b"}]},
            [ReasoningBlock(text="ab", provenance="openai")],
        ),
        (reasoning(encrypted="e", item_id=""), [ReasoningBlock(text="", signature=":e", provenance="openai")]),
    ],
)
@proves("RSP-11")
def test_reasoning(item: Any, blocks: list[Any]) -> None:
    assert read(answer(item)).content == blocks


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"input_tokens": None, "output_tokens": None}, None),
        ({"output_tokens": 3}, TokenUsage(output_tokens=3)),
        ({"input_tokens": 3, "input_tokens_details": 7, "output_tokens_details": None}, TokenUsage(input_tokens=3)),
    ],
)
@proves("RSP-10")
def test_usage_is_known_or_not(usage: Any, expected: TokenUsage | None) -> None:
    assert read(answer(message("x"), usage=usage)).usage == expected
    assert response(stream(ended(message("x"), usage=usage))).usage == expected


@pytest.mark.parametrize(
    ("output", "status", "details", "stop_reason"),
    [
        ([message("x")], "completed", None, "end_turn"),
        ([message("x"), call()], "completed", None, "tool_use"),
        ([message("x")], "incomplete", {"reason": "max_output_tokens"}, "max_tokens"),
        ([call()], "incomplete", {"reason": "max_output_tokens"}, "max_tokens"),
        ([message("x")], "incomplete", {"reason": "content_filter"}, "content_filter"),
        ([message("x")], "incomplete", None, "incomplete"),
        ([message({"type": "refusal", "refusal": "No."})], "completed", None, "refusal"),
        ([message("x")], "", None, "end_turn"),
    ],
)
@proves("RSP-12")
def test_stop_reasons(output: list[Any], status: str, details: Any, stop_reason: str) -> None:
    assert read(answer(*output, status=status, incomplete_details=details)).stop_reason == stop_reason


@proves("RSP-12")
def test_a_refusal_is_text() -> None:
    made = read(answer(message({"type": "refusal", "refusal": "No."})))
    assert made.content == [TextBlock(text="No.")]


@proves("RSP-13")
def test_arguments_that_were_cut_off() -> None:
    item = call('{"path": "/et', status="incomplete")
    (block,) = read(answer(item, status="incomplete", incomplete_details={"reason": "max_output_tokens"})).content
    assert isinstance(block, ToolUseBlock)
    assert "token limit" in str(block.input_error)


@pytest.mark.parametrize("arguments", ["oops", "[1]", '{"a": NaN}'])
@proves("RSP-13")
def test_arguments_that_cannot_be_used(arguments: str) -> None:
    (block,) = read(answer(call(arguments))).content
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert block.input_error


@pytest.mark.parametrize("arguments", [{"q": 1}, '{"q": 1}'])
@proves("RSP-13")
def test_arguments_may_be_the_object_itself(arguments: Any) -> None:
    assert read(answer(call(arguments))).content == [ToolUseBlock(id="call_1", name="search", input={"q": 1})]
    assert read(answer(call(None))).content == [ToolUseBlock(id="call_1", name="search", input={})]


@proves("RSP-13")
def test_every_call_has_an_id_of_its_own() -> None:
    items = [{**call(call_id=given), "id": f"fc_{number}"} for number, given in enumerate(("c1", "", "c1"))]
    ids = [block.id for block in read(answer(*items)).content if isinstance(block, ToolUseBlock)]
    assert ids[0] == "c1"
    assert len(set(ids)) == 3
    assert all(made.startswith("call_") for made in ids[1:])


@proves("RSP-13")
def test_only_functions_with_a_name_can_be_called() -> None:
    with pytest.raises(UnsupportedToolCallError, match="custom_tool_call"):
        read(answer({"type": "custom_tool_call", "name": "x", "input": "y"}))
    with pytest.raises(LLMProtocolError, match="a function call has no name"):
        read(answer(call(name="")))


@proves("RSP-14")
def test_what_has_no_block_is_a_marker(capfd: pytest.CaptureFixture[str]) -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    made = read(answer(item, item, message({"type": "output_audio"}, "x")))
    assert [block.text for block in made.content if isinstance(block, TextBlock)] == [
        "[unsupported block type: web_search_call]",
        "[unsupported block type: web_search_call]",
        "[unsupported block type: output_audio]",
        "x",
    ]
    assert "".join(capfd.readouterr()).count("model_block_unsupported") == 2
    events = stream(
        event("output_item.added", output_index=0, item=item), event("output_item.done", item=item), ended(item)
    )
    assert [made.type for made in events] == ["text", "done"]
    assert events[0].data == "[unsupported block type: web_search_call]"


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"code": "server_error", "message": "boom"}, LLMServerError, 500),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, LLMRateLimitError, 429),
        ({"code": "invalid_prompt", "message": "no"}, LLMBadRequestError, 400),
        ({"code": "invalid_image", "type": "image_error", "message": "no"}, LLMBadRequestError, 400),
        ({"message": "who knows"}, LLMServerError, None),
        (None, LLMServerError, None),
        ("odd", LLMServerError, None),
    ],
)
@proves("RSP-15")
def test_a_failed_response_is_its_error(error: Any, kind: type[AdapterError], status: int | None) -> None:
    for failing in (
        lambda: read(answer(status="failed", error=error)),
        lambda: stream(ended(kind="failed", error=error)),
        lambda: stream(event("failed", response={"error": error})),
    ):
        with pytest.raises(kind) as caught:
            failing()
        assert caught.value.status == status
        assert caught.value.retryable == (status != 400)


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
        {"error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
@proves("RSP-15")
def test_an_error_event_ends_a_stream(failure: Any) -> None:
    with pytest.raises(LLMRateLimitError, match="openai API error: slow down"):
        stream(event("output_text.delta", delta="x"), failure)


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
@proves("RSP-16")
def test_a_response_that_is_not_over_is_no_answer(status: str) -> None:
    with pytest.raises(LLMProtocolError, match=f"the response is {status}"):
        read(answer(status=status))


@pytest.mark.parametrize(
    "events",
    [(), (event("output_text.delta", delta="x"),), (event("output_item.done", item=message("x")),), ("[DONE]",)],
)
@proves("RSP-16")
def test_a_stream_that_just_ends_has_failed(events: tuple[Any, ...]) -> None:
    with pytest.raises(LLMProtocolError, match="ended before the answer did") as caught:
        stream(*events)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not valid JSON"),
        (b"<html>", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "the payload must be an object"),
        ({}, "the answer has no output"),
        ({"output": {}}, "the answer has no output"),
        ({"output": [7]}, r"output\[\] must be an object"),
        ({"output": [], "incomplete_details": 7}, "incomplete_details must be an object"),
        ({"output": [{"type": "message", "content": {}}]}, "content must be an array"),
        ({"output": [{"type": "reasoning", "summary": 7}]}, "summary must be an array"),
    ],
)
@proves("RSP-16")
def test_what_is_no_answer_says_why(payload: Any, reason: str) -> None:
    with pytest.raises(LLMProtocolError, match=reason):
        read(payload)


# --- streams ---------------------------------------------------------------------------------------------------------

PARTS = [
    event("created", response=answer(status="in_progress")),
    event("output_item.added", output_index=0, item=reasoning()),
    event("reasoning_summary_part.added", output_index=0, summary_index=0),
    event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="one"),
    event("reasoning_summary_part.added", output_index=0, summary_index=1),
    event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="two"),
    event("output_item.done", output_index=0, item=reasoning("one", "two")),
    event("output_item.added", output_index=1, item=message()),
    event("output_text.delta", output_index=1, delta="Let me "),
    event("output_text.delta", output_index=1, delta="see."),
    event("output_item.done", output_index=1, item=message("Let me see.")),
    event("output_item.added", output_index=2, item=call("")),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta='{"q":'),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta=" 1}"),
    event("function_call_arguments.done", output_index=2, item_id="fc_1", arguments='{"q": 1}'),
    event("output_item.done", output_index=2, item=call()),
]
OUTPUT = [reasoning("one", "two"), message("Let me see."), call()]


@pytest.mark.parametrize("output", [OUTPUT, []])
@proves("RSP-17")
def test_a_stream_of_everything(output: list[Any]) -> None:
    events = stream(*PARTS, ended(*output), "after the end")
    assert events[:-1] == [
        StreamEvent("reasoning", "one"),
        StreamEvent("reasoning", "\n\n"),
        StreamEvent("reasoning", "two"),
        StreamEvent("text", "Let me "),
        StreamEvent("text", "see."),
        StreamEvent("tool_input_delta", ToolInputDelta("call_1", "search", '{"q":')),
        StreamEvent("tool_input_delta", ToolInputDelta("call_1", "search", " 1}")),
        StreamEvent("tool_use", ToolUseBlock(id="call_1", name="search", input={"q": 1})),
    ]
    assert response(events) == read(answer(*OUTPUT))


@proves("RSP-17")
def test_an_incomplete_stream() -> None:
    last = ended(message("Hal"), kind="incomplete", incomplete_details={"reason": "max_output_tokens"})
    del last["response"]["status"]
    events = stream(event("output_text.delta", delta="Hal"), last)
    assert response(events).stop_reason == "max_tokens"


@proves("RSP-17")
def test_a_call_keeps_its_made_up_id_from_the_first_piece_on() -> None:
    item = call("", call_id="")
    events = stream(
        event("output_item.added", output_index=0, item=item),
        event("function_call_arguments.delta", output_index=0, delta="{}"),
        ended({**item, "arguments": "{}"}),
    )
    delta, block = events[0].data, events[1].data
    assert isinstance(delta, ToolInputDelta)
    assert isinstance(block, ToolUseBlock)
    assert delta.tool_use_id == block.id


@proves("RSP-17")
def test_events_about_other_things_are_passed_over() -> None:
    events = stream(
        "",
        event("queued"),
        event("output_text.delta"),
        event("output_text.delta", delta=7),
        event("reasoning_text.delta", delta=None),
        event("function_call_arguments.delta", output_index=5, delta="{}"),
        event("output_item.added", output_index="x", item=None),
        {"type": "keepalive"},
        {},
        ended(message("x")),
    )
    assert [made.type for made in events] == ["done"]


@proves("RSP-17", "MOD-28")
def test_halves_of_a_character_become_one_or_are_replaced() -> None:
    events = stream(
        '{"type":"response.reasoning_text.delta","delta":"\\ud83c"}',
        '{"type":"response.output_text.delta","delta":"a\\ud83c"}',
        '{"type":"response.output_text.delta","delta":"\\udf89b\\ud83c"}',
        json.dumps(ended(message("a🎉b"))),
    )
    assert [made.data for made in events[:-1]] == ["a", "🎉b", "\ufffd", "\ufffd"]


# --- anything --------------------------------------------------------------------------------------------------------

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the protocol's keys, whose values are right or anything."""
    return st.fixed_dictionaries({}, optional={key: value | _json for key, value in fields.items()}) | _json


_part = _shaped(type=st.sampled_from(["output_text", "refusal", "x"]), text=st.just("x"), refusal=st.just("x"))
_item = _shaped(
    type=st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "web_search_call"]),
    id=st.sampled_from(["", "a"]),
    call_id=st.sampled_from(["", "c"]),
    name=st.just("search"),
    arguments=st.sampled_from(["", "{", "{}", '{"a":NaN}']),
    content=st.lists(_part, max_size=2),
    summary=st.lists(_part, max_size=2),
    encrypted_content=st.just("e"),
)
_response = _shaped(
    id=st.just("r"),
    status=st.sampled_from(["completed", "incomplete", "failed"]),
    output=st.lists(_item, max_size=3),
    incomplete_details=_shaped(reason=st.just("max_output_tokens")),
    usage=_shaped(input_tokens=st.integers(), input_tokens_details=_shaped(cached_tokens=st.integers())),
    error=_shaped(code=st.sampled_from(["server_error", "x", 429]), message=st.just("m")),
)
_event = _shaped(
    type=st.sampled_from([item["type"] for item in PARTS] + ["response.completed", "response.failed", "error"]),
    output_index=st.integers(0, 2),
    summary_index=st.integers(0, 1),
    delta=st.just("x"),
    item=_item,
    response=_response,
)


@given(_response)
@proves("RSP-16")
def test_no_answer_raises_anything_but_an_adapter_error(payload: Any) -> None:
    with suppress(AdapterError):
        made = read(payload)
        json.dumps([block.to_dict() for block in made.content], allow_nan=False).encode()


@given(st.lists(_event | st.text(max_size=10), max_size=5))
@proves("RSP-16", "RSP-17")
def test_no_event_raises_anything_but_an_adapter_error(payloads: list[Any]) -> None:
    with suppress(AdapterError):
        events = stream(*payloads)
        assert [made.type for made in events].count("done") == 1

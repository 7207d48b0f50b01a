"""What comes back from Anthropic's Messages protocol: answers whole and in events, well-formed and not."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from openmultiagent.adapters import LLMResponse, StreamEvent, ToolInputDelta
from openmultiagent.adapters._anthropic_answer import AnswerReader, StreamReader
from openmultiagent.adapters._event_body import EventBody
from openmultiagent.errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
)
from openmultiagent.messages import ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.redaction import redact_sensitive_text
from openmultiagent.usage import TokenUsage
from tests.support import proves

USAGE = {"input_tokens": 10, "output_tokens": 5}
CUT = "the arguments were cut off at the token limit"


def read(payload: Any) -> LLMResponse:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return AnswerReader(provider="anthropic", model="asked", redact=redact_sensitive_text).read(body)


def answer(*content: Any, stop: str | None = "end_turn", usage: Any = None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(content),
        "stop_reason": stop,
        "usage": usage or USAGE,
    }


def wire(*events: Any) -> bytes:
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = event["type"] if isinstance(event, dict) and "type" in event else "x"
        lines.append(f"event: {name}\ndata: {data}\n\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def stream(*events: Any, size: int = 10_000) -> list[StreamEvent]:
    reader = EventBody(StreamReader(provider="anthropic", model="asked", redact=redact_sensitive_text))
    body = wire(*events)
    seen = [event for at in range(0, len(body), size) for event in reader.feed(body[at : at + size])]
    return [*seen, *reader.close()]


def start(usage: Any = None) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "claude-x", "content": [], "stop_reason": None, "usage": usage}
    return {"type": "message_start", "message": message}


def begin(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", usage: Any = None) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def response(events: list[StreamEvent]) -> LLMResponse:
    last = events[-1]
    assert last.type == "done"
    assert isinstance(last.data, LLMResponse)
    return last.data


def told(events: list[StreamEvent], kind: str) -> list[Any]:
    return [event.data for event in events if event.type == kind]


def streamed(*content: dict[str, Any], reason: str | None = "end_turn", usage: Any = None) -> list[StreamEvent]:
    """Stream the blocks of a whole answer, as the provider would."""
    events: list[Any] = [start(usage)]
    for index, block in enumerate(content):
        kind = block["type"]
        if kind == "text":
            events += [begin(index, "text", text=""), delta(index, "text_delta", text=block["text"])]
        elif kind == "thinking":
            events += [begin(index, "thinking", thinking="", signature="")]
            events += [delta(index, "thinking_delta", thinking=block["thinking"])]
            events += [delta(index, "signature_delta", signature=block["signature"])]
        elif kind == "tool_use":
            events += [begin(index, "tool_use", id=block["id"], name=block["name"], input={})]
            text = json.dumps(block["input"])
            events += [delta(index, "input_json_delta", partial_json=text[:4])]
            events += [delta(index, "input_json_delta", partial_json=text[4:])]
        else:
            events += [begin(index, **{"kind": kind, **{key: block[key] for key in block if key != "type"}})]
        events.append(stop(index))
    return stream(*events, *end(reason, usage))


CONTENTS: list[list[dict[str, Any]]] = [
    [],
    [{"type": "text", "text": "Hello"}],
    [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}],
    [
        {"type": "thinking", "thinking": "why", "signature": "s1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "Wait."},
        {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}},
        {"type": "tool_use", "id": "c2", "name": "search", "input": {}},
    ],
    [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "x"}],
    [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "text", "text": "x"}],
    [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": 1}}, {"type": "text", "text": "after"}],
]


# --- whole answers, and the same in a stream -------------------------------------------------------------------------


@proves("ANT-14", "ANT-19")
def test_a_plain_answer() -> None:
    assert read(answer({"type": "text", "text": "Hello"})) == LLMResponse(
        [TextBlock(text="Hello")],
        id="msg_1",
        model="claude-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


@proves("ANT-14", "ANT-15")
def test_every_kind_of_block_in_its_order() -> None:
    made = read(
        answer(
            {"type": "thinking", "thinking": "why", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "Wait."},
            {"type": "text", "text": ""},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "thinking"},
            {"type": "redacted_thinking"},
            {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}},
            stop="tool_use",
        )
    )
    expected: list[ContentBlock] = [
        ReasoningBlock(text="why", signature="s1", provenance="anthropic"),
        ReasoningBlock(text="", redacted_data="d", provenance="anthropic"),
        TextBlock(text="Wait."),
        ReasoningBlock(text="", signature="s2", provenance="anthropic"),
        ReasoningBlock(text="unsigned", provenance="anthropic"),
        ToolUseBlock(id="c1", name="search", input={"q": "a"}),
    ]
    assert made.content == expected
    assert made.stop_reason == "tool_use"


@pytest.mark.parametrize("reason", [None, "end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn"])
@pytest.mark.parametrize("content", CONTENTS)
@proves("MOD-3", "ANT-17", "ANT-21")
def test_a_stream_ends_with_the_answer_that_it_would_have_been_in_one_piece(
    content: list[dict[str, Any]], reason: str | None
) -> None:
    whole = read(answer(*content, stop=reason))
    events = streamed(*content, reason=reason, usage=USAGE)
    assert response(events) == whole
    assert told(events, "tool_use") == [block for block in whole.content if isinstance(block, ToolUseBlock)]
    shown = [block.text for block in whole.content if isinstance(block, TextBlock)]
    assert told(events, "text") == shown
    assert [event.type for event in events].count("done") == 1


@proves("ANT-14")
def test_a_block_of_an_unknown_kind_is_named_and_logged() -> None:
    with capture_logs() as lines:
        made = read(answer({"type": "web_search_tool_result", "content": "secret"}, {"no": "type"}))
    assert made.content == [
        TextBlock(text="[unsupported block type: web_search_tool_result]"),
        TextBlock(text="[unsupported block type: ]"),
    ]
    assert [line["block_type"] for line in lines] == ["web_search_tool_result", ""]
    assert "secret" not in str(lines)


@pytest.mark.parametrize(
    ("reason", "call", "stop_reason"),
    [
        (None, False, "end_turn"),
        ("end_turn", False, "end_turn"),
        ("tool_use", False, "end_turn"),
        ("tool_use", True, "tool_use"),
        ("end_turn", True, "tool_use"),
        (None, True, "tool_use"),
        ("max_tokens", True, "max_tokens"),
        ("stop_sequence", False, "stop_sequence"),
        ("refusal", False, "refusal"),
        ("pause_turn", False, "pause_turn"),
        ("model_context_window_exceeded", False, "model_context_window_exceeded"),
        (7, False, "end_turn"),
    ],
)
@proves("ANT-18")
def test_stop_reasons(reason: Any, call: bool, stop_reason: str) -> None:
    content = [{"type": "tool_use", "id": "c1", "name": "a", "input": {}}] if call else []
    assert read(answer(*content, stop=reason)).stop_reason == stop_reason
    assert response(streamed(*content, reason=reason)).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"input_tokens": None, "output_tokens": None}, None),
        ({"cache_read_input_tokens": 5}, None),
        ({"input_tokens": 3}, TokenUsage(input_tokens=3)),
        ({"input_tokens": -3, "output_tokens": "2"}, None),
        (
            {
                "input_tokens": 3,
                "cache_creation_input_tokens": 109_075,
                "cache_read_input_tokens": 0,
                "output_tokens": 81,
            },
            TokenUsage(input_tokens=109_078, output_tokens=81, cache_write_tokens=109_075),
        ),
        (
            {
                "input_tokens": 3,
                "cache_creation_input_tokens": None,
                "cache_read_input_tokens": 40,
                "output_tokens": 81,
                "output_tokens_details": {"thinking_tokens": 60},
                "service_tier": "standard",
            },
            TokenUsage(input_tokens=43, output_tokens=81, cache_read_tokens=40, reasoning_tokens=60),
        ),
    ],
)
@proves("ANT-19", "MOD-17")
def test_usage_is_known_or_not(usage: Any, expected: TokenUsage | None) -> None:
    assert read({**answer(), "usage": usage}).usage == expected
    assert response(streamed(usage=usage)).usage == expected


@proves("ANT-20")
def test_the_reports_of_a_stream_do_not_add_up() -> None:
    events = stream(
        start({"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1}),
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 10}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20, "input_tokens": None}},
        *end(usage={"output_tokens": 30, "input_tokens": 26}),
    )
    assert response(events).usage == TokenUsage(input_tokens=126, output_tokens=30, cache_read_tokens=100)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"q": 1}, None),
        ({}, None),
        (None, None),
        ("", None),
        ('{"q": 1}', None),
        ("{broken", "not valid JSON"),
        ([1], "must be a JSON object, got list"),
        (7, "must be a JSON object, got int"),
    ],
)
@proves("ANT-16")
def test_the_input_of_a_whole_call(value: Any, fault: str | None) -> None:
    (block,) = read(answer({"type": "tool_use", "id": "c1", "name": "a", "input": value}, stop="tool_use")).content
    assert isinstance(block, ToolUseBlock)
    if fault is None:
        assert block.input_error is None
        assert block.input == ({"q": 1} if value else {})
    else:
        assert block.input == {}
        assert fault in str(block.input_error)


@proves("ANT-17")
@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_at_the_token_limit_may_be_incomplete(reason: str) -> None:
    first = {"type": "tool_use", "id": "c1", "name": "a", "input": {"q": 1}}
    last = {"type": "tool_use", "id": "c2", "name": "a", "input": {"q": 2}}
    expected = [
        ToolUseBlock(id="c1", name="a", input={"q": 1}),
        ToolUseBlock(id="c2", name="a", input={}, input_error=CUT),
    ]
    assert read(answer(first, last, stop=reason)).content == expected
    events = streamed(first, last, reason=reason)
    assert told(events, "tool_use") == expected
    assert response(events).content == expected
    behind = read(answer(first, {"type": "text", "text": "and"}, stop=reason)).content[0]
    assert behind == expected[0]


@proves("ANT-16")
def test_ids_that_cannot_be_used() -> None:
    keys: tuple[Any, ...] = ("c1", "c1", "", None)
    calls = [{"type": "tool_use", "id": key, "name": "a", "input": {}} for key in keys]
    made = read(answer(*calls)).content
    ids = [block.id for block in made if isinstance(block, ToolUseBlock)]
    assert ids[0] == "c1"
    assert len(set(ids)) == 4
    assert all(key.startswith("toolu_") for key in ids[1:])


@proves("ANT-16")
def test_a_call_without_a_name_is_a_protocol_error() -> None:
    with pytest.raises(LLMProtocolError, match="no name"):
        read(answer({"type": "tool_use", "id": "c1", "input": {}}))


@pytest.mark.parametrize(
    "payload",
    [b"", b"<html>", b"7", b"null", b"{}", b"[]", b'{"content": null}', b'{"content": "x"}', b'{"content": [7]}'],
)
@proves("MOD-16")
def test_what_is_no_message_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(LLMProtocolError, match="anthropic API sent something that is no message"):
        read(payload)


@proves("MOD-21", "ANT-22")
def test_an_error_in_the_clothes_of_an_answer() -> None:
    with pytest.raises(LLMServerError, match="Overloaded") as caught:
        read({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (caught.value.status, caught.value.error_type, caught.value.retryable) == (529, "overloaded_error", True)


# --- streams ---------------------------------------------------------------------------------------------------------


@proves("ANT-21", "MOD-3")
def test_texts_and_reasoning_are_told_as_they_arrive() -> None:
    events = stream(
        start(),
        {"type": "ping"},
        begin(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let "),
        delta(0, "thinking_delta", thinking="me"),
        delta(0, "thinking_delta", thinking=""),
        delta(0, "signature_delta", signature="sig"),
        stop(0),
        begin(1, "text", text="He"),
        delta(1, "text_delta", text="llo"),
        delta(1, "citations_delta", citation={}),
        stop(1),
        {"type": "brand_new", "x": 1},
        *end(),
    )
    assert [(event.type, event.data) for event in events[:-1]] == [
        ("reasoning", "Let "),
        ("reasoning", "me"),
        ("text", "He"),
        ("text", "llo"),
    ]
    assert response(events).content == [
        ReasoningBlock(text="Let me", signature="sig", provenance="anthropic"),
        TextBlock(text="Hello"),
    ]


@proves("ANT-21", "MOD-3")
def test_the_pieces_of_a_call() -> None:
    events = stream(
        start(),
        begin(0, "tool_use", id="c1", name="search", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"qu'),
        delta(0, "input_json_delta", partial_json='ery":"test"}'),
        stop(0),
        *end("tool_use"),
    )
    block = ToolUseBlock(id="c1", name="search", input={"query": "test"})
    assert [(event.type, event.data) for event in events[:-1]] == [
        ("tool_input_delta", ToolInputDelta("c1", "search", '{"qu')),
        ("tool_input_delta", ToolInputDelta("c1", "search", 'ery":"test"}')),
        ("tool_use", block),
    ]
    assert response(events).content == [block]


@pytest.mark.parametrize(
    ("text", "expected", "fault"),
    [
        ("{invalid", {}, "not valid JSON"),
        ("[1]", {}, "must be a JSON object"),
        ("", {}, None),
        ('{"query": """hello"""}', {"query": "hello"}, None),
        ('{"a": NaN}', {}, "no JSON data"),
    ],
)
@proves("ANT-16", "MOD-25")
def test_arguments_that_a_stream_broke(text: str, expected: Any, fault: str | None) -> None:
    events = stream(
        start(),
        begin(0, "tool_use", id="c1", name="a", input={}),
        delta(0, "input_json_delta", partial_json=text),
        stop(0),
        *end("tool_use"),
    )
    (block,) = told(events, "tool_use")
    assert (block.input, block.input_error is None) == (expected, fault is None)
    assert (fault or "None") in str(block.input_error)
    assert response(events).content == [block]


@proves("ANT-17")
def test_arguments_that_the_limit_cut_in_a_stream() -> None:
    events = stream(
        start(),
        begin(0, "tool_use", id="c1", name="a", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "/tm'),
        stop(0),
        *end("max_tokens"),
    )
    block = ToolUseBlock(id="c1", name="a", input={}, input_error=CUT)
    assert told(events, "tool_use") == response(events).content == [block]


@proves("ANT-16", "ANT-21")
def test_an_input_that_came_whole_with_the_start_of_its_call() -> None:
    events = stream(start(), begin(0, "tool_use", id="c1", name="a", input={"q": 1}), stop(0), *end("tool_use"))
    assert told(events, "tool_use") == [ToolUseBlock(id="c1", name="a", input={"q": 1})]


@proves("ANT-21")
def test_calls_that_no_event_ends_are_told_once() -> None:
    events = stream(
        start(),
        begin(0, "tool_use", id="c1", name="a", input={}),
        stop(0),
        stop(0),
        begin(1, "tool_use", id="c2", name="a", input={}),
        stop(1),
        begin(2, "tool_use", id="c3", name="a", input={}),
        stop(7),
        {"type": "message_delta", "delta": {}, "usage": None},
        {"type": "message_stop"},
    )
    assert [block.id for block in told(events, "tool_use")] == ["c1", "c2", "c3"]
    assert response(events).stop_reason == "tool_use"


@proves("ANT-21")
def test_what_comes_after_the_end_is_passed_over() -> None:
    events = stream(start(), *end(), begin(0, "text", text="more"), "[DONE]")
    assert [event.type for event in events] == ["done"]


@proves("ANT-21")
def test_pieces_that_do_not_fit_their_block_are_passed_over() -> None:
    events = stream(
        start(),
        begin(0, "text", text="a"),
        delta(0, "input_json_delta", partial_json="{}"),
        delta(0, "thinking_delta", thinking="x"),
        begin(1, "server_tool_use", id="s1", name="web_search", input={}),
        delta(1, "input_json_delta", partial_json="{}"),
        *end(),
    )
    assert response(events).content == [
        TextBlock(text="a"),
        TextBlock(text="[unsupported block type: server_tool_use]"),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [start(), begin(0, "text", text="x"), stop(0)],
        [start(), begin(0, "text", text="x"), end()[0]],
        [start(), delta(0, "text_delta", text="x"), *end()],
        [{"type": "message_start", "message": 7}, *end()],
        ["{broken"],
        ["7"],
    ],
)
@proves("ANT-21", "MOD-19", "MOD-16")
def test_a_stream_that_is_no_whole_answer_is_a_protocol_error(events: list[Any]) -> None:
    with pytest.raises(LLMProtocolError) as caught:
        stream(*events)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("overloaded_error", 529, LLMServerError),
        ("api_error", 500, LLMServerError),
        ("timeout_error", 504, LLMServerError),
        ("rate_limit_error", 429, LLMRateLimitError),
        ("authentication_error", 401, LLMAuthenticationError),
        ("invalid_request_error", 400, LLMBadRequestError),
        ("something_new", None, LLMServerError),
    ],
)
@proves("ANT-22", "MOD-21")
def test_errors_in_a_stream(kind: str, status: int | None, error: type[AdapterError]) -> None:
    with pytest.raises(error, match="because") as caught:
        stream(start(), {"type": "error", "error": {"type": kind, "message": "because"}})
    assert (caught.value.status, caught.value.error_type) == (status, kind)
    assert caught.value.retryable is (status not in (400, 401))


@proves("ANT-22")
def test_an_error_event_that_says_nothing() -> None:
    with pytest.raises(LLMServerError, match="no reason"):
        stream(start(), {"type": "error"})


@proves("MOD-27", "MOD-28")
def test_how_a_stream_is_cut_makes_no_difference() -> None:
    events: list[Any] = [
        start(USAGE),
        begin(0, "text", text=""),
        delta(0, "text_delta", text="grün \u2028 🎉\u0085"),
        stop(0),
        begin(1, "tool_use", id="c1", name="a", input={}),
        delta(1, "input_json_delta", partial_json='{"q": "\u2028"}'),
        stop(1),
        *end("tool_use"),
    ]
    whole = stream(*events)
    assert stream(*events, size=1) == whole
    assert told(whole, "text") == ["grün \u2028 🎉\u0085"]
    assert told(whole, "tool_use") == [ToolUseBlock(id="c1", name="a", input={"q": "\u2028"})]


@proves("MOD-28")
def test_halves_of_surrogate_pairs() -> None:
    halves = [json.dumps(delta(0, "text_delta", text=half)) for half in ("a\ud83c", "\udf89b\ud83c")]
    events = stream(start(), begin(0, "text", text=""), *halves, stop(0), *end())
    assert told(events, "text") == ["a", "🎉b", "\ufffd"]
    assert response(events).content == [TextBlock(text="a🎉b\ufffd")]
    opened = stream(start(), json.dumps(begin(0, "text", text="a\ud83c")), *end())
    assert told(opened, "text") == ["a", "\ufffd"]


@proves("ANT-21")
def test_the_last_event_needs_no_line_end() -> None:
    reader = EventBody(StreamReader(provider="anthropic", model="m", redact=redact_sensitive_text))
    body = wire(start(), begin(0, "text", text="a"), *end()).strip()
    events = [*reader.feed(body), *reader.close()]
    assert [event.type for event in events] == ["text", "done"]


@proves("ANT-21")
def test_an_event_without_data_says_nothing() -> None:
    assert [event.type for event in stream(start(), "", *end())] == ["done"]


@pytest.mark.parametrize("size", [1, 10_000])
@proves("MOD-27")
def test_what_came_before_a_fault_is_told_however_the_body_is_cut(size: int) -> None:
    reader = EventBody(StreamReader(provider="anthropic", model="m", redact=redact_sensitive_text))
    body = wire(start(), begin(0, "text", text="a"), "{broken")
    seen: list[StreamEvent] = []

    def feed() -> None:
        for at in range(0, len(body), size):
            for event in reader.feed(body[at : at + size]):
                seen.append(event)  # noqa: PERF402 - one by one: the last step raises

    with pytest.raises(LLMProtocolError):
        feed()
    assert told(seen, "text") == ["a"]


# --- anything --------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "other"])
BLOCK = st.fixed_dictionaries(
    {"type": KINDS | JSON},
    optional=dict.fromkeys(("text", "thinking", "signature", "data", "id", "name", "input"), JSON),
)
DELTAS = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "other"])
DELTA = st.fixed_dictionaries(
    {"type": DELTAS | JSON},
    optional=dict.fromkeys(("text", "thinking", "signature", "partial_json", "stop_reason"), JSON),
)
BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
EVENTS = st.sampled_from((*BLOCK_EVENTS, "message_start", "message_delta", "message_stop", "ping", "error"))
EVENT = st.fixed_dictionaries(
    {"type": EVENTS | JSON},
    optional={
        "index": st.integers(0, 2) | JSON,
        "message": JSON,
        "content_block": BLOCK | JSON,
        "delta": DELTA | JSON,
        "usage": JSON,
        "error": JSON,
    },
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries({"content": st.lists(BLOCK, max_size=3) | JSON, "usage": JSON, "stop_reason": JSON}) | JSON
)
@example({"content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"x": float("nan")}}]})
@proves("MOD-16")
def test_no_answer_makes_anything_but_an_adapter_error(payload: Any) -> None:
    with suppress(AdapterError):
        read(payload)


@settings(deadline=None)
@given(st.lists(EVENT | JSON, max_size=6))
@proves("MOD-16")
def test_no_stream_makes_anything_but_an_adapter_error(events: list[Any]) -> None:
    with suppress(AdapterError):
        stream(*(json.dumps(event) for event in events), *end())


@proves("MOD-16")
def test_nesting_beyond_every_limit_is_a_protocol_error() -> None:
    with pytest.raises(LLMProtocolError):
        read(b'{"content": ' + b"[" * 100_000)


@proves("MOD-16")
def test_an_input_that_is_too_deep_for_a_message_is_told_as_a_fault() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    (block,) = read(answer({"type": "tool_use", "id": "c1", "name": "a", "input": {"x": deep}})).content
    assert isinstance(block, ToolUseBlock)
    assert "no JSON data" in str(block.input_error)

"""What comes back: answers whole and in chunks, well-formed and not."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openmultiagent.adapters import LLMResponse, StreamEvent, ToolInputDelta
from openmultiagent.adapters._openai_answer import AnswerReader, StreamReader
from openmultiagent.errors import (
    AdapterError,
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


def answer(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {
        "id": "cmpl_1",
        "model": "gpt-x",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **more,
    }


def stream(*chunks: Any) -> list[StreamEvent]:
    reader = StreamReader(provider="openai", model="asked", redact=redact_sensitive_text)
    events = [
        event for chunk in chunks for event in reader.feed(chunk if isinstance(chunk, str) else json.dumps(chunk))
    ]
    return [*events, *reader.finish()]


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "cmpl_1",
        "model": "gpt-x",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def response(events: list[StreamEvent]) -> LLMResponse:
    last = events[-1]
    assert last.type == "done"
    assert isinstance(last.data, LLMResponse)
    return last.data


def call(index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:  # noqa: A002
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    parts = {"index": index, "id": id, "function": function}
    return {key: value for key, value in parts.items() if value is not None}


# --- whole answers ---------------------------------------------------------------------------------------------------


@proves("MOD-16", "MOD-17")
def test_a_plain_answer() -> None:
    made = read(answer({"role": "assistant", "content": "Hello"}, usage={"prompt_tokens": 10, "completion_tokens": 5}))
    assert made == LLMResponse(
        [TextBlock(text="Hello")],
        id="cmpl_1",
        model="gpt-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"prompt_tokens": None, "completion_tokens": None}, None),
        ({"total_tokens": 5}, None),
        ({"prompt_tokens": 3}, TokenUsage(input_tokens=3)),
        ({"prompt_tokens": -3, "completion_tokens": "2"}, None),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 6},
            },
            TokenUsage(input_tokens=9, output_tokens=8, cache_read_tokens=4, reasoning_tokens=6),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 8, "prompt_tokens_details": None, "completion_tokens_details": 1},
            TokenUsage(input_tokens=9, output_tokens=8),
        ),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 5}},
            TokenUsage(input_tokens=9, cache_write_tokens=5),
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, TokenUsage(input_tokens=9, cache_read_tokens=4)),
        ({"prompt_tokens": 9, "cached_tokens": 4}, TokenUsage(input_tokens=9, cache_read_tokens=4)),
    ],
)
@proves("MOD-17")
def test_usage_is_known_or_not(usage: Any, expected: TokenUsage | None) -> None:
    assert read(answer({"content": "x"}, usage=usage)).usage == expected
    assert response(stream(chunk({"content": "x"}, "stop", usage=usage))).usage == expected


@pytest.mark.parametrize(
    ("finish", "calls", "stop_reason"),
    [
        ("stop", False, "end_turn"),
        (None, False, "end_turn"),
        ("length", False, "max_tokens"),
        ("content_filter", False, "content_filter"),
        ("eos", False, "eos"),
        ("tool_calls", False, "end_turn"),
        ("tool_calls", True, "tool_use"),
        ("stop", True, "tool_use"),
        (None, True, "tool_use"),
        ("function_call", True, "tool_use"),
        ("length", True, "max_tokens"),
        ("content_filter", True, "content_filter"),
    ],
)
@proves("MOD-23")
def test_stop_reasons(finish: str | None, calls: bool, stop_reason: str) -> None:
    items = [call(0, "c1", "search", "{}")] if calls else None
    assert read(answer({"content": "x", "tool_calls": items}, finish)).stop_reason == stop_reason
    assert response(stream(chunk({"content": "x", "tool_calls": items}, finish), "[DONE]")).stop_reason == stop_reason


@pytest.mark.parametrize("content", [None, "", []])
@proves("MOD-16")
def test_no_text_gives_no_block(content: Any) -> None:
    assert read(answer({"content": content})).content == []


@proves("MOD-16")
def test_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "Hel"}, "lo", {"type": "other"}, 7]
    assert read(answer({"content": parts})).content == [TextBlock(text="Hello")]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reasoning_content": "hmm"}, "hmm"),
        ({"reasoning": "hmm"}, "hmm"),
        ({"reasoning_content": "", "reasoning": "hmm"}, "hmm"),
        ({"reasoning_content": ["h", {"text": "m"}, {"content": "m"}, {"reasoning_content": "!"}, {}]}, "hmm!"),
    ],
)
@proves("MOD-18")
def test_reasoning_comes_first(fields: dict[str, Any], text: str) -> None:
    blocks = [ReasoningBlock(text=text, provenance="openai"), TextBlock(text="x")]
    assert read(answer({"content": "x", **fields})).content == blocks
    events = stream(chunk({"content": "x", **fields}, "stop"))
    assert events[0] == StreamEvent("reasoning", text)
    assert response(events).content == blocks


@proves("MOD-18")
def test_reasoning_may_be_a_part_of_the_content() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}, {"type": "text", "text": "x"}]
    blocks = [ReasoningBlock(text="hmm", provenance="openai"), TextBlock(text="x")]
    assert read(answer({"content": parts})).content == blocks
    events = stream(chunk({"content": parts[:1]}), chunk({"content": "x"}, "stop"))
    assert [event.type for event in events] == ["reasoning", "text", "done"]
    assert response(events).content == blocks


@pytest.mark.parametrize("value", [None, "", 7, {}, [], [[]]])
@proves("MOD-18")
def test_no_reasoning_gives_no_block(value: Any) -> None:
    assert read(answer({"content": "x", "reasoning_content": value})).content == [TextBlock(text="x")]


@proves("MOD-24")
def test_a_refusal() -> None:
    made = read(answer({"content": None, "refusal": "I cannot."}))
    assert made.content == [TextBlock(text="I cannot.")]
    assert made.stop_reason == "refusal"
    events = stream(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop"))
    assert [event.data for event in events[:2]] == ["I can", "not."]
    assert response(events).content == made.content
    assert response(events).stop_reason == "refusal"


# --- tool calls ------------------------------------------------------------------------------------------------------


@proves("MOD-25", "MOD-3")
def test_calls_in_one_piece() -> None:
    made = read(answer({"content": None, "tool_calls": [call(id="c1", name="a", arguments='{"q":1}')]}, "tool_calls"))
    assert made.content == [ToolUseBlock(id="c1", name="a", input={"q": 1})]


@pytest.mark.parametrize(
    "arguments", ["not-valid-json", "[1]", '{"a": NaN}', '{"a": 1e999}', '{"a":' * 150 + "1" + "}" * 150]
)
@proves("MOD-25")
def test_arguments_that_cannot_be_used_come_with_the_reason(arguments: str) -> None:
    (block,) = read(answer({"tool_calls": [call(id="c1", name="a", arguments=arguments)]})).content
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert block.input_error


@proves("MOD-25")
def test_arguments_cut_off_at_the_token_limit() -> None:
    made = read(answer({"tool_calls": [call(id="c1", name="a", arguments='{"path": "/et')]}, "length"))
    (block,) = made.content
    assert isinstance(block, ToolUseBlock)
    assert "token limit" in str(block.input_error)
    assert made.stop_reason == "max_tokens"


@pytest.mark.parametrize("arguments", [{"q": 1}, '{"q": 1}'])
@proves("MOD-25")
def test_arguments_may_be_the_object_itself(arguments: Any) -> None:
    items = [call(0, "c1", "a", arguments)]
    block = ToolUseBlock(id="c1", name="a", input={"q": 1})
    assert read(answer({"tool_calls": items})).content == [block]
    assert response(stream(chunk({"tool_calls": items}, "tool_calls"))).content == [block]


@proves("MOD-26")
def test_every_call_has_an_id_of_its_own() -> None:
    items = [call(name="a"), call(id="", name="b"), call(id="c1", name="c"), call(id="c1", name="d")]
    blocks = read(answer({"tool_calls": items})).content
    ids = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    assert ids[2] == "c1"
    assert len(set(ids)) == 4
    assert all(made.startswith("call_") for made in (ids[0], ids[1], ids[3]))


@pytest.mark.parametrize("kind", ["custom", "web_search", 7])
@proves("MOD-26")
def test_only_functions_can_be_called(kind: Any) -> None:
    item = {"type": kind, "id": "c1", "custom": {"name": "a", "input": "x"}}
    with pytest.raises(UnsupportedToolCallError, match='openai returned unsupported tool-call type "'):
        read(answer({"tool_calls": [item]}))
    with pytest.raises(UnsupportedToolCallError):
        stream(chunk({"tool_calls": [{"index": 0, **item}]}, "tool_calls"))


@proves("MOD-26")
def test_a_call_needs_a_name() -> None:
    with pytest.raises(LLMProtocolError, match="no name"):
        read(answer({"tool_calls": [call(id="c1", arguments="{}")]}))
    with pytest.raises(LLMProtocolError, match="no name"):
        stream(chunk({"tool_calls": [call(0, "c1", "", "{}")]}, "tool_calls"))


@proves("MOD-22", "MOD-3")
def test_a_call_in_pieces() -> None:
    events = stream(
        chunk({"content": "Let me see."}),
        chunk({"tool_calls": [call(0, "c1", "search", '{"q":')]}),
        chunk({"tool_calls": [call(0, arguments="1}")]}),
        chunk({}, "tool_calls"),
        {"id": "cmpl_1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "[DONE]",
    )
    block = ToolUseBlock(id="c1", name="search", input={"q": 1})
    assert events[:-1] == [
        StreamEvent("text", "Let me see."),
        StreamEvent("tool_input_delta", ToolInputDelta("c1", "search", '{"q":')),
        StreamEvent("tool_input_delta", ToolInputDelta("c1", "search", "1}")),
        StreamEvent("tool_use", block),
    ]
    assert response(events) == LLMResponse(
        [TextBlock(text="Let me see."), block],
        id="cmpl_1",
        model="gpt-x",
        stop_reason="tool_use",
        usage=TokenUsage(input_tokens=3, output_tokens=2),
    )


def _inputs(events: list[StreamEvent]) -> list[tuple[str, str, Any]]:
    blocks = [event.data for event in events if event.type == "tool_use"]
    return [(block.id, block.name, block.input) for block in blocks if isinstance(block, ToolUseBlock)]


@proves("MOD-22")
def test_pieces_find_their_call_by_index() -> None:
    events = stream(
        chunk({"tool_calls": [call(1, "c1", "b", '{"x"'), call(0, "c0", "a", '{"y"')]}),
        chunk({"tool_calls": [call(0, "", None, ":2}"), call(1, None, "", ":1}")]}, "tool_calls"),
    )
    assert _inputs(events) == [("c1", "b", {"x": 1}), ("c0", "a", {"y": 2})]


@proves("MOD-22")
def test_pieces_without_an_index_find_their_call_by_id() -> None:
    events = stream(
        chunk({"tool_calls": [call(None, "c0", "a", '{"y"'), call(None, "c1", "b", '{"x"')]}),
        chunk({"tool_calls": [call(None, "c0", None, ":2}"), call(None, "c1", None, ":1}")]}, "tool_calls"),
    )
    assert _inputs(events) == [("c0", "a", {"y": 2}), ("c1", "b", {"x": 1})]


@proves("MOD-22")
def test_pieces_without_index_and_id_continue_the_last_call() -> None:
    events = stream(
        chunk({"tool_calls": [call(None, "c0", "a", '{"y"')]}),
        chunk({"tool_calls": [call(arguments=":")]}),
        chunk({"tool_calls": [call(arguments="2}")]}, "tool_calls"),
    )
    assert _inputs(events) == [("c0", "a", {"y": 2})]


@proves("MOD-22", "MOD-26")
def test_a_call_without_index_and_id_is_a_call() -> None:
    ((made, name, value),) = _inputs(stream(chunk({"tool_calls": [call(name="a", arguments="{}")]}, "stop")))
    assert made.startswith("call_")
    assert (name, value) == ("a", {})


# --- calls in the text -----------------------------------------------------------------------------------------------

CALL_TEXT = 'Sure: {"name": "search", "arguments": {"q": 1}}'


def read_with_tools(payload: Any, tools: tuple[str, ...] = ("search",)) -> LLMResponse:
    reader = AnswerReader(provider="openai", model="asked", redact=redact_sensitive_text, text_tools=tools)
    return reader.read(json.dumps(payload).encode())


def stream_with_tools(*chunks: Any) -> list[StreamEvent]:
    reader = StreamReader(provider="openai", model="asked", redact=redact_sensitive_text, text_tools=("search",))
    return [event for item in chunks for event in reader.feed(json.dumps(item))] + reader.finish()


@proves("MOD-45")
def test_a_call_in_the_text_is_a_call() -> None:
    made = read_with_tools(answer({"content": CALL_TEXT}))
    text, block = made.content
    assert text == TextBlock(text=CALL_TEXT)
    assert isinstance(block, ToolUseBlock)
    assert (block.name, block.input, made.stop_reason) == ("search", {"q": 1}, "tool_use")
    events = stream_with_tools(chunk({"content": CALL_TEXT[:20]}), chunk({"content": CALL_TEXT[20:]}, "stop"))
    assert [event.type for event in events] == ["text", "text", "tool_use", "done"]
    streamed = response(events).content
    assert events[2].data is streamed[1]
    assert response(events).stop_reason == "tool_use"


@proves("MOD-45")
def test_a_call_in_the_text_is_text_where_none_is_looked_for() -> None:
    assert read(answer({"content": CALL_TEXT})).content == [TextBlock(text=CALL_TEXT)]
    assert read_with_tools(answer({"content": CALL_TEXT}), ("other",)).content == [TextBlock(text=CALL_TEXT)]
    assert read_with_tools(answer({"content": None, "refusal": CALL_TEXT})).stop_reason == "refusal"


@proves("MOD-45")
def test_an_answer_with_calls_is_not_searched_for_more() -> None:
    items = [call(0, "c1", "search", "{}")]
    made = read_with_tools(answer({"content": CALL_TEXT, "tool_calls": items}))
    assert made.content == [TextBlock(text=CALL_TEXT), ToolUseBlock(id="c1", name="search", input={})]


@proves("MOD-45", "MOD-23")
def test_an_answer_that_was_cut_off_keeps_its_stop_reason() -> None:
    assert read_with_tools(answer({"content": CALL_TEXT}, "length")).stop_reason == "max_tokens"


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [(chunk({}, "stop"),), ("[DONE]",), (chunk({}, "stop"), "[DONE]", "after the end")])
@proves("MOD-19")
def test_either_mark_ends_a_stream(end: tuple[Any, ...]) -> None:
    assert response(stream(chunk({"content": "x"}), *end)).content == [TextBlock(text="x")]


@pytest.mark.parametrize(
    "chunks", [(), (chunk({"content": "x"}),), (chunk({"tool_calls": [call(0, "c", "a", "{}")]}),)]
)
@proves("MOD-19")
def test_a_stream_that_just_ends_has_failed(chunks: tuple[Any, ...]) -> None:
    with pytest.raises(LLMProtocolError, match="ended before the answer did") as caught:
        stream(*chunks)
    assert caught.value.retryable


@proves("MOD-16")
def test_a_stream_without_any_choice_is_no_answer() -> None:
    with pytest.raises(LLMProtocolError, match="no choices"):
        stream("[DONE]")


@proves("MOD-20", "MOD-17")
def test_chunks_about_other_things_are_passed_over() -> None:
    events = stream(
        {"choices": [], "prompt_filter_results": []},
        {"choices": None},
        {"id": "x", "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 1, "delta": {"content": "the other choice"}}]},
        "",
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "x"}, usage={"prompt_tokens": 3, "completion_tokens": 2}),
        chunk({"content": None}, "stop", usage=None),
    )
    assert [event.type for event in events] == ["text", "done"]
    assert response(events).usage == TokenUsage(input_tokens=3, output_tokens=2)


@proves("MOD-21")
def test_an_error_ends_an_answer() -> None:
    with pytest.raises(LLMRateLimitError, match="openai API error: slow down"):
        stream(chunk({"content": "x"}), {"error": {"message": "slow down", "code": 429}})
    with pytest.raises(LLMServerError, match="openai API error: overloaded"):
        read({"error": {"message": "overloaded", "type": "server_error"}})


@proves("MOD-28")
def test_halves_of_a_character_in_two_chunks_become_one() -> None:
    events = stream(
        '{"choices":[{"delta":{"content":"a\\ud83c"}}]}',
        '{"choices":[{"delta":{"content":"\\udf89b\\ud83c"}}]}',
        '{"choices":[{"delta":{"content":"c\\udf89"}}]}',
        '{"choices":[{"delta":{"content":"\\ud83c"},"finish_reason":"stop"}]}',
    )
    texts = [event.data for event in events if event.type == "text"]
    assert texts == ["a", "🎉b", "\ufffdc\ufffd", "\ufffd"]
    assert response(events).content == [TextBlock(text="a🎉b\ufffdc\ufffd\ufffd")]


@proves("MOD-28")
def test_a_half_in_reasoning_and_in_ids_is_replaced() -> None:
    events = stream('{"id":"\\ud83c","choices":[{"delta":{"reasoning":"\\ud83c"},"finish_reason":"stop"}]}')
    assert events[0] == StreamEvent("reasoning", "\ufffd")
    assert response(events).id == "\ufffd"


# --- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not valid JSON"),
        (b"<html>", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "the payload must be an object"),
        ({}, "no choices"),
        ({"choices": None}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": {}}, "choices must be an array"),
        ({"choices": ["x"]}, r"choices\[\] must be an object"),
        ({"choices": [{}]}, "message must be an object"),
        ({"choices": [{"message": "x"}]}, "message must be an object"),
        (answer({"content": 7}), "content must be a string"),
        (answer({"tool_calls": {}}), "tool_calls must be an array"),
        (answer({"tool_calls": [None]}), "a tool call has no name"),
        (answer({"tool_calls": [{"function": "x"}]}), "function must be an object"),
        (answer({"tool_calls": [call(name="a", arguments=7)]}), "arguments of a tool call must be a string"),
    ],
)
@proves("MOD-16")
def test_what_is_no_answer_says_why(payload: Any, reason: str) -> None:
    with pytest.raises(LLMProtocolError, match=reason) as caught:
        read(payload)
    assert caught.value.provider == "openai"
    assert caught.value.retryable


@proves("MOD-16", "MOD-30")
def test_an_unreadable_body_is_shown_redacted() -> None:
    with pytest.raises(LLMProtocolError) as caught:
        read(b"<p>api_key: hunter2hunter2</p>\n" + b"x" * 5_000)
    assert caught.value.body is not None
    assert "hunter2" not in caught.value.body
    assert len(caught.value.body) == 2_000


@proves("MOD-16")
def test_nesting_at_the_edge_of_what_python_reads_raises_nothing_else() -> None:
    for depth in range(880, 1_010):  # reading fails somewhere in here, and writing a little earlier
        nested = '{"a":' * depth + "1" + "}" * depth
        item = '{"id":"c1","function":{"name":"a","arguments":' + nested + "}}"
        body = '{"choices":[{"message":{"tool_calls":[' + item + "]}}]}"
        try:
            (block,) = read(body.encode()).content
        except LLMProtocolError:
            continue
        assert isinstance(block, ToolUseBlock)
        assert block.input == {}
        assert block.input_error


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["stop", "length"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the protocol's keys, whose values are right or anything."""
    return st.fixed_dictionaries({}, optional={key: value | _json for key, value in fields.items()}) | _json


_call = _shaped(
    index=st.integers(0, 2),
    id=st.sampled_from(["", "c1", "c2"]),
    type=st.just("function"),
    function=_shaped(name=st.just("a"), arguments=st.sampled_from(["", "{", "{}", '{"a":NaN}', '{"b": "x"y"}'])),
)
_message = _shaped(
    content=st.just("x") | st.lists(_shaped(text=st.just("x")), max_size=2),
    reasoning_content=st.just("x"),
    reasoning=st.just("x"),
    refusal=st.just("x"),
    tool_calls=st.lists(_call, max_size=3),
)
_choice = _shaped(index=st.just(0), message=_message, delta=_message, finish_reason=st.sampled_from(["stop", "length"]))
_answer = _shaped(
    id=st.just("i"),
    model=st.just("m"),
    choices=st.lists(_choice, max_size=2),
    usage=_shaped(prompt_tokens=st.integers(), prompt_tokens_details=_shaped(cached_tokens=st.integers())),
    error=_shaped(message=st.just("m"), code=st.integers(399, 600)),
)


@given(_answer)
@example({"choices": [{"message": {"tool_calls": [{"function": {"name": "a", "arguments": {"a": float("nan")}}}]}}]})
@proves("MOD-16")
def test_no_answer_raises_anything_but_an_adapter_error(payload: Any) -> None:
    with suppress(AdapterError):
        made = read(payload)
        json.dumps([block.to_dict() for block in made.content], allow_nan=False).encode()


@given(st.binary(max_size=30))
@proves("MOD-16")
def test_no_bytes_raise_anything_but_an_adapter_error(body: bytes) -> None:
    with pytest.raises(AdapterError):
        read(body)


@given(st.lists(_answer | st.text(max_size=10), max_size=4))
@proves("MOD-16", "MOD-3")
def test_no_chunk_raises_anything_but_an_adapter_error(payloads: list[Any]) -> None:
    with suppress(AdapterError):
        events = stream(*payloads)
        assert [event.type for event in events].count("done") == 1


@given(
    text=st.text(max_size=20),
    reasoning=st.text(max_size=20),
    refusal=st.just("") | st.text(max_size=5),
    calls=st.lists(st.sampled_from(["", "{}", '{"q": "é🎉"}', "{broken", '{"a": "x"y"}', "[1]"]), max_size=3),
    finish=st.sampled_from(["stop", "tool_calls", "length", "content_filter", "eos"]),
    usage=st.none() | st.just({"prompt_tokens": 4, "completion_tokens": 2}),
    size=st.integers(1, 5),
)
@proves("MOD-3")
def test_a_stream_ends_with_what_chat_would_have_returned(
    text: str, reasoning: str, refusal: str, calls: list[str], finish: str, usage: Any, size: int
) -> None:
    def cut(whole: str) -> list[str]:
        return [whole[start : start + size] for start in range(0, len(whole), size)]

    items = [call(id=f"c{number}", name="a", arguments=raw) for number, raw in enumerate(calls)]
    whole = read(
        answer(
            {"content": text, "reasoning_content": reasoning, "refusal": refusal, "tool_calls": items},
            finish,
            usage=usage,
        )
    )
    events = stream(
        *(chunk({"reasoning_content": piece}) for piece in cut(reasoning)),
        *(chunk({"content": piece}) for piece in cut(text)),
        *(chunk({"refusal": piece}) for piece in cut(refusal)),
        *(chunk({"tool_calls": [call(number, f"c{number}", "a", "")]}) for number in range(len(calls))),
        *(
            chunk({"tool_calls": [call(number, arguments=piece)]})
            for number, raw in enumerate(calls)
            for piece in cut(raw)
        ),
        chunk({}, finish, usage=usage),
        "[DONE]",
    )
    assert response(events) == whole
    assert "".join(str(event.data) for event in events if event.type == "text") == text + refusal
    assert "".join(str(event.data) for event in events if event.type == "reasoning") == reasoning
    blocks = [event.data for event in events if event.type == "tool_use"]
    assert blocks == [block for block in whole.content if isinstance(block, ToolUseBlock)]

"""What comes back from the Gemini API: answers whole and in chunks, well-formed and not."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openmultiagent.adapters import LLMResponse, StreamEvent
from openmultiagent.adapters._event_body import EventBody
from openmultiagent.adapters._gemini_answer import AnswerReader, StreamReader
from openmultiagent.errors import AdapterError, LLMProtocolError, LLMRateLimitError, LLMServerError
from openmultiagent.messages import ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.redaction import redact_sensitive_text
from openmultiagent.usage import TokenUsage
from tests.support import proves


def read(payload: Any) -> LLMResponse:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return AnswerReader(provider="gemini", model="asked", redact=redact_sensitive_text).read(body)


def stream(*chunks: Any) -> list[StreamEvent]:
    reader = EventBody(StreamReader(provider="gemini", model="asked", redact=redact_sensitive_text))
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    events = [event for text in texts for event in reader.feed(f"data: {text}\n\n".encode())]
    return [*events, *reader.close()]


def chunk(*parts: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-x", **more}


def response(events: list[StreamEvent]) -> LLMResponse:
    last = events[-1]
    assert last.type == "done"
    assert isinstance(last.data, LLMResponse)
    return last.data


def call(name: Any = "search", args: Any = None, signature: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "args": args, **more}
    return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def thought(text: str, signature: str | None = None) -> dict[str, Any]:
    return {"text": text, "thought": True} | ({"thoughtSignature": signature} if signature else {})


def reasoning(text: str, signature: str | None = None) -> ReasoningBlock:
    return ReasoningBlock(text=text, signature=signature, provenance="gemini")


# --- whole answers ---------------------------------------------------------------------------------------------------


@proves("GEM-17", "GEM-19")
def test_a_plain_answer() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    assert read(chunk({"text": "Hi"}, finish="STOP", usageMetadata=usage)) == LLMResponse(
        [TextBlock(text="Hi")],
        id="r1",
        model="gemini-x",
        stop_reason="end_turn",
        usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


@proves("GEM-24")
def test_an_answer_without_names_has_the_model_that_was_asked() -> None:
    made = read({"candidates": [{}]})
    assert (made.content, made.id, made.model, made.stop_reason, made.usage) == ([], "", "asked", "end_turn", None)
    assert read({"candidates": []}).content == []
    assert read({"candidates": None, "usageMetadata": None}).content == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"totalTokenCount": 5}, None),
        ({"promptTokenCount": None, "candidatesTokenCount": True}, None),
        ({"promptTokenCount": 3}, TokenUsage(input_tokens=3)),
        ({"promptTokenCount": -3, "candidatesTokenCount": "2"}, None),
        (
            {
                "promptTokenCount": 9,
                "toolUsePromptTokenCount": 1,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 6,
                "cachedContentTokenCount": 8,
            },
            TokenUsage(input_tokens=10, output_tokens=10, cache_read_tokens=8, reasoning_tokens=6),
        ),
    ],
)
@proves("GEM-22")
def test_usage_is_known_or_not(usage: Any, expected: TokenUsage | None) -> None:
    assert read(chunk({"text": "x"}, usageMetadata=usage)).usage == expected
    assert response(stream(chunk({"text": "x"}, finish="STOP", usageMetadata=usage))).usage == expected


@pytest.mark.parametrize(
    ("finish", "calls", "stop_reason"),
    [
        ("STOP", False, "end_turn"),
        ("FINISH_REASON_UNSPECIFIED", False, "end_turn"),
        ("MAX_TOKENS", False, "max_tokens"),
        ("STOP", True, "tool_use"),
        ("OTHER", True, "tool_use"),
        ("MAX_TOKENS", True, "max_tokens"),
        ("SAFETY", True, "content_filter"),
        *((reason, False, "content_filter") for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "SPII")),
        *((reason, False, "content_filter") for reason in ("PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR")),
        ("MALFORMED_FUNCTION_CALL", False, "malformed_function_call"),
        ("LANGUAGE", False, "language"),
        ("OTHER", False, "other"),
    ],
)
@proves("GEM-19")
def test_stop_reasons(finish: str, calls: bool, stop_reason: str) -> None:
    parts = [{"text": "x"}, *([call()] if calls else [])]
    assert read(chunk(*parts, finish=finish)).stop_reason == stop_reason
    assert response(stream(chunk(*parts, finish=finish))).stop_reason == stop_reason


@proves("GEM-20", "GEM-23")
def test_a_blocked_prompt() -> None:
    payload = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    made = read(payload)
    assert (made.content, made.stop_reason, made.usage) == ([], "content_filter", TokenUsage(input_tokens=4))
    assert response(stream(payload)) == made
    unblocked = {"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}
    assert read(unblocked).stop_reason == "end_turn"
    with pytest.raises(LLMProtocolError):
        stream(unblocked)


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([{"text": "a"}, {"text": ""}, {"text": "b"}, {}], [TextBlock(text="ab")]),
        ([{"text": None}, {"text": ""}], []),
        ([thought("a"), thought("b"), {"text": "c"}], [reasoning("ab"), TextBlock(text="c")]),
        ([thought("a"), thought("b", "s"), thought("c")], [reasoning("ab", "s"), reasoning("c")]),
        ([{"text": "a"}, thought("b"), {"text": "c"}], [TextBlock(text="a"), reasoning("b"), TextBlock(text="c")]),
        ([{"text": "a", "thought": False}], [TextBlock(text="a")]),
        # Signatures of texts, and signatures without text.
        ([{"text": "a", "thoughtSignature": "s"}], [TextBlock(text="a"), reasoning("", "s")]),
        ([{"text": "a"}, {"text": "", "thoughtSignature": "s"}], [TextBlock(text="a"), reasoning("", "s")]),
        ([{"thoughtSignature": "s"}], [reasoning("", "s")]),
        ([thought("a"), {"text": "", "thoughtSignature": "s"}], [reasoning("a", "s")]),
        (
            [thought("a", "s"), {"text": "", "thoughtSignature": "t"}, {"text": "b"}],
            [reasoning("a", "s"), reasoning("", "t"), TextBlock(text="b")],
        ),
        (
            [{"text": "a", "thoughtSignature": "s"}, {"text": "b"}],
            [TextBlock(text="a"), reasoning("", "s"), TextBlock(text="b")],
        ),
        (
            [call(id="c1"), {"text": "", "thoughtSignature": "s"}],
            [ToolUseBlock(id="c1", name="search", input={}, signature="s")],
        ),
        (
            [call(id="c1", signature="s"), call(id="c2"), call(id="c3", args={"q": [1]})],
            [
                ToolUseBlock(id="c1", name="search", input={}, signature="s"),
                ToolUseBlock(id="c2", name="search", input={}),
                ToolUseBlock(id="c3", name="search", input={"q": [1]}),
            ],
        ),
        # Parts that have no block here.
        ([{"text": "a"}, {"inlineData": {"data": "x"}}], ["a", "[unsupported block type: inlineData]"]),
        ([{"executableCode": {}}, {"text": "a"}], ["[unsupported block type: executableCode]", "a"]),
        ([{"videoMetadata": {}}, {"partMetadata": {}}], []),
    ],
)
@proves("GEM-13", "GEM-15", "GEM-16", "GEM-17", "GEM-18", "GEM-21", "GEM-25")
def test_parts_become_blocks(parts: list[Any], content: list[Any]) -> None:
    expected = [TextBlock(text=block) if isinstance(block, str) else block for block in content]
    assert read(chunk(*parts, finish="STOP")).content == expected
    events = stream(*(chunk(part) for part in parts), chunk(finish="STOP"))
    assert response(events).content == expected
    texts = "".join(str(event.data) for event in events if event.type == "text")
    assert texts == "".join(block.text for block in expected if isinstance(block, TextBlock))
    thoughts = "".join(str(event.data) for event in events if event.type == "reasoning")
    assert thoughts == "".join(block.text for block in expected if isinstance(block, ReasoningBlock))


@proves("GEM-18", "GEM-25")
def test_calls_follow_the_texts_as_events() -> None:
    events = stream(chunk({"text": "Let me "}), chunk(call(id="c1")), chunk({"text": "see."}), chunk(finish="STOP"))
    assert [event.type for event in events] == ["text", "text", "tool_use", "done"]
    assert response(events).content == [
        TextBlock(text="Let me "),
        ToolUseBlock(id="c1", name="search", input={}),
        TextBlock(text="see."),
    ]


@proves("GEM-18")
def test_every_call_has_an_id_of_its_own() -> None:
    made = read(chunk(call(), call(id=""), call(id="c1"), call(id="c1"), finish="STOP"))
    ids = [block.id for block in made.content if isinstance(block, ToolUseBlock)]
    assert ids[2] == "c1"
    assert len(set(ids)) == 4
    assert all(re.fullmatch(r"gemini-\d+-[a-z0-9]+", made_id) for made_id in (ids[0], ids[1], ids[3]))


@pytest.mark.parametrize(
    ("args", "value"),
    [(None, {}), ({}, {}), ({"q": "\ud800"}, {"q": "\ufffd"}), ('{"q": 1}', {"q": 1})],
)
@proves("GEM-18")
def test_arguments(args: Any, value: Any) -> None:
    (block,) = read(chunk(call(args=args, id="c1"), finish="STOP")).content
    assert block == ToolUseBlock(id="c1", name="search", input=value)


@pytest.mark.parametrize("args", ["oops", "[1]", {"a": float("nan")}])
@proves("GEM-18")
def test_arguments_that_cannot_be_used_come_with_the_reason(args: Any) -> None:
    (block,) = read(chunk(call(args=args), finish="STOP")).content
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert block.input_error


@proves("GEM-18")
def test_arguments_cut_off_at_the_token_limit() -> None:
    (block,) = read(chunk(call(args='{"a": "b'), finish="MAX_TOKENS")).content
    assert isinstance(block, ToolUseBlock)
    assert "token limit" in str(block.input_error)


# --- streams ---------------------------------------------------------------------------------------------------------


@proves("GEM-22", "GEM-23")
def test_usage_is_cumulative_and_chunks_may_be_about_other_things() -> None:
    events = stream(
        {"usageMetadata": {"promptTokenCount": 9}},
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 1}),
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "another"}]}}]},
        chunk({"text": "b"}, finish="STOP", usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 2}),
        {"candidates": [], "usageMetadata": {"thoughtsTokenCount": 3}},
        "",
        " ",
    )
    assert [event.data for event in events[:-1]] == ["a", "b"]
    made = response(events)
    assert made.usage == TokenUsage(input_tokens=9, output_tokens=5, reasoning_tokens=3)
    assert made.stop_reason == "end_turn"


@pytest.mark.parametrize("chunks", [(), (chunk({"text": "a"}),), (chunk(call()),), ({"usageMetadata": {}},)])
@proves("GEM-23")
def test_a_stream_that_just_ends_has_failed(chunks: tuple[Any, ...]) -> None:
    with pytest.raises(LLMProtocolError, match="ended before the answer did") as caught:
        stream(*chunks)
    assert caught.value.retryable


@proves("GEM-25")
def test_the_last_event_needs_no_line_end() -> None:
    reader = EventBody(StreamReader(provider="gemini", model="asked", redact=redact_sensitive_text))
    assert list(reader.feed(f"data: {json.dumps(chunk({'text': 'a'}, finish='STOP'))}".encode())) == []
    assert [event.type for event in reader.close()] == ["text", "done"]


@proves("GEM-5")
def test_an_error_ends_an_answer() -> None:
    error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}
    reader = EventBody(StreamReader(provider="gemini", model="asked", redact=redact_sensitive_text))
    first = json.dumps(chunk({"text": "a"}))
    events: list[StreamEvent] = []
    with pytest.raises(LLMRateLimitError, match="gemini API error: slow down") as caught:
        events.extend(reader.feed(f"data: {first}\n\ndata: {json.dumps({'error': error})}\n\n".encode()))
    assert caught.value.error_type == "RESOURCE_EXHAUSTED"
    with pytest.raises(LLMServerError, match="gemini API error: overloaded"):
        read({"error": {"code": 503, "message": "overloaded"}})


@proves("GEM-25")
def test_what_came_before_an_error_in_the_same_chunk_is_told() -> None:
    reader = EventBody(StreamReader(provider="gemini", model="asked", redact=redact_sensitive_text))
    events = reader.feed(f"data: {json.dumps(chunk({'text': 'a'}))}\n\ndata: oops\n\n".encode())
    assert next(events) == StreamEvent("text", "a")
    with pytest.raises(LLMProtocolError):
        next(events)


@proves("GEM-17", "GEM-24")
def test_halves_of_a_character_in_two_chunks_become_one() -> None:
    events = stream(
        '{"candidates":[{"content":{"parts":[{"text":"a\\ud83c"}]}}]}',
        '{"candidates":[{"content":{"parts":[{"text":"\\udf89b\\ud83c"}]}}]}',
        '{"candidates":[{"content":{"parts":[{"text":"c","thought":true}]},"finishReason":"STOP"}]}',
    )
    assert [(event.type, event.data) for event in events[:-1]] == [
        ("text", "a"),
        ("text", "🎉b"),
        ("text", "\ufffd"),
        ("reasoning", "c"),
    ]
    assert response(events).content == [TextBlock(text="a🎉b\ufffd"), reasoning("c")]
    late = stream('{"candidates":[{"content":{"parts":[{"text":"a\\ud83c"}]},"finishReason":"STOP"}]}')
    assert [event.data for event in late[:-1]] == ["a", "\ufffd"]


# --- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not valid JSON"),
        (b"<html>", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "the answer has no candidates"),
        ("text", "the payload must be an object"),
        ({}, "no candidates"),
        ({"choices": []}, "no candidates"),
        ({"candidates": {}}, "candidates must be an array"),
        ({"candidates": ["x"]}, r"candidates\[\] must be an object"),
        ({"candidates": [{"content": "x"}]}, "content must be an object"),
        ({"candidates": [{"content": {"parts": "x"}}]}, "parts must be an array"),
        ({"promptFeedback": 7}, "promptFeedback must be an object"),
        ({"usageMetadata": []}, "usageMetadata must be an object"),
        (chunk({"functionCall": 7}), "functionCall must be an object"),
        (chunk(call(name="")), "no name"),
        (chunk(call(args=[1])), "args must be an object, got list"),
    ],
)
@proves("GEM-24", "GEM-18")
def test_what_is_no_answer_says_why(payload: Any, reason: str) -> None:
    with pytest.raises(LLMProtocolError, match=reason) as caught:
        read(payload)
    assert caught.value.message.startswith("gemini API sent something that is no generateContent answer: ")
    assert caught.value.retryable


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["STOP", "SAFETY"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the API's keys, whose values are right or anything."""
    return st.fixed_dictionaries({}, optional={key: value | _json for key, value in fields.items()}) | _json


_part = _shaped(
    text=st.text(max_size=3),
    thought=st.booleans(),
    thoughtSignature=st.just("s"),
    functionCall=_shaped(name=st.just("a"), id=st.sampled_from(["", "c"]), args=st.just({"q": 1})),
    inlineData=st.just({}),
)
_candidate = _shaped(
    index=st.just(0), content=_shaped(parts=st.lists(_part, max_size=4)), finishReason=st.sampled_from(["STOP", "X"])
)
_answer = _shaped(
    candidates=st.lists(_candidate, max_size=2),
    promptFeedback=_shaped(blockReason=st.just("SAFETY")),
    usageMetadata=_shaped(promptTokenCount=st.integers()),
    responseId=st.just("i"),
    error=_shaped(message=st.just("m"), code=st.integers(399, 600), status=st.just("S")),
)


@given(_answer)
@example(chunk(call(args={"a": float("nan")})))
@proves("GEM-24")
def test_no_answer_raises_anything_but_an_adapter_error(payload: Any) -> None:
    with suppress(AdapterError):
        json.dumps([block.to_dict() for block in read(payload).content], allow_nan=False).encode()


@given(st.binary(max_size=30))
@proves("GEM-24")
def test_no_bytes_raise_anything_but_an_adapter_error(body: bytes) -> None:
    with pytest.raises(AdapterError):
        read(body)


@given(st.lists(_answer | st.text(max_size=10), max_size=4))
@proves("GEM-24", "GEM-25")
def test_no_chunk_raises_anything_but_an_adapter_error(payloads: list[Any]) -> None:
    with suppress(AdapterError):
        assert [event.type for event in stream(*payloads)].count("done") == 1


_good_part: st.SearchStrategy[dict[str, Any]] = (
    st.builds(lambda text: {"text": text}, st.text(max_size=4))
    | st.builds(thought, st.text(max_size=4), st.sampled_from([None, "s"]))
    | st.builds(lambda text: {"text": text, "thoughtSignature": "t"}, st.sampled_from(["", "x"]))
    | st.builds(call, args=st.just({"q": 1}), signature=st.sampled_from([None, "u"]))
    | st.just({"inlineData": {}})
)


@given(st.lists(_good_part, max_size=6), st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY"]))
@proves("GEM-25")
def test_a_stream_ends_with_what_chat_would_have_returned(parts: list[dict[str, Any]], finish: str) -> None:
    for number, part in enumerate(parts):
        if "functionCall" in part:
            part["functionCall"]["id"] = f"c{number}"
    whole = read(chunk(*parts, finish=finish))
    events = stream(*(chunk(part) for part in parts), chunk(finish=finish))
    assert response(events) == whole
    blocks = [event.data for event in events if event.type == "tool_use"]
    assert blocks == [block for block in whole.content if isinstance(block, ToolUseBlock)]

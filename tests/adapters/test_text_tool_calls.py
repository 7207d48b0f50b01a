"""Tool calls in a model's text."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters._text_tool_calls import extract_tool_calls
from tests.support import proves

KNOWN = frozenset({"search", "read"})


def found(text: str, known: frozenset[str] = KNOWN) -> list[tuple[str, dict[str, Any]]]:
    return [(block.name, block.input) for block in extract_tool_calls(text, known)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        '{"name": "unknown", "arguments": {}}',
        '{"arguments": {"q": 1}}',
        '{"name": "", "arguments": {}}',
        '{"name": 7}',
        '{"name": ["search"]}',
        "{broken",
        '["search"]',
        '"search"',
        '<tool_call>["search"]</tool_call>',
    ],
)
@proves("MOD-47")
def test_what_is_no_call(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "search", "arguments": {"q": 1}}',
        '{"name": "search", "parameters": {"q": 1}}',
        '{"name": "search", "input": {"q": 1}}',
        '{"name": "search", "arguments": null, "input": {"q": 1}}',
        '{"name": "search", "arguments": "{\\"q\\": 1}"}',
        '{"type": "function", "function": {"name": "search", "arguments": {"q": 1}}}',
        'Let me see.\n```json\n{"name": "search", "arguments": {"q": 1}}\n```\nThat was it.',
        '```\n{"name": "search", "arguments": {"q": 1}}\n```',
        '<tool_call>\n{"name": "search", "arguments": {"q": 1}}\n</tool_call>',
        '<tool_call>{"name": "search", "arguments": {"q": 1}}',
        'an odd " before {"name": "search", "arguments": {"q": 1}}',
        'stray } and } before {"name": "search", "arguments": {"q": 1}}',
        'f() { return "x"; } {"name": "search", "arguments": {"q": 1}}',
        '{"config": {"name": "read"}} {"name": "search", "arguments": {"q": 1}}',
        '[{"name": "search", "arguments": {"q": 1}}]',
        '{{"name": "search", "arguments": {"q": 1}}}',
    ],
)
@proves("MOD-47")
def test_where_a_call_is_found(text: str) -> None:
    assert found(text) == [("search", {"q": 1})]


@proves("MOD-47")
def test_several_calls_keep_their_order() -> None:
    text = '{"name": "search", "arguments": {"q": "a } b"}} and {"name": "read"}'
    assert found(text) == [("search", {"q": "a } b"}), ("read", {})]
    tagged = '<tool_call>{"name": "read"}</tool_call>\n<tool_call>{"name": "search"}</tool_call>'
    assert found(tagged) == [("read", {}), ("search", {})]


@proves("MOD-47")
def test_tagged_calls_count_alone() -> None:
    text = '{"name": "read"} <tool_call>{"name": "search"}</tool_call> <tool_call>{oops</tool_call>'
    assert found(text) == [("search", {})]
    assert found('{"name": "read"} <tool_call>{"name": "unknown"}</tool_call>') == [("read", {})]


@proves("MOD-47")
def test_a_call_inside_another_object_is_not_one() -> None:
    assert found('{"example": {"name": "search", "arguments": {}}}') == []


@proves("MOD-47")
def test_without_names_any_name_counts() -> None:
    assert found('{"name": "anything"}', frozenset()) == [("anything", {})]


@pytest.mark.parametrize("arguments", ["[1]", "7", '"not json"', '"[1]"', "NaN", '{"a": NaN}'])
@proves("MOD-47")
def test_arguments_that_are_no_object_say_so(arguments: str) -> None:
    (block,) = extract_tool_calls('{"name": "search", "arguments": ' + arguments + "}", KNOWN)
    assert block.input == {}
    assert block.input_error


@proves("MOD-48")
def test_ids_are_unique() -> None:
    text = '{"name": "search"}' * 50
    ids = [block.id for block in extract_tool_calls(text, KNOWN) + extract_tool_calls(text, KNOWN)]
    assert len(set(ids)) == 100
    assert all(made.startswith("extracted_call_") for made in ids)


BROKEN = ['{"a', '{"a":', '{"a":[', '{"a":1,', "{", '{"', "<tool_call>", '{"a":"\\', '{" "', '{"a":{"b":[{"c":', "{}"]


@pytest.mark.parametrize("piece", BROKEN)
@proves("MOD-48")
def test_looking_takes_time_in_proportion_to_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        started = time.perf_counter()
        extract_tool_calls(text, KNOWN)
        return time.perf_counter() - started

    assert seconds(400_000) < 5  # reading again from each brace would take minutes


@given(st.text(alphabet='{}[]":, \\\nab<tool_call>/', max_size=200))
@proves("MOD-47")
def test_no_text_raises(text: str) -> None:
    extract_tool_calls(text)


@given(
    st.text(alphabet="ab\"'} \n", max_size=20),
    st.dictionaries(st.text(max_size=5), st.text(alphabet='{}"<>\\/`x', max_size=10), max_size=3),
)
@proves("MOD-47")
def test_a_call_is_found_behind_any_prose(prose: str, arguments: dict[str, str]) -> None:
    text = prose + json.dumps({"name": "search", "arguments": arguments}) + prose
    assert found(text) == [("search", arguments)]

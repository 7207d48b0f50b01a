"""The input of a tool call, from what a model wrote."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters._tool_input import parse_tool_input, repair_tool_args
from tests.support import proves


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"q": 1}', {"q": 1}),
        ("", {}),
        ("  \n", {}),
        ('{"code": "a\nb\tc"}', {"code": "a\nb\tc"}),
        ('"{\\"q\\": 1}"', {"q": 1}),
        ('{"emoji": "\\ud83c\\udf89", "half": "\\ud83c"}', {"emoji": "🎉", "half": "\ufffd"}),
    ],
)
@proves("MOD-25", "MOD-28")
def test_arguments_that_can_be_read(raw: str, value: dict[str, Any]) -> None:
    assert parse_tool_input(raw, cut=False) == (value, None)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ("not-valid-json", "not valid JSON"),
        ("{broken", "not valid JSON"),
        ('{"command": echo hello', "not valid JSON"),
        ('{"a": 1, "b": oops}', "not valid JSON"),
        ("[1]", "must be a JSON object, got list"),
        ("null", "must be a JSON object"),
        ('"text"', "must be a JSON object, got str"),
        ('"[1]"', "must be a JSON object, got str"),
        ("[" * 100_000, "not valid JSON"),
        ("1" * 5_000, "not valid JSON"),
    ],
)
@proves("MOD-25")
def test_arguments_that_cannot_be_read_say_why(raw: str, fault: str) -> None:
    value, error = parse_tool_input(raw, cut=False)
    assert value == {}
    assert error is not None
    assert fault in error


@pytest.mark.parametrize("raw", ['{"path": "/etc', "", '{"code": "f() { return 1; }'])
@proves("MOD-25")
def test_arguments_that_were_cut_off_are_never_mended(raw: str) -> None:
    value, error = parse_tool_input(raw, cut=True)
    assert value == {}
    assert error is not None
    assert "cut off at the token limit" in error


@proves("MOD-25")
def test_complete_arguments_count_although_the_answer_was_cut_off() -> None:
    assert parse_tool_input('{"q": 1}', cut=True) == ({"q": 1}, None)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"command": "echo "hello""}', 'echo "hello"'),
        ('{"query": """hello"""}', "hello"),
        ("{\"query\": '''it's'''}", "it's"),
        ('{"command": "say "a"\nthen "b""}', 'say "a"\nthen "b"'),
        ('{"command": "a \\"quoted\\" "word" and \\\\"}', 'a "quoted" "word" and \\'),
        ('  call: { "command" : ls -l }  ', "ls -l"),
    ],
)
@proves("MOD-25")
def test_broken_arguments_with_a_single_key_are_mended(raw: str, value: str) -> None:
    (mended,) = (repair_tool_args(raw) or {}).values()
    assert mended == value


@pytest.mark.parametrize("raw", ["", "{}", "text", '{"a": 1', '{"a": x, "b": y}', '{"a": "x", "b" : "y"}', '{"": x}'])
@proves("MOD-25")
def test_what_is_no_single_key_is_not_mended(raw: str) -> None:
    assert repair_tool_args(raw) is None


@given(st.text() | st.text(alphabet="{}[]\":,\\ \n'a1"), st.booleans())
@proves("MOD-25")
def test_any_text_gives_an_input_or_a_fault(raw: str, cut: bool) -> None:
    value, error = parse_tool_input(raw, cut=cut)
    assert type(value) is dict
    assert error is None or value == {}


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
@proves("MOD-25")
def test_valid_arguments_are_taken_as_they_are(value: dict[str, Any]) -> None:
    assert parse_tool_input(json.dumps(value), cut=False) == (value, None)

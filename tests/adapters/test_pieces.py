"""What readers of model answers, and writers of requests, have in common."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters._http_adapter import json_bytes
from openmultiagent.adapters._pieces import GrowingText, call_id_of, count_of, made_tool_use, raw_text_of, text_of
from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import ToolUseBlock
from tests.support import proves


@proves("MOD-15")
def test_a_body_is_compact_json_with_every_character_as_itself() -> None:
    assert json_bytes({"a": MappingProxyType({"b": ["ü"]})}).decode() == '{"a":{"b":["ü"]}}'


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), "\ud800"])
@proves("MOD-2")
def test_a_body_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        json_bytes({"a": value})


@given(st.text(st.characters(codec="utf-8"), max_size=20))
@proves("MOD-28")
def test_a_text_that_is_cut_anywhere_is_itself(text: str) -> None:
    units = text.encode("utf-16-le")
    growing = GrowingText()
    shown = [growing.add(units[at : at + 2].decode("utf-16-le", "surrogatepass")) for at in range(0, len(units), 2)]
    assert "".join(shown) == growing.whole() == text
    assert growing.end() == ""
    assert bool(growing) is bool(text)


@proves("MOD-28")
def test_half_a_character_at_the_end_becomes_the_replacement_character() -> None:
    growing = GrowingText()
    assert growing.add("a\ud83c") == "a"
    assert growing.end() == "\ufffd"
    assert growing.whole() == "a\ufffd"


@pytest.mark.parametrize("value", [None, 7, ["a"], {}])
@proves("MOD-16")
def test_what_is_no_text_is_an_empty_one(value: object) -> None:
    assert text_of(value) == raw_text_of(value) == ""


@proves("MOD-28")
def test_texts() -> None:
    assert text_of("a\ud83c") == "a\ufffd"
    assert raw_text_of("a\ud83c") == "a\ud83c"


@pytest.mark.parametrize(
    ("counts", "count"),
    [({"n": 3}, 3), ({"n": 0}, 0), ({"n": -1}, None), ({"n": True}, None), ({"n": "3"}, None), ({}, None), ([], None)],
)
@proves("MOD-17")
def test_counts(counts: object, count: int | None) -> None:
    assert count_of(counts, "n") == count


@proves("MOD-26")
def test_a_call_has_an_id_of_its_own() -> None:
    assert call_id_of("c1", ["c2"]) == "c1"
    made = {call_id_of("c1", ["c1"], prefix="x_"), call_id_of("", ["c1"], prefix="x_")}
    assert len(made) == 2
    assert all(call_id.startswith("x_") for call_id in made)


@pytest.mark.parametrize(
    ("arguments", "cut", "value", "fault"),
    [
        ({"q": 1}, False, {"q": 1}, None),
        ('{"q": 1}', False, {"q": 1}, None),
        ('{"q": 1}', True, {"q": 1}, None),
        (None, False, {}, None),
        ("", False, {}, None),
        ({"q": "\ud83c"}, False, {"q": "\ufffd"}, None),
        ({"q": 1}, True, {"q": 1}, None),
        (None, True, {}, "cut off at the token limit"),
        ('{"q": ', True, {}, "cut off at the token limit"),
        ("{oops", False, {}, "not valid JSON"),
        ([1], False, {}, "must be a JSON object, got list"),
        ({"q": float("inf")}, False, {}, "no JSON data"),
    ],
)
@proves("MOD-25")
def test_calls(arguments: object, cut: bool, value: dict[str, Any], fault: str | None) -> None:
    block = made_tool_use("c1", "search", arguments, cut=cut)
    assert block == ToolUseBlock(id="c1", name="search", input=value, input_error=block.input_error)
    assert (block.input_error is None) is (fault is None)
    assert (fault or "None") in str(block.input_error)
    json.dumps(block.input, allow_nan=False)

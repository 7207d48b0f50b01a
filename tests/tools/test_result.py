import datetime as dt
import decimal
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, field_serializer, field_validator

from openmultiagent.messages import Base64Source, ToolResultFilePart, ToolResultImagePart, ToolResultTextPart
from openmultiagent.tools import ToolResult, as_tool_result, record_output, result_content, truncate_tool_output
from openmultiagent.tools._result import describe_error
from tests.support import proves

IMAGE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"}}


class Row(BaseModel):
    name: str
    at: dt.datetime


@dataclass
class Plain:
    price: decimal.Decimal


@proves("TOL-24")
def test_result_and_text_are_taken_as_they_are() -> None:
    result, text = ToolResult("ok", metadata={"a": 1}), "a text"

    assert as_tool_result("x", result) is result
    assert as_tool_result("x", text) == ToolResult(text)
    assert as_tool_result("x", text).data is text


@proves("TOL-24")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (
            Row(name="x", at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
            '{"name":"x","at":"2026-01-02T00:00:00Z"}',
        ),
        (Plain(decimal.Decimal("1.50")), '{"price":"1.50"}'),
        ({3: (1, 2)}, '{"3":[1,2]}'),
        (10**30, "1" + "0" * 30),
    ],
)
def test_other_values_are_data_with_their_json(value: object, text: str) -> None:
    result = as_tool_result("x", value)

    assert result.data is value
    assert result.model_output == text
    assert result.is_error is False


@proves("TOL-24")
@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (0, "0"), (0.0, "0.0"), (False, "false"), ([], "[]"), ({}, "{}"), ("", "")]
)
def test_falsy_values_are_values(value: object, text: str) -> None:
    result = as_tool_result("x", value)

    assert result.data is value
    assert result_content(result) == (text, False)
    assert record_output(result) == text


@proves("TOL-24")
def test_empty_model_output_is_an_output() -> None:
    assert result_content(as_tool_result("x", ToolResult({"a": 1}, model_output=""))) == ("", False)


def numbers() -> Iterator[int]:
    yield 1


class Grumpy(BaseModel):
    a: int = 1

    @field_serializer("a")
    def refuse(self, value: int) -> int:
        raise KeyError("grump")


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@proves("TOL-24")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), ["an object", "'object'"]),
        ({"f": print}, ["a dict", "builtin_function"]),
        (numbers(), ["a generator"]),
        (Grumpy(), ["a Grumpy", "grump"]),
        (cyclic(), ["a list", "ircular"]),
    ],
)
def test_what_cannot_become_json_is_an_error(value: object, words: list[str]) -> None:
    result = as_tool_result("lookup", value)

    assert result.is_error
    assert isinstance(result.data, str)
    for word in ['Tool "lookup"', "JSON", *words]:
        assert word in result.data


@proves("TOL-25")
@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (ToolResult("x", is_error=1), "ToolResult.is_error must be a boolean"),  # type: ignore[arg-type]
        (ToolResult("x", metadata=[1]), "ToolResult.metadata must be a mapping"),  # type: ignore[arg-type]
        (ToolResult({"a": 1}), "non-string ToolResult.data requires model_output"),
        (ToolResult(None), "non-string ToolResult.data requires model_output"),
        (ToolResult(ValueError("x"), is_error=True), "error ToolResult.data must be a string"),
        (ToolResult("x", is_error=True, model_output=[IMAGE]), "error model_output must be a string"),
        (ToolResult("x", model_output=[]), "model_output must not be an empty content-part array"),
        (ToolResult("x", model_output=7), "model_output must be a string or a non-empty content-part array"),  # type: ignore[arg-type]
        (ToolResult("x", model_output=[{"type": "audio"}]), 'model_output[0].type must be "text", "image", or "file"'),
        (
            ToolResult("x", model_output=[IMAGE, {**IMAGE, "source": {**IMAGE["source"], "data": "data:x"}}]),
            "model_output[1].source.data must contain raw base64 data",
        ),
        (
            ToolResult(
                "x",
                model_output=[{"type": "image", "source": {"type": "url", "media_type": "a/b", "url": "file:///x"}}],
            ),
            "model_output[0].source.url must use HTTP or HTTPS",
        ),
    ],
)
def test_malformed_results_become_text_errors(result: ToolResult, reason: str) -> None:
    checked = as_tool_result("lookup", result)

    assert checked == ToolResult(checked.data, is_error=True)
    assert isinstance(checked.data, str)
    assert checked.data.startswith('Invalid output for tool "lookup":')
    assert reason in checked.data


@proves("TOL-25")
def test_error_with_text_output_is_well_formed() -> None:
    result = as_tool_result("x", ToolResult("for the app", is_error=True, model_output="for the model"))

    assert result_content(result) == ("for the model", True)


@proves("TOL-26")
def test_data_is_the_same_object_and_output_is_copied_twice() -> None:
    data = {"rows": [1]}
    part = ToolResultTextPart(text="one")
    output: list[Any] = [part, dict(IMAGE)]

    result = as_tool_result("x", ToolResult(data, model_output=output))
    part.text = "changed by the tool"
    output.clear()
    content, _ = result_content(result)
    assert isinstance(content, list)
    assert isinstance(content[0], ToolResultTextPart)
    content[0].text = "changed by the transcript"
    again, _ = result_content(result)

    assert result.data is data
    assert again == [
        ToolResultTextPart(text="one"),
        ToolResultImagePart(source=Base64Source(media_type="image/png", data="aW1n")),
    ]


class Strict(BaseModel):
    count: int

    @field_validator("count")
    @classmethod
    def no_thirteen(cls, value: int) -> int:
        if value == 13:
            raise KeyError("thirteen")
        return value


@proves("TOL-27")
def test_output_schema_checks_data_and_leaves_them_alone() -> None:
    output, data = TypeAdapter(Strict), {"count": "7"}
    result = as_tool_result("x", data, output=output)

    assert result.data is data
    assert result.model_output == '{"count":"7"}'
    assert as_tool_result("x", ToolResult(data, model_output="seven"), output=output).data is data


@proves("TOL-27")
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"count": "many"}, "- count: Input should be a valid integer"),
        ("no object", "- input: Input should be a valid dictionary"),
        (ToolResult({"count": None}, model_output="x"), "- count: Input should be a valid integer"),
        ({"count": 13}, "KeyError: 'thirteen'"),
    ],
)
def test_output_that_breaks_the_schema_is_an_error(returned: object, words: str) -> None:
    result = as_tool_result("lookup", returned, output=TypeAdapter(Strict))

    assert result.is_error
    assert isinstance(result.data, str)
    assert 'Invalid output for tool "lookup"' in result.data
    assert words in result.data


@proves("TOL-35")
def test_data_may_become_what_the_schema_makes_of_them() -> None:
    output = TypeAdapter(Strict)
    result = as_tool_result("x", {"count": "7"}, output=output, use_validated=True)
    rich = as_tool_result("x", ToolResult({"count": "7"}, model_output="7"), output=output, use_validated=True)
    failed = ToolResult("no rows", is_error=True)

    assert result == ToolResult(Strict(count=7), model_output='{"count":7}')
    assert rich == ToolResult(Strict(count=7), model_output="7")
    assert as_tool_result("x", failed, output=output, use_validated=True) is failed
    assert as_tool_result("x", "a", output=TypeAdapter(str), use_validated=True) == ToolResult("a")
    assert as_tool_result("x", {"count": "x"}, output=output, use_validated=True).is_error


@proves("TOL-27")
def test_errors_bypass_the_schema() -> None:
    failed = ToolResult("no rows", is_error=True)

    assert as_tool_result("x", failed, output=TypeAdapter(Strict)) is failed


@proves("TOL-28")
def test_text_within_the_limit_is_unchanged() -> None:
    result = ToolResult("x" * 10)

    assert as_tool_result("x", result, limit=10) is result
    assert as_tool_result("x", "", limit=1).data == ""


@proves("TOL-28")
def test_longer_text_keeps_start_and_end() -> None:
    text = "a" * 600 + "z" * 400
    result = as_tool_result("x", ToolResult(text, metadata={"kept": 1}), limit=500)

    assert isinstance(result.data, str)
    assert len(result.data) <= 500
    assert result.data.startswith("a" * 300)
    assert result.data.endswith("z" * 100)
    head, note, tail = result.data.split("\n\n")
    assert note == f"[...truncated {1000 - len(head) - len(tail)} characters...]"
    assert result.metadata == {"kept": 1}


@proves("TOL-28")
@given(text=st.text(max_size=400), limit=st.integers(1, 400))
def test_cut_text_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    cut = truncate_tool_output(text, limit)

    assert len(cut) <= limit
    assert cut == text or cut[:1] == text[:1]


@proves("TOL-28")
def test_limit_too_small_for_the_note_keeps_the_start() -> None:
    assert truncate_tool_output("abcdef" * 10, 1) == "a"
    assert truncate_tool_output("abcdef" * 10, 6) == "abcdef"


@proves("TOL-28")
def test_json_of_data_and_errors_are_cut_but_no_output_of_the_tools_own() -> None:
    data = ["x" * 500]
    made, own = (
        as_tool_result("x", data, limit=100),
        as_tool_result("x", ToolResult(data, model_output="y" * 500), limit=100),
    )
    failed = as_tool_result("x", ToolResult("z" * 500, is_error=True), limit=100)

    assert made.data is data
    assert isinstance(made.model_output, str)
    assert len(made.model_output) <= 100
    assert own.model_output == "y" * 500
    assert isinstance(failed.data, str)
    assert len(failed.data) <= 100


@proves("TOL-29")
@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("a\ud83db\x00", "a\ufffdb\x00"),
        ({"k\udc00": "\ud83d"}, '{"k\ufffd":"\ufffd"}'),
        (ToolResult(1, model_output="\ud83d"), "\ufffd"),
        ({"nan": math.nan, "inf": [math.inf]}, '{"nan":null,"inf":[null]}'),
    ],
)
def test_lone_surrogates_and_nan_never_reach_the_model(returned: object, text: str) -> None:
    result = as_tool_result("x", returned)

    assert result_content(result) == (text, False)
    assert record_output(result) == text


@proves("TOL-29")
def test_lone_surrogates_in_parts_are_replaced() -> None:
    parts: list[Any] = [{"type": "text", "text": "\ud83d"}]

    assert result_content(as_tool_result("x", ToolResult(1, model_output=parts))) == (
        [ToolResultTextPart(text="\ufffd")],
        False,
    )


@proves("TOL-30")
def test_record_has_placeholders_and_no_data() -> None:
    source = Base64Source(media_type="application/pdf", data="c2VjcmV0")
    output: list[Any] = [ToolResultTextPart(text="see"), ToolResultFilePart(filename="a.pdf", source=source)]
    result = as_tool_result("x", ToolResult({"password": "hunter2"}, model_output=[*output, IMAGE]))

    assert record_output(result) == (
        "see\n[file: a.pdf; application/pdf; inline data]\n[image: image/png; inline data]"
    )


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@proves("TOL-18")
def test_descriptions_of_errors() -> None:
    group = BaseExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b"), OSError()])])

    assert describe_error(group) == "ValueError: a; KeyError: 'b'; OSError"
    assert describe_error(SilentError()) == "SilentError"
    assert describe_error(ExceptionGroup("many", [ValueError(str(n)) for n in range(30)])).endswith(
        "ValueError: 19; ..."
    )

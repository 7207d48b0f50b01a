"""The content of tool results: copied, measured, summed up, stripped."""

from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent.messages import (
    Base64Source,
    ToolResultContent,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    UrlSource,
    copy_tool_result_content,
    strip_tool_result_media,
    summarize_tool_result,
    tool_result_has_media,
    tool_result_parts,
    tool_result_size,
    tool_result_text,
)
from tests.messages.shared import mutable_ids
from tests.support import proves

SECRET = "https://bucket.example.com/report.pdf?signature=hunter2"


def rich() -> list[Any]:
    return [
        ToolResultTextPart.new("first"),
        ToolResultImagePart.new(Base64Source.new("image/png", "aW1hZ2U=")),
        ToolResultFilePart.new("report.pdf", UrlSource.new(SECRET, "application/pdf")),
        ToolResultTextPart.new(""),
        ToolResultImagePart.new(UrlSource.new("https://a.b/c", "image/png")),
        ToolResultFilePart.new("a.csv", Base64Source.new("text/csv", "YQ==")),
    ]


@proves("MSG-70")
@pytest.mark.parametrize("text", ["", "plain", "a\x00b"])
def test_a_string_is_its_own_copy(text: str) -> None:
    assert copy_tool_result_content(text) is text


@proves("MSG-70")
def test_a_copy_of_parts_is_equal_and_private() -> None:
    original = rich()
    copied = copy_tool_result_content(original)
    assert copied == original
    assert not mutable_ids(copied) & mutable_ids(original)


@proves("MSG-70")
def test_mappings_become_parts_with_known_keys_only() -> None:
    source = MappingProxyType({"type": "url", "url": SECRET, "media_type": "application/pdf", "path": "/srv/internal"})
    given = ({"type": "text", "text": "x", "y": 1}, {"type": "file", "filename": "r", "source": source, "z": print})
    assert copy_tool_result_content(given) == [
        ToolResultTextPart.new("x"),
        ToolResultFilePart.new("r", UrlSource.new(SECRET, "application/pdf")),
    ]


@proves("MSG-70")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "model_output must be a string or a non-empty content-part array, got null"),
        ([], "model_output must not be an empty content-part array"),
        ([{"type": "audio"}], 'model_output[0].type must be "text", "image", or "file"'),
        ("\ud800", "model_output must be well-formed Unicode"),
    ],
)
def test_anything_else_is_a_type_error_with_its_path(value: object, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        copy_tool_result_content(value)
    assert str(caught.value).startswith(text)
    with pytest.raises(TypeError, match=r"^here"):
        copy_tool_result_content(value, "here")


@proves("MSG-71")
@pytest.mark.parametrize(
    ("content", "text", "has_media"),
    [
        ("x", "x", False),
        ([ToolResultTextPart.new("a"), ToolResultTextPart.new("b")], "a\nb", False),
        (rich(), "first\n", True),
    ],
)
def test_text_and_media(content: ToolResultContent, text: str, has_media: bool) -> None:
    assert tool_result_text(content) == text
    assert tool_result_has_media(content) is has_media


@proves("MSG-71")
def test_a_string_is_one_part() -> None:
    assert tool_result_parts("x") == [ToolResultTextPart.new("x")]
    parts = rich()
    listed = tool_result_parts(parts)
    listed.clear()
    assert parts == rich()


@proves("MSG-72")
@pytest.mark.parametrize(
    ("content", "size"),
    [
        ("", 0),
        ("four", 4),
        (rich()[:1], 5),
        (rich()[1:2], 8 + 9 + 32),
        (rich()[2:3], len(SECRET) + 15 + 10 + 32),
        (rich()[:2], 5 + 8 + 9 + 32),
    ],
)
def test_size(content: ToolResultContent, size: int) -> None:
    assert tool_result_size(content) == size


@proves("MSG-73")
def test_a_summary_names_media_without_bytes_or_urls() -> None:
    assert summarize_tool_result("exact\n") == "exact\n"
    assert summarize_tool_result(rich()).splitlines() == [
        "first",
        "[image: image/png; inline data]",
        "[file: report.pdf; application/pdf; URL reference]",
        "",
        "[image: image/png; URL reference]",
        "[file: a.csv; text/csv; inline data]",
    ]


@proves("MSG-73")
def test_stripping_puts_a_text_in_the_place_of_media() -> None:
    assert strip_tool_result_media("exact") == "exact"
    original = rich()
    stripped = strip_tool_result_media(original)
    assert not isinstance(stripped, str)
    assert tool_result_text(stripped) == summarize_tool_result(rich())
    assert not tool_result_has_media(stripped)
    assert original == rich()

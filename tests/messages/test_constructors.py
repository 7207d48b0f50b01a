"""The constructors that make a message in one call."""

import math
from pathlib import Path
from typing import Any

import pytest

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    ImageBlock,
    ImageDetail,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultTextPart,
    ToolUseBlock,
)
from tests.support import proves

URL = "https://example.com/photo.jpg"


@proves("MSG-5")
def test_user_and_system_are_one_text_block() -> None:
    assert LLMMessage.user("hi").to_dict() == {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert LLMMessage.system("").to_dict() == {"role": "system", "content": [{"type": "text", "text": ""}]}


@proves("MSG-5")
@pytest.mark.parametrize("text", ["", "ascii", "h\u00e9", "\U0001f600"])
def test_a_text_block_is_the_same_whatever_its_text_and_its_constructor(text: str) -> None:
    made, other = TextBlock.new(text), TextBlock(text=text)
    assert made == other
    assert made.model_fields_set == other.model_fields_set == {"text"}
    assert made.model_dump_json() == other.model_dump_json()


@proves("MSG-5")
def test_assistant_takes_a_text_or_blocks() -> None:
    call = ToolUseBlock.new("call_123", "get_weather", {"location": "San Francisco"})
    assert LLMMessage.assistant("ok") == LLMMessage.assistant([TextBlock.new("ok")])
    message = LLMMessage.assistant([TextBlock.new("Let me check."), call])
    assert message.role is Role.ASSISTANT
    assert [block.type for block in message.content] == ["text", "tool_use"]


@proves("MSG-5")
def test_tool_takes_at_least_one_result() -> None:
    results = [ToolResultBlock.new("1", "a"), ToolResultBlock.new("2", "b")]
    assert LLMMessage.tool(results).content == results
    with pytest.raises(InvalidMessageError, match="at least one tool result"):
        LLMMessage.tool([])


@proves("MSG-5")
@pytest.mark.parametrize(
    "message",
    [
        LLMMessage.user_with_image("what?", URL),
        LLMMessage.user_with_image_detail("what?", URL, ImageDetail.AUTO),
        LLMMessage.user_with_image_detail("what?", URL, "auto"),
        LLMMessage.user_with_blocks([TextBlock.new("what?"), ImageBlock.from_url(URL)]),
        LLMMessage.new(Role.USER, [{"type": "text", "text": "what?"}, {"type": "image", "url": URL}]),
    ],
)
def test_a_text_comes_before_its_image(message: LLMMessage) -> None:
    assert message.role is Role.USER
    text, image = message.content
    assert isinstance(text, TextBlock)
    assert isinstance(image, ImageBlock)
    assert (text.text, image.url, image.detail) == ("what?", URL, ImageDetail.AUTO)


@proves("MSG-5")
def test_base64_and_file_images_become_data_uris(tmp_path: Path) -> None:
    file = tmp_path / "dot.PNG"
    file.write_bytes(b"\x00\x00\x00")
    for message in (
        LLMMessage.user_with_base64_image("what?", "AAAA", "image/png"),
        LLMMessage.user_with_image_file("what?", file),
    ):
        image = message.content[1]
        assert isinstance(image, ImageBlock)
        assert image.url == "data:image/png;base64,AAAA"


@proves("MSG-5")
def test_order_and_number_of_blocks_are_kept() -> None:
    blocks: list[Any] = []
    for index in range(15):
        blocks += [TextBlock.new("" if index % 2 else " "), ImageBlock.from_url(f"{URL}?{index}")]
    assert LLMMessage.user_with_blocks(blocks).content == blocks
    assert LLMMessage.user_with_blocks([]).content == []
    assert LLMMessage.new("tool", ()).content == []


@proves("MSG-5")
@pytest.mark.parametrize(
    "make",
    [
        lambda: LLMMessage.user_with_image("x", "javascript:alert(1)"),
        lambda: LLMMessage.user_with_image_detail("x", URL, "huge"),
        lambda: LLMMessage.user_with_base64_image("x", "@", "image/png"),
        lambda: LLMMessage.user_with_image_file("x", "no-such-file.png"),
    ],
)
def test_an_invalid_image_raises_before_there_is_a_message(make: Any) -> None:
    with pytest.raises(InvalidMessageError):
        make()


@proves("MSG-6")
@pytest.mark.parametrize(
    ("content", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        ({"temp": 72, "conditions": "sunny"}, '{"temp":72,"conditions":"sunny"}'),
        ({"city": "Zürich"}, '{"city":"Zürich"}'),
        ([1, (2, 3)], "[1,[2,3]]"),
        ([{"type": "audio"}], '[{"type":"audio"}]'),
        ([{"type": "text", "text": "x"}, 5], '[{"type":"text","text":"x"},5]'),
        ([{"type": ["text"]}], '[{"type":["text"]}]'),
        ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
        ([], "[]"),
        (0, "0"),
        (0.0, "0.0"),
        (False, "false"),
        (None, "null"),
    ],
)
def test_tool_results_that_are_no_parts_become_json_text(content: object, stored: str) -> None:
    assert ToolResultBlock.new("call_123", content).content == stored


@proves("MSG-6")
@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "x"}],
        ({"type": "text", "text": "x"},),
        [ToolResultTextPart.new("x")],
        ToolResultTextPart.new("x"),
        [TextBlock.new("x")],
    ],
)
def test_what_looks_like_parts_is_parts(content: object) -> None:
    assert ToolResultBlock.new("1", content).content == [ToolResultTextPart.new("x")]


@proves("MSG-6")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": {1, 2}}, "ToolResultBlock.content.a must be cloneable structured data"),
        (math.nan, "nan is no JSON number"),
        ([{"type": "text"}], "ToolResultBlock.content[0].text must be a string"),
        ([ToolResultTextPart.new("x"), 5], "ToolResultBlock.content[1] must be a content-part object"),
    ],
)
def test_tool_results_that_json_cannot_hold_are_refused(content: object, text: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        ToolResultBlock.new("1", content)
    assert text in caught.value.message
    assert caught.value.path == ""

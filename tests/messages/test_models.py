"""What messages and blocks are, and how they are written and read."""

from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    LLMMessage,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
)
from tests.messages.shared import PNG, every_block
from tests.support import proves


@proves("MSG-1")
def test_message_and_llm_message_are_one_class_and_roles_are_strings() -> None:
    assert Message is LLMMessage
    assert [role.value for role in Role] == ["system", "user", "assistant", "tool"]
    assert LLMMessage.new("assistant", []).role is Role.ASSISTANT


@proves("MSG-1")
def test_messages_and_blocks_can_be_changed_by_their_holder() -> None:
    message = LLMMessage.user("a")
    message.content.append(TextBlock.new("b"))
    message.role = Role.ASSISTANT
    assert message == LLMMessage.assistant([TextBlock.new("a"), TextBlock.new("b")])


@proves("MSG-1")
def test_two_messages_share_no_list_and_no_dict() -> None:
    given = {"a": 1}
    first, second = ToolUseBlock.new("1", "x", given), ToolUseBlock.new("1", "x", given)
    first.input["b"] = 2
    assert given == {"a": 1}
    assert second.input == {"a": 1}
    blocks: list[Any] = [TextBlock.new("a")]
    message = LLMMessage.new(Role.USER, blocks)
    message.content.clear()
    assert len(blocks) == 1


@proves("MSG-4")
def test_written_messages_are_plain_snake_case_data_without_none() -> None:
    assert LLMMessage.new(
        Role.ASSISTANT, [ReasoningBlock.new("hm"), ToolUseBlock.new("1", "x", {"kept": None})]
    ).to_dict() == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "tool_use", "id": "1", "name": "x", "input": {"kept": None}},
        ],
    }
    assert type(LLMMessage.user("x").to_dict()["role"]) is str
    assert ImageBlock(source=UrlSource(url="https://example.com/x")).to_dict() == {
        "type": "image",
        "source": {"type": "url", "url": "https://example.com/x"},
        "detail": "auto",
    }


@proves("MSG-4")
def test_every_block_reads_back_equal() -> None:
    for message in every_block():
        assert LLMMessage.model_validate(message.to_dict()) == message
        assert LLMMessage.model_validate_json(message.model_dump_json()) == message
        assert LLMMessage.model_validate_json(message.model_dump_json(exclude_none=True)) == message


@proves("MSG-3")
def test_unknown_keys_are_ignored_and_dropped() -> None:
    block = TextBlock.model_validate({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}})
    assert block.to_dict() == {"type": "text", "text": "x"}


@proves("MSG-3")
def test_redacted_data_may_be_written_in_camel_case() -> None:
    block = ReasoningBlock.model_validate({"text": "", "redactedData": "blob"})
    assert block.redacted_data == "blob"
    assert block.to_dict() == {"type": "reasoning", "text": "", "redacted_data": "blob"}
    both = ReasoningBlock.model_validate({"text": "", "redactedData": "old", "redacted_data": "new"})
    assert both.redacted_data == "new"


@proves("MSG-3")
@pytest.mark.parametrize(
    ("given", "source", "detail"),
    [
        ({"url": "https://example.com/a.png"}, UrlSource(url="https://example.com/a.png"), "auto"),
        ({"url": "data:image/png;base64,AAAA", "detail": "low"}, PNG, "low"),
    ],
)
def test_an_image_may_be_given_as_url(given: dict[str, str], source: Any, detail: str) -> None:
    image = ImageBlock.model_validate({"type": "image", **given})
    assert (image.source, image.detail) == (source, detail)
    assert "url" not in image.to_dict()


@proves("MSG-2")
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TextBlock(text=5), "TextBlock.text must be a string, got number"),
        (lambda: TextBlock(text=b"x"), "TextBlock.text must be a string, got bytes"),
        (TextBlock, "TextBlock.text is missing"),
        (lambda: TextBlock.new("a\ud800"), "TextBlock.text must be well-formed Unicode"),
        (lambda: ToolUseBlock(id="1", name="x", input=[1]), "ToolUseBlock.input must be an object, got array"),
        (
            lambda: ToolUseBlock.new("1", "x", {"a": {"b": print}}),
            "ToolUseBlock.input.a.b must be cloneable structured",
        ),
        (
            lambda: ToolResultBlock(tool_use_id="1", content=None),
            "ToolResultBlock.content must be a string or a non-empty",
        ),
        (lambda: ToolResultBlock(tool_use_id="1", content="", is_error=1), "is_error must be a boolean when provided"),
        (
            lambda: ToolResultBlock(tool_use_id="1", content=[ToolResultTextPart.new("x")], is_error=True),
            "ToolResultBlock.content must be a string for an error tool result",
        ),
        (lambda: ToolResultImagePart(source=UrlSource(url="https://a.b/c")), "source.media_type must be a non-empty"),
        (lambda: ToolResultFilePart.new(" ", PNG), "ToolResultFilePart.filename must be a non-empty string"),
        (lambda: FileBlock.new("", PNG), "FileBlock.filename must be a non-empty string"),
        (lambda: FileBlock(filename="a", source=MappingProxyType({})), "FileBlock.source"),
        (lambda: Base64Source.new("image/png", "YR=="), "Base64Source.data must contain raw base64 data"),
        (lambda: Base64Source.new("png", "AAAA"), "Base64Source.media_type must be a MIME type without parameters"),
        (lambda: UrlSource.new("/a.png"), "UrlSource.url must be an absolute HTTP(S) URL"),
        (lambda: ImageBlock(source=Base64Source.new("text/plain", "AAAA")), "MIME type must start with 'image/'"),
        (lambda: ImageBlock(source=PNG, detail="huge"), "ImageBlock.detail: Input should be 'low', 'high' or 'auto'"),
        (lambda: LLMMessage(role="robot", content=[]), "LLMMessage.role"),
        (lambda: LLMMessage(role="user", content="x"), "LLMMessage.content must be a ContentBlock[], got string"),
        (lambda: LLMMessage(role="user", content=[None]), "LLMMessage.content[0]"),
        (lambda: LLMMessage.new("user", [{"text": "x"}]), 'LLMMessage.content[0] must have a string "type"'),
        (lambda: LLMMessage.new("user", [{"type": "text", "text": 5}]), "LLMMessage.content[0].text must be a string"),
        (
            lambda: LLMMessage.new("user", [{"type": "image", "source": {"type": "base64", "media_type": 5}}]),
            "LLMMessage.content[0].source.media_type must be a string",
        ),
        (lambda: LLMMessage.new("user", [{"type": "image", "url": "ftp://x"}]), "must start with http://"),
    ],
)
def test_constructors_name_class_and_field(make: Any, text: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        make()
    assert text in caught.value.message
    assert caught.value.path == ""


@proves("MSG-2")
def test_model_validate_raises_pydantics_error() -> None:
    with pytest.raises(ValidationError):
        LLMMessage.model_validate({"role": "user", "content": [{"type": "text", "text": 5}]})
    with pytest.raises(ValidationError):
        Base64Source.model_validate({"type": "base64", "media_type": "image/png", "data": "@"})


@proves("MSG-17")
def test_constructors_take_mappings_of_any_kind() -> None:
    source = MappingProxyType({"type": "base64", "media_type": "image/png", "data": "AAAA"})
    blocks = [MappingProxyType({"type": "image", "source": source}), MappingProxyType({"type": "text", "text": "x"})]
    assert LLMMessage.new("user", blocks).content == [ImageBlock(source=PNG), TextBlock.new("x")]
    url = MappingProxyType({"type": "image", "url": "data:image/png;base64,AAAA"})
    assert LLMMessage.new("user", [url]).content == [ImageBlock(source=PNG)]
    redacted = MappingProxyType({"type": "reasoning", "text": "", "redactedData": "blob"})
    assert LLMMessage.assistant([redacted]).content == [ReasoningBlock.new("", redacted_data="blob")]


@proves("MSG-7")
def test_a_tool_call_can_say_that_its_arguments_could_not_be_read() -> None:
    block = ToolUseBlock(id="1", name="search", input={}, input_error="arguments are cut off")
    assert block.to_dict()["input_error"] == "arguments are cut off"
    assert ToolUseBlock.new("1", "search", {}).input_error is None


@proves("MSG-41")
def test_repr_shows_the_start_of_media_and_their_length() -> None:
    message = LLMMessage.user_with_base64_image("x", "A" * 4_000, "image/png")
    assert "A" * 100 + "'... (4000 characters)" in repr(message)
    assert "A" * 101 not in repr(message)
    assert len(repr(UrlSource(url="https://example.com/" + "a" * 5_000))) < 200
    assert repr(UrlSource(url="https://example.com/a")) == (
        "UrlSource(type='url', url='https://example.com/a', media_type=None)"
    )

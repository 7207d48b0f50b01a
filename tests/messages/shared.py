"""What the tests of messages share."""

from typing import Any

from pydantic import BaseModel

from openmultiagent.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    ImageDetail,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
)

PNG = Base64Source.new("image/png", "AAAA")


def every_block() -> list[LLMMessage]:
    """A conversation in which every kind of block and part occurs."""
    parts = [
        ToolResultTextPart.new("seen"),
        ToolResultImagePart.new(UrlSource.new("https://example.com/a.png", "image/png")),
        ToolResultFilePart.new("a.pdf", Base64Source.new("application/pdf", "YQ==")),
    ]
    return [
        LLMMessage.system("Be brief."),
        LLMMessage.user_with_blocks(
            [
                TextBlock.new("look"),
                ImageBlock(source=Base64Source.new("image/png", "AAAA"), detail=ImageDetail.HIGH),
                FileBlock.new("b.png", Base64Source.new("image/png", "AAAA")),
            ]
        ),
        LLMMessage.assistant(
            [
                ReasoningBlock.new("hm", signature="s", redacted_data="r", provenance="scripted"),
                ToolUseBlock.new("1", "look", {"at": [1, 2.5, None, True, {"deep": "x"}]}),
                ToolUseBlock(id="2", name="look", input={}, signature="s", input_error="cut off"),
            ]
        ),
        LLMMessage.tool([ToolResultBlock.new("1", parts), ToolResultBlock.new("2", "failed", is_error=True)]),
        LLMMessage.assistant("Done."),
    ]


def mutable_ids(root: Any) -> set[int]:
    """The ids of everything in a value that can be changed: models, their dicts and sets, lists and dicts."""
    found: set[int] = set()
    pending = [root]
    while pending:
        item = pending.pop()
        if isinstance(item, BaseModel):
            found.update({id(item), id(item.__dict__), id(item.__pydantic_fields_set__)})
            pending += [item.__dict__, item.__pydantic_extra__, item.__pydantic_private__]
        elif isinstance(item, list | dict):
            found.add(id(item))
            pending += item.values() if isinstance(item, dict) else item
        elif isinstance(item, tuple):
            pending += item
    return found

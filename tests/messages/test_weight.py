"""The most tokens that a message can come to: what counts, and what does not."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.adapters import LLMChatOptions, LLMToolDef
from openmultiagent.agent._meter import GrowingSum, RequestMeter
from openmultiagent.messages import (
    Base64Source,
    ContentBlock,
    Conversation,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
    most_tokens,
    most_tokens_of_text,
)
from tests.support import proves

PNG = "iVBORw0KGgo="
AROUND = 8


def weight(*blocks: ContentBlock, role: Role = Role.USER) -> int:
    return most_tokens(LLMMessage(role=role, content=list(blocks))) - AROUND


@proves("BUD-34")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (TextBlock(text=""), 0),
        (TextBlock(text="hello"), 5),
        (TextBlock(text="grüß"), 6),
        (TextBlock(text="中文"), 6),
        (ReasoningBlock(text="hm", signature="abc", redacted_data="xy"), 7),
        (ReasoningBlock(text="hm"), 2),
        (ToolUseBlock(id="c1", name="look", input={"q": "ü"}), 2 + 4 + len('{"q": "ü"}') + 1),
        (ToolUseBlock(id="c1", name="look", input={}, signature="sig"), 2 + 4 + 2 + 3),
        (ToolResultBlock(tool_use_id="c1", content="seen"), 6),
        (ToolResultBlock(tool_use_id="c1", content=[ToolResultTextPart(text="ü")]), 4),
        (ImageBlock.from_base64(PNG, "image/png"), 4800),
        (ImageBlock.from_base64(PNG, "image/png").with_detail("high"), 4800),
        (ImageBlock.from_url("https://example.com/a.png").with_detail("low"), 512),
        (FileBlock(source=Base64Source(media_type="text/plain", data="aGVsbG8="), filename="a.txt"), 4800 + 8 + 5),
        (FileBlock(source=UrlSource(url="https://x.y/a.pdf"), filename="a.pdf"), 4800 + 17 + 5),
    ],
)
def test_a_block_counts_by_its_bytes(block: ContentBlock, expected: int) -> None:
    assert weight(block, role=Role.ASSISTANT if block.type in {"reasoning", "tool_use"} else Role.USER) == expected


@proves("BUD-34")
def test_the_media_of_a_tool_result_count_as_others_do() -> None:
    image = ToolResultImagePart(source=Base64Source(media_type="image/png", data=PNG))
    document = ToolResultFilePart(source=Base64Source(media_type="text/plain", data="aGVsbG8="), filename="a.txt")
    assert weight(ToolResultBlock(tool_use_id="c", content=[image, document])) == 1 + 4800 + 4800 + 13


@proves("BUD-34")
@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_counts_its_utf8_bytes(text: str) -> None:
    assert most_tokens_of_text(text) == len(text.encode())
    assert most_tokens(LLMMessage.user(text)) == AROUND + len(text.encode())


def options(**changes: Any) -> LLMChatOptions:
    return LLMChatOptions(model="m", **changes)


@proves("BUD-34")
def test_a_request_counts_everything_that_the_model_reads() -> None:
    conversation = [LLMMessage.user("hello"), LLMMessage.assistant("ho")]
    bare = 16 + 2 * AROUND + 7
    schema = {"type": "object"}
    tool = LLMToolDef("look", "Look.", schema)
    told = len('{"type": "object"}')
    for given_options, more in [
        (options(), 0),
        (options(system_prompt="be kind"), 7),
        (options(tools=(tool, tool)), 2 * (4 + 5 + told)),
        (options(output_schema=schema), told),
        (options(extra_body={"a": 1}), len('{"a": 1}')),
        (options(max_tokens=5, temperature=0.5), 0),
    ]:
        assert RequestMeter().most_tokens(conversation, given_options) == bare + more


class Watched(Conversation):
    """A conversation that counts how often its messages are looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        type(self).looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[LLMMessage]:
        raise AssertionError("read from its beginning")


@proves("BUD-35")
def test_each_message_of_a_growing_conversation_is_measured_once() -> None:
    meter, turns = RequestMeter(), 1000
    tools = (LLMToolDef("look", "Look.", {}),)
    conversation = Watched()
    Watched.looks = 0
    for number in range(1, turns + 1):
        conversation.append(LLMMessage.user("x"))
        expected = 16 + number * (AROUND + 1) + 11
        assert meter.most_tokens(conversation, options(tools=tools)) == expected
    assert Watched.looks == turns


@proves("BUD-35")
def test_another_conversation_is_measured_from_its_beginning() -> None:
    measured = GrowingSum(most_tokens)
    first, second = Conversation([LLMMessage.user("one")]), Conversation([LLMMessage.user("three")])
    assert [measured.of(item) for item in (first, second, first, [*first, *second])] == [11, 13, 11, 24]

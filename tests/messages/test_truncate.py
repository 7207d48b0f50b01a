"""Cutting off the old part of a conversation."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import LLMMessage, TextBlock, ToolResultBlock, ToolUseBlock, copy_messages
from openmultiagent.messages._truncate import truncate_messages
from tests.support import proves

SYSTEM = LLMMessage.system("be brief")


def calls(*ids: str) -> LLMMessage:
    return LLMMessage.assistant([ToolUseBlock.new(name, "look_up", {}) for name in ids])


def results(*ids: str) -> LLMMessage:
    return LLMMessage.tool([ToolResultBlock.new(name, "found") for name in ids])


def texts(*values: str) -> list[LLMMessage]:
    return [LLMMessage.user(value) for value in values]


@proves("CNV-40")
def test_the_last_messages_are_kept() -> None:
    assert truncate_messages(texts("1", "2", "3", "4"), 2) == texts("3", "4")


@proves("CNV-40")
def test_ten_are_kept_unless_said_otherwise() -> None:
    conversation = texts(*map(str, range(12)))
    assert truncate_messages(conversation) == conversation[2:]


@proves("CNV-40")
@pytest.mark.parametrize("conversation", [[], texts("1", "2"), [SYSTEM, *texts("1")]])
def test_a_short_conversation_is_kept_whole(conversation: list[LLMMessage]) -> None:
    assert truncate_messages(conversation, 10) == conversation


@proves("CNV-40")
def test_what_is_kept_is_a_copy() -> None:
    conversation = [SYSTEM, *texts("1", "2", "3")]
    before = copy_messages(conversation)
    kept = truncate_messages(conversation, 1)
    for message in kept:
        message.content.append(TextBlock.new("changed"))
        message.content[0].text = "changed"  # type: ignore[union-attr]
    assert conversation == before


@proves("CNV-41")
def test_a_leading_system_message_is_kept_in_addition() -> None:
    kept = truncate_messages([SYSTEM, *texts("1", "2", "3", "4")], 2)
    assert kept == [SYSTEM, *texts("3", "4")]


@proves("CNV-41")
def test_all_leading_system_messages_are_kept() -> None:
    other = LLMMessage.system("be polite")
    assert truncate_messages([SYSTEM, other, *texts("1", "2")], 1) == [SYSTEM, other, *texts("2")]


@proves("CNV-41")
def test_a_conversation_of_keep_messages_after_the_system_message_is_kept_whole() -> None:
    conversation = [SYSTEM, *texts("1", "2")]
    assert truncate_messages(conversation, 2) == conversation


@proves("CNV-41")
def test_without_preservation_a_system_message_is_cut_like_others() -> None:
    assert truncate_messages([SYSTEM, *texts("1", "2", "3", "4")], 2, preserve_system=False) == texts("3", "4")


@proves("CNV-42")
def test_keeping_none_leaves_the_system_message() -> None:
    conversation = [SYSTEM, *texts("1"), calls("a"), results("a")]
    assert truncate_messages(conversation, 0) == [SYSTEM]
    assert truncate_messages(conversation, 0, preserve_system=False) == []


@proves("CNV-42")
@pytest.mark.parametrize("keep", [-1, 1.5, math.nan, True, None, "3"])
def test_a_senseless_keep_is_refused(keep: Any) -> None:
    with pytest.raises(ConfigurationError, match="keep must be a whole number of at least 0"):
        truncate_messages([], keep)


@proves("CNV-43", "CNV-44")
def test_a_cut_within_an_exchange_moves_behind_it() -> None:
    conversation = [*texts("1"), calls("a"), results("a"), *texts("2", "3")]
    assert truncate_messages(conversation, 3) == texts("2", "3")
    assert truncate_messages(conversation, 4) == conversation[1:]


@proves("CNV-43", "CNV-44")
def test_a_result_whose_call_is_cut_goes_with_it() -> None:
    assert truncate_messages([calls("a"), results("a"), *texts("1")], 1) == texts("1")
    assert truncate_messages([calls("a"), results("a"), *texts("1")], 2) == texts("1")


@proves("CNV-43")
def test_results_in_several_messages_belong_to_one_exchange() -> None:
    conversation = [calls("a", "b"), results("a"), results("b"), *texts("1")]
    for keep in (1, 2, 3):
        assert truncate_messages(conversation, keep) == texts("1")
    assert truncate_messages(conversation, 4) == conversation


@proves("CNV-43")
def test_results_next_to_text_in_a_user_message_count_too() -> None:
    reply = LLMMessage.user_with_blocks([ToolResultBlock.new("a", "found"), TextBlock.new("and now?")])
    conversation = [*texts("1"), calls("a"), reply, LLMMessage.assistant("done")]
    assert truncate_messages(conversation, 2) == [LLMMessage.assistant("done")]


@proves("CNV-43")
def test_what_stands_between_a_call_and_its_result_belongs_to_the_exchange() -> None:
    conversation = [*texts("0"), calls("a"), *texts("meanwhile"), results("a"), *texts("1")]
    assert truncate_messages(conversation, 3) == texts("1")
    assert truncate_messages(conversation, 4) == conversation[1:]


@proves("CNV-45")
@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_exchange_is_kept_whole(keep: int) -> None:
    newest = [calls("b", "c"), results("b"), results("c")]
    conversation = [SYSTEM, *texts("1"), calls("a"), results("a"), *newest]
    assert truncate_messages(conversation, keep) == [SYSTEM, *newest]


@proves("CNV-45")
def test_an_exchange_that_is_the_whole_conversation_is_kept() -> None:
    conversation = [calls("a"), results("a")]
    assert truncate_messages(conversation, 1) == conversation


@proves("CNV-46")
def test_a_result_belongs_to_the_latest_call_with_its_id() -> None:
    conversation = [calls("call"), results("call"), calls("call"), results("call")]
    assert truncate_messages(conversation, 2) == conversation[2:]
    assert truncate_messages(conversation, 3) == conversation[2:]


@proves("CNV-46")
def test_a_result_without_a_call_stands_for_itself() -> None:
    conversation = [*texts("1"), results("unasked"), *texts("2")]
    assert truncate_messages(conversation, 2) == conversation[1:]


conversations = st.lists(
    st.one_of(
        st.just("text"),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple),
    ),
    max_size=12,
)


def unanswerable(messages: list[LLMMessage]) -> list[str]:
    known: set[str] = set()
    missing = []
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                known.add(block.id)
            elif isinstance(block, ToolResultBlock) and block.tool_use_id not in known:
                missing.append(block.tool_use_id)
    return missing


@proves("CNV-43", "CNV-44", "CNV-45")
@given(plan=conversations, keep=st.integers(1, 8))
def test_no_result_is_ever_left_without_its_call(plan: list[str | tuple[str, ...]], keep: int) -> None:
    conversation = [SYSTEM]
    for item in plan:
        conversation += texts(item) if isinstance(item, str) else [calls(*item), results(*item)]
    kept = truncate_messages(conversation, keep)
    rest = kept[1:]
    assert unanswerable(kept) == []
    assert kept == [SYSTEM, *conversation[len(conversation) - len(rest) :]]
    assert len(rest) <= max(keep, 2)
    assert rest or len(conversation) == 1

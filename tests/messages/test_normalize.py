"""The normal form of a conversation, and the joining of neighbours."""

import pytest

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import LLMMessage, Role, TextBlock, ToolResultBlock, ToolUseBlock, copy_messages
from openmultiagent.messages._normalize import merge_adjacent, normalize_for_provider
from tests.support import proves


def call(name: str) -> LLMMessage:
    return LLMMessage.assistant([ToolUseBlock.new(name, "look_up", {})])


def answer(name: str) -> LLMMessage:
    return LLMMessage.tool([ToolResultBlock.new(name, f"result of {name}")])


def roles(messages: list[LLMMessage]) -> list[str]:
    return [message.role.value for message in messages]


@proves("CNV-1")
def test_only_user_and_assistant_are_left() -> None:
    conversation = [LLMMessage.system("s"), LLMMessage.user("u"), call("a"), answer("a"), LLMMessage.assistant("done")]
    system, turns = normalize_for_provider(conversation)
    assert system == "s"
    assert roles(turns) == ["user", "assistant", "user", "assistant"]


@proves("CNV-2")
@pytest.mark.parametrize(
    ("prompt", "texts", "expected"),
    [
        (None, [], None),
        ("", [], None),
        ("", [""], None),
        ("call", [], "call"),
        (None, ["first"], "first"),
        ("call", ["first", "second"], "call\n\nfirst\n\nsecond"),
        ("call", ["", "second"], "call\n\nsecond"),
        ("", ["first", ""], "first"),
        (" ", [], " "),
    ],
)
def test_the_system_text_is_the_prompt_and_then_the_leading_system_messages(
    prompt: str | None, texts: list[str], expected: str | None
) -> None:
    conversation = [*[LLMMessage.system(text) for text in texts], LLMMessage.user("hello")]
    system, turns = normalize_for_provider(conversation, prompt)
    assert system == expected
    assert turns == [LLMMessage.user("hello")]


@proves("CNV-2")
def test_each_block_of_a_system_message_is_a_part_of_the_text() -> None:
    message = LLMMessage.new("system", [TextBlock.new("one"), TextBlock.new(""), TextBlock.new("two")])
    assert normalize_for_provider([message]) == ("one\n\ntwo", [])


@proves("CNV-3")
@pytest.mark.parametrize("before", [LLMMessage.user("u"), LLMMessage.assistant("a"), LLMMessage.user_with_blocks([])])
def test_a_system_message_after_another_role_is_refused(before: LLMMessage) -> None:
    with pytest.raises(InvalidMessageError, match=r"^messages\[2\]\.role .*put system messages first") as caught:
        normalize_for_provider([LLMMessage.system("s"), before, LLMMessage.system("late")])
    assert caught.value.path == "messages[2].role"


@proves("CNV-4")
def test_a_system_message_with_another_block_is_refused() -> None:
    message = LLMMessage.system("s")
    message.content.append(ToolUseBlock.new("a", "look_up", {}))
    with pytest.raises(InvalidMessageError, match=r'^messages\[1\]\.content\[1\] .*"tool_use"') as caught:
        normalize_for_provider([LLMMessage.system("first"), message])
    assert caught.value.path == "messages[1].content[1]"


@proves("CNV-5")
def test_a_tool_message_becomes_a_user_message() -> None:
    _, turns = normalize_for_provider([call("a"), answer("a"), LLMMessage.assistant("done")])
    assert roles(turns) == ["assistant", "user", "assistant"]
    assert turns[1].content == answer("a").content


@proves("CNV-5")
def test_neighbouring_tool_messages_become_one() -> None:
    _, turns = normalize_for_provider([answer("a"), answer("b"), LLMMessage.user("u"), answer("c")])
    assert [len(turn.content) for turn in turns] == [2, 1, 1]
    assert roles(turns) == ["user", "user", "user"]


@proves("CNV-6")
def test_a_message_without_blocks_is_left_out() -> None:
    empty = LLMMessage.user_with_blocks([])
    _, turns = normalize_for_provider([empty, answer("a"), LLMMessage.assistant([]), answer("b"), empty])
    assert [len(turn.content) for turn in turns] == [2]


@proves("CNV-7")
def test_neighbours_of_the_same_role_stay_apart() -> None:
    conversation = [LLMMessage.user("one"), LLMMessage.user("two")]
    assert normalize_for_provider(conversation) == (None, conversation)


@proves("CNV-7")
def test_merging_joins_neighbours_of_the_same_role_in_order() -> None:
    _, turns = normalize_for_provider(
        [LLMMessage.user("one"), LLMMessage.user("two"), call("a"), LLMMessage.assistant("b"), answer("a")]
    )
    merged = merge_adjacent(turns)
    assert roles(merged) == ["user", "assistant", "user"]
    assert merged[0].content == [TextBlock.new("one"), TextBlock.new("two")]
    assert [block.type for block in merged[1].content] == ["tool_use", "text"]


@proves("CNV-7")
def test_merging_nothing_gives_nothing() -> None:
    assert merge_adjacent([]) == []


@proves("CNV-8")
def test_nothing_that_comes_in_is_changed() -> None:
    conversation = [
        LLMMessage.user("u"),
        LLMMessage.user("v"),
        answer("a"),
        answer("b"),
        LLMMessage.user_with_blocks([]),
    ]
    before = copy_messages(conversation)
    _, turns = normalize_for_provider(conversation)
    merge_adjacent(turns)
    assert conversation == before


@proves("CNV-8")
def test_messages_that_need_no_change_are_the_same_objects() -> None:
    conversation = [LLMMessage.user("u"), LLMMessage.assistant("a"), answer("b")]
    _, turns = normalize_for_provider(conversation)
    assert turns[0] is conversation[0]
    assert turns[1] is conversation[1]
    assert turns[2].content[0] is conversation[2].content[0]
    assert turns[2].content is not conversation[2].content
    merged = merge_adjacent(turns)
    assert [new is old for new, old in zip(merged, turns, strict=True)] == [True, True, True]


@proves("CNV-9")
def test_pairing_is_not_checked() -> None:
    conversation = [answer("nobody asked"), call("nobody answers")]
    _, turns = normalize_for_provider(conversation)
    assert roles(turns) == ["user", "assistant"]


def test_what_is_made_is_a_whole_message() -> None:
    _, turns = normalize_for_provider([answer("a")])
    assert turns[0].role is Role.USER
    assert turns == [LLMMessage.user_with_blocks(answer("a").content)]
    assert turns[0].to_dict()["content"][0]["tool_use_id"] == "a"

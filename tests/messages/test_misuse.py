"""Helpers for valid messages that are given something else: an error of this library that names the place."""

from collections.abc import Callable
from typing import Any

import pytest

from openmultiagent import ConfigurationError, InvalidMessageError, LLMMessage, TextBlock, ToolResultBlock, ToolUseBlock
from openmultiagent.messages import (
    check_history,
    copy_blocks,
    copy_messages,
    estimate_message_chars,
    estimate_tokens,
    is_approaching_limit,
    merge_adjacent,
    most_tokens,
    most_tokens_of_json,
    most_tokens_of_text,
    normalize_for_provider,
    repair_history,
    require_valid_history,
    strip_tool_result_media,
    summarize_tool_result,
    tool_result_has_media,
    tool_result_parts,
    tool_result_size,
    tool_result_text,
    truncate_messages,
)
from tests.support import proves


def message(content: object) -> LLMMessage:
    made = LLMMessage.assistant("x")
    made.content = content  # type: ignore[assignment]
    return made


def changed(block: Any, **fields: object) -> Any:
    for name, value in fields.items():
        setattr(block, name, value)
    return block


def endless() -> dict[str, object]:
    made: dict[str, object] = {}
    made["again"] = made
    return made


OF_MESSAGES: list[Callable[[Any], object]] = [
    estimate_tokens,
    lambda messages: estimate_tokens(messages=messages),
    lambda messages: is_approaching_limit(messages, 10),
    truncate_messages,
    lambda messages: require_valid_history(messages, "any"),
    normalize_for_provider,
    merge_adjacent,
    copy_messages,
]
OF_MESSAGE: list[Callable[[Any], object]] = [estimate_message_chars, most_tokens]
NO_CONVERSATIONS = [None, 5, True, "abc", "", b"", {}, {"a": 1}, object()]


@proves("MSG-54")
@pytest.mark.parametrize("helper", OF_MESSAGES)
@pytest.mark.parametrize("value", NO_CONVERSATIONS)
def test_what_is_no_conversation_is_refused_by_name(helper: Callable[[Any], object], value: object) -> None:
    with pytest.raises(InvalidMessageError, match=r"^messages must be an array, got ") as caught:
        helper(value)
    assert caught.value.path == "messages"


@proves("MSG-54")
@pytest.mark.parametrize("helper", OF_MESSAGES)
@pytest.mark.parametrize("item", [None, 5, "abc", b"", [], object()])
def test_what_is_no_message_is_refused_with_its_place(helper: Callable[[Any], object], item: object) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        helper([LLMMessage.user("x"), item])
    assert caught.value.path == "messages[1]"


BROKEN: list[tuple[LLMMessage, str]] = [
    (message(None), ".content"),
    (message("abc"), ".content"),
    (message([None]), ".content[0]"),
    (message([changed(TextBlock(text="x"), text=None)]), ".content[0].text"),
    (message([changed(ToolUseBlock(id="c", name="n", input={}), input={1, 2})]), ".content[0].input"),
    (message([changed(ToolUseBlock(id="c", name="n", input={}), input=endless())]), ".content[0].input"),
    (message([changed(ToolResultBlock(tool_use_id="c", content="x"), content=None)]), ".content[0].content"),
    (message([changed(ToolResultBlock(tool_use_id="c", content="x"), content=[5])]), ".content[0].content[0]"),
]


@proves("MSG-54")
@pytest.mark.parametrize("helper", [estimate_tokens, lambda messages: is_approaching_limit(messages, 10)])
@pytest.mark.parametrize(("broken", "where"), BROKEN)
def test_a_message_that_was_broken_later_is_refused_with_the_place(
    helper: Callable[[Any], object], broken: LLMMessage, where: str
) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        helper([LLMMessage.user("x"), broken])
    assert caught.value.path.startswith(f"messages[1]{where}")
    assert str(caught.value).startswith(caught.value.path)


@proves("MSG-54")
@pytest.mark.parametrize("helper", OF_MESSAGE)
@pytest.mark.parametrize(
    ("value", "where"),
    [(value, "message") for value in (None, 5, "abc", [LLMMessage.user("x")], {"role": "user", "content": []})]
    + [(broken, f"message{where}") for broken, where in BROKEN if not where.endswith(("text", "input"))],
)
def test_helpers_of_one_message_refuse_what_is_none(helper: Callable[[Any], object], value: object, where: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        helper(value)
    assert caught.value.path.startswith(where)


@proves("MSG-54")
def test_mappings_are_not_taken_for_messages() -> None:
    mapping: Any = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    with pytest.raises(InvalidMessageError, match=r"messages\[0\] must be .*coerce_messages"):
        estimate_tokens([mapping])
    with pytest.raises(InvalidMessageError, match=r"messages\[0\] must be .*coerce_messages"):
        estimate_tokens([message([{"type": "text", "text": "x"}])])


@proves("MSG-54")
@pytest.mark.parametrize("value", [None, 5, "abc", b"", {}])
def test_blocks_to_copy_must_be_a_collection(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=r"^content must be an array"):
        copy_blocks(value)


@proves("MSG-54")
def test_copies_are_made_of_any_collection() -> None:
    messages = [LLMMessage.user("x")]
    assert copy_messages(iter(messages)) == copy_messages(tuple(messages)) == messages
    assert copy_blocks(iter(messages[0].content)) == messages[0].content


@proves("MSG-54")
@pytest.mark.parametrize(
    "helper",
    [
        strip_tool_result_media,
        summarize_tool_result,
        tool_result_has_media,
        tool_result_parts,
        tool_result_size,
        tool_result_text,
    ],
)
@pytest.mark.parametrize("value", [None, 5, b"", {}, {"a": 1}, object()])
def test_what_is_no_tool_result_is_refused(helper: Callable[[Any], object], value: object) -> None:
    with pytest.raises(InvalidMessageError, match=r"^content must be a string or a non-empty") as caught:
        helper(value)
    assert caught.value.path == "content"


@proves("MSG-54")
@pytest.mark.parametrize("helper", [strip_tool_result_media, summarize_tool_result, tool_result_size])
def test_the_parts_of_a_tool_result_are_named(helper: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidMessageError, match=r"^content\[0\] must be"):
        helper([5])
    with pytest.raises(InvalidMessageError, match=r"^content must be made of parts.*copy_tool_result_content"):
        helper([{"type": "text", "text": "x"}])


@proves("MSG-54")
@pytest.mark.parametrize("value", [5, 0, False, b"", b"abc", [], ["a"]])
def test_what_is_no_text_has_no_tokens(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=r"^text must be a string or None"):
        most_tokens_of_text(value)


@proves("MSG-54")
@pytest.mark.parametrize("value", [5, "abc", [1], endless(), {(1, 2): 3}])
def test_what_is_no_json_object_has_no_tokens(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=r"^value "):
        most_tokens_of_json(value)


@proves("MSG-54")
def test_the_other_arguments_of_helpers_are_named_too() -> None:
    messages = [LLMMessage.user("x")]
    bad: Any = 5
    with pytest.raises(ConfigurationError, match="system_prompt must be a string or None, got int"):
        normalize_for_provider(messages, bad)
    with pytest.raises(ConfigurationError, match="preserve_system must be True or False"):
        truncate_messages(messages, 1, bad)
    with pytest.raises(ConfigurationError, match=r"suspended must be a collection"):
        check_history(messages, suspended=bad)
    with pytest.raises(ConfigurationError, match=r"suspended must be a collection"):
        repair_history(messages, suspended=[[]])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="unknown dialect"):
        check_history(messages, dialect=[])  # type: ignore[arg-type]
    assert not is_approaching_limit(messages, 10**400)


@proves("MSG-54")
def test_a_call_without_its_arguments_is_pythons_own_error() -> None:
    helper: Any = estimate_tokens
    with pytest.raises(TypeError, match="messages"):
        helper()
    with pytest.raises(TypeError, match="bogus"):
        helper([], bogus=1)

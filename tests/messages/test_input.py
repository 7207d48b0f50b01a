"""What runs and prompts are given, and the conversation of a run."""

import pickle
from typing import Any

import pytest

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    Conversation,
    ImageBlock,
    LLMMessage,
    PreparedRunInput,
    TextBlock,
    ToolUseBlock,
    assert_valid_messages,
    coerce_messages,
    prepare_prompt_input,
    prepare_run_input,
)
from tests.messages.shared import every_block, mutable_ids
from tests.support import proves


@proves("MSG-60")
@pytest.mark.parametrize("prompt", ["Hello", "", "a\x00b"])
def test_a_string_is_one_user_message(prompt: str) -> None:
    prepared = prepare_run_input(prompt)
    assert prepared == PreparedRunInput([LLMMessage.user(prompt)], prompt)
    assert not prepared.structured
    assert prepare_prompt_input(prompt) == LLMMessage.user(prompt)


@proves("MSG-60", "MSG-64")
def test_external_backends_take_strings() -> None:
    assert prepare_run_input("x", backend_kind="process").prompt == "x"
    assert prepare_prompt_input("x", backend_kind="acp") == LLMMessage.user("x")


@proves("MSG-61")
def test_messages_are_copied_at_once() -> None:
    mappings: list[Any] = [message.to_dict() for message in every_block()]
    for given in (every_block(), mappings, tuple(every_block())):
        prepared = prepare_run_input(given)
        assert prepared.structured
        assert prepared.prompt is None
        assert prepared.messages == every_block()
        assert not mutable_ids(prepared.messages) & mutable_ids(given)


@proves("MSG-61")
def test_what_the_caller_changes_afterwards_does_not_arrive() -> None:
    call = ToolUseBlock.new("1", "x", {"a": [1]})
    mapping: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    given: list[Any] = [LLMMessage.assistant([call]), mapping]
    prepared = prepare_run_input(given)
    call.input["a"].append(2)
    mapping["content"][0]["text"] = "changed"
    given.clear()
    assert prepared.messages == [LLMMessage.assistant([ToolUseBlock.new("1", "x", {"a": [1]})]), LLMMessage.user("x")]


@proves("MSG-62")
def test_an_empty_conversation_is_refused_and_a_trailing_assistant_is_not() -> None:
    with pytest.raises(InvalidMessageError, match="must not be empty; pass a prompt string") as caught:
        prepare_run_input([])
    assert caught.value.path == "messages"
    assert len(prepare_run_input([LLMMessage.assistant("And so")]).messages) == 1


@proves("MSG-63")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "messages must be an array, got null"),
        (5, "messages must be an array, got number"),
        (b"x", "messages must be an array, got bytes"),
        ({1}, "messages must be an array, got set"),
        ((str(item) for item in range(1)), "messages must be an array, got generator"),
        ({"type": "text"}, "messages must be an array, got object"),
        ({"role": "user", "content": []}, "messages must be an array, got object; wrap the message in a list"),
        (LLMMessage.user("x"), "messages must be an array, got LLMMessage; wrap the message in a list"),
    ],
)
def test_what_is_no_sequence_is_refused(given: object, text: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        prepare_run_input(given)
    assert caught.value.message.startswith(text)
    assert caught.value.path == "messages"


@proves("MSG-21", "MSG-63")
def test_a_prompt_must_be_well_formed() -> None:
    for prepare in (prepare_run_input, prepare_prompt_input):
        with pytest.raises(InvalidMessageError, match="lone surrogate U\\+D83D at character 2") as caught:
            prepare("ab\ud83d")
        assert caught.value.path == "messages[0].content[0].text"


@proves("MSG-64")
@pytest.mark.parametrize("kind", ["process", "acp"])
def test_sequences_are_refused_for_external_backends(kind: str) -> None:
    for make in (
        lambda: prepare_run_input([LLMMessage.user("x")], backend_kind=kind),
        lambda: prepare_prompt_input([TextBlock.new("x")], backend_kind=kind),
    ):
        with pytest.raises(InvalidMessageError, match=f"the {kind} backend accepts string prompts only"):
            make()
    with pytest.raises(InvalidMessageError, match="must be an object"):
        prepare_run_input(["x"], backend_kind=kind)


@proves("MSG-65")
def test_a_prompt_may_be_blocks() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    turn = prepare_prompt_input((image, {"type": "text", "text": "what?"}))
    assert turn == LLMMessage.user_with_blocks([image, TextBlock.new("what?")])
    assert not mutable_ids(turn) & mutable_ids(image)


@proves("MSG-65")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "messages[0].content must be a ContentBlock[], got null"),
        ({"type": "text", "text": "x"}, "messages[0].content must be a ContentBlock[], got object"),
        (TextBlock.new("x"), "messages[0].content must be a ContentBlock[], got TextBlock"),
        (
            [LLMMessage.user("x")],
            'messages[0].content[0] must be a content block with a string "type"; this is a message',
        ),
        (["x"], 'messages[0].content[0] must be a content block with a string "type"'),
        ([{"type": "reasoning", "text": ""}], 'messages[0].content[0] has type "reasoning", which is not allowed'),
        ([{"type": "text", "text": "x"}, {"type": "text"}], "messages[0].content[1].text must be a string"),
    ],
)
def test_other_prompts_are_refused(given: object, text: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        prepare_prompt_input(given)
    assert caught.value.message.startswith(text)


@proves("MSG-66")
def test_a_conversation_is_a_sequence_that_grows() -> None:
    first, second, third = LLMMessage.user("1"), LLMMessage.assistant("2"), LLMMessage.user("3")
    conversation = Conversation([first])
    conversation.append(second)
    conversation.extend([third])
    assert list(conversation) == conversation[:] == [first, second, third]
    assert conversation[-1] is third
    assert conversation[:2] == [first, second]
    assert len(conversation) == 3
    assert second in conversation
    assert repr(conversation) == "Conversation(3 messages)"
    assert list(pickle.loads(pickle.dumps(conversation))) == list(conversation)
    assert not mutable_ids(conversation.copy()) & mutable_ids(list(conversation))


@proves("MSG-66")
def test_what_is_added_is_checked_all_or_none() -> None:
    conversation = Conversation([LLMMessage.user("1")])
    bad = LLMMessage.new("tool", [])
    with pytest.raises(InvalidMessageError) as caught:
        conversation.extend([LLMMessage.assistant("2"), bad])
    assert caught.value.path == "messages[2].content"
    with pytest.raises(InvalidMessageError):
        conversation.append(bad)
    assert len(conversation) == 1


@proves("MSG-66")
def test_a_conversation_is_not_checked_again() -> None:
    unchecked = Conversation([LLMMessage.new("tool", [])])
    assert_valid_messages(unchecked)
    copied = coerce_messages(unchecked)
    assert copied == list(unchecked)
    assert not mutable_ids(copied) & mutable_ids(list(unchecked))
    with pytest.raises(InvalidMessageError):
        coerce_messages(list(unchecked))

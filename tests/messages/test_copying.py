"""Copies: equal, independent, and cheap."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from openmultiagent.errors import InvalidMessageError
from openmultiagent.messages import (
    ImageBlock,
    LLMMessage,
    TextBlock,
    ToolUseBlock,
    coerce_messages,
    copy_blocks,
    copy_message,
    copy_messages,
)
from openmultiagent.messages._clone import clone_model
from tests.messages.shared import every_block, mutable_ids
from tests.support import proves

COPIES: dict[str, Callable[[LLMMessage], LLMMessage]] = {
    "copy_message": copy_message,
    "copy_messages": lambda message: copy_messages([message])[0],
    "coerce_messages": lambda message: coerce_messages((message,))[0],
    "copy_blocks": lambda message: LLMMessage(role=message.role, content=copy_blocks(message.content)),
    "deepcopy": copy.deepcopy,
    "model_copy": lambda message: message.model_copy(deep=True),
    "pickle": lambda message: pickle.loads(pickle.dumps(message)),
}


@proves("MSG-50", "MSG-51")
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(make: Callable[[LLMMessage], LLMMessage]) -> None:
    for original in every_block():
        copied = make(original)
        assert copied == original
        assert type(copied) is LLMMessage
        assert copied.model_fields_set == original.model_fields_set
        assert not mutable_ids(copied) & mutable_ids(original)


@proves("MSG-50")
def test_changing_a_copy_or_the_original_leaves_the_other_as_it_was() -> None:
    original = every_block()
    before = pickle.dumps(original)
    copied = copy_messages(original)
    copied[1].content[0].text = "changed"  # type: ignore[union-attr]
    copied[1].content[1].source.data = "BBBB"  # type: ignore[union-attr]
    copied[2].content[1].input["at"][4]["deep"] = "changed"  # type: ignore[union-attr]
    copied[3].content[0].content.clear()  # type: ignore[union-attr]
    copied[0].content.clear()
    copied.clear()
    assert pickle.dumps(original) == before


@proves("MSG-50")
def test_two_copies_of_one_list_are_independent_and_one_message_twice_is_two() -> None:
    message = LLMMessage.user("x")
    first, second = copy_messages([message, message])
    assert first is not second
    assert first.content[0] is not second.content[0]


@proves("MSG-50")
@pytest.mark.parametrize("make", [copy_messages, copy.deepcopy])
def test_strings_are_shared(make: Callable[[Any], list[LLMMessage]]) -> None:
    original = [LLMMessage.user_with_base64_image("x" * 1_000, "A" * 1_000, "image/png")]
    text, image = make(original)[0].content
    assert isinstance(text, TextBlock)
    assert isinstance(image, ImageBlock)
    assert text.text is original[0].content[0].text  # type: ignore[union-attr]
    assert image.source.data is original[0].content[1].source.data  # type: ignore[union-attr]


@proves("MSG-50")
def test_messages_that_are_not_valid_are_copied_as_they_are() -> None:
    message = message_with({"any": ("thing", {1: [2]})})
    (copied,) = copy_messages([message])
    assert copied == message
    assert not mutable_ids(copied) & mutable_ids(message)


@proves("MSG-51")
def test_copying_and_pickling_keep_sharing_within_a_structure() -> None:
    message = LLMMessage.user("x")
    for made in (copy.deepcopy([message, message]), pickle.loads(pickle.dumps([message, message]))):
        assert made[0] is made[1]


class Tagged(LLMMessage):
    """A user's own kind of message."""

    model_config = ConfigDict(extra="allow")

    tags: list[str] = Field(default_factory=list)
    _seen: list[str] = PrivateAttr(default_factory=list)


class Counting(TextBlock):
    """A user's own kind of block, which knows how it is copied."""

    copies: int = 0

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy(update={"copies": self.copies + 1})


class CountingMore(Counting):
    """A subclass of that."""


class Slotted(TextBlock):
    """A user's own kind of block, whose instances are laid out in another way than the library's own."""

    __slots__ = ("note",)

    language: str = "en"
    inside: Any = None


@proves("MSG-52")
@pytest.mark.parametrize("make", [copy_message, copy.deepcopy, lambda message: coerce_messages([message])[0]])
def test_subclasses_keep_their_class_fields_and_private_values(make: Callable[[Any], Any]) -> None:
    original: Any = Tagged.model_validate(
        {"role": "user", "content": [TextBlock.new("x")], "tags": ["a"], "more": {"b": [1]}}
    )
    original._seen.append("c")
    copied: Any = make(original)
    assert type(copied) is Tagged
    assert copied == original
    assert copied.__pydantic_extra__ == {"more": {"b": [1]}}
    assert copied._seen == ["c"]
    assert not mutable_ids(copied) & mutable_ids(original)


@proves("MSG-52")
def test_a_subclass_that_needs_mending_keeps_its_class() -> None:
    original = Tagged(role="user", content=[TextBlock.new("x")], tags=["a"])
    original.role = "assistant"  # type: ignore[assignment]
    (copied,) = coerce_messages([original])
    assert isinstance(copied, Tagged)
    assert (copied.tags, copied.role.name) == (["a"], "ASSISTANT")


@proves("MSG-52")
def test_a_subclass_with_slots_of_its_own_keeps_its_class_and_fields() -> None:
    original = LLMMessage.user_with_blocks([Slotted(text="x", language="fr")])
    copied = copy_message(original)
    assert copied == original
    assert type(copied.content[0]) is Slotted
    assert not mutable_ids(copied) & mutable_ids(original)


class CopiedOnce:
    """A foreign value that counts how often it is copied."""

    copies = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> CopiedOnce:
        CopiedOnce.copies += 1
        return self


@proves("MSG-52")
def test_what_is_in_such_blocks_is_copied_once_however_deep_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopiedOnce, "copies", 0)
    block = Slotted(text="x", inside=CopiedOnce())
    for _ in range(20):
        block = Slotted(text="x", inside=block)
    copied = clone_model(block)
    assert CopiedOnce.copies == 1
    assert copied == block
    assert copied.inside is not block.inside


@proves("MSG-52")
@pytest.mark.parametrize("cls", [Counting, CountingMore])
def test_a_subclass_with_its_own_deepcopy_is_copied_by_it(cls: type[Counting]) -> None:
    block = cls(text="x")
    (copied,) = copy_blocks([block])
    assert type(copied) is cls
    assert copied.copies == 1
    inside = copy_message(LLMMessage.user_with_blocks([block])).content[0]
    assert isinstance(inside, Counting)
    assert inside.copies == 1


@proves("MSG-53")
def test_mappings_are_read_before_they_are_copied() -> None:
    given = MappingProxyType({"role": "user", "content": ({"type": "text", "text": "x"},)})
    assert copy_messages([given]) == [copy_message(given)] == [LLMMessage.user("x")]
    with pytest.raises(InvalidMessageError) as caught:
        copy_messages([LLMMessage.user("x"), {"role": "user", "content": "x"}])
    assert caught.value.path == "messages[1].content"


def message_with(value: Any) -> LLMMessage:
    return LLMMessage.assistant([ToolUseBlock.model_construct(id="1", name="x", input=value)])


@proves("MSG-53")
def test_what_cannot_be_copied_is_told() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    for value, text in ((threading.Lock(), "cannot pickle"), (loop, "contains itself"), ({"a": deep}, "too deeply")):
        message = message_with({"value": value})
        with pytest.raises(InvalidMessageError, match="cloneable structured data") as caught:
            copy_messages([LLMMessage.user("x"), message])
        assert caught.value.path == "messages[1]"
        assert text in caught.value.message
        with pytest.raises(InvalidMessageError, match="cloneable structured data"):
            copy_blocks(message.content)


@proves("MSG-53")
def test_a_private_value_that_cannot_be_copied_is_told() -> None:
    message = Tagged(role="user", content=[])
    message._seen = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(InvalidMessageError, match="cloneable structured data"):
        coerce_messages([message])


@proves("MSG-50")
def test_foreign_models_inside_are_copied_by_their_own_means() -> None:
    class Foreign(BaseModel):
        items: list[int]

    message = message_with({"x": Foreign(items=[1])})
    copied = copy_message(message)
    assert copied == message
    assert not mutable_ids(copied) & mutable_ids(message)

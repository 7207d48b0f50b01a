"""What a goal or the description of a task says: a text, or messages, or the blocks of one user turn.

Not here: the prompt that an agent gets for a task. Invariant: a ``TaskInput`` never changes; what was read into it was
checked and copied, and what it hands out are copies again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigurationError, InvalidMessageError
from ..messages import (
    ContentBlock,
    LLMMessage,
    Role,
    TextBlock,
    coerce_messages,
    copy_messages,
    read_run_input,
)
from ._fields import safely_shown

__all__ = ["GivenTaskInput", "TaskInput", "read_task_input", "task_input_text"]

GivenTaskInput = str | Sequence[LLMMessage | ContentBlock | Mapping[str, Any]]
"""A text, a conversation that ends with a user message, or the content blocks of one user turn."""


class TaskInput:
    """A goal or description that was given as messages or as content blocks.

    Args:
        messages: Valid messages that belong to nobody else; the last one is the user's.
    """

    __slots__ = ("_messages", "text")

    text: str
    """The text blocks of the last user message, joined; empty for one of images only."""

    def __init__(self, messages: Sequence[LLMMessage]) -> None:
        self._messages = tuple(messages)
        self.text = "".join(block.text for block in self._messages[-1].content if isinstance(block, TextBlock))

    def messages(self) -> list[LLMMessage]:
        """Return copies of the messages, for their receiver to keep and change."""
        return copy_messages(self._messages)

    def with_prompt(self, prompt: str) -> list[LLMMessage]:
        """Return copies of the messages in which a prompt stands for the text of the last one.

        Args:
            prompt: The first block of the last message, before those of its blocks that are no text.
        """
        *earlier, last = self.messages()
        media = [block for block in last.content if not isinstance(block, TextBlock)]
        return [*earlier, LLMMessage(role=Role.USER, content=[TextBlock.new(prompt), *media])]

    def to_list(self) -> list[dict[str, Any]]:
        """Return the messages as plain JSON data, which ``read_task_input`` reads."""
        return [message.to_dict() for message in self._messages]

    def __eq__(self, other: object) -> bool:
        return self._messages == other._messages if isinstance(other, TaskInput) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self._messages), self.text))

    def __repr__(self) -> str:
        return f"TaskInput({len(self._messages)} messages, text={self.text[:60]!r})"

    def __copy__(self) -> TaskInput:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskInput:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return TaskInput, (list(self._messages),)


def read_task_input(value: object, where: str) -> str | TaskInput:
    """Check and copy a goal or description.

    Args:
        value: A string, a sequence of messages (items with ``role``) or of content blocks (items with ``type``).
        where: What errors call it, such as ``tasks[3].description``.

    Raises:
        ConfigurationError: It is nothing of that kind.
        InvalidMessageError: A message or block in it is not valid; the path names the first fault.
    """
    if isinstance(value, TaskInput):
        return value
    if isinstance(value, str):
        return _read_text(value, where)
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray | memoryview):
        raise ConfigurationError(
            f"{where} must be a string, a list of messages or a list of content blocks, got {safely_shown(value)}"
        )
    items = list(value)
    if not items:
        raise InvalidMessageError(f"{where} must not be empty; pass a string or at least one message", path=where)
    roles = [_has(item, "role", LLMMessage) for item in items]
    if not any(roles):
        return TaskInput(_read_blocks(items, where))
    if not all(roles):
        index = roles.index(not roles[0])
        raise InvalidMessageError(
            f"{where}[{index}] is {'a message' if roles[index] else 'no message'}, unlike what stands before it; "
            "pass messages only, or blocks only",
            path=f"{where}[{index}]",
        )
    messages = coerce_messages(items, root=where)
    if messages[-1].role is not Role.USER:
        last = f"{where}[{len(messages) - 1}]"
        raise InvalidMessageError(
            f"{last}.role must be user, got {messages[-1].role.value}: the last message is what is to be done",
            path=f"{last}.role",
        )
    return TaskInput(messages)


def task_input_text(value: str | TaskInput) -> str:
    """Return the text view of a goal or description.

    Args:
        value: What ``read_task_input`` returned.
    """
    return value if isinstance(value, str) else value.text


def _has(item: object, key: str, model: type) -> bool:
    return isinstance(item, model) or (isinstance(item, Mapping) and key in item)


def _read_text(value: str, where: str) -> str:
    text = str.__str__(value)
    try:
        read_run_input(text)
    except InvalidMessageError as error:
        raise _moved(error, "messages[0].content[0].text", where) from None
    return text


def _read_blocks(items: list[Any], where: str) -> list[LLMMessage]:
    try:
        return coerce_messages([{"role": Role.USER, "content": items}], root="messages")
    except InvalidMessageError as error:
        raise _moved(error, "messages[0].content", where) from None


def _moved(error: InvalidMessageError, root: str, where: str) -> InvalidMessageError:
    """Return an error about a value under the name that its caller knows."""
    path = error.path.replace(root, where, 1)
    return InvalidMessageError(error.message.replace(error.path, path, 1), path=path)

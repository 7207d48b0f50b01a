"""What callers hand in, and a run's own conversation.

Everything is checked and copied at the call that takes it: nothing that its caller does later reaches the run.
Invariant: what these functions return belongs to nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from ..errors import InvalidMessageError
from ._clone import assemble
from ._copy import UnreadMessages, copy_messages
from ._faults import Fault
from ._json import check_unicode
from ._models import ContentBlock, LLMMessage, Role, TextBlock
from ._validation import as_list, is_sequence, read_content, read_messages

__all__ = [
    "AgentPromptInput",
    "AgentRunInput",
    "Conversation",
    "PreparedRunInput",
    "assert_valid_messages",
    "coerce_messages",
    "prepare_prompt_input",
    "prepare_run_input",
    "read_run_input",
]

AgentRunInput = str | Sequence[LLMMessage | Mapping[str, Any]]
"""A prompt, or a whole conversation as messages or mappings like messages."""

AgentPromptInput = str | Sequence[ContentBlock | Mapping[str, Any]]
"""A prompt, or the blocks of one user turn."""


class Conversation(Sequence[LLMMessage]):
    """A run's own conversation, which only grows.

    Every message in it is valid, and nobody changes one; so whoever is handed a conversation need not check it again,
    and a run's checks cost what is new, not what there is.

    Args:
        messages: Valid messages that belong to nobody else, such as ``coerce_messages`` returns.
    """

    __slots__ = ("_history_marks", "_messages")

    def __init__(self, messages: Iterable[LLMMessage] = ()) -> None:
        self._messages = list(messages)
        self._history_marks: dict[str, object] = {}
        """How far the conversation was found valid, by provider; kept for ``require_valid_history``."""

    @overload
    def __getitem__(self, index: int) -> LLMMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[LLMMessage]: ...
    def __getitem__(self, index: int | slice) -> LLMMessage | list[LLMMessage]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[LLMMessage]:
        return iter(self._messages)

    def __repr__(self) -> str:
        return f"Conversation({len(self._messages)} messages)"

    def append(self, message: LLMMessage) -> None:
        """Add a message, which belongs to the conversation from now on.

        Args:
            message: A message that nobody else will change.

        Raises:
            InvalidMessageError: It is not valid.
        """
        self.extend([message])

    def add(self, role: Role, content: list[ContentBlock]) -> LLMMessage:
        """Add a message of blocks, which belong to the conversation from now on, and return it as it stands there.

        Args:
            role: Who speaks.
            content: The blocks; blocks of the wrong kind are refused, mappings like blocks become some.

        Raises:
            InvalidMessageError: They are no such message.
        """
        try:
            blocks = read_content(content, role)
        except Fault as fault:
            raise fault.at(f"messages[{len(self._messages)}]") from None
        message = assemble(LLMMessage, {"role": role, "content": blocks})
        self._messages.append(message)
        return message

    def extend(self, messages: Iterable[LLMMessage]) -> None:
        """Add messages, which belong to the conversation from now on; all or none.

        Args:
            messages: Messages that nobody else will change.

        Raises:
            InvalidMessageError: One of them is not valid.
        """
        self._messages.extend(read_messages(messages, "messages", start=len(self._messages)))

    def copy(self) -> list[LLMMessage]:
        """Return copies of the messages, for their receiver to keep and change."""
        return copy_messages(self._messages)

    def unread(self, start: int) -> UnreadMessages:
        """Return the messages from a position on, of which whoever reads them makes a copy.

        Args:
            start: How many messages are left out.
        """
        return UnreadMessages(self._messages[start:])


class PreparedRunInput:
    """The input of a run, checked and copied.

    Args:
        messages: The conversation, in private copies; None for the one message of a prompt, made when it is read.
        prompt: The string that the caller gave; None for messages.
    """

    __slots__ = ("_messages", "prompt")

    def __init__(self, messages: list[LLMMessage] | None, prompt: str | None = None) -> None:
        self._messages = messages
        self.prompt = prompt

    @classmethod
    def of(cls, given: str | list[LLMMessage]) -> PreparedRunInput:
        """Return the input of a prompt, or of messages that were checked when they were read.

        Args:
            given: A prompt; or valid messages, which belong to the input from now on.

        Raises:
            InvalidMessageError: The prompt cannot be encoded.
        """
        return prepare_run_input(given) if isinstance(given, str) else cls(given)

    @property
    def structured(self) -> bool:
        """Whether the caller gave messages, not a string."""
        return self.prompt is None

    @property
    def messages(self) -> list[LLMMessage]:
        """The conversation, in private copies."""
        if self._messages is None:
            self._messages = [user_turn(self.prompt or "")]
        return self._messages

    def copy(self) -> list[LLMMessage]:
        """Return private copies of the messages, for their receiver to keep and change."""
        return copy_messages(self.messages) if self.prompt is None else [user_turn(self.prompt)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreparedRunInput):
            return NotImplemented
        return (self.messages, self.prompt) == (other.messages, other.prompt)

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"PreparedRunInput({self.messages!r}, prompt={self.prompt!r})"


def assert_valid_messages(messages: object) -> None:
    """Check a conversation: messages, or mappings like messages.

    Args:
        messages: Anything.

    Raises:
        InvalidMessageError: It is not valid; the path names the first fault.
    """
    if not isinstance(messages, Conversation):
        read_messages(as_list(messages, "messages"), "messages")


def coerce_messages(value: object, *, root: str = "messages") -> list[LLMMessage]:
    """Check messages, or mappings like messages, and return private copies.

    Args:
        value: Anything. A ``Conversation`` is copied without a check.
        root: What errors call it.

    Raises:
        InvalidMessageError: It is not valid; the path names the first fault.
    """
    if isinstance(value, Conversation):
        return value.copy()
    return copy_messages(read_messages(as_list(value, root), root))


def prepare_run_input(input: object, *, backend_kind: str | None = None) -> PreparedRunInput:  # noqa: A002 - public name
    """Check and copy what a run was given.

    Args:
        input: A prompt, or a non-empty conversation.
        backend_kind: The kind of the external backend that runs it, which takes prompts only.

    Raises:
        InvalidMessageError: It is neither, or the backend cannot take it.
    """
    if isinstance(input, str):
        prompt = input if type(input) is str and input.isascii() else _checked_prompt(input)  # most are
        return PreparedRunInput(None, prompt)
    messages = read_run_input(input)
    _refuse_for_backend(backend_kind)
    return PreparedRunInput(messages)


def read_run_input(input: object) -> list[LLMMessage]:  # noqa: A002 - the word of `prepare_run_input`
    """Check what a run was given and return it as private messages.

    Args:
        input: A prompt, or a non-empty conversation.

    Raises:
        InvalidMessageError: It is neither.
    """
    if isinstance(input, str):
        return [user_turn(_checked_prompt(input))]
    messages = coerce_messages(input)
    if not messages:
        raise InvalidMessageError(
            "messages must not be empty; pass a prompt string or at least one message", path="messages"
        )
    return messages


def prepare_prompt_input(input: object, *, backend_kind: str | None = None) -> LLMMessage:  # noqa: A002 - public name
    """Check and copy one user turn.

    Args:
        input: A prompt, or the content blocks of the turn.
        backend_kind: The kind of the external backend that runs it, which takes prompts only.

    Raises:
        InvalidMessageError: It is neither, or the backend cannot take it.
    """
    if isinstance(input, str):
        return user_turn(_checked_prompt(input))
    content = list(input) if is_sequence(input) else input  # what is no sequence is refused with its path below
    turn = coerce_messages([{"role": Role.USER, "content": content}])
    _refuse_for_backend(backend_kind)
    return turn[0]


def user_turn(prompt: str) -> LLMMessage:
    """Make the user message of a prompt that was checked already.

    Args:
        prompt: A string without lone surrogates.
    """
    block = assemble(TextBlock, {"type": "text", "text": prompt})
    return assemble(LLMMessage, {"role": Role.USER, "content": [block]})


def _checked_prompt(prompt: str) -> str:
    prompt = str.__str__(prompt)
    if not prompt.isascii():
        try:
            check_unicode(prompt)
        except Fault as fault:
            raise fault.at("messages[0].content[0].text") from None
    return prompt


def _refuse_for_backend(kind: str | None) -> None:
    if kind is not None:
        raise InvalidMessageError(
            f"messages cannot be forwarded: the {kind} backend accepts string prompts only; pass a str", path="messages"
        )

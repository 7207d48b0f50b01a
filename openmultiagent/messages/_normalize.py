"""The form of a conversation that every provider is told: a system text, and turns of ``user`` and ``assistant``.

Not here: the check of contents and of which block may stand under which role, which comes before, and the wire formats,
which come after. Invariant: the messages that come in are never changed; those that need no change come out as the same
objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import ConfigurationError, InvalidMessageError
from ._clone import assemble
from ._explain_messages import takes_messages
from ._models import ContentBlock, LLMMessage, Role, TextBlock

__all__ = ["leading_system_messages", "merge_adjacent", "normalize_for_provider"]


@takes_messages
def normalize_for_provider(
    messages: Sequence[LLMMessage], system_prompt: str | None = None
) -> tuple[str | None, list[LLMMessage]]:
    """Return the system text, or None, and the messages as ``user`` and ``assistant`` turns.

    Args:
        messages: A checked conversation; it is not changed, and the result refers to its blocks.
        system_prompt: The system text of the call, which precedes that of the messages.

    Raises:
        InvalidMessageError: A system message follows another role, or has a block that is not text, or something is
            no valid message.
        ConfigurationError: The system prompt is neither a string nor None.
    """
    _check_system_prompt(system_prompt)
    lead = leading_system_messages(messages)
    texts = [system_prompt or "", *_system_texts(messages[:lead])]
    return "\n\n".join(filter(None, texts)) or None, list(_turns(messages, lead))


def _check_system_prompt(value: object) -> None:
    if value is not None and not isinstance(value, str):
        got = type(value).__name__
        raise ConfigurationError(f"normalize_for_provider: system_prompt must be a string or None, got {got}")


@takes_messages
def merge_adjacent(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """Return messages in which no two neighbours have the same role, for providers that want turns to alternate.

    Args:
        messages: Normalised messages; they are not changed, and the result refers to their blocks.

    Raises:
        InvalidMessageError: Something is no valid message.
    """
    runs: list[list[LLMMessage]] = []
    for message in messages:
        role = message.role
        if runs and runs[-1][0].role == role:
            runs[-1].append(message)
        else:
            runs.append([message])
    return [run[0] if len(run) == 1 else _merged(run[0].role, run) for run in runs]


def leading_system_messages(messages: Sequence[LLMMessage]) -> int:
    """Return how many system messages a conversation begins with.

    Args:
        messages: The conversation.
    """
    return next((index for index, message in enumerate(messages) if message.role != Role.SYSTEM), len(messages))


def _system_texts(messages: Sequence[LLMMessage]) -> Iterator[str]:
    for index, message in enumerate(messages):
        for position, block in enumerate(message.content):
            if not isinstance(block, TextBlock):
                path = f"messages[{index}].content[{position}]"
                raise InvalidMessageError(
                    f'{path} must be a text block in a system message, got type "{block.type}"', path=path
                )
            yield block.text


def _turns(messages: Sequence[LLMMessage], start: int) -> Iterator[LLMMessage]:
    answers: list[LLMMessage] = []
    for index in range(start, len(messages)):
        message = messages[index]
        if message.role == Role.SYSTEM:
            path = f"messages[{index}].role"
            raise InvalidMessageError(
                f"{path} must not be system after another role: put system messages first", path=path
            )
        if not message.content:
            continue  # an empty turn says nothing, and some providers refuse it
        if message.role == Role.TOOL:
            answers.append(message)
            continue
        if answers:
            yield _merged(Role.USER, answers)
            answers = []
        yield message
    if answers:
        yield _merged(Role.USER, answers)


def _merged(role: Role, messages: list[LLMMessage]) -> LLMMessage:
    content: list[ContentBlock] = [block for message in messages for block in message.content]
    return assemble(LLMMessage, {"role": role, "content": content})  # the constructor would check every block again

"""What a strategy of a run is asked for, and how a note takes the place of what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..._record import record
from ...adapters import LLMResponse
from ...messages import ContentBlock, LLMMessage, Role, TextBlock, ToolResultBlock
from ._working_copy import WorkingCopy

__all__ = ["AskModel", "ContextStep", "Outgoing", "with_note"]


class AskModel(Protocol):
    """A model call that is no turn of the run: phase ``summary``, no tools, and otherwise the agent's way of calls."""

    async def __call__(
        self, messages: Sequence[LLMMessage], *, system_prompt: str, max_tokens: int, model: str | None
    ) -> LLMResponse:
        """Make the call and return the answer.

        Args:
            messages: All that is sent besides the system prompt.
            system_prompt: Takes the place of the agent's.
            max_tokens: The most tokens that the answer may have.
            model: The model to ask; None for the agent's.
        """
        ...


@record
class Outgoing:
    """What a call sends instead of the working copy."""

    messages: list[LLMMessage]
    size: int | None = None
    """Sum of the sizes of the messages, if the step decides by it."""


class ContextStep(Protocol):
    """A strategy with what it knows of one run."""

    async def outgoing(self, view: WorkingCopy, ask: AskModel) -> Outgoing | None:
        """Return what to send, or None for the working copy as it is.

        Args:
            view: The working copy, up to date; the step may put shorter messages in place.
            ask: Makes a model call.
        """
        ...


def with_note(view: WorkingCopy, head: Sequence[int], tail: Sequence[int], note: str) -> list[LLMMessage]:
    """Return messages with a note on what stood between, so that no two user messages meet there.

    Args:
        view: The working copy.
        head: Positions of system messages and, last, of the first user message, if it is not in the tail.
        tail: Positions of what follows; what answers what is complete in it.
        note: The text.
    """
    block = TextBlock.new(note)
    messages = [view.messages[position] for position in (*head, *tail)]
    start = len(head)
    first = messages[start - 1] if start and messages[start - 1].role == Role.USER else None
    following = messages[start]
    if first is None:
        if following.role != Role.USER:
            messages.insert(start, LLMMessage.user_with_blocks([block]))
        else:
            messages[start] = _noted(following, block)
    elif following.role == Role.USER:
        joined = LLMMessage.user_with_blocks([*first.content, block, *following.content])
        messages[start - 1 : start + 1] = [joined]
    else:
        users = (index for index in range(start, len(messages)) if messages[index].role == Role.USER)
        index = next(users, start - 1)
        messages[index] = _noted(messages[index], block, last=index < start)
    return messages


def _noted(message: LLMMessage, note: TextBlock, *, last: bool = False) -> LLMMessage:
    # Providers want tool results before any text.
    results = [index for index, block in enumerate(message.content) if isinstance(block, ToolResultBlock)]
    place = len(message.content) if last else (results[-1] + 1 if results else 0)
    content: list[ContentBlock] = [*message.content[:place], note, *message.content[place:]]
    return LLMMessage.user_with_blocks(content)

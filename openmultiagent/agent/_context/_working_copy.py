"""A run's conversation as the strategies see it: by turns, with sizes, and with shorter messages put in place.

Everything here is kept up to date message by message, so that a call costs what is new and not what there is. Not
here: any decision. Invariants: a message of the conversation is never changed, only replaced here by another; a turn
holds whole exchanges, so a cut between two turns parts no tool call from its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..._shown import shown
from ...errors import RunError
from ...messages import (
    Conversation,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    copy_message,
    estimate_tokens,
)
from ...usage import TokenUsage

__all__ = ["WorkingCopy"]


class WorkingCopy:
    """What would be sent if nothing were cut.

    Args:
        count_tokens: Returns the tokens of a message; None for the estimate by characters.
    """

    def __init__(self, count_tokens: Callable[[LLMMessage], int] | None = None) -> None:
        self._count_tokens = count_tokens
        self._taken = 0
        self._correction = 0
        self.changed = False
        """Whether a message differs from the conversation's."""
        self.epoch = 0
        """Goes up when the messages are put in place anew, so that positions no longer mean the same."""
        self.task: int | None = None
        """Position of the prompt that the run began with: its latest user message without tool results."""
        self._clear()

    def _clear(self) -> None:
        self.messages: list[LLMMessage] = []
        self.sizes: list[int] = []
        """Tokens of each message."""
        self.total = 0
        """Their sum."""
        self.turns: list[int] = []
        """Where each turn begins: an exchange (calls, their results, and what stands between) or one other message."""
        self.lead = 0
        """How many system messages stand in front."""
        self.first_user: int | None = None
        """Position of the first user message without tool results."""
        self.answered = 0
        """Position of the newest turn of the model: it has read everything before it."""
        self._open: set[str] = set()
        self._answering = False

    def sync(self, conversation: Conversation) -> None:
        """Take over what has been added to the conversation since the last time.

        Args:
            conversation: The run's conversation.
        """
        first_time = self._taken == 0
        for message in conversation[self._taken :]:
            self._add(message)
        self._taken = len(conversation)
        if first_time:
            questions = (i for i in range(len(self.messages) - 1, -1, -1) if _is_question(self.messages[i]))
            self.task = next(questions, None)

    def rebase(self, messages: Iterable[LLMMessage]) -> None:
        """Go on from other messages than those of the conversation so far.

        Args:
            messages: Messages that nobody else will change.
        """
        self._clear()
        self.changed = True
        self.epoch += 1
        self.task = None
        for message in messages:
            self._add(message)

    def replace(self, position: int, message: LLMMessage) -> None:
        """Put another message in the place of one.

        Args:
            position: Which one.
            message: The other, with the same role and the same calls and results.
        """
        size = self.size_of(message)
        self.total += size - self.sizes[position]
        self.sizes[position] = size
        self.messages[position] = message
        self.changed = True

    def _add(self, message: LLMMessage) -> None:
        position = len(self.messages)
        if not self._joins(message):
            self.turns.append(position)
            self._open = set()
            if message.role == Role.ASSISTANT:
                self.answered = position
        self._answering = message.role != Role.ASSISTANT
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                self._open.add(block.id)
            elif isinstance(block, ToolResultBlock):
                self._open.discard(block.tool_use_id)
        if message.role == Role.SYSTEM and position == self.lead:
            self.lead += 1
        if self.first_user is None and _is_question(message):
            self.first_user = position
        self.messages.append(message)
        self.sizes.append(self.size_of(message))
        self.total += self.sizes[-1]

    def _joins(self, message: LLMMessage) -> bool:
        """Say whether a message belongs to the turn before it, since that has calls which it may answer."""
        if not self.turns or message.role == Role.SYSTEM:
            return False
        if self._open and (message.role != Role.ASSISTANT or not self._answering or _is_blank(message)):
            return True
        return _has_results(message)

    def kept(self, cut: int) -> tuple[list[int], list[int]]:
        """Return the positions of what is kept when everything before a cut is left out.

        First what stands in front: the system messages, and the first user message. Then the prompt of the run, since
        what the run is about must not be lost while its tools are at work. What stands behind the cut is in neither.

        Args:
            cut: Position of the first message after the cut.
        """
        first, task = ([p] if p is not None and p < cut else [] for p in (self.first_user, self.task))
        return [*range(self.lead), *first], [position for position in task if position not in first]

    def size_of(self, message: LLMMessage) -> int:
        """Return the tokens of one message.

        Args:
            message: Any message.

        Raises:
            RunError: The user's counter returned something that is no count.
        """
        if self._count_tokens is None:
            return estimate_tokens([message])
        tokens: object = self._count_tokens(copy_message(message))
        if type(tokens) is not int or tokens < 0:
            raise RunError(f"context_strategy.count_tokens must return an int of at least 0, got {shown(tokens)}")
        return tokens

    def whole(self, size: int) -> int:
        """Return the tokens of a call with messages of this size, everything else that it sends included.

        Args:
            size: The tokens of the messages.
        """
        return size + self._correction

    def room(self, tokens: int) -> int:
        """Return the size of messages that fit into so many tokens, beside what a call sends anyhow.

        Args:
            tokens: The limit.
        """
        return max(0, tokens - self._correction)

    def calibrate(self, size: int, usage: TokenUsage | None) -> None:
        """Learn from what a provider counted: the system prompt, tool schemas, and what the estimate takes for too few.

        The estimate is only ever corrected upwards: a report that leaves something out must not make a call too large.

        Args:
            size: The tokens of the messages that were sent, by estimate.
            usage: What the provider reported for the call.
        """
        if usage is not None and usage.unknown_calls == 0:
            self._correction = max(0, usage.input_tokens - size)


def _is_question(message: LLMMessage) -> bool:
    return message.role == Role.USER and not _is_blank(message) and not _has_results(message)


def _has_results(message: LLMMessage) -> bool:
    return any(isinstance(block, ToolResultBlock) for block in message.content)


def _is_blank(message: LLMMessage) -> bool:
    """Say whether a message has nothing in it that every provider would be sent."""
    return all(isinstance(block, TextBlock) and not block.text.strip() for block in message.content)

"""What a run has come to so far: its conversation, its records, and why it stopped.

Invariant: ``messages`` is a valid history at every moment that somebody else can see it. A tool call that will get no
result any more gets one that says so (``close``), whatever ended the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..messages import (
    ContentBlock,
    Conversation,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from ..outcome import StopReason, ToolCallRecord

__all__ = ["RunProgress"]

_NOT_EXECUTED = "Not executed: the run ended before this call was made."

_NO_CALLS: dict[str, ToolUseBlock] = {}
_NO_RESULTS: dict[str, ToolResultBlock] = {}
"""Never changed: those of a turn without calls, as most turns are."""


class RunProgress:
    """The state of one run, which nobody else holds.

    Args:
        messages: The effective input; owned by the run from now on.
    """

    __slots__ = (
        "_answer",
        "_calls",
        "_finished",
        "_input_length",
        "_open",
        "announced",
        "closed_early",
        "conversation",
        "flags",
        "records",
        "stop_reason",
        "structured",
        "turns",
    )

    def __init__(self, messages: list[LLMMessage]) -> None:
        self.conversation = Conversation(messages)
        self.turns = 0
        self.records: list[ToolCallRecord] = []
        self.stop_reason: StopReason = "end_turn"
        self.flags: tuple[str, ...] = ()
        """What else there is to say about the run."""
        self.structured: Any = None
        """The answer as what was asked for."""
        self.announced = False
        """Whether a stream has been told of the tool calls of the current turn."""
        self.closed_early: Sequence[ToolResultBlock] = ()
        """Results that a stream has not been told of."""
        self._input_length = len(messages)
        self._answer: LLMMessage | None = None
        self._calls = 0
        self._open: dict[str, ToolUseBlock] = _NO_CALLS
        self._finished: dict[str, ToolResultBlock] = _NO_RESULTS

    def add_answer(self, content: list[ContentBlock]) -> list[ToolUseBlock]:
        """Append an assistant turn and return its tool calls.

        Args:
            content: The blocks of the answer; owned by the run from now on.

        Raises:
            InvalidMessageError: The adapter returned something that is no assistant turn.
        """
        message = self._answer = self.conversation.add(Role.ASSISTANT, content)
        self._open, self._finished = _NO_CALLS, _NO_RESULTS
        if len(content) == 1 and isinstance(content[0], TextBlock):
            return []
        calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
        if not calls:
            return calls
        self._open, self._finished = {}, _NO_RESULTS
        for call in calls:
            self._calls += 1
            if not call.id or call.id in self._open:
                # Calls of one id could not be told apart by their results.
                call.id = f"{call.id or 'call'}-{self._calls}"
            self._open[call.id] = call
        return calls

    def finish_call(self, block: ToolResultBlock, record: ToolCallRecord) -> None:
        """Keep the result of one call of the current turn.

        Args:
            block: What the model will read.
            record: What the result of the run says about it.
        """
        if self._finished is _NO_RESULTS:
            self._finished = {}
        self._finished[block.tool_use_id] = block
        self.records.append(record)

    def finished(self) -> list[ToolResultBlock]:
        """Return the results that the calls of the current turn have come to so far."""
        return list(self._finished.values())

    def close(self, why: str = _NOT_EXECUTED, *, note: str | None = None) -> list[ToolResultBlock]:
        """Answer the tool calls of the current turn, in their order, and return the answers.

        Args:
            why: The text for calls that have no result.
            note: A text for the model, behind the results.
        """
        self.closed_early = ()
        if not self._open and note is None:
            self.announced = False
            return []
        results = [
            self._finished.get(call_id) or ToolResultBlock(tool_use_id=call_id, content=why, is_error=True)
            for call_id in self._open
        ]
        order = {call_id: position for position, call_id in enumerate(self._open)}
        tail = len(self.records) - len(self._finished)
        self.records[tail:] = sorted(self.records[tail:], key=lambda record: order[record.tool_use_id])
        blocks: list[ContentBlock] = [*results, *([] if note is None else [TextBlock.new(note)])]
        if blocks:
            self.conversation.add(Role.USER, blocks)
        self._open, self._finished = _NO_CALLS, _NO_RESULTS
        self.closed_early = results if self.announced else ()
        self.announced = False
        return results

    def produced(self) -> Any:
        """Return the messages that the run has added to its input, for a result that copies them when it is read."""
        return self.conversation.unread(self._input_length)

    def output(self) -> str:
        """Return the text of the last assistant turn, without its reasoning."""
        content = [] if self._answer is None else self._answer.content
        if len(content) == 1 and isinstance(content[0], TextBlock):
            return content[0].text
        texts = [block.text for block in content if isinstance(block, TextBlock)]
        return "".join(texts)

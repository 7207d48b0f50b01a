"""How large the requests of a run are, for budgets.

Invariant: a run's own conversation only grows, and each of its messages is measured once, so that the calls of a run
cost what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..adapters import LLMChatOptions, LLMToolDef
from ..messages import Conversation, LLMMessage, most_tokens, most_tokens_of_json, most_tokens_of_text

__all__ = ["GrowingSum", "RequestMeter"]

_REQUEST_OVERHEAD = 16
"""What providers put around a conversation."""


class GrowingSum:
    """The sum of a measure over a conversation.

    Args:
        measure: Measures one message.
    """

    def __init__(self, measure: Callable[[LLMMessage], int]) -> None:
        self._measure = measure
        self._conversation: Conversation | None = None
        self._measured = 0
        self._sum = 0

    def of(self, messages: Sequence[LLMMessage]) -> int:
        """Return the sum; for a conversation that was measured before, only what is new is looked at.

        Args:
            messages: The messages.
        """
        if not isinstance(messages, Conversation):
            return sum(map(self._measure, messages))
        if messages is not self._conversation:
            self._conversation, self._measured, self._sum = messages, 0, 0
        for index in range(self._measured, len(messages)):
            self._sum += self._measure(messages[index])
        self._measured = len(messages)
        return self._sum


class RequestMeter:
    """Measures the most tokens that the requests of one run can come to."""

    def __init__(self) -> None:
        self._messages = GrowingSum(most_tokens)
        self._tools: Sequence[LLMToolDef] = ()
        self._tool_tokens = 0

    def most_tokens(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> int:
        """Return the most tokens that a request can come to.

        Args:
            messages: The conversation that is sent.
            options: Everything else about the call.
        """
        told = most_tokens_of_text(options.system_prompt) + most_tokens_of_json(options.output_schema)
        extra = most_tokens_of_json(options.extra_body)
        return _REQUEST_OVERHEAD + told + extra + self._of_tools(options.tools) + self._messages.of(messages)

    def _of_tools(self, tools: Sequence[LLMToolDef]) -> int:
        if tools is not self._tools:
            self._tools, self._tool_tokens = tools, sum(map(_of_tool, tools))
        return self._tool_tokens


def _of_tool(tool: LLMToolDef) -> int:
    named = most_tokens_of_text(tool.name) + most_tokens_of_text(tool.description)
    return named + most_tokens_of_json(tool.input_schema)

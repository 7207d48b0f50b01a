"""When a run has to wrap up: does one more turn fit, and after it the last one?

What the coming turns will use is estimated, so the last turn may come a little early, or too late; then the run ends
as it does without one. Invariant: nothing is estimated for an agent that does not wrap up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from .._record import record
from ..adapters import LLMChatOptions
from ..budget import HARD_MAX_TOKENS, BudgetScope, CostEstimateContext, Remaining
from ..messages import LLMMessage, Role, ToolResultBlock, estimate_message_chars, most_tokens, most_tokens_of_text
from ..usage import TokenUsage
from ._config import AgentConfig
from ._meter import GrowingSum, RequestMeter
from ._wrap_up import WrapUp

__all__ = ["Landing", "LastTurn"]

_CHARS_PER_TOKEN = 4


@record
class LastTurn:
    """The turn that a run ends with."""

    reason: Literal["max_turns", "budget"]
    """Which kind of limit was near."""
    settings: WrapUp

    def options(self, options: LLMChatOptions) -> LLMChatOptions:
        """Return the options of this turn: those of the others, without tools and long thoughts.

        Args:
            options: The options of the others.
        """
        most = self.settings.reserve_tokens
        most = most if options.max_tokens is None else min(most, options.max_tokens)
        return replace(options, tools=(), tool_choice=None, parallel_tool_calls=None, thinking=None, max_tokens=most)


class Landing:
    """Watches the turns of one run.

    Args:
        config: The agent.
        settings: What its last turn is like.
        scope: What the run is charged to.
        meter: Measures the run's requests.
    """

    def __init__(self, config: AgentConfig, settings: WrapUp, scope: BudgetScope, meter: RequestMeter) -> None:
        self._max_turns = config.max_turns
        self._max_tokens = config.max_tokens
        self._settings = settings
        self._scope = scope
        self._meter = meter
        self._told = most_tokens_of_text(settings.instruction)
        self._chars = GrowingSum(estimate_message_chars)
        self._context: CostEstimateContext | None = None
        self._is_known = True
        self._size = 0
        """About how many tokens the conversation has."""
        self._most = 0
        """How many a request of it can have at the most, in hard mode."""
        self._answer = 0
        """How many the largest answer so far had."""

    def observe(
        self,
        messages: Sequence[LLMMessage],
        options: LLMChatOptions,
        answer: LLMMessage,
        usage: TokenUsage | None,
        context: CostEstimateContext,
    ) -> None:
        """Take note of a turn's model call.

        Args:
            messages: What was sent.
            options: Everything else about the call.
            answer: The answer.
            usage: What it used, if that is known.
            context: What the call was, for the price of the next one.
        """
        self._context, self._is_known = context, usage is not None
        if usage is None:
            written = estimate_message_chars(answer) // _CHARS_PER_TOKEN
            self._size = self._chars.of(messages) // _CHARS_PER_TOKEN + written
        else:
            written, self._size = usage.output_tokens, usage.total_tokens
        self._answer = max(self._answer, written)
        if self._scope.reserves:
            self._most = self._meter.most_tokens(messages, options) + most_tokens(answer)

    async def due(self, turns: int, results: Sequence[ToolResultBlock]) -> LastTurn | None:
        """Return the last turn when it has to come now; None when a further one fits before it, or not even itself.

        Args:
            turns: How many there have been.
            results: What the tools of this turn came to.
        """
        left, turns_left = self._scope.remaining(), self._max_turns - turns
        if turns_left < 1 or 0 in (left.tokens, left.cost, left.requests, left.seconds):
            return None
        if turns_left == 1:
            return LastTurn("max_turns", self._settings)
        is_near = left.requests == 1 or left.tool_calls == 0
        if is_near or await self._is_short(left, LLMMessage.new(Role.USER, list(results))):
            return LastTurn("budget", self._settings)
        return None

    async def _is_short(self, left: Remaining, results: LLMMessage) -> bool:
        if left.tokens is None and left.cost is None:
            return False
        came = estimate_message_chars(results) // _CHARS_PER_TOKEN
        size, grown = self._size + came, self._answer + came
        normal = TokenUsage(input_tokens=size, output_tokens=self._answer)
        last = TokenUsage(input_tokens=size + grown + self._told, output_tokens=self._settings.reserve_tokens)
        if self._scope.reserves:
            # A call is let pass for the most that it may use, and charged with that when its usage stays unknown.
            most = self._most + most_tokens(results)
            held = TokenUsage(input_tokens=most, output_tokens=self._max_tokens or 1)
            if await self._exceeds(left, held):
                return True
            if not self._is_known:
                normal = replace(held, output_tokens=self._max_tokens or HARD_MAX_TOKENS)
            last = replace(last, input_tokens=most + grown * _CHARS_PER_TOKEN + self._told)
        return await self._exceeds(left, normal, last)

    async def _exceeds(self, left: Remaining, *calls: TokenUsage) -> bool:
        if left.tokens is not None and sum(call.total_tokens for call in calls) > left.tokens:
            return True
        if left.cost is None or self._context is None:
            return False
        cost = 0.0
        for call in calls:
            price = self._scope.price(call, self._context)
            cost += price if isinstance(price, float) else await price
        return cost > left.cost

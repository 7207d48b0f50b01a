"""Summaries in the place of older exchanges.

A summary covers everything up to a position and is kept for the run: as long as the rest fits, no further one is
written, and the next one is made of it and of what has come since. So each message is summed up once. Invariant: a
failing summary never fails a run; a used-up budget does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._log import get_logger
from ...errors import CostBudgetExceededError, LimitExceededError, TokenBudgetExceededError
from ...messages import LLMMessage, TextBlock
from ._compact import CompactStep
from ._specs import Compact, Summarize
from ._steps import AskModel, Outgoing, with_note
from ._transcript import SUMMARY_PROMPT, summary_note, summary_request
from ._working_copy import WorkingCopy

__all__ = ["SummarizeStep"]

_log = get_logger(__name__)

_KEPT_SHARE = 2
"""Of the room that the limit leaves, one in so many parts is for the newest turns: the rest is for what will come."""
_MOST_DOUBLINGS = 6


class SummarizeStep:
    """Sends the head, a summary, and the newest turns.

    Args:
        strategy: The specification.
        agent: Name of the agent, for the log.
    """

    def __init__(self, strategy: Summarize, agent: str) -> None:
        self._strategy = strategy
        self._agent = agent
        self._compact = CompactStep(Compact(strategy.limit))
        self._summary: str | None = None
        self._note = ""
        self._note_size = 0
        self._covered = 0
        self._failures = 0
        self._wait_until = 0

    async def outgoing(self, view: WorkingCopy, ask: AskModel) -> Outgoing | None:
        """Return what to send; asks for a summary when that is over the limit and there is something to sum up.

        Args:
            view: The working copy.
            ask: Makes the call for the summary.

        Raises:
            TokenBudgetExceededError: A token limit has been reached.
            CostBudgetExceededError: The same for cost.
            LimitExceededError: The same for model calls and time.
        """
        sent = self._current(view)
        size = view.total if sent is None or sent.size is None else sent.size
        if view.whole(size) <= self._strategy.limit:
            return sent
        start, end = max(self._covered, view.lead), self._border(view)
        old = [position for position in range(start, end) if position not in (view.first_user, view.task)]
        # What is no larger than the summary itself is not worth another call.
        if not old or sum(view.sizes[position] for position in old) < self._note_size:
            return sent
        if len(view.messages) < self._wait_until or not await self._sum_up(view, ask, old):
            self._compact.shorten(view, start)
        else:
            self._covered = end
        return self._current(view)

    def _current(self, view: WorkingCopy) -> Outgoing | None:
        if self._summary is None:
            return None
        head, task = view.kept(self._covered)
        tail = [*task, *range(self._covered, len(view.messages))]
        size = self._note_size + sum(view.sizes[position] for position in (*head, *tail))
        return Outgoing(with_note(view, head, tail, self._note), size)

    def _border(self, view: WorkingCopy) -> int:
        """Return the position that the newest turns begin at: as many as fit, and the newest in any case."""
        room = view.room(self._strategy.limit) // _KEPT_SHARE
        turn = len(view.turns) - 1
        kept = sum(view.sizes[view.turns[turn] :])
        while turn > 0:
            kept += sum(view.sizes[view.turns[turn - 1] : view.turns[turn]])
            if kept > room:
                break
            turn -= 1
        return view.turns[turn]

    async def _sum_up(self, view: WorkingCopy, ask: AskModel, old: Sequence[int]) -> bool:
        messages = [view.messages[position] for position in old]
        try:
            response = await ask(
                [summary_request(messages, self._summary)],
                system_prompt=SUMMARY_PROMPT,
                max_tokens=self._strategy.summary_max_tokens,
                model=self._strategy.summary_model,
            )
            texts = [block.text for block in response.content if isinstance(block, TextBlock)]
        except (TokenBudgetExceededError, CostBudgetExceededError, LimitExceededError):
            raise
        except Exception as error:  # noqa: BLE001 - isolation boundary: the run can go on without a summary
            self._failures += 1
            # Twice as long after each failure, so that a model that is down is not asked at every turn.
            self._wait_until = len(view.messages) + 2 ** min(self._failures, _MOST_DOUBLINGS)
            _log.warning("summary_failed", agent=self._agent, error=type(error).__name__, failures=self._failures)
            return False
        self._summary, self._failures = "".join(texts).strip(), 0
        self._note = summary_note(self._summary)
        self._note_size = view.size_of(LLMMessage.user(self._note))
        return True

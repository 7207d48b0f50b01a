"""What a run has of its context strategy: one object, from its first model call to its last."""

from __future__ import annotations

from collections.abc import Sequence

from ...messages import Conversation, LLMMessage
from ...usage import TokenUsage
from ._compact import CompactStep
from ._custom import CustomStep
from ._shorten import Sweep, compressed
from ._specs import Compact, ContextStrategy, CustomContext, SlidingWindow, Summarize, ToolResultCompression
from ._steps import AskModel, ContextStep
from ._summarize import SummarizeStep
from ._window import WindowStep
from ._working_copy import WorkingCopy

__all__ = ["ContextManager", "open_context"]


class ContextManager:
    """Decides for each model call of one run what it sends; ``open_context`` makes it.

    Args:
        view: The working copy.
        step: The strategy, if there is one.
        compression: Of tool results, if they are compressed.
    """

    def __init__(self, view: WorkingCopy, step: ContextStep | None, compression: ToolResultCompression | None) -> None:
        self._view = view
        self._step = step
        self._compression = None if compression is None else Sweep(compressed(compression))
        self._sent_size: int | None = None

    async def prepare(self, conversation: Conversation, ask: AskModel) -> Sequence[LLMMessage]:
        """Return what the next model call sends.

        The result shares messages with the conversation: it is to be read, never changed.

        Args:
            conversation: The run's conversation, the same at each call; it is not changed.
            ask: Makes a model call, for strategies that need one.

        Raises:
            RunError: A user's function returned something that cannot be used, or a budget is used up.
        """
        view = self._view
        view.sync(conversation)
        if self._compression is not None:
            self._compression.up_to(view, view.answered)
        sent = None if self._step is None else await self._step.outgoing(view, ask)
        if sent is not None:
            self._sent_size = sent.size
            return sent.messages
        self._sent_size = view.total
        # A list of its own: what a call was sent must not change when the working copy does.
        return list(view.messages) if view.changed else conversation

    def report(self, usage: TokenUsage | None) -> None:
        """Learn from the usage of the call that was prepared last.

        Args:
            usage: What the provider reported, if anything.
        """
        if self._sent_size is not None:
            self._view.calibrate(self._sent_size, usage)


def open_context(
    strategy: ContextStrategy | None, compression: ToolResultCompression | None, *, agent: str
) -> ContextManager | None:
    """Return what a run needs for its context strategy, or None when it sends its conversation as it is.

    Args:
        strategy: The agent's strategy.
        compression: The agent's compression of tool results.
        agent: Name of the agent, for errors and the log.
    """
    if strategy is None and compression is None:
        return None
    view = WorkingCopy(getattr(strategy, "count_tokens", None))
    return ContextManager(view, _step(strategy, agent), compression)


def _step(strategy: ContextStrategy | None, agent: str) -> ContextStep | None:
    if isinstance(strategy, SlidingWindow):
        return WindowStep(strategy)
    if isinstance(strategy, Summarize):
        return SummarizeStep(strategy, agent)
    if isinstance(strategy, Compact):
        return CompactStep(strategy)
    return CustomStep(strategy, agent) if isinstance(strategy, CustomContext) else None

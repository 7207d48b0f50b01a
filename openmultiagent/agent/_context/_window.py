"""The sliding window."""

from __future__ import annotations

from ._specs import SlidingWindow
from ._steps import AskModel, Outgoing, with_note
from ._working_copy import WorkingCopy

__all__ = ["WindowStep"]


class WindowStep:
    """Leaves out all but the newest turns; looks at those only.

    Args:
        strategy: The specification.
    """

    def __init__(self, strategy: SlidingWindow) -> None:
        self._wanted = 2 * strategy.max_turns

    async def outgoing(self, view: WorkingCopy, ask: AskModel) -> Outgoing | None:  # noqa: ARG002 - the protocol
        """Return the head, the run's prompt and the newest turns.

        Args:
            view: The working copy.
            ask: Not needed.
        """
        length = len(view.messages)
        turn = len(view.turns)
        cut = length
        while turn and length - cut < self._wanted:
            turn -= 1
            cut = view.turns[turn]
        head, task = view.kept(cut)
        if cut <= len(head) + len(task):
            return None
        dropped = max(1, turn - len(head) - len(task))
        note = f"[{dropped} earlier {'turn' if dropped == 1 else 'turns'} truncated]"
        return Outgoing(with_note(view, head, [*task, *range(cut, length)], note))

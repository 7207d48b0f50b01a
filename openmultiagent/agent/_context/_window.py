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
        """Return the head and the newest turns.

        Args:
            view: The working copy.
            ask: Not needed.
        """
        length = len(view.messages)
        if length - view.head_end <= self._wanted:
            return None
        turn = len(view.turns) - 1
        while length - view.turns[turn] < self._wanted:
            turn -= 1
        cut = view.turns[turn]
        if cut <= view.head_end:
            return None
        # What the run is about must not slide out of it while its tools are at work.
        task = [] if view.task is None or not view.head_end <= view.task < cut else [view.task]
        kept = (view.first_user is not None) + len(task)
        if cut - view.lead == kept:
            return None
        dropped = max(1, turn - view.lead - kept)
        positions = [*task, *range(cut, length)]
        note = f"[{dropped} earlier {'turn' if dropped == 1 else 'turns'} truncated]"
        tail = [view.messages[position] for position in positions]
        return Outgoing(with_note(view.head, tail, note))

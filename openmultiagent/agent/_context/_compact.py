"""Compaction and compression: shorter messages in place of old ones, without a model."""

from __future__ import annotations

from ...messages import Role
from ._shorten import Sweep, compacted
from ._specs import Compact
from ._steps import AskModel, Outgoing
from ._working_copy import WorkingCopy

__all__ = ["CompactStep"]


class CompactStep:
    """Shortens what is older than the newest turns, each message once.

    Args:
        strategy: The specification.
    """

    def __init__(self, strategy: Compact) -> None:
        self._strategy = strategy
        self._sweep = Sweep(compacted(strategy))

    async def outgoing(self, view: WorkingCopy, ask: AskModel) -> Outgoing | None:  # noqa: ARG002 - the protocol
        """Shorten old messages when the working copy is over the limit; nothing is ever left out.

        Args:
            view: The working copy.
            ask: Not needed.
        """
        if view.whole(view.total) > self._strategy.limit:
            self.shorten(view, view.lead)
        return None

    def shorten(self, view: WorkingCopy, start: int) -> None:
        """Shorten the messages between a position and the newest turns, but what every strategy keeps.

        Args:
            view: The working copy.
            start: The first position that may be touched.
        """
        floor = max(start, self._sweep.position)
        border = self._border(view, floor)
        first, task = view.kept(border)
        self._sweep.up_to(view, border, start=start, keep={*first, *task})

    def _border(self, view: WorkingCopy, floor: int) -> int:
        """Return the position that the newest turns begin at; looks at nothing before the floor."""
        # What the model has not read yet stays, however few turns are to be preserved.
        border = view.answered
        pairs = self._strategy.preserve_recent_turns
        position = len(view.messages) - 1
        while pairs and position > floor:
            reply, turn = view.messages[position], view.messages[position - 1]
            position -= 1
            if turn.role == Role.ASSISTANT and reply.role in (Role.USER, Role.TOOL):
                border, pairs = min(border, position), pairs - 1
        return border if not pairs else floor

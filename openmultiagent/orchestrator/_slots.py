"""The agents that a run may have at work at the same time.

Nobody waits here: a task is started only when a slot is free, and an agent that delegates either gets one or is told
that there is none. So no agent ever waits for a slot that its own ancestors hold.
"""

from __future__ import annotations

__all__ = ["Slots"]


class Slots:
    """A counted number of places.

    Args:
        limit: How many there are.
    """

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        """How many are in use."""

    @property
    def is_free(self) -> bool:
        """Whether another one may be taken."""
        return self.taken < self.limit

    def take(self) -> bool:
        """Take a slot, and say whether there was one."""
        if self.taken >= self.limit:
            return False
        self.taken += 1
        return True

    def release(self) -> None:
        """Give a slot back."""
        self.taken -= 1

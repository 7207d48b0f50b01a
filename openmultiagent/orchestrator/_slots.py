"""The agents that a run may have at work at the same time.

Nobody waits here: a task is started only when a slot is free. An agent that delegates lends its own slot, since it
waits for the answer; only for further agents at the same time it needs free ones, and is told when there are none. So
no agent ever waits for a slot that its own ancestors hold, and one slot is enough for any chain.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OwnSlot", "Slots"]


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


class OwnSlot:
    """The slot of one agent at work, which it may lend.

    Args:
        slots: Where others are.
    """

    __slots__ = ("_is_lent", "_slots")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._is_lent = False

    def lend(self) -> Callable[[], None] | None:
        """Return what gives a slot back that somebody else may use now: this one, else a free one; None without any."""
        if not self._is_lent:
            self._is_lent = True
            return self._take_back
        return self._slots.release if self._slots.take() else None

    def _take_back(self) -> None:
        self._is_lent = False

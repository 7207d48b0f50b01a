"""Which calls may run, and which at the same time: caps per tool, and calls that run alone.

Not here: how many calls run at once (the executor's slots). Invariants: what is decided about the calls of one turn
depends on their order alone, never on which of them got a head start; a call that does not run counts for nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count

import anyio
from anyio.lowlevel import checkpoint

from ._tool import Tool

__all__ = ["CallCaps", "CallLine"]

_LAST = sys.maxsize
"""Place of a call that belongs to no turn."""


class CallCaps:
    """Counts the calls of tools that have a ``max_calls``."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._reserved: dict[str, str] = {}
        self._refused: set[str] = set()

    def reserve(self, calls: Iterable[tuple[str, Tool]]) -> None:
        """Admit or refuse the calls of a turn, in their order; what an earlier turn did not use is free again.

        Args:
            calls: The id of each call, and its tool.
        """
        self._used.subtract(self._reserved.values())
        self._reserved, self._refused = {}, set()
        for call_id, tool in calls:
            if tool.max_calls is None:
                continue
            if self._used[tool.name] < tool.max_calls:
                self._used[tool.name] += 1
                self._reserved[call_id] = tool.name
            else:
                self._refused.add(call_id)

    def take(self, call_id: str, tool: Tool) -> bool:
        """Count a call that is about to run; False if it must not.

        Args:
            call_id: Its id; a call that is made again with the same id counts again.
            tool: Its tool.
        """
        if tool.max_calls is None:
            return True
        if self._reserved.pop(call_id, None) is not None:
            return True
        if call_id in self._refused or self._used[tool.name] >= tool.max_calls:
            return False
        self._used[tool.name] += 1
        return True

    def give_back(self, tool: Tool) -> None:
        """Take back the count of a call that did not run after all.

        Args:
            tool: Its tool.
        """
        if tool.max_calls is not None:
            self._used[tool.name] -= 1


class _Waiter:
    __slots__ = ("exclusive", "gone", "turn")

    def __init__(self, *, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.turn = anyio.Event()
        self.gone = False


class CallLine:
    """Lets shared calls run together and an exclusive one alone, in the order of their places.

    Whoever was let in has to ``leave``. A shared call that comes after a waiting exclusive one waits, too, so that
    nobody waits for ever.
    """

    def __init__(self) -> None:
        self._running = 0
        self._alone = False
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._arrivals = count()

    def enter_nowait(self, *, exclusive: bool, ordered: bool) -> bool:
        """Let a call in if nobody is in its way; say whether it is in.

        Args:
            exclusive: Whether it runs alone.
            ordered: Whether calls that come at the same moment have to go in by their places.
        """
        if exclusive or ordered or self._alone or self._waiting:
            return False
        self._running += 1
        return True

    async def enter(self, place: int | None, *, exclusive: bool) -> None:
        """Wait until a call is let in.

        Args:
            place: Position of the call in its turn; None is after all that have one.
            exclusive: Whether it runs alone.
        """
        waiter = _Waiter(exclusive=exclusive)
        heappush(self._waiting, (_LAST if place is None else place, next(self._arrivals), waiter))
        is_in = False
        try:
            await checkpoint()  # whoever comes at the same moment stands in line before the first one goes in
            self._let_in()
            await waiter.turn.wait()
            is_in = True
        finally:
            if not is_in:
                self._give_up(waiter)

    def leave(self) -> None:
        """Have a call that was let in leave."""
        self._running -= 1
        self._alone = False
        self._let_in()

    def _give_up(self, waiter: _Waiter) -> None:
        if waiter.turn.is_set():
            self.leave()
        else:
            waiter.gone = True
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            waiter = self._waiting[0][2]
            if waiter.gone:
                heappop(self._waiting)
                continue
            if self._alone or (waiter.exclusive and self._running):
                return
            heappop(self._waiting)
            self._running += 1
            self._alone = waiter.exclusive
            waiter.turn.set()

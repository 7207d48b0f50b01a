"""How much may be judged: sums over rolling windows, and log lines that do not repeat themselves.

Nothing here takes more memory the longer it runs.
"""

from __future__ import annotations

import time
from collections import deque

from .._log import LazyLogger

__all__ = ["RareLog", "RollingSum"]

_PARTS = 60
"""What is added within the same part of a window leaves it together, with the last of it."""

_LOG_INTERVAL = 60.0
"""Seconds between two lines about the same kind of trouble."""


class RollingSum:
    """The sum of what was added within the last seconds.

    Args:
        window: How many seconds.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._parts: deque[tuple[float, float]] = deque()
        self._total = 0.0

    def add(self, amount: float) -> None:
        """Add something now.

        Args:
            amount: How much.
        """
        now = time.monotonic()
        if self._parts and now - self._parts[-1][0] < self._window / _PARTS:
            since, before = self._parts.pop()
            self._parts.append((since, before + amount))
        else:
            self._parts.append((now, amount))
        self._total += amount

    @property
    def total(self) -> float:
        """The sum now; an amount counts at most one sixtieth of the window longer than the window."""
        oldest = time.monotonic() - self._window * (1 + 1 / _PARTS)
        while self._parts and self._parts[0][0] <= oldest:
            self._total -= self._parts.popleft()[1]
        if not self._parts:
            self._total = 0.0  # no rounding errors from hours ago
        return self._total


class RareLog:
    """Warnings, at most one a minute of each kind, with the number of times since the last one.

    Args:
        log: Where they go.
    """

    def __init__(self, log: LazyLogger) -> None:
        self._log = log
        self._kinds: dict[str, tuple[float, int]] = {}

    def warning(self, event: str, *, reason: str = "", **fields: object) -> None:
        """Write a line, or only count.

        Args:
            event: Name of the line.
            reason: Tells lines of the same name apart; one of a few.
            fields: Further ones.
        """
        now = time.monotonic()
        key = f"{event} {reason}"
        last, missed = self._kinds.get(key, (-_LOG_INTERVAL, 0))
        if now - last < _LOG_INTERVAL:
            self._kinds[key] = (last, missed + 1)
            return
        self._kinds[key] = (now, 0)
        if reason:
            fields["reason"] = reason
        self._log.warning(event, **fields, count=missed + 1)

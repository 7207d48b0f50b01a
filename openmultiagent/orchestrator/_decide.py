"""What a run of tasks does next: a pure function of how it stands.

Not here: doing it. Invariant: what stops a run wins over what could be started, and what is at work is always waited
for, so that no task is left open.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..outcome import ErrorInfo, StatusCode

__all__ = ["Action", "Standing", "Stop", "next_action"]

Action = Literal["start", "wait", "finish"]
"""Start the most urgent task that is ready; wait for something to change; skip what is left and end."""


class Stop(NamedTuple):
    """Why no more tasks are started."""

    status: StatusCode
    """What the run comes to for it."""
    reason: str
    """What the tasks say that are left out for it."""
    error_info: ErrorInfo | None = None
    error: BaseException | None = None


class Standing(NamedTuple):
    """How a run of tasks stands."""

    stop: Stop | None
    ready: int
    """Tasks that could be started."""
    at_work: int
    """Tasks that are being worked on."""
    is_slot_free: bool


def next_action(standing: Standing) -> Action:
    """Return what to do next.

    Args:
        standing: How the run stands.
    """
    if standing.stop is None and standing.ready and standing.is_slot_free:
        return "start"
    return "wait" if standing.at_work else "finish"  # with nobody at work all slots are free

"""What an orchestrator is doing, and has done, as numbers."""

from __future__ import annotations

import threading
from contextvars import Token
from typing import Any

from .._detached import Signal
from .._log import RunSource, current_run
from .._record import record
from ..outcome import AgentRunResult

__all__ = ["Activity", "OrchestratorStatus"]


@record(kw_only=True)
class OrchestratorStatus:
    """What ``OpenMultiAgent.get_status`` saw at one moment."""

    teams: int
    """Teams that ``create_team`` keeps."""
    active_agents: int
    """Runs of agents that are going on: single agents, coordinators, workers, and those that were delegated to."""
    completed_tasks: int
    """Single agents that succeeded, and completed tasks of runs of teams, tasks and plans, each when its run ended."""


class Activity:
    """Counts the runs of one orchestrator, in whatever threads they go on."""

    __slots__ = ("_changed", "_lock", "completed", "running", "runs")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = Signal()
        self.runs: dict[RunSource, Token[RunSource | None]] = {}
        """The runs of entry points: what tells the ids of each, and what entering that returned, which knows the run
        around it. Whoever begins one puts it in."""
        self.running: set[object] = set()
        """The agents at work: whoever runs one puts in something of its own, and takes it out at the end."""
        self.completed = 0

    def end(self, source: RunSource) -> None:
        """Note that the run of an entry point has ended.

        Args:
            source: Its key in ``runs``.
        """
        self.runs.pop(source, None)
        self._changed.notify()

    def others(self) -> int:
        """Return how many runs are going on, on whatever event loop, without those that the caller is a part of."""
        own, source = 0, current_run()
        while source is not None and (token := self.runs.get(source)) is not None:
            own += 1
            outer = token.old_value
            source = None if outer is Token.MISSING else outer
        return len(self.runs) - own

    async def settled(self) -> None:
        """Wait until no run is going on but those that the caller is a part of, which would wait for itself."""
        await self._changed.until(lambda: self.others() == 0)

    def count(self, result: Any) -> None:
        """Add what the run of an entry point has completed.

        Args:
            result: What the run came to, an ``AgentRunResult`` or a ``TeamRunResult``.
        """
        if isinstance(result, AgentRunResult):
            completed = 1 if result.success else 0
        else:
            completed = sum(task.status == "completed" for task in result.tasks)
        with self._lock:
            self.completed += completed

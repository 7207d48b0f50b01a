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

    __slots__ = ("_awaited", "_changed", "_lock", "completed", "running", "runs")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = Signal()
        self._awaited: dict[object, set[RunSource]] = {}
        """What those who wait for runs wait for; a run leaves each when it ends."""
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
        if self._awaited:
            for awaited in list(self._awaited.values()):
                awaited.discard(source)
            self._changed.notify()

    def others(self) -> set[RunSource]:
        """Return the runs that are going on, on whatever event loop, without those that the caller is a part of."""
        others, source = set(self.runs), current_run()
        while source is not None and (token := self.runs.get(source)) is not None:
            others.discard(source)
            outer = token.old_value
            source = None if outer is Token.MISSING else outer
        return others

    async def settled(self, awaited: set[RunSource]) -> None:
        """Wait until runs have ended.

        Args:
            awaited: Some of ``runs``; whoever has ended is taken out.
        """
        key = object()
        self._awaited[key] = awaited
        try:
            # One that has ended on another thread before this began is not taken out otherwise.
            awaited.difference_update([source for source in list(awaited) if source not in self.runs])
            await self._changed.until(lambda: not awaited)
        finally:
            del self._awaited[key]

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

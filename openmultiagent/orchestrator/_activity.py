"""What an orchestrator is doing, and has done, as numbers."""

from __future__ import annotations

import threading

from .._record import record
from ..outcome import AgentRunResult
from ..tasks import TeamRunResult

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

    __slots__ = ("_lock", "completed", "running")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: set[object] = set()
        """The agents at work: whoever runs one puts in something of its own, and takes it out at the end."""
        self.completed = 0

    def count(self, result: object) -> None:
        """Add what the run of an entry point has completed.

        Args:
            result: What the run came to.
        """
        if isinstance(result, TeamRunResult):
            completed = sum(task.status == "completed" for task in result.tasks)
        else:
            completed = int(isinstance(result, AgentRunResult) and result.success)
        with self._lock:
            self.completed += completed

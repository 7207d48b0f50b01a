"""What a call of ``run_team`` comes to once it is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._record import record
from ..agent import AgentConfig
from ..errors import ConfigurationError
from ..tasks import Task, TaskInput
from ._plan import CoordinatorConfig
from ._routing import ExecutionRouter, ExecutionRoutingConfig, RoutingDecision

__all__ = ["GoalSetup"]


@record(kw_only=True)
class GoalSetup:
    """What a call of ``run_team`` says, checked."""

    goal: str | TaskInput
    settled: RoutingDecision | None
    """Who works, where nothing is left to decide."""
    plan_only: bool
    coordinator: CoordinatorConfig
    missing_model: ConfigurationError | None
    """Why the coordinator cannot be asked."""
    router: ExecutionRouter | None
    routing: ExecutionRoutingConfig
    strict_assignees: bool
    complete: Callable[[AgentConfig], AgentConfig]
    """Gives an agent the orchestrator's defaults."""
    check: Callable[[list[Task], dict[str, AgentConfig]], tuple[list[Task], list[dict[str, Any]]]]
    """Returns the tasks that the agents can do, or raises."""

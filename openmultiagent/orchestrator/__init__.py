"""The orchestrator: the entry points, and everything around a run."""

from ..agent import AgentFinished, AgentStarted, BudgetExceeded
from ..tasks import PlanArtifact, TaskEvent
from ._activity import OrchestratorStatus
from ._event_stream import EventStream
from ._facade import OpenMultiAgent
from ._plan import CoordinatorConfig
from ._routing import (
    DeterministicRouter,
    ExecutionRouter,
    ExecutionRoutingConfig,
    LLMTaskProfiler,
    RosterSummaryEntry,
    RoutingAssessment,
    RoutingBudget,
    RoutingContext,
    RoutingDecision,
    TaskProfile,
    TaskProfiler,
    TaskProfilerResult,
)
from ._team_entry import TasksOptions, TeamOptions
from ._team_settings import TeamSettings
from ._team_stream import TeamDone, TeamStream

__all__ = [
    "CoordinatorConfig",
    "DeterministicRouter",
    "EventStream",
    "ExecutionRouter",
    "ExecutionRoutingConfig",
    "LLMTaskProfiler",
    "OpenMultiAgent",
    "OrchestratorStatus",
    "PlanArtifact",
    "ProgressEvent",
    "RosterSummaryEntry",
    "RoutingAssessment",
    "RoutingBudget",
    "RoutingContext",
    "RoutingDecision",
    "TaskProfile",
    "TaskProfiler",
    "TaskProfilerResult",
    "TasksOptions",
    "TeamDone",
    "TeamOptions",
    "TeamSettings",
    "TeamStream",
]

ProgressEvent = AgentStarted | AgentFinished | BudgetExceeded | TaskEvent
"""Every kind of progress event."""

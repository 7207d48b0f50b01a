"""The orchestrator: the entry points, and everything around a run."""

from ..agent import AgentFinished, AgentStarted, BudgetExceeded
from ..tasks import PlanArtifact
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

__all__ = [
    "CoordinatorConfig",
    "DeterministicRouter",
    "EventStream",
    "ExecutionRouter",
    "ExecutionRoutingConfig",
    "LLMTaskProfiler",
    "OpenMultiAgent",
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
]

ProgressEvent = AgentStarted | AgentFinished | BudgetExceeded
"""Every kind of progress event."""

"""The orchestrator: the entry points, and everything around a run."""

from ..agent import AgentFinished, AgentStarted, BudgetExceeded
from ._event_stream import EventStream
from ._facade import OpenMultiAgent

__all__ = ["EventStream", "OpenMultiAgent", "ProgressEvent"]

ProgressEvent = AgentStarted | AgentFinished | BudgetExceeded
"""Every kind of progress event."""

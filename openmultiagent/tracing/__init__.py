"""Tracing: OpenTelemetry spans and metrics by the conventions for generative AI, and the ids of runs in log lines.

The store of spans in a SQLite file is ``openmultiagent.tracing.sqlite``: it needs the OpenTelemetry SDK, which is not
loaded here.
"""

from ._content import TraceContent
from ._logs import add_run_ids
from ._spans import OpenSpan, Tracing, TracingSteps
from ._workflow import TracedTask

__all__ = ["OpenSpan", "TraceContent", "TracedTask", "Tracing", "TracingSteps", "add_run_ids"]

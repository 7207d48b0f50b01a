"""Tracing: OpenTelemetry spans and metrics by the conventions for generative AI, and the ids of runs in log lines.

The store of spans in a SQLite file is ``openmultiagent.tracing.sqlite``: it needs the OpenTelemetry SDK, which is not
loaded here.
"""

from ._content import TraceContent
from ._logs import add_run_ids
from ._spans import Tracing, TracingSteps

__all__ = ["TraceContent", "Tracing", "TracingSteps", "add_run_ids"]

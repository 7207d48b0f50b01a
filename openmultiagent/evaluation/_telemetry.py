"""Results of evaluations as OpenTelemetry events, ``gen_ai.evaluation.result``.

They are log records with an event name, the form that OpenTelemetry gives events (events on spans are deprecated, and
the run's span has ended before its run is judged). Each belongs to the span of its run, when that was recorded.
Invariant: no provider is ever set here.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry._logs import Logger, LoggerProvider, get_logger
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from .._version import __version__
from ..identity import RunIdentity
from ._records import EvalRecord

__all__ = ["EvaluationEvents"]

EVENT_NAME = "gen_ai.evaluation.result"
_NAME = "gen_ai.evaluation.name"
_SCORE = "gen_ai.evaluation.score.value"
_LABEL = "gen_ai.evaluation.score.label"
_EXPLANATION = "gen_ai.evaluation.explanation"
_ERROR_TYPE = "error.type"
_RUN_ID = "openmultiagent.run.id"
_VERSION = "openmultiagent.evaluation.version"


class EvaluationEvents:
    """Emits one event for each scorer's verdict.

    Args:
        logger_provider: Where they go; OpenTelemetry's global provider unless given.
    """

    def __init__(self, logger_provider: LoggerProvider | None = None) -> None:
        self._provider = logger_provider
        self._logger: Logger | None = None

    def emit(self, record: EvalRecord, *, is_recorded: bool) -> None:
        """Emit a verdict.

        Args:
            record: The verdict.
            is_recorded: Whether the ids in its identity are those of a recorded span.
        """
        if self._logger is None:
            self._logger = get_logger("openmultiagent", __version__, self._provider)
        attributes: dict[str, str | float] = {_NAME: record.scorer, _RUN_ID: record.identity.run_id}
        if record.scorer_version is not None:
            attributes[_VERSION] = record.scorer_version
        if record.score is not None:
            attributes[_SCORE] = record.score
        if record.passed is not None:
            attributes[_LABEL] = "pass" if record.passed else "fail"
        if record.reason is not None:
            attributes[_EXPLANATION] = record.reason
        if record.error is not None:
            attributes[_ERROR_TYPE] = record.error.partition(":")[0]
        self._logger.emit(
            event_name=EVENT_NAME,
            timestamp=int(record.timestamp.timestamp() * 1e9),
            context=_span_of(record.identity) if is_recorded else _NO_SPAN,
            attributes=attributes,
        )


# An empty context would stand for the current one, whose span has nothing to do with the run.
_NO_SPAN = trace.set_span_in_context(trace.INVALID_SPAN, Context())


def _span_of(identity: RunIdentity) -> Context:
    context = SpanContext(
        int(identity.trace_id, 16), int(identity.root_span_id, 16), is_remote=False, trace_flags=TraceFlags(1)
    )
    return trace.set_span_in_context(NonRecordingSpan(context), Context())

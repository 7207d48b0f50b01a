"""Spans around a run, its model calls and its tool calls, through the OpenTelemetry API.

A span is opened and closed at the real moment and is current meanwhile, so that instrumented libraries nest below it
and the run nests below the caller's span. Invariants: no provider is ever set here; nothing is computed for a span
that is not recorded; the texts of prompts, answers, tools and exceptions never reach a span.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from .._version import __version__
from ..adapters import LLMResponse, ModelCall, ModelNext
from ..agent import RunCall, RunNext
from ..outcome import AgentRunResult
from ..tools import ToolCall, ToolNext, ToolResult
from . import _names as names

__all__ = ["Tracing"]

_SCHEMA_URL = f"https://opentelemetry.io/schemas/{names.SEMCONV_VERSION}"
_ERROR_STATUS = frozenset({"error", "timeout", "budget_exhausted"})
_REQUEST_ATTRIBUTES = (
    ("temperature", names.REQUEST_TEMPERATURE),
    ("top_p", names.REQUEST_TOP_P),
    ("top_k", names.REQUEST_TOP_K),
    ("max_tokens", names.REQUEST_MAX_TOKENS),
    ("seed", names.REQUEST_SEED),
    ("frequency_penalty", names.REQUEST_FREQUENCY_PENALTY),
    ("presence_penalty", names.REQUEST_PRESENCE_PENALTY),
)


class Tracing:
    """The tracing steps of the run, model and tool seams.

    Args:
        tracer_provider: Makes the tracer; OpenTelemetry's global one unless given.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._provider = tracer_provider
        self._tracer: Tracer | None = None

    @property
    def tracer(self) -> Tracer:
        """The tracer, made when it is first needed: a global provider may be set after the orchestrator was made."""
        if self._tracer is None:
            self._tracer = trace.get_tracer("openmultiagent", __version__, self._provider, schema_url=_SCHEMA_URL)
        return self._tracer

    async def run(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        """Put the span ``invoke_agent {name}`` around a run.

        Args:
            call: The run; the ids of the span are put into its ``trace_ids``.
            call_next: The rest of the run.
        """
        with self._span(f"invoke_agent {call.name}", SpanKind.INTERNAL) as span:
            if span.is_recording():
                context = span.get_span_context()
                call.trace_ids.set(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))
                span.set_attributes(_run_attributes(call))
            result = await call_next()
            if span.is_recording():
                _end_run(span, result)
            return result

    async def chat(self, call: ModelCall, call_next: ModelNext) -> LLMResponse:
        """Put the span ``chat {model}`` around a model call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        with self._span(f"chat {call.source_options.model}", SpanKind.CLIENT) as span:
            if span.is_recording():
                span.set_attributes(_request_attributes(call))
            response = await call_next(call)
            if span.is_recording():
                span.set_attributes(_response_attributes(response))
            return response

    async def execute_tool(self, call: ToolCall, call_next: ToolNext) -> ToolResult:
        """Put the span ``execute_tool {name}`` around a tool call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        with self._span(f"execute_tool {call.tool_name}", SpanKind.INTERNAL) as span:
            if span.is_recording():
                span.set_attributes(_tool_attributes(call))
            result = await call_next(call)
            if span.is_recording() and result.is_error:
                span.set_attribute(names.ERROR_TYPE, "tool_error")
                span.set_status(Status(StatusCode.ERROR))
            return result

    @contextmanager
    def _span(self, name: str, kind: SpanKind) -> Iterator[Span]:
        with self.tracer.start_as_current_span(
            name, kind=kind, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                if span.is_recording():
                    # The class only: an exception's text may hold a prompt or a key.
                    span.set_attribute(names.ERROR_TYPE, type(error).__name__)
                    if isinstance(error, Exception):
                        span.set_status(Status(StatusCode.ERROR))
                raise


def _run_attributes(call: RunCall) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        names.OPERATION_NAME: "invoke_agent",
        names.AGENT_NAME: call.name,
        names.RUN_ID: call.identity.run_id,
        names.RUN_ATTEMPT: call.identity.attempt,
    }
    if call.config is not None:
        optional = {names.AGENT_DESCRIPTION: call.config.description, names.REQUEST_MODEL: call.config.model}
        provider = call.config.provider if call.config.adapter is None else call.config.adapter.name
        optional[names.PROVIDER_NAME] = None if provider is None else provider_name(provider)
        attributes.update({key: value for key, value in optional.items() if value is not None})
    for key, value in (call.metadata or {}).items():
        attributes[names.METADATA_PREFIX + key] = value
    return attributes


def _end_run(span: Span, result: AgentRunResult[Any]) -> None:
    usage = result.token_usage
    span.set_attributes(
        {
            names.STATUS: result.status.code,
            names.STOP_REASON: result.stop_reason,
            names.TOTAL_INPUT: usage.input_tokens,
            names.TOTAL_OUTPUT: usage.output_tokens,
            names.UNKNOWN_CALLS: usage.unknown_calls,
        }
    )
    if result.status.code in _ERROR_STATUS:
        info = result.error_info
        cause = None if info is None else info.code or info.name or info.kind
        span.set_attribute(names.ERROR_TYPE, cause or result.status.code)
        span.set_status(Status(StatusCode.ERROR, f"openmultiagent.{result.status.code}"))


def _request_attributes(call: ModelCall) -> dict[str, Any]:
    options = call.source_options
    attributes: dict[str, Any] = {
        names.OPERATION_NAME: "chat",
        names.PROVIDER_NAME: provider_name(call.provider),
        names.REQUEST_MODEL: options.model,
        names.RUN_ID: call.run_id,
        names.AGENT_NAME: call.agent,
        names.TURN: call.turn,
    }
    for field, name in _REQUEST_ATTRIBUTES:
        value = getattr(options, field)
        if value is not None:
            attributes[name] = value
    if options.stop is not None:
        attributes[names.REQUEST_STOP] = list(options.stop)
    return attributes


def _response_attributes(response: LLMResponse) -> dict[str, Any]:
    attributes: dict[str, Any] = {names.RESPONSE_FINISH_REASONS: [response.stop_reason]}
    if response.id:
        attributes[names.RESPONSE_ID] = response.id
    if response.model:
        attributes[names.RESPONSE_MODEL] = response.model
    usage = response.usage
    if usage is not None:
        attributes[names.USAGE_INPUT] = usage.input_tokens
        attributes[names.USAGE_OUTPUT] = usage.output_tokens
        details = {
            names.USAGE_CACHE_READ: usage.cache_read_tokens,
            names.USAGE_CACHE_WRITE: usage.cache_write_tokens,
            names.USAGE_REASONING: usage.reasoning_tokens,
        }
        attributes.update({name: tokens for name, tokens in details.items() if tokens})
    return attributes


def _tool_attributes(call: ToolCall) -> dict[str, Any]:
    return {
        names.OPERATION_NAME: "execute_tool",
        names.TOOL_NAME: call.tool_name,
        names.TOOL_CALL_ID: call.tool_call_id,
        names.TOOL_TYPE: "function",
        names.RUN_ID: call.run_id,
        names.AGENT_NAME: call.agent,
        names.TURN: call.turn,
    }


def provider_name(provider: str) -> str:
    """Return the conventions' name of a provider.

    Args:
        provider: Its key here.
    """
    return names.PROVIDER_NAMES.get(provider, provider)

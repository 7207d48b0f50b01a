"""Spans around a run, its model calls and its tool calls, through the OpenTelemetry API.

A span is opened and closed at the real moment and is current meanwhile, so that instrumented libraries nest below it
and the run nests below the caller's span. Invariants: no provider is ever set here; nothing is computed for a span
that is not recorded; the texts of exceptions never reach a span, and those of prompts, answers and tools only as the
application's ``TraceContent`` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Token
from functools import partial
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    Link,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)
from typing_extensions import Unpack

from .._log import get_logger
from .._shown import shown
from .._version import __version__
from ..adapters import FallbackResponse, LLMResponse, ModelCall, ModelMiddleware, ModelNext
from ..agent import RunCall, RunMiddleware, RunNext
from ..errors import ConfigurationError
from ..identity import RunIdentity
from ..outcome import AgentRunResult
from ..redaction import redact_sensitive_object, redact_sensitive_text
from ..tools import ToolCall, ToolMiddleware, ToolNext, ToolResult
from . import _names as names
from ._content import ContentCapture, TraceContent
from ._failures import TOOL_ERROR, run_error_type
from ._first_chunk import FirstChunk
from ._metrics import Metrics
from ._providers import global_tracer_provider
from ._workflow import (
    ProfileOutcome,
    TracedTask,
    dependency_links,
    end_profile,
    end_task,
    plan_attributes,
    profile_attributes,
    task_attributes,
)

__all__ = ["OpenSpan", "Tracing", "TracingSteps"]

_log = get_logger(__name__)

_REQUEST_ATTRIBUTES = (
    ("temperature", names.REQUEST_TEMPERATURE),
    ("top_p", names.REQUEST_TOP_P),
    ("top_k", names.REQUEST_TOP_K),
    ("max_tokens", names.REQUEST_MAX_TOKENS),
    ("seed", names.REQUEST_SEED),
    ("frequency_penalty", names.REQUEST_FREQUENCY_PENALTY),
    ("presence_penalty", names.REQUEST_PRESENCE_PENALTY),
)


class TracingSteps(NamedTuple):
    """What stands around the runs, model calls and tool calls of one run, outermost first."""

    run: tuple[RunMiddleware, ...]
    model: tuple[ModelMiddleware, ...]
    tool: tuple[ToolMiddleware, ...]


_UNTRACED = TracingSteps((), (), ())


class Tracing:
    """The tracing steps of the run, model and tool seams.

    Args:
        tracer_provider: Makes the tracer; OpenTelemetry's global one unless given.
        meter_provider: Makes the meter; OpenTelemetry's global one unless given.
        content: Which texts reach spans; none unless given.

    Raises:
        ConfigurationError: The content is no ``TraceContent``.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: TraceContent | None = None,
    ) -> None:
        if content is not None and not isinstance(content, TraceContent):
            raise ConfigurationError(f"trace_content must be a TraceContent, got {shown(content)}")
        self._provider = tracer_provider
        self._is_given = _makes_spans(tracer_provider)
        self._global = global_tracer_provider()
        self._tracer: Tracer | None = None
        self._has_failed = False
        self._metrics = Metrics(meter_provider)
        self._content = None if content is None or content.capture == "none" else ContentCapture(content)
        self._unmeasured = TracingSteps((self.run,), (self.chat,), (self.execute_tool,))

    def steps(self) -> TracingSteps:
        """Return the steps of a run that starts now; those that measure are among them if anybody measures."""
        metrics = self._metrics
        if not metrics.is_active:
            # `is_active` asks the first again; what a run without tracing asks for must cost it next to nothing.
            if (self._provider is None and self._global.is_unset) or not self.is_active:
                return _UNTRACED
            return self._unmeasured
        return TracingSteps(
            (self.run, metrics.run), (self.chat, metrics.chat), (self.execute_tool, metrics.execute_tool)
        )

    @property
    def is_active(self) -> bool:
        """Whether anybody makes spans: a global provider may be set after the orchestrator was made."""
        if self._provider is not None:
            return self._is_given
        return not self._global.is_unset and _makes_spans(self._global.get())

    @property
    def tracer(self) -> Tracer:
        """The tracer, made when it is first needed: a global provider may be set after the orchestrator was made."""
        if self._tracer is None:
            self._tracer = trace.get_tracer("openmultiagent", __version__, self._provider, schema_url=names.SCHEMA_URL)
        return self._tracer

    async def run(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        """Put the span ``invoke_agent {name}``, or ``invoke_workflow {name}`` for a team, around a run.

        Args:
            call: The run; the ids of the span are put into its ``trace_ids``.
            call_next: The rest of the run.
        """
        operation = "invoke_agent" if call.kind == "agent" else "invoke_workflow"
        links = _links(call.identity) if call.identity.links else None
        opened = self._span(f"{operation} {call.name}", SpanKind.INTERNAL, links)
        with opened as span:
            if span.is_recording():
                context = opened.context
                call.trace_ids.set(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))
                self.write(span.set_attributes, _run_attributes(call))
                if self._content is not None:
                    self._content.record(span, self._content.of_run, call)
            result = await call_next()
            if span.is_recording():
                self.write(_end_run, span, result)
                if self._content is not None:
                    self._content.record(span, self._content.of_result, result)
            return result

    async def chat(self, call: ModelCall, call_next: ModelNext) -> LLMResponse:
        """Put the span ``chat {model}`` around a model call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        opened = self._span(f"chat {call.source_options.model}", SpanKind.CLIENT)
        with opened as span:
            clock = attributes = None
            if span.is_recording():
                opened.attributes = attributes = _request_attributes(call)
                if self._content is not None:
                    self._content.record(span, self._content.of_request, call)
                if call.sink is not None:
                    call.sink = clock = FirstChunk.around(call.sink)
            response = await call_next(call)
            if attributes is not None:
                _add_response(attributes, response)
                if clock is not None and clock.seconds is not None:
                    attributes[names.REQUEST_STREAM] = True
                    attributes[names.TIME_TO_FIRST_CHUNK] = clock.seconds
                if self._content is not None and span.is_recording():
                    self._content.record(span, self._content.of_response, response)
            return response

    async def execute_tool(self, call: ToolCall, call_next: ToolNext) -> ToolResult:
        """Put the span ``execute_tool {name}`` around a tool call.

        Args:
            call: The call.
            call_next: The rest of its way.
        """
        with self._span(f"execute_tool {call.tool_name}", SpanKind.INTERNAL) as span:
            if span.is_recording():
                self.write(span.set_attributes, _tool_attributes(call))
                if self._content is not None:
                    self._content.record(span, self._content.of_tool_call, call)
            result = await call_next(call)
            if span.is_recording():
                if result.is_error:
                    self.write(_mark_tool_error, span)
                if self._content is not None:
                    self._content.record(span, self._content.of_tool_result, result)
            return result

    def task(self, task: TracedTask) -> OpenSpan:
        """Return the span ``execute_task {title}`` around the work on a task.

        Args:
            task: The task.
        """
        if not self.is_active:
            return OpenSpan(trace.INVALID_SPAN, self)
        opened = self._span(f"execute_task {task.title}", SpanKind.INTERNAL, dependency_links(task.depends_on))
        if opened.span.is_recording():
            self.write(opened.span.set_attributes, task_attributes(task))
        return opened

    def end_task(self, span: Span, result: AgentRunResult[Any], *, retries: int) -> None:
        """Say on a task's span what became of it.

        Args:
            span: What ``task`` returned.
            result: What the task came to.
            retries: How often it was tried again.
        """
        if span.is_recording():
            self.write(partial(end_task, retries=retries), span, result)

    def plan(self, run_id: str, tasks: int) -> OpenSpan:
        """Return the span ``prepare_plan`` around the checks and the approval of a plan.

        Args:
            run_id: The run.
            tasks: How many tasks the plan has.
        """
        if not self.is_active:
            return OpenSpan(trace.INVALID_SPAN, self)
        opened = self._span("prepare_plan", SpanKind.INTERNAL)
        if opened.span.is_recording():
            self.write(opened.span.set_attributes, plan_attributes(run_id, tasks))
        return opened

    def end_plan(self, span: Span, *, approved: bool) -> None:
        """Say on a plan's span whether it may be run.

        Args:
            span: What ``plan`` returned.
            approved: Whether it may.
        """
        if span.is_recording():
            self.write(span.set_attribute, names.PLAN_APPROVED, approved)

    def profile(self, run_id: str, threshold: float) -> OpenSpan:
        """Return the span ``profile_execution_route`` around the profiling of a goal.

        Args:
            run_id: The run.
            threshold: How sure the profile has to be.
        """
        if not self.is_active:
            return OpenSpan(trace.INVALID_SPAN, self)
        opened = self._span("profile_execution_route", SpanKind.INTERNAL)
        if opened.span.is_recording():
            self.write(opened.span.set_attributes, profile_attributes(run_id, threshold))
        return opened

    def end_profile(self, span: Span, **known: Unpack[ProfileOutcome]) -> None:
        """Say on the span of a profiling what came of it.

        Args:
            span: What ``profile`` returned.
            known: What came of it.
        """
        if span.is_recording():
            self.write(partial(end_profile, **known), span)

    def _span(self, name: str, kind: SpanKind, links: Sequence[Link] | None = None) -> OpenSpan:
        current = get_current()  # given, since the SDK would look for it three times
        try:
            tracer = self.tracer if self._tracer is None else self._tracer
            span = tracer.start_span(
                name, current, kind, links=links, record_exception=False, set_status_on_exception=False
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: the application's samplers and processors
            self.tell(error)
            span = trace.INVALID_SPAN
        return OpenSpan(span, self, current)

    def write(self, write: Callable[..., object], *arguments: Any) -> None:
        """Put something on a span; where that fails, the span stays without it.

        Args:
            write: Does it.
            arguments: What it is called with.
        """
        try:
            write(*arguments)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: the application's tracer
            self.tell(error)

    def tell(self, error: BaseException) -> None:
        """Log the first failure of what the tracer provider is made of.

        Args:
            error: What was raised.
        """
        if not self._has_failed:  # it will go on like this
            self._has_failed = True
            _log.error("tracing_failed", error=type(error).__name__)


class OpenSpan:
    """Has a span current in its block, and ends it."""

    __slots__ = ("_around", "_owner", "_token", "attributes", "context", "span")

    def __init__(self, span: Span, owner: Tracing, around: Context | None = None) -> None:
        self.span = span
        self.context = span.get_span_context()
        self._around = around
        self._owner = owner
        self._token: Token[Context] | None = None
        self.attributes: dict[str, Any] | None = None
        """What the span is told when it ends, in one call, however it ends."""

    def __enter__(self) -> Span:
        if self.context.is_valid:
            self._token = attach(trace.set_span_in_context(self.span, self._around))
        return self.span

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace_: object) -> None:
        span = self.span
        if self._token is not None:
            detach(self._token)
        try:
            try:
                if span.is_recording():
                    if self.attributes is not None:
                        self._owner.write(span.set_attributes, self.attributes)
                    if kind is not None:
                        _mark_failed(span, kind)
            finally:
                span.end()
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - isolation boundary: the application's processors
            self._owner.tell(failure)


def _makes_spans(provider: TracerProvider | None) -> bool:
    return provider is not None and not isinstance(provider, (ProxyTracerProvider, NoOpTracerProvider))


def _mark_tool_error(span: Span) -> None:
    span.set_attribute(names.ERROR_TYPE, TOOL_ERROR)
    span.set_status(Status(StatusCode.ERROR))


def _mark_failed(span: Span, kind: type[BaseException]) -> None:
    if issubclass(kind, Exception):
        # The class only: an exception's text may hold a prompt or a key.
        span.set_attribute(names.ERROR_TYPE, kind.__name__)
        span.set_status(Status(StatusCode.ERROR))
    else:
        span.set_attribute(names.STATUS, "cancelled")


def _links(identity: RunIdentity) -> list[Link]:
    return [
        Link(
            SpanContext(int(link.trace_id, 16), int(link.span_id, 16), is_remote=True, trace_flags=TraceFlags(0)),
            {names.LINK_RELATION: link.relation},
        )
        for link in identity.links
    ]


def _run_attributes(call: RunCall) -> dict[str, Any]:
    is_agent = call.kind == "agent"
    attributes: dict[str, Any] = {
        names.OPERATION_NAME: "invoke_agent" if is_agent else "invoke_workflow",
        names.AGENT_NAME if is_agent else names.WORKFLOW_NAME: call.name,
        names.RUN_ID: call.identity.run_id,
        names.RUN_ATTEMPT: call.identity.attempt,
    }
    config = call.source_config
    if config is not None:
        if config.description is not None:
            attributes[names.AGENT_DESCRIPTION] = redact_sensitive_text(config.description)
        if config.model is not None:
            attributes[names.REQUEST_MODEL] = config.model
        provider = config.provider if config.adapter is None else config.adapter.name
        if provider is not None:
            attributes[names.PROVIDER_NAME] = names.provider_name(provider)
    if call.source_metadata:
        for key, value in redact_sensitive_object(call.source_metadata).items():
            attributes[names.METADATA_PREFIX + key] = value
    return attributes


def _end_run(span: Span, result: AgentRunResult[Any]) -> None:
    usage = result.token_usage
    attributes: dict[str, Any] = {
        names.STATUS: result.status.code,
        names.TOTAL_INPUT: usage.input_tokens,
        names.TOTAL_OUTPUT: usage.output_tokens,
        names.UNKNOWN_CALLS: usage.unknown_calls,
    }
    if isinstance(result, AgentRunResult):
        attributes[names.STOP_REASON] = result.stop_reason
    span.set_attributes(attributes)
    cause = run_error_type(result)
    if cause is not None:
        span.set_attribute(names.ERROR_TYPE, cause)
        span.set_status(Status(StatusCode.ERROR, f"openmultiagent.{result.status.code}"))


def _request_attributes(call: ModelCall) -> dict[str, Any]:
    options = call.source_options
    attributes: dict[str, Any] = {
        names.OPERATION_NAME: "chat",
        names.PROVIDER_NAME: names.provider_name(call.provider),
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
    if options.output_schema is not None:
        attributes[names.OUTPUT_TYPE] = "json"
    return attributes


def _add_response(attributes: dict[str, Any], response: LLMResponse) -> None:
    attributes[names.RESPONSE_FINISH_REASONS] = [response.stop_reason]
    if response.id:
        attributes[names.RESPONSE_ID] = response.id
    if response.model:
        attributes[names.RESPONSE_MODEL] = response.model
    if isinstance(response, FallbackResponse):  # the provider of the request is the adapter that chose among several
        attributes[names.RESPONSE_PROVIDER] = names.provider_name(response.provider)
    usage = response.usage
    if usage is not None:
        attributes[names.USAGE_INPUT] = usage.input_tokens
        attributes[names.USAGE_OUTPUT] = usage.output_tokens
        if usage.cache_read_tokens:
            attributes[names.USAGE_CACHE_READ] = usage.cache_read_tokens
        if usage.cache_write_tokens:
            attributes[names.USAGE_CACHE_WRITE] = usage.cache_write_tokens
        if usage.reasoning_tokens:
            attributes[names.USAGE_REASONING] = usage.reasoning_tokens


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

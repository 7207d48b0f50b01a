"""Spans on their way out: over OTLP, and through exporters and processors that misbehave."""

import asyncio
import gc
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.testing import capture_logs

from openmultiagent import (
    AgentConfig,
    LLMMessage,
    LLMServerError,
    ModelSettings,
    OpenMultiAgent,
    RunIdentity,
    TextBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.agent import RunCall
from openmultiagent.budget import BudgetScope
from openmultiagent.identity import RunLink
from openmultiagent.messages import prepare_run_input
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import TraceContent, Tracing
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.otlp_receiver import OTLPReceiver, attributes

WAIT = 10.0


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider(resource=Resource.create({"service.name": "shop"}), shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@tool
def look(city: str) -> str:
    """Look something up."""
    if city == "nowhere":
        raise ValueError("the text of the failure")
    return "rain"


def config(name: str = "guide") -> AgentConfig:
    calls: list[Any] = [ToolUseBlock(id=city, name="look", input={"city": city}) for city in ("Oslo", "nowhere")]
    usage = TokenUsage(input_tokens=10, output_tokens=2, cache_read_tokens=4)
    first = LLMResponse(calls, id="resp-1", model="m-1-2026", stop_reason="tool_use", usage=usage)
    adapter = ScriptedAdapter([first, LLMResponse([TextBlock(text="It rains.")], usage=usage)])
    settings = ModelSettings(temperature=0.5, stop=("END",), seed=7)
    return AgentConfig(name, adapter=adapter, model="m-1", tools=[look], settings=settings)


def tree(spans: Sequence[ReadableSpan]) -> Any:
    """The names of spans as nested lists, children sorted."""
    children: dict[int | None, list[ReadableSpan]] = {}
    known = {span.context.span_id for span in spans}
    for span in spans:
        parent = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
        children.setdefault(parent, []).append(span)

    def below(parent: int | None) -> Any:
        return sorted([span.name, below(span.context.span_id)] for span in children.get(parent, []))

    return below(None)


RUN = [["chat m-1", []], ["chat m-1", []], ["execute_tool look", []], ["execute_tool look", []]]


@proves("TRC-30")
async def test_runs_in_tasks_threads_and_streams_do_not_mix(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    oma = OpenMultiAgent(tracer_provider=provider)
    tracer = provider.get_tracer("app")

    async def run(name: str) -> None:
        with tracer.start_as_current_span(f"request {name}"):
            await oma.run_agent(config(name), "q")

    async def stream(name: str) -> None:
        with tracer.start_as_current_span(f"request {name}"):
            async for _ in oma.stream_agent(config(name), "q"):
                await anyio.lowlevel.checkpoint()

    def thread(name: str) -> None:
        anyio.run(run, name)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(run, f"task {number}")
            group.start_soon(stream, f"stream {number}")
            group.start_soon(anyio.to_thread.run_sync, thread, f"thread {number}")
    assert tree(exporter.get_finished_spans()) == sorted(
        [f"request {kind} {number}", [[f"invoke_agent {kind} {number}", RUN]]]
        for kind in ("task", "stream", "thread")
        for number in range(5)
    )


@proves("TRC-30")
async def test_two_streams_that_are_read_in_turns_do_not_mix(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    oma = OpenMultiAgent(tracer_provider=provider)
    async with oma.stream_agent(config("a"), "q") as one, oma.stream_agent(config("b"), "q") as two:
        left = [one, two]
        while left:
            stream = left.pop(0)
            if await anext(stream, None) is not None:
                left.append(stream)
            assert trace.get_current_span() is trace.INVALID_SPAN
    assert tree(exporter.get_finished_spans()) == [["invoke_agent a", RUN], ["invoke_agent b", RUN]]


@proves("TRC-31")
async def test_a_remote_caller_is_the_parent(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(["a", "b"]))
    token = otel_context.attach(TraceContextTextMapPropagator().extract({"traceparent": header}))
    try:
        result = await oma.run_agent({"name": "x"}, "q")
        stream = oma.stream_agent({"name": "x"}, "q")
    finally:
        otel_context.detach(token)
    async for _ in stream:  # the context as of the call
        pass
    roots = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent x"]
    assert len(roots) == 2
    for root in roots:
        assert root.parent is not None
        assert root.parent.is_remote
        assert format(root.parent.span_id, "016x") == "b7ad6b7169203331"
        assert format(root.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert result.identity.trace_id == "0af7651916cd43dd8448eb211c80319c"


@proves("TRC-32")
async def test_a_run_links_to_those_that_it_goes_on_from(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    result = await OpenMultiAgent(default_adapter=ScriptedAdapter(["a"])).run_agent({"name": "x"}, "q")

    async def call_next() -> Any:
        return result

    earlier = RunLink("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "restored_from")
    call = RunCall(
        kind="agent",
        name="x",
        identity=RunIdentity("r", attempt=2, links=(earlier,)),
        budget=BudgetScope("x"),
        source=prepare_run_input("q"),
    )
    await Tracing(provider).run(call, call_next)
    (span,) = exporter.get_finished_spans()
    (link,) = span.links
    assert format(link.context.trace_id, "032x") == earlier.trace_id
    assert format(link.context.span_id, "016x") == earlier.span_id
    assert link.context.is_remote
    assert dict(link.attributes or {}) == {"openmultiagent.link.relation": "restored_from"}
    assert (span.attributes or {})["openmultiagent.run.attempt"] == 2


@proves("TRC-35")
async def test_the_same_run_over_otlp(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    content = TraceContent(capture="redacted")
    with OTLPReceiver() as receiver:
        batches = BatchSpanProcessor(OTLPSpanExporter(receiver.endpoint))
        provider.add_span_processor(batches)
        oma = OpenMultiAgent(tracer_provider=provider, trace_content=content)
        await oma.run_agent(config(), "What about Oslo?", run_id="r-1", metadata={"tenant": "acme", "tags": ["a", "b"]})
        async with oma.stream_agent(config(), "q") as stream:
            async for _ in stream:
                pass
        await anyio.to_thread.run_sync(batches.force_flush)
        received = {span.span_id: span for span in receiver.spans}
        (service,) = {attributes(batch.resource.attributes)["service.name"] for batch in receiver.batches}
    assert service == "shop"
    sent = exporter.get_finished_spans()
    assert len(sent) == len(received) == 10
    kinds = {trace.SpanKind.INTERNAL: 1, trace.SpanKind.CLIENT: 3}
    for span in sent:
        arrived = received[span.context.span_id.to_bytes(8, "big")]
        assert arrived.trace_id == span.context.trace_id.to_bytes(16, "big")
        assert arrived.parent_span_id == (b"" if span.parent is None else span.parent.span_id.to_bytes(8, "big"))
        assert arrived.name == span.name
        assert arrived.kind == kinds[span.kind]
        assert arrived.status.code == {"UNSET": 0, "ERROR": 2}[span.status.status_code.name]
        assert attributes(arrived.attributes) == dict(span.attributes or {})
        assert (arrived.start_time_unix_nano, arrived.end_time_unix_nano) == (span.start_time, span.end_time)
        assert not arrived.events
    assert "What about Oslo?" in str(receiver.spans)


class Broken(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no route")

    def shutdown(self) -> None:
        raise OSError("no route")


@proves("TRC-34")
async def test_an_exporter_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Broken()))
    result = await OpenMultiAgent(tracer_provider=provider).run_agent(config(), "q")
    assert (result.output, result.status.code) == ("It rains.", "ok")
    assert {record.name.partition(".")[0] for record in caplog.records} == {"opentelemetry"}


class Stuck(SpanExporter):
    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.released.wait(WAIT)
        return SpanExportResult.SUCCESS


@proves("TRC-34")
async def test_an_exporter_that_hangs_is_not_waited_for() -> None:
    stuck = Stuck()
    processor = BatchSpanProcessor(stuck, max_queue_size=4, max_export_batch_size=1, schedule_delay_millis=1)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)

    @tool(name="look")
    def until_stuck(city: str) -> str:
        """Go on when the exporter hangs on the span of the first model call."""
        assert stuck.entered.wait(WAIT)
        return "rain"

    try:
        oma = OpenMultiAgent(tracer_provider=provider)
        for _ in range(5):  # more spans than the queue takes
            result = await oma.run_agent(config().replace(tools=[until_stuck]), "q")
            assert (result.output, result.status.code) == ("It rains.", "ok")
        assert not stuck.released.is_set()
    finally:
        stuck.released.set()
        await anyio.to_thread.run_sync(provider.shutdown)


class RaisingProcessor(SpanProcessor):
    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Span, parent_context: otel_context.Context | None = None) -> None:
        if self.where == "start":
            raise RuntimeError("the text of the failure")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "end":
            raise RuntimeError("the text of the failure")
        if self.where == "cancel":
            raise asyncio.CancelledError


class RaisingSampler(Sampler):
    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        raise RuntimeError("the text of the failure")

    def get_description(self) -> str:
        return "raises"


class RaisingProvider(trace.TracerProvider):
    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        raise RuntimeError("the text of the failure")


class RaisingSpan(trace.NonRecordingSpan):
    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Any) -> None:
        raise RuntimeError("the text of the failure")

    def set_attribute(self, key: str, value: Any) -> None:
        raise asyncio.CancelledError


class TracerOfRaisingSpans(trace.NoOpTracer):
    def start_span(self, *args: Any, **kwargs: Any) -> trace.Span:
        return RaisingSpan(trace.SpanContext(1, 2, is_remote=False))


class ProviderOfRaisingSpans(trace.TracerProvider):
    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return TracerOfRaisingSpans()


def raising(where: str) -> trace.TracerProvider:
    if where == "provider":
        return RaisingProvider()
    if where == "span":
        return ProviderOfRaisingSpans()
    if where == "sampler":
        return TracerProvider(sampler=RaisingSampler(), shutdown_on_exit=False)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(RaisingProcessor(where))
    return provider


@proves("TRC-34")
@pytest.mark.parametrize("where", ["start", "end", "cancel", "sampler", "provider", "span"])
async def test_what_the_provider_is_made_of_may_raise(where: str) -> None:
    with capture_logs() as lines:
        content = TraceContent(capture="full")
        oma = OpenMultiAgent(tracer_provider=raising(where), trace_content=content)
        result = await oma.run_agent(config(), "q")
    assert (result.output, result.status.code) == ("It rains.", "ok")
    (told,) = [line for line in lines if line["event"] == "tracing_failed"]
    assert told["error"] == ("CancelledError" if where == "cancel" else "RuntimeError")
    assert trace.get_current_span() is trace.INVALID_SPAN


@proves("TRC-34")
async def test_the_spans_of_a_team_may_raise() -> None:
    provider = raising("span")
    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(["a"]))
    tracing = Tracing(provider)
    with capture_logs():
        crew = oma.create_team("crew", {"name": "crew", "agents": [{"name": "a"}]})
        result = await oma.run_tasks(crew, [{"title": "A", "description": "A"}])
        with tracing.plan("r", 1) as span:
            tracing.end_plan(span, approved=True)
        with tracing.profile("r", 0.5) as span:
            tracing.end_profile(span, version="1", outcome="multi", confidence=None, fault=None, usage=None)
    assert result.success


@proves("TRC-34")
@pytest.mark.parametrize("where", ["end", "span"])
async def test_the_error_of_a_model_survives_a_processor_that_raises(where: str) -> None:
    adapter = ScriptedAdapter([LLMServerError("down", provider="p", status=500)])
    with capture_logs():
        result = await OpenMultiAgent(tracer_provider=raising(where), default_adapter=adapter).run_agent(
            {"name": "x"}, "q"
        )
    assert isinstance(result.error, LLMServerError)
    assert (result.output, result.status.code, result.token_usage.unknown_calls) == ("down", "error", 1)


@proves("TRC-33")
@pytest.mark.parametrize("how", ["break", "close", "cancel", "drop"])
async def test_a_stream_that_is_left_early_ends_its_spans_in_silence(
    how: str, provider: TracerProvider, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(hang))
    stream = oma.stream_agent({"name": "x"}, "q")
    if how == "break":
        async for _ in stream:
            break
    elif how == "close":
        await anext(stream)
        await stream.aclose()
    elif how == "drop":
        await anext(stream)
    else:
        with anyio.move_on_after(0.02):
            async for _ in stream:
                pass
    del stream
    gc.collect()
    with anyio.fail_after(WAIT):
        while len(exporter.get_finished_spans()) < 2:
            await anyio.lowlevel.checkpoint()
    chat, root = exporter.get_finished_spans()
    assert (chat.name.partition(" ")[0], root.name) == ("chat", "invoke_agent x")
    for span in (chat, root):
        assert (span.attributes or {})["openmultiagent.status"] == "cancelled"
        assert "error.type" not in (span.attributes or {})
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert caplog.records == []


@proves("OBS-3")
async def test_the_form_of_an_answer_is_on_its_span(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    adapter = ScriptedAdapter(['{"a": 1}'])
    options = LLMChatOptions(model="m", output_schema={"type": "object"})

    async def rewrite(call: Any, call_next: Any) -> Any:
        return await call_next(call.replace(options=options))

    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=adapter, model_middleware=[rewrite])
    await oma.run_agent({"name": "x"}, "q")
    chat = exporter.get_finished_spans()[0]
    assert (chat.attributes or {})["gen_ai.output.type"] == "json"

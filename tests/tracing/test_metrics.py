"""Metrics of runs, model calls and tool calls."""

import math
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import metrics
from opentelemetry.metrics import NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from openmultiagent import (
    AgentConfig,
    LLMMessage,
    LLMServerError,
    OpenMultiAgent,
    RunCall,
    TextBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.budget import BudgetScope
from openmultiagent.messages import prepare_run_input
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing._metrics import Metrics
from openmultiagent.usage import TokenUsage
from tests.support import proves

DURATION = "gen_ai.client.operation.duration"
TOKENS = "gen_ai.client.token.usage"
FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def meters(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def points(reader: InMemoryMetricReader) -> dict[str, list[HistogramDataPoint]]:
    data = reader.get_metrics_data()
    found: dict[str, list[HistogramDataPoint]] = {}
    for resource in [] if data is None else data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                assert isinstance(metric.data, Histogram)
                found[f"{metric.name} {metric.unit}"] = list(metric.data.data_points)
    return found


def attributes(found: list[HistogramDataPoint]) -> list[dict[str, Any]]:
    return sorted((dict(point.attributes or {}) for point in found), key=str)


@tool
def look(city: str) -> str:
    """Look something up."""
    if city == "nowhere":
        raise ValueError(city)
    return city


def script() -> ScriptedAdapter:
    good, bad = (ToolUseBlock(id=city, name="look", input={"city": city}) for city in ("Oslo", "nowhere"))
    usage = TokenUsage(input_tokens=10, output_tokens=2)
    return ScriptedAdapter(
        [
            LLMResponse([good, bad], model="m-1-2026", stop_reason="tool_use", usage=usage),
            LLMResponse([TextBlock(text="Rain")], model="m-1-2026", usage=TokenUsage(input_tokens=20, output_tokens=3)),
        ]
    )


@proves("TRC-1", "TRC-2", "TRC-3")
async def test_the_metrics_of_a_run(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    adapter = script()
    config = AgentConfig("guide", adapter=adapter, model="m-1", tools=[look])
    await OpenMultiAgent(meter_provider=meters).run_agent(config, "q", run_id="r-1", metadata={"tenant": "acme"})
    found = points(reader)
    assert found.keys() == {f"{DURATION} s", f"{TOKENS} {{token}}"}
    provider = {"gen_ai.provider.name": adapter.name, "gen_ai.request.model": "m-1"}
    chat = {"gen_ai.operation.name": "chat", **provider, "gen_ai.response.model": "m-1-2026"}
    assert attributes(found[f"{DURATION} s"]) == sorted(
        [
            chat,
            {"gen_ai.operation.name": "execute_tool"},
            {"gen_ai.operation.name": "execute_tool", "error.type": "tool_error"},
            {"gen_ai.operation.name": "invoke_agent", **provider},
        ],
        key=str,
    )
    tokens = {(point.attributes or {})["gen_ai.token.type"]: point for point in found[f"{TOKENS} {{token}}"]}
    assert {kind: (point.count, point.sum) for kind, point in tokens.items()} == {"input": (2, 30), "output": (2, 5)}
    assert {key: value for key, value in (tokens["input"].attributes or {}).items() if key in chat} == chat


@proves("TRC-1")
async def test_the_buckets_are_those_of_the_conventions(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    await OpenMultiAgent(meter_provider=meters).run_agent(AgentConfig("x", adapter=script(), tools=[look]), "q")
    found = points(reader)
    seconds = found[f"{DURATION} s"][0].explicit_bounds
    assert (len(seconds), seconds[0], round(seconds[-1], 2)) == (14, 0.01, 81.92)
    tokens = found[f"{TOKENS} {{token}}"][0].explicit_bounds
    assert (len(tokens), tokens[0], tokens[-1]) == (14, 1, 4**13)


@proves("TRC-3")
async def test_unknown_usage_is_not_counted(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    adapter = ScriptedAdapter(["a", LLMResponse([TextBlock(text="b")], usage=TokenUsage.unknown())])
    oma = OpenMultiAgent(meter_provider=meters, default_adapter=adapter)
    for _ in range(2):
        await oma.run_agent({"name": "x"}, "q")
    assert points(reader).keys() == {f"{DURATION} s"}


@proves("TRC-6")
async def test_failures_are_measured_by_their_kind(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    adapter = ScriptedAdapter([LLMServerError("the text", provider="p", status=500)])
    await OpenMultiAgent(meter_provider=meters, default_adapter=adapter).run_agent({"name": "x"}, "q")
    kinds = {
        (point.attributes or {})["gen_ai.operation.name"]: (point.attributes or {})["error.type"]
        for point in points(reader)[f"{DURATION} s"]
    }
    assert kinds == {"chat": "LLMServerError", "invoke_agent": "LLM_SERVER"}


@proves("TRC-6")
async def test_a_cancelled_run_is_measured(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(meter_provider=meters, default_adapter=ScriptedAdapter(hang))
    with anyio.move_on_after(0.02):
        await oma.run_agent({"name": "x"}, "q")
    found = points(reader)[f"{DURATION} s"]
    assert [(point.attributes or {})["error.type"] for point in found] == ["cancelled", "cancelled"]
    assert all(point.sum > 0 for point in found)


@proves("TRC-2")
async def test_what_is_not_known_of_a_run_is_no_attribute(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    measured = Metrics(meters)
    assert measured.is_active
    result = await OpenMultiAgent(default_adapter=ScriptedAdapter(["a"])).run_agent({"name": "x"}, "q")

    async def call_next() -> Any:
        return result

    for config in (None, AgentConfig("x", model="m")):
        call = RunCall(
            kind="agent",
            name="x",
            identity=result.identity,
            budget=BudgetScope("x"),
            source=prepare_run_input("q"),
            config=config,
        )
        await measured.run(call, call_next)
    run = {"gen_ai.operation.name": "invoke_agent"}
    assert attributes(points(reader)[f"{DURATION} s"]) == [{**run, "gen_ai.request.model": "m"}, run]


@proves("TRC-5")
async def test_a_stream_has_a_time_to_its_first_chunk(meters: MeterProvider, reader: InMemoryMetricReader) -> None:
    spans = InMemorySpanExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    adapter = ScriptedAdapter(["Hello there", "Hello again"])
    oma = OpenMultiAgent(meter_provider=meters, tracer_provider=tracers, default_adapter=adapter)
    await oma.run_agent({"name": "x"}, "q")
    assert f"{FIRST_CHUNK} s" not in points(reader)
    async with oma.stream_agent({"name": "x"}, "q") as stream:
        texts = [event.data async for event in stream if event.type == "text"]
    assert "".join(texts) == "Hello again"
    (point,) = points(reader)[f"{FIRST_CHUNK} s"]
    assert point.count == 1
    assert (point.attributes or {})["gen_ai.operation.name"] == "chat"
    plain, streamed = [span for span in spans.get_finished_spans() if span.name.startswith("chat")]
    assert "gen_ai.request.stream" not in (plain.attributes or {})
    assert (streamed.attributes or {})["gen_ai.request.stream"] is True
    seconds = (streamed.attributes or {})["gen_ai.response.time_to_first_chunk"]
    assert isinstance(seconds, float)
    assert seconds >= point.sum  # the metric's clock starts within the span
    assert math.isclose(seconds, point.sum, abs_tol=0.5)


@proves("TRC-4")
async def test_a_provider_that_is_set_later_counts_from_the_next_run(
    meters: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_later: Any = None
    proxy = metrics.get_meter_provider()
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: set_later or proxy)
    given = OpenMultiAgent(meter_provider=proxy, default_adapter=ScriptedAdapter(["a", "b"]))
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a", "b"]))
    for each in (given, oma):
        await each.run_agent({"name": "before"}, "q")
    set_later = meters
    for each in (given, oma):
        await each.run_agent({"name": "after"}, "q")
    assert sum(point.count for point in points(reader)[f"{DURATION} s"]) == 4


@proves("TRC-4")
async def test_no_provider_means_no_metrics(
    meters: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = metrics.get_meter_provider()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    disabled = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    for provider in (None, NoOpMeterProvider(), disabled):
        oma = OpenMultiAgent(meter_provider=provider, default_adapter=ScriptedAdapter(["a"]))
        assert (await oma.run_agent({"name": "x"}, "q")).success
        assert oma._machinery.tracing.steps().run == ()
    assert metrics.get_meter_provider() is before
    assert points(reader) == {}


class RaisingHistogram(metrics.Histogram):
    def __init__(self, name: str) -> None:
        """Take the name that a histogram has."""

    def record(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the text of the failure")


class RaisingMeter(NoOpMeter):
    def __init__(self, where: str) -> None:
        super().__init__("raises")
        self.where = where

    def create_histogram(self, name: str, *args: Any, **kwargs: Any) -> metrics.Histogram:
        if self.where == "instrument":
            raise RuntimeError("the text of the failure")
        return RaisingHistogram(name)


class RaisingMeters(metrics.MeterProvider):
    def __init__(self, where: str) -> None:
        self.where = where

    def get_meter(self, *args: Any, **kwargs: Any) -> metrics.Meter:
        if self.where == "meter":
            raise RuntimeError("the text of the failure")
        return RaisingMeter(self.where)


@proves("TRC-34")
@pytest.mark.parametrize("where", ["meter", "instrument", "record"])
async def test_what_measures_may_raise(where: str) -> None:
    answer = LLMResponse([TextBlock(text="a")], usage=TokenUsage(input_tokens=1, output_tokens=1))
    oma = OpenMultiAgent(meter_provider=RaisingMeters(where), default_adapter=ScriptedAdapter([answer, answer, "b"]))
    with capture_logs() as lines:
        for _ in range(2):
            assert (await oma.run_agent({"name": "x"}, "q")).output == "a"
        async with oma.stream_agent({"name": "x"}, "q") as stream:
            assert [event.type async for event in stream][-1] == "done"
    (told,) = lines
    assert (told["event"], told["error"]) == ("metrics_failed", "RuntimeError")

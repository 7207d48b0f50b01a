"""OpenTelemetry's global providers: whoever sets one, and whenever, the next run goes there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from opentelemetry import metrics, trace

from openmultiagent.tracing._providers import GlobalProvider, global_meter_provider, global_tracer_provider
from tests.support import proves

PROGRAM = """
import anyio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from openmultiagent import OpenMultiAgent
from openmultiagent.testing import ScriptedAdapter

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
anyio.run(oma.run_agent, {"name": "before"}, "q")
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(MeterProvider([reader]))
anyio.run(oma.run_agent, {"name": "after"}, "q")
print([span.name for span in spans.get_finished_spans()])
metric = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0]
print(metric.name, sum(point.count for point in metric.data.data_points))
"""

FROM_THE_ENVIRONMENT = """
import anyio
from opentelemetry import trace
from openmultiagent import OpenMultiAgent
from openmultiagent.testing import ScriptedAdapter

oma = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "ok"))
result = anyio.run(oma.run_agent, {"name": "x"}, "q")
print(type(trace.get_tracer_provider()).__module__, oma._machinery.tracing.is_active)
"""


def printed(program: str, **environment: str) -> list[str]:
    """Run a program in a process of its own, where the global providers may be set, and return its lines."""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@proves("OBS-8", "TRC-4")
def test_providers_that_are_set_later_get_the_next_run() -> None:
    spans, counted = printed(PROGRAM)
    assert spans == "['chat scripted', 'invoke_agent after']"
    assert counted == "gen_ai.client.operation.duration 2"


@proves("OBS-8")
def test_a_provider_that_the_environment_names_is_used() -> None:
    found = printed(FROM_THE_ENVIRONMENT, OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider")
    assert found == ["opentelemetry.sdk.trace True"]


def test_without_a_provider_there_is_none() -> None:
    assert global_tracer_provider().get() is None
    assert global_meter_provider().get() is None


def test_where_the_api_keeps_it_otherwise_its_getter_is_asked() -> None:
    assert GlobalProvider(trace.get_tracer_provider, "NO_SUCH_VARIABLE", "_NO_SUCH_NAME").get() is not None
    assert GlobalProvider(lambda: "anything", "NO_SUCH_VARIABLE", "_METER_PROVIDER").get() == "anything"


def test_a_variable_that_is_set_is_left_to_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    before = metrics.get_meter_provider()
    monkeypatch.setenv("A_VARIABLE", "x")
    provider = GlobalProvider(metrics.get_meter_provider, "A_VARIABLE", "_METER_PROVIDER")
    assert provider.get() is before

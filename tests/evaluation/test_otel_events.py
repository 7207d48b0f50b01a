"""Verdicts as OpenTelemetry events."""

from typing import Any

import pytest
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from structlog.testing import capture_logs

from openmultiagent import OpenMultiAgent
from openmultiagent.evaluation import OnlineEvaluation, Score, ScorerContext, scorer
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


class Received:
    """A log pipeline that keeps what it gets."""

    def __init__(self) -> None:
        self.exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # it has no annotations
        self.provider = LoggerProvider()
        self.provider.add_log_record_processor(SimpleLogRecordProcessor(self.exporter))

    @property
    def records(self) -> list[Any]:
        return [item.log_record for item in self.exporter.get_finished_logs()]


@scorer(name="tone", version="2")
def tone(context: ScorerContext[Any]) -> Score:
    return Score(0.5, passed=False, reason="rude: token=abcdefgh")


@scorer
def broken(context: ScorerContext[Any]) -> float:
    raise ValueError("secret words")


@scorer
def bare(context: ScorerContext[Any]) -> float:
    return 1.0


async def judged(received: Received, tracer_provider: Any = None, **options: Any) -> Any:
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["answer"]),
        tracer_provider=tracer_provider,
        evaluation=OnlineEvaluation([tone, broken, bare], logger_provider=received.provider, **options),
    )
    result = await oma.run_agent({"name": "x"}, "q", run_id="r")
    await oma.evaluation.flush()
    return result


@proves("OBS-64")
async def test_each_verdict_is_an_event_of_the_span_of_its_run() -> None:
    received = Received()
    with trace.get_tracer("t", tracer_provider=TracerProvider()).start_as_current_span("somebody else's"):
        result = await judged(received, TracerProvider(), emit_events=True)
    assert [record.event_name for record in received.records] == ["gen_ai.evaluation.result"] * 3
    assert [dict(record.attributes) for record in received.records] == [
        {
            "gen_ai.evaluation.name": "tone",
            "openmultiagent.run.id": "r",
            "openmultiagent.evaluation.version": "2",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "fail",
            "gen_ai.evaluation.explanation": "rude: token=[redacted]",
        },
        {"gen_ai.evaluation.name": "broken", "openmultiagent.run.id": "r", "error.type": "ValueError"},
        {"gen_ai.evaluation.name": "bare", "openmultiagent.run.id": "r", "gen_ai.evaluation.score.value": 1.0},
    ]
    for record in received.records:
        assert trace.format_trace_id(record.trace_id) == result.identity.trace_id
        assert trace.format_span_id(record.span_id) == result.identity.root_span_id
        assert record.body is None
        assert record.timestamp > 0


@proves("OBS-64")
async def test_the_event_of_a_run_without_a_recorded_span_belongs_to_none() -> None:
    received = Received()
    with trace.get_tracer("t", tracer_provider=TracerProvider()).start_as_current_span("somebody else's"):
        await judged(received, trace.NoOpTracerProvider(), emit_events=True)
    assert {(record.trace_id, record.span_id) for record in received.records} == {(0, 0)}


@proves("OBS-64")
async def test_nothing_is_emitted_unless_asked_for() -> None:
    received = Received()
    await judged(received)
    assert received.records == []


@proves("OBS-64")
async def test_the_global_provider_is_used_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    received = Received()
    monkeypatch.setattr(_logs._internal, "_LOGGER_PROVIDER", received.provider)
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["answer"]), evaluation=OnlineEvaluation([bare], emit_events=True)
    )
    await oma.run_agent({"name": "x"}, "q")
    await oma.evaluation.flush()
    assert len(received.records) == 1


class BrokenProvider(_logs.NoOpLoggerProvider):
    def get_logger(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no logger")


@proves("OBS-64")
async def test_a_pipeline_that_fails_harms_nothing() -> None:
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["answer"]),
        evaluation=OnlineEvaluation([bare], emit_events=True, logger_provider=BrokenProvider()),
    )
    with capture_logs() as lines:
        await oma.run_agent({"name": "x"}, "q")
        assert await oma.evaluation.flush()
    assert oma.evaluation.stats().completed == 1
    assert [line["event"] for line in lines] == ["evaluation_event_failed"]

"""Spans of a run."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from openmultiagent import (
    AgentConfig,
    LLMMessage,
    LLMServerError,
    ModelSettings,
    OpenMultiAgent,
    TeamConfig,
    TextBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext
from openmultiagent.adapters._providers import provider_names
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import _names
from openmultiagent.usage import TokenUsage
from tests.support import proves

SECRET = "the-secret-word"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@tool
def look(city: str) -> str:
    """Look something up."""
    return f"{SECRET} in {city}"


@tool
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def script() -> ScriptedAdapter:
    usage = TokenUsage(input_tokens=10, output_tokens=2, cache_read_tokens=4, reasoning_tokens=1)
    call = ToolUseBlock(id="c1", name="look", input={"city": SECRET})
    return ScriptedAdapter(
        [
            LLMResponse([call], id="resp-1", model="m-1-2026", stop_reason="tool_use", usage=usage),
            LLMResponse([TextBlock(text=SECRET)], usage=TokenUsage(input_tokens=20, output_tokens=3)),
        ]
    )


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


@proves("OBS-1", "OBS-3", "OBS-7")
async def test_the_tree_of_a_run(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    adapter = script()
    config = AgentConfig(
        "guide",
        adapter=adapter,
        model="m-1",
        tools=[look],
        description="Shows the way",
        max_tokens=50,
        settings=ModelSettings(temperature=0, stop=("END",)),
    )
    result = await OpenMultiAgent(tracer_provider=provider).run_agent(
        config, SECRET, run_id="r-1", metadata={"tenant": "acme"}
    )
    spans = by_name(exporter)
    assert {name: len(found) for name, found in spans.items()} == {
        "invoke_agent guide": 1,
        "chat m-1": 2,
        "execute_tool look": 1,
    }
    (root,) = spans["invoke_agent guide"]
    for span in [*spans["chat m-1"], *spans["execute_tool look"]]:
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
    assert root.parent is None
    assert root.kind is SpanKind.INTERNAL
    assert spans["chat m-1"][0].kind is SpanKind.CLIENT
    assert spans["execute_tool look"][0].kind is SpanKind.INTERNAL
    assert dict(root.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "guide",
        "gen_ai.agent.description": "Shows the way",
        "gen_ai.request.model": "m-1",
        "gen_ai.provider.name": adapter.name,
        "openmultiagent.run.id": "r-1",
        "openmultiagent.run.attempt": 1,
        "openmultiagent.meta.tenant": "acme",
        "openmultiagent.status": "ok",
        "openmultiagent.stop_reason": "end_turn",
        "openmultiagent.usage.input_tokens": 30,
        "openmultiagent.usage.output_tokens": 5,
        "openmultiagent.usage.unknown_calls": 0,
    }
    assert dict(spans["chat m-1"][0].attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": adapter.name,
        "gen_ai.request.model": "m-1",
        "gen_ai.request.temperature": 0,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.agent.name": "guide",
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.model": "m-1-2026",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "openmultiagent.run.id": "r-1",
        "openmultiagent.turn": 1,
    }
    assert dict(spans["execute_tool look"][0].attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "guide",
        "openmultiagent.run.id": "r-1",
        "openmultiagent.turn": 1,
    }
    assert result.identity.trace_id == trace.format_trace_id(root.context.trace_id)
    assert result.identity.root_span_id == trace.format_span_id(root.context.span_id)


@proves("OBS-4")
async def test_no_text_reaches_a_span(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    oma = OpenMultiAgent(tracer_provider=provider)
    call = ToolUseBlock(id="c1", name="fail", input={"text": SECRET})
    adapter = ScriptedAdapter([[call], LLMServerError(SECRET, provider="p", status=500)])
    await oma.run_agent(AgentConfig("x", adapter=adapter, tools=[fail], system_prompt=SECRET), SECRET)
    await oma.run_agent(AgentConfig("x", adapter=script(), tools=[look]), SECRET)
    assert len(exporter.get_finished_spans()) == 8
    for span in exporter.get_finished_spans():
        assert SECRET not in span.to_json()


@proves("OBS-5")
async def test_failures_show(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    call = ToolUseBlock(id="c1", name="fail", input={"text": "x"})
    adapter = ScriptedAdapter([[call], LLMServerError("down", provider="p", status=500)])
    await OpenMultiAgent(tracer_provider=provider).run_agent(AgentConfig("x", adapter=adapter, tools=[fail]), "q")
    spans = by_name(exporter)
    (root,) = spans["invoke_agent x"]
    assert root.status.status_code is StatusCode.ERROR
    assert (root.attributes or {})["error.type"] == "LLM_SERVER"
    assert (root.attributes or {})["openmultiagent.status"] == "error"
    (tool_span,) = spans["execute_tool fail"]
    assert tool_span.status.status_code is StatusCode.ERROR
    assert (tool_span.attributes or {})["error.type"] == "tool_error"
    good, bad = spans[f"chat {adapter.name}"]
    assert good.status.status_code is StatusCode.UNSET
    assert bad.status.status_code is StatusCode.ERROR
    assert (bad.attributes or {})["error.type"] == "LLMServerError"
    assert not any(span.events for span in exporter.get_finished_spans())


@proves("OBS-5")
async def test_spans_of_a_cancelled_run_are_ended(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(hang))
    with anyio.move_on_after(0.02):
        await oma.run_agent({"name": "x"}, "q")
    spans = by_name(exporter)
    assert len(spans) == 2
    for span in (span for found in spans.values() for span in found):
        assert span.status.status_code is StatusCode.UNSET
        assert (span.attributes or {})["openmultiagent.status"] == "cancelled"
        assert "error.type" not in (span.attributes or {})


@proves("OBS-2")
async def test_a_run_hangs_on_the_span_around_it(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=ScriptedAdapter(["a", "b"]))
    with provider.get_tracer("app").start_as_current_span("request") as request:
        result = await oma.run_agent({"name": "x"}, "q")
        async with oma.stream_agent({"name": "x"}, "q") as stream:
            async for _ in stream:
                pass
    for root in by_name(exporter)["invoke_agent x"]:
        assert root.parent is not None
        assert root.parent.span_id == request.get_span_context().span_id
    assert result.identity.trace_id == trace.format_trace_id(request.get_span_context().trace_id)
    assert trace.get_current_span() is trace.INVALID_SPAN


@proves("OBS-6")
async def test_without_recording_the_ids_are_random() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["a", "b"]))
    first, second = await oma.run_agent({"name": "x"}, "q"), await oma.run_agent({"name": "x"}, "q")
    assert first.identity.trace_id != second.identity.trace_id
    assert int(first.identity.trace_id, 16) != 0


@proves("OBS-8")
async def test_no_provider_is_set() -> None:
    before = trace.get_tracer_provider()
    await OpenMultiAgent(default_adapter=ScriptedAdapter(["a"])).run_agent({"name": "x"}, "q")
    assert trace.get_tracer_provider() is before


@proves("OBS-9")
async def test_a_tool_sees_its_own_span(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    tracer = provider.get_tracer("app")

    @tool
    def in_thread() -> str:
        """Work in a thread."""
        with tracer.start_as_current_span("inner sync"):
            return "ok"

    @tool
    async def in_place() -> str:
        """Work here."""
        with tracer.start_as_current_span("inner async"):
            return "ok"

    calls: list[Any] = [ToolUseBlock(id=name, name=name, input={}) for name in ("in_thread", "in_place")]
    config = AgentConfig("x", adapter=ScriptedAdapter([calls, "ok"]), tools=[in_thread, in_place])
    await OpenMultiAgent(tracer_provider=provider).run_agent(config, "q")
    spans = by_name(exporter)
    for inner, outer in (("inner sync", "execute_tool in_thread"), ("inner async", "execute_tool in_place")):
        parent = spans[inner][0].parent
        assert parent is not None
        assert parent.span_id == spans[outer][0].context.span_id


@proves("AGT-60", "OBS-1")
async def test_a_repeated_call_has_a_span_of_its_own(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    async def retry(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except LLMServerError:
            return await call_next(call)

    adapter = ScriptedAdapter([LLMServerError("down", provider="p", status=503), "ok"])
    oma = OpenMultiAgent(tracer_provider=provider, default_adapter=adapter, model_middleware=[retry])
    await oma.run_agent({"name": "x"}, "q")
    assert len(by_name(exporter)[f"chat {adapter.name}"]) == 2


@proves("OBS-3")
def test_names_are_those_of_the_conventions() -> None:
    modules = (gen_ai_attributes, gen_ai_metrics)
    known = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    used = [value for name, value in vars(_names).items() if name.isupper() and str(value).startswith("gen_ai.")]
    assert len(used) > 30
    assert set(used) <= known


@proves("OBS-3")
def test_providers_have_the_names_of_the_conventions() -> None:
    registry = {item.value for item in gen_ai_attributes.GenAiProviderNameValues}
    found = {name: _names.provider_name(name) for name in provider_names()}
    assert {name: told for name, told in found.items() if told != name} == {
        "azure-openai": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "gemini": "gcp.gemini",
        "grok": "x_ai",
        "mistral": "mistral_ai",
    }
    assert {told for name, told in found.items() if told != name} <= registry
    unmapped = {name for name, told in found.items() if told not in registry}
    assert not [(name, word) for name in unmapped for word in registry if name.split("-")[0] in word.split(".")]


@pytest.mark.parametrize("kind", ["agent", "tasks"])
async def test_credentials_in_metadata_and_descriptions_reach_no_span(
    provider: TracerProvider, exporter: InMemorySpanExporter, kind: str
) -> None:
    key = "sk-abcdefghijklmnop1234"
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), tracer_provider=provider)
    agent = AgentConfig("guide", description=f"Has the key {key}")
    metadata: Any = {"api_key": "abc", "note": f"key {key}", "keys": ["a", key], "tenant": "acme", "count": 3}
    if kind == "agent":
        await oma.run_agent(agent, "q", metadata=metadata)
    else:
        await oma.run_tasks(TeamConfig("t", agents=[agent]), [{"title": "a", "description": "b"}], metadata=metadata)
    spans = exporter.get_finished_spans()
    (root,) = [span for span in spans if span.parent is None]
    told = {name: value for name, value in (root.attributes or {}).items() if name.startswith("openmultiagent.meta.")}
    assert {name.removeprefix("openmultiagent.meta."): value for name, value in told.items()} == {
        "api_key": "[redacted]",
        "note": "key [redacted]",
        "keys": ("a", "[redacted]"),
        "tenant": "acme",
        "count": 3,
    }
    assert key not in "".join(span.to_json() for span in spans)


async def test_a_span_says_nothing_of_usage_that_nobody_knows(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    adapter = ScriptedAdapter([LLMResponse([TextBlock(text="ok")], usage=None)])
    await OpenMultiAgent(tracer_provider=provider).run_agent(AgentConfig("x", adapter=adapter, model="m"), "q")
    spans = by_name(exporter)
    (chat,) = spans["chat m"]
    assert [name for name in chat.attributes or {} if name.startswith("gen_ai.usage.")] == []
    assert (spans["invoke_agent x"][0].attributes or {})["openmultiagent.usage.unknown_calls"] == 1

"""The ids of a run in log lines."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import LogCapture

from openmultiagent import AgentConfig, LLMMessage, LLMServerError, OpenMultiAgent, RunCall, ToolUseBlock, tool
from openmultiagent._log import enter_run, get_logger, leave_run, run_fields
from openmultiagent.adapters import LLMChatOptions
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import add_run_ids
from tests.support import proves

IDS = ("run_id", "trace_id", "span_id")


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """The lines of an application that uses the processor."""
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[add_run_ids, capture])
    yield capture.entries
    structlog.configure(**before)


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield made
    made.shutdown()


def write(event: str, **fields: Any) -> None:
    structlog.get_logger().info(event, **fields)


@tool
def in_thread() -> str:
    """Write a line in a worker thread."""
    write("thread")
    return "ok"


@tool
async def in_place() -> str:
    """Write a line here."""
    write("place")
    get_logger("own").warning("own")
    return "ok"


def config() -> AgentConfig:
    calls: list[Any] = [ToolUseBlock(id=name, name=name, input={}) for name in ("in_thread", "in_place")]
    return AgentConfig("x", adapter=ScriptedAdapter([calls, "ok"]), tools=[in_thread, in_place])


async def middleware(call: RunCall, call_next: Any) -> Any:
    write("middleware")
    return await call_next()


@proves("TRC-20", "TRC-21")
@pytest.mark.parametrize("streamed", [False, True])
async def test_lines_carry_the_ids_of_what_goes_on(
    streamed: bool, lines: list[Any], provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    oma = OpenMultiAgent(tracer_provider=provider, middleware=[middleware])
    write("before")
    if streamed:
        async with oma.stream_agent(config(), "q", run_id="r-1") as stream:
            async for _ in stream:
                write("consumer")
    else:
        await oma.run_agent(config(), "q", run_id="r-1")
    write("after")
    span_of = {span.name: format(span.context.span_id, "016x") for span in spans.get_finished_spans()}
    trace_id = format(spans.get_finished_spans()[0].context.trace_id, "032x")
    where = {
        "middleware": "invoke_agent x",
        "thread": "execute_tool in_thread",
        "place": "execute_tool in_place",
        "own": "execute_tool in_place",
    }
    by_event = {line["event"]: line for line in lines}
    for event, span in where.items():
        assert [by_event[event][name] for name in IDS] == ["r-1", trace_id, span_of[span]]
    outside = {"before", "after", "consumer"} if streamed else {"before", "after"}
    assert outside <= by_event.keys()
    for event in outside:
        assert not by_event[event].keys() & set(IDS)


@proves("TRC-23")
async def test_without_a_span_the_ids_are_those_of_the_result(lines: list[Any]) -> None:
    result = await OpenMultiAgent().run_agent(config(), "q")
    found = [[line[name] for name in IDS] for line in lines]
    identity = result.identity
    assert found == [[identity.run_id, identity.trace_id, identity.root_span_id]] * 3


@proves("TRC-20")
async def test_what_a_line_has_already_it_keeps(lines: list[Any]) -> None:
    @tool
    def busy() -> str:
        """Write a line about another run."""
        write("about", run_id="other")
        get_logger("own").info("own", run_id="other")
        return "ok"

    adapter = ScriptedAdapter([[ToolUseBlock(id="c", name="busy", input={})], "ok"])
    await OpenMultiAgent().run_agent(AgentConfig("x", adapter=adapter, tools=[busy]), "q")
    assert [line["run_id"] for line in lines] == ["other", "other"]


@proves("TRC-22")
async def test_a_run_within_a_run_gives_the_ids_back(lines: list[Any]) -> None:
    inner = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), middleware=[middleware])

    @tool
    async def nest() -> str:
        """Run another agent."""
        await inner.run_agent({"name": "inner"}, "q", run_id="inner")
        write("outer")
        return "ok"

    adapter = ScriptedAdapter([[ToolUseBlock(id="c", name="nest", input={})], "ok"])
    await OpenMultiAgent().run_agent(AgentConfig("x", adapter=adapter, tools=[nest]), "q", run_id="outer")
    assert [(line["event"], line["run_id"]) for line in lines] == [("middleware", "inner"), ("outer", "outer")]


@proves("TRC-22")
async def test_the_ids_are_gone_after_a_failure_and_after_a_cancellation() -> None:
    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([LLMServerError("down", provider="p"), hang]))
    assert not (await oma.run_agent({"name": "x"}, "q")).success
    assert run_fields() == {}
    with anyio.move_on_after(0.02):
        await oma.run_agent({"name": "x"}, "q")
    assert run_fields() == {}


@proves("TRC-22")
async def test_concurrent_runs_have_their_own_ids(lines: list[Any]) -> None:
    oma = OpenMultiAgent(middleware=[middleware])
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(lambda run_id: oma.run_agent(config(), "q", run_id=run_id), f"r-{number}")
    events = sorted((line["run_id"], line["event"]) for line in lines)
    assert events == sorted(
        (f"r-{number}", event) for number in range(20) for event in ("middleware", "own", "place", "thread")
    )


@proves("TRC-22")
def test_a_run_that_nobody_awaits_any_more_is_closed_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    # The coroutine started in the context of a task that is gone, and is closed in another one.
    token = asyncio.run(_entered())
    leave_run(token)
    assert run_fields() == {}
    gc.collect()
    assert caplog.records == []


async def _entered() -> Any:
    return enter_run(lambda: ("r", "t", "s"))


@proves("TRC-21")
async def test_lines_under_a_callers_remote_span_carry_its_trace(lines: list[Any]) -> None:
    remote = trace.SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(remote)):
        await OpenMultiAgent(middleware=[middleware], default_adapter=ScriptedAdapter(["ok"])).run_agent(
            {"name": "x"}, "q", run_id="r"
        )
    (line,) = lines
    assert [line[name] for name in IDS] == ["r", format(0xABC, "032x"), format(0xDEF, "016x")]

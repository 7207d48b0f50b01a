"""What an orchestrator puts around a run, against whole runs of other libraries and against bare OpenTelemetry spans.

Run it with ``python benchmarks/bench_run_agent.py``; libraries that are not installed are left out. In the same
process and on a model that answers at once it should print at most 0.60 for a run with nothing attached, at most 60 us
for everything attached beyond a run with nothing attached and the bare cost of the same spans, and at most 12 KB for a
run in flight.

The bare spans are measured beside the run: a loop makes a run with nothing attached and then the spans, one after the
other. Two further figures show what that choice means. With the spans in a loop of their own the difference is larger:
there the very same calls take a quarter less, since nothing else uses the processor's caches. With the spans made by
hand around the run and its model call, as an application would make them, it is smaller.
"""

from __future__ import annotations

import asyncio
import base64
import tracemalloc
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.peers import PROMPT, SYSTEM, InstantAdapter, Run, installed_peers
from benchmarks.timing import best, ratio_table
from openmultiagent import AgentConfig, LLMMessage, OpenMultiAgent
from openmultiagent.evaluation import OnlineEvaluation, ScorerContext

IN_FLIGHT = 10_000


class NullExporter(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - the protocol's
        """Forget the spans.

        Args:
            spans: Ignored.
        """
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


def provider() -> TracerProvider:
    """Return a provider with a batch processor, as in production."""
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(NullExporter(), max_queue_size=100_000, schedule_delay_millis=600_000))
    return made


def always_right(context: ScorerContext[Any]) -> float:  # noqa: ARG001 - the protocol's
    """Judge a run."""
    return 1.0


def look(event: Any) -> None:
    """Look at an event, as a listener does.

    Args:
        event: The event.
    """
    _ = event.data


def attached() -> OpenMultiAgent:
    """Return an orchestrator with everything that looks at a run."""
    return OpenMultiAgent(
        tracer_provider=provider(),
        on_progress=look,
        max_token_budget=1_000_000,
        max_cost_budget=1_000_000.0,
        estimate_cost=lambda usage, _context: usage.total_tokens * 1e-6,
        evaluation=OnlineEvaluation([always_right], max_queue=100_000),  # judged later
    )


async def spans_of_a_run() -> tuple[Any, Any]:
    """Return the span of a model call and that of the run around it, as a run with tracing makes them."""
    memory = InMemorySpanExporter()
    recording = TracerProvider()
    recording.add_span_processor(SimpleSpanProcessor(memory))
    await runs_of(OpenMultiAgent(tracer_provider=recording), PROMPT)()
    inner, outer = memory.get_finished_spans()
    return inner, outer


async def bare_spans() -> Run:
    """Return what makes the very spans of a run by the SDK alone."""
    inner, outer = await spans_of_a_run()
    tracer = provider().get_tracer("bare")

    async def run() -> str:
        with tracer.start_as_current_span(outer.name, kind=outer.kind) as around:
            with tracer.start_as_current_span(inner.name, kind=inner.kind) as span:
                span.set_attributes(dict(inner.attributes or {}))
            around.set_attributes(dict(outer.attributes or {}))
        return ""

    return run


def one_after_the_other(*operations: Run) -> Run:
    """Return what does several things in turn.

    Args:
        operations: What it does.
    """

    async def run() -> str:
        return "".join([await operation() for operation in operations])

    return run


async def run_with_bare_spans() -> Run:
    """Return a run with nothing attached that an application has put the very spans of a run around by hand."""
    inner, outer = await spans_of_a_run()
    tracer = provider().get_tracer("bare")

    class TracedAdapter(InstantAdapter):
        async def chat(self, messages: Any, options: Any) -> Any:
            with tracer.start_as_current_span(inner.name, kind=inner.kind) as span:
                answer = await super().chat(messages, options)
                span.set_attributes(dict(inner.attributes or {}))
            return answer

    config = AgentConfig("calculator", adapter=TracedAdapter(), system_prompt=SYSTEM)
    orchestrator = OpenMultiAgent()

    async def run() -> str:
        with tracer.start_as_current_span(outer.name, kind=outer.kind) as span:
            result = await orchestrator.run_agent(config, PROMPT)
            span.set_attributes(dict(outer.attributes or {}))
        return result.output

    return run


def runs_of(orchestrator: OpenMultiAgent, prompt: Any, **fields: Any) -> Run:
    """Return a run of an orchestrator.

    Args:
        orchestrator: Runs it.
        prompt: Its input.
        fields: Of the agent.
    """
    config = AgentConfig("calculator", adapter=InstantAdapter(), system_prompt=SYSTEM, **fields)

    async def run() -> str:
        return (await orchestrator.run_agent(config, prompt)).output

    return run


def images(characters: int) -> list[LLMMessage]:
    """Return a conversation of 50 messages, whose last has an image.

    Args:
        characters: Size of the image.
    """
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(characters * 3 // 4)).decode()
    messages = [LLMMessage.user(f"What is {n} times {n}?") for n in range(49)]
    return [*messages, LLMMessage.user_with_base64_image("What is shown?", data, "image/png")]


class HeldAdapter(InstantAdapter):
    """An adapter whose calls wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.full = asyncio.Event()
        self.go = asyncio.Event()

    async def chat(self, messages: Any, options: Any) -> Any:
        """Wait, then answer.

        Args:
            messages: As for any adapter.
            options: As for any adapter.
        """
        self.waiting += 1
        if self.waiting == IN_FLIGHT:
            self.full.set()
        await self.go.wait()
        return await super().chat(messages, options)


async def bytes_in_flight(*, with_library: bool) -> float:
    """Return the bytes of a run that waits for its model, or of the adapter's waiting call alone.

    Args:
        with_library: Whether there is a run around the call.
    """
    adapter = HeldAdapter()
    orchestrator = OpenMultiAgent()
    config = AgentConfig("calculator", adapter=adapter, system_prompt=SYSTEM)
    await asyncio.sleep(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    if with_library:
        tasks = [asyncio.create_task(orchestrator.run_agent(config, PROMPT)) for _ in range(IN_FLIGHT)]
    else:
        tasks = [asyncio.create_task(adapter.chat([PROMPT], None)) for _ in range(IN_FLIGHT)]
    await adapter.full.wait()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    adapter.go.set()
    await asyncio.gather(*tasks)
    return held / IN_FLIGHT


async def main() -> None:
    """Measure and print."""
    peers = installed_peers()
    nothing, everything = OpenMultiAgent(), attached()
    own = {"run_agent": runs_of(nothing, PROMPT), "without call_timeout": runs_of(nothing, PROMPT, call_timeout=None)}
    times = await best({**own, **{peer.name: peer.plain for peer in peers}}, rounds=60)
    unlimited = times.pop("without call_timeout")
    ratio_table("run_agent, nothing attached (at most 0.60)", times, "run_agent")
    print(f"  {'without call_timeout':32s}{unlimited:9.1f}   (which the fastest of the others does not have)")

    plain, bare = runs_of(nothing, PROMPT), await bare_spans()
    times = await best(
        {
            "all attached": runs_of(everything, PROMPT),
            "nothing attached": plain,
            "bare spans": bare,
            "nothing, then bare spans": one_after_the_other(plain, bare),
            "nothing, within bare spans": await run_with_bare_spans(),
        },
        rounds=60,
    )
    print("\ntracing to a batch processor, progress, budgets and evaluation, in microseconds")
    for name, time in times.items():
        print(f"  {name:32s}{time:9.1f}")
    everything_takes, apart = times["all attached"], times["nothing attached"] + times["bare spans"]
    for name, others, remark in (
        ("all - nothing, then spans", times["nothing, then bare spans"], "at most 60"),
        ("all - nothing - spans", apart, "with each in a loop of its own"),
        ("all - nothing within spans", times["nothing, within bare spans"], "with the spans where they belong"),
    ):
        print(f"  {name:32s}{everything_takes - others:9.1f}   ({remark})")
    everything = attached()  # without the runs above, which still wait to be judged
    small, large = runs_of(everything, images(1_000)), runs_of(everything, images(1_000_000))
    times = await best({"50 messages": small, "50 messages, image of 1 MB": large})
    for name, time in times.items():
        print(f"  {name:32s}{time:9.1f}")
    structured = times["50 messages, image of 1 MB"] - everything_takes
    print(f"  {'structured input adds':32s}{structured:9.1f}   (at most 1500)")

    with_library, without = await bytes_in_flight(with_library=True), await bytes_in_flight(with_library=False)
    print(f"\n{IN_FLIGHT:,} runs in flight, KB each above the adapter's own (at most 12)")
    print(f"  {(with_library - without) / 1024:.1f}   ({with_library / 1024:.1f} - {without / 1024:.1f})")


if __name__ == "__main__":
    asyncio.run(main())

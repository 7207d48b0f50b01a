"""See what a run did: spans in a SQLite file, and in Phoenix or Jaeger if one is running.

It needs no key and no network: the model is a script. The spans stay in a file in your temporary folder; with
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT set, they are also sent there.

    python examples/03_tracing.py
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:6006/v1/traces python examples/03_tracing.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from openmultiagent import AgentConfig, OpenMultiAgent, TextBlock, TokenUsage, ToolUseBlock, tool
from openmultiagent.adapters import LLMResponse
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import TraceContent
from openmultiagent.tracing.sqlite import SpanReader, SQLiteSpanExporter, StoredSpan

FILE = Path(tempfile.gettempdir(), "openmultiagent-example-spans.db")


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"order {number}: shipped on Monday, api_key=sk-this-does-not-belong-here"


def clerk() -> AgentConfig:
    """Make an agent whose model is a script: it looks an order up, and answers."""
    call = ToolUseBlock(id="call-1", name="find_order", input={"number": 17})
    answers = [
        LLMResponse([call], stop_reason="tool_use", usage=TokenUsage(input_tokens=120, output_tokens=18)),
        LLMResponse([TextBlock(text="It left on Monday.")], usage=TokenUsage(input_tokens=160, output_tokens=7)),
    ]
    return AgentConfig("clerk", adapter=ScriptedAdapter(answers), model="script-1", tools=[find_order])


def show(spans: list[StoredSpan], parent: str | None = None, indent: str = "") -> None:
    """Print spans as a tree."""
    for span in spans:
        if span.parent_id == parent:
            print(f"{indent}{span.name}  {span.duration * 1000:.1f} ms")
            for name in ("gen_ai.output.messages", "gen_ai.tool.call.result"):
                if name in span.attributes:
                    print(f"{indent}    {name}: {span.attributes[name]}")
            show(spans, span.span_id, indent + "  ")


async def main(provider: TracerProvider) -> str:
    """Run the agent; its texts go onto the spans, without what looks like a credential."""
    content = TraceContent(capture="redacted")
    async with OpenMultiAgent(tracer_provider=provider, trace_content=content) as oma:
        result = await oma.run_agent(clerk(), "Where is order 17?", metadata={"tenant": "acme"})
        print(result.output)
        return result.identity.trace_id


tracing = TracerProvider(resource=Resource.create({"service.name": "tracing-example"}))
tracing.add_span_processor(BatchSpanProcessor(SQLiteSpanExporter(FILE, max_runs=100)))
if "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in os.environ:  # needs: pip install 'openmultiagent[otlp]'
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

trace_id = asyncio.run(main(tracing))
tracing.shutdown()

with SpanReader(FILE) as reader:
    show(reader.spans(trace_id=trace_id))
    print(f"\nThe newest runs in {FILE}:")
    for run in reader.runs(limit=5).runs:
        tokens = f"{run.input_tokens} tokens in, {run.output_tokens} out"
        print(f"{run.started:%H:%M:%S}  {run.name}  {run.status}  {tokens}")

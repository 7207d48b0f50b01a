"""The tree of spans, and what is told about events."""

from __future__ import annotations

import pytest
from opentelemetry import trace

from openmultiagent import Event, TokenUsage
from openmultiagent.cli._render import event_facts, event_line, usage_line
from openmultiagent.cli._spans import SpanCollector, span_dict, span_tree
from tests.support import proves


def lines(*, draws: bool) -> list[str]:
    collector = SpanCollector()
    tracer = collector.provider.get_tracer("test")
    with tracer.start_as_current_span("root"):
        with tracer.start_as_current_span("first"), tracer.start_as_current_span("inner") as inner:
            inner.set_attribute("error.type", "ToolError")
            inner.set_status(trace.StatusCode.ERROR)
        tracer.start_span("second").end()
    return [line.split("  ")[0] if line.endswith("ok") else line for line in span_tree(collector.spans, draws=draws)]


@proves("CLI-3")
def test_a_tree_is_drawn_in_the_order_of_the_starts() -> None:
    root, first, inner, second = lines(draws=True)
    assert (root, first, second) == ("root", "├─ first", "└─ second")
    assert inner.startswith("│  └─ inner  ")
    assert inner.endswith(" ms  error  error=ToolError")


@proves("CLI-31")
def test_a_tree_can_be_ascii() -> None:
    assert [line.partition("  0")[0] for line in lines(draws=False)] == ["root", "|- first", "|  `- inner", "`- second"]


def test_a_span_whose_parent_is_elsewhere_is_a_root() -> None:
    collector = SpanCollector()
    tracer = collector.provider.get_tracer("test")
    parent = trace.SpanContext(1, 2, is_remote=True)
    tracer.start_span("a", trace.set_span_in_context(trace.NonRecordingSpan(parent))).end()
    (line,) = span_tree(collector.spans, draws=True)
    assert line.startswith("a  ")
    assert span_dict(collector.spans[0])["parent_id"] == "0000000000000002"


@proves("CLI-2")
def test_an_event_of_an_unknown_kind_has_no_facts() -> None:
    event = Event(payload="secret")
    assert event_facts(event) == {}
    assert event_line("stream", event) == "stream      0  event           -"


@proves("CLI-3")
@pytest.mark.parametrize(
    ("unknown", "end"),
    [
        (0, "2 out"),
        (1, "2 out; not counted: 1 model call without usage"),
        (2, "2 out; not counted: 2 model calls without usage"),
    ],
)
def test_usage_that_is_unknown_is_told(unknown: int, end: str) -> None:
    usage = TokenUsage(input_tokens=1, output_tokens=2, unknown_calls=unknown)
    assert usage_line(usage) == f"usage: 1 tokens in, {end}"

"""The spans of a run: collected in memory, as a tree to look at, and as plain data.

The spans are OpenTelemetry's own, from a tracer provider that belongs to one run; the global one is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

__all__ = ["SpanCollector", "span_dict", "span_tree"]

_SHOWN = {
    "gen_ai.provider.name": "provider",
    "gen_ai.response.model": "model",
    "gen_ai.usage.input_tokens": "in",
    "gen_ai.usage.output_tokens": "out",
    "openmultiagent.usage.input_tokens": "in",
    "openmultiagent.usage.output_tokens": "out",
    "openmultiagent.stop_reason": "stop",
    "error.type": "error",
}
"""Attributes that the tree shows, with their short names."""


class SpanCollector:
    """A tracer provider, and what came of it."""

    def __init__(self) -> None:
        # Neither the sampler nor the resource of the environment: they are meant for somebody else's collector.
        self.provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource.get_empty(), shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """The finished spans, in the order of their starts."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def span_tree(spans: Sequence[ReadableSpan], *, draws: bool) -> Iterator[str]:
    """Yield the lines of a tree of spans.

    Args:
        spans: In the order of their starts.
        draws: Whether it is drawn with lines, else in ASCII.
    """
    children: dict[int | None, list[ReadableSpan]] = {}
    known = {_id(span) for span in spans}
    for span in spans:
        parent = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
        children.setdefault(parent, []).append(span)
    yield from _branches(children, None, "", ("├─ ", "└─ ", "│  ") if draws else ("|- ", "`- ", "|  "))


def _branches(
    children: dict[int | None, list[ReadableSpan]], parent: int | None, indent: str, marks: tuple[str, str, str]
) -> Iterator[str]:
    inner, last, line = marks
    siblings = children.get(parent, [])
    for span in siblings:
        is_last = span is siblings[-1]
        branch = "" if parent is None else last if is_last else inner
        yield f"{indent}{branch}{_described(span)}"
        below = "" if parent is None else "   " if is_last else line
        yield from _branches(children, _id(span), indent + below, marks)


def _described(span: ReadableSpan) -> str:
    attributes = span.attributes or {}
    shown = "".join(f"  {short}={attributes[name]!s}" for name, short in _SHOWN.items() if name in attributes)
    return f"{span.name}  {_seconds(span) * 1000:.1f} ms  {_status(span)}{shown}"


def span_dict(span: ReadableSpan) -> dict[str, Any]:
    """Return a span as plain JSON data; its times are in seconds since 1970.

    Args:
        span: A finished span.
    """
    return {
        "name": span.name,
        "span_id": f"{_id(span):016x}",
        "parent_id": None if span.parent is None else f"{span.parent.span_id:016x}",
        "start": (span.start_time or 0) / 1e9,
        "duration": _seconds(span),
        "status": _status(span),
        "attributes": {
            key: list(value) if isinstance(value, tuple) else value for key, value in (span.attributes or {}).items()
        },
    }


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return 0 if context is None else context.span_id


def _seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


def _status(span: ReadableSpan) -> str:
    # OpenTelemetry leaves the status of what went well unset.
    return "ok" if span.status.is_ok or span.status.is_unset else "error"

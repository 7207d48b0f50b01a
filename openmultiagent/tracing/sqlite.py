"""Spans in a SQLite file: an exporter for OpenTelemetry's SDK, and a reader of what it has stored.

A module of its own, since it imports the SDK and SQLite, which ``import openmultiagent`` does not load.
"""

from ._export_sqlite import SQLiteSpanExporter
from ._span_reader import RunPage, SpanReader, StoredRun, StoredSpan

__all__ = ["RunPage", "SQLiteSpanExporter", "SpanReader", "StoredRun", "StoredSpan"]

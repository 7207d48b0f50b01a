"""An exporter of OpenTelemetry's SDK that keeps spans in a SQLite file.

Not here: how the file is built (``_span_file``) and read (``_span_reader``). Invariant: a batch is stored whole or not
at all, and a failure is told to the SDK and logged, never raised.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from .._log import get_logger
from .._shown import shown
from .._sqlite import patiently, transaction
from ..errors import ConfigurationError
from . import _names as names
from ._span_file import delete_before, oldest_kept_start, open_for_writing, store_errors

__all__ = ["SQLiteSpanExporter"]

_log = get_logger(__name__)

_PRUNE_EVERY = 60.0
"""Seconds between two looks for spans that are too old."""
_SLACK = 10
"""The part of ``max_runs`` that may come on top before the oldest runs are deleted."""
_COLUMNS = 13


class SQLiteSpanExporter(SpanExporter):
    """Keeps spans in one SQLite file, which ``SpanReader`` reads, also while it is being written.

    Give it to a ``BatchSpanProcessor``: it then writes from the processor's own thread, and no run waits for the disk.
    Several processes may write to the same file.

    Args:
        path: The file; it is made if it is not there, for its owner alone, in a folder that must exist.
        max_age: Seconds that spans are kept, counted from their start; None for ever.
        max_runs: How many of the newest runs are kept; a tenth more may be in the file. None for all.

    Raises:
        ConfigurationError: A limit makes no sense.
        StoreError: The file cannot be written, is broken, or is something else than a file of spans.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_age: float | None = None, max_runs: int | None = 10_000
    ) -> None:
        if max_age is not None and (type(max_age) not in (int, float) or not 0 < max_age < float("inf")):
            raise ConfigurationError(
                f"max_age must be a positive number of seconds, or None for ever, got {shown(max_age)}"
            )
        if max_runs is not None and (type(max_runs) is not int or max_runs < 1):
            raise ConfigurationError(f"max_runs must be a number from 1, or None for all, got {shown(max_runs)}")
        self.path = Path(path)
        """Where the spans are."""
        self._max_age = max_age
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = open_for_writing(self.path)
        self._new_runs = 0
        self._pruned = time.monotonic()
        self._is_failing = False
        self.prune()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Store finished spans.

        Args:
            spans: The spans.
        """
        rows = [_row(span) for span in spans]
        with self._lock:
            if self._connection is None:
                return SpanExportResult.FAILURE
            try:
                self._store(self._connection, rows)
            except sqlite3.Error as error:
                if not self._is_failing:  # a full disk is told once, not with every batch
                    _log.error("spans_not_stored", path=str(self.path), error=str(error))
                self._is_failing = True
                return SpanExportResult.FAILURE
            self._is_failing = False
        return SpanExportResult.SUCCESS

    def prune(self) -> None:
        """Delete what is too old, or belongs to older runs than are kept; exporting does so from time to time.

        Raises:
            StoreError: The file cannot be written.
        """
        with self._lock, store_errors(self.path, "cannot be written"):
            if self._connection is not None:
                self._prune(self._connection)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the base class's signature
        """Return True: what was exported is stored already.

        Args:
            timeout_millis: Not needed.
        """
        return True

    def shutdown(self) -> None:
        """Close the file; what is exported afterwards is refused."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _store(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * _COLUMNS)

        def insert() -> None:
            with transaction(connection):
                connection.executemany(f"INSERT OR REPLACE INTO spans VALUES ({marks})", rows)  # noqa: S608 - marks only

        patiently(insert)
        self._new_runs += sum(row[10] is not None for row in rows)
        too_many = self._max_runs is not None and self._new_runs > self._max_runs // _SLACK
        if too_many or (self._max_age is not None and time.monotonic() - self._pruned >= _PRUNE_EVERY):
            self._prune(connection)

    def _prune(self, connection: sqlite3.Connection) -> None:
        patiently(lambda: self._delete(connection))
        self._new_runs = 0
        self._pruned = time.monotonic()

    def _delete(self, connection: sqlite3.Connection) -> None:
        starts = [] if self._max_age is None else [time.time_ns() - int(self._max_age * 1e9)]
        if self._max_runs is not None:
            oldest = oldest_kept_start(connection, self._max_runs)
            if oldest is not None:
                starts.append(oldest)
        if starts:
            delete_before(connection, max(starts))


def _row(span: ReadableSpan) -> tuple[Any, ...]:
    attributes = span.attributes or {}
    context = span.get_span_context() or SpanContext(0, 0, is_remote=False)
    attempt = attributes.get(names.RUN_ATTEMPT)
    run_status = attributes.get(names.STATUS)
    return (
        format_trace_id(context.trace_id),
        format_span_id(context.span_id),
        None if span.parent is None else format_span_id(span.parent.span_id),
        _text(span.name),
        span.kind.name.lower(),
        span.status.status_code.name.lower(),
        span.start_time or 0,
        span.end_time or 0,
        _text(attributes.get(names.RUN_ID)),
        _text(attributes.get(names.AGENT_NAME)),
        attempt if isinstance(attempt, int) else None,
        _text(run_status),
        json.dumps(_details(span, attributes), separators=(",", ":"), default=str),
    )


def _details(span: ReadableSpan, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attributes": dict(attributes),
        "events": [
            {"name": event.name, "time_ns": event.timestamp, "attributes": dict(event.attributes or {})}
            for event in span.events
        ],
        "links": [
            {
                "trace_id": format_trace_id(link.context.trace_id),
                "span_id": format_span_id(link.context.span_id),
                "attributes": dict(link.attributes or {}),
            }
            for link in span.links
        ],
        "service": span.resource.attributes.get("service.name"),
    }


def _text(value: object) -> str | None:
    # The names of other libraries' spans may have lone surrogates, which SQLite does not take.
    return None if value is None else str(value).encode("utf-8", "replace").decode()

"""Questions to a file of spans.

Not here: writing it. Invariants: a reader never changes the file, and reads it while others write; pages of runs stay
where they are when new runs come.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .._record import record
from .._shown import shown
from .._sqlite import patiently
from ..errors import ConfigurationError, StoreError
from . import _names as names
from ._span_file import open_for_reading, store_errors

__all__ = ["RunPage", "SpanReader", "StoredRun", "StoredSpan"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_ROWS = 10_000
"""Rows that one question is answered with at most."""


@record(kw_only=True)
class StoredSpan:
    """A span of the file."""

    trace_id: str
    """32 lower-case hexadecimal digits."""
    span_id: str
    """16 lower-case hexadecimal digits."""
    parent_id: str | None
    """The span that it hangs on, which need not be in the file."""
    name: str
    kind: str
    """``internal``, ``client``, ``server``, ``producer`` or ``consumer``."""
    status: str
    """``unset``, ``ok`` or ``error``."""
    started: datetime
    duration: float
    """Seconds."""
    run_id: str | None
    """The run that it belongs to, if any."""
    agent: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    """Each with ``name``, ``time_ns`` and ``attributes``."""
    links: Sequence[Mapping[str, Any]] = ()
    """Each with ``trace_id``, ``span_id`` and ``attributes``."""
    service: str | None = None
    """``service.name`` of the resource."""


@record(kw_only=True)
class StoredRun:
    """A finished run of the file."""

    run_id: str
    attempt: int
    name: str
    """Name of the agent, or of the team."""
    status: str
    """Code of the run's status: ``ok``, ``error``, ``cancelled``, ...; ``unknown`` if it left none."""
    error_type: str | None
    started: datetime
    duration: float
    """Seconds."""
    trace_id: str
    span_id: str
    input_tokens: int | None
    """None when the run was cancelled before it could say."""
    output_tokens: int | None
    unknown_calls: int | None
    """Model calls that reported no usage."""


@record
class RunPage:
    """Some runs, newest first."""

    runs: Sequence[StoredRun]
    next: str | None
    """Pass it as ``after`` for the next page; None when there is none."""


class SpanReader:
    """Reads a file that a ``SQLiteSpanExporter`` writes, from any thread.

    Its methods block for as long as the disk does: in async code, call them with ``anyio.to_thread.run_sync``.

    Args:
        path: The file.

    Raises:
        StoreError: It is not there, is broken, or is not a file of spans.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        """Where the spans are."""
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = open_for_reading(self.path)

    def runs(
        self,
        *,
        run_id: str | None = None,
        status: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> RunPage:
        """Return finished runs, newest first.

        Args:
            run_id: Only attempts at this run.
            status: Only runs with this status code.
            agent: Only runs of this agent.
            since: Only runs that started then or later.
            until: Only runs that started earlier.
            limit: The most runs of a page, up to 10,000.
            after: The page before's ``next``.

        Raises:
            ConfigurationError: A time has no zone, or ``limit`` or ``after`` makes no sense.
            StoreError: The file cannot be read.
        """
        where = _Where(run_id=run_id, agent=agent, since=since, until=until)
        where.equals("coalesce(run_status, 'unknown')", status)
        if after is not None:
            where.add("(start_ns, trace_id, span_id) < (?, ?, ?)", *_position(after))
        order = "ORDER BY start_ns DESC, trace_id DESC, span_id DESC"
        rows = self._select("runs", where, order, _checked_limit(limit) + 1)
        found = [_run(row) for row in rows[:limit]]
        more = f"{rows[limit - 1]['start_ns']}:{found[-1].trace_id}:{found[-1].span_id}" if len(rows) > limit else None
        return RunPage(found, more)

    def spans(
        self,
        *,
        trace_id: str | None = None,
        run_id: str | None = None,
        status: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1_000,
    ) -> list[StoredSpan]:
        """Return spans in the order of their starts; those of a run also while it goes on.

        Args:
            trace_id: Only spans of this trace.
            run_id: Only spans of this run.
            status: Only spans with this status: ``unset``, ``ok`` or ``error``.
            agent: Only spans of this agent.
            since: Only spans that started then or later.
            until: Only spans that started earlier.
            limit: The most spans, up to 10,000.

        Raises:
            ConfigurationError: A time has no zone, or ``limit`` makes no sense.
            StoreError: The file cannot be read.
        """
        where = _Where(run_id=run_id, agent=agent, since=since, until=until)
        where.equals("trace_id", trace_id)
        where.equals("status", status)
        rows = self._select("spans", where, "ORDER BY start_ns, end_ns DESC, span_id", _checked_limit(limit))
        return [_span(row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _select(self, table: str, where: _Where, order: str, limit: int) -> list[sqlite3.Row]:
        # Only constants are put together here; every value is a parameter.
        query = f"SELECT * FROM {table} {where.clause} {order} LIMIT ?"  # noqa: S608 - see above
        with self._lock, store_errors(self.path, "cannot be read"):
            if self._connection is None:
                raise StoreError(f"the reader of {self.path} is closed; make a new one")
            cursor = self._connection.cursor()
            cursor.row_factory = sqlite3.Row
            return patiently(lambda: cursor.execute(query, (*where.values, limit)).fetchall())


class _Where:
    """The conditions of a query."""

    def __init__(
        self, *, run_id: str | None, agent: str | None, since: datetime | None, until: datetime | None
    ) -> None:
        self._conditions: list[str] = []
        self.values: list[object] = []
        self.equals("run_id", run_id)
        self.equals("agent", agent)
        if since is not None:
            self.add("start_ns >= ?", _nanoseconds("since", since))
        if until is not None:
            self.add("start_ns < ?", _nanoseconds("until", until))

    @property
    def clause(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""

    def equals(self, column: str, value: str | None) -> None:
        if value is not None:
            self.add(f"{column} = ?", value)

    def add(self, condition: str, *values: object) -> None:
        self._conditions.append(condition)
        self.values += values


def _nanoseconds(name: str, time: datetime) -> int:
    if getattr(time, "tzinfo", None) is None:
        raise ConfigurationError(f"{name} must be a time with a zone, such as datetime.now(UTC), got {shown(time)}")
    return (time - _EPOCH) // timedelta(microseconds=1) * 1_000


def _checked_limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= _MAX_ROWS:
        raise ConfigurationError(f"limit must be between 1 and {_MAX_ROWS}, got {shown(limit)}")
    return limit


def _position(after: str) -> tuple[int, str, str]:
    try:
        start, trace_id, span_id = after.split(":")
        return int(start), trace_id, span_id
    except (AttributeError, TypeError, ValueError):
        raise ConfigurationError(f"after must be the `next` of a page, got {shown(after)}") from None


def _times(row: sqlite3.Row) -> dict[str, Any]:
    started = _EPOCH + timedelta(microseconds=row["start_ns"] // 1_000)
    return {"started": started, "duration": (row["end_ns"] - row["start_ns"]) / 1e9}


def _run(row: sqlite3.Row) -> StoredRun:
    attributes = json.loads(row["details"])["attributes"]
    return StoredRun(
        run_id=row["run_id"],
        attempt=row["attempt"],
        name=attributes.get(names.WORKFLOW_NAME, row["agent"]),
        status="unknown" if row["run_status"] is None else row["run_status"],
        error_type=attributes.get(names.ERROR_TYPE),
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        input_tokens=attributes.get(names.TOTAL_INPUT),
        output_tokens=attributes.get(names.TOTAL_OUTPUT),
        unknown_calls=attributes.get(names.UNKNOWN_CALLS),
        **_times(row),
    )


def _span(row: sqlite3.Row) -> StoredSpan:
    columns = ("trace_id", "span_id", "parent_id", "name", "kind", "status", "run_id", "agent")
    return StoredSpan(**{name: row[name] for name in columns}, **_times(row), **json.loads(row["details"]))

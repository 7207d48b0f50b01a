"""The SQLite file that holds spans: its schema, who may open it, and what is deleted from it.

One table with a row a span; ``runs`` is a view of the spans of whole runs. Invariants: a file that is not ours is never
written to; the file is in WAL mode, so that it is readable while somebody writes; it is readable by its owner only,
since what was said may stand in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .._sqlite import make_private, patiently, transaction
from ..errors import StoreError

__all__ = [
    "delete_before",
    "oldest_kept_start",
    "open_for_reading",
    "open_for_writing",
    "store_errors",
]

_VERSION = 1

_MARK = "openmultiagent_spans"
"""The table whose only row is the version; its name says whose file it is."""
_BUSY_TIMEOUT = 5.0
"""Seconds that a statement waits for another process that writes."""

_SCHEMA = (
    f"CREATE TABLE {_MARK} (version INTEGER NOT NULL)",
    f"INSERT INTO {_MARK} VALUES ({_VERSION})",  # noqa: S608 - constants
    """CREATE TABLE spans (
        trace_id TEXT NOT NULL,
        span_id TEXT NOT NULL,
        parent_id TEXT,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        start_ns INTEGER NOT NULL,
        end_ns INTEGER NOT NULL,
        run_id TEXT,
        agent TEXT,
        attempt INTEGER,
        run_status TEXT,
        details TEXT NOT NULL,
        UNIQUE (trace_id, span_id)
    )""",
    "CREATE INDEX spans_by_start ON spans (start_ns)",
    "CREATE INDEX spans_by_run ON spans (run_id, start_ns) WHERE run_id IS NOT NULL",
    "CREATE INDEX runs_by_start ON spans (start_ns, trace_id, span_id) WHERE attempt IS NOT NULL",
    # A span of a run within the same run, such as that of one agent of a team, is no run of its own.
    """CREATE VIEW runs AS SELECT * FROM spans AS run WHERE attempt IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM spans AS above
        WHERE above.trace_id = run.trace_id AND above.span_id = run.parent_id AND above.run_id = run.run_id
    )""",
)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a file of spans, and make it if it is not there; from any thread, but by one at a time.

    Args:
        path: The file.

    Raises:
        StoreError: It cannot be opened, is broken, or is not a file of spans of this version.
    """
    with store_errors(path, "cannot be written"):
        make_private(path)
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            patiently(lambda: _prepare(connection, path))
            on_failure.pop_all()
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a file of spans that is only read; from any thread, but by one at a time.

    Args:
        path: The file.

    Raises:
        StoreError: It is not there, is broken, or is not a file of spans of this version.
    """
    with store_errors(path, "cannot be read"):
        if not path.is_file():
            raise StoreError(f"there is no file of spans at {path}; a SQLiteSpanExporter makes it")
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            if not patiently(lambda: _is_ours(connection, path)):
                raise _foreign(path)
            on_failure.pop_all()
    return connection


@contextmanager
def store_errors(path: Path, what: str) -> Iterator[None]:
    """Raise what goes wrong with a file as a ``StoreError``.

    Args:
        path: The file, for the text.
        what: What could not be done.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"the file of spans {path} {what}: {error}") from error


def oldest_kept_start(connection: sqlite3.Connection, max_runs: int) -> int | None:
    """Return when the oldest run started that is kept, in nanoseconds; None when there are no more than that.

    Args:
        connection: The file.
        max_runs: How many are kept.
    """
    row = connection.execute(
        "SELECT start_ns FROM runs ORDER BY start_ns DESC LIMIT 2 OFFSET ?", (max_runs - 1,)
    ).fetchall()
    return row[0][0] if len(row) > 1 else None


def delete_before(connection: sqlite3.Connection, start_ns: int) -> None:
    """Delete the spans that started before a time, and give the space back.

    Args:
        connection: The file.
        start_ns: Nanoseconds since 1970.
    """
    connection.execute("DELETE FROM spans WHERE start_ns < ?", (start_ns,))
    connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page and stop


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if not _is_ours(connection, path):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before there is a table
        connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection):
            if not _is_ours(connection, path):  # another process may have been quicker
                for statement in _SCHEMA:
                    connection.execute(statement)
    # With WAL a crash of the machine may lose the last spans, and never breaks the file.
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Say whether the file is one of spans, or empty; refuse it otherwise."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return False
    if _MARK not in tables:
        raise _foreign(path)
    row = connection.execute(f"SELECT version FROM {_MARK}").fetchone()  # noqa: S608 - a constant
    if row is None or row[0] != _VERSION:
        found = "no version" if row is None else f"version {row[0]}"
        raise StoreError(f"the file of spans {path} has {found}, not {_VERSION}; write to a new file")
    return True


def _foreign(path: Path) -> StoreError:
    return StoreError(f"{path} is not a file of spans; give the exporter a path of its own")

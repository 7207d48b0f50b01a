"""The store of evaluation records in a SQLite file.

Every call runs in a worker thread, one at a time, so it may be used from any number of tasks and event loops; other
processes may read, and write, meanwhile. Invariants: the records of one call are stored all or not at all; a file that
is not such a store, or is broken, is told and never written to.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ._records import EvalRecord

if TYPE_CHECKING:
    import sqlite3

__all__ = ["EvalPage", "SQLiteEvalStore"]

R = TypeVar("R")

_APPLICATION_ID = 0x6F6D6165
"""Says in the file's head that it is such a store ("omae")."""
_SCHEMA_VERSION = 1
_BUSY_TIMEOUT = 5.0
"""Seconds to wait for other processes that write."""
_PRUNE_INTERVAL = 60.0
"""Seconds between two looks at what is too old while records are being stored."""
_MAX_LIMIT = 1000

_SCHEMA = """
CREATE TABLE records (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    timestamp REAL NOT NULL,
    run_id TEXT NOT NULL,
    scorer TEXT NOT NULL,
    status TEXT NOT NULL,
    passed INTEGER,
    score REAL,
    data TEXT NOT NULL
);
CREATE INDEX records_by_run ON records (run_id);
CREATE INDEX records_by_scorer ON records (scorer, seq);
CREATE INDEX records_by_time ON records (timestamp);
"""


@dataclass(frozen=True, slots=True)
class EvalPage:
    """Some of the records that a query found."""

    records: list[EvalRecord]
    cursor: str | None
    """Passed to the next query, it goes on after these; None after the last ones."""


class SQLiteEvalStore:
    """Keeps records in a SQLite file, which is opened, or made for its owner's eyes only, by the first call.

    Args:
        path: The file; its folder must exist.
        max_records: The newest that are kept; all unless given.
        max_age: Seconds for which records are kept; for ever unless given.

    Raises:
        ConfigurationError: A limit is no positive number.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_records: int | None = None, max_age: float | None = None
    ) -> None:
        for name, limit in (("max_records", max_records), ("max_age", max_age)):
            if limit is not None and (type(limit) not in (int, float) or not limit > 0):
                raise ConfigurationError(
                    f"SQLiteEvalStore {name} must be a positive number or None, got {shown(limit)}"
                )
        self._path = os.fspath(path)
        self._max_records = max_records
        self._max_age = max_age
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pruned = 0.0

    async def append(self, records: Sequence[EvalRecord]) -> None:
        """Store records; those whose id is stored already are left out.

        Args:
            records: All of them are stored, or none.

        Raises:
            StoreError: The file cannot be written, or is no such store.
        """
        rows = [_row(record) for record in records]
        await self._run(lambda connection: self._append(connection, rows))

    async def query(  # noqa: PLR0913 - one argument for each filter; all by keyword
        self,
        *,
        run_id: str | None = None,
        scorer: str | None = None,
        status: Literal["scored", "scorer_error"] | None = None,
        passed: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EvalPage:
        """Return a page of records, in the order in which they were stored.

        Args:
            run_id: Only those of this run.
            scorer: Only those of this scorer.
            status: Only scores, or only failures of scorers.
            passed: Only those that passed, or did not.
            since: Only those from this time on.
            until: Only those before this time.
            newest_first: Whether the order is the other way round.
            limit: Records on a page, 1 to 1,000.
            cursor: From the page before; the other arguments have to be the same as for that.

        Raises:
            ConfigurationError: The limit or the cursor makes no sense.
            StoreError: The file cannot be read, or is no such store.
        """
        if type(limit) is not int or not 1 <= limit <= _MAX_LIMIT:
            raise ConfigurationError(f"limit must be from 1 to {_MAX_LIMIT}, got {shown(limit)}")
        wanted: list[tuple[str, object]] = [
            ("run_id = ?", run_id),
            ("scorer = ?", scorer),
            ("status = ?", status),
            ("passed = ?", None if passed is None else int(passed)),
            ("timestamp >= ?", None if since is None else since.timestamp()),
            ("timestamp < ?", None if until is None else until.timestamp()),
            ("seq < ?" if newest_first else "seq > ?", _position(cursor)),
        ]
        conditions = [(text, value) for text, value in wanted if value is not None]
        where = " AND ".join(["1", *(text for text, _value in conditions)])
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT seq, data FROM records WHERE {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608 - own words only
        values = [*(value for _text, value in conditions), limit + 1]
        rows: list[tuple[int, str]] = await self._run(lambda connection: connection.execute(sql, values).fetchall())
        page = rows[:limit]
        return EvalPage([_record(data) for _seq, data in page], str(page[-1][0]) if len(rows) > limit else None)

    async def prune(self) -> int:
        """Delete what is too old or too much, and return how many records that were; ``append`` does it, too.

        Raises:
            StoreError: The file cannot be written, or is no such store.
        """
        return await self._run(self._prune)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await anyio.to_thread.run_sync(self._close)

    async def _run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        return await anyio.to_thread.run_sync(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], R]) -> R:
        import sqlite3  # noqa: PLC0415 - import time

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path)
                return work(self._connection)
            except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
                raise StoreError(f"evaluation store {self._path}: {error}") from error

    def _append(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT OR IGNORE INTO records (id, timestamp, run_id, scorer, status, passed, score, data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._delete_surplus(connection)
            if time.monotonic() - self._pruned > _PRUNE_INTERVAL:
                self._delete_old(connection)

    def _prune(self, connection: sqlite3.Connection) -> int:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            return self._delete_surplus(connection) + self._delete_old(connection)

    def _delete_surplus(self, connection: sqlite3.Connection) -> int:
        if self._max_records is None:
            return 0
        return connection.execute(
            "DELETE FROM records WHERE seq <= (SELECT seq FROM records ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (self._max_records,),
        ).rowcount

    def _delete_old(self, connection: sqlite3.Connection) -> int:
        self._pruned = time.monotonic()
        if self._max_age is None:
            return 0
        return connection.execute("DELETE FROM records WHERE timestamp < ?", (time.time() - self._max_age,)).rowcount

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()


def _open(path: str) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 - import time

    # Made here, since SQLite would let everybody read it; what it adds beside the file has the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    # Without implicit transactions; used by one thread at a time, under the store's lock.
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    is_ready = False
    try:
        _check(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        is_ready = True
        return connection
    finally:
        if not is_ready:
            connection.close()


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Make the schema in an empty file; refuse a file of anybody else, or of a later version."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == _APPLICATION_ID and version == _SCHEMA_VERSION:
            return
        if application == _APPLICATION_ID:
            raise StoreError(
                f"evaluation store {path}: it has schema version {version}, this library knows {_SCHEMA_VERSION};"
                " use a newer library, or another file",
                code="STORE_VERSION",
            )
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise StoreError(f"evaluation store {path}: it is a database of something else; use another file")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _row(record: EvalRecord) -> tuple[Any, ...]:
    try:
        data = json.dumps(record.to_dict(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"record of scorer {shown(record.scorer)} cannot be stored as JSON: {error}") from error
    passed = None if record.passed is None else int(record.passed)
    key = (record.id, record.timestamp.timestamp(), record.identity.run_id, record.scorer, record.status)
    return (*key, passed, record.score, data)


def _record(data: str) -> EvalRecord:
    try:
        return EvalRecord.from_dict(json.loads(data))
    except ValueError as error:
        raise StoreError(f"a stored evaluation record is broken: {error}") from error


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        return int(cursor)
    except (TypeError, ValueError):
        raise ConfigurationError(f"cursor must be one that a query returned, got {shown(cursor)}") from None

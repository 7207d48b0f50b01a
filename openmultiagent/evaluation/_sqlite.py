"""The store of evaluation records in a SQLite file.

Every call runs in a worker thread, one at a time, so it may be used from any number of tasks and event loops; other
processes may read, and write, meanwhile. Invariants: the records of one call are stored all or not at all; a file that
is not such a store, or is broken, is told and never written to.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from .._record import record
from .._shown import shown
from .._sqlite import FileKind, SQLiteFile, transaction
from ..errors import ConfigurationError, StoreError
from ._records import EvalRecord

if TYPE_CHECKING:
    import sqlite3

__all__ = ["EvalPage", "SQLiteEvalStore"]

_PRUNE_INTERVAL = 60.0
"""Seconds between two looks at what is too old while records are being stored."""
_MAX_LIMIT = 1000

_KIND = FileKind(
    "evaluation store",
    application_id=0x6F6D6165,  # "omae"
    version=1,
    schema="""
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
""",
)


@record
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
        if max_records is not None and (type(max_records) is not int or max_records < 1):
            raise ConfigurationError(
                f"SQLiteEvalStore max_records must be a whole number from 1 or None, got {shown(max_records)}"
            )
        if max_age is not None and (type(max_age) not in (int, float) or not max_age > 0):
            raise ConfigurationError(f"SQLiteEvalStore max_age must be a positive number or None, got {shown(max_age)}")
        self._file = SQLiteFile(path, _KIND)
        self._max_records = max_records
        self._max_age = max_age
        self._pruned = 0.0

    async def append(self, records: Sequence[EvalRecord]) -> None:
        """Store records; those whose id is stored already are left out.

        Args:
            records: All of them are stored, or none.

        Raises:
            StoreError: The file cannot be written, or is no such store.
        """
        rows = [_row(record) for record in records]
        await self._file.run(lambda connection: self._append(connection, rows))

    async def query(  # noqa: PLR0913 - one argument for each filter; all by keyword
        self,
        *,
        run_id: str | None = None,
        scorer: str | None = None,
        status: Literal["scored", "scorer_error"] | None = None,
        run_status: str | None = None,
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
            run_status: Only those of runs that ended so, such as ``ok``.
            passed: Only those that passed, or did not.
            since: Only those from this time on.
            until: Only those before this time.
            newest_first: Whether the order is the other way round.
            limit: Records on a page, 1 to 1,000.
            cursor: From the page before; the other arguments have to be the same as for that.

        Raises:
            ConfigurationError: The limit or the cursor makes no sense, or a time has no zone.
            StoreError: The file cannot be read, or is no such store.
        """
        if type(limit) is not int or not 1 <= limit <= _MAX_LIMIT:
            raise ConfigurationError(f"limit must be from 1 to {_MAX_LIMIT}, got {shown(limit)}")
        wanted: list[tuple[str, object]] = [
            ("run_id = ?", run_id),
            ("scorer = ?", scorer),
            ("status = ?", status),
            ("json_extract(data, '$.run_status') = ?", run_status),
            ("passed = ?", None if passed is None else int(passed)),
            ("timestamp >= ?", _seconds("since", since)),
            ("timestamp < ?", _seconds("until", until)),
            ("seq < ?" if newest_first else "seq > ?", _position(cursor)),
        ]
        conditions = [(text, value) for text, value in wanted if value is not None]
        where = " AND ".join(["1", *(text for text, _value in conditions)])
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT seq, data FROM records WHERE {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608 - own words only
        values = [*(value for _text, value in conditions), limit + 1]
        rows: list[tuple[int, str]] = await self._file.run(
            lambda connection: connection.execute(sql, values).fetchall()
        )
        page = rows[:limit]
        return EvalPage([_record(data) for _seq, data in page], str(page[-1][0]) if len(rows) > limit else None)

    async def prune(self) -> int:
        """Delete what is too old or too much, and return how many records that were; ``append`` does it, too.

        Raises:
            StoreError: The file cannot be written, or is no such store.
        """
        return await self._file.run(self._prune)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._file.aclose()

    def _append(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        with transaction(connection):
            connection.executemany(
                "INSERT OR IGNORE INTO records (id, timestamp, run_id, scorer, status, passed, score, data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._delete_surplus(connection)
            if time.monotonic() - self._pruned > _PRUNE_INTERVAL:
                self._delete_old(connection)

    def _prune(self, connection: sqlite3.Connection) -> int:
        with transaction(connection):
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


def _seconds(name: str, time: datetime | None) -> float | None:
    if time is None:
        return None
    if getattr(time, "tzinfo", None) is None:
        raise ConfigurationError(f"{name} must be a time with a zone, such as datetime.now(UTC), got {shown(time)}")
    return time.timestamp()


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        return int(cursor)
    except (TypeError, ValueError):
        raise ConfigurationError(f"cursor must be one that a query returned, got {shown(cursor)}") from None

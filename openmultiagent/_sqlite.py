"""SQLite files that the library keeps: one connection, one thread at a time, readable by their owner only.

Not here: what is in them. Invariants: a file that is not of the expected kind and version is told and never written to;
a unit of work is done whole or not at all; the event loop never waits for the disk; ``sqlite3`` is loaded by the first
use, not by the import.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ._record import record
from .errors import StoreError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["FileKind", "SQLiteFile", "make_private", "patiently", "transaction"]

R = TypeVar("R")

_BUSY_TIMEOUT = 5.0
"""Seconds to wait for other processes that write."""
_PAUSE = 0.01
"""Seconds between two attempts."""

_LIMITERS: RunVar[WeakKeyDictionary[SQLiteFile, anyio.CapacityLimiter]] = RunVar("openmultiagent_sqlite_files")

_OF_OTHER_PROCESSES: list[object] = []
"""Connections that a fork took along: to close them here could break them in the process that opened them."""


@record
class FileKind:
    """What a file is for, and how it is told from others."""

    name: str
    """What errors call it."""
    application_id: int
    """Says in the file's head that it is such a file: four letters, as a number."""
    version: int
    """Of the schema."""
    schema: str
    """Statements, each with a semicolon behind it and none within, that make the tables in an empty file."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    """Whether a crash of the machine may lose what was written last (it never breaks the file)."""


class SQLiteFile:
    """A file that is opened, or made, by the first work that is done with it.

    Args:
        path: The file; its folder must exist.
        kind: What it is for.
    """

    def __init__(self, path: str | os.PathLike[str], kind: FileKind) -> None:
        self.path = os.fspath(path)
        self._kind = kind
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    async def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Return what some work with the file returns, which is done in a worker thread.

        Args:
            work: Gets the connection, which has no implicit transactions.

        Raises:
            StoreError: The file cannot be read or written, or is of another kind.
        """
        return await anyio.to_thread.run_sync(self._locked, work, limiter=self._limiter())

    async def aclose(self) -> None:
        """Close the file; the next work opens it again."""
        await anyio.to_thread.run_sync(self._close, limiter=self._limiter())

    def _limiter(self) -> anyio.CapacityLimiter:
        # One thread a file and event loop, besides those of everybody else: who waits for the disk keeps none busy.
        limiters = _LIMITERS.get(None)
        if limiters is None:
            limiters = WeakKeyDictionary()
            _LIMITERS.set(limiters)
        return limiters.setdefault(self, anyio.CapacityLimiter(1))

    def _locked(self, work: Callable[[sqlite3.Connection], R]) -> R:
        import sqlite3  # noqa: PLC0415 - import time

        with self._lock:
            try:
                return work(self._opened())
            except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
                raise StoreError(f"{self._kind.name} {self.path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        process = os.getpid()
        if self._connection is not None and self._process != process:
            _OF_OTHER_PROCESSES.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = _open(self.path, self._kind)
            self._process = process
        return self._connection

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._process == os.getpid():
            connection.close()


def make_private(path: str | os.PathLike[str]) -> None:
    """Make a file, unless it is there, that its owner alone may read; what SQLite adds beside it has the same mode.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be made.
    """
    # Never opens a file that is there: closing it again would take away the locks of this process's other connections.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def patiently(action: Callable[[], R]) -> R:
    """Return what an action returns, made again while others keep the file from it.

    SQLite itself waits for others that write, but not for those that just open or close the file.

    Args:
        action: Must leave nothing behind when it fails.

    Raises:
        sqlite3.Error: It failed otherwise, or for too long.
    """
    import sqlite3  # noqa: PLC0415 - import time

    deadline = time.monotonic() + _BUSY_TIMEOUT
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


class transaction:  # noqa: N801 - a context manager, read as a function
    """Commits at the end of its block, or takes everything back.

    Args:
        connection: The file.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # some failures have taken it back already
                self._connection.execute("ROLLBACK")


def _open(path: str, kind: FileKind) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 - import time

    make_private(path)
    # Without implicit transactions; used by one thread at a time, under the lock.
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    is_ready = False
    try:
        patiently(lambda: _prepare(connection, path, kind))
        is_ready = True
        return connection
    finally:
        if not is_ready:
            connection.close()


def _prepare(connection: sqlite3.Connection, path: str, kind: FileKind) -> None:
    _check(connection, path, kind)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {kind.synchronous}")


def _check(connection: sqlite3.Connection, path: str, kind: FileKind) -> None:
    """Make the schema in an empty file; refuse a file of anybody else, or of another version."""
    with transaction(connection):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == kind.application_id and version == kind.version:
            return
        if application == kind.application_id:
            raise StoreError(
                f"{kind.name} {path}: it has schema version {version}, this library knows {kind.version};"
                " use a newer library, or another file",
                code="STORE_VERSION",
            )
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise StoreError(f"{kind.name} {path}: it is a database of something else; use another file")
        for statement in kind.schema.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {kind.application_id}")
        connection.execute(f"PRAGMA user_version = {kind.version}")

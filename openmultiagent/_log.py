"""Loggers, without the cost of structlog at import.

``import openmultiagent`` must stay quick, and structlog alone takes a fifth of that budget, so it is imported when the
first line is written. Invariants: a text that comes from a model, a tool or a user is always a *value* of an event,
never part of its name or a format string; while a run goes on, its lines carry its ids, which are looked up when a line
is written and not before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

from opentelemetry import trace

__all__ = ["LazyLogger", "RunSource", "current_run", "enter_run", "get_logger", "leave_run", "run_fields"]

RunSource = Callable[[], tuple[str, str, str]]
"""Tells the run id, and the trace and span id that stand in where no span is current."""

_RUN: ContextVar[RunSource | None] = ContextVar("openmultiagent_run", default=None)


def enter_run(source: RunSource) -> Token[RunSource | None]:
    """Have the lines of this task, its children and its threads carry a run's ids; pass the token to ``leave_run``.

    Args:
        source: Tells the ids; called when a line is written.
    """
    return _RUN.set(source)


def leave_run(token: Token[RunSource | None]) -> None:
    """Undo ``enter_run``.

    Args:
        token: What it returned.
    """
    try:
        _RUN.reset(token)
    except ValueError:  # a coroutine that nobody awaits any more is closed elsewhere, where nothing was bound
        return


def current_run() -> RunSource | None:
    """Return what ``enter_run`` was told by the innermost run that goes on here."""
    return _RUN.get()


def run_fields() -> dict[str, str]:
    """Return ``run_id``, ``trace_id`` and ``span_id`` of what goes on here; nothing outside of runs."""
    source = _RUN.get()
    if source is None:
        return {}
    run_id, trace_id, span_id = source()
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        trace_id, span_id = trace.format_trace_id(current.trace_id), trace.format_span_id(current.span_id)
    return {"run_id": run_id, "trace_id": trace_id, "span_id": span_id}


class LazyLogger:
    """A structlog logger that is made when the first line is written.

    The application's structlog configuration counts as it is when a line is written.

    Args:
        name: The module that writes; the field ``logger`` of its lines.
    """

    __slots__ = ("_name", "_target")

    def __init__(self, name: str) -> None:
        self._name = name
        self._target: Any = None

    def debug(self, event: str, **fields: object) -> None:
        """Write a line that only a developer of the library looks for."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write a line about something that went as it should."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write a line about something that the operator should look at."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Write a line about something that failed."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        try:
            getattr(self._logger(), level)(event, logger=self._name, **{**run_fields(), **fields})
        except Exception:  # noqa: BLE001 - isolation boundary: a broken log sink must not fail what was worth a line
            return

    def _logger(self) -> Any:
        import structlog  # noqa: PLC0415 - see the module docstring

        if not structlog.is_configured():
            # structlog's own default is standard output, which belongs to the program.
            return structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
        if self._target is None:
            self._target = structlog.get_logger(self._name)
        return self._target


def get_logger(name: str) -> LazyLogger:
    """Return the logger of a module.

    Args:
        name: The module's ``__name__``.
    """
    return LazyLogger(name)

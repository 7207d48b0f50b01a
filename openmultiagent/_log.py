"""Loggers, without the cost of structlog at import.

``import openmultiagent`` must stay quick, and structlog alone takes a fifth of that budget, so it is imported when the
first line is written. Invariant: a text that comes from a model, a tool or a user is always a *value* of an event,
never part of its name or a format string.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["LazyLogger", "get_logger"]


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
            getattr(self._logger(), level)(event, logger=self._name, **fields)
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

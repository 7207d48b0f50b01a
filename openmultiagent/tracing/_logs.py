"""The ids of a run in the application's own log lines."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from .._log import run_fields

__all__ = ["add_run_ids"]


def add_run_ids(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001
    """Add ``run_id``, ``trace_id`` and ``span_id`` to a line that is written while a run goes on.

    A structlog processor: ``structlog.configure(processors=[add_run_ids, ...])``. It works in tools, hooks and
    middleware, also in worker threads; what the line has already it keeps.

    Args:
        logger: Not used.
        method: Not used.
        event: The line.
    """
    for name, value in run_fields().items():
        event.setdefault(name, value)
    return event

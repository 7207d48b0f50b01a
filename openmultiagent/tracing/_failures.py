"""What spans and metrics call a failure; never its text, which may hold a prompt or a key."""

from __future__ import annotations

from typing import Any

from ..outcome import AgentRunResult

__all__ = ["TOOL_ERROR", "run_error_type"]

TOOL_ERROR = "tool_error"
"""The ``error.type`` of a tool call whose result is an error."""

_ERROR_STATUS = frozenset({"error", "timeout", "budget_exhausted"})


def run_error_type(result: AgentRunResult[Any]) -> str | None:
    """Return the ``error.type`` of a run, or None if its status is none of a failure.

    Args:
        result: The run's result.
    """
    if result.status.code not in _ERROR_STATUS:
        return None
    info = result.error_info
    cause = None if info is None else info.code or info.name or info.kind
    return cause or result.status.code

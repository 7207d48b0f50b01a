"""Errors of the caller: raised before anything has happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._base import ConfigurationError

__all__ = [
    "InvalidMessageError",
    "InvalidTaskDependenciesError",
    "InvalidTaskRequirementsError",
    "RoutingDeclarationRequiredError",
]

_NOTED = 20
"""Faults whose reasons are noted."""
_MAX_NOTE = 500
"""Characters of a note."""


class InvalidMessageError(ConfigurationError, ValueError):
    """A message, block or media source does not have the shape that it must have.

    Args:
        message: The fault; where there is a path, the text begins with it.
        path: Where the fault is, such as ``messages[1].content[0].source.url``; empty for constructors.
    """

    code = "INVALID_MESSAGE"
    field_names = ("path",)

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class InvalidTaskRequirementsError(ConfigurationError):
    """Tasks need what no agent of the team offers.

    The reasons of the first faults are notes, so that a traceback shows them.

    Args:
        issues: One mapping per fault, with ``code`` and ``task_title``, and perhaps ``reasons``.
    """

    code = "INVALID_TASK_REQUIREMENTS"
    field_names = ("issues",)

    def __init__(self, issues: Sequence[Mapping[str, Any]]) -> None:
        listed = ", ".join(map(_described, issues))
        super().__init__(f"Task requirements are unsatisfied: {listed}")
        self.issues = [dict(issue) for issue in issues]
        for issue in issues[:_NOTED]:
            for reason in issue.get("reasons") or ():
                self.add_note(f'"{issue.get("task_title")}": {reason}'[:_MAX_NOTE])


def _described(issue: Mapping[str, Any]) -> str:
    reasons = "; ".join(map(str, issue.get("reasons") or ()))
    return f'{issue.get("code")} for "{issue.get("task_title")}"' + (f" ({reasons:.500})" if reasons else "")


class InvalidTaskDependenciesError(ConfigurationError):
    """The task graph cannot be run: cycles, unknown or ambiguous references.

    Args:
        message: All faults of the graph.
        issues: One mapping per fault.
    """

    code = "INVALID_TASK_DEPENDENCIES"
    field_names = ("issues",)

    def __init__(self, message: str, *, issues: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.issues = [dict(issue) for issue in issues]


class RoutingDeclarationRequiredError(ConfigurationError):
    """A governed run needs a declaration that was not made.

    Args:
        message: What has to be declared.
        reasons: Why it has to be.
    """

    code = "ROUTING_DECLARATION_REQUIRED"
    field_names = ("reasons",)

    def __init__(self, message: str, *, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = list(reasons)

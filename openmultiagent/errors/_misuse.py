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

    Args:
        issues: One mapping per fault, with ``code`` and ``task_title``.
    """

    code = "INVALID_TASK_REQUIREMENTS"
    field_names = ("issues",)

    def __init__(self, issues: Sequence[Mapping[str, Any]]) -> None:
        listed = ", ".join(map(_described, issues))
        super().__init__(f"Task requirements are unsatisfied: {listed}")
        self.issues = [dict(issue) for issue in issues]


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

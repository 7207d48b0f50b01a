"""When a task is done at all: what the tasks before it must have come to.

Plain data, so that stored plans have it. Not here: when it is looked at, and what becomes of a task that is not done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Any

from pydantic import Field

from .._spec import spec
from ..errors import ConfigurationError
from ..outcome import AgentRunResult, plain_data

__all__ = ["TaskCondition"]

Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]


@spec
class TaskCondition:
    """What the results of the tasks that a task depends on have to be; one of them that is so will do.

    Raises:
        ConfigurationError: A field is unknown or wrong, or there is not exactly one of ``contains`` and ``field``.
    """

    _: KW_ONLY
    contains: Text | None = None
    """A text that the output must contain, in this very form."""
    field: Text | None = None
    """Name of a field of the structured result."""
    equals: bool | int | Number | str | None = None
    """What that field must be; None unless given."""
    negate: bool = False
    """Whether none of the results may be so."""

    def __post_init__(self) -> None:
        if (self.contains is None) == (self.field is None):
            raise ConfigurationError("TaskCondition needs either contains, for a text, or field and equals")
        if self.contains is not None and self.equals is not None:
            raise ConfigurationError("TaskCondition.equals belongs to field; contains has its text itself")

    def holds(self, results: Iterable[AgentRunResult[Any]]) -> bool:
        """Say whether a task is to be done.

        Args:
            results: What the tasks that it depends on came to.
        """
        return any(map(self._is_met, results)) is not self.negate

    def to_dict(self) -> dict[str, Any]:
        """Return the condition as plain JSON data."""
        if self.contains is not None:
            told: dict[str, Any] = {"contains": self.contains}
        else:
            told = {"field": self.field, "equals": self.equals}
        return told | ({"negate": True} if self.negate else {})

    def _is_met(self, result: AgentRunResult[Any]) -> bool:
        if self.contains is not None:
            return self.contains in result.output
        value = plain_data(result.structured)
        found = value.get(self.field, _NOTHING) if isinstance(value, dict) else _NOTHING
        # True is 1 in Python, and nowhere else.
        return isinstance(found, bool) is isinstance(self.equals, bool) and found == self.equals


_NOTHING = object()

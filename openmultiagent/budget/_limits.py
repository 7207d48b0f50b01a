"""What a scope of the ledger may use, what is left of that, and what a price depends on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, fields
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from .._record import record
from .._shown import shown
from .._spec import from_mapping, spec
from ..errors import ConfigurationError
from ..usage import TokenUsage

__all__ = [
    "UNLIMITED",
    "BudgetMode",
    "CostEstimateContext",
    "CostEstimator",
    "Limits",
    "Remaining",
    "merge_limits",
]

BudgetMode = Literal["soft", "hard"]
"""``soft`` looks at the totals before each model call; ``hard`` also holds what the call may use."""


@spec
class Limits:
    """The most that a scope may use; None is no limit."""

    _: KW_ONLY
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Input and output tokens together."""
    cost: Annotated[float, Field(gt=0)] | None = None
    """In the caller's unit, as ``estimate_cost`` counts it."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """Model calls, failed ones included."""
    tool_calls: Annotated[int, Field(ge=1)] | None = None
    """Tool calls, those that fail or that the gate refuses included, those that a middleware answers not."""
    seconds: Annotated[float, Field(gt=0)] | None = None
    """Wall time from the start of the run."""


UNLIMITED = object.__new__(Limits)  # all defaults; its constructor would build the checks at import
_LIMITS = tuple(item.name for item in fields(Limits))


def merge_limits(*limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Return limits that hold when all of these do: of each kind the least.

    Args:
        limits: Limits, mappings with their fields, or None for none.

    Raises:
        ConfigurationError: One of them makes no sense.
    """
    checked = [_as_limits(item) for item in limits if item is not None]
    given = [item for item in checked if item is not UNLIMITED and item != UNLIMITED]
    if not given:
        return UNLIMITED
    if len(given) == 1:
        return given[0]
    least = {name: [value for item in given if (value := getattr(item, name)) is not None] for name in _LIMITS}
    return Limits(**{name: min(values) for name, values in least.items() if values})


def _as_limits(value: object) -> Limits:
    if isinstance(value, Limits):
        return value
    if isinstance(value, Mapping):
        return from_mapping(Limits, value)
    raise ConfigurationError(f"limits must be Limits or a mapping with their fields, got {shown(value)}")


@record(kw_only=True)
class Remaining:
    """What is left of a budget; None where nothing limits it."""

    tokens: int | None
    cost: float | None
    requests: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None


class CostEstimateContext(NamedTuple):
    """What a model call's price may depend on, besides its usage."""

    agent: str
    model: str
    """The model that was asked for."""
    provider: str
    """Name of the adapter."""
    phase: str
    """What the call was for: ``agent``, ..."""


CostEstimator = Callable[[TokenUsage, CostEstimateContext], float | Awaitable[float]]
"""Prices one model call, in any unit that is used throughout; plain or async."""

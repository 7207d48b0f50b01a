"""The ledger of a run: what model and tool calls used, and whether there may be another one.

Scopes form a tree. Every charge goes to a scope and all its ancestors, so the total of a run is the sum of its calls.
Not here: where calls are intercepted (the budget steps of the model and run seams). Invariants: a call is refused once
a total has *reached* its limit; a scope is overrun once its total is *over* the limit, also by its last call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypeGuard

from pydantic import Field

from ._spec import spec
from .errors import ConfigurationError, CostBudgetExceededError, RunError, TokenBudgetExceededError
from .usage import NO_USAGE, TokenUsage

__all__ = ["BudgetScope", "CostEstimateContext", "CostEstimator", "Limits", "Remaining"]


@spec
class Limits:
    """The most that a scope may use; None is no limit."""

    _: KW_ONLY
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Input and output tokens together."""
    cost: Annotated[float, Field(gt=0)] | None = None
    """In the caller's unit, as ``estimate_cost`` counts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What is left of a budget; None where nothing limits it."""

    tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimateContext:
    """What a model call's price may depend on, besides its usage."""

    agent: str
    model: str
    """The model that was asked for."""
    provider: str
    """Name of the adapter."""
    phase: str
    """What the call was for: ``agent``, ..."""


_UNLIMITED = object.__new__(Limits)  # all defaults; its constructor would build the checks at import

CostEstimator = Callable[[TokenUsage, CostEstimateContext], float]
"""Prices one model call, in any unit that is used throughout."""


class BudgetScope:
    """A node of the ledger.

    Args:
        name: Whose scope it is; errors name it.
        limits: The most that may be used below it.
        parent: The scope that it belongs to.
        estimate_cost: Prices a model call; inherited from the parent unless given.
    """

    __slots__ = ("cost", "estimate_cost", "limits", "name", "parent", "requests", "tool_calls", "usage")

    def __init__(
        self,
        name: str,
        limits: Limits | None = None,
        *,
        parent: BudgetScope | None = None,
        estimate_cost: CostEstimator | None = None,
    ) -> None:
        self.name = name
        self.limits = _UNLIMITED if limits is None else limits
        self.parent = parent
        self.estimate_cost: CostEstimator | None = estimate_cost
        if estimate_cost is None and parent is not None:
            self.estimate_cost = parent.estimate_cost
        if self.limits.cost is not None and self.estimate_cost is None:
            raise ConfigurationError(
                f"{name!r} has a cost budget but nothing that prices a call:"
                " pass estimate_cost=(usage, context) -> float"
            )
        self.usage = NO_USAGE
        self.cost = 0.0
        self.requests = 0
        self.tool_calls = 0

    def child(self, name: str, limits: Limits | None = None) -> BudgetScope:
        """Return a scope below this one.

        Args:
            name: Whose scope it is.
            limits: Its own limits; those of its ancestors hold as well.
        """
        return BudgetScope(name, limits, parent=self)

    def price(self, usage: TokenUsage, context: CostEstimateContext) -> float:
        """Return what a model call costs; 0 without an estimator.

        Args:
            usage: The usage of that call.
            context: What else the price depends on.

        Raises:
            RunError: The estimator returned something that is no price.
        """
        if self.estimate_cost is None:
            return 0.0
        cost: object = self.estimate_cost(usage, context)
        if _is_price(cost):
            return float(cost)
        raise RunError(
            f"Cost estimator returned invalid cost {cost!r:.100} for agent {context.agent!r}:"
            " it must be an int or float, finite and >= 0"
        )

    def charge(
        self, usage: TokenUsage | None = None, *, cost: float = 0.0, requests: int = 0, tool_calls: int = 0
    ) -> None:
        """Add to the totals of this scope and of all its ancestors.

        Args:
            usage: Tokens; None charges none.
            cost: In the caller's unit.
            requests: Model calls.
            tool_calls: Tool calls.
        """
        scope: BudgetScope | None = self
        while scope is not None:
            scope.usage = scope.usage if usage is None else scope.usage + usage
            scope.cost += cost
            scope.requests += requests
            scope.tool_calls += tool_calls
            scope = scope.parent

    def remaining(self) -> Remaining:
        """Return what is left, here and in all ancestors; never below zero, None where nothing limits it."""
        lineage = self._lineage()
        tokens = [s.limits.tokens - s.usage.total_tokens for s in lineage if s.limits.tokens is not None]
        costs = [s.limits.cost - s.cost for s in lineage if s.limits.cost is not None]
        return Remaining(tokens=max(0, min(tokens)) if tokens else None, cost=max(0.0, min(costs)) if costs else None)

    def check(self) -> None:
        """Let one more model call pass, or not.

        Raises:
            TokenBudgetExceededError: A token limit has been reached, here or in an ancestor; names the outermost one.
            CostBudgetExceededError: The same for cost.
        """
        if self.parent is None and self.limits is _UNLIMITED:
            return  # the common case, asked before every model call
        for scope in self._lineage():
            limits = scope.limits
            if limits.tokens is not None and scope.usage.total_tokens >= limits.tokens:
                raise _token_error(scope, limits.tokens)
            if limits.cost is not None and scope.cost >= limits.cost:
                raise _cost_error(scope, limits.cost)

    def overrun(self) -> TokenBudgetExceededError | CostBudgetExceededError | None:
        """Return the error of this scope's own limits if a total is over one, else None; its ancestors do not count."""
        limits = self.limits
        if limits.tokens is not None and self.usage.total_tokens > limits.tokens:
            return _token_error(self, limits.tokens)
        if limits.cost is not None and self.cost > limits.cost:
            return _cost_error(self, limits.cost)
        return None

    def _lineage(self) -> list[BudgetScope]:
        lineage = [self]
        while lineage[-1].parent is not None:
            lineage.append(lineage[-1].parent)
        return lineage[::-1]


def _token_error(scope: BudgetScope, budget: int) -> TokenBudgetExceededError:
    return TokenBudgetExceededError(agent=scope.name, tokens_used=scope.usage.total_tokens, budget=budget)


def _cost_error(scope: BudgetScope, budget: float) -> CostBudgetExceededError:
    return CostBudgetExceededError(agent=scope.name, cost_used=scope.cost, budget=budget)


def _is_price(value: object) -> TypeGuard[int | float]:
    # The comparison is false for NaN, infinity, and integers beyond all floats.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max

"""What an estimator says that a model call costs, at once or when it is awaited.

Invariant: what comes of it is a finite number from 0, or an error, and no wait is without an end.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeGuard

import anyio

from .._shown import shown
from ..errors import RunError
from ..usage import TokenUsage
from ._limits import CostEstimateContext, CostEstimator

__all__ = ["Price", "price_of"]

Price = float | Coroutine[Any, Any, float]
"""A price, or what has to be awaited for it, once."""

_PATIENCE = 60.0
"""Seconds that an estimator is awaited."""


def price_of(estimator: CostEstimator, usage: TokenUsage, context: CostEstimateContext) -> Price:
    """Return what a model call costs.

    Args:
        estimator: Is asked.
        usage: The usage of the call.
        context: What else the price depends on.

    Raises:
        RunError: The estimator returned something that is no price; what is to be awaited raises it later.
    """
    cost: object = estimator(usage, context)
    if _is_price(cost):
        return float(cost)
    if inspect.isawaitable(cost):
        return _awaited(cost, context)
    raise _no_price(cost, context)


async def _awaited(answer: Awaitable[object], context: CostEstimateContext) -> float:
    answers: list[object] = []
    with anyio.move_on_after(_PATIENCE):
        answers.append(await answer)
    if not answers:
        raise RunError(f"Cost estimator gave no price for agent {context.agent!r} within {_PATIENCE:g} seconds")
    (cost,) = answers
    if _is_price(cost):
        return float(cost)
    raise _no_price(cost, context)


def _is_price(value: object) -> TypeGuard[int | float]:
    # The comparison is false for NaN, infinity, and integers beyond all floats.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _no_price(cost: object, context: CostEstimateContext) -> RunError:
    return RunError(
        f"Cost estimator returned invalid cost {shown(cost)} for agent {context.agent!r}:"
        " it must be an int or float, finite and >= 0"
    )

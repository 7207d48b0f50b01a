"""Scorers: functions that judge one finished run.

A scorer that fails is a failed evaluation, never a score of 0.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Generic, overload

import anyio
from typing_extensions import TypeVar

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, RunError
from ..identity import MetadataValue, RunIdentity
from ..messages import LLMMessage
from ..outcome import AgentRunResult, RunStatus
from ..usage import TokenUsage

__all__ = ["Score", "Scorer", "ScorerContext", "call_beside", "is_async", "scorer"]

R = TypeVar("R", default=AgentRunResult[Any])


@record
class Score:
    """What a scorer thinks of a run.

    Raises:
        ConfigurationError: The score is not a number from 0 to 1, or another field not what it should be.
    """

    score: float
    """From 0 (bad) to 1 (good)."""
    passed: bool | None = None
    """Whether it is good enough, if the scorer has an opinion on that."""
    reason: str | None = None
    """One sentence for people."""
    details: Mapping[str, MetadataValue] | None = None
    """Further facts, as flat values."""
    usage: TokenUsage | None = None
    """Tokens that the judgement used, if a model made it."""
    cost: float | None = None
    """What the judgement cost, in a unit of yours; counts against ``max_cost_per_hour``."""

    def __post_init__(self) -> None:
        if isinstance(self.score, bool) or not isinstance(self.score, int | float):
            raise ConfigurationError(f"score must be a number from 0 to 1, got {type(self.score).__name__}")
        if not math.isfinite(self.score) or not 0 <= self.score <= 1:
            raise ConfigurationError(f"score must be a number from 0 to 1, got {shown(self.score)}")
        cost: object = self.cost
        if isinstance(cost, bool) or not isinstance(cost, int | float | None) or not 0 <= (cost or 0) < math.inf:
            raise ConfigurationError(f"cost must be a number from 0, got {shown(cost)}")
        for name, kind in (("passed", bool), ("reason", str), ("details", Mapping), ("usage", TokenUsage)):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ConfigurationError(f"{name} must be a {kind.__name__} or None, got {shown(value)}")
        facts: Mapping[Any, Any] = self.details or {}
        for key, fact in facts.items():
            items = fact if isinstance(fact, list | tuple) else [fact]
            if not isinstance(key, str) or not all(map(_is_flat, items)):
                wanted = "a text, a finite number, a bool or a list of these"
                raise ConfigurationError(f"details[{shown(key)}] must be {wanted}, got {shown(fact)}")


@record(kw_only=True)
class ScorerContext(Generic[R]):
    """A finished run, as a scorer sees it; everything in it is the scorer's own copy."""

    input: str | list[LLMMessage]
    """What the run was given, in the form in which it was given."""
    output: str
    """The text of its answer."""
    result: R
    """Its whole result."""
    identity: RunIdentity
    status: RunStatus
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    """The metadata that the caller gave to the run."""
    duration: float
    """Seconds that the run took."""
    expected: object = None
    """The right answer, when an evaluation set has one; None online."""
    case: object = None
    """The case of an evaluation set; None online."""
    trace: object = None
    """The stored trace of the run, when there is one; None online."""


ScoreFunction = Callable[[ScorerContext[Any]], Score | float | bool | Awaitable[Score | float | bool]]


@record(kw_only=True)
class Scorer:
    """A named function that judges a run; made by ``@scorer``."""

    name: str
    function: ScoreFunction
    version: str | None = None
    """Names what the scorer measures; scores of different versions are not compared."""
    timeout: float | None = 30.0
    """Seconds that one judgement may take."""

    async def score(self, context: ScorerContext[AgentRunResult[Any]]) -> Score:
        """Judge a run.

        A plain function runs in a worker thread, so that it does not hold up the runs that go on meanwhile.

        Args:
            context: The finished run.

        Raises:
            RunError: The function took too long, or returned something that is no score.
            Exception: Whatever the function raised.
        """
        with anyio.move_on_after(math.inf if self.timeout is None else self.timeout):
            return self._checked(await call_beside(self.function, context))
        raise RunError(f"scorer {shown(self.name)} took longer than {self.timeout:g}s")

    def _checked(self, returned: object) -> Score:
        if isinstance(returned, Score):
            return returned
        if isinstance(returned, bool):
            return Score(1.0 if returned else 0.0, passed=returned)
        if isinstance(returned, int | float):
            return Score(float(returned))
        raise RunError(
            f"scorer {shown(self.name)} must return a Score, a number or a bool, got {type(returned).__name__}"
        )


@overload
def scorer(function: ScoreFunction, /) -> Scorer: ...


@overload
def scorer(
    *, name: str | None = None, version: str | None = None, timeout: float | None = 30.0
) -> Callable[[ScoreFunction], Scorer]: ...


def scorer(
    function: ScoreFunction | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    timeout: float | None = 30.0,
) -> Scorer | Callable[[ScoreFunction], Scorer]:
    """Turn a function ``(context) -> Score | float | bool``, plain or async, into a scorer.

    ``True`` and ``False`` mean ``Score(1.0, passed=True)`` and ``Score(0.0, passed=False)``.

    Args:
        function: The function, when the decorator is used without arguments.
        name: The scorer's name; the function's own unless given.
        version: Names what it measures.
        timeout: Seconds that one judgement may take; None is no limit.

    Raises:
        ConfigurationError: The name is blank, the timeout is no positive number, or the function cannot be called.
    """
    if timeout is not None and (type(timeout) not in (int, float) or not timeout > 0):
        raise ConfigurationError(f"scorer timeout must be a positive number of seconds or None, got {shown(timeout)}")

    def make(target: ScoreFunction) -> Scorer:
        if not callable(target):
            raise ConfigurationError(f"@scorer takes a function (context) -> Score | float | bool, got {shown(target)}")
        found = name if name is not None else getattr(target, "__name__", type(target).__name__)
        if not found.strip():
            raise ConfigurationError("a scorer needs a name that is not blank")
        return Scorer(name=found, function=target, version=version, timeout=timeout)

    return make if function is None else make(function)


async def call_beside(function: Callable[[Any], object], argument: object) -> object:
    """Call a plain function in a worker thread, so that it holds up nobody, or an async one here.

    Args:
        function: Takes one argument; what it returns is awaited if it can be.
        argument: The argument.
    """
    if is_async(function):
        returned = function(argument)
    else:
        # In a tuple: trio refuses a thread that returns a coroutine, which a function that looks plain may do.
        (returned,) = await anyio.to_thread.run_sync(lambda: (function(argument),), abandon_on_cancel=True)
    return await returned if inspect.isawaitable(returned) else returned


def _is_flat(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def is_async(function: Callable[..., object]) -> bool:
    """Say whether a function is a coroutine function, or an object that is called like one.

    Args:
        function: What a user gave.
    """
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004 - its kind matters, not whether it is callable
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

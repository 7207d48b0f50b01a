"""The tree of scopes: every charge goes to a scope and all its ancestors, so a total is the sum of its calls.

Invariants: a call is refused once a total has *reached* its limit; a scope is overrun once its total is *over* the
limit, also by its last call; in hard mode whatever a call may use is held for it before it is made, so that no total
gets over its limit. Nothing here waits, but for prices that have to be awaited; whether a call may pass is decided, and
its place taken, without a wait between the two, so that calls made at the same time see each other.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, get_args

from .._shown import shown
from ..errors import (
    ConfigurationError,
    CostBudgetExceededError,
    LimitExceededError,
    TokenBudgetExceededError,
)
from ..usage import NO_USAGE, TokenUsage, UsageEntry, make_usage_entry
from ._limits import UNLIMITED, BudgetMode, CostEstimateContext, CostEstimator, Limits, Remaining
from ._prices import Price, price_of

__all__ = ["HARD_MAX_TOKENS", "BudgetError", "BudgetScope", "PendingCall"]

BudgetError = TokenBudgetExceededError | CostBudgetExceededError | LimitExceededError
"""What is raised at a limit."""

_MODES = get_args(BudgetMode)

HARD_MAX_TOKENS = 4096
"""The most tokens of an answer in hard mode, when nobody has said how many it may have."""


class BudgetScope:
    """A node of the ledger.

    Args:
        name: Whose scope it is; errors name it.
        limits: The most that may be used below it.
        parent: The scope that it belongs to.
        estimate_cost: Prices a model call; inherited from the parent unless given.
        mode: ``soft`` or ``hard``; the parent's where there is one.
        whose: What it is whose scope this is, as errors write it before the name.
    """

    __slots__ = (
        "_tallies",
        "cost",
        "estimate_cost",
        "is_limited",
        "limits",
        "mode",
        "name",
        "parent",
        "requests",
        "reserved",
        "reserved_cost",
        "reserves",
        "started",
        "tool_calls",
        "usage",
        "whose",
    )

    def __init__(
        self,
        name: str,
        limits: Limits | None = None,
        parent: BudgetScope | None = None,
        estimate_cost: CostEstimator | None = None,
        mode: BudgetMode = "soft",
        whose: str = "Agent",
    ) -> None:
        self.name = name
        self.whose = whose
        self.limits = UNLIMITED if limits is None else limits
        self.parent = parent
        self.estimate_cost: CostEstimator | None = estimate_cost
        self.mode: BudgetMode = mode if parent is None else parent.mode
        if estimate_cost is None and parent is not None:
            self.estimate_cost = parent.estimate_cost
        if self.mode not in _MODES or self.limits.cost is not None:
            self._check_sense()
        self.usage = NO_USAGE
        self.cost = 0.0
        self.requests = 0
        """Model calls, those in flight included."""
        self.tool_calls = 0
        self.reserved = 0
        """Tokens that are held for calls in flight, and for calls whose usage nobody knows."""
        self.reserved_cost = 0.0
        """The same for cost."""
        self.started: float | None = None
        """When the clock of this scope was started, in ``time.monotonic()``."""
        self._tallies: dict[CostEstimateContext, tuple[TokenUsage, float, int]] = {}
        """What the calls of one kind have used so far: tokens, cost, and how many there were."""
        self.is_limited: bool = self.limits is not UNLIMITED or (parent is not None and parent.is_limited)
        """Whether there is a limit here or above: asked before every call, so kept."""
        holds = self.limits.tokens is not None or self.limits.cost is not None
        self.reserves: bool = (self.mode == "hard" and holds) or (parent is not None and parent.reserves)
        """Whether calls have to be made by ``reserve``: hard mode, with a token or cost limit here or above."""

    def _check_sense(self) -> None:
        if self.mode not in _MODES:
            raise ConfigurationError(f"budget_mode must be 'soft' or 'hard', got {shown(self.mode)}")
        if self.estimate_cost is None:
            raise ConfigurationError(
                f"{self.name!r} has a cost budget but nothing that prices a call:"
                " pass estimate_cost=(usage, context) -> float"
            )

    def child(self, name: str, limits: Limits | None = None) -> BudgetScope:
        """Return a scope below this one.

        Args:
            name: Whose scope it is.
            limits: Its own limits; those of its ancestors hold as well.
        """
        return BudgetScope(name, limits, parent=self)

    def start(self) -> None:
        """Start the clock of this scope; later calls do nothing, and without one no time is used."""
        if self.started is None:
            self.started = time.monotonic()

    def price(self, usage: TokenUsage, context: CostEstimateContext) -> Price:
        """Return what a model call costs, or what has to be awaited for it; 0 without an estimator.

        Args:
            usage: The usage of that call.
            context: What else the price depends on.

        Raises:
            RunError: The estimator returned something that is no price.
        """
        return 0.0 if self.estimate_cost is None else price_of(self.estimate_cost, usage, context)

    def charge(
        self, usage: TokenUsage | None = None, *, cost: float = 0.0, requests: int = 0, tool_calls: int = 0
    ) -> None:
        """Add to the totals of this scope and of all its ancestors, but to no entry of the report.

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

    def begin(self, context: CostEstimateContext) -> PendingCall:
        """Let one more model call pass, and count it.

        Args:
            context: What the call is; the report has an entry for each.

        Raises:
            TokenBudgetExceededError: As ``check``.
            CostBudgetExceededError: As ``check``.
            LimitExceededError: As ``check``.
        """
        if self.is_limited:
            self.check()
        scope: BudgetScope | None = self
        while scope is not None:
            scope.requests += 1
            scope = scope.parent
        return PendingCall(self, context, 0, 0.0, None)

    def reserve(
        self, context: CostEstimateContext, *, input_tokens: int, max_tokens: int | None, writes_cache: bool = False
    ) -> PendingCall | Coroutine[Any, Any, PendingCall]:
        """Let one more model call pass if there is room for the most that it may use, and hold that for it.

        What is returned has to be awaited when the estimator's prices have to be; what it raises comes then.

        Args:
            context: What the call is.
            input_tokens: The most that its request comes to.
            max_tokens: The most that its answer may have; None takes what is left, at most 4,096.
            writes_cache: Whether the provider may bill the request as written to its cache.

        Raises:
            TokenBudgetExceededError: There is no room, here or in an ancestor; names the outermost one.
            CostBudgetExceededError: The same for cost.
            LimitExceededError: As ``check``.
        """
        steps = self._reserving(context, input_tokens, max_tokens, writes_cache=writes_cache)
        try:
            price = next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # that of the generator
        return _reserved(steps, price)

    def _reserving(
        self, context: CostEstimateContext, input_tokens: int, max_tokens: int | None, *, writes_cache: bool
    ) -> Generator[Coroutine[Any, Any, float], float, PendingCall]:
        """Return the call that was let pass; yields the prices that have to be awaited."""
        self.check()
        left = self.remaining()
        output = HARD_MAX_TOKENS if max_tokens is None else max_tokens
        while True:
            if max_tokens is None and left.tokens is not None:
                output = max(1, min(output, left.tokens - input_tokens))
            most = _most(input_tokens, output, writes_cache=writes_cache)
            price = self.price(most, context)
            if not isinstance(price, float):
                price = yield price
                self.check()
                left = self.remaining()  # others may have been let pass meanwhile
            is_dear = left.cost is not None and price > left.cost
            is_large = left.tokens is not None and most.total_tokens > left.tokens
            if max_tokens is not None or output == 1 or not (is_dear or is_large):
                break
            output = output // 2 if is_dear else output
        self._refuse_without_room(most.total_tokens, price)
        self._hold(most.total_tokens, price)
        self._count_request(1)
        return PendingCall(self, context, most.total_tokens, price, output)

    def begin_tool_call(self) -> LimitExceededError | None:
        """Count one more tool call, or return why there may be none."""
        if self.is_limited:
            for scope in self._lineage():
                limit = scope.limits.tool_calls
                if limit is not None and scope.tool_calls >= limit:
                    return _limit_error(scope, "tool_calls", scope.tool_calls, limit)
        self.charge(tool_calls=1)
        return None

    def elapsed(self) -> float | None:
        """Return the seconds since ``start``; None before it."""
        return None if self.started is None else time.monotonic() - self.started

    def usage_report(self) -> tuple[UsageEntry, ...]:
        """Return what the model calls used by agent, model, provider and phase, in the order of their first ones."""
        if len(self._tallies) == 1:  # as in most runs; a comprehension is a call of its own
            (((agent, model, provider, phase), (usage, cost, requests)),) = self._tallies.items()
            return (make_usage_entry(agent, model, provider, phase, usage, cost, requests),)
        return tuple([make_usage_entry(*context, *tally) for context, tally in self._tallies.items()])

    def remaining(self) -> Remaining:
        """Return what is left, here and in all ancestors; never below zero, None where nothing limits it."""
        if not self.is_limited:
            return _NOTHING_LIMITED
        lineage = self._lineage()
        return Remaining(
            tokens=_least(s.limits.tokens - _tokens(s) for s in lineage if s.limits.tokens is not None),
            cost=_least(s.limits.cost - s.cost - s.reserved_cost for s in lineage if s.limits.cost is not None),
            requests=_least(s.limits.requests - s.requests for s in lineage if s.limits.requests is not None),
            tool_calls=_least(s.limits.tool_calls - s.tool_calls for s in lineage if s.limits.tool_calls is not None),
            seconds=self.seconds_left(),
        )

    def seconds_left(self) -> float | None:
        """Return what ``remaining`` says about seconds."""
        if not self.is_limited:
            return None
        left: float | None = None
        scope: BudgetScope | None = self
        while scope is not None:
            limit = scope.limits.seconds
            if limit is not None:
                own = max(0.0, limit - _elapsed(scope))
                left = own if left is None else min(left, own)
            scope = scope.parent
        return left

    def check(self) -> None:
        """Let one more model call pass, or not.

        Raises:
            TokenBudgetExceededError: A token limit has been reached, here or in an ancestor; names the outermost one.
            CostBudgetExceededError: The same for cost.
            LimitExceededError: The same for model calls and time.
        """
        if not self.is_limited:
            return  # the common case, asked before every model call
        for scope in self._lineage():
            limits = scope.limits
            if limits.tokens is not None and _tokens(scope) >= limits.tokens:
                raise _token_error(scope, limits.tokens)
            if limits.cost is not None and scope.cost + scope.reserved_cost >= limits.cost:
                raise _cost_error(scope, limits.cost)
            if limits.requests is not None and scope.requests >= limits.requests:
                raise _limit_error(scope, "requests", scope.requests, limits.requests)
            if limits.seconds is not None and _elapsed(scope) >= limits.seconds:
                raise _limit_error(scope, "seconds", _elapsed(scope), limits.seconds)

    def exhausted(self) -> BudgetError | None:
        """Return why no further model call is let pass, here or in an ancestor; None when one is."""
        try:
            self.check()
        except (TokenBudgetExceededError, CostBudgetExceededError, LimitExceededError) as error:
            return error
        return None

    def overrun(self) -> TokenBudgetExceededError | CostBudgetExceededError | None:
        """Return the error of this scope's own limits if a total is over one, else None; its ancestors do not count."""
        limits, usage = self.limits, self.usage
        # What `_tokens` adds up: asked three times in each run.
        if limits.tokens is not None and usage.input_tokens + usage.output_tokens + self.reserved > limits.tokens:
            return _token_error(self, limits.tokens)
        if limits.cost is not None and self.cost + self.reserved_cost > limits.cost:
            return _cost_error(self, limits.cost)
        return None

    def out_of_time(self) -> LimitExceededError:
        """Return the error for a deadline that has passed: that of the scope with the least time left."""
        timed = [scope for scope in self._lineage() if scope.limits.seconds is not None]
        scope = min(timed, key=lambda scope: (scope.limits.seconds or 0.0) - _elapsed(scope))
        limit = scope.limits.seconds or 0.0
        return _limit_error(scope, "seconds", max(_elapsed(scope), limit), limit)

    def _refuse_without_room(self, tokens: int, cost: float) -> None:
        for scope in self._lineage():
            limits = scope.limits
            if limits.tokens is not None and _tokens(scope) + tokens > limits.tokens:
                raise _token_error(scope, limits.tokens, needed=tokens)
            if limits.cost is not None and scope.cost + scope.reserved_cost + cost > limits.cost:
                raise _cost_error(scope, limits.cost, needed=cost)

    def _count_request(self, number: int) -> None:
        scope: BudgetScope | None = self
        while scope is not None:
            scope.requests += number
            scope = scope.parent

    def _hold(self, tokens: int, cost: float) -> None:
        scope: BudgetScope | None = self
        while scope is not None:
            scope.reserved += tokens
            # What is given back may differ from what was held in the last digit.
            scope.reserved_cost = max(0.0, scope.reserved_cost + cost)
            scope = scope.parent

    def _add_cost(self, context: CostEstimateContext, cost: float) -> None:
        """Charge what a call has cost whose usage was charged before."""
        scope: BudgetScope | None = self
        while scope is not None:
            scope.cost += cost
            usage, known, number = scope._tallies[context]  # noqa: SLF001 - its own class
            scope._tallies[context] = (usage, known + cost, number)  # noqa: SLF001 - its own class
            scope = scope.parent

    def _book(self, context: CostEstimateContext, usage: TokenUsage, cost: float) -> None:
        scope: BudgetScope | None = self
        while scope is not None:
            # A sum with nothing is the other, as `+` knows itself, but only after two calls.
            scope.usage = usage if scope.usage is NO_USAGE else scope.usage + usage
            scope.cost += cost
            tallies = scope._tallies  # noqa: SLF001 - its own class
            tally = tallies.get(context)
            tallies[context] = (usage, cost, 1) if tally is None else (tally[0] + usage, tally[1] + cost, tally[2] + 1)
            scope = scope.parent

    def _lineage(self) -> Sequence[BudgetScope]:
        if self.parent is None:
            return (self,)
        lineage = [self]
        while lineage[-1].parent is not None:
            lineage.append(lineage[-1].parent)
        return lineage[::-1]


class PendingCall:
    """A model call that was let pass, until it is known what became of it.

    Args:
        scope: What it is charged to.
        context: What the call is.
        tokens: What is held for it.
        cost: The same for cost.
        max_tokens: The most tokens that its answer may have for that to be enough.
    """

    __slots__ = ("_context", "_cost", "_scope", "_tokens", "max_tokens")

    def __init__(
        self,
        scope: BudgetScope,
        context: CostEstimateContext,
        tokens: int,
        cost: float,
        max_tokens: int | None,
    ) -> None:
        self._scope = scope
        self._context = context
        self._tokens = tokens
        self._cost = cost
        self.max_tokens = max_tokens

    def settle(
        self, usage: TokenUsage | None, context: CostEstimateContext | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Charge what the call has used; what was held for it stays held when nobody knows.

        Args:
            usage: What was reported; None when nothing was, also since the call failed or was cancelled.
            context: What the call turned out to be, when that is not what was asked for.

        Returns:
            What has to be awaited to charge the cost as well, when the price has to be; else None, as without usage.

        Raises:
            RunError: The estimator returned something that is no price; the tokens are charged all the same.
        """
        context = context or self._context
        scope = self._scope
        if usage is None:
            scope._book(context, _UNKNOWN, 0.0)  # noqa: SLF001 - the two are one mechanism
            return None
        price: Price = 0.0
        try:
            if scope.estimate_cost is not None:
                price = scope.price(usage, context)
        finally:
            known = price if isinstance(price, float) else None
            if self._tokens:  # what is held for the cost is held until the price is known
                scope._hold(-self._tokens, 0.0 if known is None else -self._cost)  # noqa: SLF001 - the two are one mechanism
            scope._book(context, usage, known or 0.0)  # noqa: SLF001 - the two are one mechanism
        return None if isinstance(price, float) else self._settled(price, context)

    def withdraw(self) -> None:
        """Take the call back: nothing was sent."""
        if self._tokens:
            self._scope._hold(-self._tokens, -self._cost)  # noqa: SLF001 - the two are one mechanism
        self._scope._count_request(-1)  # noqa: SLF001 - the two are one mechanism

    async def _settled(self, price: Coroutine[Any, Any, float], context: CostEstimateContext) -> None:
        try:
            cost = await price
        finally:
            if self._tokens:
                self._scope._hold(0, -self._cost)  # noqa: SLF001 - the two are one mechanism
        self._scope._add_cost(context, cost)  # noqa: SLF001 - the two are one mechanism


async def _reserved(
    steps: Generator[Coroutine[Any, Any, float], float, PendingCall], price: Coroutine[Any, Any, float]
) -> PendingCall:
    while True:
        cost = await price
        try:
            price = steps.send(cost)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # that of the generator


_NOTHING_LIMITED = Remaining(tokens=None, cost=None)
_UNKNOWN = TokenUsage.unknown()


def _tokens(scope: BudgetScope) -> int:
    usage = scope.usage
    return usage.input_tokens + usage.output_tokens + scope.reserved


def _elapsed(scope: BudgetScope) -> float:
    return 0.0 if scope.started is None else time.monotonic() - scope.started


def _least(left: Any) -> Any:
    least = min(left, default=None)
    return None if least is None else max(0, least)


def _most(input_tokens: int, output_tokens: int, *, writes_cache: bool) -> TokenUsage:
    written = input_tokens if writes_cache else 0  # the dearest that a request can be
    return TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens, cache_write_tokens=written)


def _token_error(scope: BudgetScope, budget: int, *, needed: int | None = None) -> TokenBudgetExceededError:
    return TokenBudgetExceededError(
        agent=scope.name, tokens_used=_tokens(scope), budget=budget, needed=needed, whose=scope.whose
    )


def _cost_error(scope: BudgetScope, budget: float, *, needed: float | None = None) -> CostBudgetExceededError:
    used = scope.cost + scope.reserved_cost
    return CostBudgetExceededError(agent=scope.name, cost_used=used, budget=budget, needed=needed, whose=scope.whose)


def _limit_error(scope: BudgetScope, limit: str, used: float, budget: float) -> LimitExceededError:
    return LimitExceededError(agent=scope.name, limit=limit, used=used, budget=budget, whose=scope.whose)

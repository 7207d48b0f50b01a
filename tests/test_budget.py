"""The ledger: every total is the sum of its subtree, and every limit means what it says."""

import inspect
import math
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.budget import (
    BudgetScope,
    CostEstimateContext,
    Limits,
    PendingCall,
    Remaining,
    _prices,
    merge_limits,
)
from openmultiagent.errors import (
    ConfigurationError,
    CostBudgetExceededError,
    LimitExceededError,
    RunError,
    TokenBudgetExceededError,
)
from openmultiagent.usage import TokenUsage, UsageEntry
from tests.support import proves

CONTEXT = CostEstimateContext(agent="writer", model="m", provider="p", phase="agent")


def per_token(usage: TokenUsage, context: CostEstimateContext) -> float:
    return usage.total_tokens * 0.5


def tokens(count: int) -> TokenUsage:
    return TokenUsage(input_tokens=count)


counts = st.integers(0, 10**6)
usages = st.builds(
    TokenUsage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    reasoning_tokens=counts,
    unknown_calls=st.integers(0, 1),
)
# Quarters add up exactly, so that the totals can be compared with `==`.
charges = st.tuples(st.none() | usages, counts.map(lambda n: n / 4), st.integers(0, 3), st.integers(0, 3))


def subtree(scopes: list[BudgetScope], root: BudgetScope) -> list[BudgetScope]:
    found = [root]
    for scope in scopes:  # parents come before their children
        if scope.parent is not None and any(scope.parent is item for item in found):
            found.append(scope)
    return found


@proves("BUD-1", "BUD-2")
@settings(deadline=None)
@given(
    parents=st.lists(st.integers(0, 10**6), max_size=12),
    made=st.lists(st.tuples(st.integers(0, 10**6), charges), max_size=30),
)
def test_every_total_is_the_sum_of_the_charges_in_its_subtree(
    parents: list[int], made: list[tuple[int, tuple[TokenUsage | None, float, int, int]]]
) -> None:
    scopes = [BudgetScope("root", estimate_cost=per_token)]
    for number in parents:
        scopes.append(scopes[number % len(scopes)].child(f"scope {len(scopes)}"))
    booked: list[tuple[BudgetScope, tuple[TokenUsage | None, float, int, int]]] = []
    for number, charge in made:
        scope = scopes[number % len(scopes)]
        usage, cost, requests, tool_calls = charge
        scope.charge(usage, cost=cost, requests=requests, tool_calls=tool_calls)
        booked.append((scope, charge))
    for root in scopes:
        mine = subtree(scopes, root)
        own = [charge for scope, charge in booked if any(scope is item for item in mine)]
        assert root.usage == sum((usage for usage, *_ in own if usage is not None), TokenUsage())
        assert root.cost == sum(charge[1] for charge in own)
        assert root.requests == sum(charge[2] for charge in own)
        assert root.tool_calls == sum(charge[3] for charge in own)


@proves("BUD-1")
def test_a_deep_tree_is_no_problem() -> None:
    root = scope = BudgetScope("root")
    for number in range(5000):
        scope = scope.child(str(number))
    scope.charge(tokens(1))
    scope.check()
    assert root.usage.total_tokens == 1


@proves("BUD-3")
def test_usage_that_was_read_before_a_charge_stays_what_it_was() -> None:
    scope = BudgetScope("s")
    scope.charge(tokens(1))
    before = scope.usage
    scope.charge(tokens(2))
    assert before == tokens(1)
    assert scope.usage == tokens(3)


@proves("BUD-4")
def test_a_call_without_usage_is_counted_as_unknown_and_uses_no_tokens() -> None:
    scope = BudgetScope("s", Limits(tokens=1))
    scope.charge(TokenUsage.unknown(), requests=1)
    assert (scope.usage.unknown_calls, scope.usage.total_tokens, scope.requests) == (1, 0, 1)
    scope.check()


@proves("BUD-5")
@pytest.mark.parametrize(
    "limits",
    [
        {"tokens": 0},
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": math.nan},
        {"tokens": "many"},
        {"cost": 0},
        {"cost": 0.0},
        {"cost": -0.5},
        {"cost": math.nan},
        {"cost": math.inf},
        {"coast": 1.0},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Limits"):
        Limits(**limits)


@proves("BUD-5")
def test_without_limits_nothing_is_ever_refused() -> None:
    scope = BudgetScope("s")
    scope.charge(tokens(10**12), cost=1e12)
    scope.check()
    assert scope.overrun() is None
    assert scope.remaining() == Remaining(tokens=None, cost=None)


@proves("BUD-6", "BUD-7")
@pytest.mark.parametrize(
    ("used", "refused", "over"),
    [(0, False, False), (9, False, False), (10, True, False), (11, True, True)],
)
def test_a_token_limit_refuses_the_next_call_when_reached_and_is_overrun_above(
    used: int, refused: bool, over: bool
) -> None:
    scope = BudgetScope("writer", Limits(tokens=10))
    scope.charge(TokenUsage(input_tokens=used - used // 2, output_tokens=used // 2))
    if refused:
        with pytest.raises(TokenBudgetExceededError) as caught:
            scope.check()
        assert (caught.value.agent, caught.value.tokens_used, caught.value.budget) == ("writer", used, 10)
    else:
        scope.check()
    assert (scope.overrun() is not None) is over


@proves("BUD-6", "BUD-7")
@pytest.mark.parametrize(("used", "refused", "over"), [(0.75, False, False), (1.0, True, False), (1.25, True, True)])
def test_a_cost_limit_refuses_the_next_call_when_reached_and_is_overrun_above(
    used: float, refused: bool, over: bool
) -> None:
    scope = BudgetScope("writer", Limits(cost=1.0), estimate_cost=per_token)
    scope.charge(cost=used)
    if refused:
        with pytest.raises(CostBudgetExceededError) as caught:
            scope.check()
        assert (caught.value.agent, caught.value.cost_used, caught.value.budget) == ("writer", used, 1.0)
    else:
        scope.check()
    assert isinstance(scope.overrun(), CostBudgetExceededError) is over


@proves("BUD-6")
def test_a_reached_limit_of_an_ancestor_refuses_too_and_the_outermost_is_named() -> None:
    root = BudgetScope("run", Limits(tokens=10))
    middle = root.child("task", Limits(tokens=5))
    leaf = middle.child("agent", Limits(tokens=1))
    leaf.charge(tokens(5))
    with pytest.raises(TokenBudgetExceededError, match='"task"'):
        leaf.check()
    leaf.charge(tokens(5))
    with pytest.raises(TokenBudgetExceededError, match='"run"'):
        leaf.check()


@proves("BUD-6", "BUD-7")
def test_tokens_are_looked_at_before_cost() -> None:
    scope = BudgetScope("s", Limits(tokens=1, cost=1.0), estimate_cost=per_token)
    scope.charge(tokens(2), cost=2.0)
    with pytest.raises(TokenBudgetExceededError):
        scope.check()
    assert isinstance(scope.overrun(), TokenBudgetExceededError)


@proves("BUD-7")
def test_a_child_that_overruns_only_an_ancestor_is_not_overrun_itself() -> None:
    root = BudgetScope("run", Limits(tokens=10))
    child = root.child("task", Limits(tokens=100))
    child.charge(tokens(11))
    assert child.overrun() is None
    assert isinstance(root.overrun(), TokenBudgetExceededError)


@proves("BUD-2")
def test_what_a_sibling_uses_counts_only_above() -> None:
    root = BudgetScope("run", Limits(tokens=10))
    first, second = root.child("a", Limits(tokens=5)), root.child("b", Limits(tokens=5))
    first.charge(tokens(5))
    second.check()
    assert second.remaining() == Remaining(tokens=5, cost=None)
    second.charge(tokens(4))
    assert second.remaining() == Remaining(tokens=1, cost=None)
    second.charge(tokens(2))
    assert second.remaining() == Remaining(tokens=0, cost=None)


@proves("BUD-8")
def test_what_is_left_is_the_least_of_all_limits_above_and_never_negative() -> None:
    root = BudgetScope("run", Limits(tokens=10, cost=4.0), estimate_cost=per_token)
    child = root.child("task", Limits(tokens=20))
    assert child.remaining() == Remaining(tokens=10, cost=4.0)
    child.charge(tokens(7), cost=3.5)
    assert child.remaining() == Remaining(tokens=3, cost=0.5)
    child.charge(tokens(70), cost=35)
    assert child.remaining() == Remaining(tokens=0, cost=0.0)


@proves("BUD-9")
def test_each_call_is_priced_by_the_estimator_that_scopes_inherit() -> None:
    asked = []

    def estimate(usage: TokenUsage, context: CostEstimateContext) -> float:
        asked.append((usage, context))
        return 3

    grandchild = BudgetScope("run", estimate_cost=estimate).child("task").child("agent", Limits(cost=5.0))
    assert grandchild.price(tokens(2), CONTEXT) == 3.0
    assert asked == [(tokens(2), CONTEXT)]
    own = BudgetScope("own", parent=grandchild, estimate_cost=per_token)
    assert own.price(tokens(2), CONTEXT) == 1.0


@proves("BUD-9")
def test_without_an_estimator_a_call_costs_nothing() -> None:
    assert BudgetScope("s").price(tokens(5), CONTEXT) == 0.0


@proves("BUD-10")
@pytest.mark.parametrize(
    "price", [math.nan, math.inf, -math.inf, -0.01, True, None, "1.5", 10**400, 1j, [1.0], object()]
)
def test_an_estimate_that_is_no_price_is_an_error_that_names_the_agent(price: Any) -> None:
    scope = BudgetScope("s", estimate_cost=lambda usage, context: price)
    with pytest.raises(RunError, match=r"invalid cost .* for agent 'writer'"):
        scope.price(tokens(1), CONTEXT)


@proves("BUD-10")
@pytest.mark.parametrize("price", [0, 0.0, 1, 0.25, 1e300, 2**1000])
def test_any_finite_number_from_zero_on_is_a_price(price: float) -> None:
    scope = BudgetScope("s", estimate_cost=lambda usage, context: price)
    returned = scope.price(tokens(1), CONTEXT)
    assert returned == price
    assert isinstance(returned, float)


@proves("BUD-10")
def test_what_an_estimator_raises_goes_on_to_the_caller() -> None:
    def broken(usage: TokenUsage, context: CostEstimateContext) -> float:
        raise LookupError("no price list")

    with pytest.raises(LookupError, match="no price list"):
        BudgetScope("s", estimate_cost=broken).price(tokens(1), CONTEXT)


class Prices:
    """An estimator whose prices are awaited until somebody lets them pass."""

    def __init__(self, per_token: float = 0.5) -> None:
        self.per_token = per_token
        self.gate = anyio.Event()
        self.asked: list[TokenUsage] = []

    async def __call__(self, usage: TokenUsage, context: CostEstimateContext) -> float:
        self.asked.append(usage)
        await self.gate.wait()
        return usage.total_tokens * self.per_token


async def waited(value: object) -> Any:
    assert inspect.isawaitable(value)
    with anyio.fail_after(5):
        return await value


@proves("BUD-12")
@pytest.mark.parametrize("price", [math.nan, math.inf, -0.01, True, None, "1.5", 10**400, object()])
async def test_an_awaited_price_has_to_be_one(price: Any) -> None:
    async def estimate(usage: TokenUsage, context: CostEstimateContext) -> Any:
        return price

    scope = BudgetScope("s", estimate_cost=estimate)
    with pytest.raises(RunError, match=r"invalid cost .* for agent 'writer'"):
        await waited(scope.price(tokens(1), CONTEXT))


@proves("BUD-12")
async def test_a_price_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prices, "_PATIENCE", 0.01)
    scope = BudgetScope("s", estimate_cost=Prices())
    pending = scope.begin(CONTEXT)
    with pytest.raises(RunError, match=r"no price for agent 'writer' within 0\.01 seconds"):
        await waited(pending.settle(tokens(3)))
    assert (scope.usage, scope.cost) == (tokens(3), 0.0)


@proves("BUD-12")
async def test_tokens_are_charged_before_the_price_is_awaited() -> None:
    prices = Prices()
    root = BudgetScope("run", estimate_cost=prices)
    child = root.child("task")
    first, second = child.begin(CONTEXT), child.begin(CONTEXT)
    async with anyio.create_task_group() as group:
        group.start_soon(waited, first.settle(tokens(3)))
        group.start_soon(waited, second.settle(tokens(5)))
        await anyio.wait_all_tasks_blocked()
        assert (root.usage, root.cost) == (tokens(8), 0.0)
        prices.gate.set()
    assert (root.usage, root.cost, child.cost) == (tokens(8), 4.0, 4.0)
    assert root.usage_report() == (UsageEntry(*CONTEXT, tokens(8), 4.0, 2),)


@proves("BUD-12", "BUD-32")
async def test_what_is_held_for_the_cost_is_held_until_the_price_is_known() -> None:
    prices = Prices()
    root = hard(tokens=100, cost=60.0, estimate=prices)
    prices.gate.set()
    pending = await waited(root.reserve(call(), input_tokens=30, max_tokens=20))
    assert (root.reserved, root.reserved_cost) == (50, 25.0)
    prices.gate = anyio.Event()
    unpriced = pending.settle(tokens(7))
    assert (root.reserved, root.reserved_cost, root.usage) == (0, 25.0, tokens(7))
    prices.gate.set()
    await waited(unpriced)
    assert (root.reserved_cost, root.cost) == (0.0, 3.5)


@proves("BUD-12", "BUD-30", "BUD-33")
@pytest.mark.parametrize("limits", [{"tokens": 100, "cost": 90.0}, {"cost": 9000.0, "requests": 1}])
async def test_calls_that_await_their_prices_at_the_same_time_do_not_share_the_room(limits: dict[str, Any]) -> None:
    prices = Prices(per_token=1.0)
    root = hard(estimate=prices, **limits)
    passed: list[int | None] = []
    refused: list[Exception] = []

    async def reserve(reserved: PendingCall | Awaitable[PendingCall]) -> None:
        try:
            passed.append((await waited(reserved)).max_tokens)
        except (CostBudgetExceededError, LimitExceededError, TokenBudgetExceededError) as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for wanted in (None, 60, None):
            group.start_soon(reserve, root.reserve(call(), input_tokens=10, max_tokens=wanted))
        await anyio.wait_all_tasks_blocked()
        prices.gate.set()
    assert len(passed) + len(refused) == 3
    assert passed
    assert root.reserved_cost <= limits["cost"]
    assert root.requests == len(passed) <= limits.get("requests", 3)


@proves("BUD-11")
def test_a_cost_limit_that_nothing_can_be_measured_with_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'writer' has a cost budget .* estimate_cost"):
        BudgetScope("writer", Limits(cost=1.0))
    with pytest.raises(ConfigurationError, match="'task'"):
        BudgetScope("run").child("task", Limits(cost=1.0))


@proves("BUD-1")
def test_a_charge_that_is_no_usage_changes_nothing() -> None:
    scope = BudgetScope("run").child("task")
    wrong: Any = 5
    with pytest.raises(TypeError):
        scope.charge(wrong, cost=1.0, requests=1)
    assert (scope.usage, scope.cost, scope.requests) == (TokenUsage(), 0.0, 0)


# Model calls, tool calls, time


def call(agent: str = "writer", *, model: str = "m", phase: str = "agent") -> CostEstimateContext:
    return CostEstimateContext(agent=agent, model=model, provider="p", phase=phase)


@proves("BUD-20")
@pytest.mark.parametrize(
    "limits",
    [
        {"requests": 0},
        {"requests": 1.5},
        {"tool_calls": 0},
        {"tool_calls": -1},
        {"seconds": 0},
        {"seconds": -0.5},
        {"seconds": math.nan},
        {"seconds": math.inf},
    ],
)
def test_further_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Limits"):
        Limits(**limits)
    with pytest.raises(ConfigurationError, match="Limits"):
        merge_limits(limits)


ANY_LIMITS = st.builds(
    Limits,
    tokens=st.none() | st.integers(1, 9),
    cost=st.none() | st.floats(0.5, 9),
    requests=st.none() | st.integers(1, 9),
    tool_calls=st.none() | st.integers(1, 9),
    seconds=st.none() | st.floats(0.5, 9),
)


@proves("BUD-20")
@settings(deadline=None)
@given(st.lists(st.none() | ANY_LIMITS, max_size=4))
def test_limits_are_merged_to_the_least_of_each_kind(limits: list[Limits | None]) -> None:
    merged = merge_limits(*limits)
    for name in ("tokens", "cost", "requests", "tool_calls", "seconds"):
        given_ones = [getattr(item, name) for item in limits if item is not None]
        assert getattr(merged, name) == min((value for value in given_ones if value is not None), default=None)


@proves("BUD-20")
def test_a_mapping_is_as_good_as_limits() -> None:
    assert merge_limits({"requests": 3}, Limits(requests=2, tokens=5)) == Limits(requests=2, tokens=5)
    wrong: Any = 5
    with pytest.raises(ConfigurationError, match="limits must be Limits or a mapping"):
        merge_limits(wrong)


@proves("BUD-21", "BUD-24")
def test_model_calls_count_while_they_are_in_flight() -> None:
    root = BudgetScope("run", Limits(requests=2))
    first, second = root.child("a"), root.child("b")
    first.begin(call())
    in_flight = second.begin(call())
    assert root.remaining().requests == 0
    with pytest.raises(LimitExceededError, match='"run" reached its limit of 2 model calls: 2 used') as caught:
        first.begin(call())
    assert (caught.value.limit, caught.value.used, caught.value.budget) == ("requests", 2, 2)
    assert root.requests == 2
    in_flight.withdraw()
    assert (root.requests, second.requests) == (1, 0)
    first.begin(call())


@proves("BUD-22", "BUD-24")
def test_tool_calls_are_counted_up_to_the_limit_and_no_further() -> None:
    root = BudgetScope("run", Limits(tool_calls=2))
    child = root.child("agent", Limits(tool_calls=5))
    assert [child.begin_tool_call() for _ in range(2)] == [None, None]
    refusal = child.begin_tool_call()
    assert refusal is not None
    assert (refusal.agent, refusal.limit, refusal.used, refusal.budget) == ("run", "tool_calls", 2, 2)
    assert (root.tool_calls, child.tool_calls) == (2, 2)
    assert child.remaining().tool_calls == 0
    child.charge(tool_calls=-1)
    assert child.begin_tool_call() is None


@proves("BUD-23")
def test_without_a_started_clock_no_time_is_used() -> None:
    scope = BudgetScope("run", Limits(seconds=1e-9))
    scope.check()
    assert scope.remaining().seconds == 1e-9


@proves("BUD-23", "BUD-24")
def test_a_call_is_refused_when_the_time_is_over() -> None:
    root = BudgetScope("run", Limits(seconds=1e-9))
    child = root.child("agent", Limits(seconds=60.0))
    child.start()
    root.start()
    started = root.started
    root.start()
    assert root.started == started
    while root.remaining().seconds != 0:
        pass
    with pytest.raises(LimitExceededError) as caught:
        child.check()
    assert (caught.value.agent, caught.value.limit, caught.value.budget) == ("run", "seconds", 1e-9)
    assert caught.value.used >= 1e-9
    assert child.out_of_time().agent == "run"


@proves("BUD-23")
def test_a_deadline_that_fired_early_still_says_that_the_time_was_used() -> None:
    scope = BudgetScope("run", Limits(seconds=60.0))
    scope.start()
    assert (scope.out_of_time().used, scope.out_of_time().budget) == (60.0, 60.0)


# Hard mode


def hard(name: str = "run", *, estimate: Any = None, **limits: Any) -> BudgetScope:
    return BudgetScope(name, Limits(**limits), estimate_cost=estimate, mode="hard")


def now(reserved: object) -> PendingCall:
    """A call that was let pass without waiting for anything."""
    assert isinstance(reserved, PendingCall)
    return reserved


@proves("BUD-30", "BUD-32")
def test_what_a_call_may_use_is_held_until_its_usage_takes_its_place() -> None:
    root = hard(tokens=100)
    child = root.child("agent")
    pending = now(child.reserve(call(), input_tokens=30, max_tokens=20))
    assert pending.max_tokens == 20
    assert (root.reserved, child.reserved, root.usage.total_tokens, root.requests) == (50, 50, 0, 1)
    assert root.remaining().tokens == 50
    pending.settle(TokenUsage(input_tokens=8, output_tokens=4))
    assert (root.reserved, child.reserved, root.usage.total_tokens) == (0, 0, 12)
    assert root.remaining().tokens == 88


@proves("BUD-30")
def test_a_call_without_room_is_refused_and_nothing_is_held() -> None:
    root = hard(tokens=100)
    child = root.child("agent", Limits(tokens=1000))
    now(child.reserve(call(), input_tokens=30, max_tokens=20))
    with pytest.raises(TokenBudgetExceededError) as caught:
        now(child.reserve(call(), input_tokens=30, max_tokens=21))
    error = caught.value
    assert (error.agent, error.tokens_used, error.needed, error.budget) == ("run", 50, 51, 100)
    assert (root.reserved, child.reserved, root.requests) == (50, 50, 1)
    now(child.reserve(call(), input_tokens=30, max_tokens=20))  # exactly what is left


@proves("BUD-30")
def test_room_is_asked_for_in_money_too() -> None:
    root = hard(cost=10.0, estimate=per_token)
    pending = now(root.reserve(call(), input_tokens=10, max_tokens=6))
    assert (root.reserved_cost, root.remaining().cost) == (8.0, 2.0)
    with pytest.raises(CostBudgetExceededError) as caught:
        now(root.reserve(call(), input_tokens=1, max_tokens=4))
    error = caught.value
    assert (error.agent, error.cost_used, error.needed, error.budget) == ("run", 8.0, 2.5, 10.0)
    pending.settle(tokens(4))
    assert (root.reserved_cost, root.cost) == (0.0, 2.0)


@proves("BUD-31")
@pytest.mark.parametrize(
    ("limit", "input_tokens", "output"), [(100, 30, 70), (100, 99, 1), (4126, 30, 4096), (9999, 1, 4096)]
)
def test_without_max_tokens_the_answer_gets_what_is_left_up_to_a_bound(
    limit: int, input_tokens: int, output: int
) -> None:
    pending = now(hard(tokens=limit).reserve(call(), input_tokens=input_tokens, max_tokens=None))
    assert pending.max_tokens == output


@proves("BUD-31", "BUD-30")
def test_a_request_that_leaves_nothing_for_an_answer_is_refused() -> None:
    with pytest.raises(TokenBudgetExceededError) as caught:
        now(hard(tokens=100).reserve(call(), input_tokens=100, max_tokens=None))
    assert caught.value.needed == 101


@proves("BUD-31")
def test_an_answer_without_a_bound_of_its_own_is_halved_until_its_price_fits() -> None:
    assert now(hard(cost=1e6, estimate=per_token).reserve(call(), input_tokens=1, max_tokens=None)).max_tokens == 4096
    assert now(hard(cost=500.0, estimate=per_token).reserve(call(), input_tokens=1, max_tokens=None)).max_tokens == 512
    assert now(hard(cost=1.0, estimate=per_token).reserve(call(), input_tokens=1, max_tokens=None)).max_tokens == 1
    with pytest.raises(CostBudgetExceededError):
        now(hard(cost=1.0, estimate=per_token).reserve(call(), input_tokens=2, max_tokens=None))


@proves("BUD-32")
def test_a_call_without_usage_keeps_what_was_held_apart_from_the_usage() -> None:
    root = hard(tokens=100, cost=60.0, estimate=per_token)
    now(root.reserve(call(), input_tokens=30, max_tokens=20)).settle(None)
    assert root.usage == TokenUsage.unknown()
    assert (root.reserved, root.reserved_cost, root.cost) == (50, 25.0, 0.0)
    now(root.reserve(call(), input_tokens=30, max_tokens=20)).settle(None)
    with pytest.raises(TokenBudgetExceededError) as caught:
        root.check()
    assert caught.value.tokens_used == 100
    assert root.overrun() is None


@proves("BUD-32")
def test_nothing_is_kept_for_a_call_that_was_not_sent() -> None:
    root = hard(tokens=100)
    now(root.reserve(call(), input_tokens=30, max_tokens=20)).withdraw()
    assert (root.reserved, root.requests, root.usage, root.usage_report()) == (0, 0, TokenUsage(), ())


@proves("BUD-32", "BUD-7")
def test_a_provider_that_keeps_to_nothing_is_found_out() -> None:
    root = hard(tokens=100)
    now(root.reserve(call(), input_tokens=30, max_tokens=20)).settle(tokens(101))
    error = root.overrun()
    assert isinstance(error, TokenBudgetExceededError)
    assert (error.tokens_used, error.budget) == (101, 100)


@proves("BUD-32", "BUD-10")
def test_the_tokens_of_a_call_are_charged_when_its_price_cannot_be_told() -> None:
    prices = iter([1.0, math.nan])
    root = hard(tokens=100, estimate=lambda usage, context: next(prices))
    pending = now(root.reserve(call(), input_tokens=30, max_tokens=20))
    with pytest.raises(RunError, match="invalid cost"):
        pending.settle(tokens(7))
    assert (root.reserved, root.usage, root.cost) == (0, tokens(7), 0.0)


@proves("BUD-36", "BUD-38")
def test_calls_are_reserved_in_hard_mode_where_tokens_or_cost_are_limited() -> None:
    root = hard(requests=9)
    assert not root.reserves
    assert root.child("a", Limits(tokens=9)).reserves
    assert not root.child("b").reserves
    assert hard(cost=1.0, estimate=per_token).child("c").reserves
    assert not BudgetScope("run", Limits(tokens=9)).reserves


@proves("BUD-38")
def test_there_are_two_modes() -> None:
    wrong: Any = "strict"
    with pytest.raises(ConfigurationError, match="budget_mode must be 'soft' or 'hard', got 'strict'"):
        BudgetScope("run", mode=wrong)


@proves("BUD-37")
def test_what_may_be_written_to_a_cache_is_priced_so() -> None:
    priced = []

    def estimate(usage: TokenUsage, context: CostEstimateContext) -> float:
        priced.append(usage)
        return 0.0

    root = hard(tokens=100, estimate=estimate)
    now(root.reserve(call(), input_tokens=30, max_tokens=20, writes_cache=True))
    now(root.reserve(call(), input_tokens=30, max_tokens=20))
    assert priced == [
        TokenUsage(input_tokens=30, output_tokens=20, cache_write_tokens=30),
        TokenUsage(input_tokens=30, output_tokens=20),
    ]


@proves("BUD-33")
@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 3),  # which scope calls, or which call in flight ends
            st.sampled_from(["begin", "begin", "known", "unknown", "unsent"]),
            st.integers(0, 40),  # what is sent
            st.none() | st.integers(1, 40),
            st.floats(0, 1),  # how much of what was held is used
        ),
        max_size=40,
    )
)
def test_no_total_gets_over_its_limit_whatever_is_in_flight(
    steps: list[tuple[int, str, int, int | None, float]],
) -> None:
    root = hard(tokens=150, cost=70.0, estimate=per_token)
    scopes = [root, root.child("a", Limits(tokens=90)), root.child("b"), root.child("c", Limits(cost=30.0))]
    flying: list[tuple[PendingCall, int]] = []
    for number, kind, sent, limit, share in steps:
        if kind == "begin":
            try:
                pending = now(scopes[number].reserve(call(), input_tokens=sent, max_tokens=limit))
            except (TokenBudgetExceededError, CostBudgetExceededError):
                continue
            flying.append((pending, sent))
        elif flying:
            pending, request = flying.pop(number % len(flying))
            output = int((pending.max_tokens or 0) * share)
            if kind == "unsent":
                pending.withdraw()
            else:
                pending.settle(TokenUsage(input_tokens=request, output_tokens=output) if kind == "known" else None)
        for scope in scopes:
            assert scope.usage.total_tokens + scope.reserved <= (scope.limits.tokens or math.inf)
            assert scope.cost + scope.reserved_cost <= (scope.limits.cost or math.inf) + 1e-9
            assert scope.overrun() is None
            assert scope.reserved >= 0


# The report


@proves("BUD-50")
def test_a_report_has_an_entry_for_each_agent_model_provider_and_phase() -> None:
    root = BudgetScope("run", estimate_cost=per_token)
    child = root.child("agent")
    child.begin(call()).settle(tokens(4))
    child.begin(call(phase="summary", model="small")).settle(tokens(2))
    child.begin(call()).settle(None)
    root.begin(call("other")).settle(tokens(6))
    assert root.usage_report() == (
        UsageEntry(
            agent="writer",
            model="m",
            provider="p",
            phase="agent",
            usage=TokenUsage(input_tokens=4, unknown_calls=1),
            cost=2.0,
            requests=2,
        ),
        UsageEntry(agent="writer", model="small", provider="p", phase="summary", usage=tokens(2), cost=1.0, requests=1),
        UsageEntry(agent="other", model="m", provider="p", phase="agent", usage=tokens(6), cost=3.0, requests=1),
    )
    assert child.usage_report() == root.usage_report()[:2]


@proves("BUD-50")
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from(["agent", "summary"]), st.none() | usages),
        max_size=20,
    )
)
def test_the_entries_of_a_scope_add_up_to_its_totals(made: list[tuple[int, str, str, TokenUsage | None]]) -> None:
    root = BudgetScope("run", estimate_cost=per_token)
    scopes = [root, root.child("one"), root.child("two")]
    for number, model, phase, usage in made:
        scopes[number].begin(call(model=model, phase=phase)).settle(usage)
    for scope in scopes:
        report = scope.usage_report()
        assert sum((entry.usage for entry in report), TokenUsage()) == scope.usage
        assert sum(entry.cost for entry in report) == scope.cost
        assert sum(entry.requests for entry in report) == scope.requests
        assert len({(entry.agent, entry.model, entry.provider, entry.phase) for entry in report}) == len(report)

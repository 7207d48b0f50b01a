"""The ledger: every total is the sum of its subtree, and every limit means what it says."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.budget import BudgetScope, CostEstimateContext, Limits, Remaining
from openmultiagent.errors import (
    ConfigurationError,
    CostBudgetExceededError,
    RunError,
    TokenBudgetExceededError,
)
from openmultiagent.usage import TokenUsage
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
@settings(deadline=None, max_examples=60)
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

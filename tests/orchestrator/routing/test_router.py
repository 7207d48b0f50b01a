"""Routers, ours and others."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from openmultiagent import AgentConfig, CancelToken, ConfigurationError, RoutingTimeoutError, tool
from openmultiagent.orchestrator import (
    DeterministicRouter,
    ExecutionRouter,
    RosterSummaryEntry,
    RoutingBudget,
    RoutingContext,
    RoutingDecision,
)
from openmultiagent.orchestrator._routing import RoutingDeadline, ask_router, check_router, roster_summary
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

ALPHA = RosterSummaryEntry("alpha")
SIMPLE = RoutingContext("Say hello.", (ALPHA,))
COMPLEX = RoutingContext("First gather all figures, then write.", (ALPHA,))
NEVER = RoutingDeadline()


class Router:
    def __init__(self, decide: Callable[[RoutingContext], Any], version: Any = "mine-1") -> None:
        self.version = version
        self._decide = decide

    def decide(self, context: RoutingContext) -> Any:
        return self._decide(context)


def team(version: str = "mine-1", **fields: Any) -> RoutingDecision:
    return RoutingDecision("team", ["it is wanted"], version, **fields)


@proves("ROU-3")
def test_the_built_in_router_goes_by_the_text_and_the_roster() -> None:
    router = DeterministicRouter()
    assert isinstance(router, ExecutionRouter)
    single, complex_, empty = (router.decide(item) for item in (SIMPLE, COMPLEX, replace(SIMPLE, roster=())))
    assert (single.mode, complex_.mode, empty.mode) == ("single", "team", "team")
    assert {item.router_version for item in (single, complex_, empty)} == {"deterministic-v1"}
    assert complex_.reasons == ("the goal is no simple one: it says what comes first and what then",)
    assert router.decide(RoutingContext("x" * 300, (ALPHA,))).reasons == (
        "the goal is no simple one: it is long (300 units or more)",
    )
    # What a long goal says is looked for near its beginning only: it is decided already.
    for before, reason in ((3900, "it numbers steps, phases or stages"), (4000, "it is long (4000 units or more)")):
        decision = router.decide(RoutingContext("x" * before + " Step 1", (ALPHA,)))
        assert decision.reasons == (f"the goal is no simple one: {reason}",)
    padded = router.decide(RoutingContext(" " * 5000 + "Step 1", (ALPHA,)))
    assert padded.reasons == ("the goal is no simple one: it numbers steps, phases or stages",)


@proves("ROU-4")
def test_a_router_sees_names_models_and_numbers_and_nothing_else() -> None:
    @tool
    def look(query: str) -> str:
        """Look something up."""
        return query

    agents = [
        AgentConfig("alpha", model="m", tools=[look], system_prompt="SECRET", api_key="SECRET", description="SECRET"),
        AgentConfig("beta"),
    ]
    assert roster_summary(agents, default_model="d") == (
        RosterSummaryEntry("alpha", "m", 1),
        RosterSummaryEntry("beta", "d", None),
    )
    assert "SECRET" not in repr(roster_summary(agents))
    assert [entry.model for entry in roster_summary(agents)] == ["m", None]


@proves("ROU-5")
async def test_a_valid_decision_is_taken_as_it_is() -> None:
    seen: list[RoutingContext] = []

    def decide(context: RoutingContext) -> RoutingDecision:
        seen.append(context)
        return team(confidence=1, status="fallback", fallback_code="router-error", source="override")

    context = replace(SIMPLE, budget=RoutingBudget(token_remaining=100))
    decision = await ask_router(Router(decide), context, deadline=NEVER, failure_policy="fallback")
    assert decision == RoutingDecision("team", ("it is wanted",), "mine-1", 1, "selected")
    assert decision.to_dict() == {
        "mode": "team",
        "reasons": ["it is wanted"],
        "router_version": "mine-1",
        "confidence": 1,
        "status": "selected",
        "source": "router",
    }
    assert (seen[0].goal, seen[0].roster, seen[0].budget) == ("Say hello.", (ALPHA,), RoutingBudget(100))


@proves("ROU-5")
async def test_a_router_may_be_async() -> None:
    async def decide(_context: RoutingContext) -> RoutingDecision:
        await anyio.lowlevel.checkpoint()
        return team()

    decision = await ask_router(Router(decide), SIMPLE, deadline=NEVER, failure_policy="fail")
    assert (decision.mode, decision.status) == ("team", "selected")


@proves("ROU-5")
async def test_what_a_router_says_at_length_is_cut() -> None:
    router = Router(lambda _: RoutingDecision("team", ["x" * 10_000] * 1_000, "mine-1"))
    decision = await ask_router(router, SIMPLE, deadline=NEVER, failure_policy="fail")
    assert [len(reason) for reason in decision.reasons] == [500] * 20


INVALID = [
    ("team", "must be a RoutingDecision, got str"),
    (None, "must be a RoutingDecision, got NoneType"),
    (RoutingDecision("both", [], "mine-1"), "mode must be"),  # type: ignore[arg-type]
    (team("other"), "router_version must be 'mine-1', got 'other'"),
    (RoutingDecision("team", [], None), "router_version must be 'mine-1', got None"),
    (RoutingDecision("team", "why", "mine-1"), "reasons must be a list of texts"),
    (RoutingDecision("team", [1], "mine-1"), "reasons must be a list of texts"),  # type: ignore[list-item]
    (team(confidence=1.1), "confidence must be"),
    (team(confidence=float("nan")), "confidence must be"),
    (team(confidence=True), "confidence must be"),
    (team(confidence="0.5"), "confidence must be"),
]


@proves("ROU-6")
@pytest.mark.parametrize(("answer", "fault"), INVALID)
async def test_an_invalid_decision_is_not_used(answer: Any, fault: str) -> None:
    router = Router(lambda _: answer)
    decision = await ask_router(router, SIMPLE, deadline=NEVER, failure_policy="fallback")
    assert decision == RoutingDecision(
        "single",
        (
            "the goal is short and shows no sign of several steps",
            "decided without the router: invalid decision",
        ),
        "deterministic-v1",
        status="fallback",
        requested_router_version="mine-1",
        fallback_code="invalid-decision",
    )
    with pytest.raises(ConfigurationError, match="execution router 'mine-1' returned an invalid decision: " + fault):
        await ask_router(router, SIMPLE, deadline=NEVER, failure_policy="fail")


@proves("ROU-6")
async def test_nobody_can_work_alone_in_an_empty_team() -> None:
    router = Router(lambda _: RoutingDecision("single", [], "mine-1"))
    decision = await ask_router(router, RoutingContext("Hi", ()), deadline=NEVER, failure_policy="fallback")
    assert (decision.mode, decision.fallback_code) == ("team", "invalid-decision")


@proves("ROU-6")
@pytest.mark.parametrize("version", ["", "  ", None, 1, "v" * 129])
async def test_a_router_needs_a_version(version: Any) -> None:
    router = Router(lambda _: team(version), version)
    decision = await ask_router(router, SIMPLE, deadline=NEVER, failure_policy="fallback")
    assert (decision.fallback_code, decision.requested_router_version) == ("invalid-router-version", None)
    with pytest.raises(ConfigurationError, match="execution router Router must have a version of 1 to 128 characters"):
        await ask_router(router, SIMPLE, deadline=NEVER, failure_policy="fail")


@proves("ROU-6")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_router_that_raises_is_named_by_its_exceptions_class_alone(is_async: bool) -> None:
    def decide(_context: RoutingContext) -> RoutingDecision:
        raise LookupError("sk-secret")

    async def decide_later(context: RoutingContext) -> RoutingDecision:
        await anyio.lowlevel.checkpoint()
        return decide(context)

    router = Router(decide_later if is_async else decide)
    decision = await ask_router(router, COMPLEX, deadline=NEVER, failure_policy="fallback")
    assert (decision.mode, decision.fallback_code) == ("team", "router-error")
    assert decision.reasons[-1] == "decided without the router: LookupError in the router"
    with pytest.raises(LookupError, match="sk-secret"):
        await ask_router(router, COMPLEX, deadline=NEVER, failure_policy="fail")


@proves("ROU-7")
async def test_a_router_that_is_too_slow_is_given_up() -> None:
    tokens: list[CancelToken] = []

    async def decide(context: RoutingContext) -> RoutingDecision:
        assert context.cancel is not None
        tokens.append(context.cancel)
        await anyio.sleep_forever()
        raise AssertionError

    decision = await ask_router(Router(decide), SIMPLE, deadline=RoutingDeadline.after(0.01), failure_policy="fallback")
    assert (decision.mode, decision.fallback_code) == ("single", "router-timeout")
    assert (tokens[0].cancelled, tokens[0].reason) == (True, "the time for routing is over")
    with pytest.raises(RoutingTimeoutError, match=r"Execution routing router exceeded its timeout of 0.01s"):
        await ask_router(Router(decide), SIMPLE, deadline=RoutingDeadline.after(0.01), failure_policy="fail")


@proves("ROU-7")
async def test_a_thread_that_looks_at_the_token_notices_the_deadline() -> None:
    async def decide(context: RoutingContext) -> RoutingDecision:
        assert context.cancel is not None
        await anyio.to_thread.run_sync(until_cancelled, context.cancel)
        return team()

    def until_cancelled(token: CancelToken) -> None:
        while not token.cancelled:
            time.sleep(0.001)
        noticed.append(token.reason)

    noticed: list[str | None] = []
    # The thread cannot be stopped from outside, so nothing would come back if it did not notice.
    await ask_router(Router(decide), SIMPLE, deadline=RoutingDeadline.after(0.02), failure_policy="fallback")
    assert noticed == ["the time for routing is over"]


@proves("ROU-7")
async def test_a_timeout_of_the_routers_own_is_its_error() -> None:
    async def decide(_context: RoutingContext) -> RoutingDecision:
        raise TimeoutError

    decision = await ask_router(Router(decide), SIMPLE, deadline=RoutingDeadline.after(60), failure_policy="fallback")
    assert decision.fallback_code == "router-error"


@proves("ROU-8")
async def test_a_router_that_fails_since_the_run_is_cancelled_fails_nothing() -> None:
    cancel = CancelToken()

    async def decide(context: RoutingContext) -> RoutingDecision:
        cancel.cancel("enough")
        assert context.cancel is not None
        try:
            await context.cancel.wait()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise OSError("interrupted") from None
        raise AssertionError

    finished = False
    with cancel.scope() as scope:
        context = replace(SIMPLE, cancel=cancel)
        await ask_router(Router(decide), context, deadline=NEVER, failure_policy="fail")
        finished = True
    assert scope.cancelled_caught
    assert not finished


@proves("ROU-8")
async def test_a_router_sees_that_the_run_is_cancelled() -> None:
    cancel = CancelToken()
    seen: list[CancelToken] = []

    async def decide(context: RoutingContext) -> RoutingDecision:
        assert context.cancel is not None
        seen.append(context.cancel)
        cancel.cancel("enough")
        await context.cancel.wait()
        return team()

    context = replace(SIMPLE, cancel=cancel)
    decision = await ask_router(Router(decide), context, deadline=NEVER, failure_policy="fail")
    assert decision.mode == "team"
    assert seen[0].reason == "enough"
    cancelled = await ask_router(
        Router(lambda context: team(confidence=float(context.cancel is not None and context.cancel.cancelled))),
        context,
        deadline=NEVER,
        failure_policy="fail",
    )
    assert cancelled.confidence == 1.0


@proves("ROU-8")
async def test_a_cancelled_caller_is_not_held_up() -> None:
    async def decide(_context: RoutingContext) -> RoutingDecision:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    started = anyio.Event()
    ended: list[str] = []

    async def ask() -> None:
        try:
            await ask_router(Router(decide), SIMPLE, deadline=NEVER, failure_policy="fallback")
        finally:
            ended.append("cancelled")

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await started.wait()
        group.cancel_scope.cancel()
    assert ended == ["cancelled"]


@proves("ROU-6")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_router_that_cancels_itself_has_failed() -> None:
    import asyncio

    async def decide(_context: RoutingContext) -> RoutingDecision:
        raise asyncio.CancelledError

    decision = await ask_router(Router(decide), SIMPLE, deadline=NEVER, failure_policy="fallback")
    assert decision.fallback_code == "router-error"


@proves("ROU-8")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_goes_through() -> None:
    import asyncio

    async def decide(_context: RoutingContext) -> RoutingDecision:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    started = asyncio.Event()
    task = asyncio.ensure_future(ask_router(Router(decide), SIMPLE, deadline=NEVER, failure_policy="fallback"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@proves("ROU-6")
@pytest.mark.parametrize("wrong", ["deterministic", object(), 1])
def test_what_is_no_router_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="execution_router must have a version and decide"):
        check_router(wrong)


@proves("ROU-6")
def test_a_router_or_none_is_given() -> None:
    router = DeterministicRouter()
    assert check_router(router) is router
    assert check_router(None) is None


@proves("ROU-4")
def test_a_router_sees_what_agents_declare_of_themselves() -> None:
    agent = AgentConfig("a", adapter=ScriptedAdapter([]), cost_tier="high", latency_class="slow", capabilities=["law"])
    (entry,) = roster_summary([agent])
    assert (entry.cost_tier, entry.latency_class, entry.capabilities) == ("high", "slow", ("law",))

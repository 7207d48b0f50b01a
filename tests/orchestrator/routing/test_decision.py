"""Who works on a goal, step by step."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    RoutingDeclarationRequiredError,
    RoutingProfilerFailedError,
    RoutingTimeoutError,
    tool,
)
from openmultiagent.orchestrator import (
    DeterministicRouter,
    ExecutionRoutingConfig,
    LLMTaskProfiler,
    RosterSummaryEntry,
    RoutingContext,
    RoutingDecision,
    TaskProfile,
    TaskProfilerResult,
)
from openmultiagent.orchestrator._routing import (
    as_routing_config,
    assess,
    check_declared,
    decide_route,
    permission_boundaries,
    settled_route,
    uses_consequential_tools,
)
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

PROFILE: dict[str, Any] = {
    "evidence_sources": "single",
    "independent_review": "none",
    "conflicting_objectives": False,
    "side_effect_intent": "none",
    "permission_isolation": "none",
    "decomposable": True,
    "parallelizable": False,
    "complexity": "high",
    "confidence": 0.9,
    "reasons": ["it is one question"],
}
USAGE = TokenUsage(input_tokens=3, output_tokens=2)
SIMPLE = RoutingContext("Say hello.", (RosterSummaryEntry("alpha"),))
COMPLEX = replace(SIMPLE, goal="First gather all figures, then write.")
HYBRID = ExecutionRoutingConfig(strategy="hybrid")


class Profiler:
    def __init__(self, answer: Callable[[], Any] | dict[str, Any], version: Any = "mine") -> None:
        self.version = version
        self.calls: list[RoutingContext] = []
        self._answer = answer

    def profile(self, context: RoutingContext) -> Any:
        self.calls.append(context)
        return self._answer() if callable(self._answer) else TaskProfilerResult(self._answer, USAGE, "m", "p")


class Router:
    def __init__(self, answer: Any) -> None:
        self.version = "r"
        self._answer = answer

    def decide(self, _context: RoutingContext) -> Any:
        return self._answer


def profiled(**changes: Any) -> Profiler:
    return Profiler(PROFILE | changes)


async def decide(profiler: Profiler, context: RoutingContext = SIMPLE, **arguments: Any) -> RoutingDecision:
    config = arguments.pop("config", HYBRID)
    return await decide_route(context, config=replace(config, profiler=profiler), **arguments)


@proves("ROU-10")
@pytest.mark.parametrize(
    ("arguments", "mode", "source"),
    [
        ({"mode": "single", "has_gates": True}, "single", "override"),
        ({"mode": "team"}, "team", "override"),
        ({"mode": "team", "plan_only": True}, "team", "override"),
        ({"mode": "single", "has_agents": False}, "team", "override"),
        ({"plan_only": True}, "team", "policy"),
        ({"plan_only": True, "has_gates": True}, "team", "policy"),
        ({"has_gates": True}, "team", "policy"),
    ],
)
def test_what_the_caller_settled_is_settled(arguments: dict[str, Any], mode: str, source: str) -> None:
    decision = settled_route(**{"mode": None, "has_agents": True} | arguments)
    assert decision is not None
    assert (decision.mode, decision.source, decision.router_version, decision.status) == (mode, source, None, None)
    assert decision.reasons


@proves("ROU-10")
def test_what_nobody_settled_is_open() -> None:
    assert settled_route(None, has_agents=True) is None


@proves("ROU-10")
def test_a_mode_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="plan_only needs a coordinator"):
        settled_route("single", has_agents=True, plan_only=True)
    with pytest.raises(ConfigurationError, match="mode must be 'single', 'team' or None, got 'both'"):
        settled_route("both", has_agents=True)  # type: ignore[arg-type]


@proves("ROU-11")
async def test_by_default_the_text_decides() -> None:
    simple, complex_ = await decide_route(SIMPLE), await decide_route(COMPLEX)
    assert (simple.mode, complex_.mode) == ("single", "team")
    assert (simple.status, simple.source) == ("selected", "router")
    assert simple.assessment is complex_.assessment is None


@proves("ROU-11")
async def test_a_router_of_the_callers_decides_instead() -> None:
    outcome = await decide_route(SIMPLE, router=Router(RoutingDecision("team", ["so"], "r")))
    assert (outcome.mode, outcome.router_version) == ("team", "r")


ASSESSMENTS = [
    ({}, False, (), "single"),
    ({"confidence": 0.69, "parallelizable": True}, True, ("a", "b"), "single"),
    ({"confidence": 0.7, "parallelizable": True}, False, (), "team"),
    ({"parallelizable": True}, False, (), "team"),
    ({"evidence_sources": "multiple"}, False, (), "team"),
    ({"evidence_sources": "unknown"}, False, (), "single"),
    ({"independent_review": "preferred"}, False, (), "team"),
    ({"conflicting_objectives": True}, False, (), "team"),
    ({"side_effect_intent": "possible"}, False, (), "single"),
    ({"side_effect_intent": "possible"}, True, (), "needs-declaration"),
    ({"side_effect_intent": "none"}, True, (), "single"),
    ({"permission_isolation": "required"}, False, ("a", "a", None, ""), "single"),
    ({"permission_isolation": "required"}, False, ("a", "b"), "needs-declaration"),
    ({"permission_isolation": "none"}, False, ("a", "b"), "single"),
    ({"side_effect_intent": "required", "parallelizable": True}, True, (), "needs-declaration"),
    ({"decomposable": False, "complexity": "low"}, False, (), "single"),
]


@proves("ROU-12")
@pytest.mark.parametrize(("changes", "consequential", "boundaries", "expected"), ASSESSMENTS)
def test_what_follows_from_a_profile(
    changes: dict[str, Any], consequential: bool, boundaries: tuple[str | None, ...], expected: str
) -> None:
    profile = TaskProfile(**PROFILE | changes)
    outcome, reasons = assess(profile, threshold=0.7, consequential=consequential, boundaries=boundaries)
    assert outcome == expected
    assert reasons


@proves("ROU-13")
async def test_a_profile_can_call_in_the_team() -> None:
    profiler = profiled(parallelizable=True, independent_review="required", confidence=0.8)
    outcome = await decide(profiler)
    decision, assessment = outcome, outcome.assessment
    assert (decision.mode, decision.router_version, decision.confidence) == ("team", "hybrid-v1", 0.8)
    assert decision.reasons[-2:] == ("an independent review is wanted", "parts can be done at the same time")
    assert assessment is not None
    assert (assessment.outcome, assessment.profiler_version, assessment.usage) == ("team", "mine", USAGE)
    assert (assessment.model, assessment.provider, assessment.fallback_code) == ("m", "p", None)
    check_declared(outcome)
    assert len(profiler.calls) == 1


@proves("ROU-13")
async def test_a_single_agent_stays_single_and_its_decision_as_it_was() -> None:
    outcome = await decide(profiled())
    assert replace(outcome, assessment=None) == await decide_route(SIMPLE)
    assert outcome.assessment is not None
    assert outcome.assessment.outcome == "single"


@proves("ROU-14")
async def test_a_goal_that_needs_a_declaration_is_told_with_its_reasons() -> None:
    outcome = await decide(
        profiled(side_effect_intent="required", permission_isolation="preferred"),
        consequential=True,
        boundaries=["a", "b"],
    )
    assert outcome.mode == "single"
    with pytest.raises(RoutingDeclarationRequiredError, match="pass mode='single' or mode='team'") as caught:
        check_declared(outcome)
    assert len(caught.value.reasons) == 2


@proves("ROU-15")
@pytest.mark.parametrize(
    ("context", "router", "strategy"),
    [
        (COMPLEX, None, "hybrid"),
        (SIMPLE, None, "deterministic"),
        (SIMPLE, Router(RoutingDecision("single", ["so"], "r")), "hybrid"),
        (SIMPLE, DeterministicRouter(), "hybrid"),
    ],
)
async def test_no_profile_is_asked_for_where_it_could_change_nothing(
    context: RoutingContext, router: Any, strategy: Any
) -> None:
    profiler = profiled(parallelizable=True)
    config = ExecutionRoutingConfig(strategy=strategy)
    outcome = await decide(profiler, context, config=config, router=router)
    assert profiler.calls == []
    assert outcome.assessment is None


@proves("ROU-15")
async def test_no_profile_is_asked_for_in_a_cancelled_run() -> None:
    cancel = CancelToken()
    cancel.cancel()
    profiler = profiled(parallelizable=True)
    outcome = await decide(profiler, replace(SIMPLE, cancel=cancel))
    assert (profiler.calls, outcome.mode) == ([], "single")


@proves("ROU-15")
async def test_what_came_in_place_of_a_router_is_profiled() -> None:
    profiler = profiled(parallelizable=True)
    outcome = await decide(profiler, router=Router("nonsense"))
    assert len(profiler.calls) == 1
    decision = outcome
    assert (decision.mode, decision.router_version) == ("team", "hybrid-v1")
    assert (decision.status, decision.fallback_code) == ("fallback", "invalid-decision")
    assert decision.requested_router_version == "r"


async def never() -> Any:
    await anyio.sleep_forever()
    raise AssertionError


def broken() -> Any:
    raise LookupError("sk-secret")


async def broken_later() -> Any:
    await anyio.lowlevel.checkpoint()
    raise LookupError("sk-secret")


FAILURES = [
    (Profiler(broken), "profiler-error", None, "mine"),
    (Profiler(broken_later), "profiler-error", None, "mine"),
    (Profiler(broken, version=7), "profiler-error", None, None),
    (Profiler(PROFILE | {"confidence": 2}), "invalid-profile", USAGE, "mine"),
    (Profiler(lambda: TaskProfilerResult(None, USAGE)), "invalid-profile", USAGE, "mine"),
    (Profiler(lambda: PROFILE), "invalid-profile", None, "mine"),
    (Profiler(lambda: TaskProfilerResult(PROFILE, 7)), "invalid-profile", None, "mine"),  # type: ignore[arg-type]
]


@proves("ROU-16")
@pytest.mark.parametrize(("profiler", "code", "usage", "version"), FAILURES)
async def test_without_a_profile_the_decision_stands(
    profiler: Profiler, code: str, usage: TokenUsage | None, version: str | None
) -> None:
    decision = await decide(profiler)
    assessment = decision.assessment
    assert decision.mode == "single"
    assert assessment is not None
    assert (assessment.outcome, assessment.fallback_code) == ("fallback", code)
    assert (assessment.profiler_version, assessment.requested_profiler_version) == ("none", version)
    assert (assessment.usage, assessment.profile) == (usage, None)
    assert "sk-secret" not in json.dumps(assessment.to_dict())
    with pytest.raises(RoutingProfilerFailedError, match=code) as caught:
        await decide(profiler, config=replace(HYBRID, failure_policy="fail"))
    assert isinstance(caught.value.cause, Exception)


@proves("ROU-16")
async def test_a_profiler_that_is_too_slow_is_given_up() -> None:
    config = replace(HYBRID, timeout=0.01)
    assessment = (await decide(Profiler(never), config=config)).assessment
    assert assessment is not None
    assert assessment.fallback_code == "profiler-timeout"
    with pytest.raises(RoutingTimeoutError) as caught:
        await decide(Profiler(never), config=replace(config, failure_policy="fail"))
    assert (caught.value.stage, caught.value.timeout) == ("profiler", 0.01)


@proves("ROU-16")
async def test_router_and_profiler_share_the_time() -> None:
    router = Router(None)
    router.decide = lambda _context: never()  # type: ignore[method-assign]
    profiler = Profiler(never)
    decision = await decide(profiler, config=replace(HYBRID, timeout=0.02), router=router)
    assessment = decision.assessment
    assert decision.fallback_code == "router-timeout"
    assert assessment is not None
    assert assessment.fallback_code == "profiler-timeout"


@proves("ROU-16")
@pytest.mark.parametrize("make", [None, broken, lambda: None, lambda: "profiler"])
async def test_a_profiler_that_cannot_be_made_is_none(make: Any) -> None:
    outcome = await decide_route(SIMPLE, config=HYBRID, make_profiler=make)
    assert outcome.assessment is not None
    assert outcome.assessment.fallback_code == "profiler-unavailable"
    with pytest.raises(RoutingProfilerFailedError, match="profiler-unavailable"):
        await decide_route(SIMPLE, config=replace(HYBRID, failure_policy="fail"), make_profiler=make)


@proves("ROU-16")
async def test_a_profiler_that_fails_since_the_run_is_cancelled_fails_nothing() -> None:
    cancel = CancelToken()

    async def interrupted() -> Any:
        cancel.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise OSError("interrupted") from None

    finished = False
    with cancel.scope() as scope:
        await decide(
            Profiler(interrupted), replace(SIMPLE, cancel=cancel), config=replace(HYBRID, failure_policy="fail")
        )
        finished = True
    assert scope.cancelled_caught
    assert not finished


@proves("ROU-17")
async def test_a_profiler_is_made_when_it_is_needed() -> None:
    adapter = ScriptedAdapter([json.dumps(PROFILE | {"parallelizable": True})])
    made: list[LLMTaskProfiler] = []

    def make() -> LLMTaskProfiler:
        made.append(LLMTaskProfiler(adapter, model="m"))
        return made[-1]

    assert (await decide_route(COMPLEX, config=HYBRID, make_profiler=make)).mode == "team"
    assert made == []
    outcome = await decide_route(SIMPLE, config=HYBRID, make_profiler=make)
    assert (len(made), len(adapter.calls), outcome.mode) == (1, 1, "team")
    assert outcome.assessment is not None
    assert outcome.assessment.profiler_version == "llm-task-profiler-v1:scripted:m"


@proves("ROU-18")
async def test_an_assessment_is_plain_data_without_secrets() -> None:
    outcome = await decide(profiled(reasons=["the password: hunter2hunter2 is needed"]))
    assert outcome.assessment is not None
    record = json.loads(json.dumps(outcome.to_dict()))["assessment"]
    assert "hunter2" not in json.dumps(record)
    assert record["outcome"] == "single"
    assert record["profile"]["source"] == "inferred"
    assert record["usage"] == USAGE.to_dict()
    assert "fallback_code" not in record


@proves("ROU-19")
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"strategy": "magic"}, "strategy"),
        ({"failure_policy": "panic"}, "failure_policy"),
        ({"confidence_threshold": 1.1}, "confidence_threshold"),
        ({"confidence_threshold": float("nan")}, "confidence_threshold"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"profiler": "me"}, "profiler"),
        ({"model": ""}, "model"),
        ({"strategie": "hybrid"}, "did you mean 'strategy'"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        as_routing_config(fields)


@proves("ROU-19")
def test_a_config_may_be_a_mapping() -> None:
    assert as_routing_config({"strategy": "hybrid"}) == HYBRID == as_routing_config(HYBRID)
    assert as_routing_config(None) == ExecutionRoutingConfig()
    with pytest.raises(ConfigurationError, match=r"execution_routing\.adapter must be an adapter, got 'openai'"):
        as_routing_config({"adapter": "openai"})
    with pytest.raises(ConfigurationError, match="execution_routing must be an ExecutionRoutingConfig or a mapping"):
        as_routing_config("hybrid")


@proves("ROU-14")
def test_what_agents_may_do_is_read_from_their_tools() -> None:
    @tool(consequential=True)
    def send(text: str) -> str:
        """Send it."""
        return text

    plain, armed = AgentConfig("a"), AgentConfig("b", tools=[send])
    assert not uses_consequential_tools([plain])
    assert uses_consequential_tools([plain, armed])
    assert not uses_consequential_tools([armed.replace(disallowed_tools=["send"])])
    assert permission_boundaries([plain, armed]) == (None, None)
    assert permission_boundaries([plain.replace(permission_boundary="prod"), armed]) == ("prod", None)

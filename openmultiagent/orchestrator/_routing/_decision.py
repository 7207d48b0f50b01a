"""Who works on a goal: what the caller settled, else the router, else, for one agent in doubt, a profile of the goal.

Not here: running anything. Invariants: what the caller settled is never asked about; a decision for the team is never
profiled, nor turned into one for a single agent; a profile can only call in the team, or a declaration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, replace
from typing import Annotated, Final, Literal, get_args

from anyio.lowlevel import checkpoint
from pydantic import Field, SkipValidation

from ..._failures import error_text
from ..._shown import shown
from ..._spec import as_spec, spec
from ...adapters import LLMAdapter
from ...agent import AgentConfig
from ...errors import (
    ConfigurationError,
    RoutingDeclarationRequiredError,
    RoutingProfilerFailedError,
    RoutingTimeoutError,
)
from ...redaction import redact_sensitive_text
from ...usage import TokenUsage
from ._profiler import InvalidProfileError, TaskProfiler, TaskProfilerResult, as_profile, check_profiler
from ._records import (
    FailurePolicy,
    ProfilerFallback,
    RouteMode,
    RoutingAssessment,
    RoutingContext,
    RoutingDecision,
    TaskProfile,
)
from ._router import DeterministicRouter, ExecutionRouter, RoutingDeadline, ask_in_time, ask_router

__all__ = [
    "HYBRID_VERSION",
    "ExecutionRoutingConfig",
    "as_routing_config",
    "assess",
    "check_declared",
    "decide_route",
    "permission_boundaries",
    "settled_route",
    "uses_consequential_tools",
]

HYBRID_VERSION: Final = "hybrid-v1"
"""Version of decisions that a profile changed."""

Profiled = Callable[[], Awaitable[RoutingAssessment]]
"""Has a goal profiled."""

_NEEDED = "routing needs a declaration: {}; pass mode='single' or mode='team'"


@spec
class ExecutionRoutingConfig:
    """How it is decided who works on a goal."""

    _: KW_ONLY
    strategy: Literal["deterministic", "hybrid"] = "deterministic"
    """``deterministic`` goes by the router alone; ``hybrid`` has a goal profiled that would go to a single agent."""
    profiler: SkipValidation[TaskProfiler | None] = None
    """Who profiles; else an ``LLMTaskProfiler`` with the adapter and model below."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """The model that profiles; else the coordinator's, else the orchestrator's default."""
    adapter: SkipValidation[LLMAdapter | None] = None
    """The adapter that profiles; else the coordinator's, else one of the default provider."""
    confidence_threshold: Annotated[float, Field(ge=0, le=1)] = 0.7
    """A profile that is less sure changes nothing."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for router and profiler together; None is no limit."""
    failure_policy: FailurePolicy = "fallback"
    """Whether a run goes on without a router or profiler that failed."""

    def __post_init__(self) -> None:
        check_profiler(self.profiler)
        if self.adapter is not None and not callable(getattr(self.adapter, "chat", None)):
            raise ConfigurationError(f"execution_routing.adapter must be an adapter, got {shown(self.adapter)}")


def as_routing_config(value: object) -> ExecutionRoutingConfig:
    """Return what was given as ``execution_routing=``.

    Args:
        value: The config, a mapping with its fields, or None for the defaults.

    Raises:
        ConfigurationError: It is none of these, or a field makes no sense.
    """
    if value is None:
        return ExecutionRoutingConfig()
    return as_spec(ExecutionRoutingConfig, value, where="execution_routing")


def settled_route(
    mode: RouteMode | None,
    *,
    has_agents: bool,
    plan_only: bool = False,
    has_gates: bool = False,
) -> RoutingDecision | None:
    """Return the decision where the caller leaves nothing to decide.

    Args:
        mode: What the caller asked for.
        has_agents: Whether anybody could work alone.
        plan_only: Whether the caller wants a plan, which only a coordinator makes.
        has_gates: Whether plans or tasks are to be approved, which a single agent would go past.

    Raises:
        ConfigurationError: The mode is unknown, or a single agent is asked for a plan.
    """
    if mode is not None and mode not in get_args(RouteMode):
        raise ConfigurationError(f"mode must be 'single', 'team' or None, got {shown(mode)}")
    if mode == "single" and plan_only:
        raise ConfigurationError("plan_only needs a coordinator: leave mode='single' out, or plan_only")
    if mode == "single" and not has_agents:
        return RoutingDecision("team", ("mode 'single' was asked for, but the team is empty",), source="override")
    if mode is not None:
        return RoutingDecision(mode, (f"mode {mode!r} was asked for",), source="override")
    if plan_only:
        return RoutingDecision("team", ("only a plan is wanted",), source="policy")
    if has_gates:
        return RoutingDecision("team", ("plans or tasks are to be approved",), source="policy")
    return None


async def decide_route(
    context: RoutingContext,
    *,
    router: ExecutionRouter | None = None,
    config: ExecutionRoutingConfig | None = None,
    make_profiler: Callable[[], TaskProfiler] | None = None,
    consequential: bool = False,
    boundaries: Iterable[str | None] = (),
    around: Callable[[Profiled], Awaitable[RoutingAssessment]] | None = None,
) -> RoutingDecision:
    """Return who works on a goal for which nothing is settled, and why; with the assessment where there is a profile.

    Args:
        context: The goal, the roster, what is left of the budget, and the run's cancel token.
        router: The caller's router; by the text of the goal unless given.
        config: How to decide.
        make_profiler: Makes the profiler when one is needed and the config has none.
        consequential: Whether an agent of the roster may call a tool that has consequences.
        boundaries: The permission boundary of each agent; None for none.
        around: Stands around the profiling, if there is one.

    Raises:
        RoutingTimeoutError: There was no answer in time, and the policy is ``fail``.
        RoutingProfilerFailedError: There is no profile, and the policy is ``fail``.
        ConfigurationError: The router is not as it must be, and the policy is ``fail``.
        Exception: What the router raised, when the policy is ``fail``.
    """
    config = ExecutionRoutingConfig() if config is None else config
    deadline = RoutingDeadline.after(config.timeout)
    if router is None:
        decision = replace(DeterministicRouter().decide(context), status="selected")
    else:
        decision = await ask_router(router, context, deadline=deadline, failure_policy=config.failure_policy)
    is_customs = router is not None and decision.status == "selected"
    if config.strategy != "hybrid" or decision.mode != "single" or is_customs:
        return decision
    if context.cancel is not None and context.cancel.cancelled:
        return decision

    async def assessed() -> RoutingAssessment:
        assessment = await _profiled(context, config, deadline, make_profiler)
        if assessment.profile is None:
            return assessment
        outcome, reasons = assess(
            assessment.profile,
            threshold=config.confidence_threshold,
            consequential=consequential,
            boundaries=boundaries,
        )
        return replace(assessment, outcome=outcome, reasons=reasons)

    return _upgraded(decision, await (assessed() if around is None else around(assessed)))


def check_declared(decision: RoutingDecision) -> None:
    """Refuse a goal whose profile asks for a decision that only the caller can take.

    Args:
        decision: From ``decide_route``.

    Raises:
        RoutingDeclarationRequiredError: It does.
    """
    assessment = decision.assessment
    if assessment is not None and assessment.outcome == "needs-declaration":
        reasons = assessment.reasons
        raise RoutingDeclarationRequiredError(_NEEDED.format("; ".join(reasons)), reasons=reasons)


def assess(
    profile: TaskProfile, *, threshold: float, consequential: bool, boundaries: Iterable[str | None]
) -> tuple[Literal["single", "team", "needs-declaration"], tuple[str, ...]]:
    """Return what follows from a profile, and why.

    Args:
        profile: The profile.
        threshold: How sure it has to be to change anything.
        consequential: Whether an agent of the roster may call a tool that has consequences.
        boundaries: The permission boundary of each agent; None for none.
    """
    if profile.confidence < threshold:
        return "single", (f"the profile is too unsure: {profile.confidence:g} of {threshold:g}",)
    needs = []
    if consequential and profile.side_effect_intent != "none":
        needs.append("the goal may have side effects, and an agent has tools with consequences")
    if profile.permission_isolation != "none" and len({item for item in boundaries if item}) > 1:
        needs.append("parts of the goal may need separate rights, and the agents have different ones")
    if needs:
        return "needs-declaration", tuple(needs)
    found = [
        text
        for holds, text in (
            (profile.evidence_sources == "multiple", "several sources have to be gathered"),
            (profile.independent_review != "none", "an independent review is wanted"),
            (profile.conflicting_objectives, "there are conflicting aims"),
            (profile.parallelizable, "parts can be done at the same time"),
        )
        if holds
    ]
    return ("team", tuple(found)) if found else ("single", ("nothing in the profile asks for a team",))


def uses_consequential_tools(agents: Sequence[AgentConfig]) -> bool:
    """Say whether an agent may call a tool that is declared to have consequences.

    Args:
        agents: The roster. What is in their toolsets shows only when those are opened.
    """
    return any(agent.grants.is_consequential for agent in agents)


def permission_boundaries(agents: Sequence[AgentConfig]) -> tuple[str | None, ...]:
    """Return the permission boundary of each agent.

    Args:
        agents: The roster.
    """
    return tuple(agent.permission_boundary for agent in agents)


def _upgraded(decision: RoutingDecision, assessment: RoutingAssessment) -> RoutingDecision:
    if assessment.outcome != "team" or assessment.profile is None:
        return replace(decision, assessment=assessment)
    return replace(
        decision,
        mode="team",
        router_version=HYBRID_VERSION,
        confidence=assessment.profile.confidence,
        reasons=(*decision.reasons, *assessment.reasons),
        assessment=assessment,
    )


async def _profiled(
    context: RoutingContext,
    config: ExecutionRoutingConfig,
    deadline: RoutingDeadline,
    make_profiler: Callable[[], TaskProfiler] | None,
) -> RoutingAssessment:
    """Ask the profiler, which may be anybody's; return its profile, or that there is none."""
    try:
        profiler = _profiler(config, make_profiler)
    except Exception as error:  # noqa: BLE001 - isolation boundary: adapters are made by whoever gives them
        return await _unprofiled(config, ("profiler-unavailable", error), None, None)
    version = getattr(profiler, "version", None)
    version = version[:200] if isinstance(version, str) else None
    result: object = None
    try:
        result = await ask_in_time(profiler.profile, context, deadline, stage="profiler")
        answer = _checked(result)
        profile = as_profile(answer.profile)
    except RoutingTimeoutError as error:
        return await _unprofiled(config, ("profiler-timeout", error), version, None)
    except InvalidProfileError as error:
        return await _unprofiled(config, ("invalid-profile", error), version, result)
    except Exception as error:  # noqa: BLE001 - isolation boundary: the run can go on without this profiler
        return await _unprofiled(config, ("profiler-error", error), version, None)
    reasons = tuple(redact_sensitive_text(reason) for reason in profile.reasons)
    return RoutingAssessment(
        outcome="single",
        reasons=(),
        profile=profile.model_copy(update={"reasons": reasons}),
        profiler_version=version or "none",
        usage=answer.usage,
        model=answer.model,
        provider=answer.provider,
    )


def _profiler(config: ExecutionRoutingConfig, make_profiler: Callable[[], TaskProfiler] | None) -> TaskProfiler:
    if config.profiler is not None:
        return config.profiler
    made = None if make_profiler is None else check_profiler(make_profiler())
    if made is None:
        raise ConfigurationError("execution_routing: the hybrid strategy needs a profiler, or an adapter to make one")
    return made


def _checked(result: object) -> TaskProfilerResult:
    if not isinstance(result, TaskProfilerResult):
        raise InvalidProfileError(f"a profiler must return a TaskProfilerResult, got {type(result).__name__}")
    usage: object = result.usage
    if usage is not None and not (isinstance(usage, TokenUsage) and usage.is_sound):
        raise InvalidProfileError(f"usage must be a TokenUsage of whole numbers from 0, or None, got {shown(usage)}")
    return result


async def _unprofiled(
    config: ExecutionRoutingConfig, failure: tuple[ProfilerFallback, Exception], version: str | None, result: object
) -> RoutingAssessment:
    """Return that there is no profile, with what it cost all the same, or raise why."""
    # A profiler that was cancelled with its run may fail of that: then the run ends cancelled, not with this error.
    await checkpoint()
    code, error = failure
    if config.failure_policy == "fail":
        if isinstance(error, RoutingTimeoutError):
            raise error
        text = error_text(error)[:300]
        raise RoutingProfilerFailedError(f"the profiler failed ({code}): {text}", cause=error) from error
    usage: object = getattr(result, "usage", None)
    return RoutingAssessment(
        outcome="fallback",
        reasons=(f"decided without a profile: {code} ({type(error).__name__})",),
        requested_profiler_version=version,
        fallback_code=code,
        usage=usage if isinstance(usage, TokenUsage) and usage.is_sound else None,
        model=getattr(result, "model", None),
        provider=getattr(result, "provider", None),
    )

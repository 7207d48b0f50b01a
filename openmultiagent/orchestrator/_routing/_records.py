"""What routing speaks of: who and what there is to decide on, what a goal is like, and what was decided.

Not here: deciding. Invariant: a decision, with the assessment behind it, can be written as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ..._record import record
from ...cancellation import CancelToken
from ...usage import TokenUsage

__all__ = [
    "FailurePolicy",
    "ProfilerFallback",
    "RosterSummaryEntry",
    "RouteMode",
    "RouteSource",
    "RouterFallback",
    "RoutingAssessment",
    "RoutingBudget",
    "RoutingContext",
    "RoutingDecision",
    "TaskProfile",
]

RouteMode: TypeAlias = Literal["single", "team"]
"""Who works on a goal: one agent, or a coordinator and the team."""
RouteSource: TypeAlias = Literal["override", "declared", "policy", "router"]
"""Who decided: the caller's ``mode``, a declaration, an option that leaves no choice, or a router."""
RouterFallback: TypeAlias = Literal["invalid-router-version", "invalid-decision", "router-error", "router-timeout"]
"""Why a router's answer could not be used."""
FailurePolicy: TypeAlias = Literal["fallback", "fail"]
"""Whether a run goes on without a router or profiler that failed."""

ProfilerFallback: TypeAlias = Literal["profiler-timeout", "invalid-profile", "profiler-unavailable", "profiler-error"]
"""Why there is no profile."""


@record
class RosterSummaryEntry:
    """An agent as a router sees it."""

    name: str
    model: str | None = None
    """The model that it will use; None when its adapter chooses."""
    tool_count: int | None = None
    """How many tools it may call, toolsets as one; None when it declares none."""
    capabilities: tuple[str, ...] = ()
    cost_tier: str | None = None
    latency_class: str | None = None


@record
class RoutingBudget:
    """What is left for a run; None where nothing limits it."""

    token_remaining: int | None = None
    cost_remaining: float | None = None
    """In the unit of ``estimate_cost``."""


@record
class RoutingContext:
    """What a router or profiler gets."""

    goal: str
    """The text of the goal."""
    roster: tuple[RosterSummaryEntry, ...]
    budget: RoutingBudget | None = None
    """None when the run has no ceiling."""
    cancel: CancelToken | None = None
    """Cancelled when the run is, and when the time for routing is over."""


class TaskProfile(BaseModel):
    """What the work that a goal asks for is like."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    evidence_sources: Literal["single", "multiple", "unknown"]
    """Whether several independent sources have to be gathered."""
    independent_review: Literal["none", "preferred", "required"]
    """Whether somebody else has to check the outcome."""
    conflicting_objectives: bool
    """Whether aims pull in different directions."""
    side_effect_intent: Literal["none", "possible", "required"]
    """Whether something outside is to be changed."""
    permission_isolation: Literal["none", "preferred", "required"]
    """Whether parts have to be done with separate rights."""
    decomposable: bool
    """Whether it falls into parts; decides nothing."""
    parallelizable: bool
    """Whether parts can be done at the same time."""
    complexity: Literal["low", "medium", "high"]
    """How hard it is; decides nothing."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """How sure the profiler is."""
    reasons: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...],
        Field(min_length=1, max_length=5, strict=False),  # JSON has lists only
    ]
    """Why, in short texts."""

    @property
    def source(self) -> Literal["inferred"]:
        """How the facts came to be known: never from a declaration."""
        return "inferred"


@record(kw_only=True)
class RoutingAssessment:
    """What a profile came to."""

    outcome: Literal["single", "team", "needs-declaration", "fallback"]
    """``fallback``: there was no profile, and the decision stood."""
    reasons: tuple[str, ...]
    profile: TaskProfile | None = None
    profiler_version: str = "none"
    requested_profiler_version: str | None = None
    """Version of the profiler that failed."""
    fallback_code: ProfilerFallback | None = None
    usage: TokenUsage | None = None
    model: str | None = None
    provider: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the assessment as plain JSON data, without what is not set."""
        record: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        record["reasons"] = list(self.reasons)
        if self.profile is not None:
            record["profile"] = self.profile.model_dump(mode="json") | {"source": self.profile.source}
        if self.usage is not None:
            record["usage"] = self.usage.to_dict()
        return {key: value for key, value in record.items() if value is not None}


@record
class RoutingDecision:
    """Whether one agent or the team works on a goal, and why; a router gives the first four fields."""

    mode: RouteMode
    reasons: Sequence[str]
    """Texts for people."""
    router_version: str | None = None
    """Version of the router that decided; None where none was asked."""
    confidence: float | None = None
    """0 to 1, where the router has one."""
    status: Literal["selected", "fallback"] | None = None
    """Whether this is the router's own answer, or what came in its place."""
    requested_router_version: str | None = None
    """Version of the router whose answer could not be used."""
    fallback_code: RouterFallback | None = None
    source: RouteSource = "router"
    assessment: RoutingAssessment | None = None
    """What a profile of the goal came to, where one was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain JSON data, without what is not set."""
        record = {item.name: getattr(self, item.name) for item in fields(self)} | {"reasons": list(self.reasons)}
        if self.assessment is not None:
            record["assessment"] = self.assessment.to_dict()
        return {key: value for key, value in record.items() if value is not None}

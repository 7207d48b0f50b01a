"""Who works on a goal: a single agent, or a coordinator and the team.

Invariant: what a profile has used is charged to the run, whatever comes of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import anyio

from ..agent import AgentConfig, lease_adapter
from ..budget import CostEstimateContext
from ..errors import OpenMultiAgentError, RoutingDeclarationRequiredError
from ..tasks import task_input_text
from ._decide import Stop
from ._gates import cancelled_stop
from ._goal_setup import GoalSetup
from ._graph_run import Crew
from ._plan import COORDINATOR, coordinator_agent
from ._profiler_call import ROUTER, ProfilerAdapter
from ._routing import (
    LLMTaskProfiler,
    RoutingAssessment,
    RoutingBudget,
    RoutingContext,
    RoutingDecision,
    TaskProfiler,
    check_declared,
    decide_route,
    permission_boundaries,
    roster_summary,
    uses_consequential_tools,
)

__all__ = ["GoalRoute"]


@dataclass(slots=True)
class GoalRoute:
    """Finds out who works on a goal.

    Args:
        crew: Who works in the run.
        setup: What the call says.
    """

    crew: Crew
    setup: GoalSetup
    decision: RoutingDecision | None = None
    _is_charged: bool = field(default=False, init=False)
    """Whether the profiler's call is charged when it is made."""

    async def decide(self) -> Stop | OpenMultiAgentError | None:
        """Set the decision; return why the run ends here, if it does.

        Raises:
            Exception: Whatever the application's router, profiler or estimator raises.
        """
        setup, crew = self.setup, self.crew
        self.decision = setup.settled
        if setup.settled is not None:
            return None
        agents = list(crew.agents.values())
        left = crew.call.budget.remaining()
        has_ceiling = left.tokens is not None or left.cost is not None
        context = RoutingContext(
            goal=task_input_text(setup.goal),
            roster=roster_summary(agents),
            budget=RoutingBudget(left.tokens, left.cost) if has_ceiling else None,
            cancel=crew.cancel,
        )
        # Both scopes swallow their cancellation.
        scope = nullcontext() if crew.cancel is None else crew.cancel.scope()
        with scope, anyio.move_on_after(crew.call.budget.remaining().seconds):
            self.decision = await decide_route(
                context,
                router=setup.router,
                config=setup.routing,
                make_profiler=self._profiler,
                consequential=uses_consequential_tools(agents),
                boundaries=permission_boundaries(agents),
                around=self._traced_profile,
            )
            return await self._charged(self.decision)
        if crew.cancel is not None and crew.cancel.cancelled:
            return cancelled_stop(crew.cancel)
        error = crew.call.budget.out_of_time()
        crew.inner.tell_overrun(error, ROUTER)
        return error

    async def _traced_profile(self, profiled: Callable[[], Awaitable[RoutingAssessment]]) -> RoutingAssessment:
        tracing, threshold = self.crew.tracing, self.setup.routing.confidence_threshold
        with tracing.profile(self.crew.call.identity.run_id, threshold) as span:
            assessment = await profiled()
            tracing.end_profile(
                span,
                version=assessment.profiler_version,
                outcome=assessment.outcome,
                confidence=None if assessment.profile is None else assessment.profile.confidence,
                fault=assessment.fallback_code,
                usage=assessment.usage,
            )
            return assessment

    def _profiler(self) -> TaskProfiler:
        setup, routing, owner = self.setup, self.setup.routing, self.crew.inner.adapters
        if routing.adapter is not None:
            config = setup.complete(AgentConfig(COORDINATOR, adapter=routing.adapter))
            lease_adapter(config, owner)  # does a policy forbid it?
        else:
            config = coordinator_agent(setup.coordinator, "")
            config = setup.complete(config if routing.model is None else config.replace(model=routing.model))
        self._is_charged = True
        model = routing.model if routing.adapter is not None else config.model
        return LLMTaskProfiler(ProfilerAdapter(config, self.crew.inner, self.crew.call.budget), model=model)

    async def _charged(self, outcome: RoutingDecision) -> OpenMultiAgentError | None:
        """Charge what the decision used, and end the run if a budget has no room for it, or a declaration is needed."""
        assessment = outcome.assessment
        if assessment is None:
            return None
        budget = self.crew.call.budget
        if not self._is_charged and (assessment.profiler_version != "none" or assessment.usage is not None):
            context = CostEstimateContext(ROUTER, assessment.model or "", assessment.provider or "", "routing")
            try:
                unpriced = budget.child(ROUTER).begin(context).settle(assessment.usage)
                if unpriced is not None:
                    await unpriced
            except OpenMultiAgentError as error:  # no room for it, or no price
                return error
        overrun = budget.overrun()
        if overrun is not None:
            self.crew.inner.tell_overrun(overrun, ROUTER)
            return overrun
        try:
            check_declared(outcome)
        except RoutingDeclarationRequiredError as error:
            return error
        return None

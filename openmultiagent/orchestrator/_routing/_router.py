"""Routers: ours, and how one that is not ours is asked.

Not here: profilers, and what is settled before a router is asked. Invariants: a router never learns prompts, keys or
descriptions; whatever it does, there is an answer within the deadline, unless a router that is no coroutine function
blocks.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, get_args, runtime_checkable

import anyio
from anyio.lowlevel import checkpoint

from ..._detached import cancelled_from_outside
from ..._shown import shown
from ...agent import AgentConfig
from ...cancellation import CancelToken
from ...errors import ConfigurationError, RoutingTimeoutError
from ._records import (
    FailurePolicy,
    RosterSummaryEntry,
    RouteMode,
    RouterFallback,
    RoutingContext,
    RoutingDecision,
)
from ._signals import MAX_SIMPLE_UNITS, complexity_signal, information_units, is_simple_goal

__all__ = [
    "DeterministicRouter",
    "ExecutionRouter",
    "RoutingDeadline",
    "ask_in_time",
    "ask_router",
    "check_router",
    "roster_summary",
]

_EXPLAINED: Final = 4000
"""Characters of a long goal in which a better reason than its length is looked for."""
_MAX_VERSION: Final = 128
_MAX_REASONS: Final = 20
_MAX_REASON: Final = 500


@runtime_checkable
class ExecutionRouter(Protocol):
    """Decides whether one agent or the team works on a goal.

    ``version`` changes whenever decisions may; a decision that names another version is refused.
    """

    version: str

    def decide(self, context: RoutingContext) -> RoutingDecision | Awaitable[RoutingDecision]:
        """Return a decision, at once or when awaited.

        Args:
            context: The goal, the roster, and what is left of the budget.
        """
        ...


class DeterministicRouter:
    """Decides by the text of the goal: one agent for what reads like one step, else the team."""

    version = "deterministic-v1"

    def decide(self, context: RoutingContext) -> RoutingDecision:
        """Return the decision; no model is asked.

        Args:
            context: The goal and the roster.
        """
        if not context.roster:
            return RoutingDecision("team", ("there is no agent that could work alone",), self.version)
        if is_simple_goal(context.goal):
            return RoutingDecision("single", ("the goal is short and shows no sign of several steps",), self.version)
        units = information_units(context.goal)
        # A long goal is no simple one already, and to say more of it is not worth going through megabytes.
        looked_at = context.goal[:_EXPLAINED] if units > MAX_SIMPLE_UNITS else context.goal
        signal = complexity_signal(looked_at) or f"it is long ({units} units or more)"
        return RoutingDecision("team", (f"the goal is no simple one: {signal}",), self.version)


def roster_summary(
    agents: Sequence[AgentConfig], *, default_model: str | None = None
) -> tuple[RosterSummaryEntry, ...]:
    """Return what routers may know about agents.

    Args:
        agents: The roster.
        default_model: The model of agents that name none.
    """
    return tuple(
        RosterSummaryEntry(
            name=agent.name,
            model=agent.model or default_model,
            tool_count=len(agent.grants.tools) + len(agent.grants.toolsets)
            if agent.tools or agent.tool_preset
            else None,
            capabilities=tuple(agent.capabilities),
            cost_tier=agent.cost_tier,
            latency_class=agent.latency_class,
        )
        for agent in agents
    )


def check_router(router: object) -> ExecutionRouter | None:
    """Return what was given as ``execution_router=``.

    Args:
        router: The argument; None is fine.

    Raises:
        ConfigurationError: It has no ``decide``.
    """
    if router is None or (isinstance(router, ExecutionRouter) and callable(router.decide)):
        return router
    raise ConfigurationError(
        f"execution_router must have a version and decide(context) -> RoutingDecision, got {shown(router)}"
    )


class RoutingDeadline(NamedTuple):
    """When routing has to be done; the router and the profiler share it."""

    timeout: float | None = None
    """Seconds that it may take altogether; None is no limit."""
    at: float = math.inf
    """When that is over, in ``anyio.current_time()``."""

    @classmethod
    def after(cls, timeout: float | None) -> RoutingDeadline:
        """Return the deadline of a routing that begins now.

        Args:
            timeout: Seconds; None is no limit.
        """
        return cls() if timeout is None else cls(timeout, anyio.current_time() + timeout)


async def ask_router(
    router: ExecutionRouter, context: RoutingContext, *, deadline: RoutingDeadline, failure_policy: FailurePolicy
) -> RoutingDecision:
    """Return the decision of a router that may be anybody's, or what comes in its place.

    Args:
        router: The router.
        context: What it is told.
        deadline: When an awaited answer is given up.
        failure_policy: ``fallback`` decides by the text of the goal where the router fails; ``fail`` raises.

    Raises:
        RoutingTimeoutError: There was no answer in time, and the policy is ``fail``.
        ConfigurationError: The version or the decision is invalid, and the policy is ``fail``.
        Exception: What the router raised, when the policy is ``fail``.
    """
    version = getattr(router, "version", None)
    if not isinstance(version, str) or not version.strip() or len(version) > _MAX_VERSION:
        failure: tuple[RouterFallback, Exception] = ("invalid-router-version", _no_version(router, version))
        return await _without(None, context, failure, failure_policy)
    try:
        answer = await ask_in_time(router.decide, context, deadline, stage="router")
    except RoutingTimeoutError as error:
        return await _without(version, context, ("router-timeout", error), failure_policy)
    except Exception as error:  # noqa: BLE001 - isolation boundary: the run can go on without this router
        return await _without(version, context, ("router-error", error), failure_policy)
    fault = _decision_fault(answer, version, has_agents=bool(context.roster))
    if fault is not None:
        wrong = ConfigurationError(f"execution router {version!r} returned an invalid decision: {fault}")
        return await _without(version, context, ("invalid-decision", wrong), failure_policy)
    decision: RoutingDecision = answer
    return replace(
        decision,
        reasons=tuple(reason[:_MAX_REASON] for reason in decision.reasons[:_MAX_REASONS]),
        status="selected",
        requested_router_version=None,
        fallback_code=None,
        source="router",
        assessment=None,
    )


async def ask_in_time(function: Any, context: RoutingContext, deadline: RoutingDeadline, *, stage: str) -> Any:
    """Call a function that may be sync or async with a context whose token also fires at the deadline.

    Args:
        function: Called with the context.
        context: What it is told.
        deadline: When an awaited answer is given up.
        stage: What is asked, for the error.

    Raises:
        RoutingTimeoutError: There was no answer in time.
        Exception: What the function raised.
    """
    token = CancelToken()
    if context.cancel is not None and context.cancel.cancelled:
        token.cancel(context.cancel.reason)
    with anyio.CancelScope(deadline=deadline.at):
        answer = function(replace(context, cancel=token))
        if inspect.isawaitable(answer):
            answer = await _watched(answer, context.cancel, deadline, token)
        return answer
    # Only this deadline leads here: a cancellation from further out goes on through the block above.
    raise RoutingTimeoutError(timeout=deadline.timeout or 0.0, stage=stage)


async def _watched(
    answer: Awaitable[Any], cancel: CancelToken | None, deadline: RoutingDeadline, own: CancelToken
) -> Any:
    """Await an answer, and tell who only looks at the token, such as a thread, when nobody waits for it any more."""
    outcome: list[Any] = []
    raised: list[Exception] = []

    async def forward() -> None:
        try:
            await (anyio.sleep_forever() if cancel is None else cancel.wait())
        finally:  # at the latest with the deadline's scope around the group
            over = anyio.current_time() >= deadline.at
            own.cancel("the time for routing is over" if over else None if cancel is None else cancel.reason)

    # What is raised goes past the group as it is: out of it, it would come as a group of errors.
    async with anyio.create_task_group() as group:
        group.start_soon(forward)
        try:
            outcome.append(await answer)
        except Exception as error:  # noqa: BLE001 - isolation boundary: told to the caller below
            raised.append(error)
        except anyio.get_cancelled_exc_class():
            if cancelled_from_outside():
                raise
            raised.append(RuntimeError("it was cancelled, though nobody had cancelled it"))
        group.cancel_scope.cancel()
    if raised:
        raise raised[0]
    return outcome[0]


async def _without(
    version: str | None,
    context: RoutingContext,
    failure: tuple[RouterFallback, Exception],
    policy: FailurePolicy,
) -> RoutingDecision:
    """Return the decision in place of the router's, or raise its error."""
    # A router that was cancelled with its run may fail of that: then the run ends cancelled, not with this error.
    await checkpoint()
    code, error = failure
    if policy == "fail":
        raise error
    what = f"{type(error).__name__} in the router" if code == "router-error" else code.replace("-", " ")
    decided = DeterministicRouter().decide(context)
    return replace(
        decided,
        reasons=(*decided.reasons, f"decided without the router: {what}"),
        status="fallback",
        requested_router_version=version,
        fallback_code=code,
    )


def _no_version(router: ExecutionRouter, version: object) -> ConfigurationError:
    who = f"execution router {type(router).__name__}"
    return ConfigurationError(f"{who} must have a version of 1 to {_MAX_VERSION} characters, got {shown(version)}")


def _decision_fault(answer: object, version: str, *, has_agents: bool) -> str | None:
    if not isinstance(answer, RoutingDecision):
        return f"must be a RoutingDecision, got {type(answer).__name__}"
    # Its fields are typed only as it says.
    mode: object = answer.mode
    reasons: object = answer.reasons
    if mode not in get_args(RouteMode):
        fault = f"mode must be 'single' or 'team', got {shown(mode)}"
    elif mode == "single" and not has_agents:
        fault = "mode 'single' needs an agent, and the roster is empty"
    elif answer.router_version != version:
        fault = f"router_version must be {version!r}, got {shown(answer.router_version)}"
    elif not isinstance(reasons, tuple | list) or not all(isinstance(reason, str) for reason in reasons):
        fault = f"reasons must be a list of texts, got {shown(reasons)}"
    elif not _is_confidence(answer.confidence):
        fault = f"confidence must be a number from 0 to 1 or None, got {shown(answer.confidence)}"
    else:
        return None
    return fault


def _is_confidence(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and 0 <= value <= 1)  # type: ignore[operator]  # a number here

"""What an orchestrator's runs of teams go by: as the application says it, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from .._record import record
from .._shown import shown
from ..agent import AgentConfig
from ..budget import BudgetMode, CostEstimator, Limits
from ..egress import EgressPolicy
from ..errors import ConfigurationError
from ..tasks import SchedulingStrategy, SchedulingWeights, Task
from ._gates import Gates
from ._routing import ExecutionRouter, ExecutionRoutingConfig, as_routing_config, check_router

__all__ = ["Completed", "TeamDefaults", "TeamSettings", "check_flag", "check_names", "team_defaults"]


_DEFAULTS = {name: f"did you mean 'default_{name}'?" for name in ("adapter", "model", "provider", "tool_preset")}
"""What is said of a field of agents that is given to the orchestrator."""


class TeamSettings(TypedDict, total=False):
    """The arguments of ``OpenMultiAgent`` that are about teams."""

    max_concurrency: int
    """The most agents that work at the same time in a run, 1 or more; 5 unless given. A team may have fewer."""
    scheduling_strategy: SchedulingStrategy
    """How tasks without an assignee get one, and which of several goes first; ``dependency-first`` unless given."""
    scheduling_weights: SchedulingWeights | Mapping[str, Any] | None
    """What counts how much for the strategy ``composite``."""
    strict_assignees: bool
    """Whether an assignee that is no agent of the team is an error; it is unless given. Else another one is chosen."""
    max_delegation_depth: int
    """How often work may be delegated in a row; 3 unless given."""
    execution_router: ExecutionRouter | None
    """Decides whether one agent or the team works on a goal; the goal's text does unless given."""
    execution_routing: ExecutionRoutingConfig | Mapping[str, Any] | None
    """How that is decided."""
    on_plan_ready: Callable[[Sequence[Task]], object] | None
    """Asked once about a coordinator's plan, ``(tasks) -> bool``, before anything of it is run; plain or async."""
    on_task_dispatch: Callable[[Task], object] | None
    """Asked before each task of a run, ``(task) -> bool``; plain or async."""
    on_approval: Callable[[Sequence[Task], Sequence[Task]], object] | None
    """Asked between rounds, ``(completed, next) -> bool``, plain or async; runs then have rounds."""


class Completed(Protocol):
    """Gives an agent the orchestrator's defaults."""

    def __call__(self, agent: AgentConfig, policy: EgressPolicy | None) -> AgentConfig:
        """Return the agent as it will run.

        Args:
            agent: The agent, as it was written down.
            policy: Narrows the addresses that its provider may be reached at.
        """
        ...


@record(kw_only=True)
class TeamDefaults:
    """What the runs of an orchestrator's teams go by."""

    limits: Limits | None
    estimate_cost: CostEstimator | None
    budget_mode: BudgetMode
    max_concurrency: int
    strategy: SchedulingStrategy
    weights: SchedulingWeights | Mapping[str, Any] | None
    strict_assignees: bool
    max_delegation_depth: int
    gates: Gates
    router: ExecutionRouter | None
    routing: ExecutionRoutingConfig
    complete: Completed
    """Gives an agent the orchestrator's defaults, and narrows its egress policy."""


def team_defaults(
    given: TeamSettings,
    limits: Limits | None,
    estimate_cost: CostEstimator | None,
    budget_mode: BudgetMode,
    complete: Completed,
) -> TeamDefaults:
    """Return the settings of teams, checked.

    Args:
        given: What the application says.
        limits: The orchestrator's limits.
        estimate_cost: Prices a model call.
        budget_mode: Whether what a call may use is held for it.
        complete: Gives an agent the orchestrator's defaults.

    Raises:
        ConfigurationError: A name is unknown, or a value makes no sense.
    """
    check_names(given, TeamSettings.__annotations__, "OpenMultiAgent has no argument", elsewhere=_DEFAULTS)
    return TeamDefaults(
        limits=limits,
        estimate_cost=estimate_cost,
        budget_mode=budget_mode,
        max_concurrency=_count("max_concurrency", given.get("max_concurrency", 5), least=1),
        strategy=given.get("scheduling_strategy", "dependency-first"),
        weights=given.get("scheduling_weights"),
        strict_assignees=check_flag("strict_assignees", given.get("strict_assignees", True)),
        max_delegation_depth=_count("max_delegation_depth", given.get("max_delegation_depth", 3), least=0),
        gates=Gates(
            on_plan_ready=given.get("on_plan_ready"),
            on_task_dispatch=given.get("on_task_dispatch"),
            on_approval=given.get("on_approval"),
        ),
        router=check_router(given.get("execution_router")),
        routing=as_routing_config(given.get("execution_routing")),
        complete=complete,
    )


def check_names(
    given: Mapping[str, Any], known: Mapping[str, Any], what: str, *, elsewhere: Mapping[str, str] | None = None
) -> None:
    """Refuse a keyword that there is not, naming the one that was meant.

    Args:
        given: The keywords.
        known: Those that there are.
        what: How the error begins.
        elsewhere: Who takes keywords that are not for here.

    Raises:
        ConfigurationError: There is one.
    """
    for name in given:
        if name not in known:
            import difflib  # noqa: PLC0415 - import time

            if elsewhere is not None and name in elsewhere:
                raise ConfigurationError(f"{what} {name!r}; {elsewhere[name]}")
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ConfigurationError(f"{what} {shown(name)}; {advice}")


def _count(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{name} must be an integer of {least} or more, got {shown(value)}")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return a value that has to be True or False.

    Args:
        name: What it was given as.
        value: The value.

    Raises:
        ConfigurationError: It is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, got {shown(value)}")
    return value

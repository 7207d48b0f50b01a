"""Runs of teams and of task graphs: what is checked at the call, and what happens then.

Invariant: whatever is wrong with a call that can be seen without running is raised while it is prepared, before any
event, span, evaluation or request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from .._middleware import compose_run, isolate_results
from .._record import record
from .._shown import shown
from ..agent import AgentConfig, EventSink, RunCall, lease_adapter
from ..budget import BudgetScope, Limits
from ..cancellation import CancelToken
from ..egress import EgressPolicy
from ..errors import ConfigurationError, InvalidTaskRequirementsError, PolicyError
from ..events import EventBus
from ..identity import MetadataValue, RunIdentity, validate_metadata, validate_run_id
from ..messages import PreparedRunInput, prepare_run_input
from ..tasks import (
    GivenTaskInput,
    ModelRoutingPolicy,
    PlanArtifact,
    RoutablePhase,
    RunWarning,
    Scheduler,
    Task,
    TaskInput,
    TaskSpec,
    TeamRunResult,
    plan_graph,
    read_task_input,
    route_for,
    task_input_text,
    validate_task_requirements,
    with_route,
)
from ..team import Team, TeamConfig
from ..tools import Confirmation
from ._dispatch import dispatch
from ._execute import Machinery, enclose
from ._goal_run import GoalRun
from ._goal_setup import GoalSetup
from ._graph_run import Crew, GraphRun
from ._inner import InnerRuns
from ._plan import COORDINATOR, CoordinatorConfig, as_coordinator_config, coordinator_agent, team_context
from ._routing import (
    ExecutionRouter,
    ExecutionRoutingConfig,
    RouteMode,
    as_routing_config,
    check_router,
    settled_route,
    uses_consequential_tools,
)
from ._slots import Slots
from ._stopping import MiddlewareStop
from ._task_models import TaskModels
from ._team_result import team_result
from ._team_settings import TeamDefaults
from ._team_steps import TeamNext, TeamSteps, copy_team_middleware_result, stopped_team

__all__ = ["GivenTeam", "GoalOptions", "PreparedTeamRun", "RunOptions", "TeamRuns"]

_PLANS: Sequence[RoutablePhase] = ("coordinator",)
_PLANS_AND_ANSWERS: Sequence[RoutablePhase] = ("coordinator", "synthesis")
"""What a coordinator is asked for."""

GivenTeam = Team | TeamConfig | Mapping[str, Any]
"""A team, or what one is made of."""


@record(kw_only=True)
class RunOptions:
    """What a call says about one run, checked."""

    run_id: str | None
    metadata: Mapping[str, MetadataValue] | None
    limits: Limits | None
    """The narrower of the orchestrator's and the call's."""
    egress_policy: EgressPolicy | None
    cancel: CancelToken | None
    model_routing: ModelRoutingPolicy | None


@record(kw_only=True)
class GoalOptions:
    """What a call says about a run for a goal, besides ``RunOptions``."""

    mode: RouteMode | None = None
    plan_only: bool = False
    reveal_coordinator: bool = False
    coordinator: CoordinatorConfig | Mapping[str, Any] | None = None
    router: ExecutionRouter | None = None
    routing: ExecutionRoutingConfig | Mapping[str, Any] | None = None


@record(kw_only=True)
class PreparedTeamRun:
    """A run that was checked, and only has to be begun."""

    machinery: Machinery
    call: RunCall
    core: Callable[[RunCall, EventBus, EventSink | None], Coroutine[Any, Any, TeamRunResult]]
    cancel: CancelToken | None
    """Stops the run."""

    async def execute(self, bus: EventBus, sink: EventSink | None = None) -> TeamRunResult:
        """Do the run, with everything around it.

        Args:
            bus: The run's progress events.
            sink: Where the events of its agents' streams go, if there is a stream.
        """
        machinery, call, cancel = self.machinery, self.call, self.cancel

        async def core(this: RunCall) -> TeamRunResult:
            return await self.core(this, bus, sink)

        steps = TeamSteps(has_middleware=bool(machinery.middleware))
        operation: TeamNext = partial(core, call)
        around: tuple[Any, ...] = (steps.budget, steps.guard)
        if machinery.middleware:
            stop = None if cancel is None else MiddlewareStop(cancel, core, partial(stopped_team, cancel))
            user = [isolate_results(cast(Any, step), copy_team_middleware_result) for step in machinery.middleware]
            operation = partial(compose_run(user, core if stop is None else stop.core), call)
            if stop is not None:
                around = (steps.budget, stop.around, steps.guard)
        for step in reversed(around):
            operation = partial(step, call, operation)
        return await enclose(machinery, call, bus, operation, machinery.tracing.steps())


class TeamRuns:
    """Prepares the runs of teams.

    Args:
        machinery: What the orchestrator has.
        defaults: What its runs go by.
    """

    def __init__(self, machinery: Machinery, defaults: TeamDefaults) -> None:
        self._machinery = machinery
        self._defaults = defaults
        Scheduler(defaults.strategy, weights=defaults.weights)  # do they make sense?

    def tasks(
        self, team: GivenTeam, tasks: Sequence[TaskSpec | Mapping[str, Any]], options: RunOptions
    ) -> PreparedTeamRun:
        """Prepare the run of a graph of tasks.

        Args:
            team: Who does them.
            tasks: The tasks.
            options: What the call says.

        Raises:
            ConfigurationError: Something is wrong with a task, the team or the options.
            InvalidMessageError: A task's description is no such input.
            InvalidTaskDependenciesError: The tasks are no graph; lists all faults.
            InvalidTaskRequirementsError: Nobody can do a task; lists all of them.
        """
        if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Sequence):
            raise ConfigurationError(f"tasks must be a list of TaskSpec objects or mappings, got {shown(tasks)}")
        specs = [TaskSpec.of(task, where=f"tasks[{index}]") for index, task in enumerate(tasks)]
        self._check_costs(specs)
        return self._graph(as_team(team), plan_graph(specs), options, kind="tasks", goal=None)

    def plan(self, team: GivenTeam, plan: PlanArtifact | Mapping[str, Any], options: RunOptions) -> PreparedTeamRun:
        """Prepare the run of a stored plan.

        Args:
            team: Who does it.
            plan: The plan, or the plain data that it was written as.
            options: What the call says.

        Raises:
            ConfigurationError: It is no plan, or something is wrong with the team or the options.
            InvalidMessageError: A description in it is no such input.
            InvalidTaskDependenciesError: Its tasks are no graph; lists all faults.
            InvalidTaskRequirementsError: Nobody can do a task; lists all of them.
        """
        if isinstance(cast(object, plan), str):
            raise ConfigurationError(
                "a plan must be a PlanArtifact or its plain data, got str; PlanArtifact.from_json reads it"
            )
        artifact = plan if isinstance(plan, PlanArtifact) else PlanArtifact.from_dict(plan)
        self._check_costs(artifact.tasks)
        return self._graph(as_team(team), artifact.to_tasks(), options, kind="plan", goal=artifact.goal)

    def goal(self, team: GivenTeam, goal: GivenTaskInput, options: RunOptions, wish: GoalOptions) -> PreparedTeamRun:
        """Prepare the run of a team for a goal.

        Args:
            team: Who works on it.
            goal: What is to be reached.
            options: What the call says of every run.
            wish: What it says of a run for a goal.

        Raises:
            ConfigurationError: Something is wrong with the team, the goal or the options.
            InvalidMessageError: The goal has a message or a block that is not valid.
        """
        given = as_team(team)
        agents = self.agents(given, options)
        wanted = read_task_input(goal, "goal")
        coordinator = as_coordinator_config(wish.coordinator)
        planner = self._defaults.complete(coordinator_agent(coordinator, ""), options.egress_policy)
        setup = self._setup(wanted, options, wish, coordinator, planner, has_agents=bool(agents))
        is_granted = uses_consequential_tools([*agents.values(), planner])
        source = PreparedRunInput.of(wanted if isinstance(wanted, str) else wanted.messages())
        call = self.call(given, source, options, kind="team")
        preamble = {}
        if wish.reveal_coordinator:
            roster = list(agents.values())
            preamble = {agent.name: team_context(roster, agent, task_input_text(wanted)) for agent in roster}

        async def core(this: RunCall, bus: EventBus, sink: EventSink | None) -> TeamRunResult:
            confirmation = Confirmation(is_required=self._machinery.confirms, is_granted=is_granted)
            crew = self.crew(this, given, agents, options, bus, sink, confirmation, preamble=preamble)
            return _settled(await GoalRun(crew, setup).execute(), confirmation)

        return PreparedTeamRun(machinery=self._machinery, call=call, core=core, cancel=options.cancel)

    def _setup(
        self,
        goal: str | TaskInput,
        options: RunOptions,
        wish: GoalOptions,
        coordinator: CoordinatorConfig,
        planner: AgentConfig,
        *,
        has_agents: bool,
    ) -> GoalSetup:
        defaults, gates = self._defaults, self._defaults.gates
        settled = settled_route(
            wish.mode,
            has_agents=has_agents,
            plan_only=wish.plan_only,
            has_gates=any((gates.on_plan_ready, gates.on_task_dispatch, gates.on_approval)),
        )
        missing = self._missing_model(planner, options, phases=_PLANS if wish.plan_only else _PLANS_AND_ANSWERS)
        is_asked = wish.coordinator is not None or (settled is not None and settled.mode == "team")
        if missing is not None and is_asked:
            raise missing
        return GoalSetup(
            goal=goal,
            settled=settled,
            plan_only=wish.plan_only,
            coordinator=coordinator,
            missing_model=missing,
            router=check_router(wish.router) or defaults.router,
            routing=defaults.routing if wish.routing is None else as_routing_config(wish.routing),
            strict_assignees=defaults.strict_assignees,
            complete=partial(defaults.complete, policy=options.egress_policy),
            check=partial(self.checked, routing=options.model_routing),
        )

    def _missing_model(
        self, planner: AgentConfig, options: RunOptions, *, phases: Sequence[RoutablePhase]
    ) -> ConfigurationError | None:
        """Return what is wrong with the coordinator's model, which matters only to goals that it plans."""
        for phase in phases:
            route = route_for(options.model_routing, phase=phase, agent=COORDINATOR)
            config = planner if route is None else with_route(planner, route)
            if config.adapter is not None:
                continue
            try:
                with suppress(PolicyError):  # what a policy forbids is the result of a run
                    lease_adapter(config, self._machinery.adapters)
            except ConfigurationError as error:
                return ConfigurationError(
                    f"{error}; it makes the plan, and uses the model of no agent: pass"
                    " coordinator=CoordinatorConfig(...), or give OpenMultiAgent a default_adapter, default_provider"
                    " or default_model"
                )
        return None

    def _graph(self, team: Team, tasks: list[Task], options: RunOptions, *, kind: Any, goal: Any) -> PreparedTeamRun:
        agents = self.agents(team, options)
        tasks, warnings = self.checked(tasks, agents, options.model_routing)
        source = prepare_run_input("\n\n".join(f"# {task.title}\n{task.text}" for task in tasks))
        call = self.call(team, source, options, kind=kind)

        async def core(this: RunCall, bus: EventBus, sink: EventSink | None) -> TeamRunResult:
            run = GraphRun(self.crew(this, team, agents, options, bus, sink), tasks)
            for warning in warnings:
                run.emit(RunWarning, warning, task=warning["task_id"], copy=dict)
            await dispatch(run)
            return team_result(run, goal=goal)

        return PreparedTeamRun(machinery=self._machinery, call=call, core=core, cancel=options.cancel)

    # --- pieces ------------------------------------------------------------------------------------------------------

    def call(self, team: Team, source: PreparedRunInput, options: RunOptions, *, kind: Any) -> RunCall:
        """Return the call of a run.

        Args:
            team: The team.
            source: What the run is given.
            options: What the call says.
            kind: The entry point.
        """
        defaults = self._defaults
        return RunCall(
            kind=kind,
            name=team.name,
            identity=RunIdentity(validate_run_id(options.run_id)),
            budget=BudgetScope(
                team.name, options.limits, None, defaults.estimate_cost, defaults.budget_mode, whose="Team"
            ),
            source=source,
            metadata=validate_metadata(options.metadata),
        )

    def agents(self, team: Team, options: RunOptions) -> dict[str, AgentConfig]:
        """Return the agents of a team with the orchestrator's defaults.

        Args:
            team: The team.
            options: What the call says.

        Raises:
            ConfigurationError: One has no model, or its provider is unknown.
        """
        agents = {agent.name: self._defaults.complete(agent, options.egress_policy) for agent in team.agents}
        for agent in agents.values():
            self._check_adapter(agent)
        return agents

    def checked(
        self, tasks: list[Task], agents: Mapping[str, AgentConfig], routing: ModelRoutingPolicy | None = None
    ) -> tuple[list[Task], list[dict[str, Any]]]:
        """Return the tasks that the agents can do, and what to warn of.

        Args:
            tasks: The tasks.
            agents: The team.
            routing: Which model does what.

        Raises:
            InvalidTaskRequirementsError: Nobody can do a task, or it is assigned to nobody's name; lists all of them.
        """
        strict = self._defaults.strict_assignees
        issues = validate_task_requirements(
            tasks, list(agents.values()), strict_assignees=strict, provider_of=TaskModels(routing, tasks).provider
        )
        if issues:
            raise InvalidTaskRequirementsError([issue.to_dict() for issue in issues])
        if strict:
            return tasks, []
        kept: list[Task] = []
        warnings = []
        for task in tasks:
            if task.assignee is None or task.assignee in agents:
                kept.append(task)
                continue
            kept.append(task.replace(assignee=None))
            warnings.append(
                {
                    "code": "INVALID_ASSIGNEE",
                    "task_id": task.id,
                    "task_title": task.title,
                    "assignee": task.assignee,
                    "fallback": "clear-and-schedule",
                }
            )
        return kept, warnings

    def crew(
        self,
        call: RunCall,
        team: Team,
        agents: Mapping[str, AgentConfig],
        options: RunOptions,
        bus: EventBus,
        sink: EventSink | None,
        confirmation: Confirmation | None = None,
        **extra: Any,
    ) -> Crew:
        """Return who works in a run, and by which rules.

        Args:
            call: The run.
            team: The team.
            agents: Its agents with the orchestrator's defaults.
            options: What the call says.
            bus: The run's progress events.
            sink: Where the events of its stream go, if there is one.
            confirmation: What the run knows of calls that have consequences; None where that plays no part.
            extra: Further fields.
        """
        defaults = self._defaults
        models = TaskModels(options.model_routing)
        limit = defaults.max_concurrency
        if team.config.max_concurrency is not None:
            limit = min(limit, team.config.max_concurrency)
        return Crew(
            call=call,
            bus=bus,
            cancel=options.cancel,
            inner=InnerRuns(self._machinery, call, bus, cancel=options.cancel, sink=sink, confirmation=confirmation),
            agents=agents,
            team=team.begin_run(),
            scheduler=Scheduler(defaults.strategy, weights=defaults.weights, provider_of=models.provider),
            models=models,
            slots=Slots(limit),
            gates=defaults.gates,
            tracing=self._machinery.tracing,
            routing=options.model_routing,
            max_delegation_depth=defaults.max_delegation_depth,
            **extra,
        )

    def _check_adapter(self, agent: AgentConfig) -> None:
        if agent.adapter is None:
            with suppress(PolicyError):  # what a policy forbids is the result of a run
                lease_adapter(agent, self._machinery.adapters)

    def _check_costs(self, specs: Sequence[TaskSpec]) -> None:
        if self._defaults.estimate_cost is not None:
            return
        for index, each in enumerate(specs):
            if each.max_cost_budget is not None:
                raise ConfigurationError(
                    f"tasks[{index}] has a cost budget but nothing prices a call:"
                    " pass estimate_cost=(usage, context) -> float to OpenMultiAgent"
                )


def _settled(result: TeamRunResult, confirmation: Confirmation) -> TeamRunResult:
    """Return the result of a run with what is to be told of tools that have consequences."""
    if confirmation.flags:
        result = result.replace(flags=(*confirmation.flags, *result.flags))
    if result.success and confirmation.status.code != "ok":
        result = result.replace(success=False, status=confirmation.status)
    return result


def as_team(team: GivenTeam) -> Team:
    """Return a team.

    Args:
        team: A team, or what one is made of.

    Raises:
        ConfigurationError: It is neither.
    """
    if not isinstance(team, Team | TeamConfig | Mapping):
        raise ConfigurationError(
            f"team must be a Team, a TeamConfig or a mapping with its fields, got {type(team).__name__}"
        )
    return team if isinstance(team, Team) else Team(team)

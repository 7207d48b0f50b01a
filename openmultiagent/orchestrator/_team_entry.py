"""The entry points for teams, task graphs and plans: they check what they are given, and hand it to the machinery."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

from typing_extensions import Unpack

from .._shown import shown
from .._spec import as_spec
from ..budget import Limits, merge_limits
from ..cancellation import CancelToken, check_cancel
from ..egress import EgressPolicy, normalize_egress_policy
from ..errors import ConfigurationError
from ..identity import MetadataValue
from ..tasks import GivenTaskInput, ModelRoutingPolicy, PlanArtifact, TaskSpec, TeamRunResult
from ..team import Team, TeamConfig
from ._execute import Machinery
from ._lifetime import Lifetime
from ._plan import CoordinatorConfig
from ._routing import ExecutionRouter, ExecutionRoutingConfig
from ._team_runs import GivenTeam, GoalOptions, PreparedTeamRun, RunOptions, TeamRuns
from ._team_settings import TeamSettings, check_names
from ._team_stream import TeamStream

__all__ = ["TasksOptions", "TeamEntry", "TeamOptions"]

_OWN = {
    "mode": "mode",
    "plan_only": "plan_only",
    "reveal_coordinator": "reveal_coordinator",
    "coordinator": "coordinator",
    "execution_router": "router",
    "execution_routing": "routing",
}
"""The options of runs for a goal, and what they are called inside."""


_ELSEWHERE = {
    **dict.fromkeys(_OWN, "run_team and stream_team take it"),
    **dict.fromkeys(TeamSettings.__annotations__, "OpenMultiAgent takes it"),
    **dict.fromkeys(
        _OWN.keys() & TeamSettings.__annotations__.keys(), "OpenMultiAgent, run_team and stream_team take it"
    ),
}
"""Options of other calls, and who takes them."""


class TasksOptions(TypedDict, total=False):
    """What a call may say about a run of tasks."""

    run_id: str | None
    """1 to 128 characters; random unless given."""
    metadata: Mapping[str, MetadataValue] | None
    """Up to 32 flat entries, echoed on the result and put on the run's span."""
    max_token_budget: int | None
    """Narrows the run's token budget, which all its agents share."""
    max_cost_budget: float | None
    """Narrows the run's cost budget."""
    limits: Limits | Mapping[str, Any] | None
    """Narrows the run's limits."""
    egress_policy: EgressPolicy | Mapping[str, Any] | None
    """Narrows the addresses that providers may be reached at."""
    cancel: CancelToken | None
    """Stops the run, which then returns a result with status ``cancelled``."""
    model_routing: ModelRoutingPolicy | Mapping[str, Any] | None
    """Which model does which part of the run; the agents' own unless given."""


class TeamOptions(TasksOptions, total=False):
    """What a call may say about a run of a team for a goal."""

    mode: Literal["single", "team"] | None
    """Who works on it: one agent, or a coordinator and the team; decided by the goal unless given."""
    plan_only: bool
    """Whether the coordinator's plan is all that is wanted: nothing of it is run."""
    reveal_coordinator: bool
    """Whether the agents are told of the goal and of each other."""
    coordinator: CoordinatorConfig | Mapping[str, Any] | None
    """Who makes the plan and writes the answer; an agent with the orchestrator's defaults unless given."""
    execution_router: ExecutionRouter | None
    """Decides who works, in place of the orchestrator's."""
    execution_routing: ExecutionRoutingConfig | Mapping[str, Any] | None
    """How that is decided, in place of the orchestrator's."""


class TeamEntry:
    """The part of an orchestrator that runs teams."""

    _machinery: Machinery
    _lifetime: Lifetime
    _limits: Limits | None
    _teams: dict[str, Team]
    _team_runs: TeamRuns

    def create_team(self, name: str, config: TeamConfig | Mapping[str, Any]) -> Team:
        """Make a team, and keep it under a name.

        Args:
            name: The name that it is kept under, each only once; the team's own is in its config.
            config: What it is made of.

        Raises:
            ConfigurationError: The name is taken, or the config is wrong.
        """
        if not isinstance(name, str):
            raise ConfigurationError(f"the name that a team is kept under must be a string, got {shown(name)}")
        if name in self._teams:
            raise ConfigurationError(f"team {shown(name, 150)} already exists; choose another name")
        team = self._teams[name] = Team(config)
        return team

    def run_tasks(
        self,
        team: GivenTeam,
        tasks: Sequence[TaskSpec | Mapping[str, Any]],
        **options: Unpack[TasksOptions],
    ) -> Coroutine[Any, Any, TeamRunResult]:
        """Return a coroutine that has a team do a graph of tasks, each as soon as what it depends on is completed.

        Args:
            team: The team, or what one is made of.
            tasks: The tasks: ``TaskSpec`` objects, or mappings with their fields.
            options: What else there is to say about the run, see ``TasksOptions``.

        Raises:
            InvalidTaskDependenciesError: The tasks are no graph: unknown or ambiguous references, circles; lists all.
            InvalidTaskRequirementsError: A task is assigned to nobody, or nobody meets its requirements; lists all.
            InvalidMessageError: A description is no such input.
            EgressPolicyError: The egress policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running. All are raised by the call itself.
        """
        return self._begin(self._team_runs.tasks(team, tasks, self._options(options)))

    def stream_tasks(
        self,
        team: GivenTeam,
        tasks: Sequence[TaskSpec | Mapping[str, Any]],
        **options: Unpack[TasksOptions],
    ) -> TeamStream:
        """Return the stream of a run: the same run as ``run_tasks``, with its events while they happen.

        Args:
            team: As for ``run_tasks``.
            tasks: As for ``run_tasks``.
            options: As for ``run_tasks``.

        Raises:
            ConfigurationError: As for ``run_tasks``, and all others of its errors.
        """
        return TeamStream(self._team_runs.tasks(team, tasks, self._options(options)), self._machinery.progress)

    def run_tasks_sync(
        self,
        team: GivenTeam,
        tasks: Sequence[TaskSpec | Mapping[str, Any]],
        **options: Unpack[TasksOptions],
    ) -> TeamRunResult:
        """Have a team do a graph of tasks and wait for it: ``run_tasks`` for scripts, as ``run_agent_sync``.

        Args:
            team: As for ``run_tasks``.
            tasks: As for ``run_tasks``.
            options: As for ``run_tasks``.

        Raises:
            ConfigurationError: As for ``run_tasks``, and all others of its errors.
        """
        return self._lifetime.run_sync(
            lambda: self.run_tasks(team, tasks, **options), instead="await oma.run_tasks(...)"
        )

    def run_team(
        self, team: GivenTeam, goal: GivenTaskInput, **options: Unpack[TeamOptions]
    ) -> Coroutine[Any, Any, TeamRunResult]:
        """Return a coroutine that has a team reach a goal.

        A simple goal goes to the agent that suits it best. For any other a coordinator makes a plan, which is checked
        as a whole before anything of it is run; the team does its tasks, and the coordinator answers the goal from what
        they came to.

        Args:
            team: The team, or what one is made of.
            goal: A string; or messages, or content blocks, whose media reach the agents that work on it.
            options: What else there is to say about the run, see ``TeamOptions``.

        Raises:
            InvalidMessageError: The goal is no such input.
            EgressPolicyError: The egress policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running. All are raised by the call itself.
        """
        common, wish = _split(options)
        return self._begin(self._team_runs.goal(team, goal, self._options(common), wish))

    def stream_team(self, team: GivenTeam, goal: GivenTaskInput, **options: Unpack[TeamOptions]) -> TeamStream:
        """Return the stream of a run: the same run as ``run_team``, with its events while they happen.

        Args:
            team: As for ``run_team``.
            goal: As for ``run_team``.
            options: As for ``run_team``.

        Raises:
            InvalidMessageError: The goal is no such input.
            EgressPolicyError: The egress policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running. All are raised by the call itself.
        """
        common, wish = _split(options)
        prepared = self._team_runs.goal(team, goal, self._options(common), wish)
        return TeamStream(prepared, self._machinery.progress)

    def run_team_sync(self, team: GivenTeam, goal: GivenTaskInput, **options: Unpack[TeamOptions]) -> TeamRunResult:
        """Have a team reach a goal and wait for it: ``run_team`` for scripts, as ``run_agent_sync``.

        Args:
            team: As for ``run_team``.
            goal: As for ``run_team``.
            options: As for ``run_team``.

        Raises:
            InvalidMessageError: The goal is no such input.
            EgressPolicyError: The egress policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running.
        """
        return self._lifetime.run_sync(lambda: self.run_team(team, goal, **options), instead="await oma.run_team(...)")

    def run_from_plan(
        self, team: GivenTeam, plan: PlanArtifact | Mapping[str, Any], **options: Unpack[TasksOptions]
    ) -> Coroutine[Any, Any, TeamRunResult]:
        """Return a coroutine that has a team do a stored plan; no coordinator is asked.

        Args:
            team: The team, or what one is made of.
            plan: The plan of an earlier run, perhaps edited since; or the plain data that it was written as.
            options: As for ``run_tasks``.

        Raises:
            ConfigurationError: It is no plan; and all errors of ``run_tasks``.
        """
        return self._begin(self._team_runs.plan(team, plan, self._options(options)))

    def _begin(self, prepared: PreparedTeamRun) -> Coroutine[Any, Any, TeamRunResult]:
        return prepared.execute(self._machinery.progress.bus(prepared.call.identity.run_id))

    def _options(self, given: TasksOptions) -> RunOptions:
        check_names(given, TasksOptions.__annotations__, "a run of tasks has no option", elsewhere=_ELSEWHERE)
        cancel, routing = given.get("cancel"), given.get("model_routing")
        check_cancel(cancel)
        tokens, cost, limits = given.get("max_token_budget"), given.get("max_cost_budget"), given.get("limits")
        narrower = self._limits
        if tokens is not None or cost is not None or limits is not None:
            own = None if tokens is None and cost is None else Limits(tokens=tokens, cost=cost)
            narrower = merge_limits(self._limits, limits, own)
        return RunOptions(
            run_id=given.get("run_id"),
            metadata=given.get("metadata"),
            limits=narrower,
            egress_policy=normalize_egress_policy(given.get("egress_policy")),
            cancel=cancel,
            model_routing=None if routing is None else as_spec(ModelRoutingPolicy, routing, where="model_routing"),
        )


def _split(options: TeamOptions) -> tuple[TasksOptions, GoalOptions]:
    """Return what is said of every run, and what of a run for a goal."""
    check_names(options, TeamOptions.__annotations__, "a run has no option", elsewhere=_ELSEWHERE)
    given: dict[str, Any] = dict(options)
    own = {name: given.pop(key) for key, name in _OWN.items() if key in given}
    return cast(TasksOptions, given), GoalOptions(**own)

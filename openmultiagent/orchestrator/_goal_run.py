"""A run of a team for a goal: who works on it, the plan, the work, and the answer.

Each step is a method that either goes on or returns the result that the run ends with. Invariants: no agent of the team
runs before its plan is whole, checked and approved; everything that the coordinator used is in the result, whatever
ended the run; its ``agent_start`` has an ``agent_complete`` on every path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import anyio

from ..agent import AgentFinished, AgentStarted
from ..budget import BudgetScope, Limits
from ..errors import (
    InvalidTaskRequirementsError,
    PlanInvalidError,
    StructuredOutputValidationError,
)
from ..identity import RunLink
from ..messages import PreparedRunInput
from ..outcome import AgentRunResult, ErrorKind, RunStatus, classify_failure, copy_result
from ..tasks import (
    AgentSelector,
    PlanArtifact,
    RunFailed,
    RunFailure,
    RunWarning,
    Task,
    TaskExecutionRecord,
    TaskInput,
    TaskSpec,
    TeamRunResult,
    cancelled_result,
    copy_failure,
    create_task,
    plan_graph,
    route_for,
    task_input_text,
)
from ._decide import Stop
from ._dispatch import dispatch
from ._gates import ask, cancelled_stop
from ._goal_route import GoalRoute
from ._goal_setup import GoalSetup
from ._graph_run import Crew, GraphRun
from ._plan import (
    COORDINATOR,
    CoordinatorPlan,
    TaskOutcome,
    as_plan_error,
    coordinator_agent,
    coordinator_prompt,
    decomposition_prompt,
    goal_input,
    plan_rules,
    plan_schema,
    synthesis_prompt,
)
from ._routing import RoutingDecision
from ._run_memory import recall, remember
from ._team_result import team_result
from ._team_steps import failed_team_result, stopped_team_result

__all__ = ["GoalRun"]

Result = AgentRunResult[Any]

_ALONE = "short-circuit"
"""Id of the one task of a run in which a single agent works."""


@dataclass(slots=True)
class GoalRun:
    """One run of a team for a goal.

    Args:
        crew: Who works in it.
        setup: What the call says.
    """

    crew: Crew
    setup: GoalSetup
    decision: RoutingDecision | None = None
    _has_begun: bool = field(default=False, init=False)
    """Whether the coordinator's start was told, and its end was not."""
    _said: dict[str, Result] = field(default_factory=dict, init=False)
    """What the coordinator was asked for, and what each time came to."""
    _budget: BudgetScope = field(init=False)
    """What the coordinator is charged to."""

    def __post_init__(self) -> None:
        self._budget = self.crew.call.budget.child(COORDINATOR)

    async def execute(self) -> TeamRunResult:
        """Do the run and return its result."""
        cancel = self.crew.cancel
        if cancel is not None and cancel.cancelled:
            return self._stopped(cancelled_stop(cancel))
        try:
            ended = await self._routed()
            if ended is not None:
                return ended
            if self.decision is not None and self.decision.mode == "single":
                return await self._alone()
            return await self._together()
        finally:
            if self._has_begun:  # cancelled from outside: told now, since nothing may be awaited any more
                self._tell_end(self._cancelled(self._budget))

    # --- who works ---------------------------------------------------------------------------------------------------

    async def _routed(self) -> TeamRunResult | None:
        route = GoalRoute(self.crew, self.setup)
        try:
            ending = await route.decide()
        except Exception as error:  # noqa: BLE001 - isolation boundary: routers, profilers and estimators are the application's
            self.decision = route.decision
            return self._failed(error, kind="callback")
        self.decision = route.decision
        if isinstance(ending, Stop):
            return self._stopped(ending)
        return None if ending is None else self._failed(ending)

    # --- one agent ---------------------------------------------------------------------------------------------------

    async def _alone(self) -> TeamRunResult:
        crew, goal = self.crew, self.setup.goal
        chosen = AgentSelector().select(task_input_text(goal), list(crew.agents.values())).agent
        assert chosen is not None  # noqa: S101 - an empty team is never routed to a single agent
        description = goal if isinstance(goal, TaskInput) or goal.strip() else "(the goal is empty)"
        spec = TaskSpec(f"Short-circuit: {chosen.name}", description, id=_ALONE, assignee=chosen.name)
        run = GraphRun(crew, [create_task(spec)])
        task = run.begin(run.queue.list()[0], chosen.name)
        payload: dict[str, Any] = {"phase": "short-circuit", "goal": task_input_text(goal)}
        run.emit(AgentStarted, payload, agent=chosen.name, copy=dict)
        own = None if chosen.max_token_budget is None else Limits(tokens=chosen.max_token_budget)
        budget = crew.call.budget.child(chosen.name, own)
        begun, started_at, result = anyio.current_time(), datetime.now(UTC), None
        source = PreparedRunInput.of(goal if isinstance(goal, str) else goal.messages())
        try:
            route = route_for(crew.routing, phase="short-circuit", agent=chosen.name)
            result = await crew.inner.run(chosen, source, phase="short-circuit", budget=budget, route=route)
        finally:
            took = anyio.current_time() - begun
            ended = self._cancelled(budget) if result is None else result
            run.end(task, ended, started_at=started_at, duration=took)
        await remember(run, task, result)
        return team_result(run, goal=goal, routing_decision=self.decision, plan=None, final_output=result.output)

    # --- a coordinator and the team ----------------------------------------------------------------------------------

    async def _together(self) -> TeamRunResult:
        setup, crew = self.setup, self.crew
        if setup.missing_model is not None:
            return self._failed(setup.missing_model)
        payload: dict[str, Any] = {"phase": "decomposition", "goal": task_input_text(setup.goal)}
        self._emit(AgentStarted, payload, dict)
        self._has_begun = True
        decomposition = await self._ask(
            decomposition_prompt(list(crew.agents.values()), task_input_text(setup.goal)),
            "coordinator",
            plan_schema(
                plan_rules(
                    list(crew.agents.values()),
                    strict_assignees=setup.strict_assignees,
                    max_tasks=setup.coordinator.max_tasks,
                )
            ),
        )
        if not decomposition.success:
            return self._without_plan(decomposition)
        run = await self._planned(cast(CoordinatorPlan, decomposition.structured))
        if isinstance(run, TeamRunResult):
            return run
        await dispatch(run)
        return await self._answered(run)

    async def _planned(self, plan: CoordinatorPlan) -> GraphRun | TeamRunResult:
        """Return the run of a plan that may be worked off, or the result that the run ends with."""
        setup, crew = self.setup, self.crew
        tasks = plan_graph([self._with_goal(spec) for spec in plan.tasks])
        run = GraphRun(crew, tasks)
        with crew.tracing.plan(crew.call.identity.run_id, len(tasks)) as span:
            ids = {task.title: task.id for task in tasks} if plan.unknown_assignees else {}
            for unknown in plan.unknown_assignees:
                warning = {
                    "code": "INVALID_ASSIGNEE",
                    "task_id": ids[unknown.title],
                    "task_title": unknown.title,
                    "assignee": unknown.assignee,
                    "fallback": "clear-and-schedule",
                }
                run.emit(RunWarning, warning, task=ids[unknown.title], copy=dict)
            try:
                setup.check(tasks, dict(crew.agents))
            except InvalidTaskRequirementsError as error:
                crew.tracing.end_plan(span, approved=False)
                return self._refused(run, error)
            gate = crew.gates.on_plan_ready
            if gate is not None or setup.plan_only:  # who does what is a part of what is approved
                for task_id, agent in crew.scheduler.schedule(tasks, list(crew.agents.values())).items():
                    run.queue.update(task_id, assignee=agent)
            answer = await self._approval(run)
            crew.tracing.end_plan(span, approved=answer is None)
        if answer is not None:
            run.standing(1)  # a cancellation or a budget that came meanwhile wins over the answer
            run.stop_with(answer)
            run.skip_rest()
            return self._ended(run)
        return self._only_planned(run) if setup.plan_only else run

    async def _approval(self, run: GraphRun) -> Stop | None:
        gate, crew = self.crew.gates.on_plan_ready, self.crew
        if gate is None:
            return None
        answer = await ask("on_plan_ready", gate, run.queue.list(), cancel=crew.cancel, budget=crew.call.budget)
        if answer is None:
            crew.inner.confirm()
        return answer

    def _with_goal(self, spec: TaskSpec) -> TaskSpec:
        """Return a planned task that also has the media and the earlier messages of a structured goal."""
        goal = self.setup.goal
        return spec if isinstance(goal, str) else spec.replace(description=goal.with_prompt(spec.text))

    async def _answered(self, run: GraphRun) -> TeamRunResult:
        """Have the coordinator answer the goal from what the tasks came to, unless the run was stopped."""
        if self._is_over(run):
            return self._ended(run)
        memory = await recall(run)
        if self._is_over(run):
            return self._ended(run)
        outcomes = [_outcome(task) for task in run.queue.list()]
        prompt = synthesis_prompt(task_input_text(self.setup.goal), outcomes, memory=memory)
        answer = await self._ask(prompt, "synthesis", None, links=run.links(run.spans, "consumed"))
        if answer.success and answer.output.strip() and answer.stop_reason != "content_filter":
            return self._ended(run, final_output=answer.output)
        if answer.success:  # and yet no answer
            warning = {"code": "NO_SYNTHESIS", "stop_reason": answer.stop_reason}
            run.emit(RunWarning, warning, agent=COORDINATOR, copy=dict)
            return self._ended(run, flags=("no-synthesis",))
        failure = RunFailure(
            message=answer.status.message or answer.output,
            code="SYNTHESIS_FAILED",
            error_info=answer.error_info,
            result=answer,
        )
        run.emit(RunFailed, failure, agent=COORDINATOR, copy=copy_failure)
        return self._ended(run, success=False, status=answer.status, error_info=answer.error_info, error=answer.error)

    def _is_over(self, run: GraphRun) -> bool:
        """Whether no answer may follow; for that alone a limit that is just reached stops the run."""
        stop = run.standing(1).stop
        if stop is not None and stop.status in ("cancelled", "budget_exhausted", "suspended"):
            return True
        return self.crew.call.budget.exhausted() is not None

    # --- the coordinator ---------------------------------------------------------------------------------------------

    async def _ask(self, prompt: str, phase: Any, schema: Any, links: Sequence[RunLink] = ()) -> Result:
        """Run the coordinator once."""
        setup, crew = self.setup, self.crew
        agents = list(crew.agents.values())
        config = coordinator_agent(
            setup.coordinator, coordinator_prompt(setup.coordinator, agents), output_schema=schema
        )
        self._said[phase] = result = await crew.inner.run(
            setup.complete(config),
            PreparedRunInput.of(goal_input(setup.goal, prompt)),
            phase=phase,
            budget=self._budget.child(COORDINATOR),
            links=links,
            route=route_for(crew.routing, phase=phase, agent=COORDINATOR),
        )
        return result

    def _without_plan(self, decomposition: Result) -> TeamRunResult:
        """Return the result of a run whose coordinator made no plan."""
        self._tell_end(decomposition)
        error, code = decomposition.error, "COORDINATOR_DECOMPOSITION_FAILED"
        info, status = decomposition.error_info, decomposition.status
        if isinstance(error, StructuredOutputValidationError):
            error = as_plan_error(error)
            status, info = classify_failure(error, kind="validation")
            code = "COORDINATOR_PLAN_INVALID"
        failure = RunFailure(
            message=status.message or decomposition.output,
            code=code,
            error_info=info,
            result=decomposition,
            issues=tuple(error.issues) if isinstance(error, PlanInvalidError) else (),
        )
        self._emit(RunFailed, failure, copy_failure)
        return stopped_team_result(
            self.crew.call,
            status,
            info,
            goal=self.setup.goal,
            error=error,
            final_output=status.message or decomposition.output,
            agent_results={COORDINATOR: decomposition},
            decomposition=decomposition,
            routing_decision=self.decision,
        )

    def _refused(self, run: GraphRun, error: InvalidTaskRequirementsError) -> TeamRunResult:
        """Return the result of a run whose plan nobody can work off."""
        status, info = classify_failure(error, kind="validation")
        run.stop_with(Stop(status.code, str(error)[:500], info, error))
        run.skip_rest()
        failure = RunFailure(message=str(error), code=error.code, error_info=info, issues=tuple(error.issues))
        run.emit(RunFailed, failure, agent=COORDINATOR, copy=copy_failure)
        return self._ended(run)

    def _only_planned(self, run: GraphRun) -> TeamRunResult:
        tasks = [task.replace(status="pending") for task in run.queue.list()]
        return self._ended(
            run,
            success=True,
            status=RunStatus("ok"),
            error_info=None,
            error=None,
            plan_only=True,
            tasks=tuple(TaskExecutionRecord(task=task) for task in tasks),
            plan=PlanArtifact.of_tasks(tasks, goal=self.setup.goal),
            metrics=None,
            final_output="",
        )

    def _ended(self, run: GraphRun, **fields: Any) -> TeamRunResult:
        """Return the result of a run that had a plan, and tell the end of the coordinator."""
        said, budget = self._said, self._budget
        coordinator = said.get("synthesis", said["coordinator"])
        if len(said) > 1:  # the last one's, and the usage of all
            coordinator = coordinator.replace(token_usage=budget.usage, usage_report=budget.usage_report())
        self._tell_end(coordinator)
        fields = {"decomposition": said["coordinator"], "synthesis": said.get("synthesis"), **fields}
        result = team_result(run, goal=self.setup.goal, routing_decision=self.decision, **fields)
        return result.replace(agent_results={COORDINATOR: copy_result(coordinator), **result.agent_results})

    def _tell_end(self, result: Result) -> None:
        self._has_begun = False
        self._emit(AgentFinished, copy_result(result) if self.crew.bus.has_listeners else result, copy_result)

    def _cancelled(self, budget: BudgetScope) -> Result:
        cancelled = cancelled_result(identity=self.crew.inner.identity)
        return cancelled.replace(token_usage=budget.usage, usage_report=budget.usage_report())

    def _stopped(self, stop: Stop) -> TeamRunResult:
        status = RunStatus(stop.status, stop.reason[:256])
        return stopped_team_result(
            self.crew.call, status, stop.error_info, goal=self.setup.goal, routing_decision=self.decision
        )

    def _failed(self, error: Exception, *, kind: ErrorKind | None = None) -> TeamRunResult:
        return failed_team_result(
            self.crew.call, error, kind=kind, goal=self.setup.goal, routing_decision=self.decision
        )

    def _emit(self, kind: Any, payload: Any, copy: Any) -> None:
        bus = self.crew.bus
        if bus.has_listeners:
            bus.emit(kind(agent=COORDINATOR, payload=payload, copy=copy))
        else:
            bus.skip()


def _outcome(task: Task) -> TaskOutcome:
    status = "completed" if task.status == "completed" else "failed" if task.status == "failed" else "skipped"
    return TaskOutcome(task.title, cast(Any, status), task.result or "", task.assignee)

"""One task at work: its prompt, its attempts, and what becomes of what they come to.

Invariants: it never raises into its task group, but for a cancellation from outside; whatever happens, the run is told
what the task has come to, and its slot is given back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio

from .._shown import shown
from ..agent import AgentConfig
from ..budget import BudgetScope, Limits
from ..errors import OpenMultiAgentError
from ..messages import PreparedRunInput
from ..outcome import AgentRunResult, ErrorKind, RunStatus, classify_failure
from ..tasks import (
    DependencyResult,
    ModelRoute,
    Task,
    TaskRetried,
    TaskRetry,
    cancelled_result,
    dependency_context,
    execute_with_retry,
    failed_result,
    worker_input,
    worker_prompt,
)
from ..tracing import TracedTask
from ._delegation import with_team_tools
from ._graph_run import GraphRun
from ._inner import is_providers_moment
from ._run_memory import bounded, remember

__all__ = ["TaskRun"]

Result = AgentRunResult[Any]


class TaskRun:
    """The work on one task.

    Args:
        run: The run that it belongs to.
        task: The task, in progress.
        agent: Who does it.
    """

    __slots__ = ("_agent", "_begun", "_budget", "_mark_read", "_retries", "_run", "_task")

    def __init__(self, run: GraphRun, task: Task, agent: AgentConfig) -> None:
        self._run = run
        self._task = task
        self._agent = agent
        self._retries = 0
        self._begun = time.monotonic()
        self._mark_read: Callable[[], None] = _nothing
        """Takes the messages in the prompt for read."""
        self._budget = run.crew.call.budget.child(agent.name, _limits_of(task, agent))

    async def execute(self) -> None:
        """Do the task."""
        run, task = self._run, self._task
        result: Result | None = None
        try:
            result = await (self._traced() if run.is_traced else self._attempts())
            if result.success:
                self._mark_read()
            await remember(run, task, result)
        finally:
            run.crew.slots.release()
            if result is None:  # cancelled from outside: told here and now, since nothing may be awaited any more
                result = self._counted(cancelled_result(identity=run.crew.inner.identity))
            took = time.monotonic() - self._begun
            run.finish(task, result, started_at=task.updated_at, duration=took, retries=self._retries)

    async def _traced(self) -> Result:
        run, task = self._run, self._task
        traced = TracedTask(
            run_id=run.crew.call.identity.run_id,
            id=task.id,
            title=task.title,
            agent=self._agent.name,
            priority=task.priority,
            role=task.role,
            metadata=task.metadata,
            depends_on=[run.spans[each] for each in task.depends_on if each in run.spans],
        )
        with run.crew.tracing.task(traced) as span:
            run.spans[task.id] = span.get_span_context()
            result = await self._attempts()
            run.crew.tracing.end_task(span, result, retries=self._retries)
            return result

    async def _attempts(self) -> Result:
        run, cancel = self._run, self._run.crew.cancel
        memory: str | None = ""
        try:
            if self._task.memory_scope == "all":
                memory = None
                with bounded(run):
                    memory = await run.crew.team.remembered(without_task_ids=self._task.depends_on)
            attempts = None if memory is None else _Attempts(self, self._input(memory))
        except Exception as error:  # noqa: BLE001 - isolation boundary: what cannot be handed on fails the task
            kind: ErrorKind | None = None if isinstance(error, OpenMultiAgentError) else "store"
            return failed_result(error, identity=run.crew.inner.identity, kind=kind)
        if attempts is None:  # the team's store was slower than the end of the run
            if cancel is not None and cancel.cancelled:
                return cancelled_result(cancel.reason, identity=run.crew.inner.identity)
            return failed_result(self._budget.out_of_time(), identity=run.crew.inner.identity)
        result = await execute_with_retry(
            attempts.next,
            self._task,
            self._tell_retry,
            sleep=self._sleep,
            cancel=cancel,
            identity=run.crew.inner.identity,
        )
        overrun = self._budget.overrun()
        if overrun is None or result.status.code == "budget_exhausted":
            return result
        status, info = classify_failure(overrun)
        run.crew.inner.tell_overrun(overrun, self._agent.name, self._task.id)
        return result.replace(success=False, status=status, stop_reason="budget", error_info=info, error=overrun)

    def _counted(self, result: Result) -> Result:
        """Return a result that was made without its agent, with what the agent had used until then."""
        return result.replace(token_usage=self._budget.usage, usage_report=self._budget.usage_report())

    async def _sleep(self, delay: float) -> None:
        """Wait before another attempt, but not for longer than the run has time."""
        left = self._budget.remaining().seconds
        await anyio.sleep(delay if left is None else min(delay, left))

    def _input(self, memory: str) -> PreparedRunInput:
        run, task = self._run, self._task
        context = ""
        if task.depends_on:
            context = dependency_context(self._dependencies(), task.dependency_payload)
        unread = run.crew.team.unread(self._agent.name)
        self._mark_read = unread.mark_read
        prompt = worker_prompt(
            task.spec,
            context=context,
            memory=memory,
            team=run.crew.preamble.get(self._agent.name, ""),
            messages=unread.text,
        )
        return PreparedRunInput.of(worker_input(task.spec, prompt))

    def _dependencies(self) -> list[DependencyResult]:
        run = self._run
        others = [run.queue[each] for each in self._task.depends_on]
        return [
            DependencyResult(
                title=other.title,
                agent=other.assignee,
                result=run.results.get(other.id),
                has_schema=_has_schema(run, other.assignee),
            )
            for other in others
        ]

    def _tell_retry(self, retry: TaskRetry) -> None:
        self._retries += 1
        self._run.emit(TaskRetried, retry, agent=self._agent.name, task=self._task.id)

    # --- for the attempts --------------------------------------------------------------------------------------------

    async def attempt(self, route: ModelRoute | None, source: PreparedRunInput, *, is_only: bool) -> Result:
        """Run the agent once.

        Args:
            route: The model to use instead of the agent's own.
            source: Its input.
            is_only: Whether there will be no other attempt, which would need the usage of this one apart.
        """
        run, task = self._run, self._task
        config = run.crew.models.variant(self._agent, route, task.timeout)
        budget: BudgetScope = self._budget if is_only else self._budget.child(config.name)
        config = with_team_tools(run, task, config, budget)
        result = await run.crew.inner.run(config, source, phase="worker", budget=budget, task=task.id)
        return _with_task(result, task) if type(result.error) is TimeoutError else result

    def routes(self) -> tuple[ModelRoute | None, ...]:
        """Return the models to try, each after a failure of the one before; None is the agent's own."""
        return self._run.crew.models.routes(self._agent, self._task)

    @property
    def is_retried(self) -> bool:
        """Whether there may be more than one attempt."""
        return self._task.max_retries > 0


class _Attempts:
    """The attempts at a task, one after the other; each may have another model."""

    def __init__(self, work: TaskRun, source: PreparedRunInput) -> None:
        self._work = work
        self._source = source
        self._routes = work.routes()
        self._place = 0

    async def next(self) -> Result:
        """Make the next attempt."""
        work = self._work
        result = await work.attempt(self._routes[self._place], self._source, is_only=not work.is_retried)
        if is_providers_moment(result) and self._place + 1 < len(self._routes):
            self._place += 1
        return result


def _has_schema(run: GraphRun, agent: str | None) -> bool:
    config = run.crew.agents.get(agent or "")
    return config is not None and config.output_schema is not None


def _limits_of(task: Task, agent: AgentConfig) -> Limits | None:
    """Return what one task may use: of the limits of the task and of its agent the narrower ones."""
    own, further = task.max_token_budget, agent.max_token_budget
    if own is None and further is None and task.max_cost_budget is None:
        return None
    tokens = min((each for each in (own, further) if each is not None), default=None)
    return Limits(tokens=tokens, cost=task.max_cost_budget)


def _with_task(result: Result, task: Task) -> Result:
    """Return a result whose agent ran out of time, with the task that set the limit in its text."""
    text = f"task {shown(task.title)}: {result.status.message}"
    info = None if result.error_info is None else replace(result.error_info, message=text)
    return result.replace(status=RunStatus(result.status.code, text), error_info=info, error=TimeoutError(text))


def _nothing() -> None:
    """Stand for what is not to be done."""

"""One run of a task graph: what it knows, and what has become of it so far.

Not here: waiting, and deciding what comes next. Invariants: everything that changes a task's state tells of it in the
same step, so that no event is lost to a cancellation; a task whose start was told has its end told on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import anyio
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from .._record import record
from ..agent import AgentConfig, AgentFinished, AgentStarted, RunCall
from ..budget import BudgetError
from ..cancellation import CancelToken
from ..events import Event, EventBus
from ..identity import RunLink
from ..outcome import AgentRunResult, classify_failure, copy_result
from ..tasks import (
    ModelRoutingPolicy,
    RunFailure,
    RunWarning,
    Scheduler,
    Task,
    TaskCompleted,
    TaskExecutionMetrics,
    TaskFailed,
    TaskQueue,
    TaskSkipped,
    TaskStarted,
    cancelled_result,
    copy_failure,
)
from ..team import TeamRun
from ..tracing import Tracing
from ._decide import Standing, Stop
from ._gates import Gates, cancelled_stop
from ._inner import InnerRuns
from ._slots import Slots
from ._task_models import TaskModels

__all__ = ["Crew", "GraphRun"]

D = TypeVar("D")
Result = AgentRunResult[Any]


@record(kw_only=True)
class Crew:
    """Who works in a run of tasks, and by which rules."""

    call: RunCall
    """The run."""
    bus: EventBus
    cancel: CancelToken | None
    inner: InnerRuns
    agents: Mapping[str, AgentConfig]
    """The team, each agent with the orchestrator's defaults."""
    roster: tuple[AgentConfig, ...] = field(init=False)
    """The same agents, in their order."""
    team: TeamRun
    """What the agents of this run share: messages and memory."""
    scheduler: Scheduler
    models: TaskModels
    slots: Slots
    gates: Gates
    tracing: Tracing
    routing: ModelRoutingPolicy | None = None
    """The policy that the models follow."""
    max_delegation_depth: int = 3
    preamble: Mapping[str, str] = field(default_factory=dict)
    """What stands before the prompts of an agent, by its name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "roster", tuple(self.agents.values()))


class GraphRun:
    """The state of one run of tasks.

    Args:
        crew: Who works in it.
        tasks: Its tasks; what they depend on is among them.
    """

    def __init__(self, crew: Crew, tasks: Sequence[Task]) -> None:
        self.crew = crew
        self.queue = TaskQueue()
        self.queue.add_batch(tasks)
        crew.models.learn(tasks)
        self.queue.on("task:failed", self._note_fallen)
        for event in ("task:ready", "task:complete", "task:failed", "task:skipped"):
            self.queue.on(event, partial(crew.team.emit, event))
        self.queue.on("all:complete", partial(crew.team.emit, "all:complete"))
        self.results: dict[str, Result] = {}
        """By task id, in the order in which they ended."""
        self.metrics: dict[str, TaskExecutionMetrics] = {}
        self.spans: dict[str, SpanContext] = {}
        """The spans of the tasks that have been started."""
        self.at_work: dict[str, Task] = {}
        self.loads: dict[str, int] = {}
        """How many tasks each agent is working on."""
        self.stop: Stop | None = None
        self.is_traced = crew.tracing.is_active
        """Whether anybody makes spans."""
        self._changed: anyio.Event | None = None
        self._fallen: list[Task] = []
        """Tasks that have just failed with another one."""

    def links(self, task_ids: Iterable[str], relation: str) -> list[RunLink]:
        """Return links to the spans of tasks, of those that have one.

        Args:
            task_ids: Ids of tasks.
            relation: What the tasks are to whoever has the links.
        """
        spans = (self.spans[each] for each in task_ids if each in self.spans)
        return [
            RunLink(format_trace_id(span.trace_id), format_span_id(span.span_id), relation)
            for span in spans
            if span.is_valid
        ]

    # --- what stops a run --------------------------------------------------------------------------------------------

    def standing(self, ready: int) -> Standing:
        """Return how the run stands, after a look at what may have stopped it.

        Args:
            ready: Tasks that could be started.
        """
        self._look_for_a_stop(ready)
        return Standing(self.stop, ready, len(self.at_work), self.crew.slots.is_free)

    def stop_with(self, stop: Stop) -> None:
        """Start no more tasks; what has stopped the run first counts.

        Args:
            stop: Why.
        """
        if self.stop is None:
            self.stop = stop
        self.notify()

    def _look_for_a_stop(self, ready: int) -> None:
        if self.stop is not None:
            return
        cancel = self.crew.cancel
        if cancel is not None and cancel.cancelled:
            self.stop = cancelled_stop(cancel)
            return
        budget = self.crew.call.budget
        error: BudgetError | None = budget.overrun()
        if error is None and ready:  # a limit that is just reached matters only to what would come next
            error = budget.exhausted()
        if error is not None:
            status, info = classify_failure(error, attempt=self.crew.call.identity.attempt)
            self.stop = Stop(status.code, str(error), info, error)
            self.crew.inner.tell_overrun(error, None)

    # --- waiting -----------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Have the dispatch look again."""
        if self._changed is not None:
            self._changed.set()

    async def changed(self) -> None:
        """Wait until somebody calls ``notify``."""
        self._changed = anyio.Event()
        await self._changed.wait()
        self._changed = None

    # --- what happens to tasks ---------------------------------------------------------------------------------------

    def start(self, task: Task, agent: str) -> Task:
        """Say that an agent begins with a task; that it does is told before anything else can happen.

        Args:
            task: A pending task.
            agent: Name of the agent.
        """
        started = self.begin(task, agent)
        self.emit(TaskStarted, started, agent=agent, task=task.id)
        payload: dict[str, Any] = {"phase": "worker", "task": started}
        self.emit(AgentStarted, payload, agent=agent, task=task.id, copy=dict)
        return started

    def begin(self, task: Task, agent: str) -> Task:
        """Do what ``start`` does, but tell nobody: for the single agent that works alone.

        Args:
            task: A pending task.
            agent: Name of the agent.
        """
        started = self.queue.start(task.id, agent)
        self.at_work[task.id] = started
        self.loads[agent] = self.loads.get(agent, 0) + 1
        return started

    def finish(self, task: Task, result: Result, *, started_at: datetime, duration: float, retries: int) -> None:
        """Say what a started task has come to, with all that follows from it for other tasks.

        Args:
            task: The task.
            result: Of its last attempt, with the usage of all.
            started_at: When it began.
            duration: Seconds that it took.
            retries: How often it was tried again.
        """
        agent = self._settle(task, result, started_at, duration, retries)
        # A copy: the caller may change its result before a listener has looked at this one.
        told = copy_result(result) if self.crew.bus.has_listeners else result
        if result.success:
            if not result.output.strip() and not self.crew.models.is_leaf(task.id):
                warning = {"code": "EMPTY_OUTPUT", "task_id": task.id, "task_title": task.title}
                self.emit(RunWarning, warning, agent=agent, task=task.id, copy=dict)
            self.queue.complete(task.id, result.output)
            self.emit(TaskCompleted, told, agent=agent, task=task.id, copy=copy_result)
        else:
            self._fail(task, result.status.message or result.output or result.status.code, told)
        self.emit(AgentFinished, told, agent=agent, task=task.id, copy=copy_result)
        self.notify()

    def end(self, task: Task, result: Result, *, started_at: datetime, duration: float) -> None:
        """Do what ``finish`` does for the single agent that works alone: only its own end is told.

        Args:
            task: The task.
            result: What it came to.
            started_at: When it began.
            duration: Seconds that it took.
        """
        agent = self._settle(task, result, started_at, duration, 0)
        if result.success:
            self.queue.complete(task.id, result.output)
        else:
            self.queue.fail(task.id, result.status.message or result.output or result.status.code)
        told = copy_result(result) if self.crew.bus.has_listeners else result
        self.emit(AgentFinished, told, agent=agent, copy=copy_result)

    def _settle(self, task: Task, result: Result, started_at: datetime, duration: float, retries: int) -> str:
        agent = task.assignee or ""
        self.at_work.pop(task.id, None)
        self.loads[agent] = self.loads.get(agent, 1) - 1
        self.results[task.id] = result
        self.metrics[task.id] = TaskExecutionMetrics.of(
            result,
            started_at=started_at,
            ended_at=started_at + timedelta(seconds=duration),
            duration=duration,
            retries=retries,
        )
        return agent

    def leave_out(self, task: Task) -> bool:
        """Skip a task whose condition does not hold, with all that waits for it, and say whether that was so.

        Args:
            task: A pending task.
        """
        condition = task.spec.run_if
        if condition is None or condition.holds(self.results[each] for each in task.depends_on if each in self.results):
            return False
        left: list[Task] = []
        unsubscribe = self.queue.on("task:skipped", left.append)
        self.queue.skip(task.id, "its condition does not hold")
        unsubscribe()
        for each in left:
            self.emit(TaskSkipped, each, agent=each.assignee, task=each.id)
        return True

    def fail_unstarted(self, task: Task, error: BaseException, code: str | None = None) -> None:
        """Say that a task cannot be started.

        Args:
            task: A pending task.
            error: Why.
            code: A stable word for programs.
        """
        self._fail(task, str(error), None, code=code)
        self.notify()

    def skip_rest(self) -> None:
        """Leave out what has not ended, for the reason that stopped the run."""
        for task in [*self.at_work.values()]:  # the loop has ended its work before the first step
            result = cancelled_result(identity=self.crew.inner.identity)
            took = (datetime.now(UTC) - task.updated_at).total_seconds()
            self.finish(task, result, started_at=task.updated_at, duration=max(took, 0.0), retries=0)
        reason = "the run ended before it" if self.stop is None else self.stop.reason
        for task in self.queue.skip_remaining(reason):
            self.emit(TaskSkipped, task, agent=task.assignee, task=task.id)

    def emit(
        self,
        kind: type[Event[D]],
        payload: D,
        *,
        agent: str | None = None,
        task: str | None = None,
        copy: Callable[[D], D] | None = None,
    ) -> None:
        """Tell the listeners of the run; nothing is made when there are none.

        Args:
            kind: The class of the event.
            payload: What ``data`` shows.
            agent: Name of the agent that it is about.
            task: Id of the task that it is about.
            copy: Makes an independent copy of the payload.
        """
        bus = self.crew.bus
        if bus.has_listeners:
            bus.emit(kind(agent=agent, task=task, payload=payload, copy=copy))
        else:
            bus.skip()

    def _fail(self, task: Task, reason: str, result: Result | None, code: str | None = None) -> None:
        failed = self.queue.fail(task.id, reason)
        info = None if result is None else result.error_info
        failure = RunFailure(
            message=reason, code=code or (None if info is None else info.code), error_info=info, result=result
        )
        self.emit(TaskFailed, failure, agent=failed.assignee, task=task.id, copy=copy_failure)
        fallen, self._fallen = self._fallen, []
        for each in fallen:
            self.emit(TaskFailed, RunFailure(message=each.result or ""), agent=each.assignee, task=each.id)

    def _note_fallen(self, task: Task) -> None:
        if task.failed_through is not None:
            self._fallen.append(task)

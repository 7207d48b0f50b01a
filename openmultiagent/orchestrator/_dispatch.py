"""Works off a task graph: each task starts as soon as what it depends on is completed and a slot is free.

One task group holds all that is at work; nothing in it raises into it. Tasks are started here and nowhere else, one
after the other, so that gates are asked in turn and the loads that scheduling looks at are true. Not here: what to do
next (``_decide``), and what a task does (``_task_run``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import anyio
from anyio.abc import TaskGroup

from .._shown import shown
from ..agent import AgentConfig
from ..errors import RunError
from ..tasks import ReadyOrder, Task
from ._decide import next_action
from ._gates import ask
from ._graph_run import GraphRun
from ._task_run import TaskRun

__all__ = ["dispatch"]

Gate = Callable[..., object]


async def dispatch(run: GraphRun) -> None:
    """Work off the tasks of a run; afterwards every one of them has come to its end.

    Args:
        run: The run.
    """
    cancel = run.crew.cancel
    try:
        with nullcontext() if cancel is None else cancel.subscribed(run.notify):
            async with anyio.create_task_group() as group:
                await (_in_rounds(run, group) if run.crew.gates.on_approval is not None else _as_they_come(run, group))
    finally:
        run.skip_rest()


async def _as_they_come(run: GraphRun, group: TaskGroup) -> None:
    order: ReadyOrder = run.crew.scheduler.ready_order(run.queue.list())
    for task in run.queue.ready():
        order.push(task)
    unsubscribe = run.queue.on("task:ready", order.push)
    gate = run.crew.gates.on_task_dispatch
    try:
        while True:
            action = next_action(run.standing(len(order)))
            if action == "finish":
                return
            if action == "wait":
                await run.changed()
                continue
            task = run.queue[order.pop()]
            agent = None if run.leave_out(task) else _assigned(run, task)
            if agent is None:
                continue
            run.crew.slots.take()  # now: an agent that delegates may want it while the gate is asked
            if gate is not None and not await _allows(
                run, "on_task_dispatch", gate, run.queue.update(task.id, assignee=agent.name)
            ):
                run.crew.slots.release()
                continue
            _start(run, group, task, agent)
    finally:
        unsubscribe()


async def _allows(run: GraphRun, name: str, gate: Gate, *about: object) -> bool:
    crew = run.crew
    answer = await ask(name, gate, *about, cancel=crew.cancel, budget=crew.call.budget)
    if run.standing(1).stop is not None:
        return False  # a cancellation or a budget that came meanwhile wins over the answer
    if answer is not None:
        run.stop_with(answer)
    return answer is None


async def _in_rounds(run: GraphRun, group: TaskGroup) -> None:
    gate = run.crew.gates.on_approval
    assert gate is not None  # noqa: S101 - the caller looked
    order: ReadyOrder = run.crew.scheduler.ready_order(run.queue.list())
    while True:
        batch = _ready(run, order)
        if next_action(run.standing(len(batch))) == "finish":
            return
        await _round(run, group, batch)
        completed = [done for task in batch if (done := run.queue[task.id]).status == "completed"]
        if completed and run.standing(0).stop is None:
            following = _with_assignees(run, _ready(run, order))
            if following:
                await _allows(run, "on_approval", gate, completed, following)


def _ready(run: GraphRun, order: ReadyOrder) -> list[Task]:
    """Return the tasks of the next round, the most urgent first."""
    return [task for task in sorted(run.queue.ready(), key=order.rank) if not run.leave_out(task)]


async def _round(run: GraphRun, group: TaskGroup, batch: list[Task]) -> None:
    """Do the tasks of a round, and wait for all of them."""
    for task in batch:
        while next_action(run.standing(1)) == "wait":
            await run.changed()
        if run.stop is not None:
            break
        agent = _assigned(run, task)
        if agent is not None:
            run.crew.slots.take()
            _start(run, group, task, agent)
    while run.at_work:
        await run.changed()


def _start(run: GraphRun, group: TaskGroup, task: Task, agent: AgentConfig) -> None:
    """Start a task, for which there is a slot."""
    group.start_soon(TaskRun(run, run.start(task, agent.name), agent).execute)


def _assigned(run: GraphRun, task: Task) -> AgentConfig | None:
    """Return the agent of a task; when there is none, the task fails."""
    crew = run.crew
    name = crew.scheduler.schedule_task(task, crew.roster, loads=run.loads)
    if name is not None:
        return crew.agents[name]
    error = RunError(f"task {shown(task.title)} has no assignee, and the team has no agents")
    run.fail_unstarted(task, error, code="INVALID_ASSIGNEE")
    return None


def _with_assignees(run: GraphRun, tasks: list[Task]) -> list[Task]:
    """Assign the tasks of the next round, of which nobody has begun any yet; an agent has completed one of the last."""
    loads: dict[str, int] = {}
    assigned = []
    for task in tasks:
        name = cast(str, run.crew.scheduler.schedule_task(task, run.crew.roster, loads=loads))
        loads[name] = loads.get(name, 0) + 1
        assigned.append(run.queue.update(task.id, assignee=name) if task.assignee is None else task)
    return assigned

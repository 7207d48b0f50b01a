"""What a run keeps in the memory of its team, and finds there.

Invariants: no store holds up a run that was cancelled or has no time left; a store that fails stops the run, and takes
away nothing that the run has got to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from anyio import CancelScope

from ..outcome import AgentRunResult, classify_failure
from ..tasks import Task
from ._decide import Stop
from ._graph_run import GraphRun

__all__ = ["bounded", "recall", "remember"]


async def remember(run: GraphRun, task: Task, result: AgentRunResult[Any]) -> None:
    """Put the output of a completed task where the team finds it; with every task that was run a turn ends.

    Args:
        run: The run.
        task: The task.
        result: What it came to.
    """
    memory = run.crew.team.memory
    if memory is None:
        return
    try:
        if result.success:
            with bounded(run) as scope:
                await memory.write(task.assignee or "", f"task:{task.id}:result", result.output)
            if scope.cancelled_caught:
                run.standing(1)  # what is not kept is missing to whoever comes next
        memory.advance_turn()
    except Exception as error:  # noqa: BLE001 - isolation boundary: the store is the application's; the answer is kept
        _stop(run, error)


async def recall(run: GraphRun) -> str:
    """Return what the memory holds besides the results of the run's tasks.

    Args:
        run: The run.
    """
    found = ""
    try:
        with bounded(run):
            found = await run.crew.team.remembered(without_task_ids=[task.id for task in run.queue.list()])
    except Exception as error:  # noqa: BLE001 - isolation boundary: the store is the application's
        _stop(run, error)
    return found


@contextmanager
def bounded(run: GraphRun) -> Iterator[CancelScope]:
    """End what waits inside when a run is cancelled or has no time left; that is swallowed.

    Args:
        run: The run.
    """
    cancel, seconds = run.crew.cancel, run.crew.call.budget.remaining().seconds
    with anyio.move_on_after(seconds) as scope:
        if cancel is None:
            yield scope
        else:
            with cancel.subscribed(scope.cancel):
                yield scope


def _stop(run: GraphRun, error: Exception) -> None:
    _, info = classify_failure(error, kind="store")
    run.stop_with(Stop("error", f"the team's memory failed: {info.message}"[:500], info, error))

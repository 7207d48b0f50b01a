"""What a run of tasks came to, put together from how its tasks stand. Pure but for reading."""

from __future__ import annotations

from typing import Any

from ..identity import copy_metadata
from ..outcome import AgentRunResult, ErrorInfo, RunStatus, copy_result
from ..tasks import (
    PlanArtifact,
    TaskExecutionRecord,
    TaskInput,
    TeamRunResult,
    derive_run_status,
    merge_agent_results,
    run_metrics,
)
from ._graph_run import GraphRun

__all__ = ["team_result"]


def team_result(run: GraphRun, *, goal: str | TaskInput | None = None, **fields: Any) -> TeamRunResult:
    """Return the result of a run whose tasks have all come to their end.

    Args:
        run: The run.
        goal: What it was for.
        fields: Further fields of the result.
    """
    call = run.crew.call
    tasks = run.queue.list()
    records = tuple(TaskExecutionRecord(task=task, metrics=run.metrics.get(task.id)) for task in tasks)
    results = {task.id: run.results[task.id] for task in tasks if task.id in run.results}
    forced = None if run.stop is None else RunStatus(run.stop.status, run.stop.reason[:256])
    status = derive_run_status(results, tasks, forced=forced)
    telling = _telling(run, status)
    made = TeamRunResult(
        success=status.code == "ok",
        status=status,
        goal=goal,
        tasks=records,
        task_results=results,
        agent_results=_by_agent(run, results),
        total_token_usage=call.budget.usage,
        usage_report=call.budget.usage_report(),
        metrics=run_metrics(records, call.budget.usage),
        identity=run.crew.inner.identity,
        error_info=telling[0],
        error=telling[1],
        metadata=copy_metadata(call.metadata),
        final_output=_final_output(run),
    )
    return made.replace(**{"plan": PlanArtifact.of_tasks(tasks, goal=goal), **fields})


def _by_agent(run: GraphRun, results: dict[str, AgentRunResult[Any]]) -> dict[str, AgentRunResult[Any]]:
    groups: dict[str, list[AgentRunResult[Any]]] = {}
    for task in run.queue.list():
        if task.id in results and task.assignee is not None:
            groups.setdefault(task.assignee, []).append(results[task.id])
    # Copies: an agent with one task would share its result with that of the task.
    return {agent: copy_result(merge_agent_results(group)) for agent, group in groups.items()}


def _telling(run: GraphRun, status: RunStatus) -> tuple[ErrorInfo | None, BaseException | None]:
    """Return what is known of the failure that the run's status is about."""
    if status.code == "ok":
        return None, None
    if run.stop is not None:
        return run.stop.error_info, run.stop.error
    failed = [
        result
        for task_id, result in run.results.items()
        if not result.success and run.queue[task_id].recovered_by_revision is None
    ]
    chosen = next((result for result in failed if result.status.code == status.code), failed[0] if failed else None)
    if chosen is not None:
        return chosen.error_info, chosen.error
    return ErrorInfo(kind="framework", message=status.message, retryable=False), None


def _final_output(run: GraphRun) -> str:
    """Return how far each branch of the graph got: what the completed tasks came to that no completed one built on."""
    done = [task for task in run.queue.list() if task.status == "completed"]
    used = {each for task in done for each in task.depends_on}
    outputs = [run.results[task.id].output for task in done if task.id not in used and task.id in run.results]
    return "\n\n---\n\n".join(output for output in outputs if output)

"""What several runs come to together, and results that no agent made.

Pure functions of results and tasks. Invariant: usage is neither lost nor counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .._shown import shown
from ..identity import RunIdentity
from ..outcome import (
    AgentRunResult,
    ErrorInfo,
    ErrorKind,
    RunStatus,
    StatusCode,
    StopReason,
    classify_failure,
    joined_messages,
)
from ..redaction import redact_sensitive_text
from ..usage import NO_USAGE, UsageEntry
from ._task import Task

__all__ = [
    "cancelled_result",
    "derive_run_status",
    "failed_result",
    "merge_agent_results",
    "merge_usage_reports",
]

_SEPARATOR: Final = "\n\n---\n\n"
_FIRST: Final[tuple[StatusCode, ...]] = ("budget_exhausted", "timeout", "cancelled", "suspended")
"""What of several failures a run is said to have ended with; else it is ``error``, or ``rejected`` if all were that."""
_STOP_REASONS: Final[dict[StatusCode, StopReason]] = {
    "budget_exhausted": "budget",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "suspended": "suspended",
}
_MAX_STATUS_TEXT: Final = 256


def failed_result(
    error: BaseException, *, identity: RunIdentity, kind: ErrorKind | None = None, attempt: int | None = None
) -> AgentRunResult[Any]:
    """Return the result of a task whose agent made none.

    Args:
        error: What went wrong.
        identity: Who the run is.
        kind: Where it came from; else what the error's class says.
        attempt: The attempt that failed.
    """
    status, info = classify_failure(error, kind=kind, attempt=attempt)
    return AgentRunResult(
        success=False,
        status=status,
        stop_reason=_STOP_REASONS.get(status.code, "error"),
        output=info.message or "",
        identity=identity,
        error_info=info,
        error=error,
    )


def cancelled_result(reason: str | None = None, *, identity: RunIdentity) -> AgentRunResult[Any]:
    """Return the result of a task that was not begun because its run was cancelled.

    Args:
        reason: What the token's ``cancel`` was given.
        identity: Who the run is.
    """
    text = "Run aborted" if reason is None else f"Run aborted: {reason}"
    return AgentRunResult(
        success=False,
        status=RunStatus("cancelled", text[:_MAX_STATUS_TEXT]),
        stop_reason="cancelled",
        output=text,
        identity=identity,
        error_info=ErrorInfo(kind="cancellation", message=text, retryable=False),
    )


def merge_usage_reports(entries: Iterable[UsageEntry]) -> tuple[UsageEntry, ...]:
    """Return one entry for each agent, model, provider and phase, in the order in which they occur.

    Args:
        entries: Entries of any number of results.
    """
    merged: dict[tuple[str, str, str, str], UsageEntry] = {}
    for entry in entries:
        key = (entry.agent, entry.model, entry.provider, entry.phase)
        known = merged.get(key)
        merged[key] = (
            entry
            if known is None
            else UsageEntry(
                *key,
                usage=known.usage + entry.usage,
                cost=known.cost + entry.cost,
                requests=known.requests + entry.requests,
            )
        )
    return tuple(merged.values())


def merge_agent_results(results: Sequence[AgentRunResult[Any]]) -> AgentRunResult[Any]:
    """Return the results of one agent's tasks as one.

    Outputs are joined, messages and tool calls follow each other, usage is added up, the last structured value counts.
    It succeeds if all did; else status, stop reason and error are those of the most telling failure.

    Args:
        results: At least one, in the order in which they ended.
    """
    if len(results) == 1:
        return results[0]
    telling = _most_telling(results)
    structured = [result.structured for result in results if result.structured is not None]
    return telling.replace(
        output=_SEPARATOR.join(result.output for result in results if result.output),
        structured=structured[-1] if structured else None,
        messages=joined_messages(results),
        token_usage=sum((result.token_usage for result in results), NO_USAGE),
        usage_report=merge_usage_reports(entry for result in results for entry in result.usage_report),
        tool_calls=tuple(call for result in results for call in result.tool_calls),
        flags=tuple(dict.fromkeys(flag for result in results for flag in result.flags)),
    )


def _most_telling(results: Sequence[AgentRunResult[Any]]) -> AgentRunResult[Any]:
    failed = [result for result in results if not result.success]
    by_code = {result.status.code: result for result in reversed(failed)}  # the first of each
    return next((by_code[code] for code in (*_FIRST, "error") if code in by_code), (failed or results[-1:])[0])


def derive_run_status(
    results: Mapping[str, AgentRunResult[Any]], tasks: Iterable[Task], *, forced: RunStatus | None = None
) -> RunStatus:
    """Return how a run of tasks ended.

    Args:
        results: The results of its tasks, by their ids.
        tasks: Its tasks. What one came to that a plan revision makes up for does not count, nor does its result.
        forced: What ended it from outside its tasks, if anything did.

    Returns:
        The forced status; else the first of ``budget_exhausted``, ``timeout``, ``cancelled`` and ``suspended`` that a
        result has; else ``ok`` if all results succeeded and every task is completed or skipped; else ``rejected`` if
        nothing else went wrong than what a policy refused, else ``error``.
    """
    if forced is not None:
        return forced
    tasks = [*tasks]
    recovered = {task.id for task in tasks if task.recovered_by_revision is not None}
    failed = [result for task_id, result in results.items() if not result.success and task_id not in recovered]
    statuses: dict[StatusCode, RunStatus] = {result.status.code: result.status for result in reversed(failed)}
    for code in _FIRST:
        if code in statuses:
            return statuses[code]
    faults = sum(_is_fault(task) for task in tasks if task.id not in recovered)
    if statuses.keys() == {"rejected"} and len(failed) >= faults:
        return failed[0].status
    for task in tasks:
        if task.status == "failed" and task.id not in recovered:
            return _error(f"task {shown(task.title, 80)} failed: {task.result or 'no reason given'}")
        if not task.is_terminal:
            return _error(f"task {shown(task.title, 80)} is {task.status}")
    return _error(failed[0].status.message or failed[0].output) if failed else RunStatus("ok")


def _is_fault(task: Task) -> bool:
    """Whether something of its own is wrong with a task: it did not fail with another one."""
    return not task.is_terminal or (task.status == "failed" and task.failed_through is None)


def _error(text: str) -> RunStatus:
    return RunStatus("error", redact_sensitive_text(text)[:_MAX_STATUS_TEXT])

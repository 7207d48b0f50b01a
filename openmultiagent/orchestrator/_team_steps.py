"""The steps around a run of tasks or of a team: its budget, and what keeps a user's middleware from hurting it.

They do for these runs what ``run_around`` does for a single agent's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ..agent import RunCall, as_failure
from ..cancellation import CancelToken
from ..errors import ConfigurationError
from ..identity import copy_metadata
from ..outcome import ErrorInfo, ErrorKind, RunStatus, check_result, classify_failure
from ..tasks import TeamRunResult, copy_team_result
from ._gates import cancelled_stop

__all__ = [
    "TeamNext",
    "TeamSteps",
    "copy_team_middleware_result",
    "failed_team_result",
    "stopped_team",
    "stopped_team_result",
]

TeamNext = Callable[[], Awaitable[TeamRunResult]]


class TeamSteps:
    """The steps of one run.

    Args:
        has_middleware: Whether user middleware stands between these steps and the run itself.
    """

    def __init__(self, *, has_middleware: bool) -> None:
        self._has_middleware = has_middleware

    async def budget(self, call: RunCall, call_next: TeamNext) -> TeamRunResult:
        """Start the clock of the run, and fail a run that has used more than it may.

        Args:
            call: The run.
            call_next: The rest of it.
        """
        budget = call.budget
        budget.start()
        result = await call_next()
        if self._has_middleware:  # which may have returned the result of another run
            result = result.replace(total_token_usage=budget.usage, usage_report=budget.usage_report())
        overrun = budget.overrun()
        if overrun is None or result.status.code in ("budget_exhausted", "cancelled", "rejected"):
            return result
        status, info = classify_failure(overrun, attempt=call.identity.attempt)
        return result.replace(success=False, status=status, error_info=info, error=overrun)

    async def guard(self, call: RunCall, call_next: TeamNext) -> TeamRunResult:
        """Turn whatever user middleware does, and what else goes wrong, into a result that belongs to this run.

        Args:
            call: The run.
            call_next: User middleware and the run itself.
        """
        try:
            result = await call_next()
        except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - isolation boundary: a failing middleware is a failed run
            kind: ErrorKind = "callback" if self._has_middleware else "framework"
            return failed_team_result(call, as_failure(error, "a run middleware"), kind=kind)
        if not self._has_middleware:
            return result
        return result.replace(identity=call.trace_ids.fill(call.identity), metadata=copy_metadata(call.metadata))


def failed_team_result(
    call: RunCall, error: Exception, *, kind: ErrorKind | None = None, **fields: Any
) -> TeamRunResult:
    """Return the result of a run that failed outside its tasks.

    Args:
        call: The run.
        error: What was raised.
        kind: Where it came from.
        fields: Further fields of the result.
    """
    status, info = classify_failure(error, kind=kind, attempt=call.identity.attempt)
    return stopped_team_result(call, status, info, **{"error": error, "final_output": info.message or "", **fields})


def stopped_team_result(call: RunCall, status: RunStatus, info: ErrorInfo | None, **fields: Any) -> TeamRunResult:
    """Return the result of a run that ended before it had tasks.

    Args:
        call: The run.
        status: How it ended.
        info: What is known of the failure behind it.
        fields: Further fields of the result.
    """
    made = TeamRunResult(
        success=status.code == "ok",
        status=status,
        error_info=info,
        total_token_usage=call.budget.usage,
        usage_report=call.budget.usage_report(),
        identity=call.trace_ids.fill(call.identity),
        metadata=copy_metadata(call.metadata),
    )
    return made.replace(**fields)


def stopped_team(cancel: CancelToken, call: RunCall, last: TeamRunResult | None) -> TeamRunResult:
    """Return the result of a run whose middleware was stopped.

    Args:
        cancel: What stopped it.
        call: The run.
        last: What the run last came to, if it was begun.
    """
    stop = cancelled_stop(cancel)
    stopped = stopped_team_result(call, RunStatus(stop.status, stop.reason[:256]), stop.error_info)
    if last is None:
        return stopped
    # Where nothing was completed, the output of a failed run may be the text of the failure.
    is_failure = last.status.code in ("error", "rejected") and all(task.status != "completed" for task in last.tasks)
    return last.replace(
        success=False,
        status=stopped.status,
        error_info=stopped.error_info,
        error=None,
        identity=stopped.identity,
        metadata=stopped.metadata,
        final_output="" if is_failure else last.final_output,
    )


def copy_team_middleware_result(result: Any) -> TeamRunResult:
    """Return a copy of what a run middleware returned for such a run.

    Args:
        result: Anything.

    Raises:
        ConfigurationError: It is no result of one.
    """
    if not isinstance(result, TeamRunResult):
        raise ConfigurationError(
            f"a run middleware must return a TeamRunResult for a run of a team or of tasks, got {type(result).__name__}"
        )
    check_result(result, "a run middleware")
    return copy_team_result(result)

"""Trying a task again: what is tried again, after how long, and what all attempts together came to.

Not here: what an attempt is. Invariants: what cannot succeed is not repeated; what failed attempts used is counted.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import anyio

from .._record import record
from ..cancellation import CancelToken
from ..errors import DurableApprovalError
from ..identity import RunIdentity, new_identity
from ..outcome import AgentRunResult, StatusCode, is_retryable_error
from ..usage import NO_USAGE
from ._outcomes import cancelled_result, failed_result, merge_usage_reports

__all__ = ["RetryPolicy", "TaskRetry", "compute_retry_delay", "execute_with_retry", "is_retryable_result"]

_LONGEST: Final = 30.0
"""Seconds."""
_FINAL_STATUS: Final = frozenset[StatusCode](("cancelled", "budget_exhausted", "rejected", "suspended", "skipped"))
_FINAL_KINDS: Final = frozenset({"validation", "budget", "cancellation", "callback"})


class RetryPolicy(Protocol):
    """How often something is tried again, and after how long; every ``TaskSpec`` and ``Task`` says so."""

    @property
    def max_retries(self) -> int:
        """The most attempts after the first."""
        ...

    @property
    def retry_delay(self) -> float:
        """Seconds before the first of them."""
        ...

    @property
    def retry_backoff(self) -> float:
        """What each further delay is multiplied by."""
        ...


@record(kw_only=True)
class TaskRetry:
    """An attempt at a task failed, and there will be another."""

    attempt: int
    """The number of the one that failed, from 1."""
    max_attempts: int
    error: str
    """What failed."""
    next_delay: float
    """Seconds until the next attempt."""


def compute_retry_delay(base: float, backoff: float, attempt: int) -> float:
    """Return the seconds to wait after a failed attempt: ``base * backoff ** (attempt - 1)``, 30 at most.

    Args:
        base: Seconds after the first attempt.
        backoff: What each further delay is multiplied by; 1 or more.
        attempt: The number of the attempt that failed, from 1.
    """
    if base <= 0:
        return 0.0
    try:
        return float(min(base * float(max(backoff, 1.0)) ** (attempt - 1), _LONGEST))
    except OverflowError:
        return _LONGEST


def is_retryable_result(result: AgentRunResult[Any]) -> bool:
    """Say whether the same run may succeed when it is tried again.

    Args:
        result: What it came to.
    """
    if result.success or result.status.code in _FINAL_STATUS:
        return False
    info = result.error_info
    if info is not None and (info.retryable is False or info.kind in _FINAL_KINDS):
        return False
    return result.error is None or is_retryable_error(result.error)


async def execute_with_retry(
    run: Callable[[], Awaitable[AgentRunResult[Any]]],
    policy: RetryPolicy,
    on_retry: Callable[[TaskRetry], object] | None = None,
    *,
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    cancel: CancelToken | None = None,
    rng: Callable[[], float] = random.random,
    identity: RunIdentity | None = None,
) -> AgentRunResult[Any]:
    """Run something until it succeeds, cannot succeed, or has been tried as often as the policy says.

    Args:
        run: Makes one attempt; what it raises is a failed attempt, unless it is a cancellation or the suspension of a
            run.
        policy: How often, and after how long.
        on_retry: Called before each wait.
        sleep: Waits for so many seconds.
        cancel: Its token ends a wait, and no attempt begins after it.
        rng: A number from 0 to 1: a wait lasts between half and all of the delay.
        identity: The identity of results that are made here, for attempts that have none.

    Returns:
        The last attempt's result, with the usage of all that had one.
    """
    who = identity or new_identity()
    attempts = policy.max_retries + 1
    before: list[AgentRunResult[Any]] = []
    for attempt in range(1, attempts + 1):
        if cancel is not None and cancel.cancelled:
            stopped = cancelled_result(cancel.reason, identity=who)
            return _with_usage_of(before, _stopped(before.pop(), stopped) if before else stopped)
        result = await _attempt(run, who)
        if attempt == attempts or not is_retryable_result(result):
            return _with_usage_of(before, result)
        before.append(result)
        delay = compute_retry_delay(policy.retry_delay, policy.retry_backoff, attempt)
        delay = delay / 2 + rng() * delay / 2
        if on_retry is not None:
            error = result.status.message or result.output
            on_retry(TaskRetry(attempt=attempt, max_attempts=attempts, error=error, next_delay=delay))
        await _wait(delay, sleep, cancel)
    raise AssertionError("a policy allows at least one attempt")  # pragma: no cover - the last attempt returns


async def _attempt(run: Callable[[], Awaitable[AgentRunResult[Any]]], identity: RunIdentity) -> AgentRunResult[Any]:
    try:
        return await run()
    except DurableApprovalError:
        raise
    except Exception as error:  # noqa: BLE001 - isolation boundary: a failed attempt is a result
        return failed_result(error, identity=identity)


async def _wait(delay: float, sleep: Callable[[float], Awaitable[object]], cancel: CancelToken | None) -> None:
    if cancel is None:
        await sleep(delay)
        return
    with cancel.scope():
        await sleep(delay)


def _stopped(last: AgentRunResult[Any], stopped: AgentRunResult[Any]) -> AgentRunResult[Any]:
    """Return what the last attempt had come to, as that of a run whose token took its further attempts."""
    return last.replace(status=stopped.status, stop_reason="cancelled", error_info=stopped.error_info, error=None)


def _with_usage_of(before: Sequence[AgentRunResult[Any]], last: AgentRunResult[Any]) -> AgentRunResult[Any]:
    if not before:
        return last
    attempts = [*before, last]
    return last.replace(
        token_usage=sum((result.token_usage for result in attempts), NO_USAGE),
        usage_report=merge_usage_reports(entry for result in attempts for entry in result.usage_report),
    )

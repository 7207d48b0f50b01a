"""The orchestrator's own steps around a run, and what keeps a user's steps from hurting it.

From the outside in a run passes: evaluation > tracing > progress > budget > user middleware > the agent. The first
two belong to their parts; the next two are here, in one step, and what keeps user middleware from hurting the run with
them. Every step enters and leaves in the same task, and none catches a cancellation.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import anyio

from ..agent import (
    AgentFinished,
    AgentStarted,
    BudgetExceeded,
    RunCall,
    RunEnvironment,
    RunNext,
    as_failure,
    cancelled_result,
    copy_input_payload,
    failed_result,
    input_payload,
)
from ..budget import BudgetError
from ..errors import ConfigurationError
from ..events import EventBus
from ..identity import copy_metadata
from ..outcome import AgentRunResult, check_result, classify_failure, copy_result

__all__ = ["run_around"]

Result = AgentRunResult[Any]


async def run_around(
    bus: EventBus,
    environment: Callable[[RunCall], RunEnvironment],
    call: RunCall,
    call_next: RunNext,
    advised: bool,  # noqa: FBT001 - called in one place, by position, which is quicker
) -> Result:
    """Emit the first and the last event of a run, the last one on every path, and keep its budget.

    Args:
        bus: The run's events.
        environment: Makes the surroundings of the run from its call.
        call: The run.
        call_next: User middleware and the agent.
        advised: Whether there is user middleware.
    """
    if bus.has_subscriptions or bus.readers:  # that is `has_listeners`, without the call that it costs every run
        payload, is_prompt = input_payload(call.source), call.source.prompt is not None
        bus.emit(AgentStarted(payload, call.name, None, copy_input_payload, is_prompt))
    else:
        bus.skip()
    call.budget.start()
    result: Result | None = None
    try:
        try:
            result = await call_next()
        except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - isolation boundary: a failing middleware is a failed run
            result = failed_result(environment(call), as_failure(error, "a run middleware"), kind="callback")
        else:
            if advised:
                result = _own_result(call, result)
        if call.budget.is_limited or result.error is not None:
            result = _within_budget(bus, call, result)
        return result
    finally:
        if bus.has_subscriptions or bus.readers:
            # A copy: the caller may change its result before a listener has looked at this one.
            final = cancelled_result(environment(call)) if result is None else copy_result(result)
            bus.emit(AgentFinished(final, call.name, None, copy_result, True))


def _within_budget(bus: EventBus, call: RunCall, result: Result) -> Result:
    """Return the result of a run that may have used more than it may; say so when it has."""
    overrun = call.budget.overrun()
    if overrun is not None and result.status.code != "budget_exhausted":
        status, info = classify_failure(overrun, attempt=call.identity.attempt)
        result = result.replace(success=False, status=status, stop_reason="budget", error_info=info, error=overrun)
    if result.status.code == "budget_exhausted":
        error = result.error
        if isinstance(error, BudgetError):
            bus.emit(BudgetExceeded(agent=call.name, payload=error, copy=copy.copy))
    return result


def _own_result(call: RunCall, result: Result) -> Result:
    """Return what user middleware made of a run as its own: it may have returned the result of another one."""
    budget = call.budget
    return result.replace(
        identity=call.trace_ids.fill(call.identity),
        metadata=copy_metadata(call.source_metadata),
        token_usage=budget.usage,
        usage_report=budget.usage_report(),
        agent=call.name,
        duration=budget.elapsed(),
    )


def copy_middleware_result(result: Result) -> Result:
    """Return a copy of what a run middleware returned.

    Args:
        result: Anything.

    Raises:
        ConfigurationError: It is no result.
    """
    if not isinstance(result, AgentRunResult):
        raise ConfigurationError(f"a run middleware must return an AgentRunResult, got {type(result).__name__}")
    check_result(result, "a run middleware")
    if result.success != (result.status.code == "ok"):
        raise ConfigurationError(
            f"a run middleware returned a result with success={result.success} and status {result.status.code!r}:"
            " success is True exactly when the status is ok; replace both"
        )
    return copy_result(result)

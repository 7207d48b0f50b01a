"""The orchestrator's own steps around a run, and what keeps a user's steps from hurting it.

From the outside in a run passes: evaluation > tracing > progress > budget > user middleware > the agent. The first
two belong to their parts; the others are here. Every step enters and leaves in the same task, and none catches a
cancellation.
"""

from __future__ import annotations

import asyncio
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
from ..outcome import AgentRunResult, classify_failure, copy_result

__all__ = ["RunSteps"]

Result = AgentRunResult[Any]


class RunSteps:
    """The steps of one run.

    Args:
        bus: The run's events.
        environment: Makes the surroundings of the run from its call.
        has_middleware: Whether user middleware stands between these steps and the agent.
    """

    def __init__(
        self, bus: EventBus, environment: Callable[[RunCall], RunEnvironment], *, has_middleware: bool
    ) -> None:
        self._bus = bus
        self._environment = environment
        self._has_middleware = has_middleware

    async def progress(self, call: RunCall, call_next: RunNext) -> Result:
        """Emit the first and the last event of the run, the last one on every path.

        Args:
            call: The run.
            call_next: The rest of it.
        """
        bus = self._bus
        if bus.has_listeners:
            bus.emit(AgentStarted(agent=call.name, payload=input_payload(call.source), copy=copy_input_payload))
        else:
            bus.skip()
        result: Result | None = None
        try:
            result = await call_next()
            return result
        finally:
            if bus.has_listeners:
                # A copy: the caller may change its result before a listener has looked at this one.
                final = cancelled_result(self._environment(call)) if result is None else copy_result(result)
                bus.emit(AgentFinished(agent=call.name, payload=final, copy=copy_result))

    async def budget(self, call: RunCall, call_next: RunNext) -> Result:
        """Say so when the run has used more than it may.

        Args:
            call: The run.
            call_next: The rest of it.
        """
        budget = call.budget
        budget.start()
        result = await call_next()
        if self._has_middleware:  # which may have returned the result of another run
            result = result.replace(
                token_usage=budget.usage,
                usage_report=budget.usage_report(),
                agent=call.name,
                duration=budget.elapsed(),
            )
        overrun = budget.overrun()
        if overrun is not None and result.status.code != "budget_exhausted":
            status, info = classify_failure(overrun, attempt=call.identity.attempt)
            result = result.replace(success=False, status=status, stop_reason="budget", error_info=info, error=overrun)
        if result.status.code == "budget_exhausted":
            error = result.error
            if isinstance(error, BudgetError):
                self._bus.emit(BudgetExceeded(agent=call.name, payload=error))
        return result

    async def guard(self, call: RunCall, call_next: RunNext) -> Result:
        """Turn whatever user middleware does into a result that belongs to this run.

        Args:
            call: The run.
            call_next: User middleware and the agent.
        """
        try:
            result = await call_next()
        except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - isolation boundary: a failing middleware is a failed run
            return failed_result(self._environment(call), as_failure(error, "a run middleware"), kind="callback")
        if not self._has_middleware:
            return result
        return result.replace(identity=call.trace_ids.fill(call.identity), metadata=copy_metadata(call.metadata))


def copy_middleware_result(result: Result) -> Result:
    """Return a copy of what a run middleware returned.

    Args:
        result: Anything.

    Raises:
        ConfigurationError: It is no result.
    """
    if not isinstance(result, AgentRunResult):
        raise ConfigurationError(f"a run middleware must return an AgentRunResult, got {type(result).__name__}")
    return copy_result(result)

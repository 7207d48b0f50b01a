"""One run of an agent, from its validated input to its result.

The single engine behind ``Agent.run``, ``prompt`` and ``stream`` and behind the orchestrator. A run that fails
returns a result, with the messages and the usage that it had got to; the only thing that leaves here as an exception
is a cancellation from outside (and what ends the process). The history in the result is closed on every path.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import anyio

from .._detached import cancelled_from_outside
from ..adapters import AdapterOwner, LLMAdapter
from ..budget import BudgetError
from ..errors import (
    ConfigurationError,
    InvalidMessageError,
    OpenMultiAgentError,
    PolicyError,
    RunError,
    StructuredOutputValidationError,
)
from ..identity import copy_metadata
from ..messages import LLMMessage
from ..outcome import AgentRunResult, ErrorInfo, ErrorKind, RunStatus, StopReason, classify_failure, make_result
from ..tools import OpenToolsets, Tool
from ._config import AgentConfig
from ._environment import RunEnvironment, lease_adapter
from ._events import ToolReturned, copy_block
from ._hooks import apply_after_run, apply_before_run
from ._runner import AgentRunner
from ._turns import RunProgress

__all__ = ["as_failure", "cancelled_result", "execute_agent", "failed_result"]

Result = AgentRunResult[Any]

_OK = RunStatus("ok")


async def execute_agent(
    config: AgentConfig, messages: list[LLMMessage], environment: RunEnvironment, owner: AdapterOwner
) -> Result:
    """Run an agent in a fresh conversation and return its result.

    Args:
        config: The agent.
        messages: The validated input; owned by the run from now on.
        environment: The run's surroundings.
        owner: Lends the adapter; the run closes it at its end unless the owner keeps it.
    """
    adapter, lease = config.adapter, None
    if adapter is None or config.egress_policy is not None:
        try:
            lease = lease_adapter(config, owner)
        except PolicyError as error:
            return failed_result(environment, error)
        adapter = lease.adapter
    run = _Run(config, messages, environment, adapter)
    cancel = environment.cancel
    try:
        work = run.within_limits if config.before_run is None and config.after_run is None else run.with_hooks
        if cancel is None:
            return await work()
        swallowing: ExitStack[bool] = ExitStack()
        with swallowing:
            swallowing.enter_context(cancel.scope())  # type: ignore[arg-type]  # typed as if it did not swallow
            return await work()
    finally:
        try:
            if run.toolsets is not None:
                await run.toolsets.aclose()
        finally:
            if lease is not None and lease.owned:
                await lease.aclose()
    # Only the token's scope swallows a cancellation, and so leads here.
    await run.tell_closed()
    return _stopped(run.progress, environment, cancel.reason)


class _Run:
    __slots__ = ("adapter", "config", "environment", "progress", "runner", "toolsets")

    def __init__(
        self, config: AgentConfig, messages: list[LLMMessage], environment: RunEnvironment, adapter: LLMAdapter
    ) -> None:
        self.config = config
        self.environment = environment
        self.adapter = adapter
        self.progress = RunProgress(messages)
        self.runner: AgentRunner | None = None
        self.toolsets: OpenToolsets | None = None

    async def with_hooks(self) -> Result:
        if self.config.before_run is not None:
            try:
                effective = await apply_before_run(self.config, list(self.progress.conversation))
            except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - isolation boundary: a hook fails the run, not its caller
                return _failed(self.progress, self.environment, as_failure(error, "before_run"), "callback", None)
            self.progress = RunProgress(effective)
        result = await self.within_limits()
        if self.config.after_run is None:
            return result
        if result.error is not None and result.status.code != "budget_exhausted" and result.stop_reason != "timeout":
            return result  # there is no answer for the hook to look at
        try:
            return await apply_after_run(self.config, result)
        except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - isolation boundary: a hook fails the run, not its caller
            return _failed(self.progress, self.environment, as_failure(error, "after_run"), "callback", None)

    async def within_limits(self) -> Result:
        error: Exception | None = None
        is_over = False
        timeout, scope = self.config.timeout, self.environment.budget
        seconds = scope.seconds_left() if scope.is_limited else None
        is_budget = seconds is not None and (timeout is None or seconds <= timeout)
        limit = seconds if is_budget else timeout
        if limit is None:
            error = await self.to_the_end()
        else:
            with anyio.move_on_after(limit) as timer:
                error = await self.to_the_end()
            # Also when a middleware has swallowed the cancellation: an answer after the limit comes too late.
            is_over = timer.cancel_called
        if self.progress.closed_early:
            await self.tell_closed()
        if is_over and not is_budget:
            return _timed_out(self.progress, self.config, self.environment)
        if is_over:
            error = self.environment.budget.out_of_time()
        if error is not None:
            return _failed(self.progress, self.environment, error, _kind_of(error, self.runner), self.adapter.name)
        return _finished(self.progress, self.environment)

    async def to_the_end(self) -> Exception | None:
        """Go through the turns and close the history; return what made the run fail."""
        try:
            tools = self.config.grants.tools if not self.config.grants.toolsets else await self.open_tools()
            self.runner = AgentRunner(self.config, self.adapter, self.environment, self.progress, tools)
            await self.runner.run()
        except Exception as error:  # noqa: BLE001 - isolation boundary: a failing run is a result
            return error
        except (anyio.get_cancelled_exc_class(), asyncio.CancelledError) as caught:
            if cancelled_from_outside():
                raise
            failure = RunError("the model call was cancelled by something that the adapter or a middleware uses")
            failure.__cause__ = caught
            return failure
        finally:
            self.progress.close()
        return None

    async def open_tools(self) -> tuple[Tool, ...]:
        """Open the toolsets and return all tools that are granted."""
        grants = self.config.grants
        self.toolsets = await self.environment.toolsets.open(grants.toolsets, agent=self.config.name)
        tools = grants.with_opened(self.toolsets.tools)
        if self.environment.confirmation is not None:
            self.environment.confirmation.look_at(tools)
        return tools

    async def tell_closed(self) -> None:
        """Tell a stream of the calls that were announced and then closed without being finished."""
        sink, closed = self.environment.sink, self.progress.closed_early
        self.progress.closed_early = ()
        if sink is not None:
            for block in closed:
                await sink(ToolReturned(agent=self.config.name, payload=block, copy=copy_block))


def _kind_of(error: Exception, runner: AgentRunner | None) -> ErrorKind | None:
    if runner is None:
        return "validation" if isinstance(error, ConfigurationError) else "tool"
    if error is runner.model.adapter_error:
        return "validation" if isinstance(error, ConfigurationError) else "provider"
    if isinstance(error, StructuredOutputValidationError):
        return "validation"
    if isinstance(error, InvalidMessageError):
        return "provider"  # what the adapter returned is no assistant turn
    if not isinstance(error, OpenMultiAgentError) or type(error) is RunError:
        return "callback"  # a middleware, or the cost estimator
    return None


def _finished(progress: RunProgress, environment: RunEnvironment) -> Result:
    scope = environment.budget
    overrun = scope.overrun() if scope.is_limited else None
    if overrun is not None:
        return _failed(progress, environment, overrun, None, None)
    status = _OK if environment.confirmation is None else environment.confirmation.status
    return _result(progress, environment, status=status, stop_reason=progress.stop_reason)


def _stopped(progress: RunProgress, environment: RunEnvironment, message: str | None) -> Result:
    info = ErrorInfo(kind="cancellation", message=message, retryable=False)
    status = RunStatus("cancelled", message)
    return _result(progress, environment, status=status, stop_reason="cancelled", error_info=info)


def _timed_out(progress: RunProgress, config: AgentConfig, environment: RunEnvironment) -> Result:
    error = TimeoutError(f'Agent "{config.name}" exceeded its run timeout of {config.timeout:g}s')
    info = ErrorInfo(kind="timeout", name="TimeoutError", message=str(error), retryable=True)
    status = RunStatus("timeout", str(error))
    return _result(progress, environment, status=status, stop_reason="timeout", error_info=info, error=error)


def _failed(
    progress: RunProgress,
    environment: RunEnvironment,
    error: Exception,
    kind: ErrorKind | None,
    provider: str | None,
) -> Result:
    status, info = classify_failure(error, kind=kind, provider=provider, attempt=environment.identity.attempt)
    failed = _result(
        progress, environment, status=status, stop_reason=_stop_reason(status), error_info=info, error=error
    )
    if isinstance(error, BudgetError | StructuredOutputValidationError):
        return failed  # the answers before the failure still are the output
    return failed.replace(output=info.message or "")


def _stop_reason(status: RunStatus) -> StopReason:
    if status.code == "budget_exhausted":
        return "budget"
    return "timeout" if status.code == "timeout" else "error"


def _result(
    progress: RunProgress,
    environment: RunEnvironment,
    *,
    status: RunStatus,
    stop_reason: StopReason,
    error_info: ErrorInfo | None = None,
    error: Exception | None = None,
) -> Result:
    confirmation = environment.confirmation
    return make_result(  # in the order of the fields
        status.code == "ok",
        status,
        stop_reason,
        progress.output(),
        progress.structured if status.code == "ok" else None,
        progress.produced(),
        environment.budget.usage,
        environment.budget.usage_report(),
        tuple(progress.records),
        environment.identity,
        error_info,
        error,
        None if environment.metadata is None else copy_metadata(environment.metadata),
        progress.flags if confirmation is None else (*confirmation.flags, *progress.flags),
        environment.budget.name,
        environment.budget.elapsed(),
    )


def as_failure(error: BaseException, what: str) -> Exception:
    """Return what a user's callable raised as the failure of the run; a cancellation from outside goes on.

    Args:
        error: An exception, or a cancellation.
        what: The callable, for the text.
    """
    if isinstance(error, Exception):
        return error
    if cancelled_from_outside():
        raise error
    failure = RunError(f"{what} was cancelled by something that it uses")
    failure.__cause__ = error
    return failure


def failed_result(environment: RunEnvironment, error: Exception, *, kind: ErrorKind | None = None) -> Result:
    """Return the result of a run that failed outside its turns.

    Args:
        environment: The run's surroundings.
        error: What was raised.
        kind: Where it came from.
    """
    return _failed(RunProgress([]), environment, error, kind, None)


def cancelled_result(environment: RunEnvironment, *, reason: str | None = None) -> Result:
    """Return the result of a run that was cancelled before its first turn.

    Args:
        environment: The run's surroundings.
        reason: Why, as the canceller said.
    """
    return _stopped(RunProgress([]), environment, reason)

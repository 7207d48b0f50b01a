"""One entry-point call, from the prepared run to its result: the onion.

Every entry point goes through ``enclose``, which puts around a run what all kinds of runs have in common; ``execute``
is that of a single agent. The chain is composed here, once per run, and the core builds a fresh agent inside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

from .._log import enter_run, leave_run
from .._middleware import compose_run, isolate_results
from .._record import record
from ..adapters import AdapterOwner, ModelMiddleware
from ..agent import AgentConfig, EventSink, RunAttempts, RunCall, RunEnvironment, RunMiddleware, RunNext, execute_agent
from ..cancellation import CancelToken
from ..evaluation import EvaluationSink
from ..events import EventBus
from ..outcome import AgentRunResult
from ..tools import Confirmation, ToolGate, ToolMiddleware, ToolsetOwner
from ..tracing import Tracing, TracingSteps
from ._activity import Activity
from ._progress import Progress
from ._steps import copy_middleware_result, run_around
from ._stopping import MiddlewareStop, stopped_agent

__all__ = ["Machinery", "enclose", "execute"]

R = TypeVar("R")
Result = AgentRunResult[Any]


@record(kw_only=True)
class Machinery:
    """What all runs of an orchestrator have in common."""

    evaluation: EvaluationSink
    progress: Progress
    tracing: Tracing
    adapters: AdapterOwner
    middleware: Sequence[RunMiddleware]
    model_middleware: Sequence[ModelMiddleware]
    tool_middleware: Sequence[ToolMiddleware]
    on_tool_call: ToolGate | None
    confirms: bool
    """Whether calls that have consequences need a confirmation."""
    toolsets: ToolsetOwner
    activity: Activity = field(default_factory=Activity)


def execute(
    machinery: Machinery,
    call: RunCall,
    config: AgentConfig,
    bus: EventBus,
    *,
    cancel: CancelToken | None = None,
    sink: EventSink | None = None,
) -> Coroutine[Any, Any, Result]:
    """Return a coroutine that runs an agent with everything around it.

    Args:
        machinery: What the orchestrator has.
        call: The run.
        config: The agent.
        bus: The run's progress events.
        cancel: Stops the run.
        sink: Where the events of a stream go, if there is one.
    """
    tracing = machinery.tracing.steps()
    core = _Core(machinery, config, tracing, cancel, sink)
    operation: RunNext = partial(core.run, call)
    if machinery.middleware:
        operation = _with_user_middleware(machinery, core, call, cancel)
    run = partial(run_around, bus, core.environment, call, operation, bool(machinery.middleware))
    return enclose(machinery, call, bus, run, tracing)


async def enclose(
    machinery: Machinery, call: RunCall, bus: EventBus, operation: Callable[[], Awaitable[R]], tracing: TracingSteps
) -> R:
    """Do a run with spans, evaluation, listeners and log lines around it, and count it.

    Args:
        machinery: What the orchestrator has.
        call: The run.
        bus: Its progress events; closed at the end.
        operation: The run with its own steps. The steps here look at what the results of all runs have in common.
        tracing: The steps of its spans.
    """
    # Our own steps only look at the call, so they all share it.
    step: Any  # of the run seam, typed for the results of agents
    for step in reversed(tracing.run):
        operation = partial(step, call, operation)
    if machinery.evaluation.is_active:
        step = machinery.evaluation.around
        operation = partial(step, call, operation)
    source, activity, progress = partial(_log_ids, call), machinery.activity, machinery.progress
    token = activity.runs[source] = enter_run(source)
    if call.kind == "agent":  # those of a team are counted one by one
        activity.running.add(call)
    waits, is_served = not progress.is_owned, False  # now: a run does not notice when that changes
    try:
        try:
            if bus.needs_service:
                progress.serve(bus, waits=waits)
                is_served = True
            result = await operation()
        finally:
            bus.close()
            if bus.needs_service or progress.exits:
                await progress.settle(bus, waits=waits, is_served=is_served)
        activity.count(result)
        return result
    finally:
        activity.running.discard(call)
        leave_run(token)
        activity.end(source)


def _log_ids(call: RunCall) -> tuple[str, str, str]:
    identity = call.trace_ids.fill(call.identity)
    return identity.run_id, identity.trace_id, identity.root_span_id


def _with_user_middleware(machinery: Machinery, core: _Core, call: RunCall, cancel: CancelToken | None) -> RunNext:
    user = [isolate_results(step, copy_middleware_result) for step in machinery.middleware]
    if cancel is None:
        return partial(compose_run(user, core.run), call)

    def stopped(this: RunCall, last: Result | None) -> Result:
        return stopped_agent(core.environment(this), cancel.reason, last)

    stop = MiddlewareStop(cancel, core.run, stopped)
    return partial(stop.around, call, partial(compose_run(user, stop.core), call))


class _Core:
    """The agent in the middle of it all: a fresh one for each time that it is run, since a middleware may do so again.

    Its conversation, its tools and its adapter lease belong to that time alone.
    """

    __slots__ = ("_attempts", "_cancel", "_config", "_machinery", "_sink", "_tracing")

    def __init__(
        self,
        machinery: Machinery,
        config: AgentConfig,
        tracing: TracingSteps,
        cancel: CancelToken | None,
        sink: EventSink | None,
    ) -> None:
        self._machinery = machinery
        self._config = config
        self._tracing = tracing
        self._cancel = cancel
        self._sink = sink
        self._attempts = RunAttempts(sink, config.name) if machinery.middleware and sink is not None else None

    def run(self, call: RunCall) -> Coroutine[Any, Any, Result]:
        if self._attempts is not None:
            return self._attempts.make(partial(self._streamed, call))
        return execute_agent(self._config, call.source.copy(), self.environment(call), self._machinery.adapters)

    def _streamed(self, call: RunCall, sink: EventSink | None) -> Coroutine[Any, Any, Result]:
        environment = self.environment(call)
        environment.sink = sink
        return execute_agent(self._config, call.source.copy(), environment, self._machinery.adapters)

    def environment(self, call: RunCall) -> RunEnvironment:
        machinery, tracing, grants = self._machinery, self._tracing, self._config.grants
        confirmation: Confirmation | None = None
        if grants.is_consequential or grants.toolsets:
            confirmation = Confirmation(is_required=machinery.confirms, is_granted=grants.is_consequential)
        # In the order of the fields: by keyword it takes twice as long, and every run has one.
        return RunEnvironment(
            call.trace_ids.fill(call.identity),
            call.budget,
            "agent",
            machinery.model_middleware,
            machinery.tool_middleware,
            tracing.model,
            tracing.tool,
            machinery.on_tool_call,
            confirmation,
            machinery.toolsets,
            self._sink,
            self._cancel,
            call.source_metadata,
        )

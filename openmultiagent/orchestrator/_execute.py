"""One entry-point call, from the prepared run to its result: the onion.

Every entry point goes through ``execute``. The chain is composed here, once per run, and the core builds a fresh
agent inside it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._log import enter_run, leave_run
from .._middleware import compose_run, isolate_results
from ..adapters import AdapterOwner, ModelMiddleware
from ..agent import AgentConfig, EventSink, RunCall, RunEnvironment, RunMiddleware, RunNext, execute_agent
from ..cancellation import CancelToken
from ..evaluation import EvaluationSink
from ..events import EventBus
from ..outcome import AgentRunResult
from ..tools import ToolGate, ToolMiddleware, ToolsetOwner
from ..tracing import Tracing, TracingSteps
from ._progress import Progress
from ._steps import RunSteps, copy_middleware_result

__all__ = ["Machinery", "execute"]

Result = AgentRunResult[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
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
    toolsets: ToolsetOwner


async def execute(
    machinery: Machinery,
    call: RunCall,
    config: AgentConfig,
    bus: EventBus,
    *,
    cancel: CancelToken | None = None,
    sink: EventSink | None = None,
) -> Result:
    """Run an agent with everything around it.

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
        user = [isolate_results(step, copy_middleware_result) for step in machinery.middleware]
        operation = partial(compose_run(user, core.run), call)
    steps = RunSteps(bus, core.environment, has_middleware=bool(machinery.middleware))
    operation = partial(steps.around, call, operation)
    # Our own steps only look at the call, so they all share it.
    for step in reversed(tracing.run):
        operation = partial(step, call, operation)
    if machinery.evaluation.is_active:
        operation = partial(machinery.evaluation.around, call, operation)
    token = enter_run(partial(_log_ids, call))
    try:
        if bus.has_subscriptions:
            return await machinery.progress.serve_while(bus, operation)
        return await operation()
    finally:
        bus.close()
        leave_run(token)


def _log_ids(call: RunCall) -> tuple[str, str, str]:
    identity = call.trace_ids.fill(call.identity)
    return identity.run_id, identity.trace_id, identity.root_span_id


class _Core:
    """The agent in the middle of it all: a fresh one for each time that it is run, since a middleware may do so again.

    Its conversation, its tools and its adapter lease belong to that time alone.
    """

    __slots__ = ("_cancel", "_config", "_machinery", "_sink", "_tracing")

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

    def run(self, call: RunCall) -> Coroutine[Any, Any, Result]:
        return execute_agent(self._config, call.source.copy(), self.environment(call), self._machinery.adapters)

    def environment(self, call: RunCall) -> RunEnvironment:
        machinery, tracing = self._machinery, self._tracing
        return RunEnvironment(
            call.trace_ids.fill(call.identity),
            call.budget,
            model_middleware=machinery.model_middleware,
            tool_middleware=machinery.tool_middleware,
            model_tracing=tracing.model,
            tool_tracing=tracing.tool,
            on_tool_call=machinery.on_tool_call,
            toolsets=machinery.toolsets,
            sink=self._sink,
            cancel=self._cancel,
            metadata=call.source_metadata,
        )

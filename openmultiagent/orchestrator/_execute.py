"""One entry-point call, from the prepared run to its result: the onion.

Every entry point goes through ``execute``. The chain is composed here, once per run, and the core builds a fresh
agent inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._middleware import compose_run, isolate_results
from ..adapters import AdapterOwner, ModelMiddleware
from ..agent import AgentConfig, EventSink, RunCall, RunEnvironment, RunMiddleware, RunNext, execute_agent
from ..cancellation import CancelToken
from ..evaluation import EvaluationSink
from ..events import EventBus
from ..outcome import AgentRunResult
from ..tools import ToolGate, ToolMiddleware, ToolsetOwner
from ..tracing import Tracing
from ._progress import Progress
from ._steps import RunSteps, copy_middleware_result
from ._stopping import MiddlewareStop, stopped_agent

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

    def environment(this: RunCall) -> RunEnvironment:
        return RunEnvironment(
            this.trace_ids.fill(this.identity),
            this.budget,
            model_middleware=machinery.model_middleware,
            tool_middleware=machinery.tool_middleware,
            model_tracing=tracing.model,
            tool_tracing=tracing.tool,
            on_tool_call=machinery.on_tool_call,
            toolsets=machinery.toolsets,
            sink=sink,
            cancel=cancel,
            metadata=this.metadata,
        )

    async def core(this: RunCall) -> Result:
        # A fresh agent: its conversation, tools and adapter lease belong to this call alone.
        return await execute_agent(config, this.source.copy(), environment(this), machinery.adapters)

    def stopped(this: RunCall, last: Result | None) -> Result:
        return stopped_agent(environment(this), None if cancel is None else cancel.reason, last)

    steps = RunSteps(bus, environment, has_middleware=bool(machinery.middleware))
    operation: RunNext = partial(core, call)
    around: tuple[RunMiddleware, ...] = (*tracing.run, steps.progress, steps.budget, steps.guard)
    if machinery.middleware:
        stop = None if cancel is None else MiddlewareStop(cancel, core, stopped)
        user = [isolate_results(step, copy_middleware_result) for step in machinery.middleware]
        operation = partial(compose_run(user, core if stop is None else stop.core), call)
        if stop is not None:
            around = (*tracing.run, steps.progress, steps.budget, stop.around, steps.guard)
    # Our own steps only look at the call, so they all share it; evaluation runs the application's sampler.
    for step in reversed(around):
        operation = partial(step, call, operation)
    if machinery.evaluation.is_active:
        operation = partial(machinery.evaluation.around, call.fork(), operation)
    return await machinery.progress.serve_while(bus, operation)

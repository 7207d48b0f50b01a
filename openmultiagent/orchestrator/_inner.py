"""Runs of agents inside a run: the coordinator, workers, and those that a worker delegates to.

Each has a fresh agent, a scope of its own below the run's in the ledger, and a span below the one that is current.
Neither user run middleware nor evaluation stand around it: those are for what an entry point was called for. Not here:
progress events, which tell of tasks and phases, not of single attempts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from ..adapters import AdapterOwner
from ..agent import (
    AgentConfig,
    BudgetExceeded,
    EventSink,
    RunCall,
    RunEnvironment,
    RunNext,
    TurnRestarted,
    execute_agent,
    failed_result,
)
from ..budget import BudgetError, BudgetScope
from ..cancellation import CancelToken
from ..errors import ConfigurationError
from ..events import Event, EventBus
from ..identity import RunIdentity, RunLink
from ..messages import LLMMessage, PreparedRunInput, Role, TextBlock
from ..outcome import AgentRunResult
from ..tasks import ModelRoute, with_route
from ..tools import Confirmation
from ._execute import Machinery

__all__ = ["InnerRuns", "is_providers_moment"]

Result = AgentRunResult[Any]


class InnerRuns:
    """Runs agents for one run.

    Args:
        machinery: What the orchestrator has.
        call: The run that they belong to.
        bus: Its progress events.
        cancel: Stops it.
        sink: Where the events of its stream go, if there is one.
        confirmation: What the run knows of calls that have consequences; None where that plays no part.
    """

    def __init__(
        self,
        machinery: Machinery,
        call: RunCall,
        bus: EventBus,
        *,
        cancel: CancelToken | None = None,
        sink: EventSink | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        self._machinery = machinery
        self._call = call
        self._bus = bus
        self._cancel = cancel
        self._sink = sink
        self._confirmation = confirmation
        self._steps = machinery.tracing.steps()
        self._has_told_overrun = False
        # Without spans and metrics nothing stands around an inner run: its log lines carry the ids of the whole run.
        self._around = self._steps.run if machinery.tracing.is_active or len(self._steps.run) > 1 else ()

    @cached_property
    def identity(self) -> RunIdentity:
        """Who the run is, with the ids of its span."""
        return self._call.trace_ids.fill(self._call.identity)

    @property
    def adapters(self) -> AdapterOwner:
        """Lends adapters, and keeps them between runs if it wants to."""
        return self._machinery.adapters

    def confirm(self) -> None:
        """Take what follows from the plan of the run for confirmed."""
        if self._confirmation is not None:
            self._confirmation.is_given = True

    async def run(
        self,
        config: AgentConfig,
        source: PreparedRunInput,
        *,
        phase: str,
        budget: BudgetScope,
        task: str | None = None,
        links: Sequence[RunLink] = (),
        route: ModelRoute | None = None,
    ) -> Result:
        """Run a fresh agent and return its result.

        Args:
            config: The agent, with the orchestrator's defaults.
            source: Its input, which nobody changes.
            phase: What it is for, in the usage report.
            budget: Its own scope, below the run's.
            task: Id of the task that it works on, if any.
            links: What its span is linked to.
            route: The model to use instead of its own; those after it are tried at once when a provider is down.
        """
        once = partial(self._once, source=source, phase=phase, budget=budget, task=task, links=links)
        if route is None:
            return await once(config)
        result = await once(with_route(config, route))
        for further in route.fallback:
            if not is_providers_moment(result):
                break
            if self._sink is not None:
                await self._told(self._sink, task)(TurnRestarted(agent=config.name, payload=1))
            result = await once(with_route(config, further))
        return result

    async def _once(
        self,
        config: AgentConfig,
        *,
        source: PreparedRunInput,
        phase: str,
        budget: BudgetScope,
        task: str | None,
        links: Sequence[RunLink],
    ) -> Result:
        call = self._call
        operation: RunNext = partial(self._core, config, source, phase, budget, task)
        if self._around:
            identity = RunIdentity(call.identity.run_id, call.identity.attempt, links=tuple(links))
            inner = RunCall(
                kind="agent", name=config.name, identity=identity, budget=budget, source=source, config=config
            )
            for step in reversed(self._around):
                operation = partial(step, inner, operation)
        budget.start()
        running, agent = self._machinery.activity.running, object()
        running.add(agent)
        try:
            result = await operation()
        finally:
            running.discard(agent)
        if result.error is not None:
            self.tell_overrun(result.error, config.name, task)
        overrun = call.budget.overrun()
        if overrun is not None:
            self.tell_overrun(overrun, config.name, task)
        # A hook may have emptied the output, and a filter the turn: then what was said before is not meant either.
        is_silent = result.success and not result.output.strip() and result.stop_reason in ("end_turn", "max_turns")
        if is_silent and config.after_run is None:
            return result.replace(output=_last_text(result.messages) or result.output)
        return result

    def environment(
        self, budget: BudgetScope, *, phase: str, task: str | None = None, identity: RunIdentity | None = None
    ) -> RunEnvironment:
        """Return the surroundings of an inner run.

        Args:
            budget: Its own scope.
            phase: What it is for.
            task: Id of the task that it works on, if any.
            identity: The run's identity, if it is known already.
        """
        machinery, sink = self._machinery, self._sink
        return RunEnvironment(
            self.identity if identity is None else identity,
            budget,
            phase=phase,
            model_middleware=machinery.model_middleware,
            tool_middleware=machinery.tool_middleware,
            model_tracing=self._steps.model,
            tool_tracing=self._steps.tool,
            on_tool_call=machinery.on_tool_call,
            toolsets=machinery.toolsets,
            sink=None if sink is None else self._told(sink, task),
            cancel=self._cancel,
            metadata=self._call.source_metadata,
        )

    def tell_overrun(self, error: BaseException | None, agent: str | None, task: str | None = None) -> None:
        """Emit ``budget_exceeded`` for an agent that reached a limit: each time for its own, once for the run's.

        Args:
            error: What ended the agent, or the run's own overrun.
            agent: Name of the agent whose call it was.
            task: Id of the task that it works on, if any.
        """
        if not isinstance(error, BudgetError):
            return
        if _is_about(self._call.budget, error):
            if self._has_told_overrun:
                return
            self._has_told_overrun = True
        self._bus.emit(BudgetExceeded(agent=agent, task=task, payload=error, copy=copy.copy))

    @staticmethod
    def _told(sink: EventSink, task: str | None) -> EventSink:
        return sink if task is None else partial(_labelled, sink, task)

    async def _core(
        self, config: AgentConfig, source: PreparedRunInput, phase: str, budget: BudgetScope, task: str | None
    ) -> Result:
        environment = self.environment(budget, phase=phase, task=task)
        if self._confirmation is not None:
            environment.confirmation = self._confirmation.part(config.grants)
        try:
            return await execute_agent(config, source.copy(), environment, self._machinery.adapters)
        except ConfigurationError as error:  # of an adapter that a model route names: no reason to lose the whole run
            return failed_result(environment, error, kind="validation")


def is_providers_moment(result: Result) -> bool:
    """Say whether a run failed of a provider that may do better later: a reason to ask another one, as no other is.

    Args:
        result: What the run came to.
    """
    info = result.error_info
    return info is not None and info.kind == "provider" and info.retryable is True


def _is_about(scope: BudgetScope, error: BudgetError) -> bool:
    limits = scope.limits
    of_scope = (limits.tokens, limits.cost, limits.requests, limits.tool_calls, limits.seconds)
    return error.agent == scope.name and error.budget in of_scope


def _last_text(messages: Sequence[LLMMessage]) -> str:
    """Return what a model said last, before turns in which it only called tools or said nothing."""
    turns = (message.content for message in reversed(messages) if message.role is Role.ASSISTANT)
    texts = ("".join(block.text for block in turn if isinstance(block, TextBlock)) for turn in turns)
    return next((text for text in texts if text.strip()), "")


async def _labelled(sink: EventSink, task: str, event: Event[Any]) -> None:
    event.task = task
    await sink(event)

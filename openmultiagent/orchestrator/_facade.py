"""The orchestrator: it checks what it is given, and hands runs to the machinery.

Nothing is decided here that another module could decide. Invariant: whatever is wrong with a call that can be seen
without running is raised by the call itself, before any event, span, evaluation or request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider
from typing_extensions import TypeVar

from .._detached import Detached
from ..adapters import AdapterOwner, LLMAdapter, ModelMiddleware, create_adapter
from ..agent import AgentConfig, AgentStream, EventSink, RunCall, RunMiddleware, lease_adapter
from ..budget import BudgetScope, CostEstimator, Limits
from ..cancellation import CancelToken
from ..egress import EgressPolicy, intersect_egress_policies, normalize_egress_policy
from ..errors import ConfigurationError, PolicyError
from ..evaluation import EvaluationSink, OnlineEvaluation
from ..events import EventBus, EventListener
from ..identity import MetadataValue, RunIdentity, validate_metadata, validate_run_id
from ..messages import AgentRunInput, prepare_run_input
from ..outcome import AgentRunResult
from ..tools import ToolGate, ToolMiddleware, ToolsetOwner, check_preset, default_preset
from ..tracing import TraceContent, Tracing
from ._execute import Machinery, execute

__all__ = ["OpenMultiAgent"]

T = TypeVar("T", default=Any)

_DRAIN_TIMEOUT = 10.0
"""Seconds that ``aclose`` gives to evaluations that are still queued."""


class OpenMultiAgent:
    """Runs agents, each run bounded, isolated and on record.

    Works as it is; as ``async with OpenMultiAgent(...)`` it keeps connections and toolsets between runs, and evaluates
    finished runs in the background, until its end drains both.

    Args:
        default_provider: Provider of agents that name none.
        default_model: Model of agents that name none.
        default_adapter: Adapter of agents that name neither adapter nor provider; it stays its giver's, who closes it.
        default_tool_preset: Tool preset of agents that have none and name no built-in tools.
        max_token_budget: The most tokens, in and out, that a run may use.
        max_cost_budget: The most that a run may cost, in the unit of ``estimate_cost``.
        estimate_cost: Prices one model call: ``(usage, context) -> float``.
        on_progress: Told of every progress event; plain or async.
        listeners: Further ones.
        middleware: Advice around runs: ``async def step(call, call_next)``, ``await call_next()``; first is outermost.
        model_middleware: Advice around model calls: ``await call_next(call)``.
        tool_middleware: Advice around tool calls: ``await call_next(call)``.
        on_tool_call: The gate of agents that have none of their own, asked before each tool call.
        tracer_provider: Where spans go; OpenTelemetry's global provider unless given.
        meter_provider: Where metrics go; OpenTelemetry's global provider unless given.
        trace_content: Which texts reach spans; none unless given.
        evaluation: Which finished runs are judged, and by whom.
        egress_policy: Which addresses providers may be reached at; agents and runs can only narrow it.

    Raises:
        ConfigurationError: An argument makes no sense.
    """

    def __init__(  # noqa: PLR0913 - the front door; all by keyword
        self,
        *,
        default_provider: str | None = None,
        default_model: str | None = None,
        default_adapter: LLMAdapter | None = None,
        default_tool_preset: str | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        estimate_cost: CostEstimator | None = None,
        on_progress: EventListener | None = None,
        listeners: Sequence[EventListener] = (),
        middleware: Sequence[RunMiddleware] = (),
        model_middleware: Sequence[ModelMiddleware] = (),
        tool_middleware: Sequence[ToolMiddleware] = (),
        on_tool_call: ToolGate | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        trace_content: TraceContent | None = None,
        evaluation: OnlineEvaluation | None = None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
    ) -> None:
        if evaluation is not None and not isinstance(evaluation, OnlineEvaluation):
            raise ConfigurationError(f"evaluation must be an OnlineEvaluation, got {evaluation!r:.100}")
        self._defaults = {"provider": default_provider, "model": default_model, "adapter": default_adapter}
        self._tool_preset = check_preset(default_tool_preset)
        self._egress_policy = normalize_egress_policy(egress_policy)
        self._limits = Limits(tokens=max_token_budget, cost=max_cost_budget)
        self._estimate_cost = estimate_cost
        BudgetScope("OpenMultiAgent", self._limits, estimate_cost=estimate_cost)  # a cost budget needs prices
        _callables("on_tool_call", () if on_tool_call is None else (on_tool_call,))
        progress = () if on_progress is None else (on_progress,)
        self._listeners = (*_callables("on_progress", progress), *_callables("listeners", listeners))
        self.evaluation = EvaluationSink(evaluation)
        """Online evaluation: ``await oma.evaluation.flush()``, ``oma.evaluation.stats()``."""
        self._machinery = Machinery(
            evaluation=self.evaluation,
            tracing=Tracing(tracer_provider, meter_provider, trace_content),
            adapters=AdapterOwner(create_adapter),
            middleware=_callables("middleware", middleware),
            model_middleware=_callables("model_middleware", model_middleware),
            tool_middleware=_callables("tool_middleware", tool_middleware),
            on_tool_call=on_tool_call,
            toolsets=ToolsetOwner(),
        )
        self._background: Detached[None] | None = None

    def run_agent(
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        *,
        run_id: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
        cancel: CancelToken | None = None,
    ) -> Coroutine[Any, Any, AgentRunResult[T]]:
        """Return a coroutine that runs one agent in a fresh conversation.

        Args:
            config: The agent's definition, or a mapping with its fields.
            input: A string (one user message), or the complete conversation as messages or message-shaped mappings.
            run_id: 1 to 128 characters; random unless given.
            metadata: Up to 32 flat entries, echoed on the result and put on the run's span.
            max_token_budget: Narrows the run's token budget.
            max_cost_budget: Narrows the run's cost budget.
            egress_policy: Narrows the addresses that the provider may be reached at.
            cancel: Stops the run, which then returns a result with status ``cancelled``.

        Raises:
            InvalidMessageError: The input is no conversation.
            ConfigurationError: Anything else is wrong that shows without running. Both are raised by the call itself.
        """
        limits = Limits(tokens=max_token_budget, cost=max_cost_budget)
        agent, call = self._prepare(config, input, run_id, metadata, limits, egress_policy)
        bus = EventBus(call.identity.run_id, self._listeners)
        return execute(self._machinery, call, agent, bus, cancel=cancel)

    def stream_agent(
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        *,
        run_id: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
        cancel: CancelToken | None = None,
    ) -> AgentStream[T]:
        """Return the stream of a run: the same run as ``run_agent``, with its answer while it is being written.

        Args:
            config: As for ``run_agent``.
            input: As for ``run_agent``.
            run_id: As for ``run_agent``.
            metadata: As for ``run_agent``.
            max_token_budget: As for ``run_agent``.
            max_cost_budget: As for ``run_agent``.
            egress_policy: As for ``run_agent``.
            cancel: As for ``run_agent``.

        Raises:
            InvalidMessageError: The input is no conversation.
            ConfigurationError: Anything else is wrong that shows without running. Both are raised by the call itself.
        """
        limits = Limits(tokens=max_token_budget, cost=max_cost_budget)
        agent, call = self._prepare(config, input, run_id, metadata, limits, egress_policy)
        machinery, listeners = self._machinery, self._listeners

        async def runner(sink: EventSink) -> AgentRunResult[T]:
            bus = EventBus(call.identity.run_id, listeners)
            return await execute(machinery, call, agent, bus, cancel=cancel, sink=sink)

        return AgentStream(call.identity.run_id, runner)

    async def aclose(self) -> None:
        """Judge what is queued for evaluation, at most ten seconds, and close kept connections."""
        self.evaluation.close()
        with anyio.move_on_after(_DRAIN_TIMEOUT + 1, shield=True):
            await self.evaluation.flush(_DRAIN_TIMEOUT)
            if self._background is not None:
                self._background.cancel()
                await self._background.wait()
                self._background = None
        try:
            await self._machinery.toolsets.aclose()
        finally:
            await self._machinery.adapters.aclose()

    async def __aenter__(self) -> Self:
        self._machinery.adapters.is_open = True
        self._machinery.toolsets.start()
        if self.evaluation.is_active and self._background is None:
            self._background = Detached(self.evaluation.serve)
            self._background.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _prepare(
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        run_id: str | None,
        metadata: Mapping[str, MetadataValue] | None,
        own: Limits,
        egress_policy: EgressPolicy | Mapping[str, Any] | None,
    ) -> tuple[AgentConfig[T], RunCall]:
        agent = self._with_defaults(AgentConfig.of(config), normalize_egress_policy(egress_policy))
        source = prepare_run_input(input)
        identity = RunIdentity(validate_run_id(run_id))
        limits = Limits(
            tokens=_least(self._limits.tokens, own.tokens, agent.max_token_budget),
            cost=_least(self._limits.cost, own.cost),
        )
        with suppress(PolicyError):  # what a policy forbids is the result of a run
            lease_adapter(agent, self._machinery.adapters)  # a missing model or an unknown provider shows here
        call = RunCall(
            kind="agent",
            name=agent.name,
            identity=identity,
            budget=BudgetScope(agent.name, limits, estimate_cost=self._estimate_cost),
            source=source,
            config=agent,
            metadata=validate_metadata(metadata),
        )
        return agent, call

    def _with_defaults(self, agent: AgentConfig[T], policy: EgressPolicy | None) -> AgentConfig[T]:
        defaults = self._defaults
        preset = default_preset(agent.tool_preset, agent.grants.given, self._tool_preset)
        changes: dict[str, Any] = {} if preset == agent.tool_preset else {"tool_preset": preset}
        if agent.model is None and defaults["model"] is not None:
            changes["model"] = defaults["model"]
        if agent.adapter is None and agent.provider is None:
            if defaults["adapter"] is not None:
                changes["adapter"] = defaults["adapter"]
            elif defaults["provider"] is not None:
                changes["provider"] = defaults["provider"]
        own = normalize_egress_policy(agent.egress_policy)
        policy = intersect_egress_policies(self._egress_policy, policy, own)
        if policy != own:
            changes["egress_policy"] = policy
        return agent.replace(**changes) if changes else agent


def _least(*limits: Any) -> Any:
    return min((limit for limit in limits if limit is not None), default=None)


def _callables(name: str, items: Sequence[Callable[..., Any]]) -> tuple[Any, ...]:
    for item in items:
        if not callable(item):
            raise ConfigurationError(f"{name} takes callables, got {item!r:.100}")
    return tuple(items)

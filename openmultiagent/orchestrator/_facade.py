"""The orchestrator: it checks what it is given, and hands runs to the machinery.

Nothing is decided here that another module could decide. Invariant: whatever is wrong with a call that can be seen
without running is raised by the call itself, before any event, span, evaluation or request.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider
from typing_extensions import TypeVar, Unpack

from .._shown import shown
from .._spec import check_has
from ..adapters import AdapterOwner, LLMAdapter, ModelMiddleware, create_adapter
from ..agent import AgentConfig, AgentStream, EventSink, RunCall, RunMiddleware, TraceIds, lease_adapter
from ..budget import BudgetMode, BudgetScope, CostEstimator, Limits, merge_limits
from ..cancellation import CancelToken, check_cancel
from ..egress import EgressPolicy, intersect_egress_policies, normalize_egress_policy
from ..errors import ConfigurationError, PolicyError
from ..evaluation import EvaluationSink, OnlineEvaluation
from ..events import EventListener
from ..identity import MetadataValue, make_identity, new_ids, validate_metadata, validate_run_id
from ..messages import AgentRunInput, prepare_run_input
from ..outcome import AgentRunResult
from ..tools import ToolGate, ToolMiddleware, ToolsetOwner, check_preset, default_preset
from ..tracing import TraceContent, Tracing
from ._activity import OrchestratorStatus
from ._event_stream import EventStream
from ._execute import Machinery, execute
from ._lifetime import Lifetime
from ._progress import Progress
from ._team_entry import TeamEntry
from ._team_runs import TeamRuns
from ._team_settings import TeamSettings, check_flag, team_defaults

__all__ = ["OpenMultiAgent"]

_COMPLETED = "_completed"
"""Where a definition keeps what an orchestrator's defaults make of it, and which defaults."""

T = TypeVar("T", default=Any)


class OpenMultiAgent(TeamEntry):
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
        limits: The most that a run may use of anything: tokens, cost, model calls, tool calls, seconds.
        budget_mode: ``soft`` looks at the limits before each model call; ``hard`` also holds the most that the call may
            use, so that no limit on tokens or cost is exceeded.
        estimate_cost: Prices one model call: ``(usage, context) -> float``, plain or async.
        on_progress: Told of every progress event; plain or async.
        listeners: Further ones.
        middleware: Advice around runs: ``async def step(call, call_next)``, ``await call_next()``; first is outermost.
        model_middleware: Advice around model calls: ``await call_next(call)``.
        tool_middleware: Advice around tool calls: ``await call_next(call)``.
        on_tool_call: The gate of agents that have none of their own, asked before each tool call.
        require_consequential_confirmation: Whether runs of agents and of teams make no call of a ``consequential`` tool
            that neither a gate nor an approved plan has confirmed, and end ``rejected`` after one that was not.
        tracer_provider: Where spans go; OpenTelemetry's global provider unless given.
        meter_provider: Where metrics go; OpenTelemetry's global provider unless given.
        trace_content: Which texts reach spans; none unless given.
        evaluation: Which finished runs are judged, and by whom.
        egress_policy: Which addresses providers may be reached at; agents and runs can only narrow it.
        teams: What runs of teams go by, see ``TeamSettings``: ``max_concurrency``, scheduling, routing, approvals.

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
        limits: Limits | Mapping[str, Any] | None = None,
        budget_mode: BudgetMode = "soft",
        estimate_cost: CostEstimator | None = None,
        on_progress: EventListener | None = None,
        listeners: Sequence[EventListener] = (),
        middleware: Sequence[RunMiddleware] = (),
        model_middleware: Sequence[ModelMiddleware] = (),
        tool_middleware: Sequence[ToolMiddleware] = (),
        on_tool_call: ToolGate | None = None,
        require_consequential_confirmation: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        trace_content: TraceContent | None = None,
        evaluation: OnlineEvaluation | None = None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
        **teams: Unpack[TeamSettings],
    ) -> None:
        if evaluation is not None and not isinstance(evaluation, OnlineEvaluation):
            raise ConfigurationError(f"evaluation must be an OnlineEvaluation, got {shown(evaluation)}")
        for name, text in (("default_provider", default_provider), ("default_model", default_model)):
            _check_name(name, text)
        check_has("OpenMultiAgent: default_adapter", default_adapter, "chat", "an adapter")
        check_has("OpenMultiAgent: estimate_cost", estimate_cost, "__call__", "a function (usage, context) -> float")
        check_has("OpenMultiAgent: tracer_provider", tracer_provider, "get_tracer", "a TracerProvider")
        check_has("OpenMultiAgent: meter_provider", meter_provider, "get_meter", "a MeterProvider")
        self._defaults = {"provider": default_provider, "model": default_model, "adapter": default_adapter}
        self._tool_preset = check_preset(default_tool_preset)
        self._egress_policy = normalize_egress_policy(egress_policy)
        self._limits = _limits(max_token_budget, max_cost_budget, limits)
        self._estimate_cost = estimate_cost
        self._budget_mode: BudgetMode = budget_mode
        BudgetScope("OpenMultiAgent", self._limits, estimate_cost=estimate_cost, mode=budget_mode)  # does it make sense
        _callables("on_tool_call", () if on_tool_call is None else (on_tool_call,))
        self.evaluation = EvaluationSink(evaluation)
        """Online evaluation: ``await oma.evaluation.flush()``, ``oma.evaluation.stats()``."""
        self._machinery = Machinery(
            evaluation=self.evaluation,
            progress=Progress(_listeners(on_progress, listeners)),
            tracing=Tracing(tracer_provider, meter_provider, trace_content),
            adapters=AdapterOwner(create_adapter),
            middleware=_callables("middleware", middleware),
            model_middleware=_callables("model_middleware", model_middleware),
            tool_middleware=_callables("tool_middleware", tool_middleware),
            on_tool_call=on_tool_call,
            confirms=check_flag("require_consequential_confirmation", require_consequential_confirmation),
            toolsets=ToolsetOwner(),
        )
        self._lifetime = Lifetime(self._machinery)
        self._teams = {}
        defaults = team_defaults(teams, self._limits, estimate_cost, budget_mode, self._completed)
        self._team_runs = TeamRuns(self._machinery, defaults)

    @property
    def dropped_events(self) -> int:
        """Progress events that async listeners and consumers of ``events`` were too slow for."""
        return self._machinery.progress.dropped

    def run_agent(  # noqa: PLR0913 - the front door; all by keyword
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        *,
        run_id: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
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
            limits: Narrows the run's limits.
            egress_policy: Narrows the addresses that the provider may be reached at.
            cancel: Stops the run, which then returns a result with status ``cancelled``.

        Raises:
            InvalidMessageError: The input is no conversation.
            EgressPolicyError: The policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running. All are raised by the call itself.
        """
        own = _limits(max_token_budget, max_cost_budget, limits)
        if cancel is not None:
            check_cancel(cancel)
        agent, call = self._prepare(config, input, run_id, metadata, own, egress_policy)
        bus = self._machinery.progress.bus(call.identity.run_id)
        return execute(self._machinery, call, agent, bus, cancel=cancel)

    def stream_agent(  # noqa: PLR0913 - the front door; all by keyword
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        *,
        run_id: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
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
            limits: As for ``run_agent``.
            egress_policy: As for ``run_agent``.
            cancel: As for ``run_agent``.

        Raises:
            InvalidMessageError: The input is no conversation.
            EgressPolicyError: The policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running. All are raised by the call itself.
        """
        own = _limits(max_token_budget, max_cost_budget, limits)
        check_cancel(cancel)
        agent, call = self._prepare(config, input, run_id, metadata, own, egress_policy)
        machinery = self._machinery

        async def runner(sink: EventSink) -> AgentRunResult[T]:
            bus = machinery.progress.bus(call.identity.run_id)
            return await execute(machinery, call, agent, bus, cancel=cancel, sink=sink)

        return AgentStream(call.identity.run_id, runner)

    def run_agent_sync(  # noqa: PLR0913 - the front door; all by keyword
        self,
        config: AgentConfig[T] | Mapping[str, Any],
        input: AgentRunInput,  # noqa: A002 - the pinned name
        *,
        run_id: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        max_token_budget: int | None = None,
        max_cost_budget: float | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
        cancel: CancelToken | None = None,
    ) -> AgentRunResult[T]:
        """Run one agent and wait for it: ``run_agent`` for scripts, threads and notebooks.

        The run goes on in a background thread, which the first call starts. As inside ``async with``, connections are
        kept and finished runs are evaluated from then on, until ``aclose_sync``, ``aclose`` or the end of the process.
        Where an event loop is running, the call blocks it.

        Args:
            config: As for ``run_agent``.
            input: As for ``run_agent``.
            run_id: As for ``run_agent``.
            metadata: As for ``run_agent``.
            max_token_budget: As for ``run_agent``.
            max_cost_budget: As for ``run_agent``.
            limits: As for ``run_agent``.
            egress_policy: As for ``run_agent``.
            cancel: As for ``run_agent``.

        Raises:
            InvalidMessageError: The input is no conversation.
            EgressPolicyError: The policy is no policy.
            ConfigurationError: Anything else is wrong that shows without running, or the caller is itself part of such
                a run, on the thread's event loop.
        """
        return self._lifetime.run_sync(
            lambda: self.run_agent(
                config,
                input,
                run_id=run_id,
                metadata=metadata,
                max_token_budget=max_token_budget,
                max_cost_budget=max_cost_budget,
                limits=limits,
                egress_policy=egress_policy,
                cancel=cancel,
            ),
            instead="await oma.run_agent(...)",
        )

    def events(self, run_id: str | None = None) -> EventStream:
        """Return the progress events from now on, for one consumer: ``async for event in oma.events()``.

        It ends when the orchestrator is closed. At most 1,024 events wait; then the oldest are dropped and counted.

        Args:
            run_id: Only those of the run with this id, which need not have begun; it ends with that run's last event.

        Raises:
            ConfigurationError: No run can have this id.
        """
        return self._machinery.progress.stream(None if run_id is None else validate_run_id(run_id))

    def get_status(self) -> OrchestratorStatus:
        """Return what the orchestrator is doing, and has done, at this moment; from any thread."""
        activity = self._machinery.activity
        return OrchestratorStatus(
            teams=len(self._teams), active_agents=len(activity.running), completed_tasks=activity.completed
        )

    async def aclose(self) -> None:
        """Wait for runs that are going on, judge what is queued for evaluation, and close what is kept.

        Runs have at most ten seconds, and so has evaluation; runs that go on longer lose their connections. It may be
        called again, and on another event loop. Runs still work afterwards, as they do without ``async with``; they are
        not evaluated.
        """
        await self._lifetime.aclose()

    def aclose_sync(self) -> None:
        """Do what ``aclose`` does, and wait for it.

        Raises:
            ConfigurationError: The caller is itself part of a synchronous run, on the thread's event loop.
        """
        self._lifetime.aclose_sync()

    async def __aenter__(self) -> Self:
        self._lifetime.enter()
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
        own: Limits | None,
        egress_policy: EgressPolicy | Mapping[str, Any] | None,
    ) -> tuple[AgentConfig[T], RunCall]:
        # What most calls do not pass is looked at here, since each call of a function has its price.
        agent: AgentConfig[T] = config if type(config) is AgentConfig else AgentConfig.of(config)
        agent = self._completed(agent, None if egress_policy is None else normalize_egress_policy(egress_policy))
        source = prepare_run_input(input)
        run_id, trace_id, span_id = new_ids(None if run_id is None else validate_run_id(run_id))
        limits = self._limits
        if own is not None or agent.max_token_budget is not None:
            limits = merge_limits(limits, own, _limits(agent.max_token_budget, None, None))
        if agent.adapter is None:
            with suppress(PolicyError):  # what a policy forbids is the result of a run
                lease_adapter(agent, self._machinery.adapters)  # a missing model or an unknown provider shows here
        checked = None if metadata is None else validate_metadata(metadata)
        budget = BudgetScope(agent.name, limits, None, self._estimate_cost, self._budget_mode)
        # By position, which takes a third of the time.
        identity, trace_ids = make_identity(run_id, 1, "", "", ()), TraceIds(trace_id, span_id)
        call = RunCall("agent", agent.name, identity, budget, source, agent, checked, trace_ids)
        return agent, call

    def _completed(self, agent: AgentConfig[T], policy: EgressPolicy | None) -> AgentConfig[T]:
        """Return the definition with the defaults; for a definition that is used again it is the same one again."""
        if policy is not None:
            return self._with_defaults(agent, policy)
        kept = agent.__dict__.get(_COMPLETED)
        if kept is None or kept[0] is not self._defaults:
            completed = self._with_defaults(agent, None)
            # None stands for the definition itself, which must not refer to itself.
            kept = agent.__dict__[_COMPLETED] = (self._defaults, None if completed is agent else completed)
        return agent if kept[1] is None else kept[1]

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


def _limits(tokens: int | None, cost: float | None, limits: Limits | Mapping[str, Any] | None) -> Limits | None:
    if tokens is None and cost is None and limits is None:
        return None
    return merge_limits(limits, None if tokens is None and cost is None else Limits(tokens=tokens, cost=cost))


def _check_name(name: str, text: object) -> None:
    if text is not None and (not isinstance(text, str) or not text):
        raise ConfigurationError(f"OpenMultiAgent: {name} must be a name or None, got {shown(text)}")


def _listeners(on_progress: EventListener | None, listeners: Sequence[EventListener]) -> tuple[EventListener, ...]:
    first = () if on_progress is None else (on_progress,)
    return (*_callables("on_progress", first), *_callables("listeners", listeners))


def _callables(name: str, items: object) -> tuple[Any, ...]:
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise ConfigurationError(f"{name} must be a list of callables, got {type(items).__name__}")
    for item in items:
        if not callable(item):
            raise ConfigurationError(f"{name} takes callables, got {type(item).__name__}")
    return tuple(items)

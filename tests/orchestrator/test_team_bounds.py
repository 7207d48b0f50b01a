"""Runs of teams end whatever their middleware, gates and stores do, and keep what they have got to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openmultiagent import (
    CancelToken,
    ConfigurationError,
    EgressPolicyError,
    LLMMessage,
    LLMServerError,
    ModelCall,
    OpenMultiAgent,
    RoutingDeclarationRequiredError,
    RunCall,
    Task,
    Team,
    TeamRunResult,
    TokenUsage,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelNext
from openmultiagent.budget import CostEstimateContext
from openmultiagent.orchestrator import RoutingContext, RoutingDecision, TaskProfilerResult
from openmultiagent.stores import InMemoryStore, MemoryEntry
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves
from tests.support.teams import Model, stopped_while

GOAL = "Research the topic first and then write a report."
PLAN: list[dict[str, Any]] = [
    {"title": "Research", "description": "Find the facts.", "assignee": "ann"},
    {"title": "Write", "description": "Write the report.", "assignee": "bob", "depends_on": ["Research"]},
]
EACH = 15
"""Tokens of a call."""


def text_of(messages: Sequence[LLMMessage]) -> str:
    return "".join(block.text for block in messages[-1].content if block.type == "text")


def scripted(plan: Any = None) -> ScriptedAdapter:
    """A model that plans, works and answers."""

    def respond(messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        asked = text_of(messages)
        if "Break this goal into tasks" in asked:
            said = json.dumps({"tasks": PLAN if plan is None else plan})
        else:
            said = "the answer" if "## Original Goal" in asked else f"done: {asked.splitlines()[0]}"
        return LLMResponse(LLMMessage.assistant(said).content, usage=TokenUsage(input_tokens=EACH - 5, output_tokens=5))

    return ScriptedAdapter(respond)


def team(**fields: Any) -> Team:
    return Team({"name": "news", "agents": [{"name": "ann"}, {"name": "bob"}], **fields})


def assert_cancelled(result: TeamRunResult) -> None:
    assert (result.success, result.status.code, result.status.message) == (False, "cancelled", "run aborted: enough")
    assert result.error is None
    assert result.error_info is not None
    assert result.error_info.kind == "cancellation"
    assert all(task.status in ("completed", "failed", "skipped") for task in result.tasks)


# --- middleware -----------------------------------------------------------------------------------------------------


class Waiting:
    """Middleware that waits for ever, before or after the run, and says when it does."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.waits = anyio.Event()
        self.seen: list[TeamRunResult] = []

    async def __call__(self, call: RunCall, call_next: Callable[[], Any]) -> Any:
        if self.where == "after":
            self.seen.append(await call_next())
        self.waits.set()
        await anyio.sleep_forever()


def begin(oma: OpenMultiAgent, entry: str, token: CancelToken) -> Any:
    options: dict[str, Any] = {"cancel": token, "run_id": "r", "metadata": {"k": 1}}
    return oma.run_team(team(), GOAL, **options) if entry == "team" else oma.run_tasks(team(), PLAN, **options)


@proves("ORC-46")
@pytest.mark.parametrize("entry", ["team", "tasks"])
async def test_a_token_stops_middleware_that_waits_before_a_team(entry: str) -> None:
    waiting, token, adapter = Waiting("before"), CancelToken(), scripted()
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[waiting])
    result = await stopped_while(waiting.waits, token, lambda: begin(oma, entry, token))
    assert_cancelled(result)
    assert (result.tasks, result.final_output, adapter.calls) == ((), "", [])
    assert (result.identity.run_id, result.metadata) == ("r", {"k": 1})
    assert result.identity.trace_id


@proves("ORC-46")
@pytest.mark.parametrize(("entry", "calls"), [("team", 4), ("tasks", 2)])
async def test_what_a_team_came_to_stays_when_the_middleware_is_stopped_behind_it(entry: str, calls: int) -> None:
    waiting, token = Waiting("after"), CancelToken()
    oma = OpenMultiAgent(default_adapter=scripted(), middleware=[waiting])
    result = await stopped_while(waiting.waits, token, lambda: begin(oma, entry, token))
    assert_cancelled(result)
    (last,) = waiting.seen
    assert last.success
    assert [task.status for task in result.tasks] == ["completed", "completed"]
    assert (result.final_output, result.task_results) == (last.final_output, last.task_results)
    assert result.total_token_usage.total_tokens == calls * EACH
    assert (result.identity, result.metadata) == (last.identity, {"k": 1})


@proves("ORC-46")
@pytest.mark.parametrize(("failing", "kept"), [("Write", True), ("Research", False)])
async def test_the_text_of_a_failure_is_not_kept_as_an_output(failing: str, kept: bool) -> None:
    waiting, token = Waiting("after"), CancelToken()
    model = Model({failing: RuntimeError("down")})
    oma = OpenMultiAgent(default_adapter=model, middleware=[waiting])
    result = await stopped_while(waiting.waits, token, lambda: begin(oma, "tasks", token))
    assert_cancelled(result)
    assert result.final_output == ("Research is done" if kept else "")


@proves("ORC-46")
async def test_a_team_that_is_at_work_ends_its_tasks_before_its_middleware_is_stopped() -> None:
    token, at_work, seen = CancelToken(), anyio.Event(), list[TeamRunResult]()

    async def hang(messages: Sequence[LLMMessage], options: LLMChatOptions) -> str:
        at_work.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def keep(call: RunCall, call_next: Callable[[], Any]) -> Any:
        seen.append(await call_next())
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(hang), middleware=[keep])
    result = await stopped_while(at_work, token, lambda: oma.run_tasks(team(), PLAN, cancel=token))
    assert_cancelled(result)
    assert [task.status for task in result.tasks] == [task.status for task in seen[0].tasks] == ["failed", "failed"]


# --- the gate of a plan ---------------------------------------------------------------------------------------------


class Hesitating:
    """A gate that never answers, and says when it is asked."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def __call__(self, tasks: Sequence[Task]) -> bool:
        self.asked.set()
        await anyio.sleep_forever()
        return True


@proves("GOL-16")
async def test_a_token_ends_the_wait_for_the_approval_of_a_plan() -> None:
    gate, token, adapter = Hesitating(), CancelToken(), scripted()
    oma = OpenMultiAgent(default_adapter=adapter, on_plan_ready=gate)
    result = await stopped_while(gate.asked, token, lambda: oma.run_team(team(), GOAL, cancel=token))
    assert_cancelled(result)
    assert [task.status for task in result.tasks] == ["skipped", "skipped"]
    assert (len(adapter.calls), result.total_token_usage.total_tokens) == (1, EACH)


@proves("GOL-16")
async def test_the_time_of_a_run_ends_the_wait_for_the_approval_of_a_plan() -> None:
    told: list[Any] = []
    oma = OpenMultiAgent(default_adapter=scripted(), on_plan_ready=Hesitating(), on_progress=told.append)
    with anyio.fail_after(10):
        result = await oma.run_team(team(), GOAL, limits={"seconds": 0.2})
    assert result.status.code == "budget_exhausted"
    assert [task.status for task in result.tasks] == ["skipped", "skipped"]
    assert [event.type for event in told].count("budget_exceeded") == 1


# --- the memory of a team -------------------------------------------------------------------------------------------


class Broken(InMemoryStore):
    """A store of which one call hangs, or raises."""

    def __init__(self, method: str, number: int, *, raises: bool = False) -> None:
        super().__init__()
        self.reached = anyio.Event()
        self._at = (method, number)
        self._raises = raises
        self._calls = 0

    async def _pass(self, method: str) -> None:
        if method != self._at[0]:
            return
        self._calls += 1
        if self._calls == self._at[1]:
            self.reached.set()
            if self._raises:
                raise OSError("the disk is full")
            await anyio.sleep_forever()

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        await self._pass("set")
        await super().set(key, value, metadata)

    async def list(self) -> list[MemoryEntry]:
        await self._pass("list")
        return await super().list()


WITH_MEMORY = [{**task, "memory_scope": "all"} for task in PLAN]

STATUSES = [
    ("list", 1, ["failed", "failed"]),
    ("list", 2, ["completed", "failed"]),
    ("list", 3, ["completed", "completed"]),
    ("set", 1, ["completed", "skipped"]),
    ("set", 2, ["completed", "completed"]),
]
"""Which call of the store hangs, and what the tasks come to."""


@proves("GOL-30")
@pytest.mark.parametrize(("method", "number", "statuses"), STATUSES)
async def test_a_token_ends_the_wait_for_a_store(method: str, number: int, statuses: list[str]) -> None:
    store, token = Broken(method, number), CancelToken()
    oma = OpenMultiAgent(default_adapter=scripted(WITH_MEMORY))
    result = await stopped_while(
        store.reached, token, lambda: oma.run_team(team(shared_memory_store=store), GOAL, cancel=token)
    )
    assert_cancelled(result)
    assert [task.status for task in result.tasks] == statuses


@proves("GOL-30")
@pytest.mark.parametrize(("method", "number", "statuses"), STATUSES)
async def test_the_time_of_a_run_ends_the_wait_for_a_store(method: str, number: int, statuses: list[str]) -> None:
    store, told = Broken(method, number), list[Any]()
    oma = OpenMultiAgent(default_adapter=scripted(WITH_MEMORY), on_progress=told.append)
    with anyio.fail_after(10):
        result = await oma.run_team(team(shared_memory_store=store), GOAL, limits={"seconds": 0.5})
    assert store.reached.is_set()
    assert (result.status.code, result.success) == ("budget_exhausted", False)
    assert [task.status for task in result.tasks] == statuses
    assert "the answer" not in result.final_output
    assert "budget_exceeded" in [event.type for event in told]


@proves("GOL-30")
async def test_a_store_that_fails_before_the_answer_takes_nothing_away() -> None:
    told: list[Any] = []
    oma = OpenMultiAgent(default_adapter=scripted(WITH_MEMORY), on_progress=told.append)
    result = await oma.run_team(team(shared_memory_store=Broken("list", 3, raises=True)), GOAL)
    assert (result.status.code, result.status.message) == ("error", "the team's memory failed: the disk is full")
    assert result.error_info is not None
    assert result.error_info.kind == "store"
    assert isinstance(result.error, OSError)
    assert [task.status for task in result.tasks] == ["completed", "completed"]
    assert (result.final_output, list(result.agent_results)) == ("the answer", ["coordinator", "ann", "bob"])
    assert told[-1].type == "agent_complete"
    assert told[-1].data.success


# --- budgets --------------------------------------------------------------------------------------------------------


@proves("GOL-21")
async def test_a_run_whose_budget_is_just_used_up_says_that_it_has_no_answer() -> None:
    adapter, told = scripted(), list[Any]()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=told.append)
    result = await oma.run_team(team(), GOAL, max_token_budget=3 * EACH)
    assert len(adapter.calls) == 3
    assert (result.status.code, result.success) == ("budget_exhausted", False)
    assert result.final_output == "done: # Task: Write"
    assert [event.type for event in told].count("budget_exceeded") == 1


@proves("GOL-2")
async def test_an_agent_that_works_alone_has_its_own_budget() -> None:
    told: list[Any] = []
    oma = OpenMultiAgent(default_adapter=scripted(), on_progress=told.append)
    poor = Team({"name": "news", "agents": [{"name": "ann", "max_token_budget": EACH - 1}]})
    result = await oma.run_team(poor, "Say hello.", mode="single")
    assert (result.status.code, result.success, result.tasks[0].status) == ("budget_exhausted", False, "failed")
    assert [event.type for event in told] == ["agent_start", "budget_exceeded", "agent_complete"]


# --- the coordinator and the profiler -------------------------------------------------------------------------------


def with_models() -> Team:
    """A team whose agents need nothing of the orchestrator."""
    adapter = scripted()
    return Team({"name": "news", "agents": [{"name": name, "adapter": adapter} for name in ("ann", "bob")]})


@proves("GOL-1")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "team"}, "agent 'coordinator' has no model"),
        ({"plan_only": True}, "agent 'coordinator' has no model"),
        ({"coordinator": {"instructions": "Be brief."}}, "agent 'coordinator' has no model"),
        ({"coordinator": {"provider": "nope", "model": "m"}}, "nope"),
        (
            {
                "coordinator": {"adapter": scripted()},
                "model_routing": {
                    "rules": [{"match": {"phase": "synthesis"}, "route": {"model": "m", "provider": "nope"}}]
                },
            },
            "nope",
        ),
    ],
)
async def test_a_coordinator_that_cannot_be_asked_raises_at_once(options: dict[str, Any], message: str) -> None:
    told: list[Any] = []
    oma = OpenMultiAgent(on_progress=told.append)
    with pytest.raises(ConfigurationError, match=message):
        _never_made = oma.run_team(with_models(), GOAL, **options)
    assert told == []


@proves("GOL-1")
async def test_a_single_agent_needs_no_coordinator() -> None:
    result = await OpenMultiAgent().run_team(with_models(), "Say hello.")
    assert (result.success, result.routing_decision.mode) == (True, "single")


@proves("GOL-2", "GOL-22")
async def test_a_route_that_cannot_be_taken_fails_the_single_agent_alone() -> None:
    told: list[Any] = []
    oma = OpenMultiAgent(default_adapter=scripted(), on_progress=told.append)
    routing = {"rules": [{"match": {"phase": "short-circuit"}, "route": {"model": "m", "provider": "nope"}}]}
    result = await oma.run_team(team(), GOAL, mode="single", model_routing=routing)
    assert (result.status.code, [task.status for task in result.tasks]) == ("error", ["failed"])
    assert isinstance(result.error, ConfigurationError)
    assert [event.type for event in told] == ["agent_start", "agent_complete"]
    assert told[-1].data.error is not None


@proves("GOL-6")
async def test_a_coordinator_without_a_model_fails_the_run_where_it_is_needed() -> None:
    told: list[Any] = []
    result = await OpenMultiAgent(on_progress=told.append).run_team(with_models(), GOAL)
    assert (result.status.code, result.agent_results, told) == ("error", {}, [])
    assert isinstance(result.error, ConfigurationError)
    assert "agent 'coordinator' has no model" in result.final_output


@proves("GOL-11", "ORC-50")
async def test_a_coordinator_that_a_policy_forbids_makes_no_invalid_plan() -> None:
    told: list[Any] = []
    adapter = scripted()
    oma = OpenMultiAgent(default_adapter=adapter, egress_policy={"mode": "offline"}, on_progress=told.append)
    result = await oma.run_team(team(), GOAL, mode="team")
    assert (result.status.code, adapter.calls) == ("rejected", [])
    assert isinstance(result.error, EgressPolicyError)
    assert [event.type for event in told] == ["agent_start", "agent_complete", "error"]
    assert told[-1].data.code == "COORDINATOR_DECOMPOSITION_FAILED"


@proves("ORC-50")
async def test_a_profiler_is_not_asked_under_a_policy_that_its_adapter_cannot_be_held_to() -> None:
    profiler = scripted()
    oma = OpenMultiAgent(
        default_adapter=scripted(),
        egress_policy={"mode": "offline"},
        execution_routing={"strategy": "hybrid", "adapter": profiler},
    )
    result = await oma.run_team(team(), "Say hello.")
    assert profiler.calls == []
    assert result.routing_decision.assessment.fallback_code == "profiler-unavailable"
    assert result.total_token_usage == TokenUsage()


class Pondering:
    """A router that never decides, and says when it is asked."""

    version = "pondering"

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def decide(self, context: RoutingContext) -> RoutingDecision:
        self.asked.set()
        await anyio.sleep_forever()
        raise AssertionError


@proves("GOL-5")
async def test_a_run_that_is_cancelled_before_its_plan_says_why() -> None:
    router, token = Pondering(), CancelToken()
    oma = OpenMultiAgent(default_adapter=scripted(), execution_router=router)
    result = await stopped_while(router.asked, token, lambda: oma.run_team(team(), GOAL, cancel=token))
    assert_cancelled(result)
    assert_cancelled(await oma.run_team(team(), GOAL, cancel=token))


@proves("GOL-5")
async def test_the_time_of_a_run_ends_the_wait_for_a_router() -> None:
    router, told = Pondering(), list[Any]()
    oma = OpenMultiAgent(default_adapter=scripted(), execution_router=router, on_progress=told.append)
    with anyio.fail_after(10):
        result = await oma.run_team(team(), GOAL, limits={"seconds": 0.1})
    assert router.asked.is_set()
    assert (result.status.code, result.tasks) == ("budget_exhausted", ())
    assert [event.type for event in told] == ["budget_exceeded"]


PROFILE = {
    "evidence_sources": "single",
    "independent_review": "none",
    "conflicting_objectives": False,
    "side_effect_intent": "none",
    "permission_isolation": "none",
    "decomposable": False,
    "parallelizable": False,
    "complexity": "low",
    "confidence": 0.9,
    "reasons": ["short"],
}


def profiling(said: Any) -> ScriptedAdapter:
    """A model that says the same about every goal."""
    usage = TokenUsage(input_tokens=400, output_tokens=200)
    return ScriptedAdapter(
        lambda messages, options: (
            said
            if isinstance(said, Exception)
            else LLMResponse(LLMMessage.assistant(json.dumps(said)).content, usage=usage)
        )
    )


def hybrid(profiler: ScriptedAdapter, **options: Any) -> OpenMultiAgent:
    return OpenMultiAgent(
        default_adapter=scripted(), execution_routing={"strategy": "hybrid", "adapter": profiler}, **options
    )


@proves("GOL-4")
async def test_the_built_in_profiler_is_charged_once_for_its_call() -> None:
    result = await hybrid(profiling(PROFILE)).run_team(team(), "Say hello.")
    assert result.success
    assert {phase: usage.total_tokens for phase, usage in result.usage_by_phase().items()} == {
        "routing": 600,
        "short-circuit": EACH,
    }
    (entry,) = [entry for entry in result.usage_report if entry.phase == "routing"]
    assert (entry.agent, entry.model, entry.requests) == ("semantic-router", "scripted", 1)


@proves("GOL-4")
async def test_a_profile_that_there_is_no_room_for_is_not_asked_for() -> None:
    profiler = profiling(PROFILE)
    result = await hybrid(profiler, budget_mode="hard").run_team(team(), "Say hello.", max_token_budget=1_500)
    assert profiler.calls == []
    assert result.routing_decision.assessment.fallback_code == "profiler-error"
    assert result.total_token_usage.total_tokens <= 1_500


@proves("GOL-4")
async def test_a_profile_that_fails_was_a_model_call_as_well() -> None:
    profiler = profiling(LLMServerError("down", status=503, provider="p"))
    result = await hybrid(profiler).run_team(team(), "Say hello.", limits={"requests": 1})
    assert len(profiler.calls) == 1
    assert (result.status.code, result.total_token_usage.unknown_calls) == ("budget_exhausted", 1)


@proves("GOL-4")
async def test_a_profile_that_cannot_be_asked_for_is_not_charged() -> None:
    profiler = profiling(ConfigurationError("no such model"))
    result = await hybrid(profiler).run_team(team(), "Say hello.", limits={"requests": 1})
    assert (result.success, result.total_token_usage.unknown_calls) == (True, 0)
    assert "routing" not in result.usage_by_phase()


class OwnProfiler:
    version = "v"

    def profile(self, context: RoutingContext) -> TaskProfilerResult:
        return TaskProfilerResult(PROFILE, TokenUsage(input_tokens=600))


@proves("GOL-4", "BUD-12")
@pytest.mark.parametrize("own", [True, False])
async def test_the_price_of_a_profile_may_be_awaited(own: bool) -> None:
    prices: dict[str, float] = {}

    async def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        await anyio.lowlevel.checkpoint()
        return prices.get(context.phase, usage.total_tokens / 100)

    routing = {"strategy": "hybrid", **({"profiler": OwnProfiler()} if own else {"adapter": profiling(PROFILE)})}
    oma = OpenMultiAgent(default_adapter=scripted(), execution_routing=routing, estimate_cost=price)
    result = await oma.run_team(team(), "Say hello.", max_cost_budget=100.0)
    assert [entry.cost for entry in result.usage_report if entry.phase == "routing"] == [6.0]
    over = await oma.run_team(team(), "Say hello.", max_cost_budget=5.0)
    assert (over.status.code, over.tasks) == ("budget_exhausted", ())
    prices["routing"] = math.nan
    wrong = await oma.run_team(team(), "Say hello.")
    assert wrong.total_token_usage.input_tokens >= 400
    if own:  # the run's own charge; the built-in profiler has failed, and the text of the goal decides
        assert (wrong.status.code, wrong.tasks) == ("error", ())
        assert "invalid cost" in wrong.final_output
    else:
        assert (wrong.success, wrong.routing_decision.assessment.fallback_code) == (True, "profiler-error")


@proves("GOL-4")
async def test_a_profile_that_calls_for_a_declaration_ends_the_run() -> None:
    profiler = profiling(PROFILE | {"permission_isolation": "required"})
    agents = [{"name": name, "permission_boundary": name} for name in ("ann", "bob")]
    result = await hybrid(profiler).run_team({"name": "news", "agents": agents}, "Say hello.")
    assert (result.status.code, result.tasks, result.total_token_usage.total_tokens) == ("error", (), 600)
    assert isinstance(result.error, RoutingDeclarationRequiredError)


@proves("GOL-4")
@pytest.mark.parametrize("way", ["token", "time"])
async def test_an_awaited_price_of_a_profile_holds_nobody_up(way: str) -> None:
    token = CancelToken()

    async def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        if way == "token":
            token.cancel()
        await anyio.sleep_forever()
        return 0.0

    oma = OpenMultiAgent(
        default_adapter=scripted(),
        execution_routing={"strategy": "hybrid", "profiler": OwnProfiler()},
        estimate_cost=price,
    )
    limits = {"seconds": 0.3} if way == "time" else {}
    with anyio.fail_after(5):
        result = await oma.run_team(team(), "Say hello.", cancel=token, limits=limits)
    assert result.status.code == ("cancelled" if way == "token" else "budget_exhausted")
    assert result.total_token_usage.input_tokens == 600


@proves("GOL-4")
async def test_model_middleware_stands_around_the_call_of_the_built_in_profiler() -> None:
    seen: list[tuple[str, str, str]] = []

    async def step(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        seen.append((call.agent, call.phase, call.id))
        return await call_next(call)

    result = await hybrid(profiling(PROFILE), model_middleware=[step]).run_team(team(), "Say hello.", run_id="r")
    assert result.success
    assert seen[0] == ("semantic-router", "routing", "r/routing")


# --- spans ----------------------------------------------------------------------------------------------------------


@proves("GOL-31")
async def test_titles_that_models_write_reach_spans_short_and_without_credentials() -> None:
    secret = "sk-ant-api03-" + "A" * 40
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    plan = [{"title": f"{secret} {'x' * 9_000}", "description": "Do it.", "role": f"role {secret}"}]
    oma = OpenMultiAgent(default_adapter=scripted(plan), tracer_provider=provider)
    result = await oma.run_team(team(), GOAL)
    assert result.success
    spans = exporter.get_finished_spans()
    assert not any(secret in f"{span.name} {span.attributes}" for span in spans)
    (task,) = [span for span in spans if span.name.startswith("execute_task")]
    assert task.attributes is not None
    title = task.attributes["openmultiagent.task.title"]
    assert isinstance(title, str)
    assert (len(title), task.name) == (256, f"execute_task {title}")


@proves("GOL-29")
@pytest.mark.parametrize("said", [PROFILE, LLMServerError("down", status=503, provider="p")])
async def test_the_call_of_the_built_in_profiler_is_below_the_span_of_the_profiling(said: Any) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    result = await hybrid(profiling(said), tracer_provider=provider).run_team(team(), "Say hello.")
    assert result.success
    chat, route = exporter.get_finished_spans()[:2]
    root = exporter.get_finished_spans()[-1]
    assert (chat.name, route.name, root.name) == ("chat scripted", "profile_execution_route", "invoke_workflow news")
    assert chat.parent is not None
    assert route.parent is not None
    assert (chat.parent.span_id, route.parent.span_id) == (route.context.span_id, root.context.span_id)
    told, outcome = dict(chat.attributes or {}), dict(route.attributes or {})
    assert told["gen_ai.agent.name"] == "semantic-router"
    prefix = "openmultiagent.routing.semantic."
    if said is PROFILE:
        assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (400, 200)
        assert outcome[prefix + "recommendation"] == "single"
        assert outcome[prefix + "confidence"] == 0.9
        assert outcome["openmultiagent.usage.input_tokens"] == 400
    else:
        assert told["error.type"] == "LLMServerError"
        assert outcome[prefix + "fallback_code"] == outcome["error.type"] == "profiler-error"
    assert not any(name.startswith("gen_ai.usage") for name in outcome)

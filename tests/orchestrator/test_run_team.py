"""`run_team`: routes, plans, approvals, answers, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMMessage,
    LLMRateLimitError,
    LLMServerError,
    OpenMultiAgent,
    PlanArtifact,
    Team,
    TeamRunResult,
    TextDelta,
    TokenUsage,
    ToolUseBlock,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.orchestrator import RoutingContext, RoutingDecision, TaskProfilerResult
from openmultiagent.stores import InMemoryStore
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

COMPLEX = "Research the topic first and then write a report."
PLAN: list[dict[str, Any]] = [
    {"title": "Research", "description": "Find the facts.", "assignee": "ann"},
    {"title": "Write", "description": "Write the report.", "assignee": "bob", "depends_on": ["Research"]},
]

TOLD_OF_A_TASK = ("task_start", "agent_start", "task_complete", "agent_complete")

Answer = Callable[[Sequence[LLMMessage], LLMChatOptions], Any]


def tokens(input_tokens: int, output_tokens: int) -> TokenUsage:
    return TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)


def text_of(messages: Sequence[LLMMessage]) -> str:
    return "".join(block.text for block in messages[-1].content if block.type == "text")


def phase_of(messages: Sequence[LLMMessage]) -> str:
    text = text_of(messages)
    if "Break this goal into tasks" in text:
        return "plan"
    return "answer" if "## Original Goal" in text else "work"


def scripted(plan: Any = None, *, answer: Any = "the answer", work: Any = None, usage: bool = True) -> ScriptedAdapter:
    """A model for everybody: plans, works and answers by what it is asked."""
    plans = iter(plan if isinstance(plan, tuple) else (PLAN if plan is None else plan,))

    def respond(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        phase = phase_of(messages)
        if phase == "plan" or (len(messages) > 1 and "Break this goal" in text_of(messages[:1])):
            said = next(plans)
        else:
            said = answer if phase == "answer" else work
        said = said(messages, options) if callable(said) else said
        if said is None:
            said = f"done: {text_of(messages).splitlines()[0]}"
        if isinstance(said, Exception | LLMResponse):
            return said
        text = said if isinstance(said, str) else json.dumps({"tasks": said})
        return LLMResponse(LLMMessage.assistant(text).content, usage=tokens(10, 5) if usage else None)

    return ScriptedAdapter(respond)


def team(**fields: Any) -> Team:
    agents = fields.pop("agents", [{"name": "ann", "description": "finds facts"}, {"name": "bob"}])
    return Team({"name": "news", "agents": agents, **fields})


class Progress:
    """Remembers what was told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    def told(self) -> list[tuple[str, str | None]]:
        return [(event.type, event.agent) for event in self.events]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]


# --- entry and routes -----------------------------------------------------------------------------------------------


@proves("GOL-1")
@pytest.mark.parametrize(
    ("goal", "options", "error"),
    [
        ([], {}, InvalidMessageError),
        ([{"role": "assistant", "content": [{"type": "text", "text": "x"}]}], {}, InvalidMessageError),
        (7, {}, ConfigurationError),
        ("g", {"mode": "both"}, ConfigurationError),
        ("g", {"mode": "single", "plan_only": True}, ConfigurationError),
        ("g", {"max_token_budget": 0}, ConfigurationError),
        ("g", {"max_cost_budget": 1.0}, ConfigurationError),
        ("g", {"run_id": ""}, ConfigurationError),
        ("g", {"coordinator": {"max_turns": 0}}, ConfigurationError),
        ("g", {"execution_routing": {"confidence_threshold": 2}}, ConfigurationError),
        ("g", {"execution_router": object()}, ConfigurationError),
        ("g", {"plan_ony": True}, ConfigurationError),
        ("g", {"cancel": "now"}, ConfigurationError),
    ],
)
async def test_a_wrong_call_raises_at_once(goal: Any, options: dict[str, Any], error: type[Exception]) -> None:
    progress, adapter = Progress(), scripted()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    with pytest.raises(error):
        _never_made = oma.run_team(team(), goal, **options)
    assert (progress.events, adapter.calls) == ([], [])


@proves("GOL-1")
async def test_an_agent_without_a_model_raises_at_once() -> None:
    with pytest.raises(ConfigurationError, match="agent 'ann' has no model"):
        _never_made = OpenMultiAgent().run_team(team(), COMPLEX)


@proves("GOL-2")
async def test_a_simple_goal_goes_to_the_agent_that_suits_it() -> None:
    progress, adapter = Progress(), scripted(work="hello")
    agents = [{"name": "ann", "description": "cooks"}, {"name": "bob", "description": "translates French letters"}]
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    result = await oma.run_team(team(agents=agents), "Translate this French letter.")
    assert (result.success, result.final_output, result.goal) == (True, "hello", "Translate this French letter.")
    assert progress.told() == [("agent_start", "bob"), ("agent_complete", "bob")]
    assert progress.events[0].data == {"phase": "short-circuit", "goal": "Translate this French letter."}
    assert [call.messages for call in adapter.calls] == [[LLMMessage.user("Translate this French letter.")]]
    (record,) = result.tasks
    assert (record.id, record.title, record.status) == ("short-circuit", "Short-circuit: bob", "completed")
    assert result.task_results["short-circuit"] == result.agent_results["bob"]
    assert result.task_results["short-circuit"] is not result.agent_results["bob"]
    assert result.plan is None
    assert result.usage_by_phase() == {"short-circuit": tokens(10, 5)}
    assert result.routing_decision.mode == "single"


@proves("GOL-2")
async def test_a_single_agent_that_fails_fails_the_run() -> None:
    progress = Progress()
    oma = OpenMultiAgent(
        default_adapter=scripted(work=LLMServerError("down", status=503, provider="p")), on_progress=progress
    )
    result = await oma.run_team(team(), "Say hello.")
    assert (result.success, result.status.code, result.tasks[0].status) == (False, "error", "failed")
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.http_status) == ("provider", 503)
    assert progress.told() == [("agent_start", "ann"), ("agent_complete", "ann")]
    assert result.final_output == result.agent_results["ann"].output == "down"


@proves("GOL-2")
async def test_a_single_agent_that_used_too_much_keeps_what_it_said() -> None:
    result = await OpenMultiAgent(default_adapter=scripted(work="hello")).run_team(
        team(), "Say hello.", max_token_budget=10
    )
    assert (result.status.code, result.final_output) == ("budget_exhausted", "hello")


@proves("GOL-8")
async def test_an_agent_that_works_alone_has_no_part_of_the_team_but_its_memory() -> None:
    store, adapter = InMemoryStore(), scripted(work="hello")
    crew = team(
        shared_memory_store=store,
        agents=[{"name": "ann", "tools": ["delegate_to_agent", "send_message"]}, {"name": "bob"}],
    )
    memory = crew.get_shared_memory_instance()
    assert memory is not None
    await memory.write("bob", "note", "secret")
    crew.send_message("bob", "ann", "psst")
    result = await OpenMultiAgent(default_adapter=adapter).run_team(crew, "Say hello, ann.")
    assert (result.success, list(result.agent_results)) == (True, ["ann"])
    (call,) = adapter.calls
    assert (call.messages, list(call.options.tools)) == ([LLMMessage.user("Say hello, ann.")], [])
    assert [message.content for message in crew.get_unread_messages("ann")] == ["psst"]
    kept = {entry.key: entry.value for entry in await memory.list_all()}
    assert kept == {"bob/note": "secret", "ann/task:short-circuit:result": "hello"}


@proves("GOL-8")
async def test_an_agent_that_works_alone_remembers_what_it_came_to() -> None:
    store = team(shared_memory=True)
    result = await OpenMultiAgent(default_adapter=scripted(work="hello")).run_team(store, "Say hello.")
    assert result.success
    memory = store.get_shared_memory_instance()
    assert memory is not None
    assert await memory.list_all() == []  # a run has a memory of its own


@proves("GOL-3", "GOL-20")
async def test_a_goal_of_several_steps_goes_to_a_coordinator_and_the_team() -> None:
    progress, adapter = Progress(), scripted()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    result = await oma.run_team(team(), COMPLEX)
    assert (result.success, result.final_output) == (True, "the answer")
    assert [phase_of(call.messages) for call in adapter.calls] == ["plan", "work", "work", "answer"]
    assert progress.told() == [
        ("agent_start", "coordinator"),
        *[
            (kind, name)
            for name in ("ann", "bob")
            for kind in ("task_start", "agent_start", "task_complete", "agent_complete")
        ],
        ("agent_complete", "coordinator"),
    ]
    assert progress.events[0].data == {"phase": "decomposition", "goal": COMPLEX}
    assert list(result.agent_results) == ["coordinator", "ann", "bob"]
    assert result.agent_results["coordinator"].output == "the answer"
    assert [(task.title, task.assignee, task.status) for task in result.tasks] == [
        ("Research", "ann", "completed"),
        ("Write", "bob", "completed"),
    ]
    assert result.metrics is not None
    assert result.metrics.completed_count == 2
    asked = text_of(adapter.calls[3].messages)
    assert "### Research (completed by ann)\ndone: # Task: Research" in asked
    assert "### Research (by ann)" in text_of(adapter.calls[2].messages)


@proves("GOL-3")
@pytest.mark.parametrize("gate", ["on_plan_ready", "on_task_dispatch", "on_approval"])
async def test_gates_call_in_the_team_also_for_a_simple_goal(gate: str) -> None:
    asked: list[Any] = []

    def ask(*arguments: Any) -> bool:
        asked.append(arguments)
        return True

    options: dict[str, Any] = {gate: ask}
    result = await OpenMultiAgent(default_adapter=scripted(), **options).run_team(team(), "Say hello.")
    assert result.success
    assert (result.routing_decision.mode, result.routing_decision.source) == ("team", "policy")
    assert asked


@proves("GOL-3")
async def test_a_mode_is_not_asked_about() -> None:
    class Never:
        version = "never"

        def decide(self, context: RoutingContext) -> RoutingDecision:
            raise AssertionError("nobody may be asked")

    oma = OpenMultiAgent(default_adapter=scripted(), execution_router=Never())
    single = await oma.run_team(team(), COMPLEX, mode="single")
    assert (single.routing_decision.source, len(single.tasks)) == ("override", 1)
    oma = OpenMultiAgent(default_adapter=scripted(), execution_router=Never())
    together = await oma.run_team(team(), "Say hello.", mode="team")
    assert (together.routing_decision.source, len(together.tasks)) == ("override", 2)


@proves("GOL-3")
async def test_an_empty_team_has_a_coordinator_all_the_same() -> None:
    result = await OpenMultiAgent(default_adapter=scripted([{"title": "A", "description": "a"}])).run_team(
        team(agents=[]), "Say hello."
    )
    assert result.status.code == "error"
    assert result.error_info is not None
    assert result.error_info.code == "INVALID_TASK_REQUIREMENTS" or result.tasks[0].status == "failed"


class Profiler:
    version = "test-profiler"

    def __init__(self, usage: TokenUsage | None = None, **fields: Any) -> None:
        self.asked = 0
        self._usage = usage
        self._profile = {
            "evidence_sources": "single",
            "independent_review": "none",
            "conflicting_objectives": False,
            "side_effect_intent": "none",
            "permission_isolation": "none",
            "decomposable": False,
            "parallelizable": False,
            "complexity": "low",
            "confidence": 0.9,
            "reasons": ["because"],
            **fields,
        }

    async def profile(self, context: RoutingContext) -> TaskProfilerResult:
        self.asked += 1
        return TaskProfilerResult(self._profile, self._usage, "small", "scripted")


@proves("GOL-4", "GOL-26")
async def test_a_profile_can_call_in_the_team_and_is_charged() -> None:
    profiler = Profiler(tokens(3, 2), parallelizable=True)
    oma = OpenMultiAgent(default_adapter=scripted(), execution_routing={"strategy": "hybrid", "profiler": profiler})
    result = await oma.run_team(team(), "Say hello.")
    assert (result.success, result.routing_decision.mode, profiler.asked) == (True, "team", 1)
    assert result.usage_by_phase() == {
        "routing": tokens(3, 2),
        "coordinator": tokens(10, 5),
        "worker": tokens(20, 10),
        "synthesis": tokens(10, 5),
    }
    assert result.total_token_usage == tokens(43, 22)


@proves("GOL-4")
async def test_a_profile_over_the_budget_ends_the_run() -> None:
    adapter, progress = scripted(), Progress()
    oma = OpenMultiAgent(
        default_adapter=adapter,
        on_progress=progress,
        execution_routing={"strategy": "hybrid", "profiler": Profiler(tokens(3, 3))},
    )
    result = await oma.run_team(team(), "Say hello.", max_token_budget=5)
    assert (result.status.code, result.total_token_usage, result.tasks) == ("budget_exhausted", tokens(3, 3), ())
    assert adapter.calls == []
    assert progress.told() == [("budget_exceeded", "semantic-router")]


@proves("GOL-4")
async def test_the_built_in_profiler_asks_the_default_model() -> None:
    profile = Profiler()._profile
    adapter = ScriptedAdapter([json.dumps(profile), "hello"])
    oma = OpenMultiAgent(default_adapter=adapter, execution_routing={"strategy": "hybrid"})
    result = await oma.run_team(team(), "Say hello.")
    assert (result.success, result.final_output, len(adapter.calls)) == (True, "hello", 2)
    assert adapter.calls[0].options.temperature == 0


@proves("GOL-5")
async def test_a_run_that_was_cancelled_before_makes_no_call() -> None:
    adapter, token, progress = scripted(), CancelToken(), Progress()
    token.cancel("enough")
    result = await OpenMultiAgent(default_adapter=adapter, on_progress=progress).run_team(team(), COMPLEX, cancel=token)
    assert (result.status.code, result.tasks, adapter.calls, progress.events) == ("cancelled", (), [], [])


class Undecided:
    version = "v1"

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def decide(self, context: RoutingContext) -> RoutingDecision:
        if self.error is not None:
            raise self.error
        await anyio.sleep_forever()
        raise AssertionError


@proves("GOL-4")
@pytest.mark.parametrize(("error", "kind"), [(KeyError("no"), "callback"), (None, "timeout")])
async def test_a_router_that_fails_and_has_to_be_followed_ends_the_run(error: Exception | None, kind: str) -> None:
    adapter, progress = scripted(), Progress()
    oma = OpenMultiAgent(
        default_adapter=adapter,
        on_progress=progress,
        execution_router=Undecided(error),
        execution_routing={"failure_policy": "fail", "timeout": 30.0 if error else 0.01},
    )
    result = await oma.run_team(team(), COMPLEX)
    assert result.error_info is not None
    assert (result.success, result.error_info.kind, result.goal) == (False, kind, COMPLEX)
    assert error is None or result.error is error
    assert (adapter.calls, progress.events) == ([], [])


@proves("GOL-5")
async def test_a_token_ends_a_router_that_thinks() -> None:
    token = CancelToken()

    class Slow:
        version = "slow"

        async def decide(self, context: RoutingContext) -> RoutingDecision:
            token.cancel()
            await anyio.sleep_forever()
            raise AssertionError

    oma = OpenMultiAgent(default_adapter=scripted(), execution_router=Slow())
    with anyio.fail_after(5):
        result = await oma.run_team(team(), COMPLEX, cancel=token)
    assert result.status.code == "cancelled"


@proves("GOL-6")
@pytest.mark.parametrize(
    "options", [{"mode": "team"}, {"plan_only": True}, {"mode": "team", "coordinator": {"provider": "openai"}}]
)
async def test_a_coordinator_without_a_model_raises_where_it_is_sure_to_be_asked(options: dict[str, Any]) -> None:
    agents = [{"name": "ann", "adapter": scripted()}]
    with pytest.raises(ConfigurationError, match=r"'coordinator' has no model.*pass coordinator=CoordinatorConfig"):
        _never_made = OpenMultiAgent().run_team(team(agents=agents), COMPLEX, **options)


@proves("GOL-6")
async def test_a_coordinator_without_a_model_ends_only_the_runs_that_need_it() -> None:
    adapter, progress = scripted(), Progress()
    given = team(agents=[{"name": "ann", "adapter": adapter}])
    oma = OpenMultiAgent(on_progress=progress)
    result = await oma.run_team(given, COMPLEX)
    assert (result.success, result.status.code, adapter.calls, progress.events) == (False, "error", [], [])
    assert isinstance(result.error, ConfigurationError)
    assert "pass coordinator=CoordinatorConfig(...)" in result.final_output
    assert (await oma.run_team(given, "Say hello.")).success


@proves("GOL-6")
@pytest.mark.parametrize(
    "options",
    [
        {"coordinator": {"model": "gpt-5-mini", "provider": "openai"}},
        {"model_routing": {"rules": [{"match": {"agent": "coordinator"}, "route": {"model": "m"}}]}},
    ],
)
async def test_a_coordinator_may_have_its_model_from_a_config_or_a_route(options: dict[str, Any]) -> None:
    given = team(agents=[{"name": "ann", "adapter": scripted()}])
    OpenMultiAgent().run_team(given, COMPLEX, mode="team", **options).close()


@proves("GOL-7")
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda oma: oma.run_team(team(), "g", on_plan_ready=bool), "no option 'on_plan_ready'; OpenMultiAgent takes"),
        (lambda oma: oma.run_tasks(team(), [], mode="team"), "no option 'mode'; run_team and stream_team take it"),
        (
            lambda oma: oma.run_tasks(team(), [], execution_router=None),
            "no option 'execution_router'; OpenMultiAgent, run_team and stream_team take it",
        ),
        (lambda oma: oma.run_team(team(), "g", plan_ony=True), "did you mean 'plan_only'"),
        (
            lambda oma: oma.run_tasks([{"name": "ann"}], []),
            "team must be a Team, a TeamConfig or a mapping .* got list",
        ),
        (lambda oma: oma.run_from_plan(team(), "{}"), "got str; PlanArtifact.from_json"),
    ],
)
async def test_what_belongs_elsewhere_is_refused_with_its_place(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        call(OpenMultiAgent(default_adapter=scripted()))


# --- the plan -------------------------------------------------------------------------------------------------------


def fenced(plan: Any) -> str:
    return f"Here it is:\n```json\n{json.dumps(plan)}\n```\nGood luck!"


WRONG_PLANS = {
    "no JSON": "I would start with research.",
    "empty": [],
    "cycle": [
        {"title": "A", "description": "a", "depends_on": ["B"]},
        {"title": "B", "description": "b", "depends_on": ["A"]},
    ],
    "unknown assignee": [{"title": "A", "description": "a", "assignee": "ghost"}],
    "unknown dependency": [{"title": "A", "description": "a", "depends_on": ["Z"]}],
    "one title twice": [{"title": "A", "description": "a"}, {"title": "a ", "description": "b"}],
    "wrong type": [{"title": "A", "description": 7}],
    "too many": [{"title": f"T{number}", "description": "d"} for number in range(10_000)],
}


CODES = {
    "empty": ["NO_TASKS"],
    "cycle": ["DEPENDENCY_CYCLE"],
    "unknown assignee": ["INVALID_ASSIGNEE"],
    "unknown dependency": ["UNKNOWN_DEPENDENCY"],
    "one title twice": ["DUPLICATE_TITLE"],
    "wrong type": ["INVALID_TASK"],
    "too many": ["TOO_MANY_TASKS"],
}


@proves("GOL-10")
@pytest.mark.parametrize("kind", WRONG_PLANS)
async def test_a_wrong_plan_is_given_back_once_and_then_ends_the_run(kind: str) -> None:
    adapter, progress = scripted((WRONG_PLANS[kind], WRONG_PLANS[kind])), Progress()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    result = await oma.run_team(team(), COMPLEX)
    assert (result.status.code, result.tasks) == ("error", ())
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.code) == ("validation", "COORDINATOR_PLAN_INVALID")
    assert len(adapter.calls) == 2
    assert len(text_of(adapter.calls[1].messages)) < 10_000
    assert result.total_token_usage == tokens(20, 10)
    assert progress.told() == [
        ("agent_start", "coordinator"),
        ("agent_complete", "coordinator"),
        ("error", "coordinator"),
    ]
    assert progress.events[-1].data.code == "COORDINATOR_PLAN_INVALID"
    assert [issue["code"] for issue in progress.events[-1].data.issues] == CODES.get(kind, [])


@proves("GOL-10")
@pytest.mark.parametrize("kind", WRONG_PLANS)
async def test_a_plan_that_was_mended_is_run(kind: str) -> None:
    adapter, progress = scripted((WRONG_PLANS[kind], PLAN)), Progress()
    result = await OpenMultiAgent(default_adapter=adapter, on_progress=progress).run_team(team(), COMPLEX)
    assert (result.success, len(result.tasks), len(adapter.calls)) == (True, 2, 5)
    assert progress.of("error") == []


@proves("GOL-10")
@pytest.mark.parametrize("write", [fenced, lambda plan: json.dumps({"tasks": plan}), json.dumps])
async def test_a_plan_is_found_in_what_models_write_around_it(write: Callable[[Any], str]) -> None:
    adapter = scripted(write(PLAN))
    result = await OpenMultiAgent(default_adapter=adapter).run_team(team(), COMPLEX)
    assert (result.success, len(adapter.calls)) == (True, 4)


@proves("GOL-11")
async def test_a_coordinator_that_fails_ends_the_run_with_its_status() -> None:
    progress = Progress()
    oma = OpenMultiAgent(
        default_adapter=scripted(LLMRateLimitError("slow down", status=429, provider="p")), on_progress=progress
    )
    result = await oma.run_team(team(), COMPLEX)
    assert (result.status.code, result.tasks) == ("error", ())
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.http_status) == ("provider", 429)
    assert progress.of("error")[0].data.code == "COORDINATOR_DECOMPOSITION_FAILED"
    assert isinstance(result.error, LLMRateLimitError)


@proves("GOL-12")
async def test_a_plan_that_nobody_can_do_ends_the_run_before_any_task() -> None:
    plan = [{"title": "A", "description": "a", "requires": {"required_tools": ["grep"]}}]
    adapter, progress = scripted(plan), Progress()
    result = await OpenMultiAgent(default_adapter=adapter, on_progress=progress).run_team(team(), COMPLEX)
    assert result.status.code == "error"
    assert [task.status for task in result.tasks] == ["skipped"]
    assert len(adapter.calls) == 1
    (failure,) = progress.of("error")
    assert failure.data.code == "INVALID_TASK_REQUIREMENTS"
    assert failure.data.issues[0]["code"] == "NO_ELIGIBLE_AGENT"


@proves("GOL-13")
async def test_only_a_plan() -> None:
    adapter, progress = scripted(), Progress()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    result = await oma.run_team(team(), "Say hello.", plan_only=True)
    assert (result.success, result.plan_only, result.metrics) == (True, True, None)
    assert [(task.status, task.assignee, task.metrics) for task in result.tasks] == [
        ("pending", "ann", None),
        ("pending", "bob", None),
    ]
    assert list(result.agent_results) == ["coordinator"]
    assert result.total_token_usage == tokens(10, 5)
    assert progress.told() == [("agent_start", "coordinator"), ("agent_complete", "coordinator")]
    assert result.plan is not None
    stored = json.loads(result.plan.to_json())
    assert PlanArtifact.from_dict(stored) == result.plan

    replayed = await oma.run_from_plan(team(), stored)
    assert replayed.success
    assert [task.id for task in replayed.tasks] == [task.id for task in result.tasks]
    assert [phase_of(call.messages) for call in adapter.calls] == ["plan", "work", "work"]
    assert replayed.goal == "Say hello."


@proves("GOL-14")
async def test_a_plan_is_shown_once_before_it_is_run() -> None:
    shown: list[Any] = []

    async def approve(tasks: Sequence[Any]) -> dict[str, str]:
        shown.append([(task.title, task.assignee, task.status) for task in tasks])
        return {"action": "allow"}

    plan = [{"title": "A", "description": "find facts"}, {"title": "B", "description": "b", "depends_on": ["A"]}]
    result = await OpenMultiAgent(default_adapter=scripted(plan), on_plan_ready=approve).run_team(team(), COMPLEX)
    assert result.success
    assert len(shown) == 1
    assert [(title, status) for title, _assignee, status in shown[0]] == [("A", "pending"), ("B", "blocked")]
    assert all(assignee in ("ann", "bob") for _title, assignee, _status in shown[0])
    assert [task.assignee for task in result.tasks] == [assignee for _title, assignee, _status in shown[0]]


@proves("GOL-14", "GOL-22")
@pytest.mark.parametrize(
    ("answer", "code", "kind"),
    [
        (lambda _: False, "rejected", None),
        (lambda _: {"action": "deny", "reason": "too dear"}, "rejected", None),
        (lambda _: 1 / 0, "error", "callback"),
        (lambda _: "yes", "error", "callback"),
        (lambda _: {"action": "suspend"}, "error", "callback"),
    ],
)
async def test_a_plan_that_is_not_approved_is_not_run(answer: Any, code: str, kind: str | None) -> None:
    adapter, progress = scripted(), Progress()
    oma = OpenMultiAgent(default_adapter=adapter, on_plan_ready=answer, on_progress=progress)
    result = await oma.run_team(team(), COMPLEX)
    assert (result.success, result.status.code) == (False, code)
    assert (None if result.error_info is None else result.error_info.kind) == kind
    assert [task.status for task in result.tasks] == ["skipped", "skipped"]
    assert (len(adapter.calls), result.total_token_usage) == (1, tokens(10, 5))
    assert progress.told()[0] == ("agent_start", "coordinator")
    assert progress.told()[-1] == ("agent_complete", "coordinator")
    assert [kind for kind, _ in progress.told()].count("task_skipped") == 2


@proves("GOL-15")
async def test_an_unknown_assignee_may_be_replaced() -> None:
    progress = Progress()
    plan = [{"title": "A", "description": "a", "assignee": "ghost"}]
    oma = OpenMultiAgent(default_adapter=scripted(plan), strict_assignees=False, on_progress=progress)
    result = await oma.run_team(team(), COMPLEX)
    assert result.success
    assert result.tasks[0].assignee in ("ann", "bob")
    (warning,) = progress.of("warning")
    assert warning.task == result.tasks[0].id
    assert warning.data == {
        "code": "INVALID_ASSIGNEE",
        "task_id": result.tasks[0].id,
        "task_title": "A",
        "assignee": "ghost",
        "fallback": "clear-and-schedule",
    }


# --- the work and the answer ----------------------------------------------------------------------------------------


@proves("GOL-20")
async def test_the_answer_is_written_from_failures_too() -> None:
    plan = [
        {"title": "Good", "description": "a", "assignee": "ann"},
        {"title": "Bad", "description": "b", "assignee": "bob"},
        {"title": "After", "description": "c", "depends_on": ["Bad"]},
    ]

    def work(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        return LLMServerError("no luck", status=500, provider="p") if "# Task: Bad" in text_of(messages) else "fine"

    adapter = scripted(plan, work=work)
    result = await OpenMultiAgent(default_adapter=adapter).run_team(team(), COMPLEX)
    assert (result.success, result.status.code, result.final_output) == (False, "error", "the answer")
    assert [task.status for task in result.tasks] == ["completed", "failed", "failed"]
    asked = text_of(adapter.calls[-1].messages)
    assert "### Good (completed by ann)\nfine" in asked
    assert "### Bad (FAILED)" in asked
    assert "no luck" in asked
    assert "### After (FAILED)" in asked


@proves("GOL-20")
async def test_an_answer_that_cannot_be_written_keeps_what_the_tasks_came_to() -> None:
    progress = Progress()
    adapter = scripted(answer=LLMServerError("no luck", status=500, provider="p"))
    result = await OpenMultiAgent(default_adapter=adapter, on_progress=progress).run_team(team(), COMPLEX)
    assert (result.success, result.status.code) == (False, "error")
    assert result.final_output == "done: # Task: Write"
    assert [task.status for task in result.tasks] == ["completed", "completed"]
    assert progress.of("error")[0].data.code == "SYNTHESIS_FAILED"
    assert progress.told()[-1] == ("agent_complete", "coordinator")


@proves("GOL-33")
@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [("", "end_turn"), (" \n", "end_turn"), ("I cannot", "content_filter"), ("", "content_filter")],
)
async def test_an_answer_that_is_none_is_no_silent_success(answer: str, stop_reason: Any, failed: bool) -> None:
    said = LLMResponse(LLMMessage.assistant(answer).content, stop_reason=stop_reason, usage=tokens(10, 5))

    def work(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        if "# Task: Write" in text_of(messages):
            return LLMServerError("no luck", status=500, provider="p") if failed else "a report"
        return "facts"

    progress = Progress()
    oma = OpenMultiAgent(default_adapter=scripted(answer=said, work=work), on_progress=progress)
    result = await oma.run_team(team(), COMPLEX)
    assert (result.status.code, result.flags) == ("error" if failed else "ok", ("no-synthesis",))
    assert result.final_output == ("facts" if failed else "a report")
    assert result.agent_results["coordinator"].output == answer
    (warning,) = progress.of("warning")
    assert (warning.agent, warning.data) == ("coordinator", {"code": "NO_SYNTHESIS", "stop_reason": stop_reason})


MENDED = ("no plan", PLAN)
NOBODYS = [{"title": "A", "description": "a", "requires": {"required_capabilities": ["flying"]}}]


@proves("GOL-32")
@pytest.mark.parametrize(
    ("plan", "options", "settings", "phases"),
    [
        (None, {}, {}, ["plan", "answer"]),
        (MENDED, {}, {}, ["plan", "answer"]),
        (("no plan", "no plan"), {}, {}, ["plan"]),
        (None, {"plan_only": True}, {}, ["plan"]),
        (None, {"max_token_budget": 40}, {}, ["plan"]),
        (None, {}, {"on_plan_ready": lambda tasks: False}, ["plan"]),
        (NOBODYS, {}, {}, ["plan"]),
        (None, {}, {"execution_routing": {"strategy": "hybrid"}}, ["plan", "answer"]),
    ],
)
async def test_the_usage_in_a_result_adds_up(
    plan: Any, options: dict[str, Any], settings: dict[str, Any], phases: list[str]
) -> None:
    adapter, progress = scripted(plan), Progress()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress, **settings)
    result = await oma.run_team(team(), COMPLEX, **options)
    assert result.total_token_usage.total_tokens == 15 * len(adapter.calls)
    assert result.metrics is None or result.metrics.total_tokens == 15 * len(adapter.calls)
    used = [each.token_usage.total_tokens for each in result.agent_results.values()]
    assert sum(used) == result.total_token_usage.total_tokens
    assert {name: each.token_usage for name, each in result.agent_results.items()} == result.usage_by_agent()
    coordinator = result.agent_results["coordinator"]
    asked = {"plan": result.decomposition, "answer": result.synthesis}
    assert [phase for phase, each in asked.items() if each is not None] == phases
    own = [each for each in asked.values() if each is not None]
    assert coordinator.token_usage.total_tokens == sum(each.token_usage.total_tokens for each in own)
    assert sum(entry.requests for each in own for entry in each.usage_report) == sum(
        entry.requests for entry in coordinator.usage_report
    )
    assert coordinator.output == own[-1].output
    (told,) = [event.data for event in progress.of("agent_complete") if event.agent == "coordinator"]
    assert told.token_usage == coordinator.token_usage


@proves("GOL-32")
async def test_the_usage_of_a_run_that_was_cancelled_from_outside_is_told() -> None:
    progress, scope = Progress(), anyio.CancelScope()

    def answer(messages: Sequence[LLMMessage], options: LLMChatOptions) -> str:
        scope.cancel()
        return "too late"

    with scope:
        await OpenMultiAgent(default_adapter=scripted(answer=answer), on_progress=progress).run_team(team(), COMPLEX)
    (ended,) = [event.data for event in progress.of("agent_complete") if event.agent == "coordinator"]
    assert (ended.status.code, ended.token_usage.total_tokens) == ("cancelled", 15)
    assert ended.token_usage.unknown_calls == 1  # the answer's


@proves("GOL-21", "GOL-22")
async def test_a_cancelled_run_is_not_answered() -> None:
    token, progress = CancelToken(), Progress()

    def work(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        if "# Task: Research" in text_of(messages):
            return "facts"
        token.cancel("enough")
        return "late"

    adapter = scripted(work=work)
    result = await OpenMultiAgent(default_adapter=adapter, on_progress=progress).run_team(team(), COMPLEX, cancel=token)
    assert (result.status.code, result.success) == ("cancelled", False)
    assert [phase_of(call.messages) for call in adapter.calls] == ["plan", "work", "work"]
    assert result.task_results[result.tasks[0].id].output == "facts"
    assert progress.told().count(("agent_start", "coordinator")) == 1
    assert progress.told()[-1] == ("agent_complete", "coordinator")


@proves("GOL-21")
async def test_a_run_without_budget_is_not_answered() -> None:
    progress, adapter = Progress(), scripted()
    oma = OpenMultiAgent(default_adapter=adapter, on_progress=progress)
    result = await oma.run_team(team(), COMPLEX, max_token_budget=40)  # 15 for the plan, 15 for each task
    assert (result.status.code, result.total_token_usage.total_tokens) == ("budget_exhausted", 45)
    assert result.final_output == "done: # Task: Write"
    assert [phase_of(call.messages) for call in adapter.calls] == ["plan", "work", "work"]
    assert [kind for kind, _ in progress.told()].count("budget_exceeded") == 1
    assert progress.told()[-1] == ("agent_complete", "coordinator")


@proves("GOL-22")
@pytest.mark.parametrize("phase", ["plan", "work", "answer"])
async def test_the_coordinators_end_is_told_when_the_caller_is_cancelled(phase: str) -> None:
    progress, reached = Progress(), anyio.Event()

    async def stall(messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        if phase_of(messages) == phase:
            reached.set()
            await anyio.sleep_forever()
        return {"plan": json.dumps({"tasks": PLAN})}.get(phase_of(messages), "text")

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(stall), on_progress=progress)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: oma.run_team(team(), COMPLEX))
        with anyio.fail_after(5):
            await reached.wait()
        group.cancel_scope.cancel()
    starts = [event.agent for event in progress.of("agent_start")]
    ends = [event.agent for event in progress.of("agent_complete")]
    assert sorted(starts) == sorted(ends)
    assert progress.told()[-1] == ("agent_complete", "coordinator")
    started = {event.task for event in progress.of("task_start")}
    ended = {event.task for kind in ("task_complete", "task_failed") for event in progress.of(kind)}
    assert started <= ended


IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


@proves("GOL-23")
async def test_a_structured_goal_reaches_everybody() -> None:
    adapter = scripted()
    goal: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Earlier."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}]},
        {"role": "user", "content": [{"type": "text", "text": COMPLEX}, IMAGE]},
    ]
    result = await OpenMultiAgent(default_adapter=adapter).run_team(team(), goal)
    assert result.success
    assert len(adapter.calls) == 4
    for call in adapter.calls:
        assert [message.role for message in call.messages] == ["user", "assistant", "user"]
        assert [block.type for block in call.messages[-1].content] == ["text", "image"]
        assert text_of(call.messages[:1]) == "Earlier."
    assert result.plan is not None
    again = PlanArtifact.from_json(result.plan.to_json())
    assert again == result.plan
    replayed = await OpenMultiAgent(default_adapter=(second := scripted())).run_from_plan(team(), again)
    assert replayed.success
    assert [block.type for block in second.calls[0].messages[-1].content] == ["text", "image"]


@proves("GOL-23")
async def test_a_structured_goal_reaches_an_agent_that_works_alone_as_it_is() -> None:
    adapter = scripted(work="a cat")
    goal: list[dict[str, Any]] = [{"type": "text", "text": "Describe this."}, IMAGE]
    result = await OpenMultiAgent(default_adapter=adapter).run_team(team(), goal)
    assert result.final_output == "a cat"
    assert [block.type for block in adapter.calls[0].messages[-1].content] == ["text", "image"]


@proves("GOL-24")
async def test_the_coordinator_is_revealed_only_on_request() -> None:
    hidden, shown = scripted(), scripted()
    await OpenMultiAgent(default_adapter=hidden).run_team(team(), COMPLEX)
    await OpenMultiAgent(default_adapter=shown).run_team(team(), COMPLEX, reveal_coordinator=True)
    for call in hidden.calls:
        assert "## Team context" not in text_of(call.messages)
    assert text_of(hidden.calls[1].messages) == "# Task: Research\n\nFind the facts."
    worker = text_of(shown.calls[1].messages)
    assert worker.startswith("## Team context\n")
    for part in (f"Goal: {COMPLEX}", "Team: ann, bob", "Your role in this team: finds facts", "# Task: Research"):
        assert part in worker
    assert "## Team context" not in text_of(shown.calls[0].messages)


def delegating(**fields: Any) -> tuple[ScriptedAdapter, Team]:
    """A team whose first task fails once, and then has another agent help; and whose first plan is no plan."""
    call = ToolUseBlock.new("1", "delegate_to_agent", {"target_agent": "bob", "prompt": "Help me."})
    turns = iter([ValueError("flaky"), LLMResponse([call], usage=tokens(4, 2))])

    def work(messages: Sequence[LLMMessage], _options: LLMChatOptions) -> Any:
        is_first = len(messages) == 1 and "# Task: Research" in text_of(messages)
        return next(turns) if is_first else "done"

    first = PLAN[0] | {"max_retries": 1, "retry_delay": 0}
    agents = [{"name": "ann", "tools": ["delegate_to_agent"]}, {"name": "bob", "description": "helps"}]
    return scripted(("no plan", [first, PLAN[1]]), work=work), team(agents=agents, **fields)


@proves("GOL-24")
async def test_agents_that_are_delegated_to_are_told_of_their_own_role() -> None:
    adapter, crew = delegating()
    assert (await OpenMultiAgent(default_adapter=adapter).run_team(crew, COMPLEX, reveal_coordinator=True)).success
    (told,) = (text for call in adapter.calls if "Help me." in (text := text_of(call.messages)))
    assert told.startswith(f"## Team context\nGoal: {COMPLEX}\nTeam: ann, bob\nYour role in this team: helps\n")
    assert told.endswith("\n\nHelp me.")


@proves("GOL-26")
async def test_whoever_makes_a_call_it_is_counted_once() -> None:
    adapter, crew = delegating(shared_memory=True)
    result = await OpenMultiAgent(default_adapter=adapter).run_team(crew, COMPLEX)
    assert result.success
    assert {phase: usage.total_tokens for phase, usage in result.usage_by_phase().items()} == {
        "coordinator": 30,
        "worker": 6 + 15 + 15,
        "delegated": 15,
        "synthesis": 15,
    }
    assert sum(entry.requests for entry in result.usage_report) == len(adapter.calls) == 8
    assert result.total_token_usage.total_tokens == 96
    assert result.total_token_usage == sum(result.usage_by_agent().values(), TokenUsage())
    assert result.total_token_usage.unknown_calls == 1  # the one that failed
    read = TeamRunResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert read.to_dict() == result.to_dict()


@proves("GOL-25")
async def test_each_phase_has_the_model_of_its_route() -> None:
    adapter = scripted()
    routing = {
        "rules": [
            {"match": {"phase": "coordinator"}, "route": {"model": "planner"}},
            {"match": {"phase": "synthesis"}, "route": {"model": "writer"}},
            {"match": {"phase": "worker", "agent": "ann"}, "route": {"model": "cheap"}},
            {"match": {"phase": "short-circuit"}, "route": {"model": "quick"}},
        ]
    }
    oma = OpenMultiAgent(default_adapter=adapter, default_model="usual")
    await oma.run_team(team(), COMPLEX, model_routing=routing)
    assert [call.options.model for call in adapter.calls] == ["planner", "cheap", "usual", "writer"]
    other = scripted()
    await OpenMultiAgent(default_adapter=other).run_team(team(), "Say hello.", model_routing=routing)
    assert [call.options.model for call in other.calls] == ["quick"]


class Models:
    """An adapter that answers for each model."""

    name = "models"

    def __init__(self, **down: Exception) -> None:
        self.down = down
        self.asked: list[str] = []
        self.inner = scripted()

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.asked.append(options.model)
        if options.model in self.down:
            raise self.down[options.model]
        return await self.inner.chat(messages, options)


def fallbacks(*phases: str) -> dict[str, Any]:
    return {
        "rules": [
            {"match": {"phase": phase}, "route": {"model": f"{phase[0]}1", "fallback": [{"model": f"{phase[0]}2"}]}}
            for phase in phases
        ]
    }


BUSY = LLMServerError("busy", status=503, provider="p")


@proves("GOL-25")
async def test_the_next_model_of_a_route_is_asked_where_a_provider_is_down() -> None:
    adapter, progress = Models(c1=BUSY, s1=BUSY), Progress()
    oma = OpenMultiAgent(default_adapter=adapter, default_model="own", on_progress=progress)
    result = await oma.run_team(team(), COMPLEX, model_routing=fallbacks("coordinator", "synthesis"))
    assert (result.success, result.final_output) == (True, "the answer")
    assert adapter.asked == ["c1", "c2", "own", "own", "s1", "s2"]
    assert result.total_token_usage.total_tokens == 60
    assert [kind for kind, who in progress.told() if who == "coordinator"] == ["agent_start", "agent_complete"]
    alone = Models(s1=BUSY, s2=BUSY)
    oma = OpenMultiAgent(default_adapter=alone, default_model="own")
    result = await oma.run_team(team(), "Say hello.", model_routing=fallbacks("short-circuit"))
    assert (result.success, result.error, alone.asked) == (False, BUSY, ["s1", "s2"])


@proves("GOL-25")
async def test_other_failures_are_no_reason_for_another_model() -> None:
    adapter = Models(c1=LLMAuthenticationError("no", status=401, provider="p"))
    oma = OpenMultiAgent(default_adapter=adapter, default_model="own")
    result = await oma.run_team(team(), COMPLEX, model_routing=fallbacks("coordinator"))
    assert (result.success, adapter.asked) == (False, ["c1"])


@proves("GOL-25")
async def test_a_stream_is_told_that_another_model_begins_anew() -> None:
    oma = OpenMultiAgent(default_adapter=Models(s1=BUSY), default_model="own")
    async with oma.stream_team(team(), "Say hello.", model_routing=fallbacks("short-circuit")) as stream:
        kinds = [(event.type, event.agent) async for event in stream]
    assert kinds.count(("turn_restart", "ann")) == 1
    assert kinds.index(("turn_restart", "ann")) < kinds.index(("text", "ann"))


@proves("GOL-27")
async def test_a_stream_has_progress_and_what_the_agents_write() -> None:
    oma = OpenMultiAgent(default_adapter=scripted())
    async with oma.stream_team(team(), COMPLEX) as stream:
        events = [event async for event in stream]
    assert stream.result.success
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert {event.run_id for event in events} == {stream.result.identity.run_id}
    assert (events[0].type, events[-1].type) == ("agent_start", "done")
    assert events[-1].data.final_output == "the answer"
    ids = {task.title: task.id for task in stream.result.tasks}
    written: dict[tuple[str | None, str | None], str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            written[event.agent, event.task] = written.get((event.agent, event.task), "") + event.data
    assert written["ann", ids["Research"]] == "done: # Task: Research"
    assert written["bob", ids["Write"]] == "done: # Task: Write"
    assert written["coordinator", None].endswith("the answer")


@proves("GOL-28")
async def test_many_runs_of_one_team_do_not_mix() -> None:
    def work(messages: Sequence[LLMMessage], options: LLMChatOptions) -> str:
        return f"did {text_of(messages).partition('number ')[2].split()[0]}"

    def respond(messages: Sequence[LLMMessage], options: LLMChatOptions) -> str:
        phase, text = phase_of(messages), text_of(messages)
        number = text.partition("number ")[2].split()[0]
        if phase == "plan":
            task = {"title": "Do", "description": f"Do number {number} now"}
            return json.dumps({"tasks": [task, {**task, "title": "Again", "depends_on": ["Do"]}]})
        assert {word for word in text.split() if word.startswith("n-")} == {number}
        return f"did number {number} !"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(respond))
    shared = team(shared_memory=True)
    results: dict[str, Any] = {}

    async def run(name: str) -> None:
        results[name] = await oma.run_team(shared, f"First do number {name} and then do it again", run_id=name)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(run, f"n-{number}")
    for name, result in results.items():
        assert (result.success, result.final_output, result.identity.run_id) == (True, f"did number {name} !", name)
        assert {item.identity.run_id for item in result.task_results.values()} == {name}


@proves("GOL-28")
async def test_a_second_run_is_like_the_first() -> None:
    members = team(shared_memory=True)
    prompts = []
    for _ in range(2):
        adapter = scripted()
        result = await OpenMultiAgent(default_adapter=adapter).run_team(members, COMPLEX)
        assert result.success
        prompts.append([text_of(call.messages) for call in adapter.calls])
    assert prompts[0] == prompts[1]


@proves("GOL-29")
async def test_the_spans_of_a_run() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    oma = OpenMultiAgent(default_adapter=scripted(), tracer_provider=provider)
    result = await oma.run_team(team(), COMPLEX)
    assert result.success
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    tree = {
        (span.name, names.get(span.parent.span_id) if span.parent else None)
        for span in spans
        if "chat" not in span.name
    }
    assert tree == {
        ("invoke_workflow news", None),
        ("invoke_agent coordinator", "invoke_workflow news"),
        ("prepare_plan", "invoke_workflow news"),
        ("execute_task Research", "invoke_workflow news"),
        ("invoke_agent ann", "execute_task Research"),
        ("execute_task Write", "invoke_workflow news"),
        ("invoke_agent bob", "execute_task Write"),
    }
    (root,) = (span for span in spans if span.parent is None)
    assert root.attributes is not None
    assert root.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert root.attributes["openmultiagent.usage.input_tokens"] == 40
    assert result.identity.trace_id == f"{root.context.trace_id:032x}"
    research, write = (next(span for span in spans if span.name == f"execute_task {t}") for t in ("Research", "Write"))
    assert [link.context.span_id for link in write.links] == [research.context.span_id]
    _planned, answered = (span for span in spans if span.name == "invoke_agent coordinator")
    assert {link.context.span_id for link in answered.links} == {research.context.span_id, write.context.span_id}
    plan = next(span for span in spans if span.name == "prepare_plan")
    assert plan.attributes is not None
    assert (plan.attributes["openmultiagent.plan.task_count"], plan.attributes["openmultiagent.plan.approved"]) == (
        2,
        True,
    )


@proves("GOL-20")
async def test_the_answer_of_a_coordinator_with_an_adapter_of_its_own() -> None:
    own, others = scripted(), scripted()
    oma = OpenMultiAgent(default_adapter=others)
    result = await oma.run_team(team(), COMPLEX, coordinator={"adapter": own, "instructions": "Be brief."})
    assert result.success
    assert [phase_of(call.messages) for call in own.calls] == ["plan", "answer"]
    assert [phase_of(call.messages) for call in others.calls] == ["work", "work"]
    assert "Be brief." in (own.calls[0].options.system_prompt or "")


@proves("GOL-1")
def test_a_team_run_from_a_script() -> None:
    oma = OpenMultiAgent(default_adapter=scripted())
    try:
        result = oma.run_team_sync(team(), COMPLEX)
        assert result.final_output == "the answer"
    finally:
        oma.aclose_sync()


@proves("GOL-1")
async def test_a_definition_is_as_good_as_a_team() -> None:
    config = {"name": "pair", "agents": [AgentConfig("ann"), {"name": "bob"}]}
    result = await OpenMultiAgent(default_adapter=scripted()).run_team(config, COMPLEX)
    assert result.success


@proves("GOL-1")
def test_a_team_is_kept_under_a_name_of_its_own() -> None:
    oma = OpenMultiAgent()
    made = oma.create_team("first", {"name": "news", "agents": [{"name": "ann"}]})
    assert made.name == "news"
    with pytest.raises(ConfigurationError, match="team 'first' already exists"):
        oma.create_team("first", {"name": "other", "agents": []})
    with pytest.raises(ConfigurationError, match="must be a string"):
        oma.create_team(None, {"name": "other", "agents": []})  # type: ignore[arg-type]


@proves("GOL-32")
@pytest.mark.parametrize("plan_only", [False, True])
async def test_the_single_results_in_a_result_share_nothing(plan_only: bool) -> None:
    oma = OpenMultiAgent(default_adapter=scripted())
    result = await oma.run_team(team(), COMPLEX, plan_only=plan_only)
    singles = [*result.task_results.values(), *result.agent_results.values(), result.decomposition, result.synthesis]
    found = [each for each in singles if each is not None]
    assert len(found) == (2 if plan_only else 7)
    before = [[message.to_dict() for message in each.messages] for each in found]
    for position, each in enumerate(found):
        assert each.messages
        each.messages.clear()
        rest = [[message.to_dict() for message in other.messages] for other in found[position + 1 :]]
        assert rest == before[position + 1 :]

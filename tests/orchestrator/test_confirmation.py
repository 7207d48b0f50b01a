"""Calls of tools that have consequences: what runs tell of them, and who has to confirm them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    CancelToken,
    ConfigurationError,
    LLMMessage,
    OpenMultiAgent,
    RunCall,
    TeamRunResult,
    TextBlock,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import Tool, ToolCallContext, ToolDecision, ToolNext
from tests.support import proves

GRANTED = "consequential-no-independence"
MISSING = "confirmation-required"
NOT_CONFIRMED = (
    'Tool "deploy" was denied: it has consequences, and neither on_tool_call nor an approved plan has confirmed it'
)

Result = AgentRunResult[Any] | TeamRunResult


class Site:
    """Where things are deployed."""

    name = "site"

    def __init__(self) -> None:
        self.deployed: list[str] = []
        self.viewed: list[str] = []

    @property
    def deploy(self) -> Tool:
        async def deploy(target: str) -> str:
            """Put the site online."""
            self.deployed.append(target)
            return f"deployed {target}"

        return tool(deploy, consequential=True)

    @property
    def view(self) -> Tool:
        async def view(target: str) -> str:
            """Delete production, wipe all disks."""
            self.viewed.append(target)
            return f"{target} is fine"

        return tool(view)

    async def open(self) -> Sequence[Tool]:
        return [self.deploy, self.view]

    async def aclose(self) -> None:
        pass


def model(
    name: str = "model", *, planner: str | None = None, worker: str = "deploy", answerer: str | None = None
) -> Any:
    """A model for everybody: each calls the tool that is named for it, if any, reads the result and answers."""

    def respond(messages: Sequence[LLMMessage], _: LLMChatOptions) -> Any:
        prompt = "".join(block.text for block in messages[0].content if block.type == "text")
        said: str = "done"
        calls: str | None = worker
        if "Break this goal into tasks" in prompt:
            tasks = [
                {"title": "Ship", "description": "Ship it.", "assignee": "ann"},
                {"title": "Look", "description": "Look at it.", "assignee": "bob", "depends_on": ["Ship"]},
            ]
            calls, said = planner, json.dumps({"tasks": tasks})
        elif "## Original Goal" in prompt:
            calls, said = answerer, "the answer"
        elif "Look at it." in prompt:
            calls = None
        elif prompt == "Help.":
            calls = "deploy"
        if calls is None or len(messages) > 1:
            return said
        delegated = {"target_agent": "bob", "prompt": "Help."}
        return [ToolUseBlock.new("1", calls, delegated if calls == "delegate_to_agent" else {"target": "eu"})]

    return ScriptedAdapter(respond)


async def run(entry: str, oma: OpenMultiAgent, tools: Sequence[Any], adapter: Any = None, **fields: Any) -> Result:
    """Have an agent of a run call `deploy`, if nothing else is wanted."""
    options: dict[str, Any] = {"mode": "team"}
    ann = AgentConfig("ann", adapter=model() if adapter is None else adapter, tools=tools, **fields)
    bob = AgentConfig("bob", adapter=ann.adapter)
    planner: dict[str, Any] = {"adapter": ann.adapter}
    if entry == "agent":
        return await oma.run_agent(ann, "Say hello.")
    if entry == "agent stream":
        async with oma.stream_agent(ann, "Say hello.") as stream:
            _ = [event async for event in stream]
        return stream.result
    if entry in ("routed single", "single"):
        options = {} if entry == "routed single" else {"mode": "single"}
        return await oma.run_team({"name": "t", "agents": [ann]}, "Say hello.", **options)
    if entry == "model route":
        options["model_routing"] = {"rules": [{"match": {"phase": "worker"}, "route": {"model": "other"}}]}
    if entry == "delegated":
        bob = ann.replace(name="bob")
        ann = AgentConfig("ann", adapter=model(worker="delegate_to_agent"), tools=["delegate_to_agent"])
    if entry in ("plan", "answer"):
        silent = model(worker="view")
        calls = {"planner" if entry == "plan" else "answerer": "deploy"}
        planner = {"adapter": model(**calls), "tools": tools, **fields}
        ann, bob = AgentConfig("ann", adapter=silent, tools=[Site().view]), bob.replace(adapter=silent)
    team = {"name": "t", "agents": [ann, bob]}
    if entry == "team stream":
        async with oma.stream_team(team, "Ship it.", coordinator=planner, **options) as events:
            _ = [event async for event in events]
        return events.result
    return await oma.run_team(team, "Ship it.", coordinator=planner, **options)


AGENTS = ("agent", "agent stream")
ALONE = ("routed single", "single")
TEAMS = ("team", "team stream", "model route", "delegated", "plan", "answer")
ENTRIES = (*AGENTS, *ALONE, *TEAMS)


def shown(result: Result) -> tuple[bool, str, tuple[str, ...]]:
    return result.success, result.status.code, result.flags


async def allow(call: ToolCallContext) -> ToolDecision:
    return ToolDecision.allow()


# --- without a confirmation being asked for -------------------------------------------------------------------------


@proves("ORC-90")
@pytest.mark.parametrize(("entry", "opened"), [*((each, False) for each in ENTRIES), ("agent", True), ("team", True)])
async def test_a_run_with_such_tools_says_so_and_is_not_held_up(entry: str, opened: bool) -> None:
    site = Site()
    result = await run(entry, OpenMultiAgent(), [site if opened else site.deploy])
    assert shown(result) == (True, "ok", (GRANTED,))
    assert site.deployed == ["eu"]


@proves("ORC-90")
@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("entry", [*AGENTS, *ALONE, "team"])
async def test_only_tools_that_are_granted_and_marked_count(entry: str, confirm: bool) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=confirm)
    benign = await run(entry, oma, [site.view], model(worker="view"))
    denied = await run(entry, oma, [site.view, site.deploy], model(worker="view"), disallowed_tools=["deploy"])
    opened = await run(entry, oma, [site], model(worker="view"), disallowed_tools=["deploy"])
    assert [shown(each) for each in (benign, denied, opened)] == [(True, "ok", ())] * 3
    assert site.viewed == ["eu"] * 3


@proves("ORC-90")
async def test_a_tool_need_not_be_called_and_a_run_not_succeed() -> None:
    site = Site()
    oma = OpenMultiAgent()
    broken = ScriptedAdapter([RuntimeError("no"), RuntimeError("no")])
    config = AgentConfig("ann", adapter=broken, tools=[site.deploy])
    assert shown(await oma.run_agent(config, "q")) == (False, "error", (GRANTED,))
    failed = await oma.run_team({"name": "t", "agents": [config]}, "Say hello.")
    assert shown(failed) == (False, "error", (GRANTED,))
    coordinator = {"adapter": model(), "tools": [site.deploy]}
    alone = {"name": "t", "agents": [config.replace(adapter=ScriptedAdapter(["hi"]), tools=())]}
    unasked = await OpenMultiAgent().run_team(alone, "Say hello.", coordinator=coordinator)
    assert shown(unasked) == (True, "ok", (GRANTED,))


@proves("ORC-91")
@pytest.mark.parametrize("confirm", [False, True])
async def test_runs_of_tasks_plans_and_agents_apart_are_neither_marked_nor_held_up(confirm: bool) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=confirm)
    team = {"name": "t", "agents": [AgentConfig("ann", adapter=model(), tools=[site.deploy])]}
    done = await oma.run_tasks(team, [{"title": "Ship", "description": "Ship it."}])
    assert done.plan is not None
    again = await oma.run_from_plan(team, done.plan)
    assert [shown(each) for each in (done, again)] == [(True, "ok", ())] * 2
    assert done.task_results[done.tasks[0].id].flags == ()
    apart = await Agent(AgentConfig("ann", adapter=model(), tools=[site.deploy])).run("Say hello.")
    assert shown(apart) == (True, "ok", ())
    assert site.deployed == ["eu", "eu", "eu"]


# --- where it is asked for -------------------------------------------------------------------------------------------


@proves("ORC-92", "ORC-94")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("opened", [False, True])
async def test_a_call_that_nobody_has_confirmed_is_not_made(entry: str, opened: bool) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True)
    result = await run(entry, oma, [site if opened else site.deploy])
    assert shown(result) == (False, "rejected", (GRANTED, MISSING))
    assert result.status.message is not None
    assert NOT_CONFIRMED[:40] in result.status.message
    assert (result.error, result.error_info) == (None, None)
    assert site.deployed == []


@proves("ORC-92")
async def test_the_model_reads_why_and_goes_on() -> None:
    site = Site()
    result = await run("agent", OpenMultiAgent(require_consequential_confirmation=True), [site.deploy])
    assert isinstance(result, AgentRunResult)
    assert (result.output, result.stop_reason) == ("done", "end_turn")
    assert [(call.is_error, call.output) for call in result.tool_calls] == [(True, NOT_CONFIRMED)]
    assert result.status.message == f"agent 'ann': {NOT_CONFIRMED}"


@proves("ORC-93")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_gate_that_allows_is_a_confirmation(entry: str) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True)
    result = await run(entry, oma, [site.deploy], on_tool_call=allow)
    assert shown(result) == (True, "ok", (GRANTED,))
    assert site.deployed == ["eu"]


@proves("ORC-93")
async def test_so_is_that_of_the_orchestrator() -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_tool_call=allow)
    assert shown(await run("agent", oma, [site.deploy])) == (True, "ok", (GRANTED,))
    assert site.deployed == ["eu"]


def of_consequential(answer: Any) -> Any:
    """A gate for these calls; all others are allowed."""

    def gate(call: ToolCallContext) -> Any:
        return answer(call) if call.consequential else ToolDecision.allow()

    return gate


def deny(_: ToolCallContext) -> ToolDecision:
    return ToolDecision.deny("not on Fridays, password=hunter2")


def fail(_: ToolCallContext) -> ToolDecision:
    raise RuntimeError("nobody there")


@proves("ORC-93", "ORC-94")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_gate_that_refuses_ends_the_run_rejected(entry: str) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_tool_call=of_consequential(deny))
    result = await run(entry, oma, [site.deploy])
    assert shown(result) == (False, "rejected", (GRANTED,))
    assert result.status.message is not None
    assert "not on Fridays" in result.status.message
    assert "hunter2" not in result.status.message
    assert site.deployed == []


@proves("ORC-93")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (fail, "on_tool_call hook threw"),
        (lambda _: None, "invalid on_tool_call decision"),
        (lambda _: ToolDecision.suspend(), "would have to be suspended"),
    ],
)
async def test_a_gate_that_gives_no_clear_answer_confirms_nothing(answer: Any, text: str) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True)
    for entry in ("agent", "team"):
        result = await run(entry, oma, [site.deploy], on_tool_call=of_consequential(answer))
        assert shown(result) == (False, "rejected", (GRANTED,))
        assert text in str(result.status.message)
    assert site.deployed == []


@proves("ORC-93")
async def test_a_gate_refuses_without_more_where_no_confirmation_is_asked_for() -> None:
    site = Site()
    for entry in ("agent", "team"):
        result = await run(entry, OpenMultiAgent(on_tool_call=of_consequential(deny)), [site.deploy])
        assert shown(result) == (True, "ok", (GRANTED,))
    assert site.deployed == []


@proves("ORC-93")
async def test_input_that_a_gate_makes_unusable_is_no_refusal() -> None:
    site = Site()

    def gate(call: ToolCallContext) -> ToolDecision:
        return ToolDecision.rewrite({"target": call.input["target"] if call.turn > 1 else 7})

    adapter = ScriptedAdapter([[ToolUseBlock.new(str(turn), "deploy", {"target": "eu"})] for turn in (1, 2)] + ["done"])
    oma = OpenMultiAgent(require_consequential_confirmation=True)
    result = await run("agent", oma, [site.deploy], adapter, on_tool_call=gate)
    assert shown(result) == (True, "ok", (GRANTED,))
    assert site.deployed == ["eu"]


@proves("ORC-95")
@pytest.mark.parametrize("entry", [each for each in ENTRIES if each != "routed single"])  # a plan is made then
async def test_whoever_approves_the_plan_confirms_what_follows_from_it(entry: str) -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_plan_ready=lambda _: True)
    result = await run(entry, oma, [site.deploy])
    # Where there is no plan, or none yet, nobody is asked.
    approved = entry not in (*AGENTS, "single", "plan")
    assert shown(result) == ((True, "ok", (GRANTED,)) if approved else (False, "rejected", (GRANTED, MISSING)))
    assert site.deployed == (["eu"] if approved else [])


@proves("ORC-95")
async def test_approvals_of_other_things_confirm_nothing() -> None:
    site = Site()
    refused = OpenMultiAgent(require_consequential_confirmation=True, on_plan_ready=lambda _: False)
    assert shown(await run("team", refused, [site.deploy])) == (False, "rejected", (GRANTED,))
    for gate in ({"on_task_dispatch": lambda _: True}, {"on_approval": lambda *_: True}):
        oma = OpenMultiAgent(require_consequential_confirmation=True, **gate)
        assert shown(await run("team", oma, [site.deploy])) == (False, "rejected", (GRANTED, MISSING))
    assert site.deployed == []


@proves("ORC-95")
async def test_the_gate_of_an_agent_is_asked_even_when_the_plan_was_approved() -> None:
    site = Site()
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_plan_ready=lambda _: True)
    result = await run("team", oma, [site.deploy], on_tool_call=of_consequential(deny))
    assert shown(result) == (False, "rejected", (GRANTED,))
    assert site.deployed == []


@proves("ORC-95")
async def test_the_approval_of_one_run_is_none_for_another() -> None:
    site = Site()
    answers = iter([True, False])
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_plan_ready=lambda _: next(answers))
    assert (await run("team", oma, [site.deploy])).success
    assert shown(await run("agent", oma, [site.deploy])) == (False, "rejected", (GRANTED, MISSING))
    assert site.deployed == ["eu"]


# --- what becomes of the rest ----------------------------------------------------------------------------------------


@proves("ORC-92")
async def test_other_calls_go_their_way() -> None:
    site, seen = Site(), []

    async def look(call: ToolCall, call_next: ToolNext) -> ToolResult:
        result = await call_next(call)
        seen.append((call.tool_name, (result.metadata or {}).get("tool_call_gate", {}).get("action")))
        return result

    calls = [ToolUseBlock.new(name, name, {"target": "eu"}) for name in ("view", "deploy")]
    oma = OpenMultiAgent(require_consequential_confirmation=True, tool_middleware=[look])
    result = await run("agent", oma, [site.view, site.deploy], ScriptedAdapter([calls, "done"]))
    assert not result.success
    assert (site.viewed, site.deployed) == (["eu"], [])
    assert sorted(seen) == [("deploy", "deny"), ("view", None)]


@proves("ORC-92")
async def test_a_call_that_was_not_made_does_not_count() -> None:
    site = Site()
    calls = [ToolUseBlock.new("1", "deploy", {"target": "eu"}), ToolUseBlock.new("2", "deploy", {"target": "us"})]
    once = replace(site.deploy, max_calls=1)
    oma = OpenMultiAgent(require_consequential_confirmation=True)
    result = await run("agent", oma, [once], ScriptedAdapter([[calls[0]], [calls[1]], "done"]))
    assert isinstance(result, AgentRunResult)
    assert [call.output for call in result.tool_calls] == [NOT_CONFIRMED] * 2


@proves("ORC-94")
async def test_a_task_whose_call_was_not_made_has_failed_and_is_not_tried_again() -> None:
    site, told = Site(), []
    oma = OpenMultiAgent(require_consequential_confirmation=True, on_progress=lambda event: told.append(event.type))
    result = await run("team", oma, [site.deploy])
    assert isinstance(result, TeamRunResult)
    assert [record.task.status for record in result.tasks] == ["failed", "failed"]
    ship = result.task_results[result.tasks[0].task.id]
    assert shown(ship) == (False, "rejected", (GRANTED, MISSING))
    assert ship.output == "done"
    assert len(result.task_results) == 1
    assert "task_retry" not in told
    assert result.final_output == "the answer"


@proves("ORC-94")
async def test_who_delegated_reads_that_the_call_was_not_made() -> None:
    site = Site()
    result = await run("delegated", OpenMultiAgent(require_consequential_confirmation=True), [site.deploy])
    assert isinstance(result, TeamRunResult)
    ship = result.task_results[result.tasks[0].task.id]
    assert shown(ship) == (True, "ok", ())
    assert [(call.tool_name, call.is_error) for call in ship.tool_calls] == [("delegate_to_agent", True)]
    assert str(result.status.message) == f"agent 'bob': {NOT_CONFIRMED}"


@proves("ORC-94")
async def test_a_plan_is_not_begun_when_a_call_of_its_maker_was_not_made() -> None:
    site = Site()
    result = await run("plan", OpenMultiAgent(require_consequential_confirmation=True), [site.deploy])
    assert isinstance(result, TeamRunResult)
    assert result.tasks == ()
    assert result.decomposition is not None
    assert result.decomposition.structured is None


@proves("ORC-96")
async def test_worse_ends_stay_and_the_flag_stands() -> None:
    token = CancelToken()

    async def cancel(*_: object) -> str:
        token.cancel()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    dear = LLMResponse([TextBlock(text="dear")], usage=TokenUsage(input_tokens=9))
    oma = OpenMultiAgent(require_consequential_confirmation=True, max_token_budget=5)
    for last, status in ((RuntimeError("down"), "error"), (dear, "budget_exhausted"), (cancel, "cancelled")):
        adapter = ScriptedAdapter([[ToolUseBlock.new("1", "deploy", {"target": "eu"})], last])
        config = AgentConfig("ann", adapter=adapter, tools=[Site().deploy])
        result = await oma.run_agent(config, "Say hello.", cancel=token)
        assert shown(result) == (False, status, (GRANTED, MISSING))


@proves("ORC-96", "AGT-25")
async def test_no_hook_confirms_afterwards() -> None:
    def whitewash(result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        assert shown(result) == (False, "rejected", (GRANTED, MISSING))
        return result.replace(success=True, flags=("mine",), output="all is well")

    oma = OpenMultiAgent(require_consequential_confirmation=True)
    for entry in ("agent", "team"):
        result = await run(entry, oma, [Site().deploy], after_run=whitewash)
        assert shown(result)[:2] == (False, "rejected")
        single = result if isinstance(result, AgentRunResult) else result.agent_results["ann"]
        assert (single.output, single.flags) == ("all is well", (GRANTED, MISSING, "mine"))


@proves("ORC-96")
@pytest.mark.parametrize("entry", ["agent", "team"])
async def test_a_run_middleware_sees_it_and_may_try_again(entry: str) -> None:
    site, seen = Site(), []
    confirmed = False

    async def again(_: RunCall, call_next: Any) -> Any:
        nonlocal confirmed
        seen.append(shown(await call_next()))
        confirmed = True
        return await call_next()

    def gate(_: ToolCallContext) -> bool | ToolDecision:
        return ToolDecision.allow() if confirmed else ToolDecision.deny("ask me")

    oma = OpenMultiAgent(require_consequential_confirmation=True, middleware=[again], on_tool_call=gate)
    result = await run(entry, oma, [site.deploy])
    assert seen == [(False, "rejected", (GRANTED,))]
    assert shown(result) == (True, "ok", (GRANTED,))
    assert site.deployed == ["eu"]


@proves("ORC-97")
@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_it_is_asked_for_or_it_is_not(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="require_consequential_confirmation must be True or False"):
        OpenMultiAgent(require_consequential_confirmation=value)

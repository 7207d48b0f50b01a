"""Egress policies of an orchestrator, an agent and a run."""

from collections.abc import Iterator
from typing import Any

import pytest

from openmultiagent import Agent, AgentConfig, EgressPolicyError, LLMMessage, OpenMultiAgent, ToolUseBlock
from openmultiagent.egress import EgressPolicy
from openmultiagent.testing import FakeProviderServer, ScriptedAdapter
from tests.support import proves

OFFLINE = {"mode": "offline"}


@pytest.fixture
def server() -> Iterator[FakeProviderServer]:
    with FakeProviderServer(lambda _: "hello") as running:
        yield running


def definition(**fields: Any) -> AgentConfig[Any]:
    return AgentConfig("x", provider="openai", model="m", api_key="k", **fields)


@proves("ORC-50")
@pytest.mark.parametrize(
    ("orchestrator", "run", "agent"),
    [
        (OFFLINE, None, None),
        (None, OFFLINE, None),
        (None, None, OFFLINE),
        ({"mode": "allowlist", "allowed_origins": ["https://api.openai.com"]}, OFFLINE, None),
        (EgressPolicy("allowlist", allowed_origins=["https://a.example"]), None, None),
    ],
)
async def test_what_a_policy_forbids_is_a_rejected_result(orchestrator: Any, run: Any, agent: Any) -> None:
    events: list[str] = []
    oma = OpenMultiAgent(egress_policy=orchestrator, on_progress=lambda event: events.append(event.type))
    result = await oma.run_agent(definition(egress_policy=agent), [LLMMessage.user("q")], egress_policy=run)
    assert (result.success, result.status.code) == (False, "rejected")
    assert isinstance(result.error, EgressPolicyError)
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.retryable) == ("validation", False)
    assert events == ["agent_start", "agent_complete"]


@proves("ORC-50")
async def test_what_all_policies_allow_goes_through(server: FakeProviderServer) -> None:
    oma = OpenMultiAgent(egress_policy=OFFLINE)
    async with oma:
        result = await oma.run_agent(definition(base_url=server.openai_url, egress_policy=OFFLINE), "q")
    assert result.output == "hello"


@proves("ORC-50")
async def test_a_given_adapter_cannot_be_held_to_a_policy_and_is_not_used() -> None:
    adapter = ScriptedAdapter(["never"])
    result = await OpenMultiAgent(egress_policy=OFFLINE).run_agent({"name": "x", "adapter": adapter}, "q")
    assert isinstance(result.error, EgressPolicyError)
    assert result.error.reason == "unsupported"
    assert adapter.calls == []


@proves("ORC-50")
async def test_an_agent_of_its_own_is_held_to_its_policy() -> None:
    result = await Agent(definition(egress_policy=OFFLINE)).run("q")
    assert result.status.code == "rejected"


@proves("ORC-51")
def test_a_policy_that_makes_no_sense_is_refused() -> None:
    for make in (
        lambda: OpenMultiAgent(egress_policy={"mode": "online"}),
        lambda: definition(egress_policy={"mode": "online"}),
        lambda: OpenMultiAgent().run_agent(definition(), "q", egress_policy={"mode": "online"}),
    ):
        with pytest.raises(EgressPolicyError):
            make()


def crew(model: Any) -> dict[str, Any]:
    """An agent whose calls may be made, and one whose may not."""
    forbidden = {"provider": "openai", "model": "m", "api_key": "k", "egress_policy": OFFLINE}
    grants = ["delegate_to_agent"]
    return {"name": "crew", "agents": [{"name": "a", "adapter": model, "tools": grants}, {"name": "b", **forbidden}]}


def task(title: str, agent: str, *depends_on: str) -> dict[str, Any]:
    return {"id": title, "title": title, "description": "Do.", "assignee": agent, "depends_on": depends_on}


@proves("ORC-52")
async def test_a_worker_that_a_policy_stops_makes_a_rejected_run() -> None:
    tasks = [task("A", "a"), task("B", "b"), task("C", "a", "B")]
    tasks[1]["max_retries"] = 3
    oma = OpenMultiAgent()
    result = await oma.run_tasks(crew(ScriptedAdapter(["done"])), tasks)
    assert [record.status for record in result.tasks] == ["completed", "failed", "failed"]
    assert (result.success, result.status.code) == (False, "rejected")
    assert isinstance(result.error, EgressPolicyError)
    assert result.tasks[1].metrics is not None
    assert result.tasks[1].metrics.retries == 0
    worse = await oma.run_tasks(crew(ScriptedAdapter([RuntimeError("down")])), tasks)
    assert worse.status.code == "error"
    assert str(worse.error) == "down"


@proves("ORC-52")
@pytest.mark.parametrize("mode", ["single", "team"])
async def test_a_goal_that_a_policy_stops_is_rejected(mode: Any) -> None:
    oma = OpenMultiAgent(default_provider="openai", default_model="m", egress_policy=OFFLINE)
    result = await oma.run_team({"name": "crew", "agents": [{"name": "a", "api_key": "k"}]}, "q", mode=mode)
    assert (result.success, result.status.code) == (False, "rejected")
    assert isinstance(result.error, EgressPolicyError)


@proves("ORC-52")
async def test_a_delegate_that_a_policy_stops_is_an_error_of_the_tool() -> None:
    call = ToolUseBlock.new("d", "delegate_to_agent", {"target_agent": "b", "prompt": "Help."})
    result = await OpenMultiAgent().run_tasks(crew(ScriptedAdapter([[call], "alone"])), [task("A", "a")])
    assert (result.status.code, result.final_output) == ("ok", "alone")
    record = result.task_results["A"].tool_calls[0]
    assert record.is_error
    assert "egress" in record.output.lower()

"""Receipts: what a run executed, as facts that can be kept and read back."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    CancelToken,
    ExecutedTool,
    ExecutionReceipt,
    LLMMessage,
    LLMServerError,
    OpenMultiAgent,
    RunCall,
    StoreError,
    TeamRunResult,
    TextBlock,
    ToolUseBlock,
    UsageEntry,
    build_execution_receipt,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.agent import RunNext
from openmultiagent.identity import RunIdentity, RunLink
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

SECRET = "swordfish"


@tool
def look(where: str) -> str:
    """Look."""
    return SECRET


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError(SECRET)


def asks(*names: str, tokens: int) -> LLMResponse:
    inputs: dict[str, dict[str, Any]] = {"look": {"where": SECRET}, "fail": {}}
    calls: list[Any] = [ToolUseBlock(id=f"{name}-{tokens}", name=name, input=inputs[name]) for name in names]
    return LLMResponse(calls, usage=TokenUsage(input_tokens=tokens))


def says(text: str, *, tokens: int) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens, output_tokens=1))


def config(*script: Any, **fields: Any) -> AgentConfig:
    return AgentConfig("reader", adapter=ScriptedAdapter(list(script)), model="m", tools=[look, fail], **fields)


@proves("RCP-1", "RCP-2")
async def test_the_receipt_of_a_run() -> None:
    definition = config(asks("look", "fail", tokens=10), asks("look", tokens=20), says(SECRET, tokens=30))
    oma = OpenMultiAgent(estimate_cost=lambda usage, context: usage.total_tokens / 10)
    result = await oma.run_agent(definition, SECRET, run_id="r-1")
    receipt = build_execution_receipt(result)
    assert receipt.duration is not None
    assert receipt.duration == result.duration
    assert 0 <= receipt.duration < 60
    usage = TokenUsage(input_tokens=60, output_tokens=1)
    assert receipt == ExecutionReceipt(
        identity=result.identity,
        status="ok",
        stop_reason="end_turn",
        roles_executed=("reader",),
        execution_order=("reader",),
        models=(UsageEntry("reader", "m", "scripted", "agent", usage, cost=6.1, requests=3),),
        tools=tuple(
            ExecutedTool(name=name, tool_use_id=call_id, is_error=name == "fail", duration=record.duration)
            for record, (name, call_id) in zip(
                result.tool_calls, [("look", "look-10"), ("fail", "fail-10"), ("look", "look-20")], strict=True
            )
        ),
        total_tokens=usage,
        duration=result.duration,
    )
    assert SECRET not in json.dumps(receipt.to_dict())


@proves("RCP-2")
async def test_a_failed_run_says_what_failed_but_not_in_words() -> None:
    result = await Agent(config(LLMServerError(SECRET, provider="p", status=500))).run("q")
    receipt = build_execution_receipt(result)
    assert (receipt.status, receipt.stop_reason, receipt.error_kind) == ("error", "error", "provider")
    assert receipt.error_code == LLMServerError(SECRET, provider="p", status=500).code
    assert receipt.roles_executed == ("reader",)
    assert receipt.partial  # nobody knows what the failed call used
    assert SECRET not in json.dumps(receipt.to_dict())


@proves("RCP-3")
async def test_a_call_of_unknown_usage_makes_a_receipt_partial() -> None:
    result = await Agent(config("ok")).run("q")
    receipt = build_execution_receipt(result)
    assert receipt.total_tokens == TokenUsage(unknown_calls=1)
    assert receipt.partial
    known = await Agent(config(says("ok", tokens=1))).run("q")
    assert not build_execution_receipt(known).partial
    assert build_execution_receipt(known.replace(duration=None)).partial


@proves("RCP-3")
async def test_nobody_is_said_to_have_worked_where_a_middleware_answered() -> None:
    other = await Agent(config(asks("look", tokens=1), says("cached", tokens=9))).run("q")

    async def cached(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        return other

    result = await OpenMultiAgent(middleware=[cached]).run_agent(config(), "q", run_id="own")
    receipt = build_execution_receipt(result)
    assert receipt.identity is not None
    assert receipt.identity.run_id == "own"
    assert (receipt.roles_executed, receipt.models, receipt.tools) == ((), (), ())
    assert receipt.partial


@proves("RCP-2")
async def test_a_cancelled_run_has_the_receipt_of_what_was_done() -> None:
    token = CancelToken()

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        token.cancel()
        await anyio.sleep_forever()
        return ""

    result = await Agent(config(asks("look", tokens=10), hang)).run("q", cancel=token)
    receipt = build_execution_receipt(result)
    assert (receipt.status, receipt.error_kind) == ("cancelled", "cancellation")
    assert [call.name for call in receipt.tools] == ["look"]
    assert receipt.models[0].requests == 2


@proves("RCP-1")
async def test_a_stream_has_the_same_receipt() -> None:
    oma = OpenMultiAgent()
    async with oma.stream_agent(config(says("ok", tokens=1)), "q", run_id="r") as stream:
        last = [event async for event in stream][-1]
    plain = await oma.run_agent(config(says("ok", tokens=1)), "q", run_id="r")
    streamed, other = build_execution_receipt(stream.result), build_execution_receipt(plain)
    assert build_execution_receipt(last.data) == streamed
    assert replace(streamed, identity=None, duration=None) == replace(other, identity=None, duration=None)


@proves("RCP-4")
@pytest.mark.parametrize("value", [None, 5, "text", {}, object(), AgentRunResult])
def test_what_is_no_result_has_an_empty_receipt(value: object) -> None:
    assert build_execution_receipt(value) == ExecutionReceipt(partial=True)


@proves("RCP-4")
@pytest.mark.parametrize("field_name", ["status", "usage_report", "tool_calls", "token_usage", "flags", "error_info"])
async def test_a_result_that_holds_something_else_has_an_empty_receipt(field_name: str) -> None:
    result = (await Agent(config("ok")).run("q")).replace(**{field_name: 5})
    assert build_execution_receipt(result) == ExecutionReceipt(partial=True)


texts = st.text(max_size=8)
usages = st.builds(TokenUsage, input_tokens=st.integers(0, 2**60), unknown_calls=st.integers(0, 9))
entries = st.builds(UsageEntry, texts, texts, texts, texts, usages, st.floats(0, 1e9), st.integers(0, 99))
tools = st.builds(ExecutedTool, name=texts, tool_use_id=texts, is_error=st.booleans(), duration=st.floats(0, 1e9))
identities = st.builds(
    RunIdentity,
    st.text(min_size=1, max_size=8),
    st.integers(1, 9),
    links=st.lists(st.builds(RunLink, st.just("a" * 32), st.just("b" * 16)), max_size=2).map(tuple),
)


@proves("RCP-5")
@given(
    st.builds(
        ExecutionReceipt,
        identity=st.none() | identities,
        status=st.sampled_from([None, "ok", "cancelled"]),
        stop_reason=st.sampled_from([None, "end_turn", "cancelled"]),
        error_kind=st.sampled_from([None, "provider"]),
        error_code=st.none() | texts,
        mode=st.sampled_from(["single", "multi-agent"]),
        roles_executed=st.lists(texts, max_size=3).map(tuple),
        execution_order=st.lists(texts, max_size=3).map(tuple),
        models=st.lists(entries, max_size=3).map(tuple),
        tools=st.lists(tools, max_size=3).map(tuple),
        total_tokens=st.none() | usages,
        duration=st.none() | st.floats(0, 1e9),
        flags=st.lists(texts, max_size=2).map(tuple),
        partial=st.booleans(),
    )
)
def test_a_receipt_comes_back_from_json_as_it_was(receipt: ExecutionReceipt) -> None:
    data = receipt.to_dict()
    assert data["version"] == 1
    text = json.dumps(data)
    assert ExecutionReceipt.from_dict(json.loads(text)) == receipt
    assert data == json.loads(text)


@proves("RCP-5")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": 2}, "its version is 2"),
        ({"version": None}, "its version is None"),
        ({"status": "fine"}, "status"),
        ({"tools": [{"name": "x"}]}, "tools.0.tool_use_id"),
        ({"roles_executed": "reader"}, "roles_executed"),
        ({"total_tokens": {"input_tokens": "many"}}, "total_tokens.input_tokens"),
    ],
)
def test_what_is_no_receipt_is_told_with_its_place(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(StoreError, match="no execution receipt") as caught:
        ExecutionReceipt.from_dict({**ExecutionReceipt().to_dict(), **change})
    assert expected in str(caught.value)


@proves("RCP-5")
def test_data_of_a_later_minor_form_is_read_and_garbage_is_not() -> None:
    assert ExecutionReceipt.from_dict({**ExecutionReceipt().to_dict(), "colour": "blue"}) == ExecutionReceipt()
    garbage: list[Any] = [None, 5, [], "x"]
    for item in garbage:
        with pytest.raises(StoreError):
            ExecutionReceipt.from_dict(item)


@proves("RCP-6")
async def test_a_result_names_its_agent_and_its_duration() -> None:
    for result in (
        await Agent(config("ok")).run("q"),
        await Agent(config("ok")).prompt("q"),
        await OpenMultiAgent().run_agent(config("ok"), "q"),
    ):
        assert result.agent == "reader"
        assert result.duration is not None
        assert result.duration >= 0
        assert result.to_dict()["agent"] == "reader"
        assert result.to_dict()["duration"] == result.duration
        assert result == result.replace(duration=None)


async def run_of_tasks(*tasks: dict[str, Any]) -> TeamRunResult:
    def answer(messages: list[LLMMessage], options: LLMChatOptions) -> Any:
        text = messages[-1].content[0]
        assert isinstance(text, TextBlock)
        if "fail" in text.text.lower():
            return LLMServerError(SECRET, provider="p", status=500)
        return says(f"{SECRET} of security and operator", tokens=3)

    agents = [{"name": name} for name in ("security", "reviewer", "operator")]
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(answer))
    return await oma.run_tasks(oma.create_team("crew", {"name": "crew", "agents": agents}), tasks)


def step(title: str, assignee: str, *needs: str, **fields: Any) -> dict[str, Any]:
    return {"title": title, "description": title, "assignee": assignee, "depends_on": needs, **fields}


@proves("RCP-7", "RCP-2")
async def test_a_chain_is_a_review_by_others() -> None:
    result = await run_of_tasks(
        step("C", "operator", "B"), step("B", "security", "A", role="check"), step("A", "reviewer")
    )
    receipt = build_execution_receipt(result)
    assert receipt.roles_executed == ("operator", "security", "reviewer")
    assert receipt.execution_order == ("reviewer", "security", "operator")
    assert set(receipt.dependency_edges) == {("reviewer", "security"), ("security", "operator")}
    assert (receipt.mode, receipt.independent_review_occurred, receipt.partial) == ("multi-agent", True, False)
    assert receipt.task_roles_executed == ("check",)
    assert receipt.identity == result.identity
    assert receipt.total_tokens == result.total_token_usage
    assert receipt.models == result.usage_report
    assert receipt.duration is not None
    assert receipt.duration >= 0
    line = json.dumps(receipt.to_dict())
    assert SECRET not in line
    assert ExecutionReceipt.from_dict(json.loads(line)) == receipt


@proves("RCP-7")
async def test_work_side_by_side_is_no_review() -> None:
    agents = ("security", "reviewer", "operator")
    receipt = build_execution_receipt(await run_of_tasks(*(step(name, name) for name in agents)))
    assert (receipt.roles_executed, receipt.dependency_edges) == (agents, ())
    assert (receipt.mode, receipt.independent_review_occurred) == ("multi-agent", False)


@proves("RCP-7")
async def test_who_depends_on_his_own_work_is_no_review() -> None:
    receipt = build_execution_receipt(await run_of_tasks(step("A", "security"), step("B", "security", "A")))
    assert (receipt.mode, receipt.roles_executed, receipt.dependency_edges) == ("single", ("security",), ())


@proves("RCP-7", "RCP-3")
async def test_what_was_not_executed_is_not_in_a_receipt() -> None:
    result = await run_of_tasks(step("Fail", "security"), step("B", "reviewer", "Fail"))
    receipt = build_execution_receipt(result)
    assert (receipt.status, receipt.error_kind, receipt.roles_executed) == ("error", "provider", ("security",))
    assert receipt.dependency_edges == ()
    assert receipt.partial  # a call that failed: nobody knows its tokens


@proves("RCP-7", "RCP-3")
async def test_a_run_without_figures_has_a_partial_receipt() -> None:
    result = await run_of_tasks(step("A", "security"))
    unmeasured = result.replace(tasks=tuple(replace(task, metrics=None) for task in result.tasks))
    receipt = build_execution_receipt(unmeasured)
    assert (receipt.roles_executed, receipt.execution_order) == (("security",), ())
    assert (receipt.duration, receipt.partial) == (None, True)
    assert build_execution_receipt(await run_of_tasks()).partial

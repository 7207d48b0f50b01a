"""Gates, caps and grants in the runs of agents."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    CancelToken,
    ConfigurationError,
    LLMMessage,
    OpenMultiAgent,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import ToolCallContext, ToolDecision, ToolNext
from tests.support import proves


@tool(consequential=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def paying(*amounts: int) -> list[ToolUseBlock]:
    return [ToolUseBlock(id=f"c{n}", name="pay", input={"amount": amount}) for n, amount in enumerate(amounts, 1)]


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", **{"adapter": adapter, "tools": [pay], **fields}))


def answers(message: LLMMessage) -> list[str]:
    return [str(block.content) for block in message.content if isinstance(block, ToolResultBlock)]


def limited(call: ToolCallContext) -> ToolDecision:
    return ToolDecision.allow() if call.input["amount"] < 10 else ToolDecision.deny("at most 9")


@proves("TOL-42")
async def test_a_denied_call_is_told_to_the_model_and_the_run_goes_on() -> None:
    adapter = ScriptedAdapter([paying(5, 50), "done"])
    result = await agent(adapter, on_tool_call=limited).run("pay")

    assert result.success
    assert answers(adapter.calls[1].messages[-1]) == ["paid 5", 'Tool "pay" was denied: at most 9']
    assert [(record.is_error, record.output) for record in result.tool_calls] == [
        (False, "paid 5"),
        (True, 'Tool "pay" was denied: at most 9'),
    ]


@proves("TOL-41")
async def test_the_gate_is_told_about_agent_run_and_turn() -> None:
    asked: list[ToolCallContext] = []

    async def gate(call: ToolCallContext) -> ToolDecision:
        asked.append(call)
        return ToolDecision.allow()

    oma = OpenMultiAgent(on_tool_call=gate)
    config = AgentConfig("tester", adapter=ScriptedAdapter([paying(5), paying(6), "done"]), tools=[pay])
    await oma.run_agent(config, "pay", run_id="r", metadata={"tenant": "a"})
    assert [(call.tool_name, call.agent, call.run_id, call.tool_call_id, call.turn) for call in asked] == [
        ("pay", "tester", "r", "c1", 1),
        ("pay", "tester", "r", "c1", 2),
    ]
    assert asked[0].consequential
    assert asked[0].metadata == {"tenant": "a"}


@proves("TOL-49")
async def test_the_agents_gate_beats_the_orchestrators() -> None:
    oma = OpenMultiAgent(on_tool_call=lambda _: {"action": "deny", "reason": "orchestrator"})
    config = AgentConfig("tester", adapter=ScriptedAdapter([paying(50), "done"] * 2), tools=[pay])

    result = await oma.run_agent(config, "pay")
    assert result.tool_calls[0].output == 'Tool "pay" was denied: orchestrator'
    async with oma.stream_agent(config.replace(on_tool_call=limited), "pay") as stream:
        async for _ in stream:
            pass
    assert stream.result.tool_calls[0].output == 'Tool "pay" was denied: at most 9'


@proves("TOL-49")
async def test_what_a_middleware_makes_of_a_call_passes_the_gate() -> None:
    seen: list[ToolResult] = []

    async def greedy(call: ToolCall, call_next: ToolNext) -> ToolResult:
        for amount in (7, 70):
            result = await call_next(call.replace(input={"amount": amount}))
            seen.append(result)
        return seen[0]

    adapter = ScriptedAdapter([paying(50), "done"])
    result = await agent(adapter, on_tool_call=limited, tool_middleware=[greedy]).run("pay")
    assert result.tool_calls[0].output == "paid 7"
    assert [item.is_error for item in seen] == [False, True]
    assert [dict(item.metadata or {}) for item in seen] == [
        {"tool_call_gate": {"action": "allow"}},
        {"tool_call_gate": {"action": "deny", "reason": "at most 9"}},
    ]


@proves("TOL-40")
async def test_calls_that_a_middleware_answers_are_not_asked_about() -> None:
    async def cached(call: ToolCall, call_next: ToolNext) -> ToolResult:
        return ToolResult("from the cache")

    def gate(call: ToolCallContext) -> Any:
        raise AssertionError(call)

    result = await agent(ScriptedAdapter([paying(5), "done"]), on_tool_call=gate, tool_middleware=[cached]).run("pay")
    assert result.tool_calls[0].output == "from the cache"


@proves("TOL-44")
async def test_a_gate_that_raises_does_not_end_the_run() -> None:
    def gate(call: ToolCallContext) -> Any:
        raise ValueError("no idea")

    result = await agent(ScriptedAdapter([paying(5), "done"]), on_tool_call=gate).run("pay")
    assert result.success
    assert result.tool_calls[0].output == 'Tool "pay" was not run: on_tool_call hook threw ValueError: no idea'


@proves("TOL-48")
async def test_a_run_can_be_cancelled_while_a_gate_waits() -> None:
    token = CancelToken()
    paid: list[int] = []

    @tool(name="pay")
    async def really_pay(amount: int) -> None:
        paid.append(amount)

    async def gate(call: ToolCallContext) -> ToolDecision:
        if call.input["amount"] > 5:
            await anyio.wait_all_tasks_blocked()
            token.cancel("enough")
            await anyio.sleep_forever()
        return ToolDecision.allow()

    with anyio.fail_after(5):
        result = await agent(ScriptedAdapter([paying(5, 6)]), on_tool_call=gate, tools=[really_pay]).run(
            "pay", cancel=token
        )
    assert result.status.code == "cancelled"
    assert paid == [5]
    assert answers(result.messages[-1])[0] == "null"
    assert answers(result.messages[-1])[1].startswith("Not executed")


@proves("TOL-42")
@pytest.mark.parametrize(
    "make", [lambda gate: agent(None, on_tool_call=gate), lambda g: OpenMultiAgent(on_tool_call=g)]
)
def test_a_gate_that_cannot_be_called_is_refused_at_once(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigurationError, match="on_tool_call"):
        make("allow")


@proves("TOL-31")
async def test_caps_hold_for_one_run_over_all_its_turns() -> None:
    capped = tool(pay.fn, name="pay", max_calls=2)
    worker = agent(ScriptedAdapter([paying(1), paying(2, 3), "done"] * 2), tools=[capped])
    for _ in range(2):
        result = await worker.run("pay")
        assert [record.output for record in result.tool_calls] == [
            "paid 1",
            "paid 2",
            'Tool "pay" was not run: it may be called at most 2 time(s) in a run',
        ]


@proves("TOL-32")
async def test_what_a_middleware_answers_itself_is_not_counted() -> None:
    async def cached(call: ToolCall, call_next: ToolNext) -> ToolResult:
        return ToolResult("cached") if call.input["amount"] < 3 else await call_next(call)

    capped = tool(pay.fn, name="pay", max_calls=1)
    adapter = ScriptedAdapter([paying(1), paying(2), paying(3), paying(4), "done"])
    result = await agent(adapter, tools=[capped], tool_middleware=[cached]).run("pay")
    assert [record.is_error for record in result.tool_calls] == [False, False, False, True]


@proves("TOL-33")
async def test_an_exclusive_call_runs_alone_in_its_turn() -> None:
    log: list[str] = []

    async def work(name: str) -> None:
        log.append(f"{name} in")
        await anyio.wait_all_tasks_blocked()
        log.append(f"{name} out")

    blocks = [ToolUseBlock(id=f"c{n}", name="edit" if n == 2 else "read", input={"name": str(n)}) for n in range(1, 4)]
    tools = [tool(work, name="read"), tool(work, name="edit", exclusive=True)]
    await agent(ScriptedAdapter([blocks, "done"]), tools=tools).run("q")
    assert log == ["1 in", "1 out", "2 in", "2 out", "3 in", "3 out"]


@proves("TOL-23")
async def test_an_agent_says_how_many_calls_run_at_a_time() -> None:
    running = peak = 0

    async def work(number: int) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await anyio.wait_all_tasks_blocked()
        running -= 1

    blocks = [ToolUseBlock(id=f"c{n}", name="work", input={"number": n}) for n in range(5)]
    await agent(ScriptedAdapter([blocks, "done"]), tools=[work], max_parallel_tools=2).run("q")
    assert peak == 2


@proves("TOL-28")
async def test_an_agent_says_how_long_the_texts_of_its_tools_may_be() -> None:
    async def long() -> str:
        return "x" * 1000

    tools = [long, tool(long, name="longer", max_output_chars=500)]
    blocks = [ToolUseBlock(id=name, name=name, input={}) for name in ("long", "longer")]
    adapter = ScriptedAdapter([blocks, "done"])
    result = await agent(adapter, tools=tools, max_tool_output_chars=100).run("q")
    short, longer = answers(adapter.calls[1].messages[-1])
    assert 90 < len(short) <= 100
    assert 490 < len(longer) <= 500
    assert [record.output for record in result.tool_calls] == [short, longer]


@proves("TOL-50")
async def test_what_is_denied_is_neither_offered_nor_run() -> None:
    def gate(call: ToolCallContext) -> Any:
        raise AssertionError(call)

    adapter = ScriptedAdapter([paying(5), "done"])
    result = await agent(adapter, disallowed_tools=["pay"], on_tool_call=gate).run("pay")
    assert result.success
    assert adapter.calls[0].options.tools == ()
    assert "not granted" in result.tool_calls[0].output


@proves("TOL-53")
@pytest.mark.parametrize(
    "make",
    [
        lambda: agent(None, tools=["bash"]),
        lambda: agent(None, tool_preset="readonly"),
        lambda: OpenMultiAgent(default_tool_preset="full"),
    ],
)
def test_built_in_tools_are_refused_at_once_while_there_are_none(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match="this version ships no built-in tools"):
        make()


@proves("TOL-53")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tool_preset": "everything"}, "tool preset 'everything' is none of readonly"),
        ({"tool_preset": 3}, "tool_preset"),
        ({"max_parallel_tools": 0}, "max_parallel_tools"),
        ({"max_tool_output_chars": 0}, "max_tool_output_chars"),
    ],
)
def test_senseless_tool_settings_are_named(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        agent(None, **fields)

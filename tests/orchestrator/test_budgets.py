"""Limits, hard mode and the report, as runs of an orchestrator come to them."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    AgentConfig,
    AgentRunResult,
    BudgetExceeded,
    CancelToken,
    ConfigurationError,
    CostBudgetExceededError,
    ImageBlock,
    InvalidMessageError,
    LimitExceededError,
    Limits,
    LLMMessage,
    ModelCall,
    OpenMultiAgent,
    RunCall,
    TextBlock,
    TokenBudgetExceededError,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    UsageEntry,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelNext
from openmultiagent.agent import RunNext, SlidingWindow, Summarize
from openmultiagent.budget import CostEstimateContext
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import ToolNext
from tests.support import proves


@tool
def look(where: str = "here") -> str:
    """Look."""
    return f"seen {where}"


def calls(*where: str, text: str = "looking", tokens: int = 10) -> LLMResponse:
    blocks = [ToolUseBlock(id=f"c{index}", name="look", input={"where": at}) for index, at in enumerate(where)]
    return LLMResponse([TextBlock(text=text), *blocks], usage=TokenUsage(input_tokens=tokens), stop_reason="tool_use")


def spend(text: str, *, tokens: int, output: int = 0) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens, output_tokens=output))


def agent(script: Any, **fields: Any) -> AgentConfig:
    return AgentConfig("x", adapter=ScriptedAdapter(script), model="m", tools=[look], **fields)


def results(run: AgentRunResult[Any]) -> list[ToolResultBlock]:
    return [block for message in run.messages for block in message.content if isinstance(block, ToolResultBlock)]


async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
    await anyio.sleep_forever()
    return ""


# Limits


@proves("BUD-21", "BUD-24")
async def test_a_run_ends_at_its_limit_of_model_calls() -> None:
    events: list[Any] = []
    config = agent([calls("a", text="one"), calls("b", text="two"), "three"])
    oma = OpenMultiAgent(limits=Limits(requests=2), on_progress=events.append)
    result = await oma.run_agent(config, "q")
    assert (result.success, result.status.code, result.stop_reason) == (False, "budget_exhausted", "budget")
    assert result.output == "two"
    assert isinstance(result.error, LimitExceededError)
    assert (result.error.agent, result.error.limit, result.error.used, result.error.budget) == ("x", "requests", 2, 2)
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.code) == ("budget", "LIMIT_EXCEEDED")
    assert [record.output for record in result.tool_calls] == ["seen a", "seen b"]
    assert [event.type for event in events] == ["agent_start", "budget_exceeded", "agent_complete"]
    assert isinstance(events[1], BudgetExceeded)
    assert events[1].data is not result.error
    assert vars(events[1].data) == vars(result.error)


@proves("BUD-21")
async def test_a_run_may_use_its_last_model_call() -> None:
    result = await OpenMultiAgent(limits={"requests": 2}).run_agent(agent([calls("a"), "done"]), "q")
    assert (result.success, result.output) == (True, "done")


@proves("BUD-21")
async def test_repeated_model_calls_count_and_unsent_ones_do_not() -> None:
    async def twice(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except RuntimeError:
            return await call_next(call)

    oma = OpenMultiAgent(limits=Limits(requests=1), model_middleware=[twice])
    result = await oma.run_agent(agent([RuntimeError("down"), "done"]), "q")
    assert isinstance(result.error, LimitExceededError)

    class Refusing(ScriptedAdapter):
        async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
            raise InvalidMessageError("not like this")

    refused = await oma.run_agent(AgentConfig("x", adapter=Refusing([])), "q")
    assert refused.usage_report == ()
    assert refused.token_usage == TokenUsage()


@proves("BUD-22", "BUD-24")
async def test_the_tool_calls_beyond_a_limit_are_refused_in_their_order() -> None:
    made: list[str] = []

    @tool
    async def slow(where: str) -> str:
        """Look around."""
        if where == "a":  # the first is the last to end
            while "b" not in made:
                await anyio.lowlevel.checkpoint()
        made.append(where)
        return where

    blocks = [ToolUseBlock(id=at, name="slow", input={"where": at}) for at in "abcd"]
    adapter = ScriptedAdapter([LLMResponse([TextBlock(text="look"), *blocks], usage=TokenUsage(input_tokens=1))])
    result = await OpenMultiAgent().run_agent(
        AgentConfig("x", adapter=adapter, tools=[slow]), "q", limits=Limits(tool_calls=2)
    )
    assert made == ["b", "a"]
    assert [(block.content, block.is_error) for block in results(result)[:2]] == [("a", None), ("b", None)]
    refusal = "Tool \"slow\" was not executed: the limit of 2 tool calls of 'x' has been reached"
    assert [(block.content, block.is_error) for block in results(result)[2:]] == [(refusal, True)] * 2
    assert [record.is_error for record in result.tool_calls] == [False, False, True, True]
    assert isinstance(result.error, LimitExceededError)
    assert (result.error.limit, result.error.used) == ("tool_calls", 2)
    assert (result.status.code, result.output) == ("budget_exhausted", "look")


@proves("BUD-22")
async def test_a_run_may_use_its_last_tool_call() -> None:
    result = await OpenMultiAgent(limits=Limits(tool_calls=2)).run_agent(agent([calls("a", "b"), "done"]), "q")
    assert (result.success, result.output) == (True, "done")


@proves("BUD-22")
async def test_a_tool_call_that_a_middleware_answers_does_not_count() -> None:
    async def cached(call: ToolCall, call_next: ToolNext) -> ToolResult:
        return ToolResult("kept") if call.input["where"] == "a" else await call_next(call)

    oma = OpenMultiAgent(limits=Limits(tool_calls=2), tool_middleware=[cached])
    result = await oma.run_agent(agent([calls("a", "b"), calls("c"), "done"]), "q")
    assert result.success
    assert [record.output for record in result.tool_calls] == ["kept", "seen b", "seen c"]
    one = OpenMultiAgent(limits=Limits(tool_calls=1), tool_middleware=[cached])
    refused = await one.run_agent(agent([calls("a", "b"), "done"]), "q")
    # Which one is refused is settled before any starts.
    assert [record.is_error for record in refused.tool_calls] == [False, True]
    assert not refused.success


@proves("BUD-22")
async def test_a_tool_call_that_a_middleware_repeats_counts_again() -> None:
    async def twice(call: ToolCall, call_next: ToolNext) -> ToolResult:
        await call_next(call)
        return await call_next(call)

    oma = OpenMultiAgent(limits=Limits(tool_calls=3), tool_middleware=[twice])
    result = await oma.run_agent(agent([calls("a", "b"), "done"]), "q")
    assert sorted(record.is_error for record in result.tool_calls) == [False, True]
    assert isinstance(result.error, LimitExceededError)


@proves("BUD-22")
async def test_a_refused_tool_call_stays_refused() -> None:
    async def stubborn(call: ToolCall, call_next: ToolNext) -> ToolResult:
        result = await call_next(call)
        return await call_next(call) if result.is_error else result

    oma = OpenMultiAgent(limits=Limits(tool_calls=1), tool_middleware=[stubborn])
    result = await oma.run_agent(agent([calls("a", "b"), "done"]), "q")
    assert [record.is_error for record in result.tool_calls] == [False, True]


@proves("BUD-23", "BUD-24")
@pytest.mark.parametrize("longer", [None, 60.0])
async def test_a_run_is_stopped_when_its_seconds_are_over(longer: float | None) -> None:
    events: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    step = LLMResponse([TextBlock(text="so far"), ToolUseBlock(id="c", name="wait", input={})])
    config = AgentConfig("x", adapter=ScriptedAdapter([step]), tools=[wait], timeout=longer)
    oma = OpenMultiAgent(limits=Limits(seconds=0.05), on_progress=lambda event: events.append(event.type))
    with anyio.fail_after(10):
        result = await oma.run_agent(config, "q")
    assert isinstance(result.error, LimitExceededError)
    assert (result.error.agent, result.error.limit, result.error.budget) == ("x", "seconds", 0.05)
    assert (result.status.code, result.stop_reason, result.output) == ("budget_exhausted", "budget", "so far")
    assert [block.is_error for block in results(result)] == [True]
    assert events == ["agent_start", "budget_exceeded", "agent_complete"]


@proves("BUD-23")
async def test_a_shorter_timeout_is_a_timeout() -> None:
    oma = OpenMultiAgent(limits=Limits(seconds=60.0))
    with anyio.fail_after(10):
        result = await oma.run_agent(agent(hang, timeout=0.05), "q")
    assert (result.status.code, result.stop_reason) == ("timeout", "timeout")


@proves("BUD-23")
async def test_the_clock_runs_while_a_middleware_waits() -> None:
    async def late(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        await anyio.sleep(call.budget.remaining().seconds or 0.0)
        return await call_next()

    config = agent(["never"])
    result = await OpenMultiAgent(limits=Limits(seconds=0.02), middleware=[late]).run_agent(config, "q")
    assert isinstance(result.error, LimitExceededError)
    assert isinstance(config.adapter, ScriptedAdapter)
    assert config.adapter.calls == []


@proves("BUD-25")
@pytest.mark.parametrize(
    ("orchestrator", "call"),
    [
        ({"limits": Limits(tokens=30)}, {}),
        ({"limits": Limits(tokens=99)}, {"limits": {"tokens": 30}}),
        ({"limits": Limits(tokens=99)}, {"max_token_budget": 30}),
        ({"max_token_budget": 30}, {"limits": Limits(tokens=99)}),
        ({"max_token_budget": 30, "limits": Limits(tokens=99, requests=9)}, {}),
    ],
)
async def test_the_least_of_all_limits_holds(orchestrator: dict[str, Any], call: dict[str, Any]) -> None:
    oma = OpenMultiAgent(**orchestrator)
    result = await oma.run_agent(agent([spend("answer", tokens=35)]), "q", **call)
    assert isinstance(result.error, TokenBudgetExceededError)
    assert result.error.budget == 30
    stream = oma.stream_agent(agent([spend("answer", tokens=35)]), "q", **call)
    async with stream:
        async for _ in stream:
            pass
    assert isinstance(stream.result.error, TokenBudgetExceededError)
    assert stream.result.error.budget == 30


@proves("BUD-25")
def test_what_is_no_limit_is_refused_at_the_call() -> None:
    wrong: Any = [("requests", 5)]
    with pytest.raises(ConfigurationError, match="limits must be Limits"):
        OpenMultiAgent(limits=wrong)
    with pytest.raises(ConfigurationError, match="did you mean 'requests'"):
        OpenMultiAgent(limits={"request": 5})
    with pytest.raises(ConfigurationError, match="Limits is invalid"):
        _ = OpenMultiAgent().run_agent(agent(["a"]), "q", limits={"seconds": 0})
    with pytest.raises(ConfigurationError, match="estimate_cost"):
        OpenMultiAgent(limits=Limits(cost=1.0))
    with pytest.raises(ConfigurationError, match="estimate_cost"):
        _ = OpenMultiAgent().run_agent(agent(["a"]), "q", limits=Limits(cost=1.0))


# Hard mode


def per_token(usage: TokenUsage, context: CostEstimateContext) -> float:
    return usage.total_tokens / 100


def sent(config: AgentConfig) -> list[int | None]:
    """The max_tokens of the calls that reached the adapter."""
    assert isinstance(config.adapter, ScriptedAdapter)
    return [call.options.max_tokens for call in config.adapter.calls]


QUESTION = 16 + 8 + len("question")
"""What a request with this word comes to at the most."""


@proves("BUD-31", "BUD-34")
async def test_in_hard_mode_the_answer_gets_what_is_left() -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter([spend("ok", tokens=8, output=2)]), system_prompt="be")
    oma = OpenMultiAgent(max_token_budget=200, budget_mode="hard")
    result = await oma.run_agent(config, "question")
    assert result.success
    assert result.token_usage.total_tokens == 10
    assert sent(config) == [200 - QUESTION - 2]


@proves("BUD-30", "BUD-24")
async def test_in_hard_mode_a_call_without_room_is_not_made() -> None:
    events: list[str] = []
    config = AgentConfig("x", adapter=ScriptedAdapter(["never"]), max_tokens=100)
    oma = OpenMultiAgent(max_token_budget=100, budget_mode="hard", on_progress=lambda event: events.append(event.type))
    result = await oma.run_agent(config, "question")
    assert isinstance(result.error, TokenBudgetExceededError)
    assert (result.error.tokens_used, result.error.needed, result.error.budget) == (0, QUESTION + 100, 100)
    assert result.status.code == "budget_exhausted"
    assert sent(config) == []
    assert events == ["agent_start", "budget_exceeded", "agent_complete"]


@proves("BUD-30", "BUD-31")
async def test_in_hard_mode_the_price_has_to_fit_too() -> None:
    oma = OpenMultiAgent(max_cost_budget=10.0, estimate_cost=per_token, budget_mode="hard")
    config = AgentConfig("x", adapter=ScriptedAdapter([spend("ok", tokens=8, output=2)]))
    assert (await oma.run_agent(config, "question")).success
    assert sent(config) == [512]
    dear = AgentConfig("x", adapter=ScriptedAdapter(["never"]), max_tokens=1000)
    result = await oma.run_agent(dear, "question")
    assert isinstance(result.error, CostBudgetExceededError)
    assert result.error.needed == (QUESTION + 1000) / 100
    assert sent(dear) == []


@proves("BUD-32")
async def test_in_hard_mode_a_call_without_usage_uses_up_what_was_held() -> None:
    config = agent([[ToolUseBlock(id="c", name="look", input={})], "never"], max_tokens=50)
    oma = OpenMultiAgent(limits=Limits(tokens=300), budget_mode="hard")
    result = await oma.run_agent(config, "question")
    assert isinstance(result.error, TokenBudgetExceededError)
    assert result.token_usage == TokenUsage.unknown()
    assert result.error.tokens_used > 50
    assert sent(config) == [50]


@proves("BUD-36")
async def test_hard_mode_without_a_limit_changes_nothing() -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter(["ok"]))
    assert (await OpenMultiAgent(budget_mode="hard", limits=Limits(requests=5)).run_agent(config, "q")).success
    assert sent(config) == [None]


@proves("BUD-34")
async def test_an_image_is_held_by_its_detail() -> None:
    large = "A" * 40_000
    image = ImageBlock.from_base64(large, "image/png")
    config = AgentConfig("x", adapter=ScriptedAdapter(["ok"]))
    oma = OpenMultiAgent(max_token_budget=8000, budget_mode="hard")
    await oma.run_agent(config, [LLMMessage.user_with_blocks([image])])
    assert sent(config) == [8000 - 16 - 8 - 4800]


@proves("BUD-30", "BUD-31")
async def test_a_stream_is_held_to_the_same() -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter([spend("ok", tokens=8, output=2)]))
    stream = OpenMultiAgent(max_token_budget=200, budget_mode="hard").stream_agent(config, "question")
    async with stream:
        async for _ in stream:
            pass
    assert stream.result.success
    assert sent(config) == [200 - QUESTION]


@proves("BUD-34", "BUD-35")
async def test_what_a_strategy_leaves_out_is_not_held() -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter(["ok"]), context_strategy=SlidingWindow(max_turns=1))
    old = [LLMMessage.user("start"), LLMMessage.assistant("old " * 1000)]
    history = [*old, LLMMessage.user("more"), LLMMessage.assistant("yes"), LLMMessage.user("question")]
    result = await OpenMultiAgent(max_token_budget=1000, budget_mode="hard").run_agent(config, history)
    assert result.success


@proves("BUD-38")
def test_another_mode_is_refused() -> None:
    wrong: Any = "strict"
    with pytest.raises(ConfigurationError, match="budget_mode must be 'soft' or 'hard'"):
        OpenMultiAgent(budget_mode=wrong)


# The report


def entry(phase: str, usage: TokenUsage, requests: int, *, cost: float = 0.0) -> UsageEntry:
    return UsageEntry(agent="x", model="m", provider="scripted", phase=phase, usage=usage, cost=cost, requests=requests)


@proves("BUD-51", "BUD-52")
async def test_the_result_of_a_run_has_its_report() -> None:
    config = agent([calls("a", tokens=20), spend("done", tokens=30)])
    result = await OpenMultiAgent(estimate_cost=per_token).run_agent(config, "q")
    expected = entry("agent", TokenUsage(input_tokens=50), 2, cost=0.5)
    assert result.usage_report == (expected,)
    assert result.to_dict()["usage_report"] == [expected.to_dict()]


@proves("BUD-51")
async def test_failed_and_repeated_calls_are_in_the_report() -> None:
    async def twice(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except RuntimeError:
            return await call_next(call)

    config = agent([RuntimeError("down"), calls("a", tokens=20), RuntimeError("down"), RuntimeError("down")])
    result = await OpenMultiAgent(model_middleware=[twice]).run_agent(config, "q")
    assert not result.success
    assert result.usage_report == (entry("agent", TokenUsage(input_tokens=20, unknown_calls=3), 4),)


@proves("BUD-51")
async def test_a_cached_answer_is_not_in_the_report() -> None:
    async def cached(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return spend("kept", tokens=5)

    result = await OpenMultiAgent(model_middleware=[cached]).run_agent(agent([]), "q")
    assert (result.output, result.usage_report) == ("kept", ())


@proves("BUD-51")
async def test_streamed_calls_are_in_the_report() -> None:
    stream = OpenMultiAgent().stream_agent(agent([calls("a", tokens=20), spend("done", tokens=30)]), "q")
    async with stream:
        async for _ in stream:
            pass
    assert stream.result.usage_report == (entry("agent", TokenUsage(input_tokens=50), 2),)


@proves("BUD-50", "BUD-51")
async def test_summaries_have_an_entry_of_their_own() -> None:
    config = agent([spend("a summary", tokens=7), spend("done", tokens=30)], context_strategy=Summarize(max_tokens=50))
    history = [LLMMessage.user("old " * 200), LLMMessage.assistant("yes " * 200)]
    result = await OpenMultiAgent().run_agent(config, [*history * 3, LLMMessage.user("q")])
    assert result.usage_report == (
        entry("summary", TokenUsage(input_tokens=7), 1),
        entry("agent", TokenUsage(input_tokens=30), 1),
    )


@proves("BUD-24")
async def test_a_summary_that_a_limit_refuses_ends_the_run() -> None:
    config = agent([calls("a", tokens=7)], context_strategy=Summarize(max_tokens=50))
    history = [LLMMessage.user("old " * 200), LLMMessage.assistant("yes " * 200)]
    oma = OpenMultiAgent(limits=Limits(requests=1))
    result = await oma.run_agent(config, [*history * 3, LLMMessage.user("q")])
    assert isinstance(result.error, LimitExceededError)
    assert (result.status.code, result.stop_reason) == ("budget_exhausted", "budget")


# Prices that are awaited


def plain_price(usage: TokenUsage, context: CostEstimateContext) -> float:
    return usage.total_tokens / 10


async def awaited_price(usage: TokenUsage, context: CostEstimateContext) -> float:
    await anyio.lowlevel.checkpoint()
    return plain_price(usage, context)


@proves("BUD-12")
@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_price_that_is_awaited_is_a_price_like_any_other(mode: Any) -> None:
    came = []
    for price in (plain_price, awaited_price):
        oma = OpenMultiAgent(estimate_cost=price, budget_mode=mode, limits=Limits(cost=2000.0))
        one = await oma.run_agent(agent([calls("a"), spend("done", tokens=3, output=4)], wrap_up=True), "q")
        crew = {"name": "crew", "agents": [agent([spend("b", tokens=5)], max_tokens=100)]}
        many = await oma.run_tasks(crew, [{"title": "T", "description": "Do it."}])
        over = await oma.run_agent(agent([calls("a")] * 3, max_tokens=100), "q", max_cost_budget=1.5)
        came.append([(result.status.code, result.usage_report) for result in (one, many, over)])
    assert came[0] == came[1]
    assert [code for code, _ in came[1]] == ["ok", "ok", "budget_exhausted"]
    assert sum(entry.cost for entry in came[1][0][1]) == pytest.approx(1.7)


@proves("BUD-12", "DSP-83")
@pytest.mark.parametrize("wrong", [float("nan"), -1, True, "1", LookupError("no price list")])
async def test_an_awaited_price_that_is_none_fails_what_it_is_for(wrong: Any) -> None:
    async def price(usage: TokenUsage, context: CostEstimateContext) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    oma = OpenMultiAgent(estimate_cost=price, default_adapter=ScriptedAdapter([spend("answer", tokens=5)]))
    result = await oma.run_tasks({"name": "crew", "agents": [{"name": "x"}]}, [{"title": "T", "description": "Do it."}])
    failed = next(iter(result.task_results.values()))
    assert (failed.status.code, failed.token_usage.input_tokens) == ("error", 5)
    assert "invalid cost" in failed.output or "no price list" in failed.output
    assert failed.error_info is not None
    assert failed.error_info.kind == "callback"


@proves("BUD-12")
@pytest.mark.parametrize("by", ["token", "timeout", "scope"])
async def test_a_price_that_is_awaited_holds_up_nobody_who_wants_to_stop(by: str) -> None:
    cancel, scope = CancelToken(), anyio.CancelScope()
    came: list[AgentRunResult[Any]] = []
    told: list[Any] = []

    async def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        if by == "token":
            cancel.cancel()
        elif by == "scope":
            scope.cancel()
        await anyio.sleep_forever()
        return 0.0

    oma = OpenMultiAgent(estimate_cost=price, on_progress=told.append)
    config = agent([spend("answer", tokens=5)], timeout=0.2 if by == "timeout" else None)
    with scope:
        came.append(await oma.run_agent(config, "q", cancel=cancel))
    assert scope.cancelled_caught is (by == "scope")
    result = told[-1].data
    assert result.status.code == ("timeout" if by == "timeout" else "cancelled")
    assert result.token_usage.input_tokens == 5

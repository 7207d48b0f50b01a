"""The last turn: when it comes, what it is like, and what the run says about it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    ConfigurationError,
    LimitExceededError,
    Limits,
    LLMMessage,
    ModelCall,
    ModelSettings,
    OpenMultiAgent,
    StructuredOutputValidationError,
    TextBlock,
    ThinkingConfig,
    TokenBudgetExceededError,
    TokenUsage,
    ToolResultBlock,
    ToolUseBlock,
    WrapUp,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelNext
from openmultiagent.budget import CostEstimateContext
from openmultiagent.messages import estimate_tokens
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

NOW = "Answer now."


@tool
def look() -> str:
    """Look."""
    return "seen"


def step(*, tokens: int | None = 10, output: int = 0, count: int = 1) -> LLMResponse:
    """A turn with tool calls."""
    usage = None if tokens is None else TokenUsage(input_tokens=tokens, output_tokens=output)
    blocks = [ToolUseBlock(id=f"c{number}", name="look", input={}) for number in range(count)]
    return LLMResponse([TextBlock(text="looking"), *blocks], usage=usage, stop_reason="tool_use")


def last(text: str = "the end", *, tokens: int = 10, **fields: Any) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens), **fields)


def agent(script: Any, *, wrap_up: Any = None, **fields: Any) -> AgentConfig:
    own = WrapUp(reserve_tokens=20, instruction=NOW) if wrap_up is None else wrap_up
    return AgentConfig("x", adapter=ScriptedAdapter(script), model="m", tools=[look], wrap_up=own, **fields)


def sent(config: AgentConfig) -> list[LLMChatOptions]:
    assert isinstance(config.adapter, ScriptedAdapter)
    return [call.options for call in config.adapter.calls]


async def run(config: AgentConfig, *, limits: Any = None, **fields: Any) -> AgentRunResult[Any]:
    return await OpenMultiAgent(**fields).run_agent(config, "q", limits=limits)


def ended(result: AgentRunResult[Any]) -> tuple[bool, str, str, tuple[str, ...]]:
    return result.success, result.output, result.stop_reason, result.flags


@proves("BUD-41", "BUD-42", "BUD-43")
async def test_the_last_of_max_turns_is_an_answer_without_tools() -> None:
    config = agent([step(), step(), last()], max_turns=3)
    result = await Agent(config).run("q")
    assert ended(result) == (True, "the end", "max_turns", ("wrapped-up",))
    assert [len(options.tools) for options in sent(config)] == [1, 1, 0]
    assert isinstance(config.adapter, ScriptedAdapter)
    told = config.adapter.calls[-1].messages[-1]
    assert told.to_dict() == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c0", "content": "seen"},
            {"type": "text", "text": NOW},
        ],
    }
    assert len(config.adapter.calls[-1].messages) == len({id(item) for item in config.adapter.calls[-1].messages}) == 5


@proves("BUD-41", "BUD-43")
async def test_the_last_model_call_is_an_answer_without_tools() -> None:
    config = agent([step(), last()])
    result = await run(config, limits=Limits(requests=2))
    assert ended(result) == (True, "the end", "budget", ("wrapped-up",))
    assert [len(options.tools) for options in sent(config)] == [1, 0]


@proves("BUD-41")
async def test_a_run_that_ends_in_time_does_not_wrap_up() -> None:
    result = await run(agent([step(), last()], max_turns=3), limits=Limits(requests=3))
    assert ended(result) == (True, "the end", "end_turn", ())


@proves("BUD-41", "BUD-43")
@pytest.mark.parametrize(("count", "refused"), [(1, 0), (2, 1)])
async def test_a_run_without_tool_calls_left_wraps_up(count: int, refused: int) -> None:
    result = await run(agent([step(count=count), last()]), limits=Limits(tool_calls=1))
    assert ended(result) == (True, "the end", "budget", ("wrapped-up",))
    assert sum(record.is_error for record in result.tool_calls) == refused


@proves("BUD-41", "BUD-43")
@pytest.mark.parametrize(
    ("limit", "turns"),
    [
        # A turn has 100 tokens. A further one and the last need 200, the answer 20, instruction and results 13.
        (330, 1),
        (340, 2),
        (430, 2),
        (440, 3),
    ],
)
async def test_the_tokens_of_the_last_turn_are_kept_free(limit: int, turns: int) -> None:
    config = agent([*[step(tokens=100)] * turns, last(tokens=100)])
    result = await run(config, limits=Limits(tokens=limit))
    assert ended(result) == (True, "the end", "budget", ("wrapped-up",))
    assert result.token_usage.total_tokens == 100 * (turns + 1)


@proves("BUD-41")
async def test_the_cost_of_the_last_turn_is_kept_free() -> None:
    def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        return usage.total_tokens / 100

    config = agent([*[step(tokens=100)] * 2, last(tokens=100)])
    result = await run(config, limits=Limits(cost=4.3), estimate_cost=price)
    assert ended(result) == (True, "the end", "budget", ("wrapped-up",))


def thrifty(messages: list[LLMMessage], options: LLMChatOptions) -> LLMResponse:
    """A model that calls its tool as long as it has one, and counts its tokens well."""
    usage = TokenUsage(input_tokens=estimate_tokens(messages), output_tokens=5)
    if options.tools:
        number = len(messages)
        return LLMResponse([ToolUseBlock(id=f"c{number}", name="look", input={})], usage=usage)
    return LLMResponse([TextBlock(text="the end")], usage=usage)


@proves("BUD-41", "BUD-43", "BUD-33")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(130, 1500), mode=st.sampled_from(["soft", "hard"]))
async def test_a_run_with_a_budget_ends_with_an_answer_within_it(limit: int, mode: Any) -> None:
    config = agent(thrifty, max_turns=1000)
    result = await run(config, limits=Limits(tokens=limit), budget_mode=mode)
    assert result.token_usage.total_tokens <= limit
    if mode == "soft" or len(sent(config)) > 1:
        assert ended(result) == (True, "the end", "budget", ("wrapped-up",))


@proves("BUD-41", "BUD-32")
async def test_in_hard_mode_calls_of_unknown_usage_leave_room_for_the_last() -> None:
    config = agent([step(tokens=None)] * 9, max_tokens=100)
    assert isinstance(config.adapter, ScriptedAdapter)
    result = await run(config, limits=Limits(tokens=1000), budget_mode="hard")
    assert result.flags == ("wrapped-up",)
    assert result.success
    assert result.token_usage.unknown_calls == len(sent(config)) > 2


@proves("BUD-41", "BUD-31")
async def test_in_hard_mode_an_unknown_usage_without_max_tokens_counts_as_4096() -> None:
    config = agent([step(tokens=None)] * 9)
    result = await run(config, limits=Limits(tokens=8600), budget_mode="hard")
    assert result.flags == ("wrapped-up",)
    assert [options.max_tokens for options in sent(config)] == [4096, 20]


@proves("BUD-41", "BUD-30")
async def test_in_hard_mode_the_last_turn_comes_when_a_normal_one_has_no_room() -> None:
    config = agent([step(tokens=100), last()], max_tokens=500)
    result = await run(config, limits=Limits(tokens=650), budget_mode="hard")
    assert ended(result) == (True, "the end", "budget", ("wrapped-up",))
    assert [options.max_tokens for options in sent(config)] == [500, 20]


@proves("BUD-42")
@pytest.mark.parametrize(("max_tokens", "expected"), [(None, 20), (500, 20), (7, 7)])
async def test_the_last_answer_is_short_and_written_without_further_thought(
    max_tokens: int | None, expected: int
) -> None:
    thinking = ModelSettings(
        temperature=0.5,
        tool_choice="required",
        parallel_tool_calls=True,
        thinking=ThinkingConfig(budget_tokens=5000),
    )
    config = agent([step(), last()], max_turns=2, max_tokens=max_tokens, settings=thinking)
    await Agent(config).run("q")
    first, second = sent(config)
    assert first.thinking is not None
    assert (second.max_tokens, second.temperature) == (expected, 0.5)
    assert (second.tools, second.tool_choice, second.parallel_tool_calls, second.thinking) == ((), None, None, None)


@proves("BUD-42", "BUD-51")
async def test_the_last_turn_has_a_phase_of_its_own() -> None:
    phases: list[str] = []

    async def watch(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        phases.append(call.phase)
        return await call_next(call)

    result = await run(agent([step(), last()], max_turns=2), model_middleware=[watch])
    assert phases == ["agent", "wrap-up"]
    assert [(entry.phase, entry.requests) for entry in result.usage_report] == [("agent", 1), ("wrap-up", 1)]


@proves("BUD-42")
async def test_tools_that_the_last_answer_calls_are_not_run() -> None:
    result = await Agent(agent([step(), step()], max_turns=2)).run("q")
    assert ended(result) == (True, "looking", "max_turns", ("wrapped-up",))
    assert len(result.tool_calls) == 1
    (block,) = result.messages[-1].content
    assert isinstance(block, ToolResultBlock)
    assert (block.content, block.is_error) == ("Not executed: this was the last turn of the run.", True)


@proves("BUD-42")
async def test_a_stream_shows_the_last_turn() -> None:
    stream = Agent(agent([step(), step()], max_turns=2)).stream("q")
    async with stream:
        types = [event.type async for event in stream]
    turn = ["turn_start", "text", "tool_input_delta", "tool_use", "tool_result", "turn_complete"]
    assert types == [*turn, *turn, "done"]


@proves("BUD-43")
async def test_a_last_answer_that_was_cut_off_says_so() -> None:
    result = await Agent(agent([step(), last(stop_reason="max_tokens")], max_turns=2)).run("q")
    assert ended(result) == (True, "the end", "max_tokens", ("wrapped-up",))


@proves("BUD-43")
async def test_a_last_answer_over_the_limit_does_not_make_a_success() -> None:
    result = await run(agent([step(tokens=100), last(tokens=300)]), limits=Limits(tokens=300))
    assert isinstance(result.error, TokenBudgetExceededError)
    assert ended(result) == (False, "the end", "budget", ("wrapped-up",))


@proves("BUD-43")
async def test_a_last_turn_that_fails_fails_the_run() -> None:
    result = await Agent(agent([step(), RuntimeError("down")], max_turns=2)).run("q")
    assert ended(result) == (False, "down", "error", ())


class Answer(BaseModel):
    """What is asked for."""

    value: int


@proves("BUD-44")
async def test_the_last_answer_is_read_as_what_was_asked_for() -> None:
    result = await Agent(agent([step(), last('{"value": 3}')], max_turns=2, output_schema=Answer)).run("q")
    assert result.success
    assert result.structured == Answer(value=3)


@proves("BUD-44")
async def test_the_last_answer_is_not_corrected() -> None:
    config = agent([step(), last("three"), last('{"value": 3}')], output_schema=Answer, max_output_corrections=5)
    result = await run(config, limits=Limits(requests=2))
    assert isinstance(result.error, StructuredOutputValidationError)
    assert len(sent(config)) == 2


@proves("BUD-45")
async def test_without_a_turn_left_there_is_no_last_one() -> None:
    result = await Agent(agent([step()], max_turns=1)).run("q")
    assert ended(result) == (True, "looking", "max_turns", ())


@proves("BUD-45")
@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (Limits(requests=1), LimitExceededError),
        (Limits(tokens=10), TokenBudgetExceededError),
        (Limits(tokens=9), TokenBudgetExceededError),
        (Limits(requests=1, tool_calls=1), LimitExceededError),
    ],
)
async def test_at_a_limit_that_has_been_reached_the_run_ends_as_without(limits: Limits, error: type[Exception]) -> None:
    result = await run(agent([step(count=2)]), limits=limits)
    assert isinstance(result.error, error)
    assert (result.status.code, result.flags) == ("budget_exhausted", ())


@proves("BUD-40")
@pytest.mark.parametrize("off", [None, False])
async def test_without_wrap_up_there_is_no_last_turn(off: bool | None) -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter([step(), step()]), tools=[look], max_turns=2, wrap_up=off)
    result = await Agent(config).run("q")
    assert ended(result) == (True, "looking", "max_turns", ())


@proves("BUD-40")
@pytest.mark.parametrize("given_as", [True, {}, WrapUp(), {"reserve_tokens": 1024}])
def test_wrap_up_may_be_given_in_short(given_as: Any) -> None:
    config = AgentConfig("x", adapter=ScriptedAdapter([]), wrap_up=given_as)
    assert config.wrap_up == WrapUp()
    assert config.replace(max_turns=3).wrap_up == WrapUp()


@proves("BUD-40")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (1, "agent 'x': wrap_up must be a WrapUp"),
        ("now", "wrap_up must be a WrapUp"),
        ({"reserve_tokens": 0}, "WrapUp is invalid"),
        ({"instruction": ""}, "WrapUp is invalid"),
        ({"tokens": 1}, "WrapUp has no field 'tokens'"),
    ],
)
def test_a_wrap_up_that_makes_no_sense_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AgentConfig("x", adapter=ScriptedAdapter([]), wrap_up=wrong)

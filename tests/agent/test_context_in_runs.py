"""Context strategies, compression and loop detection in real runs."""

from typing import Any

import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    ConfigurationError,
    LLMMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext
from openmultiagent.agent import CustomContext, LoopDetection, LoopInfo, SlidingWindow, Summarize
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} " * 300


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, tools=[look], **fields))


def looking(turns: int) -> ScriptedAdapter:
    """An adapter that calls a tool for some turns, and then answers."""
    calls = [[ToolUseBlock(id=f"c{n}", name="look", input={"place": f"p{n}"})] for n in range(turns)]
    return ScriptedAdapter([*calls, "done"])


@proves("CTX-90")
async def test_a_strategy_changes_what_is_sent_and_not_what_is_returned() -> None:
    adapter = looking(6)
    result = await agent(adapter, context_strategy=SlidingWindow(1)).run("look around")
    assert result.output == "done"
    assert len(result.messages) == 13
    assert len(adapter.calls[-1].messages) < 8
    assert adapter.calls[-1].messages[0].content[0] == TextBlock(text="look around")


@proves("CTX-90")
async def test_old_results_can_be_compressed() -> None:
    adapter = looking(3)
    result = await agent(adapter, compress_tool_results=True).run("look around")
    sent = [
        block.content
        for message in adapter.calls[-1].messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    assert [str(content).startswith("[Tool output compressed") for content in sent] == [True, True, False]
    assert all(len(record.output) > 500 for record in result.tool_calls)


@proves("CTX-91")
async def test_a_summary_is_a_call_of_its_own_through_the_same_seams() -> None:
    phases: list[tuple[str, str]] = []

    async def note(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        phases.append((call.phase, call.id.removeprefix(call.run_id)))
        return await call_next(call)

    def model(messages: list[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        usage = TokenUsage(input_tokens=10, output_tokens=1)
        if not options.tools:
            assert options.system_prompt != "Be brief."
            return LLMResponse([TextBlock(text="they looked")], usage=usage)
        turn = sum(phase == "agent" for phase, _ in phases)
        if turn > 5:
            return LLMResponse([TextBlock(text="done")], usage=usage)
        return LLMResponse([ToolUseBlock(id=f"c{turn}", name="look", input={"place": f"p{turn}"})], usage=usage)

    result = await agent(
        ScriptedAdapter(model), context_strategy=Summarize(600), model_middleware=[note], system_prompt="Be brief."
    ).run("look around")
    assert result.success, result.output
    summaries = [call_id for phase, call_id in phases if phase == "summary"]
    assert summaries
    assert len(set(summaries)) == len(summaries)
    assert all("/summary-" in call_id for call_id in summaries)
    assert result.token_usage.input_tokens == 10 * len(phases)


@proves("CTX-90")
async def test_a_custom_strategy_that_returns_nonsense_fails_the_run() -> None:
    result = await agent(looking(1), context_strategy=CustomContext(lambda messages, tokens: [])).run("q")
    assert not result.success
    assert result.error_info is not None
    assert result.error_info.kind == "callback"


def stuck(turns: int) -> ScriptedAdapter:
    call = [ToolUseBlock(id="c", name="look", input={"place": "here"})]
    return ScriptedAdapter([*([call] * turns), "done"])


@proves("CTX-92")
async def test_a_loop_can_end_the_run() -> None:
    adapter = stuck(10)
    result = await agent(adapter, loop_detection=LoopDetection(on_loop_detected="terminate")).run("q")
    assert len(adapter.calls) == 3
    assert result.stop_reason == "loop"
    assert len(result.tool_calls) == 2
    last = result.messages[-1].content[0]
    assert isinstance(last, ToolResultBlock)
    assert last.is_error


@proves("CTX-92")
async def test_a_warned_agent_may_recover() -> None:
    adapter = stuck(3)
    result = await agent(adapter, loop_detection={"on_loop_detected": "warn"}).run("q")
    assert result.output == "done"
    assert result.stop_reason == "end_turn"
    warned = adapter.calls[3].messages[-1].content
    assert isinstance(warned[0], ToolResultBlock)
    assert isinstance(warned[-1], TextBlock)
    assert warned[-1].text.startswith("WARNING:")


@proves("CTX-92")
async def test_a_repeated_text_is_warned_in_a_turn_of_its_own() -> None:
    history = [LLMMessage.user("a"), LLMMessage.assistant("stuck"), LLMMessage.user("b"), LLMMessage.assistant("stuck")]
    adapter = ScriptedAdapter(["stuck", "fresh"])
    result = await agent(adapter, loop_detection=LoopDetection()).run([*history, LLMMessage.user("c")])
    assert result.output == "fresh"
    assert [message.role for message in result.messages] == ["assistant", "user", "assistant"]


@proves("CTX-93")
async def test_a_stream_tells_of_loops_and_pairs_its_calls() -> None:
    seen: list[LoopInfo] = []

    async def decide(info: LoopInfo) -> str:
        seen.append(info)
        return "terminate"

    async with agent(stuck(9), loop_detection=LoopDetection(on_loop_detected=decide)).stream("q") as stream:
        events: list[Any] = [event async for event in stream]
    kinds = [event.type for event in events]
    assert kinds.count("loop_detected") == 1
    assert kinds.count("tool_use") == kinds.count("tool_result") == 2
    assert next(event.data for event in events if event.type == "loop_detected") == seen[0]
    assert kinds[-1] == "done"


@proves("CTX-93", "AGT-70")
@pytest.mark.parametrize("end", ["budget", "failure"])
async def test_every_announced_call_is_answered_in_the_stream(end: str) -> None:
    call = LLMResponse([ToolUseBlock(id="c", name="look", input={"place": "p"})], usage=TokenUsage(input_tokens=50))
    adapter = ScriptedAdapter([call, RuntimeError("down")])
    fields: dict[str, Any] = {"max_token_budget": 10} if end == "budget" else {}
    async with agent(adapter, **fields).stream("q") as stream:
        kinds = [event.type async for event in stream]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 1


@proves("CTX-94")
@pytest.mark.parametrize(
    "fields",
    [
        {"context_strategy": {"type": "magic"}},
        {"context_strategy": 3},
        {"compress_tool_results": "yes"},
        {"loop_detection": {"max_repetition": 3}},
        {"loop_detection": 3},
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        AgentConfig("x", model="m", **fields)

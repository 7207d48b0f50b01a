"""The turn loop and the tools in it."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    ContentBlock,
    LLMMessage,
    ModelSettings,
    ReasoningBlock,
    TextBlock,
    ThinkingConfig,
    TokenUsage,
    ToolContext,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


def call(call_id: str = "c1", name: str = "add", /, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=call_id, name=name, input=arguments)


def results_of(message: LLMMessage) -> list[ToolResultBlock]:
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


@proves("AGT-30")
async def test_the_first_answer_without_a_call_ends_the_run() -> None:
    adapter = ScriptedAdapter([[TextBlock(text="Let me add."), call(a=1, b=2)], "It is 3."])
    result = await agent(adapter, tools=[add]).run("1+2?")
    assert result.success
    assert result.stop_reason == "end_turn"
    assert result.output == "It is 3."
    assert adapter.calls[1].messages == [
        LLMMessage.user("1+2?"),
        LLMMessage.assistant([TextBlock(text="Let me add."), call(a=1, b=2)]),
        LLMMessage.user_with_blocks([ToolResultBlock(tool_use_id="c1", content="3")]),
    ]


@proves("AGT-30")
async def test_reasoning_is_no_output() -> None:
    blocks: list[ContentBlock] = [ReasoningBlock(text="hmm"), TextBlock(text="It "), TextBlock(text="is 3.")]
    result = await agent(ScriptedAdapter([blocks])).run("1+2?")
    assert result.output == "It is 3."
    assert result.messages == [LLMMessage.assistant(blocks)]


@proves("AGT-30")
async def test_an_answer_without_any_block_is_an_empty_output() -> None:
    result = await agent(ScriptedAdapter([[]])).run("q")
    assert result.success
    assert result.output == ""


@proves("AGT-31")
async def test_calls_of_a_turn_run_together_and_answer_in_order() -> None:
    started: list[str] = []
    everyone = anyio.Event()

    @tool
    async def wait(name: str, first: bool) -> str:
        """Wait for the others."""
        started.append(name)
        if len(started) == 3:
            everyone.set()
        await everyone.wait()
        if first:  # the first call finishes last
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
        return name

    calls = [call(f"c{n}", "wait", name=f"n{n}", first=n == 0) for n in range(3)]
    adapter = ScriptedAdapter([calls, "done"])
    result = await agent(adapter, tools=[wait]).run("go")
    answer = adapter.calls[1].messages[-1]
    assert [(block.tool_use_id, block.content) for block in results_of(answer)] == [
        ("c0", "n0"),
        ("c1", "n1"),
        ("c2", "n2"),
    ]
    assert [record.output for record in result.tool_calls] == ["n0", "n1", "n2"]


@proves("AGT-32")
async def test_the_turn_limit_is_no_failure() -> None:
    adapter = ScriptedAdapter(lambda messages, options: [TextBlock(text="again"), call(a=1, b=1)])
    result = await agent(adapter, tools=[add], max_turns=3).run("loop")
    assert len(adapter.calls) == 3
    assert result.success
    assert result.stop_reason == "max_turns"
    assert result.output == "again"
    assert len(result.tool_calls) == 3


@proves("AGT-33")
@pytest.mark.parametrize("reason", ["max_tokens", "content_filter"])
async def test_a_cut_answer_shows_as_stop_reason(reason: str) -> None:
    adapter = ScriptedAdapter([LLMResponse([TextBlock(text="It i")], stop_reason=reason)])
    result = await agent(adapter).run("q")
    assert result.success
    assert result.stop_reason == reason


@proves("AGT-33")
async def test_a_stop_reason_of_the_provider_is_an_end() -> None:
    result = await agent(ScriptedAdapter([LLMResponse([TextBlock(text="x")], stop_reason="refusal")])).run("q")
    assert result.stop_reason == "end_turn"


@proves("AGT-34")
async def test_a_result_has_what_the_run_produced() -> None:
    given = [LLMMessage.user("a"), LLMMessage.assistant("b"), LLMMessage.user("c")]
    adapter = ScriptedAdapter([[call(a=1, b=2)], "3"])
    result = await agent(adapter, tools=[add]).run(given)
    assert result.messages == [
        LLMMessage.assistant([call(a=1, b=2)]),
        LLMMessage.user_with_blocks([ToolResultBlock(tool_use_id="c1", content="3")]),
        LLMMessage.assistant("3"),
    ]
    assert result.tool_calls[0].input == {"a": 1, "b": 2}
    assert result.tool_calls[0].duration >= 0


async def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


@proves("AGT-35")
@pytest.mark.parametrize(
    ("block", "text"),
    [
        (call("c1", "nothing"), "not registered"),
        (call("c1", "add", a="x", b=1), "Invalid input"),
        (call("c1", "fail", text="broken"), "broken"),
        (ToolUseBlock(id="c1", name="add", input={}, input_error="cut off"), "cut off"),
    ],
)
async def test_a_failing_call_is_something_the_model_can_read(block: ToolUseBlock, text: str) -> None:
    adapter = ScriptedAdapter([[block], "I see."])
    result = await agent(adapter, tools=[add, fail]).run("q")
    (answer,) = results_of(adapter.calls[1].messages[-1])
    assert answer.is_error is True
    assert text in str(answer.content)
    assert result.success
    assert result.tool_calls[0].is_error


@proves("AGT-35")
async def test_one_failing_call_leaves_its_siblings_alone() -> None:
    adapter = ScriptedAdapter([[call("c1", "fail", text="x"), call("c2", a=1, b=2)], "ok"])
    await agent(adapter, tools=[add, fail]).run("q")
    first, second = results_of(adapter.calls[1].messages[-1])
    assert (first.is_error, second.is_error) == (True, None)
    assert second.content == "3"


@proves("AGT-36")
async def test_two_calls_of_one_id_are_told_apart() -> None:
    adapter = ScriptedAdapter([[call("c", a=1, b=2), call("c", a=3, b=4)], "ok"])
    result = await agent(adapter, tools=[add]).run("q")
    blocks = results_of(adapter.calls[1].messages[-1])
    assert [block.content for block in blocks] == ["3", "7"]
    assert len({block.tool_use_id for block in blocks}) == 2
    assert [record.tool_use_id for record in result.tool_calls] == [block.tool_use_id for block in blocks]


class Broken:
    name = "broken"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        return self.answer


@proves("AGT-37")
@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        LLMResponse("text"),  # type: ignore[arg-type]
        LLMResponse([ToolResultBlock(tool_use_id="c", content="x")]),
        LLMResponse([None]),  # type: ignore[list-item]
        LLMResponse([TextBlock(text="x")], usage={"input_tokens": 3}),  # type: ignore[arg-type]
        LLMResponse([TextBlock(text="x")], usage=TokenUsage(input_tokens=-3)),
        LLMResponse([TextBlock(text="x")], usage=TokenUsage(output_tokens="3")),  # type: ignore[arg-type]
        LLMResponse([TextBlock(text="x")], usage=TokenUsage(unknown_calls=float("nan"))),  # type: ignore[arg-type]
        LLMResponse([TextBlock(text="x")], usage=TokenUsage(reasoning_tokens=2**63)),
    ],
    ids=[
        "nothing",
        "a string",
        "text as content",
        "a tool result",
        "no block",
        "usage as mapping",
        "less than no tokens",
        "tokens as text",
        "tokens that are no number",
        "more tokens than there are",
    ],
)
async def test_an_adapter_that_returns_no_answer_fails_the_run(answer: object) -> None:
    result = await agent(Broken(answer)).run("q")
    assert not result.success
    assert result.error_info is not None
    assert result.error_info.kind == "provider"
    assert result.messages == []
    assert result.token_usage == TokenUsage(unknown_calls=1)


@proves("AGT-38")
async def test_what_the_definition_says_reaches_the_adapter() -> None:
    adapter = ScriptedAdapter(["ok", "ok"])
    settings = ModelSettings(
        temperature=0, top_p=0.5, stop=("END",), thinking=ThinkingConfig(budget_tokens=2048), extra_body={"x": [1]}
    )
    await agent(adapter, model="m-1", system_prompt="Be brief.", settings=settings, max_tokens=7, tools=[add]).run("q")
    options = adapter.calls[0].options
    assert options.model == "m-1"
    assert options.system_prompt == "Be brief."
    assert options.temperature == 0
    assert options.top_p == 0.5
    assert options.stop == ("END",)
    assert options.thinking == ThinkingConfig(budget_tokens=2048)
    assert options.extra_body == {"x": [1]}
    assert options.max_tokens == 7
    assert [(item.name, item.description) for item in options.tools] == [("add", "Add two numbers.")]
    assert options.tools[0].input_schema["required"] == ["a", "b"]
    await agent(adapter).run("q")
    assert adapter.calls[1].options == LLMChatOptions(model=adapter.name)


class Meddler:
    """An adapter that changes what it gets."""

    name = "meddler"

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.seen.append(len(messages))
        for message in messages:
            message.content.clear()
        if isinstance(messages, list):
            messages.clear()
        if len(self.seen) == 1:
            return LLMResponse([call(a=1, b=2)])
        return LLMResponse([TextBlock(text="done")])


@proves("AGT-39")
async def test_an_adapter_that_changes_its_messages_harms_nobody() -> None:
    adapter = Meddler()
    given = [LLMMessage.user("q")]
    result = await agent(adapter, tools=[add]).run(given)
    assert adapter.seen == [1, 3]
    assert given == [LLMMessage.user("q")]
    assert result.messages[0] == LLMMessage.assistant([call(a=1, b=2)])


@proves("AGT-39")
async def test_an_adapter_that_keeps_its_answer_cannot_change_the_run() -> None:
    kept = LLMResponse([call(a=1, b=2)])

    class Keeper:
        name = "keeper"
        turns = 0

        async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
            self.turns += 1
            if self.turns == 1:
                return kept
            kept.content.clear()
            return LLMResponse([TextBlock(text="done")])

    result = await agent(Keeper(), tools=[add]).run("q")
    assert result.messages[0] == LLMMessage.assistant([call(a=1, b=2)])


@proves("AGT-35")
async def test_a_tool_is_told_which_call_it_serves() -> None:
    contexts: list[ToolContext] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        contexts.append(context)
        return "seen"

    adapter = ScriptedAdapter([[call("c1", "look")], "ok"])
    result = await agent(adapter, tools=[look]).run("q")
    (context,) = contexts
    assert (context.agent, context.tool_name, context.tool_call_id, context.turn) == ("tester", "look", "c1", 1)
    assert context.run_id == result.identity.run_id
    assert result.tool_calls[0].input == {}


@proves("AGT-36")
async def test_calls_without_an_id_get_unique_ones() -> None:
    nameless = [call("", a=1, b=2), call("", a=3, b=4)]
    adapter = ScriptedAdapter([nameless, [call("", a=5, b=6)], "ok"])
    result = await agent(adapter, tools=[add]).run("q")
    ids = [record.tool_use_id for record in result.tool_calls]
    assert all(ids)
    assert len(set(ids)) == 3

"""Advice around the model and tool calls of an agent."""

from typing import Any

import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    ConfigurationError,
    LLMMessage,
    TextBlock,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import ToolCall, ToolNext
from openmultiagent.usage import TokenUsage
from tests.support import proves

USAGE = TokenUsage(input_tokens=10, output_tokens=1)


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


def answer(text: str) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=USAGE)


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def calling(**arguments: Any) -> list[ToolUseBlock]:
    return [ToolUseBlock(id="c1", name="double", input=arguments)]


@proves("AGT-60")
async def test_the_first_middleware_is_the_outermost() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def middleware(call: ModelCall, call_next: ModelNext) -> LLMResponse:
            order.append(f"{name} in")
            response = await call_next(call)
            order.append(f"{name} out")
            return response

        return middleware

    await agent(ScriptedAdapter(["ok"]), model_middleware=[named("a"), named("b")]).run("q")
    assert order == ["a in", "b in", "b out", "a out"]


@proves("AGT-60")
async def test_a_repeated_call_is_charged_again() -> None:
    async def retry(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except RuntimeError:
            return await call_next(call)

    result = await agent(ScriptedAdapter([RuntimeError("down"), answer("ok")]), model_middleware=[retry]).run("q")
    assert result.output == "ok"
    assert result.token_usage == TokenUsage(input_tokens=10, output_tokens=1, unknown_calls=1)


@proves("AGT-60")
async def test_an_answer_of_the_middleware_is_not_charged() -> None:
    async def cached(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return answer("from the cache")

    adapter = ScriptedAdapter(["never"])
    result = await agent(adapter, model_middleware=[cached]).run("q")
    assert result.output == "from the cache"
    assert result.token_usage == TokenUsage()
    assert adapter.calls == []


@proves("AGT-60")
async def test_a_call_can_be_rewritten() -> None:
    async def rewrite(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        options = LLMChatOptions(model="other")
        return await call_next(call.replace(messages=[*call.messages, LLMMessage.user("and?")], options=options))

    adapter = ScriptedAdapter(["ok"])
    result = await agent(adapter, model_middleware=[rewrite]).run("q")
    assert adapter.calls[0].messages == [LLMMessage.user("q"), LLMMessage.user("and?")]
    assert adapter.calls[0].options.model == "other"
    assert result.messages == [LLMMessage.assistant("ok")]


@proves("AGT-62")
async def test_no_step_can_reach_what_another_sees() -> None:
    seen: list[list[LLMMessage]] = []

    async def poison(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        response = await call_next(call.fork())
        call.messages[0].content.clear()
        again = await call_next(call.replace(messages=[LLMMessage.user("q")]))
        response.content.clear()
        kept.append(again)
        return again

    async def watch(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        seen.append(call.messages)
        return await call_next(call)

    kept: list[LLMResponse] = []
    adapter = ScriptedAdapter([answer("one"), answer("two")])
    tester = agent(adapter, model_middleware=[poison, watch])
    result = await tester.run("q")
    kept[0].content.clear()
    assert seen == [[LLMMessage.user("q")]] * 2
    assert [call.messages for call in adapter.calls] == [[LLMMessage.user("q")]] * 2
    assert result.messages == [LLMMessage.assistant("two")]


@proves("AGT-62")
async def test_one_cached_answer_may_serve_many_runs() -> None:
    cache = LLMResponse(list(calling(number=1)))
    second = answer("done")
    answers = [cache, second] * 2

    async def cached(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return answers.pop(0)

    tester = agent(ScriptedAdapter([]), model_middleware=[cached], tools=[double])
    first = await tester.run("q")
    first.messages[0].content.clear()
    again = await tester.run("q")
    assert again.messages[0] == LLMMessage.assistant(calling(number=1))


@proves("AGT-61")
async def test_tool_middleware_may_rewrite_repeat_and_answer() -> None:
    async def add_one(call: ToolCall, call_next: ToolNext) -> ToolResult:
        return await call_next(call.replace(input={"number": call.input["number"] + 1}))

    async def deny(call: ToolCall, call_next: ToolNext) -> ToolResult:
        return ToolResult("denied by policy", is_error=True)

    adapter = ScriptedAdapter([calling(number=1), "ok"] * 2)
    rewritten = await agent(adapter, tools=[double], tool_middleware=[add_one]).run("q")
    assert rewritten.tool_calls[0].output == "4"
    assert rewritten.tool_calls[0].input == {"number": 1}
    denied = await agent(adapter, tools=[double], tool_middleware=[deny]).run("q")
    assert denied.success
    assert (denied.tool_calls[0].output, denied.tool_calls[0].is_error) == ("denied by policy", True)


@proves("AGT-61")
@pytest.mark.parametrize("bad", ["raise", None, 3])
async def test_a_failing_tool_middleware_fails_its_call_only(bad: object) -> None:
    async def broken(call: ToolCall, call_next: ToolNext) -> Any:
        if call.tool_call_id == "c1":
            if bad == "raise":
                raise RuntimeError("no")
            return ToolResult(bad)
        return await call_next(call)

    blocks = [*calling(number=1), ToolUseBlock(id="c2", name="double", input={"number": 2})]
    adapter = ScriptedAdapter([blocks, "ok"])
    result = await agent(adapter, tools=[double], tool_middleware=[broken]).run("q")
    assert result.success
    assert [record.is_error for record in result.tool_calls] == [True, False]
    first = adapter.calls[1].messages[-1].content[0]
    assert isinstance(first, ToolResultBlock)
    assert first.is_error


@proves("AGT-63")
async def test_ids_of_calls_follow_from_the_run() -> None:
    ids: list[str] = []

    async def note(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        ids.append(call.id.removeprefix(call.run_id))
        return await call_next(call)

    async def note_tool(call: ToolCall, call_next: ToolNext) -> ToolResult:
        ids.append(call.id.removeprefix(call.run_id))
        return await call_next(call)

    adapter = ScriptedAdapter([calling(number=1), "ok"])
    await agent(adapter, tools=[double], model_middleware=[note], tool_middleware=[note_tool]).run("q")
    assert ids == ["/turn-1", "/turn-1/c1", "/turn-2"]


@proves("AGT-64")
async def test_a_raising_model_middleware_is_no_fault_of_the_provider() -> None:
    async def broken(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        raise RuntimeError("no")

    async def through(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return await call_next(call)

    ours = await agent(ScriptedAdapter(["never"]), model_middleware=[broken]).run("q")
    assert ours.error_info is not None
    assert ours.error_info.kind == "callback"
    theirs = await agent(ScriptedAdapter([RuntimeError("down")]), model_middleware=[through]).run("q")
    assert theirs.error_info is not None
    assert theirs.error_info.kind == "provider"


@proves("AGT-64")
async def test_a_middleware_that_returns_nonsense_fails_the_run() -> None:
    async def broken(call: ModelCall, call_next: ModelNext) -> Any:
        return None

    result = await agent(ScriptedAdapter(["never"]), model_middleware=[broken]).run("q")
    assert not result.success
    assert result.error_info is not None
    assert result.error_info.kind == "callback"


@proves("AGT-60")
async def test_a_call_that_was_never_sent_is_not_charged() -> None:
    def refuse(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        raise ConfigurationError("top_p and temperature exclude each other")

    result = await agent(ScriptedAdapter(refuse)).run("q")
    assert result.token_usage == TokenUsage()
    assert result.error_info is not None
    assert result.error_info.kind == "validation"

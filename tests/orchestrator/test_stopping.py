"""A token stops user middleware that waits around the agent, and what the agent had got to stays."""

from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel

from openmultiagent import (
    AgentConfig,
    AgentRunResult,
    CancelToken,
    LLMMessage,
    OpenMultiAgent,
    RunCall,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.agent import RunNext
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves
from tests.support.teams import stopped_while

Result = AgentRunResult[Any]


def answer(text: str, *, tokens: int) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens))


class Waiting:
    """Middleware that waits for ever, before or after the agent, and says when it does."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.waits = anyio.Event()
        self.seen: list[Result] = []

    async def __call__(self, call: RunCall, call_next: RunNext) -> Result:
        if self.where == "before":
            await self.wait()
        self.seen.append(await call_next())
        await self.wait()
        return self.seen[-1]

    async def wait(self) -> None:
        self.waits.set()
        await anyio.sleep_forever()


def assert_cancelled(result: Result) -> None:
    assert (result.success, result.status.code, result.status.message) == (False, "cancelled", "enough")
    assert (result.stop_reason, result.structured, result.error) == ("cancelled", None, None)
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.retryable) == ("cancellation", False)


@proves("ORC-43", "ORC-44")
async def test_a_token_stops_middleware_that_waits_before_the_agent() -> None:
    adapter, waiting, token, events = ScriptedAdapter(["never"]), Waiting("before"), CancelToken(), list[Any]()
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[waiting], on_progress=events.append)
    result = await stopped_while(
        waiting.waits,
        token,
        lambda: oma.run_agent({"name": "x"}, "q", run_id="r", metadata={"k": 1}, cancel=token),
    )
    assert_cancelled(result)
    assert (result.identity.run_id, result.metadata, result.messages) == ("r", {"k": 1}, [])
    assert result.identity.trace_id
    assert adapter.calls == []
    assert [event.type for event in events] == ["agent_start", "agent_complete"]
    assert events[-1].data == result


@proves("ORC-43", "ORC-44")
async def test_what_the_agent_came_to_stays_when_the_middleware_is_stopped_behind_it() -> None:
    class City(BaseModel):
        name: str

    waiting, token = Waiting("after"), CancelToken()
    adapter = ScriptedAdapter([answer('{"name": "Rome"}', tokens=7)])
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[waiting])
    config = AgentConfig("x", output_schema=City)
    result = await stopped_while(waiting.waits, token, lambda: oma.run_agent(config, "q", run_id="r", cancel=token))
    assert waiting.seen[0].structured == City(name="Rome")
    assert_cancelled(result)
    assert result.messages == waiting.seen[0].messages
    assert result.messages[0] is not waiting.seen[0].messages[0]
    assert result.output == '{"name": "Rome"}'
    assert result.token_usage == TokenUsage(input_tokens=7)
    assert result.identity == waiting.seen[0].identity


@proves("ORC-44", "AGT-50")
async def test_a_running_agent_closes_its_history_before_the_middleware_is_stopped() -> None:
    in_tool = anyio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        in_tool.set()
        await anyio.sleep_forever()
        return ""

    waiting, token = Waiting("after"), CancelToken()
    adapter = ScriptedAdapter([LLMResponse([ToolUseBlock(id="c", name="hang", input={})])])
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[waiting])
    config = AgentConfig("x", tools=[hang])
    result = await stopped_while(in_tool, token, lambda: oma.run_agent(config, "q", cancel=token))
    assert_cancelled(result)
    assert waiting.seen[0].status.code == "cancelled"
    (block,) = result.messages[-1].content
    assert isinstance(block, ToolResultBlock)
    assert (block.tool_use_id, block.is_error) == ("c", True)


@proves("ORC-44")
async def test_a_repetition_after_the_end_asks_nobody_and_loses_nothing() -> None:
    in_model, token = anyio.Event(), CancelToken()

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        in_model.set()
        await anyio.sleep_forever()
        return ""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    async def repeat(call: RunCall, call_next: RunNext) -> Result:
        while not (result := await call_next()).success:
            pass
        return result

    adapter = ScriptedAdapter([LLMResponse([ToolUseBlock(id="c", name="look", input={})]), hang])
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[repeat])
    config = AgentConfig("x", tools=[look])
    result = await stopped_while(in_model, token, lambda: oma.run_agent(config, "q", cancel=token))
    assert_cancelled(result)
    assert len(adapter.calls) == 2
    assert [record.output for record in result.tool_calls] == ["seen"]
    assert len(result.messages) == 2


@proves("ORC-44")
async def test_a_second_agent_of_the_run_is_not_cut_off_by_the_end_of_the_first() -> None:
    in_model, token = anyio.Event(), CancelToken()

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        in_model.set()
        await anyio.sleep_forever()
        return ""

    both: list[Result] = []

    async def twice(call: RunCall, call_next: RunNext) -> Result:
        async def once() -> None:
            both.append(await call_next())

        async with anyio.create_task_group() as group:
            group.start_soon(once)
            group.start_soon(once)
        return both[-1]

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(hang), middleware=[twice])
    result = await stopped_while(in_model, token, lambda: oma.run_agent({"name": "x"}, "q", cancel=token))
    assert result.status.code == "cancelled"
    assert [each.status.code for each in both] == ["cancelled"] * 2


@proves("ORC-44")
async def test_the_text_of_an_earlier_failure_is_no_output() -> None:
    waiting, token = Waiting("after"), CancelToken()
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([RuntimeError("down")]), middleware=[waiting])
    result = await stopped_while(waiting.waits, token, lambda: oma.run_agent({"name": "x"}, "q", cancel=token))
    assert waiting.seen[0].output == "down"
    assert_cancelled(result)
    assert result.output == ""


@proves("ORC-43", "ORC-44")
async def test_middleware_meets_a_token_that_was_cancelled_before_at_its_first_wait() -> None:
    waiting, token = Waiting("before"), CancelToken()
    token.cancel("enough")
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]), middleware=[waiting])
    with anyio.fail_after(10):
        assert_cancelled(await oma.run_agent({"name": "x"}, "q", cancel=token))


@proves("ORC-44")
async def test_middleware_that_does_not_wait_is_not_stopped_and_may_keep_its_word() -> None:
    token = CancelToken()

    async def late(call: RunCall, call_next: RunNext) -> Result:
        result = await call_next()
        token.cancel("too late")
        return result

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), middleware=[late])
    assert (await oma.run_agent({"name": "x"}, "q", cancel=token)).output == "ok"


@proves("ORC-43", "CAN-7")
@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_cancelled_caller_is_not_mistaken_for_a_cancelled_token(where: str) -> None:
    waiting, token = Waiting(where), CancelToken()
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), middleware=[waiting])
    returned: list[Result] = []

    async def run() -> None:
        returned.append(await oma.run_agent({"name": "x"}, "q", cancel=token))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await waiting.waits.wait()
            group.cancel_scope.cancel()
    assert returned == []
    assert not token.cancelled


@proves("ORC-40", "ORC-44")
async def test_a_stream_ends_with_the_cancelled_result() -> None:
    waiting, token = Waiting("after"), CancelToken()
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([answer("hello", tokens=7)]), middleware=[waiting])

    async def run() -> Result:
        async with oma.stream_agent({"name": "x"}, "q", cancel=token) as stream:
            async for event in stream:
                last = event
        assert last.type == "done"
        return stream.result

    result = await stopped_while(waiting.waits, token, run)
    assert_cancelled(result)
    assert (result.output, result.token_usage.input_tokens) == ("hello", 7)


@proves("ORC-44")
async def test_an_error_of_stopped_middleware_is_the_failure_of_the_run() -> None:
    waiting, token = Waiting("before"), CancelToken()

    async def breaks(call: RunCall, call_next: RunNext) -> Result:
        try:
            return await call_next()
        finally:
            raise RuntimeError("broken while it was left")

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]), middleware=[breaks, waiting])
    result = await stopped_while(waiting.waits, token, lambda: oma.run_agent({"name": "x"}, "q", cancel=token))
    assert (result.status.code, result.output) == ("error", "broken while it was left")

"""Whatever ends a run, its history is one that every provider takes, and the next prompt succeeds."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from openmultiagent import Agent, AgentConfig, AgentRunResult, CancelToken, LLMMessage, ToolUseBlock, tool
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.messages import check_history
from openmultiagent.testing import FakeProviderServer, Hangup, RawBody, Refused, ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

CALLS = [ToolUseBlock(id=f"c{n}", name="work", input={"n": n}) for n in range(2)]


@tool
async def work(n: int) -> str:
    """Work."""
    await anyio.lowlevel.checkpoint()
    return str(n)


@tool(name="work")
async def crash(n: int) -> str:
    """Crash."""
    raise RuntimeError(f"crash {n}")


@tool(name="work", timeout=0.01)
async def hang(n: int) -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


def assert_accepted(result: AgentRunResult[Any]) -> None:
    """The history of the run, with its question, has no fault in any dialect."""
    history = [LLMMessage.user("q"), *result.messages]
    faults = [fault for fault in check_history(history, dialect="any") if fault.code != "unsigned_call"]
    if result.messages and result.messages[-1].role == "user":
        history.append(LLMMessage.user("go on"))
    assert faults == []


async def go_on(config: AgentConfig[Any], result: AgentRunResult[Any]) -> None:
    """A following prompt with that history succeeds."""
    history = [LLMMessage.user("q"), *result.messages]
    following = Agent(config.replace(adapter=ScriptedAdapter(["fine"]), history=history, max_token_budget=None))
    answer = await following.prompt("go on")
    assert answer.output == "fine"


def script(turns: int = 3) -> ScriptedAdapter:
    calls = [[ToolUseBlock(id=f"t{turn}-{n}", name="work", input={"n": n}) for n in range(2)] for turn in range(turns)]
    spent = [LLMResponse(list(blocks), usage=TokenUsage(input_tokens=10), stop_reason="tool_use") for blocks in calls]
    return ScriptedAdapter([*spent, "done"])


@proves("AGT-41")
@pytest.mark.parametrize("body", [work, crash, hang], ids=["works", "crashes", "hangs"])
@pytest.mark.parametrize("budget", [5, 10, 15, 20, 25, 31, None])
async def test_after_every_budget_and_tool(body: Any, budget: int | None) -> None:
    config = AgentConfig("tester", adapter=script(), tools=[body], max_token_budget=budget)
    result = await Agent(config).run("q")
    assert result.success == (budget is None or budget > 30)
    assert_accepted(result)
    await go_on(config, result)


@proves("AGT-41")
@pytest.mark.parametrize("turns", [1, 2, 3, 4])
async def test_after_every_turn_limit(turns: int) -> None:
    config = AgentConfig("tester", adapter=script(), tools=[work], max_turns=turns)
    result = await Agent(config).run("q")
    assert_accepted(result)
    await go_on(config, result)


@proves("AGT-41", "AGT-44")
@pytest.mark.parametrize("streamed", [False, True])
async def test_after_a_cancel_at_any_step(streamed: bool) -> None:
    """Cancel the run after n checkpoints of its own, for every n, until it finishes."""
    for steps in range(400):
        token = CancelToken()
        config = AgentConfig("tester", adapter=script(2), tools=[work])

        async def count(limit: int = steps, token: CancelToken = token) -> None:
            for _ in range(limit):
                await anyio.lowlevel.checkpoint()
            token.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(count)
            if streamed:
                stream = Agent(config).stream("q", cancel=token)
                async with stream:
                    async for _ in stream:
                        pass
                result = stream.result
            else:
                result = await Agent(config).run("q", cancel=token)
        assert_accepted(result)
        if result.success:
            break
        assert result.status.code == "cancelled"
        await go_on(config, result)
    assert result.output == "done"


@pytest.fixture
def faulty() -> Iterator[FakeProviderServer]:
    with FakeProviderServer([CALLS, Refused(500), Refused(500), Refused(500)]) as server:
        yield server


FAULTS: list[Any] = [
    Refused(401),
    Refused(400),
    Hangup(),
    RawBody(b"not json"),
    RawBody(b'{"choices": []}'),
    RuntimeError,
]


@proves("AGT-41", "AGT-40")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_after_every_fault_of_a_server(fault: Any) -> None:
    if fault is RuntimeError:

        def broken(messages: list[LLMMessage], options: LLMChatOptions) -> str:
            raise RuntimeError("down")

        config = AgentConfig("tester", adapter=ScriptedAdapter([CALLS, broken]), tools=[work])
        result = await Agent(config).run("q")
    else:
        async with FakeProviderServer([CALLS, *[fault] * 3], strict=True) as server:
            config = AgentConfig(
                "tester", provider="openai", model="m", api_key="k" * 20, base_url=server.openai_url, tools=[work]
            )
            result = await Agent(config).run("q")
    assert not result.success
    assert len(result.messages) == 2
    assert_accepted(result)
    await go_on(config, result)


@proves("AGT-41")
async def test_a_strict_server_takes_the_history_of_a_broken_run(faulty: FakeProviderServer) -> None:
    config = AgentConfig(
        "tester", provider="openai", model="m", api_key="k" * 20, base_url=faulty.openai_url, tools=[work]
    )
    broken = await Agent(config).run("q")
    assert not broken.success
    async with FakeProviderServer(["fine"], strict=True) as strict:
        following = config.replace(base_url=strict.openai_url, history=[LLMMessage.user("q"), *broken.messages])
        result = await Agent(following).prompt("go on")
        assert strict.complaints == []
    assert result.output == "fine"

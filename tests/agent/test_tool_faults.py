"""Tools that misbehave in a run: its siblings, its cancellation and its history are none the worse for it."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest

from openmultiagent import Agent, AgentConfig, CancelToken, ToolResultBlock, ToolUseBlock
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


def agent(script: list[Any], *tools: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=ScriptedAdapter(script), tools=tools))


def calling(*names: str) -> list[ToolUseBlock]:
    return [ToolUseBlock(id=name, name=name, input={}) for name in names]


async def fine() -> str:
    return "fine"


async def slow() -> str:
    await anyio.wait_all_tasks_blocked()
    return "slow"


async def broken() -> None:
    raise ValueError("broken")


async def cancelled_inside() -> None:
    raise asyncio.CancelledError


@proves("TOL-14", "TOL-20")
async def test_a_tool_that_fails_or_is_cancelled_inside_leaves_its_siblings_alone() -> None:
    names = ["slow", "broken", "cancelled_inside", "fine"]
    result = await agent([calling(*names), "done"], fine, slow, broken, cancelled_inside).run("q")

    assert result.success
    assert [(record.tool_name, record.is_error) for record in result.tool_calls] == [
        ("slow", False),
        ("broken", True),
        ("cancelled_inside", True),
        ("fine", False),
    ]
    assert "it was cancelled by something that it uses" in result.tool_calls[2].output


@proves("TOL-20")
@pytest.mark.parametrize("times", [1, 3])
async def test_a_tool_that_goes_on_after_it_was_cancelled_holds_up_the_end_of_the_run_no_longer_than_it_insists(
    times: int,
) -> None:
    started, token = anyio.Event(), CancelToken()

    async def stubborn() -> str:
        started.set()
        for _ in range(times):
            with suppress(BaseException):
                await anyio.sleep_forever()
        await anyio.sleep_forever()
        return "never"

    async def cancel() -> None:
        await started.wait()
        token.cancel("enough")

    worker = agent([calling("stubborn", "fine"), "again"], stubborn, fine)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            result = await worker.run("q", cancel=token)

    assert result.status.code == "cancelled"
    answers = [block for block in result.messages[-1].content if isinstance(block, ToolResultBlock)]
    assert [(block.tool_use_id, block.is_error) for block in answers] == [("stubborn", True), ("fine", None)]
    assert (await worker.run("q")).output == "again"

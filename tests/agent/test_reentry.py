"""Waiting for oneself: refused at the call, while everybody else still waits in line."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from openmultiagent import Agent, AgentConfig, ConfigurationError, LLMMessage, ToolUseBlock, tool
from openmultiagent.adapters import LLMChatOptions, ModelCall
from openmultiagent.agent import AgentPool
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

Act = Callable[[], Awaitable[Any]]


def calls(name: str = "act") -> list[ToolUseBlock]:
    return [ToolUseBlock(id="c", name=name, input={})]


class Actor:
    """An agent whose tool does something, and what came of that."""

    def __init__(self, *, in_thread: bool = False) -> None:
        self.act: Act | None = None
        self.error: BaseException | None = None

        async def perform() -> None:
            assert self.act is not None
            try:
                await self.act()
            except ConfigurationError as error:
                self.error = error

        @tool
        async def act() -> str:
            """Act."""
            await perform()
            return "done"

        @tool(name="act")
        def act_in_thread() -> str:
            """Act."""
            anyio.from_thread.run(perform)
            return "done"

        tools = [act_in_thread if in_thread else act]
        adapter = ScriptedAdapter([calls(), "first", calls(), "second", "third"])
        self.agent = Agent(AgentConfig("x", adapter=adapter, tools=tools))


@proves("AGT-11")
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_tool_cannot_prompt_the_conversation_that_it_is_part_of(in_thread: bool) -> None:
    actor = Actor(in_thread=in_thread)
    actor.act = lambda: actor.agent.prompt("again")
    with anyio.fail_after(10):
        assert (await actor.agent.prompt("q")).output == "first"
    assert "agent 'x': prompt was called inside a turn of the same conversation" in str(actor.error)
    assert len(actor.agent.get_history()) == 4
    with anyio.fail_after(10):
        assert (await actor.agent.prompt("next")).output == "second"


@proves("AGT-11")
async def test_the_error_comes_from_the_call_itself() -> None:
    actor = Actor()

    async def call_without_waiting() -> None:
        _ = actor.agent.prompt("again")

    actor.act = call_without_waiting
    await actor.agent.prompt("q")
    assert isinstance(actor.error, ConfigurationError)


@proves("AGT-11")
async def test_a_prompt_that_was_made_before_cannot_be_awaited_inside() -> None:
    actor = Actor()
    made = actor.agent.prompt("made before")

    async def await_it() -> None:
        await made

    actor.act = await_it
    with anyio.fail_after(10):
        await actor.agent.prompt("q")
    assert isinstance(actor.error, ConfigurationError)


@proves("AGT-11")
@pytest.mark.parametrize("where", ["before_run", "after_run", "model_middleware", "adapter", "child"])
async def test_no_part_of_a_turn_can_prompt_its_conversation(where: str) -> None:
    errors: list[ConfigurationError] = []

    async def again(*_: object) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await agent.prompt("again")
        errors.append(caught.value)

    async def middleware(call: ModelCall, call_next: Any) -> Any:
        if where == "child":
            async with anyio.create_task_group() as group:
                group.start_soon(again)
        else:
            await again()
        return await call_next(call)

    async def answer(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await again()
        return "ok"

    agent = Agent(
        AgentConfig(
            "x",
            adapter=ScriptedAdapter(answer if where == "adapter" else ["ok"]),
            before_run=again if where == "before_run" else None,
            after_run=again if where == "after_run" else None,
            model_middleware=[middleware] if where in ("model_middleware", "child") else [],
        )
    )
    with anyio.fail_after(10):
        assert (await agent.prompt("q")).output == "ok"
    assert len(errors) == 1


@proves("AGT-11")
async def test_a_tool_may_run_its_own_agent_and_prompt_others() -> None:
    actor = Actor()
    other = Agent(AgentConfig("other", adapter=ScriptedAdapter(["hello"])))
    copied: list[str] = []

    async def act() -> None:
        copied.append((await other.prompt("q")).output)
        actor.act = anyio.lowlevel.checkpoint
        copied.append((await actor.agent.run("q")).output)
        actor.agent.reset()
        await actor.agent.aclose()

    actor.act = act
    with anyio.fail_after(10):
        assert (await actor.agent.prompt("q")).output == "second"
    assert copied == ["hello", "first"]
    assert actor.error is None


@proves("AGT-11", "AGT-9")
async def test_prompts_of_others_still_wait_in_line_while_a_tool_runs() -> None:
    actor = Actor()
    in_tool, others = anyio.Event(), list[str]()

    async def act() -> None:
        actor.act = anyio.lowlevel.checkpoint
        in_tool.set()
        await anyio.wait_all_tasks_blocked()

    async def prompt() -> None:
        others.append((await actor.agent.prompt("later")).output)

    async def first() -> None:
        others.append((await actor.agent.prompt("q")).output)

    actor.act = act
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            await in_tool.wait()
            group.start_soon(prompt)
    assert others == ["first", "second"]


@proves("AGT-11")
async def test_what_outlives_the_turn_that_started_it_may_prompt() -> None:
    actor = Actor()
    ended, outputs = anyio.Event(), list[str]()

    async def later() -> None:
        await ended.wait()
        outputs.append((await actor.agent.prompt("later")).output)

    async with anyio.create_task_group() as group:

        async def act() -> None:
            actor.act = anyio.lowlevel.checkpoint
            group.start_soon(later)

        actor.act = act
        with anyio.fail_after(10):
            await actor.agent.prompt("q")
        ended.set()
    assert outputs == ["second"]


@proves("AGT-11")
def test_a_thread_of_its_own_is_outside() -> None:
    """A plain thread has no context of the turn; it waits its turn like others."""
    agent = Agent(AgentConfig("x", adapter=ScriptedAdapter(lambda messages, options: "ok")))
    outputs: list[str] = []

    def prompt() -> None:
        outputs.append(anyio.run(agent.prompt, "q").output)

    threads = [threading.Thread(target=prompt) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert outputs == ["ok"] * 3


async def in_a_pool(act: Callable[[AgentPool], Awaitable[Any]]) -> BaseException | None:
    actor = Actor()
    pool = AgentPool([actor.agent, Agent(AgentConfig("other", adapter=ScriptedAdapter(["hello"])))])
    actor.act = lambda: act(pool)
    with anyio.fail_after(10):
        assert (await pool.run("x", "q")).output == "first"
        await pool.drain()
    return actor.error


@proves("POO-16")
async def test_a_run_of_a_pool_cannot_wait_for_its_own_agent() -> None:
    error = await in_a_pool(lambda pool: pool.run("x", "again"))
    assert "agent 'x' has one run at a time in this pool" in str(error)


@proves("POO-16")
async def test_such_a_run_among_several_is_a_failed_result() -> None:
    outputs: list[str] = []

    async def act(pool: AgentPool) -> None:
        outputs.extend(result.status.code for result in await pool.run_parallel([("x", "again"), ("other", "q")]))

    assert await in_a_pool(act) is None
    assert outputs == ["error", "ok"]


@proves("POO-16")
@pytest.mark.parametrize("what", ["drain", "shutdown"])
async def test_a_run_of_a_pool_cannot_wait_for_all_runs(what: str) -> None:
    error = await in_a_pool(lambda pool: getattr(pool, what)())
    assert f"AgentPool.{what} was called inside a run of the same pool" in str(error)


@proves("POO-16", "POO-7")
async def test_a_run_of_a_pool_may_run_other_agents_and_take_its_own_out() -> None:
    outputs: list[str] = []

    async def act(pool: AgentPool) -> None:
        outputs.append((await pool.run("other", "q")).output)
        outputs.append(
            (await pool.run_ephemeral(Agent(AgentConfig("x", adapter=ScriptedAdapter(["mine"]))), "q")).output
        )
        assert pool.remove("x").name == "x"

    assert await in_a_pool(act) is None
    assert outputs == ["hello", "mine"]

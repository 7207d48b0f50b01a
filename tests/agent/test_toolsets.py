"""Toolsets in the runs of agents."""

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    CancelToken,
    ConfigurationError,
    OpenMultiAgent,
    RunError,
    ToolUseBlock,
    tool,
)
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import PrefixedToolset, Tool
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Server:
    """A toolset with one tool that works only while it is open."""

    def __init__(self, name: str = "server") -> None:
        self.name = name
        self.events: list[str] = []
        self.fault: Exception | None = None
        self.reached = anyio.Event()
        self.answers = True

    async def open(self) -> Sequence[Tool]:
        self.events.append("opening")
        self.reached.set()
        await anyio.lowlevel.checkpoint()
        if not self.answers:
            await anyio.sleep_forever()
        if self.fault is not None:
            raise self.fault
        self.events.append("open")
        return [tool(self.ask, name="ask"), tool(self.ask, name="wait")]

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.events.append("closed")

    async def ask(self, question: str) -> str:
        """Ask the server."""
        assert self.events[-1] == "open"
        return f"{self.name} says {question}!"


CYCLE = ["opening", "open", "closed"]


def asking(name: str = "ask", question: str = "yes") -> list[ToolUseBlock]:
    return [ToolUseBlock(id="c1", name=name, input={"question": question})]


def config(server: Any, *script: Any, **fields: Any) -> AgentConfig:
    return AgentConfig("tester", adapter=ScriptedAdapter(script), tools=[server], **fields)


@proves("TOL-60", "TOL-61")
async def test_a_run_opens_its_toolsets_offers_their_tools_and_closes_them() -> None:
    @tool
    async def own(text: str) -> str:
        return text

    server, adapter = Server(), ScriptedAdapter([asking(), "done"])
    worker = Agent(AgentConfig("tester", adapter=adapter, tools=[server, own]))
    assert server.events == []
    result = await worker.run("q")
    assert result.success
    assert result.tool_calls[0].output == "server says yes!"
    assert [item.name for item in adapter.calls[0].options.tools or ()] == ["own", "ask", "wait"]
    assert server.events == CYCLE


@proves("TOL-60")
async def test_a_run_that_never_starts_opens_nothing() -> None:
    def refuse(context: Any) -> None:
        raise ValueError("no")

    server = Server()
    result = await Agent(config(server, "never", before_run=refuse)).run("q")
    assert not result.success
    assert server.events == []


@proves("TOL-62")
async def test_an_entered_agent_keeps_its_toolsets_open() -> None:
    server = Server()
    async with Agent(config(server, "one", asking(), "two", "three")) as worker:
        assert server.events == []
        await worker.run("q")
        assert (await worker.prompt("q")).tool_calls[0].output == "server says yes!"
        async with worker.stream("q") as stream:
            async for _ in stream:
                pass
        assert server.events == ["opening", "open"]
    assert server.events == CYCLE


@proves("TOL-62", "TOL-63")
async def test_an_entered_orchestrator_keeps_them_for_all_its_agents() -> None:
    server = Server()
    async with OpenMultiAgent() as oma:
        await oma.run_agent(config(server, "one"), "q")
        result = await oma.run_agent(config(server, asking(), "two"), "q")
        assert result.tool_calls[0].output == "server says yes!"
        assert server.events == ["opening", "open"]
    assert server.events == CYCLE
    await oma.run_agent(config(server, "three"), "q")
    assert server.events == CYCLE * 2


@proves("TOL-63")
async def test_runs_at_the_same_time_share_it() -> None:
    server = Server()
    worker = Agent(config(server, *[lambda m, o: asking() if len(m) == 1 else "done"] * 20))
    results: list[Any] = []

    async def run() -> None:
        results.append(await worker.run("q"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(run)
    assert [result.tool_calls[0].output for result in results] == ["server says yes!"] * 10
    assert server.events == CYCLE


@proves("TOL-64")
async def test_one_that_cannot_be_opened_is_a_failed_run_that_names_it() -> None:
    server, other = Server("broken"), Server("fine")
    server.fault = OSError("no such host")
    adapter = ScriptedAdapter(["answer"])
    worker = Agent(AgentConfig("tester", adapter=adapter, tools=[PrefixedToolset(other, "fine_"), server]))
    result = await worker.run("q")
    assert (result.status.code, result.stop_reason) == ("error", "error")
    assert isinstance(result.error, RunError)
    assert result.output == "agent 'tester': toolset 'broken' could not be opened: OSError: no such host"
    assert result.error_info is not None
    assert result.error_info.kind == "tool"
    assert not adapter.calls
    assert other.events == CYCLE

    server.fault = None
    assert (await worker.run("q")).output == "answer"


@proves("TOL-65")
async def test_names_that_collide_are_a_failed_run_unless_they_are_prefixed_or_denied() -> None:
    one, two = Server("one"), Server("two")
    both = AgentConfig("tester", adapter=ScriptedAdapter(["no"]), tools=[one, two])
    result = await Agent(both).run("q")
    assert isinstance(result.error, ConfigurationError)
    assert "a tool named 'ask' comes from toolset 'one' and from toolset 'two'" in result.output
    assert result.error_info is not None
    assert result.error_info.kind == "validation"
    assert (one.events, two.events) == (CYCLE, CYCLE)

    adapter = ScriptedAdapter([asking("two_ask"), "done"])
    prefixed = both.replace(adapter=adapter, tools=[one, PrefixedToolset(two, "two_")], disallowed_tools=["two_wait"])
    result = await Agent(prefixed).run("q")
    assert result.tool_calls[0].output == "two says yes!"
    assert [item.name for item in adapter.calls[0].options.tools or ()] == ["ask", "wait", "two_ask"]


@proves("TOL-65")
async def test_a_denied_name_that_no_toolset_has_is_a_failed_run() -> None:
    server = Server()
    result = await Agent(config(server, "never", disallowed_tools=["aks"])).run("q")
    assert isinstance(result.error, ConfigurationError)
    assert "disallowed_tools names 'aks'" in result.output
    assert server.events == CYCLE


@proves("TOL-61")
async def test_the_runs_time_limit_holds_while_it_opens() -> None:
    server = Server()
    server.answers = False
    result = await Agent(config(server, "never", timeout=0.05)).run("q")
    assert result.status.code == "timeout"
    assert server.events == ["opening"]


@proves("TOL-61")
async def test_a_cancelled_token_closes_it() -> None:
    server, token = Server(), CancelToken()

    async def stop(messages: Any, options: Any) -> str:
        token.cancel("enough")
        await anyio.sleep_forever()
        return "never"

    result = await Agent(config(server, stop)).run("q", cancel=token)
    assert result.status.code == "cancelled"
    assert server.events == CYCLE


@proves("TOL-61")
@asyncio_only
@pytest.mark.parametrize("steps", range(12))
async def test_a_native_cancellation_at_any_moment_closes_it(steps: int) -> None:
    server = Server()
    task = asyncio.ensure_future(Agent(config(server, asking(), "done")).run("q"))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await anyio.wait_all_tasks_blocked()
    assert server.events in ([], ["opening"], CYCLE)


@proves("TOL-61")
async def test_a_stream_that_is_left_early_closes_it() -> None:
    server = Server()
    async with Agent(config(server, asking(), "done")).stream("q") as stream:
        async for event in stream:
            if event.type == "tool_use":
                break
    assert server.events == CYCLE


@proves("TOL-60")
async def test_a_copied_agent_shares_the_toolset_and_opens_it_when_it_needs_it() -> None:
    server = Server()
    original = Agent(config(server, "one", "two"))
    other = copy.deepcopy(original)
    assert other.config.tools == original.config.tools == (server,)
    await other.run("q")
    assert server.events == CYCLE


@proves("TOL-65")
def test_the_same_toolset_twice_is_refused_at_once() -> None:
    server = Server()
    with pytest.raises(ConfigurationError, match="same toolset twice"):
        AgentConfig("tester", adapter=ScriptedAdapter([]), tools=[server, server])

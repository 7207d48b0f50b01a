"""What a run of a team works on: its own messages and memory, the tool that sends, prompts, handlers."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    BusMessage,
    ConfigurationError,
    Team,
    ToolContext,
    ToolResult,
    ToolUseBlock,
    tool,
)
from openmultiagent.stores import InMemoryStore
from openmultiagent.team import MessageBus, SharedMemory, TeamRun
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import SEND_MESSAGE
from tests.support import proves


def team(*names: str, **fields: Any) -> Team:
    return Team({"name": "t", "agents": [{"name": name} for name in names or ("a", "b", "c")], **fields})


def contents(messages: list[BusMessage]) -> list[str]:
    return [message.content for message in messages]


def memory_of(run: TeamRun) -> SharedMemory:
    assert run.memory is not None
    return run.memory


@proves("TEM-1")
def test_a_team_knows_its_agents() -> None:
    made = team("b", "a")
    assert [agent.name for agent in made.agents] == ["b", "a"]
    assert made.get_agent("a") is made.agents[1]
    assert made.get_agent("A") is None
    assert made.name == "t"
    assert repr(made) == "<Team 't': 'b', 'a'>"


# --- runs ------------------------------------------------------------------------------------------------------------


@proves("TEM-40")
def test_runs_do_not_mix_their_messages() -> None:
    made = team()
    made.send_message("user", "a", "hint")
    one, two = made.begin_run(), made.begin_run()
    one.bus.send("b", "a", "in one")
    two.bus.mark_read("a", [message.id for message in two.bus.get_unread("a")])
    made.broadcast("user", "later")
    assert contents(one.bus.get_unread("a")) == ["hint", "in one"]
    assert contents(two.bus.get_unread("a")) == []
    assert contents(made.get_unread_messages("a")) == ["hint", "later"]
    assert contents(made.begin_run().bus.get_unread("a")) == ["hint", "later"]


@proves("TEM-40")
async def test_runs_do_not_mix_what_is_remembered() -> None:
    made = team(shared_memory=True)
    own = made.get_shared_memory_instance()
    assert own is not None
    await own.write("user", "k", "of the team")
    own.set_turn_count(3)
    one, two = memory_of(made.begin_run()), memory_of(made.begin_run())
    await one.write("a", "k", "of one")
    one.advance_turn()
    await two.write("user", "k", "of two")
    assert [entry.value for entry in await one.list_all()] == ["of the team", "of one"]
    assert [entry.value for entry in await two.list_all()] == ["of two"]
    assert [entry.value for entry in await own.list_all()] == ["of the team"]
    assert (one.get_turn_count(), two.get_turn_count(), own.get_turn_count()) == (4, 3, 3)


@proves("TEM-40")
async def test_a_store_that_was_given_is_shared_by_all_runs() -> None:
    made = team(shared_memory_store=InMemoryStore())
    one, two = memory_of(made.begin_run()), memory_of(made.begin_run())
    await one.write_expiring("a", "k", "v", 2)
    assert [entry.value for entry in await two.list_all()] == ["v"]
    one.advance_turn()
    two.advance_turn()
    assert await memory_of(made.begin_run()).list_all() == []
    assert made.get_shared_memory_instance() is one


@proves("TEM-40")
def test_a_team_without_memory_has_runs_without_memory() -> None:
    assert team().begin_run().memory is None


@proves("TEM-42")
async def test_a_run_goes_on_from_others() -> None:
    made = team(shared_memory=True)
    bus, memory = MessageBus(["a"]), SharedMemory()
    run = made.begin_run(bus=bus, memory=memory)
    assert (run.bus, run.memory, run.team) == (bus, memory, made)
    assert made.begin_run(bus=bus).memory is not memory
    assert made.begin_run(memory=memory).bus is not bus
    with pytest.raises(ConfigurationError, match="team 't' has no shared memory"):
        team().begin_run(memory=memory)


# --- handlers --------------------------------------------------------------------------------------------------------


@proves("TEM-41")
def test_handlers_are_told_of_messages_and_of_whatever_is_emitted() -> None:
    made = team()
    heard: list[tuple[str, Any]] = []
    for event in ("message", "broadcast", "task:complete", "my own"):

        def listen(data: Any, event: str = event) -> None:
            heard.append((event, data))

        made.on(event, listen)
    run = made.begin_run()
    sent = [
        made.send_message("user", "a", "1"),
        made.broadcast("user", "2"),
        run.bus.send("a", "b", "3"),
        run.bus.broadcast("a", "4"),
    ]
    data = {"task": "t1"}
    run.emit("task:complete", data)
    made.emit("my own")
    made.emit("nobody listens", data)
    assert heard == [
        ("message", sent[0]),
        ("broadcast", sent[1]),
        ("message", sent[2]),
        ("broadcast", sent[3]),
        ("task:complete", data),
        ("my own", None),
    ]


@proves("TEM-41")
@pytest.mark.parametrize("error", [RuntimeError("no"), asyncio.CancelledError()])
def test_a_handler_that_raises_stops_nobody(error: BaseException) -> None:
    made = team()
    heard: list[Any] = []

    def fails(data: Any) -> None:
        raise error

    async def waits(data: Any) -> None: ...

    stop = made.on("message", fails)
    made.on("message", heard.append)
    with capture_logs() as lines:
        message = made.send_message("user", "a", "x")
    assert heard == made.get_messages("a") == [message]
    assert [(line["event"], line["what"], line["topic"]) for line in lines] == [
        ("team_handler_failed", "team 't'", "message")
    ]
    stop()
    stop()
    with capture_logs() as lines:
        made.send_message("user", "a", "y")
    assert lines == []
    with pytest.raises(ConfigurationError, match="team 't', 'message' must be a plain function"):
        made.on("message", waits)


# --- the tool --------------------------------------------------------------------------------------------------------


def calls(*inputs: dict[str, Any]) -> ScriptedAdapter:
    blocks = [ToolUseBlock.new(f"call_{number}", "send_message", given) for number, given in enumerate(inputs)]
    return ScriptedAdapter([blocks, "done"])


async def run_agent(run: TeamRun, name: str, *inputs: dict[str, Any], **fields: Any) -> AgentRunResult:
    config = AgentConfig(name, adapter=calls(*inputs), tools=["send_message"], **fields)
    return await Agent(run.equip(config)).run("Go")


@proves("TEM-20")
async def test_an_agent_writes_to_others_in_its_own_name() -> None:
    run = team().begin_run()
    result = await run_agent(run, "a", {"recipient": "b", "content": "for b"}, {"recipient": "*", "content": "for all"})
    assert result.success
    assert [(call.output, call.is_error) for call in result.tool_calls] == [
        ("sent to b", False),
        ("sent to everybody", False),
    ]
    # The calls of a turn run at the same time, so either may be the first.
    received = {(message.sender, message.content) for message in run.bus.get_unread("b")}
    assert received == {("a", "for b"), ("a", "for all")}
    assert contents(run.bus.get_unread("c")) == ["for all"]
    assert run.bus.get_unread("a") == []


@proves("TEM-20")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"recipient": "d", "content": "x"}, "'d' is no agent of the team; its agents are: 'a', 'b', 'c'"),
        ({"recipient": "a", "content": "x"}, "recipient is you"),
        ({"recipient": "b", "content": " "}, "not blank"),
        ({"recipient": "b", "content": "x" * 65_537}, "65,537 bytes"),
        ({"recipient": "b"}, "content of a message must be a text"),
        ({"content": "x"}, "recipient None is no agent"),
        ({"recipient": ["b"], "content": "x"}, "is no agent"),
        ({"recipient": "*", "content": 3}, "content of a message must be a text"),
    ],
)
async def test_what_cannot_be_sent_is_a_result_that_says_why(given: dict[str, Any], text: str) -> None:
    run = team().begin_run()
    result = await run_agent(run, "a", given)
    assert result.success
    assert result.tool_calls[0].is_error
    assert text in str(result.tool_calls[0].output)
    assert run.bus.snapshot()["messages"] == []


@proves("TEM-20")
async def test_a_full_bus_is_a_result_too() -> None:
    run = team().begin_run(bus=MessageBus(["a", "b"], max_messages=1))
    result = await run_agent(run, "a", *[{"recipient": "b", "content": "x"}] * 2)
    assert [call.is_error for call in result.tool_calls].count(True) == 1
    assert "its limit; nothing was sent" in str(result.tool_calls)
    assert len(run.bus.get_all("b")) == 1


@proves("TEM-20")
async def test_agents_of_runs_at_the_same_time_write_to_their_own_runs() -> None:
    made = team()
    runs = [made.begin_run() for _ in range(5)]
    async with anyio.create_task_group() as tasks:
        for number, run in enumerate(runs):
            tasks.start_soon(run_agent, run, "a", {"recipient": "b", "content": f"run {number}"})
    assert [contents(run.bus.get_all("b")) for run in runs] == [[f"run {number}"] for number in range(5)]
    assert made.get_messages("b") == []


@proves("TEM-21")
async def test_outside_a_team_there_is_nobody_to_write_to() -> None:
    adapter = calls({"recipient": "b", "content": "x"})
    result = await Agent(AgentConfig("a", adapter=adapter, tools=["send_message", "delegate_to_agent"])).run("Go")
    assert result.tool_calls[0].is_error
    assert not adapter.calls[0].options.tools


@proves("TEM-21")
async def test_who_does_not_name_the_tool_cannot_write() -> None:
    run = team().begin_run()

    @tool
    def other() -> str:
        """Do something else."""
        return "x"

    config = AgentConfig("a", adapter=calls({"recipient": "b", "content": "x"}), tools=[other])
    assert run.equip(config) is config
    result = await Agent(config).run("Go")
    assert result.tool_calls[0].is_error
    denied = run.equip(config.replace(tools=["send_message", other], disallowed_tools=["send_message"]))
    assert [each.name for each in denied.granted_tools] == ["other"]
    assert run.bus.snapshot()["messages"] == []


@proves("TEM-20")
def test_a_tool_that_is_named_twice_is_there_once() -> None:
    equipped = team().begin_run().equip(AgentConfig("a", tools=["send_message", "send_message"]))
    assert [each.name for each in equipped.granted_tools] == ["send_message"]


@proves("TEM-21")
def test_a_tool_of_ones_own_may_have_the_name() -> None:
    @tool(name="send_message")
    def own(text: str) -> str:
        """Send a mail."""
        return text

    run = team().begin_run()
    config = AgentConfig("a", tools=[own])
    assert run.equip(config) is config
    equipped = run.equip(AgentConfig("a", tools=["send_message"]))
    (granted,) = equipped.granted_tools
    assert granted.definition == SEND_MESSAGE.definition
    assert granted is not SEND_MESSAGE


async def test_the_tool_can_be_called_in_a_test() -> None:
    returned = await SEND_MESSAGE({"recipient": "b", "content": "x"}, ToolContext(tool_name="send_message"))
    assert isinstance(returned, ToolResult)
    assert returned.is_error


# --- prompts ---------------------------------------------------------------------------------------------------------


@proves("TEM-22")
def test_unread_messages_are_a_section_of_a_prompt() -> None:
    run = team().begin_run()
    nothing = run.unread("a")
    assert (nothing.text, nothing.ids) == ("", ())
    nothing.mark_read()
    run.bus.send("b", "a", "first\n## Heading\n- **c**: not from c\u2028last")
    run.bus.broadcast("c", "second")
    unread = run.unread("a")
    assert unread.text.split("\n") == [
        "## Messages from team members",
        "- **b**: first",
        "  ## Heading",
        "  - **c**: not from c",
        "  last",
        "- **c**: second",
    ]
    assert unread.ids == tuple(message.id for message in run.bus.get_all("a"))


@proves("TEM-22")
def test_messages_are_read_when_the_work_is_done_and_not_before() -> None:
    run = team().begin_run()
    run.bus.send("b", "a", "one")
    first = run.unread("a")
    assert run.unread("a").text == first.text
    run.bus.send("b", "a", "came meanwhile")
    first.mark_read()
    first.mark_read()
    assert contents(run.bus.get_unread("a")) == ["came meanwhile"]
    assert "one" not in run.unread("a").text
    with pytest.raises(ConfigurationError, match="no agent of the team"):
        run.unread("d")


@proves("TEM-23")
def test_what_does_not_fit_into_a_prompt_stays_unread() -> None:
    run = team().begin_run()
    for number in range(5):
        run.bus.send("b", "a", f"{number}" * 10_000)
    unread = run.unread("a")
    assert len(unread.ids) == 3
    assert len(unread.text) < 33_000
    assert unread.text.endswith("\n(2 more will come with the next task)")
    unread.mark_read()
    assert [content[0] for content in contents(run.bus.get_unread("a"))] == ["3", "4"]
    assert "more will come" not in run.unread("a").text


@proves("TEM-23")
def test_one_long_message_is_there_all_the_same() -> None:
    run = team().begin_run()
    run.bus.send("b", "a", "x" * 65_536)
    run.bus.send("b", "a", "y")
    unread = run.unread("a")
    assert len(unread.ids) == 1
    assert "x" * 65_536 in unread.text
    unread.mark_read()
    assert "y" in run.unread("a").text

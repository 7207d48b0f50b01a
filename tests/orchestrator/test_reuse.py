"""What runs share to be quick is never seen: definitions that are used again, and what adapters are handed."""

import copy
import pickle
from collections.abc import MutableMapping
from dataclasses import fields
from typing import Any

import anyio

from openmultiagent import Agent, AgentConfig, LLMMessage, OpenMultiAgent, TextBlock, tool
from openmultiagent.adapters import LLMResponse
from openmultiagent.testing import ScriptedAdapter


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_definition_gets_the_defaults_of_the_orchestrator_that_runs_it() -> None:
    config = AgentConfig("a")
    one = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "one"), default_model="m1")
    two = OpenMultiAgent(default_adapter=ScriptedAdapter(lambda *_: "two"), default_model="m2")
    answers = [(await oma.run_agent(config, "x")).output for oma in (one, two, one, one, two)]
    assert answers == ["one", "two", "one", "one", "two"]
    assert (config.adapter, config.model) == (None, None)


async def test_what_runs_keep_in_a_definition_is_in_none_of_its_copies() -> None:
    config = AgentConfig("a", provider="embedded", system_prompt="s")
    untouched, before = AgentConfig("a", provider="embedded", system_prompt="s"), pickle.dumps(config)
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]), default_model="m")
    assert (await oma.run_agent(config, "x")).success
    assert (await Agent(config).run("x")).success
    assert set(vars(config)) > set(vars(untouched))  # so there is something to leave out
    assert pickle.dumps(config) == before
    for each in (pickle.loads(before), copy.copy(config), copy.deepcopy(config), config.replace()):
        assert each == config == untouched
        assert repr(each) == repr(untouched)
        assert set(vars(each)) - {"grants"} == {item.name for item in fields(AgentConfig)}
        assert each.granted_tools == ()
        assert (await Agent(each).run("x")).success


async def test_a_definition_is_told_of_with_its_own_values_by_each_of_its_copies() -> None:
    adapter = ScriptedAdapter(lambda *_: "ok")
    first = AgentConfig("a", adapter=adapter, system_prompt="first", tools=[add])
    await Agent(first).run("x")
    await Agent(first.replace(system_prompt="second", tools=[])).run("x")
    await Agent(first).run("x")
    told = [(call.options.system_prompt, len(call.options.tools)) for call in adapter.calls]
    assert told == [("first", 1), ("second", 0), ("first", 1)]


async def test_an_adapter_that_changes_its_options_changes_no_tool() -> None:
    class Meddling:
        name = "meddling"

        def __init__(self) -> None:
            self.seen: list[bool] = []

        async def chat(self, _messages: Any, options: Any) -> LLMResponse:
            schema: MutableMapping[str, Any] = options.tools[0].input_schema
            self.seen.append("meddled" in schema["properties"]["a"])
            schema["properties"]["a"]["meddled"] = True
            return LLMResponse([TextBlock(text="ok")])

    adapter = Meddling()
    agent = Agent(AgentConfig("a", adapter=adapter, tools=[add]))
    await agent.run("x")
    await agent.run("y")
    assert adapter.seen == [False, False]
    assert "meddled" not in str(add.definition.input_schema)


async def test_who_changes_a_result_changes_no_history() -> None:
    agent = Agent(AgentConfig("a", adapter=ScriptedAdapter(["one", "two"])))
    result = await agent.prompt("first")
    result.messages[0].content[0] = TextBlock(text="changed")
    result.messages.append(LLMMessage.user("more"))
    await agent.prompt("second")
    texts = [getattr(message.content[0], "text", None) for message in agent.get_history()]
    assert texts == ["first", "one", "second", "two"]


async def test_a_reader_that_comes_late_sees_the_last_event_with_its_number() -> None:
    reached, go = anyio.Event(), anyio.Event()

    async def answer(_messages: object, _options: object) -> str:
        reached.set()
        await go.wait()
        return "ok"

    seen: list[tuple[str, int]] = []

    async def read(oma: OpenMultiAgent) -> None:
        await reached.wait()
        events = oma.events(run_id="run-1")
        go.set()
        async for event in events:
            seen.append((event.type, event.sequence))
            if event.type == "agent_complete":
                return

    async with OpenMultiAgent() as oma, anyio.create_task_group() as group:
        group.start_soon(read, oma)
        await oma.run_agent(AgentConfig("a", adapter=ScriptedAdapter(answer)), "x", run_id="run-1")
    assert seen == [("agent_complete", 2)]

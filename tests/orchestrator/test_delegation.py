"""Agents that have another one do a part of their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    AgentConfig,
    CancelToken,
    LLMMessage,
    LLMServerError,
    OpenMultiAgent,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.stores import InMemoryStore
from tests.support import proves
from tests.support.teams import Model, Seen, answer, prompt_of


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def delegate(target: str, prompt: str = "Help.", *, tokens: int = 0, use_id: str = "1") -> Any:
    call = ToolUseBlock.new(use_id, "delegate_to_agent", {"target_agent": target, "prompt": prompt})
    return answer("", blocks=[call], tokens=tokens)


def crew(*names: str, grants: str = "ab", **fields: Any) -> dict[str, Any]:
    agents = [{"name": name, "tools": ["delegate_to_agent"] if name in grants else []} for name in names or ("a", "b")]
    return {"name": "crew", "agents": agents, **fields}


def tool_texts(messages: Sequence[LLMMessage]) -> list[str]:
    return [str(block.content) for each in messages for block in each.content if isinstance(block, ToolResultBlock)]


@proves("DSP-70")
async def test_another_agent_does_a_part_of_the_work_and_its_usage_counts() -> None:
    model = Model({"A": (delegate("b", tokens=2), answer("both", tokens=3)), "Help.": answer("helped", tokens=5)})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew(), [task("A", assignee="a")])
    assert result.success
    assert result.final_output == "both"
    record = result.task_results["A"].tool_calls[0]
    assert (record.tool_name, record.output, record.is_error) == ("delegate_to_agent", "helped", False)
    assert result.task_results["A"].token_usage.input_tokens == result.total_token_usage.input_tokens == 10
    phases = [(entry.agent, entry.phase, entry.usage.input_tokens) for entry in result.usage_report]
    assert phases == [("a", "worker", 5), ("b", "delegated", 5)]
    assert set(result.agent_results) == {"a"}


@proves("DSP-71")
@pytest.mark.parametrize(
    ("target", "grants", "text"),
    [
        ("a", "a", "cannot delegate to yourself"),
        ("nobody", "a", "there is no agent 'nobody'"),
        ("b", "", "not granted"),
    ],
)
async def test_what_cannot_be_delegated_is_an_error_of_the_tool(target: str, grants: str, text: str) -> None:
    model = Model({"A": (delegate(target), "alone")})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew(grants=grants), [task("A", assignee="a")])
    assert result.final_output == "alone"
    assert text in tool_texts(model.sent[-1])[0]
    assert model.calls == ["A", "A"]


@proves("DSP-71")
async def test_an_agent_that_waits_for_the_answer_is_not_asked_again() -> None:
    model = Model({"A": (delegate("b"), "end"), "Help.": (delegate("a", "Back to you."), "no way")})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew(), [task("A", assignee="a")])
    assert result.final_output == "end"
    assert "a -> b -> a" in tool_texts(model.sent[2])[0]
    assert "Back to you." not in model.calls


@proves("DSP-71")
@pytest.mark.parametrize(("depth", "reached"), [(0, ""), (1, "1"), (2, "12"), (3, "123")])
async def test_work_is_delegated_only_so_often_in_a_row(depth: int, reached: str) -> None:
    names = ["a", "b", "c", "d", "e"]
    chain = {str(number): (delegate(names[number + 1], str(number + 1)), f"end {number}") for number in range(1, 4)}
    model = Model({"A": (delegate("b", "1"), "end"), **chain})
    oma = OpenMultiAgent(default_adapter=model, max_delegation_depth=depth)
    result = await oma.run_tasks(crew(*names, grants="abcde"), [task("A", assignee="a")])
    assert result.success
    assert "".join(dict.fromkeys(each for each in model.calls if each.isdigit())) == reached


@proves("DSP-72")
async def test_one_slot_is_enough_for_a_chain() -> None:
    model = Model({"A": (delegate("b"), "end"), "Help.": (delegate("c", "More."), "helped"), "More.": "more"})
    team = crew(agents=[{"name": name, "tools": ["delegate_to_agent"]} for name in "abc"])
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=1)
    with anyio.fail_after(10):
        result = await oma.run_tasks(team, [task("A", assignee="a"), task("B", assignee="b")])
    assert result.success
    assert "More." in model.calls
    assert [each.tool_calls[0].is_error for each in result.task_results.values() if each.tool_calls] == [False]
    assert model.peak == 1


@proves("DSP-72")
async def test_nobody_waits_for_a_further_slot() -> None:
    calls = [
        ToolUseBlock.new(prompt, "delegate_to_agent", {"target_agent": "b", "prompt": prompt})
        for prompt in ("Help.", "Help again.")
    ]

    async def helps(_messages: object, _options: object) -> Any:
        await anyio.wait_all_tasks_blocked()  # the other one has been answered by then
        return "helped"

    model = Model({"A": (answer("", blocks=calls), "alone"), "Help.": helps, "Help again.": helps})
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=1)
    with anyio.fail_after(10):
        result = await oma.run_tasks(crew(), [task("A", assignee="a")])
    assert result.success
    texts = tool_texts(model.sent[-1])
    assert sorted(text.startswith("all 1 agents") for text in texts) == [False, True]
    assert model.peak == 1


@proves("DSP-72")
async def test_agents_that_delegate_to_each_other_both_get_their_answer() -> None:
    both = [anyio.Event(), anyio.Event()]

    def first(number: int, target: str) -> Any:
        async def wait(_messages: object, _options: object) -> Any:
            both[number].set()
            await both[1 - number].wait()
            return delegate(target, f"Help {number}.")

        return wait

    model = Model({"A": (first(0, "b"), "end A"), "B": (first(1, "a"), "end B")})
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=4)
    with anyio.fail_after(10):
        result = await oma.run_tasks(crew(), [task("A", assignee="a"), task("B", assignee="b")])
    assert result.success
    assert {"Help 0.", "Help 1."} <= set(model.calls)
    assert [each.tool_calls[0].is_error for each in result.task_results.values()] == [False, False]


@proves("DSP-72")
async def test_a_slot_that_a_delegated_run_gives_back_is_used_at_once() -> None:
    released, reached = anyio.Event(), anyio.Event()

    async def helps(_messages: object, _options: object) -> Any:
        await released.wait()
        return "helped"

    async def ends(messages: Sequence[LLMMessage], _options: object) -> Any:
        if len(messages) == 1:
            return delegate("b")
        await reached.wait()  # another task could only start if the slot was given back before this one ended
        return "end"

    def starts(_messages: object, _options: object) -> Any:
        reached.set()
        return "started"

    model = Model({"A": ends, "Help.": helps, "B": starts})
    tasks = [task("A", assignee="a", priority="critical"), task("G", assignee="b"), task("B", "G", assignee="b")]

    def on_progress(event: Any) -> None:
        if event.type == "task_complete" and event.task == "G":
            released.set()

    oma = OpenMultiAgent(default_adapter=model, max_concurrency=3, on_progress=on_progress)
    with anyio.fail_after(10):
        assert (await oma.run_tasks(crew(), tasks)).success


@proves("DSP-73")
async def test_a_failed_delegation_tells_what_it_came_to() -> None:
    model = Model({"A": (delegate("b"), "alone"), "Help.": ValueError("out of order")})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew(), [task("A", assignee="a")])
    assert result.success
    record = result.task_results["A"].tool_calls[0]
    assert record.is_error
    assert "out of order" in str(record.output)


@proves("DSP-73")
async def test_an_empty_prompt_is_refused() -> None:
    model = Model({"A": (delegate("b", " "), "alone")})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew(), [task("A", assignee="a")])
    assert result.final_output == "alone"
    assert "prompt is empty" in tool_texts(model.sent[-1])[0]


@proves("DSP-74")
async def test_a_delegated_agent_keeps_its_own_budget_and_the_task_keeps_its() -> None:
    loop = (delegate("b", tokens=1), delegate("b", tokens=1, use_id="2"), answer("end", tokens=1))

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    uses = answer("", blocks=[ToolUseBlock.new("x", "look", {})], tokens=20)
    agents = [AgentConfig("a", tools=["delegate_to_agent"]), AgentConfig("b", tools=[look], max_token_budget=30)]
    model = Model({"A": loop, "Help.": uses})
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks({"name": "crew", "agents": agents}, [task("A", assignee="a")])
    assert result.success
    assert model.calls.count("Help.") == 4  # twice, each time until its own limit
    assert [call.is_error for call in result.task_results["A"].tool_calls] == [True, True]
    assert [(event.agent, event.data.budget) for event in seen.of("budget_exceeded")] == [("b", 30), ("b", 30)]
    small = await OpenMultiAgent(default_adapter=Model({"A": loop, "Help.": uses})).run_tasks(
        {"name": "crew", "agents": agents}, [task("A", assignee="a", max_token_budget=10), task("B", "A")]
    )
    assert [record.status for record in small.tasks] == ["failed", "failed"]
    assert str(small.task_results["A"].status) == "budget_exhausted"


@proves("DSP-75")
async def test_a_delegation_is_written_down_where_the_team_has_a_memory() -> None:
    store = InMemoryStore()
    model = Model({"A": (delegate("b"), delegate("b", use_id="2"), "end"), "Help.": ("helped", ValueError("no"))})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(
        crew(shared_memory_store=store), [task("A", assignee="a")]
    )
    assert result.success
    entries = [entry for entry in await store.list() if entry.key.startswith("a/delegation:b:")]
    assert len(entries) == 2
    assert [(entry.value, (entry.metadata or {})["success"]) for entry in entries] == [("helped", True), ("no", False)]


@proves("DSP-75")
async def test_delegations_at_the_same_time_leave_an_entry_each() -> None:
    store = InMemoryStore()
    calls = [
        ToolUseBlock.new(target, "delegate_to_agent", {"target_agent": target, "prompt": f"Help, {target}."})
        for target in ("b", "c")
    ]
    model = Model({"A": (answer("", blocks=calls), "end")})
    team = crew("a", "b", "c", shared_memory_store=store)
    assert (await OpenMultiAgent(default_adapter=model).run_tasks(team, [task("A", assignee="a")])).success
    entries = {entry.key.rpartition(":")[0]: entry.value for entry in await store.list() if "delegation" in entry.key}
    assert entries == {"a/delegation:b": "Help, b. is done", "a/delegation:c": "Help, c. is done"}


class BrokenStore(InMemoryStore):
    """Refuses what is written down of delegations."""

    async def set(self, key: str, value: str, metadata: Any = None) -> None:
        if "delegation" in key:
            raise OSError("disk full")
        await super().set(key, value, metadata)


@proves("DSP-75")
async def test_an_entry_that_cannot_be_written_costs_no_answer() -> None:
    model = Model({"A": (delegate("b"), "end")})
    result = await OpenMultiAgent(default_adapter=model).run_tasks(
        crew(shared_memory_store=BrokenStore()), [task("A", assignee="a")]
    )
    assert result.success
    assert not result.task_results["A"].tool_calls[0].is_error


@proves("DSP-76")
async def test_delegated_runs_emit_no_progress_and_their_stream_says_who_speaks() -> None:
    model = Model({"A": (delegate("b"), "end"), "Help.": "helped"})
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    async with oma.stream_tasks(crew(), [task("A", assignee="a")]) as stream:
        events = [event async for event in stream]
    assert seen.kinds() == ["task_start", "agent_start", "task_complete", "agent_complete"]
    texts = [(event.agent, event.task, event.data) for event in events if event.type == "text"]
    assert texts == [("b", "A", "helped"), ("a", "A", "end")]


@proves("DSP-77")
async def test_a_cancellation_reaches_delegated_agents() -> None:
    token, reached = CancelToken(), anyio.Event()

    async def hangs(_messages: object, _options: object) -> Any:
        reached.set()
        await anyio.sleep_forever()

    model = Model({"A": (delegate("b"), "end"), "Help.": hangs})
    results: list[Any] = []

    async def keep() -> None:
        oma = OpenMultiAgent(default_adapter=model)
        results.append(await oma.run_tasks(crew(), [task("A", assignee="a"), task("B", "A")], cancel=token))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(keep)
            await reached.wait()
            token.cancel()
    assert str(results[0].status) == "cancelled"
    assert [record.status for record in results[0].tasks] == ["failed", "failed"]


@proves("DSP-78")
async def test_a_delegated_agent_has_its_own_model_prompt_and_credentials() -> None:
    theirs = Model({"Help.": "helped"}, name="theirs")
    agents = [
        AgentConfig("a", tools=["delegate_to_agent"], system_prompt="You are a."),
        AgentConfig("b", adapter=theirs, model="their-model", system_prompt="You are b."),
    ]
    mine = Model({"A": (delegate("b"), "end")})
    result = await OpenMultiAgent(default_adapter=mine).run_tasks({"name": "crew", "agents": agents}, [task("A")])
    assert result.success
    assert theirs.options[0].model == "their-model"
    assert theirs.options[0].system_prompt == "You are b."
    assert [prompt_of(sent) for sent in theirs.sent] == ["Help."]
    assert len(theirs.sent[0]) == 1


@proves("DSP-78")
async def test_a_tool_may_run_another_agent_which_sees_nothing_of_the_conversation_that_it_is_called_in() -> None:
    model = Model({"A": (answer("Thinking.", blocks=[ToolUseBlock.new("1", "consult", {})]), "end"), "Say.": "said"})
    oma = OpenMultiAgent(default_adapter=model)

    @tool
    async def consult() -> str:
        """Ask somebody else."""
        return (await oma.run_agent({"name": "other"}, "Say.")).output

    team = {"name": "crew", "agents": [{"name": "a", "tools": [consult]}]}
    result = await oma.run_tasks(team, [task("A")])
    assert (result.final_output, result.task_results["A"].tool_calls[0].output) == ("end", "said")
    assert model.calls == ["A", "Say.", "A"]
    assert model.sent[1] == [LLMMessage.user("Say.")]


@proves("DSP-78")
async def test_agents_that_share_an_adapter_keep_their_own_settings() -> None:
    model = Model({"A": (delegate("b"), "end"), "Help.": "helped"})
    agents = [
        {"name": "a", "tools": ["delegate_to_agent"], "settings": {"stop": ["A"], "temperature": 0}},
        {"name": "b", "settings": {"seed": 7}},
    ]
    team = {"name": "crew", "agents": agents}
    await OpenMultiAgent(default_adapter=model).run_tasks(team, [task("A", assignee="a"), task("B", assignee="b")])
    sent = [
        (title, each.stop, each.temperature, each.seed) for title, each in zip(model.calls, model.options, strict=True)
    ]
    own, others = (("A",), 0, None), (None, None, 7)
    assert sorted(sent) == [("A", *own), ("A", *own), ("B", *others), ("Help.", *others)]
    assert agents[0]["settings"] == {"stop": ["A"], "temperature": 0}


@proves("DSP-78")
async def test_rules_may_give_delegated_work_another_model() -> None:
    model = Model({"A": (delegate("b"), "end"), "Help.": (LLMServerError("busy", status=503, provider="p"), "helped")})
    route = {"model": "cheap", "fallback": [{"model": "spare"}]}
    routing = {"rules": [{"match": {"phase": "delegated"}, "route": route}]}
    await OpenMultiAgent(default_adapter=model, default_model="dear").run_tasks(
        crew(), [task("A", assignee="a")], model_routing=routing
    )
    assert [options.model for options in model.options] == ["dear", "cheap", "spare", "dear"]

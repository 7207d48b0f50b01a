"""Closing an orchestrator while runs are going on: they end first, with all that they use."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from openmultiagent import AgentConfig, OpenMultiAgent, TeamConfig, ToolUseBlock, tool
from openmultiagent.adapters import LLMChatOptions
from openmultiagent.evaluation import InMemoryEvalStore, OnlineEvaluation
from openmultiagent.messages import LLMMessage
from openmultiagent.orchestrator import _lifetime
from openmultiagent.testing import FakeProviderServer, ScriptedAdapter, Served
from tests.support import proves

WAIT = 8.0
"""Less than an orchestrator waits for runs: what would have to be waited for that long fails."""


class Gated:
    """A script whose answer waits until the test lets it go."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.asked = anyio.Event()

    async def __call__(self, messages: list[LLMMessage], options: LLMChatOptions) -> str:
        self.asked.set()
        await self.go.wait()
        return "ok"


@pytest.mark.parametrize("kind", ["agent", "stream", "tasks"])
@proves("ORC-77")
async def test_runs_end_before_what_they_use_is_closed(kind: str) -> None:
    script, store = Gated(), InMemoryEvalStore()
    outcomes: list[Any] = []
    heard: list[str] = []
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(script),
        evaluation=OnlineEvaluation([lambda context: 1.0], store=store),
        on_progress=lambda event: heard.append(event.type),
    )
    agent = AgentConfig("x")

    async def run() -> None:
        if kind == "agent":
            outcomes.append(await oma.run_agent(agent, "q"))
        elif kind == "tasks":
            outcomes.append(await oma.run_tasks(TeamConfig("t", agents=[agent]), [{"title": "a", "description": "b"}]))
        else:
            async with oma.stream_agent(agent, "q") as stream:
                async for _ in stream:
                    pass
            outcomes.append(stream.result)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group, oma:
            group.start_soon(run)
            await script.asked.wait()
            group.start_soon(_let_go, script)
        assert len(store.records) == 1
        assert heard[-1] == "agent_complete"
    assert [result.success for result in outcomes] == [True]


async def _let_go(script: Gated) -> None:
    await anyio.wait_all_tasks_blocked()
    script.go.set()


@proves("ORC-77")
async def test_a_plain_call_and_a_stream_keep_their_connection() -> None:
    results: list[Any] = []
    async with FakeProviderServer(lambda _: Served("Hello", pause_after=1)) as server:
        agent = AgentConfig("x", provider="openai", model="m", base_url=server.openai_url, api_key="key-of-the-test")

        async def run(oma: OpenMultiAgent) -> None:
            results.append(await oma.run_agent(agent, "q"))

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group, OpenMultiAgent() as oma:
                group.start_soon(run, oma)
                await server.wait_until_pausing()
                group.start_soon(_release, server)
    assert [result.output for result in results] == ["Hello"]
    assert len(server.requests) == 1


async def _release(server: FakeProviderServer) -> None:
    await checkpoint()
    server.release()


@proves("ORC-77")
async def test_runs_on_another_event_loop_are_waited_for() -> None:
    asked, go = threading.Event(), threading.Event()
    results: list[Any] = []

    async def answer(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        asked.set()
        await anyio.to_thread.run_sync(go.wait)
        return "ok"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(answer))

    async def run() -> None:
        results.append(await anyio.to_thread.run_sync(oma.run_agent_sync, {"name": "x"}, "q"))

    async def let_go() -> None:
        await anyio.wait_all_tasks_blocked()
        go.set()

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.to_thread.run_sync(asked.wait)
            group.start_soon(let_go)
            await oma.aclose()
    assert [result.output for result in results] == ["ok"]


@proves("ORC-77")
async def test_what_goes_on_for_too_long_is_logged_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lifetime, "_RUNS_TIMEOUT", 0.05)
    results: list[Any] = []
    async with FakeProviderServer(lambda _: Served("Hello", pause_after=1)) as server:
        agent = AgentConfig("x", provider="openai", model="m", base_url=server.openai_url, api_key="key-of-the-test")

        async def run(oma: OpenMultiAgent) -> None:
            results.append(await oma.run_agent(agent, "q"))

        with capture_logs() as lines, anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group, OpenMultiAgent() as oma:
                group.start_soon(run, oma)
                await server.wait_until_pausing()
    (line,) = [line for line in lines if line["event"] == "runs_still_going"]
    assert (line["runs"], line["log_level"]) == (1, "warning")
    assert "the adapter was closed while this request was going on" in results[0].error_info.message
    assert results[0].error_info.retryable is False
    assert len(server.requests) == 1


@pytest.mark.parametrize("nested", [False, True])
@proves("ORC-77")
async def test_a_run_that_closes_does_not_wait_for_itself(nested: bool) -> None:
    def call(name: str) -> list[ToolUseBlock]:
        return [ToolUseBlock.new("c", name, {})]

    @tool
    async def shut() -> str:
        """Close the orchestrator."""
        await oma.aclose()
        return "closed"

    @tool
    async def ask() -> str:
        """Have another agent close it."""
        return (await oma.run_agent(AgentConfig("inner", adapter=inner, tools=[shut]), "q")).output

    inner = ScriptedAdapter([call("shut"), "shut"])
    outer = ScriptedAdapter([call("ask"), "asked"])
    oma = OpenMultiAgent()
    with anyio.fail_after(WAIT):
        config = AgentConfig("outer", adapter=outer, tools=[ask]) if nested else AgentConfig("x", adapter=inner)
        result = await oma.run_agent(config if nested else config.replace(tools=[shut]), "q")
    assert result.output == ("asked" if nested else "shut")


@proves("ORC-77")
async def test_a_cancelled_caller_does_not_wait_for_runs() -> None:
    script = Gated()
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(script))
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(oma.run_agent, {"name": "x"}, "q")
            await script.asked.wait()
            with anyio.CancelScope() as scope, capture_logs() as lines:
                scope.cancel()
                await oma.aclose()
            script.go.set()
    assert [line["event"] for line in lines] == ["runs_still_going"]


@proves("ORC-77")
async def test_closing_waits_for_no_run_that_began_after_it() -> None:
    early, late = Gated(), Gated()
    oma = OpenMultiAgent()

    async def run(script: Gated) -> None:
        await oma.run_agent(AgentConfig("x", adapter=ScriptedAdapter(script)), "q")

    with anyio.fail_after(WAIT), capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(run, early)
            await early.asked.wait()
            group.start_soon(_close_between, oma, group, run, late, early)
            await late.asked.wait()
            await anyio.wait_all_tasks_blocked()  # the early run has ended, and closing with it
            late.go.set()
    assert [line["event"] for line in lines if line["event"] == "runs_still_going"] == []


async def _close_between(oma: OpenMultiAgent, group: Any, run: Any, late: Gated, early: Gated) -> None:
    async def begin_and_let_go() -> None:
        await anyio.wait_all_tasks_blocked()  # closing has begun to wait
        group.start_soon(run, late)
        await late.asked.wait()
        early.go.set()

    group.start_soon(begin_and_let_go)
    await oma.aclose()
    assert not late.go.is_set()


@proves("ORC-77")
async def test_a_scorer_that_never_returns_holds_up_closing_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lifetime, "_DRAIN_TIMEOUT", 0.02)

    async def never(context: Any) -> float:
        await anyio.sleep_forever()
        return 1.0

    with anyio.fail_after(WAIT):
        async with OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), evaluation=OnlineEvaluation([never])) as oma:
            assert (await oma.run_agent({"name": "x"}, "q")).success
    stats = oma.evaluation.stats()
    assert (stats.enqueued, stats.completed) == (1, 0)

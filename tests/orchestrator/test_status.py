"""`get_status`: how many teams there are, how many agents are at work, and what was completed."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

from openmultiagent import AgentConfig, OpenMultiAgent, ToolUseBlock
from openmultiagent.orchestrator import OrchestratorStatus
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves
from tests.support.teams import Model, answer

CREW = {"name": "crew", "agents": [{"name": "a", "tools": ["delegate_to_agent"]}, {"name": "b"}]}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def status(teams: int = 0, active: int = 0, completed: int = 0) -> OrchestratorStatus:
    return OrchestratorStatus(teams=teams, active_agents=active, completed_tasks=completed)


async def finish(run: Awaitable[Any]) -> None:
    await run


@proves("ORC-80")
async def test_the_status_counts_teams_and_what_was_completed() -> None:
    plan = json.dumps({"tasks": [{"title": "T", "description": "Do it."}, {"title": "U", "description": "And this."}]})
    script = ScriptedAdapter([RuntimeError("down"), "hi", "hello", "a", RuntimeError("down"), plan, "t", "u", "all"])
    oma = OpenMultiAgent(default_adapter=script)
    fresh = oma.get_status()
    assert fresh == status()
    team = oma.create_team("news", CREW)
    agent = AgentConfig("x")
    for completed in (0, 1):  # the first fails
        await oma.run_agent(agent, "q")
        assert oma.get_status() == status(1, 0, completed)
    await oma.run_team(team, "Say hello.")  # one agent, which is one task
    assert oma.get_status() == status(1, 0, 2)
    await oma.run_tasks(team, [task("A"), task("B", "A"), task("C", "B")])
    assert oma.get_status() == status(1, 0, 3)
    await oma.run_team(team, "q", mode="team")  # neither the plan nor the answer is a task
    assert oma.get_status() == status(1, 0, 5)
    assert fresh == status()
    with pytest.raises(AttributeError):
        fresh.teams = 2  # type: ignore[misc]


@proves("ORC-80")
async def test_the_status_counts_the_agents_that_are_at_work() -> None:
    seen: list[int] = []
    ready, go = anyio.Event(), anyio.Event()

    async def works(_messages: object, _options: object) -> Any:
        seen.append(oma.get_status().active_agents)
        if len(seen) == 4:
            ready.set()
        await go.wait()
        return answer("helped")

    delegates = answer("", blocks=[ToolUseBlock.new("d", "delegate_to_agent", {"target_agent": "b", "prompt": "H"})])
    oma = OpenMultiAgent(default_adapter=Model({"A": (delegates, "done"), "H": works, "B": works, "q": works}))
    tasks = [task("A", assignee="a"), task("B", assignee="b")]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for run in (
                oma.run_tasks(CREW, tasks),
                oma.run_agent({"name": "x"}, "q"),
                oma.run_agent({"name": "x"}, "q"),
            ):
                group.start_soon(finish, run)
            await ready.wait()
            assert oma.get_status() == status(0, 5, 0)  # a, which waits for b, b twice, and x twice
            go.set()
    assert oma.get_status() == status(0, 0, 4)
    assert max(seen) <= 5


@proves("ORC-80")
async def test_a_run_that_is_cancelled_is_at_work_no_more() -> None:
    async def leaves(_messages: object, _options: object) -> Any:
        scope.cancel()
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model({"A": leaves, "q": leaves}))
    for run in (oma.run_agent({"name": "x"}, "q"), oma.run_tasks(CREW, [task("A")])):
        with anyio.CancelScope() as scope:
            await run
        assert scope.cancelled_caught
        assert oma.get_status() == status()
    async with oma.stream_agent({"name": "x"}, "q") as stream:
        with anyio.CancelScope() as scope:
            async for _event in stream:
                pass
    assert oma.get_status() == status()

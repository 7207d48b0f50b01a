"""A team with a goal: a coordinator makes a plan, agents work it off, and the coordinator answers.

As it is, it needs no key and no network: a script plays the coordinator, and the agents use the provider ``embedded``,
a small text engine that cannot plan. With a server that speaks the OpenAI chat protocol, one model does all of it:

    OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=llama3.2 python examples/team_goal.py
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from openmultiagent import AgentConfig, CoordinatorConfig, OpenMultiAgent, TeamConfig
from openmultiagent.testing import ScriptedAdapter

NOTES = (
    "The ferry to Hven leaves at 9:15 and 14:00. The crossing takes 40 minutes. Bicycles are free on weekdays. "
    "The museum opens at 11:00 and is closed on Mondays. Its observatory was built by Tycho Brahe in 1581."
)
GOAL = f"Find out how to get to Hven, then what the museum offers, and write two sentences for a flyer.\n\n{NOTES}"

# What a coordinator answers: first a plan, then the text for the flyer.
PLAN = [
    {"title": "Ferry", "description": f"When does the ferry leave?\n\n{NOTES}", "assignee": "clerk"},
    {"title": "Museum", "description": f"When does the museum open?\n\n{NOTES}", "assignee": "guide"},
    {
        "title": "Draft",
        "description": "Summarise this in three sentences.",
        "assignee": "clerk",
        "depends_on": ["Ferry", "Museum"],
    },
]
ANSWER = (
    "Take the ferry at 9:15 or 14:00, bicycle included on weekdays. From 11:00 the museum shows Brahe's observatory."
)


def make_agents() -> tuple[TeamConfig, CoordinatorConfig]:
    """Return the team and its coordinator: with a real model if there is one."""
    if os.environ.get("OPENAI_BASE_URL"):
        model: dict[str, Any] = {"provider": "openai", "model": os.environ.get("OPENAI_MODEL", "gpt-5-mini")}
        coordinator = CoordinatorConfig(**model)
    else:
        model = {"provider": "embedded"}
        coordinator = CoordinatorConfig(adapter=ScriptedAdapter([json.dumps({"tasks": PLAN}), ANSWER]))
    agents = [
        AgentConfig("clerk", description="Knows timetables and prices.", **model),
        AgentConfig("guide", description="Knows sights and their history.", **model),
    ]
    return TeamConfig("tourist office", agents=agents), coordinator


async def main() -> None:
    """Run the team, and show who writes what while it is written."""
    team, coordinator = make_agents()
    titles: dict[str | None, str] = {}
    async with (
        OpenMultiAgent(max_token_budget=200_000) as oma,
        oma.stream_team(team, GOAL, coordinator=coordinator, mode="team") as stream,
    ):
        async for event in stream:
            if event.type == "task_start":
                titles[event.task] = event.data.title
            elif event.type == "text" and event.task is not None:
                # Agents work at the same time: agent and task tell their texts apart. Without a task it is the
                # coordinator, who writes the plan and the answer.
                print(f"[{event.agent}, {titles[event.task]}] {event.data.strip()}")

    result = stream.result
    if not result.success:
        raise SystemExit(f"failed: {result.status.message}")
    print("\nThe plan:")
    for task in result.tasks:
        print(f"  {task.title} ({task.assignee}): {task.status}")
    print(f"\n{result.final_output}\n")
    for phase, usage in result.usage_by_phase().items():
        # A script reports no usage, which is not the same as none.
        print(f"{phase}: {usage.total_tokens} tokens{' or more' if usage.unknown_calls else ''}")


asyncio.run(main())

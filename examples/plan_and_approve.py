"""Have a plan made, look at it, change it, and only then have it done.

It needs no key and no network: a script plays the coordinator, and the agents use the provider ``embedded``, a small
text engine that ships with the library.

    python examples/plan_and_approve.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from openmultiagent import AgentConfig, CoordinatorConfig, OpenMultiAgent, PlanArtifact, Task, TeamConfig
from openmultiagent.testing import ScriptedAdapter

NOTES = (
    "Release 2.1 reads the files of release 1, so that nothing has to be converted. It needs Python 3.11. "
    "The old command is gone. Exports are twice as fast, and need half of the memory."
)
GOAL = f"Collect what is new, check it, and publish an announcement.\n\n{NOTES}"
TEAM = TeamConfig(
    "release",
    agents=[AgentConfig("editor", provider="embedded"), AgentConfig("publisher", provider="embedded")],
)


def coordinator() -> CoordinatorConfig:
    """Return a coordinator whose model is a script: it always has the same plan."""
    plan = [
        {"title": "Collect", "description": f"Summarise this in two sentences.\n\n{NOTES}", "assignee": "editor"},
        {
            "title": "Publish",
            "description": "Summarise this in one sentence.",
            "assignee": "publisher",
            "depends_on": ["Collect"],
        },
    ]
    return CoordinatorConfig(adapter=ScriptedAdapter([json.dumps({"tasks": plan})]))


def show(plan: PlanArtifact) -> None:
    """Print a plan as somebody would read it who has to approve it."""
    titles = {task.id: task.title for task in plan.tasks}
    for task in plan.tasks:
        after = ", ".join(titles[each] for each in task.depends_on)
        print(f"  {task.title} -> {task.assignee}{f', after {after}' if after else ''}")


def refuse_publishing(tasks: Sequence[Task]) -> dict[str, Any]:
    """Approve plans without the publisher; the answer may also be True or False, and the function async."""
    if any(task.assignee == "publisher" for task in tasks):
        return {"action": "deny", "reason": "nothing is published on a Friday"}
    return {"action": "allow"}


async def make_plan() -> str:
    """Have a plan made; what is returned can be stored, and done in another process."""
    async with OpenMultiAgent() as oma:
        # No agent of the team is run: the usage is the coordinator's alone.
        planned = await oma.run_team(TEAM, GOAL, plan_only=True, coordinator=coordinator())
    if planned.plan is None:
        raise SystemExit(f"there is no plan: {planned.status.message}")
    return planned.plan.to_json()


async def do_plan(text: str) -> None:
    """Look at a plan, change it, and have it done."""
    plan = PlanArtifact.from_json(text)
    print("The plan:")
    show(plan)
    collect, publish = plan.tasks
    plan = plan.replace(tasks=[collect, publish.replace(title="Draft", assignee="editor")])
    print("The plan, edited:" if plan.is_edited else "The plan, as it was made:")
    show(plan)
    async with OpenMultiAgent() as oma:
        result = await oma.run_from_plan(TEAM, plan)  # no coordinator is asked
    print(f"{result.status}: {result.final_output}\n")


async def at_once() -> None:
    """Ask for approval within the run."""
    async with OpenMultiAgent(on_plan_ready=refuse_publishing) as oma:
        result = await oma.run_team(TEAM, GOAL, coordinator=coordinator())
    print(f"{result.status}: {result.status.message}")
    print("  " + ", ".join(f"{task.title} {task.status}" for task in result.tasks))


async def main() -> None:
    """Approve a plan in both ways."""
    await do_plan(await make_plan())
    await at_once()


asyncio.run(main())

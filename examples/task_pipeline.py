"""A graph of tasks: three readers at the same time, and a writer who gets what they found.

It needs no key and no network: the provider ``embedded`` is a small text engine that ships with the library. For a
language model, write ``provider="openai", model="gpt-5-mini"`` and set OPENAI_API_KEY.

    python examples/task_pipeline.py              # on the report below
    python examples/task_pipeline.py README.md    # on a file of yours
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from openmultiagent import AgentConfig, Event, OpenMultiAgent, TaskSpec, TeamConfig

REPORT = """
The pump of the lower basin failed on Monday at 23:40. The cause was a worn bearing that the last inspection had noted.
The alarm reached nobody, because the pager had been muted for a drill. Water rose by 40 centimetres until the morning
shift came. On Tuesday the pump was replaced by the one from the upper basin, and the pager was checked. The repair cost
4,200 euros. From now on a drill ends with a test page, and noted bearings are replaced within a week.
"""

TEAM = TeamConfig(
    "incident",
    agents=[
        AgentConfig("reader", provider="embedded", description="Reads reports and answers questions about them."),
        AgentConfig("writer", provider="embedded", description="Writes short texts."),
    ],
)


def make_tasks(report: str) -> list[TaskSpec]:
    """Return the graph: what does not depend on each other is done at the same time."""
    questions = {
        "cause": "What was the cause?",
        "alarm": "Why did the alarm reach nobody?",
        "cost": "What did the repair cost?",
    }
    readings = [
        TaskSpec(question, f"{question}\n\n{report}", id=name, assignee="reader", max_retries=2, timeout=60)
        for name, question in questions.items()
    ]
    # The results that a task depends on are a part of its prompt.
    instruction = "Summarise this in three sentences."
    return [*readings, TaskSpec("Summary", instruction, id="summary", assignee="writer", depends_on=list(questions))]


def show(event: Event[Any]) -> None:
    """Print what happens; ``event.task`` is the id of the task."""
    if event.type in ("task_start", "task_complete", "task_failed"):
        print(f"  {event.type:<14} {event.agent:<7} {event.task}")


async def main(report: str) -> None:
    """Run the graph and print what each task came to."""
    # All agents of a run share its budget.
    async with OpenMultiAgent(on_progress=show, max_token_budget=1_000_000, max_concurrency=3) as oma:
        # An unknown dependency, a circle, or a task that nobody can do raises here, before anything is run.
        result = await oma.run_tasks(TEAM, make_tasks(report))

    for task in result.tasks:
        print(f"\n{task.title} ({task.assignee}, {task.status})\n  {task.result}")
    # Without a goal, the answer is what the tasks came to that no other waits for.
    print(f"\n{result.status}: {result.final_output}")
    for agent, usage in result.usage_by_agent().items():
        print(f"{agent}: {usage.input_tokens} tokens in, {usage.output_tokens} out")


asyncio.run(main(Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 else REPORT))

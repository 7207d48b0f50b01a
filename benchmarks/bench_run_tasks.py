"""What running a graph of tasks costs beyond its agents, and how that grows with the graph.

Run it with ``python benchmarks/bench_run_tasks.py``. A thousand independent tasks on 16 agents with a model that
answers at once should take at most 0.4 seconds, which is at most twice what the same thousand agents take one by one;
ten thousand at most 12 times as long; a chain of two thousand at most 2.2 times a chain of one thousand; ten times as
many layers at most 11 times as long. A task should keep at most 6 KB beyond its result.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers import InstantAdapter
from openmultiagent import AgentConfig, OpenMultiAgent, Team, TeamConfig
from openmultiagent.outcome import copy_result

AGENTS = 16
ROUNDS = 3

Graph = Sequence[Mapping[str, Any]]


def independent(count: int) -> Graph:
    """Return tasks that wait for nothing.

    Args:
        count: How many.
    """
    return [{"id": f"t{n}", "title": f"Task {n}", "description": "Look into it."} for n in range(count)]


def chain(count: int) -> Graph:
    """Return tasks of which each waits for the one before.

    Args:
        count: How many.
    """
    return layers(count, 1)


def layers(count: int, width: int) -> Graph:
    """Return layers of tasks that each wait for two of the layer before.

    Args:
        count: How many layers.
        width: How many tasks each of them has.
    """
    return [
        {
            "id": f"t{layer}.{n}",
            "title": f"Task {layer}.{n}",
            "description": "Look into it.",
            "depends_on": sorted({f"t{layer - 1}.{each % width}" for each in (n, n + 1)}) if layer else (),
        }
        for layer in range(count)
        for n in range(width)
    ]


async def seconds(oma: OpenMultiAgent, team: Team, graph: Graph, rounds: int = ROUNDS) -> float:
    """Return the best time of the processor for a run, its preparation included.

    Args:
        oma: The orchestrator.
        team: Who does it.
        graph: What is done.
        rounds: How often.
    """
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        result = await oma.run_tasks(team, graph)
        best = min(best, time.process_time() - start)
        assert result.success
    return best


async def agents_alone(oma: OpenMultiAgent, count: int) -> float:
    """Return what so many runs of a single agent take.

    Args:
        oma: The orchestrator.
        count: How many.
    """
    config = AgentConfig("alone")
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        for _run in range(count):
            await oma.run_agent(config, "# Task: Task 1\n\nLook into it.")
        best = min(best, time.process_time() - start)
    return best


async def kept_bytes(oma: OpenMultiAgent, team: Team, count: int) -> float:
    """Return the bytes that a run has at most for each task beyond its result.

    Args:
        oma: The orchestrator.
        team: Who does it.
        count: How many tasks.
    """
    graph = independent(count)
    await oma.run_tasks(team, graph)
    gc.collect()
    tracemalloc.start()
    result = await oma.run_tasks(team, graph)
    gc.collect()
    _, peak = tracemalloc.get_traced_memory()
    before, _ = tracemalloc.get_traced_memory()
    copies = [copy_result(each) for each in result.task_results.values()]
    gc.collect()
    results = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(copies) == count
    return (peak - results) / count


async def main() -> None:
    """Measure and print."""
    oma = OpenMultiAgent(default_adapter=InstantAdapter())
    team = oma.create_team("bench", TeamConfig("bench", agents=[AgentConfig(f"agent-{n:02}") for n in range(AGENTS)]))
    alone = await agents_alone(oma, 1000)
    thousand = await seconds(oma, team, independent(1000))
    times = {
        "1,000 agents alone": alone,
        "1,000 independent tasks": thousand,
        "10,000 independent tasks": await seconds(oma, team, independent(10_000), 1),
        "a chain of 1,000": await seconds(oma, team, chain(1000)),
        "a chain of 2,000": await seconds(oma, team, chain(2000)),
        "50 layers of 20": await seconds(oma, team, layers(50, 20)),
        "500 layers of 20": await seconds(oma, team, layers(500, 20), 1),
    }
    for name, time_ in times.items():
        print(f"  {name:40s}{time_:9.3f} s")
    for text, most, less, limit in (
        ("tasks / agents alone", "1,000 independent tasks", "1,000 agents alone", 2.0),
        ("10,000 / 1,000", "10,000 independent tasks", "1,000 independent tasks", 12),
        ("chain of 2,000 / 1,000", "a chain of 2,000", "a chain of 1,000", 2.2),
        ("500 layers / 50", "500 layers of 20", "50 layers of 20", 11),
    ):
        print(f"  {text:40s}{times[most] / times[less]:9.2f}    (at most {limit})")
    print(f"  {'KB kept by a task beyond its result':40s}{await kept_bytes(oma, team, 2000) / 1024:9.1f}    (at most 6)")


if __name__ == "__main__":
    asyncio.run(main())

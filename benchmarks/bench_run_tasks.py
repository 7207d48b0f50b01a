"""What running a graph of tasks costs beyond its agents, and how that grows with the graph.

Run it with ``python benchmarks/bench_run_tasks.py``. A thousand independent tasks on 16 agents with a model that
answers at once should take at most 0.4 seconds, ten thousand at most 12 times as long; a chain of two thousand at most
2.2 times a chain of one thousand; ten times as many layers at most 12 times as long. A task should keep at most 6 KB
beyond its result. The same agents one by one, without tasks, are there to compare with.

By instructions every further task costs the same, at one thousand and at ten thousand (cachegrind). The time of each
grows a little, since ten thousand results no longer fit into the processor's caches and the garbage collector has more
to look at.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from benchmarks.peers import InstantAdapter
from openmultiagent import AgentConfig, OpenMultiAgent, Team, TeamConfig
from openmultiagent.outcome import copy_result

AGENTS = 16
ROUNDS = 5

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


async def best(operations: Mapping[str, Callable[[], Awaitable[object]]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the shortest time of the processor for each operation, in seconds; they are measured in turns.

    Args:
        operations: What is measured, by name.
        rounds: How often.
    """
    found = dict.fromkeys(operations, float("inf"))
    gc.collect()
    gc.freeze()  # as in `timing`: how often it looks at what the libraries loaded would depend on the size of a run
    for _ in range(rounds):
        for name, operation in operations.items():
            gc.collect()
            start = time.process_time()
            await operation()
            found[name] = min(found[name], time.process_time() - start)
    gc.unfreeze()
    return found


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
    alone = AgentConfig("alone")

    async def agents_alone() -> None:
        for _ in range(1000):
            await oma.run_agent(alone, "# Task: Task 1\n\nLook into it.")

    def run(graph: Graph) -> Callable[[], Awaitable[object]]:
        return lambda: oma.run_tasks(team, graph)

    await run(independent(100))()  # the first run fills caches
    times = await best(
        {
            "1,000 agents alone": agents_alone,
            "1,000 independent tasks": run(independent(1000)),
            "a chain of 1,000": run(chain(1000)),
            "a chain of 2,000": run(chain(2000)),
            "50 layers of 20": run(layers(50, 20)),
        }
    )
    times |= await best(
        {"10,000 independent tasks": run(independent(10_000)), "500 layers of 20": run(layers(500, 20))}, 3
    )
    for name, time_ in times.items():
        print(f"  {name:40s}{time_:9.3f} s")
    for text, most, less, limit in (
        ("10,000 / 1,000", "10,000 independent tasks", "1,000 independent tasks", 12),
        ("chain of 2,000 / 1,000", "a chain of 2,000", "a chain of 1,000", 2.2),
        ("500 layers / 50", "500 layers of 20", "50 layers of 20", 12),
    ):
        print(f"  {text:40s}{times[most] / times[less]:9.2f}    (at most {limit})")
    print(
        f"  {'KB kept by a task beyond its result':40s}{await kept_bytes(oma, team, 2000) / 1024:9.1f}    (at most 6)"
    )


if __name__ == "__main__":
    asyncio.run(main())

"""What deciding who does which task costs, and how it grows from a thousand tasks to ten thousand.

Run it with ``python benchmarks/bench_scheduling.py``. With every strategy tasks are pushed as they become ready,
taken out and assigned one by one. The target is below 50 milliseconds for a thousand tasks with the default strategy,
and at most 12 times that for ten thousand, beyond what it takes to look at that many tasks at all (first line).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import get_args

from openmultiagent.agent import AgentConfig
from openmultiagent.tasks import ReadyOrder, Scheduler, SchedulingStrategy, Task, create_task, running_tasks

ROUNDS = 10
AGENTS = 16
SUBJECTS = ("parsers", "databases", "payments", "security", "contracts", "translation", "charts", "release notes")


def team() -> list[AgentConfig]:
    """Return agents that differ in what they are for."""
    return [
        AgentConfig(
            f"agent-{number:02}",
            model="m",
            system_prompt=f"You are an expert for {SUBJECTS[number % len(SUBJECTS)]}. Answer briefly, with sources.",
        )
        for number in range(AGENTS)
    ]


def independent(count: int) -> list[Task]:
    """Return tasks that wait for nothing."""
    return [
        create_task(
            {"title": f"Task {number}", "description": f"Look into the {SUBJECTS[number % 7]} of customer {number}."},
            id=str(number),
        )
        for number in range(count)
    ]


def layers(count: int) -> list[Task]:
    """Return tasks of which ten each wait for the ten before them."""
    return [
        task.replace(depends_on=tuple(str(other) for other in range(at // 10 * 10 - 10, at // 10 * 10) if other >= 0))
        for at, task in enumerate(independent(count))
    ]


def dispatch(strategy: SchedulingStrategy, tasks: Sequence[Task], agents: Sequence[AgentConfig]) -> float:
    """Return the seconds that the decisions for a whole graph take.

    Args:
        strategy: The strategy.
        tasks: The graph, each task behind those that it waits for.
        agents: The team.
    """
    loads = {agent.name: 0 for agent in agents}
    start = time.process_time()
    scheduler = Scheduler(strategy)
    order = scheduler.ready_order(tasks)
    done = 0
    for task in tasks:
        if len(task.depends_on) and done < int(task.id) // 10 * 10:
            done += _assign_all(scheduler, order, tasks, agents, loads)
        order.push(task)
    done += _assign_all(scheduler, order, tasks, agents, loads)
    spent = time.process_time() - start
    assert done == len(tasks) == sum(loads.values())
    return spent


def _assign_all(
    scheduler: Scheduler,
    order: ReadyOrder,
    tasks: Sequence[Task],
    agents: Sequence[AgentConfig],
    loads: dict[str, int],
) -> int:
    ready = len(order)
    while order:
        name = scheduler.schedule_task(tasks[int(order.pop())], agents, loads=loads)
        assert name is not None
        loads[name] += 1
    return ready


def up_front(strategy: SchedulingStrategy, tasks: Sequence[Task], agents: Sequence[AgentConfig]) -> float:
    """Return the seconds that one call for a whole graph takes, as ``dispatch`` does for many calls.

    Args:
        strategy: The strategy.
        tasks: The graph.
        agents: The team.
    """
    start = time.process_time()
    found = Scheduler(strategy).schedule(tasks, agents)
    assert len(found) == len(tasks)
    assert not running_tasks(tasks)
    return time.process_time() - start


def read(_strategy: SchedulingStrategy, tasks: Sequence[Task], _agents: Sequence[AgentConfig]) -> float:
    """Return the seconds that it takes to look at each task twice: ten thousand do not fit into the caches.

    Args:
        tasks: The graph.
    """
    start = time.process_time()
    seen = [(task.id, task.depends_on, task.priority, task.status) for task in tasks]
    seen_again = [(task.requires, task.assignee, task.title, task.text) for task in tasks]
    spent = time.process_time() - start
    assert len(seen) == len(seen_again)
    return spent


def main() -> None:
    """Measure and print."""
    agents = team()
    print(f"{AGENTS} agents; milliseconds for 1,000 and for 10,000 tasks, and the second / the first (at most 12)")
    for title, make, measure in (
        ("only looked at, independent", independent, read),
        ("one by one, independent", independent, dispatch),
        ("one by one, layers of ten", layers, dispatch),
        ("in one call, independent", independent, up_front),
    ):
        small, large = make(1_000), make(10_000)
        gc.collect()
        gc.freeze()  # else the collector would look at the tasks again and again, which are the caller's
        for strategy in get_args(SchedulingStrategy) if measure is not read else get_args(SchedulingStrategy)[:1]:
            few, many = float("inf"), float("inf")
            for _ in range(ROUNDS):  # in turns, so that noise hits both
                few = min(few, *(measure(strategy, small, agents) for _ in range(3)))
                many = min(many, measure(strategy, large, agents))
            print(f"  {title:28s}{strategy:20s}{few * 1e3:10.1f}{many * 1e3:10.1f}{many / few:8.1f}")


if __name__ == "__main__":
    main()

"""What ten thousand tasks cost against one thousand, side by side in one process and printed as ratios.

Run it with ``python benchmarks/bench_tasks.py``. Every ratio should be about 10: the time of the queue and of the graph
grows with the tasks, not faster. The counts of dependents grow with the words of their bit sets as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from openmultiagent.tasks import Task, TaskQueue, TaskSpec, critical_path, plan_graph, transitive_dependent_counts

ROUNDS = 5


def chain(count: int) -> list[TaskSpec]:
    """Return tasks each of which depends on the one before."""
    names = [f"t{number}" for number in range(count)]
    return [
        TaskSpec(name, "Do it.", id=name, depends_on=names[number - 1 : number] if number else ())
        for number, name in enumerate(names)
    ]


def layers(count: int, width: int = 20) -> list[TaskSpec]:
    """Return tasks in rows, each of which depends on the whole row before."""
    names = [f"t{number}" for number in range(count)]
    return [
        TaskSpec(name, "Do it.", id=name, depends_on=names[max(start - width, 0) : start])
        for start in range(0, count, width)
        for name in names[start : start + width]
    ]


def complete_all(tasks: list[Task]) -> None:
    """Add tasks to a queue, and complete them in the order in which they become ready."""
    queue = TaskQueue()
    queue.add_batch(tasks)
    while (task := queue.next()) is not None:
        queue.start(task.id, "agent")
        queue.complete(task.id, "output")
    if not queue.is_complete():
        raise RuntimeError("the benchmark's own graph cannot be run")


def best(operation: Callable[[], object]) -> float:
    """Return the shortest time of several in milliseconds of the processor."""
    found = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        operation()
        found = min(found, (time.process_time() - start) * 1e3)
    return found


def main() -> None:
    """Measure and print."""
    for shape in (chain, layers):
        sizes = [(shape(count), plan_graph(shape(count))) for count in (10_000, 1_000)]
        for text, operation in (
            ("plan_graph", lambda specs, _tasks: plan_graph(specs)),
            ("queue", lambda _specs, tasks: complete_all(tasks)),
            ("dependents", lambda _specs, tasks: transitive_dependent_counts(tasks)),
            ("critical path", lambda _specs, tasks: critical_path(tasks)),
        ):
            many, few = (best(partial(operation, *size)) for size in sizes)
            print(f"{shape.__name__:8s}{text:16s}{many / few:6.1f}   {many:8.1f} ms / {few:8.1f} ms")


if __name__ == "__main__":
    main()

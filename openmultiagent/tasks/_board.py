"""The reading side of a queue of tasks: what there is, how it stands, and what can be started.

Not here: how a task's state changes. Invariant: reading never changes anything that anybody can see, and no look-up
takes time that grows with the number of tasks, but for those that return all of them.
"""

from __future__ import annotations

import builtins
from dataclasses import fields
from heapq import heappop, heappush
from typing import Final

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError
from ._task import Task, TaskStatus

__all__ = ["QueueProgress", "TaskBoard"]

_ANY: Final = object()


@record(kw_only=True)
class QueueProgress:
    """How many tasks of a queue have which status."""

    total: int
    completed: int
    failed: int
    skipped: int
    in_progress: int
    pending: int
    blocked: int

    def to_dict(self) -> dict[str, int]:
        """Return the counts as plain JSON data."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class TaskBoard:
    """The tasks of a queue, in the order in which they were added."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._ids: builtins.list[str] = []
        self._places: dict[str, int] = {}
        self._counts: dict[TaskStatus, int] = dict.fromkeys(
            ("completed", "failed", "skipped", "in_progress", "pending", "blocked"), 0
        )
        self._pending: dict[str, None] = {}
        self._ready: builtins.list[Task] | None = []
        """The pending tasks in order; None when that has to be found out again."""
        self._held: dict[str, None] = {}
        """Tasks that nobody is told of yet, and that cannot be started."""
        self._firsts: dict[object, builtins.list[int]] = {}
        """Heaps of the places of pending tasks by assignee, and of all; what is no longer so is dropped when met."""

    def get(self, task_id: str) -> Task | None:
        """Return a task, or None.

        Args:
            task_id: Its id.
        """
        return self._tasks.get(task_id)

    def list(self) -> builtins.list[Task]:
        """Return all tasks in the order in which they were added."""
        return [*self._tasks.values()]

    def get_by_status(self, status: TaskStatus) -> builtins.list[Task]:
        """Return the tasks that have a status, in the order in which they were added.

        Args:
            status: The status.
        """
        if status == "pending" and not self._held:
            return self.ready()
        return [task for task in self._tasks.values() if task.status == status]

    def ready(self) -> builtins.list[Task]:
        """Return the tasks that can be started, in the order in which they were added."""
        if self._ready is None:
            self._ready = [self._tasks[each] for each in sorted(self._pending, key=self._places.__getitem__)]
        return self._ready.copy()

    def next(self, assignee: str | None = None) -> Task | None:
        """Return the first task that can be started, or None.

        Args:
            assignee: Only tasks of this agent; unless given, unassigned tasks come first.
        """
        if assignee is not None:
            return self._first(assignee)
        return self._first(None) or self._first(_ANY)

    def next_available(self) -> Task | None:
        """Return the first task that can be started, unassigned ones first, or None."""
        return self.next()

    def is_complete(self) -> bool:
        """Say whether every task has come to its end; of an empty queue, too."""
        return not self.open_count

    def is_stalled(self) -> bool:
        """Say whether tasks wait, and none can be started or is being worked on: what they wait for is not there."""
        counts = self._counts
        return bool(counts["blocked"]) and not counts["pending"] and not counts["in_progress"]

    @property
    def open_count(self) -> int:
        """How many tasks have not come to their end."""
        counts = self._counts
        return counts["pending"] + counts["in_progress"] + counts["blocked"]

    def get_progress(self) -> QueueProgress:
        """Return how many tasks have which status."""
        return QueueProgress(total=len(self._tasks), **self._counts)

    def __getitem__(self, task_id: str) -> Task:
        return self._tasks[task_id]

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def _first(self, assignee: object) -> Task | None:
        heap = self._firsts.get(assignee, [])
        while heap:
            task = self._tasks[self._ids[heap[0]]]
            if task.status == "pending" and (assignee is _ANY or task.assignee == assignee):
                return task
            heappop(heap)
        return None

    def _put(self, task: Task) -> None:
        """Store a task in its new state, or for the first time."""
        task_id, status = task.id, task.status
        before = self._tasks.get(task_id)
        self._tasks[task_id] = task
        counts = self._counts
        counts[status] += 1
        was_pending = False
        if before is None:
            self._places[task_id] = len(self._ids)
            self._ids.append(task_id)
        else:
            counts[before.status] -= 1
            was_pending = before.status == "pending"
        if status == "pending":
            self._ready = None
            self._offer(task, before if was_pending else None)
        elif was_pending:
            self._ready = None
            self._pending.pop(task_id, None)

    def _offer(self, task: Task, before: Task | None) -> None:
        """Enter a pending task where ``next`` looks; ``before`` is what it was if it was pending already."""
        if task.id in self._held:
            return
        place = self._places[task.id]
        if before is None:
            self._pending[task.id] = None
            heappush(self._firsts.setdefault(_ANY, []), place)
        if before is None or before.assignee != task.assignee:
            heappush(self._firsts.setdefault(task.assignee, []), place)

    def _existing(self, task_id: str) -> Task:
        task = self._tasks.get(task_id)
        if task is None:
            raise ConfigurationError(f"task {shown(task_id, 150)} not found in the queue, which has {len(self)} tasks")
        return task

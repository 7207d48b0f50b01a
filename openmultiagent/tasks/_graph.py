"""The graph that tasks make up: which task depends on which, in which order they can be done, what is wrong with it.

Pure functions without recursion: a chain of ten thousand tasks is as good as a short one. Not here: what has become of
the tasks. Invariant: the time grows with tasks and dependencies, not faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from .._shown import shown
from ..errors import InvalidTaskDependenciesError
from ._cycles import find_cycles
from ._spec import TaskSpec
from ._task import Task, create_task, new_task_id

__all__ = [
    "GraphNode",
    "critical_path",
    "dependency_order",
    "is_task_ready",
    "plan_graph",
    "transitive_dependent_counts",
    "validate_task_dependencies",
]


class GraphNode(Protocol):
    """What of a task counts for the graph."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def depends_on(self) -> Sequence[str]:
        """Ids of the tasks that it depends on."""
        ...


N = TypeVar("N", bound=GraphNode)

Issue = dict[str, Any]
_SHOWN = 20
"""Faults, and tasks of a cycle, that a message lists; the rest is in ``issues``."""


class _Node(NamedTuple):
    id: str
    title: str
    depends_on: tuple[str, ...]


def plan_graph(specs: Sequence[TaskSpec], *, known: Mapping[str, str] | None = None) -> list[Task]:
    """Make the tasks of specifications, with their references resolved to ids.

    A reference is the id of a task or, if there is none, its title, whatever the case and the space around it.

    Args:
        specs: The specifications, in the order in which the tasks are to be listed.
        known: Titles by id of further tasks that may be referred to.

    Raises:
        InvalidTaskDependenciesError: A reference is unknown or ambiguous or means the task itself, an id occurs twice,
            or tasks wait for each other in a circle. All faults are listed in ``issues``.
    """
    known = known or {}
    issues: list[Issue] = []
    ids = [spec.id or new_task_id() for spec in specs]
    taken = set(known)
    for index, (spec, task_id) in enumerate(zip(specs, ids, strict=True)):
        if task_id in taken:
            text = f"tasks[{index}] has the id {task_id!r}, which another task has already"
            issues.append(_issue("DUPLICATE_TASK_ID", task_id, spec.title, text))
        taken.add(task_id)
    titles: dict[str, list[str]] = {}
    for task_id, title in [*known.items(), *zip(ids, (spec.title for spec in specs), strict=True)]:
        titles.setdefault(_folded(title), []).append(task_id)
    nodes = []
    for index, (spec, task_id) in enumerate(zip(specs, ids, strict=True)):
        found = (
            _resolve(_Reference(index, spec.title, task_id, given), taken, titles, issues) for given in spec.depends_on
        )
        nodes.append(_Node(task_id, spec.title, tuple(dict.fromkeys(each for each in found if each is not None))))
    if not any(issue["code"] == "DUPLICATE_TASK_ID" for issue in issues):
        issues += _cycle_issues(nodes)
    if issues:
        raise InvalidTaskDependenciesError(_listed(issues), issues=issues)
    return [create_task(spec, id=node.id, depends_on=node.depends_on) for spec, node in zip(specs, nodes, strict=True)]


class _Reference(NamedTuple):
    place: int
    title: str
    task_id: str
    given: str


def _resolve(reference: _Reference, ids: set[str], titles: Mapping[str, list[str]], issues: list[Issue]) -> str | None:
    """Return the id that a reference means, or None after noting what is wrong with it."""
    place, title, task_id, given = reference
    found = [given] if given in ids else titles.get(_folded(given), [])
    if len(found) == 1 and found[0] != task_id:
        return found[0]
    if not found:
        code, text = "UNKNOWN_DEPENDENCY", "which is the id or title of no task"
    elif len(found) > 1:
        code, text = "AMBIGUOUS_DEPENDENCY", f"which {len(found)} tasks have as title; refer to the id"
    else:
        code, text = "SELF_DEPENDENCY", "which is the task itself"
    message = f"tasks[{place}] {shown(title)} depends on {shown(given)}, {text}"
    issues.append(_issue(code, task_id, title, message) | {"reference": given})
    return None


def _folded(title: str) -> str:
    return title.strip().casefold()


def _issue(code: str, task_id: str, title: str, message: str) -> Issue:
    return {"code": code, "task_id": task_id, "task_title": title, "message": message}


def _cycle_issues(nodes: Sequence[_Node]) -> list[Issue]:
    titles = {node.id: node.title for node in nodes}
    issues = []
    for cycle in find_cycles({node.id: node.depends_on for node in nodes}):
        path = [*cycle, cycle[0]]
        shown = [*map(titles.__getitem__, path[:_SHOWN]), *(["..."] if len(path) > _SHOWN else [])]
        text = f"tasks depend on each other in a circle: {' -> '.join(shown)}"
        issues.append(_issue("DEPENDENCY_CYCLE", cycle[0], titles[cycle[0]], text) | {"path": path})
    return issues


def _listed(issues: Sequence[Issue]) -> str:
    texts = [issue["message"] for issue in issues[:_SHOWN]]
    more = len(issues) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def validate_task_dependencies(tasks: Iterable[Task]) -> list[Issue]:
    """Return what is wrong with the dependencies of tasks, as ``plan_graph`` would list it; empty if nothing is.

    Args:
        tasks: The tasks of a graph; here a reference is an id.
    """
    nodes = [_Node(task.id, task.title, task.depends_on) for task in tasks]
    ids: set[str] = set()
    issues = []
    for node in nodes:
        if node.id in ids:
            issues.append(_issue("DUPLICATE_TASK_ID", node.id, node.title, f"two tasks have the id {node.id!r}"))
        ids.add(node.id)
    for index, node in enumerate(nodes):
        for given in node.depends_on:
            _resolve(_Reference(index, node.title, node.id, given), ids, {}, issues)
    clean = [node._replace(depends_on=tuple(d for d in node.depends_on if d != node.id and d in ids)) for node in nodes]
    return issues + _cycle_issues(clean)


def is_task_ready(task: Task, tasks: Mapping[str, Task]) -> bool:
    """Say whether a task could be started: it is pending, and all that it depends on is completed.

    Args:
        task: The task.
        tasks: The tasks of its graph, by id.
    """
    return task.status == "pending" and all(
        each in tasks and tasks[each].status == "completed" for each in task.depends_on
    )


def dependency_order(tasks: Iterable[N]) -> list[N]:
    """Return tasks so that each stands behind those that it depends on, else in the given order.

    Args:
        tasks: The tasks of a graph. Ids that none of them has are ignored; what is on a cycle, or behind one, is left
            out.
    """
    nodes = {task.id: task for task in tasks}
    unmet = dict.fromkeys(nodes, 0)
    dependents: dict[str, list[str]] = {key: [] for key in nodes}
    for key, task in nodes.items():
        for each in set(task.depends_on):
            if each in nodes:
                unmet[key] += 1
                dependents[each].append(key)
    waiting = deque(key for key, count in unmet.items() if not count)
    order = []
    while waiting:
        key = waiting.popleft()
        order.append(nodes[key])
        for each in dependents[key]:
            unmet[each] -= 1
            if not unmet[each]:
                waiting.append(each)
    return order


def transitive_dependent_counts(tasks: Iterable[GraphNode]) -> dict[str, int]:
    """Return for each task how many wait for it, directly or through others.

    Args:
        tasks: The tasks of an acyclic graph; what is on a cycle, or behind one, counts nothing.
    """
    tasks = list(tasks)
    counts = dict.fromkeys((task.id for task in tasks), 0)
    # Sets of tasks are the bits of integers, numbered from the end of the graph: a task's dependents come before it,
    # so the integers are as short as they can be, and each is dropped when it has been passed on.
    reached: dict[str, int] = {}
    for number, task in enumerate(reversed(dependency_order(tasks))):
        own = reached.pop(task.id, 0)
        counts[task.id] = own.bit_count()
        own |= 1 << number
        for each in set(task.depends_on):
            if each in counts:
                reached[each] = reached.get(each, 0) | own
    return counts


def critical_path(tasks: Iterable[N], *, durations: Mapping[str, float] | None = None) -> list[N]:
    """Return the chain of tasks that takes longest: no run of the graph can be quicker.

    Args:
        tasks: The tasks of an acyclic graph; what is on a cycle, or behind one, is ignored.
        durations: Seconds by task id; unless given, and for tasks without one, 1.
    """
    given = durations or {}
    ends: dict[str, float] = {}
    nodes: dict[str, N] = {}
    before: dict[str, str | None] = {}
    for task in dependency_order(tasks):
        previous = max((each for each in task.depends_on if each in ends), key=ends.__getitem__, default=None)
        ends[task.id] = given.get(task.id, 1.0) + (ends[previous] if previous is not None else 0.0)
        nodes[task.id], before[task.id] = task, previous
    path = []
    step = max(ends, key=ends.__getitem__, default=None)
    while step is not None:
        path.append(nodes[step])
        step = before[step]
    return path[::-1]

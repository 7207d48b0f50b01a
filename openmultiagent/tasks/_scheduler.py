"""Which task comes next, and which agent gets it.

Not here: starting anything. Invariants: an agent that does not meet a task's requirements never gets it; nothing is
assigned, and nobody's turn is used up, by a call that raises; a decision costs the same however many tasks there are.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from pydantic import Field

from .._shown import shown
from .._spec import as_spec, spec
from ..agent import AgentConfig
from ..errors import ConfigurationError, InvalidTaskRequirementsError
from ._graph import transitive_dependent_counts
from ._requirements import (
    ProviderOf,
    SchedulableTask,
    TaskRequirementIssue,
    checked_roster,
    declared_provider,
    exclusion,
    no_eligible_agent,
    required,
)
from ._selector import Candidate, Candidates, Topic, affinity

__all__ = [
    "AssignableQueue",
    "ReadyOrder",
    "Scheduler",
    "SchedulingStrategy",
    "SchedulingWeights",
    "running_tasks",
]

SchedulingStrategy: TypeAlias = Literal[
    "round-robin", "least-busy", "capability-match", "dependency-first", "composite"
]
"""How tasks are ordered and agents chosen."""

_BY_DEPENDENTS = frozenset({"dependency-first", "composite"})
_RANKS: Mapping[str | None, int] = {"critical": 0, "high": 1, "normal": 2, None: 2, "low": 3}

_BITS = 30
"""Of a rank, for the number of dependents and for the place: no graph has a billion tasks."""
_PLACE = (1 << _BITS) - 1

Weight = Annotated[float, Field(ge=0)]

T = TypeVar("T", bound=SchedulableTask)


@spec
class SchedulingWeights:
    """How much counts what, for the strategy ``composite``; only the ratio matters.

    Raises:
        ConfigurationError: One is negative or not finite, or both are 0.
    """

    fit: Weight = 0.7
    """That an agent suits a task."""
    load: Weight = 0.3
    """That an agent has little to do."""

    def __post_init__(self) -> None:
        if self.fit == 0 and self.load == 0:
            raise ConfigurationError("SchedulingWeights is invalid: fit and load are both 0; one must count")


class AssignableQueue(Protocol):
    """What ``Scheduler.auto_assign`` needs of a queue."""

    def list(self) -> Sequence[SchedulableTask]:
        """Return all tasks, in the order in which they were added."""
        ...

    def update(self, task_id: str, *, assignee: str) -> object:
        """Assign a task."""
        ...


def running_tasks(tasks: Iterable[SchedulableTask]) -> dict[str, int]:
    """Return how many tasks each agent is working on; agents without any are left out.

    Args:
        tasks: All tasks.
    """
    return Counter(item.assignee for item in tasks if item.status == "in_progress" and item.assignee is not None)


class ReadyOrder:
    """The tasks that are ready, the most urgent first: a heap, so that adding one and taking one are cheap.

    First comes the higher priority, then, where the strategy looks at it, what more tasks wait for, then what was
    added to the graph earlier.

    Args:
        tasks: The graph, in the order in which its tasks were added. Others may be pushed; they count as added later.
        by_dependents: Whether it matters how many tasks wait for one, directly or not.
    """

    def __init__(self, tasks: Iterable[SchedulableTask], *, by_dependents: bool = True) -> None:
        graph = list(tasks)
        self._places = {item.id: place for place, item in enumerate(graph)}
        self._dependents: Mapping[str, int] = transitive_dependent_counts(graph) if by_dependents else {}
        self._heap: list[int] = []
        self._ready: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, task: SchedulableTask) -> None:
        """Add a task that is ready; nothing happens when it is there already.

        Args:
            task: The task.
        """
        rank = self.rank(task)
        if rank & _PLACE not in self._ready:
            self._ready[rank & _PLACE] = task.id
            heapq.heappush(self._heap, rank)

    def rank(self, task: SchedulableTask) -> int:
        """Return what tasks are ordered by: the lowest comes first, and no two have the same.

        Args:
            task: A task, whether it is ready or not.
        """
        place = self._places.setdefault(task.id, len(self._places))
        urgency = _RANKS.get(task.priority, _RANKS[None])
        # One number instead of a tuple of three: most of what a heap does is compare.
        return (((urgency << _BITS) - self._dependents.get(task.id, 0)) << _BITS) + place

    def pop(self) -> str:
        """Take the most urgent task out, and return its id: what is known of it may have changed meanwhile.

        Raises:
            IndexError: There is none.
        """
        return self._ready.pop(heapq.heappop(self._heap) & _PLACE)


class Scheduler:
    """Orders tasks and assigns agents to them; whose turn it is carries over from call to call.

    ``round-robin`` gives agents in turn; ``least-busy`` the one with the fewest running tasks; ``capability-match`` the
    one that suits the task best, in turn if none does; ``dependency-first`` agents in turn, and first to tasks that
    many wait for; ``composite`` weighs how well an agent suits against how busy it is, in that same order.

    Args:
        strategy: How to do it.
        weights: For ``composite``; a mapping with the fields is as good.
        provider_of: Tells which provider an agent uses for a task; what the agent declares unless given.

    Raises:
        ConfigurationError: There is no such strategy, or the weights make no sense.
    """

    def __init__(
        self,
        strategy: SchedulingStrategy = "dependency-first",
        *,
        weights: SchedulingWeights | Mapping[str, Any] | None = None,
        provider_of: ProviderOf = declared_provider,
    ) -> None:
        known = get_args(SchedulingStrategy)
        if strategy not in known:
            raise ConfigurationError(f"scheduling strategy {shown(strategy)} is none of {', '.join(known)}")
        self.strategy: SchedulingStrategy = strategy
        """How tasks are ordered and agents chosen."""
        self.weights = SchedulingWeights() if weights is None else as_spec(SchedulingWeights, weights, where="weights")
        """What counts how much, for ``composite``."""
        self._provider_of = provider_of
        self._candidates = Candidates()
        self._turn = 0

    def schedule(self, tasks: Iterable[SchedulableTask], agents: Sequence[AgentConfig]) -> dict[str, str]:
        """Return names of agents by the ids of the tasks that are pending and not assigned, the most urgent task first.

        Args:
            tasks: All tasks; nothing is changed.
            agents: The team, each agent with the defaults that it will run with.

        Raises:
            InvalidTaskRequirementsError: Nobody meets the requirements of a task; lists all such tasks.
            ConfigurationError: The agents are none, or two have the same name.
        """
        graph = list(tasks)
        team = self._candidates.of(checked_roster(agents))
        loads = running_tasks(graph)
        open_tasks = [item for item in self.order_ready_tasks(graph, graph) if item.assignee is None]
        eligible = self._all_eligible(open_tasks, team)
        assigned: dict[str, str] = {}
        for task, able in zip(open_tasks, eligible, strict=True):
            if able:
                name = assigned[task.id] = self._choose(task, able, loads)
                if self.strategy == "least-busy":
                    loads[name] = loads.get(name, 0) + 1
        return assigned

    def schedule_task(
        self, task: SchedulableTask, agents: Sequence[AgentConfig], *, loads: Mapping[str, int] | None = None
    ) -> str | None:
        """Return the name of the agent for one task: its assignee, else the one to be assigned; None without agents.

        Args:
            task: The task; it is not changed.
            agents: The team, each agent with the defaults that it will run with.
            loads: How many tasks each agent is working on, see ``running_tasks``; nobody works on any unless given.

        Raises:
            InvalidTaskRequirementsError: Nobody meets the requirements of the task.
        """
        if task.assignee is not None:
            return task.assignee
        team = self._candidates.of(agents)
        able, issue = self._eligible(task, team)
        if issue is not None:
            raise InvalidTaskRequirementsError([issue.to_dict()])
        return self._choose(task, able, loads or {}) if able else None

    def order_ready_tasks(self, ready: Iterable[T], tasks: Iterable[SchedulableTask]) -> list[T]:
        """Return the tasks that are pending, the most urgent first.

        Where tasks become ready one by one use ``ready_order``, which need not sort them all again each time.

        Args:
            ready: The tasks to order; those that are not pending are left out.
            tasks: The graph that they belong to, in the order in which its tasks were added.
        """
        pending = {task.id: task for task in ready if task.status == "pending"}
        return sorted(pending.values(), key=self.ready_order(tasks).rank)

    def ready_order(self, tasks: Iterable[SchedulableTask]) -> ReadyOrder:
        """Return the order of this strategy, for a graph, with no task in it yet.

        Args:
            tasks: The graph, in the order in which its tasks were added.
        """
        return ReadyOrder(tasks, by_dependents=self.strategy in _BY_DEPENDENTS)

    def auto_assign(self, queue: AssignableQueue, agents: Sequence[AgentConfig]) -> dict[str, str]:
        """Assign agents to the tasks of a queue that are pending and not assigned; return what ``schedule`` returns.

        Args:
            queue: The queue.
            agents: As for ``schedule``.

        Raises:
            InvalidTaskRequirementsError: Nobody meets the requirements of a task; nothing is assigned then.
            ConfigurationError: The agents are none, or two have the same name.
        """
        assigned = self.schedule(queue.list(), agents)
        for task_id, name in assigned.items():
            queue.update(task_id, assignee=name)
        return assigned

    def _all_eligible(self, tasks: Sequence[SchedulableTask], team: Sequence[Candidate]) -> list[Sequence[Candidate]]:
        found = [self._eligible(task, team) for task in tasks]
        if issues := [issue.to_dict() for _, issue in found if issue is not None]:
            raise InvalidTaskRequirementsError(issues)
        return [able for able, _ in found]

    def _eligible(
        self, task: SchedulableTask, team: Sequence[Candidate]
    ) -> tuple[Sequence[Candidate], TaskRequirementIssue | None]:
        needs = required(task)
        if needs is None:
            return team, None
        reasons = [exclusion(needs, item, task, self._provider_of) for item in team]
        able = [item for item, reason in zip(team, reasons, strict=True) if reason is None]
        return able, None if able else no_eligible_agent(task, cast(list[str], reasons))

    def _choose(self, task: SchedulableTask, able: Sequence[Candidate], loads: Mapping[str, int]) -> str:
        match self.strategy:
            case "least-busy":
                return min(able, key=lambda item: loads.get(item.name, 0)).name
            case "capability-match":
                return self._best(task, able) or self._next(able)
            case "composite":
                return self._balanced(task, able, loads)
            case _:  # round-robin, dependency-first
                return self._next(able)

    def _next(self, able: Sequence[Candidate]) -> str:
        chosen = able[self._turn % len(able)]
        self._turn = (self._turn + 1) % len(able)
        return chosen.name

    def _best(self, task: SchedulableTask, able: Sequence[Candidate]) -> str | None:
        topic = Topic.of(task)
        scores = [affinity(topic, item) for item in able]
        best = max(scores)
        return able[scores.index(best)].name if best > 0 else None

    def _balanced(self, task: SchedulableTask, able: Sequence[Candidate], loads: Mapping[str, int]) -> str:
        topic = Topic.of(task)
        scores = [affinity(topic, item) for item in able]
        # Scores have no upper bound; beside a load between 0 and 1 they would always win.
        best = max(scores) or 1.0
        most = max(1, *(loads.get(item.name, 0) for item in able))
        weights = self.weights

        def rank(place: int) -> tuple[float, str]:
            name = able[place].name
            idle = 1 - loads.get(name, 0) / most
            return -(weights.fit * scores[place] / best + weights.load * idle), name

        return able[min(range(len(able)), key=rank)].name

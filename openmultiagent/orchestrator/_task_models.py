"""Which model does which task of a run: the agent's own, or those of the route that a policy has for it.

Not here: calling them, and when the next one of a route is tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..agent import AgentConfig
from ..tasks import ModelRoute, ModelRoutingPolicy, Task, declared_provider, route_for, routed_provider, with_route

__all__ = ["TaskModels"]


class TaskModels:
    """The models of one run.

    Args:
        routing: The policy; without one agents use their own models.
        tasks: The graph, as far as it is known.
    """

    __slots__ = ("_routing", "_variants", "_waited_for")

    def __init__(self, routing: ModelRoutingPolicy | None, tasks: Iterable[Task] = ()) -> None:
        self._routing = routing
        self._variants: dict[tuple[str, int, float | None], AgentConfig] = {}
        self._waited_for: set[str] = set()
        self.learn(tasks)

    def learn(self, tasks: Iterable[Task]) -> None:
        """Have a look at a graph: rules may ask whether a task is waited for.

        Args:
            tasks: Its tasks.
        """
        self._waited_for.update(each for task in tasks for each in task.depends_on)

    def is_leaf(self, task_id: str) -> bool:
        """Whether no task depends on this one.

        Args:
            task_id: Its id.
        """
        return task_id not in self._waited_for

    def provider(self, config: AgentConfig, subject: object) -> str | None:
        """Return the provider that an agent uses for a task; None with an adapter that may talk to anybody.

        Args:
            config: The agent.
            subject: The task.
        """
        if self._routing is None or not isinstance(subject, Task):
            return declared_provider(config)
        return routed_provider(config, self._route(config, subject))

    def routes(self, agent: AgentConfig, task: Task) -> tuple[ModelRoute | None, ...]:
        """Return the models for a task, each for after a failure of the one before; None is the agent's own.

        Those of a provider that the task must not use are left out.

        Args:
            agent: Who does it.
            task: The task.
        """
        route = None if self._routing is None else self._route(agent, task)
        if route is None:
            return (None,)
        needs = None if task.requires is None else task.requires.required_provider
        return tuple(
            each for each in route.routes if needs is None or declared_provider(with_route(agent, each)) == needs
        )

    def delegated(self, agent: AgentConfig, task: Task) -> ModelRoute | None:
        """Return the model with which an agent does a part of somebody else's task; None is its own.

        Args:
            agent: The agent.
            task: The task.
        """
        return route_for(self._routing, phase="delegated", agent=agent.name, task=task, leaf=self.is_leaf(task.id))

    def variant(self, agent: AgentConfig, route: ModelRoute | None, timeout: float | None) -> AgentConfig:
        """Return an agent as it does a task; many tasks have the same variant.

        Args:
            agent: An agent of the team.
            route: The model to use instead of its own; None for that.
            timeout: Seconds for the attempt, where the agent's own limit is not lower.
        """
        if route is None and timeout is None:
            return agent
        key = (agent.name, id(route), timeout)  # routes live as long as the run, in its policy
        known = self._variants.get(key)
        if known is None:
            known = agent if route is None else with_route(agent, route)
            if timeout is not None and (known.timeout is None or timeout < known.timeout):
                known = known.replace(timeout=timeout)
            self._variants[key] = known
        return known

    def _route(self, agent: AgentConfig, task: Task) -> ModelRoute | None:
        return route_for(self._routing, phase="worker", agent=agent.name, task=task, leaf=self.is_leaf(task.id))

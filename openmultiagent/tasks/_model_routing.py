"""Which model does which part of a run: rules as data, and what they mean for an agent.

Not here: calling models, or going on to a fallback. Invariants: pure functions; a definition that is routed is a new
one; what is meant for one provider (key, address, region) is never sent to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, fields
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import Field, SkipValidation

from .._shown import shown
from .._spec import as_spec, spec
from ..agent import AgentConfig
from ..errors import ConfigurationError
from ._requirements import declared_provider

__all__ = [
    "ModelRoute",
    "ModelRoutingMatch",
    "ModelRoutingPolicy",
    "ModelRoutingRule",
    "RoutablePhase",
    "RoutableTask",
    "route_for",
    "routed_provider",
    "with_route",
]

RoutablePhase: TypeAlias = Literal["coordinator", "synthesis", "short-circuit", "worker", "delegated"]
"""What a model is called for."""

_WITH_TASKS = frozenset({"worker", "delegated"})

Text = Annotated[str, Field(min_length=1)]

T = TypeVar("T")


class RoutableTask(Protocol):
    """What of a task counts for routing."""

    @property
    def role(self) -> str | None:
        """What it is in the team's work."""
        ...

    @property
    def priority(self) -> str | None:
        """How urgent it is; None is ``normal``."""
        ...

    @property
    def depends_on(self) -> Sequence[str]:
        """Ids of the tasks that it waits for."""
        ...


@spec
class ModelRoute:
    """A model, and where it is.

    Raises:
        ConfigurationError: A field is unknown or wrong.
    """

    model: Text
    """Model name, as the provider knows it."""
    _: KW_ONLY
    provider: Text | None = None
    """Key of the provider; the agent's unless given."""
    base_url: Text | None = None
    """Another server that speaks the provider's protocol."""
    api_key: Text | None = field(default=None, repr=False)
    """The provider's key."""
    region: Text | None = None
    """Region of the provider."""
    fallback: SkipValidation[Sequence[ModelRoute]] = ()
    """Where to go on, in turn, when the provider fails, without a fallback of their own; mappings are as good."""

    def __post_init__(self) -> None:
        routes = _all(ModelRoute, self.fallback, "ModelRoute: fallback")
        if any(item.fallback for item in routes):
            raise ConfigurationError("ModelRoute: a route in fallback has a fallback itself; put all in one list")
        object.__setattr__(self, "fallback", routes)

    @property
    def routes(self) -> tuple[ModelRoute, ...]:
        """The route itself, then those to go on with."""
        return (self, *self.fallback)


@spec
class ModelRoutingMatch:
    """What a rule is for: everything that is given must be so, and nothing given is always so.

    What is asked of a task is so only where there is one: while a worker, or an agent that it delegates to, is at work.
    """

    _: KW_ONLY
    phase: RoutablePhase | None = None
    """What the model is called for."""
    agent: Text | None = None
    """Name of the agent."""
    task_role: Text | None = None
    """The role of the task."""
    task_priority: Literal["low", "normal", "high", "critical"] | None = None
    """The priority of the task; one that has none is ``normal``."""
    leaf: bool | None = None
    """Whether no other task waits for it."""
    has_dependencies: bool | None = None
    """Whether it waits for other tasks."""


@spec
class ModelRoutingRule:
    """What to match, and where it leads; mappings with the fields are as good."""

    match: SkipValidation[ModelRoutingMatch]
    """What the rule is for."""
    route: SkipValidation[ModelRoute]
    """The model to call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "match", as_spec(ModelRoutingMatch, self.match, where="ModelRoutingRule: match"))
        object.__setattr__(self, "route", as_spec(ModelRoute, self.route, where="ModelRoutingRule: route"))


@spec
class ModelRoutingPolicy:
    """Rules, of which the first that matches decides."""

    rules: SkipValidation[Sequence[ModelRoutingRule]] = ()
    """The rules; mappings with their fields are as good."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", _all(ModelRoutingRule, self.rules, "ModelRoutingPolicy: rules"))


def route_for(
    policy: ModelRoutingPolicy | None,
    *,
    phase: RoutablePhase,
    agent: str,
    task: RoutableTask | None = None,
    leaf: bool | None = None,
) -> ModelRoute | None:
    """Return where the first rule leads that matches; None when the agent keeps its own model.

    Args:
        policy: The rules; none is as good as no policy.
        phase: What the model is called for.
        agent: Name of the agent.
        task: The task that it works on.
        leaf: Whether no other task waits for that one; None when that is not known, which matches neither.
    """
    seen: dict[str, object] = {"phase": phase, "agent": agent}
    if task is not None and phase in _WITH_TASKS:
        seen |= {
            "task_role": task.role,
            "task_priority": task.priority or "normal",
            "leaf": leaf,
            "has_dependencies": bool(task.depends_on),
        }
    for rule in () if policy is None else policy.rules:
        if _matches(rule.match, seen):
            return rule.route
    return None


def routed_provider(config: AgentConfig, route: ModelRoute | None) -> str | None:
    """Return the provider that an agent uses on a route; None with an adapter of its own, which may talk to anybody.

    Args:
        config: The agent, with the defaults that it will run with.
        route: Where to; None when it keeps its own model.
    """
    return declared_provider(config) if route is None or route.provider is None else route.provider


def with_route(config: AgentConfig, route: ModelRoute) -> AgentConfig:
    """Return the definition with the model of a route, and the definition itself as it was.

    Where the route leads to another provider, the agent's adapter, address, key, region and protocol stay behind: they
    are for the provider that it had.

    Args:
        config: The agent, with the defaults that it will run with.
        route: Where to.
    """
    changes: dict[str, Any] = {"model": route.model}
    if route.provider is not None and route.provider != declared_provider(config):
        changes |= dict.fromkeys(("adapter", "base_url", "api_key", "region", "api"))
    for name in ("provider", "base_url", "api_key", "region"):
        value = getattr(route, name)
        if value is not None:
            changes[name] = value
    return config.replace(**changes)


def _matches(match: ModelRoutingMatch, seen: Mapping[str, object]) -> bool:
    wanted = ((item.name, getattr(match, item.name)) for item in fields(match))
    return all(value is None or seen.get(name) == value for name, value in wanted)


def _all(cls: type[T], values: object, where: str) -> tuple[T, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ConfigurationError(f"{where} must be a list, got {shown(values)}")
    return tuple(as_spec(cls, value, where=f"{where}[{place}]") for place, value in enumerate(values))

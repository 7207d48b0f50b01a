"""What a team is made of, as the user writes it down."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Self, cast

from pydantic import Field, SkipValidation, StrictBool

from .._shown import shown
from .._spec import as_spec, spec
from ..agent import AgentConfig
from ..errors import ConfigurationError, InvalidMessageError
from ..stores import MemoryStore, require_store
from ._names import check_agent_name, check_name, name_key
from ._shared_memory import UNSET, Unset

__all__ = ["TeamConfig"]


@spec
class TeamConfig:
    """The definition of a team: frozen, checked when it is made, good for any number of runs.

    Raises:
        ConfigurationError: A field is unknown or makes no sense, a name cannot be used, or two agents have the same.
        InvalidMessageError: An agent's history holds something that is no message.
    """

    name: str
    """Name of the team, in events, spans and errors: up to 128 printable characters without ``:`` and ``/``."""
    _: KW_ONLY
    agents: SkipValidation[Sequence[AgentConfig[Any] | Mapping[str, Any]]]
    """The agents: configs, or mappings with their fields. There may be none. Their names differ, in any case, and are
    none that the library uses itself (``coordinator``, ``semantic-router``)."""
    shared_memory: StrictBool = False
    """Whether the agents share a memory, which each run begins with a copy of the team's."""
    shared_memory_store: SkipValidation[MemoryStore | Unset] = UNSET
    """A store for shared memory, which all runs then share, whatever ``shared_memory`` says. None is refused."""
    memory_value_chars: Annotated[int, Field(ge=3, strict=True)] = 200
    """Characters that a prompt shows of a value of shared memory, at the most; longer ones are cut."""
    max_concurrency: Annotated[int, Field(ge=1, strict=True)] | None = None
    """The most agents that work at the same time in a run; the orchestrator's limit holds as well."""

    def __post_init__(self) -> None:
        check_name(self.name, where="team name")
        object.__setattr__(self, "agents", _as_agents(self.name, self.agents))
        if not isinstance(self.shared_memory_store, Unset):
            require_store(self.shared_memory_store, where=f"team {self.name!r}: shared_memory_store")

    @classmethod
    def of(cls, config: TeamConfig | Mapping[str, Any]) -> TeamConfig:
        """Return the config itself, or one made from a mapping with its fields.

        Args:
            config: A config or a mapping; the mapping is left as it is.

        Raises:
            ConfigurationError: It is neither, or a field is wrong.
        """
        return as_spec(TeamConfig, config, where="config")

    @property
    def roster(self) -> tuple[AgentConfig[Any], ...]:
        """The agents, as configs, in the order in which they were given."""
        return cast("tuple[AgentConfig[Any], ...]", self.agents)  # what __post_init__ has made of them

    @property
    def has_shared_memory(self) -> bool:
        """Whether the agents share a memory."""
        return self.shared_memory or not isinstance(self.shared_memory_store, Unset)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A store is a live handle: a copied definition uses the same one.
        return type(self)(
            self.name,
            agents=[copy.deepcopy(agent, memo) for agent in self.roster],
            shared_memory=self.shared_memory,
            shared_memory_store=self.shared_memory_store,
            memory_value_chars=self.memory_value_chars,
            max_concurrency=self.max_concurrency,
        )


def _as_agents(team: str, items: object) -> tuple[AgentConfig[Any], ...]:
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise ConfigurationError(f"team {team!r}: agents must be a list of agent configs, got {shown(items)}")
    agents = tuple(_as_agent(item, f"team {team!r}: agents[{index}]") for index, item in enumerate(items))
    places: dict[str, int] = {}
    for index, agent in enumerate(agents):
        first = places.setdefault(name_key(agent.name), index)
        if first != index:
            raise ConfigurationError(
                f"team {team!r}: agents[{first}] and agents[{index}] have the same name, {agents[first].name!r} and "
                f"{agent.name!r}, if case is left out of account; rename one"
            )
    return agents


def _as_agent(item: Any, where: str) -> AgentConfig[Any]:
    try:
        agent: AgentConfig[Any] = AgentConfig.of(item)
    except InvalidMessageError as error:
        raise InvalidMessageError(f"{where}.{error.message}", path=f"{where}.{error.path}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}") from None
    check_agent_name(agent.name, where=f"{where}.name")
    return agent

"""A team: agents that know each other, what they write to each other, and what they remember together.

Not here: tasks, and running them. Invariant: a run works on a bus and a memory of its own, which begin as copies of the
team's, so that runs of one team at the same time cannot mix; only a store that the caller gave is shared by all runs.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

from .._record import record
from ..agent import AgentConfig
from ..errors import ConfigurationError
from ..stores import InMemoryStore, MemoryStore
from ._bus import MessageBus
from ._config import TeamConfig
from ._handlers import Handler, Handlers, Unsubscribe
from ._message import BusMessage
from ._messages_tool import UnreadMessages, unread_messages, with_messages_tool
from ._shared_memory import SharedMemory, Unset

__all__ = ["Team", "TeamRun"]


class Team:
    """Agents that work together, in any number of runs.

    Args:
        config: What it is made of: a config, or a mapping with its fields.

    Raises:
        ConfigurationError: The config is wrong; says where.
    """

    def __init__(self, config: TeamConfig | Mapping[str, Any]) -> None:
        self.config = TeamConfig.of(config)
        """What the team is made of."""
        self._agents = {agent.name: agent for agent in self.config.roster}
        self._handlers = Handlers(f"team {self.config.name!r}")
        self._bus = MessageBus(self._agents, on_message=self._tell_of_message)
        self._own_store = InMemoryStore()
        self._memory = self._shared_memory()

    @property
    def name(self) -> str:
        """The team's name."""
        return self.config.name

    @property
    def agents(self) -> tuple[AgentConfig[Any], ...]:
        """The agents, in the order in which they were given."""
        return tuple(self._agents.values())

    def get_agent(self, name: str) -> AgentConfig[Any] | None:
        """Return an agent; None when there is none of that name.

        Args:
            name: The exact name.
        """
        return self._agents.get(name)

    @property
    def bus(self) -> MessageBus:
        """The team's own messages, which every run begins with a copy of."""
        return self._bus

    def send_message(self, sender: str, recipient: str, content: str) -> BusMessage:
        """Send a message to one agent, who finds it in every run that begins from now on.

        Args:
            sender: Who sends it; need not be an agent.
            recipient: Name of an agent.
            content: The text, of at most 65,536 bytes in UTF-8.

        Raises:
            ConfigurationError: A name or the content cannot be used, or there is no such agent.
            StoreError: There are 10,000 messages already (``MESSAGE_LIMIT``).
        """
        return self._bus.send(sender, recipient, content)

    def broadcast(self, sender: str, content: str) -> BusMessage:
        """Send a message to all agents but the sender, who find it in every run that begins from now on.

        Args:
            sender: Who sends it; need not be an agent.
            content: The text, of at most 65,536 bytes in UTF-8.

        Raises:
            ConfigurationError: The name or the content cannot be used.
            StoreError: There are 10,000 messages already (``MESSAGE_LIMIT``).
        """
        return self._bus.broadcast(sender, content)

    def get_messages(self, agent: str) -> list[BusMessage]:
        """Return everything that an agent was sent outside of runs, in the order of sending.

        Args:
            agent: The agent.

        Raises:
            ConfigurationError: There is no such agent.
        """
        return self._bus.get_all(agent)

    def get_unread_messages(self, agent: str) -> list[BusMessage]:
        """Return what an agent was sent outside of runs and has not been marked as read, in the order of sending.

        Args:
            agent: The agent.

        Raises:
            ConfigurationError: There is no such agent.
        """
        return self._bus.get_unread(agent)

    def mark_messages_read(self, agent: str, message_ids: Iterable[str]) -> None:
        """Take messages for read; ids that are not among the agent's unread ones are left alone.

        Args:
            agent: The agent.
            message_ids: Ids of messages.

        Raises:
            ConfigurationError: There is no such agent.
        """
        self._bus.mark_read(agent, message_ids)

    def get_shared_memory(self) -> MemoryStore | None:
        """Return the store of the team's shared memory; None when it has none."""
        return None if self._memory is None else self._memory.get_store()

    def get_shared_memory_instance(self) -> SharedMemory | None:
        """Return the team's shared memory; None when it has none.

        If the caller gave a store, runs use this very memory. If not, each run begins with a copy of it.
        """
        return self._memory

    def on(self, event: str, handler: Handler) -> Unsubscribe:
        """Have a function told of an event; returns what ends that.

        Args:
            event: ``message`` and ``broadcast``, with a ``BusMessage``, also from within runs; what runs tell of tasks;
                or any name that somebody passes to ``emit``.
            handler: A plain function of one argument, called in place. What it raises is logged.

        Raises:
            ConfigurationError: It cannot be called, or is async.
        """
        return self._handlers.add(event, handler)

    def emit(self, event: str, data: Any = None) -> None:
        """Tell the handlers of an event.

        Args:
            event: Its name.
            data: What they get, as it is.
        """
        self._handlers.tell(event, data)

    def begin_run(self, *, bus: MessageBus | None = None, memory: SharedMemory | None = None) -> TeamRun:
        """Return what one run of the team works on: for whoever runs it.

        Args:
            bus: The run's messages, when it goes on from others; a copy of the team's unless given.
            memory: The run's shared memory, when it goes on from another; unless given the team's own if its caller
                gave a store, else a copy of it.

        Raises:
            ConfigurationError: There is memory for a team that has none.
        """
        if memory is not None and self._memory is None:
            raise ConfigurationError(f"team {self.name!r} has no shared memory; set shared_memory=True in its config")
        own_bus = self._bus.fork() if bus is None else bus
        return TeamRun(self, own_bus, self._memory_of_run() if memory is None else memory)

    def _shared_memory(self) -> SharedMemory | None:
        if not isinstance(self.config.shared_memory_store, Unset):
            return SharedMemory(self.config.shared_memory_store)
        return SharedMemory(self._own_store) if self.config.shared_memory else None

    def _memory_of_run(self) -> SharedMemory | None:
        if self._memory is None or not isinstance(self.config.shared_memory_store, Unset):
            return self._memory
        memory = SharedMemory(self._own_store.copy())
        memory.set_turn_count(self._memory.get_turn_count())
        return memory

    def _tell_of_message(self, message: BusMessage) -> None:
        self._handlers.tell("broadcast" if message.is_broadcast else "message", message)

    def __repr__(self) -> str:
        return f"<Team {self.name!r}: {', '.join(map(repr, self._agents))}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # With the messages and values that there are, and without handlers, which belong to whoever added them.
        other = type(self)(copy.deepcopy(self.config, memo))
        other._bus.restore(self._bus.snapshot())  # noqa: SLF001 - of the same class
        other._own_store = self._own_store.copy()  # noqa: SLF001 - of the same class
        other._memory = other._shared_memory()  # noqa: SLF001 - of the same class
        if self._memory is not None and other._memory is not None:  # noqa: SLF001 - of the same class
            other._memory.set_turn_count(self._memory.get_turn_count())  # noqa: SLF001 - of the same class
        return other


@record
class TeamRun:
    """What one run of a team works on."""

    team: Team
    bus: MessageBus
    """The messages of this run."""
    memory: SharedMemory | None
    """The shared memory of this run; None when the team has none."""

    def equip(self, config: AgentConfig[Any]) -> AgentConfig[Any]:
        """Return an agent whose ``send_message``, if it was granted, writes to this run's bus.

        To be called when the agent's tool preset has been chosen: afterwards it names no built-in tool any more.

        Args:
            config: The agent, of the team or made for the run.
        """
        return with_messages_tool(config, self.bus)

    def unread(self, agent: str) -> UnreadMessages:
        """Return what an agent has not read yet, as a section of its prompt.

        Args:
            agent: Name of the agent.

        Raises:
            ConfigurationError: There is no such agent.
        """
        return unread_messages(self.bus, agent)

    async def remembered(self, *, without_task_ids: Collection[str]) -> str:
        """Return what the memory of this run holds, as a section of a prompt; an empty text without memory.

        Args:
            without_task_ids: Leave out the results of these tasks, which the prompt has anyway.

        Raises:
            StoreError: The store failed.
        """
        if self.memory is None:
            return ""
        most = self.team.config.memory_value_chars
        return await self.memory.get_summary(without_task_ids=without_task_ids, max_value_chars=most)

    def emit(self, event: str, data: Any = None) -> None:
        """Tell the team's handlers of something that happened in this run.

        Args:
            event: Its name, such as ``task:complete``.
            data: What they get, as it is.
        """
        self.team.emit(event, data)

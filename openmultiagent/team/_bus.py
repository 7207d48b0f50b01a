"""The messages that the agents of a team send each other, and who has read what.

Everything is synchronous and takes no time to speak of; it may be called from any thread. Invariants: a message is kept
before anybody is told of it; what an agent has not read is found without a look at anything else; a bus holds a bounded
number of messages of bounded length, so that agents cannot fill the memory by talking to each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ..messages import copy_json_data
from ._handlers import Handlers, Unsubscribe
from ._message import BusMessage, new_message_id
from ._names import BROADCAST, check_name
from ._summary import check_whole

__all__ = ["MAX_CONTENT_BYTES", "MAX_MESSAGES", "MessageBus"]

MAX_MESSAGES = 10_000
"""Messages that a bus holds, unless it is made otherwise."""

MAX_CONTENT_BYTES = 65_536
"""Bytes of a message's content in UTF-8, unless the bus is made otherwise."""

_VERSION = 1


@dataclass(slots=True)
class _Mailbox:
    """What is known of one agent; numbers are positions among all messages."""

    direct: list[int] = field(default_factory=list)
    unread: dict[str, int] = field(default_factory=dict)
    """By id; of the broadcasts only those that were looked at."""
    broadcasts: int = 0
    """How many broadcasts were looked at."""

    def copy(self) -> _Mailbox:
        return _Mailbox(list(self.direct), dict(self.unread), self.broadcasts)


@dataclass(slots=True)
class _Content:
    """What a bus holds; nothing of it depends on who listens."""

    messages: list[BusMessage] = field(default_factory=list)
    broadcasts: list[int] = field(default_factory=list)
    boxes: dict[str, _Mailbox] = field(default_factory=dict)

    def copy(self) -> _Content:
        boxes = {name: box.copy() for name, box in self.boxes.items()}
        return _Content(list(self.messages), list(self.broadcasts), boxes)

    def add(self, message: BusMessage) -> None:
        position = len(self.messages)
        self.messages.append(message)
        if message.is_broadcast:
            self.broadcasts.append(position)
        else:
            box = self.box(message.recipient)
            box.direct.append(position)
            box.unread[message.id] = position

    def box(self, agent: str) -> _Mailbox:
        return self.boxes.setdefault(agent, _Mailbox())

    def up_to_date(self, agent: str) -> _Mailbox:
        """Return a mailbox that has seen all broadcasts: each is looked at once by each agent."""
        box = self.box(agent)
        for position in self.broadcasts[box.broadcasts :]:
            message = self.messages[position]
            if message.sender != agent:
                box.unread[message.id] = position
        box.broadcasts = len(self.broadcasts)
        return box

    def received(self, agent: str) -> Iterator[BusMessage]:
        """Everything that an agent was sent, in order."""
        box = self.boxes.get(agent)
        for position in sorted([*self.broadcasts, *(box.direct if box is not None else ())]):
            message = self.messages[position]
            if not (message.is_broadcast and message.sender == agent):
                yield message


class MessageBus:
    """The messages of a team.

    Args:
        names: The agents that messages can be sent to; anybody unless given.
        max_messages: The most messages that it holds.
        max_content_bytes: The most bytes of a message's content.
        on_message: Called with each message after it was sent.

    Raises:
        ConfigurationError: The names are no list, or a limit is no whole number from 1.
    """

    def __init__(
        self,
        names: Iterable[str] | None = None,
        *,
        max_messages: int = MAX_MESSAGES,
        max_content_bytes: int = MAX_CONTENT_BYTES,
        on_message: Callable[[BusMessage], object] | None = None,
    ) -> None:
        if isinstance(names, str):
            raise ConfigurationError(f"names of a MessageBus must be a list of names, got {shown(names)}")
        check_whole(max_messages, 1, "max_messages of a MessageBus")
        check_whole(max_content_bytes, 1, "max_content_bytes of a MessageBus")
        self._names: Collection[str] | None = None if names is None else dict.fromkeys(names)
        self._max_messages = max_messages
        self._max_content_bytes = max_content_bytes
        self._on_message = on_message
        self._content = _Content()
        self._subscribers = Handlers("messages to")
        self._lock = threading.Lock()

    def send(self, sender: str, recipient: str, content: str) -> BusMessage:
        """Send a message to one agent.

        Args:
            sender: Who sends it; need not be an agent of the team.
            recipient: Name of an agent.
            content: The text.

        Raises:
            ConfigurationError: A name or the content cannot be used, or there is no such agent.
            StoreError: The bus is full (``MESSAGE_LIMIT``).
        """
        self._check_agent(recipient, "recipient")
        return self._post(sender, recipient, content)

    def broadcast(self, sender: str, content: str) -> BusMessage:
        """Send a message to everybody but the sender, those included who come later.

        Args:
            sender: Who sends it; need not be an agent of the team.
            content: The text.

        Raises:
            ConfigurationError: The name or the content cannot be used.
            StoreError: The bus is full (``MESSAGE_LIMIT``).
        """
        return self._post(sender, BROADCAST, content)

    def get_unread(self, agent: str) -> list[BusMessage]:
        """Return what an agent was sent and has not been marked as read, in the order of sending.

        Args:
            agent: The agent.

        Raises:
            ConfigurationError: There is no such agent.
        """
        self._check_agent(agent, "agent")
        with self._lock:
            messages = self._content.messages
            return [messages[position] for position in sorted(self._content.up_to_date(agent).unread.values())]

    def get_all(self, agent: str) -> list[BusMessage]:
        """Return everything that an agent was sent, in the order of sending.

        Args:
            agent: The agent.

        Raises:
            ConfigurationError: There is no such agent.
        """
        self._check_agent(agent, "agent")
        with self._lock:
            return list(self._content.received(agent))

    def mark_read(self, agent: str, message_ids: Iterable[str]) -> None:
        """Take messages for read; ids that are not among the agent's unread ones are left alone.

        Args:
            agent: The agent.
            message_ids: Ids of messages.

        Raises:
            ConfigurationError: There is no such agent, or the ids are no list.
        """
        self._check_agent(agent, "agent")
        if isinstance(message_ids, str):
            raise ConfigurationError(f"message_ids must be a list of ids, got the text {shown(message_ids)}")
        with self._lock:
            unread = self._content.up_to_date(agent).unread
            for message_id in message_ids:
                unread.pop(message_id, None)

    def get_conversation(self, one: str, other: str) -> list[BusMessage]:
        """Return what two have sent to each other, and to nobody else, in the order of sending.

        Args:
            one: One of them.
            other: The other one.
        """
        with self._lock:
            messages, boxes = self._content.messages, self._content.boxes
            found = {
                position
                for sender, recipient in ((one, other), (other, one))
                for position in (boxes[recipient].direct if recipient in boxes else ())
                if messages[position].sender == sender
            }
            return [messages[position] for position in sorted(found)]

    def subscribe(self, agent: str, handler: Callable[[BusMessage], object]) -> Unsubscribe:
        """Have a function called with every message to an agent; returns what ends that.

        Args:
            agent: The agent.
            handler: Called in place by whoever sends, after the message was kept. What it raises is logged.

        Raises:
            ConfigurationError: There is no such agent, or the handler is no plain function.
        """
        self._check_agent(agent, "agent")
        return self._subscribers.add(agent, handler)

    def snapshot(self) -> dict[str, Any]:
        """Return messages and who has read them as plain JSON data."""
        with self._lock:
            content = self._content.copy()
        read = {
            agent: [message.id for message in content.received(agent) if message.id not in box.unread]
            for agent, box in ((agent, content.up_to_date(agent)) for agent in list(content.boxes))
        }
        return {
            "version": _VERSION,
            "messages": [message.to_dict() for message in content.messages],
            "read_state": [{"agent_name": agent, "message_ids": ids} for agent, ids in read.items() if ids],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Replace messages and who has read them; subscriptions stay.

        Args:
            snapshot: What ``snapshot`` returned, possibly after a trip through JSON.

        Raises:
            StoreError: It is broken, of another version (``STORE_VERSION``), or too large; nothing was replaced.
        """
        content = _read_snapshot(snapshot, self._max_messages)
        with self._lock:
            self._content = content

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], names: Iterable[str] | None = None) -> MessageBus:
        """Return a bus with the content of a snapshot, and without subscriptions.

        Args:
            snapshot: What ``snapshot`` returned, possibly after a trip through JSON.
            names: The agents that messages can be sent to; anybody unless given.

        Raises:
            StoreError: It is broken, of another version (``STORE_VERSION``), or too large.
        """
        bus = cls(names)
        bus.restore(snapshot)
        return bus

    def fork(self) -> MessageBus:
        """Return a bus with the same content and no subscriptions; from now on each goes its own way."""
        other = MessageBus(
            self._names,
            max_messages=self._max_messages,
            max_content_bytes=self._max_content_bytes,
            on_message=self._on_message,
        )
        with self._lock:
            other._content = self._content.copy()
        return other

    def _post(self, sender: str, recipient: str, content: str) -> BusMessage:
        check_name(sender, where="sender")
        message = BusMessage(new_message_id(), sender, recipient, self._checked_content(content))
        with self._lock:
            if len(self._content.messages) >= self._max_messages:
                raise StoreError(
                    f"message from {sender!r} to {recipient!r}: the bus holds {self._max_messages:,} messages, "
                    "which is its limit; nothing was sent",
                    code="MESSAGE_LIMIT",
                )
            self._content.add(message)
        for agent in [recipient] if recipient != BROADCAST else self._subscribers.topics():
            if recipient != BROADCAST or agent != sender:
                self._subscribers.tell(agent, message)
        if self._on_message is not None:
            self._on_message(message)
        return message

    def _checked_content(self, content: object) -> str:
        if not isinstance(content, str) or not content.strip():
            raise ConfigurationError(f"content of a message must be a text that is not blank, got {shown(content)}")
        text: str = copy_json_data(content, root="content of a message")
        size = len(text.encode())
        if size > self._max_content_bytes:
            raise ConfigurationError(
                f"content of a message has {size:,} bytes; {self._max_content_bytes:,} at most: send what matters, and "
                "put the rest into shared memory"
            )
        return text

    def _check_agent(self, name: object, what: str) -> None:
        if self._names is None:
            check_name(name, where=what)
        elif not isinstance(name, str) or name not in self._names:
            known = ", ".join(map(repr, self._names)) or "none"
            raise ConfigurationError(f"{what} {shown(name, 150)} is no agent of the team; its agents are: {known}")


def _read_snapshot(snapshot: Any, max_messages: int) -> _Content:
    if not isinstance(snapshot, Mapping) or snapshot.get("version") != _VERSION:
        found = snapshot.get("version") if isinstance(snapshot, Mapping) else type(snapshot).__name__
        raise StoreError(f"snapshot of messages must have version {_VERSION}, got {shown(found)}", code="STORE_VERSION")
    records = _list(snapshot, "messages", "snapshot of messages")
    if len(records) > max_messages:
        raise StoreError(f"snapshot of messages has {len(records):,} messages; {max_messages:,} at most")
    content, ids = _Content(), set()
    for index, record in enumerate(records):
        message = BusMessage.from_dict(record, where=f"messages[{index}]")
        if message.id in ids:
            raise StoreError(f"messages[{index}] has the id {shown(message.id)} of an earlier message")
        ids.add(message.id)
        content.add(message)
    for index, state in enumerate(_list(snapshot, "read_state", "snapshot of messages")):
        agent = state.get("agent_name") if isinstance(state, Mapping) else None
        if not isinstance(agent, str):
            raise StoreError(f"read_state[{index}] must be an object with agent_name and message_ids")
        unread = content.up_to_date(agent).unread
        for message_id in _list(state, "message_ids", f"read_state[{index}]"):
            unread.pop(message_id, None) if isinstance(message_id, str) else None
    return content


def _list(record: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = record.get(key)
    if not isinstance(found, list):
        raise StoreError(f"{where} must have a list of {key}, got {shown(found)}", field=key)
    return found

"""A message between agents of a team."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ..messages import copy_json_data
from ._names import BROADCAST, check_name

__all__ = ["BusMessage", "new_message_id"]

_TEXTS = ("id", "sender", "recipient", "content")


def new_message_id() -> str:
    """Return an id that no other message has."""
    return f"msg_{os.urandom(12).hex()}"


@record
class BusMessage:
    """A message that one agent sent to another, or to all."""

    id: str
    sender: str
    recipient: str
    """Name of the agent that it is for; ``*`` is everybody but the sender."""
    content: str
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it was sent, in UTC."""

    @property
    def is_broadcast(self) -> bool:
        """Whether it is for everybody but the sender."""
        return self.recipient == BROADCAST

    def to_dict(self) -> dict[str, Any]:
        """Return the message as plain JSON data."""
        return {name: getattr(self, name) for name in _TEXTS} | {"timestamp": self.timestamp.isoformat()}

    @staticmethod
    def from_dict(record: Any, *, where: str = "message") -> BusMessage:
        """Make the message that ``to_dict`` described; the record is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.
            where: What the caller calls the record, for the error.

        Raises:
            StoreError: The record is broken; says where.
        """
        if not isinstance(record, Mapping):
            raise StoreError(f"{where} must be an object, got {type(record).__name__}", field=where)
        try:
            return BusMessage(**_fields(record))
        except (ConfigurationError, ValueError) as error:
            raise StoreError(f"{where} is broken: {error}", field=where) from error


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _TEXTS:
        text = record.get(name)
        if not isinstance(text, str) or not text:
            raise ConfigurationError(f"{name} must be a text, got {shown(text)}")
        found[name] = copy_json_data(text, root=name)
    check_name(found["sender"], where="sender")
    if found["recipient"] != BROADCAST:
        check_name(found["recipient"], where="recipient")
    time = record.get("timestamp")
    if not isinstance(time, str):
        raise ConfigurationError(f"timestamp must be a time in ISO form, got {shown(time)}")
    found["timestamp"] = datetime.fromisoformat(time)
    if found["timestamp"].tzinfo is None:
        raise ConfigurationError(f"timestamp {shown(time)} has no time zone")
    return found

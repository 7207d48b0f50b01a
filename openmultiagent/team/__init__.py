"""Teams: agents that know each other, their messages, and what they remember together."""

from ._bus import MAX_CONTENT_BYTES, MAX_MESSAGES, MessageBus
from ._config import TeamConfig
from ._handlers import Handler, Unsubscribe
from ._message import BusMessage
from ._messages_tool import UnreadMessages
from ._names import RESERVED_NAMES, check_agent_name, check_name, name_key
from ._shared_memory import UNSET, SharedMemory, SharedMemoryEntry, Unset
from ._team import Team, TeamRun

__all__ = [
    "MAX_CONTENT_BYTES",
    "MAX_MESSAGES",
    "RESERVED_NAMES",
    "UNSET",
    "BusMessage",
    "Handler",
    "MessageBus",
    "SharedMemory",
    "SharedMemoryEntry",
    "Team",
    "TeamConfig",
    "TeamRun",
    "UnreadMessages",
    "Unset",
    "Unsubscribe",
    "check_agent_name",
    "check_name",
    "name_key",
]

"""How agents of a team write to each other: the tool that sends, and the part of a prompt that tells what came in.

Invariants: only an agent that was granted ``send_message`` can write; a message counts as read when whoever put it into
a prompt says that the work was done, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._record import record
from ..agent import AgentConfig
from ..errors import ConfigurationError, StoreError
from ..tools import SEND_MESSAGE, Tool, ToolContext, ToolResult, error_result
from ._bus import MessageBus
from ._message import BusMessage
from ._names import BROADCAST
from ._summary import MESSAGES_HEADING, message_item

__all__ = ["UnreadMessages", "messages_tool", "unread_messages", "with_messages_tool"]

MAX_SECTION_CHARS = 32_768
"""Characters of messages in one prompt, or the first message; what comes after them stays unread."""


@record
class UnreadMessages:
    """The messages that go into a prompt."""

    text: str
    """The section of the prompt; empty when there is nothing to tell."""
    ids: tuple[str, ...]
    """The messages in it."""
    mark_read: Callable[[], None]
    """Takes exactly these for read; to be called when the work of the prompt was done. A second call does nothing."""


_NOTHING = UnreadMessages("", (), lambda: None)


def unread_messages(bus: MessageBus, agent: str) -> UnreadMessages:
    """Return what an agent has not read yet, as a section of its prompt; nothing is marked as read.

    Args:
        bus: Where the messages are.
        agent: The agent.

    Raises:
        ConfigurationError: There is no such agent.
    """
    waiting = bus.get_unread(agent)
    if not waiting:
        return _NOTHING
    told: list[BusMessage] = []
    lines = [MESSAGES_HEADING]
    size = 0
    for message in waiting:
        item = message_item(message)
        size += len(item)
        if told and size > MAX_SECTION_CHARS:
            lines.append(f"({len(waiting) - len(told)} more will come with the next task)")
            break
        told.append(message)
        lines.append(item)
    ids = tuple(message.id for message in told)
    return UnreadMessages("\n".join(lines), ids, lambda: bus.mark_read(agent, ids))


def with_messages_tool(config: AgentConfig[Any], bus: MessageBus) -> AgentConfig[Any]:
    """Return an agent that, if it was granted ``send_message``, has a tool that works in its place.

    Args:
        config: The agent.
        bus: Where the messages go.
    """
    places = [place for place, item in enumerate(config.tools) if isinstance(item, str) and item == SEND_MESSAGE.name]
    if not places:
        return config
    tools = list(config.tools)
    tools[places[0]] = messages_tool(bus)
    return config.replace(tools=[item for place, item in enumerate(tools) if place not in places[1:]])


def messages_tool(bus: MessageBus) -> Tool:
    """Return the tool ``send_message`` of a run; the sender is the agent that calls.

    Args:
        bus: Where the messages go.
    """

    async def send(arguments: dict[str, Any], context: ToolContext) -> ToolResult | str:
        recipient, content = arguments.get("recipient"), arguments.get("content")
        if recipient == context.agent:
            return error_result("recipient is you; name another member of your team")
        try:
            if recipient == BROADCAST:
                bus.broadcast(context.agent, content)  # type: ignore[arg-type]  # the bus checks it
                return "sent to everybody"
            bus.send(context.agent, recipient, content)  # type: ignore[arg-type]  # the bus checks it
        except (ConfigurationError, StoreError) as error:
            return error_result(f"nothing was sent: {error}")
        return f"sent to {recipient}"

    return replace(SEND_MESSAGE, execute=send)

"""Built-in tools of agents that work in a team.

What is here is what the model is told of them. A run of a team puts tools of its own in their place, which have the
same definition; nobody is offered these themselves, so an agent that runs alone does not see them.
"""

from __future__ import annotations

from typing import Any

from ._context import ToolContext
from ._result import ToolResult, error_result
from ._tool import Tool

__all__ = ["DELEGATE_TO_AGENT", "SEND_MESSAGE", "is_team_placeholder"]


async def _no_team(arguments: dict[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - what a tool takes
    return error_result(f"{context.tool_name} works within a run of a team only; there is nobody else here")


SEND_MESSAGE = Tool(
    "send_message",
    description=(
        "Send a message to a member of your team, who reads it when it begins its next task. "
        "There is no answer to wait for. Send what others need to know, not the result of your own task."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "recipient": {
                "type": "string",
                "description": "Name of the team member, or * for everybody.",
            },
            "content": {"type": "string", "description": "The message."},
        },
        "required": ["recipient", "content"],
        "additionalProperties": False,
    },
    execute=_no_team,
)
"""Lets an agent write to the others of its team."""

DELEGATE_TO_AGENT = Tool(
    "delegate_to_agent",
    description=(
        "Give a part of your work to a member of your team who is better suited for it, and wait for the answer. "
        "The other one knows nothing of your conversation: the prompt must hold all that is needed."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "target_agent": {"type": "string", "minLength": 1, "description": "Name of the team member."},
            "prompt": {"type": "string", "minLength": 1, "description": "What is to be done, in full."},
        },
        "required": ["target_agent", "prompt"],
        "additionalProperties": False,
    },
    execute=_no_team,
)
"""Lets an agent have another one of its team do a part of its work."""


def is_team_placeholder(tool: Tool) -> bool:
    """Whether a tool only stands for one that a run of a team puts in its place.

    Args:
        tool: A tool.
    """
    return tool.execute is _no_team

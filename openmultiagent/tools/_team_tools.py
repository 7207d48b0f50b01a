"""Built-in tools of agents that work in a team.

What is here is what the model is told of them. Outside a team they fail with a text that says so; a run of a team puts
tools of its own in their place, which have the same definition.
"""

from __future__ import annotations

from typing import Any

from ._context import ToolContext
from ._result import ToolResult, error_result
from ._tool import Tool

__all__ = ["SEND_MESSAGE"]


async def _no_team(arguments: dict[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - what a tool takes
    return error_result(f"{context.tool_name} works within a run of a team only; there is nobody to write to here")


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

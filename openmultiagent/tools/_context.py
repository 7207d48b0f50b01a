"""What a running tool is told about the call that it serves.

It is no way back into the run: nothing here can change the conversation, the budget or other calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .._record import record

__all__ = ["ToolContext"]


@record(kw_only=True)
class ToolContext:
    """The call that a tool runs for.

    A tool gets it by having a parameter with this annotation, whatever the parameter's name; the model is not told
    about that parameter. Every field has a default, so that a test may call a tool with ``ToolContext()``.
    """

    agent: str = ""
    """Name of the agent that called."""
    run_id: str = ""
    """The run that the call belongs to."""
    tool_call_id: str = ""
    """The model's id of the call; the same again when an interrupted call is repeated, so it serves as idempotency
    key."""
    tool_name: str = ""
    """The name that the tool was called by."""
    turn: int = 0
    """The turn of the run, counted from 1; 0 outside a run."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The metadata of the run, as its caller gave it."""

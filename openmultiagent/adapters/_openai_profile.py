"""What a server does otherwise than OpenAI's own: data, so that another vendor needs no code.

Invariant: the default profile is OpenAI's "Chat Completions" as it is documented.
"""

from __future__ import annotations

from typing import Literal

from .._record import record

__all__ = ["OpenAIProfile"]


@record(kw_only=True)
class OpenAIProfile:
    """How a server departs from the OpenAI chat protocol."""

    echoes_reasoning: Literal["never", "tool-use-only"] = "never"
    """Whether the server wants its own reasoning back, as ``reasoning_content``, in conversations with tool calls."""
    thinking: Literal["thinking", "enable_thinking"] | None = None
    """How reasoning is switched on and off: ``"thinking": {"type": "enabled"}``, or ``"enable_thinking": true`` with
    ``thinking_budget``. None for servers that have no switch."""
    efforts: frozenset[str] = frozenset({"low", "medium", "high"})
    """The values of ``ThinkingConfig.effort`` that are sent, as ``reasoning_effort``."""
    structured_output: Literal["json_schema", "json_object"] | None = "json_schema"
    """How an output schema is sent: OpenAI's form, the older ``{"type": "json_object", "schema": ...}``, or not at all
    for servers that would refuse or ignore it."""
    strict_schemas: bool = True
    """Whether a schema must be of OpenAI's strict kind; other servers take any schema."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """Where the limit of the answer goes; chosen by the name of the model when it is None."""
    seed_field: str = "seed"
    """The server's name for the seed."""
    unsent: frozenset[str] = frozenset()
    """Fields that the server refuses, by their names in a request; ``extra_body`` can still send them."""
    takes_extra_body: bool = True
    """Whether the caller may add fields."""
    usage_on_request: bool = True
    """Whether a stream must be asked for its usage; other servers tell it by themselves, and may refuse to be asked."""

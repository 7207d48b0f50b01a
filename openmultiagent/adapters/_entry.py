"""What every adapter does with a conversation before it is encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..messages import (
    Conversation,
    HistoryDialect,
    LLMMessage,
    coerce_messages,
    normalize_for_provider,
    require_valid_history,
)
from ._protocol import LLMChatOptions

__all__ = ["enter"]


def enter(
    messages: Sequence[LLMMessage | Mapping[str, Any]], options: LLMChatOptions, dialect: HistoryDialect
) -> tuple[str | None, list[LLMMessage]]:
    """Return the system text and the turns of a call, checked.

    A run's own ``Conversation`` has been validated as it grew; of its history only what is new is checked. A list that
    somebody hands to an adapter directly is sent as it is, unless the options ask for the check.

    Args:
        messages: The conversation; only read.
        options: The system prompt, and whether the history is checked.
        dialect: Whose rules a history has to keep.

    Raises:
        InvalidMessageError: The conversation is not valid, or the provider would refuse its history.
    """
    checked = messages if isinstance(messages, Conversation) else coerce_messages(messages)
    entered = normalize_for_provider(checked, options.system_prompt)
    if isinstance(messages, Conversation) if options.check_history is None else options.check_history:
        require_valid_history(checked, dialect)
    return entered

"""A user's own way with the context."""

from __future__ import annotations

import inspect

from ...errors import InvalidMessageError, RunError
from ...messages import Conversation, LLMMessage, Role, check_history, coerce_messages, copy_messages
from ._specs import CustomContext
from ._steps import AskModel, Outgoing
from ._working_copy import WorkingCopy

__all__ = ["CustomStep"]

_PAIRING = frozenset({"unanswered_call", "unknown_result", "misplaced_result", "duplicate_result"})


class CustomStep:
    """Asks the user's function, and goes on from what it returned.

    Args:
        strategy: The specification.
        agent: Name of the agent, for errors.
    """

    def __init__(self, strategy: CustomContext, agent: str) -> None:
        self._compress = strategy.compress
        self._agent = agent

    async def outgoing(self, view: WorkingCopy, ask: AskModel) -> Outgoing | None:  # noqa: ARG002 - the protocol
        """Return what the function wants to be sent.

        Args:
            view: The working copy; holds what the function returned from now on.
            ask: Not needed.

        Raises:
            RunError: The function returned something that cannot be sent.
        """
        returned = self._compress(copy_messages(view.messages), view.whole(view.total))
        if inspect.isawaitable(returned):
            returned = await returned
        view.rebase(self._checked(returned))
        return None

    def _checked(self, returned: object) -> list[LLMMessage]:
        what = f"agent {self._agent!r}: context_strategy.compress"
        try:
            messages = coerce_messages(returned, root="compress")
        except InvalidMessageError as error:
            raise RunError(f"{what} must return a list of messages: {error}") from error
        if not any(message.role in (Role.USER, Role.TOOL) for message in messages):
            raise RunError(f"{what} must return at least one user message: keep the prompt")
        # Of the protocols, the one that minds least what stands between a call and its result.
        for fault in check_history(Conversation(messages), dialect="anthropic"):
            if fault.code in _PAIRING:
                raise RunError(f"{what} parted a tool call from its result: {fault.message}; {fault.repair}")
        return messages

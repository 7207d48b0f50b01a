"""Requests for tests: what an adapter's encoder makes of a conversation, read back."""

import inspect
import json
from collections.abc import Callable
from typing import Any

from openmultiagent.adapters import LLMChatOptions
from openmultiagent.messages import LLMMessage

HI = [LLMMessage.user("Hi")]


class Requests:
    """Makes requests of one protocol.

    Args:
        encode: The encoder: ``encode(messages, options, **arguments)``.
        model: The model that is asked.
        turns: The key of the turns in a body.
        parts: The key of the parts in a turn.
        arguments: What the encoder is given unless a call says otherwise.
    """

    def __init__(
        self,
        encode: Callable[..., bytes],
        *,
        model: str,
        turns: str = "messages",
        parts: str = "content",
        **arguments: Any,
    ) -> None:
        self._encode = encode
        self._model = model
        self._turns = turns
        self._parts = parts
        self._arguments = arguments
        self._own = inspect.signature(encode).parameters.keys()

    def body(self, *messages: Any, model: str | None = None, **options: Any) -> dict[str, Any]:
        """Return the body of a request, read back.

        Args:
            messages: The messages, or one sequence that is the conversation; by default a greeting.
            model: Another model.
            options: Arguments of the encoder, and options of the call.
        """
        whole = len(messages) == 1 and not isinstance(messages[0], LLMMessage)
        given = (messages[0] if whole else list(messages)) if messages else HI
        own = {name: options.pop(name) for name in self._own & options.keys()}
        chosen = LLMChatOptions(model=self._model if model is None else model, **options)
        made: dict[str, Any] = json.loads(self._encode(given, chosen, **{**self._arguments, **own}))
        return made

    def turns(self, *messages: Any, **options: Any) -> list[dict[str, Any]]:
        """Return the turns of a request.

        Args:
            messages: As for ``body``.
            options: As for ``body``.
        """
        made: list[dict[str, Any]] = self.body(*messages, **options)[self._turns]
        return made

    def parts(self, *blocks: Any, role: str = "user", **options: Any) -> list[dict[str, Any]]:
        """Return the parts of the first turn of a conversation that is one message.

        Args:
            blocks: The blocks.
            role: The message's role.
            options: As for ``body``.
        """
        turn = self.turns(LLMMessage.new(role, list(blocks)), **options)[0]
        made: list[dict[str, Any]] = turn[self._parts]
        return made

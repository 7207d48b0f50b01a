"""One model call as a middleware sees it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..messages import LLMMessage, copy_messages
from ._protocol import LLMChatOptions, LLMResponse, StreamEvent

__all__ = ["ModelCall", "ModelMiddleware", "ModelNext", "StreamSink"]


class StreamSink(Protocol):
    """Where the pieces of an answer go while it is being written."""

    async def begin(self) -> None:
        """Say that a call starts: what an earlier call for the same answer has delivered is void."""
        ...

    async def deliver(self, event: StreamEvent) -> None:
        """Pass on one piece.

        Args:
            event: A step of the stream, but not its last.
        """
        ...


class ModelCall:
    """A model call on its way to the adapter.

    A middleware gets a call of its own. ``messages`` and ``options`` are copies made when they are first read; changing
    them changes nothing unless the call is passed on (``call_next(call)``) or rewritten with ``replace``.
    """

    __slots__ = (
        "_messages",
        "_options",
        "_own_options",
        "_source",
        "agent",
        "id",
        "phase",
        "provider",
        "run_id",
        "sink",
        "turn",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the fields of one record
        self,
        id: str,  # noqa: A002 - the word that users look for
        run_id: str,
        agent: str,
        turn: int,
        phase: str,
        provider: str,
        messages: Sequence[LLMMessage],
        options: LLMChatOptions,
        sink: StreamSink | None = None,
    ) -> None:
        self.id = id
        """Deterministic: the same call of the same run has the same id when the run is repeated."""
        self.run_id = run_id
        self.agent = agent
        self.turn = turn
        """Model calls of the run so far, this one included."""
        self.phase = phase
        """What the call is for: ``agent``, ..."""
        self.provider = provider
        """Name of the adapter."""
        self.sink = sink
        self._source = messages
        self._options = options
        # What this call's holder has looked at, and may have changed.
        self._messages: list[LLMMessage] | None = None
        self._own_options: LLMChatOptions | None = None

    @property
    def messages(self) -> list[LLMMessage]:
        """This call's own copy of the conversation."""
        if self._messages is None:
            self._messages = copy_messages(self._source)
        return self._messages

    @messages.setter
    def messages(self, messages: list[LLMMessage]) -> None:
        self._messages = messages

    @property
    def options(self) -> LLMChatOptions:
        """This call's own copy of the options."""
        if self._own_options is None:
            self._own_options = copy_options(self._options)
        return self._own_options

    @options.setter
    def options(self, options: LLMChatOptions) -> None:
        self._own_options = options

    @property
    def source(self) -> Sequence[LLMMessage]:
        """The conversation as it will be sent, uncopied: to be read, never changed or kept."""
        return self._source if self._messages is None else self._messages

    @property
    def source_options(self) -> LLMChatOptions:
        """The options as they will be sent, uncopied: to be read, never changed or kept."""
        return self._options if self._own_options is None else self._own_options

    def fork(self) -> ModelCall:
        """Return an independent call; what this call's holder has looked at is copied, the rest is shared unread."""
        return self.replace()

    def replace(
        self, *, messages: Sequence[LLMMessage] | None = None, options: LLMChatOptions | None = None
    ) -> ModelCall:
        """Return the call with other messages or options, to pass on; it is independent of this one.

        Args:
            messages: The conversation to send; the call makes its own copy.
            options: The options to send; the call makes its own copy.
        """
        # Only what this call's holder has looked at can be changed by it.
        messages = self._messages if messages is None else messages
        options = self._own_options if options is None else options
        return ModelCall(
            self.id,
            self.run_id,
            self.agent,
            self.turn,
            self.phase,
            self.provider,
            self._source if messages is None else copy_messages(messages),
            self._options if options is None else copy_options(options),
            self.sink,
        )

    def __repr__(self) -> str:
        return f"<ModelCall {self.id!r} agent={self.agent!r} messages={len(self.source)}>"


def copy_options(options: LLMChatOptions) -> LLMChatOptions:
    """Return options that share nothing mutable with the given ones.

    Args:
        options: The options to copy.
    """
    if not options.tools and options.stop is None and options.extra_body is None and options.output_schema is None:
        return options  # frozen, and so is all that it holds
    return replace(
        options,
        tools=tuple(replace(tool, input_schema=_copy_schema(tool.input_schema)) for tool in options.tools),
        stop=None if options.stop is None else tuple(options.stop),
        output_schema=None if options.output_schema is None else _copy_schema(options.output_schema),
        extra_body=None if options.extra_body is None else copy.deepcopy(dict(options.extra_body)),
    )


def _copy_schema(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_schema(item) for key, item in value.items()}
    return [_copy_schema(item) for item in value] if isinstance(value, list) else copy.deepcopy(value)


ModelNext = Callable[[ModelCall], Awaitable[LLMResponse]]
"""The rest of the way to the adapter."""
ModelMiddleware = Callable[[ModelCall, ModelNext], Awaitable[LLMResponse]]
"""Advice around a model call: ``async def middleware(call, call_next)``, with ``await call_next(call)``."""

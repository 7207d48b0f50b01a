"""An adapter that asks the next model when one fails in passing, and tells what it tried.

Not here: waiting and asking the same model again, which the adapters' own transports do first. Invariant: an answer
comes from one model: once a piece of a streamed answer was delivered, no other model is asked.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from typing import Any, Self

import anyio

from .._record import record
from .._shown import shown
from ..errors import AdapterError, ConfigurationError, LLMCallTimeoutError, LLMProtocolError
from ..messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock, copy_blocks, copy_messages
from ._fallback_trail import Failure, FallbackResponse, Trail
from ._owner import close_adapter
from ._protocol import AdapterCapabilities, LLMAdapter, LLMChatOptions, LLMResponse, StreamEvent

__all__ = ["FallbackAdapter", "FallbackEntry"]


@record
class FallbackEntry:
    """A model to ask."""

    adapter: LLMAdapter
    model: str | None = None
    """What to ask the adapter for; the model of the call unless given."""


class FallbackAdapter:
    """An adapter that asks one model after the other, until one answers.

    It moves on when a call fails with an ``AdapterError`` that is ``retryable`` (the connection, 408, 409, 429, 5xx, an
    answer that breaks off) or takes longer than ``attempt_timeout``. Everything else goes through at once: invalid
    messages, a wrong configuration, a refused key, a bad request, a policy, cancellation. A stream moves on before its
    first piece only; later failures go through.

    A model that an entry does not name is the one of the call, so entries of several providers need theirs:
    ``FallbackAdapter([(openai, "gpt-5"), (anthropic, "claude-sonnet-4-5")])``. Adapters try again by themselves before
    they fail: ``TransportOptions(max_retries=0)`` makes one give way at once.

    Args:
        entries: Adapters, ``(adapter, model)`` or ``FallbackEntry``, in the order in which they are asked.
        name: The adapter's name.
        attempt_timeout: Seconds that a model may take for its whole answer, or in a stream for the first piece.
        cool_down: Seconds during which a model that has failed is asked last. None is left out altogether.
        owned: Whether ``aclose`` closes the adapters, too; else that is up to whoever made them.
        clock: Returns seconds, for the cool-down.

    Raises:
        ConfigurationError: There is no entry, one is none or is a ``FallbackAdapter``, or a time is senseless.
    """

    def __init__(
        self,
        entries: Sequence[LLMAdapter | tuple[LLMAdapter, str | None] | FallbackEntry],
        *,
        name: str = "fallback",
        attempt_timeout: float | None = None,
        cool_down: float | None = None,
        owned: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._links = _checked_links(entries)
        self.capabilities = _weakest([link.capabilities for link in self._links])
        """What callers may rely on, whoever answers."""
        self._attempt_timeout = math.inf if attempt_timeout is None else _seconds("attempt_timeout", attempt_timeout)
        self._cool_down = None if cool_down is None else _seconds("cool_down", cool_down)
        self._owned = owned
        self._clock = clock

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> FallbackResponse:
        """Return the answer of the first model that has one.

        Args:
            messages: The conversation; adapters that may change it get copies.
            options: Everything else about the call; its model is for the entries that name none.

        Raises:
            InvalidMessageError: The conversation is not valid.
            ConfigurationError: The call cannot be made as it is.
            AdapterError: The first model failed for good.
            FallbackError: All of them failed, or a later one failed for good.
        """
        trail = Trail(self.name)
        for link in self._order():
            asked = link.options(options)
            try:
                response = await self._chat_once(link, messages, asked)
            except (AdapterError, LLMCallTimeoutError) as error:
                trail.add(link.adapter.name, asked, error)
                moves_on = self._moves_on(link, error)
            else:
                return trail.answer(link.adapter.name, asked, response)
            if not moves_on:
                raise trail.verdict()
        raise trail.exhausted()

    async def stream(
        self, messages: Sequence[LLMMessage], options: LLMChatOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the first model that begins to answer; iterate to the end, or call ``aclose``.

        Args:
            messages: The conversation; adapters that may change it get copies.
            options: Everything else about the call; its model is for the entries that name none.

        Raises:
            InvalidMessageError: The conversation is not valid.
            ConfigurationError: The call cannot be made as it is. The failures of models are ``error`` events.
        """
        trail = Trail(self.name)
        for link in self._order():
            asked = link.options(options)
            begun = False
            async with aclosing(self._events(link, messages, asked)) as events:
                async for event in events:
                    if event.type in ("done", "error"):
                        break
                    begun = True
                    yield event
            if isinstance(event.data, LLMResponse):
                yield StreamEvent("done", trail.answer(link.adapter.name, asked, event.data))
                return
            if not isinstance(event.data, Failure):
                yield event
                return
            trail.add(link.adapter.name, asked, event.data)
            if not self._moves_on(link, event.data) or begun:
                yield StreamEvent("error", trail.verdict())
                return
        yield StreamEvent("error", trail.exhausted())

    async def aclose(self) -> None:
        """Close the adapters if they are owned; else do nothing."""
        if not self._owned:
            return
        adapters = {id(link.adapter): link.adapter for link in self._links}
        async with anyio.create_task_group() as group:
            for adapter in adapters.values():
                group.start_soon(close_adapter, adapter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(map(str, self._links))}])"

    def _order(self) -> list[_Link]:
        if self._cool_down is None:
            return self._links
        now = self._clock()
        return sorted(self._links, key=lambda link: link.resting_until > now)  # stable: otherwise as given

    def _moves_on(self, link: _Link, error: Failure) -> bool:
        passing = isinstance(error, LLMCallTimeoutError) or error.retryable
        if passing and self._cool_down is not None:
            link.resting_until = self._clock() + self._cool_down
        return passing

    async def _chat_once(self, link: _Link, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        with anyio.move_on_after(self._attempt_timeout):
            return await link.chat(messages, options)
        raise LLMCallTimeoutError(timeout=self._attempt_timeout)

    async def _events(
        self, link: _Link, messages: Sequence[LLMMessage], options: LLMChatOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of one model; there is a ``done`` or an ``error``, at which the caller stops."""
        try:
            async with _closing(link.stream(messages, options)) as events:
                following = await self._first(events)
                while following is not None:
                    if following.type == "done":
                        link.checked(following.data)
                    yield following
                    following = await anext(events, None)
            text = f"the stream of {link.adapter.name} ended without its last event"
            raise LLMProtocolError(text, provider=link.adapter.name)
        except (AdapterError, LLMCallTimeoutError) as error:
            yield StreamEvent("error", error)

    async def _first(self, events: AsyncIterator[StreamEvent]) -> StreamEvent | None:
        # The scope is closed before anything is yielded.
        with anyio.move_on_after(self._attempt_timeout):
            return await anext(events, None)
        raise LLMCallTimeoutError(timeout=self._attempt_timeout)


class _Link:
    """An entry in use."""

    __slots__ = ("adapter", "capabilities", "model", "resting_until")

    def __init__(self, entry: FallbackEntry) -> None:
        self.adapter = entry.adapter
        self.model = entry.model
        self.capabilities: AdapterCapabilities = getattr(entry.adapter, "capabilities", None) or AdapterCapabilities()
        self.resting_until = -math.inf

    def __str__(self) -> str:
        return self.adapter.name if self.model is None else f"{self.adapter.name} {shown(self.model)}"

    def options(self, options: LLMChatOptions) -> LLMChatOptions:
        return options if self.model is None else replace(options, model=self.model)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return self.checked(await self.adapter.chat(self._own(messages), options))

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        stream = getattr(self.adapter, "stream", None)
        if stream is None:
            return self._in_one_piece(messages, options)
        events: AsyncIterator[StreamEvent] = stream(self._own(messages), options)
        return events

    def checked(self, response: object) -> LLMResponse:
        if isinstance(response, LLMResponse):
            return response
        name = self.adapter.name
        text = f"adapter {shown(name)} must return an LLMResponse, got {shown(response)}"
        raise LLMProtocolError(text, provider=name, retryable=False)

    async def _in_one_piece(
        self, messages: Sequence[LLMMessage], options: LLMChatOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        for event in _pieces_of(await self.chat(messages, options)):
            yield event

    def _own(self, messages: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
        # What one adapter does to its messages must not reach the next.
        return messages if self.capabilities.read_only else copy_messages(messages)


def _checked_links(entries: object) -> list[_Link]:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ConfigurationError(f"FallbackAdapter.entries must be a list of adapters, got {type(entries).__name__}")
    if not entries:
        raise ConfigurationError("FallbackAdapter.entries is empty; give it at least one adapter")
    return [_Link(_checked_entry(entry, f"FallbackAdapter.entries[{index}]")) for index, entry in enumerate(entries)]


def _checked_entry(value: Any, where: str) -> FallbackEntry:
    if isinstance(value, tuple) and len(value) == 2:
        value = FallbackEntry(*value)
    entry = value if isinstance(value, FallbackEntry) else FallbackEntry(value)
    adapter: Any = entry.adapter
    if isinstance(adapter, FallbackAdapter):
        raise ConfigurationError(f"{where} is a FallbackAdapter itself; list its entries here instead")
    if isinstance(adapter, type) or not isinstance(adapter, LLMAdapter):
        raise ConfigurationError(
            f"{where} must be an adapter, (adapter, model) or a FallbackEntry, got {type(adapter).__name__}"
        )
    model: Any = entry.model
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise ConfigurationError(f"{where}: the model must be a name, or None for the model of the call")
    return entry


def _seconds(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ConfigurationError(f"FallbackAdapter.{what} must be a number of seconds above 0, got {shown(value)}")
    return float(value)


def _weakest(capabilities: Sequence[AdapterCapabilities]) -> AdapterCapabilities:
    echoes = {item.echoes_reasoning for item in capabilities}
    return AdapterCapabilities(
        read_only=all(item.read_only for item in capabilities),
        structured_output=all(item.structured_output for item in capabilities),
        echoes_reasoning=echoes.pop() if len(echoes) == 1 else "never",
    )


def _pieces_of(response: LLMResponse) -> Iterator[StreamEvent]:
    """Yield the events of an answer that came in one piece."""
    for block in response.content:
        if isinstance(block, TextBlock):
            yield StreamEvent("text", block.text)
        elif isinstance(block, ReasoningBlock):
            yield StreamEvent("reasoning", block.text)
        elif isinstance(block, ToolUseBlock):
            (copied,) = copy_blocks([block])
            yield StreamEvent("tool_use", copied)  # type: ignore[arg-type]  # a tool block's copy is one
    yield StreamEvent("done", response)


def _closing(events: Any) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
    return aclosing(events) if hasattr(events, "aclose") else nullcontext(events)

"""What the checks of adapters are made of: the adapter under test, a check, and how one fails.

Not here: the checks. Invariant: a check makes its adapter and its server itself and closes both, so that checks can run
in any order and at the same time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY
from typing import TypeVar

import anyio

from ..._record import record
from ...adapters import LLMAdapter, LLMChatOptions, LLMResponse, StreamEvent, StreamingAdapter, close_adapter
from ...messages import LLMMessage
from .._fake_server import FakeProviderServer
from .._served import FakeRequest, ServerReply, ServerResponse

__all__ = ["API_KEY", "AdapterRig", "Check", "ConformanceError", "MakeAdapter", "Rigged", "check", "expect", "raised"]

E = TypeVar("E", bound=BaseException)

API_KEY = "sk-conformance-0123456789abcdef"
"""The key that the adapters under test are to be made with; nothing that they tell may contain it."""

MakeAdapter = Callable[[FakeProviderServer], LLMAdapter]
"""Makes an adapter that talks to a server, with ``API_KEY`` as its key and without retries."""

_SECONDS = 30.0
"""How long a check may take."""


class ConformanceError(AssertionError):
    """An adapter does not do what adapters do, or a store what stores do."""


@record
class AdapterRig:
    """An adapter under test."""

    make: MakeAdapter
    """Makes it. A check may make several."""
    _: KW_ONLY
    model: str = "test-model"
    """The model that is asked."""
    against_server: bool = True
    """Whether the adapter talks to the server that it is made with, in a protocol that the server speaks. If not, only
    the checks are made that need no particular answer."""
    patience: float = 10.0
    """Seconds within which the server must see that an adapter has closed a connection."""

    @asynccontextmanager
    async def up(
        self,
        responses: Sequence[ServerReply] | Callable[[FakeRequest], ServerResponse],
        *,
        strict: bool = False,
    ) -> AsyncIterator[Rigged]:
        """Start a server, make an adapter that talks to it, and close both at the end.

        Args:
            responses: What the server answers.
            strict: Whether the server refuses what the real provider would.
        """
        async with FakeProviderServer(responses, strict=strict) as server:
            adapter = self.make(server)
            try:
                yield Rigged(adapter, server, self.model)
            finally:
                with anyio.CancelScope(shield=True):
                    await close_adapter(adapter)


class Rigged:
    """An adapter and the server that it talks to.

    Args:
        adapter: The adapter.
        server: The server.
        model: The model that is asked.
    """

    def __init__(self, adapter: LLMAdapter, server: FakeProviderServer, model: str) -> None:
        self.adapter, self.server = adapter, server
        self.options = LLMChatOptions(model=model)

    @property
    def streaming(self) -> StreamingAdapter | None:
        """The adapter, if it can stream."""
        return self.adapter if isinstance(self.adapter, StreamingAdapter) else None

    async def chat(self, text: str = "Hello") -> LLMResponse:
        """Return the answer to a message.

        Args:
            text: The message.
        """
        return await self.adapter.chat([LLMMessage.user(text)], self.options)

    async def stream(self, text: str = "Hello") -> list[StreamEvent]:
        """Return the events of the answer to a message; none when the adapter cannot stream.

        Args:
            text: The message.
        """
        if self.streaming is None:
            return []
        return [event async for event in self.streaming.stream([LLMMessage.user(text)], self.options)]


@record
class Check:
    """One thing that every adapter does; call it with the adapter under test."""

    name: str
    """What the adapter does, as the name of a test would say it."""
    run: Callable[[AdapterRig], Awaitable[None]]
    needs_server: bool
    """Whether it needs an adapter that talks to the server."""

    async def __call__(self, rig: AdapterRig) -> None:
        """Make the check; nothing happens when it does not apply.

        Args:
            rig: The adapter under test.

        Raises:
            ConformanceError: The adapter fails it.
        """
        if self.needs_server and not rig.against_server:
            return
        try:
            with anyio.fail_after(_SECONDS):
                await self.run(rig)
        except ConformanceError as error:
            raise ConformanceError(f"{self.name}: {error}") from error
        except Exception as error:
            raise ConformanceError(f"{self.name}: {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        return self.name


def check(*, needs_server: bool = True) -> Callable[[Callable[[AdapterRig], Awaitable[None]]], Check]:
    """Make a function a check, which has the function's name.

    Args:
        needs_server: Whether it needs an adapter that talks to the server.
    """

    def made(run: Callable[[AdapterRig], Awaitable[None]]) -> Check:
        return Check(run.__name__, run, needs_server)

    return made


def expect(condition: object, text: str) -> None:
    """Fail unless something is so.

    Args:
        condition: What must be true.
        text: What is wrong otherwise.

    Raises:
        ConformanceError: It is not.
    """
    if not condition:
        raise ConformanceError(text)


async def raised(kind: type[E], call: Callable[[], Awaitable[object]], when: str) -> E:
    """Return the error that a call raises.

    Args:
        kind: The type that it must be of.
        call: The call.
        when: In which case, for the failure.

    Raises:
        ConformanceError: It raises none, or another.
    """
    try:
        result = await call()
    except kind as error:
        return error
    except Exception as error:
        raise ConformanceError(f"{when}: {type(error).__name__} instead of {kind.__name__}: {error}") from error
    raise ConformanceError(f"{when}: {result!r:.200} instead of {kind.__name__}")

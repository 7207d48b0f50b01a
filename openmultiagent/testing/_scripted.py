"""An adapter that answers from a script, for tests without a model.

It keeps the rules of a real adapter: it checks the conversation before anything else, never changes it, and ends every
stream with exactly one ``done`` or ``error``. Invariant: responses are handed out in the order of the calls, each to
one call, also when calls are made at the same time or from several threads.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Self, cast

import anyio

from .._record import record
from ..adapters import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent, copy_options
from ..errors import AdapterError, ConfigurationError
from ..messages import LLMMessage, coerce_messages, copy_messages
from ._script import (
    Reply,
    Response,
    Scripted,
    ScriptExhaustedError,
    answer_of,
    check_response,
    pieces_of,
    scripted,
)

__all__ = ["ScriptedAdapter", "ScriptedCall", "ScriptedStream"]


@record
class ScriptedCall:
    """A model call as the adapter got it: copies that nobody else holds."""

    messages: list[LLMMessage]
    options: LLMChatOptions


class ScriptedAdapter:
    """An adapter that gives the responses of a script, one for each call.

    A response is a ``str``, a list of content blocks, an ``LLMResponse``, an exception to raise, a ``Scripted``, which
    says how it is delivered, or a callable ``(messages, options)`` that returns one of these, sync or async. ``str``
    and blocks report no usage, which is "unknown"; their stop reason is ``tool_use`` with a tool call, else
    ``end_turn``.

    Args:
        responses: The responses in the order of the calls, or one callable that serves every call.
        name: The adapter's name.
        capabilities: What callers may rely on; the adapter itself never changes what it is sent.

    Raises:
        ConfigurationError: A response is none.
    """

    def __init__(
        self,
        responses: Sequence[Reply] | Callable[[list[LLMMessage], LLMChatOptions], Response | Awaitable[Response]],
        *,
        name: str = "scripted",
        capabilities: AdapterCapabilities | None = None,
    ) -> None:
        self.name = name
        self.capabilities = AdapterCapabilities(read_only=True) if capabilities is None else capabilities
        self.calls: list[ScriptedCall] = []
        """The calls so far, in their order; calls with an invalid conversation are none."""
        self._lock = threading.Lock()
        self._every: Reply | None = None
        self._responses: list[Reply] = []
        if callable(responses):
            self._every = responses
            return
        if isinstance(responses, str) or not isinstance(responses, Sequence):
            raise ConfigurationError(
                f"ScriptedAdapter.responses must be a list of responses or a callable, got {type(responses).__name__}; "
                "put a single response into a list"
            )
        for index, response in enumerate(responses):
            if not callable(response):
                check_response(response, f"responses[{index}]")
        self._responses.extend(responses)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        """Return the next response.

        Args:
            messages: The conversation; it is checked, recorded and not changed.
            options: Everything else about the call; recorded.

        Raises:
            InvalidMessageError: The conversation is not valid; no response is used up.
            ScriptExhaustedError: There is no response left.
            Exception: Whatever the script says.
        """
        script, answer = await self._next(coerce_messages(messages), options)
        await anyio.sleep(script.delay)
        failure = script.failure(self.name)
        if failure is not None:
            raise failure[1]
        return answer

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> ScriptedStream:
        """Return the next response piece by piece; the call is made by the first step.

        Args:
            messages: The conversation; it is checked, recorded and not changed.
            options: Everything else about the call; recorded.

        Raises:
            InvalidMessageError: The conversation is not valid; raised by the first step, no response is used up.
        """
        return ScriptedStream(lambda: self._begin(messages, options))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    async def _begin(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> Iterator[_Step]:
        checked = coerce_messages(messages)
        try:
            script, answer = await self._next(checked, options)
        except AdapterError as error:  # anything else that a function raises is a fault of the test
            return iter([_Step(StreamEvent("error", error))])
        return _steps(script, answer, self.name)

    async def _next(self, messages: list[LLMMessage], options: LLMChatOptions) -> tuple[Scripted, LLMResponse]:
        """Record the call and return its response and the answer in it, which is unfinished when the response fails."""
        call = ScriptedCall(messages, copy_options(options))
        with self._lock:
            self.calls.append(call)
            number = len(self.calls)
        reply = self._every
        if reply is None:
            if number > len(self._responses):
                raise ScriptExhaustedError(responses=len(self._responses), call=number, provider=self.name)
            reply = self._responses[number - 1]
        script = scripted(await _made(reply, call, number))
        return script, answer_of(script, id=f"{self.name}-{number}", model=options.model)


class ScriptedStream:
    """The events of one scripted answer; it holds nothing open, so it may be dropped at any time.

    Args:
        begin: Makes the call.
    """

    def __init__(self, begin: Callable[[], Awaitable[Iterator[_Step]]]) -> None:
        self._begin: Callable[[], Awaitable[Iterator[_Step]]] | None = begin
        self._steps: Iterator[_Step] = iter(())

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> StreamEvent:
        begin, self._begin = self._begin, None
        if begin is not None:
            self._steps = await begin()
        step = next(self._steps, None)
        if step is None:
            raise StopAsyncIteration
        await anyio.sleep(step.delay)
        return step.event

    async def aclose(self) -> None:
        """End the stream."""
        self._begin, self._steps = None, iter(())


@record
class _Step:
    event: StreamEvent
    delay: float = 0.0


def _steps(script: Scripted, answer: LLMResponse, provider: str) -> Iterator[_Step]:
    failure = script.failure(provider)
    delays = chain([script.delay], iter(lambda: script.piece_delay, None))
    for index, piece in enumerate(pieces_of(answer, script.chunk_size)):
        if failure is not None and index == failure[0]:
            break
        yield _Step(piece, next(delays))
    last = StreamEvent("done", answer) if failure is None else StreamEvent("error", failure[1])
    yield _Step(last, next(delays))


async def _made(reply: Reply, call: ScriptedCall, number: int) -> Response:
    if isinstance(reply, type):
        reply = cast("type[Exception]", reply)()
    if not callable(reply):
        return reply
    # Copies of its own: what a callable does to them does not reach the record.
    made = reply(copy_messages(call.messages), copy_options(call.options))
    response = await made if inspect.isawaitable(made) else made
    check_response(response, f"the response of the callable to model call {number}")
    return response

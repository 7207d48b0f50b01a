"""The way of a model call: user middleware > budget > tracing > call timeout > adapter.

A retry by a user's middleware passes through budget and tracing again, so it is
charged and traced as a call of its own; a cached answer never reaches them. Invariant: whatever the outcome of a call
that was sent, the ledger knows of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from .._deadlines import LoopClock, loop_clock
from .._middleware import compose
from .._shown import shown
from ..adapters import (
    FallbackResponse,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    ModelCall,
    ModelMiddleware,
    ModelNext,
    StreamSink,
)
from ..budget import CostEstimateContext, PendingCall
from ..errors import ConfigurationError, LLMCallTimeoutError, LLMProtocolError
from ..messages import LLMMessage
from ..usage import TokenUsage
from ._attempts import ModelAttempts
from ._config import AgentConfig
from ._environment import RunEnvironment
from ._meter import RequestMeter

__all__ = ["ModelSeam"]


class ModelSeam:
    """The composed chain around the model calls of one run.

    Args:
        config: The agent.
        adapter: Its adapter.
        environment: The run's surroundings.
    """

    __slots__ = (
        "_adapter",
        "_clock",
        "_config",
        "_environment",
        "_meter",
        "_read_only",
        "_user",
        "adapter_error",
        "shares_content",
    )

    def __init__(self, config: AgentConfig, adapter: LLMAdapter, environment: RunEnvironment) -> None:
        self._config = config
        self._adapter = adapter
        self._environment = environment
        capabilities = getattr(adapter, "capabilities", None)
        self._read_only: bool = getattr(capabilities, "read_only", False)
        self._user = (*environment.model_middleware, *config.model_middleware)
        self.shares_content = self._read_only and not self._user
        """Whether an answer's blocks are nobody else's: a built-in adapter makes them for this call alone."""
        self._meter: RequestMeter | None = None
        self._clock: LoopClock = loop_clock()
        self.adapter_error: BaseException | None = None
        """The last exception that came from the adapter itself, to tell it from one of a middleware."""

    def call(self, call: ModelCall) -> Awaitable[LLMResponse]:
        """Make a model call, which begins when it is awaited.

        Args:
            call: The call.
        """
        if not self._user:
            return self._budgeted(call)
        # Composed for each call: a chain kept here would be a cycle of references, and every run be left to the
        # garbage collector.
        if call.sink is None:
            return compose(self._user, self._budgeted)(call)
        return self._attempted(call, call.sink)

    async def _attempted(self, call: ModelCall, sink: StreamSink) -> LLMResponse:
        """Make a streamed call that user middleware may make several times."""
        attempts = ModelAttempts(sink, self._budgeted)
        response = await compose(self._user, attempts.make)(call)
        await attempts.settle(response)
        return response

    async def _budgeted(self, call: ModelCall) -> LLMResponse:
        # An adapter without a checkpoint of its own would make, and charge for, a call that nobody wants any more.
        await self._clock.checkpoint_if_cancelled()
        scope = self._environment.budget
        if scope.reserves:
            reserved = self._reserved(call)
            pending = reserved if isinstance(reserved, PendingCall) else await reserved
            if call.source_options.max_tokens is None:
                call = call.replace(options=replace(call.source_options, max_tokens=pending.max_tokens))
        else:
            pending = scope.begin(_pricing(call.agent, call.source_options.model, self._adapter.name, call.phase))
        was_sent, usage, context, unpriced = True, None, None, None
        try:
            response = await (self._traced(call) if self._environment.model_tracing else self._timed(call))
            usage = response.usage
            if isinstance(response, FallbackResponse):  # another model than the one asked for may have answered
                context = _pricing(call.agent, response.requested_model, response.provider, call.phase)
        except ConfigurationError:
            was_sent = False
            raise
        finally:
            # In `finally`: a call that failed or was cancelled has been paid for all the same.
            if was_sent:
                unpriced = pending.settle(usage, context)
            else:
                pending.withdraw()
        if unpriced is not None:
            await unpriced
        return response

    @property
    def meter(self) -> RequestMeter:
        """Measures the requests of the run, where its budget wants to know."""
        if self._meter is None:
            self._meter = RequestMeter()
        return self._meter

    def _reserved(self, call: ModelCall) -> PendingCall | Awaitable[PendingCall]:
        options = call.source_options
        return self._environment.budget.reserve(
            self.pricing(call),
            input_tokens=self.meter.most_tokens(call.source, options),
            max_tokens=options.max_tokens,
            writes_cache=options.cache is not None,
        )

    def pricing(self, call: ModelCall) -> CostEstimateContext:
        """Return what the price of a call depends on, besides its usage.

        Args:
            call: The call.
        """
        return _pricing(call.agent, call.source_options.model, self._adapter.name, call.phase)

    def _traced(self, call: ModelCall) -> Awaitable[LLMResponse]:
        # Our own steps only look at a call, so they all share it.
        outermost, *others = self._environment.model_tracing
        inner: ModelNext = self._timed
        for step in reversed(others):
            inner = partial(_around, step, inner)
        return outermost(call, inner)

    async def _timed(self, call: ModelCall) -> LLMResponse:
        limit = self._config.call_timeout
        if limit is None:
            return await self._send(call)
        line = self._clock.line(limit)
        with line.scope() as scope:
            line.join(scope)
            try:
                return self._checked(await self._begin(call))
            except Exception as error:
                self.adapter_error = error
                raise
            finally:
                line.leave(scope)
        # Only this deadline leads here: a cancellation from further out goes on through the block above.
        raise LLMCallTimeoutError(timeout=limit, agent=self._config.name)

    async def _send(self, call: ModelCall) -> LLMResponse:
        try:
            return self._checked(await self._begin(call))
        except Exception as error:
            self.adapter_error = error
            raise

    def _begin(self, call: ModelCall) -> Awaitable[object]:
        # A built-in adapter reads the conversation in place; any other gets a list and options of its own.
        messages, options = (call.source, call.source_options) if self._read_only else (call.messages, call.options)
        if call.sink is None:
            return self._adapter.chat(messages, options)
        return self._stream(messages, options, call.sink)

    async def _stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions, sink: StreamSink) -> object:
        await sink.begin()
        stream = getattr(self._adapter, "stream", None)
        if stream is None:
            return await self._adapter.chat(messages, options)
        return await _consume(stream(messages, options), sink, self._adapter.name)

    def _checked(self, response: object) -> LLMResponse:
        # The adapter may be anybody's, and what it made is typed only as it says.
        found = response
        if isinstance(response, LLMResponse):
            content: object = response.content
            usage: object = response.usage
            if isinstance(content, list) and (usage is None or (isinstance(usage, TokenUsage) and usage.is_sound)):
                return response
            found = usage if isinstance(content, list) else content
        raise LLMProtocolError(
            f"adapter {shown(self._adapter.name)} must return an LLMResponse with a list of blocks, and with a "
            f"TokenUsage of whole numbers from 0, or None, got {shown(found)}",
            provider=self._adapter.name,
            retryable=False,
        )


@lru_cache(maxsize=256)
def _pricing(agent: str, model: str, provider: str, phase: str) -> CostEstimateContext:
    return CostEstimateContext(agent=agent, model=model, provider=provider, phase=phase)


def _around(step: ModelMiddleware, inner: ModelNext, call: ModelCall) -> Awaitable[LLMResponse]:
    return step(call, inner)


async def _consume(events: Any, sink: StreamSink, provider: str) -> LLMResponse:
    async with aclosing(events) if hasattr(events, "aclose") else nullcontext():
        async for event in events:
            if event.type == "done":
                return event.data  # type: ignore[no-any-return]  # checked by the caller
            if event.type == "error":
                raise event.data
            await sink.deliver(event)
    raise LLMProtocolError(f"the stream of {provider} ended without its last event", provider=provider)

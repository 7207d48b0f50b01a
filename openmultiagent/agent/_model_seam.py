"""The way of a model call: user middleware > budget > tracing > call timeout > adapter.

The chain is composed once per run. A retry by a user's middleware passes through budget and tracing again, so it is
charged and traced as a call of its own; a cached answer never reaches them. Invariant: whatever the outcome of a call
that was sent, the ledger knows of it.
"""

from __future__ import annotations

from contextlib import aclosing, nullcontext
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from .._middleware import compose
from ..adapters import LLMAdapter, LLMResponse, ModelCall, StreamSink
from ..budget import CostEstimateContext
from ..errors import ConfigurationError, LLMCallTimeoutError, LLMProtocolError
from ..usage import TokenUsage
from ._config import AgentConfig
from ._environment import RunEnvironment

__all__ = ["ModelSeam"]


class ModelSeam:
    """The composed chain around the model calls of one run.

    Args:
        config: The agent.
        adapter: Its adapter.
        environment: The run's surroundings.
    """

    def __init__(self, config: AgentConfig, adapter: LLMAdapter, environment: RunEnvironment) -> None:
        self._config = config
        self._adapter = adapter
        self._environment = environment
        capabilities = getattr(adapter, "capabilities", None)
        self._read_only: bool = getattr(capabilities, "read_only", False)
        user = [*environment.model_middleware, *config.model_middleware]
        self.shares_content = self._read_only and not user
        """Whether an answer's blocks are nobody else's: a built-in adapter makes them for this call alone."""
        self.adapter_error: BaseException | None = None
        """The last exception that came from the adapter itself, to tell it from one of a middleware."""
        self.call = compose([*user, self._budgeted, *environment.model_tracing, self._timed], self._send)

    async def _budgeted(self, call: ModelCall, call_next: Any) -> LLMResponse:
        scope = self._environment.budget
        await checkpoint_if_cancelled()  # an adapter without a checkpoint would make a call that nobody wants any more
        scope.check()
        usage: TokenUsage | None = TokenUsage.unknown()
        try:
            response: LLMResponse = await call_next(call)
            usage = response.usage if response.usage is not None else usage
        except ConfigurationError:
            usage = None  # nothing was sent
            raise
        finally:
            # In `finally`: a call that failed or was cancelled has been paid for all the same.
            if usage is not None:
                scope.charge(usage, requests=1)
        if response.usage is not None:
            scope.charge(cost=scope.price(response.usage, self._pricing(call)))
        return response

    def _pricing(self, call: ModelCall) -> CostEstimateContext:
        model = call.source_options.model
        return CostEstimateContext(agent=call.agent, model=model, provider=self._adapter.name, phase=call.phase)

    async def _timed(self, call: ModelCall, call_next: Any) -> LLMResponse:
        limit = self._config.call_timeout
        if limit is None:
            return await call_next(call)  # type: ignore[no-any-return]
        with anyio.move_on_after(limit):
            return await call_next(call)  # type: ignore[no-any-return]
        # Only this deadline leads here: a cancellation from further out goes on through the block above.
        raise LLMCallTimeoutError(timeout=limit, agent=self._config.name)

    async def _send(self, call: ModelCall) -> LLMResponse:
        # A built-in adapter reads the conversation in place; any other gets a list of its own.
        messages = call.source if self._read_only else call.messages
        try:
            stream = getattr(self._adapter, "stream", None)
            if call.sink is not None:
                await call.sink.begin()
            if call.sink is None or stream is None:
                response = await self._adapter.chat(messages, call.source_options)
            else:
                response = await _consume(stream(messages, call.source_options), call.sink, self._adapter.name)
        except Exception as error:
            self.adapter_error = error
            raise
        return self._checked(response)

    def _checked(self, response: object) -> LLMResponse:
        # The adapter may be anybody's, and what it made is typed only as it says.
        if isinstance(response, LLMResponse):
            content: object = response.content
            usage: object = response.usage
            if isinstance(content, list) and isinstance(usage, TokenUsage | None):
                return response
        self.adapter_error = LLMProtocolError(
            f"adapter {self._adapter.name!r} must return an LLMResponse with a list of blocks, and with a TokenUsage "
            f"or None, got {response!r:.100}",
            provider=self._adapter.name,
            retryable=False,
        )
        raise self.adapter_error


async def _consume(events: Any, sink: StreamSink, provider: str) -> LLMResponse:
    async with aclosing(events) if hasattr(events, "aclose") else nullcontext():
        async for event in events:
            if event.type == "done":
                return event.data  # type: ignore[no-any-return]  # checked by the caller
            if event.type == "error":
                raise event.data
            await sink.deliver(event)
    raise LLMProtocolError(f"the stream of {provider} ended without its last event", provider=provider)

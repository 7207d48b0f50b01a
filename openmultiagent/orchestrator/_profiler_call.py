"""The model call of a profiler that the orchestrator makes itself: leased, and charged to the run when it is made."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from ..adapters import AdapterOwner, LLMChatOptions, LLMResponse
from ..agent import AgentConfig, RequestMeter, lease_adapter
from ..budget import BudgetScope, CostEstimateContext, PendingCall
from ..errors import ConfigurationError
from ..messages import LLMMessage

__all__ = ["ROUTER", "ProfilerAdapter"]

ROUTER: Final = "semantic-router"
"""Whose usage that of a profiler is."""


class ProfilerAdapter:
    """An adapter that is leased for each call, since it may be made, and closed, by the orchestrator.

    Args:
        config: Says which adapter, and under which policy.
        owner: Lends it.
        budget: What the call is charged to: the run's.
    """

    def __init__(self, config: AgentConfig, owner: AdapterOwner, budget: BudgetScope) -> None:
        self._config = config
        self._owner = owner
        self._budget = budget
        self.name = config.provider or "default" if config.adapter is None else config.adapter.name
        self.capabilities = getattr(config.adapter, "capabilities", None)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        """Make one call; it is refused where there is no room for it.

        Args:
            messages: What is asked.
            options: Everything else about the call.

        Raises:
            BudgetError: The run has no room for it.
            Exception: Whatever the adapter raises.
        """
        lease = lease_adapter(self._config, self._owner)
        try:
            reserved = self._pending(messages, options)
            pending = reserved if isinstance(reserved, PendingCall) else await reserved
            was_sent, usage, unpriced = True, None, None
            try:
                response = await lease.adapter.chat(messages, options)
                usage = response.usage
            except ConfigurationError:
                was_sent = False
                raise
            finally:
                # In `finally`: a call that failed or was cancelled has been paid for all the same.
                if was_sent:
                    unpriced = pending.settle(usage)
                else:
                    pending.withdraw()
            if unpriced is not None:
                await unpriced
            return response
        finally:
            if lease.owned:
                await lease.aclose()

    def _pending(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> PendingCall | Awaitable[PendingCall]:
        budget = self._budget.child(ROUTER)
        context = CostEstimateContext(ROUTER, options.model, self.name, "routing")
        if not budget.reserves:
            return budget.begin(context)
        most = RequestMeter().most_tokens(messages, options)
        return budget.reserve(context, input_tokens=most, max_tokens=options.max_tokens)

"""The model call of a profiler that the orchestrator makes itself: leased, and on the way of all model calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..adapters import LLMChatOptions, LLMResponse, ModelCall
from ..agent import AgentConfig, ModelSeam, lease_adapter
from ..budget import BudgetScope
from ..messages import LLMMessage
from ._inner import InnerRuns

__all__ = ["ROUTER", "ProfilerAdapter"]

ROUTER: Final = "semantic-router"
"""Whose usage that of a profiler is."""


class ProfilerAdapter:
    """An adapter that is leased for each call, since it may be made, and closed, by the orchestrator.

    Args:
        config: Says which adapter, and under which policy.
        inner: What all calls of the run go through.
        budget: What the call is charged to: the run's.
    """

    def __init__(self, config: AgentConfig, inner: InnerRuns, budget: BudgetScope) -> None:
        self._config = config
        self._inner = inner
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
        lease = lease_adapter(self._config, self._inner.adapters)
        try:
            environment = self._inner.environment(self._budget.child(ROUTER), phase="routing")
            run_id = environment.identity.run_id
            call = ModelCall(f"{run_id}/routing", run_id, ROUTER, 1, "routing", lease.adapter.name, messages, options)
            return await ModelSeam(self._config.replace(name=ROUTER), lease.adapter, environment).call(call)
        finally:
            if lease.owned:
                await lease.aclose()

"""What surrounds an agent's run: who it is, what it may use, who listens, and which adapter it talks to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..adapters import AdapterLease, AdapterOwner, ModelMiddleware, create_adapter, provider_names
from ..budget import BudgetScope
from ..cancellation import CancelToken
from ..egress import egress_unsupported
from ..errors import ConfigurationError
from ..events import Event
from ..identity import MetadataValue, RunIdentity
from ..tools import Confirmation, ToolGate, ToolMiddleware, ToolsetOwner
from ._config import AgentConfig

__all__ = ["DEFAULT_PROVIDER", "EventSink", "RunEnvironment", "lease_adapter"]

DEFAULT_PROVIDER = "anthropic"
"""The provider when neither the agent nor the orchestrator names one."""

_NO_MODEL_NEEDED = frozenset({"embedded"})

EventSink = Callable[[Event[Any]], Awaitable[None]]
"""Where the events of a stream go."""


@dataclass(slots=True)
class RunEnvironment:
    """The surroundings of one run; nothing in it is shared with another run but adapters and middleware.

    Nobody changes it once it is handed on. It is not frozen, since a frozen dataclass takes several times as long to
    make, and every run has one.
    """

    identity: RunIdentity
    budget: BudgetScope
    """The run's own scope: its usage is the usage of the run."""
    phase: str = "agent"
    """What the run is for."""
    model_middleware: Sequence[ModelMiddleware] = ()
    """The orchestrator's, outside the agent's own."""
    tool_middleware: Sequence[ToolMiddleware] = ()
    """The orchestrator's, outside the agent's own."""
    model_tracing: Sequence[ModelMiddleware] = ()
    """Between the budget and the adapter."""
    tool_tracing: Sequence[ToolMiddleware] = ()
    """Between the budget and the tool."""
    on_tool_call: ToolGate | None = None
    """The orchestrator's gate, for agents that have none of their own."""
    confirmation: Confirmation | None = None
    """What the run knows of calls that have consequences; None where that plays no part, or there are none."""
    toolsets: ToolsetOwner = field(default_factory=ToolsetOwner)
    """Opens the toolsets of the run, and keeps them if it wants to."""
    sink: EventSink | None = None
    """Where stream events go; None when nobody listens, so that none are made."""
    cancel: CancelToken | None = None
    metadata: dict[str, MetadataValue] | None = None


def lease_adapter(config: AgentConfig, owner: AdapterOwner | None = None) -> AdapterLease:
    """Return the adapter of an agent; nothing is connected yet.

    Args:
        config: The agent.
        owner: Keeps adapters between runs; without one the run closes what it gets.

    Raises:
        ConfigurationError: There is no model, or the provider is unknown.
        EgressPolicyError: The agent's policy does not allow the provider's address, or cannot be enforced.
    """
    if config.adapter is not None:
        if config.egress_policy is not None:
            raise egress_unsupported(config.adapter.name, "a given adapter opens its own connections")
        return AdapterLease(config.adapter, owned=False)
    provider = DEFAULT_PROVIDER if config.provider is None else config.provider
    if config.model is None and provider in provider_names() and provider not in _NO_MODEL_NEEDED:
        raise ConfigurationError(
            f"agent {config.name!r} has no model: set model=..., or give it an adapter (there is no default model)"
        )
    try:
        source = AdapterOwner(create_adapter) if owner is None else owner
        return source.lease(
            provider,
            base_url=config.base_url,
            api_key=config.api_key,
            region=config.region,
            api=config.api,
            egress_policy=config.egress_policy,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"agent {config.name!r}: {error}") from None

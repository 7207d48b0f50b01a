"""Who keeps adapters open between runs, and who closes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import anyio

from .._detached import cancelled_from_outside
from .._log import get_logger
from ..outcome import describe_error
from ._protocol import LLMAdapter

__all__ = ["AdapterLease", "AdapterOwner", "close_adapter"]

_log = get_logger(__name__)

_CLOSE_TIMEOUT = 5.0
"""Seconds that closing an adapter may take; connections that are not shut by then are dropped with it."""

_MAX_KEPT = 128
"""Adapters that an owner keeps; runs over more keys than that get adapters of their own, which they close."""

_Key = tuple[str, tuple[tuple[str, object], ...]]


class AdapterLease:
    """An adapter in the hands of one run.

    Args:
        adapter: The adapter.
        owned: Whether the run closes it at its end.
    """

    __slots__ = ("adapter", "owned")

    def __init__(self, adapter: LLMAdapter, *, owned: bool) -> None:
        self.adapter = adapter
        self.owned = owned

    async def aclose(self) -> None:
        """Close the adapter if it was made for this run only."""
        if self.owned:
            await close_adapter(self.adapter)


class AdapterOwner:
    """Keeps one adapter per provider and its arguments while it is open; closed, it keeps none.

    Args:
        make: Makes an adapter: ``make(provider, api_key=..., base_url=..., ...)``.
    """

    def __init__(self, make: Callable[..., LLMAdapter]) -> None:
        self._make = make
        self._adapters: dict[_Key, LLMAdapter] = {}
        self.is_open = False

    def lease(self, provider: str, **arguments: Hashable) -> AdapterLease:
        """Return a kept adapter while the owner is open, else one that the run has to close.

        Args:
            provider: Key of the provider.
            arguments: What else the adapter is made with, such as ``base_url`` and ``api_key``.

        Raises:
            ConfigurationError: The provider is unknown, or an argument is not as it must be.
            EgressPolicyError: The policy does not allow the provider's address.
        """
        key = (provider, tuple(sorted(arguments.items())))
        kept = self._adapters.get(key)
        if kept is not None:
            return AdapterLease(kept, owned=False)
        adapter = self._make(provider, **arguments)
        keep = self.is_open and len(self._adapters) < _MAX_KEPT
        if keep:
            adapter = self._adapters.setdefault(key, adapter)  # another thread may have been quicker
        return AdapterLease(adapter, owned=not keep)

    async def close_connections(self) -> None:
        """Close the connections of the current event loop; the adapters stay."""
        await _close_all(list(self._adapters.values()))

    async def aclose(self) -> None:
        """Close every kept adapter, all at the same time."""
        self.is_open = False
        adapters, self._adapters = list(self._adapters.values()), {}
        await _close_all(adapters)


async def close_adapter(adapter: LLMAdapter) -> None:
    """Close an adapter, if it can be closed; shielded, within five seconds, and never failing.

    Args:
        adapter: The adapter.
    """
    await _close_all([adapter])


async def _close_all(adapters: Sequence[LLMAdapter]) -> None:
    closable = [adapter for adapter in adapters if getattr(adapter, "aclose", None) is not None]
    if not closable:
        return
    # In tasks of their own: a native cancellation on asyncio goes through the shield of the task that it is meant for.
    async with anyio.create_task_group() as group:
        for adapter in closable:
            group.start_soon(_close, adapter)


async def _close(adapter: Any) -> None:
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _CLOSE_TIMEOUT) as scope:
        try:
            await adapter.aclose()
        except Exception as error:  # noqa: BLE001 - isolation boundary: the run is over, and its result stands
            _log.warning("adapter_close_failed", adapter=adapter.name, error=describe_error(error))
        except anyio.get_cancelled_exc_class() as error:
            if cancelled_from_outside():
                raise
            _log.warning("adapter_close_failed", adapter=adapter.name, error=describe_error(error))
    if scope.cancelled_caught:
        _log.warning("adapter_close_timed_out", adapter=adapter.name, seconds=_CLOSE_TIMEOUT)

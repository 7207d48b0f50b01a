"""Who keeps adapters open between runs, and who closes them."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from .._log import get_logger
from ._protocol import LLMAdapter

__all__ = ["AdapterLease", "AdapterOwner", "close_adapter"]

_log = get_logger(__name__)

_CLOSE_TIMEOUT = 5.0
"""Seconds that closing an adapter may take; connections that are not shut by then are dropped with it."""

_Key = tuple[str, str | None, str | None]


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
    """Keeps one adapter per provider, base URL and key while it is open; closed, it keeps none.

    Args:
        make: Makes an adapter: ``make(provider, api_key=..., base_url=...)``.
    """

    def __init__(self, make: Callable[..., LLMAdapter]) -> None:
        self._make = make
        self._adapters: dict[_Key, LLMAdapter] = {}
        self.is_open = False

    def lease(self, provider: str, *, base_url: str | None = None, api_key: str | None = None) -> AdapterLease:
        """Return a kept adapter while the owner is open, else one that the run has to close.

        Args:
            provider: Key of the provider.
            base_url: Another server for it.
            api_key: Its key.

        Raises:
            ConfigurationError: The provider is unknown, or the base URL is no URL.
        """
        if not self.is_open:
            return AdapterLease(self._make(provider, api_key=api_key, base_url=base_url), owned=True)
        key = (provider, base_url, api_key)
        adapter = self._adapters.get(key)
        if adapter is None:
            adapter = self._adapters[key] = self._make(provider, api_key=api_key, base_url=base_url)
        return AdapterLease(adapter, owned=False)

    async def aclose(self) -> None:
        """Close every kept adapter."""
        self.is_open = False
        adapters, self._adapters = list(self._adapters.values()), {}
        for adapter in adapters:
            await close_adapter(adapter)


async def close_adapter(adapter: LLMAdapter) -> None:
    """Close an adapter, if it can be closed; shielded, within five seconds, and never failing.

    Args:
        adapter: The adapter.
    """
    close = getattr(adapter, "aclose", None)
    if close is None:
        return
    with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
        try:
            await close()
        except Exception as error:  # noqa: BLE001 - isolation boundary: the run is over, and its result stands
            _log.warning("adapter_close_failed", adapter=adapter.name, error=f"{type(error).__name__}: {error}")

"""The providers by name: the rows of the vendors' table, and the adapters of those with protocols of their own.

Invariant: a provider's key comes from its own environment variables only, and what is meant for one vendor (its
organisation, its project) is never sent to another host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from .._shown import shown
from ..egress import EgressPolicy, normalize_egress_policy
from ..errors import ConfigurationError
from . import _anthropic, _azure, _bedrock, _copilot, _gemini
from ._embedded import EmbeddedAdapter
from ._openai import OpenAIAdapter
from ._protocol import LLMAdapter
from ._responses import OpenAIResponsesAdapter
from ._transport import TransportOptions, checked_base_url, checked_header
from ._vendors import VENDORS, Vendor

__all__ = ["create_adapter", "provider_names"]


class _Factory(Protocol):
    def __call__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        transport: TransportOptions | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> LLMAdapter: ...


_FACTORIES: Mapping[str, _Factory] = {
    "anthropic": _anthropic.create,
    "azure-openai": _azure.create,
    "copilot": _copilot.create,
    "gemini": _gemini.create,
}

_EMBEDDED = "embedded"
_REGIONAL = "bedrock"
_APIS: Mapping[str, tuple[str, ...]] = {"openai": ("chat", "responses")}
"""Providers with more than one protocol; the first is the default."""


def provider_names() -> tuple[str, ...]:
    """Return the names that ``create_adapter`` knows, sorted."""
    return tuple(sorted([*VENDORS, *_FACTORIES, _REGIONAL, _EMBEDDED]))


def create_adapter(
    provider: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    region: str | None = None,
    api: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | Mapping[str, Any] | None = None,
) -> LLMAdapter:
    """Return a new adapter for a provider; nothing is sent before its first call.

    An argument wins over the environment, which wins over the vendor's default; an empty variable counts as none. The
    environment is read now, never later. A missing key is told at the first call, and only when the address is the
    vendor's own: other servers may need none.

    Args:
        provider: One of ``provider_names()``.
        api_key: The key.
        base_url: The server's address up to and including the version, such as ``http://localhost:11434/v1``; for
            ``azure-openai`` the resource's endpoint.
        region: The region, for ``bedrock``.
        api: The protocol, for ``openai``: ``chat`` or ``responses``.
        transport: Timeouts and retries.
        egress_policy: Where requests may go, as an ``EgressPolicy`` or a mapping with its fields; anywhere when it is
            None. The address is checked before anything is built, and every request once more. An adapter without
            requests has nothing to check.

    Raises:
        EgressPolicyError: It is no policy, it does not allow an address of the provider, or there is no address yet.
        ConfigurationError: The provider is unknown, or an argument or variable is not as it must be.
    """
    name = str(provider)
    policy = normalize_egress_policy(egress_policy)
    if name not in provider_names():
        known = ", ".join(provider_names())
        raise ConfigurationError(
            f"Unsupported LLM provider: {provider}; known are {known}. "
            "Any other server that speaks the OpenAI chat protocol works as provider 'openai' with its base_url."
        )
    _check_choices(name, region=region, api=api)
    if name == _EMBEDDED:
        for argument, value in (("api_key", api_key), ("base_url", base_url), ("transport", transport)):
            if value is not None:
                raise ConfigurationError(f"provider 'embedded' runs inside the process and takes no {argument}")
        return EmbeddedAdapter()
    factory = partial(_bedrock.create, region=region) if name == _REGIONAL else _FACTORIES.get(name)
    if factory is not None:
        return factory(api_key=api_key, base_url=base_url, transport=transport, egress_policy=policy)
    vendor = VENDORS[name]
    address = checked_base_url(base_url or _variable(vendor.base_url_variable) or vendor.base_url, owner=name)
    return _openai_adapter(name, vendor, address, api_key, transport, policy, responses=api == "responses")


def _check_choices(provider: str, *, region: str | None, api: str | None) -> None:
    if region is not None and provider != _REGIONAL:
        raise ConfigurationError(f"provider {shown(provider)} takes no region")
    if api is not None and api not in _APIS.get(provider, ()):
        allowed = _APIS.get(provider)
        hint = f"must be one of {', '.join(allowed)}" if allowed else "must be left out: the provider has one protocol"
        raise ConfigurationError(f"provider {shown(provider)}: api {hint}, got {shown(api)}")


def _openai_adapter(
    name: str,
    vendor: Vendor,
    address: str,
    api_key: str | None,
    transport: TransportOptions | None,
    policy: EgressPolicy | None,
    *,
    responses: bool,
) -> LLMAdapter:
    own = vendor.owns(address)
    key = api_key or _checked_variable(vendor.key_variable, name)
    key_variable = vendor.key_variable if own else None
    headers = _headers(vendor, name) if own else None
    if responses:
        return OpenAIResponsesAdapter(
            name=name,
            base_url=address,
            api_key=key,
            key_variable=key_variable,
            headers=headers,
            transport=transport,
            egress_policy=policy,
        )
    return OpenAIAdapter(
        name=name,
        base_url=address,
        api_key=key,
        key_variable=key_variable,
        headers=headers,
        transport=transport,
        egress_policy=policy,
        profile=vendor.profile,
    )


def _headers(vendor: Vendor, provider: str) -> dict[str, str]:
    values = {header: _checked_variable(variable, provider) for header, variable in vendor.header_variables.items()}
    return {header: value for header, value in values.items() if value is not None}


def _variable(name: str | None) -> str | None:
    return os.environ.get(name) or None if name is not None else None


def _checked_variable(name: str | None, provider: str) -> str | None:
    value = _variable(name)
    return None if value is None else checked_header(value, owner=provider, what=f"the value of {name}")

"""The providers by name. A vendor that speaks the OpenAI protocol as it is written is a row in a table, and no code.

Invariant: a vendor's key comes from its own environment variable only, and what is meant for one vendor (its
organisation, its project) is never sent to another address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import ConfigurationError
from ._embedded import EmbeddedAdapter
from ._openai import OpenAIAdapter
from ._protocol import LLMAdapter
from ._transport import TransportOptions, checked_base_url, checked_header

__all__ = ["create_adapter", "provider_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A server that speaks the OpenAI chat protocol."""

    base_url: str
    key_variable: str | None = None
    """Environment variable of the key; None for servers that run without one."""
    base_url_variable: str | None = None
    header_variables: Mapping[str, str] = field(default_factory=dict)
    """Headers by name, with the environment variables that they come from; sent to the vendor's own address only."""


# Addresses and variables as the vendors document them.
_OPENAI_PROTOCOL: Mapping[str, _Row] = {
    "openai": _Row(
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        base_url_variable="OPENAI_BASE_URL",
        header_variables={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
    ),
    "doubao": _Row(base_url="https://ark.cn-beijing.volces.com/api/v3", key_variable="ARK_API_KEY"),
    "groq": _Row(base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
    "openrouter": _Row(base_url="https://openrouter.ai/api/v1", key_variable="OPENROUTER_API_KEY"),
    "qiniu": _Row(base_url="https://api.qnaigc.com/v1", key_variable="QINIU_API_KEY"),
    # Servers on this machine, at the ports that they choose by themselves.
    "llamacpp": _Row(base_url="http://localhost:8080/v1"),
    "lmstudio": _Row(base_url="http://localhost:1234/v1"),
    "ollama": _Row(base_url="http://localhost:11434/v1"),
    "vllm": _Row(base_url="http://localhost:8000/v1"),
}

_EMBEDDED = "embedded"


def provider_names() -> tuple[str, ...]:
    """Return the names that ``create_adapter`` knows, sorted."""
    return tuple(sorted([*_OPENAI_PROTOCOL, _EMBEDDED]))


def create_adapter(
    provider: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: TransportOptions | None = None,
) -> LLMAdapter:
    """Return a new adapter for a provider; nothing is sent before its first call.

    An argument wins over the environment, which wins over the vendor's default; an empty variable counts as none. The
    environment is read now, never later. A missing key is told at the first call, and only when the address is the
    vendor's own: other servers may need none.

    Args:
        provider: One of ``provider_names()``.
        api_key: The key.
        base_url: The server's address up to and including the version, such as ``http://localhost:11434/v1``.
        transport: Timeouts and retries.

    Raises:
        ConfigurationError: The provider is unknown, or an argument or variable is not as it must be.
    """
    if provider == _EMBEDDED:
        for name, value in (("api_key", api_key), ("base_url", base_url), ("transport", transport)):
            if value is not None:
                raise ConfigurationError(f"provider 'embedded' runs inside the process and takes no {name}")
        return EmbeddedAdapter()
    row = _OPENAI_PROTOCOL.get(str(provider))
    if row is None:
        known = ", ".join(provider_names())
        raise ConfigurationError(
            f"Unsupported LLM provider: {provider}; known are {known}. "
            "Any other server that speaks the OpenAI chat protocol works as provider 'openai' with its base_url."
        )
    address = base_url or _variable(row.base_url_variable) or row.base_url
    own = checked_base_url(address, owner=provider) == row.base_url
    return OpenAIAdapter(
        name=provider,
        base_url=address,
        api_key=api_key or _checked_variable(row.key_variable, provider),
        key_variable=row.key_variable if own else None,
        headers=_headers(row, provider) if own else None,
        transport=transport,
    )


def _headers(row: _Row, provider: str) -> dict[str, str]:
    values = {header: _checked_variable(variable, provider) for header, variable in row.header_variables.items()}
    return {header: value for header, value in values.items() if value is not None}


def _variable(name: str | None) -> str | None:
    return os.environ.get(name) or None if name is not None else None


def _checked_variable(name: str | None, provider: str) -> str | None:
    value = _variable(name)
    return None if value is None else checked_header(value, owner=provider, what=f"the value of {name}")

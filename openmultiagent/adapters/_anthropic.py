"""The adapter for Anthropic's Messages protocol, and for other servers that speak it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..egress import EgressPolicy
from ..messages import LLMMessage
from ._anthropic_answer import AnswerReader, StreamReader
from ._anthropic_request import encode_request
from ._event_body import EventAdapter
from ._http_adapter import WireRequest
from ._key_headers import KeyHeaders
from ._protocol import AdapterCapabilities, LLMChatOptions
from ._transport import TransportOptions, checked_base_url, checked_header

if TYPE_CHECKING:
    import httpx

__all__ = ["AnthropicAdapter", "create"]

_NAME = "anthropic"
_BASE_URL = "https://api.anthropic.com"
_BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
_KEY_VARIABLE = "ANTHROPIC_API_KEY"
_VERSION = "2023-06-01"


class AnthropicAdapter(EventAdapter):
    """An adapter for Anthropic's Messages protocol.

    It follows the Messages API of the Claude documentation and the types of Anthropic's own Python client
    (``POST {base_url}/v1/messages``, version ``2023-06-01``, JSON or server-sent events; extended and adaptive thinking
    with signatures, ``output_config.effort``, prompt caching, ``disable_parallel_tool_use``), as of November 2026.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        base_url: The address; a ``/v1`` at its end makes no difference.
        api_key: Sent as ``x-api-key``; without one that header is not sent.
        key_variable: Name of the environment variable that the key should have come from, when the server needs a key:
            a call without a key then fails with an error that names it. The adapter itself reads no environment.
        headers: Further headers, such as ``anthropic-beta``; they win over the adapter's own.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.
        prefill: What happens to a conversation that ends with an assistant message. Models since Claude 4.6 refuse it,
            so by default a short user message is added that asks to continue. True sends it as it is, for a model that
            continues such a message.

    Raises:
        ConfigurationError: The base URL, the key or a header cannot be sent.
        EgressPolicyError: The policy does not allow the base URL.
    """

    capabilities = AdapterCapabilities(read_only=True, structured_output=True, echoes_reasoning="own-issued")
    """The adapter reads a conversation in place, and sends back the reasoning that it issued itself."""
    _answers = AnswerReader
    _streams = StreamReader

    def __init__(  # noqa: PLR0913 - all of them keywords, and most with a default
        self,
        *,
        name: str = _NAME,
        base_url: str = _BASE_URL,
        api_key: str | None = None,
        key_variable: str | None = None,
        headers: Mapping[str, str] | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
        prefill: bool = False,
    ) -> None:
        super().__init__(
            name=name,
            base_url=base_url,
            key=KeyHeaders(
                owner=name,
                api_key=api_key,
                key_header="x-api-key",
                key_variable=key_variable,
                fixed={"anthropic-version": _VERSION},
                headers=headers,
            ),
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._url = f"{_root(self._base_url)}/v1/messages"
        self._prefill = prefill

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        content = encode_request(messages, options, stream=stream, adapter_name=self.name, prefill=self._prefill)
        return WireRequest(self._url, content, options.model)


def create(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | None = None,
) -> AnthropicAdapter:
    """Return a new adapter; the environment is read now, never later, and an empty variable counts as none.

    Args:
        api_key: The key; else ``ANTHROPIC_API_KEY``. Without one, the vendor's own address fails at the first call.
        base_url: The server's address; else ``ANTHROPIC_BASE_URL``, else the vendor's own.
        transport: Timeouts and retries.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: The policy does not allow an address of the adapter.
        ConfigurationError: An argument or variable is not as it must be.
    """
    address = checked_base_url(base_url or os.environ.get(_BASE_URL_VARIABLE) or _BASE_URL, owner=_NAME)
    key = api_key or os.environ.get(_KEY_VARIABLE) or None
    if key is not None:
        checked_header(key, owner=_NAME, what="api_key" if api_key else f"the value of {_KEY_VARIABLE}")
    return AnthropicAdapter(
        base_url=address,
        api_key=key,
        key_variable=_KEY_VARIABLE if _root(address) == _BASE_URL else None,
        transport=transport,
        egress_policy=egress_policy,
    )


def _root(base_url: str) -> str:
    return base_url.removesuffix("/v1")

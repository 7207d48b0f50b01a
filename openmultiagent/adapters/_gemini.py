"""The adapter for Google's Gemini API (``generateContent``), not for Vertex AI, which logs in in another way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from .._patterns import lazy_pattern
from ..egress import EgressPolicy
from ..messages import LLMMessage
from ._event_body import EventAdapter
from ._gemini_answer import AnswerReader, StreamReader
from ._gemini_request import encode_request
from ._http_adapter import WireRequest
from ._key_headers import KeyHeaders
from ._protocol import AdapterCapabilities, LLMChatOptions
from ._transport import TransportOptions

if TYPE_CHECKING:
    import httpx

__all__ = ["GeminiAdapter", "create"]

_BASE_URL = "https://generativelanguage.googleapis.com"
_VERSION = "v1beta"
_KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_VERSIONED = lazy_pattern(r"/v\d+\w*$")
_RESOURCES = ("models/", "tunedModels/")


class GeminiAdapter(EventAdapter):
    """An adapter for the Gemini API.

    It follows the reference pages "Generating content", "Function calling", "Thinking" and "Thought signatures" of
    ai.google.dev, and the field names of Google's own client ``google-genai`` 3.6, as they were in November 2026
    (``POST {base_url}/v1beta/models/{model}:generateContent``, or ``:streamGenerateContent?alt=sse``). Thinking is
    controlled by ``ThinkingConfig.budget_tokens``; the levels that newer models have can be given as
    ``extra_body={"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}``.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        base_url: The server's address, with or without the version of the API; ``v1beta`` unless given.
        api_key: Sent in ``x-goog-api-key``; without one no such header is sent.
        key_variable: Name of the environment variable that the key should have come from, when the server needs a key:
            a call without a key then fails with an error that names it. The adapter itself reads no environment.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.

    Raises:
        ConfigurationError: The base URL or the key cannot be sent.
        EgressPolicyError: The policy does not allow the base URL.
    """

    capabilities = AdapterCapabilities(read_only=True, structured_output=True, echoes_reasoning="own-issued")
    """The adapter reads a conversation in place, and sends back the reasoning that it issued itself."""
    _answers = AnswerReader
    _streams = StreamReader

    def __init__(
        self,
        *,
        name: str = "gemini",
        base_url: str = _BASE_URL,
        api_key: str | None = None,
        key_variable: str | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        super().__init__(
            name=name,
            base_url=base_url,
            key=KeyHeaders(owner=name, api_key=api_key, key_header="x-goog-api-key", key_variable=key_variable),
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._root = self._base_url if _VERSIONED.search(self._base_url) else f"{self._base_url}/{_VERSION}"

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        content = encode_request(messages, options, adapter_name=self.name)
        resource = options.model if options.model.startswith(_RESOURCES) else f"models/{options.model}"
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return WireRequest(f"{self._root}/{quote(resource)}:{method}", content, options.model)


def create(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | None = None,
) -> GeminiAdapter:
    """Return a new adapter; the environment is read now, never later, and an empty variable counts as none.

    Args:
        api_key: The key; else ``GEMINI_API_KEY``, else ``GOOGLE_API_KEY``.
        base_url: The server's address; Google's unless given.
        transport: Timeouts and retries.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: The policy does not allow an address of the adapter.
        ConfigurationError: An argument or variable is not as it must be.
    """
    key = api_key or next(filter(None, map(os.environ.get, _KEY_VARIABLES)), None)
    own = base_url is None or base_url.rstrip("/") == _BASE_URL
    return GeminiAdapter(
        base_url=base_url or _BASE_URL,
        api_key=key,
        key_variable=_KEY_VARIABLES[0] if own else None,
        transport=transport,
        egress_policy=egress_policy,
    )

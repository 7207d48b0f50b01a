"""The adapter for OpenAI's Responses API, a second protocol beside "Chat Completions" with the same messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..egress import EgressPolicy
from ..messages import LLMMessage
from ._event_body import EventAdapter
from ._http_adapter import WireRequest
from ._key_headers import KeyHeaders
from ._protocol import AdapterCapabilities, LLMChatOptions
from ._responses_answer import AnswerReader, StreamReader
from ._responses_request import encode_request
from ._transport import TransportOptions

if TYPE_CHECKING:
    import httpx

__all__ = ["OpenAIResponsesAdapter"]

_CAPABILITIES = AdapterCapabilities(read_only=True, structured_output=True, echoes_reasoning="own-issued")


class OpenAIResponsesAdapter(EventAdapter):
    """An adapter for OpenAI's Responses API.

    It follows "Responses" of the OpenAI API reference and the types of OpenAI's own client ``openai`` 3.57, as of
    November 2026 (``POST {base_url}/responses``, JSON or server-sent events). The server keeps nothing
    (``store: false``): reasoning comes encrypted and goes back with the conversation. The settings ``top_k``,
    ``min_p``, ``stop``, ``seed`` and the penalties have no place in this API and are left out.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        base_url: The address up to and including the version.
        api_key: Sent as a bearer token; without one no ``Authorization`` header is sent.
        key_variable: Name of the environment variable that the key should have come from, when the server needs a key:
            a call without a key then fails with an error that names it. The adapter itself reads no environment.
        headers: Further headers; they win over the adapter's own.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.

    Raises:
        ConfigurationError: The base URL, the key or a header cannot be sent.
        EgressPolicyError: The policy does not allow the base URL.
    """

    capabilities = _CAPABILITIES
    """The adapter reads a conversation in place, and sends back the reasoning that it issued itself."""

    _answers = AnswerReader
    _streams = StreamReader

    def __init__(
        self,
        *,
        name: str = "openai",
        base_url: str,
        api_key: str | None = None,
        key_variable: str | None = None,
        headers: Mapping[str, str] | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        super().__init__(
            name=name,
            base_url=base_url,
            key=KeyHeaders(owner=name, api_key=api_key, key_variable=key_variable, headers=headers),
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        content = encode_request(messages, options, stream=stream, adapter_name=self.name)
        return WireRequest(f"{self._base_url}/responses", content, options.model)

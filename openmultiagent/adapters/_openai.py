"""The adapter for servers that speak the OpenAI chat protocol. Which servers there are is data, in ``_vendors``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..egress import EgressPolicy
from ..messages import LLMMessage
from ._event_body import EventAdapter
from ._http_adapter import WireRequest
from ._key_headers import KeyHeaders
from ._openai_answer import AnswerReader, StreamReader
from ._openai_profile import OpenAIProfile
from ._openai_request import encode_request
from ._protocol import AdapterCapabilities, LLMChatOptions
from ._transport import TransportOptions, checked_base_url
from ._vendors import is_vendor_host

if TYPE_CHECKING:
    import httpx

__all__ = ["ChatCompletions", "OpenAIAdapter"]


class ChatCompletions(EventAdapter):
    """The chat protocol of OpenAI, wherever it is spoken and whatever a request is allowed by.

    Args:
        name: The provider's name.
        base_url: The server's address.
        key: The headers of all requests, with the key in them.
        profile: How the server departs from the protocol.
        text_tool_calls: Whether calls are looked for in the text of answers without calls.
        max_tokens_field: Where the limit of the answer goes.
        empty_content: What an assistant message without text has as its content.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones.
        egress_policy: Where requests may go.
    """

    _answers = AnswerReader
    _streams = StreamReader

    def __init__(  # noqa: PLR0913 - all of them keywords, and most with a default
        self,
        *,
        name: str,
        base_url: str,
        key: KeyHeaders | None = None,
        profile: OpenAIProfile,
        text_tool_calls: bool = False,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        empty_content: str | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        super().__init__(
            name=name,
            base_url=base_url,
            key=key,
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._profile = profile
        self._text_tool_calls = text_tool_calls
        self._max_tokens_field = max_tokens_field
        self._empty_content = empty_content
        self.capabilities = AdapterCapabilities(
            read_only=True,
            structured_output=profile.structured_output is not None,
            echoes_reasoning=profile.echoes_reasoning,
        )

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        content = encode_request(
            messages,
            options,
            stream=stream,
            provider=self.name,
            profile=self._profile,
            max_tokens_field=self._max_tokens_field,
            empty_content=self._empty_content,
        )
        looks = self._text_tool_calls and options.tool_choice != "none"
        tools = frozenset(tool.name for tool in options.tools or ()) if looks else frozenset()
        return WireRequest(self._url(options), content, options.model, text_tools=tools)

    def _url(self, options: LLMChatOptions) -> str:  # noqa: ARG002 - some addresses name the model
        return f"{self._base_url}/chat/completions"

    def _reading(self, request: WireRequest) -> Mapping[str, Any]:
        return {**super()._reading(request), "text_tools": request.text_tools}


class OpenAIAdapter(ChatCompletions):
    """An adapter for the OpenAI chat protocol.

    It follows "Chat Completions" of the OpenAI API reference as of November 2026 (``POST {base_url}/chat/completions``,
    JSON or server-sent events with ``stream_options.include_usage``). One adapter serves any number of tasks and event
    loops; it keeps connections open for each loop until ``aclose``. It is a live handle: ``copy.deepcopy`` returns the
    adapter itself.

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
        profile: How the server departs from the protocol.
        text_tool_calls: Whether tool calls are looked for in the text of answers that have none, since small models on
            own servers often write them there. ``auto`` does so everywhere but at the known vendors.
        max_tokens_field: Where the limit of the answer goes; by default it is chosen by the profile, or by the name of
            the model.
        empty_content: What an assistant message without text has as its content; ``""`` for servers that refuse null.

    Raises:
        ConfigurationError: The base URL, the key or a header cannot be sent.
        EgressPolicyError: The policy does not allow the base URL.
    """

    def __init__(  # noqa: PLR0913 - all of them keywords, and most with a default
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
        profile: OpenAIProfile | None = None,
        text_tool_calls: bool | Literal["auto"] = "auto",
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        empty_content: str | None = None,
    ) -> None:
        looks = not is_vendor_host(checked_base_url(base_url, owner=name))
        super().__init__(
            name=name,
            base_url=base_url,
            key=KeyHeaders(owner=name, api_key=api_key, key_variable=key_variable, headers=headers),
            profile=profile or OpenAIProfile(),
            text_tool_calls=looks if text_tool_calls == "auto" else text_tool_calls,
            max_tokens_field=max_tokens_field,
            empty_content=empty_content,
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )

"""The adapter for OpenAI models that Azure hosts: the chat protocol, at addresses that name a deployment.

Not here: Azure's newer address without deployments (``https://{resource}.openai.azure.com/openai/v1``), which is
provider ``openai`` with that base URL.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from ..egress import EgressPolicy, egress_unresolved
from ..errors import ConfigurationError
from ..messages import LLMMessage
from ._http_adapter import WireRequest
from ._key_headers import KeyHeaders
from ._openai import ChatCompletions
from ._openai_profile import OpenAIProfile
from ._protocol import LLMChatOptions
from ._transport import TransportOptions, checked_header

if TYPE_CHECKING:
    import httpx

__all__ = ["AzureOpenAIAdapter", "create"]

_NAME = "azure-openai"
_VERSION = "2024-10-21"
_KEY_VARIABLE = "AZURE_OPENAI_API_KEY"
_ENDPOINT_VARIABLE = "AZURE_OPENAI_ENDPOINT"
_VERSION_VARIABLE = "AZURE_OPENAI_API_VERSION"
_DEPLOYMENT_VARIABLE = "AZURE_OPENAI_DEPLOYMENT"
_PROFILE = OpenAIProfile(unsent=frozenset({"top_k", "min_p"}))


class AzureOpenAIAdapter(ChatCompletions):
    """An adapter for Azure OpenAI.

    It follows "Azure OpenAI REST API reference", data plane inference, version 2024-10-21, as of November 2026
    (``POST {endpoint}/openai/deployments/{deployment}/chat/completions?api-version=...``, with the header ``api-key``).
    The model of a call is the name of a deployment.

    Args:
        endpoint: The resource's address, such as ``https://my-resource.openai.azure.com``.
        api_key: The key; without one the calls fail.
        api_version: The version of the API.
        deployment: The deployment for calls whose model is blank.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.
        text_tool_calls: Whether tool calls are looked for in the text of answers that have none; ``auto`` is no.
        max_tokens_field: Where the limit of the answer goes; by default it is chosen by the name of the deployment.

    Raises:
        ConfigurationError: The endpoint, the key or the version cannot be sent.
        EgressPolicyError: The policy does not allow the endpoint.
    """

    def __init__(  # noqa: PLR0913 - all of them keywords, and most with a default
        self,
        *,
        endpoint: str,
        api_key: str | None = None,
        api_version: str = _VERSION,
        deployment: str | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
        text_tool_calls: bool | Literal["auto"] = "auto",
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
    ) -> None:
        super().__init__(
            name=_NAME,
            base_url=endpoint,
            key=KeyHeaders(owner=_NAME, api_key=api_key, key_header="api-key", key_variable=_KEY_VARIABLE),
            profile=_PROFILE,
            text_tool_calls=text_tool_calls is True,
            max_tokens_field=max_tokens_field,
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._version = checked_header(api_version, owner=_NAME, what="api_version")
        self._deployment = (deployment or "").strip()

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        deployment = options.model.strip() or self._deployment
        if not deployment:
            raise ConfigurationError(
                "Azure OpenAI deployment is required: name it as the model of the call, "
                f"give deployment, or set {_DEPLOYMENT_VARIABLE}"
            )
        return super()._request(messages, dataclasses.replace(options, model=deployment), stream=stream)

    def _url(self, options: LLMChatOptions) -> str:
        path = f"openai/deployments/{quote(options.model, safe='')}/chat/completions"
        return f"{self._base_url}/{path}?api-version={quote(self._version, safe='')}"


def create(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | None = None,
) -> AzureOpenAIAdapter:
    """Return a new adapter; the environment is read now, never later, and an empty variable counts as none.

    Args:
        api_key: The key; else ``AZURE_OPENAI_API_KEY``.
        base_url: The resource's endpoint; else ``AZURE_OPENAI_ENDPOINT``.
        transport: Timeouts and retries.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: The policy does not allow the endpoint, or there is none to check.
        ConfigurationError: There is no endpoint, or an argument or variable is not as it must be.
    """
    endpoint = base_url or os.environ.get(_ENDPOINT_VARIABLE)
    if not endpoint and egress_policy is not None:
        raise egress_unresolved(_NAME, f"set {_ENDPOINT_VARIABLE}, or give base_url")
    if not endpoint:
        raise ConfigurationError(
            f"{_NAME} needs the endpoint of its resource: set {_ENDPOINT_VARIABLE}, or give base_url"
        )
    key = api_key or os.environ.get(_KEY_VARIABLE) or None
    if key is not None and not api_key:
        checked_header(key, owner=_NAME, what=f"the value of {_KEY_VARIABLE}")
    return AzureOpenAIAdapter(
        endpoint=endpoint,
        api_key=key,
        api_version=os.environ.get(_VERSION_VARIABLE) or _VERSION,
        deployment=os.environ.get(_DEPLOYMENT_VARIABLE),
        transport=transport,
        egress_policy=egress_policy,
    )

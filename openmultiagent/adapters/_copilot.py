"""The adapter for GitHub Copilot: the chat protocol of OpenAI with few fields, behind a login of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .._log import get_logger
from ..egress import EgressPolicy, normalize_egress_policy
from ..errors import LLMAuthenticationError
from ..messages import LLMMessage
from ._copilot_login import DeviceCodeCallback, SessionTokens, show_device_code
from ._http_adapter import WireRequest
from ._openai import ChatCompletions
from ._openai_profile import OpenAIProfile
from ._protocol import LLMChatOptions
from ._transport import TransportOptions, checked_base_url, checked_header

if TYPE_CHECKING:
    import httpx

__all__ = ["CopilotAdapter", "create", "format_copilot_multiplier", "get_copilot_multiplier"]

_log = get_logger(__name__)

_NAME = "copilot"
_BASE_URL = "https://api.githubcopilot.com"
_GITHUB_URL = "https://github.com"
_GITHUB_API_URL = "https://api.github.com"
_KEY_VARIABLES = ("GITHUB_COPILOT_TOKEN", "GITHUB_TOKEN")
_EDITOR_HEADERS = {
    "copilot-integration-id": "vscode-chat",
    "editor-version": "vscode/1.100.0",
    "editor-plugin-version": "copilot-chat/0.42.2",
}
_VISION_HEADERS = {"copilot-vision-request": "true"}  # the service refuses images without it
_IMAGE = b'"type":"image_url"'  # in a text, the quotes would be escaped
_PROFILE = OpenAIProfile(
    structured_output=None,
    max_tokens_field="max_tokens",
    unsent=frozenset(
        {"top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"}
        | {"seed", "stop", "parallel_tool_calls", "tool_choice"}
    ),
    takes_extra_body=False,
)

_MULTIPLIERS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("gpt-4.1", "gpt-4o", "gpt-5-mini", "gpt-5 mini", "raptor", "goldeneye"), 0),
    (("grok",), 0.25),
    (("claude-haiku", "gemini-3-flash", "gemini-3.0-flash"), 0.33),
    (("gpt-5.1-codex-mini", "gpt-5.4-mini", "gpt-5.4 mini"), 0.33),
    (("claude-sonnet", "gemini-2.5-pro", "gemini-3-pro", "gemini-3.0-pro", "gemini-3.1-pro"), 1),
    (("gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4"), 1),
)
"""Premium requests that one call counts for, by parts of the model's name; the first that is found counts."""
_OPUS, _OPUS_MULTIPLIER, _FAST_OPUS_MULTIPLIER = "claude-opus", 3.0, 30.0


class CopilotAdapter(ChatCompletions):
    """An adapter for GitHub Copilot.

    There is no public documentation: it follows what GitHub's own editor plugins send
    (``POST https://api.githubcopilot.com/chat/completions``), as of November 2026. A session token is fetched before
    the first call, shared by all calls, and renewed a minute before its end or when the service refuses it.

    Args:
        github_token: A GitHub token with access to Copilot; without one, and without a login, the calls fail.
        allow_device_login: Whether a user may be asked to log in, when there is no token.
        on_device_code: Shows the user where to log in, as ``callback(verification_uri, user_code)``; given, it allows
            the login. Standard error is used by default.
        base_url: The address of the service. It and the next two are for companies whose GitHub has hosts of its own.
        github_url: Where users log in.
        github_api_url: GitHub's API, which is shown the token.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.

    Raises:
        ConfigurationError: The token cannot be sent, or an address is none.
        EgressPolicyError: The policy does not allow an address that the calls or the login need.
    """

    def __init__(  # noqa: PLR0913 - all but one of them keywords, and all with a default
        self,
        github_token: str | None = None,
        *,
        allow_device_login: bool = False,
        on_device_code: DeviceCodeCallback | None = None,
        base_url: str = _BASE_URL,
        github_url: str = _GITHUB_URL,
        github_api_url: str = _GITHUB_API_URL,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        policy = normalize_egress_policy(egress_policy)
        super().__init__(
            name=_NAME,
            base_url=base_url,
            profile=_PROFILE,
            transport=transport,
            http_client=http_client,
            egress_policy=policy,
        )
        asks = on_device_code is not None or allow_device_login
        self._tokens = SessionTokens(
            provider=_NAME,
            transport=self._transport,
            github_url=checked_base_url(github_url, owner=_NAME, what="github_url"),
            github_api_url=checked_base_url(github_api_url, owner=_NAME, what="github_api_url"),
            github_token=checked_header(github_token, owner=_NAME, what="github_token") if github_token else None,
            on_device_code=(on_device_code or show_device_code) if asks else None,
        )
        if policy is not None:
            for url in self._tokens.urls:
                policy.check(url, provider=_NAME)

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        request = super()._request(messages, options, stream=stream)
        extra = _VISION_HEADERS if _IMAGE in request.content else {}
        return replace(request, headers={**_EDITOR_HEADERS, **extra})

    async def _headers(self, request: WireRequest) -> Mapping[str, str]:
        return request.headers

    async def _post(self, request: WireRequest) -> httpx.Response:
        token = await self._tokens.get()
        try:
            return await super()._post(_shown(token, request))
        except LLMAuthenticationError as error:
            if error.status != 401:
                raise
        # The service has ended the session before its time; one that was renewed meanwhile stays.
        self._tokens.forget(token)
        return await super()._post(_shown(await self._tokens.get(), request))

    def _secrets(self) -> Iterable[str]:
        return self._tokens.secrets


def _shown(token: str, request: WireRequest) -> WireRequest:
    return replace(request, headers={"authorization": f"Bearer {token}", **request.headers})


def create(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | None = None,
) -> CopilotAdapter:
    """Return a new adapter that asks nobody to log in; the environment is read now, never later.

    Args:
        api_key: A GitHub token; else ``GITHUB_COPILOT_TOKEN``, else ``GITHUB_TOKEN``. An empty variable counts as none.
        base_url: Not used, with a warning: the service has one address.
        transport: Timeouts and retries.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: The policy does not allow an address of the adapter.
        ConfigurationError: The token cannot be sent.
    """
    if base_url is not None:
        _log.warning("copilot_base_url_ignored", hint="the service has one address")
    token = api_key or next(filter(None, map(os.environ.get, _KEY_VARIABLES)), None)
    return CopilotAdapter(token, transport=transport, egress_policy=egress_policy)


def get_copilot_multiplier(model: str) -> float:
    """Return how many premium requests one call of a model counts for, as GitHub's price list has it; 1 when unknown.

    Args:
        model: The model's name, in any case.
    """
    name = model.lower()
    for parts, multiplier in _MULTIPLIERS:
        if any(part in name for part in parts):
            return multiplier
    if _OPUS in name:
        return _FAST_OPUS_MULTIPLIER if "fast" in name else _OPUS_MULTIPLIER
    return 1.0


def format_copilot_multiplier(multiplier: float) -> str:
    """Return a label for what ``get_copilot_multiplier`` returned: that many times a premium request, or included.

    Args:
        multiplier: The number of premium requests.
    """
    times = "\N{MULTIPLICATION SIGN}"
    return f"{multiplier:g}{times} premium request" if multiplier else f"included (0{times})"

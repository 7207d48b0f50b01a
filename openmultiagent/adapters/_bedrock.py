"""The adapter for Amazon Bedrock's Converse API, with neither an SDK nor a network call for credentials."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from .._patterns import lazy_pattern
from .._shown import shown
from ..egress import EgressPolicy
from ..errors import AdapterError, ConfigurationError, LLMAuthenticationError
from ..messages import LLMMessage
from ._aws_credentials import (
    AwsCredentials,
    CredentialsProvider,
    SharedCredentialsFile,
    credentials_from_environment,
)
from ._bedrock_answer import AnswerReader, StreamReader
from ._bedrock_request import encode_request
from ._faults import request_id_of
from ._http_adapter import WireAdapter, WireRequest
from ._protocol import LLMChatOptions, LLMResponse
from ._sigv4 import signed_headers
from ._streamed_body import BodyReader
from ._transport import TransportOptions, checked_header

if TYPE_CHECKING:
    import httpx

__all__ = ["BedrockAdapter", "create"]

_DEFAULT_REGION = "us-east-1"
_REGION = lazy_pattern(r"[a-z]{2,}(-[a-z0-9]+)+")
_BEARER_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"


def _now() -> datetime:
    return datetime.now(UTC)


class BedrockAdapter(WireAdapter):
    """An adapter for Amazon Bedrock.

    It follows "Converse" and "ConverseStream" of the Bedrock API reference and AWS's own description of the service
    (``bedrock-runtime`` 2023-09-30 in botocore 1.43), as they were in November 2026: ``POST
    https://bedrock-runtime.{region}.amazonaws.com/model/{modelId}/converse``, or ``converse-stream``. Requests carry a
    Bedrock API key as a bearer token, or else a signature (version 4) that is made anew for each attempt.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        region: AWS's name of the region.
        base_url: Another address than that of the region, such as a VPC endpoint.
        api_key: A Bedrock API key; wins over credentials.
        credentials: An access key.
        credentials_provider: Returns the access key for a request; wins over ``credentials``.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.
        now: Tells the time that signatures are made for.
        prefill: What happens to a conversation that ends with an assistant message. Most models refuse it, so by
            default a short user message is added that asks to continue. True sends it as it is, for a model that
            continues such a message.

    Raises:
        ConfigurationError: The region, the address or the key cannot be sent.
        EgressPolicyError: The policy does not allow the address.
    """

    def __init__(  # noqa: PLR0913 - all of them keywords with a default
        self,
        *,
        name: str = "bedrock",
        region: str = _DEFAULT_REGION,
        base_url: str | None = None,
        api_key: str | None = None,
        credentials: AwsCredentials | None = None,
        credentials_provider: CredentialsProvider | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
        now: Callable[[], datetime] = _now,
        prefill: bool = False,
    ) -> None:
        if _REGION.fullmatch(region) is None:
            raise ConfigurationError(f"{name}: region must be a name such as us-east-1, got {shown(region)}")
        address = base_url or f"https://bedrock-runtime.{region}.amazonaws.com"
        super().__init__(
            name=name,
            base_url=address,
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._region = region
        self._api_key = checked_header(api_key, owner=name, what="api_key") if api_key else None
        self._credentials = credentials
        self._provider = credentials_provider
        self._now = now
        self._prefill = prefill
        self._seen: deque[str] = deque(maxlen=12)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, region={self._region!r}, base_url={self._base_url!r})"

    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        content = encode_request(messages, options, adapter_name=self.name, prefill=self._prefill)
        operation = "converse-stream" if stream else "converse"
        # Names have colons, and ARNs slashes.
        return WireRequest(
            f"{self._base_url}/model/{quote(options.model, safe='')}/{operation}", content, options.model
        )

    async def _headers(self, request: WireRequest) -> Mapping[str, str]:
        if self._api_key is not None:
            return {"authorization": f"Bearer {self._api_key}"}
        credentials = await self._credentials_now()
        return signed_headers(
            request.url,
            request.content,
            credentials=credentials,
            region=self._region,
            service="bedrock",
            now=self._now(),
        )

    async def _credentials_now(self) -> AwsCredentials:
        if self._provider is None:
            if self._credentials is None:
                raise self._refusal("there are none; set AWS_BEARER_TOKEN_BEDROCK, or give api_key or credentials")
            credentials: object = self._credentials
        else:
            try:
                credentials = await self._provider()
            except AdapterError:
                raise
            except Exception as error:  # isolation boundary: a user's function may fail in any way
                raise self._refusal(f"credentials_provider failed with {type(error).__name__}") from error
        if not isinstance(credentials, AwsCredentials):
            raise self._refusal(f"credentials_provider must return AwsCredentials, got {type(credentials).__name__}")
        self._remember(credentials)
        return credentials

    def _remember(self, credentials: AwsCredentials) -> None:
        """Keep the secrets that an error of the service may quote; temporary keys come and go."""
        for secret in (credentials.session_token, credentials.secret_access_key, credentials.access_key_id):
            if secret and secret not in self._seen:
                self._seen.append(secret)

    def _refusal(self, reason: str) -> LLMAuthenticationError:
        return LLMAuthenticationError(f"{self.name} needs credentials; {reason}", provider=self.name, attempts=0)

    def _read(self, body: bytes, request: WireRequest, response: httpx.Response) -> LLMResponse:
        request_id = request_id_of(response.headers) or ""
        reader = AnswerReader(provider=self.name, model=request.model, request_id=request_id, redact=self._redact)
        return reader.read(body)

    def _reader(self, request: WireRequest, response: httpx.Response) -> BodyReader:
        request_id = request_id_of(response.headers) or ""
        return StreamReader(provider=self.name, model=request.model, request_id=request_id, redact=self._redact)

    def _secrets(self) -> Iterable[str]:
        return (*self._seen, self._api_key) if self._api_key is not None else tuple(self._seen)


def create(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    region: str | None = None,
    transport: TransportOptions | None = None,
    egress_policy: EgressPolicy | None = None,
) -> BedrockAdapter:
    """Return a new adapter; the environment is read now, and an empty variable counts as none.

    It logs in with the first of these that there is: ``api_key``, the API key in ``AWS_BEARER_TOKEN_BEDROCK``, the
    access key in ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``, and the profile
    ``AWS_PROFILE`` of the shared credentials file, which alone is read at each call.

    Args:
        api_key: A Bedrock API key.
        base_url: Another address than that of the region.
        region: AWS's name of the region; else ``AWS_REGION``, else ``AWS_DEFAULT_REGION``, else ``us-east-1``.
        transport: Timeouts and retries.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: The policy does not allow an address of the adapter.
        ConfigurationError: An argument or variable is not as it must be.
    """
    key = api_key or os.environ.get(_BEARER_VARIABLE) or None
    credentials = None if key is not None else credentials_from_environment()
    needs_file = key is None and credentials is None
    return BedrockAdapter(
        region=region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION,
        base_url=base_url,
        api_key=key,
        credentials=credentials,
        credentials_provider=SharedCredentialsFile.from_environment("bedrock") if needs_file else None,
        transport=transport,
        egress_policy=egress_policy,
    )

"""What requests of several vendors' own protocols have in common, and the course of a call over HTTP.

Not here: what requests and answers mean. Invariants of ``WireAdapter``: what cannot be sent raises before any request;
whatever fails later is an ``AdapterError``, or an ``EgressPolicyError``, and in a stream its last event; cancellation
passes through and closes the response.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio

from .._record import record
from .._version import __version__
from ..egress import EgressPolicy, normalize_egress_policy
from ..errors import AdapterError, ConfigurationError, EgressPolicyError, LLMProtocolError
from ..messages import LLMMessage
from ..redaction import redact_known_secrets, redact_sensitive_text
from ._faults import page_error, request_id_of
from ._key_headers import KeyHeaders
from ._protocol import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent
from ._streamed_body import BodyReader, StreamedBody
from ._transport import HttpTransport, TransportOptions, checked_base_url

if TYPE_CHECKING:
    import httpx

__all__ = ["WireAdapter", "WireRequest", "json_bytes", "merged_turns", "padded_base64"]

_TRAILER_SECONDS = 0.5
"""How long the end of a body may take after the answer is complete, before its connection is given up."""

_COMMON_HEADERS = {"content-type": "application/json", "user-agent": f"openmultiagent/{__version__}"}

JsonObject = dict[str, Any]


@record
class WireRequest:
    """What is sent for one call."""

    url: str
    content: bytes
    model: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of this request alone."""
    text_tools: frozenset[str] = frozenset()
    """Names of the tools whose calls are looked for in the text of an answer without calls."""


class WireAdapter(ABC):
    """An adapter that posts one request for each call.

    One adapter serves any number of tasks and event loops; it keeps connections open for each loop until ``aclose``. It
    is a live handle: ``copy.deepcopy`` returns the adapter itself.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        base_url: The server's address.
        key: The headers of all requests, with the key in them; adapters that log in in another way have none.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        egress_policy: Where requests may go; anywhere when it is None. It does not go together with ``http_client``.

    Raises:
        ConfigurationError: The base URL cannot be used.
        EgressPolicyError: The policy does not allow it.
    """

    capabilities: AdapterCapabilities = AdapterCapabilities(read_only=True, echoes_reasoning="own-issued")
    """The adapter reads a conversation in place, and sends back the reasoning that it issued itself."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key: KeyHeaders | None = None,
        transport: TransportOptions | None = None,
        http_client: httpx.AsyncClient | None = None,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        self.name = name
        self._key = key or KeyHeaders(owner=name, api_key=None)
        self._base_url = checked_base_url(base_url, owner=name)
        policy = normalize_egress_policy(egress_policy)
        if policy is not None:
            policy.check(self._base_url, provider=name)
        self._transport = HttpTransport(
            provider=name,
            options=transport or TransportOptions(),
            http_client=http_client,
            redact=self._redact,
            egress_policy=policy,
        )

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        """Return the model's answer to a conversation.

        Args:
            messages: The conversation; only read.
            options: Everything else about the call.

        Raises:
            InvalidMessageError: The conversation is not valid; no request was made.
            ConfigurationError: An option cannot be sent; no request was made.
            AdapterError: A block cannot be expressed (no request was made), or the provider refused, failed or could
                not be reached.
            EgressPolicyError: The policy does not allow the request, or the server redirects it.
        """
        request = self._request(messages, options, stream=False)
        response = await self._post(request)
        try:
            return self._read(await self._transport.read(response), request, response)
        except AdapterError as error:
            raise self._in_context(error, response) from error.__cause__

    async def stream(
        self, messages: Sequence[LLMMessage], options: LLMChatOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the answer as it is written; iterate to the end, or call ``aclose`` on the iterator.

        Args:
            messages: The conversation; only read.
            options: Everything else about the call.

        Raises:
            InvalidMessageError: The conversation is not valid; no request was made.
            ConfigurationError: An option cannot be sent; no request was made.
            AdapterError: A block cannot be expressed; no request was made. Everything later is an ``error`` event.
        """
        request = self._request(messages, options, stream=True)
        try:
            async with aclosing(self._events(request)) as events:
                async for event in events:
                    yield event
        except (AdapterError, EgressPolicyError) as error:
            yield StreamEvent("error", error)

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The adapter stays usable: its next call opens new ones."""
        await self._transport.aclose()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, base_url={self._base_url!r})"

    @abstractmethod
    def _request(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> WireRequest:
        """Return what to send; raise when it cannot be expressed."""

    async def _headers(self, request: WireRequest) -> Mapping[str, str]:  # noqa: ARG002 - some differ for each request
        """Return the headers of an attempt; raise an ``AdapterError`` when there is nothing to log in with."""
        return self._key.get()

    @abstractmethod
    def _read(self, body: bytes, request: WireRequest, response: httpx.Response) -> LLMResponse:
        """Return the answer that a whole body holds."""

    @abstractmethod
    def _reader(self, request: WireRequest, response: httpx.Response) -> BodyReader:
        """Return what reads the body of a streamed answer."""

    def _secrets(self) -> Iterable[str]:
        """Return the texts that must be in no error."""
        return self._key.secrets

    async def _post(self, request: WireRequest) -> httpx.Response:
        async def headers() -> Mapping[str, str]:
            return {**_COMMON_HEADERS, **await self._headers(request)}

        return await self._transport.post(request.url, headers=headers, content=request.content)

    async def _events(self, request: WireRequest) -> AsyncGenerator[StreamEvent, None]:
        response = await self._post(request)
        reader = StreamedBody(
            self._reader(request, response),
            partial(self._read, request=request, response=response),
            content_type=response.headers.get("content-type", ""),
        )
        try:
            async with aclosing(self._transport.chunks(response)) as chunks:
                async for chunk in chunks:
                    for event in reader.feed(chunk):
                        yield event
                    if reader.is_over:
                        await _read_trailer(chunks)
                        break
            for event in reader.close():
                yield event
        except AdapterError as error:
            raise self._in_context(error, response) from error.__cause__

    def _in_context(self, error: AdapterError, response: httpx.Response) -> AdapterError:
        """Return an error that tells which response could not be read; readers make such errors from the body alone."""
        if isinstance(error, LLMProtocolError) and (error.body or "").lstrip().startswith("<"):
            error = page_error(error, url=str(response.url), redact=self._redact)
        error.status = error.status or response.status_code
        error.request_id = error.request_id or request_id_of(response.headers)
        return error

    def _redact(self, text: str) -> str:
        # The secrets themselves first: a server may quote them in a form that no pattern knows.
        return redact_sensitive_text(redact_known_secrets(text, self._secrets()))


async def _read_trailer(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read what is behind the last event, so that the connection can serve the next request."""
    with anyio.move_on_after(_TRAILER_SECONDS):
        async for _ in chunks:
            pass


def merged_turns(turns: Iterable[tuple[str, list[JsonObject]]]) -> Iterator[tuple[str, list[JsonObject]]]:
    """Yield turns of which no two neighbours have the same role, and none is empty.

    Args:
        turns: Roles and what is sent under them.
    """
    role = ""
    waiting: list[JsonObject] = []
    for next_role, parts in turns:
        if not parts:
            continue
        if next_role != role and waiting:
            yield role, waiting
            waiting = []
        role = next_role
        waiting.extend(parts)
    if waiting:
        yield role, waiting


def padded_base64(data: str) -> str:
    """Return a base64 text with its padding, which messages may leave out and servers may insist on.

    Args:
        data: A valid base64 text.
    """
    missing = -len(data) % 4
    return data + "=" * missing if missing else data


def json_bytes(body: JsonObject) -> bytes:
    """Return the compact JSON of a request in UTF-8.

    Args:
        body: The request.

    Raises:
        ConfigurationError: It is no JSON data.
    """
    try:
        return json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain_mapping
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # Messages were checked, so it is one of the other parts.
        raise ConfigurationError(
            f"the request cannot be written as JSON: {error}; "
            "see extra_body, the sampling settings and the schemas of the tools"
        ) from error


def _plain_mapping(value: object) -> JsonObject:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")

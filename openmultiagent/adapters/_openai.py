"""The adapter for servers that speak the OpenAI chat protocol. Which servers there are is data, in ``_providers``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio

from .._version import __version__
from ..errors import AdapterError, LLMAuthenticationError
from ..messages import LLMMessage
from ..redaction import REDACTED, redact_sensitive_text
from ._openai_answer import AnswerReader, StreamReader
from ._openai_request import encode_request
from ._protocol import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent
from ._sse import SSEDecoder
from ._transport import HttpTransport, TransportOptions, checked_base_url, checked_header

if TYPE_CHECKING:
    import httpx

__all__ = ["OpenAIAdapter"]

_TRAILER_SECONDS = 0.5
"""How long the end of a body may take after the server said ``[DONE]``, before its connection is given up."""


class OpenAIAdapter:
    """An adapter for the OpenAI chat protocol.

    It follows "Chat Completions" of the OpenAI API reference (``POST {base_url}/chat/completions``, JSON or server-sent
    events with ``stream_options.include_usage``). One adapter serves any number of tasks and event loops; it keeps
    connections open for each loop until ``aclose``. It is a live handle: ``copy.deepcopy`` returns the adapter itself.

    Args:
        name: The provider's name, for errors and as the provenance of reasoning.
        base_url: The address up to and including the version.
        api_key: Sent as a bearer token; without one no ``Authorization`` header is sent.
        key_variable: Name of the environment variable that the key should have come from, when the server needs a key:
            a call without a key then fails with an error that names it. The adapter itself reads no environment.
        headers: Further headers; they win over the adapter's own.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones, with its own timeouts; the adapter never closes it.
        max_tokens_field: Where the limit of the answer goes; by default it is chosen by the name of the model.
        empty_content: What an assistant message without text has as its content; ``""`` for servers that refuse null.

    Raises:
        ConfigurationError: The base URL, the key or a header cannot be sent.
    """

    capabilities = AdapterCapabilities(read_only=True)
    """The adapter reads a conversation in place."""

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
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        empty_content: str | None = None,
    ) -> None:
        self.name = name
        self._base_url = checked_base_url(base_url, owner=name)
        self._missing_key = key_variable if not api_key else None
        self._api_key = checked_header(api_key, owner=name, what="api_key") if api_key else None
        self._headers = self._make_headers(headers or {})
        self._max_tokens_field = max_tokens_field
        self._empty_content = empty_content
        self._transport = HttpTransport(
            provider=name, options=transport or TransportOptions(), http_client=http_client, redact=self._redact
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
        """
        body = self._encode(messages, options, stream=False)
        response = await self._post(body)
        reader = AnswerReader(provider=self.name, model=options.model, redact=self._redact)
        try:
            return reader.read(await self._transport.read(response))
        except AdapterError as error:
            _add_context(error, response)
            raise

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
        body = self._encode(messages, options, stream=True)
        try:
            async with aclosing(self._events(body, options.model)) as events:
                async for event in events:
                    yield event
        except AdapterError as error:
            yield StreamEvent("error", error)

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The adapter stays usable: its next call opens new ones."""
        await self._transport.aclose()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, base_url={self._base_url!r})"

    def _make_headers(self, given: Mapping[str, str]) -> dict[str, str]:
        headers = {"content-type": "application/json", "user-agent": f"openmultiagent/{__version__}"}
        if self._api_key is not None:
            headers["authorization"] = f"Bearer {self._api_key}"
        for key, value in given.items():
            name = checked_header(key, owner=self.name, what="the name of a header").lower()
            headers[name] = checked_header(value, owner=self.name, what=f"the value of header {name}")
        return headers

    def _encode(self, messages: Sequence[LLMMessage], options: LLMChatOptions, *, stream: bool) -> bytes:
        return encode_request(
            messages,
            options,
            stream=stream,
            max_tokens_field=self._max_tokens_field,
            empty_content=self._empty_content,
        )

    async def _post(self, body: bytes) -> httpx.Response:
        if self._missing_key is not None:
            raise LLMAuthenticationError(
                f"{self.name} needs an API key: set {self._missing_key}, or give api_key",
                provider=self.name,
                attempts=0,
            )
        return await self._transport.post(f"{self._base_url}/chat/completions", headers=self._headers, content=body)

    async def _events(self, body: bytes, model: str) -> AsyncGenerator[StreamEvent, None]:
        response = await self._post(body)
        lines = SSEDecoder()
        reader = StreamReader(provider=self.name, model=model, redact=self._redact)
        try:
            async with aclosing(self._transport.chunks(response)) as chunks:
                async for chunk in chunks:
                    for line in lines.feed(chunk):
                        for event in reader.feed(line.data):
                            yield event
                    if reader.done:
                        await _read_trailer(chunks)
                        break
            for line in lines.close():
                for event in reader.feed(line.data):
                    yield event
            for event in reader.finish():
                yield event
        except AdapterError as error:
            _add_context(error, response)
            raise

    def _redact(self, text: str) -> str:
        # The key itself first: a server may quote it in a form that no pattern knows.
        return redact_sensitive_text(text if self._api_key is None else text.replace(self._api_key, REDACTED))


async def _read_trailer(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read what is behind the last event, so that the connection can serve the next request."""
    with anyio.move_on_after(_TRAILER_SECONDS):
        async for _ in chunks:
            pass


def _add_context(error: AdapterError, response: httpx.Response) -> None:
    """Tell which response could not be read; ``chat`` and ``stream`` make such errors from the body alone."""
    error.status = error.status or response.status_code
    error.request_id = error.request_id or response.headers.get("x-request-id")

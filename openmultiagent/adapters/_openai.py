"""The adapter for servers that speak the OpenAI chat protocol. Which servers there are is data, in ``_vendors``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from ..egress import EgressPolicy
from ..errors import LLMAuthenticationError
from ..messages import LLMMessage
from ._http_adapter import BodyReader, WireAdapter, WireRequest
from ._openai_answer import AnswerReader, StreamReader
from ._openai_profile import OpenAIProfile
from ._openai_request import encode_request
from ._protocol import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent
from ._sse import SSEDecoder
from ._transport import TransportOptions, checked_base_url, checked_header
from ._vendors import is_vendor_host

if TYPE_CHECKING:
    import httpx

__all__ = ["ChatCompletions", "EventBody", "EventReader", "KeyHeaders", "OpenAIAdapter"]


class EventReader(Protocol):
    """Reads the server-sent events of one answer."""

    done: bool
    """Whether nothing of interest follows."""

    def feed(self, data: str) -> list[StreamEvent]:
        """Return what the data of one server-sent event completes."""
        ...

    def finish(self) -> list[StreamEvent]:
        """Return the events at the end of the body, ``done`` last."""
        ...


class EventBody:
    """The body of a streamed answer: server-sent events, each with JSON.

    Args:
        reader: Reads the events.
    """

    def __init__(self, reader: EventReader) -> None:
        self._lines = SSEDecoder()
        self._reader = reader

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete."""
        return self._reader.done

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a further piece of the body completes.

        Args:
            chunk: The next bytes, cut anywhere.
        """
        for line in self._lines.feed(chunk):
            yield from self._reader.feed(line.data)

    def close(self) -> Iterator[StreamEvent]:
        """Yield the events at the end of the body, ``done`` last."""
        for line in self._lines.close():
            yield from self._reader.feed(line.data)
        yield from self._reader.finish()


class KeyHeaders:
    """The headers of an adapter that shows a key, and what must not be shown of them.

    Args:
        owner: Name of the adapter, for errors.
        api_key: The key.
        key_header: The header that shows it; ``authorization`` shows it as a bearer token.
        key_variable: The environment variable that the key should have come from, when there must be one.
        headers: Further headers; they win.

    Raises:
        ConfigurationError: The key or a header cannot be sent.
    """

    def __init__(
        self,
        *,
        owner: str,
        api_key: str | None,
        key_header: str = "authorization",
        key_variable: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._owner = owner
        self._values: dict[str, str] = {}
        if api_key:
            key = checked_header(api_key, owner=owner, what="api_key")
            self._values[key_header] = f"Bearer {key}" if key_header == "authorization" else key
        for name, value in (headers or {}).items():
            header = checked_header(name, owner=owner, what="the name of a header").lower()
            self._values[header] = checked_header(value, owner=owner, what=f"the value of header {header}")
        self._missing_key = key_variable if not api_key else None
        self.secrets = (api_key,) if api_key else ()
        """What must be in no error."""

    def get(self) -> Mapping[str, str]:
        """Return the headers.

        Raises:
            LLMAuthenticationError: There must be a key, and is none.
        """
        if self._missing_key is not None:
            raise LLMAuthenticationError(
                f"{self._owner} needs an API key: set {self._missing_key}, or give api_key",
                provider=self._owner,
                attempts=0,
            )
        return self._values


class ChatCompletions(WireAdapter):
    """The chat protocol of OpenAI, wherever it is spoken and whatever a request is allowed by.

    Args:
        name: The provider's name.
        base_url: The server's address.
        profile: How the server departs from the protocol.
        text_tool_calls: Whether calls are looked for in the text of answers without calls.
        max_tokens_field: Where the limit of the answer goes.
        empty_content: What an assistant message without text has as its content.
        transport: Timeouts and retries.
        http_client: A client to use instead of own ones.
        egress_policy: Where requests may go.
    """

    def __init__(  # noqa: PLR0913 - all of them keywords, and most with a default
        self,
        *,
        name: str,
        base_url: str,
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

    def _read(self, body: bytes, request: WireRequest, response: httpx.Response) -> LLMResponse:  # noqa: ARG002 - see the base class
        return AnswerReader(
            provider=self.name, model=request.model, redact=self._redact, text_tools=request.text_tools
        ).read(body)

    def _reader(self, request: WireRequest, response: httpx.Response) -> BodyReader:  # noqa: ARG002 - see the base class
        return EventBody(
            StreamReader(provider=self.name, model=request.model, redact=self._redact, text_tools=request.text_tools)
        )

    def _is_over(self, reader: BodyReader) -> bool:
        return isinstance(reader, EventBody) and reader.is_over


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
            profile=profile or OpenAIProfile(),
            text_tool_calls=looks if text_tool_calls == "auto" else text_tool_calls,
            max_tokens_field=max_tokens_field,
            empty_content=empty_content,
            transport=transport,
            http_client=http_client,
            egress_policy=egress_policy,
        )
        self._own_headers = KeyHeaders(owner=name, api_key=api_key, key_variable=key_variable, headers=headers)

    async def _headers(self, request: WireRequest) -> Mapping[str, str]:  # noqa: ARG002 - the same for all of them
        return self._own_headers.get()

    def _secrets(self) -> Iterable[str]:
        return self._own_headers.secrets

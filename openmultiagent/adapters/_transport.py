"""HTTP for adapters: one client per event loop, bounded retries, and every failure an error of this library.

Not here: what requests and responses mean. Redirects are never followed, since a request carries a key and a
conversation. Invariant: a response that was opened is closed on every way out, and nothing is sent again after the
first byte of an answer was read. httpx is imported when the first client is made, in a worker thread: it takes more
time than ``import openmultiagent`` may, and making a TLS context would block the event loop.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic import Field

from .._log import get_logger
from .._spec import spec
from ..egress import EgressPolicy, egress_unsupported
from ..errors import AdapterError, ConfigurationError, LLMProtocolError
from ._aiohttp_transport import aiohttp_transport
from ._direct_client import DirectClient
from ._egress_guard import EgressGuard
from ._faults import Redactor, closed_error, connection_error, status_error, unreadable_redirect_error

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["HttpTransport", "TransportOptions", "checked_base_url", "checked_header", "retry_delay"]

_log = get_logger(__name__)

_CLOSE_SECONDS = 5.0
_ERROR_BODY_SECONDS = 5.0
_ERROR_BODY_BYTES = 64 * 1024
_MAX_CONNECTIONS = 256
_CLIENT = "openmultiagent.client"
"""Where a response keeps the client that it came by: one that is closed meanwhile explains what goes wrong."""
_BAD_LOCATION = "Invalid URL in location header"
"""What the ``RemoteProtocolError`` of httpx says when it cannot read where a server redirects to."""
_LONGEST_OBEYED_WAIT = 60.0  # a server that asks for more gets the ordinary back-off


@spec
class TransportOptions:
    """How patient the HTTP client is. An adapter that is given an ``http_client`` uses that client's own timeouts."""

    _: KW_ONLY
    max_retries: Annotated[int, Field(ge=0)] = 2
    """Further attempts after the first, for one model call, whatever went wrong with each of them."""
    timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds without a byte in either direction, and seconds to wait for a free connection."""
    connect_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds to open a connection, TLS included."""


def retry_delay(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Return the seconds to wait after a failed attempt.

    The server's wish counts when it is between 0 and 60 seconds. Otherwise 0.5 s, doubled for each failure, at most
    8 s, of which up to a quarter is taken off (the schedule of the vendors' own clients): the cap holds with jitter.

    Args:
        attempt: Number of the attempt that failed, from 1.
        retry_after: What the server asked for, in seconds.
        jitter: A number from 0 to 1.
    """
    if retry_after is not None and 0 < retry_after <= _LONGEST_OBEYED_WAIT:
        return retry_after
    backoff: float = min(0.5 * 2 ** min(attempt - 1, 4), 8.0)
    return backoff * (1 - 0.25 * jitter)


def checked_base_url(base_url: object, *, owner: str, what: str = "base_url") -> str:
    """Return a base URL without its trailing slash.

    Args:
        base_url: An absolute HTTP(S) URL without credentials, query and fragment.
        owner: Whose URL it is, for the error.
        what: What the argument is called.

    Raises:
        ConfigurationError: It is something else.
    """
    fault = _base_url_fault(base_url)
    if fault is not None:
        # Not the value itself: it may hold credentials.
        raise ConfigurationError(
            f"{owner}: {what} {fault}; give the address up to and including the version, "
            "such as http://localhost:11434/v1"
        )
    return str(base_url).rstrip("/")


def _base_url_fault(base_url: object) -> str | None:  # noqa: PLR0911 - one way out for each fault
    if not isinstance(base_url, str):
        return f"must be a string, got {type(base_url).__name__}"
    if re.search(r"[\s\x00-\x1f\x7f\\]", base_url):
        return "must not contain spaces, control characters or backslashes"
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must be an absolute http:// or https:// URL with a host"
    if "@" in parts.netloc:
        return "must not contain credentials"
    if "?" in base_url or "#" in base_url:
        return "must not have a query or a fragment"
    return None


def checked_header(value: object, *, owner: str, what: str) -> str:
    """Return a text that can be sent as the value of a header.

    Args:
        value: The text.
        owner: Whose header it is, for the error.
        what: What the text is; the error does not show the text itself.

    Raises:
        ConfigurationError: It is no printable ASCII text.
    """
    if not isinstance(value, str) or re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value) is None:
        raise ConfigurationError(
            f"{owner}: {what} must be printable ASCII text without surrounding spaces or line ends, as headers allow"
        )
    return value


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the process's TLS context: making one reads all certificates, which takes 30 ms."""
    import httpx  # noqa: PLC0415 - see the module docstring

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@lru_cache(maxsize=64)
def _parsed(url: str) -> httpx.URL:
    """Return an address as httpx wants it: making it anew for each request costs more than the rest of the request."""
    import httpx  # noqa: PLC0415 - see the module docstring

    return httpx.URL(url)


class _Clients:
    """One client for each running event loop: connections belong to the loop that opened them."""

    prefers_aiohttp = True
    """Whether aiohttp sends the requests where it can; benchmarks compare both ways."""

    def __init__(self, options: TransportOptions, guard: EgressGuard | None) -> None:
        self._options = options
        self._guard = guard
        self._by_loop: WeakKeyDictionary[object, httpx.AsyncClient | DirectClient] = WeakKeyDictionary()
        self._lock = Lock()  # several threads may each run a loop

    async def get(self) -> httpx.AsyncClient | DirectClient:
        loop = anyio.lowlevel.current_token().native_token
        client = self._by_loop.get(loop)
        if client is None:
            made = await anyio.to_thread.run_sync(self._make, isinstance(loop, asyncio.AbstractEventLoop))
            with self._lock:
                self._forget_closed_loops()
                # Another task of this loop may have been quicker; a client without connections needs no closing.
                client = self._by_loop.setdefault(loop, made)
        return client

    async def aclose(self) -> None:
        with self._lock:
            client = self._by_loop.pop(anyio.lowlevel.current_token().native_token, None)
        if client is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await client.aclose()

    def _make(self, on_asyncio: bool) -> httpx.AsyncClient | DirectClient:  # noqa: FBT001 - run_sync has no keywords
        import httpx  # noqa: PLC0415 - see the module docstring

        tls = _tls_context()
        timeout = httpx.Timeout(self._options.timeout, connect=self._options.connect_timeout)
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS)
        if self._guard is None and _proxies():  # with a guard none is used, whatever the environment says
            return httpx.AsyncClient(verify=tls, timeout=timeout, limits=limits)
        fast = aiohttp_transport(limits=limits, tls=tls) if on_asyncio and self.prefers_aiohttp else None
        transport = fast or httpx.AsyncHTTPTransport(verify=tls, limits=limits)
        return DirectClient(transport, timeout=timeout, guard=self._guard)

    def _forget_closed_loops(self) -> None:
        # Their connections keep them alive, so the weak reference alone would not let go.
        closed = [loop for loop in self._by_loop if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed()]
        for loop in closed:
            del self._by_loop[loop]


def _proxies() -> set[str]:
    """Return the kinds of proxies that the environment, or the system, names."""
    from urllib.request import getproxies  # noqa: PLC0415 - import time, and httpx has loaded it already

    return getproxies().keys() & {"http", "https", "all"}


class HttpTransport:
    """Sends requests for one adapter; safe to use from several tasks and several event loops.

    Args:
        provider: Name of the adapter, for errors.
        options: Timeouts and number of retries.
        http_client: A client to use instead of own ones; it is used as it is and never closed.
        redact: Takes secrets out of what goes into errors.
        sleep: Waits between attempts, for some seconds.
        jitter: Returns a number from 0 to 1 that spreads the attempts of many clients.
        egress_policy: Where requests may go; anywhere when it is None.

    Raises:
        EgressPolicyError: There is a policy, and an ``http_client`` that it has no hold of.
    """

    def __init__(
        self,
        *,
        provider: str,
        options: TransportOptions,
        redact: Redactor,
        http_client: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
        egress_policy: EgressPolicy | None = None,
    ) -> None:
        if egress_policy is not None and http_client is not None:
            raise egress_unsupported(provider, "a given http_client may send elsewhere; leave it out")
        self._provider = provider
        self._max_retries = options.max_retries
        self._given = http_client
        self._clients = _Clients(
            options, None if egress_policy is None else EgressGuard(egress_policy, provider=provider)
        )
        self._redact = redact
        self._sleep = sleep
        self._jitter = jitter

    async def post(
        self, url: str, *, headers: Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]], content: bytes
    ) -> httpx.Response:
        """Return an open response with a 2xx status; read it with ``read`` or ``chunks``, which close it.

        Args:
            url: Where to.
            headers: All headers that the protocol asks for, or what makes them anew for each attempt.
            content: The body.

        Raises:
            AdapterError: There was no such response, also after the retries.
            ConfigurationError: The request cannot be sent at all.
        """
        return await self._send("POST", url, headers, content)

    async def get(self, url: str, *, headers: Mapping[str, str]) -> httpx.Response:
        """Return an open response with a 2xx status to a request without a body, as ``post`` does.

        Args:
            url: Where to.
            headers: All headers that the protocol asks for.

        Raises:
            AdapterError: There was no such response, also after the retries.
            ConfigurationError: The request cannot be sent at all.
        """
        return await self._send("GET", url, headers, None)

    async def read(self, response: httpx.Response) -> bytes:
        """Return the whole body of a response, and close it.

        Args:
            response: What ``post`` returned.

        Raises:
            LLMConnectionError: The connection broke.
            LLMProtocolError: The body is not encoded as the server says.
        """
        import httpx  # noqa: PLC0415 - see the module docstring

        try:
            return await response.aread()
        except httpx.RequestError as error:
            raise self._fault(error, str(response.url), response.extensions.get(_CLIENT)) from error
        finally:
            await _close(response)

    async def chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """Yield the body of a response as it arrives, and close it; must be iterated to its end or closed.

        Args:
            response: What ``post`` returned.

        Raises:
            LLMConnectionError: The connection broke.
            LLMProtocolError: The body is not encoded as the server says.
        """
        import httpx  # noqa: PLC0415 - see the module docstring

        plain = "content-encoding" not in response.headers and not response.is_stream_consumed
        body = response.aiter_raw() if plain else response.aiter_bytes()  # the latter costs more for each chunk
        try:
            async for chunk in body:
                yield chunk
        except httpx.RequestError as error:
            raise self._fault(error, str(response.url), response.extensions.get(_CLIENT)) from error
        finally:
            await _abandon(response, body)

    async def aclose(self) -> None:
        """Close the connections of the current event loop; the next request opens new ones."""
        await self._clients.aclose()

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]],
        content: bytes | None,
    ) -> httpx.Response:
        attempt = 1
        while True:
            made = await headers() if callable(headers) else headers
            client = self._given or await self._clients.get()
            try:
                return await self._send_once(client, method, url, made, content)
            except AdapterError as error:
                failure = error
                error.attempts = attempt
                if attempt > self._max_retries or not error.retryable:
                    raise
                delay = retry_delay(attempt, error.retry_after, self._jitter())
                _log.info("model_request_retried", provider=self._provider, attempt=attempt, status=error.status)
            await self._sleep(delay)
            if client is not self._given and client.is_closed:  # nobody would close the connection of another attempt
                raise closed_error(self._provider, attempts=attempt) from failure
            attempt += 1

    async def _send_once(
        self,
        client: httpx.AsyncClient | DirectClient,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
    ) -> httpx.Response:
        import httpx  # noqa: PLC0415 - see the module docstring; here it is loaded already

        if client.is_closed:
            raise ConfigurationError(f"{self._provider}: the http_client that the adapter was given is closed")
        try:
            request = client.build_request(method, _parsed(url), headers=headers, content=content)
        except (httpx.InvalidURL, UnicodeError) as error:  # the latter comes from the rules for names of hosts
            raise ConfigurationError(f"{self._provider}: base_url cannot be used: {error}") from error
        try:
            response = await client.send(request, stream=True, follow_redirects=False)
        except (httpx.RequestError, httpx.InvalidURL, UnicodeError) as error:
            raise self._fault(error, url, client) from error
        if response.is_success:
            response.extensions[_CLIENT] = client
            return response
        body = await _start_of_body(response)
        raise status_error(self._provider, response.status_code, response.headers, body, url=url, redact=self._redact)

    def _fault(self, error: Exception, url: str, client: httpx.AsyncClient | DirectClient | None) -> AdapterError:
        import httpx  # noqa: PLC0415 - see the module docstring

        if client is not None and client.is_closed:
            return closed_error(self._provider)
        # MOD-32: httpx reads the address of a redirect, although it does not follow it.
        if not isinstance(error, httpx.RequestError) or str(error).startswith(_BAD_LOCATION):
            return unreadable_redirect_error(self._provider)
        if isinstance(error, httpx.DecodingError):
            text = f"{self._provider} API sent a body that its content-encoding does not fit: {error}"
            return LLMProtocolError(text, provider=self._provider)
        if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout):
            hint = "raise TransportOptions.timeout if the model needs longer"
        else:
            hint = "see whether the server runs and base_url is right"
        return connection_error(self._provider, error, url=url, hint=hint, redact=self._redact)


async def _start_of_body(response: httpx.Response) -> bytes:
    import httpx  # noqa: PLC0415 - see the module docstring

    parts: list[bytes] = []
    size = 0
    body = response.aiter_bytes()
    try:
        # The status is what matters: a body that does not come, or comes broken, must not hide it.
        with anyio.move_on_after(_ERROR_BODY_SECONDS):
            async for part in body:
                parts.append(part)
                size += len(part)
                if size >= _ERROR_BODY_BYTES:
                    break
    except httpx.RequestError:
        pass
    finally:
        await _abandon(response, body)
    return b"".join(parts)[:_ERROR_BODY_BYTES]


async def _abandon(response: httpx.Response, body: AsyncIterator[bytes]) -> None:
    """Close a response that may be half read.

    httpx reads through a chain of generators that do not close each other. One more read, cancelled from the start,
    runs all of them to their end and closes the connection on the way; closed otherwise, trio complains about each.
    """
    with anyio.CancelScope(shield=True) as scope:
        scope.cancel()
        async for (
            _
        ) in body:  # pragma: no branch - what httpx has in its buffers; at the latest the next read is cancelled
            pass
    await _close(response)


async def _close(response: httpx.Response) -> None:
    if not response.is_closed:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await response.aclose()

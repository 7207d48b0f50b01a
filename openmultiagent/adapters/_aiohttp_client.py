"""The faster HTTP client of the extra ``speed``: requests of httpx, sent over aiohttp, for event loops of asyncio.

Not here: the choice between it and ``httpx.AsyncClient`` (``_transport``). It does for adapters what that does, and
leaves out what they have no use for: cookies, redirects, logins, proxies. Underneath is ``httpx_aiohttp``'s transport,
with what that leaves open: addresses go out as they are written, since signatures are made for them; an upload that the
server does not read is given up; and whatever aiohttp raises is an error of httpx.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio

from ._egress_guard import EgressGuard

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["AiohttpClient", "aiohttp_is_installed"]

_PIECE = 64 * 1024
"""So much of an upload fits into buffers: sending it does not wait for the server."""
_HEADER_BYTES = 64 * 1024
"""The longest line of a header; aiohttp's own limit is lower than that of httpx."""


@cache
def aiohttp_is_installed() -> bool:
    """Say whether the extra is there; loads it, which takes a while."""
    try:
        import_module("httpx_aiohttp")
    except ImportError:
        return False
    return True


class AiohttpClient:
    """A client for one event loop, with the methods of ``httpx.AsyncClient`` that adapters use.

    Args:
        timeout: Of every request.
        limits: Of the connections.
        tls: For the connections.
        guard: Checks what is sent, and refuses redirects.
    """

    def __init__(
        self, *, timeout: httpx.Timeout, limits: httpx.Limits, tls: ssl.SSLContext, guard: EgressGuard | None
    ) -> None:
        import httpx  # noqa: PLC0415 - import time

        self._request_class = httpx.Request
        self._timeout = timeout.as_dict()
        # What httpx says in every request of itself, and of the encodings that it can read; nothing is sent with it.
        self._headers = dict(httpx.AsyncClient(verify=tls, trust_env=False).headers)
        self._guard = guard
        self._session: _Session | None = None
        self._make_session: Callable[[], _Session] = lambda: _Session(import_module("aiohttp"), limits, tls)
        self._transport = import_module("httpx_aiohttp").AiohttpTransport(
            verify=tls, limits=limits, client=self._opened
        )
        self.is_closed = False

    def build_request(
        self, method: str, url: httpx.URL, *, headers: Mapping[str, str], content: bytes | None
    ) -> httpx.Request:
        """Return a request.

        Args:
            method: Its method.
            url: Where to.
            headers: Win over the client's own.
            content: The body.
        """
        merged = {**self._headers, **{name.lower(): value for name, value in headers.items()}}
        return self._request_class(method, url, headers=merged, content=content, extensions={"timeout": self._timeout})

    async def send(self, request: httpx.Request, *, stream: bool, follow_redirects: bool) -> httpx.Response:  # noqa: ARG002 - httpx's
        """Return the open response to a request; redirects are responses like others.

        Args:
            request: What ``build_request`` returned.
            stream: Always true.
            follow_redirects: Always false.

        Raises:
            EgressPolicyError: The policy does not allow the request, or the server redirects it.
        """
        if self._guard is not None:
            self._guard.check(request)
        try:
            if len(request.content) > _PIECE:
                response = await self._upload(request)
            else:
                response = await self._transport.handle_async_request(request)
        except Exception as error:
            raise _as_httpx(error) from error
        response.stream = _body_class()(response.stream)
        try:
            if self._guard is not None:
                self._guard.refuse_redirect(response)
        except BaseException:
            await response.aclose()
            raise
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        self.is_closed = True
        if self._session is not None:
            await self._session.aclose()

    def _opened(self) -> _Session:
        # Not in the constructor: aiohttp wants to be on the event loop, and clients are made in a thread.
        self._session = self._session or self._make_session()
        return self._session

    async def _upload(self, request: httpx.Request) -> httpx.Response:
        import httpx  # noqa: PLC0415 - import time, and here it is loaded already

        with anyio.CancelScope() as patience:
            paced = self._request_class(
                request.method,
                request.url,
                headers=request.headers,
                content=_paced(request.content, patience, self._timeout),
                extensions=request.extensions,
            )
            response: httpx.Response = await self._transport.handle_async_request(paced)
            response.request = request
            return response
        raise httpx.WriteTimeout("the server does not read the request", request=request)


class _Session:
    """What ``httpx_aiohttp`` sends a request with; it asks for it before each request, by calling it."""

    def __init__(self, aiohttp: ModuleType, limits: httpx.Limits, tls: ssl.SSLContext) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limits.max_connections, keepalive_timeout=limits.keepalive_expiry, ssl=tls
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        self._url = import_module("yarl").URL
        self._headers = import_module("multidict").CIMultiDict

    def __call__(self) -> _Session:
        return self

    def request(self, *, url: str, headers: httpx.Headers, **options: Any) -> Any:
        # aiohttp would write the address anew, and would look up the headers of httpx one by one.
        decoded = [(name.decode("ascii"), value.decode(headers.encoding)) for name, value in headers.raw]
        return self._session.request(url=self._url(url, encoded=True), headers=self._headers(decoded), **options)

    async def aclose(self) -> None:
        await self._session.close()


@cache
def _body_class() -> Callable[[Any], httpx.AsyncByteStream]:
    import httpx  # noqa: PLC0415 - import time, and here it is loaded already

    class Body(httpx.AsyncByteStream):
        def __init__(self, stream: httpx.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._stream:
                    yield chunk
            except Exception as error:
                raise _as_httpx(error) from error

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Body


async def _paced(
    content: bytes, patience: anyio.CancelScope, limits: Mapping[str, float | None]
) -> AsyncIterator[bytes]:
    """Yield the pieces of an upload, each when the one before it has gone out, and renew the patience with each."""
    write, read = (float("inf") if (limit := limits[kind]) is None else limit for kind in ("write", "read"))
    for start in range(0, len(content), _PIECE):
        patience.deadline = anyio.current_time() + write
        yield content[start : start + _PIECE]
    patience.deadline = anyio.current_time() + write + read  # the last bytes; then aiohttp itself waits for the answer


def _as_httpx(error: Exception) -> Exception:
    """Return the error that httpx's own transport would have raised; what is no matter of HTTP stays as it is."""
    import httpx  # noqa: PLC0415 - import time, and here it is loaded already

    # ``httpx_aiohttp`` translates some of them, but a server that hung up into a timeout.
    cause = error.__cause__ if isinstance(error, httpx.RequestError) and error.__cause__ is not None else error
    for origin, meaning in _meanings():
        if isinstance(cause, origin):
            translated: Exception = meaning(str(cause) or type(cause).__name__)
            return translated
    return error


@cache
def _meanings() -> tuple[tuple[Any, Any], ...]:
    import httpx  # noqa: PLC0415 - import time, and here it is loaded already

    aiohttp = import_module("aiohttp")
    malformed = import_module("aiohttp.http_exceptions").HttpProcessingError
    return (
        (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
        (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
        (aiohttp.ClientConnectorError, httpx.ConnectError),
        (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
        (aiohttp.ClientConnectionError, httpx.ReadError),
        ((aiohttp.ClientError, malformed), httpx.RemoteProtocolError),
        (OSError, httpx.ReadError),
    )

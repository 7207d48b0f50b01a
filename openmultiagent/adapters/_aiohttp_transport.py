"""The faster transport of the extra ``speed``: what httpx prepares goes over aiohttp, on event loops of asyncio.

Not here: the choice between it and httpx's own (``_transport``). It is ``httpx_aiohttp``'s transport, with what that
leaves open: addresses go out as they are written, since signatures are made for them; cookies are not kept; an upload
that the server does not read is given up; and whatever aiohttp raises is an error of httpx.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["aiohttp_transport"]

_PIECE = 64 * 1024
"""So much of an upload fits into buffers: sending it does not wait for the server."""
_HEADER_BYTES = 64 * 1024
"""The longest line of a header; aiohttp's own limit is lower than that of httpx."""


def aiohttp_transport(*, limits: httpx.Limits, tls: ssl.SSLContext) -> httpx.AsyncBaseTransport | None:
    """Return a new transport for one event loop, or None where the extra is not installed; loads it when it is.

    Args:
        limits: Of the connections.
        tls: For the connections.
    """
    make = _transport_class()
    return None if make is None else make(limits, tls)


@cache
def _transport_class() -> Callable[[httpx.Limits, ssl.SSLContext], httpx.AsyncBaseTransport] | None:
    try:
        sender_class = import_module("httpx_aiohttp").AiohttpTransport
    except ImportError:
        return None
    import httpx  # noqa: PLC0415 - import time, and here it is loaded already

    body_class = _body_class()

    class AiohttpTransport(httpx.AsyncBaseTransport):
        def __init__(self, limits: httpx.Limits, tls: ssl.SSLContext) -> None:
            self._limits = limits
            self._tls = tls
            self._session: _Session | None = None
            self._sender = sender_class(verify=tls, limits=limits, client=self._opened)
            self._bodies: WeakSet[Any] = WeakSet()

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            try:
                send = self._upload if len(request.content) > _PIECE else self._sender.handle_async_request
                response: httpx.Response = await send(request)
            except Exception as error:
                raise _as_httpx(error) from error
            response.stream = body = body_class(response.stream)
            self._bodies.add(body)
            return response

        async def aclose(self) -> None:
            for body in list(self._bodies):
                body.give_up()
            if self._session is not None:
                await self._session.aclose()

        def _opened(self) -> _Session:
            # Not in the constructor: aiohttp wants to be on the event loop, and clients are made in a thread.
            self._session = self._session or _Session(self._limits, self._tls)
            return self._session

        async def _upload(self, request: httpx.Request) -> httpx.Response:
            with anyio.CancelScope() as patience:
                parts = _paced(request.content, patience, request.extensions["timeout"])
                paced = httpx.Request(
                    request.method, request.url, headers=request.headers, content=parts, extensions=request.extensions
                )
                response: httpx.Response = await self._sender.handle_async_request(paced)
                return response
            raise httpx.WriteTimeout("the server does not read the request")

    return AiohttpTransport


@cache
def _body_class() -> Callable[[Any], httpx.AsyncByteStream]:
    import httpx  # noqa: PLC0415 - import time, and here it is loaded already

    class Body(httpx.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._stream:
                    yield chunk
            except Exception as error:
                raise _as_httpx(error) from error

        def give_up(self) -> None:
            # aiohttp closes the connection below a body without a word to who waits for the rest of it.
            content = self._stream._aiohttp_response.content  # noqa: SLF001 - it has no other way to it
            content.set_exception(ConnectionAbortedError("the client was closed"))

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Body


class _Session:
    """What ``httpx_aiohttp`` sends a request with; it asks for it before each request, by calling it."""

    def __init__(self, limits: httpx.Limits, tls: ssl.SSLContext) -> None:
        aiohttp = import_module("aiohttp")
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
        ((OSError, RuntimeError), httpx.ReadError),  # the latter when the session is closed meanwhile
    )

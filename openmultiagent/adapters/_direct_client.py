"""An HTTP client for adapters: requests and transports of httpx, and nothing in between that adapters have no use for.

It is no ``httpx.AsyncClient``: it keeps no cookies, knows no logins, hooks and proxies, and does not look where a
redirect leads. All that takes longer than the rest of a request. Invariant: with a guard, no request leaves that the
policy does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._egress_guard import EgressGuard

if TYPE_CHECKING:
    import httpx

__all__ = ["DirectClient"]


class DirectClient:
    """A client for one event loop, with the methods of ``httpx.AsyncClient`` that adapters use.

    Args:
        transport: Sends the requests; closed with the client.
        timeout: Of every request.
        guard: Checks what is sent, and refuses redirects.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport, *, timeout: httpx.Timeout, guard: EgressGuard | None
    ) -> None:
        import httpx  # noqa: PLC0415 - import time

        self._transport = transport
        self._guard = guard
        self._request_class = httpx.Request
        self._extensions = {"timeout": timeout.as_dict()}
        # What httpx says in every request of itself, and of the encodings that it can read.
        self._headers = dict(httpx.AsyncClient(transport=transport, trust_env=False).headers)
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
        return self._request_class(method, url, headers=merged, content=content, extensions=dict(self._extensions))

    async def send(self, request: httpx.Request, *, stream: bool, follow_redirects: bool) -> httpx.Response:  # noqa: ARG002 - httpx's
        """Return the open response to a request; a redirect is a response like others.

        Args:
            request: What ``build_request`` returned.
            stream: Always true.
            follow_redirects: Always false.

        Raises:
            EgressPolicyError: The policy does not allow the request, or the server redirects it.
        """
        if self._guard is not None:
            self._guard.check(request)
        response = await self._transport.handle_async_request(request)
        response.request = request
        refusal = None if self._guard is None else self._guard.refusal_of(response)
        if refusal is not None:
            await response.aclose()
            raise refusal
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        self.is_closed = True
        await self._transport.aclose()

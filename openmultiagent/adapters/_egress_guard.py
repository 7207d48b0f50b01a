"""The egress policy of an adapter, in force at its HTTP client. Not here: what a policy allows.

Invariant: a client with a guard sends no request that the policy does not allow, whoever made the request, takes no
proxy and no login from the environment, and follows no redirect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from ..egress import EgressPolicy, egress_denied, normalize_origin
from ..errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

__all__ = ["EgressGuard"]

_UNREADABLE = "an address that cannot be read"


class EgressGuard:
    """Checks what the HTTP clients of one adapter send, and refuses redirects.

    Args:
        policy: What is allowed.
        provider: Name of the adapter, for errors.
    """

    def __init__(self, policy: EgressPolicy, *, provider: str) -> None:
        self._policy = policy
        self._provider = provider

    def client_options(self) -> dict[str, Any]:
        """Return the arguments that make an ``httpx.AsyncClient`` a guarded one."""

        async def check(request: httpx.Request) -> None:
            self.check(request)

        async def refuse_redirect(response: httpx.Response) -> None:
            self.refuse_redirect(response)

        # httpx calls the hooks for every request of the client, just before it is sent and before its answer is read.
        return {"trust_env": False, "event_hooks": {"request": [check], "response": [refuse_redirect]}}

    def check(self, request: httpx.Request) -> None:
        """Check a request that is about to be sent.

        Args:
            request: The request.

        Raises:
            EgressPolicyError: The policy does not allow it.
        """
        self._policy.check(str(request.url), provider=self._provider)

    def refuse_redirect(self, response: httpx.Response) -> None:
        """Check a response whose body was not read.

        Args:
            response: The response.

        Raises:
            EgressPolicyError: It is a redirect.
        """
        if response.has_redirect_location:
            raise egress_denied(self._provider, _target(response))


def _target(response: httpx.Response) -> str:
    try:
        return normalize_origin(urljoin(str(response.url), response.headers["location"]))
    except (ConfigurationError, ValueError):
        return _UNREADABLE

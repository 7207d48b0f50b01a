"""The egress policy of an adapter, in force at its HTTP client. Not here: what a policy allows.

Invariant: a client with a guard sends no request that the policy does not allow, whoever made the request, and answers
with no redirect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from ..egress import EgressPolicy, egress_denied, normalize_origin
from ..errors import ConfigurationError, EgressPolicyError

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

    def check(self, request: httpx.Request) -> None:
        """Check a request that is about to be sent.

        Args:
            request: The request.

        Raises:
            EgressPolicyError: The policy does not allow it.
        """
        self._policy.check(str(request.url), provider=self._provider)

    def refusal_of(self, response: httpx.Response) -> EgressPolicyError | None:
        """Return the error for a response that is a redirect; None for any other.

        Args:
            response: The response.
        """
        return egress_denied(self._provider, _target(response)) if response.has_redirect_location else None


def _target(response: httpx.Response) -> str:
    try:
        return normalize_origin(urljoin(str(response.url), response.headers["location"]))
    except (ConfigurationError, ValueError):
        return _UNREADABLE

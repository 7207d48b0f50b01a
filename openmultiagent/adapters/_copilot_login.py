"""How GitHub Copilot lets a program in: a GitHub token is exchanged for a session token that lives for half an hour.

Not here: calls of models. The GitHub token is given, or made by a login on another device. Invariants: concurrent calls
share one exchange; the GitHub token goes to GitHub's hosts only; tokens are in no error. There is no public
documentation: this follows what GitHub's own editor plugins send, and for the login "Device flow" of the GitHub
documentation ("Authorizing OAuth apps"), as of November 2026.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from threading import Lock
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from ..errors import AdapterError, ConfigurationError, LLMAuthenticationError, LLMProtocolError
from ..messages import replace_lone_surrogates
from ._transport import HttpTransport, checked_header

__all__ = ["DeviceCodeCallback", "SessionTokens", "show_device_code"]

_TOKEN_PATH = "/copilot_internal/v2/token"  # noqa: S105 - an address
_DEVICE_PATH = "/login/device/code"
_ACCESS_PATH = "/login/oauth/access_token"
_CLIENT_ID = "Iv1.b507a08c87ecfe98"
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_USER_AGENT = "GitHubCopilotChat/0.28.0"
_MARGIN = 60
"""Seconds before its end from which a session token is not used any more."""
_INTERVAL = 5.0
"""Seconds between two questions whether the user has logged in, unless the server names others."""
_EXPIRES_IN = 900.0

DeviceCodeCallback = Callable[[str, str], object]
"""Shows the user where to log in, and with which code: ``callback(verification_uri, user_code)``."""


def show_device_code(verification_uri: str, user_code: str) -> None:
    """Tell the user on standard error where to log in.

    Args:
        verification_uri: The page to open.
        user_code: The code to enter there.
    """
    print(f"GitHub Copilot: open {verification_uri} and enter the code {user_code}", file=sys.stderr)  # noqa: T201 - for a person


class SessionTokens:
    """The session tokens of one adapter.

    Args:
        provider: Name of the adapter, for errors.
        transport: Sends the requests.
        github_url: Where users log in, without a slash at its end.
        github_api_url: GitHub's API, without a slash at its end.
        github_token: A GitHub token; None to log in.
        on_device_code: Shows the user where to log in; None when nobody may be asked.
        clock: Returns the time in seconds since 1970.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        *,
        provider: str,
        transport: HttpTransport,
        github_url: str,
        github_api_url: str,
        github_token: str | None,
        on_device_code: DeviceCodeCallback | None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        self._provider = provider
        self._transport = transport
        self._token_url = f"{github_api_url}{_TOKEN_PATH}"
        self._device_url = f"{github_url}{_DEVICE_PATH}"
        self._access_url = f"{github_url}{_ACCESS_PATH}"
        self._github_token = github_token
        self._on_device_code = on_device_code
        self._clock = clock
        self._sleep = sleep
        self._token: str | None = None
        self._expires_at = 0.0
        self._locks: WeakKeyDictionary[object, anyio.Lock] = WeakKeyDictionary()
        self._locks_lock = Lock()  # several threads may each run a loop

    @property
    def secrets(self) -> Iterable[str]:
        """What must be in no error."""
        return tuple(token for token in (self._github_token, self._token) if token)

    @property
    def urls(self) -> Iterable[str]:
        """Where requests for tokens go."""
        logs_in = self._github_token is None and self._on_device_code is not None
        return (self._token_url, self._device_url, self._access_url) if logs_in else (self._token_url,)

    async def get(self) -> str:
        """Return a session token that is good for another minute at least.

        Raises:
            LLMAuthenticationError: There is no GitHub token and nobody may be asked for one, or it is refused.
            AdapterError: GitHub failed or could not be reached.
        """
        token = self._current()
        if token is not None:
            return token
        async with self._lock():
            return self._current() or await self._renewed()  # another call may have fetched it meanwhile

    def forget(self, token: str) -> None:
        """Do not use a token again, since the server refused it.

        Args:
            token: What ``get`` returned.
        """
        if self._token == token:
            self._token = None

    def _current(self) -> str | None:
        return self._token if self._expires_at - _MARGIN > math.floor(self._clock()) else None

    def _lock(self) -> anyio.Lock:
        loop = anyio.lowlevel.current_token().native_token
        with self._locks_lock:
            return self._locks.setdefault(loop, anyio.Lock())

    async def _renewed(self) -> str:
        self._token, self._expires_at = await self._exchange(await self._github())
        return self._token

    async def _github(self) -> str:
        if self._github_token is None:
            if self._on_device_code is None:
                raise LLMAuthenticationError(
                    f"{self._provider} needs a GitHub token; set GITHUB_COPILOT_TOKEN or GITHUB_TOKEN, give api_key, "
                    "or allow the login on another device",
                    provider=self._provider,
                    attempts=0,
                )
            self._github_token = await self._log_in(self._on_device_code)
        return self._github_token

    async def _exchange(self, github_token: str) -> tuple[str, float]:
        headers = {"authorization": f"token {github_token}", "accept": "application/json", "user-agent": _USER_AGENT}
        try:
            answer = await self._json(await self._transport.get(self._token_url, headers=headers))
        except AdapterError as error:
            raise _retold("Copilot token exchange failed", error) from error
        expires_at = _seconds(answer.get("expires_at"))
        if expires_at is None:
            raise self._fault("the token exchange")
        return self._checked(answer.get("token"), "the token exchange"), expires_at

    async def _log_in(self, on_device_code: DeviceCodeCallback) -> str:
        try:
            started = await self._form(self._device_url, {"client_id": _CLIENT_ID, "scope": "copilot"})
        except AdapterError as error:
            raise _retold("Device code request failed", error) from error
        codes = [started.get(key) for key in ("verification_uri", "user_code", "device_code")]
        if not all(isinstance(code, str) for code in codes):
            raise self._fault("the device code request")
        verification_uri, user_code, device_code = map(str, codes)
        on_device_code(verification_uri, user_code)
        interval = _seconds(started.get("interval")) or _INTERVAL
        deadline = self._clock() + (_seconds(started.get("expires_in")) or _EXPIRES_IN)
        form = {"client_id": _CLIENT_ID, "device_code": device_code, "grant_type": _GRANT}
        while self._clock() < deadline:
            await self._sleep(interval)
            answer = await self._form(self._access_url, form)
            if answer.get("access_token"):
                return self._checked(answer["access_token"], "the login")
            told = answer.get("error")
            if told == "slow_down":
                interval += _INTERVAL
            elif told != "authorization_pending":
                raise self._refused(told, answer.get("error_description"))
        raise LLMAuthenticationError("Device code expired: nobody logged in", provider=self._provider)

    async def _form(self, url: str, fields: Mapping[str, str]) -> dict[str, Any]:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        return await self._json(await self._transport.post(url, headers=headers, content=urlencode(fields).encode()))

    async def _json(self, response: Any) -> dict[str, Any]:
        try:
            answer = json.loads(await self._transport.read(response))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._fault("GitHub")
        return answer

    def _checked(self, token: object, what: str) -> str:
        try:
            return checked_header(token, owner=self._provider, what="a token")
        except ConfigurationError:
            raise self._fault(what) from None

    def _fault(self, what: str) -> LLMProtocolError:
        # Not the answer itself: it may hold a token.
        return LLMProtocolError(f"{what} gave an answer that cannot be read", provider=self._provider)

    def _refused(self, error: object, description: object) -> LLMAuthenticationError:
        words = replace_lone_surrogates(f"{error} — {description or 'no description'}")[:500]
        return LLMAuthenticationError(f"OAuth device flow failed: {words}", provider=self._provider)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _retold(what: str, error: AdapterError) -> AdapterError:
    """Return the error with a message that says which step failed."""
    detail = f" ({error.status}): {error.body or error.message}" if error.status is not None else f": {error.message}"
    return type(error)(
        f"{what}{detail}",
        provider=error.provider,
        status=error.status,
        retryable=error.retryable,
        error_type=error.error_type,
        request_id=error.request_id,
        retry_after=error.retry_after,
        attempts=error.attempts,
        body=error.body,
    )

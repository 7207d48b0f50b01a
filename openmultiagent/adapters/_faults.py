"""What a provider's refusal means: HTTP responses and error objects become errors of this library.

Not here: deciding whether to try again (``_transport``). Invariant: texts of a provider are redacted before they are
cut and before they reach an error, and headers are never kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..errors import (
    AdapterError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
)
from ..messages import replace_lone_surrogates

__all__ = [
    "Redactor",
    "closed_error",
    "connection_error",
    "kept",
    "origin_of",
    "page_error",
    "payload_error",
    "request_id_of",
    "retry_after_seconds",
    "shown_url",
    "status_error",
    "unreadable_redirect_error",
]

Redactor = Callable[[str], str]
"""Takes secrets out of a text."""

_KEPT_CHARACTERS = 2_000
_WITHOUT_VERSION = "copilot"
"""The provider whose addresses are not the user's, and have no version."""
_UNREADABLE = "an address that cannot be read"
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid")  # most vendors, Anthropic, AWS
_RETRYABLE_CLIENT_ERRORS = frozenset({408, 409, 429})  # timeout, conflict, rate limit: the request itself is fine


def status_error(
    provider: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str,
    redact: Redactor,
) -> AdapterError:
    """Return the error for a response that is no success.

    Args:
        provider: Name of the adapter.
        status: HTTP status, not 2xx.
        headers: The response's headers, by lower-case name.
        body: The start of the body.
        url: Where the request went.
        redact: Takes secrets out.
    """
    text = body.decode("utf-8", "replace")
    payload = _parsed(text)
    message, error_type, code = _vendor_words(payload)
    message = message or _phrase(status)
    if 300 <= status < 400:
        message = _redirect(_target(url, headers))
    elif status == 404:
        message += f" (at {shown_url(url)}{_version_hint(provider, url)})"
    return _class_for(status)(
        kept(f"{provider} API error {status}: {message}", redact),
        provider=provider,
        status=status,
        retryable=_retryable(status, headers),
        error_type=error_type or _aws_error_type(headers),
        request_id=request_id_of(headers),
        retry_after=_first_known(retry_after_seconds(headers), _google_retry_delay(payload)),
        body=kept(text, redact),
        code=code,
    )


def payload_error(
    provider: str, error: object, *, body: str, redact: Redactor, statuses: Mapping[str, int] | None = None
) -> AdapterError:
    """Return the error for an error object inside a successful response or a stream.

    Some gateways answer 200 before they know, and put the real HTTP status into ``code``.

    Args:
        provider: Name of the adapter.
        error: The value of the ``error`` key.
        body: The text that the object was read from.
        redact: Takes secrets out.
        statuses: HTTP statuses by the vendor's own name of the error, for vendors that send a status with each name.
    """
    message, error_type, code = _vendor_words({"error": error})
    number = error.get("code") if isinstance(error, dict) else None
    status = number if isinstance(number, int) and 400 <= number <= 599 else (statuses or {}).get(error_type or "")
    return _class_for(status or 500)(
        kept(f"{provider} API error: {message or 'the provider gave no reason'}", redact),
        provider=provider,
        status=status,
        retryable=_retryable(status or 500, {}),
        error_type=error_type,
        body=kept(body, redact),
        code=code,
    )


def connection_error(provider: str, error: Exception, *, url: str, hint: str, redact: Redactor) -> LLMConnectionError:
    """Return the error for a request that got no response, or whose response broke off.

    Args:
        provider: Name of the adapter.
        error: What the HTTP client raised.
        url: Where the request went.
        hint: What to do about it.
        redact: Takes secrets out.
    """
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    text = f"{provider} API at {origin_of(url)} could not be reached or broke off ({reason}); {hint}"
    return LLMConnectionError(kept(text, redact), provider=provider)


def closed_error(provider: str, *, attempts: int = 1) -> LLMConnectionError:
    """Return the error for a request whose connection was closed on this side.

    Args:
        provider: Name of the adapter.
        attempts: How many requests were sent.
    """
    text = (
        f"{provider}: the adapter was closed while this request was going on, and it is not sent again; "
        "close an adapter, or the orchestrator that keeps it, when its runs have ended"
    )
    return LLMConnectionError(text, provider=provider, retryable=False, attempts=attempts)


def page_error(error: LLMProtocolError, *, url: str, redact: Redactor) -> LLMProtocolError:
    """Return the error for a page that came in the place of an answer; another attempt would get it again.

    Args:
        error: Says that the page is no answer.
        url: Where the request went.
        redact: Takes secrets out.
    """
    text = f"; {shown_url(url)} is a page of HTML and no API: see whether base_url is right{_version_hint('', url)}"
    return LLMProtocolError(
        error.message + kept(text, redact), provider=error.provider, retryable=False, body=error.body
    )


def unreadable_redirect_error(provider: str) -> AdapterError:
    """Return the error for a redirect whose address the HTTP client could not read.

    Args:
        provider: Name of the adapter.
    """
    return LLMBadRequestError(f"{provider} API: {_redirect(_UNREADABLE)}", provider=provider)


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Return the provider's id of a request, as the response tells it.

    Args:
        headers: The response's headers, by lower-case name.
    """
    return next((headers[name] for name in _REQUEST_ID_HEADERS if name in headers), None)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait, in seconds; None when it does not say so in a way that makes sense.

    Args:
        headers: The response's headers, by lower-case name: ``retry-after-ms``, or ``retry-after`` as seconds or date.
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is not None:
        return wait / 1_000
    value = headers.get("retry-after")
    wait = _number(value)
    if wait is not None or value is None:
        return wait
    until = _date(value)
    if until is None:
        return None
    # The server's own clock, when it tells: ours may be off.
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    seconds = (until - now).total_seconds()
    return seconds if seconds >= 0 else None


def kept(text: str, redact: Redactor) -> str:
    """Return the part of a provider's text that an error may hold: redacted, and cut to 2,000 characters.

    Args:
        text: The text.
        redact: Takes secrets out.
    """
    return redact(replace_lone_surrogates(text))[:_KEPT_CHARACTERS]


def shown_url(url: str) -> str:
    """Return a URL without credentials, query and fragment.

    Args:
        url: An absolute URL.
    """
    return origin_of(url) + urlsplit(url).path


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, without credentials, path and query.

    Args:
        url: An absolute URL.
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _version_hint(provider: str, url: str) -> str:
    """Return what is likely wrong with an address of OpenAI's protocol that has no path of its own."""
    is_bare = urlsplit(url).path in ("/chat/completions", "/responses") and provider != _WITHOUT_VERSION
    return "; base_url usually ends in /v1" if is_bare else ""


def _class_for(status: int) -> type[AdapterError]:
    if status in (401, 403):
        return LLMAuthenticationError
    if status == 429:
        return LLMRateLimitError
    return LLMServerError if status >= 500 else LLMBadRequestError


def _retryable(status: int, headers: Mapping[str, str]) -> bool:
    told = headers.get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    return status in _RETRYABLE_CLIENT_ERRORS or status >= 500


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _vendor_words(payload: object) -> tuple[str | None, str | None, str | None]:
    """Return message, type and code of ``{"error": {...}}``, ``{"error": "..."}`` or the flat form of some servers."""
    error: Any = payload.get("error", payload) if isinstance(payload, dict) else None
    if isinstance(error, str):
        return error or None, None, None
    if not isinstance(error, dict):
        return None, None, None
    kind = "type" if error.get("type") else "status"  # Google's word for it
    words = [error.get(key) for key in ("message", kind, "code")]
    message, error_type, code = (
        replace_lone_surrogates(word) if isinstance(word, str) and word else None for word in words
    )
    return message, error_type, code


def _aws_error_type(headers: Mapping[str, str]) -> str | None:
    """Return the name of AWS's exception: what precedes the colon."""
    return headers.get("x-amzn-errortype", "").partition(":")[0] or None


def _google_retry_delay(payload: object) -> float | None:
    """Return the seconds that ``google.rpc.RetryInfo`` asks to wait: Google puts it into the body, and not a header."""
    error = payload.get("error") if isinstance(payload, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _first_known(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


def _phrase(status: int) -> str:
    from http import HTTPStatus  # noqa: PLC0415 - import time

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "the server gave no reason"


def _redirect(target: str) -> str:
    return f"the server redirects to {target}, and redirects are not followed; set base_url to the address that answers"


def _target(url: str, headers: Mapping[str, str]) -> str:
    try:
        return origin_of(urljoin(url, headers.get("location", "")))
    except ValueError:
        return _UNREADABLE


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _date(value: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - import time

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

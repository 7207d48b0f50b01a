"""What an exception tells: its text without secrets, its HTTP status, whether trying again may help.

It may be anybody's exception. Not here: what a run's outcome makes of it (``outcome``). Invariant: nothing here fails,
whatever the exception does when it is looked at.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from .errors import AdapterError, LLMCallTimeoutError, OpenMultiAgentError, RoutingTimeoutError
from .messages import replace_lone_surrogates
from .redaction import redact_start

__all__ = ["describe_error", "error_text", "http_status", "is_retryable_error", "is_timeout", "word_of"]

_MAX_TEXT = 1024
_MAX_WORD = 256
_NO_STATUS = 1000
"""What HTTP has no status of any more."""
_RETRYABLE_STATUS = frozenset({408, 409, 429})


def is_retryable_error(error: object) -> bool:
    """Say whether what failed may succeed when it is tried again.

    Errors of this library know it themselves. For others the HTTP status decides, where there is one: 408, 409, 429
    and 5xx are retryable, other 3xx and 4xx are not; without a status the answer is yes.

    Args:
        error: An exception, or anything that a provider raised.
    """
    if isinstance(error, AdapterError):
        return error.retryable
    if isinstance(error, LLMCallTimeoutError | RoutingTimeoutError):
        return True
    if isinstance(error, OpenMultiAgentError):
        return False
    if isinstance(error, BaseException) and not isinstance(error, Exception):
        return False  # cancellation and exits
    status = http_status(error)
    return status is None or status in _RETRYABLE_STATUS or not 300 <= status < 500


def is_timeout(error: BaseException) -> bool:
    """Say whether an exception is a timeout of Python's own or of httpx.

    Args:
        error: Any exception.
    """
    httpx = sys.modules.get("httpx")  # who raises its timeouts has imported it
    return isinstance(error, (TimeoutError, getattr(httpx, "TimeoutException", TimeoutError)))


def http_status(error: object) -> int | None:
    """Return the HTTP status that an exception has, or the response that it has.

    Args:
        error: Any exception.
    """
    response = attribute_of(error, "response")
    for holder, name in ((error, "status"), (error, "status_code"), (response, "status_code")):
        value = attribute_of(holder, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(Exception):  # a foreign number may fail in any way
                if 0 <= value < _NO_STATUS:  # so it is neither NaN nor beyond all floats
                    return int(value)
    return None


def word_of(error: object, name: str, types: tuple[type, ...] = (str,)) -> str | None:
    """Return an attribute as text: redacted, and cut to 256 characters; None for one of another type.

    Args:
        error: Any exception.
        name: The attribute.
        types: What it may be.
    """
    value = attribute_of(error, name)
    if not isinstance(value, types) or isinstance(value, bool):
        return None
    try:
        return _safe(str(value), _MAX_WORD)
    except Exception:  # noqa: BLE001 - a foreign text or number may fail in any way
        return None


def attribute_of(error: object, name: str) -> object:
    """Return an attribute; None where there is none.

    Args:
        error: Any exception.
        name: The attribute.
    """
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a foreign exception's property may fail in any way
        return None


def error_text(error: BaseException) -> str:
    """Return the text of an exception: redacted, and cut to 1,024 characters.

    Args:
        error: Any exception, also one whose ``str`` fails.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a foreign exception's __str__ may fail in any way
        text = ""
    return _safe(text, _MAX_TEXT)


def _safe(text: str, limit: int) -> str:
    # Of a subclass of str only the characters are taken: its methods may do anything.
    return redact_start(replace_lone_surrogates(str.__str__(text)), limit)


def describe_error(error: BaseException) -> str:
    """Return type and text of an error for a log line: redacted, and cut to 1,024 characters.

    Args:
        error: Any exception, also one whose ``str`` fails.
    """
    text = error_text(error)
    return f"{type(error).__name__}: {text}"[:_MAX_TEXT] if text else type(error).__name__

"""How a failure is described: its status, its kind, and whether it is worth another try.

Invariant: describing a failure never fails itself, whatever the exception does when it is looked at. ``outcome`` hands
these names on.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import fields
from typing import Any, Final, Literal

from ._record import record
from .errors import (
    AdapterError,
    CostBudgetExceededError,
    DependencyPayloadError,
    EgressPolicyError,
    LimitExceededError,
    LLMCallTimeoutError,
    OpenMultiAgentError,
    RoutingTimeoutError,
    TokenBudgetExceededError,
)
from .messages import replace_lone_surrogates
from .redaction import redact_sensitive_text

__all__ = [
    "ErrorInfo",
    "ErrorKind",
    "RunStatus",
    "StatusCode",
    "classify_failure",
    "describe_error",
    "is_retryable_error",
]

StatusCode = Literal["ok", "error", "cancelled", "timeout", "budget_exhausted", "rejected", "suspended", "skipped"]
"""How a run ended, in one word."""
ErrorKind = Literal[
    "provider",
    "tool",
    "framework",
    "callback",
    "validation",
    "timeout",
    "cancellation",
    "budget",
    "store",
    "exporter",
    "unknown",
]
"""Where a failure came from."""


_MAX_STATUS_TEXT = 256
_MAX_ERROR_TEXT = 1024
_RETRYABLE_STATUS = frozenset({408, 409, 429})
_KNOWN: Final[tuple[tuple[tuple[type[BaseException], ...], tuple[StatusCode, ErrorKind]], ...]] = (
    ((TokenBudgetExceededError, CostBudgetExceededError, LimitExceededError), ("budget_exhausted", "budget")),
    ((LLMCallTimeoutError, RoutingTimeoutError), ("timeout", "timeout")),
    ((EgressPolicyError,), ("rejected", "validation")),
    ((DependencyPayloadError,), ("error", "validation")),
    ((asyncio.CancelledError,), ("cancelled", "cancellation")),
)
"""Failures whose class alone says what they are."""


@record
class RunStatus:
    """The outcome in one word, and a sentence for people; ``str(status)`` is the word."""

    code: StatusCode
    message: str | None = None
    """Redacted and cut to 256 characters."""

    def __str__(self) -> str:
        return self.code


@record(kw_only=True)
class ErrorInfo:
    """What is known about a failure, as plain data without secrets."""

    kind: ErrorKind
    """Where it came from."""
    name: str | None = None
    """Class of the exception."""
    code: str | None = None
    """The error's own code."""
    message: str | None = None
    """Redacted and cut to 1,024 characters."""
    retryable: bool | None = None
    """Whether the same run may succeed later."""
    http_status: int | None = None
    provider: str | None = None
    attempt: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, as plain JSON data."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {name: value for name, value in pairs if value is not None}


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
    status = _http_status(error)
    return status is None or status in _RETRYABLE_STATUS or not 300 <= status < 500


def _http_status(error: object) -> int | None:
    for name in ("status", "status_code"):
        value = _attribute(error, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return int(value)
    return None


def _attribute(error: object, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a foreign exception's property may fail in any way
        return None


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a foreign exception's __str__ may fail in any way
        text = ""
    return redact_sensitive_text(replace_lone_surrogates(text))


def describe_error(error: BaseException) -> str:
    """Return type and text of an error for a log line: redacted, and cut to 1,024 characters.

    Args:
        error: Any exception, also one whose ``str`` fails.
    """
    text = _text(error)
    return f"{type(error).__name__}: {text}"[:_MAX_ERROR_TEXT] if text else type(error).__name__


def classify_failure(
    error: BaseException,
    *,
    kind: ErrorKind | None = None,
    provider: str | None = None,
    attempt: int | None = None,
) -> tuple[RunStatus, ErrorInfo]:
    """Return the status and the description of a failed run.

    Args:
        error: What was raised.
        kind: Where it came from, when the caller knows; the error's own class may know better.
        provider: The adapter in use.
        attempt: The attempt that failed.
    """
    code, found = _status_and_kind(error, kind)
    text = _text(error) or type(error).__name__
    own_code = _attribute(error, "code")
    own_provider = _attribute(error, "provider")
    info = ErrorInfo(
        kind=found,
        name=type(error).__name__,
        code=str(own_code) if isinstance(own_code, str | int) and not isinstance(own_code, bool) else None,
        message=text[:_MAX_ERROR_TEXT],
        # What a callback of the application raised is its own fault, and the next run would meet it again.
        retryable=found != "callback" and is_retryable_error(error),
        http_status=_http_status(error),
        provider=own_provider if isinstance(own_provider, str) else provider,
        attempt=attempt,
    )
    return RunStatus(code, text[:_MAX_STATUS_TEXT]), info


def _status_and_kind(error: BaseException, kind: ErrorKind | None) -> tuple[StatusCode, ErrorKind]:
    for types, status_and_kind in _KNOWN:
        if isinstance(error, types):
            return status_and_kind
    if kind is not None:
        return ("cancelled" if kind == "cancellation" else "error"), kind
    if isinstance(error, AdapterError) or _http_status(error) is not None:
        return "error", "provider"
    return "error", "unknown"

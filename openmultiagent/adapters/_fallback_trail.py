"""What happened in a call that several models were asked for: the failures, and the answer or error at the end.

Not here: who is asked next. Invariant: no failure is lost; the answer or the error tells of every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypedDict

from .._log import get_logger
from .._record import record
from ..errors import AdapterError, LLMCallTimeoutError
from ..outcome import describe_error
from ..usage import TokenUsage
from ._protocol import LLMChatOptions, LLMResponse

__all__ = ["Failure", "FallbackAttempt", "FallbackError", "FallbackResponse", "Trail"]

_log = get_logger(__name__)

_TEXT_IN_MESSAGE = 300
"""Characters of one failure in the text of a ``FallbackError``; ``tried`` has more."""

Failure = AdapterError | LLMCallTimeoutError
"""How a model fails; any other exception is somebody else's."""


class FallbackAttempt(TypedDict):
    """A call that failed, as plain data."""

    provider: str
    """Name of the adapter."""
    model: str
    """The model that it was asked for."""
    error: str
    """Class and text of the error, redacted and cut to 1,024 characters."""
    status: int | None
    """HTTP status, when there was a response."""


@record(kw_only=True)
class FallbackResponse(LLMResponse):
    """The answer of one of the models. Calls that failed before count as calls of unknown usage."""

    provider: str
    """Name of the adapter that answered."""
    requested_model: str
    """The model that it was asked for; ``model`` is what the provider calls it."""
    tried: tuple[FallbackAttempt, ...] = ()
    """The calls that failed before, in their order."""


class FallbackError(AdapterError):
    """All models failed, or one failed for good after others had failed in passing.

    The last failure is the cause, and its fields are the error's own; only ``attempts`` counts the requests of all.

    Args:
        message: What failed.
        provider: Name of the adapter that failed last.
        tried: Every call that failed, in their order.
        details: Further fields of ``AdapterError``.
    """

    code = "LLM_FALLBACK"
    field_names = (*AdapterError.field_names, "tried")

    def __init__(self, message: str, *, provider: str, tried: Sequence[FallbackAttempt] = (), **details: Any) -> None:
        super().__init__(message, provider=provider, **details)
        self.tried = list(tried)


class Trail:
    """The failures of one call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tried: list[FallbackAttempt] = []
        self._requests = 0
        self._provider = ""
        self._last: Failure | None = None

    def add(self, provider: str, asked: LLMChatOptions, error: Failure) -> None:
        status = error.status if isinstance(error, AdapterError) else None
        attempt = FallbackAttempt(provider=provider, model=asked.model, error=describe_error(error), status=status)
        self._tried.append(attempt)
        self._requests += error.attempts if isinstance(error, AdapterError) else 1
        self._last, self._provider = error, provider
        _log.warning("model_failed", adapter=self._name, **attempt)

    def answer(self, provider: str, asked: LLMChatOptions, response: LLMResponse) -> FallbackResponse:
        values = {item.name: getattr(response, item.name) for item in fields(LLMResponse) if item.init}
        if self._tried:
            usage = TokenUsage.unknown() if response.usage is None else response.usage
            values["usage"] = usage + TokenUsage(unknown_calls=len(self._tried))
        return FallbackResponse(**values, provider=provider, requested_model=asked.model, tried=tuple(self._tried))

    def verdict(self) -> Exception:
        """Return the error of a model that failed for good: its own, if there were no others."""
        assert self._last is not None  # noqa: S101 - there was a failure
        return self._last if len(self._tried) == 1 else self.exhausted()

    def exhausted(self) -> FallbackError:
        """Return the error that tells about all of them."""
        last = self._last
        known = (
            {name: getattr(last, name) for name in AdapterError.field_names} if isinstance(last, AdapterError) else {}
        )
        details = {"retryable": True, **known, "provider": self._provider, "attempts": self._requests}
        each = [f"{item['provider']} {item['model']!r}: {item['error'][:_TEXT_IN_MESSAGE]}" for item in self._tried]
        error = FallbackError(f"no model of {self._name!r} answered; {'; '.join(each)}", tried=self._tried, **details)
        error.__cause__ = last
        return error

"""Errors of model providers, and of the way to them."""

from __future__ import annotations

from typing import ClassVar

from ._base import OpenMultiAgentError

__all__ = [
    "AdapterError",
    "LLMAuthenticationError",
    "LLMBadRequestError",
    "LLMConnectionError",
    "LLMProtocolError",
    "LLMRateLimitError",
    "LLMServerError",
    "UnsupportedContentError",
    "UnsupportedToolCallError",
    "UnsupportedToolResultContentError",
]


class AdapterError(OpenMultiAgentError):
    """A model provider refused a call, could not be reached, or answered something that cannot be read.

    Args:
        message: What the provider said, redacted.
        provider: Name of the adapter.
        status: HTTP status, when there was a response.
        retryable: Whether the same call may succeed later.
        error_type: The provider's own name for the fault.
        request_id: The provider's id of the request, for its support.
        retry_after: Seconds after which the provider asks to try again.
        attempts: How many requests were sent before giving up.
        body: The start of the response body, redacted and cut to 2,000 characters.
        code: The provider's code; the class's own unless given.
    """

    code = "ADAPTER_ERROR"
    default_retryable: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = (
        "provider",
        "status",
        "retryable",
        "error_type",
        "request_id",
        "retry_after",
        "attempts",
        "body",
    )

    def __init__(  # noqa: PLR0913 - the fields of one record, all by keyword
        self,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retryable: bool | None = None,
        error_type: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
        body: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.provider = provider
        self.status = status
        self.retryable = self.default_retryable if retryable is None else retryable
        self.error_type = error_type
        self.request_id = request_id
        self.retry_after = retry_after
        self.attempts = attempts
        self.body = body


class LLMAuthenticationError(AdapterError):
    """The provider does not accept the key, or there is none (401, 403)."""

    code = "LLM_AUTHENTICATION"


class LLMRateLimitError(AdapterError):
    """The provider asks to slow down (429)."""

    code = "LLM_RATE_LIMIT"
    default_retryable = True


class LLMBadRequestError(AdapterError):
    """The provider does not accept the request (other 4xx), or answered with a redirect, which is never followed."""

    code = "LLM_BAD_REQUEST"


class LLMServerError(AdapterError):
    """The provider failed (5xx)."""

    code = "LLM_SERVER"
    default_retryable = True


class LLMConnectionError(AdapterError):
    """There was no response: the server is down, the name is unknown, or the network failed."""

    code = "LLM_CONNECTION"
    default_retryable = True


class LLMProtocolError(AdapterError):
    """The provider answered something that its protocol does not allow, or broke off in the middle."""

    code = "LLM_PROTOCOL"
    default_retryable = True


class UnsupportedToolCallError(AdapterError):
    """The model called a kind of tool that this library does not run.

    Args:
        provider: Name of the adapter.
        tool_type: The kind of call.
    """

    code = "UNSUPPORTED_TOOL_CALL"
    field_names = (*AdapterError.field_names, "tool_type")

    def __init__(self, *, provider: str, tool_type: str) -> None:
        super().__init__(f'{provider} returned unsupported tool-call type "{tool_type}"', provider=provider)
        self.tool_type = tool_type


class _UnsupportedPartError(AdapterError):
    what: ClassVar[str] = ""
    field_names = (*AdapterError.field_names, "content_type", "detail")

    def __init__(self, *, provider: str, content_type: str, detail: str | None = None) -> None:
        text = f'{provider} cannot represent {self.what} "{content_type}"'
        super().__init__(text if detail is None else f"{text}: {detail}", provider=provider)
        self.content_type, self.detail = content_type, detail


class UnsupportedToolResultContentError(_UnsupportedPartError):
    """A part of a tool result cannot be sent to this provider.

    Args:
        provider: Name of the protocol.
        content_type: The kind of part.
        detail: Why, or what to do instead.
    """

    code = "UNSUPPORTED_TOOL_RESULT_CONTENT"
    what = "tool-result content type"


class UnsupportedContentError(_UnsupportedPartError):
    """A content block cannot be sent to this provider.

    Args:
        provider: Name of the protocol.
        content_type: The kind of block.
        detail: Why, or what to do instead.
    """

    code = "UNSUPPORTED_CONTENT"
    what = "content type"

"""What a fake server answers: an answer and how it is delivered, a refusal, other bytes, or nothing at all.

Not here: the providers' forms of answers and errors, and the server. Invariant: what a script is made of is checked
when it is written down, and can be served any number of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, Literal

from .._record import record
from ..adapters import LLMResponse
from ..errors import (
    AdapterError,
    ConfigurationError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
)
from ..messages import ContentBlock
from ..usage import TokenUsage
from ._script import Response, Scripted, check_response

__all__ = [
    "FakeRequest",
    "Hangup",
    "Protocol",
    "Quirk",
    "RawBody",
    "Refused",
    "Served",
    "ServerReply",
    "ServerResponse",
    "Silence",
    "Step",
    "step_of",
]

Quirk = Literal[
    "no_choices",
    "empty_chunks",
    "object_arguments",
    "broken_arguments",
    "no_call_ids",
    "same_call_ids",
    "no_finish",
    "unknown_events",
    "no_stream",
]
"""How an answer departs from its protocol: it has no content at all; its stream has chunks without content; a tool's
arguments are an object where text is right, or the other way round; they break off; calls have no ids, or all the same;
it does not say why it ended; its stream has events of unknown types; it comes in one piece where a stream was asked
for."""


Protocol = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock", "copilot-token", "unknown"]
"""The protocols of the server."""


@record
class Refused:
    """A refusal with a status, in the words of the provider that is asked."""

    status: int
    message: str = "refused, as scripted"
    _: KW_ONLY
    type: str | None = None
    """The provider's word for the kind of error; chosen by the status unless given."""
    code: str | None = None
    """The provider's code of the error, where it has codes."""
    param: str | None = None
    """The part of the request that the error is about, where the provider names one."""
    retry_after: float | None = None
    """Seconds, sent as ``Retry-After``."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 300 <= self.status <= 599:
            raise ConfigurationError(f"Refused.status must be from 300 to 599, got {self.status}")


@record
class RawBody:
    """Any body at all."""

    body: bytes
    _: KW_ONLY
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    split: int | None = None
    """Bytes that are written at once; None writes the body in one piece."""


@record
class Hangup:
    """No response: the connection is reset."""


@record
class Silence:
    """No response and no end, until ``release()`` of the server, its end, or the client's end; then a reset."""


@record
class Served:
    """An answer together with the way it is delivered.

    Times are in seconds. A *piece* is one event of a stream, or one half of a whole answer, which breaks or pauses in
    its middle at the latest.
    """

    content: str | Sequence[ContentBlock] | LLMResponse = ""
    """The answer, as in a plain response."""
    _: KW_ONLY
    usage: TokenUsage | None = None
    """What the answer reports; None reports nothing, or what the ``LLMResponse`` has."""
    stop_reason: str | None = None
    """None is ``tool_use`` with a tool call, else ``end_turn``, or what the ``LLMResponse`` has."""
    delay: float = 0.0
    """How long the headers take."""
    body_delay: float = 0.0
    """How long the body takes to begin, after the headers."""
    piece_delay: float = 0.0
    """How long each further piece takes."""
    chunk_size: int = 16
    """Characters of text in a piece."""
    pause_after: int | None = None
    """After so many pieces nothing comes until ``release()`` of the server, its end, or the client's end."""
    cut_after: int | None = None
    """The connection is reset after so many pieces."""
    end_after: int | None = None
    """The body ends after so many pieces, as if that were all."""
    fail_after: int | None = None
    """After so many pieces of a stream, ``failure`` is told in it, and the body ends."""
    failure: Refused = field(default_factory=lambda: Refused(500, "the answer failed, as scripted"))
    split: int | None = None
    """Bytes that are written at once; None writes each piece as a whole."""
    crlf: bool = False
    """The lines of a stream end with CR LF."""
    drop_connection: bool = False
    """The connection is closed after the answer, without a word of warning."""
    headers: Mapping[str, str] = field(default_factory=dict)
    quirks: frozenset[Quirk] = frozenset()
    """How the answer departs from its protocol."""

    def __post_init__(self) -> None:
        check_response(self.content, "Served.content", plain=True)
        for name in ("delay", "body_delay", "piece_delay"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"Served.{name} must be a number of seconds, 0 or more, got {value!r}")
        for name, least in (("chunk_size", 1), ("split", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigurationError(f"Served.{name} must be {least} or more, got {value!r}")
        ends = [name for name in ("cut_after", "end_after", "fail_after") if getattr(self, name) is not None]
        if len(ends) > 1:
            raise ConfigurationError(f"Served takes one of {', '.join(ends)}, since each ends the answer")
        for name in (*ends, "pause_after"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigurationError(f"Served.{name} must be 0 or more, got {value!r}")


@record
class FakeRequest:
    """What the server was sent."""

    protocol: Protocol
    """The protocol, told by the path; ``copilot-token`` is the exchange of a token before calls of GitHub Copilot."""
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    raw: bytes
    body: Any
    """The parsed JSON; None when the body is none."""
    connection: int
    """The number of the connection, from 1."""
    number: int
    """The number of the request, from 1."""
    streamed: bool
    """Whether the client asked for a stream."""


ServerResponse = Response | Served | Refused | RawBody | Hangup | Silence
"""What may be answered: the responses of a ``ScriptedAdapter``, and what only a server can do."""

ServerReply = ServerResponse | Callable[[FakeRequest], ServerResponse]
"""What a server's script is made of: a response, or a function that makes one from a request."""

Step = Served | Refused | RawBody | Hangup | Silence
"""A response in the form in which it is served."""

_STATUSES: Sequence[tuple[type[AdapterError], int]] = (
    (LLMAuthenticationError, 401),
    (LLMRateLimitError, 429),
    (LLMBadRequestError, 400),
)


def step_of(response: object) -> Step:
    """Return a response in the form in which it is served.

    Args:
        response: Anything.

    Raises:
        ConfigurationError: It is no response.
    """
    if isinstance(response, Served | Refused | RawBody | Hangup | Silence):
        return response
    if isinstance(response, Scripted):
        return _from_scripted(response)
    if isinstance(response, Exception):
        return _from_error(response)
    if isinstance(response, BaseException):
        raise ConfigurationError(f"a server cannot answer with {type(response).__name__}, which ends programs")
    check_response(response, "the response of the server", plain=True)
    return Served(response)  # type: ignore[arg-type]  # it was checked


def _from_scripted(script: Scripted) -> Step:
    cut, failure = script.cut_after, Refused(500)
    fail = script.fail_after
    if script.error is not None:
        step = _from_error(script.error)
        if not fail or not isinstance(step, Refused | Hangup):
            return step
        if isinstance(step, Refused):
            failure = step
    if fail is not None and (script.error is None or isinstance(script.error, LLMConnectionError)):
        cut, fail = fail, None  # a broken connection is one that a server can really break
    return Served(
        script.content,
        usage=script.usage,
        stop_reason=script.stop_reason,
        delay=script.delay,
        piece_delay=script.piece_delay,
        chunk_size=script.chunk_size,
        cut_after=cut,
        fail_after=fail,
        failure=failure,
    )


def _from_error(error: Exception) -> Step:
    """Return what a server does that a client reports with an error of this kind."""
    if isinstance(error, LLMConnectionError):
        return Hangup()
    if isinstance(error, LLMProtocolError):
        return RawBody(b"<html>This is no answer.</html>", content_type="text/html")
    status = error.status if isinstance(error, AdapterError) else None
    if status is None or not 300 <= status <= 599:
        status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    wait = error.retry_after if isinstance(error, AdapterError) else None
    return Refused(status, str(error), retry_after=wait)

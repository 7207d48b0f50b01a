"""How a run ended: its status, the failure behind it, and the result of an agent's run.

Results are frozen values. What they hold (messages, the inputs of tool calls) is the holder's own: whoever is handed a
result is handed a copy of it (``copy_result``). How failures are described is in ``_failures``.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, replace
from types import NoneType
from typing import Any, Final, Generic, Literal, get_args

from typing_extensions import TypeVar

from ._failures import describe_error, error_text, http_status, is_retryable_error, is_timeout, word_of
from ._plain import plain_data
from ._record import maker, record
from ._shown import shown
from .errors import (
    AdapterError,
    ConfigurationError,
    CostBudgetExceededError,
    DependencyPayloadError,
    EgressPolicyError,
    LimitExceededError,
    LLMCallTimeoutError,
    RoutingTimeoutError,
    TokenBudgetExceededError,
)
from .identity import MetadataValue, RunIdentity, RunLink, copy_metadata
from .messages import LLMMessage, UnreadMessages, coerce_messages, copy_messages
from .usage import TokenUsage, UsageEntry

__all__ = [
    "AgentRunResult",
    "ErrorInfo",
    "ErrorKind",
    "RunStatus",
    "StatusCode",
    "StopReason",
    "ToolCallRecord",
    "can_pickle",
    "check_result",
    "classify_failure",
    "copy_result",
    "describe_error",
    "identity_dict",
    "is_retryable_error",
    "joined_messages",
    "make_result",
    "plain_data",
    "read_identity",
    "read_status",
    "read_usage_entry",
]

T = TypeVar("T", default=Any)

StatusCode = Literal["ok", "error", "cancelled", "timeout", "budget_exhausted", "rejected", "suspended", "skipped"]
"""How a run ended, in one word."""
StopReason = Literal[
    "end_turn",
    "max_turns",
    "max_tokens",
    "content_filter",
    "loop",
    "budget",
    "cancelled",
    "timeout",
    "suspended",
    "error",
]
"""Why the turn loop ended."""
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


@record(kw_only=True)
class ToolCallRecord:
    """One tool call of a run, for the record."""

    tool_name: str
    tool_use_id: str
    input: dict[str, Any]
    """What the model asked for."""
    output: str
    """The text that the model got back; media are named, never included."""
    is_error: bool
    duration: float
    """Seconds."""


@record(kw_only=True)
class AgentRunResult(Generic[T]):
    """What a run of one agent came to."""

    success: bool
    """True exactly when the status is ``ok``."""
    status: RunStatus
    stop_reason: StopReason
    """Why the turn loop ended; ``max_turns`` alone is no failure."""
    output: str
    """Text of the last assistant turn, or the text of the failure when no turn was completed."""
    structured: T | None = None
    """The answer as the type that was asked for."""
    messages: list[LLMMessage] = field(default_factory=list)
    """The messages that this run produced: assistant turns and tool results, also of a failed run.

    Every holder of a result has its own, copied when they are first read.
    """
    token_usage: TokenUsage = field(default_factory=TokenUsage)
    """All model calls of the run together."""
    usage_report: tuple[UsageEntry, ...] = ()
    """``token_usage`` by agent, model, provider and phase, in the order of their first calls."""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """In the order in which the model asked for them."""
    identity: RunIdentity
    error_info: ErrorInfo | None = None
    error: BaseException | None = None
    """The original exception."""
    metadata: dict[str, MetadataValue] | None = None
    """The metadata that the caller gave."""
    flags: tuple[str, ...] = ()
    """What else there is to say: ``wrapped-up``; ``consequential-no-independence``, tools with consequences were
    granted; ``confirmation-required``, a call of one was not made, since nobody had confirmed it."""
    agent: str = ""
    """Name of the agent."""
    duration: float | None = field(default=None, compare=False)
    """Seconds for the whole run."""

    def replace(self, **changes: Any) -> AgentRunResult[T]:
        """Return the result with some fields changed.

        Args:
            changes: Field values by name.
        """
        changes.setdefault("messages", _held.__get__(self))  # which does not read them
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON data; ``error`` is represented by ``error_info``."""
        return {
            "success": self.success,
            "status": {"code": self.status.code, "message": self.status.message},
            "stop_reason": self.stop_reason,
            "output": self.output,
            "structured": plain_data(self.structured),
            "messages": [message.to_dict() for message in self.messages],
            "token_usage": self.token_usage.to_dict(),
            "usage_report": [entry.to_dict() for entry in self.usage_report],
            "tool_calls": [
                {item.name: getattr(call, item.name) for item in fields(call)} | {"input": plain_data(call.input)}
                for call in self.tool_calls
            ],
            "identity": identity_dict(self.identity),
            "error_info": None if self.error_info is None else self.error_info.to_dict(),
            "metadata": copy_metadata(self.metadata),
            "flags": list(self.flags),
            "agent": self.agent,
            "duration": self.duration,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> AgentRunResult[Any]:
        """Return the result that ``to_dict`` described, without ``error``; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON. ``structured`` stays plain data.

        Raises:
            ConfigurationError: It describes no result.
        """
        try:
            result = cls(**_read_result(record))
        except ConfigurationError:
            raise
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the record of a result cannot be read: {describe_error(error)}") from None
        check_result(result, "the record")
        return result

    def __copy__(self) -> AgentRunResult[T]:
        return self.replace()

    def __deepcopy__(self, memo: dict[int, Any]) -> AgentRunResult[T]:
        return copy_result(self)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {item.name: getattr(self, item.name) for item in fields(self)}
        if not can_pickle(state["error"]):
            state["error"] = None  # error_info still says what happened
        return _remake, (type(self), state)


make_result: Callable[..., AgentRunResult[Any]] = maker(AgentRunResult)
"""Makes a result of all its fields, quickest by position; everybody who looks at a run is given one."""

_held: Any = AgentRunResult.__dict__["messages"]
_READING = threading.RLock()  # a finalizer, or an object that is copied, may read another result meanwhile


def _own_messages(result: AgentRunResult[Any]) -> Any:
    held = _held.__get__(result)
    if type(held) is UnreadMessages:
        with _READING:  # two threads must not come to hold different lists
            held = _held.__get__(result)
            if type(held) is UnreadMessages:
                held = held.copy()
                _held.__set__(result, held)
    return held


# Over the slot of the same name: most of those who are handed a result never look at its messages.
setattr(AgentRunResult, "messages", property(_own_messages, _held.__set__))  # noqa: B010 - a field for type checkers


def joined_messages(results: Iterable[AgentRunResult[Any]]) -> Any:
    """Return the messages of results, one after the other, as those of a result of its own.

    Args:
        results: Any number; they are left as they are.
    """
    messages: list[LLMMessage] = []
    for result in results:
        held = _held.__get__(result)
        messages += held.shared if type(held) is UnreadMessages else copy_messages(held)
    return UnreadMessages(messages)


def _remake(cls: type[AgentRunResult[Any]], state: dict[str, Any]) -> AgentRunResult[Any]:
    return cls(**state)


def can_pickle(error: BaseException | None) -> bool:
    """Say whether an exception survives ``pickle``; None does.

    Args:
        error: Any exception.
    """
    import pickle  # noqa: PLC0415 - import time

    try:
        return error is None or pickle.loads(pickle.dumps(error)) is not None  # noqa: S301 - what was dumped on this line
    except Exception:  # noqa: BLE001 - a foreign exception may fail in any way; it is then left out
        return False


def identity_dict(identity: RunIdentity) -> dict[str, Any]:
    """Return an identity as plain JSON data, which ``read_identity`` reads.

    Args:
        identity: The identity.
    """
    return {
        "run_id": identity.run_id,
        "attempt": identity.attempt,
        "trace_id": identity.trace_id,
        "root_span_id": identity.root_span_id,
        "links": [{item.name: getattr(link, item.name) for item in fields(link)} for link in identity.links],
    }


def _read_result(record: Mapping[str, Any]) -> dict[str, Any]:
    identity, info, duration = record["identity"], record.get("error_info"), record.get("duration")
    return {
        "success": record["success"],
        "status": read_status(record["status"]),
        "stop_reason": _one_of(record["stop_reason"], get_args(StopReason)),
        "output": record["output"],
        "structured": copy.deepcopy(record.get("structured")),
        "messages": coerce_messages(record.get("messages", ())),
        "token_usage": TokenUsage.from_dict(record.get("token_usage", {})),
        "usage_report": tuple(read_usage_entry(entry) for entry in record.get("usage_report", ())),
        "tool_calls": tuple(ToolCallRecord(**copy.deepcopy(dict(call))) for call in record.get("tool_calls", ())),
        "identity": read_identity(identity),
        "error_info": None if info is None else ErrorInfo(**info),
        "metadata": copy_metadata(record.get("metadata")),
        "flags": tuple(record.get("flags", ())),
        "agent": str(record.get("agent", "")),
        "duration": None if duration is None else float(duration),
    }


def _one_of(value: Any, words: tuple[str, ...]) -> Any:
    if value not in words:
        raise ConfigurationError(f"{shown(value)} is none of {', '.join(words)}")
    return value


def read_status(record: Mapping[str, Any]) -> RunStatus:
    """Return the status that a result's record holds.

    Args:
        record: ``code`` and ``message``.

    Raises:
        ConfigurationError: The code is unknown.
    """
    return RunStatus(_one_of(record["code"], get_args(StatusCode)), record.get("message"))


def read_usage_entry(record: Mapping[str, Any]) -> UsageEntry:
    """Return the entry that ``UsageEntry.to_dict`` described.

    Args:
        record: Its fields.
    """
    return UsageEntry(**{**record, "usage": TokenUsage.from_dict(record["usage"])})


def read_identity(record: Mapping[str, Any]) -> RunIdentity:
    """Return the identity that a result's record holds.

    Args:
        record: Its fields.
    """
    return RunIdentity(**{**record, "links": tuple(RunLink(**link) for link in record.get("links", ()))})


def copy_result(result: AgentRunResult[T]) -> AgentRunResult[T]:
    """Return a result that shares nothing mutable with the given one, apart from ``error``.

    An answer of a class whose objects cannot be copied (they hold a lock, say) is shared, too: nobody who looks at a
    run may fail it.

    Args:
        result: The result to copy.
    """
    held, calls = _held.__get__(result), result.tool_calls
    structured = None if result.structured is None else _copy_answer(result.structured)
    messages: Any = held if type(held) is UnreadMessages else copy_messages(held)
    calls = tuple([replace(call, input=copy.deepcopy(call.input)) for call in calls]) if calls else ()
    metadata = None if result.metadata is None else copy_metadata(result.metadata)
    if type(result) is not AgentRunResult:
        return replace(result, structured=structured, messages=messages, tool_calls=calls, metadata=metadata)
    return make_result(  # in the order of the fields
        result.success,
        result.status,
        result.stop_reason,
        result.output,
        structured,
        messages,
        result.token_usage,
        result.usage_report,
        calls,
        result.identity,
        result.error_info,
        result.error,
        metadata,
        result.flags,
        result.agent,
        result.duration,
    )


def check_result(result: Any, where: str) -> None:
    """Refuse a result with fields that everybody else would stumble over.

    Args:
        result: That of an agent or of a team, made by the application.
        where: Who made it.

    Raises:
        ConfigurationError: A field is of another type.
    """
    for name, kind in _FIELD_TYPES.items():
        value = getattr(result, name)
        if not isinstance(value, kind):
            wanted = " or ".join("None" if each is NoneType else each.__name__ for each in kind)
            raise ConfigurationError(f"the result of {where} has {name} {shown(value)}: it must be {wanted}")


_FIELD_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "success": (bool,),
    "status": (RunStatus,),
    "output": (str,),
    "token_usage": (TokenUsage,),
    "usage_report": (tuple,),
    "identity": (RunIdentity,),
    "error_info": (ErrorInfo, NoneType),
    "error": (BaseException, NoneType),
    "flags": (tuple,),
}


def _copy_answer(structured: T) -> T:
    try:
        return copy.deepcopy(structured)
    except Exception:  # noqa: BLE001 - isolation boundary: the application's own class may refuse in any way
        return structured


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
    text = error_text(error) or type(error).__name__
    info = ErrorInfo(
        kind=found,
        name=type(error).__name__,
        code=word_of(error, "code", (str, int)),
        message=text,
        # What a callback of the application raised is its own fault, and the next run would meet it again.
        retryable=found != "callback" and is_retryable_error(error),
        http_status=http_status(error),
        provider=provider if (own := word_of(error, "provider")) is None else own,
        attempt=attempt,
    )
    return RunStatus(code, text[:_MAX_STATUS_TEXT]), info


def _status_and_kind(error: BaseException, kind: ErrorKind | None) -> tuple[StatusCode, ErrorKind]:
    for types, status_and_kind in _KNOWN:
        if isinstance(error, types):
            return status_and_kind
    if kind in (None, "provider") and is_timeout(error):
        return "timeout", "timeout"
    if kind is not None:
        return ("cancelled" if kind == "cancellation" else "error"), kind
    if isinstance(error, AdapterError) or http_status(error) is not None:
        return "error", "provider"
    return "error", "unknown"

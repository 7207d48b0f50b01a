"""What is stored of an online evaluation, and the store in memory."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from datetime import datetime
from typing import Any, Literal, Protocol

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, StoreError
from ..identity import MetadataValue, RunIdentity, RunLink
from ..messages import LLMMessage
from ..redaction import LOOK_AHEAD, redact_start
from ..usage import TokenUsage

__all__ = ["EvalRecord", "EvalStore", "InMemoryEvalStore", "PayloadMode", "payload_text"]

PayloadMode = Literal["none", "redacted", "full"]
"""What is stored of inputs and outputs."""

_MAX_PAYLOAD = 8192
"""Characters of an input or output that are stored at most."""
_LOOKED_AT = _MAX_PAYLOAD + 2 * LOOK_AHEAD


def new_record_id() -> str:
    """Return a random id of a record."""
    return os.urandom(16).hex()


def _usage(data: Mapping[str, int]) -> TokenUsage:
    return TokenUsage(**{item.name: data[item.name] for item in fields(TokenUsage) if item.name in data})


@record(kw_only=True)
class EvalRecord:
    """One scorer's verdict on one run."""

    timestamp: datetime
    identity: RunIdentity
    scorer: str
    scorer_version: str | None
    status: Literal["scored", "scorer_error"]
    """What has become of the scorer's judgement; of the run: ``run_status``."""
    run_status: str | None = None
    """The code of the run's status, such as ``ok`` or ``timeout``; None in records of earlier versions."""
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    """Redacted and cut."""
    details: dict[str, MetadataValue] | None = None
    error: str | None = None
    """Class and redacted text of a scorer's failure."""
    metadata: dict[str, MetadataValue] | None = None
    usage: TokenUsage
    duration: float
    """Seconds that the run took."""
    input: str | None = None
    """Stored only when payloads are."""
    output: str | None = None
    """Stored only when payloads are."""
    judge_usage: TokenUsage | None = None
    """Tokens that the judgement used, as the scorer says."""
    cost: float | None = None
    """What the judgement cost, as the scorer says."""
    id: str = field(default_factory=new_record_id)
    """Random; stores keep one record of each id."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON data."""
        return {**asdict(self), "timestamp": self.timestamp.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvalRecord:
        """Return the record that ``to_dict`` made the data of.

        Args:
            data: Plain JSON data; keys of later versions are left out.

        Raises:
            StoreError: It is no record.
        """
        try:
            known = {item.name: data[item.name] for item in fields(cls) if item.name in data}
            links = tuple(RunLink(**link) for link in known["identity"]["links"])
            known["identity"] = RunIdentity(**{**known["identity"], "links": links})
            known["timestamp"] = datetime.fromisoformat(known["timestamp"])
            known["usage"] = _usage(known["usage"])
            known["judge_usage"] = None if known.get("judge_usage") is None else _usage(known["judge_usage"])
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"this is no evaluation record: {shown(error, 200)}") from error


class EvalStore(Protocol):
    """Where records go."""

    async def append(self, records: Sequence[EvalRecord]) -> None:
        """Store the records of one run.

        Args:
            records: One per scorer.

        Raises:
            StoreError: They could not be stored.
        """
        ...


class InMemoryEvalStore:
    """Keeps the newest records in memory.

    Args:
        max_records: How many.

    Raises:
        ConfigurationError: The number is no whole number from 1.
    """

    def __init__(self, max_records: int = 10_000) -> None:
        if type(max_records) is not int or max_records < 1:
            raise ConfigurationError(
                f"InMemoryEvalStore max_records must be a whole number from 1, got {shown(max_records)}"
            )
        self._records: deque[EvalRecord] = deque(maxlen=max_records)

    @property
    def records(self) -> list[EvalRecord]:
        """The stored records, oldest first."""
        return list(self._records)

    async def append(self, records: Sequence[EvalRecord]) -> None:
        """Store the records of one run.

        Args:
            records: One per scorer.
        """
        self._records.extend(records)


def payload_text(value: str | Sequence[LLMMessage], mode: PayloadMode) -> str | None:
    """Return what is stored of an input or output: nothing, or at most 8,192 characters of it.

    Args:
        value: A text or a conversation.
        mode: What the application allows.
    """
    if mode == "none":
        return None
    text = value if isinstance(value, str) else _conversation_text(value)
    return redact_start(text, _MAX_PAYLOAD) if mode == "redacted" else text[:_MAX_PAYLOAD]


def _conversation_text(messages: Sequence[LLMMessage]) -> str:
    """Return the JSON of a conversation, as far as any of it is looked at: images may be long, and so may it be."""
    parts, left = [], _LOOKED_AT
    for message in messages:
        parts.append(json.dumps(_shortened(message.to_dict()), ensure_ascii=False))
        left -= len(parts[-1])
        if left < 0:
            break
    return f"[{', '.join(parts)}]"


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LOOKED_AT]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, list) else value

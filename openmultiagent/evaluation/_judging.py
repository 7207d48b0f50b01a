"""Judging one finished run: what scorers get, and what becomes of what they say."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import anyio

from .._detached import cancelled_from_outside
from .._record import maker, record
from ..identity import MetadataValue
from ..messages import LLMMessage, copy_messages, replace_lone_surrogates
from ..outcome import AgentRunResult, describe_error
from ..redaction import REDACTED, is_sensitive_name, redact_sensitive_object, redact_start
from ._records import EvalRecord, PayloadMode, payload_text
from ._scorer import Score, Scorer, ScorerContext

__all__ = ["Sample", "judge", "make_sample", "record_of"]

_MAX_TEXT = 1024


@record
class Sample:
    """A finished run that is to be judged."""

    input: str | list[LLMMessage]
    """The validated input of the run, which is also its calls' and which nobody changes."""
    result: AgentRunResult[Any]
    """A copy: the caller may change its own."""
    duration: float
    """Seconds."""
    is_recorded: bool
    """Whether the ids in its identity are those of a recorded span."""


make_sample: Callable[..., Sample] = maker(Sample)
"""Makes a sample of all its fields, by position; a run waits for it."""


async def judge(scorer: Scorer, sample: Sample) -> Score | BaseException:
    """Return what a scorer thinks of a run, or why it failed.

    Args:
        scorer: The scorer; it gets copies of its own.
        sample: The run.
    """
    try:
        return await scorer.score(_context(sample))
    except Exception as error:  # noqa: BLE001 - isolation boundary: a scorer's failure is a record of its own
        return error
    except anyio.get_cancelled_exc_class() as error:
        if cancelled_from_outside():
            raise
        return error


def record_of(scorer: Scorer, sample: Sample, verdict: Score | BaseException, mode: PayloadMode) -> EvalRecord:
    """Return what is stored of a verdict.

    Args:
        scorer: Whose it is.
        sample: The run.
        verdict: From ``judge``.
        mode: Whether inputs and outputs are stored.
    """
    result = sample.result
    score = verdict if isinstance(verdict, Score) else None
    return EvalRecord(
        timestamp=datetime.now(UTC),
        identity=result.identity,
        scorer=scorer.name,
        scorer_version=scorer.version,
        status="scorer_error" if score is None else "scored",
        run_status=result.status.code,
        score=None if score is None else score.score,
        passed=None if score is None else score.passed,
        reason=None if score is None or score.reason is None else _safe(score.reason),
        details=None if score is None or score.details is None else _details(score.details),
        error=describe_error(verdict) if isinstance(verdict, BaseException) else None,
        metadata=redact_sensitive_object(result.metadata),
        usage=result.token_usage,
        judge_usage=None if score is None else score.usage,
        cost=None if score is None else score.cost,
        duration=sample.duration,
        input=payload_text(sample.input, mode),
        output=payload_text(result.output, mode),
    )


def _safe(text: str) -> str:
    return redact_start(replace_lone_surrogates(text), _MAX_TEXT)


def _details(details: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    return {_safe(key): _safe_value(value, hide=is_sensitive_name(key)) for key, value in details.items()}


def _safe_value(value: Any, *, hide: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_safe_value(item, hide=hide) for item in value]
    if isinstance(value, str):
        return REDACTED if hide else _safe(value)
    return value


def _context(sample: Sample) -> ScorerContext[AgentRunResult[Any]]:
    result = copy.deepcopy(sample.result)  # of an agent or of a team: each knows how
    return ScorerContext(
        input=sample.input if isinstance(sample.input, str) else copy_messages(sample.input),
        output=result.output,
        result=result,
        identity=result.identity,
        status=result.status,
        metadata=result.metadata or {},
        duration=sample.duration,
    )

"""Online evaluation: finished runs are judged afterwards, beside the runs that go on.

Sampling is decided before a run's outcome is known. ``offer`` never waits and never raises; what the queue cannot
hold is dropped and counted. Invariant: nothing here delays or changes an answer, and nothing that a scorer does to
what it gets is seen by anybody else.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
from pydantic import Field, SkipValidation

from .._log import get_logger
from .._spec import spec
from ..agent import RunCall, RunNext
from ..errors import ConfigurationError
from ..identity import copy_metadata
from ..messages import LLMMessage, copy_messages
from ..outcome import AgentRunResult, copy_result, describe_error
from ..redaction import redact_sensitive_text
from ._records import EvalRecord, EvalStore, PayloadMode, payload_text
from ._scorer import Score, Scorer, ScorerContext
from ._scorer import scorer as make_scorer

__all__ = ["EvaluationSink", "EvaluationStats", "OnlineEvaluation"]

_log = get_logger(__name__)

_MAX_TEXT = 1024
_FLUSH_TIMEOUT = 30.0
"""Seconds that ``flush`` waits unless told otherwise."""

Sampler = Callable[[RunCall], bool]


@spec
class OnlineEvaluation:
    """Which runs are judged, by whom, and what is kept of it."""

    scorers: SkipValidation[Sequence[Scorer | Callable[..., object]]]
    """Scorers, or functions that ``@scorer`` could be put on."""
    _: KW_ONLY
    sample: Annotated[float, Field(ge=0, le=1)] | Sampler = 1.0
    """The share of runs that is judged, or a function that says for each run whether it is."""
    store: SkipValidation[EvalStore | None] = None
    """Where records go; None keeps none."""
    store_payloads: PayloadMode = "none"
    """Whether records hold inputs and outputs: not at all, redacted, or in full; at most 8,192 characters each."""
    max_queue: Annotated[int, Field(ge=1)] = 100
    """Finished runs that may wait to be judged; further ones are dropped and counted."""

    def __post_init__(self) -> None:
        given: object = self.scorers
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ConfigurationError("OnlineEvaluation needs a list with at least one scorer")
        scorers = tuple(item if isinstance(item, Scorer) else make_scorer(item) for item in given)
        object.__setattr__(self, "scorers", scorers)


@dataclass(slots=True)
class EvaluationStats:
    """What has become of the runs that were offered for evaluation."""

    sampled: int = 0
    """Runs that were chosen."""
    enqueued: int = 0
    """Of these, those that the queue could take."""
    completed: int = 0
    """Runs that all scorers have judged or failed on."""
    dropped: int = 0
    """Runs that the queue could not take, or that came after the end."""
    failed: int = 0
    """Scorers that raised, and samplers that did."""
    store_failed: int = 0
    """Records that could not be stored."""


@dataclass(frozen=True, slots=True)
class _Sample:
    input: str | list[LLMMessage]
    result: AgentRunResult[Any]
    duration: float


class EvaluationSink:
    """The queue of finished runs and its worker; ``OpenMultiAgent.evaluation``.

    Args:
        config: What is judged; None judges nothing.
    """

    def __init__(self, config: OnlineEvaluation | None) -> None:
        self._config = config
        self._queue: deque[_Sample] = deque()
        self._stats = EvaluationStats()
        self._wake: anyio.Event | None = None
        self._working = anyio.Lock()
        self._closed = False

    @property
    def is_active(self) -> bool:
        """Whether any run is judged at all."""
        return self._config is not None and self._config.sample != 0

    def stats(self) -> EvaluationStats:
        """Return the counts so far."""
        copy = EvaluationStats()
        for name in EvaluationStats.__slots__:
            setattr(copy, name, getattr(self._stats, name))
        return copy

    async def around(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        """Offer a run for evaluation when it has ended; the outermost step of the run seam.

        Args:
            call: The run.
            call_next: The rest of it.
        """
        wanted = self._sampled(call)  # before the outcome is known
        started = anyio.current_time()
        result = await call_next()
        if wanted:
            self.offer(call.input, copy_result(result), anyio.current_time() - started)
        return result

    def offer(self, input: str | list[LLMMessage], result: AgentRunResult[Any], duration: float) -> None:  # noqa: A002 - the field's name
        """Queue a finished run; never waits, never raises.

        Args:
            input: The run's input; owned by the sink from now on.
            result: Its result; owned by the sink from now on.
            duration: Seconds that it took.
        """
        config = self._config
        if config is None:
            return
        self._stats.sampled += 1
        if self._closed or len(self._queue) >= config.max_queue:
            self._stats.dropped += 1
            return
        self._stats.enqueued += 1
        self._queue.append(_Sample(input, result, duration))
        if self._wake is not None:
            self._wake.set()

    async def flush(self, timeout: float = _FLUSH_TIMEOUT) -> bool:  # noqa: ASYNC109 - a convenience, built on a scope
        """Judge what is queued, and return whether all of it is done.

        Args:
            timeout: Seconds to wait at most.
        """
        with anyio.move_on_after(timeout):
            await self._work_off()
        return not self._queue

    async def serve(self) -> None:
        """Judge runs as they come, until ``close``."""
        while not self._closed:
            self._wake = anyio.Event()
            await self._work_off()
            if not self._queue:
                await self._wake.wait()

    def close(self) -> None:
        """Take no more runs; what is queued can still be flushed."""
        self._closed = True
        if self._wake is not None:
            self._wake.set()

    def _sampled(self, call: RunCall) -> bool:
        sample = 0.0 if self._config is None else self._config.sample
        if not callable(sample):
            return sample >= 1 or (sample > 0 and random.random() < sample)  # noqa: S311 - a share, no secret
        try:
            return sample(call.fork()) is True
        except Exception as error:  # noqa: BLE001 - isolation boundary: a sampler cannot fail a run
            self._stats.failed += 1
            _log.warning("evaluation_sampler_failed", run_id=call.identity.run_id, error=describe_error(error))
            return False

    async def _work_off(self) -> None:
        async with self._working:
            while self._queue:
                # It leaves the queue when it is done, so that a timed-out flush loses nothing.
                await self._judge(self._queue[0])
                self._queue.popleft()

    async def _judge(self, sample: _Sample) -> None:
        assert self._config is not None  # noqa: S101 - nothing is queued without a config
        records = [await self._record(item, sample) for item in self._config.scorers if isinstance(item, Scorer)]
        self._stats.completed += 1
        store = self._config.store
        if store is None:
            return
        try:
            await store.append(records)
        except Exception as error:  # noqa: BLE001 - isolation boundary: a store cannot fail the evaluation of other runs
            self._stats.store_failed += len(records)
            _log.warning("evaluation_store_failed", run_id=sample.result.identity.run_id, error=describe_error(error))

    async def _record(self, scorer: Scorer, sample: _Sample) -> EvalRecord:
        score: Score | None = None
        failure: str | None = None
        try:
            score = await scorer.score(_context(sample))
        except Exception as error:  # noqa: BLE001 - isolation boundary: a scorer's failure is a record of its own
            failure = describe_error(error)
            self._stats.failed += 1
            _log.warning("scorer_failed", run_id=sample.result.identity.run_id, scorer=scorer.name, error=failure)
        return self._row(scorer, sample, score, failure)

    def _row(self, scorer: Scorer, sample: _Sample, score: Score | None, failure: str | None) -> EvalRecord:
        result = sample.result
        mode: PayloadMode = "none" if self._config is None else self._config.store_payloads
        reason = None if score is None or score.reason is None else redact_sensitive_text(score.reason)[:_MAX_TEXT]
        return EvalRecord(
            timestamp=datetime.now(UTC),
            identity=result.identity,
            scorer=scorer.name,
            scorer_version=scorer.version,
            status="scored" if score is not None else "scorer_error",
            score=None if score is None else score.score,
            passed=None if score is None else score.passed,
            reason=reason,
            details=None if score is None or score.details is None else dict(score.details),
            error=failure,
            metadata=copy_metadata(result.metadata),
            usage=result.token_usage,
            duration=sample.duration,
            input=payload_text(sample.input, mode),
            output=payload_text(result.output, mode),
        )


def _context(sample: _Sample) -> ScorerContext[AgentRunResult[Any]]:
    result = copy_result(sample.result)
    return ScorerContext(
        input=sample.input if isinstance(sample.input, str) else copy_messages(sample.input),
        output=result.output,
        result=result,
        identity=result.identity,
        status=result.status,
        metadata=result.metadata or {},
        duration=sample.duration,
    )

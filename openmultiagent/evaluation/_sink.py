"""Online evaluation at work: finished runs are judged afterwards, beside the runs that go on.

Sampling is decided before a run's outcome is known. ``offer`` never waits and never raises; what the queue cannot hold,
or a limit forbids, is dropped and counted. Runs may come from several event loops; each worker lives only while there
is something to judge, so a worker that dies, or whose loop ends, takes nothing with it but the run that it was judging.
Invariant: nothing here delays or changes an answer, and nothing that a scorer does to what it gets is seen by anybody
else.
"""

from __future__ import annotations

import asyncio
import copy
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, ContextVar
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from .._detached import Detached, Signal, cancelled_from_outside
from .._log import get_logger
from ..agent import RunCall, RunNext
from ..errors import RunError
from ..messages import LLMMessage
from ..outcome import AgentRunResult, describe_error
from ._judging import Sample, judge, make_sample, record_of
from ._limits import RareLog, RollingSum
from ._online import EvaluationStats, OnlineEvaluation
from ._records import EvalRecord
from ._scorer import Score, Scorer, call_beside
from ._telemetry import EvaluationEvents

__all__ = ["EvaluationSink"]

_log = get_logger(__name__)

_FLUSH_TIMEOUT = 30.0
"""Seconds that ``flush`` waits unless told otherwise."""
_DRAIN_TIMEOUT = 10.0
"""Seconds that ``aclose`` waits unless told otherwise."""
_CANCEL_TIMEOUT = 1.0
"""Seconds that cancelled workers have to end."""
_STORE_TIMEOUT = 30.0
"""Seconds that the store, and ``on_result``, may take for one run."""


_JUDGING: ContextVar[bool] = ContextVar("openmultiagent_judging", default=False)
"""Whether a run belongs to the judging of another one."""


class EvaluationSink:
    """The queue of finished runs and its workers; ``OpenMultiAgent.evaluation``.

    Args:
        config: What is judged; None judges nothing.
    """

    def __init__(self, config: OnlineEvaluation | None) -> None:
        self._config = config
        self.is_active = config is not None and config.sample != 0
        """Whether any run is judged at all."""
        self._takes_all = config is not None and not callable(config.sample) and config.sample >= 1
        self._stats = EvaluationStats()
        self._warnings = RareLog(_log)
        self._events = EvaluationEvents(config.logger_provider) if config is not None and config.emit_events else None
        self._recent = RollingSum(60.0)
        self._spent = RollingSum(3600.0)
        self._lock = threading.Lock()
        self._next = 0
        self._waiting: dict[int, Sample] = {}
        self._judging: dict[int, Sample] = {}
        self._claims: set[object] = set()
        """One for each worker that may take a run."""
        self._background: set[Detached[None]] = set()
        self._exits: list[BaseException] = []
        self._changed = Signal()
        self._closed = False
        self._is_owned = False

    def stats(self) -> EvaluationStats:
        """Return the counts so far."""
        return copy.copy(self._stats)

    def open(self) -> None:
        """Judge runs in the background from now on, on the event loop that they end on, until ``aclose``."""
        self._closed = False
        self._is_owned = True

    async def around(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        """Offer a run for evaluation when it has ended; the outermost step of the run seam.

        Args:
            call: The run.
            call_next: The rest of it.
        """
        # A scorer's own runs are not judged, or each would bring about another one.
        wanted = not _JUDGING.get() and (self._takes_all or self._sampled(call))  # before the outcome is known
        started = time.monotonic()
        result = await call_next()
        if wanted:
            seconds = time.monotonic() - started
            source = call.source
            judged = source.messages if source.prompt is None else source.prompt
            # By its own method: a team's result comes here, too, and `copy.deepcopy` takes its time to find it.
            self.offer(judged, result.__deepcopy__({}), seconds, is_recorded=call.trace_ids.is_recorded)
            if self._is_owned and self._is_crowded:
                # Runs that never wait themselves, their answers being in a cache say, would let nobody judge.
                await cancel_shielded_checkpoint()
        return result

    @property
    def _is_crowded(self) -> bool:
        return self._config is not None and 2 * len(self._waiting) > self._config.max_queue

    def offer(
        self,
        input: str | list[LLMMessage],  # noqa: A002 - the field's name
        result: AgentRunResult[Any],
        duration: float,
        *,
        is_recorded: bool = False,
    ) -> None:
        """Queue a finished run; never waits, never raises.

        Args:
            input: The run's input, which nobody changes any more: scorers get copies.
            result: Its result; owned by the sink from now on.
            duration: Seconds that it took.
            is_recorded: Whether the ids in its identity are those of a recorded span.
        """
        if self._config is None:
            return
        with self._lock:
            self._stats.sampled += 1
            refused = self._refusal(self._config)
            if refused is None:
                self._stats.enqueued += 1
                if self._config.max_evaluations_per_minute is not None:
                    self._recent.add(len(self._config.scorers))
                self._waiting[self._next] = make_sample(input, result, duration, is_recorded)
                self._next += 1
            else:
                self._stats.dropped += 1
                self._stats.limited += refused in ("rate_limit", "cost_limit")
        if refused is not None:
            self._warnings.warning("evaluation_dropped", reason=refused, run_id=result.identity.run_id)
        elif self._is_owned:
            self._start_workers(math.inf)

    async def flush(self, timeout: float = _FLUSH_TIMEOUT) -> bool:  # noqa: ASYNC109 - a convenience, built on a scope
        """Judge what has been queued up to now, and return whether all of it is done.

        Args:
            timeout: Seconds to wait at most; what is not done by then stays queued.
        """
        last = self._next - 1
        started: list[Detached[None]] = []
        try:
            with anyio.move_on_after(timeout):
                while self._oldest() <= last:
                    started += self._start_workers(last)
                    # Without workers: the last one has died, and another one goes on.
                    await self._changed.until(lambda: self._oldest() > last or not self._claims)
        finally:
            if self._oldest() <= last and not self._is_owned:
                await _stop(started)
        is_done = self._oldest() > last
        if not is_done:
            self._warnings.warning("evaluation_flush_timed_out", seconds=timeout)
        self._raise_exits()
        return is_done

    async def aclose(self, timeout: float = _DRAIN_TIMEOUT) -> bool:  # noqa: ASYNC109 - a convenience, built on a scope
        """Take no more runs, judge what is queued, and return whether all of it is done; may be called again.

        Args:
            timeout: Seconds to wait at most. What is not done by then can still be flushed.
        """
        self._closed, self._is_owned = True, False
        try:
            return await self.flush(timeout)
        finally:
            await _stop(list(self._background))

    def _refusal(self, config: OnlineEvaluation) -> str | None:
        if self._closed:
            return "closed"
        if len(self._waiting) >= config.max_queue:
            return "queue_full"
        if config.max_cost_per_hour is not None and self._spent.total >= config.max_cost_per_hour:
            return "cost_limit"
        limit = config.max_evaluations_per_minute
        if limit is not None and self._recent.total + len(config.scorers) > limit:
            return "rate_limit"
        return None

    def _sampled(self, call: RunCall) -> bool:
        sample = 0.0 if self._config is None else self._config.sample
        if not callable(sample):
            return sample >= 1 or (sample > 0 and random.random() < sample)  # noqa: S311 - a share, no secret
        try:
            return _answered(sample(call.fork())) is True
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: a sampler cannot fail a run
            self._count_failure("evaluation_sampler_failed", call.identity.run_id, error)
            return False

    def _oldest(self) -> float:
        """Return the number of the oldest run that is not done."""
        with self._lock:
            return min(next(iter(self._waiting), math.inf), min(self._judging, default=math.inf))

    def _start_workers(self, last: float) -> list[Detached[None]]:
        """Start as many workers as may and can do something about the runs up to a number."""
        started: list[Detached[None]] = []
        while (claim := self._claim(last)) is not None:
            # In a context of its own: a run has nothing to do with the runs that happen to be judged after it.
            worker = Detached(partial(self._work, claim, last), context=Context())
            self._background.add(worker)
            worker.start()
            worker.on_finish(partial(self._end, claim, worker))
            started.append(worker)
        return started

    def _claim(self, last: float) -> object | None:
        with self._lock:
            if self._config is None or next(iter(self._waiting), math.inf) > last:
                return None
            if len(self._claims) >= min(self._config.max_concurrent, len(self._waiting) + len(self._judging)):
                return None
            claim = object()
            self._claims.add(claim)
            return claim

    async def _work(self, claim: object, last: float) -> None:
        _JUDGING.set(True)  # in the worker's own context
        while (number := self._take(claim, last)) is not None:
            try:
                records = await self._judge(self._judging[number])
            except anyio.get_cancelled_exc_class():
                self._put_back(number)  # a flush that was given up loses nothing
                raise
            except BaseException:
                self._done(number)  # what ends the worker must not end the next one
                raise
            try:
                await self._report(records)
            finally:  # stored is stored, whatever becomes of those who are told
                self._done(number)

    def _end(self, claim: object, worker: Detached[None]) -> None:
        self._background.discard(worker)
        with self._lock:
            self._claims.discard(claim)
        if worker.error is not None:
            self._exits.append(worker.error)
            self._count_failure("evaluation_worker_failed", "", worker.error)
            if self._is_owned:
                self._start_workers(math.inf)
        self._changed.notify()

    def _take(self, claim: object, last: float) -> int | None:
        with self._lock:
            number = next(iter(self._waiting), None)
            if number is None or number > last:
                self._claims.discard(claim)  # here: who queues a run after this starts a worker for it
                return None
            self._judging[number] = self._waiting.pop(number)
            return number

    def _put_back(self, number: int) -> None:
        with self._lock:
            self._waiting[number] = self._judging.pop(number)
            self._waiting = dict(sorted(self._waiting.items()))

    def _done(self, number: int) -> None:
        with self._lock:
            del self._judging[number]
            self._stats.completed += 1
        self._changed.notify()

    def _raise_exits(self) -> None:
        """Raise what a scorer raised to end the process: in a worker nobody would notice."""
        if self._exits:
            raise self._exits.pop()

    async def _judge(self, sample: Sample) -> list[EvalRecord]:
        """Return what was judged and stored; nothing when the store failed."""
        assert self._config is not None  # noqa: S101 - nothing is queued without a config
        records = []
        for scorer in self._config.scorers:
            assert isinstance(scorer, Scorer)  # noqa: S101 - the config made scorers of them
            verdict = await judge(scorer, sample)
            if isinstance(verdict, Exception) and not threading.main_thread().is_alive():
                return []  # the process is ending, and starts no threads any more: the scorer has not failed
            run_id = sample.result.identity.run_id
            if isinstance(verdict, Score):
                self._account(scorer, verdict, run_id)
            else:
                self._count_failure("scorer_failed", run_id, verdict, scorer=scorer.name)
            records.append(record_of(scorer, sample, verdict, self._config.store_payloads))
        self._emit(records, sample)
        return records if await self._store(records) else []

    def _account(self, scorer: Scorer, score: Score, run_id: str) -> None:
        assert self._config is not None  # noqa: S101 - nothing is queued without a config
        if score.cost is not None:
            with self._lock:
                self._stats.cost += score.cost
                self._spent.add(score.cost)
        elif score.usage is not None and self._config.max_cost_per_hour is not None:
            self._warnings.warning("evaluation_cost_unknown", run_id=run_id, scorer=scorer.name)

    def _emit(self, records: Sequence[EvalRecord], sample: Sample) -> None:
        if self._events is None:
            return
        try:
            for record in records:
                self._events.emit(record, is_recorded=sample.is_recorded)
        except Exception as error:  # noqa: BLE001 - isolation boundary: an exporter cannot fail the evaluation of a run
            self._count_failure("evaluation_event_failed", sample.result.identity.run_id, error)

    async def _store(self, records: Sequence[EvalRecord]) -> bool:
        assert self._config is not None  # noqa: S101 - nothing is queued without a config
        if self._config.store is None:
            return True
        given = records if self._config.on_result is None else copy.deepcopy(records)  # the store may do what it likes
        error = await _attempt(partial(self._config.store.append, given))
        if error is None:
            return True
        with self._lock:
            self._stats.store_failed += len(records)
        run_id = records[0].identity.run_id
        self._warnings.warning("evaluation_store_failed", run_id=run_id, error=describe_error(error))
        return False

    async def _report(self, records: Sequence[EvalRecord]) -> None:
        assert self._config is not None  # noqa: S101 - nothing is queued without a config
        if self._config.on_result is None:
            return
        for record in records:
            error = await _attempt(partial(call_beside, self._config.on_result, copy.deepcopy(record)))
            if error is not None:
                self._count_failure("evaluation_callback_failed", record.identity.run_id, error)

    def _count_failure(self, event: str, run_id: str, error: BaseException, *, scorer: str | None = None) -> None:
        with self._lock:
            self._stats.failed += 1
        fields = {} if scorer is None else {"scorer": scorer}
        self._warnings.warning(event, reason="", run_id=run_id, error=describe_error(error), **fields)


def _answered(answer: object) -> object:
    if isinstance(answer, Coroutine):
        answer.close()  # dropped unclosed, it would warn that it was never awaited
        raise RunError("the sampler returned a coroutine: it must be a plain function")
    return answer


async def _attempt(work: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Do something that a user wrote, bounded; return what it raised."""
    try:
        with anyio.move_on_after(_STORE_TIMEOUT):
            await work()
            return None
    except Exception as error:  # noqa: BLE001 - isolation boundary: a store or callback cannot fail other evaluations
        return error
    except anyio.get_cancelled_exc_class() as error:
        if cancelled_from_outside():
            raise
        return error
    return RunError(f"it took longer than {_STORE_TIMEOUT:g}s")


async def _stop(workers: Sequence[Detached[None]]) -> None:
    for worker in workers:
        worker.cancel()
    with anyio.move_on_after(_CANCEL_TIMEOUT, shield=True):
        for worker in workers:
            await worker.wait()

"""Online evaluation, as an application asks for it: what is judged, by whom, and what is kept.

Not here: doing it (``_sink``). Invariant: what makes no sense is refused when it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from opentelemetry._logs import LoggerProvider
from pydantic import Field, SkipValidation

from .._shown import shown
from .._spec import check_has, spec
from ..agent import RunCall
from ..errors import ConfigurationError
from ._records import EvalRecord, EvalStore, PayloadMode
from ._scorer import Scorer, is_async
from ._scorer import scorer as make_scorer

__all__ = ["EvaluationStats", "OnlineEvaluation"]

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
    on_result: SkipValidation[Callable[[EvalRecord], object] | None] = None
    """Told of every record that was stored (of every record without a store): plain, then in a thread, or async."""
    emit_events: bool = False
    """Whether verdicts are also OpenTelemetry events, ``gen_ai.evaluation.result``."""
    logger_provider: SkipValidation[LoggerProvider | None] = None
    """Where these go; OpenTelemetry's global provider unless given."""
    max_concurrent: Annotated[int, Field(ge=1)] = 1
    """Runs that are judged at the same time; the scorers of one run follow each other."""
    max_queue: Annotated[int, Field(ge=1)] = 100
    """Finished runs that may wait to be judged; further ones are dropped and counted."""
    max_evaluations_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Verdicts (runs times scorers) that are asked for within a minute; further runs are dropped and counted."""
    max_cost_per_hour: Annotated[float, Field(gt=0)] | None = None
    """Cost of verdicts (``Score.cost``) within an hour after which further runs are dropped and counted; what is queued
    or being judged by then goes over it."""

    def __post_init__(self) -> None:
        given: object = self.scorers
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ConfigurationError("OnlineEvaluation needs a list with at least one scorer")
        scorers = tuple(item if isinstance(item, Scorer) else make_scorer(item) for item in given)
        object.__setattr__(self, "scorers", scorers)
        if callable(self.sample) and is_async(self.sample):
            raise ConfigurationError("OnlineEvaluation.sample must be a plain function: no run waits for its answer")
        if self.on_result is not None and not callable(self.on_result):
            raise ConfigurationError(f"OnlineEvaluation.on_result must be callable, got {shown(self.on_result)}")
        check_has("OnlineEvaluation.store", self.store, "append", "a store, with async append(records)")
        check_has(
            "OnlineEvaluation.logger_provider", self.logger_provider, "get_logger", "a LoggerProvider of OpenTelemetry"
        )
        limit = self.max_evaluations_per_minute
        if limit is not None and limit < len(scorers):
            raise ConfigurationError(
                f"OnlineEvaluation.max_evaluations_per_minute is {limit}, but one run needs {len(scorers)}: "
                "one for each scorer"
            )


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
    """Runs that were chosen and not queued: no room, beyond a limit, or after the end."""
    limited: int = 0
    """Of these, those beyond ``max_evaluations_per_minute`` or ``max_cost_per_hour``."""
    failed: int = 0
    """Scorers that raised, and samplers and ``on_result`` that did."""
    store_failed: int = 0
    """Records that could not be stored."""
    cost: float = 0.0
    """What the verdicts cost together, as far as they say it."""

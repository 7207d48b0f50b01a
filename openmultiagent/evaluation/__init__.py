"""Evaluation: scorers, and online evaluation of finished runs."""

from ._online import EvaluationSink, EvaluationStats, OnlineEvaluation
from ._records import EvalRecord, EvalStore, InMemoryEvalStore, PayloadMode
from ._scorer import Score, Scorer, ScorerContext, scorer

__all__ = [
    "EvalRecord",
    "EvalStore",
    "EvaluationSink",
    "EvaluationStats",
    "InMemoryEvalStore",
    "OnlineEvaluation",
    "PayloadMode",
    "Score",
    "Scorer",
    "ScorerContext",
    "scorer",
]

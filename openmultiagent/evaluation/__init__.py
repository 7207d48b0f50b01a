"""Evaluation: scorers, and online evaluation of finished runs."""

from ._online import EvaluationStats, OnlineEvaluation
from ._records import EvalRecord, EvalStore, InMemoryEvalStore, PayloadMode
from ._scorer import Score, Scorer, ScorerContext, scorer
from ._sink import EvaluationSink
from ._sqlite import EvalPage, SQLiteEvalStore

__all__ = [
    "EvalPage",
    "EvalRecord",
    "EvalStore",
    "EvaluationSink",
    "EvaluationStats",
    "InMemoryEvalStore",
    "OnlineEvaluation",
    "PayloadMode",
    "SQLiteEvalStore",
    "Score",
    "Scorer",
    "ScorerContext",
    "scorer",
]

"""The ledger of a run: what model and tool calls used, and whether there may be another one.

Not here: where calls are intercepted (the budget steps of the model, tool and run seams), and how large a request is.
"""

from ._limits import BudgetMode, CostEstimateContext, CostEstimator, Limits, Remaining, merge_limits
from ._scope import HARD_MAX_TOKENS, BudgetError, BudgetScope, PendingCall

__all__ = [
    "HARD_MAX_TOKENS",
    "BudgetError",
    "BudgetMode",
    "BudgetScope",
    "CostEstimateContext",
    "CostEstimator",
    "Limits",
    "PendingCall",
    "Remaining",
    "merge_limits",
]

"""Errors of a run: it could not go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._base import OpenMultiAgentError

__all__ = [
    "CostBudgetExceededError",
    "DependencyPayloadError",
    "LLMCallTimeoutError",
    "LimitExceededError",
    "PlanInvalidError",
    "RoutingProfilerFailedError",
    "RoutingTimeoutError",
    "RunError",
    "StructuredOutputValidationError",
    "TokenBudgetExceededError",
]


class RunError(OpenMultiAgentError):
    """A run could not go on."""

    code = "RUN_ERROR"


class TokenBudgetExceededError(RunError):
    """A run used more tokens than it was allowed to.

    Args:
        agent: Name of the agent, or of the team whose run it was.
        tokens_used: Input and output tokens used when the limit was noticed, reserved ones included.
        budget: The limit, in tokens.
        needed: What the call that was refused may have used on top of that, where that is why it was.
        whose: What the name is the name of, for the text: "Agent", or "Team" for the run of one.
    """

    code = "TOKEN_BUDGET_EXCEEDED"
    field_names = ("agent", "tokens_used", "budget", "needed")

    def __init__(
        self, *, agent: str, tokens_used: int, budget: int, needed: int | None = None, whose: str = "Agent"
    ) -> None:
        used = f"{tokens_used} tokens used{_and_needed(needed)}"
        super().__init__(f'{whose} "{agent}" exceeded token budget: {used} (budget: {budget})')
        self.agent, self.tokens_used, self.budget, self.needed = agent, tokens_used, budget, needed


class CostBudgetExceededError(RunError):
    """A run cost more than it was allowed to.

    Args:
        agent: Name of the agent, or of the team whose run it was.
        cost_used: Estimated cost when the limit was noticed, in the caller's unit, reserved cost included.
        budget: The limit, in the same unit.
        needed: What the call that was refused may have cost on top of that, where that is why it was.
        whose: What the name is the name of, for the text: "Agent", or "Team" for the run of one.
    """

    code = "COST_BUDGET_EXCEEDED"
    field_names = ("agent", "cost_used", "budget", "needed")

    def __init__(
        self, *, agent: str, cost_used: float, budget: float, needed: float | None = None, whose: str = "Agent"
    ) -> None:
        used = f"{cost_used} estimated cost used{_and_needed(needed)}"
        super().__init__(f'{whose} "{agent}" exceeded cost budget: {used} (budget: {budget})')
        self.agent, self.cost_used, self.budget, self.needed = agent, cost_used, budget, needed


def _and_needed(needed: float | None) -> str:
    return "" if needed is None else f", and the next call may need {needed:.12g} more"


class LimitExceededError(RunError):
    """A run would have gone over a limit on its model calls, its tool calls or its time.

    Args:
        agent: Name of the agent, or of the team whose run it was.
        limit: Which one: ``requests``, ``tool_calls`` or ``seconds``.
        used: What was used when it was noticed, in the limit's unit.
        budget: The limit.
        whose: What the name is the name of, for the text: "Agent", or "Team" for the run of one.
    """

    code = "LIMIT_EXCEEDED"
    field_names = ("agent", "limit", "used", "budget")

    def __init__(self, *, agent: str, limit: str, used: float, budget: float, whose: str = "Agent") -> None:
        unit = {"requests": "model calls", "tool_calls": "tool calls"}.get(limit, limit)
        super().__init__(f'{whose} "{agent}" reached its limit of {budget:.12g} {unit}: {used:.12g} used')
        self.agent, self.limit, self.used, self.budget = agent, limit, used, budget


class LLMCallTimeoutError(RunError):
    """One model call took longer than ``call_timeout``.

    Args:
        timeout: The limit, in seconds.
        agent: Name of the agent, when the call was made for one.
    """

    code = "LLM_CALL_TIMEOUT"
    field_names = ("timeout", "agent")

    def __init__(self, *, timeout: float, agent: str | None = None) -> None:
        subject = "LLM call" if agent is None else f'Agent "{agent}" LLM call'
        super().__init__(f"{subject} exceeded per-call timeout of {timeout:.12g}s")
        self.timeout, self.agent = timeout, agent


class _CausedError(RunError):
    field_names = ("cause",)

    def __init__(self, message: str, *, cause: BaseException | str | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class StructuredOutputValidationError(_CausedError):
    """The answer did not match ``output_schema``, also after it was corrected.

    Args:
        message: What did not match.
        cause: The last validation error, or its text.
    """

    code = "STRUCTURED_OUTPUT_VALIDATION_FAILED"

    def __init__(
        self,
        message: str = "Structured output validation failed after retry.",
        *,
        cause: BaseException | str | None = None,
    ) -> None:
        super().__init__(message, cause=cause)


class DependencyPayloadError(RunError):
    """The result of a task cannot be handed to the tasks that depend on it."""

    code = "DEPENDENCY_PAYLOAD_INVALID"


class PlanInvalidError(RunError):
    """The coordinator wrote no plan that can be run.

    Args:
        message: The faults of the plan.
        issues: One mapping per fault, with ``code`` and ``message``.
    """

    code = "PLAN_INVALID"
    field_names = ("issues",)

    def __init__(self, message: str, *, issues: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.issues = [dict(issue) for issue in issues]


class RoutingTimeoutError(RunError):
    """Routing took longer than it may.

    Args:
        timeout: The limit, in seconds.
        stage: The step of routing that was too slow.
    """

    code = "ROUTING_TIMEOUT"
    field_names = ("timeout", "stage")

    def __init__(self, *, timeout: float, stage: str) -> None:
        super().__init__(f"Execution routing {stage} exceeded its timeout of {timeout:.12g}s")
        self.timeout, self.stage = timeout, stage


class RoutingProfilerFailedError(_CausedError):
    """The profiler that routing relies on failed.

    Args:
        message: What failed.
        cause: The profiler's error, or its text.
    """

    code = "ROUTING_PROFILER_FAILED"

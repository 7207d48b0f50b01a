"""The application's say in what a run does: it is asked before a plan, before each task, or between rounds.

Gates fail closed: one that raises, or answers something that is no answer, stops the run. A task that is at work is
never taken back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, cast

import anyio

from .._detached import cancelled_from_outside
from .._record import record
from ..budget import BudgetScope
from ..cancellation import CancelToken
from ..errors import ConfigurationError, RunError
from ..outcome import ErrorInfo, classify_failure
from ..tasks import Task
from ._decide import Stop

__all__ = ["ApprovalAnswer", "Gates", "ask", "cancelled_stop"]

ApprovalAnswer: TypeAlias = bool | Mapping[str, Any]
"""``True`` or ``{"action": "allow"}`` goes on; ``False`` or ``{"action": "deny", "reason": ...}`` stops."""

_Verdict = tuple[Literal["allow", "deny"], str | None]


@record(kw_only=True)
class Gates:
    """Whom a run asks, and for what.

    Raises:
        ConfigurationError: One cannot be called, or both of the gates that exclude each other are there.
    """

    on_plan_ready: Callable[[Sequence[Task]], object] | None = None
    """Asked once, with the plan of a coordinator, before anything of it is run."""
    on_task_dispatch: Callable[[Task], object] | None = None
    """Asked before each task, one at a time."""
    on_approval: Callable[[Sequence[Task], Sequence[Task]], object] | None = None
    """Asked between rounds, with the tasks that this round completed and those of the next; the run then has rounds."""

    def __post_init__(self) -> None:
        for name in ("on_plan_ready", "on_task_dispatch", "on_approval"):
            gate = getattr(self, name)
            if gate is not None and not callable(gate):
                raise ConfigurationError(f"{name} must be callable, got {type(gate).__name__}")
        if self.on_approval is not None and self.on_task_dispatch is not None:
            raise ConfigurationError(
                "on_approval asks between rounds, and on_task_dispatch before each task; give one of them"
            )


async def ask(
    name: str,
    gate: Callable[..., object],
    *arguments: object,
    cancel: CancelToken | None = None,
    budget: BudgetScope | None = None,
) -> Stop | None:
    """Ask a gate, and return None if the run may go on, else why it may not.

    Args:
        name: What the gate is called, for texts.
        gate: Plain or async.
        arguments: What it is asked about; they are frozen, or its own.
        cancel: Ends the wait for an answer.
        budget: The run's; its time limit ends the wait, too.
    """
    seconds = None if budget is None else budget.remaining().seconds
    answer: Stop | None = None
    with nullcontext() if cancel is None else cancel.scope(), anyio.move_on_after(seconds) as timer:
        answer = await _asked(name, gate, *arguments)
    if cancel is not None and cancel.cancelled:
        return cancelled_stop(cancel)
    if budget is not None and timer.cancelled_caught:
        error = budget.out_of_time()
        status, info = classify_failure(error)
        return Stop(status.code, str(error), info, error)
    return answer


def cancelled_stop(cancel: CancelToken) -> Stop:
    """Return why a run starts no more tasks whose token was cancelled.

    Args:
        cancel: The token.
    """
    reason = "run aborted" if cancel.reason is None else f"run aborted: {cancel.reason}"
    return Stop("cancelled", reason, ErrorInfo(kind="cancellation", message=reason, retryable=False))


async def _asked(name: str, gate: Callable[..., object], *arguments: object) -> Stop | None:
    try:
        answer = gate(*arguments)
        if inspect.isawaitable(answer):
            answer = await answer
        action, reason = _read(name, answer)
    except (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()) as error:
        if not isinstance(error, Exception) and cancelled_from_outside():
            raise
        failure = error if isinstance(error, Exception) else RunError(f"{name} was cancelled by something that it uses")
        _, info = classify_failure(failure, kind="callback")
        return Stop("error", f"{name} failed: {info.message}"[:500], info, failure)
    if action == "allow":
        return None
    return Stop("rejected", f"rejected by {name}" if reason is None else f"rejected by {name}: {reason}"[:500])


def _read(name: str, answer: object) -> _Verdict:
    if isinstance(answer, bool):
        return ("allow" if answer else "deny"), None
    if isinstance(answer, Mapping):
        action, reason = answer.get("action"), answer.get("reason")
        if action in ("allow", "deny") and (reason is None or isinstance(reason, str)):
            return cast(Literal["allow", "deny"], action), reason
        if action == "suspend":
            raise RunError(f"{name} answered 'suspend', which needs a durable run; answer allow or deny")
    raise RunError(f"{name} must answer True, False or {{'action': 'allow' | 'deny'}}, got {type(answer).__name__}")

"""How a token stops user middleware that waits around a run.

The run itself is stopped inside, by scopes of its own, and returns what it has got to. A cancelled scope out here would
take that result away on its way out, so it is cancelled only while none is going on. Runs without user middleware or
without a token have none of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from anyio import CancelScope

from ..agent import RunCall, RunEnvironment, cancelled_result
from ..cancellation import CancelToken
from ..outcome import AgentRunResult, joined_messages

__all__ = ["MiddlewareStop", "stopped_agent"]

R = TypeVar("R")
Result = AgentRunResult[Any]


class MiddlewareStop(Generic[R]):
    """What stops the user middleware of one run.

    Args:
        cancel: The run's token.
        run: Does the run itself.
        stopped: Makes the result of a run that was stopped, from its call and the result that it last had.
    """

    def __init__(
        self,
        cancel: CancelToken,
        run: Callable[[RunCall], Awaitable[R]],
        stopped: Callable[[RunCall, R | None], R],
    ) -> None:
        self._cancel = cancel
        self._run = run
        self._stopped = stopped
        self._scope = CancelScope()
        self._running = 0
        self._last: R | None = None

    async def core(self, call: RunCall) -> R:
        """Do the run, and stop the middleware afterwards when the token has been cancelled meanwhile.

        Args:
            call: The run.
        """
        is_late = self._scope.cancel_called  # a repetition after the end, which comes to nothing
        self._running += 1
        try:
            result = await self._run(call)
            if not is_late:
                self._last = result
            return result
        finally:
            self._running -= 1
            if self._cancel.cancelled:
                self._stop_waiting()

    async def around(self, call: RunCall, call_next: Callable[[], Awaitable[R]]) -> R:
        """Return what user middleware and the run come to, or the run's last result when the token stops them.

        Args:
            call: The run.
            call_next: User middleware and the run.
        """
        with self._scope, self._cancel.subscribed(self._stop_waiting):
            return await call_next()
        return self._stopped(call, self._last)

    def _stop_waiting(self) -> None:
        if not self._running:
            self._scope.cancel()


def stopped_agent(environment: RunEnvironment, reason: str | None, last: Result | None) -> Result:
    """Return the result of an agent's run whose middleware was stopped.

    Args:
        environment: The run's surroundings.
        reason: Why, as the canceller said.
        last: What the agent last came to, if it was run.
    """
    stopped = cancelled_result(environment, reason=reason)
    if last is None:
        return stopped
    return stopped.replace(
        output="" if last.status.code in ("error", "rejected") else last.output,  # not the text of a failure
        messages=joined_messages([last]),
        tool_calls=last.tool_calls,
        flags=last.flags,
    )

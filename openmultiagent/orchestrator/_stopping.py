"""How a token stops user middleware that waits around the agent.

The agent itself is stopped by its own scope, inside, and returns what it has got to. A cancelled scope out here would
take that result away on its way out, so it is cancelled only while no agent is running. Runs without user middleware
or without a token have none of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CancelScope

from ..agent import RunCall, RunEnvironment, RunNext, cancelled_result
from ..cancellation import CancelToken
from ..outcome import AgentRunResult

__all__ = ["MiddlewareStop"]

Result = AgentRunResult[Any]


class MiddlewareStop:
    """What stops the user middleware of one run.

    Args:
        cancel: The run's token.
        agent: Runs the agent.
        environment: Makes the surroundings of the run from its call.
    """

    def __init__(
        self,
        cancel: CancelToken,
        agent: Callable[[RunCall], Awaitable[Result]],
        environment: Callable[[RunCall], RunEnvironment],
    ) -> None:
        self._cancel = cancel
        self._agent = agent
        self._environment = environment
        self._scope = CancelScope()
        self._running = 0
        self._last: Result | None = None

    async def core(self, call: RunCall) -> Result:
        """Run the agent, and stop the middleware afterwards when the token has been cancelled meanwhile.

        Args:
            call: The run.
        """
        is_late = self._scope.cancel_called  # a repetition after the end, which comes to nothing
        self._running += 1
        try:
            result = await self._agent(call)
            if not is_late:
                self._last = result
            return result
        finally:
            self._running -= 1
            if self._cancel.cancelled:
                self._stop_waiting()

    async def around(self, call: RunCall, call_next: RunNext) -> Result:
        """Return what user middleware and agent come to, or the agent's last result when the token stops them.

        Args:
            call: The run.
            call_next: User middleware and the agent.
        """
        with self._scope, self._cancel.subscribed(self._stop_waiting):
            return await call_next()
        stopped = cancelled_result(self._environment(call), reason=self._cancel.reason)
        last = self._last
        if last is None:
            return stopped
        return stopped.replace(
            output="" if last.status.code in ("error", "rejected") else last.output,  # not the text of a failure
            messages=last.messages,
            tool_calls=last.tool_calls,
            flags=last.flags,
        )

    def _stop_waiting(self) -> None:
        if not self._running:
            self._scope.cancel()

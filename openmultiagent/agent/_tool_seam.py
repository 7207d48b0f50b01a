"""The way of a tool call: user middleware > budget > tracing > validation > timeout > tool.

All calls of a turn start at the same time (the executor bounds how many run at once); their results stand in the
order of the calls. Invariant: a call always comes to a result. Whatever a tool or a middleware does is a result that
the model can read; only a cancellation from outside goes on.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import anyio

from .._log import get_logger
from .._middleware import compose
from ..identity import copy_metadata
from ..messages import ToolResultBlock, ToolUseBlock
from ..outcome import ToolCallRecord
from ..tools import (
    ToolCall,
    ToolContext,
    ToolExecutor,
    ToolRegistry,
    ToolResult,
    as_tool_result,
    describe_error,
    error_result,
    record_output,
    result_content,
)
from ._config import AgentConfig
from ._environment import RunEnvironment
from ._turns import RunProgress

__all__ = ["ToolSeam"]

_log = get_logger(__name__)


class ToolSeam:
    """The composed chain around the tool calls of one run, with the tools that it may use.

    Args:
        config: The agent.
        environment: The run's surroundings.
    """

    def __init__(self, config: AgentConfig, environment: RunEnvironment) -> None:
        self._config = config
        self._environment = environment
        self.registry = ToolRegistry(config.granted_tools)
        self._executor = ToolExecutor(self.registry)
        user = [*environment.tool_middleware, *config.tool_middleware]
        self._has_user_middleware = bool(user)
        self._chain = compose([*user, self._budgeted, *environment.tool_tracing], self._execute)

    async def run_turn(self, calls: Sequence[ToolUseBlock], progress: RunProgress) -> None:
        """Run the calls of a turn and keep their results.

        Args:
            calls: The tool calls of the assistant turn.
            progress: The run; each result is kept there as soon as it is there.
        """
        # Even a single call runs in a child: worker threads look to the task group for the cancellation of the run.
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(self._run_one, call, progress)

    async def _run_one(self, block: ToolUseBlock, progress: RunProgress) -> None:
        started = time.perf_counter()
        result = await self._result_of(block, progress.turns)
        content, is_error = result_content(result)
        record = ToolCallRecord(
            tool_name=block.name,
            tool_use_id=block.id,
            input=copy.deepcopy(block.input),
            output=record_output(result),
            is_error=is_error,
            duration=time.perf_counter() - started,
        )
        answer = ToolResultBlock(tool_use_id=block.id, content=content, is_error=True if is_error else None)
        progress.finish_call(answer, record)

    async def _result_of(self, block: ToolUseBlock, turn: int) -> ToolResult:
        run_id = self._environment.identity.run_id
        call = ToolCall(
            id=f"{run_id}/turn-{turn}/{block.id}",
            tool_call_id=block.id,
            tool_name=block.name,
            input=block.input,
            agent=self._config.name,
            run_id=run_id,
            turn=turn,
            input_error=block.input_error,
        )
        try:
            result = await self._chain(call)
        except Exception as error:  # noqa: BLE001 - isolation boundary: a failing middleware is a failed call, not a failed run
            _log.warning("tool_middleware_failed", run_id=run_id, tool=block.name, error=describe_error(error))
            return error_result(f'Tool "{block.name}" failed: {describe_error(error)}')
        # A middleware may return anything, and keep what it returned.
        return as_tool_result(block.name, result) if self._has_user_middleware else result

    async def _budgeted(self, call: ToolCall, call_next: Any) -> ToolResult:
        self._environment.budget.charge(tool_calls=1)
        return await call_next(call)  # type: ignore[no-any-return]

    async def _execute(self, call: ToolCall) -> ToolResult:
        context = ToolContext(
            agent=call.agent,
            run_id=call.run_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            turn=call.turn,
            metadata=copy_metadata(self._environment.metadata) or {},
        )
        return await self._executor.execute(call, context)

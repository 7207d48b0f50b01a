"""The way of a tool call: user middleware > budget > tracing > validation > gate > timeout > tool.

All calls of a turn start at the same time (the executor bounds how many run at once); their results stand in the
order of the calls. Invariant: a call always comes to a result. Whatever a tool or a middleware does is a result that
the model can read; only a cancellation from outside goes on.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Sequence
from functools import partial

import anyio

from .._log import get_logger
from .._middleware import compose
from ..errors import LimitExceededError
from ..identity import copy_metadata
from ..messages import ToolResultBlock, ToolUseBlock
from ..outcome import ToolCallRecord
from ..tools import (
    Tool,
    ToolCall,
    ToolContext,
    ToolExecutor,
    ToolMiddleware,
    ToolNext,
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
        tools: The tools that are granted.
    """

    def __init__(self, config: AgentConfig, environment: RunEnvironment, tools: Sequence[Tool]) -> None:
        self._config = config
        self._environment = environment
        self._tools = tools
        self.refused: LimitExceededError | None = None
        """Why a call was not made, when the run had no more of them."""
        self._admissions: dict[str, LimitExceededError | None] = {}
        self._user = (*environment.tool_middleware, *config.tool_middleware)
        self._executor = self._new_executor()

    def _new_executor(self) -> ToolExecutor:
        config, environment = self._config, self._environment
        inherited, confirmation = environment.on_tool_call, environment.confirmation
        return ToolExecutor(
            ToolRegistry(self._tools),
            max_concurrency=config.max_parallel_tools,
            max_output_chars=config.max_tool_output_chars,
            on_tool_call=inherited if config.on_tool_call is None else config.on_tool_call,
            confirmation=confirmation if confirmation is not None and confirmation.is_required else None,
        )

    async def run_turn(self, calls: Sequence[ToolUseBlock], progress: RunProgress) -> None:
        """Run the calls of a turn and keep their results.

        Args:
            calls: The tool calls of the assistant turn.
            progress: The run; each result is kept there as soon as it is there.
        """
        pairs = [(block, self._call(block, progress.turns)) for block in calls]
        self._executor.announce([call for _, call in pairs])
        # In their order, and before any starts: which ones are too many does not depend on who is faster.
        budget = self._environment.budget
        self._admissions = {call.id: budget.begin_tool_call() for _, call in pairs}
        try:
            # Even a single call runs in a child: worker threads look to the task group for the cancellation of the run.
            async with anyio.create_task_group() as group:
                for block, call in pairs:
                    group.start_soon(self._run_one, block, call, progress)
        finally:
            # What is left was answered by a middleware, or never came that far.
            budget.charge(tool_calls=-sum(refusal is None for refusal in self._admissions.values()))

    async def _run_one(self, block: ToolUseBlock, call: ToolCall, progress: RunProgress) -> None:
        started = time.perf_counter()
        result = await self._result_of(call)
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

    def _call(self, block: ToolUseBlock, turn: int) -> ToolCall:
        run_id = self._environment.identity.run_id
        return ToolCall(
            id=f"{run_id}/turn-{turn}/{block.id}",
            tool_call_id=block.id,
            tool_name=block.name,
            input=block.input,
            agent=self._config.name,
            run_id=run_id,
            turn=turn,
            input_error=block.input_error,
        )

    async def _result_of(self, call: ToolCall) -> ToolResult:
        try:
            if not self._user:
                return await self._admitted(call)
            # Composed for each call: a chain kept here would be a cycle of references.
            result = await compose(self._user, self._admitted)(call)
        except Exception as error:  # noqa: BLE001 - isolation boundary: a failing middleware is a failed call, not a failed run
            _log.warning("tool_middleware_failed", run_id=call.run_id, tool=call.tool_name, error=describe_error(error))
            return error_result(f'Tool "{call.tool_name}" failed: {describe_error(error)}')
        # A middleware may return anything, and keep what it returned.
        return as_tool_result(call.tool_name, result)

    async def _admitted(self, call: ToolCall) -> ToolResult:
        admissions = self._admissions
        # A call that comes a second time is repeated by a middleware.
        refusal = admissions[call.id] if call.id in admissions else self._environment.budget.begin_tool_call()
        if refusal is None:
            admissions.pop(call.id, None)
            # Our own steps only look at a call, so they all share it.
            inner: ToolNext = self._execute
            for step in reversed(self._environment.tool_tracing):
                inner = partial(_around, step, inner)
            return await inner(call)
        self.refused = refusal
        limit = f"the limit of {refusal.budget:g} tool calls of {refusal.agent!r}"
        return error_result(f'Tool "{call.tool_name}" was not executed: {limit} has been reached')

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


def _around(step: ToolMiddleware, inner: ToolNext, call: ToolCall) -> Awaitable[ToolResult]:
    return step(call, inner)

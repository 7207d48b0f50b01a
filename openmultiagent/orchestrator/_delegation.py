"""Agents that give a part of their work to another agent of the team, and wait for its answer.

Whoever was granted ``delegate_to_agent`` may do so. Invariants: nobody waits for a slot, and who waits for an answer
lends its own, so that agents which delegate to each other never wait for each other; a chain has no circles and a
bounded length; what the other agent uses is charged to who asked it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .._log import get_logger
from .._record import record
from .._shown import shown
from ..agent import AgentConfig
from ..budget import BudgetScope, Limits
from ..errors import InvalidMessageError
from ..identity import new_span_id
from ..messages import prepare_run_input
from ..outcome import describe_error
from ..tasks import Task
from ..tools import DELEGATE_TO_AGENT, ToolContext, ToolResult, error_result
from ._graph_run import GraphRun
from ._slots import OwnSlot

__all__ = ["with_team_tools"]

_log = get_logger(__name__)


def with_team_tools(
    run: GraphRun, task: Task, config: AgentConfig, budget: BudgetScope, chain: tuple[str, ...] = ()
) -> AgentConfig:
    """Return an agent whose tools of the team, where it was granted any, work in this run.

    Args:
        run: The run.
        task: The task that the agent works on.
        config: The agent.
        budget: Its scope, which agents that it delegates to are charged to as well.
        chain: Who delegated to it, the first one first.
    """
    config = run.crew.team.equip(config)
    if DELEGATE_TO_AGENT.name not in config.tools:
        return config
    delegation = _Delegation(run, task, budget, (*chain, config.name), OwnSlot(run.crew.slots))
    # Without a limit of its own: the other agent has its own, and both stand under those of the run.
    mine = replace(DELEGATE_TO_AGENT, execute=delegation.execute, timeout=math.inf)
    return config.replace(tools=tuple(mine if item == DELEGATE_TO_AGENT.name else item for item in config.tools))


@record
class _Delegation:
    run: GraphRun
    task: Task
    budget: BudgetScope
    chain: tuple[str, ...]
    """The agents from the task's own to the one that may delegate."""
    slot: OwnSlot
    """The slot that this one is at work in."""

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        target, prompt = arguments["target_agent"], arguments["prompt"]
        refusal = self._refusal(target) if prompt.strip() else "prompt is empty; say in full what is to be done"
        if refusal is not None:
            return error_result(refusal)
        try:
            source = prepare_run_input(self._told(target, prompt))
        except InvalidMessageError as error:
            return error_result(f"prompt: {error}")
        give_back = self.slot.lend()
        if give_back is None:
            return error_result(
                f"all {self.run.crew.slots.limit} agents that may work at the same time are at work; "
                "delegate one thing after the other, or do it yourself"
            )
        try:
            config = self.run.crew.agents[target]
            own = None if config.max_token_budget is None else Limits(tokens=config.max_token_budget)
            budget = self.budget.child(target, own)
            result = await self.run.crew.inner.run(
                with_team_tools(self.run, self.task, config, budget, self.chain),
                source,
                phase="delegated",
                budget=budget,
                task=self.task.id,
                links=self.run.links([self.task.id], "delegated_from"),
                route=self.run.crew.models.delegated(config, self.task),
            )
        finally:
            give_back()
            self.run.notify()
        await self._recorded(context.agent, target, success=result.success, output=result.output)
        return ToolResult(
            result.output or result.status.code,
            is_error=not result.success,
            metadata={"agent": target, "status": result.status.code, "total_tokens": result.token_usage.total_tokens},
        )

    def _refusal(self, target: str) -> str | None:
        agents, chain = self.run.crew.agents, self.chain
        if target == chain[-1]:
            return "you cannot delegate to yourself"
        if target not in agents:
            return f"there is no agent {shown(target)}; the team's agents are: {', '.join(map(repr, agents))}"
        if target in chain:
            return f"{target!r} is waiting for you already ({' -> '.join(chain)} -> {target}); do it yourself"
        depth = self.run.crew.max_delegation_depth
        if len(chain) > depth:
            return f"work may be delegated {depth} times in a row at most; do it yourself"
        return None

    def _told(self, target: str, prompt: str) -> str:
        preamble = self.run.crew.preamble.get(target)
        return f"{preamble}\n\n{prompt}" if preamble else prompt

    async def _recorded(self, caller: str, target: str, *, success: bool, output: str) -> None:
        memory = self.run.crew.team.memory
        if memory is None:
            return
        try:
            await memory.write(
                caller,
                f"delegation:{target}:{new_span_id()}",
                output,
                {"delegated_to": target, "success": success},
            )
        except Exception as error:  # noqa: BLE001 - isolation boundary: the entry is for people; the answer is not lost
            _log.warning("delegation_not_recorded", agent=caller, target=target, error=describe_error(error))

"""Go around runs, model calls and tool calls: a retry, a cache and an injected fault.

It needs no key and no network: the model is a script.

    python examples/04_middleware.py
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from openmultiagent import (
    AgentConfig,
    AgentRunResult,
    LLMServerError,
    OpenMultiAgent,
    RunCall,
    ToolResult,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMResponse, ModelCall, ModelNext
from openmultiagent.agent import RunNext
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import ToolCall, ToolNext


async def retry(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
    """Around the run: do all of it again, once, if that may help. Both attempts are charged to the run."""
    result = await call_next()
    if result.error_info is not None and result.error_info.retryable:
        print(f"{call.identity.run_id}: again, after {result.error_info.name}")
        result = await call_next()
    return result


class Cache:
    """Around model calls: answer what was asked before. An answer from here is neither charged nor traced."""

    def __init__(self) -> None:
        self.answers: dict[str, LLMResponse] = {}

    async def around(self, call: ModelCall, call_next: ModelNext) -> LLMResponse:
        """Answer a call that was made before."""
        key = json.dumps([call.options.model, [message.to_dict() for message in call.messages]])
        if key not in self.answers:
            self.answers[key] = await call_next(call)
        else:
            print(f"{call.run_id}: turn {call.turn} from the cache")
        return self.answers[key]


class FailFirst:
    """Around tool calls: let the first one fail, to see whether the agent copes with it."""

    def __init__(self) -> None:
        self.is_due = True

    async def around(self, call: ToolCall, call_next: ToolNext) -> ToolResult:
        """Answer the first call with an error."""
        if self.is_due:
            self.is_due = False
            print(f"{call.run_id}: {call.tool_name} fails ({call.id})")
            return ToolResult("the warehouse does not answer", is_error=True)
        return await call_next(call)


@tool
def stock(item: str) -> int:
    """Say how many of an item are in stock."""
    return {"lamp": 3}.get(item, 0)


def clerk() -> AgentConfig:
    """Make an agent whose model is a script; its provider is down at first."""

    def ask(number: int) -> list[ToolUseBlock]:
        return [ToolUseBlock(id=f"call-{number}", name="stock", input={"item": "lamp"})]

    down, answer = LLMServerError("overloaded", provider="script", status=503), "There are 3 lamps."
    return AgentConfig("clerk", adapter=ScriptedAdapter([down, ask(1), ask(2), answer, answer]), tools=[stock])


async def main() -> None:
    """Ask the same twice."""
    agent = clerk()
    cache, fault = Cache(), FailFirst()
    async with OpenMultiAgent(
        middleware=[retry], model_middleware=[cache.around], tool_middleware=[fault.around]
    ) as oma:
        for run_id in ("run-1", "run-2"):
            result = await oma.run_agent(agent, "How many lamps?", run_id=run_id)
            # The failed attempt counts; what came from the cache does not.
            calls = sum(entry.requests for entry in result.usage_report)
            print(f"{run_id}: {result.output} ({calls} model calls)")


if __name__ == "__main__":
    asyncio.run(main())

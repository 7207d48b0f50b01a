"""The same agent in this library and in others, on a model that answers at once, for the benchmarks to compare.

Every library gets a model of its own kind that computes nothing: what is left is the library's own work. Each runs in
its usual way, with telemetry that would leave the process switched off. A library that is not installed is left out.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from openmultiagent import Agent, AgentConfig, TextBlock, TokenUsage, ToolUseBlock
from openmultiagent.adapters import AdapterCapabilities, LLMResponse

__all__ = ["ANSWER", "PROMPT", "InstantAdapter", "Peer", "installed_peers", "ours"]

PROMPT = "What is 6 times 7?"
ANSWER = "42"
SYSTEM = "You are a calculator."
USAGE = TokenUsage(input_tokens=10, output_tokens=5)

Run = Callable[[], Awaitable[str]]


class Peer(NamedTuple):
    """One library."""

    name: str
    plain: Run
    """A run of a fresh conversation: one model call."""
    tool: Run
    """A run of a fresh conversation with one round of tools: two model calls."""
    talk: Callable[[], Run]
    """Begins a conversation; what it returns adds a turn."""


async def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


class InstantAdapter:
    """This library's adapter that computes nothing.

    Args:
        tool_rounds: How often it calls the tool before it answers.
    """

    name = "instant"
    capabilities = AdapterCapabilities(read_only=True)

    def __init__(self, tool_rounds: int = 0) -> None:
        self._messages = 2 * tool_rounds + 1

    async def chat(self, messages: Any, options: Any) -> LLMResponse:  # noqa: ARG002 - the protocol's
        """Call the tool, or answer.

        Args:
            messages: Only their number matters.
            options: Ignored.
        """
        if len(messages) >= self._messages:
            return LLMResponse([TextBlock.new(ANSWER)], usage=USAGE)
        call = ToolUseBlock(id=f"call-{len(messages)}", name="multiply", input={"a": 6, "b": 7})
        return LLMResponse([call], stop_reason="tool_use", usage=USAGE)


def ours() -> Peer:
    """Return this library's agents."""
    plain = Agent(AgentConfig("calculator", adapter=InstantAdapter(), system_prompt=SYSTEM))
    tool = Agent(AgentConfig("calculator", adapter=InstantAdapter(1), system_prompt=SYSTEM, tools=[multiply]))

    async def run_plain() -> str:
        return (await plain.run(PROMPT)).output

    async def run_tool() -> str:
        return (await tool.run(PROMPT)).output

    def talk() -> Run:
        agent = Agent(plain.config)

        async def turn() -> str:
            return (await agent.prompt(PROMPT)).output

        return turn

    return Peer("openmultiagent", run_plain, run_tool, talk)


def pydantic_ai() -> Peer:
    """Return the agents of pydantic-ai-slim, on a ``FunctionModel``."""
    from pydantic_ai import Agent as PeerAgent  # noqa: PLC0415 - optional
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart  # noqa: PLC0415 - optional
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415 - optional

    def model(messages: Any, info: Any) -> Any:
        answered = isinstance(messages[-1].parts[-1], ToolReturnPart)
        if answered or not info.function_tools:
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart("multiply", {"a": 6, "b": 7})])

    plain: Any = PeerAgent(FunctionModel(model), instructions=SYSTEM)
    tool: Any = PeerAgent(FunctionModel(model), instructions=SYSTEM, tools=[multiply])

    async def run_plain() -> str:
        return str((await plain.run(PROMPT)).output)

    async def run_tool() -> str:
        return str((await tool.run(PROMPT)).output)

    def talk() -> Run:
        history: list[Any] = []

        async def turn() -> str:
            result = await plain.run(PROMPT, message_history=history)
            history[:] = result.all_messages()
            return str(result.output)

        return turn

    return Peer("pydantic-ai", run_plain, run_tool, talk)


def openai_agents() -> Peer:
    """Return the agents of openai-agents, on a ``Model`` of their own kind, without tracing."""
    from agents import Agent as PeerAgent  # noqa: PLC0415 - optional
    from agents import ModelResponse, RunConfig, Runner, Usage, function_tool  # noqa: PLC0415 - optional
    from agents.models.interface import Model  # noqa: PLC0415 - optional
    from openai.types.responses import (  # noqa: PLC0415 - optional
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Instant(Model):
        async def get_response(self, *_args: Any, **more: Any) -> Any:
            items = more["input"]
            answered = isinstance(items, list) and items[-1].get("type") == "function_call_output"
            output: Any
            if more["tools"] and not answered:
                output = ResponseFunctionToolCall(
                    arguments='{"a": 6, "b": 7}', call_id="call-1", name="multiply", type="function_call"
                )
            else:
                text = ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
                output = ResponseOutputMessage(
                    id="1", content=[text], role="assistant", status="completed", type="message"
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *_args: Any, **_more: Any) -> Any:
            raise NotImplementedError

    plain = PeerAgent(name="calculator", instructions=SYSTEM, model=Instant())
    tool = PeerAgent(name="calculator", instructions=SYSTEM, model=Instant(), tools=[function_tool(multiply)])
    quiet = RunConfig(tracing_disabled=True)

    async def run_plain() -> str:
        return str((await Runner.run(plain, PROMPT, run_config=quiet)).final_output)

    async def run_tool() -> str:
        return str((await Runner.run(tool, PROMPT, run_config=quiet)).final_output)

    def talk() -> Run:
        history: list[Any] = []

        async def turn() -> str:
            result = await Runner.run(plain, [*history, {"role": "user", "content": PROMPT}], run_config=quiet)
            history[:] = result.to_input_list()
            return str(result.final_output)

        return turn

    return Peer("openai-agents", run_plain, run_tool, talk)


def agno() -> Peer:
    """Return the agents of agno, on a ``Model`` of their own kind, without telemetry."""
    from agno.agent import Agent as PeerAgent  # noqa: PLC0415 - optional
    from agno.db.in_memory import InMemoryDb  # noqa: PLC0415 - optional
    from agno.models.base import Model  # noqa: PLC0415 - optional
    from agno.models.response import ModelResponse  # noqa: PLC0415 - optional

    class Instant(Model):
        async def ainvoke(self, *_args: Any, **more: Any) -> Any:
            if more.get("tools") and more["messages"][-1].role != "tool":
                function = {"name": "multiply", "arguments": '{"a": 6, "b": 7}'}
                calls = [{"id": "call-1", "type": "function", "function": function}]
                return ModelResponse(role="assistant", tool_calls=calls)
            return ModelResponse(role="assistant", content=ANSWER)

        def invoke(self, *_args: Any, **_more: Any) -> Any:
            raise NotImplementedError

        invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke

    def make(**more: Any) -> Any:
        return PeerAgent(model=Instant(id="instant"), system_message=SYSTEM, telemetry=False, **more)

    plain, tool = make(), make(tools=[multiply])

    async def run_plain() -> str:
        return str((await plain.arun(PROMPT)).content)

    async def run_tool() -> str:
        return str((await tool.arun(PROMPT)).content)

    def talk() -> Run:
        agent = make(db=InMemoryDb(), add_history_to_context=True, num_history_runs=100_000, session_id="talk")

        async def turn() -> str:
            return str((await agent.arun(PROMPT)).content)

        return turn

    return Peer("agno", run_plain, run_tool, talk)


def langgraph() -> Peer:
    """Return the prebuilt agents of langgraph, on a chat model of their own kind."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - optional
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # noqa: PLC0415 - optional
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415 - optional
    from langgraph.prebuilt import create_react_agent  # noqa: PLC0415 - optional

    class Instant(BaseChatModel):
        calls_tools: bool = False

        @property
        def _llm_type(self) -> str:
            return "instant"

        def bind_tools(self, tools: Any, **_more: Any) -> Any:
            return Instant(calls_tools=bool(tools))

        async def _agenerate(self, messages: Any, *_args: Any, **_more: Any) -> Any:
            message = AIMessage(ANSWER)
            if self.calls_tools and not isinstance(messages[-1], ToolMessage):
                message = AIMessage(
                    "", tool_calls=[{"name": "multiply", "args": {"a": 6, "b": 7}, "id": "call-1", "type": "tool_call"}]
                )
            return ChatResult(generations=[ChatGeneration(message=message)])

        def _generate(self, *_args: Any, **_more: Any) -> Any:
            raise NotImplementedError

    plain = create_react_agent(Instant(), [], prompt=SYSTEM)
    tool = create_react_agent(Instant(), [multiply], prompt=SYSTEM)

    async def run_plain() -> str:
        return str((await plain.ainvoke({"messages": [HumanMessage(PROMPT)]}))["messages"][-1].content)

    async def run_tool() -> str:
        return str((await tool.ainvoke({"messages": [HumanMessage(PROMPT)]}))["messages"][-1].content)

    def talk() -> Run:
        history: list[Any] = []

        async def turn() -> str:
            state = await plain.ainvoke({"messages": [*history, HumanMessage(PROMPT)]})
            history[:] = state["messages"]
            return str(history[-1].content)

        return turn

    return Peer("langgraph", run_plain, run_tool, talk)


def autogen() -> Peer:  # noqa: C901 - one small method for each that the peer asks for
    """Return the agents of autogen-agentchat, on a ``ChatCompletionClient`` of their own kind."""
    from autogen_agentchat.agents import AssistantAgent  # noqa: PLC0415 - optional
    from autogen_core import CancellationToken, FunctionCall  # noqa: PLC0415 - optional
    from autogen_core.models import (  # noqa: PLC0415 - optional
        ChatCompletionClient,
        CreateResult,
        FunctionExecutionResultMessage,
        ModelInfo,
        RequestUsage,
    )

    usage = RequestUsage(prompt_tokens=10, completion_tokens=5)

    class Instant(ChatCompletionClient):
        async def create(self, messages: Any, *, tools: Any = (), **_more: Any) -> Any:
            if tools and not isinstance(messages[-1], FunctionExecutionResultMessage):
                calls = [FunctionCall(id="call-1", name="multiply", arguments='{"a": 6, "b": 7}')]
                return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)
            return CreateResult(finish_reason="stop", content=ANSWER, usage=usage, cached=False)

        def create_stream(self, *_args: Any, **_more: Any) -> Any:
            raise NotImplementedError

        async def close(self) -> None:
            """Do nothing."""

        def actual_usage(self) -> Any:
            return usage

        total_usage = actual_usage

        def count_tokens(self, *_args: Any, **_more: Any) -> int:
            return 0

        remaining_tokens = count_tokens

        @property
        def capabilities(self) -> Any:
            return self.model_info

        @property
        def model_info(self) -> Any:
            return ModelInfo(
                vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
            )

    def make(**more: Any) -> Any:
        return AssistantAgent("calculator", Instant(), system_message=SYSTEM, **more)

    plain, tool = make(), make(tools=[multiply], reflect_on_tool_use=True)
    never = CancellationToken()

    def fresh(agent: Any) -> Run:
        async def run() -> str:
            await agent.on_reset(never)  # else the conversation goes on
            return str((await agent.run(task=PROMPT)).messages[-1].content)

        return run

    def talk() -> Run:
        agent = make()

        async def turn() -> str:
            return str((await agent.run(task=PROMPT)).messages[-1].content)

        return turn

    return Peer("autogen", fresh(plain), fresh(tool), talk)


def strands() -> Peer:
    """Return the agents of strands-agents, on a ``Model`` of their own kind, without their printing callback."""
    from strands import Agent as PeerAgent  # noqa: PLC0415 - optional
    from strands import tool as peer_tool  # noqa: PLC0415 - optional
    from strands.models import Model  # noqa: PLC0415 - optional

    class Instant(Model):
        def update_config(self, **_config: Any) -> None:
            """Do nothing."""

        def get_config(self) -> Any:
            return {"model_id": "instant"}

        def structured_output(self, *_args: Any, **_more: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, tool_specs: Any = None, *_args: Any, **_more: Any) -> AsyncIterator[Any]:
            calls = bool(tool_specs) and "toolResult" not in messages[-1]["content"][-1]
            yield {"messageStart": {"role": "assistant"}}
            if calls:
                yield {"contentBlockStart": {"start": {"toolUse": {"name": "multiply", "toolUseId": "call-1"}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"a": 6, "b": 7}'}}}}
            else:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": ANSWER}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    def make(**more: Any) -> Any:
        return PeerAgent(Instant(), system_prompt=SYSTEM, callback_handler=None, **more)

    plain, tool = make(), make(tools=[peer_tool(multiply)])

    def fresh(agent: Any) -> Run:
        async def run() -> str:
            agent.messages.clear()  # else the conversation goes on
            return str(await agent.invoke_async(PROMPT)).strip()

        return run

    def talk() -> Run:
        agent = make()

        async def turn() -> str:
            return str(await agent.invoke_async(PROMPT)).strip()

        return turn

    return Peer("strands", fresh(plain), fresh(tool), talk)


_PEERS: dict[str, Callable[[], Peer]] = {
    "pydantic-ai-slim": pydantic_ai,
    "openai-agents": openai_agents,
    "agno": agno,
    "langgraph": langgraph,
    "autogen-agentchat": autogen,
    "strands-agents": strands,
}


def installed_peers() -> list[Peer]:
    """Return the other libraries that are installed, and print which are not."""
    os.environ.setdefault("AGNO_TELEMETRY", "false")
    os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
    found: list[Peer] = []
    for distribution, make in _PEERS.items():
        try:
            found.append(make())
        except ImportError as error:
            print(f"skipped {distribution}: {error}")
        else:
            print(f"{distribution} {importlib.metadata.version(distribution)}")
    return found

"""What users write, checked by two type checkers and run by nobody: a fault found here would be found in their code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from openmultiagent import (
    AdapterError,
    Agent,
    AgentConfig,
    AgentRunResult,
    BeforeRunContext,
    BusMessage,
    CancelToken,
    ConfigurationError,
    ContentBlock,
    EgressPolicyError,
    EgressReason,
    Event,
    ImageBlock,
    InvalidMessageError,
    LLMMessage,
    Message,
    ModelSettings,
    OpenMultiAgent,
    OpenMultiAgentError,
    Role,
    RunCall,
    RunStatus,
    Task,
    TaskQueue,
    TaskRequirements,
    TaskSpec,
    Team,
    TeamConfig,
    TeamRunResult,
    TextBlock,
    TextDelta,
    ThinkingConfig,
    TokenUsage,
    Tool,
    ToolCallRecord,
    ToolContext,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMAdapter, LLMChatOptions, LLMResponse
from openmultiagent.evaluation import OnlineEvaluation, Score, ScorerContext, scorer
from openmultiagent.messages import copy_messages
from openmultiagent.stores import InMemoryStore, MemoryEntry, MemoryStore, RedactingStore, SQLiteStore
from openmultiagent.team import SharedMemoryEntry
from openmultiagent.testing import ScriptedAdapter


def messages() -> list[LLMMessage]:
    picture = ImageBlock.from_url("https://example.org/a.png")
    made = [
        LLMMessage.user("Hello"),
        LLMMessage.assistant("Hello yourself"),
        Message.user_with_image("What is this?", "https://example.org/a.png"),
        Message.user_with_image_detail("What is this?", "https://example.org/a.png", "low"),
        LLMMessage.user_with_blocks([TextBlock.new("And this?"), picture]),
        LLMMessage(role=Role.ASSISTANT, content=[ToolUseBlock.new("call-1", "look", {"at": "it"})]),
        LLMMessage.new("user", [ToolResultBlock.new("call-1", {"seen": True})]),
    ]
    assert_type(made[0].content, list[ContentBlock])
    assert_type(copy_messages(made), list[LLMMessage])
    return made


def block_text(block: ContentBlock) -> str:
    match block:
        case TextBlock(text=text):
            return text
        case ToolUseBlock():
            assert_type(block.input, dict[str, Any])
            return block.name
        case _:
            return block.type


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool(name="look_up", timeout=5)
async def look(key: str, context: ToolContext) -> ToolResult:
    """Look something up."""
    return ToolResult({"key": key})


async def turn_up(context: BeforeRunContext) -> BeforeRunContext:
    return context.replace(prompt=context.prompt.upper())


def config(adapter: LLMAdapter) -> AgentConfig:
    assert_type(add, Tool)
    assert_type(look, Tool)
    return AgentConfig(
        "worker",
        adapter=adapter,
        system_prompt="Be brief.",
        history=[LLMMessage.user("Hello"), {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}],
        tools=[add, look],
        settings=ModelSettings(temperature=0.2, stop=("END",), thinking=ThinkingConfig(effort="low")),
        max_turns=3,
        timeout=30.0,
        before_run=turn_up,
    )


class Echo:
    """An adapter needs no base class."""

    name = "echo"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        answer = TextBlock.new(block_text(messages[-1].content[0]))
        return LLMResponse([answer], model=options.model, usage=TokenUsage(input_tokens=1))


@scorer
def short(context: ScorerContext[AgentRunResult[Any]]) -> bool:
    return len(context.output) < 1_000


@scorer(name="kind", version="2")
async def kind(context: ScorerContext[AgentRunResult[Any]]) -> Score:
    return Score(0.5, reason=context.status.code)


async def unhurried(call: RunCall, call_next: Any) -> AgentRunResult[Any]:
    assert_type(call.messages, list[LLMMessage])
    result: AgentRunResult[Any] = await call_next()
    return result


def told(event: Event[Any]) -> None:
    assert_type(event.type, str)
    assert_type(event.sequence, int)


async def orchestrator() -> None:
    async with OpenMultiAgent(
        default_provider="openai",
        default_model="some-model",
        max_token_budget=10_000,
        on_progress=told,
        middleware=[unhurried],
        evaluation=OnlineEvaluation([short, kind], sample=0.1),
    ) as oma:
        result = await oma.run_agent(config(Echo()), messages(), metadata={"tenant": "a"}, cancel=CancelToken())
        result = await oma.run_agent({"name": "worker", "adapter": ScriptedAdapter(["Hello"])}, "Hello")
        result = await oma.run_agent(config(Echo()), [{"role": "user", "content": [{"type": "text", "text": "x"}]}])
        stream = oma.stream_agent(config(Echo()), "Hello")
        async with stream:
            async for event in stream:
                assert_type(event.sequence, int)
        read(stream.result)
        read(result)


def read(result: AgentRunResult[Any]) -> tuple[str, Mapping[str, Any]]:
    assert_type(result.success, bool)
    assert_type(result.status, RunStatus)
    assert_type(result.token_usage, TokenUsage)
    assert_type(result.tool_calls, tuple[ToolCallRecord, ...])
    assert_type(result.messages, list[LLMMessage])
    if result.error_info is not None and result.status.code == "timeout":
        return result.error_info.message or "", result.error_info.to_dict()
    return result.output, result.to_dict()


async def agent() -> list[LLMMessage]:
    async with Agent({"name": "worker", "provider": "embedded"}) as worker:
        read(await worker.run("Hello"))
        read(await worker.prompt([TextBlock.new("Hello")]))
        async for event in worker.stream("Hello"):
            told(event)
        return worker.get_history()


def usage(parts: list[TokenUsage]) -> int:
    total = sum(parts, TokenUsage())
    assert_type(total, TokenUsage)
    assert_type(total.to_dict(), dict[str, int])
    return total.total_tokens + TokenUsage.unknown().unknown_calls


def errors(error: OpenMultiAgentError) -> str:
    assert_type(error.code, str)
    assert_type(OpenMultiAgentError.from_dict(error.to_dict()), OpenMultiAgentError)
    match error:
        case InvalidMessageError(path=path):
            return path
        case EgressPolicyError():
            assert_type(error.reason, Literal["invalid-policy", "denied", "unresolved-target", "unsupported"])
            reason: EgressReason = error.reason
            return reason
        case AdapterError():
            assert_type(error.retryable, bool)
            return str(error.status)
        case ConfigurationError():
            return error.message
        case _:
            return ""


def an_invalid_message_is_a_value_error(error: InvalidMessageError) -> ValueError:
    return error


class City(BaseModel):
    """What an agent is asked for."""

    name: str


async def structured_output(oma: OpenMultiAgent) -> None:
    config = AgentConfig("guide", model="m", output_schema=City)
    assert_type(config, AgentConfig[City])
    result = await Agent(config).run("q")
    assert_type(result.structured, City | None)
    assert_type((await oma.run_agent(config, "q")).structured, City | None)
    async with oma.stream_agent(config, "q") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                assert_type(event.data, str)
    assert_type(stream.result, AgentRunResult[City])
    plain = await Agent(AgentConfig("guide", model="m")).run("q")
    assert_type(plain, AgentRunResult[Any])
    numbers = await Agent(AgentConfig("guide", model="m", output_schema=list[int])).run("q")
    assert_type(numbers.structured, list[int] | None)


def tasks() -> list[Task]:
    specs = [
        TaskSpec("Read", "Read the file.", id="read", requires=TaskRequirements(required_tools=["grep"])),
        TaskSpec("Look", messages(), depends_on=["Read"], priority="high", metadata={"team": "a", "n": [1, 2]}),
        TaskSpec("See", [TextBlock.new("What is this?"), {"type": "text", "text": "And this?"}], timeout=10),
        TaskSpec.of({"title": "Write", "description": "Write it down."}),
    ]
    queue = TaskQueue()
    titles: list[str] = []
    queue.on("task:ready", lambda task: titles.append(task.title))
    queue.on("all:complete", titles.clear)
    queue.add_batch(specs)
    task = queue.next()
    if task is not None:
        assert_type(queue.complete(task.id, "text"), Task)
        assert_type(task.title, str)
        assert_type(task.requires, TaskRequirements | None)
    return queue.list()


def team_result(result: TeamRunResult) -> tuple[str, Mapping[str, AgentRunResult[Any]], str]:
    record = result.tasks[0]
    assert_type(record.metrics.duration if record.metrics else 0.0, float)
    return result.final_output, result.agent_results, f"{record.title}: {record.status}"


async def teams() -> None:
    config = TeamConfig("t", agents=[AgentConfig("a"), {"name": "b"}], shared_memory_store=SQLiteStore("state.db"))
    assert_type(config.roster, tuple[AgentConfig[Any], ...])
    team = Team(config)
    assert_type(team.get_agent("a"), AgentConfig[Any] | None)
    assert_type(team.send_message("user", "a", "x"), BusMessage)
    assert_type(team.get_unread_messages("a"), list[BusMessage])
    memory = team.get_shared_memory_instance()
    if memory is not None:
        assert_type(await memory.read("a/k"), SharedMemoryEntry | None)
    store: MemoryStore = RedactingStore(InMemoryStore(), ["x+"])
    assert_type(await store.list(), list[MemoryEntry])

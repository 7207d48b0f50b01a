"""Nobody around a run can change what anybody else sees."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr

from openmultiagent import (
    AgentConfig,
    AgentRunResult,
    Base64Source,
    ImageBlock,
    LLMMessage,
    ModelSettings,
    OpenMultiAgent,
    Role,
    RunCall,
    TextBlock,
    ToolContext,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import AdapterCapabilities, LLMChatOptions, LLMResponse, ModelCall, ModelNext
from openmultiagent.agent import RunNext
from openmultiagent.evaluation import OnlineEvaluation, ScorerContext, scorer
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tools import ToolCall, ToolNext
from tests.support import proves

PNG = "iVBORw0KGgo="


def conversation() -> list[LLMMessage]:
    return [
        LLMMessage.user("Look this up."),
        LLMMessage.assistant([ToolUseBlock(id="c0", name="look", input={"where": {"city": ["Paris"]}})]),
        LLMMessage.user_with_blocks([ToolResultBlock(tool_use_id="c0", content="found")]),
        LLMMessage.user_with_blocks(
            [TextBlock(text="And this?"), ImageBlock(source=Base64Source(media_type="image/png", data=PNG))]
        ),
    ]


def poison(messages: Sequence[LLMMessage]) -> None:
    """Change everything that can be reached from messages."""
    for message in messages:
        for block in message.content:
            if isinstance(block, TextBlock):
                block.text = "POISON"
            elif isinstance(block, ToolUseBlock):
                for value in block.input.values():
                    value.clear()  # nested data first
                block.input["POISON"] = 1
                block.name = "POISON"
            elif isinstance(block, ToolResultBlock):
                block.content = "POISON"
            elif isinstance(block, ImageBlock) and isinstance(block.source, Base64Source):
                block.source.media_type = "image/poison"
        message.content.append(TextBlock(text="POISON"))
        message.role = Role.SYSTEM
    if isinstance(messages, list):
        messages.clear()


def poison_result(result: AgentRunResult[Any]) -> None:
    poison(result.messages)
    for record in result.tool_calls:
        record.input.clear()
    if result.metadata is not None:
        result.metadata.clear()


def poison_call(call: RunCall) -> None:
    """Change everything that can be reached from a run's call, besides its messages."""
    assert call.metadata is not None
    call.metadata.clear()
    config = call.config
    assert config is not None
    assert config.settings is not None
    assert isinstance(config.settings.extra_body, dict)
    config.settings.extra_body["deep"].clear()
    config.settings.extra_body["POISON"] = 1
    poison(config.history)  # type: ignore[arg-type]  # the definition made messages of it


class Everyone:
    """Observers at every seam, each of which looks, and then spoils what it got."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Any]] = {}

    def look(self, who: str, messages: Sequence[LLMMessage]) -> None:
        self.seen.setdefault(who, []).append([message.to_dict() for message in messages])
        poison(messages)

    def listener(self, name: str) -> Any:
        def listen(event: Any) -> None:
            if event.type == "agent_start":
                self.look(name, event.data["messages"])
                event.data.clear()
            elif event.type == "agent_complete":
                self.seen.setdefault(f"{name} result", []).append(event.data.to_dict())
                poison_result(event.data)

        return listen

    async def async_listener(self, event: Any) -> None:
        self.listener("async")(event)

    def sampler(self, call: RunCall) -> bool:
        self.look("sampler", call.messages)
        poison_call(call)
        return True

    async def run_step(self, call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        self.look("run before", call.messages)
        poison_call(call)
        result = await call_next()
        kept = result.to_dict()
        poison_result(result)
        again = await call_next()
        self.seen.setdefault("run result", []).extend([kept, again.to_dict()])
        return again

    async def model_step(self, call: ModelCall, call_next: ModelNext) -> LLMResponse:
        forked = call.fork()
        self.seen.setdefault("model", []).append([message.to_dict() for message in call.messages[:4]])
        poison(call.messages)
        call.options.extra_body.clear()  # type: ignore[union-attr]
        for tool_ in call.options.tools:
            tool_.input_schema.clear()  # type: ignore[attr-defined]
        return await call_next(forked)

    async def tool_step(self, call: ToolCall, call_next: ToolNext) -> ToolResult:
        forked = call.fork()
        call.input.clear()
        return await call_next(forked)

    def before_run(self, context: Any) -> None:
        self.look("before_run", context.messages)

    def after_run(self, result: AgentRunResult[Any]) -> None:
        poison_result(result)

    def scorer(self) -> Any:
        @scorer
        def judge(context: ScorerContext[AgentRunResult[Any]]) -> float:
            assert isinstance(context.input, list)
            self.look("scorer", context.input)
            self.seen.setdefault("scorer result", []).append(context.result.to_dict())
            poison_result(context.result)
            return 1.0

        return judge


@tool
def add(numbers: list[int], context: ToolContext) -> str:
    """Add numbers."""
    context.metadata.clear()  # type: ignore[attr-defined]
    total = sum(numbers)
    numbers.clear()
    return str(total)


def script() -> ScriptedAdapter:
    def answer(messages: list[LLMMessage], options: LLMChatOptions) -> list[Any]:
        last = messages[-1].content[-1]
        text = f"The sum is {last.content}" if isinstance(last, ToolResultBlock) else None
        poison(messages)
        if text is not None:
            return [TextBlock(text=text)]
        return [ToolUseBlock(id="c1", name="add", input={"numbers": [1, 2]})]

    return ScriptedAdapter(answer)


@proves("ORC-10", "ORC-11", "AGT-8")
@pytest.mark.parametrize("streams", [False, True])
async def test_poison_reaches_nobody_else(streams: bool) -> None:
    everyone = Everyone()
    adapter = script()
    oma = OpenMultiAgent(
        on_progress=everyone.listener("first"),
        listeners=[everyone.listener("second"), everyone.async_listener],
        middleware=[everyone.run_step],
        model_middleware=[everyone.model_step],
        tool_middleware=[everyone.tool_step],
        evaluation=OnlineEvaluation([everyone.scorer(), everyone.scorer()], sample=everyone.sampler),
    )
    extra = {"deep": {"k": 1}}
    config = AgentConfig(
        "tester",
        adapter=adapter,
        tools=[add],
        before_run=everyone.before_run,
        after_run=everyone.after_run,
        settings=ModelSettings(extra_body=extra),
        history=[LLMMessage.user("before")],
    )
    given = conversation()
    if streams:
        stream = oma.stream_agent(config, given, metadata={"tenant": "acme"})
        poison(given)
        async with stream:
            async for _ in stream:
                pass
        result = stream.result
    else:
        running = oma.run_agent(config, given, metadata={"tenant": "acme"})
        poison(given)
        result = await running
    final = result.to_dict()
    poison_result(result)
    await oma.evaluation.flush()

    original = [message.to_dict() for message in conversation()]
    for who in ("first", "second", "async", "sampler", "run before", "before_run", "scorer", "model"):
        assert everyone.seen[who], who
        assert all(view == original for view in everyone.seen[who]), who
    for call in adapter.calls:
        assert [message.to_dict() for message in call.messages[:4]] == original
        assert call.options.extra_body == extra == {"deep": {"k": 1}}
        assert call.options.tools[0].input_schema["required"] == ["numbers"]
    assert config.settings is not None
    assert config.settings.extra_body == extra
    assert config.history[0] == LLMMessage.user("before")
    for who in ("first result", "second result", "async result", "run result", "scorer result"):
        for view in everyone.seen[who]:
            assert (view["output"], view["messages"]) == (final["output"], final["messages"]), who
            assert view["tool_calls"][0]["input"] == {"numbers": [1, 2]}, who
            assert view["metadata"] == {"tenant": "acme"}, who
    assert final["output"] == "The sum is 3"
    assert oma.evaluation.stats().failed == 0


@proves("ORC-11")
async def test_a_listener_may_look_at_an_event_later() -> None:
    kept: list[Any] = []
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["answer"]), on_progress=kept.append)
    given = conversation()
    result = await oma.run_agent({"name": "x"}, given)
    poison(given)
    poison_result(result)
    start, complete = kept
    assert start.data == {"messages": conversation()}
    assert complete.data.messages == [LLMMessage.assistant("answer")]


@proves("ORC-10")
async def test_what_nobody_reads_is_not_copied() -> None:
    copies: list[int] = []

    class Counted(LLMMessage):
        def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "Counted":
            copies.append(1)
            return Counted(role=self.role, content=list(self.content))

    async def through(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        return await call_next()

    def blind(event: Any) -> None:
        return None

    oma = OpenMultiAgent(
        default_adapter=ReadOnly(), on_progress=blind, listeners=[blind], middleware=[through, through]
    )
    await oma.run_agent({"name": "x"}, [Counted(role=Role.USER, content=[TextBlock(text="q")])])
    # One copy at the boundary and one for the run.
    assert sum(copies) == 2


class ReadOnly:
    name = "read-only"

    def __init__(self) -> None:
        self.capabilities = AdapterCapabilities(read_only=True)

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([TextBlock(text="ok")])


class Holder(BaseModel):
    answer: int
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


@proves("ORC-10", "RUN-21")
@pytest.mark.parametrize("observer", ["listener", "evaluation", "middleware", "after_run"])
async def test_an_answer_that_cannot_be_copied_fails_no_run_that_somebody_looks_at(observer: str) -> None:
    seen: list[Any] = []

    def look(event: Any) -> None:
        seen.append(event.data)

    async def through(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        return await call_next()

    oma = OpenMultiAgent(
        on_progress=look if observer == "listener" else None,
        evaluation=OnlineEvaluation([lambda context: True]) if observer == "evaluation" else None,
        middleware=[through] if observer == "middleware" else [],
    )
    adapter = ScriptedAdapter(['{"answer": 42}'])
    after = (lambda result: result) if observer == "after_run" else None
    config = AgentConfig("x", adapter=adapter, output_schema=Holder, after_run=after)
    result = await oma.run_agent(config, "q")
    assert result.status.code == "ok"
    assert len(seen) == (2 if observer == "listener" else 0)
    assert result.structured is not None
    assert result.structured.answer == 42
    assert await oma.evaluation.flush()
    assert oma.evaluation.stats().failed == 0

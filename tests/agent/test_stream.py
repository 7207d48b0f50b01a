"""Streams of an agent's run."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    LLMMessage,
    LLMRateLimitError,
    ReasoningBlock,
    TextBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext, StreamEvent
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def script() -> ScriptedAdapter:
    call = ToolUseBlock(id="c1", name="add", input={"a": 1, "b": 2})
    return ScriptedAdapter([[TextBlock(text="Adding."), call], "It is 3."])


def kinds(events: list[Any]) -> list[str]:
    """The types of events, with runs of one type folded."""
    folded: list[str] = []
    for event in events:
        if not folded or folded[-1] != event.type:
            folded.append(event.type)
    return folded


@proves("AGT-70", "AGT-71")
async def test_a_stream_tells_the_run_in_order() -> None:
    async with agent(script(), tools=[add]).stream("1+2?") as stream:
        events = [event async for event in stream]
    assert kinds(events) == [
        "turn_start",
        "text",
        "tool_input_delta",
        "tool_use",
        "tool_result",
        "turn_complete",
        "turn_start",
        "text",
        "turn_complete",
        "done",
    ]
    assert "".join(event.data for event in events if event.type == "text") == "Adding.It is 3."
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert {event.run_id for event in events} == {stream.run_id}
    assert stream.result.identity.run_id == stream.run_id
    by_type: dict[str, Any] = {event.type: event for event in events}
    assert by_type["tool_use"].data == ToolUseBlock(id="c1", name="add", input={"a": 1, "b": 2})
    assert by_type["tool_result"].data.content == "3"
    assert by_type["done"].data == stream.result


@proves("AGT-71")
async def test_a_stream_comes_to_the_result_of_a_run() -> None:
    ran = await agent(script(), tools=[add]).run("1+2?")
    async with agent(script(), tools=[add]).stream("1+2?") as stream:
        async for _ in stream:
            pass
    streamed = stream.result
    assert (streamed.output, streamed.messages, streamed.status) == (ran.output, ran.messages, ran.status)
    assert streamed.token_usage == ran.token_usage


@proves("AGT-71")
async def test_the_result_is_not_there_before_the_end() -> None:
    stream = agent(script(), tools=[add]).stream("1+2?")
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = stream.result
    async with stream:
        await anext(stream)
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = stream.result
    with pytest.raises(RuntimeError, match="left before"):
        _ = stream.result


@proves("AGT-70", "AGT-71")
async def test_a_failed_run_ends_its_stream_with_the_exception() -> None:
    down = LLMRateLimitError("slow down", provider="openai", status=429)
    async with agent(ScriptedAdapter([down])).stream("q") as stream:
        events = [event async for event in stream]
    assert kinds(events) == ["turn_start", "error"]
    assert events[-1].data is down
    assert stream.result.error is down


class Exiting:
    """An adapter whose stream ends the process after its first piece."""

    name = "exiting"

    async def chat(self, messages: Any, options: LLMChatOptions) -> LLMResponse:
        raise AssertionError("it is streamed")

    async def stream(self, messages: Any, options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        yield StreamEvent("text", "Hal")
        raise SystemExit(3)


@proves("AGT-70")
async def test_what_ends_a_run_is_raised_after_what_was_delivered_before() -> None:
    stream = agent(Exiting()).stream("q")
    with anyio.fail_after(5):
        seen = [await anext(stream), await anext(stream)]
        with pytest.raises(SystemExit):
            await anext(stream)
    assert kinds(seen) == ["turn_start", "text"]


@proves("AGT-70")
@pytest.mark.parametrize("as_models", [True, False])
async def test_a_conversation_that_goes_on_streams_only_what_is_new(as_models: bool) -> None:
    history: list[Any] = [LLMMessage.user("one"), LLMMessage.assistant("first answer")]
    given = history if as_models else [message.to_dict() for message in history]
    talk = agent(ScriptedAdapter(["second answer"]), history=given)
    events = [event async for event in talk.stream([*given, LLMMessage.user("two")])]
    assert "".join(event.data for event in events if event.type == "text") == "second answer"
    result = await agent(ScriptedAdapter(["second answer"]), history=given).prompt("two")
    assert result.messages == [LLMMessage.assistant("second answer")]


@proves("AGT-70")
async def test_what_a_consumer_does_to_an_event_reaches_nobody() -> None:
    adapter = script()
    async with agent(adapter, tools=[add]).stream("1+2?") as stream:
        async for event in stream:
            if event.type == "tool_use":
                event.data.input.clear()
            if event.type == "tool_result":
                event.data.content = "changed"
            if event.type == "done":
                event.data.messages.clear()
    assert adapter.calls[1].messages[-2].content[-1] == ToolUseBlock(id="c1", name="add", input={"a": 1, "b": 2})
    assert len(stream.result.messages) == 3


class ChatOnly:
    name = "chat-only"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([TextBlock(text="in one piece")])


@proves("AGT-72")
async def test_an_adapter_that_cannot_stream_is_delivered_in_one_piece() -> None:
    async with agent(ChatOnly()).stream("q") as stream:
        events = [event async for event in stream]
    assert [event.data for event in events if event.type == "text"] == ["in one piece"]


@proves("AGT-72")
async def test_an_answer_of_a_middleware_is_delivered_in_one_piece() -> None:
    async def cached(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return LLMResponse([TextBlock(text="cached")])

    async with agent(ScriptedAdapter([]), model_middleware=[cached]).stream("q") as stream:
        events = [event async for event in stream]
    assert [event.data for event in events if event.type == "text"] == ["cached"]


class Endless:
    """Streams for ever, and knows when it is left."""

    name = "endless"

    def __init__(self) -> None:
        self.left = anyio.Event()
        self.pieces = 0

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise AssertionError

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        try:
            while True:
                self.pieces += 1
                yield StreamEvent("text", "more ")
                await anyio.lowlevel.checkpoint()
        finally:
            self.left.set()


@proves("AGT-73")
async def test_leaving_a_stream_early_cancels_its_run_and_waits() -> None:
    adapter = Endless()
    async with agent(adapter).stream("q") as stream:
        async for event in stream:
            if event.type == "text":
                break
    assert adapter.left.is_set()


@proves("AGT-73")
async def test_an_exception_in_the_consumer_cancels_the_run() -> None:
    adapter = Endless()

    async def consume() -> None:
        async with agent(adapter).stream("q") as stream:
            async for event in stream:
                if event.type == "text":
                    raise RuntimeError("consumer")

    with pytest.raises(RuntimeError, match="consumer"):
        await consume()
    assert adapter.left.is_set()


@proves("AGT-73")
async def test_a_dropped_stream_is_cancelled() -> None:
    adapter = Endless()

    async def look() -> None:
        async for event in agent(adapter).stream("q"):
            if event.type == "text":
                return

    await look()
    gc.collect()
    with anyio.fail_after(5):
        await adapter.left.wait()


@proves("AGT-73")
async def test_a_cancelled_consumer_cancels_the_run() -> None:
    adapter = Endless()
    stream = agent(adapter).stream("q")
    with anyio.move_on_after(0.05) as scope:
        async for _ in stream:
            await anyio.sleep(0.001)
    assert scope.cancelled_caught
    del stream
    gc.collect()
    with anyio.fail_after(5):
        await adapter.left.wait()


@proves("AGT-73")
async def test_a_stream_that_is_never_iterated_runs_nothing() -> None:
    adapter = ScriptedAdapter(["never"])
    stream = agent(adapter).stream("q")
    await stream.aclose()
    assert [event async for event in stream] == []
    assert adapter.calls == []


@proves("AGT-73")
async def test_streams_can_be_interleaved_and_left_in_any_order() -> None:
    first, second = Endless(), Endless()
    a, b = agent(first).stream("q"), agent(second).stream("q")
    await a.__aenter__()
    await b.__aenter__()
    await anext(a)
    await anext(b)
    await a.__aexit__(None, None, None)
    await anext(b)
    await b.__aexit__(None, None, None)
    assert first.left.is_set()
    assert second.left.is_set()


@proves("AGT-73")
async def test_a_stream_inside_a_generator_may_be_left_early() -> None:
    adapter = Endless()

    async def texts() -> AsyncIterator[str]:
        async with agent(adapter).stream("q") as stream:
            async for event in stream:
                if event.type == "text":
                    yield event.data

    source = texts()
    assert await anext(source) == "more "
    await source.aclose()  # type: ignore[attr-defined]
    assert adapter.left.is_set()


@proves("AGT-73")
async def test_no_task_is_left_after_early_exits(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("asyncio counts its tasks")
    before = asyncio.all_tasks()
    for _ in range(20):
        async with agent(Endless()).stream("q") as stream:
            await anext(stream)
    await anyio.wait_all_tasks_blocked()
    assert asyncio.all_tasks() == before


@proves("AGT-74")
async def test_a_second_consumer_is_refused_and_the_first_goes_on() -> None:
    gate = anyio.Event()

    async def slow(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await gate.wait()
        return "ok"

    stream = agent(ScriptedAdapter(slow)).stream("q")
    got: list[str] = []

    async def consume() -> None:
        got.extend([event.type async for event in stream])

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="has a consumer already"):
            await anext(stream)
        gate.set()
    assert got[-1] == "done"


class Flaky:
    """Breaks off its first stream after a piece."""

    name = "flaky"

    def __init__(self) -> None:
        self.attempts = 0

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise AssertionError

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        self.attempts += 1
        yield StreamEvent("text", f"try {self.attempts}")
        if self.attempts == 1:
            yield StreamEvent("error", RuntimeError("cut"))
            return
        yield StreamEvent("done", LLMResponse([TextBlock(text="try 2")]))


@proves("AGT-75")
async def test_a_repeated_call_says_that_its_first_pieces_are_void() -> None:
    async def retry(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except RuntimeError:
            return await call_next(call)

    async with agent(Flaky(), model_middleware=[retry]).stream("q") as stream:
        events = [event async for event in stream]
    assert [event.type for event in events] == [
        "turn_start",
        "text",
        "turn_restart",
        "text",
        "turn_complete",
        "done",
    ]
    assert stream.result.output == "try 2"


class CutShort:
    name = "cut-short"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise AssertionError

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        yield StreamEvent("text", "par")


@proves("AGT-70")
async def test_a_stream_without_an_end_is_no_success() -> None:
    async with agent(CutShort()).stream("q") as stream:
        events = [event async for event in stream]
    assert kinds(events) == ["turn_start", "text", "error"]
    assert "without its last event" in stream.result.output


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@proves("AGT-76")
async def test_the_run_sees_the_context_of_the_call() -> None:
    seen: list[str] = []

    def look(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        seen.append(WHO.get())
        WHO.set("the run")
        return "ok"

    token = WHO.set("caller")
    stream = agent(ScriptedAdapter(look)).stream("q")
    WHO.reset(token)
    async for _ in stream:
        pass
    assert seen == ["caller"]
    assert WHO.get() == "nobody"


@proves("AGT-77")
async def test_a_slow_consumer_holds_the_run_back() -> None:
    adapter = Endless()
    async with agent(adapter).stream("q") as stream:
        await anext(stream)
        await anyio.wait_all_tasks_blocked()
        assert adapter.pieces < 100


class Thinking:
    """Streams reasoning, without a way to close the stream."""

    name = "thinking"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise AssertionError

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> "Steps":
        answer = LLMResponse([ReasoningBlock(text="hm"), TextBlock(text="yes")])
        return Steps(
            [
                StreamEvent("reasoning", "h"),
                StreamEvent("reasoning", "m"),
                StreamEvent("text", "yes"),
                StreamEvent("done", answer),
            ]
        )


class Steps:
    def __init__(self, events: list[StreamEvent]) -> None:
        self.events = events

    def __aiter__(self) -> "Steps":
        return self

    async def __anext__(self) -> StreamEvent:
        await anyio.lowlevel.checkpoint()
        return self.events.pop(0)


@proves("AGT-70")
async def test_reasoning_is_delivered_as_it_comes() -> None:
    async with agent(Thinking()).stream("q") as stream:
        events = [event async for event in stream]
    assert [(event.type, event.data) for event in events[1:4]] == [
        ("reasoning", "h"),
        ("reasoning", "m"),
        ("text", "yes"),
    ]


@proves("AGT-72")
async def test_reasoning_of_a_cached_answer_is_delivered() -> None:
    async def cached(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        return LLMResponse([ReasoningBlock(text="hm"), ReasoningBlock(text=""), TextBlock(text="yes")])

    async with agent(ScriptedAdapter([]), model_middleware=[cached]).stream("q") as stream:
        events = [event async for event in stream]
    assert [event.type for event in events] == ["turn_start", "reasoning", "text", "turn_complete", "done"]


@proves("AGT-70")
async def test_an_event_names_itself() -> None:
    stream = agent(ScriptedAdapter(["ok"])).stream("q")
    event = await anext(stream)
    assert repr(event) == f"<TurnStarted #1 agent='tester' run_id={stream.run_id!r}>"
    await stream.aclose()

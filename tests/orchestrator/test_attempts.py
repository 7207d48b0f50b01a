"""Several attempts at one model call, or at one run, and the one stream that they share."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import Agent, AgentConfig, AgentRunResult, LLMMessage, OpenMultiAgent, RunCall, TextBlock
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext, StreamEvent
from openmultiagent.agent import RunNext
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

Result = AgentRunResult[Any]


class TwoModels:
    """The first call streams and waits in the middle; later ones answer at once."""

    name = "two"

    def __init__(self, *, first_fails: bool = False) -> None:
        self.attempts = 0
        self.streams = 0
        self.half_way = anyio.Event()
        self.go_on = anyio.Event()
        self.first_fails = first_fails

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.attempts += 1
        return LLMResponse([TextBlock(text="unstreamed")])

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        self.streams += 1
        text = f"stream {self.streams}"
        yield StreamEvent("text", text[:3])
        if self.streams == 1:
            self.half_way.set()
            await self.go_on.wait()
            if self.first_fails:
                yield StreamEvent("error", RuntimeError("cut"))
                return
        yield StreamEvent("text", text[3:])
        yield StreamEvent("done", LLMResponse([TextBlock(text=text)]))


def told(events: Sequence[Any]) -> list[str]:
    return [event.data if event.type == "text" else event.type for event in events]


def since_restart(events: Sequence[Any]) -> str:
    """What a consumer has put together at the end."""
    text = ""
    for event in events:
        text = "" if event.type in ("turn_start", "turn_restart") else text
        text += event.data if event.type == "text" else ""
    return text


async def streamed(agent: Agent[Any]) -> tuple[list[Any], Result]:
    with anyio.fail_after(10):
        async with agent.stream("q") as stream:
            events = [event async for event in stream]
    return events, stream.result


async def both(model: TwoModels, first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    answers: list[Any] = [None, None]

    async def run(index: int, attempt: Callable[[], Any]) -> None:
        try:
            answers[index] = await attempt()
        except RuntimeError as error:
            answers[index] = error

    async with anyio.create_task_group() as group:
        group.start_soon(run, 0, first)
        await model.half_way.wait()
        await run(1, second)
        model.go_on.set()
    return answers


@proves("AGT-78", "MID-4")
@pytest.mark.parametrize("wins", [0, 1])
async def test_only_one_of_two_attempts_at_the_same_time_feeds_the_stream(wins: int) -> None:
    model = TwoModels()

    async def race(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        answers = await both(model, lambda: call_next(call), lambda: call_next(call))
        answer: LLMResponse = answers[wins]
        return answer

    events, result = await streamed(Agent(AgentConfig("x", adapter=model, model_middleware=[race])))
    first = ["turn_start", "str", "eam 1"]
    rest = [] if wins == 0 else ["turn_restart", "unstreamed"]
    assert told(events) == [*first, *rest, "turn_complete", "done"]
    assert since_restart(events) == result.output
    assert (model.streams, model.attempts) == (1, 1)


@proves("AGT-78", "AGT-75")
async def test_a_failed_attempt_is_void_when_the_other_one_answers() -> None:
    model = TwoModels(first_fails=True)

    async def race(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        failed, answer = await both(model, lambda: call_next(call), lambda: call_next(call))
        assert isinstance(failed, RuntimeError)
        return answer  # type: ignore[no-any-return]

    events, result = await streamed(Agent(AgentConfig("x", adapter=model, model_middleware=[race])))
    assert told(events) == ["turn_start", "str", "turn_restart", "unstreamed", "turn_complete", "done"]
    assert since_restart(events) == result.output == "unstreamed"


@proves("AGT-78")
async def test_an_earlier_answer_that_is_preferred_is_delivered_again() -> None:
    async def first_of_two(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        answer = await call_next(call)
        await call_next(call)
        return answer

    agent = Agent(AgentConfig("x", adapter=ScriptedAdapter(["one", "two"]), model_middleware=[first_of_two]))
    events, result = await streamed(agent)
    assert since_restart(events) == result.output == "one"
    assert [event.type for event in events].count("turn_restart") == 2


@proves("AGT-78")
async def test_an_answer_that_was_rewritten_is_delivered_as_it_is_now() -> None:
    async def rewrite(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        answer = await call_next(call)
        return LLMResponse([TextBlock(text="rewritten")], usage=answer.usage)

    async def repeat(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        answer = await call_next(call)
        return LLMResponse(list(answer.content), usage=answer.usage)

    async def change(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        answer = await call_next(call)
        answer.content[0] = TextBlock(text="rewritten")
        return answer

    for middleware in (rewrite, change):
        agent = Agent(AgentConfig("x", adapter=ScriptedAdapter(["secret"]), model_middleware=[middleware]))
        events, result = await streamed(agent)
        assert since_restart(events) == result.output == "rewritten"
    agent = Agent(AgentConfig("x", adapter=ScriptedAdapter(["same"]), model_middleware=[repeat]))
    events, result = await streamed(agent)
    assert "turn_restart" not in told(events)
    assert since_restart(events) == result.output == "same"


async def run_streamed(oma: OpenMultiAgent) -> tuple[list[Any], Result]:
    with anyio.fail_after(10):
        async with oma.stream_agent({"name": "x"}, "q") as stream:
            events = [event async for event in stream]
    return events, stream.result


@proves("ORC-45")
async def test_a_run_that_is_repeated_says_that_everything_before_is_void() -> None:
    async def repeat(call: RunCall, call_next: RunNext) -> Result:
        await call_next()
        return await call_next()

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["one", "two"]), middleware=[repeat])
    events, result = await run_streamed(oma)
    types = [event.type for event in events]
    assert types == [
        "turn_start",
        "text",
        "turn_complete",
        "turn_restart",
        "turn_start",
        "text",
        "turn_complete",
        "done",
    ]
    assert events[3].data == 1
    assert since_restart(events) == result.output == "two"
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


@proves("ORC-45")
async def test_a_run_that_had_delivered_nothing_is_repeated_in_silence() -> None:
    async def repeat(call: RunCall, call_next: RunNext) -> Result:
        result = await call_next()
        return result if result.success else await call_next()

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([RuntimeError("down"), "two"]), middleware=[repeat])
    events, result = await run_streamed(oma)
    assert told(events) == ["turn_start", "turn_start", "two", "turn_complete", "done"]
    assert result.output == "two"


@proves("ORC-45")
async def test_only_one_of_two_runs_at_the_same_time_feeds_the_stream() -> None:
    model = TwoModels()

    async def race(call: RunCall, call_next: RunNext) -> Result:
        answers = await both(model, call_next, call_next)
        winner: Result = answers[1]
        return winner

    oma = OpenMultiAgent(default_adapter=model, middleware=[race])
    events, result = await run_streamed(oma)
    assert told(events) == ["turn_start", "str", "eam 1", "turn_complete", "done"]
    assert result.output == events[-1].data.output == "unstreamed"

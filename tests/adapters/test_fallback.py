"""One model after the other, until one answers."""

import copy
import json
import pickle
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openmultiagent import Agent, AgentConfig, OpenMultiAgent
from openmultiagent.adapters import (
    AdapterCapabilities,
    FallbackAdapter,
    FallbackEntry,
    FallbackError,
    FallbackResponse,
    LLMChatOptions,
    LLMResponse,
    StreamEvent,
)
from openmultiagent.budget import CostEstimateContext
from openmultiagent.errors import (
    AdapterError,
    ConfigurationError,
    EgressPolicyError,
    InvalidMessageError,
    LLMAuthenticationError,
    LLMBadRequestError,
    LLMCallTimeoutError,
    LLMConnectionError,
    LLMProtocolError,
    LLMRateLimitError,
    LLMServerError,
    OpenMultiAgentError,
    TokenBudgetExceededError,
    UnsupportedContentError,
)
from openmultiagent.messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from openmultiagent.testing import Scripted, ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

HI = [LLMMessage.user("Hi")]
OPTIONS = LLMChatOptions(model="small")
BUSY = LLMRateLimitError("slow down", provider="first", status=429, retry_after=3.0, attempts=3)
DOWN = LLMServerError("broken", provider="second", status=503)


def scripted(name: str, *responses: Any, read_only: bool = True) -> ScriptedAdapter:
    return ScriptedAdapter(responses, name=name, capabilities=AdapterCapabilities(read_only=read_only))


async def events_of(adapter: FallbackAdapter) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HI, OPTIONS)]


async def error_of(adapter: FallbackAdapter, *, stream: bool) -> Exception:
    """Make a call that fails; return what it fails with."""
    if stream:
        events = await events_of(adapter)
        assert [event.type for event in events] == ["error"]
        assert isinstance(events[0].data, Exception)
        return events[0].data
    with pytest.raises(Exception) as caught:  # noqa: PT011 - it is returned
        await adapter.chat(HI, OPTIONS)
    return caught.value


async def answer_of(adapter: FallbackAdapter, *, stream: bool) -> FallbackResponse:
    """Make a call that succeeds; return the answer."""
    if not stream:
        return await adapter.chat(HI, OPTIONS)
    *pieces, last = await events_of(adapter)
    assert last.type == "done"
    assert isinstance(last.data, FallbackResponse)
    assert "".join(str(event.data) for event in pieces) == text_of(last.data)
    return last.data


def text_of(response: LLMResponse) -> str:
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


both_ways = pytest.mark.parametrize("stream", [False, True])


# --- the answer ------------------------------------------------------------------------------------------------------


@both_ways
@proves("FAL-1", "FAL-6")
async def test_the_first_model_answers_and_no_other_is_asked(stream: bool) -> None:
    usage = TokenUsage(input_tokens=3, output_tokens=2)
    first, second = scripted("first", Scripted("Hello", usage=usage)), scripted("second")
    answer = await answer_of(FallbackAdapter([first, second]), stream=stream)
    assert text_of(answer) == "Hello"
    assert (answer.provider, answer.requested_model, answer.model) == ("first", "small", "small")
    assert answer.tried == ()
    assert answer.usage == usage
    assert second.calls == []


PASSING = [
    BUSY,
    DOWN,
    LLMConnectionError("no route", provider="first"),
    LLMProtocolError("no JSON", provider="first"),
    AdapterError("try later", provider="first", retryable=True),
    LLMCallTimeoutError(timeout=1.0),
]


@both_ways
@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@proves("FAL-1", "FAL-2")
async def test_a_passing_failure_leads_to_the_next_model(error: Exception, stream: bool) -> None:
    first, second = scripted("first", error), scripted("second", "Hello")
    answer = await answer_of(FallbackAdapter([(first, "big"), (second, "other")]), stream=stream)
    assert text_of(answer) == "Hello"
    assert (answer.provider, answer.requested_model) == ("second", "other")
    assert [call.options.model for call in first.calls + second.calls] == ["big", "other"]


LASTING = [
    LLMAuthenticationError("no key", provider="first", status=401),
    LLMBadRequestError("no such model", provider="first", status=404),
    UnsupportedContentError(provider="first", content_type="image"),
    LLMServerError("do not retry", provider="first", status=500, retryable=False),
    ConfigurationError("extra_body is no JSON"),
    EgressPolicyError("denied", reason="denied", provider="first", origin="https://a.test"),
    TokenBudgetExceededError(agent="a", tokens_used=2, budget=1),
    ConnectionError("somebody's own"),
    RuntimeError("a bug"),
]


@both_ways
@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
@proves("FAL-3")
async def test_any_other_failure_goes_through_unchanged(error: Exception, stream: bool) -> None:
    second = scripted("second", "Hello")
    raised = await error_of(FallbackAdapter([scripted("first", error), second]), stream=stream)
    assert raised is error
    assert second.calls == []


@both_ways
@proves("FAL-3")
async def test_an_invalid_conversation_raises_and_nobody_is_asked(stream: bool) -> None:
    first, second = scripted("first", "a"), scripted("second", "b")
    adapter = FallbackAdapter([first, second])
    bad: Any = ["no message"]
    with pytest.raises(InvalidMessageError):
        await (anext(adapter.stream(bad, OPTIONS)) if stream else adapter.chat(bad, OPTIONS))
    assert first.calls == second.calls == []


@both_ways
@proves("FAL-3")
async def test_cancellation_goes_through(stream: bool) -> None:
    second = scripted("second", "Hello")
    adapter = FallbackAdapter([scripted("first", Scripted("late", delay=60)), second], attempt_timeout=30)
    with anyio.move_on_after(0.01) as scope:
        await (events_of(adapter) if stream else adapter.chat(HI, OPTIONS))
    assert scope.cancelled_caught
    assert second.calls == []


# --- what was tried --------------------------------------------------------------------------------------------------


@both_ways
@proves("FAL-4")
async def test_an_answer_tells_what_was_tried_before(stream: bool) -> None:
    adapter = FallbackAdapter([(scripted("first", BUSY), "big"), scripted("second", DOWN), scripted("third", "Hello")])
    answer = await answer_of(adapter, stream=stream)
    assert list(answer.tried) == [
        {"provider": "first", "model": "big", "error": "LLMRateLimitError: slow down", "status": 429},
        {"provider": "second", "model": "small", "error": "LLMServerError: broken", "status": 503},
    ]


@both_ways
@proves("FAL-5")
async def test_when_all_failed_the_error_tells_about_every_one(stream: bool) -> None:
    slow = LLMCallTimeoutError(timeout=1.0)
    adapter = FallbackAdapter([scripted("first", slow), scripted("second", DOWN), (scripted("third", BUSY), "big")])
    error = await error_of(adapter, stream=stream)
    assert isinstance(error, FallbackError)
    assert error.code == "LLM_FALLBACK"
    assert error.message == (
        "no model of 'fallback' answered; "
        "first 'small': LLMCallTimeoutError: LLM call exceeded per-call timeout of 1s; "
        "second 'small': LLMServerError: broken; third 'big': LLMRateLimitError: slow down"
    )
    assert [item["status"] for item in error.tried] == [None, 503, 429]
    assert error.__cause__ is BUSY
    assert (error.provider, error.status, error.retry_after, error.retryable) == ("third", 429, 3.0, True)
    assert error.attempts == 1 + 1 + 3


@both_ways
@proves("FAL-5")
async def test_when_all_failed_and_the_last_one_was_too_slow(stream: bool) -> None:
    error = await error_of(FallbackAdapter([scripted("only", LLMCallTimeoutError(timeout=1.0))]), stream=stream)
    assert isinstance(error, FallbackError)
    assert (error.provider, error.status, error.retryable, error.attempts) == ("only", None, True, 1)


@both_ways
@proves("FAL-5")
async def test_a_lasting_failure_after_passing_ones_tells_about_them_too(stream: bool) -> None:
    refused = LLMAuthenticationError("no key", provider="second", status=401)
    third = scripted("third", "Hello")
    error = await error_of(
        FallbackAdapter([scripted("first", BUSY), scripted("second", refused), third]), stream=stream
    )
    assert isinstance(error, FallbackError)
    assert [item["status"] for item in error.tried] == [429, 401]
    assert (error.status, error.retryable) == (401, False)
    assert error.__cause__ is refused
    assert third.calls == []


@proves("FAL-5")
async def test_the_error_is_plain_data_and_can_be_stored() -> None:
    error = await error_of(FallbackAdapter([scripted("first", BUSY)]), stream=False)
    assert isinstance(error, FallbackError)
    record = json.loads(json.dumps(error.to_dict()))
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), OpenMultiAgentError.from_dict(record)):
        assert type(other) is FallbackError
        assert other.to_dict() == error.to_dict()
        assert other.tried == error.tried


@proves("FAL-5")
async def test_texts_of_errors_are_redacted_and_cut() -> None:
    long = LLMServerError("Authorization: Bearer sk-1234567890abcdefghij\n" + "x" * 5_000, provider="first", status=500)
    error = await error_of(FallbackAdapter([scripted("first", long)] * 3), stream=False)
    assert isinstance(error, FallbackError)
    assert len(error.message) < 1_100
    assert "sk-1234" not in error.message + json.dumps(error.tried)


@both_ways
@pytest.mark.parametrize(
    ("reported", "counted"),
    [(TokenUsage(input_tokens=3), TokenUsage(input_tokens=3, unknown_calls=2)), (None, TokenUsage(unknown_calls=3))],
)
@proves("FAL-6")
async def test_failed_calls_are_calls_of_unknown_usage(
    reported: TokenUsage | None, counted: TokenUsage, stream: bool
) -> None:
    last = scripted("third", Scripted("Hello", usage=reported))
    answer = await answer_of(FallbackAdapter([scripted("first", BUSY), scripted("second", DOWN), last]), stream=stream)
    assert answer.usage == counted


@proves("FAL-6")
async def test_unknown_usage_stays_unknown_when_nothing_failed() -> None:
    answer = await FallbackAdapter([scripted("first", "Hello")]).chat(HI, OPTIONS)
    assert answer.usage is None


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [(), (BUSY,)])
@proves("FAL-7")
async def test_after_the_first_piece_a_failure_goes_through(before: tuple[Exception, ...]) -> None:
    broken = Scripted("This answer breaks off", cut_after=1)
    last = scripted("last", "Hello")
    adapter = FallbackAdapter([*(scripted("busy", error) for error in before), scripted("broken", broken), last])
    piece, end = await events_of(adapter)
    assert (piece.type, piece.data) == ("text", "This answer brea")
    assert end.type == "error"
    if before:
        assert isinstance(end.data, FallbackError)
        assert [item["provider"] for item in end.data.tried] == ["busy", "broken"]
        assert end.data.retryable
    else:
        assert isinstance(end.data, LLMProtocolError)
    assert last.calls == []


class Own:
    """Somebody's own adapter: what it streams is up to the test."""

    name = "own"

    def __init__(self, *events: StreamEvent | Exception) -> None:
        self.events = events

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise NotImplementedError

    def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        return Steps(self.events)


class Steps:
    """An iterator that cannot be closed."""

    def __init__(self, events: Sequence[StreamEvent | Exception]) -> None:
        self._events = iter(events)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        await anyio.lowlevel.checkpoint()
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, Exception):
            raise event
        return event


DONE = StreamEvent("done", LLMResponse([TextBlock.new("Hello")]))


@proves("FAL-7")
async def test_a_stream_may_raise_its_failure_or_end_without_one() -> None:
    adapter = FallbackAdapter([Own(DOWN), Own(), Own(DONE)])
    (event,) = await events_of(adapter)
    assert isinstance(event.data, FallbackResponse)
    assert [item["error"] for item in event.data.tried] == [
        "LLMServerError: broken",
        "LLMProtocolError: the stream of own ended without its last event",
    ]


@proves("FAL-7")
async def test_events_after_the_last_one_are_not_passed_on() -> None:
    assert [event.type for event in await events_of(FallbackAdapter([Own(DONE, StreamEvent("text", "more"))]))] == [
        "done"
    ]


@both_ways
@proves("FAL-3")
async def test_an_answer_that_is_none_is_a_lasting_failure(stream: bool) -> None:
    wrong: Any = {"content": "Hello"}

    class Wrong(Own):
        async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
            return wrong  # type: ignore[no-any-return]

    second = scripted("second", "Hello")
    error = await error_of(FallbackAdapter([Wrong(StreamEvent("done", wrong)), second]), stream=stream)
    assert isinstance(error, LLMProtocolError)
    assert "adapter 'own' must return an LLMResponse" in error.message
    assert second.calls == []


class ChatOnly:
    name = "chat-only"

    def __init__(self, answer: LLMResponse | Exception) -> None:
        self.answer = answer

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        await anyio.lowlevel.checkpoint()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@proves("FAL-7")
async def test_an_adapter_that_cannot_stream_delivers_its_answer_in_whole_blocks() -> None:
    call = ToolUseBlock.new("c1", "look", {"at": ["x"]})
    odd: Any = SimpleNamespace(type="other")
    answer = LLMResponse([ReasoningBlock(text="Hm"), TextBlock.new("Hello"), call, odd])
    events = await events_of(FallbackAdapter([ChatOnly(DOWN), ChatOnly(answer)]))
    assert [(event.type, event.data) for event in events[:-1]] == [
        ("reasoning", "Hm"),
        ("text", "Hello"),
        ("tool_use", call),
    ]
    assert events[2].data is not call
    assert isinstance(events[-1].data, FallbackResponse)
    assert events[-1].data.content == answer.content


@proves("FAL-7")
async def test_leaving_a_stream_closes_the_stream_of_the_model() -> None:
    closed = []

    class Closing(Own):
        async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
            try:
                yield StreamEvent("text", "Hel")
                yield StreamEvent("text", "lo")
            finally:
                closed.append(True)

    stream = FallbackAdapter([Closing()]).stream(HI, OPTIONS)
    assert (await anext(stream)).data == "Hel"
    await stream.aclose()
    assert closed == [True]


# --- time ------------------------------------------------------------------------------------------------------------


@both_ways
@proves("FAL-8")
async def test_a_model_that_takes_too_long_is_given_up(stream: bool) -> None:
    first, second = scripted("first", Scripted("late", delay=60)), scripted("second", "Hello")
    answer = await answer_of(FallbackAdapter([first, second], attempt_timeout=0.2), stream=stream)
    assert text_of(answer) == "Hello"
    assert answer.tried[0]["error"] == "LLMCallTimeoutError: LLM call exceeded per-call timeout of 0.2s"


@proves("FAL-8")
async def test_a_stream_that_has_begun_is_not_given_up() -> None:
    slow = Scripted("abc", chunk_size=1, piece_delay=0.22)
    answer = await answer_of(FallbackAdapter([scripted("first", slow)], attempt_timeout=0.2), stream=True)
    assert text_of(answer) == "abc"


@both_ways
@proves("FAL-9")
async def test_a_model_that_failed_is_asked_last_for_a_while(stream: bool) -> None:
    now = [0.0]
    first = scripted("first", DOWN, "again", "first")
    second = scripted("second", "one", "two", DOWN)
    adapter = FallbackAdapter([first, second], cool_down=10.0, clock=lambda: now[0])
    assert text_of(await answer_of(adapter, stream=stream)) == "one"
    assert text_of(await answer_of(adapter, stream=stream)) == "two"
    assert len(first.calls) == 1
    assert text_of(await answer_of(adapter, stream=stream)) == "again"  # nobody else is left
    now[0] = 10.0
    assert text_of(await answer_of(adapter, stream=stream)) == "first"


@proves("FAL-9")
async def test_without_a_cool_down_the_order_stays() -> None:
    first, second = scripted("first", DOWN, "back"), scripted("second", "one")
    adapter = FallbackAdapter([first, second])
    assert text_of(await adapter.chat(HI, OPTIONS)) == "one"
    assert text_of(await adapter.chat(HI, OPTIONS)) == "back"


# --- what it is made of ----------------------------------------------------------------------------------------------


@proves("FAL-10")
def test_capabilities_are_those_that_all_have() -> None:
    def capabilities_of(*given: AdapterCapabilities) -> AdapterCapabilities:
        return FallbackAdapter([ScriptedAdapter([], capabilities=item) for item in given]).capabilities

    strong = AdapterCapabilities(read_only=True, structured_output=True, echoes_reasoning="own-issued")
    assert capabilities_of(strong, strong) == strong
    assert capabilities_of(strong, AdapterCapabilities()) == AdapterCapabilities()
    mixed = AdapterCapabilities(read_only=True, echoes_reasoning="tool-use-only")
    assert capabilities_of(strong, mixed) == AdapterCapabilities(read_only=True)
    assert FallbackAdapter([ChatOnly(DOWN)]).capabilities == AdapterCapabilities()


@both_ways
@proves("FAL-10")
async def test_what_one_adapter_does_to_its_messages_does_not_reach_the_next(stream: bool) -> None:
    class Vandal(ChatOnly):
        async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
            messages[0].content.clear()
            return await super().chat(messages, options)

    second = scripted("second", "Hello")
    await answer_of(FallbackAdapter([Vandal(DOWN), second]), stream=stream)
    assert second.calls[0].messages == [LLMMessage.user("Hi")] == HI


class Closable(ScriptedAdapter):
    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


@proves("FAL-11")
async def test_the_adapters_are_closed_only_when_they_are_owned() -> None:
    one, two = Closable([]), Closable([])
    await FallbackAdapter([one, two]).aclose()
    assert (one.closed, two.closed) == (0, 0)
    await FallbackAdapter([(one, "a"), (one, "b"), two, ChatOnly(DOWN)], owned=True).aclose()
    assert (one.closed, two.closed) == (1, 1)


@proves("FAL-12")
def test_a_copy_is_the_adapter_itself_and_its_repr_names_the_models() -> None:
    adapter = FallbackAdapter([(scripted("first"), "big"), FallbackEntry(scripted("second"))], name="mine")
    assert copy.deepcopy(adapter) is adapter
    assert repr(adapter) == "FallbackAdapter([first 'big', second])"
    assert adapter.name == "mine"


GOOD = ScriptedAdapter([])


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([], "entries is empty"),
        (GOOD, "must be a list of adapters, got ScriptedAdapter"),
        ("openai", "must be a list of adapters, got str"),
        ([GOOD, "openai"], "entries[1] must be an adapter, (adapter, model) or a FallbackEntry, got str"),
        ([ScriptedAdapter], "entries[0] must be an adapter"),
        ([(GOOD, "a", "b")], "entries[0] must be an adapter"),
        ([(GOOD, "")], "entries[0]: the model must be a name"),
        ([(GOOD, 7)], "entries[0]: the model must be a name"),
        ([FallbackEntry(GOOD, " ")], "entries[0]: the model must be a name"),
        ([FallbackAdapter([GOOD])], "entries[0] is a FallbackAdapter itself; list its entries here instead"),
    ],
)
@proves("FAL-12")
def test_wrong_entries_are_refused(entries: Any, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        FallbackAdapter(entries)
    assert fault in caught.value.message


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), "1"])
@proves("FAL-12")
def test_senseless_times_are_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="attempt_timeout must be a number of seconds above 0"):
        FallbackAdapter([GOOD], attempt_timeout=seconds)
    with pytest.raises(ConfigurationError, match="cool_down must be a number of seconds above 0"):
        FallbackAdapter([GOOD], cool_down=seconds)


@both_ways
@proves("FAL-1", "FAL-6")
async def test_an_agent_runs_on_whatever_model_answers(stream: bool) -> None:
    usage = TokenUsage(input_tokens=3, output_tokens=2)
    adapter = FallbackAdapter([scripted("first", BUSY), (scripted("second", Scripted("Hello", usage=usage)), "big")])
    agent = Agent(AgentConfig("a", adapter=adapter, model="small"))
    if stream:
        async with agent.stream("Hi") as events:
            assert [event.type async for event in events][-1] == "done"
        result = events.result
    else:
        result = await agent.run("Hi")
    assert result.output == "Hello"
    assert result.token_usage == usage + TokenUsage(unknown_calls=1)


@both_ways
@proves("FAL-13")
async def test_a_run_accounts_for_the_model_that_answered(stream: bool) -> None:
    adapter = FallbackAdapter([scripted("first", BUSY), (scripted("second", "Hello"), "big")])
    config = AgentConfig("a", adapter=adapter, model="small")
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    priced: list[tuple[str, str]] = []

    def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        priced.append((context.provider, context.model))
        return 0.5

    app = OpenMultiAgent(tracer_provider=provider, estimate_cost=price)
    if stream:
        async with app.stream_agent(config, "Hi") as events:
            assert [event.type async for event in events][-1] == "done"
        result = events.result
    else:
        result = await app.run_agent(config, "Hi")
    assert priced == [("second", "big")]
    assert [(entry.provider, entry.model) for entry in result.usage_report] == [("second", "big")]
    (chat,) = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    attributes = dict(chat.attributes or {})
    assert attributes["gen_ai.provider.name"] == "fallback"
    assert attributes["openmultiagent.response.provider"] == "second"
    provider.shutdown()

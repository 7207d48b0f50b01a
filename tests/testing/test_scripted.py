"""The scripted adapter: what it answers, what it records, and how it delivers."""

import copy
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from openmultiagent.adapters import (
    AdapterCapabilities,
    LLMChatOptions,
    LLMResponse,
    LLMToolDef,
    StreamEvent,
    StreamingAdapter,
    ToolInputDelta,
)
from openmultiagent.errors import (
    ConfigurationError,
    InvalidMessageError,
    LLMConnectionError,
    LLMProtocolError,
    LLMServerError,
    OpenMultiAgentError,
)
from openmultiagent.messages import (
    ContentBlock,
    Conversation,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from openmultiagent.outcome import classify_failure
from openmultiagent.testing import Reply, Scripted, ScriptedAdapter, ScriptExhaustedError
from openmultiagent.usage import TokenUsage
from tests.support import proves

OPTIONS = LLMChatOptions(model="m")
HELLO = [LLMMessage.user("Hello")]
CALL = ToolUseBlock.new("c1", "add", {"a": 1, "b": [2, 3]})


async def ask(adapter: ScriptedAdapter, text: str = "Hello") -> LLMResponse:
    return await adapter.chat([LLMMessage.user(text)], OPTIONS)


async def events_of(adapter: ScriptedAdapter) -> list[StreamEvent]:
    return [event async for event in adapter.stream(HELLO, OPTIONS)]


# --- responses -------------------------------------------------------------------------------------------------------


@proves("TST-1")
async def test_responses_are_given_in_the_order_of_the_calls() -> None:
    adapter = ScriptedAdapter(["one", [TextBlock.new("two")], LLMResponse([TextBlock.new("three")], id="x")])
    assert isinstance(adapter, StreamingAdapter)
    assert [(await ask(adapter)).content for _ in range(3)] == [
        [TextBlock.new("one")],
        [TextBlock.new("two")],
        [TextBlock.new("three")],
    ]


@proves("TST-1")
async def test_one_callable_serves_every_call_and_sees_messages_and_options() -> None:
    def echo(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        block = messages[-1].content[0]
        assert isinstance(block, TextBlock)
        return f"{options.model}: {block.text}"

    adapter = ScriptedAdapter(echo)
    assert (await ask(adapter, "a")).content == [TextBlock.new("m: a")]
    assert (await ask(adapter, "b")).content == [TextBlock.new("m: b")]


@proves("TST-1")
async def test_a_callable_may_be_async_and_stand_among_other_responses() -> None:
    async def slow(messages: list[LLMMessage], options: LLMChatOptions) -> Scripted:
        await anyio.lowlevel.checkpoint()
        return Scripted("made", stop_reason="max_tokens")

    adapter = ScriptedAdapter(["first", slow])
    await ask(adapter)
    response = await ask(adapter)
    assert response.content == [TextBlock.new("made")]
    assert response.stop_reason == "max_tokens"


@proves("TST-2")
async def test_text_and_blocks_have_unknown_usage_and_a_stop_reason_by_their_blocks() -> None:
    adapter = ScriptedAdapter(["text", [TextBlock.new("x"), CALL], []])
    text, blocks, empty = [await ask(adapter) for _ in range(3)]
    assert [text.usage, blocks.usage, empty.usage] == [None, None, None]
    assert [text.stop_reason, blocks.stop_reason, empty.stop_reason] == ["end_turn", "tool_use", "end_turn"]
    assert [text.id, blocks.id, text.model] == ["scripted-1", "scripted-2", "m"]


@proves("TST-2")
async def test_a_text_is_what_a_model_writes() -> None:
    (block,) = (await ask(ScriptedAdapter(["a\x00b \ud83d [/x] {y} %s"]))).content
    assert block == TextBlock.new("a\x00b \ufffd [/x] {y} %s")


@proves("TST-2")
async def test_a_given_response_keeps_what_it_says_unless_the_wrapper_says_otherwise() -> None:
    usage = TokenUsage(input_tokens=3, output_tokens=4)
    given = LLMResponse([CALL], id="x", model="y", stop_reason="odd", usage=usage)
    adapter = ScriptedAdapter([given, Scripted(given, usage=TokenUsage(), stop_reason="end_turn"), Scripted(given)])
    assert await ask(adapter) == given
    changed = await ask(adapter)
    assert (changed.id, changed.stop_reason, changed.usage) == ("x", "end_turn", TokenUsage())
    assert await ask(adapter) == given


@proves("TST-3")
async def test_an_answer_shares_nothing_with_the_script_or_with_the_next_answer() -> None:
    block = ToolUseBlock.new("c", "t", {"list": [1]})
    blocks: list[ContentBlock] = [block]
    adapter = ScriptedAdapter(lambda messages, options: blocks)
    first = await ask(adapter)
    assert isinstance(first.content[0], ToolUseBlock)
    first.content[0].input["list"].append(2)
    first.content.append(TextBlock.new("more"))
    assert (await ask(adapter)).content == [ToolUseBlock.new("c", "t", {"list": [1]})]


@proves("TST-4")
@pytest.mark.parametrize("raised", [LLMServerError("down", provider="p", status=500), KeyError("odd")])
async def test_an_exception_is_raised_by_chat_and_is_the_last_event_of_a_stream(raised: Exception) -> None:
    adapter = ScriptedAdapter([raised, raised])
    with pytest.raises(type(raised)) as caught:
        await ask(adapter)
    assert caught.value is raised
    assert await events_of(adapter) == [StreamEvent("error", raised)]


@proves("TST-4")
async def test_an_exception_class_and_an_adapter_error_of_a_function_do_too() -> None:
    down = LLMServerError("down", provider="p", status=500)

    def fail(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        raise down

    adapter = ScriptedAdapter([KeyError, fail, fail])
    with pytest.raises(KeyError):
        await ask(adapter)
    with pytest.raises(LLMServerError):
        await ask(adapter)
    assert await events_of(adapter) == [StreamEvent("error", down)]


@proves("TST-4")
async def test_a_fault_in_a_function_is_raised_also_by_a_stream() -> None:
    def broken(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        raise ZeroDivisionError

    adapter = ScriptedAdapter(broken)
    with pytest.raises(ZeroDivisionError):
        await ask(adapter)
    with pytest.raises(ZeroDivisionError):
        await events_of(adapter)


@proves("TST-4")
async def test_an_exit_is_raised_also_by_a_stream() -> None:
    adapter = ScriptedAdapter([KeyboardInterrupt(), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        await ask(adapter)
    with pytest.raises(KeyboardInterrupt):
        await events_of(adapter)


@proves("TST-5")
async def test_a_call_too_many_fails_and_says_how_many_responses_there_were() -> None:
    adapter = ScriptedAdapter(["only"], name="fake")
    await ask(adapter)
    with pytest.raises(ScriptExhaustedError, match="'fake' has 1 response, and this is model call 2") as caught:
        await ask(adapter)
    assert (caught.value.responses, caught.value.call, caught.value.retryable) == (1, 2, False)
    (event,) = await events_of(adapter)
    assert isinstance(event.data, ScriptExhaustedError)
    assert event.data.call == 3


@proves("TST-5")
def test_the_error_of_an_exhausted_script_travels_and_is_a_failure_of_the_provider() -> None:
    error = ScriptExhaustedError(responses=0, call=1, provider="scripted")
    for copied in (pickle.loads(pickle.dumps(error)), OpenMultiAgentError.from_dict(error.to_dict())):
        assert isinstance(copied, ScriptExhaustedError)
        assert (copied.message, copied.responses, copied.call) == (error.message, 0, 1)
    status, info = classify_failure(error)
    assert (status.code, info.kind, info.retryable, info.code) == ("error", "provider", False, "SCRIPT_EXHAUSTED")


@proves("TST-6")
@pytest.mark.parametrize(
    ("responses", "text"),
    [
        ("hello", "must be a list of responses or a callable, got str; put a single response into a list"),
        (None, "got NoneType"),
        ([None], r"responses\[0\] must be a str, a list of blocks or an LLMResponse, an exception"),
        (["ok", b"bytes"], r"responses\[1\] must be .* got bytes"),
        ([["text"]], r"responses\[0\]\[0\] must be a content block, got str"),
    ],
)
def test_a_script_that_is_none_is_refused_when_it_is_made(responses: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ScriptedAdapter(responses)


@proves("TST-6")
async def test_what_a_callable_returns_is_checked_when_it_is_called() -> None:
    broken: Callable[..., Any] = lambda messages, options: 42  # noqa: E731 - the shortest wrong callable
    with pytest.raises(ConfigurationError, match="callable to model call 1 must be a str"):
        await ask(ScriptedAdapter(broken))


@proves("TST-6")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"delay": -1}, "delay must be a number of seconds"),
        ({"piece_delay": float("nan")}, "piece_delay must be a number of seconds"),
        ({"chunk_size": 0}, "chunk_size must be 1 or more, got 0"),
        ({"cut_after": -1}, "cut_after must be 0 or more"),
        ({"cut_after": 1, "error": KeyError()}, "not both"),
        ({"cut_after": 1, "fail_after": 1}, "not both"),
        ({"content": KeyError()}, "Scripted.content must be a str, a list of blocks or an LLMResponse, got KeyError"),
    ],
)
def test_a_delivery_that_makes_no_sense_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Scripted(**arguments)


# --- calls -----------------------------------------------------------------------------------------------------------


@proves("TST-7")
async def test_calls_are_recorded_as_copies() -> None:
    schema: dict[str, Any] = {"type": "object"}
    messages = [LLMMessage.user("before")]
    adapter = ScriptedAdapter(["ok"])
    await adapter.chat(messages, LLMChatOptions(model="m", tools=[LLMToolDef("t", "d", schema)]))
    messages[0].content[0] = TextBlock.new("after")
    messages.append(LLMMessage.user("more"))
    schema["type"] = "changed"
    (call,) = adapter.calls
    assert call.messages == [LLMMessage.user("before")]
    assert call.options.tools[0].input_schema == {"type": "object"}


@proves("TST-7")
async def test_a_callable_that_changes_what_it_gets_changes_neither_the_record_nor_the_conversation() -> None:
    def spoil(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        messages[0].content.clear()
        messages.clear()
        return "ok"

    adapter = ScriptedAdapter(spoil)
    conversation = Conversation([LLMMessage.user("kept")])
    await adapter.chat(conversation, OPTIONS)
    assert list(conversation) == adapter.calls[0].messages == [LLMMessage.user("kept")]


@proves("TST-8")
async def test_an_invalid_conversation_is_refused_and_uses_up_no_response() -> None:
    adapter = ScriptedAdapter(["ok"])
    broken: Any = [{"role": "user", "content": "no list"}]
    with pytest.raises(InvalidMessageError):
        await adapter.chat(broken, OPTIONS)
    stream = adapter.stream(broken, OPTIONS)
    with pytest.raises(InvalidMessageError):
        await anext(stream)
    assert adapter.calls == []
    assert (await ask(adapter)).content == [TextBlock.new("ok")]


@proves("TST-8")
def test_the_adapter_says_that_it_only_reads_unless_told_otherwise() -> None:
    assert ScriptedAdapter([]).capabilities.read_only
    assert not ScriptedAdapter([], capabilities=AdapterCapabilities()).capabilities.read_only


@proves("TST-8")
def test_a_copy_of_the_adapter_is_the_adapter_itself() -> None:
    adapter = ScriptedAdapter(["ok"])
    assert copy.deepcopy({"adapter": adapter})["adapter"] is adapter


@proves("TST-9")
async def test_calls_at_the_same_time_get_one_response_each() -> None:
    adapter = ScriptedAdapter([str(number) for number in range(20)])
    answers: list[ContentBlock] = []

    async def one() -> None:
        answers.extend((await ask(adapter)).content)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert {block.text for block in answers if isinstance(block, TextBlock)} == {str(number) for number in range(20)}


# --- delivery --------------------------------------------------------------------------------------------------------


@proves("TST-10")
async def test_a_stream_delivers_the_pieces_of_every_block_and_then_what_chat_returns() -> None:
    blocks: list[ContentBlock] = [ReasoningBlock(text="hm hm"), TextBlock.new("abcdef"), TextBlock.new(""), CALL]
    adapter = ScriptedAdapter([Scripted(blocks, chunk_size=4), Scripted(blocks)])
    *pieces, done = await events_of(adapter)
    text = '{"a":1,"b":[2,3]}'
    assert pieces == [
        StreamEvent("reasoning", "hm h"),
        StreamEvent("reasoning", "m"),
        StreamEvent("text", "abcd"),
        StreamEvent("text", "ef"),
        *[StreamEvent("tool_input_delta", ToolInputDelta("c1", "add", text[at : at + 4])) for at in range(0, 17, 4)],
        StreamEvent("tool_use", CALL),
    ]
    assert done.type == "done"
    assert isinstance(done.data, LLMResponse)
    assert done.data.content == (await ask(adapter)).content


@proves("TST-10")
async def test_blocks_that_no_stream_has_an_event_for_come_with_the_answer_only() -> None:
    result = LLMMessage.tool([ToolResultBlock.new("c", "r")]).content
    (event,) = await events_of(ScriptedAdapter([result]))
    assert isinstance(event.data, LLMResponse)
    assert event.data.content == result


@proves("TST-10")
async def test_a_stream_ends_after_its_last_event_and_makes_its_call_at_the_first_step() -> None:
    adapter = ScriptedAdapter(["a", "b"])
    stream = adapter.stream(HELLO, OPTIONS)
    assert adapter.calls == []
    assert [event.type async for event in stream] == ["text", "done"]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    closed = adapter.stream(HELLO, OPTIONS)
    await closed.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(closed)
    assert len(adapter.calls) == 1
    await adapter.aclose()


@proves("TST-11")
async def test_delays_are_waited_for_before_the_answer_and_between_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    checkpoint: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    async def sleep(delay: float) -> None:
        slept.append(delay)
        await checkpoint()

    monkeypatch.setattr(anyio, "sleep", sleep)
    adapter = ScriptedAdapter([Scripted("abc", delay=5, piece_delay=2, chunk_size=1)] * 2)
    await ask(adapter)
    assert slept == [5]
    await events_of(adapter)
    assert slept == [5, 5, 2, 2, 2]


@proves("TST-11")
async def test_a_delayed_answer_can_be_cancelled() -> None:
    adapter = ScriptedAdapter([Scripted("late", delay=3600)] * 2)
    with anyio.move_on_after(0.01) as scope:
        await ask(adapter)
    assert scope.cancelled_caught
    with anyio.move_on_after(0.01) as scope:
        await events_of(adapter)
    assert scope.cancelled_caught


@proves("TST-12")
@pytest.mark.parametrize(("after", "texts"), [(0, []), (2, ["a", "b"]), (9, ["a", "b", "c"])])
async def test_a_cut_stream_breaks_off_with_a_protocol_error(after: int, texts: list[str]) -> None:
    adapter = ScriptedAdapter([Scripted("abc", chunk_size=1, cut_after=after)] * 2)
    *pieces, last = await events_of(adapter)
    assert [event.data for event in pieces] == texts
    assert isinstance(last.data, LLMProtocolError)
    with pytest.raises(LLMProtocolError, match=f"broke off after {after} pieces, as scripted"):
        await ask(adapter)


@proves("TST-12")
async def test_a_failing_stream_ends_with_the_error_that_the_script_names() -> None:
    error = LLMServerError("overloaded", provider="scripted", status=529)
    replies: list[Reply] = [
        Scripted("abc", chunk_size=1, fail_after=1, error=error),
        Scripted("abc", chunk_size=1, fail_after=1),
        Scripted("abc", error=error),
    ]
    adapter = ScriptedAdapter(replies)
    assert await events_of(adapter) == [StreamEvent("text", "a"), StreamEvent("error", error)]
    first, last = await events_of(adapter)
    assert first == StreamEvent("text", "a")
    assert isinstance(last.data, LLMConnectionError)
    assert await events_of(adapter) == [StreamEvent("error", error)]

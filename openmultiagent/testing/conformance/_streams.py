"""Checks of streams: what they tell, how they end, and what becomes of them when nobody listens any more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, cast

import anyio

from ...adapters import LLMResponse, StreamEvent, ToolInputDelta
from ...errors import AdapterError
from ...messages import LLMMessage, ReasoningBlock, TextBlock, ToolUseBlock
from ...usage import TokenUsage
from .._served import Refused, Served, Silence
from ._rig import AdapterRig, ConformanceError, Rigged, check, expect

__all__ = ["STREAM_CHECKS"]

_ANSWER = LLMResponse(
    [
        TextBlock.new("Grüße \u2028 und \U0001f44b, mehr als ein Stück lang."),
        ToolUseBlock.new("call_1", "look", {"q": "ein \u2028 Wort", "n": [1, None]}),
        ToolUseBlock.new("call_2", "look", {}),
    ],
    id="answer",
    model="test-model",
    stop_reason="tool_use",
    usage=TokenUsage(input_tokens=12, output_tokens=5),
)
_LONG = "one two three four five six seven eight nine ten"
_TERMINAL = ("done", "error")


@check(needs_server=False)
async def ends_a_stream_once_with_the_answer(rig: AdapterRig) -> None:
    async with rig.up(lambda _: _ANSWER) as up:
        events = await up.stream()
        if up.streaming is None:
            return
        _expect_whole(events)


@check()
async def streams_what_chat_returns(rig: AdapterRig) -> None:
    async with rig.up(lambda _: _ANSWER) as up:
        whole = await up.chat()
        expect(whole.content == _ANSWER.content, f"the answer became {whole.content!r}")
        if up.streaming is not None:
            expect((await up.stream())[-1] == StreamEvent("done", whole), "done is not what chat returns")


@check()
async def reads_a_whole_answer_where_a_stream_was_asked_for(rig: AdapterRig) -> None:
    async with rig.up([_ANSWER, Served(_ANSWER, quirks=frozenset({"no_stream"}))]) as up:
        whole = await up.chat()
        if up.streaming is not None:
            events = await up.stream()
            _expect_whole(events)
            expect(events[-1] == StreamEvent("done", whole), f"the whole answer became {events[-1]!r}")


@check()
async def reads_streams_however_they_are_cut(rig: AdapterRig) -> None:
    forms = [Served(_ANSWER), Served(_ANSWER, split=1), Served(_ANSWER, crlf=True), Served(_ANSWER, split=3, crlf=True)]
    async with rig.up(forms) as up:
        first, *others = [await up.stream() for _ in forms]
        for form, events in zip(forms[1:], others, strict=True):
            expect(events == first, f"other events with split={form.split}, crlf={form.crlf}")


@check()
async def ignores_what_it_does_not_know(rig: AdapterRig) -> None:
    odd = Served(_ANSWER, quirks=frozenset({"unknown_events", "empty_chunks"}))
    async with rig.up([Served(_ANSWER), odd]) as up:
        first, second = await up.stream(), await up.stream()
        expect(first == second, f"unknown and empty events changed the stream: {second!r}")


@check()
async def takes_a_stream_without_its_end_for_a_failure(rig: AdapterRig) -> None:
    broken = [
        *(Served(_LONG, chunk_size=4, end_after=pieces) for pieces in (0, 1, 3)),
        *(Served(_LONG, chunk_size=4, cut_after=pieces) for pieces in (1, 3)),
        Served(_LONG, quirks=frozenset({"no_finish"})),
    ]
    async with rig.up(broken) as up:
        for form in broken:
            error = _error_of(up, await up.stream(), f"a stream that breaks off ({form!r:.300})")
            expect(error is None or error.retryable, f"a stream that breaks off can be tried again: {error!r}")


@check()
async def tells_a_failure_in_the_middle_as_an_error(rig: AdapterRig) -> None:
    failing = Served(_LONG, chunk_size=4, fail_after=3, failure=Refused(529, "overloaded"))
    async with rig.up([failing]) as up:
        _error_of(up, await up.stream(), "a failure in the middle")


@check()
async def tells_a_refused_stream_as_an_error(rig: AdapterRig) -> None:
    async with rig.up([Refused(500)]) as up:
        events = await up.stream()
        _error_of(up, events, "a refusal")
        expect(len(events) <= 1, f"a refusal has more events than one: {events!r}")


@check()
async def closes_the_connection_when_a_stream_is_cancelled(rig: AdapterRig) -> None:
    async with rig.up([Served(_LONG, chunk_size=4, pause_after=8), "Hello"]) as up:
        if up.streaming is None:
            return

        async def consume() -> None:
            await up.stream()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await up.server.wait_until_pausing()
            tasks.cancel_scope.cancel()
        await _expect_left(up, rig.patience)


@check()
async def closes_the_connection_when_a_stream_is_left(rig: AdapterRig) -> None:
    async with rig.up([Served(_LONG, chunk_size=4, pause_after=8), "Hello"]) as up:
        if up.streaming is None:
            return
        events = up.streaming.stream([LLMMessage.user("Hello")], up.options)
        async with aclosing(cast("Any", events)):
            await anext(aiter(events), None)
        await _expect_left(up, rig.patience)


@check()
async def closes_the_connection_when_a_call_is_cancelled(rig: AdapterRig) -> None:
    async with rig.up([Silence(), "Hello"]) as up:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(up.chat)
            await up.server.wait_until_pausing()
            tasks.cancel_scope.cancel()
        await _expect_left(up, rig.patience)


async def _expect_left(up: Rigged, patience: float) -> None:
    """Fail unless the server sees that its client is gone, and the adapter is as good as new."""
    try:
        await up.server.wait_until_client_left(patience)
    except TimeoutError as error:
        raise ConformanceError("the connection stays open") from error
    answer = await up.chat()
    expect(answer.content == [TextBlock.new("Hello")], f"the next call was answered with {answer.content!r}")


def _expect_whole(events: Sequence[StreamEvent]) -> None:
    """Fail unless a stream ends with an answer, and its pieces come to that."""
    _expect_one_end(events)
    done = events[-1].data
    if not isinstance(done, LLMResponse):
        raise ConformanceError(f"the stream ended with {events[-1]!r}")
    for kind, block_type in (("text", TextBlock), ("reasoning", ReasoningBlock)):
        told = "".join(str(event.data) for event in events if event.type == kind)
        whole = "".join(block.text for block in done.content if isinstance(block, block_type))
        expect(told == whole, f"the pieces of {kind} are {told!r}, the answer has {whole!r}")
    calls = [block for block in done.content if isinstance(block, ToolUseBlock)]
    told_calls = [event.data for event in events if event.type == "tool_use"]
    expect(told_calls == calls, f"the calls told are {told_calls!r}, the answer has {calls!r}")
    deltas = [event.data for event in events if event.type == "tool_input_delta"]
    expect(all(isinstance(delta, ToolInputDelta) for delta in deltas), "tool_input_delta has no ToolInputDelta")


def _expect_one_end(events: Sequence[StreamEvent]) -> None:
    ends = [event.type for event in events if event.type in _TERMINAL]
    expect(len(ends) == 1 and events[-1].type in _TERMINAL, f"a stream ends with one done or error, got {events!r}")


def _error_of(up: Rigged, events: Sequence[StreamEvent], when: str) -> AdapterError | None:
    """Return the error at the end of a stream; None when the adapter cannot stream."""
    if up.streaming is None:
        return None
    _expect_one_end(events)
    error = events[-1].data
    expect(isinstance(error, AdapterError), f"{when} ended with {events[-1]!r}")
    return cast("AdapterError", error)


STREAM_CHECKS = (
    ends_a_stream_once_with_the_answer,
    streams_what_chat_returns,
    reads_a_whole_answer_where_a_stream_was_asked_for,
    reads_streams_however_they_are_cut,
    ignores_what_it_does_not_know,
    takes_a_stream_without_its_end_for_a_failure,
    tells_a_failure_in_the_middle_as_an_error,
    tells_a_refused_stream_as_an_error,
    closes_the_connection_when_a_stream_is_cancelled,
    closes_the_connection_when_a_stream_is_left,
    closes_the_connection_when_a_call_is_cancelled,
)

"""Checks of what an adapter answers, what it takes, and that it keeps its hands off what is not its own."""

from __future__ import annotations

import copy
import importlib.util
import re
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from ...adapters import AdapterCapabilities, LLMAdapter, LLMResponse, LLMToolDef, close_adapter, copy_options
from ...errors import InvalidMessageError
from ...messages import (
    Conversation,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    copy_messages,
)
from ...usage import TokenUsage
from .._served import FakeRequest, Served
from ._rig import API_KEY, AdapterRig, Rigged, check, expect, raised

__all__ = ["ANSWER_CHECKS"]

_TOOL = LLMToolDef("look", "Look something up.", {"type": "object", "properties": {"q": {"type": "string"}}})
_TEXT = 'Grüße, 世界 \U0001f44b \u2028 \u0085 {"a": "b\\n"}\n\n\tdata: x\n'
_CALLS_AT_ONCE = 8


def _conversation() -> list[LLMMessage]:
    """A conversation with everything in it that every provider can be sent."""
    return [
        LLMMessage.system("Be brief."),
        LLMMessage.user_with_blocks([TextBlock.new("What is this?"), ImageBlock.from_base64("aW1hZ2U=", "image/png")]),
        LLMMessage.assistant(
            [
                ReasoningBlock.new("I should look.", provenance="somebody else"),
                TextBlock.new("Let me look."),
                ToolUseBlock.new("call_1", "look", {"q": "x"}),
                ToolUseBlock.new("call_2", "look", {"q": ["y", None, 1.5]}),
            ]
        ),
        LLMMessage.tool([ToolResultBlock.new("call_1", "found")]),
        LLMMessage.tool([ToolResultBlock.new("call_2", "not found", is_error=True)]),
        LLMMessage.assistant("It is a picture."),
        LLMMessage.user("Thanks. And this?"),
    ]


@check(needs_server=False)
async def has_a_name_and_capabilities(rig: AdapterRig) -> None:
    async with rig.up(["Hello"]) as up:
        expect(isinstance(up.adapter, LLMAdapter), "an adapter has a name and chat(messages, options)")
        expect(up.adapter.name, "name must not be empty")
        known = getattr(up.adapter, "capabilities", None)
        expect(known is None or isinstance(known, AdapterCapabilities), f"capabilities are {type(known).__name__}")


@check(needs_server=False)
async def answers_with_blocks_of_an_assistant(rig: AdapterRig) -> None:
    async with rig.up(["Hello"]) as up:
        answer = await up.chat()
        expect(isinstance(answer, LLMResponse), f"chat returned {type(answer).__name__}, not an LLMResponse")
        LLMMessage.new(Role.ASSISTANT, answer.content)
        for name in ("id", "model", "stop_reason"):
            expect(isinstance(getattr(answer, name), str), f"{name} must be a text, got {getattr(answer, name)!r}")
        expect(answer.usage is None or isinstance(answer.usage, TokenUsage), f"usage is {answer.usage!r}")


@check()
async def answers_what_the_server_said(rig: AdapterRig) -> None:
    call = ToolUseBlock.new("call_1", "look", {"q": "Grüße \u2028", "n": [1, None, {"x": True}]})
    async with rig.up([_TEXT, [TextBlock.new("Let me look."), call]]) as up:
        answer = await up.chat()
        expect(answer.content == [TextBlock.new(_TEXT)], f"the text became {answer.content!r}")
        expect(answer.stop_reason == "end_turn", f"stop_reason is {answer.stop_reason!r}, not 'end_turn'")
        answer = await up.adapter.chat([LLMMessage.user("Look")], replace(up.options, tools=[_TOOL]))
        expect(answer.content == [TextBlock.new("Let me look."), call], f"the call became {answer.content!r}")
        expect(answer.stop_reason == "tool_use", f"stop_reason is {answer.stop_reason!r}, not 'tool_use'")


@check()
async def says_that_an_answer_was_cut(rig: AdapterRig) -> None:
    async with rig.up([Served("Once upon a", stop_reason="max_tokens")]) as up:
        answer = await up.chat()
        expect(answer.stop_reason == "max_tokens", f"stop_reason is {answer.stop_reason!r}, not 'max_tokens'")


@check()
async def tells_unknown_usage_from_zero(rig: AdapterRig) -> None:
    known = TokenUsage(input_tokens=12, output_tokens=5, cache_read_tokens=4)
    async with rig.up([Served("Hello", usage=known), "Hello"]) as up:
        usage = (await up.chat()).usage
        told = usage is not None and (usage.input_tokens, usage.output_tokens) == (12, 5)
        expect(told, f"12 tokens in and 5 out became {usage!r}")
        usage = (await up.chat()).usage
        expect(usage is None, f"no usage at all became {usage!r}")


@check(needs_server=False)
async def leaves_messages_and_options_alone(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        messages = _conversation()
        options = replace(up.options, tools=[_TOOL], stop=["END"], extra_body={"metadata": {"a": ["b"]}})
        before, options_before = copy_messages(messages), copy_options(options)
        await up.adapter.chat(messages, options)
        if up.streaming is not None:
            async for _ in up.streaming.stream(messages, options):
                pass
        expect(messages == before, "the messages were changed")
        expect(copy_options(options) == options_before, "the options were changed")


@check(needs_server=False)
async def takes_the_conversation_of_a_run(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        conversation = Conversation(_conversation())
        await up.adapter.chat(conversation, replace(up.options, tools=[_TOOL]))
        expect(list(conversation) == _conversation(), "the conversation was changed")


@check()
async def writes_requests_that_the_provider_takes(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello", strict=True) as up:
        await up.adapter.chat(_conversation(), replace(up.options, tools=[_TOOL]))
        await up.chat()
        expect(not up.server.complaints, f"the provider would say: {up.server.complaints}")


@check(needs_server=False)
async def refuses_invalid_messages_before_any_request(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        broken = LLMMessage.user("Hello")
        broken.content = "Hello"  # type: ignore[assignment]  # that is the point

        async def stream() -> object:
            return (
                None if up.streaming is None else [event async for event in up.streaming.stream([broken], up.options)]
            )

        await raised(InvalidMessageError, lambda: up.adapter.chat([broken], up.options), "chat with a broken message")
        if up.streaming is not None:
            await raised(InvalidMessageError, stream, "stream with a broken message")
        expect(not up.server.requests, "a request was made all the same")


@check(needs_server=False)
async def gives_answers_away(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        first = await up.chat()
        kept = copy.deepcopy(first.content)
        for block in [block for block in first.content if isinstance(block, TextBlock)]:
            block.text = "changed"
        first.content.clear()
        second = await up.chat()
        expect(second.content == kept, f"changing an answer changed the next one: {second.content!r}")


@check(needs_server=False)
async def can_be_copied_and_shows_no_key(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        await up.chat()
        twin = copy.deepcopy(up.adapter)
        await twin.chat([LLMMessage.user("Hello")], up.options)
        if twin is not up.adapter:
            await close_adapter(twin)
        for text in (repr(up.adapter), str(up.adapter)):
            expect(API_KEY not in text, f"the key is in {text!r}")


@check(needs_server=False)
async def can_be_closed_twice(rig: AdapterRig) -> None:
    async with rig.up(lambda _: "Hello") as up:
        await up.chat()
        close = getattr(up.adapter, "aclose", None)
        if close is not None:
            await close()
            await close()


@check()
async def keeps_calls_apart_that_are_made_at_once(rig: AdapterRig) -> None:
    def answer(request: FakeRequest) -> str:
        found = re.search(rb"question-\d", request.raw)
        return found.group().decode() if found else "none"

    wrong: list[str] = []
    async with rig.up(answer) as up:

        async def ask(number: int) -> None:
            text = f"question-{number}"
            response = await up.chat(text)
            if response.content != [TextBlock.new(text)]:
                wrong.append(f"{text} was answered with {response.content!r}")

        async with anyio.create_task_group() as tasks:
            for number in range(_CALLS_AT_ONCE):
                tasks.start_soon(ask, number)
    expect(not wrong, "; ".join(wrong))


@check(needs_server=False)
async def works_on_several_event_loops(rig: AdapterRig) -> None:
    loops = ["asyncio", "trio"] if importlib.util.find_spec("trio") else ["asyncio"]
    async with rig.up(lambda _: "Hello") as up:
        await up.chat()
        for loop in [*loops, *reversed(loops)]:
            await anyio.to_thread.run_sync(partial(anyio.run, _talk, up, backend=loop))
        await up.chat()


async def _talk(up: Rigged) -> None:
    await up.chat()
    await up.stream()
    await close_adapter(up.adapter)


ANSWER_CHECKS = (
    has_a_name_and_capabilities,
    answers_with_blocks_of_an_assistant,
    answers_what_the_server_said,
    says_that_an_answer_was_cut,
    tells_unknown_usage_from_zero,
    leaves_messages_and_options_alone,
    takes_the_conversation_of_a_run,
    writes_requests_that_the_provider_takes,
    refuses_invalid_messages_before_any_request,
    gives_answers_away,
    can_be_copied_and_shows_no_key,
    can_be_closed_twice,
    keeps_calls_apart_that_are_made_at_once,
    works_on_several_event_loops,
)

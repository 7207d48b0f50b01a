"""The suite for adapters: the built-in ones pass it, and one that does wrong is told what."""

from __future__ import annotations

import http.client
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from openmultiagent.adapters import (
    AnthropicAdapter,
    AzureOpenAIAdapter,
    BedrockAdapter,
    CopilotAdapter,
    EmbeddedAdapter,
    FallbackAdapter,
    GeminiAdapter,
    LLMAdapter,
    LLMChatOptions,
    LLMResponse,
    OpenAIAdapter,
    OpenAIResponsesAdapter,
    StreamEvent,
    TransportOptions,
)
from openmultiagent.errors import AdapterError, LLMServerError
from openmultiagent.messages import LLMMessage, TextBlock, ToolUseBlock, assert_valid_messages
from openmultiagent.testing import FakeProviderServer, ScriptedAdapter
from openmultiagent.testing.conformance import API_KEY, CHECKS, AdapterRig, Check, ConformanceError, check_adapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

ONCE = TransportOptions(max_retries=0)


def openai(server: FakeProviderServer) -> OpenAIAdapter:
    return OpenAIAdapter(base_url=server.openai_url, api_key=API_KEY, transport=ONCE)


def copilot(server: FakeProviderServer) -> CopilotAdapter:
    url = server.copilot_url
    return CopilotAdapter(API_KEY, base_url=url, github_url=url, github_api_url=url, transport=ONCE)


RIGS: dict[str, AdapterRig] = {
    "openai": AdapterRig(openai),
    "openai-responses": AdapterRig(
        lambda server: OpenAIResponsesAdapter(base_url=server.openai_url, api_key=API_KEY, transport=ONCE)
    ),
    "anthropic": AdapterRig(
        lambda server: AnthropicAdapter(base_url=server.anthropic_url, api_key=API_KEY, transport=ONCE)
    ),
    "gemini": AdapterRig(lambda server: GeminiAdapter(base_url=server.gemini_url, api_key=API_KEY, transport=ONCE)),
    "bedrock": AdapterRig(lambda server: BedrockAdapter(base_url=server.bedrock_url, api_key=API_KEY, transport=ONCE)),
    "copilot": AdapterRig(copilot),
    "azure-openai": AdapterRig(lambda server: AzureOpenAIAdapter(endpoint=server.url, api_key=API_KEY, transport=ONCE)),
    "embedded": AdapterRig(lambda _: EmbeddedAdapter(), against_server=False),
    "scripted": AdapterRig(lambda _: ScriptedAdapter(lambda messages, options: "Hello"), against_server=False),
}


ON_TRIO = ("openai", "bedrock", "embedded", "scripted")
"""One of those whose bodies are lines, one of frames, and those without a server: no protocol knows the loop."""


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize(
    ("anyio_backend", "rig"), [*[("asyncio", name) for name in RIGS], *[("trio", name) for name in ON_TRIO]]
)
@proves("TST-40")
async def test_the_built_in_adapters_conform(rig: str, check: Check) -> None:
    await check(RIGS[rig])


ERRORS_OF_ITS_OWN = {"tells_refusals_by_their_status", "tells_how_long_to_wait", "tells_a_broken_connection"}


@pytest.mark.parametrize("check", [check for check in CHECKS if check.name not in ERRORS_OF_ITS_OWN], ids=str)
@proves("TST-40")
async def test_a_fallback_conforms_but_for_its_errors_which_hold_several(check: Check) -> None:
    await check(AdapterRig(lambda server: FallbackAdapter([openai(server)], owned=True)))


class Wrapped:
    """An adapter that does what OpenAI's does; those below do one thing otherwise."""

    def __init__(self, server: FakeProviderServer) -> None:
        self.inner = openai(server)
        self.url = server.openai_url
        self.calls = 0
        self.kept: Any = None

    @property
    def name(self) -> str:
        return self.inner.name

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.calls += 1
        try:
            return await self.answer(messages, options)
        except AdapterError as error:
            return self.failed(error)

    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return self.changed(await self.inner.chat(messages, options))

    def changed(self, response: LLMResponse) -> LLMResponse:
        return response

    def failed(self, error: AdapterError) -> LLMResponse:
        raise error

    async def aclose(self) -> None:
        await self.inner.aclose()

    def __deepcopy__(self, memo: object) -> Wrapped:
        return self


class ChatOnly(Wrapped):
    """What cannot stream conforms, too."""


class Streaming(Wrapped):
    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        self.calls += 1
        async with aclosing(self.inner.stream(messages, options)) as events:
            async for event in events:
                for passed in self.passed(event):
                    yield passed

    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [event]


class Nameless(Wrapped):
    @property
    def name(self) -> str:
        return ""


class Boastful(Wrapped):
    capabilities = "all of them"


class Speechless(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        return cast("LLMResponse", "Hello")


class Deaf(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        return replace(response, content=[TextBlock.new("What?")])


class Content(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        return replace(response, stop_reason="end_turn")


class Thrifty(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        return replace(response, usage=response.usage or TokenUsage())


class Meddler(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        cast("list[LLMMessage]", messages).append(LLMMessage.user("PS"))
        return await super().answer(messages, options)


class Forgetful(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return await super().answer(messages[:3], options)


class Trusting(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([])


class Hoarder(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.kept = self.kept or await super().answer(messages, options)
        return cast("LLMResponse", self.kept)


class Chatty(Wrapped):
    def __repr__(self) -> str:
        return f"Chatty({API_KEY})"


class Brittle(Wrapped):
    async def aclose(self) -> None:
        await super().aclose()
        if self.kept:
            raise RuntimeError("closed already")
        self.kept = True


class Confused(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        self.kept = await super().answer(messages, options)
        await anyio.sleep(0.01)
        return cast("LLMResponse", self.kept)


class Homebody(Wrapped):
    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        home = anyio.lowlevel.current_token()
        self.kept = self.kept or home
        if self.kept != home:
            raise RuntimeError("another loop")
        return await super().answer(messages, options)


class Unending(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [event, event] if event.type == "done" else [event]


class Defeated(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [StreamEvent("error", LLMServerError("no", provider="openai"))] if event.type == "done" else [event]


class Mumbling(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [] if event.type == "text" else [event]


class Fickle(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        data = replace(event.data, id=f"{self.calls}") if isinstance(event.data, LLMResponse) else event.data
        return [StreamEvent(event.type, data)]


class Cheerful(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [StreamEvent("done", LLMResponse([]))] if event.type == "error" else [event]


class Hasty(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        return [StreamEvent("text", ""), event]


class Resigned(Streaming):
    def passed(self, event: StreamEvent) -> list[StreamEvent]:
        if isinstance(event.data, AdapterError):
            event.data.retryable = False
        return [event]


class Clinging(Streaming):
    """Goes on with its request in a thread when nobody waits for it any more."""

    async def answer(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        await anyio.to_thread.run_sync(partial(_ask, self.url), abandon_on_cancel=True)
        return LLMResponse([])

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        await self.answer(messages, options)
        yield StreamEvent("done", LLMResponse([]))


class Lingering(Clinging):
    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> AsyncIterator[StreamEvent]:
        threading.Thread(target=_ask, args=(self.url,)).start()
        yield StreamEvent("text", "")


def _ask(url: str) -> None:
    request = urllib.request.Request(f"{url}/chat/completions", b'{"model": "m", "stream": true}', method="POST")
    with (
        suppress(OSError, http.client.HTTPException),
        urllib.request.urlopen(request) as response,
    ):  # until the server ends
        response.read()


class Blaming(Wrapped):
    def failed(self, error: AdapterError) -> LLMResponse:
        raise LLMServerError(str(error), provider=self.name, status=error.status)


class Raw(Wrapped):
    def failed(self, error: AdapterError) -> LLMResponse:
        raise ValueError(str(error))


class Impatient(Wrapped):
    def failed(self, error: AdapterError) -> LLMResponse:
        error.retry_after = None
        raise error


class Indiscreet(Wrapped):
    def failed(self, error: AdapterError) -> LLMResponse:
        error.body = API_KEY
        raise error


class Unshaken(Wrapped):
    def failed(self, error: AdapterError) -> LLMResponse:
        return LLMResponse([])


class Guessing(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        calls = [block for block in response.content if isinstance(block, ToolUseBlock)]
        return replace(response, content=[ToolUseBlock(id=call.id, name=call.name, input={}) for call in calls])


class Uniform(Wrapped):
    def changed(self, response: LLMResponse) -> LLMResponse:
        for block in response.content:
            if isinstance(block, ToolUseBlock):
                block.id = "x"
        return response


@pytest.mark.parametrize(
    ("make", "check", "told"),
    [
        (Nameless, "has_a_name_and_capabilities", "name must not be empty"),
        (Boastful, "has_a_name_and_capabilities", "capabilities are str"),
        (Speechless, "answers_with_blocks_of_an_assistant", "chat returned str, not an LLMResponse"),
        (Deaf, "answers_what_the_server_said", "the text became"),
        (Content, "answers_what_the_server_said", "stop_reason is 'end_turn', not 'tool_use'"),
        (Content, "says_that_an_answer_was_cut", "stop_reason is 'end_turn', not 'max_tokens'"),
        (Thrifty, "tells_unknown_usage_from_zero", "no usage at all became TokenUsage"),
        (Meddler, "leaves_messages_and_options_alone", "the messages were changed"),
        (Meddler, "takes_the_conversation_of_a_run", "the conversation was changed"),
        (Forgetful, "writes_requests_that_the_provider_takes", "must be followed by tool messages"),
        (Trusting, "refuses_invalid_messages_before_any_request", "instead of InvalidMessageError"),
        (Hoarder, "gives_answers_away", "changing an answer changed the next one"),
        (Chatty, "can_be_copied_and_shows_no_key", "the key is in 'Chatty"),
        (Brittle, "can_be_closed_twice", "RuntimeError: closed already"),
        (Confused, "keeps_calls_apart_that_are_made_at_once", "was answered with"),
        (Homebody, "works_on_several_event_loops", "RuntimeError: another loop"),
        (Unending, "ends_a_stream_once_with_the_answer", "a stream ends with one done or error"),
        (Defeated, "ends_a_stream_once_with_the_answer", "the stream ended with"),
        (Mumbling, "ends_a_stream_once_with_the_answer", "the pieces of text are ''"),
        (Fickle, "streams_what_chat_returns", "done is not what chat returns"),
        (Mumbling, "reads_a_whole_answer_where_a_stream_was_asked_for", "the pieces of text are"),
        (Fickle, "reads_a_whole_answer_where_a_stream_was_asked_for", "the whole answer became"),
        (Fickle, "reads_streams_however_they_are_cut", "other events with split=1, crlf=False"),
        (Fickle, "ignores_what_it_does_not_know", "unknown and empty events changed the stream"),
        (Cheerful, "takes_a_stream_without_its_end_for_a_failure", "ended with StreamEvent(type='done'"),
        (Resigned, "takes_a_stream_without_its_end_for_a_failure", "can be tried again"),
        (Cheerful, "tells_a_failure_in_the_middle_as_an_error", "a failure in the middle ended with"),
        (Hasty, "tells_a_refused_stream_as_an_error", "a refusal has more events than one"),
        (Clinging, "closes_the_connection_when_a_stream_is_cancelled", "the connection stays open"),
        (Lingering, "closes_the_connection_when_a_stream_is_left", "the connection stays open"),
        (Clinging, "closes_the_connection_when_a_call_is_cancelled", "the connection stays open"),
        (Blaming, "tells_refusals_by_their_status", "status 400: LLMServerError instead of LLMBadRequestError"),
        (Raw, "tells_refusals_by_their_status", "status 400: ValueError instead of LLMBadRequestError"),
        (Impatient, "tells_how_long_to_wait", "Retry-After: 7 is told as None"),
        (Indiscreet, "shows_no_key_in_errors", "the key is in the error of status 401"),
        (Blaming, "tells_a_broken_connection", "LLMServerError instead of LLMConnectionError"),
        (Unshaken, "takes_anything_for_a_body", "the body b''"),
        (Guessing, "reports_arguments_that_cannot_be_read", "arguments that break off became"),
        (Guessing, "reads_arguments_in_the_wrong_form", "neither read nor refused"),
        (Uniform, "gives_every_call_an_id_of_its_own", "no_call_ids: the ids are ['x', 'x']"),
    ],
)
@proves("TST-41")
async def test_a_fault_is_told(make: Callable[[FakeProviderServer], LLMAdapter], check: str, told: str) -> None:
    (chosen,) = [each for each in CHECKS if each.name == check]
    with pytest.raises(ConformanceError) as caught:
        await chosen(AdapterRig(make, patience=0.05))
    assert str(caught.value).startswith(f"{check}: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("make", [ChatOnly, Streaming])
@proves("TST-40", "TST-42")
async def test_the_whole_suite_at_once(make: Callable[[FakeProviderServer], LLMAdapter]) -> None:
    await check_adapter(make)


@proves("TST-42")
async def test_all_faults_are_told_together() -> None:
    with pytest.raises(ConformanceError) as caught:
        await check_adapter(lambda server: cast("LLMAdapter", Thrifty(server)), model="m")
    assert str(caught.value).startswith(f"1 of {len(CHECKS)} checks failed:\ntells_unknown_usage_from_zero: ")


class Minimal:
    """As little as an adapter may be."""

    name = "minimal"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        assert_valid_messages(messages)
        return LLMResponse([TextBlock.new("Hello")])


@proves("TST-42")
async def test_checks_that_need_a_server_are_left_out_without_one() -> None:
    def make(server: FakeProviderServer) -> ScriptedAdapter:
        assert server.url.startswith("http://127.0.0.1:")
        return ScriptedAdapter(lambda messages, options: "Hello")

    await check_adapter(make, against_server=False)
    await check_adapter(lambda _: Minimal(), against_server=False)
    assert {check.needs_server for check in CHECKS} == {True, False}

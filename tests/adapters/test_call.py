"""A model call as middleware sees it: copies when looked at, nothing when not."""

from typing import Any

import pytest

from openmultiagent._middleware import compose
from openmultiagent.adapters import LLMChatOptions, LLMResponse, LLMToolDef, ModelCall, ModelNext, copy_options
from openmultiagent.messages import LLMMessage, TextBlock, ToolUseBlock
from tests.support import proves


def options() -> LLMChatOptions:
    return LLMChatOptions(
        model="m",
        tools=[LLMToolDef("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})],
        stop=["END"],
        extra_body={"nested": {"list": [1]}},
        temperature=0.0,
    )


def make_call(messages: list[LLMMessage] | None = None, **changes: Any) -> ModelCall:
    fields: dict[str, Any] = {
        "id": "run/turn-1",
        "run_id": "run",
        "agent": "writer",
        "turn": 1,
        "phase": "agent",
        "provider": "p",
        "messages": [LLMMessage.user("Hello")] if messages is None else messages,
        "options": options(),
        "sink": None,
    }
    return ModelCall(**{**fields, **changes})


def texts(call: ModelCall) -> list[str]:
    return [block.text for message in call.source for block in message.content if isinstance(block, TextBlock)]


def first_text(call: ModelCall) -> TextBlock:
    block = call.messages[0].content[0]
    assert isinstance(block, TextBlock)
    return block


def first_schema(chosen: LLMChatOptions) -> Any:
    return chosen.tools[0].input_schema


@proves("MID-9")
def test_messages_and_options_are_copied_when_they_are_first_read() -> None:
    conversation = [LLMMessage.user("Hello")]
    given = options()
    call = make_call(conversation, options=given)
    assert call.source is conversation
    assert call.source_options is given
    assert call.messages == conversation
    assert call.messages is call.messages
    assert call.messages is not conversation
    assert call.messages[0] is not conversation[0]
    assert call.options == copy_options(given)
    assert call.options is call.options
    assert call.source is call.messages
    assert call.source_options is call.options


@proves("MID-9")
def test_what_nobody_has_looked_at_is_passed_on_uncopied() -> None:
    call = make_call()
    inner = call.fork().fork()
    assert inner.source is call.source
    assert inner.source_options is call.source_options


@proves("MID-9")
def test_a_fork_has_copies_of_what_was_looked_at() -> None:
    call = make_call()
    first_text(call).text = "changed"
    first_schema(call.options)["properties"].clear()
    inner = call.fork()
    first_text(call).text = "changed again"
    call.messages.clear()
    first_schema(call.options)["type"] = "array"
    assert texts(inner) == ["changed"]
    assert first_schema(inner.source_options) == {"type": "object", "properties": {}}


@proves("MID-9")
def test_a_fork_keeps_every_other_field() -> None:
    class Sink:
        async def begin(self) -> None: ...

        async def deliver(self, event: object) -> None: ...

    call = make_call(sink=Sink(), phase="judge", turn=7)
    inner = call.fork()
    names = ("id", "run_id", "agent", "turn", "phase", "provider", "sink")
    assert [getattr(inner, name) for name in names] == [getattr(call, name) for name in names]


@proves("MID-10")
def test_replace_copies_what_it_is_given() -> None:
    call = make_call()
    messages, given = [LLMMessage.user("Other")], options()
    replaced = call.replace(messages=messages, options=given)
    messages.clear()
    first_schema(given).clear()
    assert texts(replaced) == ["Other"]
    assert "type" in first_schema(replaced.options)
    assert texts(call) == ["Hello"]


@proves("MID-10")
def test_a_replaced_call_does_not_see_what_is_done_to_the_first_one_later() -> None:
    call = make_call()
    first_text(call).text = "before"
    with_options = call.replace(options=options())
    with_messages = call.replace(messages=[LLMMessage.user("Other")])
    first_text(call).text = "after"
    call.messages.append(LLMMessage.user("more"))
    first_schema(call.options).clear()
    assert texts(with_options) == ["before"]
    assert "type" in first_schema(with_messages.source_options)


@proves("MID-10")
def test_replacing_by_nothing_replaces() -> None:
    replaced = make_call().replace(messages=[])
    assert list(replaced.source) == []
    assert replaced.messages == []


@proves("MID-11")
def test_copied_options_are_equal_and_share_nothing_mutable() -> None:
    given = options()
    copied = copy_options(given)
    assert (copied.model, copied.temperature) == ("m", 0.0)
    assert [tool.name for tool in copied.tools] == ["add"]
    given.tools.append(given.tools[0])  # type: ignore[attr-defined]
    given.stop.append("MORE")  # type: ignore[union-attr]
    given.extra_body["nested"]["list"].append(2)  # type: ignore[index]
    first_schema(given)["properties"]["a"].clear()
    assert len(copied.tools) == 1
    assert copied.stop == ("END",)
    assert copied.extra_body == {"nested": {"list": [1]}}
    assert first_schema(copied)["properties"] == {"a": {"type": "integer"}}


@proves("MID-11")
def test_options_without_anything_stay_without_anything() -> None:
    assert copy_options(LLMChatOptions(model="m")) == LLMChatOptions(model="m")
    assert copy_options(LLMChatOptions(model="m", stop=[], extra_body={})) == LLMChatOptions(
        model="m", stop=(), extra_body={}
    )


@proves("MID-4", "MID-9")
async def test_a_retry_does_not_see_what_the_first_attempt_did_to_messages_and_options() -> None:
    sent: list[list[str]] = []

    async def retrying(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        await call_next(call)
        return await call_next(call)

    async def poisoning(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        call.messages.append(LLMMessage.user(f"attempt {len(sent) + 1}"))
        return await call_next(call)

    async def adapter(call: ModelCall) -> LLMResponse:
        sent.append(texts(call))
        call.messages.clear()
        return LLMResponse([TextBlock.new("ok")])

    call = make_call()
    await compose([retrying, poisoning], adapter)(call)
    assert sent == [["Hello", "attempt 1"], ["Hello", "attempt 2"]]
    assert texts(call) == ["Hello"]


@proves("MID-9")
def test_inputs_of_tool_calls_in_the_conversation_are_copied_too() -> None:
    block = ToolUseBlock.new("c1", "add", {"numbers": [1]})
    call = make_call([LLMMessage.assistant([block])])
    seen: Any = call.messages[0].content[0]
    seen.input["numbers"].append(2)
    assert block.input == {"numbers": [1]}


@pytest.mark.parametrize("looked", [True, False])
def test_the_repr_says_which_call_it_is_without_its_content(looked: bool) -> None:
    call = make_call()
    if looked:
        call.messages.append(LLMMessage.user("secret"))
    assert repr(call) == f"<ModelCall 'run/turn-1' agent='writer' messages={1 + looked}>"

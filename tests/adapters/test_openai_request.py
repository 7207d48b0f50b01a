"""What is sent: the exact JSON for conversations and options."""

import copy
import json
from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMToolDef, OpenAIProfile, ReasoningCompression, ThinkingConfig
from openmultiagent.adapters._openai_request import _user_part, encode_request, max_tokens_field_for
from openmultiagent.errors import (
    ConfigurationError,
    InvalidMessageError,
    UnsupportedContentError,
    UnsupportedToolResultContentError,
)
from openmultiagent.messages import (
    Base64Source,
    Conversation,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultImagePart,
    ToolResultTextPart,
    ToolUseBlock,
    UrlSource,
)
from tests.support import proves
from tests.support.requests import Requests

PNG = Base64Source(media_type="image/png", data="aW1hZ2U=")
PDF = Base64Source(media_type="application/pdf", data="aW1hZ2U=")
JPG = UrlSource(url="https://example.com/a.jpg", media_type="image/jpeg")
SEARCH = LLMToolDef("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})


REQUESTS = Requests(encode_request, model="gpt-x", stream=False)
body_of, sent = REQUESTS.body, REQUESTS.turns


def user(*blocks: Any) -> LLMMessage:
    return LLMMessage.new("user", list(blocks))


# --- text, images, files ---------------------------------------------------------------------------------------------


@proves("MOD-9", "MOD-12", "MOD-15")
def test_the_smallest_request() -> None:
    options = LLMChatOptions(model="gpt-x")
    raw = encode_request([LLMMessage.user("Grüße 🎉\u2028")], options, stream=False)
    assert raw.decode() == ('{"model":"gpt-x","messages":[{"role":"user","content":"Grüße 🎉\u2028"}],"stream":false}')


@proves("MOD-12")
def test_blocks_keep_their_order() -> None:
    low = ImageBlock.from_url("https://example.com/a.png").with_detail("low")
    high = ImageBlock.from_url("data:image/png;base64,AAAA").with_detail("high")
    auto = ImageBlock.from_base64("AAAA", "image/png")
    file = FileBlock(filename="a.pdf", source=PDF)
    assert sent(user(TextBlock(text="1"), low, TextBlock(text=""), high, auto, file)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "1"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "text", "text": ""},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1hZ2U="},
                },
            ],
        }
    ]


@proves("MOD-12")
def test_an_image_alone_is_a_list() -> None:
    (message,) = sent(user(ImageBlock.from_url("https://example.com/a.png")))
    assert message["content"] == [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]


@proves("MOD-12", "MOD-2")
def test_a_file_that_is_only_a_url_is_refused() -> None:
    with pytest.raises(UnsupportedContentError, match="file-url") as caught:
        sent(user(FileBlock(filename="a.pdf", source=UrlSource(url="https://x.test/a", media_type="application/pdf"))))
    assert not caught.value.retryable


@pytest.mark.parametrize(("prompt", "lead"), [(None, []), ("", []), ("Be brief.", ["Be brief."])])
@proves("MOD-15")
def test_the_system_text_comes_first(prompt: str | None, lead: list[str]) -> None:
    messages = sent(LLMMessage.user("Hi"), system_prompt=prompt)
    assert messages == [
        *({"role": "system", "content": text} for text in lead),
        {"role": "user", "content": "Hi"},
    ]


@proves("MOD-15")
def test_system_messages_join_the_system_prompt() -> None:
    messages = sent(LLMMessage.system("one"), LLMMessage.user("Hi"), system_prompt="zero")
    assert messages[0] == {"role": "system", "content": "zero\n\none"}


# --- assistant messages ----------------------------------------------------------------------------------------------


@proves("MOD-13")
def test_an_assistant_message_with_text_and_calls() -> None:
    message = LLMMessage.assistant(
        [
            ReasoningBlock(text="hmm", provenance="openai"),
            TextBlock(text="I will "),
            ToolUseBlock(id="c1", name="search", input={"q": "é", "n": [1, None]}),
            TextBlock(text="search."),
        ]
    )
    assert sent(message) == [
        {
            "role": "assistant",
            "content": "I will search.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q":"é","n":[1,null]}'},
                }
            ],
        }
    ]


@pytest.mark.parametrize("empty", [None, ""])
@proves("MOD-13")
def test_calls_without_text(empty: str | None) -> None:
    message = LLMMessage.assistant([ToolUseBlock(id="c1", name="search", input={})])
    raw = encode_request([message], LLMChatOptions(model="m"), stream=False, empty_content=empty)
    assert json.loads(raw)["messages"][0]["content"] == empty


@pytest.mark.parametrize("content", [[], [TextBlock(text="")], [ReasoningBlock(text="hmm")]])
@proves("MOD-13")
def test_an_assistant_message_that_says_nothing_is_left_out(content: list[Any]) -> None:
    assert sent(LLMMessage.user("Hi"), LLMMessage.assistant(content)) == [{"role": "user", "content": "Hi"}]


# --- tool results ----------------------------------------------------------------------------------------------------


def tool_result(call: str, content: Any, **more: Any) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call, content=content, **more)


@proves("MOD-10", "MOD-11")
def test_results_come_before_the_users_own_words() -> None:
    message = user(TextBlock(text="go on"), tool_result("c1", "42"), tool_result("c2", "no", is_error=True))
    assert sent(message) == [
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "[tool error] no"},
        {"role": "user", "content": "go on"},
    ]


@proves("MOD-10", "MOD-11")
def test_media_of_results_follow_in_a_user_message() -> None:
    first = tool_result(
        "c1",
        [
            ToolResultTextPart(text="two pictures"),
            ToolResultImagePart(source=PNG),
            ToolResultImagePart(source=JPG),
        ],
    )
    second = tool_result("c2", [ToolResultFilePart(filename="a.pdf", source=PDF)])
    third = tool_result("c3", [ToolResultTextPart(text="just text")])
    assert sent(user(first, second, third, TextBlock(text="see above"))) == [
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [
                {"type": "text", "text": "two pictures"},
                {"type": "text", "text": "[2 tool-result attachment(s) follow in the next user message.]"},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": [{"type": "text", "text": "[1 tool-result attachment(s) follow in the next user message.]"}],
        },
        {"role": "tool", "tool_call_id": "c3", "content": [{"type": "text", "text": "just text"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Attachments for tool call c1:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1hZ2U="}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
                {"type": "text", "text": "Attachments for tool call c2:"},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1hZ2U="},
                },
                {"type": "text", "text": "see above"},
            ],
        },
    ]


@proves("MOD-10")
def test_results_alone_need_no_user_message() -> None:
    messages = sent(LLMMessage.tool([tool_result("c1", "42")]), LLMMessage.assistant("So it is 42."))
    assert [message["role"] for message in messages] == ["tool", "assistant"]


@pytest.mark.parametrize("role", ["user", "tool"])
@proves("MOD-11")
def test_results_stand_together_also_when_they_come_one_by_one(role: str) -> None:
    picture = [ToolResultImagePart(source=PNG)]
    messages = sent(
        LLMMessage.new(role, [tool_result("c1", picture)]),
        LLMMessage.new(role, [tool_result("c2", picture)]),
        LLMMessage.user("and?"),
        LLMMessage.assistant("hm"),
        LLMMessage.new(role, [tool_result("c3", picture)]),
    )
    roles = [message["role"] for message in messages]
    assert roles[:2] == ["tool", "tool"]
    assert "tool" not in roles[2 : roles.index("assistant")]
    assert roles[roles.index("assistant") :] == ["assistant", "tool", "user"]


@proves("MOD-10", "MOD-2")
def test_a_file_url_in_a_result_is_refused() -> None:
    source = UrlSource(url="https://x.test/a.pdf", media_type="application/pdf")
    with pytest.raises(UnsupportedToolResultContentError, match="file-url"):
        sent(user(tool_result("c1", [ToolResultFilePart(filename="a.pdf", source=source)])))


# --- options ---------------------------------------------------------------------------------------------------------


@proves("MOD-9")
def test_every_setting_has_its_field() -> None:
    body = body_of(
        [LLMMessage.user("Hi")],
        tools=[SEARCH],
        max_tokens=5,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        frequency_penalty=1.0,
        presence_penalty=-1.0,
        stop=("END",),
        seed=0,
        parallel_tool_calls=False,
        tool_choice="required",
        thinking=ThinkingConfig(effort="low"),
    )
    del body["messages"]
    assert body == {
        "model": "gpt-x",
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "frequency_penalty": 1.0,
        "presence_penalty": -1.0,
        "stop": ["END"],
        "seed": 0,
        "parallel_tool_calls": False,
        "tool_choice": "required",
        "reasoning_effort": "low",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Searches.",
                    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
                },
            }
        ],
        "stream": False,
    }


@proves("MOD-9", "MOD-3")
def test_a_stream_asks_for_its_usage() -> None:
    body = body_of([LLMMessage.user("Hi")], stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("search", {"type": "function", "function": {"name": "search"}}),
        (None, None),
    ],
)
@proves("MOD-9")
def test_a_choice_of_tool(choice: str | None, field: object) -> None:
    assert body_of([LLMMessage.user("Hi")], tools=[SEARCH], tool_choice=choice).get("tool_choice") == field


@proves("MOD-9")
def test_settings_about_tools_are_not_sent_without_tools() -> None:
    body = body_of([LLMMessage.user("Hi")], tool_choice="auto", parallel_tool_calls=False, tools=())
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        (None, None),
        (ThinkingConfig(effort="high"), "high"),
        (ThinkingConfig(effort="max"), None),
        (ThinkingConfig(budget_tokens=500), None),
    ],
)
@proves("MOD-9")
def test_effort(thinking: ThinkingConfig | None, effort: str | None) -> None:
    assert body_of([LLMMessage.user("Hi")], thinking=thinking).get("reasoning_effort") == effort


@proves("MOD-7")
def test_extra_fields_win_over_settings_but_not_over_the_request_itself() -> None:
    extra = {
        "temperature": 1.5,
        "reasoning_effort": "minimal",
        "repetition_penalty": 1.1,
        "metadata": MappingProxyType({"a": "b"}),
        "model": "evil",
        "messages": [],
        "tools": [],
        "stream": True,
        "stream_options": {},
    }
    body = body_of([LLMMessage.user("Hi")], temperature=0.1, thinking=ThinkingConfig(effort="low"), extra_body=extra)
    assert body == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
        "temperature": 1.5,
        "reasoning_effort": "minimal",
        "repetition_penalty": 1.1,
        "metadata": {"a": "b"},
    }


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("gpt-4o", "max_tokens"),
        ("llama-o1", "max_tokens"),
        ("o1", "max_completion_tokens"),
        ("o3-mini", "max_completion_tokens"),
        ("o4-mini", "max_completion_tokens"),
        ("gpt-5-nano", "max_completion_tokens"),
        ("openai/gpt-5", "max_completion_tokens"),
        ("ft:gpt-5-mini:acme", "max_completion_tokens"),
    ],
)
@proves("MOD-14")
def test_the_field_for_the_limit_of_the_answer(model: str, field: str) -> None:
    assert max_tokens_field_for(model) == field
    raw = encode_request([LLMMessage.user("Hi")], LLMChatOptions(model=model, max_tokens=9), stream=False)
    assert json.loads(raw)[field] == 9


@proves("MOD-14")
def test_an_adapter_can_be_told_the_field() -> None:
    options = LLMChatOptions(model="o3", max_tokens=9)
    raw = encode_request([LLMMessage.user("Hi")], options, stream=False, max_tokens_field="max_tokens")
    assert json.loads(raw)["max_tokens"] == 9


@pytest.mark.parametrize("extra", [{"a": object()}, {"a": float("nan")}, {"a": "\ud800"}, {"a": {1, 2}}, {("a",): 1}])
@proves("MOD-2", "MOD-15")
def test_options_that_are_no_json_are_refused(extra: dict[Any, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be written as JSON.*extra_body"):
        body_of([LLMMessage.user("Hi")], extra_body=extra)


@pytest.mark.parametrize("messages", [None, "Hi", [None], [{"role": "user", "content": "text"}]])
@proves("MOD-2")
def test_invalid_messages_are_refused(messages: Any) -> None:
    with pytest.raises(InvalidMessageError, match="messages"):
        body_of(messages)


@proves("MOD-2")
def test_a_block_that_was_changed_after_it_was_checked_is_refused() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    message = user(image)
    image = message.content[0]  # type: ignore[assignment]
    assert isinstance(image.source, UrlSource)
    image.source.url = "file:///etc/passwd"
    with pytest.raises(InvalidMessageError):
        body_of([message])


@proves("MOD-2")
def test_a_runs_own_conversation_is_read_in_place() -> None:
    assert sent(*Conversation([LLMMessage.user("Hi")])) == body_of(Conversation([LLMMessage.user("Hi")]))["messages"]


@proves("MOD-2")
def test_mappings_like_messages_are_messages() -> None:
    mapping = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
    assert body_of([mapping])["messages"] == [{"role": "assistant", "content": "Hi"}]


@proves("MOD-12", "MOD-13")
def test_fields_that_were_set_to_plain_strings_mean_the_same() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    image.detail = "low"  # type: ignore[assignment]
    message = LLMMessage.user("Hi")
    message.role = "assistant"  # type: ignore[assignment]
    look, hi = sent(user(image), message)
    assert look["content"][0]["image_url"]["detail"] == "low"
    assert hi == {"role": "assistant", "content": "Hi"}


@proves("MOD-2")
def test_a_block_that_the_protocol_does_not_know_is_refused() -> None:
    with pytest.raises(UnsupportedContentError, match="ReasoningBlock"):
        _user_part(ReasoningBlock(text="hmm"))


@proves("MOD-1")
def test_nothing_is_changed() -> None:
    messages = [
        LLMMessage.system("s"),
        user(TextBlock(text="1"), ImageBlock.from_url("https://example.com/a.png")),
        LLMMessage.assistant([ToolUseBlock(id="c", name="search", input={"q": [1]})]),
        LLMMessage.tool([tool_result("c", [ToolResultImagePart(source=PNG)])]),
    ]
    extra = {"a": {"b": [1]}}
    before = copy.deepcopy((messages, extra))
    body_of(messages, extra_body=extra, tools=[SEARCH])
    assert (messages, extra) == before


# --- servers that differ ---------------------------------------------------------------------------------------------


def body_for(profile: OpenAIProfile, *, stream: bool = False, **options: Any) -> dict[str, Any]:
    raw = encode_request(
        [LLMMessage.user("Hi")], LLMChatOptions(model="m", **options), stream=stream, provider="x", profile=profile
    )
    body: dict[str, Any] = json.loads(raw)
    return body


@pytest.mark.parametrize(
    ("form", "thinking", "fields"),
    [
        (None, ThinkingConfig(enabled=True, budget_tokens=9), {}),
        ("thinking", None, {}),
        ("thinking", ThinkingConfig(enabled=True), {"thinking": {"type": "enabled"}}),
        ("thinking", ThinkingConfig(enabled=False), {"thinking": {"type": "disabled"}}),
        ("enable_thinking", ThinkingConfig(budget_tokens=9), {"enable_thinking": True, "thinking_budget": 9}),
        ("enable_thinking", ThinkingConfig(enabled=False, budget_tokens=9), {"enable_thinking": False}),
        ("thinking", ThinkingConfig(effort="max"), {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
    ],
)
@proves("PRO-5")
def test_the_thinking_switch(form: Any, thinking: ThinkingConfig | None, fields: dict[str, Any]) -> None:
    body = body_for(OpenAIProfile(thinking=form, efforts=frozenset({"max"})), thinking=thinking)
    assert {key: body[key] for key in body if "think" in key or "effort" in key} == fields


@proves("PRO-5", "MOD-7")
def test_extra_fields_win_over_the_thinking_switch() -> None:
    extra = {"thinking": {"type": "auto"}, "reasoning_effort": "minimal"}
    body = body_for(
        OpenAIProfile(thinking="thinking"), thinking=ThinkingConfig(effort="low"), extra_body=extra, stream=True
    )
    assert (body["thinking"], body["reasoning_effort"]) == ({"type": "auto"}, "minimal")


@proves("PRO-5")
def test_fields_that_a_server_refuses_or_calls_otherwise() -> None:
    profile = OpenAIProfile(
        unsent=frozenset({"top_k"}),
        seed_field="random_seed",
        max_tokens_field="max_tokens",
        usage_on_request=False,
        takes_extra_body=False,
    )
    body = body_for(profile, top_k=3, seed=7, max_tokens=5, extra_body={"x": 1}, stream=True)
    del body["messages"]
    assert body == {"model": "m", "random_seed": 7, "max_tokens": 5, "stream": True}
    assert body_for(OpenAIProfile(unsent=frozenset({"top_k"})), extra_body={"top_k": 3})["top_k"] == 3


TRIP = {"title": "Trip", "type": "object", "properties": {"to": {"type": "string"}}}
STRICT_TRIP = {**TRIP, "required": ["to"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("profile", "schema", "response_format"),
    [
        (
            OpenAIProfile(),
            TRIP,
            {"type": "json_schema", "json_schema": {"name": "Trip", "schema": STRICT_TRIP, "strict": True}},
        ),
        (
            OpenAIProfile(),
            {"type": "object"},
            {"type": "json_schema", "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": False}},
        ),
        (OpenAIProfile(), {"type": "array"}, None),
        (
            OpenAIProfile(strict_schemas=False),
            TRIP,
            {"type": "json_schema", "json_schema": {"name": "Trip", "schema": TRIP, "strict": True}},
        ),
        (OpenAIProfile(structured_output="json_object"), TRIP, {"type": "json_object", "schema": TRIP}),
        (OpenAIProfile(structured_output=None), TRIP, None),
        (OpenAIProfile(), None, None),
    ],
)
@proves("MOD-49")
def test_an_output_schema(profile: OpenAIProfile, schema: Any, response_format: Any) -> None:
    assert body_for(profile, output_schema=schema).get("response_format") == response_format


@proves("MOD-49", "MOD-7")
def test_extra_fields_win_over_the_output_schema() -> None:
    extra = {"response_format": {"type": "text"}}
    assert body_for(OpenAIProfile(), output_schema=TRIP, extra_body=extra)["response_format"] == {"type": "text"}


# --- reasoning -------------------------------------------------------------------------------------------------------


def echoed(
    *messages: LLMMessage, echoes: Any = "tool-use-only", provider: str = "deepseek", **options: Any
) -> list[dict[str, Any]]:
    raw = encode_request(
        messages,
        LLMChatOptions(model="m", **options),
        stream=False,
        provider=provider,
        profile=OpenAIProfile(echoes_reasoning=echoes),
    )
    made: list[dict[str, Any]] = json.loads(raw)["messages"]
    return made


def thought(text: str, provenance: str | None = "deepseek", **more: Any) -> ReasoningBlock:
    return ReasoningBlock(text=text, provenance=provenance, **more)


CALL = ToolUseBlock(id="c1", name="search", input={})
RESULT = LLMMessage.tool([ToolResultBlock(tool_use_id="c1", content="42")])


@proves("MOD-43")
def test_a_server_gets_its_own_reasoning_back_in_a_conversation_with_tools() -> None:
    messages = echoed(
        LLMMessage.assistant([thought("a"), thought("b"), CALL]),
        RESULT,
        LLMMessage.assistant([thought("c"), TextBlock(text="42")]),
        LLMMessage.assistant([thought("d")]),
        LLMMessage.assistant("no thought"),
    )
    assert [message.get("reasoning_content") for message in messages] == ["ab", None, "c", None]
    assert messages[0]["content"] is None
    assert messages[2]["content"] == "42"


@pytest.mark.parametrize("preserve", [None, True])
@proves("MOD-43")
def test_without_tools_it_gets_none_and_no_text_either(preserve: bool | None) -> None:
    messages = echoed(LLMMessage.assistant([thought("a"), TextBlock(text="x")]), preserve_reasoning_as_text=preserve)
    assert messages == [{"role": "assistant", "content": "x"}]


@pytest.mark.parametrize(
    "block",
    [thought("a", "openai"), thought("a", None), thought("a", ""), thought("a", redacted_data="zzz"), thought("")],
)
@proves("MOD-43")
def test_foreign_and_redacted_reasoning_is_not_sent_back(block: ReasoningBlock) -> None:
    (message, _) = echoed(LLMMessage.assistant([block, CALL]), RESULT)
    assert "reasoning_content" not in message


@proves("MOD-43")
def test_other_servers_get_none() -> None:
    block = thought("a", "openai")
    (message, _) = echoed(LLMMessage.assistant([block, CALL]), RESULT, echoes="never", provider="openai")
    assert "reasoning_content" not in message


def text_of(*blocks: Any, **options: Any) -> Any:
    messages = echoed(LLMMessage.assistant(list(blocks)), echoes="never", provider="openai", **options)
    return messages[0]["content"] if messages else None


@proves("MOD-44")
def test_reasoning_as_text_stands_in_front_of_the_text() -> None:
    foreign = thought("hmm", "anthropic")
    redacted = thought("", "anthropic", redacted_data="zzz")
    answer = TextBlock(text="So.")
    assert text_of(foreign, answer) == "So."
    assert text_of(foreign, answer, preserve_reasoning_as_text=True) == "<thinking>hmm</thinking>So."
    assert text_of(answer, foreign, preserve_reasoning_as_text=True) == "So.<thinking>hmm</thinking>"
    assert text_of(redacted, answer, preserve_reasoning_as_text=True) == "<thinking>[redacted]</thinking>So."
    assert text_of(foreign, preserve_reasoning_as_text=True) == "<thinking>hmm</thinking>"
    assert text_of(foreign) is None
    assert text_of(thought("", "anthropic"), preserve_reasoning_as_text=True) is None


@pytest.mark.parametrize(
    ("compress", "length"),
    [(None, 1_200), (True, 1_200), (False, 5_000), (ReasoningCompression(min_chars=32), 32)],
)
@proves("MOD-44")
def test_reasoning_as_text_is_cut(compress: Any, length: int) -> None:
    text = text_of(thought("x" * 5_000), preserve_reasoning_as_text=True, compress_reasoning_text=compress)
    inner = text.removeprefix("<thinking>").removesuffix("</thinking>")
    assert len(inner) == length
    assert ("...[truncated]..." in inner) == (length < 5_000)

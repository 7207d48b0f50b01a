"""What the Responses API is sent."""

import copy
from types import MappingProxyType
from typing import Any

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMToolDef, ThinkingConfig
from openmultiagent.adapters._responses_request import _part, encode_request, join_signature, split_signature
from openmultiagent.errors import ConfigurationError, InvalidMessageError, UnsupportedContentError
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
PDF_URL = UrlSource(url="https://example.com/a.pdf", media_type="application/pdf")
SEARCH = LLMToolDef("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolUseBlock(id="c1", name="search", input={"q": "é"})


REQUESTS = Requests(encode_request, model="gpt-5", turns="input", stream=False, adapter_name="openai")
body_of, sent = REQUESTS.body, REQUESTS.turns


@proves("RSP-1", "RSP-2")
def test_the_smallest_request() -> None:
    raw = encode_request(
        [LLMMessage.user("Grüße 🎉\u2028")], LLMChatOptions(model="gpt-5"), stream=False, adapter_name="openai"
    )
    assert raw.decode() == (
        '{"store":false,"include":["reasoning.encrypted_content"],"model":"gpt-5",'
        '"input":[{"role":"user","content":"Grüße 🎉\u2028"}],"stream":false}'
    )


@pytest.mark.parametrize(
    ("model", "asks"),
    [("gpt-5-mini", True), ("o3", True), ("gpt-4o", False), ("gpt-4.1", False), ("gpt-3.5-turbo", False), ("x", True)],
)
@proves("RSP-2")
def test_encrypted_reasoning_is_asked_for_where_there_is_reasoning(model: str, asks: bool) -> None:
    body = body_of(model=model)
    assert ("include" in body) == asks
    assert body["store"] is False


@proves("RSP-3")
def test_every_setting_that_has_a_field() -> None:
    body = body_of(
        stream=True,
        system_prompt="Be brief.",
        tools=[SEARCH],
        max_tokens=5,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        frequency_penalty=1.0,
        presence_penalty=1.0,
        stop=("END",),
        seed=0,
        parallel_tool_calls=False,
        tool_choice="required",
        thinking=ThinkingConfig(effort="max"),
    )
    del body["input"], body["include"], body["store"]
    assert body == {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "max_output_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "parallel_tool_calls": False,
        "tool_choice": "required",
        "reasoning": {"effort": "max", "summary": "auto"},
        "tools": [
            {
                "type": "function",
                "name": "search",
                "description": "Searches.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
                "strict": False,
            }
        ],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        (None, None),
        (ThinkingConfig(enabled=False, effort="low"), None),
        (ThinkingConfig(), {"summary": "auto"}),
        (ThinkingConfig(effort="low"), {"effort": "low", "summary": "auto"}),
    ],
)
@proves("RSP-3")
def test_reasoning_settings(thinking: ThinkingConfig | None, reasoning: Any) -> None:
    assert body_of(thinking=thinking).get("reasoning") == reasoning


@pytest.mark.parametrize(
    ("choice", "field"), [("auto", "auto"), ("none", "none"), ("search", {"type": "function", "name": "search"})]
)
@proves("RSP-3")
def test_a_choice_of_tool(choice: str, field: object) -> None:
    assert body_of(tools=[SEARCH], tool_choice=choice)["tool_choice"] == field
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body_of(tool_choice=choice, tools=()).keys()


@proves("RSP-4")
def test_an_output_schema() -> None:
    schema = {"title": "Trip", "type": "object", "properties": {"to": {"type": "string"}}}
    assert body_of(output_schema=schema)["text"] == {
        "format": {
            "type": "json_schema",
            "name": "Trip",
            "schema": {**schema, "required": ["to"], "additionalProperties": False},
            "strict": True,
        }
    }
    assert body_of(output_schema={"type": "object"})["text"]["format"]["strict"] is False
    assert "text" not in body_of(output_schema={"type": "string"})


@proves("RSP-5")
def test_extra_fields_win_over_settings_but_not_over_the_request_itself() -> None:
    extra = {
        "temperature": 1.5,
        "metadata": MappingProxyType({"a": "b"}),
        "include": [],
        "model": "evil",
        "input": [],
        "instructions": "evil",
        "tools": [],
        "stream": True,
    }
    body = body_of(temperature=0.1, extra_body=extra)
    del body["input"]
    assert body == {
        "temperature": 1.5,
        "store": False,
        "include": [],
        "metadata": {"a": "b"},
        "model": "gpt-5",
        "stream": False,
    }


@proves("RSP-6")
def test_user_messages() -> None:
    low = ImageBlock.from_url("https://example.com/a.png").with_detail("low")
    blocks: list[Any] = [
        TextBlock(text="1"),
        low,
        ImageBlock.from_base64("AAAA", "image/png"),
        FileBlock(filename="a.pdf", source=PDF),
        FileBlock(filename="b.pdf", source=PDF_URL),
    ]
    assert sent(LLMMessage.new("user", blocks), LLMMessage.user("")) == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "1"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1hZ2U="},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            ],
        },
        {"role": "user", "content": ""},
    ]


@proves("RSP-6")
def test_system_messages_become_instructions() -> None:
    body = body_of(LLMMessage.system("one"), LLMMessage.user("Hi"), system_prompt="zero")
    assert body["instructions"] == "zero\n\none"
    assert "instructions" not in body_of(system_prompt="")


@proves("RSP-7")
def test_assistant_messages_are_items_in_their_order() -> None:
    message = LLMMessage.assistant(
        [
            TextBlock(text="a"),
            TextBlock(text="b"),
            ReasoningBlock(text="hmm", signature=join_signature("rs_1", "enc"), provenance="openai"),
            CALL,
            TextBlock(text="c"),
            ReasoningBlock(text="", signature=join_signature("", "enc2"), provenance="openai"),
        ]
    )
    assert sent(message, LLMMessage.assistant("")) == [
        {"role": "assistant", "content": "ab"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hmm"}],
            "encrypted_content": "enc",
        },
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":"é"}'},
        {"role": "assistant", "content": "c"},
        {"type": "reasoning", "summary": [], "encrypted_content": "enc2"},
    ]


@proves("RSP-8")
def test_reasoning_of_others_is_left_out_or_text() -> None:
    foreign = [
        ReasoningBlock(text="x", signature="sig", provenance="anthropic"),
        ReasoningBlock(text="y", provenance="openai"),
        ReasoningBlock(text="", redacted_data="zzz", provenance="openai"),
    ]
    message = LLMMessage.assistant([*foreign, TextBlock(text="So.")])
    assert sent(message) == [{"role": "assistant", "content": "So."}]
    (kept,) = sent(message, preserve_reasoning_as_text=True)
    assert kept["content"] == "<thinking>x</thinking><thinking>y</thinking><thinking>[redacted]</thinking>So."
    assert sent(LLMMessage.assistant(foreign)) == []


@pytest.mark.parametrize("item_id", ["", "rs_68"])
@proves("RSP-8")
def test_a_signature_holds_id_and_content(item_id: str) -> None:
    assert split_signature(join_signature(item_id, "gAAA:b==")) == (item_id, "gAAA:b==")


@proves("RSP-9")
def test_tool_results() -> None:
    message = LLMMessage.new(
        "user",
        [
            TextBlock(text="go on"),
            ToolResultBlock(tool_use_id="c1", content="42"),
            ToolResultBlock(tool_use_id="c2", content="no", is_error=True),
            ToolResultBlock(
                tool_use_id="c3",
                content=[
                    ToolResultTextPart(text="see"),
                    ToolResultImagePart(source=PNG),
                    ToolResultImagePart(source=UrlSource(url="https://example.com/a.png", media_type="image/png")),
                    ToolResultFilePart(filename="a.pdf", source=PDF),
                    ToolResultFilePart(filename="b.pdf", source=PDF_URL),
                ],
            ),
        ],
    )
    assert sent(message) == [
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        {"type": "function_call_output", "call_id": "c2", "output": "[tool error] no"},
        {
            "type": "function_call_output",
            "call_id": "c3",
            "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,aW1hZ2U=", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1hZ2U="},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            ],
        },
        {"role": "user", "content": "go on"},
    ]
    assert [item["type"] for item in sent(LLMMessage.tool([ToolResultBlock(tool_use_id="c", content="x")]))] == [
        "function_call_output"
    ]


@pytest.mark.parametrize("messages", [["text"], [{"role": "user", "content": "text"}]])
@proves("RSP-1")
def test_invalid_messages_are_refused(messages: list[Any]) -> None:
    with pytest.raises(InvalidMessageError, match="messages"):
        body_of(*messages)


@proves("RSP-1")
def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        body_of(extra_body={"a": object()})
    with pytest.raises(UnsupportedContentError, match="ReasoningBlock"):
        _part(ReasoningBlock(text="hmm"))


@proves("RSP-1")
def test_nothing_is_changed_and_a_runs_own_conversation_is_read_in_place() -> None:
    messages = Conversation([LLMMessage.system("s"), LLMMessage.user("Hi"), LLMMessage.assistant([CALL])])
    before = copy.deepcopy(list(messages))
    encode_request(messages, LLMChatOptions(model="m", check_history=False), stream=True, adapter_name="openai")
    assert list(messages) == before

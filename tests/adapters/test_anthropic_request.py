"""What goes out: conversations and options as bodies of Anthropic's Messages protocol."""

import copy
import json
from typing import Any

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMToolDef, ThinkingConfig
from openmultiagent.adapters._anthropic_request import encode_request
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
    copy_messages,
)
from tests.support import proves
from tests.support.requests import HI, Requests

TOOL = LLMToolDef("search", "Find things", {"type": "object", "properties": {"q": {"type": "string"}}})
PNG = Base64Source(media_type="image/png", data="aW1hZ2U=")
PDF = Base64Source(media_type="application/pdf", data="cGRm")
MARK = {"type": "ephemeral"}
GO_ON = {"role": "user", "content": [{"type": "text", "text": "Continue."}]}


REQUESTS = Requests(encode_request, model="claude-x", stream=False)
body, messages = REQUESTS.body, REQUESTS.turns


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


# --- the body --------------------------------------------------------------------------------------------------------


@proves("ANT-3", "MOD-15")
def test_the_bytes_of_a_small_request() -> None:
    options = LLMChatOptions(model="claude-x", system_prompt="Be brief.", temperature=0.5)
    assert encode_request([LLMMessage.user("Grüß dich")], options, stream=False).decode() == (
        '{"max_tokens":4096,"temperature":0.5,"model":"claude-x",'
        '"messages":[{"role":"user","content":[{"type":"text","text":"Grüß dich"}]}],"system":"Be brief."}'
    )


@proves("ANT-3")
def test_a_stream_is_asked_for() -> None:
    assert body(stream=True)["stream"] is True
    assert "stream" not in body()


@proves("ANT-3")
def test_settings_have_their_fields() -> None:
    sent = body(max_tokens=7, temperature=0.0, top_p=0.9, top_k=5, stop=("END", "STOP"))
    assert {key: sent[key] for key in ("max_tokens", "temperature", "top_p", "top_k", "stop_sequences")} == {
        "max_tokens": 7,
        "temperature": 0.0,
        "top_p": 0.9,
        "top_k": 5,
        "stop_sequences": ["END", "STOP"],
    }


@proves("ANT-3")
def test_what_the_protocol_has_no_word_for_is_left_out() -> None:
    sent = body(min_p=0.1, frequency_penalty=1.0, presence_penalty=1.0, seed=7)
    assert sorted(sent) == ["max_tokens", "messages", "model"]


@pytest.mark.parametrize("system", [None, "", "  \n"])
@proves("ANT-3")
def test_an_empty_system_text_is_not_sent(system: str | None) -> None:
    assert "system" not in body(system_prompt=system)


@proves("ANT-3")
def test_the_system_text_is_that_of_the_call_and_of_the_messages() -> None:
    sent = body([LLMMessage.system("Second."), LLMMessage.user("Hi")], system_prompt="First.")
    assert sent["system"] == "First.\n\nSecond."
    assert [message["role"] for message in sent["messages"]] == ["user"]


@proves("ANT-4", "MOD-7")
def test_extra_fields_win_over_settings_but_replace_no_structure() -> None:
    extra = {
        "temperature": 1.0,
        "metadata": {"user_id": "u"},
        "model": "other",
        "messages": [],
        "tools": [],
        "system": "spoofed",
        "stream": True,
        "stream_options": {},
        "top_k": None,
    }
    sent = body(temperature=0.0, top_k=3, extra_body=extra)
    assert sent == {
        "max_tokens": 4096,
        "temperature": 1.0,
        "top_k": 3,
        "metadata": {"user_id": "u"},
        "model": "claude-x",
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }


@proves("ANT-4")
def test_extra_thinking_passes_only_without_a_thinking_config() -> None:
    extra = {"thinking": {"type": "adaptive", "display": "summarized"}}
    assert body(extra_body=extra)["thinking"] == extra["thinking"]
    assert "thinking" not in body(extra_body=extra, thinking=ThinkingConfig(enabled=False))
    sent = body(extra_body=extra, thinking=ThinkingConfig())
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 1024}


@proves("ANT-4", "MOD-2")
def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        body(extra_body={"a": object()})


# --- tools -----------------------------------------------------------------------------------------------------------


@proves("ANT-5")
def test_tools() -> None:
    bare = LLMToolDef("now", "", {"properties": {}})
    assert body(tools=[TOOL, bare])["tools"] == [
        {
            "name": "search",
            "description": "Find things",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
        {"name": "now", "description": "", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("auto", True, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", None, {"type": "none"}),
        ("none", False, {"type": "none"}),
        ("search", None, {"type": "tool", "name": "search"}),
        ("search", False, {"type": "tool", "name": "search", "disable_parallel_tool_use": True}),
    ],
)
@proves("ANT-5")
def test_tool_choice(choice: str | None, parallel: bool | None, sent: Any) -> None:
    assert body(tools=[TOOL], tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == sent
    without = body(tool_choice=choice, parallel_tool_calls=parallel)
    assert "tool_choice" not in without
    assert "tools" not in without


# --- messages --------------------------------------------------------------------------------------------------------


@proves("ANT-1")
def test_a_conversation_with_a_tool() -> None:
    assert messages(
        LLMMessage.user("Find"),
        LLMMessage.assistant([TextBlock(text="Wait."), ToolUseBlock(id="c1", name="search", input={"q": "a"})]),
        LLMMessage.tool([ToolResultBlock(tool_use_id="c1", content="found")]),
    ) == [
        {"role": "user", "content": [text("Find")]},
        {
            "role": "assistant",
            "content": [text("Wait."), {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
    ]


@proves("ANT-1")
def test_neighbours_of_one_role_become_one_message() -> None:
    sent = messages(
        LLMMessage.user("a"),
        LLMMessage.user("b"),
        LLMMessage.assistant("c"),
        LLMMessage.assistant("d"),
        LLMMessage.user("e"),
    )
    assert [[block["text"] for block in message["content"]] for message in sent] == [["a", "b"], ["c", "d"], ["e"]]


@proves("ANT-1")
def test_results_of_one_round_stand_first_however_they_came() -> None:
    sent = messages(
        LLMMessage.user("Find"),
        LLMMessage.assistant([ToolUseBlock(id=key, name="search", input={}) for key in ("c1", "c2", "c3")]),
        LLMMessage.user_with_blocks([TextBlock(text="note"), ToolResultBlock(tool_use_id="c1", content="1")]),
        LLMMessage.tool(
            [ToolResultBlock(tool_use_id="c2", content=[ToolResultFilePart(filename="a.pdf", source=PDF)])]
        ),
        LLMMessage.tool([ToolResultBlock(tool_use_id="c3", content="3")]),
        LLMMessage.user("more"),
    )
    kinds = [(block["type"], block.get("tool_use_id") or block.get("text")) for block in sent[-1]["content"]]
    assert kinds == [
        ("tool_result", "c1"),
        ("tool_result", "c2"),
        ("tool_result", "c3"),
        ("document", None),
        ("text", "note"),
        ("text", "more"),
    ]


@proves("ANT-2")
def test_blank_texts_are_left_out_and_their_neighbours_meet() -> None:
    sent = messages(
        LLMMessage.user_with_blocks([TextBlock(text=""), TextBlock(text="a"), TextBlock(text=" \n")]),
        LLMMessage.assistant([TextBlock(text="")]),
        LLMMessage.user("b"),
    )
    assert sent == [{"role": "user", "content": [text("a"), text("b")]}]


@pytest.mark.parametrize("given", [[LLMMessage.user("")], [LLMMessage.system("Be brief.")]])
@proves("ANT-2", "MOD-2")
def test_a_conversation_without_anything_to_send_is_refused(given: list[LLMMessage]) -> None:
    with pytest.raises(InvalidMessageError, match="something to send") as caught:
        body(given)
    assert caught.value.path == "messages"


@pytest.mark.parametrize(("is_error", "sent"), [(None, {}), (False, {"is_error": False}), (True, {"is_error": True})])
@proves("ANT-6")
def test_a_text_result_tells_of_an_error_when_it_was_said(is_error: bool | None, sent: dict[str, Any]) -> None:
    result = ToolResultBlock(tool_use_id="c1", content="text", is_error=is_error)
    assert messages(LLMMessage.tool([result]))[0]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "text", **sent}
    ]


@proves("ANT-6", "ANT-7")
def test_a_rich_result_and_the_files_behind_it() -> None:
    result = ToolResultBlock(
        tool_use_id="c1",
        content=[
            ToolResultTextPart(text="see"),
            ToolResultTextPart(text=""),
            ToolResultImagePart(source=PNG),
            ToolResultImagePart(source=UrlSource(url="https://x.test/a.jpg", media_type="image/jpeg")),
            ToolResultFilePart(
                filename="a.pdf", source=UrlSource(url="https://x.test/a.pdf", media_type="application/pdf")
            ),
            ToolResultFilePart(filename="b.pdf", source=PDF),
        ],
    )
    assert messages(LLMMessage.tool([result]))[0]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                text("see"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1hZ2U="}},
                {"type": "image", "source": {"type": "url", "url": "https://x.test/a.jpg"}},
                text("[File attachment follows: a.pdf]"),
                text("[File attachment follows: b.pdf]"),
            ],
        },
        {"type": "document", "title": "a.pdf", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
        {
            "type": "document",
            "title": "b.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
        },
    ]


@proves("ANT-6")
def test_a_rich_result_of_blank_texts_is_an_empty_one() -> None:
    result = ToolResultBlock(tool_use_id="c1", content=[ToolResultTextPart(text="")])
    assert messages(LLMMessage.tool([result]))[0]["content"][0]["content"] == ""


@proves("ANT-7")
def test_images_and_files_of_the_user() -> None:
    sent = messages(
        LLMMessage.user_with_blocks(
            [
                ImageBlock.from_url("https://x.test/a.png"),
                TextBlock(text="and"),
                ImageBlock.from_base64("aW1hZ2U=", "image/webp"),
                FileBlock(filename="a.pdf", source=PDF),
                FileBlock(filename="b.pdf", source=UrlSource(url="https://x.test/b.pdf")),
            ]
        )
    )
    assert sent[0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        text("and"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "aW1hZ2U="}},
        {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
        },
        {"type": "document", "title": "b.pdf", "source": {"type": "url", "url": "https://x.test/b.pdf"}},
    ]


@pytest.mark.parametrize(
    ("block", "content_type"),
    [
        (ImageBlock.from_base64("aW1hZ2U=", "image/bmp"), "image:image/bmp"),
        (FileBlock(filename="a.txt", source=Base64Source(media_type="text/plain", data="YQ==")), "file:text/plain"),
        (
            FileBlock(filename="a", source=UrlSource(url="https://x.test/a", media_type="text/csv")),
            "file:text/csv",
        ),
    ],
)
@proves("ANT-7", "MOD-2")
def test_other_media_of_the_user_are_refused(block: Any, content_type: str) -> None:
    with pytest.raises(UnsupportedContentError, match="Anthropic Messages") as caught:
        messages(LLMMessage.user_with_blocks([block]))
    assert caught.value.content_type == content_type


@pytest.mark.parametrize(
    ("part", "content_type"),
    [
        (ToolResultImagePart(source=Base64Source(media_type="image/tiff", data="YQ==")), "image:image/tiff"),
        (
            ToolResultFilePart(filename="a.txt", source=Base64Source(media_type="text/plain", data="YQ==")),
            "file:text/plain",
        ),
    ],
)
@proves("ANT-7", "MOD-2")
def test_other_media_in_results_are_refused(part: Any, content_type: str) -> None:
    with pytest.raises(UnsupportedToolResultContentError, match="Anthropic Messages") as caught:
        messages(LLMMessage.tool([ToolResultBlock(tool_use_id="c1", content=[part])]))
    assert caught.value.content_type == content_type


@proves("ANT-7")
def test_a_block_that_a_user_cannot_say_is_refused() -> None:
    trusted = Conversation([LLMMessage.user_with_blocks([ToolUseBlock(id="c1", name="a", input={})])])
    with pytest.raises(UnsupportedContentError, match="tool_use"):
        encode_request(trusted, LLMChatOptions(model="m"), stream=False)


# --- thinking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thinking", "sent"),
    [
        (None, None),
        (ThinkingConfig(enabled=False), None),
        (ThinkingConfig(enabled=False, budget_tokens=5), None),
        (ThinkingConfig(), {"type": "enabled", "budget_tokens": 1024}),
        (ThinkingConfig(budget_tokens=2048), {"type": "enabled", "budget_tokens": 2048}),
        (ThinkingConfig(effort="high"), {"type": "enabled", "budget_tokens": 1024}),
    ],
)
@proves("ANT-8")
def test_thinking_with_a_budget(thinking: ThinkingConfig | None, sent: Any) -> None:
    made = body(thinking=thinking)
    assert made.get("thinking") == sent
    assert "output_config" not in made


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        (500, {}, r"budget_tokens must be >= 1024 \(got 500\)"),
        (4096, {}, r"budget_tokens \(4096\) must be < max_tokens \(4096\)"),
        (None, {"max_tokens": 1024}, r"budget_tokens \(1024\) must be < max_tokens \(1024\)"),
        (2048, {"max_tokens": 4000, "extra_body": {"max_tokens": 2000}}, r"must be < max_tokens \(2000\)"),
    ],
)
@proves("ANT-8", "MOD-2")
def test_a_budget_out_of_range_is_refused(budget: int | None, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        body(thinking=ThinkingConfig(budget_tokens=budget), **options)


@proves("ANT-8")
def test_the_limit_of_extra_body_counts() -> None:
    sent = body(thinking=ThinkingConfig(budget_tokens=8000), extra_body={"max_tokens": 9000})
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 8000}
    assert body(thinking=ThinkingConfig(), extra_body={"max_tokens": "all"})["max_tokens"] == "all"


@proves("ANT-9")
def test_adaptive_thinking() -> None:
    sent = body(thinking=ThinkingConfig(mode="adaptive", effort="max", budget_tokens=9_000))
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "max"})
    assert "output_config" not in body(thinking=ThinkingConfig(mode="adaptive"))
    disabled = body(thinking=ThinkingConfig(mode="adaptive", effort="max", enabled=False))
    assert "output_config" not in disabled
    assert "thinking" not in disabled


@pytest.mark.parametrize("preserve", [None, False, True])
@proves("ANT-10", "REA-1")
def test_own_reasoning_goes_back_in_its_place(preserve: bool | None) -> None:
    sent = messages(
        LLMMessage.user("Find"),
        LLMMessage.assistant(
            [
                ReasoningBlock(text="why", signature="s1", provenance="anthropic"),
                TextBlock(text="Wait."),
                ReasoningBlock(text="", signature="s2", provenance="anthropic"),
                ReasoningBlock(text="", redacted_data="d", provenance="anthropic"),
                ToolUseBlock(id="c1", name="search", input={}),
            ]
        ),
        LLMMessage.tool([ToolResultBlock(tool_use_id="c1", content="found")]),
        preserve_reasoning_as_text=preserve,
    )
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "why", "signature": "s1"},
        text("Wait."),
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "c1", "name": "search", "input": {}},
    ]


@proves("ANT-10", "REA-4")
def test_other_reasoning_is_left_out_or_becomes_text() -> None:
    turns = [
        LLMMessage.user("a"),
        LLMMessage.assistant(
            [
                ReasoningBlock(text="foreign", signature="s", provenance="gemini"),
                ReasoningBlock(text="unsigned", provenance="anthropic"),
                ReasoningBlock(text="", redacted_data="d", provenance="bedrock"),
            ]
        ),
        LLMMessage.user("b"),
    ]
    assert messages(*turns) == [{"role": "user", "content": [text("a"), text("b")]}]
    assert messages(*turns, preserve_reasoning_as_text=True)[1]["content"] == [
        text("<thinking>foreign</thinking>"),
        text("<thinking>unsigned</thinking>"),
        text("<thinking>[redacted]</thinking>"),
    ]


@proves("ANT-10")
def test_an_adapter_of_another_name_has_its_own_reasoning() -> None:
    turn = LLMMessage.assistant([ReasoningBlock(text="why", signature="s", provenance="proxy")])
    options = LLMChatOptions(model="m")
    sent = json.loads(encode_request([*HI, turn, *HI], options, stream=False, adapter_name="proxy"))
    assert sent["messages"][1]["content"] == [{"type": "thinking", "thinking": "why", "signature": "s"}]


# --- caching ---------------------------------------------------------------------------------------------------------


@proves("ANT-11")
def test_the_four_marks_of_a_cache() -> None:
    turns = [
        LLMMessage.user("one"),
        LLMMessage.assistant("1"),
        LLMMessage.user("two"),
        LLMMessage.assistant([ToolUseBlock(id="c1", name="search", input={})]),
        LLMMessage.tool(
            [ToolResultBlock(tool_use_id="c1", content="a"), ToolResultBlock(tool_use_id="c2", content="b")]
        ),
    ]
    sent = body(turns, tools=[LLMToolDef("a", "", {}), TOOL], system_prompt="Be brief.", cache="auto")
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, MARK]
    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    marks = [[block.get("cache_control") for block in message["content"]] for message in sent["messages"]]
    assert marks == [[None], [None], [MARK], [None], [None, MARK]]
    assert json.dumps(sent).count("cache_control") == 4


@proves("ANT-11")
def test_without_a_cache_there_are_no_marks() -> None:
    assert "cache_control" not in json.dumps(body(tools=[TOOL], system_prompt="Be brief."))


@proves("ANT-11")
def test_a_small_request_has_few_marks() -> None:
    sent = body(cache="auto")
    assert sent["messages"] == [{"role": "user", "content": [{**text("Hi"), "cache_control": MARK}]}]
    assert sorted(sent) == ["max_tokens", "messages", "model"]


# --- the end, the ids, the caller's objects --------------------------------------------------------------------------


@proves("ANT-12")
def test_a_conversation_that_ends_with_the_assistant_is_asked_to_go_on() -> None:
    sent = messages(LLMMessage.user("a"), LLMMessage.assistant("b "))
    assert sent[1:] == [{"role": "assistant", "content": [text("b ")]}, GO_ON]


@proves("ANT-12")
def test_a_model_that_continues_gets_the_assistants_message_without_blanks_at_the_end() -> None:
    sent = body([LLMMessage.user("a"), LLMMessage.assistant("b \n")], prefill=True)["messages"]
    assert sent[1:] == [{"role": "assistant", "content": [text("b")]}]
    call = [LLMMessage.user("a"), LLMMessage.assistant([ToolUseBlock(id="c1", name="a", input={})])]
    assert body(call, prefill=True)["messages"][-1]["content"][0]["type"] == "tool_use"
    assert body(prefill=True)["messages"][-1]["role"] == "user"


@proves("ANT-13")
def test_ids_that_the_api_refuses_are_replaced_in_call_and_result() -> None:
    ids = ["toolu_1-A", "functions.search:0", "functions.search_0", "functions-search.0", ""]
    sent = messages(
        LLMMessage.assistant([ToolUseBlock(id=key, name="search", input={}) for key in ids]),
        LLMMessage.tool([ToolResultBlock(tool_use_id=key, content="x") for key in ids]),
    )
    called = [block["id"] for block in sent[0]["content"]]
    assert called == [block["tool_use_id"] for block in sent[1]["content"]]
    assert called[0] == "toolu_1-A"
    assert len(set(called)) == len(ids)
    assert all(key.replace("_", "").replace("-", "").isalnum() for key in called)


@proves("MOD-1")
def test_encoding_changes_neither_messages_nor_options() -> None:
    turns = [
        LLMMessage.user("Find"),
        LLMMessage.assistant([ToolUseBlock(id="c:1", name="search", input={"q": ["a"]})]),
        LLMMessage.tool([ToolResultBlock(tool_use_id="c:1", content=[ToolResultFilePart(filename="a", source=PDF)])]),
        LLMMessage.assistant("Done "),
    ]
    before = copy_messages(turns)
    extra = {"metadata": {"user_id": "u"}}
    options = LLMChatOptions(
        model="m", tools=[TOOL], cache="auto", system_prompt="s", extra_body=extra, thinking=ThinkingConfig()
    )
    schema = copy.deepcopy(TOOL.input_schema)
    first = encode_request(turns, options, stream=True, prefill=True)
    assert first == encode_request(turns, options, stream=True, prefill=True)
    assert turns == before
    assert (extra, TOOL.input_schema) == ({"metadata": {"user_id": "u"}}, schema)

"""What is sent to Bedrock: the exact JSON for conversations and options."""

import json
from typing import Any

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMToolDef, ThinkingConfig
from openmultiagent.adapters._bedrock_request import encode_request
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
from tests.support.requests import HI, Requests

PNG = Base64Source(media_type="image/png", data="aW1hZ2U")
PDF = Base64Source(media_type="application/pdf", data="aW1hZ2U=")
TIFF = Base64Source(media_type="image/tiff", data="aW1hZ2U=")
URL = UrlSource(url="https://example.com/a", media_type="image/png")
SEARCH = LLMToolDef("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolUseBlock(id="c1", name="search", input={"q": "é"})
RESULT = ToolResultBlock(tool_use_id="c1", content="yes")
CACHE_POINT = {"cachePoint": {"type": "default"}}


REQUESTS = Requests(encode_request, model="claude-x", adapter_name="bedrock")
body_of, sent, content = REQUESTS.body, REQUESTS.turns, REQUESTS.parts


# --- options ---------------------------------------------------------------------------------------------------------


@proves("BED-7")
def test_the_smallest_request() -> None:
    raw = encode_request([LLMMessage.user("Grüße 🎉\u2028")], LLMChatOptions(model="m"), adapter_name="bedrock")
    assert raw.decode() == (
        '{"messages":[{"role":"user","content":[{"text":"Grüße 🎉\u2028"}]}],"inferenceConfig":{"maxTokens":4096}}'
    )


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({}, {"maxTokens": 4096}),
        ({"stop": ("END",)}, {"maxTokens": 4096, "stopSequences": ["END"]}),
        ({"max_tokens": 7}, {"maxTokens": 7}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"top_p": 0.5}, {"topP": 0.5}),
        (
            {"max_tokens": 7, "temperature": 0.1, "top_p": 0.5, "stop": ["a", "b"]},
            {"maxTokens": 7, "temperature": 0.1, "topP": 0.5, "stopSequences": ["a", "b"]},
        ),
    ],
)
@proves("BED-7")
def test_inference_config(options: Any, config: Any) -> None:
    assert body_of(**options)["inferenceConfig"] == config


@proves("BED-7")
def test_what_the_api_has_no_word_for_is_left_out() -> None:
    body = body_of(
        seed=1,
        min_p=0.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        parallel_tool_calls=False,
        tool_choice="required",
        thinking=ThinkingConfig(effort="high"),
    )
    assert body == body_of()


@proves("BED-8")
def test_additional_fields() -> None:
    assert body_of(top_k=3)["additionalModelRequestFields"] == {"top_k": 3}
    extra = {"top_k": 9, "thinking": {"type": "enabled"}, "model": "x", "messages": [], "tools": [], "stream": True}
    body = body_of(top_k=3, extra_body=extra)
    assert body["additionalModelRequestFields"] == {"top_k": 9, "thinking": {"type": "enabled"}}
    assert body.keys() == {"messages", "inferenceConfig", "additionalModelRequestFields"}
    assert "additionalModelRequestFields" not in body_of(extra_body={})


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ("search", {"tool": {"name": "search"}}),
    ],
)
@proves("BED-9")
def test_tools_and_their_choice(choice: str | None, expected: Any) -> None:
    config = body_of(tools=[SEARCH, LLMToolDef("a", " ", {})], tool_choice=choice)["toolConfig"]
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    assert config["tools"] == [
        {"toolSpec": {"name": "search", "description": "Searches.", "inputSchema": {"json": schema}}},
        {"toolSpec": {"name": "a", "inputSchema": {"json": {}}}},
    ]
    assert config.get("toolChoice") == expected


@proves("BED-9")
def test_no_tools_when_none_may_be_called() -> None:
    assert "toolConfig" not in body_of(tools=[], tool_choice="required")
    assert "toolConfig" not in body_of(tools=[SEARCH], tool_choice="none")
    for block, role in ((CALL, "assistant"), (RESULT, "user")):
        body = body_of([LLMMessage.new(role, [block])], tools=[SEARCH], tool_choice="none")
        assert body["toolConfig"].keys() == {"tools"}


@proves("BED-16")
def test_cache_points() -> None:
    body = body_of([*HI, LLMMessage.assistant("Hello"), LLMMessage.user("Bye")], system_prompt="one", cache="auto")
    assert body["system"] == [{"text": "one"}, CACHE_POINT]
    assert body["messages"][-1]["content"] == [{"text": "Bye"}, CACHE_POINT]
    assert json.dumps(body).count("cachePoint") == 2
    bare = body_of([LLMMessage.user("")], cache="auto")
    assert bare["messages"] == []
    assert "system" not in bare
    assert "cachePoint" not in json.dumps(body_of(system_prompt="one"))


# --- messages --------------------------------------------------------------------------------------------------------


@proves("BED-10")
def test_roles_and_the_system_text() -> None:
    messages = [LLMMessage.system("one"), *HI, LLMMessage.assistant("Hello"), LLMMessage.user("Bye")]
    body = body_of(messages, system_prompt="zero")
    assert body["system"] == [{"text": "zero\n\none"}]
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "Hi"}]},
        {"role": "assistant", "content": [{"text": "Hello"}]},
        {"role": "user", "content": [{"text": "Bye"}]},
    ]
    assert "system" not in body_of(system_prompt=" \n")


@proves("BED-10", "BED-11")
def test_neighbours_of_one_role_become_one_and_empty_messages_none() -> None:
    foreign = ReasoningBlock(text="hmm", signature="s", provenance="anthropic")
    assert sent(
        LLMMessage.user("one"),
        LLMMessage.assistant([foreign, TextBlock(text=" \n")]),
        LLMMessage.user_with_blocks([TextBlock(text=""), TextBlock(text="two"), TextBlock(text="\t")]),
    ) == [{"role": "user", "content": [{"text": "one"}, {"text": "two"}]}]


@proves("BED-10", "BED-14")
def test_calls_and_their_results() -> None:
    failed = ToolResultBlock(tool_use_id="c2", content="", is_error=True)
    messages = [
        LLMMessage.assistant([TextBlock(text="Let me see."), CALL]),
        LLMMessage.user_with_blocks([TextBlock(text="Go on"), RESULT]),
        LLMMessage.tool([failed]),
    ]
    assert sent(*messages) == [
        {
            "role": "assistant",
            "content": [
                {"text": "Let me see."},
                {"toolUse": {"toolUseId": "c1", "name": "search", "input": {"q": "é"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "yes"}], "status": "success"}},
                {"toolResult": {"toolUseId": "c2", "content": [{"text": ""}], "status": "error"}},
                {"text": "Go on"},
            ],
        },
    ]


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "é"])
@proves("BED-14")
def test_ids_that_the_api_would_refuse_are_replaced_alike(given: str) -> None:
    call = ToolUseBlock(id=given, name="a", input={})
    result = ToolResultBlock(tool_use_id=given, content="x")
    first, second = sent(LLMMessage.assistant([call]), LLMMessage.tool([result]))
    made = first["content"][0]["toolUse"]["toolUseId"]
    assert made == second["content"][0]["toolResult"]["toolUseId"]
    assert made.startswith("call_")
    assert len(made) == 37


@proves("BED-12", "BED-14")
def test_media_in_results() -> None:
    parts = [
        ToolResultTextPart(text="one"),
        ToolResultImagePart(source=PNG),
        ToolResultFilePart(filename="report.pdf", source=PDF),
    ]
    (result,) = content(ToolResultBlock(tool_use_id="c1", content=parts))
    assert result["toolResult"] == {
        "toolUseId": "c1",
        "content": [
            {"text": "one"},
            {"image": {"format": "png", "source": {"bytes": "aW1hZ2U="}}},
            {"document": {"format": "pdf", "name": "report pdf", "source": {"bytes": "aW1hZ2U="}}},
        ],
        "status": "success",
    }


@pytest.mark.parametrize(
    ("media_type", "kind"), [("image/jpeg", "jpeg"), ("image/PNG", "png"), ("image/gif", "gif"), ("image/webp", "webp")]
)
@proves("BED-12")
def test_images(media_type: str, kind: str) -> None:
    image = ImageBlock(source=Base64Source(media_type=media_type, data="AAAA"))
    assert content(image) == [{"image": {"format": kind, "source": {"bytes": "AAAA"}}}]


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("text/csv", "csv"),
        ("application/msword", "doc"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("text/html", "html"),
        ("text/markdown", "md"),
        ("application/pdf", "pdf"),
        ("text/plain", "txt"),
        ("application/vnd.ms-excel", "xls"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ],
)
@proves("BED-12")
def test_documents(media_type: str, kind: str) -> None:
    file = FileBlock(filename="a", source=Base64Source(media_type=media_type, data="AAAA"))
    document = {"document": {"format": kind, "name": "a", "source": {"bytes": "AAAA"}}}
    assert content(TextBlock(text="Look"), file) == [{"text": "Look"}, document]


@proves("BED-11")
def test_a_text_stands_beside_documents() -> None:
    document, text = content(FileBlock(filename="a", source=PDF))
    assert document["document"]["name"] == "a"
    assert text == {"text": "See the attached documents."}


@proves("BED-13")
def test_names_of_documents() -> None:
    long = "x" * 250
    names = ["report.pdf", " Übung__(1) [a]-b\n.md", "...", "report pdf", "report/pdf (2)", "report_pdf", long, long]
    blocks = content(*(FileBlock(filename=name, source=PDF) for name in names))
    made = [block["document"]["name"] for block in blocks if "document" in block]
    assert made == [
        "report pdf",
        "bung (1) [a]-b md",
        "tool result",
        "report pdf (2)",
        "report pdf (2) (2)",
        "report pdf (3)",
        "x" * 200,
        f"{'x' * 196} (2)",
    ]


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (ImageBlock(source=URL), "image-url"),
        (ImageBlock(source=TIFF), "image:image/tiff"),
        (FileBlock(filename="a", source=URL), "file-url"),
        (FileBlock(filename="a", source=PNG), "file:image/png"),
    ],
)
@proves("BED-12", "BED-17")
def test_blocks_without_a_form_are_refused(block: Any, kind: str) -> None:
    with pytest.raises(
        UnsupportedContentError, match=f'Amazon Bedrock Converse cannot represent content type "{kind}"'
    ):
        content(block)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (ToolResultImagePart(source=URL), "image-url"),
        (ToolResultImagePart(source=TIFF), "image:image/tiff"),
        (ToolResultFilePart(filename="a", source=URL), "file-url"),
        (ToolResultFilePart(filename="a", source=PNG), "file:image/png"),
    ],
)
@proves("BED-12", "BED-17")
def test_parts_of_results_without_a_form_are_refused(part: Any, kind: str) -> None:
    with pytest.raises(UnsupportedToolResultContentError, match=f'cannot represent tool-result content type "{kind}"'):
        content(ToolResultBlock(tool_use_id="c1", content=[part]))


# --- reasoning -------------------------------------------------------------------------------------------------------


@proves("BED-15")
def test_own_reasoning_goes_back() -> None:
    signed = ReasoningBlock(text="hmm", signature="sig", provenance="bedrock")
    redacted = ReasoningBlock(text="", redacted_data="cmVk", provenance="bedrock")
    assert content(signed, redacted, TextBlock(text="x"), role="assistant", preserve_reasoning_as_text=True) == [
        {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "cmVk"}},
        {"text": "x"},
    ]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (ReasoningBlock(text="hmm", provenance="bedrock"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="hmm", signature="sig"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="hmm", signature="sig", provenance="anthropic"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="", redacted_data="x", provenance="anthropic"), "<thinking>[redacted]</thinking>"),
    ],
)
@proves("BED-15")
def test_other_reasoning_is_dropped_or_text(block: ReasoningBlock, text: str) -> None:
    answer = TextBlock(text="x")
    assert content(block, answer, role="assistant") == [{"text": "x"}]
    kept = content(answer, block, role="assistant", preserve_reasoning_as_text=True)
    assert kept == [{"text": "x"}, {"text": text}]


# --- checks ----------------------------------------------------------------------------------------------------------


@proves("BED-17")
def test_a_bad_conversation_is_refused_and_a_runs_own_is_trusted() -> None:
    with pytest.raises(InvalidMessageError, match=r"messages\[0\]"):
        body_of(["text"])
    with pytest.raises(ConfigurationError, match="extra_body"):
        body_of(extra_body={"a": object()})
    assert body_of(Conversation(HI)) == body_of(HI)


@proves("BED-30")
def test_a_conversation_that_ends_with_the_assistant_gets_a_request_to_go_on() -> None:
    said = LLMMessage.assistant("Well \n")
    assert sent(*HI, said)[1:] == [
        {"role": "assistant", "content": [{"text": "Well \n"}]},
        {"role": "user", "content": [{"text": "Continue."}]},
    ]
    assert sent(*HI, said, prefill=True)[1:] == [{"role": "assistant", "content": [{"text": "Well"}]}]
    assert sent(*HI, LLMMessage.assistant([CALL]), prefill=True)[-1]["content"][0]["toolUse"]["toolUseId"] == "c1"

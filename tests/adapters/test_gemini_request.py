"""What is sent to the Gemini API: the exact JSON for conversations and options."""

from typing import Any

import pytest

from openmultiagent.adapters import LLMChatOptions, LLMToolDef, ThinkingConfig
from openmultiagent.adapters._gemini_request import _part, encode_request
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
from tests.support.requests import HI, Requests

PNG = Base64Source(media_type="image/png", data="aW1hZ2U")
PDF = UrlSource(url="https://example.com/a.pdf", media_type="application/pdf")
SEARCH = LLMToolDef("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})


REQUESTS = Requests(encode_request, model="gemini-x", turns="contents", parts="parts", adapter_name="gemini")
body_of, contents, parts = REQUESTS.body, REQUESTS.turns, REQUESTS.parts


# --- options ---------------------------------------------------------------------------------------------------------


@proves("GEM-6")
def test_the_smallest_request() -> None:
    raw = encode_request([LLMMessage.user("Grüße 🎉\u2028")], LLMChatOptions(model="m"), adapter_name="gemini")
    assert raw.decode() == (
        '{"contents":[{"role":"user","parts":[{"text":"Grüße 🎉\u2028"}]}],"generationConfig":{"maxOutputTokens":4096}}'
    )


@proves("GEM-6")
def test_every_setting_that_the_api_knows() -> None:
    body = body_of(
        max_tokens=7,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        stop=("END",),
        seed=0,
        parallel_tool_calls=False,
        tool_choice="required",
    )
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {
            "maxOutputTokens": 7,
            "temperature": 0.0,
            "topP": 0.5,
            "topK": 3,
            "presencePenalty": 0.2,
            "frequencyPenalty": 0.3,
            "stopSequences": ["END"],
            "seed": 0,
        },
    }


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (None, None),
        (ThinkingConfig(enabled=False, budget_tokens=9), None),
        (ThinkingConfig(), {"includeThoughts": True}),
        (ThinkingConfig(effort="high"), {"includeThoughts": True}),
        (ThinkingConfig(budget_tokens=2048), {"includeThoughts": True, "thinkingBudget": 2048}),
        (ThinkingConfig(mode="adaptive", budget_tokens=2048), {"includeThoughts": True}),
    ],
)
@proves("GEM-7")
def test_thinking(thinking: ThinkingConfig | None, expected: Any) -> None:
    assert body_of(thinking=thinking)["generationConfig"].get("thinkingConfig") == expected


@proves("GEM-8")
def test_extra_fields_win_over_settings_only() -> None:
    body = body_of(
        temperature=0.5,
        tools=[SEARCH],
        system_prompt="Be brief.",
        extra_body={
            "safetySettings": [{"category": "X"}],
            "generationConfig": {"temperature": 1, "candidateCount": 1},
            "contents": [],
            "systemInstruction": 1,
            "system_instruction": 1,
            "tools": [],
            "toolConfig": 1,
            "tool_config": 1,
            "model": "x",
            "stream": True,
        },
    )
    assert body["safetySettings"] == [{"category": "X"}]
    assert body["generationConfig"] == {"maxOutputTokens": 4096, "temperature": 1, "candidateCount": 1}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}
    assert body.keys() == {
        "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings",
    }  # fmt: skip


@pytest.mark.parametrize("extra", [{"generationConfig": 7}, {"a": object()}, {"a": float("nan")}])
@proves("GEM-3", "GEM-8")
def test_extra_fields_that_cannot_be_sent(extra: Any) -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        body_of(extra_body=extra)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"mode": "AUTO"}),
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("search", {"mode": "ANY", "allowedFunctionNames": ["search"]}),
    ],
)
@proves("GEM-9")
def test_tools_and_their_choice(choice: str | None, expected: Any) -> None:
    body = body_of(tools=[SEARCH], tool_choice=choice)
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "search",
                    "description": "Searches.",
                    "parametersJsonSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
                }
            ]
        }
    ]
    assert body["toolConfig"] == {"functionCallingConfig": expected}


@proves("GEM-9")
def test_without_tools_there_is_no_choice() -> None:
    body = body_of(tools=[], tool_choice="required")
    assert "tools" not in body
    assert "toolConfig" not in body


# --- messages --------------------------------------------------------------------------------------------------------


@proves("GEM-10")
def test_roles_and_the_system_text() -> None:
    messages = [LLMMessage.system("one"), LLMMessage.user("Hi"), LLMMessage.assistant("Hello"), LLMMessage.user("Bye")]
    body = body_of(messages, system_prompt="zero")
    assert body["systemInstruction"] == {"parts": [{"text": "zero\n\none"}]}
    assert [(turn["role"], turn["parts"]) for turn in body["contents"]] == [
        ("user", [{"text": "Hi"}]),
        ("model", [{"text": "Hello"}]),
        ("user", [{"text": "Bye"}]),
    ]
    assert "systemInstruction" not in body_of(system_prompt="")


@proves("GEM-10")
def test_neighbours_of_one_role_become_one_and_empty_messages_none() -> None:
    foreign = ReasoningBlock(text="hmm", signature="s", provenance="anthropic")
    assert contents(
        LLMMessage.user("one"), LLMMessage.assistant([foreign]), LLMMessage.new("user", []), LLMMessage.user("two")
    ) == [{"role": "user", "parts": [{"text": "one"}, {"text": "two"}]}]


@proves("GEM-11")
def test_media() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    assert parts(
        TextBlock(text="Look"),
        ImageBlock.from_base64("AAAA", "image/png"),
        image,
        FileBlock(filename="a.png", source=PNG),
        FileBlock(filename="a.pdf", source=PDF),
    ) == [
        {"text": "Look"},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"fileUri": "https://example.com/a.png"}},
        {"inlineData": {"mimeType": "image/png", "data": "aW1hZ2U="}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}},
    ]


@proves("GEM-12", "GEM-15")
def test_calls_and_their_results() -> None:
    call = ToolUseBlock(id="c1", name="search", input={"q": "é"}, signature="sig")
    second = ToolUseBlock(id="c2", name="fetch", input={})
    results = [
        LLMMessage.tool([ToolResultBlock(tool_use_id="c2", content="no", is_error=True)]),
        LLMMessage.tool([ToolResultBlock(tool_use_id="c1", content="yes")]),
        LLMMessage.new("user", [ToolResultBlock(tool_use_id="c9", content=""), TextBlock(text="Go on")]),
    ]
    assert contents(LLMMessage.user("Hi"), LLMMessage.assistant([call, second]), *results)[1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "c1", "name": "search", "args": {"q": "é"}}, "thoughtSignature": "sig"},
                {"functionCall": {"id": "c2", "name": "fetch", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c2", "name": "fetch", "response": {"content": "no", "isError": True}}},
                {"functionResponse": {"id": "c1", "name": "search", "response": {"content": "yes", "isError": False}}},
                {"functionResponse": {"id": "c9", "name": "c9", "response": {"content": "", "isError": False}}},
                {"text": "Go on"},
            ],
        },
    ]


@proves("GEM-12")
def test_media_in_results() -> None:
    image = ToolResultImagePart(source=PNG)
    file = ToolResultFilePart(filename="a.pdf", source=PDF)
    texts = [ToolResultTextPart(text="one"), ToolResultTextPart(text="two")]
    rich, bare, plain = parts(
        ToolResultBlock(tool_use_id="c1", content=[texts[0], image, texts[1], file]),
        ToolResultBlock(tool_use_id="c2", content=[image, image]),
        ToolResultBlock(tool_use_id="c3", content=texts),
    )
    media = {"inlineData": {"mimeType": "image/png", "data": "aW1hZ2U="}}
    assert rich["functionResponse"] == {
        "id": "c1",
        "name": "c1",
        "response": {"content": "one\ntwo", "isError": False},
        "parts": [
            media,
            {"fileData": {"mimeType": "application/pdf", "fileUri": PDF.url, "displayName": "a.pdf"}},
        ],
    }
    assert bare["functionResponse"]["response"]["content"] == "[2 tool-result attachment(s)]"
    assert bare["functionResponse"]["parts"] == [media, media]
    assert plain["functionResponse"]["response"]["content"] == "one\ntwo"
    assert "parts" not in plain["functionResponse"]


# --- reasoning -------------------------------------------------------------------------------------------------------


@proves("GEM-14")
def test_own_signed_thoughts_go_back() -> None:
    block = ReasoningBlock(text="hmm", signature="sig", provenance="gemini")
    assert parts(block, role="assistant") == [{"text": "hmm", "thought": True, "thoughtSignature": "sig"}]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (ReasoningBlock(text="hmm", provenance="gemini"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="hmm", signature="", provenance="gemini"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="hmm", signature="sig"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="hmm", signature="sig", provenance="bedrock"), "<thinking>hmm</thinking>"),
        (ReasoningBlock(text="", redacted_data="x", provenance="anthropic"), "<thinking>[redacted]</thinking>"),
        (ReasoningBlock(text="", redacted_data="x", provenance="gemini"), "<thinking>[redacted]</thinking>"),
    ],
)
@proves("GEM-14")
def test_other_thoughts_are_dropped_or_text(block: ReasoningBlock, text: str) -> None:
    answer = TextBlock(text="x")
    assert parts(block, answer, role="assistant") == [{"text": "x"}]
    kept = parts(answer, block, role="assistant", preserve_reasoning_as_text=True)
    assert kept == [{"text": "x"}, {"text": text}]


@proves("GEM-16")
def test_a_signature_without_text_goes_back_with_the_text_in_front_of_it() -> None:
    signature = ReasoningBlock(text="", signature="sig", provenance="gemini")
    call = ToolUseBlock(id="c1", name="a", input={})
    assert parts(TextBlock(text="x"), signature, role="assistant") == [{"text": "x", "thoughtSignature": "sig"}]
    assert parts(signature, role="assistant") == [{"text": "", "thoughtSignature": "sig"}]
    assert parts(TextBlock(text="x"), signature, signature, call, signature, role="assistant") == [
        {"text": "x", "thoughtSignature": "sig"},
        {"text": "", "thoughtSignature": "sig"},
        {"functionCall": {"id": "c1", "name": "a", "args": {}}},
        {"text": "", "thoughtSignature": "sig"},
    ]


# --- checks ----------------------------------------------------------------------------------------------------------


@proves("GEM-3")
def test_a_bad_conversation_is_refused_and_a_runs_own_is_trusted() -> None:
    with pytest.raises(InvalidMessageError, match=r"messages\[0\]"):
        body_of(["text"])
    unknown = {"role": "user", "content": [{"type": "video"}]}
    with pytest.raises(InvalidMessageError, match=r"content\[0\].type"):
        body_of([unknown])
    assert body_of(Conversation(HI)) == body_of(HI)


@proves("GEM-3")
def test_a_block_without_a_form_is_refused() -> None:
    with pytest.raises(UnsupportedContentError, match='Gemini generateContent cannot represent content type "object"'):
        _part(object())

"""The estimate of a conversation's tokens."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from openmultiagent.messages._estimate import estimate_message_chars, estimate_tokens, is_approaching_limit
from tests.support import proves

PNG = "iVBORw0KGgo="


def tool_call(arguments: dict[str, Any]) -> LLMMessage:
    return LLMMessage.assistant([ToolUseBlock.new("call_1", "look_up", arguments)])


def tool_result(content: object) -> LLMMessage:
    return LLMMessage.tool([ToolResultBlock.new("call_1", content)])


@proves("CNV-20")
@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100)])
def test_four_characters_are_a_token_and_the_rest_counts_as_one(length: int, tokens: int) -> None:
    assert estimate_tokens([LLMMessage.user("x" * length)]) == tokens


@proves("CNV-20", "CNV-24")
@pytest.mark.parametrize("overhead", [False, True])
def test_an_empty_conversation_has_no_tokens(overhead: bool) -> None:
    assert estimate_tokens([], overhead=overhead) == 0


@proves("CNV-20")
def test_only_the_sum_is_rounded() -> None:
    assert estimate_tokens([LLMMessage.user("x") for _ in range(8)]) == 2


@proves("CNV-21")
def test_reasoning_counts_like_text() -> None:
    block = ReasoningBlock.new("r" * 400, signature="s" * 1000, provenance="somebody")
    assert estimate_tokens([LLMMessage.assistant([block])]) == 100


@proves("CNV-21")
def test_the_input_of_a_call_counts_as_compact_json() -> None:
    assert estimate_message_chars(tool_call({"a": [1, 2], "b": None})) == len('{"a":[1,2],"b":null}')


@proves("CNV-21")
def test_a_non_ascii_character_in_an_input_counts_once() -> None:
    assert estimate_message_chars(tool_call({"q": "天气"})) == len('{"q":"天气"}')


@proves("CNV-21")
def test_a_text_result_counts_by_its_length_in_either_form() -> None:
    assert estimate_message_chars(tool_result("x" * 10)) == 10
    assert (
        estimate_message_chars(tool_result([{"type": "text", "text": "x" * 10}, {"type": "text", "text": "y"}])) == 11
    )


@proves("CNV-22")
@pytest.mark.parametrize(("detail", "tokens"), [("low", 85), ("auto", 200), ("high", 300)])
def test_an_image_counts_by_its_detail(detail: str, tokens: int) -> None:
    assert estimate_tokens([LLMMessage.user_with_image_detail("", "https://example.org/x.png", detail)]) == tokens


@proves("CNV-22")
def test_a_detail_that_was_set_as_a_plain_string_counts_the_same() -> None:
    message = LLMMessage.user_with_image("", "https://example.org/x.png")
    message.content[1].detail = "low"  # type: ignore[union-attr]
    assert estimate_tokens([message]) == 85


@proves("CNV-22")
def test_the_bytes_of_an_image_never_count() -> None:
    small = ImageBlock.from_base64("AAAA", "image/png")
    large = ImageBlock.from_base64("AAAA" * 50_000, "image/png")
    assert estimate_tokens([LLMMessage.user_with_blocks([small])]) == 200
    assert estimate_tokens([LLMMessage.user_with_blocks([large])]) == 200


@proves("CNV-22")
@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "image/png", "data": "AAAA" * 50_000},
        {"type": "url", "media_type": "image/png", "url": "https://example.org/x.png"},
    ],
)
def test_an_image_in_a_tool_result_counts_as_auto(source: dict[str, str]) -> None:
    parts = [{"type": "text", "text": "abcd"}, {"type": "image", "source": source}]
    assert estimate_tokens([tool_result(parts)]) == 201


@proves("CNV-23")
@pytest.mark.parametrize(
    ("source", "chars"),
    [
        (Base64Source.new("application/pdf", PNG), len("a.pdf") + len("application/pdf") + len(PNG) + 32),
        (
            UrlSource.new("https://example.org/a.pdf", "application/pdf"),
            len("a.pdf") + len("application/pdf") + len("https://example.org/a.pdf") + 32,
        ),
    ],
)
def test_a_file_counts_with_its_data_type_and_name(source: Base64Source | UrlSource, chars: int) -> None:
    part = {"type": "file", "filename": "a.pdf", "source": source.to_dict()}
    assert estimate_message_chars(LLMMessage.user_with_blocks([FileBlock.new("a.pdf", source)])) == chars
    assert estimate_message_chars(tool_result([part])) == chars


@proves("CNV-23")
def test_a_file_url_needs_no_media_type() -> None:
    url = "https://example.org/a.pdf"
    message = LLMMessage.user_with_blocks([FileBlock.new("a.pdf", UrlSource.new(url))])
    assert estimate_message_chars(message) == len("a.pdf") + len(url) + 32


@proves("CNV-24")
def test_ids_names_and_roles_cost_nothing_by_default() -> None:
    assert estimate_tokens([tool_call({}), tool_result("")]) == 1  # the two characters of {}


@proves("CNV-24")
def test_the_overhead_counts_messages_the_conversation_ids_and_names() -> None:
    conversation = [LLMMessage.user("abcd"), tool_call({}), tool_result("")]
    chars = 16 + 3 * 8 + len("abcd") + len("{}") + len("call_1look_up") + len("call_1")
    assert estimate_tokens(conversation, overhead=True) == math.ceil(chars / 4)
    assert estimate_message_chars(conversation[0], overhead=True) == 12


@proves("CNV-25")
@settings(max_examples=30)
@given(texts=st.lists(st.text(max_size=30)), overhead=st.booleans())
def test_a_conversation_is_the_sum_of_its_messages(texts: list[str], overhead: bool) -> None:
    conversation = [LLMMessage.user(text) for text in texts]
    running = 16 if overhead and conversation else 0
    for message in conversation:
        running += estimate_message_chars(message, overhead=overhead)
    assert estimate_tokens(conversation, overhead=overhead) == math.ceil(running / 4)


@proves("CNV-26")
@pytest.mark.parametrize(
    ("chars", "limit", "margin", "near"),
    [
        (1000, 1000, 0.9, False),
        (1000, 200, 0.9, True),
        (720, 200, 0.9, False),  # 180 tokens are exactly the share
        (721, 200, 0.9, True),
        (400, 101, 0.999, False),  # 100.899 counts as 100
        (400, 100, 1.0, False),
        (404, 100, 1, True),
    ],
)
def test_near_is_above_the_whole_part_of_the_share(chars: int, limit: int, margin: float, near: bool) -> None:
    assert is_approaching_limit([LLMMessage.user("x" * chars)], limit, margin) is near


@proves("CNV-26")
def test_the_margin_is_nine_tenths_unless_given() -> None:
    assert is_approaching_limit([LLMMessage.user("x" * 364)], 100)
    assert not is_approaching_limit([LLMMessage.user("x" * 360)], 100)


@proves("CNV-27")
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, None, "100"])
def test_a_senseless_limit_or_margin_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="limit must be a finite number above 0"):
        is_approaching_limit([], value)
    with pytest.raises(ConfigurationError, match="margin must be a finite number above 0"):
        is_approaching_limit([], 100, value)

"""What becomes of reasoning when it is sent back."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.adapters import LLMChatOptions, ModelSettings, ThinkingConfig
from openmultiagent.adapters._reasoning import NO_TRUNCATION, compression_limit, echo, reasoning_to_inline_text
from openmultiagent.adapters._settings import ReasoningCompression
from openmultiagent.errors import ConfigurationError
from openmultiagent.messages import ReasoningBlock, TextBlock
from tests.support import proves

PLAIN = LLMChatOptions(model="m")
AS_TEXT = LLMChatOptions(model="m", preserve_reasoning_as_text=True)


def block(text: str = "why", **fields: Any) -> ReasoningBlock:
    return ReasoningBlock(text=text, **fields)


def inner(text: str, max_chars: float | None = None) -> str:
    made = reasoning_to_inline_text(block(text), max_chars)
    assert made.startswith("<thinking>")
    assert made.endswith("</thinking>")
    return made.removeprefix("<thinking>").removesuffix("</thinking>")


@pytest.mark.parametrize("options", [PLAIN, AS_TEXT])
@pytest.mark.parametrize(
    "own",
    [
        block(signature="s", provenance="mine"),
        block("", signature="s", provenance="mine"),
        block("", redacted_data="d", provenance="mine"),
    ],
)
@proves("REA-1")
def test_own_proven_reasoning_goes_back_as_it_is(own: ReasoningBlock, options: LLMChatOptions) -> None:
    assert echo(own, adapter_name="mine", options=options) is own


@pytest.mark.parametrize(
    "foreign",
    [
        block(signature="s", provenance="other"),
        block(signature="s"),
        block(signature="s", provenance=""),
        block(provenance="mine"),
        block(signature="", redacted_data="", provenance="mine"),
    ],
)
@proves("REA-1", "REA-2", "REA-4")
def test_other_reasoning_is_left_out_or_becomes_text(foreign: ReasoningBlock) -> None:
    assert echo(foreign, adapter_name="mine", options=PLAIN) is None
    assert echo(foreign, adapter_name="mine", options=AS_TEXT) == TextBlock(text="<thinking>why</thinking>")


@proves("REA-2")
def test_no_provenance_is_not_the_adapter_without_a_name() -> None:
    assert echo(block(signature="s", provenance=""), adapter_name="", options=PLAIN) is None


@proves("REA-1")
def test_an_adapter_that_echoes_nothing_sends_its_own_reasoning_as_text_too() -> None:
    own = block(signature="s", provenance="mine")
    assert echo(own, adapter_name="mine", options=PLAIN, echoes="never") is None
    assert echo(own, adapter_name="mine", options=AS_TEXT, echoes="never") == TextBlock(text="<thinking>why</thinking>")


@proves("REA-1")
def test_redacted_data_goes_back_only_where_the_provider_issues_it() -> None:
    own = block("", redacted_data="d", provenance="mine")
    assert echo(own, adapter_name="mine", options=PLAIN, takes_redacted=False) is None
    signed = block(signature="s", provenance="mine")
    assert echo(signed, adapter_name="mine", options=PLAIN, takes_redacted=False) is signed


@pytest.mark.parametrize("options", [PLAIN, AS_TEXT])
@proves("REA-3")
def test_reasoning_that_only_tool_conversations_want(options: LLMChatOptions) -> None:
    def sent(one: ReasoningBlock, *, tools_used: bool = True) -> object:
        return echo(one, adapter_name="mine", options=options, echoes="tool-use-only", tools_used=tools_used)

    own = block(provenance="mine")
    assert sent(own) is own
    assert sent(own, tools_used=False) is None
    assert sent(block("", provenance="mine")) is None
    assert sent(block(redacted_data="d", provenance="mine")) is None


@proves("REA-3", "REA-4")
def test_foreign_reasoning_may_become_text_there_too() -> None:
    foreign = block(provenance="other")
    assert echo(foreign, adapter_name="mine", options=PLAIN, echoes="tool-use-only") is None
    made = echo(foreign, adapter_name="mine", options=AS_TEXT, echoes="tool-use-only")
    assert made == TextBlock(text="<thinking>why</thinking>")


@proves("REA-4")
def test_reasoning_without_a_text_becomes_none() -> None:
    assert echo(block("", provenance="other"), adapter_name="mine", options=AS_TEXT) is None
    assert reasoning_to_inline_text(block("", redacted_data="")) == ""


@proves("REA-5")
def test_of_redacted_reasoning_the_text_says_only_that_it_was_there() -> None:
    redacted = block("not this", redacted_data="nor this", provenance="other")
    assert reasoning_to_inline_text(redacted) == "<thinking>[redacted]</thinking>"
    assert echo(redacted, adapter_name="mine", options=AS_TEXT) == TextBlock(text="<thinking>[redacted]</thinking>")


@proves("REA-5")
def test_an_empty_redaction_is_none() -> None:
    assert reasoning_to_inline_text(block("why", redacted_data="")) == "<thinking>why</thinking>"


@proves("REA-6")
def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    cut = inner("A" * 60 + "M" * 60 + "Z" * 60, 60)
    assert cut == "A" * 31 + "...[truncated]..." + "Z" * 12
    assert len(inner("x" * 5_000)) == 1_200
    assert inner("a" * 3_000 + "z" * 3_000).index("...") == 829


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (3, "abc"),
        (2.9, "ab"),
        (1, "a"),
        (0, "a"),
        (-3, "a"),
        (0.5, "a"),
        (math.nan, "a"),
        (-math.inf, "a"),
        (6, "abcdef"),
        (math.inf, "abcdef"),
        (None, "abcdef"),
    ],
)
@proves("REA-6")
def test_limits(limit: float | None, expected: str) -> None:
    assert inner("abcdef", limit) == expected


@proves("REA-6")
def test_one_character_is_left_as_it_is_under_any_limit() -> None:
    assert inner("x", 0.5) == "x"


@given(st.text(min_size=1, max_size=100), st.one_of(st.integers(-5, 120), st.floats()))
@proves("REA-6")
def test_no_text_is_longer_than_its_limit(text: str, limit: float) -> None:
    assert len(inner(text, limit)) <= (1 if math.isnan(limit) else max(1, limit))


@pytest.mark.parametrize(
    ("setting", "limit"),
    [
        (None, 1_200),
        (True, 1_200),
        (False, NO_TRUNCATION),
        (ReasoningCompression(), 1_200),
        (ReasoningCompression(min_chars=32), 32),
    ],
)
@proves("REA-7")
def test_the_setting_is_a_limit(setting: Any, limit: float) -> None:
    assert compression_limit(setting) == limit
    options = LLMChatOptions(model="m", preserve_reasoning_as_text=True, compress_reasoning_text=setting)
    made = echo(block("x" * 5_000), adapter_name="mine", options=options)
    assert isinstance(made, TextBlock)
    assert len(made.text) == min(5_000, limit) + len("<thinking></thinking>")


@proves("REA-7")
def test_the_setting_can_be_a_mapping() -> None:
    settings = ModelSettings(compress_reasoning_text={"min_chars": 32})  # type: ignore[arg-type]
    assert settings.compress_reasoning_text == ReasoningCompression(min_chars=32)
    assert ModelSettings(compress_reasoning_text=False).compress_reasoning_text is False


@pytest.mark.parametrize("value", [0, -3, 0.5, math.nan, "many"])
@proves("REA-8")
def test_a_compression_keeps_something(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="min_chars"):
        ReasoningCompression(min_chars=value)


@proves("REA-8")
def test_modes_and_caches_have_names() -> None:
    assert ThinkingConfig().mode == "budget"
    with pytest.raises(ConfigurationError, match="mode"):
        ThinkingConfig(mode="deep")  # type: ignore[arg-type]
    assert ModelSettings(cache="auto").cache == "auto"
    with pytest.raises(ConfigurationError, match="cache"):
        ModelSettings(cache="all")  # type: ignore[arg-type]

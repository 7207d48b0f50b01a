"""What providers report of tokens: numbers that make no sense are no usage, whatever the protocol."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from openmultiagent.adapters import LLMResponse
from openmultiagent.adapters import _anthropic_answer as anthropic
from openmultiagent.adapters import _bedrock_answer as bedrock
from openmultiagent.adapters import _gemini_answer as gemini
from openmultiagent.adapters import _openai_answer as openai
from openmultiagent.adapters import _responses_answer as responses
from openmultiagent.usage import TokenUsage
from tests.support import proves

READING: dict[str, Any] = {"provider": "p", "model": "m", "redact": str}
TEXT = {"type": "text", "text": "x"}


def read_openai(usage: object) -> LLMResponse:
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    return openai.AnswerReader(**READING).read(json.dumps(body).encode())


def read_responses(usage: object) -> LLMResponse:
    return responses.AnswerReader(**READING).read(json.dumps({"output": [], "usage": usage}).encode())


def read_anthropic(usage: object) -> LLMResponse:
    return anthropic.AnswerReader(**READING).read(json.dumps({"content": [TEXT], "usage": usage}).encode())


def read_gemini(usage: object) -> LLMResponse:
    return gemini.AnswerReader(**READING).read(json.dumps({"candidates": [], "usageMetadata": usage}).encode())


def read_bedrock(usage: object) -> LLMResponse:
    body = {"output": {"message": {"content": [{"text": "x"}]}}, "usage": usage}
    return bedrock.AnswerReader(**READING, request_id="r").read(json.dumps(body).encode())


READERS: dict[str, tuple[Callable[[object], LLMResponse], str, str]] = {
    "openai": (read_openai, "prompt_tokens", "completion_tokens"),
    "responses": (read_responses, "input_tokens", "output_tokens"),
    "anthropic": (read_anthropic, "input_tokens", "output_tokens"),
    "gemini": (read_gemini, "promptTokenCount", "candidatesTokenCount"),
    "bedrock": (read_bedrock, "inputTokens", "outputTokens"),
}
every_protocol = pytest.mark.parametrize("protocol", READERS)
SENSELESS = [-1, -(2**70), float("nan"), float("inf"), 1.5, True, False, "7", "", [7], {"n": 7}]


@every_protocol
@pytest.mark.parametrize("number", SENSELESS, ids=repr)
@proves("MOD-17")
def test_a_number_that_makes_no_sense_makes_the_usage_unknown(protocol: str, number: object) -> None:
    read, fresh, written = READERS[protocol]
    for usage in ({fresh: number, written: 5}, {fresh: 7, written: number}, {fresh: number, written: number}):
        assert read(usage).usage is None
    assert read({fresh: 7, written: 5}).usage == TokenUsage(input_tokens=7, output_tokens=5)


@every_protocol
@proves("MOD-17")
def test_a_number_that_is_not_told_is_none_of_the_others_business(protocol: str) -> None:
    read, fresh, written = READERS[protocol]
    assert read({fresh: 7}).usage == read({fresh: 7, written: None}).usage == TokenUsage(input_tokens=7)
    assert read({fresh: 0, written: 0}).usage == TokenUsage()
    for usage in (None, {}, {fresh: None}, {"other": 7}):
        assert read(usage).usage is None


@pytest.mark.parametrize("number", SENSELESS, ids=repr)
@pytest.mark.parametrize(
    ("protocol", "key"),
    [
        ("anthropic", "cache_read_input_tokens"),
        ("anthropic", "cache_creation_input_tokens"),
        ("bedrock", "cacheReadInputTokens"),
        ("bedrock", "cacheWriteInputTokens"),
        ("gemini", "thoughtsTokenCount"),
        ("gemini", "toolUsePromptTokenCount"),
    ],
)
@proves("MOD-17")
def test_so_does_one_that_would_have_to_be_added(protocol: str, key: str, number: object) -> None:
    read, fresh, written = READERS[protocol]
    assert read({fresh: 7, written: 5, key: 0}).usage == TokenUsage(input_tokens=7, output_tokens=5)
    assert read({fresh: 7, written: 5, key: number}).usage is None


@pytest.mark.parametrize("number", SENSELESS, ids=repr)
@proves("MOD-17")
def test_a_part_that_makes_no_sense_is_left_out(number: object) -> None:
    usage = TokenUsage(input_tokens=7, output_tokens=5)
    details = {"cached_tokens": number, "cache_write_tokens": number, "reasoning_tokens": number}
    told = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_cache_hit_tokens": number}
    assert read_openai({**told, "prompt_tokens_details": details, "completion_tokens_details": details}).usage == usage
    told = {"input_tokens": 7, "output_tokens": 5}
    assert read_responses({**told, "input_tokens_details": details, "output_tokens_details": details}).usage == usage
    assert read_anthropic({**told, "output_tokens_details": {"thinking_tokens": number}}).usage == usage


@proves("MOD-17")
def test_the_last_report_of_a_stream_counts_also_when_it_makes_no_sense() -> None:
    def usage_of(*reports: object) -> TokenUsage | None:
        reader = openai.StreamReader(**READING)
        reader.feed('{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}')
        for report in reports:
            reader.feed(json.dumps({"choices": [], "usage": report}))
        answer = reader.finish()[-1].data
        assert isinstance(answer, LLMResponse)
        return answer.usage

    seven, broken = {"prompt_tokens": 7, "completion_tokens": 1}, {"prompt_tokens": 7, "completion_tokens": -1}
    known = TokenUsage(input_tokens=7, output_tokens=1)
    assert usage_of(broken, seven) == usage_of(seven, None) == usage_of(seven, {}) == usage_of(seven, 5) == known
    assert usage_of(seven, broken) is None

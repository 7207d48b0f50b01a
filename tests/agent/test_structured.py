"""Structured output."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator
from typing_extensions import TypedDict

from openmultiagent import (
    Agent,
    AgentConfig,
    CancelToken,
    ConfigurationError,
    ContentBlock,
    LLMMessage,
    ReasoningBlock,
    StructuredOutputValidationError,
    TextBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import AdapterCapabilities, LLMChatOptions, LLMResponse, StreamEvent
from openmultiagent.agent._partial import PartialReader
from openmultiagent.agent._structured import OutputFormat, output_format
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves


class City(BaseModel):
    """A city."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Its English name")
    population: Annotated[int, Field(ge=0)]
    capital: bool = False
    rivers: list[str] = []


GOOD = '{"name": "Paris", "population": 2100000, "capital": true, "rivers": ["Seine"]}'
PARIS = City(name="Paris", population=2100000, capital=True, rivers=["Seine"])


def spend(text: str, tokens: int) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens))


def agent(adapter: Any, kind: Any, **fields: Any) -> Agent[Any]:
    return Agent(AgentConfig("tester", adapter=adapter, output_schema=kind, **fields))


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(TypedDict):
    left: str
    right: int


class Colour(enum.Enum):
    RED = "red"


@proves("STR-1", "STR-5")
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (City, GOOD, PARIS),
        (Point, '{"x": 1}', Point(1)),
        (Pair, '{"left": "a", "right": 2}', {"left": "a", "right": 2}),
        (TypeAdapter(City), GOOD, PARIS),
        (list[City], f"[{GOOD}]", [PARIS]),
        (list[City], f'{{"value": [{GOOD}]}}', [PARIS]),
        (int, '{"value": 3}', 3),
        (int, "3", 3),
        (str, '{"value": "x"}', "x"),
        (bool, '{"value": false}', False),
        (int | str, '{"value": "x"}', "x"),
        (City | Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (Colour, '{"value": "red"}', Colour.RED),
        (int | None, '{"value": null}', None),
    ],
)
async def test_any_type_that_pydantic_can_describe(kind: Any, text: str, value: object) -> None:
    result = await agent(ScriptedAdapter([text]), kind).run("q")
    assert result.success, result.output
    assert result.structured == value
    assert result.output == text


@proves("STR-1")
@pytest.mark.parametrize("kind", [object(), lambda: 1, type("Plain", (), {})])
def test_a_type_without_schema_is_refused_with_the_definition(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="output_schema"):
        AgentConfig("x", model="m", output_schema=kind)


def enforcing(*answers: str) -> ScriptedAdapter:
    return ScriptedAdapter(list(answers), capabilities=AdapterCapabilities(structured_output=True))


@proves("STR-2")
async def test_the_schema_goes_to_the_provider_or_into_the_prompt() -> None:
    native = enforcing(GOOD)
    await agent(native, City, system_prompt="Be brief.").run("q")
    assert native.calls[0].options.system_prompt == "Be brief."
    assert native.calls[0].options.output_schema == City.model_json_schema()
    told = ScriptedAdapter([GOOD, GOOD])
    await agent(told, City, system_prompt="Be brief.").run("q")
    prompt = told.calls[0].options.system_prompt
    assert prompt is not None
    assert prompt.startswith("Be brief.\n\n")
    assert "Output Format (REQUIRED)" in prompt
    assert "ONLY valid JSON" in prompt
    assert '"Its English name"' in prompt
    assert told.calls[0].options.output_schema is None
    await agent(told, City).run("q")
    assert (told.calls[1].options.system_prompt or "").startswith("## Output Format")


@proves("STR-3")
async def test_an_enforced_answer_is_checked_all_the_same() -> None:
    result = await agent(enforcing('{"name": "x"}', '{"name": "x"}'), City).run("q")
    assert not result.success


@proves("STR-4")
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Here it is:\n```\n{GOOD}\n```\nDone.",
        f"```text\nnothing\n```\n```json\n{GOOD}\n```",
        f"Sure! {GOOD} Anything else?",
        f'First [1, 2], then {{"a": }} and {GOOD}.',
        f"{{ broken {GOOD}",
    ],
)
async def test_where_the_json_may_stand(text: str) -> None:
    result = await agent(ScriptedAdapter([text]), City).run("q")
    assert result.structured == PARIS


@proves("STR-4")
async def test_reasoning_plays_no_part() -> None:
    blocks: list[ContentBlock] = [ReasoningBlock(text='{"name": "broken'), TextBlock(text=GOOD)]
    assert (await agent(ScriptedAdapter([blocks]), City).run("q")).structured == PARIS


@proves("STR-4")
async def test_only_the_first_fault_of_many_is_told() -> None:
    adapter = ScriptedAdapter(['{"name": 1} {"name": 2}', "{" * 500])
    result = await agent(adapter, City).run("q")
    assert not result.success
    assert result.error is not None
    assert "Failed to extract JSON" in str(result.error.__cause__)


@proves("STR-6")
async def test_a_long_list_of_faults_is_cut() -> None:
    adapter = ScriptedAdapter([f"[{', '.join(['{}'] * 50)}]", "[]"])
    await agent(adapter, list[City]).run("q")
    feedback = adapter.calls[1].messages[-1].content[0]
    assert isinstance(feedback, TextBlock)
    assert "and 80 more" in feedback.text


@proves("STR-1")
def test_formats_of_types_are_kept() -> None:
    assert output_format(City) is output_format(City)
    assert output_format(Annotated[int, []]).schema == output_format(int).schema


@proves("STR-6")
async def test_a_wrong_answer_is_given_back_with_its_faults() -> None:
    bad = '{"name": "Paris", "population": -1, "mayor": "x"}'
    adapter = ScriptedAdapter([spend(bad, 10), spend(GOOD, 20)])
    result = await agent(adapter, City).run("q")
    assert result.success
    assert result.structured == PARIS
    assert result.token_usage.input_tokens == 30
    assert [message.role for message in result.messages] == ["assistant", "user", "assistant"]
    feedback = adapter.calls[1].messages[-1].content[0]
    assert isinstance(feedback, TextBlock)
    assert "Output validation failed" in feedback.text
    assert "population" in feedback.text
    assert "mayor" in feedback.text


@proves("STR-6", "STR-7")
@pytest.mark.parametrize("corrections", [0, 1, 3])
async def test_corrections_are_bounded(corrections: int) -> None:
    adapter = ScriptedAdapter(lambda messages, options: f"answer {len(messages)}")
    result = await agent(adapter, City, max_output_corrections=corrections).run("q")
    assert len(adapter.calls) == corrections + 1
    assert (result.success, result.status.code, result.structured) == (False, "error", None)
    assert isinstance(result.error, StructuredOutputValidationError)
    assert "Failed to extract JSON" in str(result.error.cause)
    retried = " after retry" if corrections else ""
    assert str(result.error) == f"Structured output validation failed{retried}: the answer holds no JSON"
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.retryable) == ("validation", False)
    assert result.output == f"answer {2 * corrections + 1}"


@proves("STR-7")
async def test_the_error_has_the_first_fault_and_no_secret() -> None:
    class Login(BaseModel):
        user: str
        age: int

        @field_validator("user")
        @classmethod
        def known(cls, value: str) -> str:
            raise ValueError(f"nobody has the password={value}")

    adapter = ScriptedAdapter(lambda messages, options: '{"user": "hunter2", "age": "x"}')
    result = await agent(adapter, Login, max_output_corrections=0).run("q")
    assert str(result.error) == (
        "Structured output validation failed: user: Value error, nobody has the password=[redacted]"
    )


@proves("STR-7")
async def test_no_answer_within_the_turn_limit_is_a_failure() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    adapter = ScriptedAdapter(lambda messages, options: [ToolUseBlock(id="c", name="look", input={})])
    result = await agent(adapter, City, tools=[look], max_turns=2).run("q")
    assert isinstance(result.error, StructuredOutputValidationError)
    corrected = await agent(ScriptedAdapter(["bad"] * 3), City, max_turns=1).run("q")
    assert isinstance(corrected.error, StructuredOutputValidationError)


@proves("STR-8")
async def test_a_budget_holds_for_corrections() -> None:
    adapter = ScriptedAdapter([spend("bad", 30), spend(GOOD, 30)])
    result = await agent(adapter, City, max_token_budget=40).run("q")
    assert (result.status.code, result.structured) == ("budget_exhausted", None)


@proves("STR-8")
async def test_a_token_holds_for_corrections() -> None:
    token = CancelToken()

    def second(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        token.cancel()
        return GOOD

    result = await agent(ScriptedAdapter(["bad", second]), City).run("q", cancel=token)
    assert result.structured is None or result.success


@proves("STR-9")
async def test_streams_and_prompts_check_too() -> None:
    streaming = agent(ScriptedAdapter(["bad", GOOD]), City).stream("q")
    async with streaming:
        async for _ in streaming:
            pass
    assert streaming.result.structured == PARIS
    talking = agent(ScriptedAdapter(["bad", GOOD]), City)
    assert (await talking.prompt("q")).structured == PARIS
    assert len(talking.get_history()) == 4


async def prefixes(text: str, kind: Any, *, size: int = 1) -> list[Any]:
    """The prefixes of an answer that arrives in pieces of some characters."""
    stream = agent(Pieces(text, size), kind).stream("q")
    async with stream:
        return [prefix async for prefix in stream.partial(kind)]


class Pieces:
    """Streams texts in pieces of a fixed size."""

    name = "pieces"

    def __init__(self, texts: str | list[str], size: int) -> None:
        self.texts = [texts] if isinstance(texts, str) else texts
        self.size = size

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        raise AssertionError

    async def stream(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> Any:
        text = self.texts.pop(0)
        for start in range(0, len(text), self.size):
            yield StreamEvent("text", text[start : start + self.size])
        yield StreamEvent("done", LLMResponse([TextBlock(text=text)]))


def extends(earlier: Any, later: Any) -> bool:
    """Whether a later prefix contradicts nothing of an earlier one."""
    if isinstance(earlier, dict):
        return all(key in later and extends(value, later[key]) for key, value in earlier.items())
    if isinstance(earlier, list):
        return len(earlier) <= len(later) and all(map(extends, earlier, later))
    if isinstance(earlier, str):
        return isinstance(later, str) and later.startswith(earlier)
    return bool(earlier == later)


@proves("STR-20", "STR-21")
async def test_an_answer_grows_field_by_field() -> None:
    seen = await prefixes(GOOD, City)
    assert seen[0] == {"name": ""}
    assert {"name": "Par"} in seen
    assert {"name": "Paris", "population": 2100000} in seen
    assert all(prefix.get("population") in (None, 2100000) for prefix in seen)
    assert all(prefix.get("capital") in (None, True) for prefix in seen)
    assert seen[-1] == {"name": "Paris", "population": 2100000, "capital": True, "rivers": ["Seine"]}
    for earlier, later in pairwise(seen):
        assert extends(earlier, later)


@proves("STR-21")
async def test_cut_escapes_are_held_back() -> None:
    seen = await prefixes(r'{"name": "a\n\u00e9\ud83c\udf89\\b", "population": 1}', City)
    names = [prefix["name"] for prefix in seen]
    assert names[-1] == "a\né🎉\\b"
    assert all("a\né🎉\\b".startswith(name) for name in names)


@proves("STR-20")
async def test_a_field_that_does_not_fit_is_left_out() -> None:
    seen = await prefixes('{"name": "x", "population": -5, "rivers": [1], "capital": true}', City, size=3)
    assert seen[-1] == {"name": "x", "capital": True}


@proves("STR-20")
@pytest.mark.parametrize(("kind", "last"), [(Point, {"x": 1, "y": 2}), (dict[str, int], {"x": 1, "y": 2})])
async def test_other_kinds_grow_too(kind: Any, last: object) -> None:
    assert (await prefixes('{"x": 1, "y": 2}', kind))[-1] == last


@proves("STR-20")
async def test_a_wrapped_value_grows_in_its_wrapper() -> None:
    assert (await prefixes('{"value": "hello"}', str))[-1] == {"value": "hello"}


@proves("STR-23")
async def test_items_of_a_list_are_delivered_as_they_finish() -> None:
    seen = await prefixes('[{"x": 1}, {"x": 2}, {"x": "bad"}, {"x": 4}]', list[Point])
    assert seen == [[{"x": 1}], [{"x": 1}, {"x": 2}]]


@proves("STR-22")
async def test_a_correction_begins_anew() -> None:
    stream = agent(Pieces(['{"name": "wrong"}', GOOD], 200), City).stream("q")
    async with stream:
        seen = [prefix async for prefix in stream.partial(City)]
    assert seen == [{"name": "wrong"}, {"name": "Paris", "population": 2100000, "capital": True, "rivers": ["Seine"]}]
    assert stream.result.structured == PARIS


class Anything(BaseModel):
    text: str
    number: float
    nested: dict[str, list[int] | str]
    flag: bool | None


VALUES = st.builds(
    Anything,
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    number=st.floats(allow_nan=False, allow_infinity=False),
    nested=st.dictionaries(st.text(max_size=4), st.lists(st.integers(), max_size=3) | st.text(max_size=4), max_size=3),
    flag=st.sampled_from([True, False, None]),
)


@proves("STR-20", "STR-21")
@settings(deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 2]), data=st.data())
def test_no_prefix_contradicts_the_answer(value: Anything, indent: int | None, data: st.DataObject) -> None:
    text = value.model_dump_json(indent=indent)
    reader = PartialReader(OutputFormat(Anything))
    final = value.model_dump(mode="json")
    seen: list[Any] = []
    while text:
        size = data.draw(st.integers(1, 9))
        piece, text = text[:size], text[size:]
        prefix = reader.feed(piece)
        if prefix is not None:
            seen.append(prefix)
    assert all(extends(prefix, final) for prefix in seen)
    assert all(extends(a, b) for a, b in pairwise(seen))
    assert seen[-1] == final

"""Values of others in the texts of errors: a failing or a long repr never takes the place of the error."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import (
    Agent,
    AgentConfig,
    ConfigurationError,
    EgressPolicyError,
    InvalidMessageError,
    LLMMessage,
    OpenMultiAgent,
    tool,
)
from openmultiagent._shown import shown
from openmultiagent.adapters import LLMChatOptions
from openmultiagent.evaluation import OnlineEvaluation, Score, scorer
from openmultiagent.messages import check_history, is_approaching_limit, truncate_messages
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.tracing import TraceContent
from tests.support import proves


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class BrokenText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Endless:
    def __repr__(self) -> str:
        return f"<{self!r}>"


class Long:
    def __repr__(self) -> str:
        return "x" * 1_000_000


class Surrogate:
    def __repr__(self) -> str:
        return "é\ud800"


@proves("ERR-8")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "5"),
        ("it's", '"it\'s"'),
        (None, "None"),
        ([1, "a"], "[1, 'a']"),
        (Broken(), "<Broken whose repr raises RuntimeError>"),
        (Endless(), "<Endless whose repr raises RecursionError>"),
        (Long(), "x" * 97 + "..."),
        ("y" * 1_000_000, "'" + "y" * 96 + "..."),
        (b"z" * 1_000_000, "b'" + "z" * 95 + "..."),
        ([0] * 1_000_000, "<list of 1000000 items>"),
        (dict.fromkeys(range(101)), "<dict of 101 items>"),
        (Surrogate(), "é\\ud800"),
    ],
)
def test_a_value_is_shown_in_few_characters(value: object, expected: str) -> None:
    assert shown(value) == expected


@proves("ERR-8")
def test_a_number_beyond_all_digits_is_shown_too() -> None:
    assert shown(10**5000) == "<int whose repr raises ValueError>"


@proves("ERR-8")
@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=40), st.integers(10, 50))
def test_what_is_shown_is_the_beginning_of_the_repr(value: object, limit: int) -> None:
    text = shown(value, limit)
    assert len(text) <= max(limit, len(f"<list of {math.inf} items>"))
    if len(repr(value)) <= limit:
        assert text == repr(value)


async def agent_function(messages: list[LLMMessage], options: LLMChatOptions) -> str:
    return "ok"


@tool
def look() -> str:
    """Look."""
    return "seen"


bad: Any = Broken()


@proves("ERR-8")
@pytest.mark.parametrize(
    "misuse",
    [
        lambda: Agent(bad),
        lambda: AgentConfig("x", adapter=bad),
        lambda: AgentConfig("x", settings=bad),
        lambda: AgentConfig("x", tools=bad),
        lambda: AgentConfig("x", tools=[bad]),
        lambda: AgentConfig("x", model_middleware=bad),
        lambda: AgentConfig("x", model_middleware=[bad]),
        lambda: AgentConfig("x", context_strategy=bad),
        lambda: AgentConfig("x", context_strategy={"type": bad}),  # type: ignore[arg-type]
        lambda: AgentConfig("x", compress_tool_results=bad),
        lambda: AgentConfig("x", loop_detection=bad),
        lambda: AgentConfig("x", loop_detection={"on_loop_detected": bad}),  # type: ignore[arg-type]
        lambda: AgentConfig("x", wrap_up=bad),
        lambda: AgentConfig("x", output_schema=bad),
        lambda: AgentConfig("x", egress_policy=bad),
        lambda: AgentConfig("x", egress_policy={"mode": bad}),  # type: ignore[arg-type]
        lambda: AgentConfig("x", max_turns=bad),
        lambda: AgentConfig("x", timeout=bad),
        lambda: AgentConfig(bad),
        lambda: AgentConfig("x", disallowed_tools=bad),
        lambda: AgentConfig("x", disallowed_tools=[BrokenText("a")]),
        lambda: AgentConfig("x", tools=[BrokenText("a")]),
        lambda: AgentConfig.of({bad: 1}),
        lambda: AgentConfig.of({"name": "x", BrokenText("modle"): 1}),
        lambda: AgentConfig.of({"name": "x", BrokenText("temperature"): 1}),
        lambda: OpenMultiAgent(evaluation=bad),
        lambda: OpenMultiAgent(trace_content=bad),
        lambda: OpenMultiAgent(budget_mode=bad),
        lambda: OpenMultiAgent(on_progress=bad),
        lambda: OpenMultiAgent(default_provider=bad),
        lambda: OnlineEvaluation([bad]),
        lambda: OnlineEvaluation([lambda context: 1.0], on_result=bad),
        lambda: Score(bad),
        lambda: scorer(timeout=bad),
        lambda: scorer(bad),
        lambda: TraceContent(redact=bad),
        lambda: tool(bad),
        lambda: tool(name=BrokenText("a b"))(agent_function),
        lambda: tool(timeout=bad)(agent_function),
        lambda: truncate_messages([], bad),
        lambda: is_approaching_limit([], bad),
        lambda: check_history([], dialect=bad),
    ],
)
def test_no_misuse_is_told_by_the_failure_of_a_repr(misuse: Callable[[], object]) -> None:
    with pytest.raises((ConfigurationError, EgressPolicyError)):
        misuse()


@proves("ERR-8")
@pytest.mark.parametrize(
    "arguments",
    [
        {"metadata": {bad: 1}},
        {"metadata": {"a": bad}},
        {"metadata": {BrokenText("A b"): 1}},
        {"run_id": bad},
        {"run_id": BrokenText("\n")},
        {"max_token_budget": bad},
        {"cancel": bad},
    ],
)
def test_no_call_is_refused_by_the_failure_of_a_repr(arguments: dict[str, Any]) -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]))
    with pytest.raises(ConfigurationError):
        _ = oma.run_agent({"name": "x"}, "q", **arguments)


@proves("ERR-8")
def test_messages_are_refused_without_a_look_at_the_repr() -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]))
    for given_input in (bad, [bad], [{"role": bad, "content": []}], [{"role": "user", "content": [bad]}]):
        with pytest.raises(InvalidMessageError):
            _ = oma.run_agent({"name": "x"}, given_input)
    with pytest.raises(InvalidMessageError):
        LLMMessage.user_with_image_detail("x", "https://example.com/a.png", bad)
    with pytest.raises(InvalidMessageError):
        LLMMessage(role=bad, content=bad)


@proves("ERR-8")
@pytest.mark.parametrize(
    "changes",
    [
        {"before_run": lambda context: {bad: 1}},
        {"before_run": lambda context: bad},
        {"after_run": lambda result: bad},
        {"adapter": ScriptedAdapter(lambda messages, options: bad)},
        {"loop_detection": {"on_loop_detected": lambda info: bad}},
        {"context_strategy": {"type": "custom", "compress": lambda *args: bad}},
    ],
)
async def test_what_users_callables_return_fails_the_run_and_nothing_else(changes: dict[str, Any]) -> None:
    config = AgentConfig(**{"name": "x", "adapter": ScriptedAdapter(["ok"]), **changes})
    result = await Agent(config).run("q")
    assert result.success or result.error is not None
    assert "no repr" not in result.output

"""Profiles of goals, and who makes them."""

import json
from typing import Any

import pytest

from openmultiagent import ConfigurationError, TextBlock
from openmultiagent.adapters import AdapterCapabilities, LLMResponse
from openmultiagent.orchestrator import (
    LLMTaskProfiler,
    RosterSummaryEntry,
    RoutingBudget,
    RoutingContext,
    TaskProfile,
    TaskProfiler,
    TaskProfilerResult,
)
from openmultiagent.orchestrator._routing._profiler import InvalidProfileError, as_profile, check_profiler
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

PROFILE: dict[str, Any] = {
    "evidence_sources": "single",
    "independent_review": "none",
    "conflicting_objectives": False,
    "side_effect_intent": "none",
    "permission_isolation": "none",
    "decomposable": False,
    "parallelizable": False,
    "complexity": "low",
    "confidence": 0.9,
    "reasons": ["it is one question"],
}
CAMEL = {
    "evidenceSources": "single",
    "independentReview": "none",
    "conflictingObjectives": False,
    "sideEffectIntent": "none",
    "permissionIsolation": "none",
    "decomposable": False,
    "parallelizable": False,
    "complexity": "low",
    "confidence": 0.9,
    "reasons": ["it is one question"],
}
CONTEXT = RoutingContext(
    'Say "hello".',
    (RosterSummaryEntry("alpha", "m", 2, ("chat",)), RosterSummaryEntry("beta")),
    RoutingBudget(token_remaining=100),
)


def sent(adapter: ScriptedAdapter) -> Any:
    (block,) = adapter.calls[0].messages[0].content
    assert isinstance(block, TextBlock)
    return json.loads(block.text)


def scripted(text: str, **fields: Any) -> ScriptedAdapter:
    usage = TokenUsage(input_tokens=3, output_tokens=2)
    return ScriptedAdapter([LLMResponse([TextBlock(text=text)], usage=usage)], **fields)


@proves("ROU-20")
async def test_the_model_is_asked_once_without_tools_and_with_data_only() -> None:
    adapter = scripted(json.dumps(PROFILE))
    profiler = LLMTaskProfiler(adapter, model="small")
    assert isinstance(profiler, TaskProfiler)
    result = await profiler.profile(CONTEXT)
    (call,) = adapter.calls
    assert sent(adapter) == {
        "goal": 'Say "hello".',
        "roster": [
            {"name": "alpha", "model": "m", "tool_count": 2, "capabilities": ["chat"]},
            {"name": "beta"},
        ],
        "budget": {"token_remaining": 100},
    }
    options = call.options
    assert (options.model, options.temperature, options.max_tokens) == ("small", 0, 800)
    assert (list(options.tools), options.extra_body, options.output_schema) == ([], None, None)
    assert as_profile(result.profile) == TaskProfile(**PROFILE)
    assert (result.usage, result.model, result.provider) == (
        TokenUsage(input_tokens=3, output_tokens=2),
        "small",
        "scripted",
    )


@proves("ROU-20")
async def test_a_provider_that_can_enforce_the_form_is_told_it() -> None:
    adapter = scripted(json.dumps(PROFILE), capabilities=AdapterCapabilities(structured_output=True))
    await LLMTaskProfiler(adapter).profile(RoutingContext("Hi", ()))
    schema = adapter.calls[0].options.output_schema
    assert schema is not None
    assert set(schema["required"]) == set(PROFILE)
    assert "budget" not in sent(adapter)


@proves("ROU-20")
async def test_deepseek_is_told_not_to_think() -> None:
    adapter = scripted("{}", name="deepseek")
    await LLMTaskProfiler(adapter).profile(CONTEXT)
    assert adapter.calls[0].options.extra_body == {"thinking": {"type": "disabled"}}


@proves("ROU-20")
def test_the_version_names_adapter_and_model() -> None:
    assert LLMTaskProfiler(scripted("")).version == "llm-task-profiler-v1:scripted:scripted"
    assert LLMTaskProfiler(scripted(""), model="m").version == "llm-task-profiler-v1:scripted:m"
    with pytest.raises(ConfigurationError, match="adapter must have a name and chat"):
        LLMTaskProfiler("anthropic")  # type: ignore[arg-type]


@proves("ROU-21")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PROFILE),
        json.dumps(CAMEL),
        f"```json\n{json.dumps(PROFILE)}\n```",
        f"Here it is: {json.dumps(CAMEL)} as asked.",
        f"[1] {json.dumps(PROFILE)}",
    ],
)
async def test_a_profile_is_found_however_it_is_wrapped_and_spelled(text: str) -> None:
    result = await LLMTaskProfiler(scripted(text)).profile(CONTEXT)
    assert as_profile(result.profile) == TaskProfile(**PROFILE)


@proves("ROU-21")
@pytest.mark.parametrize("text", ["", "no", "[1]", "{", "[" * 100_000])
async def test_an_answer_without_an_object_is_no_profile_but_has_its_usage(text: str) -> None:
    result = await LLMTaskProfiler(scripted(text)).profile(CONTEXT)
    assert result.profile is None
    assert result.usage == TokenUsage(input_tokens=3, output_tokens=2)


@proves("ROU-21")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"complexity": "huge"}, "complexity: "),
        ({"confidence": 1.01}, "confidence: "),
        ({"confidence": float("nan")}, "confidence: "),
        ({"confidence": "0.9"}, "confidence: "),
        ({"decomposable": 1}, "decomposable: "),
        ({"reasons": []}, "reasons: "),
        ({"reasons": ["x"] * 6}, "reasons: "),
        ({"reasons": ["x" * 201]}, "reasons.0: "),
        ({"reasons": [""]}, "reasons.0: "),
        ({"reasons": "x"}, "reasons: "),
        ({"source": "declared"}, "source: "),
        ({"x" * 1_000: 1}, "x" * 80 + ": "),
        ({"evidenceSources": "single"}, "it has evidence_sources in both spellings"),
    ],
)
def test_a_profile_is_checked_strictly(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidProfileError) as caught:
        as_profile(PROFILE | change)
    assert str(caught.value).startswith(fault)
    assert len(str(caught.value)) < 400


@proves("ROU-21")
@pytest.mark.parametrize(
    "value", [None, "profile", [PROFILE], {1: 2}, {}, TaskProfile.model_construct(**PROFILE | {"confidence": 3})]
)
def test_anything_else_is_no_profile(value: Any) -> None:
    with pytest.raises(InvalidProfileError):
        as_profile(value)


@proves("ROU-21")
def test_a_profile_says_that_it_is_inferred() -> None:
    profile = TaskProfile(**PROFILE)
    assert profile.source == "inferred"
    assert as_profile(profile) == profile


class Mine:
    version = "mine"

    def profile(self, _context: RoutingContext) -> TaskProfilerResult:
        return TaskProfilerResult(PROFILE)


@proves("ROU-22")
def test_what_is_no_profiler_is_refused() -> None:
    mine = Mine()
    assert check_profiler(mine) is mine
    assert check_profiler(None) is None
    with pytest.raises(ConfigurationError, match="profiler must have a version and profile"):
        check_profiler(lambda _context: PROFILE)

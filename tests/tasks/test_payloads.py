"""What a task's agent is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, computed_field

from openmultiagent import (
    AgentRunResult,
    DependencyPayloadError,
    ImageBlock,
    LLMMessage,
    RunIdentity,
    RunStatus,
    TaskSpec,
    TextBlock,
)
from openmultiagent.tasks import (
    MAX_PAYLOAD_BYTES,
    DependencyPayload,
    DependencyResult,
    canonical_json,
    dependency_context,
    failed_result,
    is_retryable_result,
    worker_input,
    worker_prompt,
)
from tests.support import proves


def result(output: str = "", structured: Any = None, *, success: bool = True) -> AgentRunResult[Any]:
    return AgentRunResult(
        success=success,
        status=RunStatus("ok" if success else "error"),
        stop_reason="end_turn",
        output=output,
        structured=structured,
        identity=RunIdentity("r"),
    )


def done(title: str, output: str = "", structured: Any = None, **fields: Any) -> DependencyResult:
    return DependencyResult(title=title, agent="ann", result=result(output, structured), **fields)


@proves("TSK-50")
def test_a_prompt_is_the_title_and_the_description() -> None:
    assert worker_prompt(TaskSpec("Read", "Read it.")) == "# Task: Read\n\nRead it."
    assert worker_prompt(TaskSpec("Look", [ImageBlock.from_url("https://example.com/a.png")])) == "# Task: Look"


@proves("TSK-50")
def test_a_prompt_with_everything() -> None:
    prompt = worker_prompt(
        TaskSpec("Read", "Read it."),
        team="## Team context",
        context="## Context",
        memory="## Shared memory",
        messages="## Messages from team members\n- bob: Hurry",
    )
    assert prompt == (
        "## Team context\n\n# Task: Read\n\nRead it.\n\n## Context\n\n## Shared memory\n\n"
        "## Messages from team members\n- bob: Hurry"
    )


@proves("TSK-50")
def test_an_agent_gets_the_media_and_the_earlier_messages_of_the_description() -> None:
    assert worker_input(TaskSpec("t", "d"), "prompt") == "prompt"
    image = ImageBlock.from_url("https://example.com/a.png")
    spec = TaskSpec("t", [LLMMessage.user("before"), LLMMessage.user_with_blocks([image, TextBlock.new("now")])])
    assert worker_prompt(spec) == "# Task: t\n\nnow"
    assert worker_input(spec, "prompt") == [
        LLMMessage.user("before"),
        LLMMessage.user_with_blocks([TextBlock.new("prompt"), image]),
    ]


@proves("TSK-51")
def test_outputs_are_handed_on_by_default() -> None:
    given = [
        done("A", "One."),
        done("B"),
        DependencyResult(title="C", result=result("Three.")),
        DependencyResult(title="D", result=None),
    ]
    assert dependency_context(given) == ("## Context from prerequisite tasks\n\n### A (by ann)\nOne.\n\n### C\nThree.")
    assert dependency_context([]) == ""
    assert dependency_context([done("B")]) == ""


@proves("TSK-52")
def test_structured_values_are_handed_on_as_canonical_json() -> None:
    dependency = done("A", "A narrative", {"z": 1, "a": {"d": 4, "b": 2}})
    value = '#### Validated structured result\n{"a":{"b":2,"d":4},"z":1}'
    heading = "## Context from prerequisite tasks\n\n### A (by ann)\n"
    assert dependency_context([dependency], "structured") == heading + value
    assert dependency_context([dependency], "both") == f"{heading}#### Raw output\nA narrative\n\n{value}"


class Point(BaseModel):
    y: float
    x: int


@dataclass
class Pair:
    b: object
    a: object


shared = {"k": [1]}


@proves("TSK-52")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point(y=1.5, x=2), '{"x":2,"y":1.5}'),
        (Pair(b=datetime(2025, 1, 2, tzinfo=UTC), a="é"), '{"a":"é","b":"2025-01-02T00:00:00Z"}'),
        ([float("nan"), float("inf"), 10**30, True, None], "[null,null,1000000000000000000000000000000,true,null]"),
        ([shared, shared], '[{"k":[1]},{"k":[1]}]'),
        (["\ud800"], '["\ufffd"]'),
        ("text", '"text"'),
    ],
)
def test_canonical_json(value: object, text: str) -> None:
    assert canonical_json(value) == text


class Broken(BaseModel):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def value(self) -> int:
        raise RuntimeError("no value")


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@proves("TSK-53")
@pytest.mark.parametrize("make", [object, circular, Broken, deep], ids=lambda make: make.__name__)
@pytest.mark.parametrize("mode", ["structured", "both"])
def test_a_value_that_json_cannot_express_is_an_error(make: Any, mode: DependencyPayload) -> None:
    with pytest.raises(DependencyPayloadError, match="task 'A' cannot be written as JSON") as caught:
        dependency_context([done("A", "raw text", make())], mode)
    assert caught.value.code == "DEPENDENCY_STRUCTURED_SERIALIZATION_FAILED"
    assert "raw text" not in str(caught.value)


@proves("TSK-53")
@pytest.mark.parametrize(
    "given",
    [
        done("A", "text"),
        DependencyResult(title="A", result=None, has_schema=True),
        DependencyResult(title="A", result=result(structured=1, success=False)),
    ],
)
def test_a_value_that_is_missing_is_an_error(given: DependencyResult) -> None:
    with pytest.raises(DependencyPayloadError, match="task 'A' has no structured result") as caught:
        dependency_context([given], "structured")
    assert caught.value.code == "DEPENDENCY_STRUCTURED_RESULT_MISSING"
    failure = failed_result(caught.value, identity=RunIdentity("r"), kind="validation")
    assert failure.error_info is not None
    assert (failure.error_info.code, failure.error_info.kind) == (caught.value.code, "validation")
    assert failure.token_usage.total_tokens == 0
    assert not is_retryable_result(failure)


@proves("TSK-53")
def test_none_is_a_value_where_one_was_asked_for() -> None:
    assert dependency_context([done("A", has_schema=True)], "structured").endswith("\nnull")


@proves("TSK-53")
def test_the_size_of_a_block_is_limited_to_the_byte() -> None:
    around = len("### A (by ann)\n#### Validated structured result\n") + 2
    fits = "x" * (MAX_PAYLOAD_BYTES - around)
    assert fits in dependency_context([done("A", structured=fits)], "structured")
    for large in (f"{fits}x", "é" * (len(fits) // 2 + 1)):
        with pytest.raises(DependencyPayloadError, match=r"6553\d bytes") as caught:
            dependency_context([done("A", structured=large)], "structured")
        assert caught.value.code == "DEPENDENCY_PAYLOAD_TOO_LARGE"
    with pytest.raises(DependencyPayloadError):
        dependency_context([done("A", "text", fits)], "both")
    assert len(dependency_context([done("A", fits * 2)])) > 2 * len(fits)

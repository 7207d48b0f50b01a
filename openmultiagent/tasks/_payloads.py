"""What a task's agent is told: its prompt, and what it gets of the results that its task depends on.

Pure functions of titles, names and results. Invariants: a structured value is handed on as canonical JSON or not at
all; what cannot be handed on is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from .._record import record
from .._shown import shown
from ..errors import DependencyPayloadError
from ..messages import LLMMessage, replace_lone_surrogates
from ..outcome import AgentRunResult, describe_error
from ._spec import DependencyPayload, TaskSpec

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "DependencyResult",
    "canonical_json",
    "dependency_context",
    "worker_input",
    "worker_prompt",
]

MAX_PAYLOAD_BYTES: Final = 65_536
"""The most that the block of one dependency may have when it holds a structured value; in UTF-8, with its heading."""

_MISSING: Final = "DEPENDENCY_STRUCTURED_RESULT_MISSING"
_UNSERIALIZABLE: Final = "DEPENDENCY_STRUCTURED_SERIALIZATION_FAILED"
_TOO_LARGE: Final = "DEPENDENCY_PAYLOAD_TOO_LARGE"


@record(kw_only=True)
class DependencyResult:
    """A task that another one depends on, and what it came to."""

    title: str
    agent: str | None = None
    """Who did it."""
    result: AgentRunResult[Any] | None
    """None if there is none, as for a task that was not run."""
    has_schema: bool = False
    """Whether a structured answer was asked for, so that None is one."""


def worker_prompt(
    spec: TaskSpec,
    *,
    context: str = "",
    memory: str = "",
    team: str = "",
    messages: str = "",
) -> str:
    """Return the prompt of a task's agent.

    Args:
        spec: The task.
        context: What ``dependency_context`` returned.
        memory: The summary of the team's memory, for tasks that see all of it.
        team: What the agent is told of the team.
        messages: The section with the messages from team members.
    """
    parts = [
        team,
        f"# Task: {spec.title}",
        spec.text,
        context,
        memory,
        messages,
    ]
    return "\n\n".join(part for part in parts if part)


def worker_input(spec: TaskSpec, prompt: str) -> str | list[LLMMessage]:
    """Return what a task's agent is run with: the prompt, with the messages or the media of the description if any.

    Args:
        spec: The task.
        prompt: What ``worker_prompt`` returned.
    """
    content = spec.content
    return prompt if isinstance(content, str) else content.with_prompt(prompt)


def dependency_context(dependencies: Iterable[DependencyResult], mode: DependencyPayload = "output") -> str:
    """Return the part of a prompt that hands on the results of the tasks which a task depends on.

    Args:
        dependencies: These tasks, in the order in which they are to be listed.
        mode: ``output`` for the texts of the results, empty ones left out; ``structured`` for their values; ``both``.

    Raises:
        DependencyPayloadError: A value is wanted and there is none, it cannot be written as JSON, or it is too large.
    """
    blocks = [block for each in dependencies if (block := _block(each, mode))]
    return "\n\n".join(["## Context from prerequisite tasks", *blocks]) if blocks else ""


def _block(dependency: DependencyResult, mode: DependencyPayload) -> str:
    heading = f"### {dependency.title}" + (f" (by {dependency.agent})" if dependency.agent else "")
    output = dependency.result.output if dependency.result is not None else ""
    if mode == "output":
        return f"{heading}\n{output}" if output else ""
    value = f"#### Validated structured result\n{_structured(dependency)}"
    block = f"{heading}\n{value}" if mode == "structured" else f"{heading}\n#### Raw output\n{output}\n\n{value}"
    size = len(block.encode("utf-8", "replace"))
    if size > MAX_PAYLOAD_BYTES:
        raise DependencyPayloadError(
            f"the result of task {shown(dependency.title, 120)} has {size} bytes for the tasks that depend on it, "
            f"of {MAX_PAYLOAD_BYTES} at most; ask for a smaller structured answer",
            code=_TOO_LARGE,
        )
    return block


def _structured(dependency: DependencyResult) -> str:
    result = dependency.result
    missing = result is None or not result.success or (result.structured is None and not dependency.has_schema)
    if result is None or missing:
        raise DependencyPayloadError(
            f"task {shown(dependency.title, 120)} has no structured result for the tasks that depend on it; "
            "give its agent an output_schema, or use dependency_payload='output'",
            code=_MISSING,
        )
    try:
        return canonical_json(result.structured)
    except ValueError as error:
        raise DependencyPayloadError(
            f"the structured result of task {shown(dependency.title, 120)} cannot be written as JSON: {error}",
            code=_UNSERIALIZABLE,
        ) from None


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, numbers that are none as null.

    Args:
        value: Anything that pydantic can write as JSON.

    Raises:
        ValueError: It contains itself, or something that is no JSON.
    """
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - only structured results need it

    try:
        plain = json.loads(json.dumps(to_jsonable_python(value)), parse_constant=lambda _constant: None)
    except Exception as error:  # noqa: BLE001 - users' types write themselves, and may fail in any way
        raise ValueError(describe_error(error)) from None
    return json.dumps(replace_lone_surrogates(plain), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

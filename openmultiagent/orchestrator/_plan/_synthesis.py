"""What a coordinator is shown to write the answer from: the goal, and what its tasks came to.

Bounded, so that no result crowds out the others, nor all of them the model's context: a long text is cut in its middle,
and the cut is told. Invariant: each task is named as long as there is room for its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from ..._shown import shown
from ...errors import ConfigurationError

__all__ = ["MAX_SYNTHESIS_CHARS", "MAX_TASK_CHARS", "TaskOutcome", "shorten", "synthesis_prompt"]

MAX_TASK_CHARS: Final = 12_000
"""The most characters that are shown of one result."""
MAX_SYNTHESIS_CHARS: Final = 120_000
"""The most characters that are shown of all results and the memory together."""

_MAX_REASON: Final = 1_000
_MAX_TITLE: Final = 200
_LEAST: Final = 200
"""Fewer characters of a text would be of no use."""

_TASK: Final = """\
## Your Task

Write the final answer to the goal from these results. Say what is missing where tasks failed or were skipped."""


class TaskOutcome(NamedTuple):
    """A task at the end of a run."""

    title: str
    status: Literal["completed", "failed", "skipped"]
    text: str
    """The result; the error or the reason when there is none."""
    agent: str | None = None
    """Who did it."""


def synthesis_prompt(
    goal: str,
    outcomes: Sequence[TaskOutcome],
    *,
    memory: str = "",
    max_task_chars: int = MAX_TASK_CHARS,
    max_chars: int = MAX_SYNTHESIS_CHARS,
) -> str:
    """Return the request for the final answer.

    Args:
        goal: The text of the goal.
        outcomes: The tasks, in their order.
        memory: What the team's memory holds besides the results of these tasks.
        max_task_chars: The most characters of one result.
        max_chars: The most characters of all results, reasons and the memory together. Short ones are shown whole, and
            what they leave is shared evenly by the long ones.

    Raises:
        ConfigurationError: A maximum is no whole number above 0.
    """
    for name, value in (("max_task_chars", max_task_chars), ("max_chars", max_chars)):
        if type(value) is not int or value < 1:
            raise ConfigurationError(f"{name} must be a whole number of characters above 0, got {shown(value)}")
    fitting, left_out = _that_fit(outcomes, max_chars)
    most = [max_task_chars if outcome.status == "completed" else _MAX_REASON for outcome in fitting]
    lengths = [min(len(outcome.text), limit) for outcome, limit in zip(fitting, most, strict=True)]
    share = _fair_share([*lengths, min(len(memory), max_task_chars)], max_chars)
    texts = [shorten(outcome.text, min(limit, share)) for outcome, limit in zip(fitting, most, strict=True)]
    sections = [f"## Original Goal\n\n{goal}", *_sections(fitting, texts)]
    if left_out:
        sections.append(f"{left_out:,} further tasks are left out here, since there is no room for them.")
    if memory:
        sections.append(shorten(memory, min(max_task_chars, share)))
    return "\n\n".join([*sections, _TASK])


def shorten(text: str, most: int) -> str:
    """Return a text of at most so many characters, besides a note on how many were left out of its middle.

    Args:
        text: The text.
        most: Characters of it that are kept.
    """
    if len(text) <= most:
        return text
    head = most - most // 3
    tail = text[len(text) - most // 3 :] if most // 3 else ""
    return f"{text[:head]}\n[... {len(text) - most:,} of {len(text):,} characters left out ...]\n{tail}"


def _that_fit(outcomes: Sequence[TaskOutcome], max_chars: int) -> tuple[Sequence[TaskOutcome], int]:
    """Return as many outcomes as can be shown at all, and how many cannot."""
    most = max(1, max_chars // _LEAST)
    return outcomes[:most], max(0, len(outcomes) - most)


def _fair_share(lengths: Sequence[int], total: int) -> int:
    """Return the most characters for each text, so that all together have the total; short ones leave theirs over."""
    left = total
    for position, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - position)
        if length > share:
            return share
        left -= length
    return max(lengths, default=0)


def _sections(outcomes: Sequence[TaskOutcome], texts: Sequence[str]) -> list[str]:
    blocks: dict[str, list[str]] = {"completed": [], "failed": [], "skipped": []}
    for outcome, text in zip(outcomes, texts, strict=True):
        title = f"{outcome.title:.{_MAX_TITLE}}"
        if outcome.status == "completed":
            by = f" (completed by {outcome.agent})" if outcome.agent else ""
            blocks["completed"].append(f"### {title}{by}\n{text}")
        elif outcome.status == "failed":
            blocks["failed"].append(f"### {title} (FAILED)\nError: {text}")
        else:
            blocks["skipped"].append(f"### {title} (SKIPPED)\nReason: {text}")
    results = blocks["completed"] or ["No task was completed."]
    sections = ["\n\n".join(["## Task Results", *results])]
    sections += ["\n\n".join(["## Failed Tasks", *blocks["failed"]])] if blocks["failed"] else []
    sections += ["\n\n".join(["## Skipped Tasks", *blocks["skipped"]])] if blocks["skipped"] else []
    return sections

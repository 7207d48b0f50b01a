"""The request for the final answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import ConfigurationError
from openmultiagent.orchestrator._plan import TaskOutcome, shorten, synthesis_prompt
from tests.support import proves

DONE = TaskOutcome("Gather", "completed", "12 figures", "reader")
FAILED = TaskOutcome("Check", "failed", "no source")
SKIPPED = TaskOutcome("Write", "skipped", "not approved")


@proves("PLN-20")
def test_all_that_happened_is_shown_in_order() -> None:
    prompt = synthesis_prompt("Report.", [SKIPPED, DONE, FAILED], memory="## Shared Team Memory\n\nnothing")
    parts = [
        "## Original Goal\n\nReport.",
        "## Task Results",
        "### Gather (completed by reader)\n12 figures",
        "## Failed Tasks",
        "### Check (FAILED)\nError: no source",
        "## Skipped Tasks",
        "### Write (SKIPPED)\nReason: not approved",
        "## Shared Team Memory\n\nnothing",
        "## Your Task",
    ]
    assert prompt.startswith("\n\n".join(parts))


@proves("PLN-20")
def test_what_did_not_happen_has_no_section() -> None:
    prompt = synthesis_prompt("Report.", [DONE._replace(agent=None)])
    assert "### Gather\n12 figures" in prompt
    assert "Failed Tasks" not in prompt
    assert "Skipped Tasks" not in prompt
    assert "## Task Results\n\nNo task was completed." in synthesis_prompt("Report.", [FAILED])


@proves("PLN-21")
def test_a_long_result_is_cut_in_its_middle_and_says_so() -> None:
    text = "a" * 50_000 + "b" * 50_000
    prompt = synthesis_prompt("g", [DONE._replace(text=text)])
    assert f"{'a' * 8_000}\n[... 88,000 of 100,000 characters left out ...]\n{'b' * 4_000}" in prompt
    assert "a" * 8_001 not in prompt
    reason = synthesis_prompt("g", [FAILED._replace(text=text)])
    assert "[... 99,000 of 100,000 characters left out ...]" in reason


@proves("PLN-21")
def test_short_results_are_whole_and_long_ones_share_what_is_left() -> None:
    outcomes = [DONE._replace(text=letter * length) for letter, length in [("U", 100), ("V", 5_000), ("X", 5_000)]]
    prompt = synthesis_prompt("", outcomes, max_chars=2_100)
    assert (prompt.count("U"), prompt.count("V"), prompt.count("X")) == (100, 1_000, 1_000)
    assert prompt.count("[... 4,000 of 5,000 characters left out ...]") == 2


@proves("PLN-21")
def test_the_memory_counts_as_well() -> None:
    prompt = synthesis_prompt("", [DONE._replace(text="a" * 5_000)], memory="M" * 5_000, max_chars=2_000)
    assert prompt.count("M") == 1_000
    assert prompt.count("[... 4,000 of 5,000 characters left out ...]") == 2


@proves("PLN-21")
def test_more_tasks_than_there_is_room_for_are_counted() -> None:
    outcomes = [DONE._replace(title=f"Task {i}", text="x" * 1_000) for i in range(10_000)]
    prompt = synthesis_prompt("g", outcomes)
    assert prompt.count("### Task") == 600
    assert "9,400 further tasks are left out here" in prompt
    assert len(prompt) < 200_000


@proves("PLN-21")
@given(
    st.lists(
        st.builds(
            TaskOutcome,
            st.text(max_size=300),
            st.sampled_from(["completed", "failed", "skipped"]),
            st.integers(0, 4_000).map(lambda length: "x" * length),
        ),
        max_size=20,
    ),
    st.integers(1, 10_000),
    st.integers(1, 2_000),
)
def test_the_prompt_is_bounded(outcomes: list[TaskOutcome], max_chars: int, max_task_chars: int) -> None:
    memory = "y" * 3_000
    prompt = synthesis_prompt("", outcomes, memory=memory, max_chars=max_chars, max_task_chars=max_task_chars)
    frame = 600 + (200 + 100) * len(outcomes)
    assert len(prompt) <= max_chars + frame


@proves("PLN-21")
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "9"])
def test_a_maximum_is_a_number_of_characters(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_chars must be a whole number of characters above 0"):
        synthesis_prompt("g", [], max_chars=value)
    with pytest.raises(ConfigurationError, match="max_task_chars must be"):
        synthesis_prompt("g", [], max_task_chars=value)


@proves("PLN-21")
@pytest.mark.parametrize(
    ("most", "text"),
    [
        (6, "abcdef"),
        (3, "ab\n[... 3 of 6 characters left out ...]\nf"),
        (1, "a\n[... 5 of 6 characters left out ...]\n"),
        (0, "\n[... 6 of 6 characters left out ...]\n"),
    ],
)
def test_what_is_kept_of_a_text(most: int, text: str) -> None:
    assert shorten("abcdef", most) == text

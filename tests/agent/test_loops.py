"""Loop detection: what counts as a loop, and what is done about it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.agent._loops import LoopDetection, LoopDetector, LoopInfo, as_loop_detection, loop_warning
from openmultiagent.errors import ConfigurationError, RunError
from openmultiagent.messages import LLMMessage, ToolUseBlock
from tests.support import proves


def call(name: str = "search", /, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock.new("id", name, arguments)


def detector(**fields: Any) -> LoopDetector:
    return LoopDetector(LoopDetection(**fields), agent="tester")


def of_calls(watch: LoopDetector, names: str) -> list[int]:
    """The repetitions that are told for turns with a call of the tool "a", "b", ...; 0 for none."""
    found = [watch.record([call(name)], "") for name in names]
    return [0 if info is None else info.repetitions for info in found]


@proves("CTX-71")
def test_three_same_turns_in_a_row_are_a_loop() -> None:
    assert of_calls(detector(), "aaaaa") == [0, 0, 3, 4, 4]


@proves("CTX-71")
@pytest.mark.parametrize("names", ["abcdefgh", "aabaa", "aaba", "abbcca"])
def test_turns_that_differ_are_none(names: str) -> None:
    assert not any(of_calls(detector(), names))


@proves("CTX-70")
def test_other_arguments_make_another_turn() -> None:
    watch = detector()
    assert [watch.record([call(q=n)], "") for n in range(5)] == [None] * 5


@proves("CTX-71")
def test_two_are_enough_when_two_are_asked_for() -> None:
    assert of_calls(detector(max_repetitions=2), "aa") == [0, 2]


@proves("CTX-72")
def test_the_window_is_never_smaller_than_the_repetitions() -> None:
    assert of_calls(detector(loop_detection_window=2), "aaa") == [0, 0, 3]


@proves("CTX-71")
def test_a_cycle_that_fills_the_window_is_a_loop() -> None:
    watch = detector()
    assert of_calls(watch, "abab") == [0, 0, 0, 2]
    info = watch.record([call("a")], "")
    assert info is not None
    assert info.cycle == 2


@proves("CTX-71")
@pytest.mark.parametrize(
    ("fields", "names", "told"),
    [
        ({"loop_detection_window": 8}, "ababab", [0, 0, 0, 0, 0, 3]),
        ({"loop_detection_window": 6}, "abcabc", [0, 0, 0, 0, 0, 2]),
        ({"loop_detection_window": 5}, "abcabc", [0, 0, 0, 0, 0, 0]),
        ({"loop_detection_window": 1}, "ababab", [0, 0, 0, 0, 0, 0]),
        ({"max_repetitions": 5}, "ababab", [0, 0, 0, 0, 0, 0]),
        ({"max_repetitions": 2}, "abab", [0, 0, 0, 2]),
    ],
)
def test_a_cycle_is_a_loop_by_repetitions_and_window(fields: dict[str, int], names: str, told: list[int]) -> None:
    assert of_calls(detector(**fields), names) == told


@proves("CTX-70")
def test_the_order_of_calls_and_of_keys_makes_no_difference() -> None:
    watch = detector(max_repetitions=2)
    nested = {"x": {"b": 1, "a": 2}, "y": 3}
    turned = {"y": 3, "x": {"a": 2, "b": 1}}
    assert watch.record([call("a", **nested), call("b")], "") is None
    assert watch.record([call("b"), call("a", **turned)], "") is not None


@proves("CTX-70")
def test_spaces_in_a_text_make_no_difference() -> None:
    watch = detector()
    assert watch.record([], "I am  stuck") is None
    assert watch.record([], " I am\nstuck ") is None
    info = watch.record([], "I am stuck")
    assert info is not None
    assert (info.kind, info.repetitions) == ("text_repetition", 3)


@proves("CTX-70")
def test_blank_texts_and_turns_without_calls_do_not_count() -> None:
    watch = detector(max_repetitions=2)
    assert [watch.record([], text) for text in ("", " \n", "x", "", "")] == [None] * 5
    info = watch.record([], "x")
    assert info is not None
    assert info.repetitions == 2


@proves("CTX-74")
def test_a_loop_of_calls_is_told_before_a_loop_of_texts() -> None:
    watch = detector(max_repetitions=2)
    turn = [call("fetch"), call("fetch", page=2), call("look")]
    watch.record(turn, "again")
    assert watch.record(turn, "again") == LoopInfo(
        "tool_repetition", 2, "the same tool calls (fetch, look) 2 times in a row"
    )


@proves("CTX-74")
def test_the_detail_tells_of_cycles_and_of_some_tools_only() -> None:
    watch = detector(max_repetitions=2)
    many = [call(f"tool{n}") for n in range(7)]
    for turn in (many, [call("b")], many):
        watch.record(turn, "")
    cycle = watch.record([call("b")], "")
    assert cycle is not None
    assert cycle.detail == "the same tool calls (b) in every 2 turns, 2 times"
    watch.record(many, "same")
    info = watch.record(many, "same")
    assert info is not None
    assert info.detail == "the same tool calls (tool0, tool1, tool2, tool3, tool4, ...) 2 times in a row"
    text = watch.record([], "same")
    assert text is not None
    assert text.detail == "the same text 3 times in a row"


@proves("CTX-73")
def test_earlier_turns_of_the_conversation_count() -> None:
    history = [
        LLMMessage.user("go"),
        LLMMessage.assistant("stuck"),
        LLMMessage.user("go on"),
        LLMMessage.assistant([call("a")]),
        LLMMessage.assistant("stuck"),
    ]
    watch = detector()
    watch.replay(history)
    assert watch.warnings == 0
    info = watch.record([], "stuck")
    assert info is not None
    assert info.repetitions == 3


@proves("CTX-73")
def test_of_a_long_history_only_the_end_is_looked_at() -> None:
    class Guarded(list[LLMMessage]):
        def __getitem__(self, index: Any) -> Any:
            assert index >= 90, index
            return super().__getitem__(index)

    turn = LLMMessage.assistant([call("a")])
    history = Guarded([LLMMessage.assistant([*turn.content, {"type": "text", "text": "x"}])] * 100)
    watch = detector()
    watch.replay(history)
    assert of_calls(watch, "a") == [4]


@proves("CTX-73")
def test_calls_that_many_texts_follow_still_count() -> None:
    watch = detector()
    called = LLMMessage.assistant([call("a")])
    watch.replay([called, called, *(LLMMessage.assistant(f"text {n}") for n in range(9))])
    assert of_calls(watch, "a") == [3]


@proves("CTX-73")
def test_replay_keeps_the_order_of_the_turns() -> None:
    watch = detector()
    watch.replay([LLMMessage.assistant([call(name)]) for name in "xxxaba"])
    assert of_calls(watch, "b") == [2]


@proves("CTX-72")
@given(st.text("ab", max_size=40), st.integers(2, 4), st.integers(1, 8))
@settings(deadline=None)
def test_what_left_the_window_makes_no_difference(names: str, most: int, window: int) -> None:
    size = max(most, window)
    long, short = (detector(max_repetitions=most, loop_detection_window=window) for _ in range(2))
    told = of_calls(long, names)
    assert told[-1:] == of_calls(short, names[-size:])[-1:]


@proves("CTX-75")
async def test_warn_warns_once_and_ends_the_run_at_the_next_turn_in_the_loop() -> None:
    watch = detector()
    actions = []
    for name in "aaabcccc":
        info = watch.record([call(name)], "")
        actions.append(None if info is None else await watch.decide(info))
    assert actions == [None, None, "inject", None, None, None, "inject", "terminate"]
    assert watch.warnings == 3


@proves("CTX-75")
async def test_terminate_ends_the_run_at_once() -> None:
    watch = detector(on_loop_detected="terminate")
    assert await watch.decide(LoopInfo("text_repetition", 3, "")) == "terminate"


async def later(info: LoopInfo) -> str:
    return "inject"


@proves("CTX-76")
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (lambda info: "terminate", ["terminate", "terminate"]),
        (lambda info: "continue", ["continue", "continue"]),
        (lambda info: "inject", ["inject", "terminate"]),
        (later, ["inject", "terminate"]),
    ],
)
async def test_a_callable_decides(action: Callable[[LoopInfo], object], expected: list[str]) -> None:
    watch = detector(on_loop_detected=action)
    info = LoopInfo("tool_repetition", 3, "")
    assert [await watch.decide(info), await watch.decide(info)] == expected


@proves("CTX-76")
@pytest.mark.parametrize("answer", [None, "warn", True, ["inject"]])
async def test_an_answer_that_is_no_action_fails_the_run(answer: object) -> None:
    watch = detector(on_loop_detected=lambda info: answer)
    with pytest.raises(RunError, match=r"agent 'tester': on_loop_detected must return one of continue, inject, term"):
        await watch.decide(LoopInfo("tool_repetition", 3, ""))


@proves("CTX-77")
def test_the_warning_says_what_is_repeated() -> None:
    calls = loop_warning(LoopInfo("tool_repetition", 3, ""))
    assert calls.startswith("WARNING:")
    assert "repeating the same tool calls" in calls
    texts = loop_warning(LoopInfo("text_repetition", 3, ""))
    assert texts.startswith("WARNING:")
    assert "repeating the same answer" in texts


@proves("CTX-78")
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"max_repetitions": 1}, "max_repetitions"),
        ({"loop_detection_window": 0}, "loop_detection_window"),
        ({"on_loop_detected": "stop"}, "must be 'warn', 'terminate' or a callable, got 'stop'"),
        ({"on_loop_detected": []}, "must be 'warn'"),
        ({"window": 3}, "no field 'window'"),
        (3, "loop_detection must be a LoopDetection or a mapping"),
    ],
)
def test_settings_that_make_no_sense_are_refused(value: object, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        as_loop_detection(value)


@proves("CTX-78")
def test_a_mapping_is_as_good_as_the_specification() -> None:
    known = LoopDetection(max_repetitions=4, on_loop_detected="terminate")
    assert as_loop_detection({"max_repetitions": 4, "on_loop_detected": "terminate"}) == known
    assert as_loop_detection(known) is known
    assert as_loop_detection(None) is None

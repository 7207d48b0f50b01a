"""What the text of a goal shows."""
# ruff: noqa: RUF001 - the marks of other scripts are what is tested

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.orchestrator._routing._signals import complexity_signal, information_units, is_simple_goal
from tests.support import proves

SIMPLE = [
    "",
    "Hello",
    "Hi there, how are you?",
    "Explain how photosynthesis works.",
    "Translate this sentence into French: the cat sleeps.",
    "Summarise the plot of Hamlet in one paragraph.",
    "List five apples, five pears, five plums, five figs, and five nuts.",
    "What does it mean to coordinate well?",
    "Describe the value of collaboration.",
    "First, what is DNA?",
    "What happens then?",
    "Compare apples and pears.",
    "3.14 times two is what?",
    "What does version 2.0 bring?",
    "Write a haiku and sign it",
    "把这句话翻译成英文",
    "解释光合作用",
    "先查一下天气",
    "首先是什么意思",
    "光合成を説明してください",
    "まず光合成を説明してください",
    "次に何が起きますか",
    "이 문장을 번역해 주세요",
    "먼저 설명해 주세요",
    "x" * 200,
]

COMPLEX = [
    "First gather the figures, then write a report.",
    "First,\ngather the figures;\nthen write.",
    "Do step 1 and go on.",
    "This is phase 2.",
    "Go to stage 3",
    "1. gather\n2. write",
    "To do:\n  1) gather",
    "1.收集数据",
    "Collaborate with the writers.",
    "They are collaborating on it.",
    "Coordinate with sales.",
    "Coordinate the team.",
    "Keep coordinating across sites.",
    "Have them review each other.",
    "Work together on it.",
    "Do it in parallel.",
    "Do both concurrently.",
    "Do both at the same time.",
    "Build an API for users and then test the whole API.",
    "Design the schema for it and afterwards write the queries",
    "首先收集数据，然后写报告",
    "先收集数据，再写报告",
    "第一步收集，第二步写作",
    "まずデータを集め、次に報告書を書く",
    "最初に調べて、それから書く",
    "第1に調べる。第2に書く。",
    "ステップ1は調査、ステップ2は執筆",
    "手順1 調査 手順2 執筆",
    "먼저 자료를 모으고 그 다음 보고서를 쓴다",
    "첫째 조사하고 둘째 쓴다",
    "첫 번째 조사, 두 번째 집필",
    "1단계 조사 2단계 집필",
    "① 収集 ② 執筆",
    "苹果、梨子、李子、桃子、杏子、和葡萄",
    "收集所有数据；撰写一份报告",
    "收集数据、生成报告",
    "设计系统然后测试系统",
    "x" * 201,
    "字" * 89,
]


@proves("ROU-1")
@pytest.mark.parametrize("goal", SIMPLE)
def test_a_goal_of_one_step_is_simple(goal: str) -> None:
    assert complexity_signal(goal) is None
    assert is_simple_goal(goal)


@proves("ROU-1")
@pytest.mark.parametrize("goal", COMPLEX)
def test_a_goal_that_says_it_has_steps_or_is_long_is_not_simple(goal: str) -> None:
    assert not is_simple_goal(goal)


@proves("ROU-2")
@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("a", 1),
        ("word", 4),
        ("extraordinary", 4),
        ("a" * 32, 4),
        ("a" * 33, 33),
        ("one two.", 7),
        ("字", 3),
        ("字字", 5),
        ("字字字字", 9),
        ("ж", 1),
        ("😀", 1),
    ],
)
def test_information_is_counted_alike_in_all_scripts(text: str, units: int) -> None:
    assert information_units(text) == units


@proves("ROU-2")
def test_the_limit_is_200_units() -> None:
    assert is_simple_goal("字" * 88)
    assert information_units("字" * 88) == 198
    assert not is_simple_goal("字" * 89)
    assert is_simple_goal("word " * 50)
    assert not is_simple_goal("word " * 50 + "a")


@proves("ROU-2")
@given(st.text(max_size=300))
def test_any_text_can_be_judged(goal: str) -> None:
    assert information_units(goal) >= 0
    assert is_simple_goal(goal) == (information_units(goal) <= 200 and complexity_signal(goal) is None)


@proves("ROU-2")
@pytest.mark.parametrize("piece", [" ", "\n", "a ", "先", "、", "；", "build ", "first "])
def test_a_million_characters_are_judged_in_the_time_of_two_hundred_units(piece: str) -> None:
    # More work than linear, or the signals of a long text, would meet the time limit of the test.
    goal = piece * (1_000_000 // len(piece))
    assert is_simple_goal(goal) == (not goal.strip())


@proves("ROU-1")
def test_how_the_text_is_judged_is_nobody_elses_business() -> None:
    import openmultiagent
    from openmultiagent import orchestrator

    assert not hasattr(openmultiagent, "is_simple_goal")
    assert not hasattr(orchestrator, "is_simple_goal")

"""Who suits a text best."""

from __future__ import annotations

import random

import pytest

from openmultiagent import tool
from openmultiagent.tasks import AgentSelection, AgentSelector, TaskRequirements
from openmultiagent.tasks._selector import Candidates, Topic, affinity
from tests.support import proves
from tests.tasks.scheduling import Job, agent, agents


@tool
def edit(path: str) -> str:
    """Edit a file."""
    return path


@proves("SCH-20")
def test_the_agent_with_most_words_in_common_is_selected() -> None:
    researcher = agent("researcher", "You research facts and sources.")
    coder = agent("coder", "You write and debug Python code.")
    selector = AgentSelector()
    found = selector.select("Debug the Python service", [researcher, coder])
    assert found.agent is coder
    assert found.eligible == (coder, researcher)
    assert 0 < found.score < 1
    assert found.error is None
    assert found.reasons == (f"coder selected with score {found.score:.3f} of 2 eligible",)
    assert selector.select("Research the sources", [researcher, coder]).agent is researcher


@proves("SCH-20")
@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("分析销售数据的趋势", "analyst"),
        ("写一段代码实现排序", "coder"),
        ("把这份合同翻译成英文", "translator"),
    ],
)
def test_chinese_texts(goal: str, name: str) -> None:
    team = [
        agent("analyst", "你负责数据分析和统计。"),
        agent("coder", "你负责编写代码和测试。"),
        agent("translator", "你负责翻译文件和合同。"),
    ]
    assert found_name(AgentSelector().select(goal, team)) == name
    assert found_name(AgentSelector().select(goal, team[::-1])) == name


@proves("SCH-20")
@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("売上データを分析してください", "analyst"),
        ("コードをレビューして", "coder"),
        ("매출 데이터를 분석해 주세요", "분석가"),
        ("계약서를 번역해 주세요", "번역가"),
    ],
)
def test_japanese_and_korean_texts(goal: str, name: str) -> None:
    team = [
        agent("analyst", "あなたはデータの分析を担当します。"),
        agent("coder", "あなたはコードの作成とレビューを担当します。"),
        agent("분석가", "당신은 데이터 분석 담당입니다."),
        agent("번역가", "당신은 계약서 번역 담당입니다."),
    ]
    assert found_name(AgentSelector().select(goal, team)) == name


@proves("SCH-20")
@pytest.mark.parametrize(
    ("goal", "name"), [("Ask writer to begin", "writer"), ("Use sonnet-large for this", "zed"), ("Résumé", "intern")]
)
def test_name_model_and_description_count_too(goal: str, name: str) -> None:
    team = [
        agent("writer", model="m"),
        agent("zed", model="sonnet-large"),
        agent("intern", model="m", description="Writes a résumé of anything"),
    ]
    assert found_name(AgentSelector().select(goal, team)) == name


@proves("SCH-20")
def test_texts_that_an_agent_does_not_have_add_no_words() -> None:
    silent = agent("silent", model=None)
    assert AgentSelector().select("undefined none null model", [silent]).score == 0


@proves("SCH-21")
def test_ties_go_to_the_first_name_whatever_the_order() -> None:
    team = agents("beta", "alpha", "gamma")
    for goal in ("nothing in common", "", "x"):
        for seed in range(5):
            random.Random(seed).shuffle(team)
            found = AgentSelector().select(goal, team)
            assert (found_name(found), found.score) == ("alpha", 0)
            assert [item.name for item in found.eligible] == ["alpha", "beta", "gamma"]


@proves("SCH-22")
def test_a_declared_capability_outweighs_any_number_of_words() -> None:
    goal = "Review the security of the payment service and report vulnerabilities and risks"
    wordy = agent("security-review", goal * 3)
    declares = agent("d", capabilities=["payment"])
    found = AgentSelector().select(goal, [wordy, declares])
    assert found.agent is declares
    assert found.score > 1
    assert AgentSelector().select(goal, [wordy]).score < 1


@proves("SCH-1", "SCH-20")
def test_who_lacks_a_requirement_is_excluded_with_the_reason_however_well_it_suits() -> None:
    suits = agent("editor", "Edit files, edit the report file.")
    able = agent("other", tools=[edit])
    task = Job("t", "Edit the report file", requires=TaskRequirements(required_tools=["edit"]))
    found = AgentSelector().select(task, [suits, able])
    assert (found.agent, found.eligible) == (able, (able,))
    assert found.reasons[0] == "editor excluded: has no tool 'edit'"


@proves("SCH-1", "SCH-20")
def test_when_nobody_can_there_is_an_error_and_no_agent() -> None:
    task = Job("t", "Edit", requires=TaskRequirements(required_tools=["edit"]))
    found = AgentSelector().select(task, agents("a", "b"))
    assert (found.agent, found.score, found.eligible) == (None, 0, ())
    assert found.error is not None
    assert found.error.code == "NO_ELIGIBLE_AGENT"
    assert found.error.reasons == found.reasons == ("a excluded: has no tool 'edit'", "b excluded: has no tool 'edit'")


@proves("SCH-6", "SCH-20")
def test_without_agents_there_is_none_and_an_error_only_for_requirements() -> None:
    assert AgentSelector().select("anything", []) == AgentSelection(None)
    assert AgentSelector().select(Job("t"), []) == AgentSelection(None)
    found = AgentSelector().select(Job("t", requires=TaskRequirements(required_tools=["edit"])), [])
    assert found.error is not None
    assert found.error.reasons == ("there are no agents",)


@proves("SCH-20")
def test_empty_requirements_are_none() -> None:
    found = AgentSelector().select(Job("t", "Write prose", requires=TaskRequirements()), [agent("prose writer")])
    assert found.score > 0


@proves("SCH-23")
def test_the_words_of_an_agent_are_remembered_for_as_many_as_are_kept() -> None:
    candidates = Candidates()
    first = agent("first", "Some words")
    (kept,) = candidates.of([first])
    assert candidates.of([first]) == [kept]
    assert candidates.of([first.replace(name="other")]) != [kept]
    many = [first.replace(name=f"n{number}") for number in range(1_100)]
    for one in many:
        candidates.of([one])
    assert len(candidates._kept) == 1_024
    assert candidates.of([first]) != [kept]


@proves("SCH-23")
def test_a_team_larger_than_what_is_kept_is_served_as_well() -> None:
    team = [agent(f"n{number}") for number in range(1_030)]
    candidates = Candidates()
    for _ in range(2):
        assert [item.config for item in candidates.of(team)] == team


@proves("SCH-22")
def test_a_score_counts_words_both_ways() -> None:
    (one,) = Candidates().of([agent("tester", "Python tests", model="m")])
    # "python" and "tests" stand in the prompt; "tester" stands in the text, and so do "python" and "tests".
    assert affinity(Topic("Tester: Python tests"), one) == pytest.approx(6 / 7)


@proves("SCH-25")
def test_the_beginning_and_the_end_of_a_long_text_count() -> None:
    filler = "lorem " * 2_000
    team = [agent("first", "parsers"), agent("inner", "payments"), agent("last", "translation")]
    found = AgentSelector().select(f"parsers {filler} payments {filler} translation", team)
    assert [item.name for item in found.eligible] == ["first", "last", "inner"]
    assert AgentSelector().select(f"{filler} payments {filler}", team).score == 0
    prompts = [agent("a", f"{filler} payments {filler}"), agent("b", f"{filler} payments")]
    assert found_name(AgentSelector().select("payments", prompts)) == "b"


@proves("SCH-25")
def test_documents_make_no_more_to_look_for_than_their_parts() -> None:
    words = " ".join(f"word{number}" for number in range(20_000))
    (one,) = Candidates().of([agent("a", words, description=words, capabilities=[words])])
    for text, parts in ((Topic(words).text, 1), (one.tags, 1), (one.about, 2)):
        assert len(text) <= parts * (10_000 + 1) + 3  # and line ends


def found_name(found: AgentSelection) -> str | None:
    return None if found.agent is None else found.agent.name

"""Which words of a text count, and how often."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent.tasks import extract_keywords, keyword_score
from openmultiagent.tasks._keywords import STOP_WORDS
from tests.support import proves


@proves("SCH-40")
def test_words_are_lower_case_and_stand_once_in_their_order() -> None:
    assert extract_keywords("TypeScript, typescript! Write REST endpoints") == [
        "typescript",
        "write",
        "rest",
        "endpoints",
    ]


@proves("SCH-40")
def test_short_words_and_stop_words_say_nothing() -> None:
    assert len(STOP_WORDS) == 26
    assert extract_keywords(" ".join(sorted(STOP_WORDS))) == []
    assert extract_keywords("a big API run for them") == []


@proves("SCH-40")
@pytest.mark.parametrize("text", ["", " \n\t", "!?.,;", "___", "の"])
def test_a_text_without_words_has_no_keywords(text: str) -> None:
    assert extract_keywords(text) == []


@proves("SCH-40")
@pytest.mark.parametrize("text", ["unit-tests", "unit_tests", "unit/tests", "(unit)[tests]", "unit\u2014tests"])
def test_everything_but_letters_and_digits_separates(text: str) -> None:
    assert extract_keywords(text) == ["unit", "tests"]


@proves("SCH-41")
@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("développeur confirmé", ["développeur", "confirmé"]),
        (unicodedata.normalize("NFD", "Développeur"), ["développeur"]),
        ("Анализ данных", ["анализ", "данных"]),
        ("Ανάλυση δεδομένων", ["ανάλυση", "δεδομένων"]),
        ("डेटा विश्लेषण।", ["डेटा", "विश्लेषण"]),
        ("تحليل البيانات", ["تحليل", "البيانات"]),
        ("Straße prüfen", ["straße", "prüfen"]),
    ],
)
def test_words_of_any_script_stay_whole(text: str, keywords: list[str]) -> None:
    assert extract_keywords(text) == keywords


@proves("SCH-42")
@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("数据分析", ["数据", "据分", "分析"]),
        ("写", []),
        ("写代码", ["写代", "代码"]),
        ("データの分析", ["データ", "分析"]),
        ("ﾃﾞｰﾀ", ["データ"]),
        ("まとめる", []),
        ("데이터 분석", ["데이터", "분석"]),
        ("웹", []),
        ("用Python写API代码", ["python", "代码"]),
        ("한국어와日本語", ["한국어와", "日本", "本語"]),
    ],
)
def test_scripts_without_spaces(text: str, keywords: list[str]) -> None:
    assert extract_keywords(text) == keywords


@proves("SCH-43")
def test_a_score_counts_each_keyword_once_also_inside_of_words_and_whatever_its_case() -> None:
    assert keyword_score("Testing tests the TESTS", ["test"]) == 1
    assert keyword_score("A DATABASE schema", ["Schema", "data", "index"]) == 2
    assert keyword_score("schema", ["schema", "Schema"]) == 1
    assert keyword_score("nothing of this", ["schema"]) == 0
    assert keyword_score("anything", []) == 0
    assert keyword_score("anything", [""]) == 0
    assert keyword_score("分析数据", ["数据", "分析"]) == 2


@proves("SCH-41", "SCH-43")
@given(st.text())
def test_a_text_contains_its_own_keywords(text: str) -> None:
    keywords = extract_keywords(text)
    assert len(set(keywords)) == len(keywords)
    assert keyword_score(text, keywords) == len(keywords)
    assert STOP_WORDS.isdisjoint(keywords)


@proves("SCH-40", "SCH-41")
@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_a_word_from_another_script_does_not_change_the_others(text: str) -> None:
    assert extract_keywords(f"{text} слово") == [*extract_keywords(text), "слово"]

"""How the embedded engine reads documents: markup, sentences, words."""

# ruff: noqa: RUF001 - the punctuation of other scripts is what is tested

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmultiagent.adapters._embedded import _rank
from openmultiagent.adapters._embedded._rank import Document, key_terms, summarize
from openmultiagent.adapters._embedded._text import MAX_SENTENCE, join_sentences, read_sentences, split_sentences
from openmultiagent.adapters._embedded._words import Stems, count_tokens
from tests.support import proves

MARKDOWN = """---
title: Front matter is no text.
---
<h1 align="center">Widgets</h1>

[![build](https://x.y/z.svg)](https://x.y) <!-- A comment is no text. -->

> **Widgets** is a *fast* tool, see [the `guide`](https://x.y/g) or <https://x.y>. It has
> _many_ uses &amp; names.

## Install

```bash
Code is no text.
```

- First item with **bold** words
- [x] Second item,
  which goes on.

| Table | is |
|-------|----|
| no    | text |

Setext title
------------

The last paragraph names [a reference][1] and `run_agent(x)`.

[1]: https://x.y/reference
"""


def texts(document: str) -> list[str]:
    return [sentence.text for sentence in read_sentences(document)]


@proves("EMB-8")
def test_markdown_is_read_without_its_markup() -> None:
    assert texts(MARKDOWN) == [
        "Widgets is a fast tool, see the guide or.",
        "It has many uses & names.",
        "First item with bold words",
        "Second item, which goes on.",
        "The last paragraph names a reference and run_agent(x).",
    ]


@proves("EMB-8")
def test_sentences_know_their_heading_and_place() -> None:
    found = {sentence.text: sentence for sentence in read_sentences(MARKDOWN)}
    assert found["Second item, which goes on."].heading == "Install"
    assert found["Second item, which goes on."].in_list
    assert found["The last paragraph names a reference and run_agent(x)."].heading == "Setext title"
    assert not found["It has many uses & names."].opens_paragraph


@proves("EMB-8")
def test_a_short_line_on_its_own_is_a_heading() -> None:
    (sentence,) = read_sentences("On the Moon\n\nThe Moon is far.\n")
    assert (sentence.heading, sentence.text) == ("On the Moon", "The Moon is far.")


@proves("EMB-8")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("```\nprint(1)\n```", ["print(1)"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["a b", "1 2"]),
        ("# Only a heading", ["Only a heading"]),
    ],
)
def test_a_document_without_running_text_is_read_as_it_is(document: str, expected: list[str]) -> None:
    assert texts(document) == expected


@proves("EMB-8", "EMB-11")
def test_what_is_never_closed_is_text() -> None:
    assert texts("Before it.\n\n```\nInside it.\n\n~~~~\nAnd after.") == ["Before it.", "Inside it.", "And after."]
    assert texts("---\nNo front matter here.") == ["No front matter here."]
    assert texts("Before <!-- after.") == ["Before <!-- after."]


@proves("EMB-9")
def test_restructured_text_loses_directives_fields_and_marks() -> None:
    document = """
=====
Title
=====

.. image:: x.png
   :target: https://x.y

Use :class:`Widget` or the ``run`` function of `Widgets <https://x.y>`_ with asyncio_.

Section
~~~~~~~

Args:
    name: The name is text.
"""
    assert texts(document) == [
        "Use Widget or the run function of Widgets with asyncio.",
        "name: The name is text.",
    ]


@proves("EMB-9")
def test_of_source_code_comments_and_documentation_are_read() -> None:
    source = '''"""Tools for widgets.

A widget is a small thing.
"""
import os
from pathlib import Path

LIMIT = 10


def build(name: str) -> str:
    """Build one widget."""
    # Widgets are built in place.
    if name:
        return name
    return os.sep


def more(
    a: int,
) -> None: """Starts here
    and ends here."""
'''
    assert texts(source) == [
        "Tools for widgets.",
        "A widget is a small thing.",
        "Build one widget.",
        "Widgets are built in place.",
        "and ends here.",
    ]


@proves("EMB-9")
def test_lines_of_a_log_stay_apart() -> None:
    log = "2026-01-01 12:00:00 INFO started the worker\n2026-01-01 12:00:01 ERROR lost the database"
    assert len(texts(log)) == 2


@proves("EMB-10")
@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "Dr. Smith met J. R. Doe, e.g. Sunday. Then he left.",
            ["Dr. Smith met J. R. Doe, e.g. Sunday.", "Then he left."],
        ),
        ("Am 7. Dezember 1835 fuhr sie. Es war Platz 3. Danach kam nichts.", None),
        ("Version 3.11 is out. It costs 4.50 now.", ["Version 3.11 is out.", "It costs 4.50 now."]),
        ("Wait... What? (Really.) Yes.", ["Wait...", "What?", "(Really.)", "Yes."]),
        ('He said "Stop." Then he ran.', ['He said "Stop."', "Then he ran."]),
        ("so it is. and it goes on.", ["so it is. and it goes on."]),
        ("Wait ... What now?", ["Wait ...", "What now?"]),
    ],
)
def test_sentences_end_where_they_end(paragraph: str, expected: list[str] | None) -> None:
    german = ["Am 7. Dezember 1835 fuhr sie.", "Es war Platz 3.", "Danach kam nichts."]
    assert split_sentences(paragraph) == (german if expected is None else expected)


@proves("EMB-10")
def test_chinese_and_japanese_sentences_need_no_space() -> None:
    assert split_sentences("他说：“好。”然后走了！真的吗？是") == ["他说：“好。”", "然后走了！", "真的吗？", "是"]
    assert texts("人工智能\n是科学。") == ["人工智能是科学。"]


@proves("EMB-10")
@pytest.mark.parametrize(
    ("text", "last"), [("word " * 400, " "), ("clause, " * 300, ","), ("x" * 1600, "x"), ("part; " * 300, ";")]
)
def test_a_sentence_that_never_ends_is_cut(text: str, last: str) -> None:
    pieces = split_sentences(text.strip())
    assert len(pieces) > 2
    assert all(len(piece) <= MAX_SENTENCE for piece in pieces)
    assert all(piece.endswith("…") for piece in pieces[:-1])
    assert sum(piece.count(text[0]) for piece in pieces) == text.count(text[0])


@proves("EMB-11")
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "a ",
            ".",
            "\u4e2d",
            "\u4e2d\u6587\u3002",
            "[",
            "a](",
            "`",
            "*",
            "_a ",
            "<a ",
            "<!--",
            "```\n",
            "~~~\n~~~~\n",
        ),
        *("\n", "# a\n", ":a:`", "a.b ", "- ", "x = [1,\n", "\n\n \n", "|", "\0", "\u00e9"),
    ],
)
def test_a_text_of_one_thing_many_times_takes_linear_time(unit: str) -> None:
    sentences = read_sentences(unit * (60_000 // len(unit)))  # quadratic time would hit the test's time limit
    document = Document(sentences[:500])
    assert all(len(sentence.text) <= MAX_SENTENCE for sentence in sentences)
    assert len(summarize(document, 3)) <= 3
    assert len(key_terms(document, 5)) <= 5


@proves("EMB-11")
@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("aA1 .,!?\n\t#*-_`~<>|[](){}:;=\"'&\0。中\u2028é"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    sentences = read_sentences(text)
    assert all(sentence.text.strip() == sentence.text and "\0" not in sentence.text for sentence in sentences)
    pieces = join_sentences([sentence.text for sentence in sentences])
    assert len(pieces) == len(sentences)


# --- words -----------------------------------------------------------------------------------------------------------


@proves("EMB-14")
@pytest.mark.parametrize(
    "words",
    [
        "install installs installed installing installation installations",
        "license licenses licence licensed licensing",
        "library libraries",
        "write written wrote",
        "app apps",
        "eisenbahn eisenbahnen",
    ],
)
def test_forms_of_a_word_are_comparable(words: str) -> None:
    assert len(set(Stems().terms(words))) == 1


@proves("EMB-14")
def test_words_without_a_topic_and_addresses_are_no_terms() -> None:
    assert Stems().terms("The one and der die das, x https://example.org/licence") == []
    assert Stems().terms("Apollo’s run_agent2 1969 的 中 人工智") == [
        "apollo",
        "run_agent2",
        "1969",
        "中",
        "人工",
        "工智",
    ]


@proves("EMB-18")
def test_a_word_token_is_a_word_or_a_character_of_chinese() -> None:
    assert count_tokens("It's a well-known run_agent, 人工智能!") == 8
    assert count_tokens("") == 0


@proves("EMB-13")
def test_key_terms_prefer_repeated_phrases_and_names() -> None:
    document = Document(
        read_sentences(
            "Machine learning is everywhere. Machine learning needs data. Good data is rare, and Berlin has data. "
            "In Berlin machine learning pays. The General Public License is a license. "
            "The General Public License is free."
        )
    )
    terms = key_terms(document, 4)
    assert "machine learning" in [term.lower() for term in terms]
    assert "General Public License" in terms
    assert {"data", "Berlin"} & set(terms)
    assert len(key_terms(document, 2)) == 2


@proves("EMB-13")
def test_chinese_key_terms_are_whole_words() -> None:
    document = Document(
        read_sentences("人工智能是科学。人工智能很难。研究人工智能的人很多，计算机也很多。计算机很快。")
    )
    assert key_terms(document, 3)[0] == "人工智能"
    assert "工智能" not in key_terms(document, 20)


@proves("EMB-13")
def test_key_terms_of_nothing_are_none() -> None:
    assert key_terms(Document([]), 5) == []


@proves("EMB-11", "EMB-13")
def test_key_terms_of_very_much_are_counted_in_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rank, "_COUNTED", 1_000)
    document = Document(read_sentences("Berlin lies on the Spree. " * 40 + "Wombats live in Australia. " * 40))
    assert key_terms(document, 3) == ["Berlin lies", "Spree"]


@proves("EMB-12")
def test_joined_sentences_read_as_a_paragraph() -> None:
    assert join_sentences(["One", "Two!", "Three,", "“Four.”"]) == ["One.", " Two!", " Three.", " “Four.”"]
    assert join_sentences(["人工。", "智能。"]) == ["人工。", "智能。"]

"""The words of a text that say what it is about, and how many of them another text has.

Not here: languages. No word is stemmed or translated, so forms of a word match where one contains the other. Invariant:
pure functions; what is cut into keywords and what they are looked up in is folded in the same way.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from .._patterns import lazy_pattern

__all__ = ["STOP_WORDS", "count_hits", "extract_keywords", "fold", "folded_keywords", "keyword_score"]

_STOP = """
the and for that this with are from have will your you can all each when then they them their about into more also
should must
"""
STOP_WORDS = frozenset(_STOP.split())
"""English words that say nothing about what a text is about."""

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"

# Signs that belong to the letter before them, which ``\w`` does not match: accents, points of Hebrew and Arabic, and
# everything in the blocks of the scripts of South and South-East Asia but their punctuation.
_SIGNS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u200c\u200d"
    "\u0900-\u0963\u0966-\u0df3\u0e00-\u0e4e\u0e50-\u0e59\u0e80-\u0f03\u0f18-\u0f39\u0f3e-\u0f84\u1000-\u1049\u1780-\u17d3"
)

_WORD = lazy_pattern(
    rf"(?P<han>[{_HAN}]+)|(?P<whole>[{_KATAKANA}]+|[{_HANGUL}]+)"
    rf"|(?:[^\W_{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}]|[{_SIGNS}])+"
)
_ASCII_WORD = lazy_pattern(r"[a-z0-9]{4,}")


def extract_keywords(text: str) -> list[str]:
    """Return the keywords of a text in lower case, each once, in order.

    Words of more than three letters are keywords, unless they are stop words. Chinese and Japanese are written without
    spaces: neighbouring Han characters give pairs, a run of Katakana is a word, and Hiragana, which is mostly grammar,
    is left out. A run of Hangul of two syllables or more is a word.

    Args:
        text: Any text.
    """
    return list(folded_keywords(fold(text)))


def keyword_score(text: str, keywords: Iterable[str]) -> int:
    """Return how many of the keywords a text contains, whatever their case, each counted once.

    Args:
        text: Any text.
        keywords: What is looked for, also inside of words.
    """
    return count_hits(fold(text), set(map(fold, keywords)) - {""})


def fold(text: str) -> str:
    """Return a text as it is compared: in lower case, and characters that can be written in several ways in one.

    Args:
        text: Any text.
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def folded_keywords(folded: str) -> tuple[str, ...]:
    """Return the keywords of a text that ``fold`` returned, each once, in order.

    Args:
        folded: The text.
    """
    words = _ASCII_WORD.findall(folded) if folded.isascii() else _words(folded)
    return tuple(word for word in dict.fromkeys(words) if word not in STOP_WORDS)


def count_hits(folded: str, keywords: Iterable[str]) -> int:
    """Return how many of the keywords a text contains; all of them folded already.

    Args:
        folded: The text.
        keywords: What is looked for, each once.
    """
    return sum([word in folded for word in keywords])


def _words(folded: str) -> Iterator[str]:
    for match in _WORD.finditer(folded):
        word = match[0]
        if match.lastgroup == "han":
            yield from (word[at : at + 2] for at in range(len(word) - 1))
        elif len(word) > (1 if match.lastgroup == "whole" else 3):
            yield word

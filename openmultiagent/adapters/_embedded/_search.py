"""Which sentences of a document answer a question, judged by the words that they share.

A sentence scores by the weight of the question's words in it (rare words weigh more), half as much by those of its
heading, and more when it has what the question word asks for: a year for "when", a name for "who". Invariant:
deterministic, linear in the length of the document, and no sentence is returned that shares no word with the question,
itself or through its heading.
"""

from __future__ import annotations

import re

from ..._patterns import lazy_pattern
from ._rank import Document, readability
from ._words import Stems

__all__ = ["find_sentences"]

_LEAST_COVERAGE = 0.3
"""The part of the question's weight that a sentence must have to count as a match."""
_HEADING = 0.5  # what a word of the heading counts, against one of the sentence
_MOST_TERMS = 50
_MOST_UNKNOWN = 8  # words of a question that do not occur and whose longer and shorter forms are looked for
_LEAST_START = 5  # characters that two such forms share

_ASKING = lazy_pattern(
    "\u4ec0\u4e48\u65f6\u5019|\u4e3a\u4ec0\u4e48|\u4ec0\u4e48|\u8c01|\u54ea\u91cc|\u54ea\u4e9b|\u54ea\u4e2a|\u54ea|\u4f55\u65f6"
    "|\u591a\u5c11|\u600e\u4e48|\u600e\u6837|\u51e0\u4e2a|\u5417|\u5462|\u8bf7\u95ee|\u662f"
)
_ASKING_WORDS = """
according answer article briefly describe discuss document explain file find give know list look mention mentioned
passage please question quick read say says search sentence show state stated summary tell text erkläre erklären nenne
nennen zeige long lang lange old often oft alt
"""
_ABOUT_ASKING = frozenset(map(Stems().__getitem__, _ASKING_WORDS.split()))
"""Words of a question that speak of asking, not of the matter."""

_NUMBER_WORD = (
    "one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million|zwei|drei|vier|sechs|zehn"
)
_MONTH = (
    "January|February|March|April|June|July|August|September|October|November|December|Januar|Februar|März|Juni|Juli|Oktober"
    "|Dezember|century|Jahrhundert"
)
_CUES = [
    (lazy_pattern(asked, re.IGNORECASE), lazy_pattern(told))
    for asked, told in (
        (r"\b(?:who|whom|whose|wer|wen|wem)\b", r"(?<=[\w,] )[A-ZÀ-Þ][\w.]+|\b(?:by|von|vom)\b"),
        (r"\b(?:when|wann)\b", rf"\b\d{{4}}\b|\b\d{{1,2}}:\d{{2}}\b|\b(?:{_MONTH})\b"),
        (r"\b(?:where|wo|woher|wohin)\b", r"\b(?:in|at|near|from|to|on|aus|nach|bei|von)\s+(?:the\s+|der\s+)?[A-ZÀ-Þ]"),
        (
            r"\bhow (?:many|much|long|old|far|fast|big|tall|often)\b|\bwie ?(?:viele?|lange?|oft|alt|groß)\b",
            rf"\d|\b(?:{_NUMBER_WORD})\b",
        ),
        (
            r"\b(?:why|warum|weshalb|wieso)\b",
            r"\b(?:because|since|so that|due to|therefore|in order|as a result|thanks to|weil|wegen|damit|deshalb)\b",
        ),
        (r"\b(?:what (?:is|are)|was (?:ist|sind))\b", r"^(?:\S+\s+){1,5}(?:is|are|means|refers|ist|sind)\b"),
        ("\u4f55\u65f6|\u4ec0\u4e48\u65f6\u5019|\u591a\u5c11|\u51e0", r"\d"),
    )
]
"""What a question asks for, and what a sentence has that tells it."""


def find_sentences(document: Document, query: str, limit: int, *, least: float) -> list[int]:
    """Return the indexes of the sentences that match a question best, in the document's order; none when none matches.

    Args:
        document: The document.
        query: The question.
        limit: How many sentences are wanted at most.
        least: The part of the best sentence's score that further sentences must reach.
    """
    wanted, full = _wanted(document, query)
    cues = [cue for asked, cue in _CUES if asked.search(query)]
    scores: dict[int, float] = {}
    heading_scores: dict[str, float] = {}
    for index, (sentence, terms) in enumerate(zip(document.sentences, document.terms, strict=True)):
        heading = sentence.heading
        if heading not in heading_scores:
            heading_scores[heading] = sum(wanted[term] for term in wanted.keys() & document.stems.terms(heading))
        matched = sum(wanted[term] for term in wanted.keys() & terms)
        gained = matched + _HEADING * heading_scores[heading]
        if gained and gained >= _LEAST_COVERAGE * full:
            coverage = min(gained / full, 1.0)
            cued = 1.3 if any(cue.search(sentence.text) for cue in cues) else 1.0
            long = 1 + 0.02 * max(len(terms) - 20, 0)
            scores[index] = coverage * cued * (0.6 + 0.4 * readability(sentence.text)) / long
    distinct = {document.sentences[index].text: index for index in sorted(scores, reverse=True)}.values()
    best = sorted(distinct, key=lambda index: (-scores[index], index))[:limit]
    return sorted(index for index in best if scores[index] >= least * scores[best[0]])


def _wanted(document: Document, query: str) -> tuple[dict[str, float], float]:
    """Return the words to look for with their weights, and the weight of the whole question."""
    terms = list(dict.fromkeys(document.stems.terms(_ASKING.sub(" ", query))))[:_MOST_TERMS]
    terms = [term for term in terms if term not in _ABOUT_ASKING] or terms
    wanted: dict[str, float] = {}
    full = 0.0
    unknown = 0
    for term in terms:
        forms = [term]
        if not document.frequency[term] and unknown < _MOST_UNKNOWN:
            unknown += 1
            forms = [known for known in document.frequency if _related(known, term)] or forms
        weights = {form: document.weight(form) * (1.0 if form == term else 0.7) for form in forms}
        wanted |= weights
        full += max(weights.values())
    return wanted, full


def _related(known: str, term: str) -> bool:
    """Tell whether one word is the start of the other, as "Eisenbahn" is of "Eisenbahnnetz"."""
    return len(known) >= _LEAST_START <= len(term) and (known.startswith(term) or term.startswith(known))

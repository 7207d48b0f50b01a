"""Which sentences of a document say the most about it, and which words it is about.

A sentence ranks by how similar it is to all others (the cosine of weighted words, summed over the whole document, which
is one dot product with the sum of all sentences), by where it stands, and by whether it reads on its own. Sentences
that are chosen are then compared with each other, so that none says again what another said; that step sees the
``CANDIDATES`` best only. Ranking and counting see at most ``RANKED`` sentences. Invariant: deterministic, and linear in
the length of the document.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..._patterns import lazy_pattern
from ._text import MAX_SENTENCE, Sentence
from ._words import CJK_STOP, WORD, Stems, is_cjk, without_urls

__all__ = ["CANDIDATES", "RANKED", "Document", "key_terms", "readability", "representative", "summarize"]

CANDIDATES = 400
"""The most sentences that are compared with each other for one summary."""
RANKED = 5_000
"""The most sentences that are ranked or counted; of a longer document its start and evenly spaced others are taken."""
_SAME = 0.95  # the likeness from which two sentences say the same
_COUNTED = 500_000  # characters of them that key terms are counted in
_START = 200  # sentences of a longer document that are all ranked

Vector = dict[str, float]


class Document:
    """Sentences with their words and the weight of each word: rare words weigh more.

    Args:
        sentences: The document's sentences in order.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences
        self.stems = Stems()
        self.terms = [self.stems.terms(sentence.text) for sentence in sentences]
        self.frequency = Counter(term for terms in self.terms for term in dict.fromkeys(terms))
        self._weights: dict[str, float] = {}

    def weight(self, term: str) -> float:
        """Return how much a word tells; the fewer sentences have it, the more, and most when none has."""
        known = self._weights.get(term)
        if known is None:
            known = math.log(1 + (len(self.sentences) + 1) / (self.frequency[term] + 0.5))
            self._weights[term] = known
        return known

    def vector(self, index: int) -> Vector:
        """Return a sentence as weighted words, of length 1; empty when it has no word that tells anything."""
        weighted = {term: count * self.weight(term) for term, count in Counter(self.terms[index]).items()}
        length = math.sqrt(sum(value * value for value in weighted.values()))
        return {term: value / length for term, value in weighted.items()}


def representative(sentences: Sequence[Sentence]) -> Sequence[Sentence]:
    """Return at most ``RANKED`` sentences of a document: its start, and others evenly spaced over the rest.

    Args:
        sentences: All sentences of the document.
    """
    if len(sentences) <= RANKED:
        return sentences
    step = -(-(len(sentences) - _START) // (RANKED - _START))
    return [*sentences[:_START], *sentences[_START::step]]


def summarize(document: Document, count: int) -> list[int]:
    """Return the indexes of the sentences that sum up a document, in the document's order.

    Args:
        document: The document.
        count: How many sentences are wanted.
    """
    total = len(document.sentences)
    if total <= count:
        return list(range(total))
    scores = _scores(document)
    candidates = sorted(range(total), key=lambda index: (-scores[index], index))[:CANDIDATES]
    vectors = {index: document.vector(index) for index in candidates}
    chosen: list[int] = []
    likeness = dict.fromkeys(candidates, 0.0)
    while len(chosen) < count and likeness:
        best = max(likeness, key=lambda index: (scores[index] * (1 - likeness[index]), -index))
        if likeness.pop(best) > _SAME:
            break  # whatever is left says again what was said
        chosen.append(best)
        for index in likeness:
            likeness[index] = max(likeness[index], _dot(vectors[index], vectors[best]))
    return sorted(chosen)


def _scores(document: Document) -> list[float]:
    middle: dict[str, float] = {}
    for index in range(len(document.sentences)):
        for term, value in document.vector(index).items():
            middle[term] = middle.get(term, 0.0) + value
    title = next((sentence.heading for sentence in document.sentences if sentence.heading), "")
    title_terms = set(document.stems.terms(title))
    scores = []
    for index, sentence in enumerate(document.sentences):
        vector = document.vector(index)
        # Minus one: every sentence is perfectly similar to itself, which says nothing.
        similarity = max(_dot(vector, middle) - 1, 0.0) + 0.01
        in_title = sum(1 for term in title_terms if term in vector)
        scores.append(similarity * _place(index, sentence) * readability(sentence.text) * (1 + 0.15 * min(in_title, 2)))
    return scores


def _dot(vector: Vector, other: Vector) -> float:
    return sum(value * other.get(term, 0.0) for term, value in vector.items())


# --- what makes a sentence readable on its own -----------------------------------------------------------------------

_DANGLING = lazy_pattern(
    r"(?:however|but|and|or|also|which|this|these|those|that|it|they|he|she|so|then|there|thus|therefore|instead|otherwise"
    r"|such|here|for (?:example|instance)|e\.g|i\.e|note|see|similarly|moreover|additionally|in addition|both"
    r"|the (?:latter|former)"
    r"|aber|und|oder|dies|diese[rsmn]?|er|sie|es|dann|daher|dabei|dadurch|jedoch|au\u00dferdem|siehe)\b"
    "|\u7136\u800c|\u4f46|\u6b64\u5916|\u56e0\u6b64|\u6240\u4ee5|\u5b83|\u8fd9|\u5176|\u4ed6|\u5979|\u3057\u304b\u3057",
    re.IGNORECASE,
)
_SENTENCE_END = lazy_pattern(r"[.!\u3002\uff01\uff0e][\"'\u201c\u201d\u00bb\u300d)]*$")
_SYMBOLS = lazy_pattern(r"[=_{}\[\]|/<>*#~\\:;@$^]|--")
_LEGAL = lazy_pattern(r"copyright \(c\)|\u00a9|all rights reserved|copyright \d{4}", re.IGNORECASE)


def _place(index: int, sentence: Sentence) -> float:
    lead = 1 + 1.2 * math.exp(-index / 3)  # documents say at the start what they are about
    return lead * (1.1 if sentence.opens_paragraph else 1.0) * (0.85 if sentence.in_list else 1.0)


def readability(text: str) -> float:
    """Return how far a text reads as one sentence that stands for itself: 1 if it does, towards 0 if not.

    Args:
        text: A sentence.
    """
    words = WORD.findall(text)
    size = sum(len(word) / 1.7 if is_cjk(word) else 1.0 for word in words)
    numbers = sum(1 for word in words if word.isdigit())
    quality = 0.15 if size < 5 else 0.6 if size < 8 else 0.75 if size > 45 else 1.0
    if text.endswith((":", "\u2026", "...", "\uff1a")):
        quality *= 0.3
    elif not _SENTENCE_END.search(text):
        quality *= 0.6
    if _DANGLING.match(text) or text[0].islower():
        quality *= 0.7
    if len(_SYMBOLS.findall(text)) > 0.15 * size + 1 or numbers > 0.25 * size:
        quality *= 0.3
    if _LEGAL.search(text):
        quality *= 0.2
    return quality * (1.0 if len(text) <= 0.7 * MAX_SENTENCE else 0.6)


# --- key terms -------------------------------------------------------------------------------------------------------

_PART = lazy_pattern(rf"{WORD.pattern}|[^\w\s]")
_LONGEST_PHRASE = 4
_LONGEST_CJK = 4
_ENOUGH = 5  # as many terms are enough to leave out the words that occur once


def key_terms(document: Document, count: int) -> list[str]:
    """Return the words and short phrases that a document is about, the most telling first.

    Args:
        document: The document.
        count: How many terms are wanted at most.
    """
    forms: dict[tuple[str, ...], Counter[str]] = {}
    left = _COUNTED
    for sentence in document.sentences:
        left -= len(sentence.text)
        if left < 0:
            break
        for stems, form in _phrases(sentence.text, document.stems):
            forms.setdefault(stems, Counter())[form] += 1
    totals = {stems: counted.total() for stems, counted in forms.items()}
    for stems in _absorbed(totals):
        del totals[stems]
    names = {
        stems: max(counted.items(), key=lambda item: item[1])[0] for stems, counted in forms.items() if stems in totals
    }
    ranked = sorted(totals, key=lambda stems: -_worth(names[stems], len(stems), totals[stems]))  # first seen wins a tie
    chosen: list[tuple[str, ...]] = []
    for stems in ranked:
        if len(chosen) == count or (len(chosen) >= _ENOUGH and totals[stems] == 1):
            break
        if not any(_overlap(stems, other, totals) for other in chosen):
            chosen.append(stems)
    return [names[stems] for stems in chosen]


def _phrases(text: str, stems: Stems) -> Iterable[tuple[tuple[str, ...], str]]:
    run: list[tuple[str, str]] = []
    for part in _PART.findall(without_urls(text)):
        if is_cjk(part):
            yield from _cjk_phrases(part)
            run = []
            continue
        stem = stems[part.lower()] if part[0].isalnum() else ""
        if not stem or stem.isdigit() or len(part) < 2:
            run = []
            continue
        run = [*run[-_LONGEST_PHRASE + 1 :], (stem, part)]
        for size in range(1, len(run) + 1):
            yield tuple(stem for stem, _ in run[-size:]), " ".join(word for _, word in run[-size:])


def _cjk_phrases(run: str) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield every way to read two to four neighbouring characters as a word, unless one of them joins words."""
    for start in range(len(run) - 1):
        for end in range(start + 2, min(start + _LONGEST_CJK, len(run)) + 1):
            if run[end - 1] in CJK_STOP or run[start] in CJK_STOP:
                break
            yield tuple(run[start:end]), run[start:end]


def _absorbed(totals: Mapping[tuple[str, ...], int]) -> set[tuple[str, ...]]:
    """Return the runs of CJK characters that occur only inside one longer run, and so are no words of their own."""
    parts = ((part, total) for stems, total in totals.items() if len(stems) > 2 for part in (stems[1:], stems[:-1]))
    return {part for part, total in parts if is_cjk(part[0]) and totals[part] == total}


def _worth(form: str, size: int, total: int) -> float:
    if size > 1 and total == 1:
        return 0.3  # words that stand together once are no phrase yet
    if is_cjk(form):
        return total * (1.0, 1.2, 1.9)[size - 2]  # words of two and four characters are common, of three less so
    named = 1.4 if form[0].isupper() else 1.0
    return total * (1 + 0.6 * (size - 1)) * named * (0.5 if len(form) < 3 else 1.0)


def _overlap(stems: tuple[str, ...], chosen: tuple[str, ...], totals: Mapping[tuple[str, ...], int]) -> bool:
    if _contains(chosen, stems):
        return totals[stems] <= 2 * totals[chosen]
    if is_cjk(stems[0]) and any(_contains(chosen, stems[at : at + 2]) for at in range(len(stems) - 1)):
        return True  # the other half of a word
    return _contains(stems, chosen) and totals[stems] < 0.4 * totals[chosen]


def _contains(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    size = len(shorter)
    return any(longer[at : at + size] == shorter for at in range(len(longer) - size + 1))

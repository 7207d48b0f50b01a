"""What an instruction asks for: a summary, key terms, an answer, or something that the engine can only search for.

Patterns over English, German and Chinese (and a few words of French, Spanish and Japanese), no understanding.
Invariant: pure, linear, and every text gets an intent.
"""

from __future__ import annotations

import re
from typing import Literal

from ..._patterns import lazy_pattern
from ..._record import record

__all__ = ["Intent", "IntentKind", "asks", "read_intent"]

IntentKind = Literal["summary", "terms", "question", "search"]


@record
class Intent:
    """What is asked for."""

    kind: IntentKind
    count: int | None = None
    """How many sentences or terms, when the instruction says so."""
    bullets: bool = False


_SUMMARIZE = lazy_pattern(
    r"\bsummari[sz]|\btl;?dr\b|\bcondense|\brecap\b|\bshorten\b|\bzusammenfass(?:en|t)?\b|\bfass\w*\b.{1,80}\bzusammen\b"
    "|\u603b\u7ed3|\u6982\u62ec|\u6982\u8ff0|\u6458\u8981|\u8981\u7d04|\u307e\u3068\u3081|\\br\u00e9sume|\\bresum[ei]",
    re.IGNORECASE,
)
_SUMMARY = lazy_pattern(
    r"\bsummar(?:y|ies)\b|\boverview\b|\bgist\b|\bsynopsis\b|\bdigest\b|\bin (?:short|brief|a nutshell)\b"
    r"|\b(?:main|key|central|important) (?:points?|ideas?|takeaways?|facts?|findings?|messages?)\b"
    r"|\bwhat(?:'s|\u2019s|\s+(?:is|are|does|do))\b.{1,60}\b(?:about|say|saying)\W*$"
    r"|\bkurzfassung|\bzusammenfassung|\b\u00fcberblick|\bworum geht|\bwovon handelt|\br\u00e9sum\u00e9|\bresumen"
    "|\u8bb2\u4e86\u4ec0\u4e48|\u8bf4\u4e86\u4ec0\u4e48|\u5173\u4e8e\u4ec0\u4e48|\u8981\u70b9",
    re.IGNORECASE,
)
_TERMS = lazy_pattern(
    r"\bkey[ -]?(?:terms?|words?|phrases?|topics?|concepts?)\b|\btopics\b|\btags\b"
    r"|\bschl(?:\u00fcsselw|agw)\w+|\bstichw(?:ort|\u00f6rter)\w*|\bmots[ -]cl\u00e9s|\bpalabras clave"
    "|\u5173\u952e\u8bcd|\u5173\u952e\u5b57|\u4e3b\u9898\u8bcd|\u30ad\u30fc\u30ef\u30fc\u30c9",
    re.IGNORECASE,
)
_QUESTION_WORD = lazy_pattern(
    r"\W*(?:and |so |then |please )?(?:who|whom|whose|when|where|why|which|what|how|wer|wen|wem|wessen|wann|wo|woher"
    r"|wohin|warum|weshalb|wieso|welche[rsmn]?|was|wie|wieviele?)\b",
    re.IGNORECASE,
)
_WHAT = lazy_pattern(r"\W*(?:and |so |then |please )?(?:what|which|was|welche[rsmn]?)\b", re.IGNORECASE)
_YES_OR_NO = lazy_pattern(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|will|ist|sind|hat|haben|gibt)\b", re.IGNORECASE
)
_QUESTION_MARK = lazy_pattern(r"[?\uff1f]['\"\u201d\u2019)\s]*$")
_CJK_QUESTION = lazy_pattern(
    "\u4ec0\u4e48|\u8c01|\u54ea|\u4f55\u65f6|\u591a\u5c11|\u4e3a\u4ec0\u4e48|\u600e\u4e48|\u600e\u6837|\u51e0\u4e2a|\u5417"
    "|\u4f55\u4eba|\u3044\u3064|\u3069\u3053|\u306a\u305c"
)
_BULLETS = lazy_pattern(
    r"\bbullets?\b|\bpoints\b|\blist\b|\bitemi[sz]e|\bstichpunkt|\bliste\b|\u8981\u70b9|\u5217\u51fa", re.IGNORECASE
)
_COUNT = lazy_pattern(
    r"\b(\d{1,2}|an?|single|one|two|three|four|five|six|seven|eight|nine|ten|eine[mnrs]?|zwei|drei|vier|f\u00fcnf|sechs"
    r"|sieben|acht|neun|zehn)[ -](?:[\w-]{1,20} ){0,2}(?:sentences?|bullets?|points?|lines?|key ?words?|phrases?|terms?"
    r"|topics?|tags|s\u00e4tze?n?|satz|stichw\w*|begriffe?n?)\b"
    "|(\\d{1,2}|[\u4e00\u4e8c\u4e24\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341])\\s*"
    "(?:\u53e5|\u4e2a\u5173\u952e|\u4e2a\u8981|\u6761)",
    re.IGNORECASE,
)
_NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            "a an single one ein eine einem einen einer eines \u4e00",
            "two zwei \u4e8c \u4e24",
            "three drei \u4e09",
            "four vier \u56db",
            "five f\u00fcnf \u4e94",
            "six sechs \u516d",
            "seven sieben \u4e03",
            "eight acht \u516b",
            "nine neun \u4e5d",
            "ten zehn \u5341",
        ),
        start=1,
    )
    for word in words.split()
}
_MOST = 20  # sentences or terms, however many are asked for


def read_intent(instruction: str, system_prompt: str = "") -> Intent:
    """Return what is asked for; the system prompt decides only when the instruction does not.

    Args:
        instruction: What the user wrote, without the text that it is about.
        system_prompt: What the agent was told to be.
    """
    count = _COUNT.search(instruction) or _COUNT.search(system_prompt)
    kind = _kind(instruction)
    if kind is None:
        from_system = _kind(system_prompt)
        # "Three bullet points, please" asks for a summary.
        unnamed: IntentKind = "search" if count is None else "summary"
        kind = from_system if from_system in {"summary", "terms"} else unnamed
    return Intent(kind, None if count is None else _number(count), bullets=_BULLETS.search(instruction) is not None)


def asks(text: str) -> bool:
    """Tell whether a text asks for something that the engine recognises.

    Args:
        text: A short text.
    """
    return _kind(text) is not None


def _kind(text: str) -> IntentKind | None:
    if _SUMMARIZE.search(text):
        return "summary"
    starts_question = _QUESTION_WORD.match(text) is not None
    if not starts_question or _WHAT.match(text):
        if _TERMS.search(text):
            return "terms"
        if _SUMMARY.search(text):
            return "summary"
    is_question = starts_question or _YES_OR_NO.match(text) or _QUESTION_MARK.search(text) or _CJK_QUESTION.search(text)
    return "question" if is_question else None


def _number(found: re.Match[str]) -> int:
    word = (found[1] or found[2]).lower()
    number = int(word) if word.isdigit() else _NUMBERS[word]
    return min(max(number, 1), _MOST)

"""What the text of a goal shows about the work it asks for, without a model: its length, and signs of several steps.

The signs are those of English, Chinese, Japanese and Korean; a goal in another language is judged by its length. They
are meant to find goals that *say* they have several steps, and to take a goal in doubt for a simple one. Invariant: the
time is linear in the goal, since no expression looks further than a fixed number of characters from where it begins.
"""
# ruff: noqa: RUF001 - the marks of other scripts are what is looked for

from __future__ import annotations

import math
import re

from ..._patterns import lazy_pattern

__all__ = ["MAX_SIMPLE_UNITS", "complexity_signal", "information_units", "is_simple_goal"]

MAX_SIMPLE_UNITS = 200
"""A goal with more information than that is not simple, whatever it says."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_UNITS = 2.25
"""Units of a CJK character, which says about as much as half a word."""
_WORD_UNITS = 4
"""The most units of a word: long words say no more than short ones."""
_MAX_WORD = 32
"""A longer run of letters and digits is no word, and counts in full."""
_PIECE = lazy_pattern(rf"([A-Za-z0-9]+)|([{_CJK}])|\S")

_DO = "build|create|implement|design|write|develop"
_ZH_DO = "构建|创建|实现|设计|编写|开发|分析|收集|部署|测试|审查|审核|研究|撰写"
_ZH_DO_NEXT = "构建|创建|实现|设计|编写|开发|部署|测试|审查|审核|研究|撰写|生成"
_NUMBER = "[0-9０-９一二三四五六七八九十]{1,4}"

_SIGNALS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, lazy_pattern(source, re.IGNORECASE | re.MULTILINE | re.DOTALL))
    for name, source in (
        ("it says what comes first and what then", r"\bfirst\b.{3,60}?\bthen\b"),
        ("it numbers steps, phases or stages", r"\b(?:step|phase|stage)\s{0,4}\d"),
        ("it has a numbered list", rf"^[ \t]{{0,16}}\d{{1,4}}[.)](?=[ \t]+\S|[{_CJK}])"),
        ("it asks for collaboration", r"\bcollaborat(?:e|ing)\s{1,4}(?:with|on|to)\b"),
        (
            "it asks for coordination",
            r"\bcoordinat(?:e|ing)\s{1,4}(?:with|on|across|between|(?:the\s{1,4})?(?:team|agents?|workers?|efforts?|work))\b",
        ),
        ("it asks for mutual review", r"\breview\s{1,4}each\s{1,4}other\b"),
        ("it asks for work together", r"\bwork\s{1,4}together\b"),
        (
            "it asks for work at the same time",
            r"\b(?:in\s{1,4}parallel|concurrently|at\s{1,4}the\s{1,4}same\s{1,4}time)\b",
        ),
        (
            "it joins several kinds of work",
            rf"\b(?:{_DO})\b[^.!?\n]{{5,80}}\b(?:and|then)\b[^.!?\n]{{5,80}}\b(?:{_DO}|test|review|deploy)\b",
        ),
        ("it says what comes first and what then", r"(?:首先|先).{1,60}?(?:然后|接着|再)"),
        ("it numbers steps, phases or stages", rf"第{_NUMBER}步.{{1,80}}?第{_NUMBER}步"),
        ("it says what comes first and what then", r"(?:まず|最初に).{1,80}?(?:次に|それから|続いて)"),
        ("it numbers steps, phases or stages", rf"第{_NUMBER}に.{{1,80}}?第{_NUMBER}に"),
        (
            "it numbers steps, phases or stages",
            r"(?:ステップ|手順)\s{0,4}[0-9０-９].{0,80}?(?:ステップ|手順)\s{0,4}[0-9０-９]",
        ),
        ("it says what comes first and what then", r"먼저.{1,80}?(?:그\s{0,4}다음|그리고\s{0,4}나서)"),
        ("it says what comes first and what then", r"(?:첫째|첫\s{0,4}번째).{1,80}?(?:둘째|두\s{0,4}번째)"),
        ("it numbers steps, phases or stages", r"\d\s{0,4}단계.{1,80}?\d\s{0,4}단계"),
        ("it has a numbered list", "[①-⑩].{1,100}?[②-⑩]"),
        ("it lists many things", rf"(?:[{_CJK}][^、]{{0,39}}、){{5}}"),
        ("it has several clauses", r"[^；\s][^；]{0,78}[^；\s]\s{0,4}；\s{0,4}[^；\s][^；]{0,78}[^；\s]"),
        ("it joins several kinds of work", rf"(?:{_ZH_DO})[^\n]{{0,40}}?、[^\n]{{0,40}}?(?:{_ZH_DO_NEXT})"),
        ("it joins several kinds of work", rf"(?:{_ZH_DO})[^\n]{{1,50}}?(?:并|然后|再|接着)[^\n]{{0,50}}?(?:{_ZH_DO})"),
    )
)
"""What each sign means, and how it looks. One half of a pair alone is no sign."""


def is_simple_goal(goal: str) -> bool:
    """Say whether one agent can be expected to do what a goal asks for.

    Args:
        goal: The text of the goal.
    """
    return information_units(goal) <= MAX_SIMPLE_UNITS and complexity_signal(goal) is None


def information_units(goal: str) -> int:
    """Return about how much a text says, in a unit that is comparable between scripts; exact up to 200, then more.

    Args:
        goal: The text.
    """
    units = 0.0
    for piece in _PIECE.finditer(goal):
        if piece[1]:
            length = piece.end() - piece.start()
            units += length if length > _MAX_WORD else min(length, _WORD_UNITS)
        else:
            units += _CJK_UNITS if piece[2] else 1
        if units > MAX_SIMPLE_UNITS:
            break
    return math.ceil(units)


def complexity_signal(goal: str) -> str | None:
    """Return what in a goal shows that it has several steps; None when nothing does.

    Args:
        goal: The text of the goal.
    """
    return next((name for name, pattern in _SIGNALS if pattern.search(goal)), None)

"""Plain sentences out of any text: markup taken off, paragraphs joined, sentences found and bounded.

It reads Markdown, the common part of reStructuredText, plain text, and the comments of source code, without being told
which. It is no parser of any of them: code blocks, tables, images, comments and directives are left out, links and
emphasis become their text. Invariant: linear time for any input, and no sentence is longer than ``MAX_SENTENCE``
characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..._patterns import lazy_pattern
from ..._record import record
from ._code import is_code, prose_of_code
from ._words import CJK

__all__ = ["MAX_SENTENCE", "Sentence", "join_sentences", "read_sentences", "split_sentences"]

MAX_SENTENCE = 500
"""Characters of the longest sentence; what is longer is cut at a clause, a space, or hard."""


@record
class Sentence:
    """A sentence and where it stands."""

    text: str
    heading: str
    """The nearest heading above it; empty when there is none."""
    opens_paragraph: bool
    in_list: bool


def read_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a document in order; code and tables are read only when there is nothing else.

    Args:
        text: Markdown, reStructuredText or plain text.
    """
    text = _without_comments(_CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n")))
    lines = text.split("\n")
    found = list(_sentences(_paragraphs(prose_of_code(lines) if is_code(lines) else lines)))
    if not found:
        bare = (_SYMBOL_RUN.sub(" ", line) for line in lines)
        found = list(_sentences(_Paragraph("", [line]) for line in bare))
    return found


def join_sentences(sentences: list[str]) -> list[str]:
    """Return the pieces of a paragraph that is made of sentences: each ends as a sentence does and brings its space.

    Args:
        sentences: Sentences in the order in which they are to be read.
    """
    pieces: list[str] = []
    for sentence in sentences:
        ended = sentence if _ENDED.search(sentence) else sentence.rstrip(" ,;:-\u2013\u2014") + "."
        space = " " if pieces and not _WIDE_END.search(pieces[-1]) else ""
        pieces.append(space + ended)
    return pieces


# --- paragraphs ------------------------------------------------------------------------------------------------------

_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_UNDERLINE = lazy_pattern(r"([=\-~^\"'`*+#.:_])\1{2,}")
_FENCE = lazy_pattern(r"`{3,}|~{3,}")
_HEADING = lazy_pattern(r"#{1,6}\s+(.*)")
_ITEM = lazy_pattern(r"(?:[-*+\u2022\u00b7]|\d{1,3}[.)]|\([a-z0-9]{1,3}\))\s+(?:\[[ xX]\]\s+)?(?=\S)")
_FIELD = lazy_pattern(r":[\w -]{1,30}:(?:\s|$)|\[[^\[\]]+\]:\s")  # of a directive, and where a reference leads
_LABEL = lazy_pattern(r"(?:Args|Arguments|Attributes|Examples?|Notes?|Parameters|Raises|Returns|Yields):")
_LOG_LINE = lazy_pattern(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:")
_ALPHANUMERIC = lazy_pattern(r"[^\W_]")
_LONGEST_TITLE = 80
_PUNCTUATED = lazy_pattern(r"[.!?:;,\u2026\u3002\uff01\uff1f\uff1a\uff1b\uff0c\"'\u201d\u300d)]$")
_SYMBOL_RUN = lazy_pattern(r"[|`~*#=_<>{}\[\]-]+")


@dataclass(slots=True)
class _Paragraph:
    heading: str
    lines: list[str]
    in_list: bool = False


def _paragraphs(lines: list[str]) -> Iterator[_Paragraph]:
    heading = ""
    current = _Paragraph(heading, [])
    for line in _without_blocks(lines):
        title = _HEADING.match(line)
        underlined = len(current.lines) == 1 and not current.in_list and _UNDERLINE.fullmatch(line) is not None
        item = _ITEM.match(line)
        if title or underlined:
            heading = _plain(title[1].rstrip("# ")) if title else _plain(current.lines[0])
            if not underlined:
                yield current
            current = _Paragraph(heading, [])
        elif item:
            yield current
            current = _Paragraph(heading, [line[item.end() :]], in_list=True)
        elif _LOG_LINE.match(line):
            yield current
            current = _Paragraph(heading, [line])
        elif _is_prose(line):
            current.lines.append(line.lstrip("> "))
        else:
            if _is_title(current):
                heading = _plain(current.lines[0])
            else:
                yield current
            current = _Paragraph(heading, [])
    yield current


def _is_title(paragraph: _Paragraph) -> bool:
    """Tell whether a paragraph is a heading without any mark: one short line that does not end as a sentence does."""
    if len(paragraph.lines) != 1 or paragraph.in_list:
        return False
    line = paragraph.lines[0]
    return len(line) <= _LONGEST_TITLE and _PUNCTUATED.search(line) is None


def _without_blocks(lines: list[str]) -> Iterator[str]:
    """Yield the stripped lines without front matter and fenced code; a fence that is never closed is no fence."""
    unclosed: set[str] = set()
    index = _after_front_matter(lines)
    previous = ""
    while index < len(lines):
        line = lines[index].strip()
        fence = _FENCE.match(line)
        # A line of ~ under a text is how reStructuredText writes a heading.
        if fence and fence[0] not in unclosed and not (previous and _UNDERLINE.fullmatch(line) and line[0] == "~"):
            end = _closing(lines, index + 1, fence[0])
            if end is not None:
                yield ""
                index, previous = end + 1, ""
                continue
            unclosed.add(fence[0])
        yield line
        index, previous = index + 1, line


def _after_front_matter(lines: list[str]) -> int:
    if lines[0].strip() == "---":
        for index in range(1, min(len(lines), 60)):
            if lines[index].strip() == "---":
                return index + 1
    return 0


def _closing(lines: list[str], start: int, fence: str) -> int | None:
    for index in range(start, len(lines)):
        line = lines[index].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return index
    return None


def _is_prose(line: str) -> bool:
    if (
        _ALPHANUMERIC.search(line) is None
        or line.startswith(("|", ".. ", "+-", "+=", "[!"))
        or _FIELD.match(line)
        or _LABEL.fullmatch(line)
    ):
        return False
    return not line.endswith("|") and line.count(" | ") < 2


def _without_comments(text: str) -> str:
    kept: list[str] = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join(kept) + text[position:] if kept else text[position:]


# --- inline markup ---------------------------------------------------------------------------------------------------

_IMAGE = lazy_pattern(r"!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])")
_LINK = lazy_pattern(r"\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_AUTOLINK = lazy_pattern(r"\s?<https?://[^<>\s]*>")
_TAG = lazy_pattern(
    r"</?(?:a|abbr|article|b|blockquote|br|center|code|dd|details|div|dl|dt|em|figure|footer|h[1-6]|header|hr|i|img|kbd|li"
    r"|main|nav|ol|p|picture|pre|section|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul|video)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_ROLE = lazy_pattern(r":[a-z:]{1,30}:(?=`)")  # of reStructuredText, as in :class:`Name`
# Every alternative begins with its mark, so that the search skips from mark to mark.
_MARKS = lazy_pattern(
    r"`+([^`]*)`+_{0,2}"  # code
    r"|\*(?<![\w*]\*)\*{0,2}(?=[^\s*])|\*(?<=[^\s*]\*)\*{0,2}(?![\w*])"  # bold and emphasis
    r"|_(?<=\w_)(?=[\s,.;:)]|$)"  # references of reStructuredText
    r"|_(?<![\w`]_)(?=[^\W_])([^_`]+)_(?![\w`])"
)
_WIDE_BREAK = lazy_pattern(rf"(?<=[{CJK}\u3000-\u303f\uff00-\uffef])\n(?=[{CJK}\u3000-\u303f\uff00-\uffef])")


def _plain(text: str) -> str:
    """Return one paragraph on one line, without inline markup."""
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    if "<" in text:
        text = _TAG.sub("", _AUTOLINK.sub("", text))
    if "&" in text:
        import html  # noqa: PLC0415 - import time

        text = html.unescape(text)
    if ":`" in text:
        text = _ROLE.sub("", text)
    if "`" in text or "*" in text or "_" in text:
        text = _MARKS.sub(lambda mark: mark[1] or mark[2] or "", text)
    return " ".join(_WIDE_BREAK.sub("", text).split())


# --- sentences -------------------------------------------------------------------------------------------------------

_CLOSERS = "\"'\u201c\u201d\u2019\u00bb\u300d\u300f\uff09)\\]"
# One match per run of marks, whatever follows: a pattern that also asked for the following space would be quadratic.
_END = lazy_pattern(rf"(?P<wide>[\u3002\uff01\uff1f\uff0e\u0964\u061f]+[{_CLOSERS}]*)|[.!?\u2026]+[{_CLOSERS}]*")
_ENDED = lazy_pattern(rf"[.!?\u2026\u3002\uff01\uff1f\uff0e\u0964\u061f][{_CLOSERS}]*$")
_WIDE_END = lazy_pattern(rf"[\u3002\uff01\uff1f\uff0e][{_CLOSERS}]*$")
_LAST_WORD = lazy_pattern(r"(\S{1,12})$")
_SHORT_FORMS = """
al approx art bspw bzw ca cf ch chap co corp d.h dr ed eds e.g eg etc evtl fig ggf hr i.e ie inc jr ltd max min mio mr
mrs ms no nr op p pp prof resp s.o sec sog sr st str u.a usw v vgl viz vol vs z.b z.t z b d h u
"""
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_MONTH = lazy_pattern(
    r"(?:Januar|Februar|M\u00e4rz|April|Mai|Ju[nl]i|August|(?:Septem|Okto|Novem|Dezem)ber|Jahrhundert)\b"
)


def split_sentences(text: str) -> list[str]:
    """Split one paragraph into sentences of at most ``MAX_SENTENCE`` characters.

    Args:
        text: A paragraph whose white space is single spaces.
    """
    found: list[str] = []
    start = 0
    for mark in _END.finditer(text):
        if mark["wide"] is not None or _ends_sentence(text, mark.start(), mark.end()):
            found.extend(_bounded(text[start : mark.end()].strip()))
            start = mark.end()
    found.extend(_bounded(text[start:].strip()))
    return found


def _sentences(paragraphs: Iterator[_Paragraph]) -> Iterator[Sentence]:
    for paragraph in filter(lambda found: found.lines, paragraphs):
        for index, text in enumerate(split_sentences(_plain("\n".join(paragraph.lines)))):
            if _ALPHANUMERIC.search(text):
                yield Sentence(text, paragraph.heading, opens_paragraph=index == 0, in_list=paragraph.in_list)


def _ends_sentence(text: str, start: int, end: int) -> bool:
    following = text[end : end + 2]
    if not following.startswith(" ") or following[-1].islower():
        return False
    if text[start] != "." or text[start + 1 : start + 2] == ".":
        return True
    before = _LAST_WORD.search(text, max(0, start - 12), start)
    word = before[1].lstrip("(\"'\u201e\u201c").lower() if before else ""
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return False
    return not (word.isdigit() and len(word) <= 2 and _MONTH.match(text, end + 1))


def _bounded(text: str) -> Iterator[str]:
    """Yield the sentence, or when it is too long its parts, which end in an ellipsis."""
    start, half = 0, MAX_SENTENCE // 2
    while len(text) - start > MAX_SENTENCE:
        window = text[start : start + MAX_SENTENCE - 1]
        cut = next((at for mark in ("; ", ", ", " ") if (at := window.rfind(mark, half)) > 0), MAX_SENTENCE - 2)
        yield window[: cut + 1].rstrip(" ,;") + "\u2026"
        start += cut + 1
    if rest := text[start:].strip():
        yield rest

"""The prose in source code: its comments and documentation strings.

It knows no programming language: lines are told apart by how code tends to begin and end. Invariant: a text is taken
for code only when a good part of its lines look like it, so a document with a few lines of code is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._patterns import lazy_pattern

__all__ = ["is_code", "prose_of_code"]

_STATEMENT = lazy_pattern(
    r"(?:def|class|async|fn|func|function|struct|enum|impl|interface|public|private|protected|static|void|const|let|var|val"
    r"|package|module|namespace|#include|#define|using|export)\s+[\w<*&.\"({]"
    r"|(?:import|from|use|require)\s+[\w.{*\"'@<]+(?:\s+(?:import|as|from)\s.*|;)?$"
    r"|(?:return|raise|throw|yield|await|assert|del|break|continue|pass|end|else|try|finally)\b[^.]{0,60}$"
    r"|(?:if|elif|for|while|with|except|switch|match|case|catch)\b.*[:{)]$"
    r"|@\w[\w.]*(?:\(|$)|\}|\]|\)"
)
_ASSIGNMENT = lazy_pattern(r"[\w.\[\]\"', *&-]{1,60}(?::\s?[\w.\[\], |\"]{1,60})?\s(?:=|:=|\+=|-=|->)\s?(?:\S|$)")
_BLOCK_END = lazy_pattern(r"[{}();\[\\]$|\)[:,]$|=$|^[\w.]+\(.*\)$|^[\"'\w.*-]+(?:[:=]\s?[\"'\w.()\[\]]*)?,$")
_COMMENT = lazy_pattern(r"(?:#+!?|//+!?|/\*+|\*+/?|--+|;+|%+)\s+")
_HEADING = lazy_pattern(r"#{1,6}\s")  # of Markdown, or a comment; "(by ann)" at its end makes it no statement
_QUOTES = lazy_pattern(r"^[rbuf]{0,2}(?:\"\"\"|''')|(?:\"\"\"|'''|\*+/)$")
_LONGEST_STATEMENT = 300  # characters; longer lines are text, or nothing that anyone wrote
_SAMPLE = 2_000  # lines are enough to tell


def is_code(lines: Sequence[str]) -> bool:
    """Tell whether a text is source code: at least three in ten of its first lines look like it.

    Args:
        lines: The lines of the text.
    """
    seen = [stripped for line in lines[:_SAMPLE] if (stripped := line.strip())]
    fenced = any(line.startswith(("```", "~~~")) for line in seen)
    return not fenced and sum(map(_is_statement, seen)) >= 0.3 * len(seen) and len(seen) >= 5


def prose_of_code(lines: Sequence[str]) -> list[str]:
    """Return the lines of comments and documentation, without their marks; an empty line for each line of code.

    Args:
        lines: The lines of the source.
    """
    return [_prose(line.strip()) for line in lines]


def _prose(line: str) -> str:
    if _QUOTES.match(line):
        return _QUOTES.sub("", line)
    if comment := _COMMENT.match(line):
        return line[comment.end() :]
    return "" if _is_statement(line) else _QUOTES.sub("", line)


def _is_statement(line: str) -> bool:
    if len(line) > _LONGEST_STATEMENT or _HEADING.match(line):
        return False
    return bool(_STATEMENT.match(line) or _ASSIGNMENT.match(line) or _BLOCK_END.search(line))

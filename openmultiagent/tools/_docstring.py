"""What a docstring says about a function and its parameters, in the three usual styles.

It reads text and never fails: what it does not understand is left out.
"""

from __future__ import annotations

import inspect
import re

from .._patterns import lazy_pattern

__all__ = ["parse_docstring"]

_GOOGLE_HEADER = lazy_pattern(r"(Args|Arguments|Parameters):")
_GOOGLE_ENTRY = lazy_pattern(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = lazy_pattern(r"\*{0,2}(\w+)(?:\s*:.*)?")
_SPHINX_ENTRY = lazy_pattern(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph as one line, and the descriptions of the parameters.

    Args:
        text: The docstring, or None.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    parameters: dict[str, str] = {}
    for index, line in enumerate(lines):
        follower = lines[index + 1] if index + 1 < len(lines) else ""
        if _GOOGLE_HEADER.fullmatch(line):
            parameters.update(_google(lines[index + 1 :]))
        elif line == "Parameters" and re.fullmatch(r"-{3,}", follower):
            parameters.update(_numpy(lines[index + 2 :]))
        elif entry := _SPHINX_ENTRY.fullmatch(line):
            parameters[entry[1]] = _joined([entry[2], *_indented(lines[index + 1 :])])
    return _first_paragraph(lines), parameters


def _first_paragraph(lines: list[str]) -> str:
    paragraph: list[str] = []
    for index, line in enumerate(lines):
        underlined = index + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[index + 1])
        if not line or _GOOGLE_HEADER.fullmatch(line) or line.startswith(":") or underlined:
            break
        paragraph.append(line)
    return _joined(paragraph)


def _google(lines: list[str]) -> dict[str, str]:
    block = _indented(lines)
    margin = min((_indent(line) for line in block if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == margin else None
        if entry:
            current = found.setdefault(entry[1], [entry[2]])
        else:
            current.append(line)
    return {name: _joined(texts) for name, texts in found.items()}


def _numpy(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for index, line in enumerate(lines):
        if _indent(line):
            current.append(line)
        elif index + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[index + 1]):
            break
        elif entry := _NUMPY_ENTRY.fullmatch(line):
            current = found.setdefault(entry[1], [])
    return {name: _joined(texts) for name, texts in found.items()}


def _indented(lines: list[str]) -> list[str]:
    """Return the lines up to the first one that starts at the margin."""
    for index, line in enumerate(lines):
        if line and not line[0].isspace():
            return lines[:index]
    return lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())

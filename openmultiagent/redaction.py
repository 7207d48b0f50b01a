"""Masking of credentials in texts and in plain data, before they reach a span, a log line or a store.

It is a net under other measures, not a proof: it knows names that announce a secret (``api_key = ...``), a few shapes
of tokens, private keys and credentials in URLs, and nothing else. Invariants: what was redacted once is not changed by
a second pass; the time is linear in the length of the text, whatever the text is; the input is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._patterns import lazy_pattern

__all__ = [
    "LOOK_AHEAD",
    "REDACTED",
    "is_sensitive_name",
    "redact_known_secrets",
    "redact_sensitive_object",
    "redact_sensitive_text",
    "redact_start",
]

REDACTED = "[redacted]"
"""What stands in the place of a secret."""
LOOK_AHEAD = 1024
"""Characters that are looked at beyond a cut and then dropped, so that a secret across it is seen as a whole."""

_SHORT_SECRET = 8
"""Characters below which a known secret may well be a part of words."""
_MAX_PASSES = 16
"""A text that still changes then is masked whole; only peculiar extra patterns bring that about."""
_MAX_DEPTH = 100
"""Containers nested deeper than messages may be are replaced whole."""

_FLAGS = re.ASCII | re.IGNORECASE
"""Without ASCII a token glued to a non-ASCII letter would have no word boundary in front of it."""

# --- names -----------------------------------------------------------------------------------------------------------

_TELLING = lazy_pattern(
    r"api[-_. ]?key|secret(?!ar(?:y|ia|ies)|ion)|password|passwd|pwd|private[-_. ]?key|access[-_. ]?key"
    r"|(?:access|refresh|id|github)token|authorization|auth[-_. ]?token|cookie|session|credential|bearer",
    _FLAGS,
)
_TOKEN = lazy_pattern(r"(?:.*[-_. ])?token|token[-_. ].*", _FLAGS | re.DOTALL)
_AMOUNT = lazy_pattern(r"[-_. ](?:budget|count|limit|usage|used|remaining|total|cost)s?\Z", _FLAGS)
"""The end of a name of a number, such as ``token_budget``: what it holds is no secret."""
_HINT = lazy_pattern(_TELLING.pattern + "|token", _FLAGS)
"""A text without a match has no sensitive name."""


def is_sensitive_name(name: str) -> bool:
    """Tell whether a value of this name is taken for a secret.

    Args:
        name: The name of a field, header, variable or query parameter.
    """
    if _AMOUNT.search(name) is not None:
        return False
    return _TELLING.search(name) is not None or _TOKEN.fullmatch(name) is not None


# --- text ------------------------------------------------------------------------------------------------------------
# Every repetition below is possessive, or ends where it cannot match again: no input makes the time more than linear.

_PRIVATE_KEY = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_BEARER = lazy_pattern(r"\b(bearer[ \t]++)[a-z0-9._~+/=-]{8,}+", _FLAGS)
_LITERAL = lazy_pattern(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}+|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|AKIA[0-9A-Z]{16}"
    r"|xox[baprs]-[A-Za-z0-9-]{10,}+)[\w-]*+",  # with what is glued to it, so that no new name is left behind
    re.ASCII,
)
_USER_INFO = lazy_pattern(r"""://(?:[^\s/?#@"'<>]*+@)++""")

_BEFORE = r"""(?:(?<!\\)(?P<before>\\*+["'])|(?<![\w-]))"""
_NAME = r"(?P<name>(?:(?:api|private|access|secret)[ \t]++(?=key)|auth[ \t]++(?=token))?[\w-]++)"
_AFTER = r"""(?P<after>\\*+["'])?+\]?+[ \t]*+(?:=>|:=|={1,3}|:)"""
_KEY = lazy_pattern(_BEFORE + _NAME + _AFTER, _FLAGS)
_WORD = r"(?:[\w-]|\[redacted\])++"
_NEXT_KEY = rf"""["']?{_WORD}["']?""" + r"(?:[ \t]++[:=](?!=)|:|=(?![=\s,;}\]]|\Z))"
"""What ends a value after a space: another name with its sign. A lone ``=`` at the end of a word is base64 padding."""


def _bare_value(stops: str, *more: str) -> re.Pattern[str]:
    # A quote that stands where the value ends anyway belongs to what is around the assignment.
    ends = rf"(?![{stops}\r\n]|\Z)"
    pieces = [
        r"\[redacted\]",  # whole, though it may hold a stop
        r"\[",
        rf"""[^{stops}\r\n \t&\["'\\]++""",
        *(more or (r"[ \t&]++",)),
        rf"""\\*+["']{ends}""",
        r"""\\++(?!["'])""",
    ]
    return lazy_pattern(f"(?:{'|'.join(pieces)})*+", _FLAGS)


_BARE = _bare_value(r",;}\]", rf"[ \t]++(?!{_NEXT_KEY})", rf"&(?!{_WORD}=)")
_BARE_AUTHORIZATION = _bare_value(",;}")
_BARE_COOKIE = _bare_value(",")
_BARE_QUERY = lazy_pattern(r"""[^\s&#"'<>]*+""", _FLAGS)

_OPENING = lazy_pattern(r"""\s*+(\\*+["'])""", re.ASCII)
_CLOSING = {quote: lazy_pattern(rf"(\\*+){quote}") for quote in "\"'"}
_NESTING = lazy_pattern(r'\\.|"(?:[^"\\]|\\.)*+"|([\[{])|[\]}]', re.DOTALL)
_BLANKS = lazy_pattern(r"[ \t]*+")


def redact_sensitive_text(text: str, extra_patterns: Sequence[str | re.Pattern[str]] = ()) -> str:
    """Return a text with the secrets in it replaced by ``[redacted]``.

    Args:
        text: Any text; it may be JSON, a URL, a header, a log line or prose.
        extra_patterns: Further regular expressions whose every match is a secret. Their speed is their author's matter.
    """
    # A placeholder is a new neighbour of what stood beside the secret, and that may look like a secret now: "Bearer x"
    # in which the letters in front of it are gone.
    for _ in range(_MAX_PASSES):
        cleaned = _one_pass(text, extra_patterns)
        if cleaned == text:
            return text
        text = cleaned
    return REDACTED


def redact_known_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without some known secrets, in whatever form a text quotes them.

    One of fewer than 8 characters, such as the ``local`` that a server on this machine takes for a key, is masked where
    it stands by itself: inside words it would take "localhost" apart.

    Args:
        text: Any text.
        secrets: None of them empty.
    """
    for secret in secrets:
        if len(secret) >= _SHORT_SECRET:
            text = text.replace(secret, REDACTED)
        elif secret in text:
            text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", REDACTED, text)
    return text


def redact_start(text: str, limit: int) -> str:
    """Return the beginning of a redacted text, at a cost that does not depend on the length of the text.

    Args:
        text: Any text.
        limit: The most characters.
    """
    window = text[: limit + 2 * LOOK_AHEAD]  # twice: what is masked makes the text shorter
    redacted = redact_sensitive_text(window)
    if len(window) < len(text):
        redacted = redacted[: max(0, len(redacted) - LOOK_AHEAD)]
    return redacted[:limit]


def _one_pass(text: str, extra_patterns: Sequence[str | re.Pattern[str]]) -> str:
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _BEARER.sub(rf"\1{REDACTED}", text)
    if _HINT.search(text) is not None:
        text = "".join(_without_assigned_secrets(text))
    text = _LITERAL.sub(REDACTED, text)
    text = _USER_INFO.sub(f"://{REDACTED}@", text)
    for pattern in extra_patterns:
        text = "".join(_without_matches(text, pattern))
    return text


def _without_matches(text: str, pattern: str | re.Pattern[str]) -> Iterator[str]:
    done = 0
    for match in re.finditer(pattern, text):
        start, end = match.span()
        if start == end or text.rfind(REDACTED, max(0, end - len(REDACTED)), start + len(REDACTED)) != -1:
            continue  # a match of nothing, or within a placeholder: that is never taken apart
        start, end = max(done, _edge(text, start, 0)), _edge(text, end, len(REDACTED))
        if start < end:
            yield text[done:start]
            yield REDACTED
            done = end
    yield text[done:]


def _edge(text: str, position: int, offset: int) -> int:
    """Return the position, or the edge of the placeholder that it is in the middle of."""
    reach = len(REDACTED) - 1
    found = text.find(REDACTED, max(0, position - reach), position + reach)
    return position if found == -1 else found + offset


def _without_assigned_secrets(text: str) -> Iterator[str]:
    done = position = 0
    while (key := _KEY.search(text, position)) is not None:
        position = key.end()
        if is_sensitive_name(key["name"]):
            start, position = _value_span(text, key)
            if start < position:
                yield text[done:start]
                yield REDACTED
                done = position
    yield text[done:]


def _value_span(text: str, key: re.Match[str]) -> tuple[int, int]:
    opening = _OPENING.match(text, key.end())
    if opening is not None:
        closing = _closing_quote(text, opening.end(), opening[1])
        if closing is not None:
            return opening.end(), closing
    limit = len(text)
    if key["before"] is not None and key["after"] is None:
        # In "PASSWORD=x" and -H 'Cookie: x' the quote before the name ends the value.
        limit = _closing_quote(text, key.end(), key["before"]) or limit
    start = end = _end(_BLANKS, text, key.end(), limit)
    if text.startswith(("{", "["), start) and not text.startswith(REDACTED, start):
        end = _structure_end(text, start, limit)
    return start, _end(_bare_pattern(text, key), text, end, limit)


def _end(pattern: re.Pattern[str], text: str, start: int, limit: int) -> int:
    found = pattern.match(text, start, limit)
    return start if found is None else found.end()


def _bare_pattern(text: str, key: re.Match[str]) -> re.Pattern[str]:
    name = key["name"].lower()
    if key["before"] is None and text[max(0, key.start() - 1) : key.start()] in ("?", "&", "#"):
        return _BARE_QUERY
    if "authorization" in name:
        return _BARE_AUTHORIZATION
    return _BARE_COOKIE if "cookie" in name and key[0].endswith(":") else _BARE


def _closing_quote(text: str, start: int, opening: str) -> int | None:
    # JSON within JSON has quotes with 1, 3, 7 backslashes; what it quotes adds an even number of its own units to them.
    escapes = len(opening) - 1
    if escapes not in (0, 1, 3, 7):  # which also bounds how often the rest of a text is searched in vain
        return None
    for found in _CLOSING[opening[-1]].finditer(text, start):
        if len(found[1]) % (2 * (escapes + 1)) == escapes:
            return found.end() - 1 - escapes
    return None


def _structure_end(text: str, start: int, limit: int) -> int:
    depth = 0
    for found in _NESTING.finditer(text, start, limit):
        if found[1] is not None:
            depth += 1
        elif found[0] in "]}":
            depth -= 1
            if depth == 0:
                return found.end()
    return limit  # cut off: everything that is left belongs to it


# --- data ------------------------------------------------------------------------------------------------------------


def redact_sensitive_object(value: Any, extra_patterns: Sequence[str | re.Pattern[str]] = ()) -> Any:
    """Return a copy of plain data without the secrets in it.

    The value of a sensitive key is replaced whole, every other text as ``redact_sensitive_text`` does it. Containers
    come back as new dicts, lists, tuples and sets of the same shape; anything else comes back as it is.

    Args:
        value: JSON-like data; it may share parts and contain itself.
        extra_patterns: As for ``redact_sensitive_text``.
    """
    compiled = [re.compile(pattern) for pattern in extra_patterns]
    return _redacted(value, lambda text: redact_sensitive_text(text, compiled), {}, 0)


def _redacted(value: Any, clean: Callable[[str], str], seen: dict[int, Any], depth: int) -> Any:
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return value
    if depth > _MAX_DEPTH:
        return REDACTED
    if id(value) not in seen:  # shared parts are visited once, or the time would grow with the number of paths to them
        _redact_container(value, clean, seen, depth + 1)
    return seen[id(value)][1]


def _redact_container(value: Any, clean: Callable[[str], str], seen: dict[int, Any], depth: int) -> None:
    made: Any
    if isinstance(value, Mapping):
        made, names = {}, _Names(clean)
        seen[id(value)] = (value, made)  # keeps the value alive, and with it the meaning of its id
        for key, item in value.items():
            sensitive = isinstance(key, str) and is_sensitive_name(key)
            made[names.free(key, made)] = REDACTED if sensitive else _redacted(item, clean, seen, depth)
    elif isinstance(value, list):
        made = []
        seen[id(value)] = (value, made)
        made.extend(_redacted(item, clean, seen, depth) for item in value)
    else:
        kind = next(kind for kind in (tuple, set, frozenset) if isinstance(value, kind))
        made = kind(_redacted(item, clean, seen, depth) for item in value)
        seen[id(value)] = (value, made)


class _Names:
    """The names of the keys of one mapping, different for different keys."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._last: dict[str, int] = {}

    def free(self, key: Any, taken: Mapping[Any, Any]) -> Any:
        if not isinstance(key, str):
            return key
        name = masked = self._clean(key)
        while name in taken:
            number = self._last[masked] = self._last.get(masked, 1) + 1
            name = f"{masked} ({number})"
            if self._clean(name) != name:  # an extra pattern takes the number for a secret
                name = masked + REDACTED * (number - 1)
        return name

"""Reading what a model wrote: the JSON values in a text, and field names in either spelling.

Models put JSON into fences and between prose, and write names as ``dependsOn`` or ``depends_on``. Not here: what the
values have to be. Invariant: the time is linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .._patterns import lazy_pattern
from ..messages import replace_lone_surrogates

__all__ = ["TooDeepError", "json_fault", "json_values", "snake_fields"]

_FENCE = lazy_pattern(r"```[ \t]*(\w*)[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPENING = lazy_pattern(r"[{\[]")
_HUMP = lazy_pattern(r"(?<=[a-z0-9])[A-Z]")
_DECODER = json.JSONDecoder()
_READINGS = 8
"""How often, at the most, a text is read to its end in search of values."""
_MAX_FAILURES = 1_000
"""Places, at the most, that turn out to be no beginning of a value; telling where each fails takes time, too."""


class TooDeepError(ValueError):
    """JSON is nested deeper than it can be read."""


def json_values(text: str) -> Iterator[Any]:
    """Yield the objects and arrays in a text, the likeliest first: all of it, fenced ones, then from the left.

    Args:
        text: What a model wrote; lone surrogates in it are replaced.

    Raises:
        TooDeepError: One of them is nested too deeply to be read.
    """
    text = text.strip()
    whole = _read(text)
    if whole is not None:
        yield whole
        return
    fences = [match.groups() for match in _FENCE.finditer(text)]
    for _, body in sorted(fences, key=lambda fence: fence[0].lower() != "json"):
        fenced = _read(body)
        if fenced is not None:
            yield fenced
    yield from _embedded(text)


def json_fault(text: str) -> str:
    """Return why a text has no object or array in it that can be read.

    Args:
        text: The text.
    """
    opening = _OPENING.search(text)
    if opening is None:
        return "there is no JSON in the answer"
    fenced = _FENCE.search(text)
    body = text[opening.start() :] if fenced is None else fenced[2]
    try:
        _DECODER.decode(body.strip())
    except json.JSONDecodeError as error:
        return f"the answer is no valid JSON: {error.msg} at line {error.lineno} column {error.colno} of it"
    except RecursionError:
        return "the JSON in the answer is nested too deeply"
    return "the JSON in the answer is neither an object nor an array"


def snake_fields(value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an object with its field names in snake_case, and the names that it has in both spellings.

    Args:
        value: An object; what is nested in it is left as it is.
    """
    fields: dict[str, Any] = {}
    twice = []
    for key, item in value.items():
        name = _HUMP.sub(lambda hump: f"_{hump[0].lower()}", key) if len(key) <= 100 else key
        if name in fields:
            twice.append(name)
        fields[name] = item
    return fields, twice


def _read(text: str) -> Any:
    """Return the object or array that a text is; None when it is none."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return replace_lone_surrogates(_DECODER.decode(text))
    except json.JSONDecodeError:
        return None
    except RecursionError:
        raise TooDeepError from None


def _embedded(text: str) -> Iterator[Any]:
    position, left, failures = 0, _READINGS * len(text), 0
    while left > 0 and failures < _MAX_FAILURES and (opening := _OPENING.search(text, position)) is not None:
        start = opening.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            left -= error.pos - start
            failures += 1
            position = start + 1
        except RecursionError:
            raise TooDeepError from None
        else:
            yield replace_lone_surrogates(value)

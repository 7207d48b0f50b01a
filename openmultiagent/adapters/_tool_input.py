"""The input of a tool call, from what the model wrote.

Models write broken JSON. Invariant: an input that could not be read is never taken for an empty one: it comes with a
text that says what is wrong, so that the tool does not run and the model can try again.
"""

from __future__ import annotations

import json
from typing import Any

from .._patterns import lazy_pattern
from ..messages import replace_lone_surrogates

__all__ = ["parse_tool_input", "repair_tool_args"]

_ONLY_KEY = lazy_pattern(r'\{\s*"([^"\\]{1,200})"\s*:')
_FURTHER_KEY = lazy_pattern(r',\s*"[^"]{1,200}"\s*:')


def parse_tool_input(raw: str, *, cut: bool) -> tuple[dict[str, Any], str | None]:
    """Return the input of a call, and what is wrong with it.

    Args:
        raw: The arguments as the model wrote them.
        cut: Whether the answer ended at the token limit.

    Returns:
        The input, and None or the fault; the input is empty when there is a fault.
    """
    if not raw.strip():
        # Many servers send nothing at all for a tool without parameters.
        return {}, "the arguments were cut off at the token limit" if cut else None
    try:
        value = json.loads(raw, strict=False)  # models put real line ends into strings
    except (ValueError, RecursionError) as error:
        if cut:
            return {}, f"the arguments were cut off at the token limit: {error}"
        repaired = repair_tool_args(raw)
        return (repaired, None) if repaired is not None else ({}, f"the arguments are not valid JSON: {error}")
    if isinstance(value, str):
        value = _encoded_twice(value)
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, got {type(value).__name__}"
    return replace_lone_surrogates(value), None


def _encoded_twice(text: str) -> object:
    """Return the object whose JSON text a model has put into a JSON string; else the text."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def repair_tool_args(raw: str) -> dict[str, Any] | None:
    """Return the object that broken arguments with a single key stand for, its value as a string; None when unsure.

    Small models forget to escape quotes and line ends, most of all in the one argument of a shell tool.

    Args:
        raw: Text that is no JSON, such as ``{"command": "echo "hello""}``.
    """
    text = raw.strip()
    key = _ONLY_KEY.search(text)
    if key is None or not text.endswith("}"):
        return None
    value = text[key.end() : -1].strip()
    if _FURTHER_KEY.search(value) is not None:  # a guess at several keys would be one garbage key
        return None
    for quotes in ('"""', "'''"):
        if len(value) >= 6 and value.startswith(quotes) and value.endswith(quotes):
            return {key[1]: value[3:-3]}
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return {key[1]: value[1:-1].replace('\\"', '"').replace("\\\\", "\\")}
    return {key[1]: value}

"""Tool calls that a model wrote into its text, because its server does not turn them into calls.

Not here: when to look for them. Invariant: a call is found only where the text holds a whole JSON object that names a
known tool, and looking takes time in proportion to the length of the text, whatever it holds.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

from .._patterns import lazy_pattern
from ..messages import ToolUseBlock
from ._pieces import made_tool_use, text_of

__all__ = ["extract_tool_calls"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_OBJECT = lazy_pattern(r'\{\s*+(?:\}|"(?:[^"\\]|\\.)*+"\s*+:)', re.DOTALL)
"""An object that is empty or has a key: most braces of a text are neither."""
_ARGUMENTS = ("arguments", "parameters", "input")
_WORK_PER_CHARACTER = 256
"""How often, in effect, the text may be read: one that is made of broken JSON would be read again from each brace."""

_numbers = count(1)
_decoder = json.JSONDecoder(strict=False)  # models put real line ends into strings


def extract_tool_calls(text: str, known: Collection[str] = ()) -> list[ToolUseBlock]:
    """Return the tool calls of a text, in their order.

    Calls between ``<tool_call>`` tags count alone when there are any; otherwise any JSON object of the text that is a
    call, also one between code fences, and none that is a part of another object.

    Args:
        text: What the model wrote.
        known: The names that a call may have; any when empty.
    """
    objects = list(_tagged(text))
    calls = [block for found in objects if (block := _call(found, known)) is not None]
    return calls or [block for found in _objects(text) if (block := _call(found, known)) is not None]


def _tagged(text: str) -> Iterator[object]:
    """Yield what stands between tags."""
    start = text.find(_OPEN)
    while start != -1:
        start += len(_OPEN)
        end = text.find(_CLOSE, start)
        if end == -1:
            return
        try:
            found = _decoder.decode(text[start:end])
        except (ValueError, RecursionError):
            found = None
        yield found
        start = text.find(_OPEN, end)


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects of a text, outermost ones only."""
    work = _WORK_PER_CHARACTER * len(text)
    at = 0
    while work > 0 and (match := _OBJECT.search(text, at)) is not None:
        start = match.start()
        try:
            found, at = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            end = getattr(error, "pos", len(text))
            work -= end - start + end  # reading, and counting the lines up to the fault
            at = start + 1
        else:
            yield found


def _call(found: object, known: Collection[str]) -> ToolUseBlock | None:
    if isinstance(found, dict) and isinstance(found.get("function"), dict):
        found = found["function"]
    if not isinstance(found, dict):
        return None
    name = text_of(found.get("name"))
    if not name or (known and name not in known):
        return None
    arguments: Any = next((found[key] for key in _ARGUMENTS if found.get(key) is not None), {})
    if not isinstance(arguments, str | dict):
        arguments = json.dumps(arguments)  # the call then says what is wrong with it
    return made_tool_use(_new_id(), name, arguments, cut=False)


def _new_id() -> str:
    return f"extracted_call_{time.time_ns() // 1_000_000}_{next(_numbers)}"

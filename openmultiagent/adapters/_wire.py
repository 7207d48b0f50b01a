"""What the JSON protocols of model providers have in common: bodies, texts in pieces, counts, tool calls.

Not here: any one protocol. Invariants: a body is strict JSON in UTF-8; nothing that a provider sends makes a function
of this module raise, and no lone surrogate gets past it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError, InvalidMessageError
from ..messages import ToolUseBlock, replace_lone_surrogates
from ._tool_input import parse_tool_input

__all__ = ["GrowingText", "count_of", "json_body", "new_call_id", "raw_text_of", "text_of", "tool_use_block"]


def json_body(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request.

    Args:
        body: Made of checked messages, and of what the caller added.

    Raises:
        ConfigurationError: Something that the caller added is no JSON data.
    """
    try:
        return json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain_mapping
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # Messages were checked, so it is one of the other parts.
        raise ConfigurationError(
            f"the request cannot be written as JSON: {error}; "
            "see extra_body, the sampling settings and the schemas of the tools"
        ) from error


def _plain_mapping(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")


class GrowingText:
    """A text that grows piece by piece; the halves of a surrogate pair may come in two pieces."""

    __slots__ = ("_half", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._half = ""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, piece: str) -> str:
        """Add a piece; return what can be shown now.

        Args:
            piece: The next characters, cut anywhere.
        """
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        piece = replace_lone_surrogates(piece)
        if piece:
            self._parts.append(piece)
        return piece

    def end(self) -> str:
        """Add what was held back; return it."""
        rest, self._half = replace_lone_surrogates(self._half), ""
        if rest:
            self._parts.append(rest)
        return rest

    def whole(self) -> str:
        """Return the whole text."""
        self.end()
        return "".join(self._parts)


def text_of(value: object) -> str:
    """Return a string of a provider's JSON; empty when it is something else.

    Args:
        value: The value.
    """
    return replace_lone_surrogates(value) if isinstance(value, str) else ""


def raw_text_of(value: object) -> str:
    """Return a piece of a text, which may begin or end with half a surrogate pair; empty when it is something else.

    Args:
        value: The value.
    """
    return value if isinstance(value, str) else ""


def count_of(counts: object, key: str) -> int | None:
    """Return a number of tokens; None when the provider does not tell one that makes sense.

    Args:
        counts: What should be an object.
        key: The key of the number.
    """
    count = counts.get(key) if isinstance(counts, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def new_call_id(prefix: str) -> str:
    """Return an id for a tool call that came without one.

    Args:
        prefix: What the ids of the provider begin with.
    """
    return f"{prefix}{os.urandom(12).hex()}"


def tool_use_block(call_id: str, name: str, arguments: object, *, cut: bool = False) -> ToolUseBlock:
    """Return the block of a call; arguments that cannot be read make one with an ``input_error``.

    Args:
        call_id: The call's id.
        name: The tool's name.
        arguments: The object, its JSON text, or None for none.
        cut: Whether the answer ended at the token limit inside of this call.
    """
    fault = None
    if arguments is None or isinstance(arguments, str):
        value, fault = parse_tool_input(replace_lone_surrogates(arguments or ""), cut=cut)
    elif not isinstance(arguments, dict):
        value, fault = {}, f"the arguments must be a JSON object, got {type(arguments).__name__}"
    elif cut:
        value, fault = {}, "the arguments were cut off at the token limit"
    else:
        value = replace_lone_surrogates(arguments)
    try:
        return ToolUseBlock(id=call_id, name=name, input=value, input_error=fault)
    except InvalidMessageError as error:  # NaN, too deep, or too large a number
        fault = f"the arguments are no JSON data: {error}"
        return ToolUseBlock(id=call_id, name=name, input={}, input_error=fault)

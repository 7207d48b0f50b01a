"""What readers of model answers share: checked access to JSON, texts that grow, tool calls that are complete.

Not here: the wire formats. Invariants: JSON of the wrong shape becomes an ``LLMProtocolError`` and nothing else; what
comes out can be encoded; adding to a text costs what is added.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .._log import get_logger
from ..errors import InvalidMessageError, LLMProtocolError
from ..messages import ToolUseBlock, replace_lone_surrogates
from ._faults import Redactor, kept
from ._tool_input import parse_tool_input

__all__ = [
    "GrowingText",
    "JsonObject",
    "MendedText",
    "PayloadReader",
    "call_id_of",
    "count_of",
    "counts_of",
    "known_counts",
    "made_tool_use",
    "raw_text_of",
    "text_of",
]

_log = get_logger(__name__)

JsonObject = dict[str, Any]

_MOST_PIECES = 512
_MOST_CHARACTERS = 128 * 1024
"""Pieces of a text are joined when there are so many: each takes some 50 bytes more than its characters."""

_SMALL_TEXT = 512 * 1024
"""Characters of a text that may be there twice for a moment, as its pieces and as the whole."""
_FIRST_STEP = 1024
"""Characters in each of the steps that the first piece is taken in."""
_STEPS = 256
"""Steps in which a larger text is made: their number bounds the work where Python cannot let a text grow in place."""

_decode = json.JSONDecoder().decode
"""``json.loads`` without the search for what else it might have been given."""


class PayloadReader:
    """Reads the JSON that a provider sent.

    Args:
        provider: Name of the adapter, for errors and as the provenance of reasoning.
        what: What the provider should have sent, such as "Converse answer".
        redact: Takes secrets out of what goes into errors.
    """

    def __init__(self, *, provider: str, what: str, redact: Redactor) -> None:
        self.provider = provider
        self.redact = redact
        self._what = what

    def parsed(self, text: str) -> JsonObject:
        """Return the object that a text holds.

        Args:
            text: JSON.

        Raises:
            LLMProtocolError: It is no JSON, or no object.
        """
        payload = self._decoded(text)
        return payload if type(payload) is dict else self.object_of(payload, "the payload")

    def all_parsed(self, text: str) -> list[JsonObject]:
        """Return the objects that a text holds: one, or an array of them.

        Args:
            text: JSON.

        Raises:
            LLMProtocolError: It is no JSON, or something else.
        """
        payload = self._decoded(text)
        if isinstance(payload, list):
            return self.objects_of(payload, "the payload")
        return [self.object_of(payload, "the payload")]

    def _decoded(self, text: str) -> object:
        try:
            return _decode(text)
        except (ValueError, RecursionError) as error:
            raise self.fault(f"not valid JSON: {error}", text) from error

    def object_of(self, value: object, what: str) -> JsonObject:
        """Return a value that must be an object; None counts as an empty one.

        Args:
            value: The value.
            what: Where it stood.

        Raises:
            LLMProtocolError: It is something else.
        """
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fault(f"{what} must be an object, got {type(value).__name__}")
        return value

    def objects_of(self, value: object, what: str) -> list[JsonObject]:
        """Return a value that must be an array of objects; None counts as an empty one.

        Args:
            value: The value.
            what: Where it stood.

        Raises:
            LLMProtocolError: It is something else.
        """
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fault(f"{what} must be an array, got {type(value).__name__}")
        return [item if type(item) is dict else self.object_of(item, f"{what}[]") for item in value]

    def fault(self, reason: str, body: str | None = None) -> LLMProtocolError:
        """Return the error for an answer that cannot be read.

        Args:
            reason: Why not.
            body: The text that it was read from.
        """
        return LLMProtocolError(
            kept(f"{self.provider} API sent something that is no {self._what}: {reason}", self.redact),
            provider=self.provider,
            body=None if body is None else kept(body, self.redact),
        )

    def marker(self, kind: str) -> str:
        """Return the text that stands for a part of an answer that has no block of its own here, and log it.

        Args:
            kind: The provider's name for the part.
        """
        kind = replace_lone_surrogates(kind)[:100]
        _log.warning("model_block_unsupported", provider=self.provider, block_type=kind)
        return f"[unsupported block type: {kind}]"


class MendedText:
    """A text that comes piece by piece, of which nothing is kept; halves of a surrogate pair may come in two pieces."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Add a piece; return what can be shown now.

        Args:
            piece: The next piece, as the provider sent it.
        """
        if piece.isascii() and not self._half:
            if piece:
                self._keep(piece)
            return piece
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        piece = replace_lone_surrogates(piece)
        if piece:
            self._keep(piece)
        return piece

    def end(self) -> str:
        """Add what was held back; return it."""
        rest, self._half = replace_lone_surrogates(self._half), ""
        if rest:
            self._keep(rest)
        return rest

    def _keep(self, piece: str) -> None:
        """Take what can be shown."""


class GrowingText(MendedText):
    """A text that comes piece by piece and is kept."""

    __slots__ = ("_characters", "_folded", "_parts")

    def __init__(self) -> None:
        super().__init__()
        self._folded: list[str] = []
        self._characters = 0
        self._parts: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._parts or self._folded)

    def whole(self) -> str:
        """Return the whole text; of a large one, each piece goes as soon as its characters are copied."""
        self.end()
        pieces = [*self._folded, *self._parts]
        self._parts.clear()
        self._folded.clear()  # nothing but the list here holds the pieces now
        size = sum(map(len, pieces))
        text = "".join(pieces) if size <= _SMALL_TEXT or len(pieces) == 1 else _grown(pieces, size)
        if text:
            self._folded.append(text)
        return text

    def _keep(self, piece: str) -> None:
        self._parts.append(piece)
        self._characters += len(piece)
        if len(self._parts) >= _MOST_PIECES or self._characters >= _MOST_CHARACTERS:
            self._folded.append("".join(self._parts))
            self._parts.clear()
            self._characters = 0


def _grown(pieces: list[str], size: int) -> str:
    """Return the whole of a large text, and empty the list of its pieces meanwhile."""
    text = ""
    # CPython lets a text grow in place where a loop adds to a variable that nothing else shares with it, once the loop
    # has turned a few times. Elsewhere, and under a tracer, each step copies what is there.
    for step in _steps(pieces, size):
        text += step
    return text


def _steps(pieces: list[str], size: int) -> Iterator[str]:
    pieces.reverse()
    first = pieces.pop()
    yield from (first[start : start + _FIRST_STEP] for start in range(0, len(first), _FIRST_STEP))
    del first
    step: list[str] = []
    while pieces:
        length = 0
        while pieces and length < size // _STEPS:
            step.append(pieces.pop())
            length += len(step[-1])
        joined = "".join(step)
        step.clear()
        yield joined


def call_id_of(given: str, taken: Collection[str], *, prefix: str = "call_") -> str:
    """Return the id of a call: a result finds its call by it, so none, or one that was given twice, would lose it.

    Args:
        given: What the provider sent; may be empty.
        taken: The ids of the other calls.
        prefix: What the ids of the provider begin with.
    """
    return given if given and given not in taken else f"{prefix}{os.urandom(12).hex()}"


def made_tool_use(
    call_id: str, name: str, arguments: object, *, cut: bool, signature: str | None = None
) -> ToolUseBlock:
    """Return the block of a call; arguments that cannot be used give an empty input and the reason.

    Args:
        call_id: The call's id.
        name: Name of the tool.
        arguments: The object, its JSON text, or None for none.
        cut: Whether the answer ended at the token limit, maybe inside of a JSON text; an object is always whole.
        signature: The provider's proof of the call.
    """
    fault: str | None = None
    if arguments is None or isinstance(arguments, str):
        value, fault = parse_tool_input(replace_lone_surrogates(arguments or ""), cut=cut)
    elif isinstance(arguments, dict):
        value = replace_lone_surrogates(arguments)
    else:
        value, fault = {}, f"the arguments must be a JSON object, got {type(arguments).__name__}"
    try:
        return ToolUseBlock(id=call_id, name=name, input=value, signature=signature, input_error=fault)
    except InvalidMessageError as error:  # NaN, too deep, or too large a number
        fault = f"the arguments are no JSON data: {error}"
        return ToolUseBlock(id=call_id, name=name, input={}, signature=signature, input_error=fault)


def text_of(value: object) -> str:
    """Return a string that can be encoded; anything else is the empty one.

    Args:
        value: A value of a payload.
    """
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else replace_lone_surrogates(value)


def raw_text_of(value: object) -> str:
    """Return a string as it came, possibly half of a surrogate pair at its end; anything else is the empty one.

    Args:
        value: A value of a payload.
    """
    return value if isinstance(value, str) else ""


def count_of(counts: object, key: str) -> int | None:
    """Return a number of tokens; None when the provider does not tell one that makes sense.

    Args:
        counts: What should be an object.
        key: The key of the number.
    """
    return counts_of(counts, [key]).get(key)


def counts_of(counts: object, keys: Iterable[str]) -> dict[str, int | None]:
    """Return the numbers of tokens that a provider tells, by their keys; None for one that makes no sense.

    Args:
        counts: What should be an object.
        keys: The keys of the numbers; those that are missing or null are left out.
    """
    if not isinstance(counts, dict):
        return {}
    told = {key: counts[key] for key in keys if counts.get(key) is not None}
    return {key: count if type(count) is int and count >= 0 else None for key, count in told.items()}


def known_counts(told: Mapping[str, int | None], keys: Iterable[str]) -> list[int] | None:
    """Return numbers of tokens, 0 for each that was not told; None when one of them makes no sense.

    Args:
        told: What ``counts_of`` returned.
        keys: The keys of the numbers.
    """
    counts = [told.get(key, 0) for key in keys]
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None

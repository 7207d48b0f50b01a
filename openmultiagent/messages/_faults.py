"""How a fault in a message is told: where it is, relative to the value that was looked at, and what is wrong there.

The place grows outwards while the fault is passed up, so that checking what is valid builds no path at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..errors import InvalidMessageError

__all__ = ["Fault", "invalid_model", "json_type"]


class Fault(ValueError):  # noqa: N818 - a signal between the readers, which callers never see
    """Something is not as it must be.

    Args:
        text: What is wrong, to be read after the place: ``must be a string``.
        where: The place within the value, such as ``.content[0].text``.
    """

    def __init__(self, text: str, where: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.where = where

    def within(self, outer: str) -> Fault:
        """Return the fault as seen from further out.

        Args:
            outer: The place of the value that this fault's place is relative to.
        """
        return Fault(self.text, outer + self.where)

    def at(self, root: str) -> InvalidMessageError:
        """Return the error to raise.

        Args:
            root: What the caller calls the value.
        """
        path = root + self.where
        return InvalidMessageError(f"{path} {self.text}", path=path)


def json_type(value: object) -> str:
    """Return the JSON word for the type of a value, or the name of its class where JSON has none.

    Args:
        value: Anything.
    """
    if value is None:
        return "null"
    for types, word in (
        (list | tuple, "array"),
        (Mapping, "object"),
        (str, "string"),
        (bool, "boolean"),
        (int | float, "number"),
    ):
        if isinstance(value, types):
            return word
    return type(value).__name__


_WORDS = {
    "string_type": "must be a string",
    "bool_type": "must be a boolean when provided",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be an array",
    "missing": "is missing",
    "union_tag_not_found": 'must have a string "type"',
}
_TAGS = frozenset({"text", "reasoning", "tool_use", "tool_result", "image", "file", "base64", "url"})


def invalid_model(cls: type, error: ValidationError) -> InvalidMessageError:
    """Turn the first of pydantic's complaints about a constructor's arguments into the library's error.

    Args:
        cls: The class whose constructor was called.
        error: What pydantic raised.
    """
    first = error.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, InvalidMessageError):
        return InvalidMessageError(raised.message)
    place = cls.__name__ + _place(first["loc"])
    if isinstance(raised, Fault):
        return InvalidMessageError(f"{place}{raised.where} {raised.text}")
    text = _WORDS.get(first["type"])
    if text is None:
        return InvalidMessageError(f"{place}: {first['msg']}")
    got = "" if first["type"] == "missing" else f", got {json_type(first['input'])}"
    return InvalidMessageError(f"{place} {text}{got}")


def _place(loc: tuple[Any, ...]) -> str:
    path, before = "", None
    for item in loc:
        if isinstance(item, int):
            path += f"[{item}]"
        elif not (item in _TAGS and (isinstance(before, int) or before == "source")):  # a union's tag is no key
            path += f".{item}"
        before = item
    return path

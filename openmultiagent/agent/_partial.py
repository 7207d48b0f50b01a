"""A structured answer while it is being written.

What is delivered are plain JSON prefixes of the final answer: the fields that are finished, each checked against the
type, and the string that is just growing. A prefix is never contradicted by a later one: numbers and literals come
only when they are complete. The text is scanned once; nothing is parsed twice.
"""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from ._structured import WRAPPER, OutputFormat

__all__ = ["PartialReader"]


class PartialReader:
    """Reads one answer piece by piece.

    Args:
        output: The format of the answer.
    """

    def __init__(self, output: OutputFormat[Any]) -> None:
        self._fields = _field_adapters(output)
        self._item = _item_adapter(output)
        self.restart()

    def restart(self) -> None:
        """Forget what was read: the answer begins anew."""
        self._root: str | None = None
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._token: list[str] = []
        self._key: str | None = None
        self._object: dict[str, Any] = {}
        self._list: list[Any] = []
        self._last_growing: str | None = None
        self._finished = False

    def feed(self, text: str) -> dict[str, Any] | list[Any] | None:
        """Take in a piece and return the prefix of the answer, if the piece has changed it.

        Args:
            text: The next piece of the answer.
        """
        changed = False
        for character in text:
            changed = self._step(character) or changed
        growing = self._growing()
        if changed or (growing is not None and growing != self._last_growing):
            self._last_growing = growing
            return self._prefix(growing)
        return None

    def _step(self, character: str) -> bool:
        """Take in one character; say whether a field or item is finished by it."""
        if self._finished:
            return False
        if self._root is None:
            if character in "{[":
                self._root, self._depth = character, 1
            return False
        if self._in_string:
            self._token.append(character)
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
            return False
        return self._structure(character)

    def _structure(self, character: str) -> bool:
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth == 0:
                self._finished = True
                return self._take_value()
        elif self._depth == 1 and character == ",":
            return self._take_value()
        elif self._depth == 1 and character == ":" and self._root == "{" and self._key is None:
            self._key = _parsed("".join(self._token))
            self._token.clear()
            return False
        self._token.append(character)
        return False

    def _take_value(self) -> bool:
        text, key = "".join(self._token).strip(), self._key
        self._token.clear()
        self._key = None
        self._last_growing = None
        if not text:
            return False
        value = _parsed(text)
        if self._root == "[":
            return self._take_item(text, value)
        if not isinstance(key, str) or not _fits(self._fields.get(key), text):
            return False
        self._object[key] = value
        return True

    def _take_item(self, text: str, value: Any) -> bool:
        if not _fits(self._item, text):
            self._finished = True  # a later item would stand in the wrong place
            return False
        self._list.append(value)
        return True

    def _growing(self) -> str | None:
        """The string value that is being written at the top level, as far as it goes."""
        if self._root != "{" or self._depth != 1 or self._key is None or not self._in_string:
            return None
        text = "".join(self._token).lstrip()
        for cut in range(7):  # an escape that is cut off is at most six characters long, and so is half a pair
            piece = text[: len(text) - cut] if cut else text
            value = _parsed(f'{piece}"')
            if isinstance(value, str) and not _ends_in_half_a_pair(value):
                return value
        return None

    def _prefix(self, growing: str | None) -> dict[str, Any] | list[Any]:
        if self._root == "[":
            return list(self._list)
        prefix = dict(self._object)
        if growing is not None and self._key is not None and _fits(self._fields.get(self._key), json.dumps(growing)):
            prefix[self._key] = growing
        return prefix


def _field_adapters(output: OutputFormat[Any]) -> dict[str, TypeAdapter[Any]]:
    if output.is_wrapped:
        return {WRAPPER: output.adapter}
    kind = output.kind
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {
            (field.alias or name): TypeAdapter(field.rebuild_annotation()) for name, field in kind.model_fields.items()
        }
    if is_dataclass(kind) or is_typeddict(kind):
        return {name: TypeAdapter(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    return {}


def _item_adapter(output: OutputFormat[Any]) -> TypeAdapter[Any] | None:
    arguments = get_args(output.kind)
    return TypeAdapter(arguments[0]) if get_origin(output.kind) is list and arguments else None


def _fits(adapter: TypeAdapter[Any] | None, text: str) -> bool:
    if adapter is None:
        return True
    try:
        adapter.validate_json(text)
    except ValidationError:
        return False
    return True


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _ends_in_half_a_pair(text: str) -> bool:
    return text != "" and "\ud800" <= text[-1] <= "\udbff"

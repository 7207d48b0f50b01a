"""Readers of the fields of task specifications: each checks one value and returns it as it is kept.

Hand-written and strict: a bool is no number, bytes are no text, NaN is nothing. Invariant: what a reader returns is
immutable and of an exact built-in type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from .._patterns import lazy_pattern
from .._shown import shown
from ..errors import ConfigurationError
from ..redaction import is_sensitive_name, redact_sensitive_text

__all__ = [
    "Reader",
    "TaskMetadataValue",
    "above_zero",
    "at_least",
    "one_of",
    "optional",
    "read_mapping",
    "read_metadata",
    "read_names",
    "refuse_unknown_keys",
    "safely_shown",
    "short_name",
    "whole",
]

Reader = Callable[[object, str], Any]
"""Takes a value and what errors call it, and returns what is kept."""

TaskMetadataValue = str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float] | Sequence[bool]
"""What an entry of a task's metadata may hold: a span attribute's value."""

_MAX_NAME = 128
_MAX_ENTRIES = 16
_MAX_TEXT = 1024
_INT64 = 2**63
_KEY = lazy_pattern(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_RESERVED = ("openmultiagent.", "oma.")


def _refuse(where: str, what: str, value: object) -> NoReturn:
    raise ConfigurationError(f"{where} must be {what}, got {safely_shown(value)}")


def safely_shown(value: object) -> str:
    """Return what an error says of a wrong value: a number as it is, of anything else the type, since it may be secret.

    Args:
        value: Anything.
    """
    return shown(value, 30) if value is None or isinstance(value, int | float) else type(value).__name__


def refuse_unknown_keys(
    given: Mapping[Any, Any], names: Sequence[str], where: str, *, hints: Mapping[str, str] | None = None
) -> None:
    """Refuse keys that are no field, naming the one that was meant.

    Args:
        given: A mapping from the caller.
        names: The fields.
        where: What errors call the mapping.
        hints: What helps those who try certain keys.

    Raises:
        ConfigurationError: There is one.
    """
    for key in given:
        if key in names:
            continue
        if not isinstance(key, str):
            _refuse(where, "a mapping with field names as keys", key)
        if hints is not None and key in hints:
            raise ConfigurationError(f"{where} has no field {key!r}: {hints[key]}")
        import difflib  # noqa: PLC0415 - import time

        near = difflib.get_close_matches(key, names, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"its fields are {', '.join(names)}"
        raise ConfigurationError(f"{where} has no field {shown(key)}; {advice}")


def read_mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return a value that is a mapping.

    Args:
        value: Anything.
        where: What errors call it.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(value, Mapping):
        return value
    _refuse(where, "a mapping", value)


def optional(reader: Reader) -> Reader:
    """Return a reader that lets None pass.

    Args:
        reader: What reads everything else.
    """
    return lambda value, where: None if value is None else reader(value, where)


def one_of(*values: str) -> Reader:
    """Return a reader of one of some words.

    Args:
        values: The words.
    """

    def read(value: object, where: str) -> str:
        if isinstance(value, str) and value in values:
            return str.__str__(value)
        got = f"{value!r:.30}" if isinstance(value, str) else safely_shown(value)
        raise ConfigurationError(f"{where} must be one of {', '.join(values)}, got {got}")

    return read


def at_least(minimum: float, what: str) -> Reader:
    """Return a reader of finite numbers from a minimum on.

    Args:
        minimum: The smallest.
        what: What they count, for errors.
    """

    def read(value: object, where: str) -> float:
        number = _number(value)
        if number is None or number < minimum:
            _refuse(where, f"{what} of {minimum:g} or more", value)
        return number

    return read


def above_zero(what: str) -> Reader:
    """Return a reader of finite numbers above zero.

    Args:
        what: What they count, for errors.
    """

    def read(value: object, where: str) -> float:
        number = _number(value)
        if number is None or number <= 0:
            _refuse(where, f"{what} above 0", value)
        return number

    return read


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def whole(minimum: int, what: str) -> Reader:
    """Return a reader of whole numbers from a minimum on.

    Args:
        minimum: The smallest.
        what: What they count, for errors.
    """

    def read(value: object, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            _refuse(where, f"a whole number of {what}, {minimum} or more", value)
        return int(value)

    return read


def short_name(value: object, where: str) -> str:
    """Read a name: 1 to 128 printable characters, no space at its ends.

    Args:
        value: Anything.
        where: What errors call it.

    Raises:
        ConfigurationError: It is no such name.
    """
    if isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable() and value == value.strip():
        return str.__str__(value)
    _refuse(where, f"a string of 1 to {_MAX_NAME} printable characters without spaces at its ends", value)


def read_names(value: object, where: str) -> tuple[str, ...]:
    """Read a list of non-blank texts.

    Args:
        value: Anything.
        where: What errors call it.

    Raises:
        ConfigurationError: It is no such list.
    """
    if isinstance(value, str | bytes | bytearray | memoryview) or not isinstance(value, Sequence):
        _refuse(where, "a list of strings", value)
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item.strip() or not _is_unicode(item):
            _refuse(f"{where}[{index}]", "a string with a visible character", item)
    return tuple(str.__str__(item) for item in value)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def read_metadata(value: object, where: str) -> Mapping[str, TaskMetadataValue]:
    """Read a task's metadata; texts are redacted.

    Args:
        value: Up to 16 entries; keys match ``[A-Za-z][A-Za-z0-9_.-]{0,63}`` and name no secret; values are strings of
            up to 1,024 characters, booleans, finite numbers, or lists of up to 16 of one of these.
        where: What errors call it.

    Returns:
        An immutable copy.

    Raises:
        ConfigurationError: It is anything else; the text names the key.
    """
    given = read_mapping(value, where)
    if len(given) > _MAX_ENTRIES:
        raise ConfigurationError(f"{where} may have at most {_MAX_ENTRIES} entries, got {len(given)}")
    return MappingProxyType(
        {_metadata_key(key, where): _metadata_value(item, f"{where}[{key!r}]") for key, item in given.items()}
    )


def _metadata_key(key: object, where: str) -> str:
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        _refuse(f"{where}: a key", "a letter and up to 63 letters, digits and _ . -", key)
    if key.lower().startswith(_RESERVED):
        raise ConfigurationError(f"{where}: key {key!r} is reserved; choose another name")
    if is_sensitive_name(key):
        raise ConfigurationError(f"{where}: key {key!r} is credential-like; metadata is written to spans and stores")
    return str.__str__(key)


def _metadata_value(value: object, where: str) -> TaskMetadataValue:
    if not isinstance(value, list | tuple):
        return _metadata_scalar(value, where)
    if len(value) > _MAX_ENTRIES:
        raise ConfigurationError(f"{where} may have at most {_MAX_ENTRIES} items, got {len(value)}")
    items = tuple(_metadata_scalar(item, f"{where}[{index}]") for index, item in enumerate(value))
    if len({type(item) for item in items}) > 1:
        _refuse(where, "a list of values of one type", value)
    return items  # type: ignore[return-value]  # one type throughout, checked above


def _metadata_scalar(value: object, where: str) -> str | int | float | bool:
    if isinstance(value, str) and len(value) <= _MAX_TEXT and _is_unicode(value):
        return redact_sensitive_text(str.__str__(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    _refuse(where, f"a string of at most {_MAX_TEXT} characters, a finite number, a boolean or a list of these", value)

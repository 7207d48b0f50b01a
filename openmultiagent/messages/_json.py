"""JSON-like data and well-formed text: what may stand in a message, and what must be refused.

JSON-like is what ``json`` can write and read back equal: None, bools, ints, finite floats, well-formed strings, lists
and dicts with string keys, at most 100 levels deep. Invariant: every walk is iterative and bounded, so that neither
depth, nor a cycle, nor a container that is shared many times can make it crash or hang.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from .._shown import shown
from ..errors import ConfigurationError
from ._faults import Fault

__all__ = ["MAX_DEPTH", "check_unicode", "copy_json_data", "plain_json", "replace_lone_surrogates"]

T = TypeVar("T")

MAX_DEPTH = 100
"""Levels of nesting; the value itself is the first."""

_MAX_VALUES = 1_000_000
"""Values in one tree. Lists that share their parts can stand for more values than any memory holds."""

_MAX_INT_BITS = 14_000
"""Below the 4,300 digits at which Python refuses to write an integer."""

_ENCODED_AT_ONCE = 64 * 1024
"""Characters that are looked through at once."""

_REFUSED = "must be cloneable structured data (JSON-like)"


def check_unicode(text: str) -> None:
    """Refuse a text that UTF-8 cannot express.

    Args:
        text: Any text.

    Raises:
        Fault: It has a lone surrogate.
    """
    position = _lone_surrogate(text)
    if position is not None:
        raise Fault(f"must be well-formed Unicode: {_lone_surrogate_text(text, position)}")


def plain_json(value: Any) -> Any:
    """Return JSON-like data as exact built-in types: the same object when it is that already, else a copy.

    Tuples become lists, other mappings dicts, and instances of subclasses of str, int and float their plain values.

    Args:
        value: Anything.

    Raises:
        Fault: It is not JSON-like; the fault's place is relative to the value.
    """
    return value if _Walk().check(value) else _rebuild(value, _plain_leaf)


def copy_json_data(value: Any, *, root: str) -> Any:
    """Return a copy of JSON-like data as exact built-in types, for whatever is stored or passed on as JSON.

    Args:
        value: Anything.
        root: What the caller calls the value, for the error.

    Raises:
        ConfigurationError: It is not JSON-like; the text begins with the path of the fault.
    """
    try:
        _Walk().check(value)
    except Fault as fault:
        raise ConfigurationError(f"{root}{fault.where} {fault.text}") from None
    return _rebuild(value, _plain_leaf)


def replace_lone_surrogates(value: T) -> T:
    """Replace the halves of surrogate pairs that stand alone, which no encoding can express, by U+FFFD.

    Two halves in a row become the character that they stand for. For text from models and tools, before it is put into
    a block; what callers write is refused instead.

    Args:
        value: A string or JSON-like data; anything else in it is left as it is.

    Returns:
        The same object when there was nothing to replace, else a copy.
    """
    return _rebuild(value, _mended_leaf) if _has_lone_surrogate(value) else value


class _Walk:
    """One walk over a value that should be JSON-like, depth first."""

    def __init__(self) -> None:
        self._open: list[Any] = []  # the containers around the place where the walk is
        self._keys: list[Any] = []  # the key that it follows in each of them
        self._plain = True
        self._left = _MAX_VALUES

    def check(self, root: Any) -> bool:
        """Return whether the value consists of exact built-in types; raise a Fault when it is not JSON-like."""
        if not self._is_container(root):
            return self._plain
        walks = [self._enter(root)]
        while walks:
            for key, item in walks[-1]:
                if item is None or (type(item) is str and item.isascii()):
                    continue  # by far the most values
                self._keys[-1] = key
                if self._is_container(item):
                    walks.append(self._enter(item))
                    break
            else:
                walks.pop()
                self._open.pop()
                self._keys.pop()
        return self._plain

    def _enter(self, container: Any) -> Iterator[tuple[Any, Any]]:
        if len(self._open) == MAX_DEPTH:
            raise self._bottomless(container)
        self._left -= len(container)
        if self._left < 0:
            raise Fault(f"{_REFUSED}: more than {_MAX_VALUES:,} values")
        if isinstance(container, list | tuple):
            items: Iterator[tuple[Any, Any]] = iter(enumerate(container))
        else:
            items = iter([(self._checked_key(key), item) for key, item in container.items()])
        self._open.append(container)
        self._keys.append(None)
        return items

    def _checked_key(self, key: object) -> str:
        if not isinstance(key, str):
            raise Fault(f"{_REFUSED}: keys must be strings, got {shown(key)}", self._place())
        self._check_text(key)
        self._plain = self._plain and type(key) is str
        return key

    def _is_container(self, item: Any) -> bool:
        """Check one value; return whether it is a container, to be walked into."""
        cls = type(item)
        if cls is str:
            self._check_text(item)
            return False
        if cls is dict or cls is list:
            return True
        if item is None or cls is bool:
            return False
        if isinstance(item, list | tuple | Mapping):
            self._plain = False
            return True
        self._check_leaf(item)
        self._plain = self._plain and (cls is int or cls is float)
        return False

    def _check_leaf(self, item: Any) -> None:
        if isinstance(item, int):
            if item.bit_length() > _MAX_INT_BITS:
                raise Fault(f"{_REFUSED}: an integer of {item.bit_length():,} bits is too large", self._place())
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Fault(f"{_REFUSED}: {float(item)!r} is no JSON number", self._place())
        elif isinstance(item, str):
            self._check_text(item)
        else:
            raise Fault(f"{_REFUSED}, got {type(item).__name__}", self._place())

    def _check_text(self, text: str) -> None:
        position = _lone_surrogate(text)
        if position is not None:
            raise Fault(f"{_REFUSED}: {_lone_surrogate_text(text, position)}", self._place())

    def _bottomless(self, container: Any) -> Fault:
        around = [id(item) for item in [*self._open, container]]
        for depth, item in enumerate(around):
            if item in around[:depth]:
                return Fault(f"{_REFUSED}: it contains itself", _path(self._keys[:depth]))
        return Fault(f"{_REFUSED}: nested more than {MAX_DEPTH} levels deep")

    def _place(self) -> str:
        return _path([key for key in self._keys if key is not None])


def _path(keys: list[Any]) -> str:
    path = ""
    for key in keys:
        if isinstance(key, str) and key.isidentifier() and len(key) <= 60:
            path += f".{key}"
        else:
            path += f"[{key!a}]" if not isinstance(key, str) or len(key) <= 60 else f"[{key[:60]!a}...]"
    return path


def _rebuild(root: Any, leaf: Callable[[Any], Any]) -> Any:
    """Copy containers as lists and dicts, each once however often it occurs, and replace every leaf and key."""
    made: dict[int, Any] = {}
    pending: list[tuple[Any, Any]] = []

    def rebuilt(item: Any) -> Any:
        if not isinstance(item, list | tuple | Mapping):
            return leaf(item)
        if id(item) not in made:
            made[id(item)] = {} if isinstance(item, Mapping) else []
            pending.append((item, made[id(item)]))
        return made[id(item)]

    result = rebuilt(root)
    while pending:
        source, target = pending.pop()
        if isinstance(target, list):
            target.extend([rebuilt(item) for item in source])
        else:
            target.update({leaf(key): rebuilt(item) for key, item in source.items()})
    return result


def _plain_leaf(item: Any) -> Any:
    for cls in (str, bool, int, float):
        if isinstance(item, cls):
            # Not cls(item): an enumeration's own __str__ or __int__ may say something else.
            return item if type(item) is cls else _PLAIN[cls](item)
    return item


_PLAIN: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}


def _mended_leaf(item: Any) -> Any:
    if not isinstance(item, str) or _lone_surrogate(item) is None:
        return item
    return item.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _has_lone_surrogate(root: Any) -> bool:
    seen: set[int] = set()
    pending = [root]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _lone_surrogate(item) is not None:
                return True
        elif isinstance(item, list | tuple | Mapping) and id(item) not in seen:
            seen.add(id(item))
            pending.extend(item)
            if isinstance(item, Mapping):
                pending.extend(item.values())
    return False


def _lone_surrogate(text: str) -> int | None:
    """Return where the first lone surrogate is; costs nothing for ASCII, and no copy of a large text."""
    if text.isascii():
        return None
    for start in range(0, len(text), _ENCODED_AT_ONCE):
        try:
            text[start : start + _ENCODED_AT_ONCE].encode()
        except UnicodeEncodeError as error:
            return start + error.start
    return None


def _lone_surrogate_text(text: str, position: int) -> str:
    return (
        f"lone surrogate U+{ord(text[position]):04X} at character {position};"
        " replace_lone_surrogates() puts U+FFFD in its place"
    )

"""Frozen values with slots: dataclasses that are quick to define and quick to make.

``dataclass`` writes up to eight methods for each frozen class and compiles every one of them when its module is
imported; with a hundred classes that is a good part of the time that the package takes to import. Here all classes
share these methods, and only the constructor is written for each, when it is first used; it sets the fields through
the slots themselves. Invariant: but for the time it takes, a class behaves like ``dataclass(frozen=True, slots=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from reprlib import recursive_repr
from types import MethodType
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["FACTORY", "constructor_of", "declare", "maker", "record", "share_methods"]

T = TypeVar("T")


class _Factory:
    """Stands for what is made for each instance; looks in signatures as it does in those of dataclasses."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()
"""The default of an argument in place of which something is made for each instance."""


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, /, *, kw_only: bool = False) -> Any:
    """Make a class a frozen dataclass with slots.

    Args:
        cls: A class with annotated fields; its own methods, ``__post_init__`` among them, stay.
        kw_only: Whether the constructor takes its fields by keyword only.
    """
    if cls is None:
        return lambda decorated: _made(decorated, kw_only=kw_only)
    return _made(cls, kw_only=kw_only)


def _made(cls: type[Any], *, kw_only: bool) -> type[Any]:
    own = dict(cls.__dict__)
    made: Any = declare(cls, slots=True, kw_only=kw_only)
    share_methods(made, own)
    for method in (_getstate, _setstate):  # what is frozen cannot be filled by setting its attributes
        if _NAMES[method] not in own:
            setattr(made, _NAMES[method], method)
    if "__init__" not in own:
        made.__init__ = _Constructor(made)
    frozen: type[Any] = made
    return frozen


def declare(cls: type[Any], *, slots: bool = False, kw_only: bool = False) -> Any:
    """Make a class a dataclass of which nothing is written yet: it has its fields, and no method.

    Args:
        cls: A class with annotated fields.
        slots: As for ``dataclass``.
        kw_only: As for ``dataclass``.
    """
    annotations = cls.__annotations__
    said = dict(annotations)
    for name, text in said.items():
        if isinstance(text, str) and not any(word in text for word in ("ClassVar", "InitVar", "KW_ONLY")):
            annotations[name] = object  # in each text `dataclass` would search for the words above
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else `dataclass` has `inspect` find a signature for it
    made: Any = dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    annotations.update(said)
    for item in fields(made):
        item.type = said.get(item.name, item.type)
    return made


class _Constructor:
    """Stands for the ``__init__`` of a class until it is first looked at."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        cls: Any = self._cls
        cls.__init__ = constructor = constructor_of(cls)
        return constructor if instance is None else MethodType(constructor, instance)


def share_methods(cls: Any, own: Mapping[str, Any]) -> None:
    """Give a dataclass the methods that a frozen one has, apart from its constructor.

    Args:
        cls: What ``dataclass`` made, told to write none of them.
        own: What the class itself defines, which stays.
    """
    items = fields(cls)
    cls.__record_names__ = tuple(item.name for item in items)
    cls.__record_shown__ = tuple(item.name for item in items if item.repr)
    cls.__record_compared__ = tuple(item.name for item in items if item.compare)
    cls.__record_hashed__ = tuple(item.name for item in items if (item.compare if item.hash is None else item.hash))
    for method in (_set, _delete, _repr, _eq, _hash):
        name = _NAMES[method]
        # A class with an own __eq__ and no own __hash__ has None there, which stands for one that Python has put in.
        if name not in own or (name == "__hash__" and own[name] is None and "__eq__" not in own):
            setattr(cls, name, method)


def maker(cls: type[T]) -> Callable[..., T]:
    """Return a function that makes a record of the values of all its fields, several times quicker than the class does.

    Args:
        cls: A record without ``__post_init__``.
    """
    names: dict[str, Any] = {"cls": cls, "draft": _draft(cls)}
    arguments: tuple[str, ...] = cls.__record_names__  # type: ignore[attr-defined]  # of every record
    statements = "".join([f"    self.{name} = {name}\n" for name in arguments])
    exec(  # noqa: S102 - of our own names
        f"def make({', '.join(arguments)}):\n    self = draft()\n{statements}    self.__class__ = cls\n    return self",
        names,
    )
    make: Callable[..., T] = names["make"]
    return make


def _draft(cls: Any) -> type[Any]:
    """Return a class of the same slots that may be set: an instance is filled as one, and then becomes a record.

    Setting a slot of the record itself means calling its descriptor, which takes ten times as long.
    """
    own = {name: cls.__dict__[name] for name in ("__slots__", "__orig_bases__", "__module__") if name in cls.__dict__}
    settable = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(cls.__name__, cls.__bases__, own | settable)


def constructor_of(cls: type[Any]) -> Callable[..., None]:
    """Return the ``__init__`` of a class of slots, which sets its fields and calls ``__post_init__``.

    Args:
        cls: What ``declare`` returned.
    """
    names: dict[str, Any] = {"FACTORY": FACTORY}
    plain: list[str] = []
    by_keyword: list[str] = []
    statements: list[str] = []
    for item in fields(cls):
        default, value = _default_of(item, names)
        if item.init:
            (by_keyword if item.kw_only else plain).append(item.name + default)
        elif not default:
            continue  # whoever has such a field sets it in `__post_init__`
        names[f"set_{item.name}"] = getattr(cls, item.name).__set__
        statements.append(f"    set_{item.name}(self, {value})\n")
    if hasattr(cls, "__post_init__"):
        statements.append("    self.__post_init__()\n")
    arguments = [*plain, *(["*", *by_keyword] if by_keyword else [])]
    # As `dataclass` itself does it: only a function that was written out takes arguments without a loop.
    exec(f"def __init__(self, {', '.join(arguments)}):\n{''.join(statements) or '    pass'}", names)  # noqa: S102 - of our own names
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {item.name: item.type for item in fields(cls) if item.init} | {"return": None}
    return init


def _default_of(item: Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """Return the default of an argument and the expression of the field's value, whose names are added."""
    if item.default is not MISSING:
        names[f"default_{item.name}"] = item.default
        return f"=default_{item.name}", item.name if item.init else f"default_{item.name}"
    if item.default_factory is not MISSING:
        names[f"make_{item.name}"] = item.default_factory
        make = f"make_{item.name}()"
        return "=FACTORY", f"{make} if {item.name} is FACTORY else {item.name}" if item.init else make
    return "", item.name


def _set(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__record_shown__])
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    # As lists, whose comparison takes an object for equal to itself: a NaN is then the same in both.
    names = self.__record_compared__
    mine, others = ([getattr(each, name) for name in names] for each in (self, other))
    same: bool = mine == others
    return same


def _hash(self: Any) -> int:
    return hash(tuple([getattr(self, name) for name in self.__record_hashed__]))


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__record_names__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__record_names__, state, strict=True):
        object.__setattr__(self, name, value)


_NAMES: dict[Any, str] = {
    _set: "__setattr__",
    _delete: "__delattr__",
    _repr: "__repr__",
    _eq: "__eq__",
    _hash: "__hash__",
    _getstate: "__getstate__",
    _setstate: "__setstate__",
}

"""Structural copies of models: new containers, shared leaves.

The cost follows the number of models and containers, never the bytes in them, since a string is shared and not copied.
Not here: any check; what comes in comes out. Invariant: a copy equals its original and shares nothing mutable with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

__all__ = ["Checked", "assemble", "clone", "clone_model", "copy_structurally", "share"]

M = TypeVar("M", bound=BaseModel)

_ATOMIC: set[type] = {str, int, float, bool, type(None), bytes, complex}

_new = object.__new__


class _Draft(BaseModel):
    """What a model is while it is being filled; the last step makes it one of its own class.

    Setting the slots of a model by their descriptors, past pydantic's own ``__setattr__``, takes ten times as long.
    """

    model_config = ConfigDict(defer_build=True)

    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


class Checked:
    """A note that a string was found valid; copies of its holder share it, and it never makes two holders differ."""

    __slots__ = ("scheme", "text")

    def __init__(self, text: str, scheme: str = "data") -> None:
        self.text = text
        """The very string object that was checked."""
        self.scheme = scheme
        """How the scheme of the data URI was spelled that the string came from."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Checked)

    __hash__ = None  # type: ignore[assignment]  # equal to everything of its kind, so useless as a key

    def __repr__(self) -> str:
        return "Checked(...)"


def copy_structurally(*models: type[BaseModel]) -> None:
    """Let models of exactly these classes be copied without a look for a copying method of their own.

    Args:
        models: Classes of models.
    """
    _COPIERS.update(dict.fromkeys(models, clone_model))


def share(*immutable: type) -> None:
    """Let copies share the instances of these classes.

    Args:
        immutable: Classes whose instances never change.
    """
    _ATOMIC.update(immutable)


share(Checked)


def clone(value: Any) -> Any:
    """Copy containers and models, and share what is atomic.

    Args:
        value: A model, a list, dict or tuple, or a leaf.
    """
    cls = type(value)
    return value if cls in _ATOMIC else _COPIERS.get(cls, _clone_other)(value)


def clone_model(model: M) -> M:
    """Copy one model with its class, extra and private values.

    Args:
        model: Any pydantic model; fields of unknown types are copied with ``copy.deepcopy``.
    """
    fields = model.__dict__.copy()
    for key, item in fields.items():
        if type(item) not in _ATOMIC:
            fields[key] = _COPIERS.get(type(item), _clone_other)(item)  # no key is added, so the loop goes on
    made: Any = _new(_Draft)
    made.__dict__ = fields
    made.__pydantic_fields_set__ = model.__pydantic_fields_set__.copy()
    extra, private = model.__pydantic_extra__, model.__pydantic_private__
    made.__pydantic_extra__ = extra if extra is None else clone(extra)
    made.__pydantic_private__ = private if private is None else clone(private)
    try:
        made.__class__ = type(model)
    except TypeError:  # a class with slots of its own, which has another layout
        own = _new(type(model))
        for name in BaseModel.__slots__:
            object.__setattr__(own, name, getattr(made, name))
        return own
    return made  # type: ignore[no-any-return]  # now it is one


def _clone_list(value: list[Any]) -> list[Any]:
    # A loop that calls no clone(): on Python 3.11 a comprehension and a call more cost a tenth of a message's copy.
    copied: list[Any] = []
    for item in value:
        cls = type(item)
        copied.append(item if cls in _ATOMIC else _COPIERS.get(cls, _clone_other)(item))
    return copied


def _clone_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item if type(item) in _ATOMIC else clone(item) for key, item in value.items()}


def _clone_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([clone(item) for item in value])


def _clone_other(value: Any) -> Any:
    structural: Callable[[Any], Any] | None = getattr(type(value), "__structural_copy__", None)
    return copy.deepcopy(value) if structural is None else structural(value)


def assemble(
    cls: type[M], fields: dict[str, Any], *, private: dict[str, Any] | None = None, given: set[str] | None = None
) -> M:
    """Make a model of fields that were checked already.

    Args:
        cls: Its class.
        fields: All its fields; the dict belongs to the model from now on.
        private: Its private attributes, if the class has any.
        given: The fields that were set explicitly; all unless given.
    """
    made: Any = _new(_Draft)
    made.__dict__ = fields
    made.__pydantic_fields_set__ = set(fields) if given is None else given
    made.__pydantic_extra__ = None
    made.__pydantic_private__ = private
    made.__class__ = cls
    return made  # type: ignore[no-any-return]  # now it is one


_COPIERS: dict[type, Callable[[Any], Any]] = {list: _clone_list, dict: _clone_dict, tuple: _clone_tuple}

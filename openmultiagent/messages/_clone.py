"""Structural copies of models: new containers, shared leaves.

The cost follows the number of models and containers, never the bytes in them, since a string is shared and not copied.
Not here: any check; what comes in comes out. Invariant: a copy equals its original and shares nothing mutable with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

__all__ = ["Checked", "assemble", "clone", "clone_model", "copy_structurally", "share"]

M = TypeVar("M", bound=BaseModel)

_ATOMIC: set[type] = {str, int, float, bool, type(None), bytes, complex}

_new = object.__new__

# The slots of a model, set without pydantic's own __setattr__, which would look for fields.
_set_fields: Callable[[BaseModel, dict[str, Any]], None] = BaseModel.__dict__["__dict__"].__set__
_set_names: Callable[[BaseModel, set[str]], None] = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra: Callable[[BaseModel, dict[str, Any] | None], None] = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private: Callable[[BaseModel, dict[str, Any] | None], None] = BaseModel.__dict__["__pydantic_private__"].__set__


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
    made = _new(type(model))
    fields = model.__dict__.copy()
    for key, item in fields.items():
        if type(item) not in _ATOMIC:
            fields[key] = _COPIERS.get(type(item), _clone_other)(item)  # no key is added, so the loop goes on
    _set_fields(made, fields)
    _set_names(made, model.__pydantic_fields_set__.copy())
    extra = model.__pydantic_extra__
    _set_extra(made, extra if extra is None else clone(extra))
    private = model.__pydantic_private__
    _set_private(made, private if private is None else clone(private))
    return made


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


def assemble(cls: type[M], fields: dict[str, Any], *, private: dict[str, Any] | None = None) -> M:
    """Make a model of fields that were checked already.

    Args:
        cls: Its class.
        fields: All its fields; the dict belongs to the model from now on.
        private: Its private attributes, if the class has any.
    """
    made = object.__new__(cls)
    _set_fields(made, fields)
    _set_names(made, set(fields))
    _set_extra(made, None)
    _set_private(made, private)
    return made


_COPIERS: dict[type, Callable[[Any], Any]] = {list: _clone_list, dict: _clone_dict, tuple: _clone_tuple}

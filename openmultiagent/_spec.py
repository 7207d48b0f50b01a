"""Declarations of frozen specifications: dataclasses that are checked when they are made.

A specification (``AgentConfig``, ``ModelSettings``, ...) is what a user writes down; a fault in it is told at once, as
a ``ConfigurationError`` that names the class, the field and the fix, whether it is made by its constructor or from a
mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from inspect import Parameter, Signature, get_annotations
from threading import RLock
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from ._record import FACTORY, declare, share_methods
from ._shown import shown
from .errors import ConfigurationError, OpenMultiAgentError

__all__ = ["as_spec", "check_has", "from_mapping", "spec"]

T = TypeVar("T")

_VALIDATORS: dict[type[Any], Any] = {}
"""One for each specification class, so their number is that of the classes."""
_BUILDING = RLock()

_SCALARS = (str, int, float, bool)
_CONTAINERS = (tuple, list, dict, set, frozenset, Sequence, Mapping)
_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def spec(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose constructor checks its arguments.

    The class may have ``__unknown_fields__``, a mapping from a key that users try to the text that helps them. Pydantic
    builds the checks when the first instance is made, not when the module is imported.

    Args:
        cls: A class with annotated fields, as for ``dataclasses.dataclass``.
    """
    own = dict(cls.__dict__)
    made: Any = declare(cls)
    share_methods(made, own)
    made.__pydantic_config__ = _CONFIG
    made.__init__ = _teaching(made)
    made.__signature__ = _Signature()
    checked: type[T] = made
    return checked


def from_mapping(cls: type[T], value: Mapping[str, Any]) -> T:
    """Make a specification from a mapping with its fields; the mapping is left as it is.

    Args:
        cls: The specification's class.
        value: Its fields by name.

    Raises:
        ConfigurationError: A key is unknown, a value is wrong, or one is missing.
    """
    for key in value:
        if not isinstance(key, str):
            raise ConfigurationError(f"{cls.__name__}: keys must be field names, got {shown(key)}")
    return cls(**value)


def as_spec(cls: type[T], value: object, *, where: str) -> T:
    """Return a specification that was given as such, or as a mapping with its fields.

    Args:
        cls: The specification's class.
        value: What was given; a mapping is left as it is.
        where: What errors call it.

    Raises:
        ConfigurationError: It is neither, or a field is wrong.
    """
    if isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        return from_mapping(cls, value)
    name = f"{'an' if cls.__name__[0] in 'AEIOU' else 'a'} {cls.__name__}"
    raise ConfigurationError(f"{where} must be {name} or a mapping with its fields, got {shown(value)}")


def check_has(where: str, value: object, method: str, what: str) -> None:
    """Refuse an object that lacks the method by which it is used, and a class in the place of an object.

    Args:
        where: What errors call it.
        value: What was given; None is fine.
        method: Name of the method.
        what: What has that method, for the text.

    Raises:
        ConfigurationError: It is something else.
    """
    if value is not None and (isinstance(value, type) or not callable(getattr(value, method, None))):
        raise ConfigurationError(f"{where} must be {what} or None, got {shown(value)}")


class _Signature:
    """What ``inspect.signature`` says about a specification, made when it asks."""

    def __get__(self, _instance: object, cls: type[Any]) -> Signature:
        said: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            said |= get_annotations(base)
        parameters = []
        for item in fields(cls):
            if item.init:
                kind = Parameter.KEYWORD_ONLY if item.kw_only else Parameter.POSITIONAL_OR_KEYWORD
                default: Any = Parameter.empty if item.default is MISSING else item.default
                default = default if item.default_factory is MISSING else FACTORY
                parameters.append(Parameter(item.name, kind, default=default, annotation=said[item.name]))
        return Signature(sorted(parameters, key=lambda parameter: parameter.kind), return_annotation=None)


def _teaching(cls: type[Any]) -> Callable[..., None]:
    names = [item.name for item in fields(cls) if item.init]

    def teaching_init(self: object, *args: object, **kwargs: object) -> None:
        for key in kwargs:
            if key not in names:
                raise ConfigurationError(_unknown(cls, key, names))
        try:
            _validator(cls).validate_python(ArgsKwargs(args, kwargs), self_instance=self)
        except ValidationError as error:
            raise _as_configuration_error(cls, error) from None

    teaching_init.__name__, teaching_init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    return teaching_init


def _validator(cls: type[Any]) -> Any:
    validator = _VALIDATORS.get(cls)
    if validator is None:
        with _BUILDING:  # several threads may make their first instance at the same time
            _take_scalars_as_they_are(cls)
            validator = _VALIDATORS.setdefault(cls, TypeAdapter(cls).validator)
    return validator


def _take_scalars_as_they_are(cls: type[Any]) -> None:
    """Have pydantic refuse bytes as a text, True as 1 and "5" as a number, which would hide a mistake.

    Its own strict mode would also refuse a list for a tuple, and a mapping for a specification.
    """
    hints = get_type_hints(cls, include_extras=True)
    for item in fields(cls):
        item.type = _strict(hints[item.name])


def _strict(hint: Any) -> Any:
    if hint in _SCALARS:
        return Annotated[hint, Strict()]
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if any(type(item).__name__ == "SkipValidation" for item in parts[1:]):
            return hint
        return Annotated[(_strict(parts[0]), *parts[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(map(_strict, parts))]  # noqa: UP007 - made of parts
    if origin in _CONTAINERS:
        return GenericAlias(origin, tuple(map(_strict, parts)))
    if getattr(hint, "__pydantic_config__", None) is _CONFIG and hint not in _VALIDATORS:
        _take_scalars_as_they_are(hint)  # a specification within a specification
    return hint


def _unknown(cls: type[Any], key: str, names: list[str]) -> str:
    hints: Mapping[str, str] = getattr(cls, "__unknown_fields__", {})
    if key in hints:
        return f"{cls.__name__} has no field {shown(key)}: {hints[key]}"
    import difflib  # noqa: PLC0415 - import time

    near = difflib.get_close_matches(key, names, n=1)
    advice = f"did you mean {shown(near[0])}?" if near else f"its fields are {', '.join(names)}"
    return f"{cls.__name__} has no field {shown(key)}; {advice}"


def _as_configuration_error(cls: type[Any], error: ValidationError) -> OpenMultiAgentError:
    problems = []
    for item in error.errors(include_url=False):
        raised = item.get("ctx", {}).get("error")
        if isinstance(raised, OpenMultiAgentError):
            return raised
        where = ".".join(_step(cls, position, part) for position, part in enumerate(item["loc"])) or "arguments"
        problems.append(f"{where}: {item['msg']}")
    return ConfigurationError(f"{cls.__name__} is invalid: {'; '.join(problems)}")


def _step(cls: type[Any], position: int, part: int | str) -> str:
    names = [item.name for item in fields(cls) if item.init]
    # A positional argument is told by its number; a reader knows it by its name.
    return names[part] if position == 0 and isinstance(part, int) and part < len(names) else str(part)

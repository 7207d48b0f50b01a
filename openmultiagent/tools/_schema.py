"""JSON Schema and checked arguments, from the signature and docstring of a function or from a type.

Not here: JSON Schema *validation*; pydantic checks inputs, and a tool that was given a plain schema checks its own.
Invariant: everything is built once, when the tool is made, and a function that cannot be a tool is refused then, by
parameter name.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError
from ._context import ToolContext
from ._docstring import parse_docstring
from ._result import describe_error

__all__ = ["FunctionBody", "documentation", "function_body", "plain_schema", "type_schema", "underlying"]

_DATA_KEYS = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""

_MAP_KEYS = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values are schemas by name."""


@record
class FunctionBody:
    """A function as a tool runs it: called with the checked input and the context."""

    fn: Callable[..., Any]
    """The function."""
    model: type[BaseModel]
    """Checks the input. Its fields have names of their own, so that a parameter may be called ``copy`` or ``_x``."""
    parameters: Mapping[str, str]
    """The parameter that each field of the model is for."""
    context_parameters: tuple[str, ...]
    """The parameters that get the ``ToolContext``; the model is not told about them, and no record holds them."""

    def __call__(self, checked: BaseModel, context: ToolContext) -> Any:
        """Call the function; for an async one, return what is to be awaited.

        Args:
            checked: The input, as the model checked it.
            context: What the context parameters get.
        """
        arguments = {parameter: getattr(checked, field) for field, parameter in self.parameters.items()}
        return self.fn(**arguments, **dict.fromkeys(self.context_parameters, context))


class _Generator(GenerateJsonSchema):
    # A default that is no JSON is left out of the schema; it still works.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - pydantic declares it so


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that does the work of a callable: of a partial, or of an object with ``__call__``.

    Args:
        fn: Any callable.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn):
        return fn
    call: Callable[..., Any] = type(fn).__call__
    return call


def documentation(fn: Callable[..., Any]) -> str | None:
    """Return the docstring that describes what a callable does.

    Args:
        fn: Any callable.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn):
        return inspect.getdoc(fn)
    # Not getdoc, which would find what `object` says about calling.
    return type(fn).__call__.__doc__ or type(fn).__doc__


def function_body(fn: Callable[..., Any], tool_name: str, local_names: Mapping[str, Any]) -> FunctionBody:
    """Return how a function is called with a JSON object.

    Args:
        fn: The function.
        tool_name: Named in errors.
        local_names: Names that annotations may use besides the function's globals.

    Raises:
        ConfigurationError: The function cannot be called with a JSON object; says which parameter is why.
    """
    parameters = _parameters(fn, tool_name)
    hints = _hints(fn, tool_name, local_names)
    _, descriptions = parse_docstring(documentation(fn))
    context_parameters: list[str] = []
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in parameters:
        if parameter.name not in hints:
            raise ConfigurationError(_unannotated(tool_name, parameter.name))
        hint = hints[parameter.name]
        if _is_context(hint):
            context_parameters.append(parameter.name)
            continue
        field = f"field_{len(fields)}"
        names[field] = parameter.name
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[field] = (_described(hint, descriptions.get(parameter.name)), default)
    config = ConfigDict(extra="forbid", alias_generator=names.__getitem__)
    try:
        model: type[BaseModel] = create_model(tool_name, __config__=config, **fields)
    except Exception as error:
        hints_by_name = {names[field]: hint for field, (hint, _) in fields.items()}
        raise ConfigurationError(_no_schema(tool_name, hints_by_name, error)) from error
    return FunctionBody(fn, model, types.MappingProxyType(names), tuple(context_parameters))


def type_schema(described: Any, tool_name: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Return the validator and the JSON Schema of a type, without the titles that pydantic makes up.

    Args:
        described: A type whose values are objects: a pydantic model, a dataclass, a ``TypedDict``.
        tool_name: Named in errors.

    Raises:
        ConfigurationError: The type has no JSON Schema, or not one of an object.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(described)
        schema = adapter.json_schema(schema_generator=_Generator)
    except Exception as error:
        fields = getattr(described, "model_fields", {})
        hints_by_name = {info.alias or name: info.annotation for name, info in fields.items()}
        raise ConfigurationError(_no_schema(tool_name, hints_by_name, error)) from error
    _drop_titles(schema)
    if "$ref" in schema:  # a type that refers to itself; providers want the object at the top
        schema = {**schema["$defs"][schema.pop("$ref").rpartition("/")[2]], **schema}
    return adapter, plain_schema(schema, tool_name)


def plain_schema(schema: Mapping[str, Any], tool_name: str) -> dict[str, Any]:
    """Return a private copy of a JSON Schema that a user wrote, with ``type: object`` if it names no type.

    Args:
        schema: The schema.
        tool_name: Named in errors.

    Raises:
        ConfigurationError: It is no JSON, or not the schema of an object.
    """
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"tool {tool_name!r}: input_schema is no JSON: {describe_error(error)}") from error
    if copied.setdefault("type", "object") != "object":
        raise ConfigurationError(
            f'tool {tool_name!r}: input_schema must have "type": "object", got {shown(copied["type"])}; '
            "wrap the value in an object with one property"
        )
    return copied


def _parameters(fn: Callable[..., Any], tool_name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {tool_name!r}: its signature cannot be read: {error}") from error
    bound: set[str] = set()
    partial = fn
    while isinstance(partial, functools.partial):
        bound.update(partial.keywords)
        partial = partial.func
    parameters = [parameter for name, parameter in signature.parameters.items() if name not in bound]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"tool {tool_name!r}: parameter {str(parameter)!r} is {parameter.kind.description}; "
                "the model names each argument, so every parameter must take a keyword of its own"
            )
    return parameters


def _hints(fn: Callable[..., Any], tool_name: str, local_names: Mapping[str, Any]) -> dict[str, Any]:
    function = underlying(fn)
    # Not the return annotation: it may name what exists only while types are checked.
    wanted = {name: hint for name, hint in getattr(function, "__annotations__", {}).items() if name != "return"}
    holder = types.SimpleNamespace(__annotations__=wanted)
    global_names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(holder, global_names, dict(local_names), include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"tool {tool_name!r}: its annotations cannot be resolved: {describe_error(error)}; "
            "they must name types that can be imported at run time"
        ) from error


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_context(option) for option in get_args(hint))
    if hasattr(hint, "__metadata__"):  # Annotated
        return _is_context(get_args(hint)[0])
    return hint is ToolContext


def _described(hint: Any, description: str | None) -> Any:
    if not description:
        return hint
    metadata = getattr(hint, "__metadata__", ())
    bare = get_args(hint)[0] if metadata else hint
    # First, so that a description in the user's own Field wins.
    return Annotated[(bare, Field(description=description), *metadata)]


def _no_schema(tool_name: str, hints: Mapping[str, Any], error: Exception) -> str:
    for name, hint in hints.items():
        try:
            TypeAdapter(hint).json_schema(schema_generator=_Generator)
        except Exception as cause:  # noqa: BLE001 - pydantic runs the hooks of any type here
            return (
                f"tool {tool_name!r}: parameter {name!r} has type {shown(hint)}, which has no JSON Schema, so a model "
                f"cannot fill it in: {describe_error(cause)}"
            )
    return f"tool {tool_name!r}: no JSON Schema can be made of its input: {describe_error(error)}"


def _unannotated(tool_name: str, parameter: str) -> str:
    text = f"tool {tool_name!r}: parameter {parameter!r} has no type annotation, so the model cannot be told what it is"
    if parameter in ("self", "cls"):
        return f"{text}; make the tool from the bound method: tool(instance.method)"
    return text


def _drop_titles(schema: dict[str, Any]) -> None:
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            if isinstance(node.get("title"), str):
                del node["title"]
            for key, item in node.items():
                if key in _MAP_KEYS and isinstance(item, dict):
                    pending.extend(item.values())
                elif key not in _DATA_KEYS:
                    pending.append(item)

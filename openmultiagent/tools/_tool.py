"""What a tool is: a name and a description for the model, a checked input, and something to run.

Not here: running it within its limits (the executor does). Invariant: a ``Tool`` never changes after it was made, and
its schema and validators are built then, once; so one tool may serve any number of agents and runs.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import FrameType
from typing import Any, Self, TypedDict, Unpack, overload

from pydantic import TypeAdapter

from .._patterns import lazy_pattern
from .._shown import shown
from ..adapters import LLMToolDef
from ..errors import ConfigurationError
from ._context import ToolContext
from ._docstring import parse_docstring
from ._result import describe_error
from ._schema import FunctionBody, documentation, function_body, plain_schema, type_schema, underlying

__all__ = ["Tool", "ToolSettings", "check_seconds", "check_whole", "tool"]

_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
"""What every provider accepts as the name of a function."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Tool:
    """Something that a model can call.

    ``tool`` makes one from a typed function; the constructor is for tools whose input is described otherwise. Calling
    the object calls the function itself, unchecked and in place: ``add(1, 2)`` works as if ``add`` had not been made
    a tool.

    Raises:
        ConfigurationError: The name, a schema or a limit cannot be used; raised when the tool is made.
    """

    name: str
    """What the model calls it: 1 to 64 ASCII letters, digits, ``_`` and ``-``."""
    _: KW_ONLY
    description: str = ""
    """What the model reads about it."""
    input_schema: Mapping[str, Any] | type[Any] = field(repr=False)
    """A JSON Schema of an object, as a mapping: the input is then passed on as it is. Or a type whose values are
    objects (a pydantic model, a dataclass, a ``TypedDict``): the input is then checked, and passed on as a value of
    that type."""
    execute: Callable[[Any, ToolContext], Any] = field(repr=False)
    """What runs, as ``execute(input, context)``: async, or sync in a worker thread."""
    timeout: float | None = None
    """Seconds that one call may take; None for the executor's limit (120 unless it has another), ``math.inf`` for
    none."""
    output_schema: Any = field(default=None, repr=False)
    """A type that the ``data`` of a result must be valid for; the data themselves are passed on as they are."""
    use_validated_output: bool = False
    """Whether ``data`` is what ``output_schema`` made of it (conversions, defaults), not what the tool returned."""
    max_output_chars: int | None = None
    """The most characters of a text that the model gets; None for the executor's limit."""
    consequential: bool = False
    """Whether calls have consequences outside the run; told to the gate, and runs may ask for their confirmation."""
    exclusive: bool = False
    """Whether a call runs alone: never at the same time as another call of the run."""
    max_calls: int | None = None
    """The most calls that run in one run; None for no cap. Further calls are errors that the model reads."""
    fn: Callable[..., Any] = field(init=False, repr=False)
    """The function that the tool was made from."""
    definition: LLMToolDef = field(init=False, repr=False)
    """The tool as the model is told about it."""
    is_async: bool = field(init=False, repr=False)
    """Whether it runs in the event loop; if not, in a worker thread."""
    input_adapter: TypeAdapter[Any] | None = field(init=False, repr=False)
    """Checks the input; None when the tool was given a plain JSON Schema."""
    output_adapter: TypeAdapter[Any] | None = field(init=False, repr=False)
    """Checks the data of results; None without ``output_schema``."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.description, str):
            raise ConfigurationError(
                f"tool {shown(self.name)}: description must be a str, got {shown(self.description)}"
            )
        if not callable(self.execute):
            raise ConfigurationError(f"tool {shown(self.name)}: execute must be callable, got {shown(self.execute)}")
        _check_settings(self)
        body = self.execute
        fn = body.fn if isinstance(body, FunctionBody) else body
        adapter: TypeAdapter[Any] | None = None
        if isinstance(self.input_schema, Mapping):
            schema = plain_schema(self.input_schema, self.name)
        else:
            adapter, schema = type_schema(self.input_schema, self.name)
        derived = {
            "fn": fn,
            "definition": LLMToolDef(self.name, self.description, schema),
            "is_async": inspect.iscoroutinefunction(underlying(fn)),
            "input_adapter": adapter,
            "output_adapter": _output_adapter(self.name, self.output_schema),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly: no check, no limit, no thread; an async function returns its coroutine.

        Args:
            args: The function's own arguments.
            kwargs: The function's own arguments.
        """
        return self.fn(*args, **kwargs)

    # A tool never changes, so it is its own copy; locks and clients that its function holds need not be copyable.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class ToolSettings(TypedDict, total=False):
    """What ``tool`` passes on to the tool; the fields of ``Tool`` with these names say what they do."""

    timeout: float | None
    output_schema: Any
    use_validated_output: bool
    max_output_chars: int | None
    consequential: bool
    exclusive: bool
    max_calls: int | None


@overload
def tool(
    fn: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Unpack[ToolSettings],
) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, **settings: Unpack[ToolSettings]
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Unpack[ToolSettings],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function, as ``@tool``, ``@tool(...)`` or ``tool(function, ...)``.

    Works on sync and async functions, bound methods, partials and objects with ``__call__``. The input schema comes
    from the annotations, the texts for the model from the docstring. A parameter annotated ``ToolContext`` gets the
    context of the call.

    Args:
        fn: The function.
        name: The tool's name; the function's own unless given.
        description: What the model reads; the first paragraph of the docstring unless given.
        settings: ``timeout``, ``output_schema``, ``use_validated_output``, ``max_output_chars``, ``consequential``,
            ``exclusive`` and ``max_calls``, as for ``Tool``.

    Raises:
        ConfigurationError: The function cannot be a tool; says which parameter or setting is why.
    """

    def make(function: Callable[..., Any], frame: FrameType | None) -> Tool:
        tool_name = _function_name(function) if name is None else name
        _check_name(tool_name)
        body = _body(function, tool_name, frame)
        text = parse_docstring(documentation(function))[0] if description is None else description
        return Tool(tool_name, description=text, input_schema=body.model, execute=body, **settings)

    if fn is None:
        return lambda function: make(function, _caller())
    return make(fn, _caller())


def check_seconds(value: object, what: str) -> None:
    """Refuse what is no limit in seconds.

    Args:
        value: The limit; infinity is one.
        what: Names it in the error.

    Raises:
        ConfigurationError: Not a number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value <= 0:
        raise ConfigurationError(f"{what} must be a number of seconds above 0, got {shown(value)}")


def check_whole(value: object, what: str) -> None:
    """Refuse what is no limit in whole things.

    Args:
        value: The limit.
        what: Names it in the error.

    Raises:
        ConfigurationError: Not an integer of 1 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{what} must be an integer of 1 or more, got {shown(value)}")


def _check_settings(made: Tool) -> None:
    if made.timeout is not None:
        check_seconds(made.timeout, f"tool {shown(made.name)}: timeout")
    for name in ("max_output_chars", "max_calls"):
        if getattr(made, name) is not None:
            check_whole(getattr(made, name), f"tool {shown(made.name)}: {name}")
    for name in ("use_validated_output", "consequential", "exclusive"):
        if not isinstance(getattr(made, name), bool):
            raise ConfigurationError(
                f"tool {shown(made.name)}: {name} must be a bool, got {shown(getattr(made, name))}"
            )
    if made.use_validated_output and made.output_schema is None:
        raise ConfigurationError(
            f"tool {shown(made.name)}: use_validated_output needs an output_schema to validate with"
        )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"tool name {shown(name)} must be 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-', which all "
            "providers accept; pass name=... to choose one"
        )


def _function_name(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    name: str = getattr(fn, "__name__", type(fn).__name__)
    return name


def _body(fn: Callable[..., Any], tool_name: str, frame: FrameType | None) -> FunctionBody:
    if isinstance(fn, Tool | type) or not callable(fn):
        raise ConfigurationError(f"tool {tool_name!r}: expected a function, got {shown(fn)}")
    function = underlying(fn)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"tool {tool_name!r} is a generator function; let it return a list")
    return function_body(fn, tool_name, _names_around(function, frame))


def _names_around(function: Callable[..., Any], frame: FrameType | None) -> Mapping[str, Any]:
    """Return the local names of the function that the tool is defined in: only its frame knows the types made there."""
    if frame is None or getattr(function, "__globals__", None) is not frame.f_globals:
        return {}
    defined_here = function.__qualname__.startswith(f"{frame.f_code.co_qualname}.<locals>.")
    return frame.f_locals if defined_here else {}


def _caller() -> FrameType | None:
    """Return the frame that called the function that calls this."""
    frame = inspect.currentframe()
    here = None if frame is None else frame.f_back
    return None if here is None else here.f_back


def _output_adapter(tool_name: str, output_schema: Any) -> TypeAdapter[Any] | None:
    if output_schema is None:
        return None
    if isinstance(output_schema, TypeAdapter):
        return output_schema
    try:
        return TypeAdapter(output_schema)
    except Exception as error:
        raise ConfigurationError(
            f"tool {tool_name!r}: output_schema {shown(output_schema)} is no type that data can be checked against: "
            f"{describe_error(error)}"
        ) from error

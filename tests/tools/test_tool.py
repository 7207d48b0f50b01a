import copy
import functools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import Tool, ToolContext, ToolResult, tool
from tests.support import proves


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    """A point."""

    x: float = Field(ge=0)
    title: str | None


class Node(BaseModel):
    children: "list[Node]" = []


def schema_of(made: Tool) -> dict[str, Any]:
    return dict(made.definition.input_schema)


@proves("TOL-1")
def test_decorator_without_arguments_takes_name_and_description_from_the_function() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers,
        both whole.

        And nothing else.
        """
        return a + b

    assert (add.name, add.description) == ("add", "Add two numbers, both whole.")
    assert add.definition.name == "add"
    assert add.definition.description == "Add two numbers, both whole."


@proves("TOL-1")
def test_decorator_arguments_win() -> None:
    @tool(name="plus", description="", timeout=3, max_output_chars=10)
    def add(a: int) -> int:
        """Docstring."""
        return a

    assert (add.name, add.description, add.timeout, add.max_output_chars) == ("plus", "", 3, 10)


class Shop:
    """A shop."""

    async def price(self, item: str) -> str:
        """Look up a price."""
        return f"{item}: 3"

    async def __call__(self, item: str) -> str:
        return item


class Documented:
    """Does what it does."""

    def __call__(self, item: str) -> str:
        """Call it."""
        return item


def greet(name: str, greeting: str = "Hello", *, secret: str = "") -> str:
    """Greet somebody."""
    return f"{greeting} {name} {secret}"


@proves("TOL-1")
def test_methods_partials_and_callable_objects_become_tools() -> None:
    price, shop = tool(Shop().price), tool(Shop())
    partial = tool(functools.partial(functools.partial(greet, secret="s3cret"), greeting="Hi"))

    assert (price.name, price.description, price.is_async) == ("price", "Look up a price.", True)
    assert list(schema_of(price)["properties"]) == ["item"]
    assert (shop.name, shop.description, shop.is_async) == ("Shop", "A shop.", True)
    assert tool(Documented()).description == "Call it."
    assert (partial.name, partial.description, partial.is_async) == ("greet", "Greet somebody.", False)
    assert partial("Ada") == "Hi Ada s3cret"


@proves("TOL-5")
def test_arguments_bound_by_a_partial_are_not_shown() -> None:
    made = tool(functools.partial(functools.partial(greet, secret="s3cret"), greeting="Hi"))

    assert schema_of(made) == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }


@proves("TOL-2")
def test_schema_keeps_bounds_defaults_nullability_and_definitions() -> None:
    @tool
    def search(
        query: Annotated[str, Field(min_length=1, description="What to look for", examples=[{"title": "kept"}])],
        where: Point,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
        order: Literal["asc", "desc"] = "asc",
        colour: Colour | None = None,
        page: int = Field(default=1, gt=0, title="Dropped"),
    ) -> str:
        return query

    schema = schema_of(search)
    assert schema["required"] == ["query", "where"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["query"] == {
        "type": "string",
        "minLength": 1,
        "description": "What to look for",
        "examples": [{"title": "kept"}],
    }
    assert schema["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}
    assert schema["properties"]["order"] == {"type": "string", "enum": ["asc", "desc"], "default": "asc"}
    assert schema["properties"]["colour"] == {"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None}
    assert schema["properties"]["page"] == {"type": "integer", "exclusiveMinimum": 0, "default": 1}
    assert schema["$defs"]["Point"]["required"] == ["x", "title"]
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "number", "minimum": 0}
    assert "title" not in schema["$defs"]["Point"]


@proves("TOL-2")
def test_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        return "noon"

    assert schema_of(now) == {"type": "object", "properties": {}, "additionalProperties": False}


@proves("TOL-2")
def test_default_that_is_no_json_is_left_out_of_the_schema() -> None:
    @tool
    def paint(colour: Any = Shop) -> str:
        return str(colour)

    assert schema_of(paint)["properties"]["colour"] == {}


@proves("TOL-3")
@pytest.mark.parametrize(
    "docstring",
    [
        """Do it.

        Args:
            path (str): Where the file is:
                relative or not.

            limit: How much.
            *rest: Unused.

        Returns:
            limit: not this.
        """,
        """Do it.

        Parameters
        ----------
        path : str
            Where the file is:
            relative or not.
        limit
            How much.

        Returns
        -------
        limit
            not this
        """,
        """Do it.

        :param str path: Where the file is:
            relative or not.
        :param limit: How much.
        :returns: not this
        """,
        """
        Do it.
        Args:
            path: Where the file is: relative or not.
            limit: How much.""",
    ],
    ids=["google", "numpy", "sphinx", "tight"],
)
def test_docstring_styles(docstring: str) -> None:
    def read(path: str, limit: int = 3) -> str:
        return path

    read.__doc__ = docstring
    made = tool(read)

    assert made.description == "Do it."
    described = {name: item["description"] for name, item in schema_of(made)["properties"].items()}
    assert described == {"path": "Where the file is: relative or not.", "limit": "How much."}


@proves("TOL-3")
def test_odd_docstrings_are_left_out_not_guessed() -> None:
    def odd(path: str, other: str) -> str:
        return path

    odd.__doc__ = (
        "Args:\n    what is this\n    path: Where.\nParameters\n----------\n    lost\nnot an entry!\nother : str\n"
    )
    made = tool(odd)

    assert made.description == ""
    assert schema_of(made)["properties"] == {
        "path": {"type": "string", "description": "Where."},
        "other": {"type": "string"},
    }
    odd.__doc__ = "Summary\n-------\n\nArgs:\n"
    assert tool(odd).description == ""


@proves("TOL-3")
def test_description_in_a_field_wins() -> None:
    @tool
    def read(path: Annotated[str, Field(description="mine")], other: str = Field(description="mine too")) -> str:
        """Read.

        Args:
            path: the docstring's
            other: the docstring's
        """
        return path

    assert [item["description"] for item in schema_of(read)["properties"].values()] == ["mine", "mine too"]


@proves("TOL-4")
def test_context_parameter_is_not_in_the_schema() -> None:
    @tool
    def one(a: int, ctx: ToolContext) -> str:
        return ctx.agent

    @tool
    def two(whatever: ToolContext | None = None, *, again: Annotated[ToolContext, "x"]) -> str:
        return ""

    assert list(schema_of(one)["properties"]) == ["a"]
    assert schema_of(two)["properties"] == {}


@proves("TOL-5")
def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    @tool
    def odd(copy: int, _hidden: int, model_config: int, json: int, field_0: int) -> None: ...

    assert list(schema_of(odd)["properties"]) == ["copy", "_hidden", "model_config", "json", "field_0"]


@proves("TOL-5")
def test_alias_is_what_the_model_sees() -> None:
    @tool
    def pick(class_: Annotated[str, Field(alias="class")]) -> str:
        return class_

    assert list(schema_of(pick)["properties"]) == ["class"]


def unannotated(a: int, b) -> None: ...  # type: ignore[no-untyped-def]


def variadic(*args: int) -> None: ...


def keywords(**kwargs: int) -> None: ...


def positional(a: int, /) -> None: ...


def with_callable(a: int, callback: Callable[[], None]) -> None: ...


def with_shop(shop: Shop) -> None: ...


def unresolvable(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def generator(a: int) -> Iterator[int]:
    yield a


async def agenerator(a: int) -> AsyncIterator[int]:
    yield a


@proves("TOL-6")
@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (unannotated, ["'unannotated'", "'b'", "annotation"]),
        (Shop.price, ["'price'", "'self'", "bound method"]),
        (variadic, ["'variadic'", "*args"]),
        (keywords, ["'keywords'", "**kwargs"]),
        (positional, ["'positional'", "'a: int'", "positional-only"]),
        (with_callable, ["'with_callable'", "'callback'"]),
        (with_shop, ["'with_shop'", "'shop'", "Shop"]),
        (unresolvable, ["'unresolvable'", "Missing"]),
        (generator, ["'generator'", "list"]),
        (agenerator, ["'agenerator'", "list"]),
        (Shop, ["'Shop'", "expected a function"]),
        (print, ["'print'", "*args"]),
        (type.__call__, ["'__call__'"]),
        (dict.fromkeys, ["'fromkeys'", "positional-only"]),
        (min, ["'min'", "signature"]),
        (7, ["'int'", "expected a function, got 7"]),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name(fn: Any, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tool(fn)

    for word in words:
        assert word in str(caught.value)


class Broken:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        raise RuntimeError("no luck")


@proves("TOL-6")
def test_type_whose_pydantic_hook_raises_is_refused() -> None:
    def fn(ok: int, broken: Broken) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'fn'.*'broken'.*no luck"):
        tool(fn)


@proves("TOL-6")
def test_function_that_fails_as_a_whole_is_refused() -> None:
    def fn(a: int, b: Annotated[int, Field(alias="a")]) -> None: ...

    def discriminated(a: int = Field(discriminator="nothing")) -> None: ...

    assert list(schema_of(tool(fn))["properties"]) == ["a"]  # pydantic lets the later one win
    with pytest.raises(ConfigurationError, match="'discriminated'"):
        tool(discriminated)


@proves("TOL-6")
def test_return_annotation_is_not_needed() -> None:
    def fn(a: int) -> "OnlyForTypeCheckers":  # type: ignore[name-defined]  # noqa: F821
        return a

    assert tool(fn).name == "fn"


@proves("TOL-7")
@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, "a.b", "a\n", 7])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool name"):
        Tool(name, input_schema={}, execute=print)


@proves("TOL-7")
def test_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="name=") as caught:
        tool(lambda: 1)

    assert "<lambda>" in str(caught.value)
    assert tool(lambda: 1, name="one").name == "one"


@proves("TOL-7")
@pytest.mark.parametrize("timeout", [0, -1, math.nan, True, "3"])
def test_bad_timeouts_are_refused(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="'x': timeout must be"):
        Tool("x", input_schema={}, execute=print, timeout=timeout)


@proves("TOL-7")
@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_bad_character_limits_are_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="'x': max_output_chars must be"):
        Tool("x", input_schema={}, execute=print, max_output_chars=limit)


@proves("TOL-7")
@pytest.mark.parametrize("cap", [0, -1, 1.5, True])
def test_bad_caps_are_refused(cap: Any) -> None:
    with pytest.raises(ConfigurationError, match="'x': max_calls must be"):
        Tool("x", input_schema={}, execute=print, max_calls=cap)


@proves("TOL-7")
@pytest.mark.parametrize("flag", ["consequential", "exclusive", "use_validated_output"])
def test_flags_are_booleans(flag: str) -> None:
    settings: dict[str, Any] = {flag: 1}
    with pytest.raises(ConfigurationError, match=f"'x': {flag} must be a bool, got 1"):
        Tool("x", input_schema={}, execute=print, **settings)


@proves("TOL-1")
def test_the_decorator_passes_settings_on() -> None:
    made = tool(timeout=3, max_output_chars=9, consequential=True, exclusive=True, max_calls=2)(greet)
    assert (made.timeout, made.max_output_chars, made.consequential, made.exclusive, made.max_calls) == (
        3,
        9,
        True,
        True,
        2,
    )
    assert (tool(greet).consequential, tool(greet).exclusive, tool(greet).max_calls) == (False, False, None)
    with pytest.raises(TypeError, match="colour"):
        tool(greet, colour="red")  # type: ignore[call-overload]


@proves("TOL-7")
def test_endless_timeout_is_allowed() -> None:
    assert Tool("x", input_schema={}, execute=print, timeout=math.inf).timeout == math.inf


@proves("TOL-7")
def test_other_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'x': description"):
        Tool("x", description=7, input_schema={}, execute=print)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'x': execute"):
        Tool("x", input_schema={}, execute=7)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'x': use_validated_output needs an output_schema"):
        Tool("x", input_schema={}, execute=print, use_validated_output=True)
    with pytest.raises(ConfigurationError, match="'x': output_schema"):
        Tool("x", input_schema={}, execute=print, output_schema=Shop)


@proves("TOL-8")
def test_plain_schema_is_copied_and_completed() -> None:
    given: dict[str, Any] = {"properties": {"a": {"title": "kept"}}}
    made = Tool("x", input_schema=given, execute=print)
    given["properties"]["b"] = {}

    assert schema_of(made) == {"type": "object", "properties": {"a": {"title": "kept"}}}


@proves("TOL-8")
@pytest.mark.parametrize("schema", [{"type": "string"}, {"a": object()}, {"a": math.nan}])
def test_schema_of_no_object_or_no_json_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'x': input_schema"):
        Tool("x", input_schema=schema, execute=print)


@dataclass
class Where:
    place: str


class Which(TypedDict):
    number: int


@proves("TOL-8")
@pytest.mark.parametrize(
    ("described", "required"), [(Point, ["x", "title"]), (Where, ["place"]), (Which, ["number"]), (Node, None)]
)
def test_types_describe_the_input(described: type, required: list[str] | None) -> None:
    schema = schema_of(Tool("x", input_schema=described, execute=print))

    assert schema["type"] == "object"
    assert schema.get("required") == required
    assert "title" not in schema


@proves("TOL-8")
def test_type_whose_values_are_no_objects_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'x'.*object"):
        Tool("x", input_schema=RootModel[list[int]], execute=print)
    with pytest.raises(ConfigurationError, match=r"'x'.*JSON Schema"):
        Tool("x", input_schema=Shop, execute=print)


def passed_on(given: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    return given


@proves("TOL-9")
async def test_calling_the_tool_calls_the_function() -> None:
    shop = Shop()
    price = tool(shop.price)

    assert await price("tea") == "tea: 3"
    assert price.fn == shop.price
    assert tool(greet).fn is greet
    assert Tool("x", input_schema={}, execute=passed_on).fn is passed_on


@proves("TOL-10")
def test_tools_are_frozen_and_their_own_copies() -> None:
    made = tool(greet)

    with pytest.raises(FrozenInstanceError):
        made.name = "other"  # type: ignore[misc]
    assert copy.deepcopy([made])[0] is made
    assert copy.copy(made) is made
    assert repr(made).startswith("Tool(name='greet', description='Greet somebody.'")


def test_result_is_frozen() -> None:
    result = ToolResult("x")

    with pytest.raises(FrozenInstanceError):
        result.data = "y"  # type: ignore[misc]

"""Output schemas as the vendors take them."""

import copy
import json
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from openmultiagent.adapters._schema_dialects import (
    anthropic_schema,
    gemini_schema,
    openai_output_schema,
    openai_strict_schema,
    schema_name,
)
from tests.support import proves

STRING = {"type": "string"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(min_length=1)


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Everything(BaseModel):
    """All that a model may hold."""

    title: str = Field(description="What it is called.", max_length=20)
    colour: Colour = Colour.RED
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    pets: list[Cat | Dog] = Field(min_length=1)
    note: str | None = None
    when: Literal["now", "later"]
    home: Dog = Field(description="Its home.")


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def nodes(schema: object) -> list[dict[str, Any]]:
    """All schemas inside a schema."""
    if isinstance(schema, list):
        return [found for item in schema for found in nodes(item)]
    if not isinstance(schema, dict):
        return []
    inner = [
        found for key, value in schema.items() if key in ("properties", "$defs") for found in nodes([*value.values()])
    ]
    return [schema, *inner, *nodes([value for key, value in schema.items() if key in ("items", "anyOf")])]


# --- OpenAI ----------------------------------------------------------------------------------------------------------


@proves("MOD-50")
def test_the_strict_form_of_a_rich_model() -> None:
    strict = openai_strict_schema(Everything.model_json_schema())
    assert strict is not None
    for node in nodes(strict):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        if "$ref" in node:
            assert node.keys() == {"$ref"}
        assert not {"default", "oneOf", "allOf", "discriminator", "minLength", "maxLength"} & node.keys()
    properties = strict["properties"]
    assert properties["note"] == {"anyOf": [STRING, {"type": "null"}], "title": "Note"}
    assert properties["home"] == {"anyOf": [{"$ref": "#/$defs/Dog"}], "description": "Its home."}
    assert properties["pets"]["minItems"] == 1
    assert strict["$defs"]["Cat"]["properties"]["lives"] == {
        "minimum": 1,
        "maximum": 9,
        "title": "Lives",
        "type": "integer",
    }


@proves("MOD-50")
def test_an_optional_property_is_required_and_null_only_when_it_may_be() -> None:
    schema = obj({"a": {"type": "integer", "default": 3}, "b": {"type": ["string", "null"]}})
    strict = openai_strict_schema(schema)
    assert strict == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


@proves("MOD-50")
def test_a_recursive_model_gets_its_own_root() -> None:
    strict = openai_strict_schema(Node.model_json_schema())
    assert strict is not None
    assert strict["type"] == "object"
    assert strict["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert strict["$defs"]["Node"]["required"] == ["value", "children"]
    to_root = obj({"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}})
    made = openai_strict_schema(to_root)
    assert made is not None
    assert made["properties"]["next"]["anyOf"][0] == {"$ref": "#"}


@proves("MOD-50")
def test_definitions_of_the_older_name_are_kept() -> None:
    schema = {"definitions": {"A": obj({"x": STRING})}, **obj({"a": {"$ref": "#/definitions/A"}})}
    strict = openai_strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["a"] == {"$ref": "#/$defs/A"}
    assert strict["$defs"]["A"]["additionalProperties"] is False


@proves("MOD-50")
def test_an_all_of_with_one_member_is_that_member() -> None:
    strict = openai_strict_schema(obj({"a": {"allOf": [STRING], "description": "x"}}))
    assert strict is not None
    assert strict["properties"]["a"] == {"type": "string", "description": "x"}


NOT_STRICT = [
    obj({"a": {"type": "object"}}),
    obj({"a": {"type": "object", "additionalProperties": STRING}}),
    obj({"a": {"type": "object", "properties": {}, "additionalProperties": True}}),
    obj({"a": {"type": "array"}}),
    obj({"a": {"type": "array", "items": True}}),
    obj({"a": {"type": "array", "prefixItems": [STRING], "items": STRING}}),
    obj({"a": {}}),
    obj({"a": {"title": "A"}}),
    obj({"a": {"not": STRING}}),
    obj({"a": {"allOf": [STRING, {"minLength": 2}]}}),
    obj({"a": {"$ref": "https://example.com/schema"}}),
    obj({"a": {"$ref": 7}}),
    obj({"a": STRING}, patternProperties={"^x": STRING}),
]


@pytest.mark.parametrize("schema", NOT_STRICT)
@proves("MOD-50")
def test_what_has_no_strict_form_is_sent_as_it_is(schema: dict[str, Any]) -> None:
    assert openai_strict_schema(schema) is None
    assert openai_output_schema(schema) == {"name": "output", "schema": schema, "strict": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": STRING},
        STRING,
        {},
        {"anyOf": [obj({}), obj({"a": STRING})]},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "https://example.com"},
        {"type": "object", "x": object()},
    ],
)
@proves("MOD-50")
def test_what_is_no_object_is_not_sent(schema: dict[str, Any]) -> None:
    assert openai_output_schema(schema) is None


@proves("MOD-50")
def test_nesting_has_an_end() -> None:
    schema: dict[str, Any] = STRING
    for _ in range(100):
        schema = obj({"a": schema})
    assert openai_strict_schema(schema) is None
    assert gemini_schema(schema) is None
    assert anthropic_schema(schema) is None


@pytest.mark.parametrize(
    ("title", "name"),
    [("Trip Plan!", "Trip_Plan"), ("", "output"), ("行程", "output"), (None, "output"), ("x" * 100, "x" * 64)],
)
@proves("MOD-49")
def test_the_name_of_a_schema(title: str | None, name: str) -> None:
    assert schema_name({} if title is None else {"title": title}) == name


@proves("MOD-51")
def test_constraints_without_a_word_go_into_the_description() -> None:
    schema = obj({"a": {"type": "string", "minLength": 2, "format": "uri", "description": "An address."}})
    strict = openai_strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["a"] == {"type": "string", "description": 'An address. (minLength: 2, format: "uri")'}


@proves("MOD-51")
def test_a_format_with_a_word_stays() -> None:
    strict = openai_strict_schema(obj({"a": {"type": "string", "format": "date-time"}}))
    assert strict is not None
    assert strict["properties"]["a"] == {"type": "string", "format": "date-time"}


@pytest.mark.parametrize("dialect", [openai_strict_schema, openai_output_schema, gemini_schema, anthropic_schema])
@proves("MOD-51")
def test_the_given_schema_is_not_changed(dialect: Any) -> None:
    for schema in (Everything.model_json_schema(), Node.model_json_schema(), *NOT_STRICT):
        before = copy.deepcopy(schema)
        dialect(schema)
        assert schema == before
    assert dialect(MappingProxyType(obj({"a": MappingProxyType(STRING)}))) is not None


# --- Gemini ----------------------------------------------------------------------------------------------------------


@proves("MOD-52")
def test_a_rich_model_for_gemini() -> None:
    made = gemini_schema(Everything.model_json_schema())
    assert made is not None
    assert made["required"] == ["title", "pet", "pets", "when", "home"]
    assert made["properties"]["home"] == {"$ref": "#/$defs/Dog"}
    assert made["properties"]["pet"]["anyOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
    assert made["$defs"]["Cat"]["properties"]["kind"]["enum"] == ["cat"]
    assert made["properties"]["title"]["description"] == "What it is called. (maxLength: 20)"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        ({"type": "array", "items": True}, {"type": "array", "items": True}),
        ({"type": "array", "prefixItems": [STRING]}, {"type": "array", "prefixItems": [STRING]}),
        ({"enum": [True, False]}, {"description": "(enum: [true, false])"}),
        ({"const": None}, {"description": "(const: null)"}),
        (
            {"type": "string", "format": "uri", "pattern": "x"},
            {"type": "string", "format": "uri", "description": '(pattern: "x")'},
        ),
    ],
)
@proves("MOD-52")
def test_parts_of_a_schema_for_gemini(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert gemini_schema(schema) == expected


@proves("MOD-52")
def test_a_recursion_needs_a_way_out_for_gemini() -> None:
    assert gemini_schema(Node.model_json_schema()) is not None
    endless = {"$defs": {"A": obj({"a": {"$ref": "#/$defs/A"}}, "a")}, "$ref": "#/$defs/A"}
    assert gemini_schema(endless) is None
    assert gemini_schema(obj({"a": {"$ref": "#"}}, "a")) is None
    assert gemini_schema(obj({"a": {"$ref": "#"}})) is not None
    assert gemini_schema({"not": STRING}) is None


# --- Anthropic -------------------------------------------------------------------------------------------------------


@proves("MOD-53")
def test_a_rich_model_for_anthropic() -> None:
    made = anthropic_schema(Everything.model_json_schema())
    assert made is not None
    for node in nodes(made):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
    assert made["required"] == ["title", "pet", "pets", "when", "home"]
    assert made["properties"]["pets"]["minItems"] == 1
    assert made["$defs"]["Cat"]["properties"]["lives"]["description"] == "(minimum: 1, maximum: 9)"


@pytest.mark.parametrize(
    "schema",
    [
        Node.model_json_schema(),
        obj({"a": {"$ref": "#"}}),
        obj({"a": {"type": "object"}}),
        obj({"a": {"type": "array", "prefixItems": [STRING]}}),
        obj({"a": {"enum": [{"b": 1}]}}),
        obj({"a": {"const": [1]}}),
        obj({"a": {"title": "A"}}),
        obj({str(number): STRING for number in range(25)}),
        obj({str(number): {"type": ["string", "null"]} for number in range(17)}, *map(str, range(17))),
    ],
)
@proves("MOD-53")
def test_what_cannot_be_expressed_for_anthropic(schema: dict[str, Any]) -> None:
    assert anthropic_schema(schema) is None


@proves("MOD-53")
def test_the_limits_for_anthropic_are_allowed() -> None:
    assert anthropic_schema(obj({str(number): STRING for number in range(24)})) is not None
    unions = obj({str(number): {"anyOf": [STRING, {"type": "null"}]} for number in range(16)}, *map(str, range(16)))
    assert anthropic_schema(unions) is not None
    assert anthropic_schema({"type": "array", "items": STRING, "minItems": 5}) == {
        "type": "array",
        "items": STRING,
        "description": "(minItems: 5)",
    }


# --- types -----------------------------------------------------------------------------------------------------------

TYPES: list[Any] = [
    list[Cat],
    dict[str, Cat],
    Cat | None,
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Literal["a", 1],
    Colour,
    Node,
    Everything,
    tuple[int, str],
    Any,
    Mapping[str, Any],
]


@pytest.mark.parametrize("kind", TYPES)
@proves("MOD-50", "MOD-52", "MOD-53")
def test_every_kind_of_type_has_a_form_or_none(kind: Any) -> None:
    schema = TypeAdapter(kind).json_schema()
    for dialect in (openai_strict_schema, openai_output_schema, gemini_schema, anthropic_schema):
        json.dumps(dialect(schema))


_any_schema = st.recursive(
    st.sampled_from([STRING, {}, True, None, 7, {"$ref": "#/$defs/A"}, {"enum": [1, None]}, {"type": ["null", "x"]}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", 7]),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2) | inner,
            "required": st.just(["a"]),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2) | inner,
            "allOf": st.lists(inner, max_size=2) | inner,
            "additionalProperties": inner,
            "$defs": st.dictionaries(st.just("A"), inner, max_size=1),
        },
    ),
    max_leaves=6,
)


@given(_any_schema.filter(lambda schema: isinstance(schema, dict)))
@proves("MOD-50", "MOD-52", "MOD-53")
def test_no_schema_raises(schema: dict[str, Any]) -> None:
    for dialect in (openai_strict_schema, openai_output_schema, gemini_schema, anthropic_schema):
        dialect(schema)

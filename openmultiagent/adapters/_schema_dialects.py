"""An output schema as each vendor takes it: pure functions from JSON Schema to the subset that the vendor can enforce.

Not here: making schemas of types, and checking answers, which is always done against the whole schema. Invariants: the
given schema is not changed; what comes out allows nothing that the given schema does not, save for constraints that the
vendor has no word for, which go into the description; a schema that cannot be expressed gives None rather than one that
would be refused or mean something else.

The subsets are those of OpenAI's guide "Structured model outputs", of ``responseJsonSchema`` in the Gemini API
reference, and of Anthropic's page "Structured outputs", as of November 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._http_adapter import json_bytes

__all__ = [
    "anthropic_schema",
    "gemini_schema",
    "openai_output_schema",
    "openai_strict_schema",
    "schema_name",
    "with_schema_told",
]

Schema = dict[str, Any]

_MAX_DEPTH = 60
"""Deeper schemas are not sent: no vendor takes them."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_OPENAI_KEYWORDS = frozenset(
    {
        "type",
        "title",
        "description",
        "enum",
        "const",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)
_GEMINI_KEYWORDS = frozenset(
    {
        "$id",
        "$anchor",
        "type",
        "title",
        "description",
        "format",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "required",
        "propertyOrdering",
    }
)
_ANTHROPIC_KEYWORDS = frozenset({"type", "title", "description", "enum", "const"})
_ANTHROPIC_FORMATS = _FORMATS | {"uri"}
_CONSTRAINTS = (
    "enum",
    "const",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
"""What a description can say when a vendor has no word for it."""

_CONDITIONS = frozenset(
    {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"}
    | {"contains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"}
)
"""What changes the meaning of a schema so much that leaving it out would be wrong."""

_MAX_ANTHROPIC_OPTIONALS = 24
_MAX_ANTHROPIC_UNIONS = 16


_TOLD = """Answer with nothing but valid JSON that matches this JSON Schema:

{schema}"""


class _InexpressibleError(Exception):
    """The vendor has no words for the schema."""


def schema_name(schema: Mapping[str, Any]) -> str:
    """Return a name for a schema, of the characters and the length that OpenAI allows.

    Args:
        schema: The schema; its title is the name.
    """
    title = schema.get("title")
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", title).strip("_")[:64] or "output" if isinstance(title, str) else "output"


def with_schema_told(system: str | None, schema: Mapping[str, Any]) -> str:
    """Return a system text that tells the model about a schema that its provider cannot enforce.

    Args:
        system: The system text.
        schema: JSON Schema of the answer.

    Raises:
        ConfigurationError: The schema is no JSON data.
    """
    told = _TOLD.format(schema=json_bytes(dict(schema)).decode())
    return f"{system}\n\n{told}" if system else told


def openai_output_schema(schema: Mapping[str, Any]) -> Schema | None:
    """Return the name, the schema and the strictness that OpenAI is sent; None when it would refuse the schema.

    Args:
        schema: JSON Schema; OpenAI takes those of objects only.
    """
    strict = openai_strict_schema(schema)
    if strict is not None:
        return {"name": schema_name(schema), "schema": strict, "strict": True}
    try:
        root = _with_root(schema)
    except _InexpressibleError:
        return None
    return {"name": schema_name(schema), "schema": root, "strict": False} if root.get("type") == "object" else None


def openai_strict_schema(schema: Mapping[str, Any]) -> Schema | None:
    """Return a schema as OpenAI enforces it, or None when its strict mode cannot express it.

    Every property is required there: an optional one is always given, as what it may be, and as null only when the
    schema allows null. Objects are closed, so free-form ones cannot be expressed.

    Args:
        schema: JSON Schema of an object.
    """
    return _expressed(schema, _strict_node, keep_root=False)


def gemini_schema(schema: Mapping[str, Any]) -> Schema | None:
    """Return a schema for ``responseJsonSchema`` of the Gemini API, or None when it cannot be expressed.

    Args:
        schema: JSON Schema.
    """
    made = _expressed(schema, _gemini_node, keep_root=True)
    # A recursion is unrolled for some steps, so there must be a way out of it: a property that may be left out.
    return None if made is None or _is_recursive(made, through_optional=False) else made


def anthropic_schema(schema: Mapping[str, Any]) -> Schema | None:
    """Return a schema for Anthropic's ``output_config.format``, or None when it cannot be expressed.

    Recursive schemas and free-form objects cannot, nor can more than 24 optional properties or 16 unions.

    Args:
        schema: JSON Schema.
    """
    made = _expressed(schema, _anthropic_node, keep_root=True)
    if made is None or _is_recursive(made, through_optional=True):
        return None
    optionals, unions = _anthropic_counts(made)
    return made if optionals <= _MAX_ANTHROPIC_OPTIONALS and unions <= _MAX_ANTHROPIC_UNIONS else None


Node = Callable[[Schema, int], Schema]


def _expressed(schema: Mapping[str, Any], node: Node, *, keep_root: bool) -> Schema | None:
    try:
        root = _plain(schema) if keep_root else _with_root(schema)
        if not keep_root and root.get("type") != "object":
            return None
        definitions = root.pop("$defs", None) or root.pop("definitions", None) or {}
        made = node(root, 0)
        if definitions:
            made["$defs"] = {name: _node(node, definition, 1) for name, definition in definitions.items()}
    except _InexpressibleError:
        return None
    return made


def _plain(schema: Mapping[str, Any]) -> Schema:
    """Return a copy, of plain dicts and lists, that may be taken apart."""
    try:
        plain: Schema = json.loads(json.dumps(schema, default=_as_dict))
    except (TypeError, ValueError, RecursionError) as error:
        raise _InexpressibleError from error
    return plain


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _with_root(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with its own root: that of a recursive type is a reference into its definitions."""
    root = _plain(schema)
    if "$ref" not in root:
        return root
    definitions = root.get("$defs") or root.get("definitions") or {}
    target = definitions.get(_referred(root["$ref"]))
    if not isinstance(target, dict):
        raise _InexpressibleError
    return {**_plain(target), "$defs": definitions}


def _referred(ref: object) -> str:
    """Return the name of the definition that a reference is about; the schema's own root has the name ``""``."""
    match = re.fullmatch(r"#(?:/(?:\$defs|definitions)/([^/~%]+))?", ref) if isinstance(ref, str) else None
    if match is None:
        raise _InexpressibleError
    return match[1] or ""


def _node(node: Node, schema: object, depth: int) -> Schema:
    if not isinstance(schema, dict) or not schema or depth > _MAX_DEPTH:
        raise _InexpressibleError  # true, false and {}: anything or nothing
    return node(schema, depth)


def _alternatives(schema: Schema) -> list[Any] | None:
    """Return the members of a union; a discriminator says nothing that they do not say themselves."""
    members = schema.get("anyOf", schema.get("oneOf"))
    return members if isinstance(members, list) and members else None


def _merged(schema: Schema) -> Schema:
    """Return the schema without an ``allOf`` of one, which is a way to give a reference a description."""
    members = schema.get("allOf")
    if members is None:
        return schema
    if not isinstance(members, list) or len(members) != 1 or not isinstance(members[0], dict):
        raise _InexpressibleError
    return {**members[0], **{key: value for key, value in schema.items() if key != "allOf"}}


def _described(made: Schema, schema: Schema) -> Schema:
    """Return the made schema with what was left out of it told in its description."""
    told = {key: schema[key] for key in _CONSTRAINTS if key in schema and key not in made}
    if told:
        text = ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in told.items())
        made["description"] = " ".join(filter(None, [made.get("description"), f"({text})"]))
    return made


def _kept(schema: Schema, keywords: frozenset[str], formats: frozenset[str]) -> Schema:
    if _CONDITIONS & schema.keys():
        raise _InexpressibleError
    made = {key: value for key, value in schema.items() if key in keywords}
    if schema.get("format") in formats:
        made["format"] = schema["format"]
    return made


def _words(schema: Schema) -> Schema:
    return {key: schema[key] for key in ("title", "description") if key in schema}


# --- OpenAI ----------------------------------------------------------------------------------------------------------


def _strict_node(schema: Schema, depth: int) -> Schema:
    schema = _merged(schema)
    if "$ref" in schema:
        name = _referred(schema["$ref"])
        ref = {"$ref": f"#/$defs/{name}" if name else "#"}
        words = _words(schema)
        return {"anyOf": [ref], **words} if words else ref  # a reference may have nothing beside it
    made = _described(_kept(schema, _OPENAI_KEYWORDS, _FORMATS), schema)
    members = _alternatives(schema)
    if members is not None:
        made["anyOf"] = [_node(_strict_node, member, depth + 1) for member in members]
    elif not {"type", "enum", "const"} & made.keys():
        raise _InexpressibleError
    types = schema.get("type")
    if "object" in (types if isinstance(types, list) else [types]):
        made.update(_closed(schema, depth, _strict_node))
        made["required"] = list(made["properties"])
    if "array" in (types if isinstance(types, list) else [types]):
        made["items"] = _items(schema, depth, _strict_node)
    return made


def _closed(schema: Schema, depth: int, node: Node) -> Schema:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
        raise _InexpressibleError
    made = {name: _node(node, value, depth + 1) for name, value in properties.items()}
    return {"properties": made, "additionalProperties": False}


def _items(schema: Schema, depth: int, node: Node) -> Schema:
    if "prefixItems" in schema:
        raise _InexpressibleError
    return _node(node, schema.get("items"), depth + 1)


# --- Gemini ----------------------------------------------------------------------------------------------------------


def _gemini_node(schema: Schema, depth: int) -> Schema:
    if depth > _MAX_DEPTH:
        raise _InexpressibleError
    schema = _merged(schema)
    if "$ref" in schema:
        name = _referred(schema["$ref"])
        return {"$ref": f"#/$defs/{name}" if name else "#"}
    made = _kept(schema, _GEMINI_KEYWORDS, frozenset())
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and all(type(value) in (str, int, float) for value in values):
        made["enum"] = values
    _described(made, schema)
    members = _alternatives(schema)
    if members is not None:
        made["anyOf"] = [_open(member, depth) for member in members]
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: _open(value, depth) for name, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            made[key] = _open(schema[key], depth)
    if isinstance(schema.get("prefixItems"), list):
        made["prefixItems"] = [_open(item, depth) for item in schema["prefixItems"]]
    return made


def _open(schema: Any, depth: int) -> Any:
    """Return a part of a schema, which may be ``true``, ``false`` or ``{}``."""
    return _gemini_node(schema, depth + 1) if isinstance(schema, dict) else schema


# --- Anthropic -------------------------------------------------------------------------------------------------------


def _anthropic_node(schema: Schema, depth: int) -> Schema:
    schema = _merged(schema)
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{_referred(schema['$ref']) or _no_root()}"}
    made = _kept(schema, _ANTHROPIC_KEYWORDS, _ANTHROPIC_FORMATS)
    if schema.get("minItems") in (0, 1):
        made["minItems"] = schema["minItems"]
    _described(made, schema)
    members = _alternatives(schema)
    if members is not None:
        made["anyOf"] = [_node(_anthropic_node, member, depth + 1) for member in members]
    elif not {"type", "enum", "const"} & made.keys():
        raise _InexpressibleError
    if any(isinstance(value, dict | list) for value in [*schema.get("enum", ()), schema.get("const")]):
        raise _InexpressibleError
    types = schema.get("type")
    if "object" in (types if isinstance(types, list) else [types]):
        made.update(_closed(schema, depth, _anthropic_node))
        if schema.get("required"):
            made["required"] = schema["required"]
    if "array" in (types if isinstance(types, list) else [types]):
        made["items"] = _items(schema, depth, _anthropic_node)
    return made


def _no_root() -> str:
    raise _InexpressibleError  # a reference to the root is a recursion


def _is_recursive(schema: Schema, *, through_optional: bool) -> bool:
    """Return whether a schema refers to itself, or does so even without its optional properties."""
    parts = {**schema.get("$defs", {}), "": {key: value for key, value in schema.items() if key != "$defs"}}
    uses = {name: _references(part, through_optional=through_optional) for name, part in parts.items()}
    # Take away, again and again, the parts that use none of those left: what stays is on a circle, or uses one.
    while free := [name for name, used in uses.items() if not used & uses.keys()]:
        for name in free:
            del uses[name]
    return bool(uses)


def _references(schema: object, *, through_optional: bool) -> set[str]:
    found: set[str] = set()
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("$ref"), str):
            found.add(_referred(item["$ref"]))
        properties = item.get("properties")
        if isinstance(properties, dict) and not through_optional:
            pending.extend(properties[name] for name in item.get("required", ()) if name in properties)
            item = {key: value for key, value in item.items() if key != "properties"}
        pending.extend(item.values())
    return found


def _anthropic_counts(schema: object) -> tuple[int, int]:
    """Return the number of optional properties and of unions."""
    optionals = unions = 0
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        if not isinstance(item, dict):
            continue
        properties = item.get("properties")
        if isinstance(properties, dict) and item.get("additionalProperties") is False:
            optionals += len(properties) - len(set(item.get("required", ())) & properties.keys())
        unions += "anyOf" in item or isinstance(item.get("type"), list)
        pending.extend(item.values())
    return optionals, unions

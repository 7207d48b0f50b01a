"""Structured output: the model's answer as a value of the type that was asked for.

Whether the provider enforces the schema or the model is only told about it, the answer is always checked here. A schema
whose root is no object is wrapped in one, ``{"value": ...}``, since providers enforce objects only. Not here: the turn
loop, which feeds a failure back to the model.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from .._patterns import lazy_pattern
from .._shown import shown
from ..errors import ConfigurationError, StructuredOutputValidationError
from ..outcome import describe_error
from ..redaction import redact_start

__all__ = ["WRAPPER", "OutputFormat", "output_format"]

T = TypeVar("T", default=Any)

WRAPPER = "value"
"""Name of the only field of an object that a value is wrapped in."""
_MAX_ISSUES = 20
_MAX_REASON = 300
_MAX_STARTS = 200
"""Places in a text at which a JSON value is looked for."""
_FENCE = lazy_pattern(r"```(?:json)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_OPENING = lazy_pattern(r"[{\[]")
_DECODER = json.JSONDecoder()

_INSTRUCTION = """## Output Format (REQUIRED)
Your final answer must be ONLY valid JSON that matches this JSON Schema. No other text, no code fences, no comments.

{schema}"""

_CORRECTION = """Your answer does not match the required output format:

{issues}

Answer again with ONLY the corrected JSON."""


class OutputFormat(Generic[T]):
    """A type as the format of an answer.

    Args:
        kind: Any type that pydantic can describe, or a ``TypeAdapter``.

    Raises:
        ConfigurationError: Pydantic cannot describe it.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        if inspect.isroutine(kind) or isinstance(kind, Mapping | str | bytes | int | float):
            # Pydantic would describe a function's arguments, and fail on the others in ways of its own.
            raise ConfigurationError(
                f"output_schema must be a type or a TypeAdapter, got {type(kind).__name__}; "
                "for a JSON Schema, write the pydantic model that it describes"
            )
        try:
            self.adapter: TypeAdapter[T] = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
            schema = self.adapter.json_schema()
        except Exception as error:  # noqa: BLE001 - isolation boundary: the hooks of users' types, and the repr of anything
            why = describe_error(error)
            raise ConfigurationError(f"output_schema {shown(kind)} has no JSON Schema: {why}") from None
        self._wrapped = not _is_object(schema)
        self.schema: dict[str, Any] = _wrap(schema) if self._wrapped else schema
        """JSON Schema of the answer; its root is an object."""

    @property
    def is_wrapped(self) -> bool:
        """Whether the answer is an object with the value in it."""
        return self._wrapped

    def instruction(self) -> str:
        """Return what a model is told whose provider does not enforce the schema."""
        return _INSTRUCTION.format(schema=json.dumps(self.schema, indent=2, ensure_ascii=False))

    def correction(self, error: StructuredOutputValidationError) -> str:
        """Return what the model is told about an answer that did not match.

        Args:
            error: What ``read`` raised.
        """
        return _CORRECTION.format(issues=error.message)

    def failure(self, error: StructuredOutputValidationError, *, corrected: bool) -> StructuredOutputValidationError:
        """Return what fails a run whose answer does not match: it has the first fault, and nothing of the answer.

        Args:
            error: What ``read`` raised.
            corrected: Whether the answer was given back to the model before.
        """
        what = "Structured output validation failed" + (" after retry" if corrected else "")
        reason = "the answer holds no JSON"
        if isinstance(error.cause, ValidationError):
            (reason,) = _lines(error.cause, 1)
        return StructuredOutputValidationError(f"{what}: {redact_start(reason, _MAX_REASON)}", cause=error)

    def read(self, text: str) -> T:
        """Return the value in an answer.

        Args:
            text: The text of the answer; JSON, possibly in a fence or between prose.

        Raises:
            StructuredOutputValidationError: There is no JSON in it, or it does not match.
        """
        failure: ValidationError | None = None
        for candidate in _candidates(text):
            try:
                return self._validated(candidate)
            except ValidationError as error:
                failure = failure or error  # the first candidate is the likeliest
        if failure is None:
            raise StructuredOutputValidationError(f"Failed to extract JSON from the answer: {text[:100]!r}")
        raise StructuredOutputValidationError(f"Output validation failed:\n{_issues(failure)}", cause=failure)

    def _validated(self, candidate: str) -> T:
        if self._wrapped:
            value = json.loads(candidate)
            if isinstance(value, dict) and set(value) == {WRAPPER}:
                candidate = json.dumps(value[WRAPPER])
        return self.adapter.validate_json(candidate)


def output_format(kind: Any) -> OutputFormat[Any]:
    """Return the format of a type; formats are kept, since describing a large type takes milliseconds.

    Args:
        kind: As for ``OutputFormat``.

    Raises:
        ConfigurationError: Pydantic cannot describe it.
    """
    try:
        hash(kind)
    except TypeError:
        return OutputFormat(kind)
    return _kept(kind)


@lru_cache(maxsize=256)
def _kept(kind: Any) -> OutputFormat[Any]:
    return OutputFormat(kind)


def _is_object(schema: dict[str, Any]) -> bool:
    root = schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        root = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return root.get("type") == "object"


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
    }
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped


def _candidates(text: str) -> Iterator[str]:
    """Yield the JSON values that a text may mean, the likeliest first."""
    stripped = text.strip()
    if _is_json(stripped):
        yield stripped
        return
    for fenced in _FENCE.findall(text):
        if _is_json(fenced.strip()):
            yield fenced.strip()
    # Then the outermost brackets that hold valid JSON, from the left.
    position = 0
    for _ in range(_MAX_STARTS):
        found = _OPENING.search(text, position)
        if found is None:
            return
        try:
            _, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position = found.end()
            continue
        yield text[found.start() : end]
        position = end


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _issues(error: ValidationError) -> str:
    lines = [f"- {line}" for line in _lines(error, _MAX_ISSUES)]
    if error.error_count() > _MAX_ISSUES:
        lines.append(f"- ... and {error.error_count() - _MAX_ISSUES} more")
    return "\n".join(lines)


def _lines(error: ValidationError, most: int) -> list[str]:
    issues = error.errors(include_url=False, include_context=False, include_input=False)[:most]
    return [f"{_path(issue['loc'])}: {issue['msg']}" for issue in issues]


def _path(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return path.removeprefix(".") or "(root)"

"""What a tool hands back, and how it becomes text for the model.

Not here: running tools. Invariant: whatever a tool returned, ``as_tool_result`` gives a well-formed ``ToolResult``
and never raises, so that a fault of a tool is something that the model can read. ``data`` is the application's own:
it is passed on by identity, never copied and never shown to the model unless it is text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from .._record import record
from ..messages import (
    ToolResultContent,
    ToolResultPart,
    copy_tool_result_content,
    replace_lone_surrogates,
    summarize_tool_result,
)

__all__ = [
    "ToolResult",
    "as_tool_result",
    "describe_error",
    "error_result",
    "issue_lines",
    "record_output",
    "result_content",
    "truncate_tool_output",
]

_MAX_ISSUES = 20
"""Faults that are listed in one text; a model mends no more than that at a time."""

_HEAD_SHARE = 7
"""Tenths of the room that go to the start of a text that is cut; the rest goes to its end."""


ToolOutput = str | Sequence[ToolResultPart | Mapping[str, Any]]
"""What a tool may give the model to read: text, or parts, each a part object or a mapping with its fields."""


@record
class ToolResult:
    """The outcome of one tool call.

    Return it from a tool to tell the model something else than the application gets, to report a failure without
    raising, or to answer with images and files.
    """

    data: object
    """The result as the application sees it. It is also what the model reads, when it is a ``str``."""
    _: KW_ONLY
    model_output: ToolOutput | None = None
    """What the model reads instead of ``data``: text, or a list of text, image and file parts (objects or mappings)."""
    is_error: bool = False
    """Whether the call failed; ``data`` is then the text that says why."""
    metadata: Mapping[str, Any] | None = None
    """Facts for the application; the model never sees them."""


def error_result(text: str) -> ToolResult:
    """Return a failure that the model reads as a text.

    Args:
        text: What went wrong, and what the model can do about it.
    """
    return ToolResult(text, is_error=True)


def as_tool_result(
    tool_name: str,
    returned: object,
    *,
    output: TypeAdapter[Any] | None = None,
    use_validated: bool = False,
    limit: int | None = None,
) -> ToolResult:
    """Return what a tool (or a middleware around it) returned as a well-formed result; never raises.

    A ``ToolResult`` stays itself, a ``str`` is its own text, anything else is ``data`` with its JSON as
    ``model_output``.

    Args:
        tool_name: Named in the text of a fault.
        returned: What the tool returned.
        output: What ``data`` must be valid for, unless the result is an error.
        use_validated: Whether ``data`` becomes what ``output`` made of it.
        limit: The most characters of a text that the model gets; None for no limit. Never applied to a
            ``model_output`` that the tool gave itself.
    """
    if isinstance(returned, ToolResult):
        return _checked(tool_name, returned, output, use_validated=use_validated, limit=limit)
    validated, fault = _validated(returned, output)
    if fault is not None:
        return _invalid(tool_name, fault, limit)
    if use_validated:
        returned = validated
    if isinstance(returned, str):
        return ToolResult(_cut(returned, limit))
    try:
        text = _json_text(returned)
    except Exception as error:  # noqa: BLE001 - a tool's own serialisers run here, and may raise anything
        what = f'Tool "{tool_name}" returned {_article(type(returned).__name__)}, which cannot become JSON'
        return error_result(_cut(f"{what} ({describe_error(error)}); return a str, JSON data or a ToolResult", limit))
    return ToolResult(returned, model_output=_cut(text, limit))


def result_content(result: ToolResult) -> tuple[ToolResultContent, bool]:
    """Return what goes into the tool result block of the conversation, and whether it is an error.

    The content is a copy of its own and holds no lone surrogates.

    Args:
        result: A result that ``as_tool_result`` (or the executor) made.
    """
    content = result.data if result.model_output is None else result.model_output
    if isinstance(content, str):
        return replace_lone_surrogates(content), result.is_error
    return copy_tool_result_content(content, "model_output"), result.is_error


def record_output(result: ToolResult) -> str:
    """Return the text that records, traces and logs keep of a result: media become placeholders, data never appears.

    Args:
        result: A result that ``as_tool_result`` (or the executor) made.
    """
    content, _ = result_content(result)
    return content if isinstance(content, str) else summarize_tool_result(content)


def truncate_tool_output(text: str, limit: int) -> str:
    """Return a text cut to a limit: its start, a note about what is missing, and its end.

    Args:
        text: The text.
        limit: The most characters of the answer. If not even the note fits, the answer is the start alone.
    """
    if len(text) <= limit:
        return text
    room = limit - len(_omission(len(text)))
    if room <= 0:
        return text[:limit]
    head = room * _HEAD_SHARE // 10
    tail = room - head
    return f"{text[:head]}{_omission(len(text) - head - tail)}{text[-tail:]}"


def describe_error(error: BaseException) -> str:
    """Return type and message of an error in one line, without traceback; a group tells what is in it.

    Args:
        error: Any exception, also one whose ``str`` fails.
    """
    leaves: list[BaseException] = []
    pending = [error]
    while pending and len(leaves) < _MAX_ISSUES:
        item = pending.pop()
        if isinstance(item, BaseExceptionGroup):
            pending.extend(reversed(item.exceptions))
        else:
            leaves.append(item)
    texts = [_describe_one(leaf) for leaf in leaves]
    return "; ".join([*texts, "..."] if pending else texts)


def issue_lines(error: ValidationError) -> str:
    """Return one line per fault, each with its path, such as ``- items[0].price: Input should be ...``.

    Args:
        error: What pydantic found.
    """
    issues = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"- {_path(issue['loc'])}: {issue['msg']}" for issue in issues[:_MAX_ISSUES]]
    if len(issues) > _MAX_ISSUES:
        lines.append(f"- ... and {len(issues) - _MAX_ISSUES} more")
    return "\n".join(lines)


def _checked(
    tool_name: str, result: ToolResult, output: TypeAdapter[Any] | None, *, use_validated: bool, limit: int | None
) -> ToolResult:
    fault = _shape_fault(result.data, result.model_output, result.is_error, result.metadata)
    if fault is None and not result.is_error:
        validated, fault = _validated(result.data, output)
        if use_validated and fault is None:
            result = replace(result, data=validated)
    if fault is not None:
        return _invalid(tool_name, fault, limit)
    if result.model_output is not None:
        try:
            content = copy_tool_result_content(replace_lone_surrogates(result.model_output), "model_output")
        except Exception as error:  # noqa: BLE001 - what a tool calls its output may be any object
            return _invalid(tool_name, f" {error}", limit)
        return replace(result, model_output=content)
    if isinstance(result.data, str):
        text = _cut(result.data, limit)
        return result if text is result.data else replace(result, data=text)
    return _invalid(tool_name, " non-string ToolResult.data requires model_output", limit)


def _shape_fault(data: object, model_output: object, is_error: object, metadata: object) -> str | None:
    if not isinstance(is_error, bool):
        return " ToolResult.is_error must be a boolean"
    if metadata is not None and not isinstance(metadata, Mapping):
        return " ToolResult.metadata must be a mapping"
    if is_error and not isinstance(data, str):
        return " error ToolResult.data must be a string"
    if is_error and model_output is not None and not isinstance(model_output, str):
        return " error model_output must be a string"
    return None


def _validated(data: object, output: TypeAdapter[Any] | None) -> tuple[object, str | None]:
    """Return what the schema makes of the data and None, or anything and what is wrong."""
    if output is None:
        return data, None
    try:
        return output.validate_python(data), None
    except ValidationError as error:
        return data, f"\n{issue_lines(error)}"
    except Exception as error:  # noqa: BLE001 - a user's own validators run here, and may raise anything
        return data, f" {describe_error(error)}"


def _invalid(tool_name: str, fault: str, limit: int | None) -> ToolResult:
    return error_result(_cut(f'Invalid output for tool "{tool_name}":{fault}', limit))


def _json_text(value: object) -> str:
    # A generator would be run to its end here, on the event loop, and be of no use to the application afterwards.
    if isinstance(value, Generator | AsyncGenerator):
        raise TypeError("a generator is not a value")
    try:
        return to_json(value, inf_nan_mode="null").decode()
    except (ValueError, TypeError):
        # Lone surrogates are no UTF-8. This slower way keeps them, and they are replaced when the text goes to the
        # model.
        return json.dumps(value, default=to_jsonable_python, ensure_ascii=False, separators=(",", ":"))


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None else truncate_tool_output(text, limit)


def _omission(count: int) -> str:
    return f"\n\n[...truncated {count} characters...]\n\n"


def _describe_one(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str.__str__(str(error))  # of a subclass only the characters
    except Exception:  # noqa: BLE001 - the error is a user's, and so is its __str__
        text = ""
    return f"{name}: {text}" if text else name


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".") or "input"


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"

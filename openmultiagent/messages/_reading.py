"""Reading values that should be models: models themselves, changed since they were made or not, and mappings like them.

A reader returns the very object that it got when that is a valid model through and through, and makes a new one of
known keys otherwise; a fault is raised as a ``Fault`` whose place is relative to the value. Invariant: nothing that is
read is changed, and what has been read needs no further check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ._base import Model
from ._clone import Checked, assemble, clone_model
from ._faults import Fault, json_type
from ._json import check_unicode, plain_json
from ._media import media_type_fault
from ._parts import ToolResultContent, ToolResultFilePart, ToolResultImagePart, ToolResultPart, ToolResultTextPart
from ._sources import Base64Source, UrlSource, check_base64, check_url

__all__ = [
    "fields_of",
    "kind_of",
    "read_filename",
    "read_optional_text",
    "read_source",
    "read_text",
    "read_tool_result_content",
    "same_or_made",
]

M = TypeVar("M", bound=Model)

Fields = Mapping[Any, Any]


def fields_of(value: object) -> Fields | None:
    """Return a model's fields, or the mapping that stands for one; None for anything else.

    Args:
        value: Anything.
    """
    cls = type(value)
    if cls is dict or Model in cls.__mro__:  # isinstance would cost pydantic's classes ten times as much
        return value if cls is dict else value.__dict__  # type: ignore[return-value]
    return dict(value) if isinstance(value, Mapping) else None


def kind_of(fields: Fields) -> str | None:
    """Return the ``type`` of a block, part or source; None when it is no string.

    Args:
        fields: Its fields.
    """
    kind = fields.get("type")
    return str.__str__(kind) if isinstance(kind, str) else None


def same_or_made(value: object, cls: type[M], made: dict[str, Any], *, checked: str | None = None) -> M:
    """Return the model that was read if it holds what was read, else a new one that does.

    Args:
        value: What was read: a model or a mapping.
        cls: The class that it should be of; an instance of a subclass keeps its class.
        made: All fields of the class, as they were read.
        checked: For a source, the string that was checked.

    Raises:
        Fault: A subclass's own field is not JSON-like.
    """
    if not isinstance(value, cls):
        return assemble(cls, made, private=None if checked is None else {"_checked": Checked(checked)})
    if type(value) is not cls:
        _check_subclass(value, made)
    fields = value.__dict__
    for name, item in made.items():
        if fields.get(name) is not item:
            changed = clone_model(value)
            changed.__dict__.update(made)
            return changed
    return value


def _check_subclass(value: Model, known: dict[str, Any]) -> None:
    for name, item in {**value.__dict__, **(value.__pydantic_extra__ or {})}.items():
        if name not in known:
            try:
                plain_json(item)
            except Fault as fault:
                raise fault.within(f".{name}") from None


def read_text(fields: Fields, name: str) -> str:
    """Return a field that must be a string that can be sent.

    Args:
        fields: The fields of a block or part.
        name: The field.

    Raises:
        Fault: It is not.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        raise Fault("must be a string", f".{name}")
    if not value.isascii():
        try:
            check_unicode(value)
        except Fault as fault:
            raise fault.within(f".{name}") from None
    return str.__str__(value)


def read_optional_text(fields: Fields, name: str) -> str | None:
    """Return a field that must be a string that can be sent, or None.

    Args:
        fields: The fields of a block.
        name: The field.

    Raises:
        Fault: It is neither.
    """
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Fault("must be a string when provided", f".{name}")
    return None if value is None else read_text(fields, name)


def read_filename(fields: Fields) -> str:
    """Return the name of a file, which must not be blank.

    Args:
        fields: The fields of a block or part.

    Raises:
        Fault: It is.
    """
    value = fields.get("filename")
    if not isinstance(value, str) or not value.strip():
        raise Fault("must be a non-empty string", ".filename")
    return read_text(fields, "filename")


def read_source(fields: Fields, *, typed: bool) -> Base64Source | UrlSource:
    """Return the media source of a block or part.

    Args:
        fields: The fields of the block or part.
        typed: Whether a URL needs a media type too.

    Raises:
        Fault: It is no valid source.
    """
    try:
        return _read_source(fields.get("source"), typed=typed)
    except Fault as fault:
        raise fault.within(".source") from None


def _read_source(value: object, *, typed: bool) -> Base64Source | UrlSource:
    fields = fields_of(value)
    if fields is None:
        raise Fault("must be a media source object")
    kind = kind_of(fields)
    media_type = fields.get("media_type")
    if typed or kind != "url" or media_type is not None:
        fault = media_type_fault(media_type)
        if fault is not None:
            raise Fault(fault, ".media_type")
        media_type = str.__str__(media_type)
    if kind == "base64":
        data = check_base64(value, fields.get("data"))
        return same_or_made(value, Base64Source, {"type": kind, "media_type": media_type, "data": data}, checked=data)
    if kind == "url":
        url = check_url(value, fields.get("url"))
        return same_or_made(value, UrlSource, {"type": kind, "url": url, "media_type": media_type}, checked=url)
    raise Fault('must be "base64" or "url"', ".type")


def read_tool_result_content(value: object) -> ToolResultContent:
    """Return the content of a tool result.

    Args:
        value: A string, or a non-empty list of parts or mappings that look like parts.

    Raises:
        Fault: It is neither.
    """
    if isinstance(value, str):
        check_unicode(value)
        return str.__str__(value)
    if not isinstance(value, list | tuple):
        raise Fault(f"must be a string or a non-empty content-part array, got {json_type(value)}")
    if not value:
        raise Fault("must not be an empty content-part array")
    parts = []
    same = type(value) is list
    for index, item in enumerate(value):
        try:
            part = _read_part(item)
        except Fault as fault:
            raise fault.within(f"[{index}]") from None
        parts.append(part)
        same = same and part is item
    return value if same else parts  # type: ignore[return-value]  # all its items are parts


def _read_part(value: object) -> ToolResultPart:
    fields = fields_of(value)
    if fields is None:
        raise Fault("must be a content-part object")
    kind = kind_of(fields)
    if kind == "text":
        return same_or_made(value, ToolResultTextPart, {"type": kind, "text": read_text(fields, "text")})
    if kind == "image":
        return same_or_made(value, ToolResultImagePart, {"type": kind, "source": read_source(fields, typed=True)})
    if kind == "file":
        filename = read_filename(fields)
        source = read_source(fields, typed=True)
        return same_or_made(value, ToolResultFilePart, {"type": kind, "filename": filename, "source": source})
    raise Fault('must be "text", "image", or "file"', ".type")

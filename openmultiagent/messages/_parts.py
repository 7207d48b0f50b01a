"""What a tool result can hold besides plain text: parts with text, images and files."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from ._base import Model
from ._clone import copy_structurally
from ._faults import Fault
from ._sources import Base64Source, MediaSource, Text, UrlSource

__all__ = [
    "Filename",
    "ToolResultContent",
    "ToolResultFilePart",
    "ToolResultImagePart",
    "ToolResultPart",
    "ToolResultTextPart",
]


def _checked_filename(value: str) -> str:
    if not value.strip():
        raise Fault("must be a non-empty string")
    return value


Filename = Annotated[Text, AfterValidator(_checked_filename)]


def _with_media_type(source: Base64Source | UrlSource) -> Base64Source | UrlSource:
    if source.media_type is None:
        raise Fault("must be a non-empty string", ".media_type")
    return source


_TypedSource = Annotated[MediaSource, AfterValidator(_with_media_type)]


class ToolResultTextPart(Model):
    """Text in a tool result."""

    type: Literal["text"] = "text"
    text: Text

    @classmethod
    def new(cls, text: str) -> Self:
        """Make a text part.

        Args:
            text: The text, possibly empty.

        Raises:
            InvalidMessageError: It is no string.
        """
        return cls(text=text)


class ToolResultImagePart(Model):
    """An image in a tool result."""

    type: Literal["image"] = "image"
    source: _TypedSource
    """Where the image is; its media type is needed."""

    @classmethod
    def new(cls, source: Base64Source | UrlSource) -> Self:
        """Make an image part.

        Args:
            source: Where the image is; its media type is needed.

        Raises:
            InvalidMessageError: The source has no media type.
        """
        return cls(source=source)


class ToolResultFilePart(Model):
    """A file in a tool result."""

    type: Literal["file"] = "file"
    filename: Filename
    source: _TypedSource
    """Where the file is; its media type is needed."""

    @classmethod
    def new(cls, filename: str, source: Base64Source | UrlSource) -> Self:
        """Make a file part.

        Args:
            filename: The name to show, not blank.
            source: Where the file is; its media type is needed.

        Raises:
            InvalidMessageError: The name is blank, or the source has no media type.
        """
        return cls(filename=filename, source=source)


copy_structurally(ToolResultTextPart, ToolResultImagePart, ToolResultFilePart)

ToolResultPart = Annotated[ToolResultTextPart | ToolResultImagePart | ToolResultFilePart, Field(discriminator="type")]
"""Any part of a tool result."""

ToolResultContent = str | list[ToolResultPart]
"""What a tool result holds: text, or a non-empty list of parts."""

"""Images in messages, and the ways to make one: from a URL, a data URI, base64 text or a file."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

import anyio.to_thread
from pydantic import field_validator, model_validator

from .._log import get_logger
from .._shown import shown
from ..errors import InvalidMessageError
from ._base import Model
from ._clone import Checked, assemble, copy_structurally, share
from ._faults import Fault
from ._media import (
    LONG_BASE64,
    LONG_URL,
    check_image_base64,
    check_image_media_type,
    check_image_url,
    check_image_url_text,
    image_media_type_fault,
    split_data_uri,
)
from ._sources import Base64Source, MediaSource, UrlSource

__all__ = ["ImageBlock", "ImageDetail", "source_from_url"]

_log = get_logger(__name__)

_EXTENSIONS = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "svg": "image/svg+xml",
}


class ImageDetail(StrEnum):
    """With which resolution a model looks at an image, and so what it costs."""

    LOW = "low"
    HIGH = "high"
    AUTO = "auto"


IMAGE_DETAILS: Mapping[object, ImageDetail] = {detail.value: detail for detail in ImageDetail}
"""Each detail by its word; the class itself shows a word that it does not know, whatever that does."""


share(ImageDetail)


class ImageBlock(Model):
    """An image."""

    type: Literal["image"] = "image"
    source: MediaSource
    detail: ImageDetail = ImageDetail.AUTO

    @model_validator(mode="before")
    @classmethod
    def _accept_url(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "url" in data and "source" not in data:
            return {**data, "source": source_from_url(data["url"])}
        return data

    @field_validator("source")
    @classmethod
    def _source_is_an_image(cls, source: Base64Source | UrlSource) -> Base64Source | UrlSource:
        fault = None if source.media_type is None else image_media_type_fault(source.media_type)
        if fault is not None:
            raise Fault(fault, ".media_type")
        return source

    @property
    def url(self) -> str:
        """The image's URL; for base64 text, its data URI, spelled as it was given."""
        if isinstance(self.source, UrlSource):
            return self.source.url
        data = self.source.data
        checked = self.source._checked  # noqa: SLF001 - the memory of its own source
        scheme = checked.scheme if checked is not None and checked.text is data else "data"
        return f"{scheme}:{self.source.media_type};base64,{data}"

    def with_detail(self, detail: ImageDetail | str) -> Self:
        """Return a copy of the image with another detail; this one stays as it is.

        Args:
            detail: ``low``, ``high`` or ``auto``.

        Raises:
            InvalidMessageError: It is none of them.
        """
        given: object = detail
        wanted = IMAGE_DETAILS.get(given) if isinstance(given, str) else None
        if wanted is None:
            raise InvalidMessageError(f"image detail must be one of low, high, auto, got {shown(detail)}")
        made = self.__deepcopy__()
        made.detail = wanted
        return made

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make an image of an HTTP(S) URL or a data URI.

        Args:
            url: ``http://...``, ``https://...`` or ``data:image/TYPE;base64,DATA``.

        Raises:
            InvalidMessageError: It is empty, has control characters, or is of another form.
        """
        return cls(source=source_from_url(url))

    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Self:
        """Make an image of base64 text.

        Args:
            data: Padded base64 text.
            mime_type: ``image/png`` and the like, without parameters.

        Raises:
            InvalidMessageError: One of them is not as it must be.
        """
        check_image_base64(data)
        check_image_media_type(mime_type)
        return cls(source=_checked_base64(mime_type, data))

    @classmethod
    def from_file_path(cls, path: str | os.PathLike[str]) -> Self:
        """Read an image from a file, now; blocks, so not for a coroutine.

        Args:
            path: Where the image is; its extension says of which kind.

        Raises:
            InvalidMessageError: The extension is missing or unknown, or the file is empty or cannot be read.
        """
        media_type = _media_type_of(Path(path))
        try:
            content = Path(path).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidMessageError(f"Failed to read image file '{path}': {reason}") from error
        if not content:
            raise InvalidMessageError(f"image file '{path}' cannot be empty")
        return cls.from_base64(base64.b64encode(content).decode("ascii"), media_type)

    @classmethod
    async def from_file_path_async(cls, path: str | os.PathLike[str]) -> Self:
        """Read an image from a file in a worker thread.

        Args:
            path: Where the image is; its extension says of which kind.

        Raises:
            InvalidMessageError: The extension is missing or unknown, or the file is empty or cannot be read.
        """
        return await anyio.to_thread.run_sync(cls.from_file_path, path)


copy_structurally(ImageBlock)


def source_from_url(url: object) -> Base64Source | UrlSource:
    """Return the source that an HTTP(S) URL or an image's data URI stands for.

    Args:
        url: Anything.

    Raises:
        InvalidMessageError: It is neither.
    """
    text = check_image_url_text(url)
    if text[:5].lower() == "data:":
        scheme, media_type, data = split_data_uri(text)
        return _checked_base64(media_type, data, scheme)
    check_image_url(text)
    if len(text) > LONG_URL:
        _log.warning("long_image_url", url=text[:100], characters=len(text))
    return UrlSource(url=text)


def _checked_base64(media_type: str, data: str, scheme: str = "data") -> Base64Source:
    if len(data) > LONG_BASE64:
        decoded_mb = round(len(data) * 0.75 / 1e6, 1)
        _log.warning("large_image", media_type=media_type, characters=len(data), decoded_mb=decoded_mb)
    fields = {"type": "base64", "media_type": str.__str__(media_type), "data": str.__str__(data)}
    return assemble(Base64Source, fields, private={"_checked": Checked(fields["data"], scheme)})


def _media_type_of(path: Path) -> str:
    extension = path.suffix.removeprefix(".")
    if not extension:
        raise InvalidMessageError(f"image file '{path}' must have a file extension, one of {', '.join(_EXTENSIONS)}")
    media_type = _EXTENSIONS.get(extension.lower())
    if media_type is None:
        known = ", ".join(_EXTENSIONS)
        raise InvalidMessageError(f"Unsupported image file extension: .{extension} in '{path}'; supported: {known}")
    return media_type

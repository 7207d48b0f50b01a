"""Where the bytes of an image or a file come from: base64 text or a URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, StrictStr, model_validator

from ._base import Model
from ._clone import Checked, copy_structurally
from ._faults import Fault
from ._json import check_unicode
from ._media import base64_fault, media_type_fault, url_fault

__all__ = ["Base64Source", "MediaSource", "Text", "UrlSource", "check_base64", "check_url"]


def _checked_unicode(text: str) -> str:
    if not text.isascii():
        check_unicode(text)
    return text


Text = Annotated[StrictStr, AfterValidator(_checked_unicode)]
"""A string that can be sent: without lone surrogates."""


def _checked_media_type(value: str) -> str:
    fault = media_type_fault(value)
    if fault is not None:
        raise Fault(fault)
    return value


MediaType = Annotated[StrictStr, AfterValidator(_checked_media_type)]


class _Excerpt:
    """The start of a long text, for logs and tracebacks."""

    def __init__(self, text: object) -> None:
        self._text = text

    def __repr__(self) -> str:
        if not isinstance(self._text, str) or len(self._text) <= 100:
            return repr(self._text)
        return f"{self._text[:100]!r}... ({len(self._text)} characters)"


class _Source(Model):
    """A source remembers the string that it was checked with, so that it is not read again until it holds another."""

    _checked: Checked | None = PrivateAttr(default=None)

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            yield name, _Excerpt(value) if name in {"data", "url"} else value


class Base64Source(_Source):
    """Bytes written as base64 text."""

    type: Literal["base64"] = "base64"
    media_type: MediaType
    """MIME type without parameters."""
    data: StrictStr
    """Raw base64 text, without the prefix of a data URI."""

    @classmethod
    def new(cls, media_type: str, data: str) -> Self:
        """Make a source of base64 text.

        Args:
            media_type: MIME type without parameters.
            data: Raw base64 text.

        Raises:
            InvalidMessageError: One of them is not as it must be.
        """
        return cls(media_type=media_type, data=data)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_base64(self, self.data)
        return self


class UrlSource(_Source):
    """Bytes that the provider fetches over HTTP or HTTPS."""

    type: Literal["url"] = "url"
    url: StrictStr
    """Absolute HTTP(S) URL without user info; a data URI becomes a ``Base64Source``, see ``ImageBlock.from_url``."""
    media_type: MediaType | None = None
    """MIME type without parameters; needed inside of tool results."""

    @classmethod
    def new(cls, url: str, media_type: str | None = None) -> Self:
        """Make a source of a URL.

        Args:
            url: Absolute HTTP(S) URL.
            media_type: MIME type of what is there.

        Raises:
            InvalidMessageError: One of them is not as it must be.
        """
        return cls(url=url, media_type=media_type)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_url(self, self.url)
        return self


copy_structurally(Base64Source, UrlSource)

MediaSource = Annotated[Base64Source | UrlSource, Field(discriminator="type")]
"""Where the bytes of an image or a file come from."""


def check_base64(source: object, data: object) -> str:
    """Return base64 text, checked unless the source that holds it remembers that very string.

    Args:
        source: The source, or the mapping that stands for one.
        data: Its text.

    Raises:
        Fault: It is no base64 text; the place is ``.data``.
    """
    return _checked_text(source, data, base64_fault, ".data")


def check_url(source: object, url: object) -> str:
    """Return a URL, checked unless the source that holds it remembers that very string.

    Args:
        source: The source, or the mapping that stands for one.
        url: Its URL.

    Raises:
        Fault: It is no absolute HTTP(S) URL; the place is ``.url``.
    """
    return _checked_text(source, url, url_fault, ".url")


def _checked_text(source: object, value: object, rule: Callable[[object], str | None], place: str) -> str:
    private = source.__pydantic_private__ if isinstance(source, _Source) else None
    checked = None if private is None else private.get("_checked")
    if isinstance(checked, Checked) and checked.text is value:
        return checked.text
    fault = rule(value)
    if fault is not None or not isinstance(value, str):
        raise Fault(fault or "must be a string", place)
    text = str.__str__(value)
    if private is not None:
        private["_checked"] = Checked(text)
    return text

"""The rules for media: MIME types, base64 texts, URLs and data URIs, as functions over strings.

Not here: models. A rule returns what is wrong, or None. Invariant: every check takes time in proportion to the text,
and is written with ASCII classes, so that no other script's digits or letters pass.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from .._patterns import lazy_pattern
from ..errors import InvalidMessageError

__all__ = [
    "LONG_BASE64",
    "LONG_URL",
    "base64_fault",
    "check_image_base64",
    "check_image_media_type",
    "check_image_url",
    "check_image_url_text",
    "image_media_type_fault",
    "media_type_fault",
    "split_data_uri",
    "url_fault",
]

LONG_URL = 2_000
"""Characters above which a URL is logged as suspicious: some servers refuse it."""

LONG_BASE64 = 10_000_000
"""Characters above which an image is logged as large."""

_TOKEN = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"  # noqa: S105 - a token of RFC 6838, not a secret
_MEDIA_TYPE = lazy_pattern(rf"{_TOKEN}/{_TOKEN}")
_NOT_BASE64 = lazy_pattern(r"[^A-Za-z0-9+/=]")
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_UNUSED_BITS = {0: 0, 2: 0b1111, 3: 0b11}
"""By length % 4: the bits of the last character that stand for no byte."""

_ASCII_CONTROL = bytes([*range(0x20), 0x7F])
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")  # all characters of the Unicode category Cc
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_SCHEME_RULE = "must start with http://, https://, or data:"


def media_type_fault(value: object) -> str | None:
    """Say why a value is no MIME type of the form ``type/subtype``.

    Args:
        value: Anything.
    """
    if not isinstance(value, str) or not value.strip():
        return "must be a non-empty string"
    if _MEDIA_TYPE.fullmatch(value) is None:
        return "must be a MIME type without parameters"
    return None


def image_media_type_fault(value: str) -> str | None:
    """Say why a MIME type is not one of an image.

    Args:
        value: A MIME type.
    """
    return None if value.startswith("image/") else "must be an image's: MIME type must start with 'image/'"


def base64_fault(value: object) -> str | None:
    """Say why a value is no canonical base64 text; padding may be left out.

    Args:
        value: Anything.
    """
    if not isinstance(value, str) or not value.strip():
        return "must be a non-empty string"
    return None if _is_base64(value) else "must contain raw base64 data"


def _is_base64(text: str) -> bool:
    if not text.isascii():
        return False
    body = text.rstrip("=")
    padding = len(text) - len(body)
    unused = _UNUSED_BITS.get(len(body) % 4)
    if not body or padding > 2 or len(text) % 4 == 1 or unused is None:
        return False
    if body.encode().translate(None, _ALPHABET):  # what is left when the alphabet is taken out
        return False
    return not _ALPHABET.index(body[-1].encode()) & unused


def url_fault(value: object) -> str | None:  # noqa: PLR0911 - one line per rule reads best
    """Say why a value is no absolute HTTP(S) URL with a host and without user info.

    Args:
        value: Anything.
    """
    if not isinstance(value, str) or not value.strip():
        return "must be a non-empty string"
    absolute = "must be an absolute HTTP(S) URL"
    if value[0].isspace() or value[-1].isspace():
        return f"{absolute} without spaces around it"
    if _has_control_characters(value):
        return f"{absolute} without control characters"
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return absolute
    if not parts.scheme:
        return absolute
    if parts.scheme not in {"http", "https"}:  # urlsplit lowers it
        return f"must use HTTP or HTTPS: it {_SCHEME_RULE} (which becomes a base64 source)"
    if not host or any(character.isspace() or character == "\\" for character in parts.netloc):
        return f"{absolute} with a host"
    if "@" in parts.netloc:
        return f"{absolute} without user name and password"
    return f"{absolute} without lone surrogates" if _LONE_SURROGATE.search(value) else None


def _has_control_characters(text: str) -> bool:
    if not text.isascii():
        return _CONTROL.search(text) is not None
    return len(text.encode().translate(None, _ASCII_CONTROL)) < len(text)  # 14 times as quick, for long data URIs


def check_image_url_text(url: object) -> str:
    """Check what can be said of an image's URL before its scheme is known.

    Args:
        url: Anything.

    Raises:
        InvalidMessageError: It is no string, is empty or has control characters.
    """
    if not isinstance(url, str):
        raise InvalidMessageError(f"image URL must be a string, got {type(url).__name__}")
    if not url:
        raise InvalidMessageError("image URL cannot be empty")
    if _has_control_characters(url):
        raise InvalidMessageError("image URL must not contain control characters; percent-encode them")
    return url


def check_image_url(url: str) -> None:
    """Check a URL that is no data URI.

    Args:
        url: A URL.

    Raises:
        InvalidMessageError: It cannot be fetched over HTTP.
    """
    if not url[:8].lower().startswith(("http://", "https://")):
        # Not the whole URL: there may be a password in it.
        raise InvalidMessageError(f"image URL {_SCHEME_RULE}, got {url.partition(':')[0][:20]!r}")
    fault = url_fault(url)
    if fault is not None:
        raise InvalidMessageError(f"image URL {fault}")


def split_data_uri(uri: str) -> tuple[str, str, str]:
    """Return scheme, MIME type and base64 text of an image's data URI.

    Args:
        uri: A URI whose scheme is ``data``, in any case.

    Raises:
        InvalidMessageError: It is not of the form ``data:image/TYPE;base64,DATA``.
    """
    scheme, _, rest = uri.partition(":")
    media_type = rest.partition(";")[0]
    head, found, payload = rest.partition(";base64,")
    if not found:
        raise InvalidMessageError(f"Data URI must be in format: data:image/TYPE;base64,DATA, got {uri[:40]!r}")
    if not media_type.startswith("image/"):
        raise InvalidMessageError(f"Data URI MIME type must start with 'image/', got {media_type[:100]!r}")
    if head != media_type or media_type_fault(media_type) is not None:
        raise InvalidMessageError(f"Data URI must have a MIME type without parameters, got {head[:100]!r}")
    check_image_base64(payload, "Data URI base64 data")
    return scheme, media_type, payload


def check_image_base64(data: object, what: str = "Base64 image data") -> None:
    """Check the base64 text of an image, whose padding is mandatory.

    Args:
        data: Anything.
        what: How the error names it.

    Raises:
        InvalidMessageError: It is empty, or no canonical, padded base64 text.
    """
    if not isinstance(data, str):
        raise InvalidMessageError(f"{what} must be a string, got {type(data).__name__}")
    if len(data) % 4 == 0 and _is_base64(data):
        return
    raise InvalidMessageError(f"{what} {_image_base64_fault(data)}")


def _image_base64_fault(data: str) -> str:
    padding = data.count("=")
    wrong = _NOT_BASE64.search(data)
    if not data:
        return "cannot be empty"
    if wrong is not None:
        return f"contains invalid characters: {wrong[0]!a} at {wrong.start()}; only A-Z, a-z, 0-9, +, / and = may occur"
    if len(data) % 4:
        return f"must have a length that is a multiple of 4, got {len(data)}"
    if padding > 2:
        return f"has invalid padding: at most two '=' may occur, got {padding}"
    if not data.endswith("=" * padding):
        return "is wrong: padding characters must be at the end"
    return "has invalid padding: the unused bits of its last character are not zero"


def check_image_media_type(value: object) -> None:
    """Check the MIME type of an image.

    Args:
        value: Anything.

    Raises:
        InvalidMessageError: It is no ``image/SUBTYPE`` without parameters.
    """
    if not isinstance(value, str) or not value:
        raise InvalidMessageError("MIME type cannot be empty")
    if not value.startswith("image/"):
        raise InvalidMessageError(f"MIME type must start with 'image/', got {value[:100]!r}")
    if any(character in ";,\r\n" for character in value):
        raise InvalidMessageError(f"MIME type contains invalid characters, got {value[:100]!r}")
    if media_type_fault(value) is not None:
        raise InvalidMessageError(f"MIME type must be image/SUBTYPE without parameters, got {value[:100]!r}")

"""How a value that is not ours is shown in the text of an error: short, and never at the price of the error itself."""

from __future__ import annotations

__all__ = ["shown"]

_CONTAINERS = (dict, frozenset, list, set, tuple)


def shown(value: object, limit: int = 100) -> str:
    """Return the ``repr`` of a value, or what it is when it has none.

    Args:
        value: Anything.
        limit: The most characters; what is longer is cut and ends with three dots.
    """
    kind = type(value)
    if kind in (str, bytes) and len(value) > limit:  # type: ignore[arg-type]
        value = value[:limit]  # type: ignore[index]  # a long text is not written out only to be cut
        return f"{repr(value)[: limit - 3]}..."
    if kind in _CONTAINERS and len(value) > limit:  # type: ignore[arg-type]
        return f"<{kind.__name__} of {len(value)} items>"  # type: ignore[arg-type]
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - isolation boundary: anybody's repr
        return f"<{kind.__name__} whose repr raises {type(error).__name__}>"
    text = str.__str__(text)
    if not text.isascii():  # a lone surrogate could not be logged
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."

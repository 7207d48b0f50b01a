"""Values of any type as plain JSON data. Invariant: nothing here fails, whatever the value is."""

from __future__ import annotations

import json
from typing import Any

from ._shown import shown
from .messages import replace_lone_surrogates

__all__ = ["plain_data"]

_MAX_TEXT = 1024


def plain_data(value: object) -> Any:
    """Return a value of any type as plain JSON data.

    Args:
        value: Anything; what JSON does not know is written as its text, NaN and infinities as null. So is the whole
            when it cannot be gone through: it contains itself, say, or is nested too deeply.
    """
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - only results that are written out need it

    try:
        text = json.dumps(to_jsonable_python(value, serialize_unknown=True))
    except Exception:  # noqa: BLE001 - the application's own classes may refuse in any way; the rest of a result is kept
        text = json.dumps(shown(value, _MAX_TEXT))
    return replace_lone_surrogates(json.loads(text, parse_constant=lambda _constant: None))  # no NaN in JSON

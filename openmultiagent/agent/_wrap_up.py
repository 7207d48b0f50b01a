"""The last turn of a run that is about to reach a limit, as the user writes it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from .._shown import shown
from .._spec import from_mapping, spec
from ..errors import ConfigurationError

__all__ = ["WrapUp", "as_wrap_up"]

_INSTRUCTION = (
    "This is your last turn, and you can call no more tools. Give your final answer now, from what you have found out "
    "so far, and say what is missing from it."
)


@spec
class WrapUp:
    """The last turn of a run that would otherwise be cut off: one answer, without tools."""

    _: KW_ONLY
    reserve_tokens: Annotated[int, Field(ge=1)] = 1_024
    """The most tokens that this answer may have; they are kept free for it."""
    instruction: Annotated[str, Field(min_length=1)] = _INSTRUCTION
    """What the model is told, as the user."""


def as_wrap_up(value: object, *, agent: str) -> WrapUp | None:
    """Return the last turn that a value describes, or None for None and False.

    Args:
        value: A ``WrapUp``; a mapping with its fields, which is left as it is; True for the defaults; False or None.
        agent: Whose it is, for errors.

    Raises:
        ConfigurationError: It is none of these, or a field is wrong.
    """
    if value is None or value is False:
        return None
    if value is True:
        return WrapUp()
    if isinstance(value, WrapUp):
        return value
    if isinstance(value, Mapping):
        return from_mapping(WrapUp, value)
    raise ConfigurationError(
        f"agent {agent!r}: wrap_up must be a WrapUp, a mapping with its fields, True, False or None, got {shown(value)}"
    )

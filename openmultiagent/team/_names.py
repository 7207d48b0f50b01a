"""Names of teams, agents and those who write to them: what may be one, and which are the library's own.

A name stands in keys of shared memory (``agent/key``), in ids of results (``agent:task``), in prompts and in spans.
Invariant: no name can be taken for two names there, nor for one of the library's own.
"""

from __future__ import annotations

import unicodedata

from .._shown import shown
from ..errors import ConfigurationError

__all__ = ["BROADCAST", "MAX_NAME", "RESERVED_NAMES", "check_agent_name", "check_name", "name_key"]

MAX_NAME = 128
"""Characters of a name."""

BROADCAST = "*"
"""In place of a recipient: everybody but the sender."""

RESERVED_NAMES = frozenset({"coordinator", "semantic-router"})
"""Names of the agents that the library itself brings along."""

_SEPARATORS = frozenset(":/")


def check_name(name: object, *, where: str) -> str:
    """Return a name that can stand in keys and headings.

    Args:
        name: Anything.
        where: Whose name it is, for the error.

    Raises:
        ConfigurationError: It is no such name; says why.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"{where} must be a str, got {type(name).__name__}: {shown(name)}")
    why = _why_not(name)
    if why is not None:
        raise ConfigurationError(f"{where} {shown(name, 150)} {why}")
    return name


def check_agent_name(name: object, *, where: str) -> str:
    """Return a name that an agent of a team can have.

    Args:
        name: Anything.
        where: Whose name it is, for the error.

    Raises:
        ConfigurationError: It is no such name; says why.
    """
    checked = check_name(name, where=where)
    if name_key(checked) in RESERVED_NAMES:
        raise ConfigurationError(
            f"{where} {checked!r} is reserved: the library names an agent of its own so; choose another name"
        )
    return checked


def name_key(name: str) -> str:
    """Return what two names have in common that people and models would confuse.

    Args:
        name: A name.
    """
    return unicodedata.normalize("NFKC", name).casefold()


def _why_not(name: str) -> str | None:
    if not name or name != name.strip():
        return "must not be empty, nor begin or end with a space"
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters; {MAX_NAME} at most"
    if name == BROADCAST:
        return "stands for all agents; choose another name"
    if name.startswith("__"):
        return "begins with '__', which is reserved; choose another name"
    bad = next((char for char in name if char in _SEPARATORS or not char.isprintable()), None)
    return None if bad is None else f"must not contain {bad!a}: no ':', no '/', no control characters"

"""Which tools an agent may call: what is not granted does not exist for it.

Granted are the preset's tools, the built-in tools that are named, and the tools, functions and toolsets that are given,
minus what is denied by name. Invariant: a name that means nothing is an error, never a grant or a denial of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ..errors import ConfigurationError
from ._tool import Tool, tool
from ._toolset import Toolset, is_toolset

__all__ = [
    "BUILT_IN_TOOLS",
    "TOOL_PRESETS",
    "GivenTool",
    "ToolPreset",
    "as_given_tools",
    "default_preset",
    "granted_tools",
    "with_opened_tools",
]

ToolPreset: TypeAlias = Literal["readonly", "readwrite", "full"]
"""Name of a group of built-in tools."""

_READ_AND_WRITE = ("file_read", "file_write", "file_edit", "grep", "glob")

TOOL_PRESETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "readonly": ("file_read", "grep", "glob"),
        "readwrite": _READ_AND_WRITE,
        "full": (*_READ_AND_WRITE, "bash"),
    }
)
"""The built-in tools of each preset."""

BUILT_IN_TOOLS: Mapping[str, Tool] = MappingProxyType({})
"""The built-in tools that there are, by name: none so far."""

_RESERVED = frozenset({*TOOL_PRESETS["full"], "delegate_to_agent"})
"""Names that mean a built-in tool, whether there is one yet or not."""

GivenTool: TypeAlias = Tool | Toolset | str
"""One of an agent's ``tools``, once functions have become tools; a string names a built-in tool."""


def as_given_tools(
    agent: str, items: Sequence[object], *, available: Mapping[str, Tool] = BUILT_IN_TOOLS
) -> tuple[GivenTool, ...]:
    """Return the tools that were given to an agent, with a tool for each function.

    Args:
        agent: Its name, for errors.
        items: Tools, toolsets, functions and names of built-in tools.
        available: The built-in tools that there are.

    Raises:
        ConfigurationError: One is none of these, or names a built-in tool that there is not.
    """
    return tuple(_as_given(agent, item, available) for item in items)


def granted_tools(
    agent: str,
    given: Iterable[GivenTool],
    *,
    preset: str | None,
    denied: Sequence[str],
    available: Mapping[str, Tool] = BUILT_IN_TOOLS,
) -> tuple[Tool, ...]:
    """Return the tools that an agent may call, without those of its toolsets.

    Args:
        agent: Its name, for errors.
        given: What ``as_given_tools`` returned.
        preset: Name of a preset.
        denied: Names of tools that are taken away again.
        available: The built-in tools that there are.

    Raises:
        ConfigurationError: A name is unknown, or two tools have the same one.
    """
    items = list(given)
    names = [*_preset_names(agent, preset, available), *(item for item in items if isinstance(item, str))]
    granted = {name: available[name] for name in names}
    for item in items:
        if isinstance(item, Tool) and granted.setdefault(item.name, item) is not item:
            raise ConfigurationError(f"agent {agent!r} has two tools named {item.name!r}; rename one")
    ids = [id(item) for item in items if not isinstance(item, str)]
    if len(set(ids)) < len(ids):
        raise ConfigurationError(f"agent {agent!r}: tools has something twice")
    if not any(is_toolset(item) for item in items):  # else it is known only when they are open
        _check_denied(agent, denied, [*granted, *available])
    return tuple(item for item in granted.values() if item.name not in denied)


def with_opened_tools(
    agent: str,
    granted: Sequence[Tool],
    opened: Sequence[tuple[str, Tool]],
    *,
    denied: Sequence[str],
    available: Mapping[str, Tool] = BUILT_IN_TOOLS,
) -> tuple[Tool, ...]:
    """Return the tools that an agent may call, when its toolsets are open.

    Args:
        agent: Its name, for errors.
        granted: What ``granted_tools`` returned.
        opened: The tools of its toolsets, each with the name of its toolset.
        denied: Names of tools that are taken away again.
        available: The built-in tools that there are.

    Raises:
        ConfigurationError: A denied name is unknown, or two tools have the same name.
    """
    ...

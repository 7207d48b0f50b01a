"""Which tools an agent may call: what is not granted does not exist for it.

Granted are the preset's tools, the built-in tools that are named, and the tools, functions and toolsets that are given,
minus what is denied by name. Invariant: a name that means nothing is an error, never a grant or a denial of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

from .._shown import shown
from ..errors import ConfigurationError
from ._team_tools import DELEGATE_TO_AGENT, SEND_MESSAGE, is_team_placeholder
from ._tool import Tool, tool
from ._toolset import Toolset, is_toolset

__all__ = [
    "BUILT_IN_TOOLS",
    "TOOL_PRESETS",
    "GivenTool",
    "Grants",
    "ToolPreset",
    "as_given_tools",
    "check_preset",
    "default_preset",
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

BUILT_IN_TOOLS: Mapping[str, Tool] = MappingProxyType({item.name: item for item in (DELEGATE_TO_AGENT, SEND_MESSAGE)})
"""The built-in tools that there are, by name."""

_RESERVED = frozenset(TOOL_PRESETS["full"])
"""Names that mean a built-in tool, whether there is one yet or not."""

_NO_BUILT_INS = (
    "this version ships no built-in tools for files and shells; "
    "give the agent Tool objects, typed functions or toolsets"
)

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


class Grants:
    """What an agent may call.

    Args:
        agent: Its name, for errors.
        given: What ``as_given_tools`` returned.
        preset: Name of a preset.
        denied: Names of tools that are taken away again.
        available: The built-in tools that there are.

    Raises:
        ConfigurationError: A name is unknown, or two tools have the same one.
    """

    def __init__(
        self,
        agent: str,
        given: Sequence[GivenTool],
        *,
        preset: str | None = None,
        denied: Sequence[str] = (),
        available: Mapping[str, Tool] = BUILT_IN_TOOLS,
    ) -> None:
        self._agent = agent
        self.given = given
        """What was given, before anything was added or denied."""
        self._denied = frozenset(denied)
        names = [*_preset_names(agent, preset, available), *(item for item in given if isinstance(item, str))]
        found = {name: available[name] for name in names}
        for item in given:
            if isinstance(item, Tool):
                if item.name in found:
                    raise ConfigurationError(f"agent {agent!r} has two tools named {item.name!r}; rename one")
                found[item.name] = item
        granted = tuple(item for item in found.values() if item.name not in self._denied)
        self.names = tuple(item.name for item in granted)
        """The names of what is granted, without what comes from toolsets; also of tools that only a team offers."""
        self.tools = tuple(item for item in granted if not is_team_placeholder(item))
        """The tools that need no opening, in order: built-in ones, then those that were given."""
        self.is_consequential = any(item.consequential for item in self.tools)
        """Whether one of these tools is declared to have consequences."""
        self.toolsets = tuple(item for item in given if not isinstance(item, Tool | str))
        """The toolsets to open."""
        if len({id(item) for item in self.toolsets}) < len(self.toolsets):
            raise ConfigurationError(f"agent {agent!r}: tools has the same toolset twice")
        self._unknown = self._denied - found.keys() - available.keys()
        if not self.toolsets:  # else their tools may have the names
            self._check_denied(self._unknown)

    def with_opened(self, opened: Sequence[tuple[str, Tool]]) -> tuple[Tool, ...]:
        """Return everything that is granted, when the toolsets are open.

        Args:
            opened: The tools of the toolsets, each with the name of its toolset.

        Raises:
            ConfigurationError: A denied name is nobody's, or two tools have the same name.
        """
        self._check_denied(self._unknown - {item.name for _, item in opened})
        granted = {item.name: item for item in self.tools}
        sources = dict.fromkeys(granted, "its own tools")
        for toolset, item in opened:
            if item.name in self._denied:
                continue
            if item.name in granted:
                raise ConfigurationError(
                    f"agent {self._agent!r}: a tool named {item.name!r} comes from {sources[item.name]} and from "
                    f"toolset {shown(toolset)}; deny it, or put one in a PrefixedToolset"
                )
            granted[item.name] = item
            sources[item.name] = f"toolset {shown(toolset)}"
        return tuple(granted.values())

    def _check_denied(self, unknown: Iterable[str]) -> None:
        for name in sorted(unknown):
            raise ConfigurationError(
                f"agent {self._agent!r}: disallowed_tools names {shown(name)}, which is not among its tools"
            )


def check_preset(preset: str | None, *, available: Mapping[str, Tool] = BUILT_IN_TOOLS) -> str | None:
    """Return the name of a preset, or None for none.

    Args:
        preset: The name.
        available: The built-in tools that there are.

    Raises:
        ConfigurationError: There is no such preset, or its tools are not there.
    """
    if preset is None:
        return None
    given: object = preset
    if not isinstance(given, str) or given not in TOOL_PRESETS:
        raise ConfigurationError(f"tool preset {shown(preset)} is none of {', '.join(TOOL_PRESETS)}")
    if any(name not in available for name in TOOL_PRESETS[preset]):
        raise ConfigurationError(f"tool preset {shown(preset)}: {_NO_BUILT_INS}")
    return preset


def default_preset(own: str | None, given: Iterable[GivenTool], default: str | None) -> str | None:
    """Return the preset of an agent: its own, else the default, unless it names its built-in tools one by one.

    Args:
        own: The agent's own preset.
        given: The agent's tools.
        default: The preset of agents that choose nothing.
    """
    chooses = own is not None or any(isinstance(item, str) for item in given)
    return own if chooses else default


def _preset_names(agent: str, preset: str | None, available: Mapping[str, Tool]) -> Sequence[str]:
    try:
        checked = check_preset(preset, available=available)
    except ConfigurationError as error:
        raise ConfigurationError(f"agent {agent!r}: {error}") from None
    return () if checked is None else TOOL_PRESETS[checked]


def _as_given(agent: str, item: object, available: Mapping[str, Tool]) -> GivenTool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, str):
        if item in available:
            return item
        why = _NO_BUILT_INS if item in _RESERVED else "there is no such built-in tool"
        raise ConfigurationError(f"agent {agent!r}: tools has the name {shown(item)}: {why}")
    if is_toolset(item):
        return item
    if callable(item):
        return tool(item)
    raise ConfigurationError(
        f"agent {agent!r}: tools takes Tool objects, typed functions and toolsets, got {shown(item)}"
    )

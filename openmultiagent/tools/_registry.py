"""The tools that an agent may call, by name and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._shown import shown
from ..adapters import LLMToolDef
from ..errors import ConfigurationError
from ._tool import Tool, tool

__all__ = ["ToolRegistry"]


class ToolRegistry:
    """Tools by name, in the order in which they were added. What is in it is granted, what is not in it is never run.

    Args:
        tools: Tools, and functions to make tools of.

    Raises:
        ConfigurationError: Two have the same name, or one cannot be a tool.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            self.add(item)

    def add(self, item: Tool | Callable[..., Any]) -> Tool:
        """Add a tool and return it.

        Args:
            item: A tool, or a function to make one of.

        Raises:
            ConfigurationError: The name is taken, or the item cannot be a tool.
        """
        if isinstance(item, Tool):
            added = item
        elif callable(item):
            added = tool(item)
        else:
            raise ConfigurationError(f"expected a Tool or a function, got {shown(item)}")
        if added.name in self._tools:
            raise ConfigurationError(
                f"tool {shown(added.name)} is already registered; give one of the two another name"
            )
        self._tools[added.name] = added
        return added

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or None.

        Args:
            name: The name.
        """
        return self._tools.get(name)

    def remove(self, name: str) -> None:
        """Take a tool out; a name that is not in the registry is no fault.

        Args:
            name: The name.
        """
        self._tools.pop(name, None)

    def names(self) -> tuple[str, ...]:
        """Return the names in order."""
        return tuple(self._tools)

    def definitions(self) -> tuple[LLMToolDef, ...]:
        """Return the tools as a model is told about them, in order."""
        return tuple(item.definition for item in self._tools.values())

"""Groups of tools that have to be opened first, such as those of a server.

Not here: any particular toolset. Invariants: on one event loop a toolset is open once, however many agents and runs
use it; it is opened, and closed, in one task of its own, so that it may hold task groups and cancel scopes meanwhile;
the last one who uses it closes it, on every path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import anyio
from anyio.lowlevel import RunVar, current_token
from typing_extensions import TypeIs

from .._detached import Detached
from .._log import get_logger
from .._shown import shown
from ..errors import ConfigurationError, RunError
from ._result import describe_error
from ._tool import Tool

__all__ = ["OpenToolsets", "PrefixedToolset", "Toolset", "ToolsetOwner", "is_toolset"]

_log = get_logger(__name__)

_OPEN_TIMEOUT = 60.0
"""Seconds that opening a toolset may take."""
_CLOSE_TIMEOUT = 5.0
"""Seconds that closing one may take; what is not done by then is cancelled."""


@runtime_checkable
class Toolset(Protocol):
    """A group of tools that is opened when a run first needs it.

    It is given to an agent among its ``tools``. ``open`` and ``aclose`` are called in turns and in the same task, which
    does nothing else, so ``open`` may enter task groups, cancel scopes and other context managers for ``aclose`` to
    leave.
    """

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    async def open(self) -> Sequence[Tool]:
        """Connect, or whatever it takes, and return the tools; has 60 seconds.

        When it raises or is cancelled it cleans up after itself: ``aclose`` is not called then.
        """
        ...

    async def aclose(self) -> None:
        """Close what ``open`` opened; has 5 seconds, then it is cancelled. Afterwards it can be opened again."""
        ...


class PrefixedToolset:
    """A toolset whose tools have a prefix before their names, so that they do not collide with others.

    Args:
        toolset: The toolset.
        prefix: Put before each name, such as ``"github_"``.

    Raises:
        ConfigurationError: The first is no toolset, or the prefix no string.
    """

    def __init__(self, toolset: Toolset, prefix: str) -> None:
        if not is_toolset(toolset):
            raise ConfigurationError(f"expected a toolset (name, open, aclose), got {shown(toolset)}")
        if not isinstance(prefix, str):
            raise ConfigurationError(f"toolset {shown(toolset.name)}: prefix must be a str, got {shown(prefix)}")
        self._toolset = toolset
        self._prefix = prefix

    @property
    def name(self) -> str:
        """The name of the toolset itself."""
        return self._toolset.name

    async def open(self) -> Sequence[Tool]:
        """Open the toolset and return its tools under their new names."""
        tools = await self._toolset.open()
        renamed: list[Tool] | None = None
        try:
            renamed = [replace(item, name=f"{self._prefix}{item.name}") for item in _checked(tools)]
            return renamed
        finally:
            if renamed is None:
                await self._toolset.aclose()

    async def aclose(self) -> None:
        """Close the toolset."""
        await self._toolset.aclose()


class OpenToolsets:
    """The toolsets of one run, open.

    Args:
        openings: What was opened; held until ``aclose``.
    """

    def __init__(self, openings: Sequence[_Opening] = ()) -> None:
        self._openings = openings

    @property
    def tools(self) -> list[tuple[str, Tool]]:
        """Each tool with the name of its toolset, in order."""
        return [(opening.toolset.name, item) for opening in self._openings for item in opening.tools]

    async def aclose(self) -> None:
        """Let go of the toolsets; those that nobody else holds are closed, and waited for within bounds."""
        openings, self._openings = self._openings, ()
        await _let_go(openings)


class ToolsetOwner:
    """Keeps toolsets open between runs while it is open itself; else each is closed with the last run that uses it."""

    def __init__(self) -> None:
        self._loop: object = None
        self._kept: list[_Opening] = []

    def start(self) -> None:
        """Keep toolsets open from now on, on the current event loop; runs on other loops open their own."""
        self._loop = current_token().native_token

    async def open(self, toolsets: Sequence[Toolset], *, agent: str = "") -> OpenToolsets:
        """Open toolsets for a run, all at the same time; those that are open already are shared.

        Args:
            toolsets: The toolsets.
            agent: Whose run it is, for errors.

        Raises:
            RunError: One could not be opened; the others are closed again.
        """
        openings: list[_Opening] = []
        is_ready = False
        try:
            for toolset in toolsets:
                opening = await _join(toolset)
                openings.append(opening)
            for opening in openings:
                await opening.wait_until_ready(agent)
            is_ready = True
        finally:
            if not is_ready:
                await _let_go(openings)
        if self._loop is current_token().native_token:
            self._keep(openings)
        return OpenToolsets(openings)

    async def aclose(self) -> None:
        """Let go of what was kept; what runs still use is closed at their end."""
        self._loop = None
        kept, self._kept = self._kept, []
        await _let_go(kept)

    def _keep(self, openings: Sequence[_Opening]) -> None:
        self._kept = [opening for opening in self._kept if not opening.is_over]  # a toolset may have died meanwhile
        for opening in openings:
            if opening not in self._kept:
                opening.users += 1
                self._kept.append(opening)


def is_toolset(item: object) -> TypeIs[Toolset]:
    """Say whether something is a toolset; a class of toolsets is none.

    Args:
        item: Anything.
    """
    return isinstance(item, Toolset) and not isinstance(item, type)


class _Opening:
    """One time that a toolset is open, on one event loop."""

    def __init__(self, toolset: Toolset, openings: dict[int, _Opening]) -> None:
        self.toolset = toolset
        self.tools: tuple[Tool, ...] = ()
        self.users = 0
        self._openings = openings
        self._is_ready = False
        self._is_unused = False
        self._is_abandoned = False
        self._settled = anyio.Event()
        self._unused = anyio.Event()
        # The only scope around the toolset, entered before it is opened and left after it is closed: scopes nest.
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + _OPEN_TIMEOUT)
        self._task: Detached[None] = Detached(self._live)

    @property
    def is_over(self) -> bool:
        """Whether it cannot be joined any more: it is being closed, or is closed."""
        return self._is_unused or self._task.done

    def start(self) -> None:
        """Start opening the toolset."""
        self._openings[id(self.toolset)] = self
        self._task.on_finish(self._settle)
        self._task.start()

    async def wait_until_ready(self, agent: str) -> None:
        """Wait until the toolset is open.

        Args:
            agent: Who needs it, for errors.

        Raises:
            RunError: It could not be opened.
        """
        await self._settled.wait()
        if not self._is_ready:
            error = self._task.error
            what = f"it took more than {_OPEN_TIMEOUT:g}s" if error is None else describe_error(error)
            raise RunError(
                f"agent {agent!r}: toolset {shown(self.toolset.name)} could not be opened: {what}"
            ) from error

    def release(self) -> None:
        """Have one user less; without any it closes."""
        self.users -= 1
        if self.users > 0:
            return
        self._is_unused = True
        self._unused.set()
        if self._is_ready:
            self._scope.deadline = anyio.current_time() + _CLOSE_TIMEOUT
        else:
            self._is_abandoned = True
            self._scope.cancel()

    async def wait_until_over(self) -> None:
        """Wait until the toolset is closed."""
        await self._task.wait()

    async def _live(self) -> None:
        with self._scope:
            tools = await self.toolset.open()
            try:
                self.tools = _checked(tools)
                self._is_ready = True
                self._scope.deadline = math.inf
                self._settled.set()
                await self._unused.wait()
            finally:
                await self.toolset.aclose()

    def _settle(self) -> None:
        del self._openings[id(self.toolset)]
        self._settled.set()
        error = self._task.error
        if not self._is_abandoned and self._is_ready and (error is not None or self._scope.cancelled_caught):
            what = f"not closed within {_CLOSE_TIMEOUT:g}s" if error is None else describe_error(error)
            _log.warning("toolset_failed", toolset=self.toolset.name, error=what)


_OPENINGS: RunVar[dict[int, _Opening] | None] = RunVar("openmultiagent_toolsets")
"""What is open on the event loop, by the identity of the toolset."""


async def _join(toolset: Toolset) -> _Opening:
    openings = _OPENINGS.get(None)
    if openings is None:
        openings = {}
        _OPENINGS.set(openings)
    while True:
        opening = openings.get(id(toolset))
        if opening is None:
            opening = _Opening(toolset, openings)
            opening.start()
        if not opening.is_over:
            opening.users += 1
            return opening
        await opening.wait_until_over()


async def _let_go(openings: Sequence[_Opening]) -> None:
    for opening in openings:
        opening.release()  # all of them before any wait: a native cancellation goes through the shield
    closing = [opening for opening in openings if opening.is_over]
    if closing:
        with anyio.move_on_after(_CLOSE_TIMEOUT + 1, shield=True):
            for opening in closing:
                await opening.wait_until_over()


def _checked(tools: Any) -> tuple[Tool, ...]:
    if isinstance(tools, str | bytes) or not isinstance(tools, Sequence):
        raise ConfigurationError(f"open() must return a list of Tool objects, got {type(tools).__name__}")
    for item in tools:
        if not isinstance(item, Tool):
            raise ConfigurationError(
                f"open() must return Tool objects, got {shown(item)}; make them with tool(function)"
            )
    return tuple(tools)

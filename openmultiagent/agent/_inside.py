"""Whether code runs within something that it would wait for: a call from there has to be refused, or nobody goes on.

A context variable, since a tool runs in a task of its own, or in a thread. What was started in there and outlives it
is inside no longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Inside"]

_ENTERED: ContextVar[tuple[object, ...]] = ContextVar("openmultiagent_entered", default=())


class Inside:
    """The inside of one thing that has its users wait for each other."""

    __slots__ = ("_live",)

    def __init__(self) -> None:
        self._live: set[object] = set()

    @property
    def is_here(self) -> bool:
        """Whether the code that asks runs inside."""
        return any(stay in self._live for stay in _ENTERED.get())

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside."""
        stay, before = object(), _ENTERED.get()
        self._live.add(stay)
        _ENTERED.set((*before, stay))
        try:
            yield
        finally:
            self._live.discard(stay)
            _ENTERED.set(before)  # not by its token: a coroutine that is closed late ends in another context

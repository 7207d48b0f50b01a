"""What is only worth doing once a coroutine really waits, such as setting the timer of a time limit.

A model that answers at once (a cache, a local one, a test) then costs no timer, which is dearer than the rest of its
time limit. Invariant: the coroutine does not notice; what it waits for, gets and raises is the same as with ``await``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["OnFirstWait"]

T = TypeVar("T")


class OnFirstWait(Generic[T]):
    """Awaits a coroutine, and calls a function when it waits for the first time.

    Args:
        coroutine: Not started yet; awaited in place, so it runs in the same task and in the same cancel scopes.
        function: Called at most once; must not raise.
    """

    __slots__ = ("_coroutine", "_function")

    def __init__(self, coroutine: Coroutine[Any, Any, T], function: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._function = function

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        try:
            pending = coroutine.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        self._function()
        while True:  # from here on the same as `yield from`, which cannot begin in the middle
            try:
                sent = yield pending
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is thrown at the coroutine
                try:
                    pending = coroutine.throw(error)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
            else:
                try:
                    pending = coroutine.send(sent)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]

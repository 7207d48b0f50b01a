"""The time limit of a model call, which costs a timer only if the call really waits.

A model that answers at once (a cache, a local one, a test) would spend a fifth of its run on setting a timer and taking
it back. Invariant: but for that, the coroutine does not notice; what it waits for, gets and raises is the same as with
``await`` in a scope that has a deadline.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine as awaitable
from typing import Any, TypeVar

import anyio

__all__ = ["await_in_time"]

T = TypeVar("T")


@awaitable
def await_in_time(work: Coroutine[Any, Any, T], scope: anyio.CancelScope, seconds: float) -> Generator[Any, Any, T]:
    """Await a coroutine, and give the scope around it its deadline when the coroutine waits for the first time.

    Args:
        work: Not started yet.
        scope: Entered around the call of this function.
        seconds: The limit. The time until the first wait does not count: nothing could end it.
    """
    try:
        pending = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    scope.deadline = anyio.current_time() + seconds
    while True:  # from here on the same as `yield from`, which cannot begin in the middle
        try:
            sent = yield pending
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is thrown at the coroutine
            try:
                pending = work.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
        else:
            try:
                pending = work.send(sent)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

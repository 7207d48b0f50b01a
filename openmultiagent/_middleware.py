"""How advice is put around an operation: one reversed fold over plain async callables.

A chain is composed once; the first middleware is the outermost. Every step gets its own fork of the call, made at the
moment that it is called, so that a second ``call_next`` never sees what the first attempt did to its copy. Nothing here
catches an exception or starts a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, Self, TypeVar

__all__ = ["Forkable", "Middleware", "RunStyleMiddleware", "compose", "compose_run", "isolate_results"]


class Forkable(Protocol):
    """A call that can be handed on as a copy of its own."""

    def fork(self) -> Self:
        """Return an independent call; what it holds is copied when it is looked at."""
        ...


C = TypeVar("C", bound=Forkable)
R = TypeVar("R")

Middleware = Callable[[C, Callable[[C], Awaitable[R]]], Awaitable[R]]
"""Around one operation whose call may be rewritten: ``(call, call_next)``, with ``call_next(call)``."""

RunStyleMiddleware = Callable[[C, Callable[[], Awaitable[R]]], Awaitable[R]]
"""Around an operation whose call is fixed: ``(call, call_next)``, with ``call_next()``."""


def compose(chain: Sequence[Middleware[C, R]], core: Callable[[C], Awaitable[R]]) -> Callable[[C], Awaitable[R]]:
    """Return the operation with the chain around it.

    Args:
        chain: First in the list is outermost.
        core: The operation itself; gets a fork of its own, too.
    """
    step = partial(_core_step, core)
    for middleware in reversed(chain):
        step = partial(_step, middleware, step)
    return step


def compose_run(
    chain: Sequence[RunStyleMiddleware[C, R]], core: Callable[[C], Awaitable[R]]
) -> Callable[[C], Awaitable[R]]:
    """Return the operation with a chain around it that cannot rewrite the call.

    Args:
        chain: First in the list is outermost.
        core: The operation itself; gets a fork of its own, too.
    """
    step = partial(_core_step, core)
    for middleware in reversed(chain):
        step = partial(_run_step, middleware, step)
    return step


def isolate_results(middleware: RunStyleMiddleware[C, R], copy_result: Callable[[R], R]) -> RunStyleMiddleware[C, R]:
    """Return the middleware so that it shares no result with the steps around it.

    Args:
        middleware: A user's middleware.
        copy_result: Makes an independent result.
    """

    async def isolated(call: C, call_next: Callable[[], Awaitable[R]]) -> R:
        async def inner() -> R:
            return copy_result(await call_next())

        return copy_result(await middleware(call, inner))

    return isolated


async def _core_step(core: Callable[[C], Awaitable[R]], call: C) -> R:
    return await core(call.fork())


async def _step(middleware: Middleware[C, R], inner: Callable[[C], Awaitable[R]], call: C) -> R:
    return await middleware(call.fork(), inner)


async def _run_step(middleware: RunStyleMiddleware[C, R], inner: Callable[[C], Awaitable[R]], call: C) -> R:
    return await middleware(call.fork(), partial(inner, call))

"""Who cancelled what: the tool itself, something that it uses, or the code around the call."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import pytest

from openmultiagent.tools import ToolCall, ToolContext, ToolExecutor, ToolRegistry, ToolResult, tool
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def run(item: Any) -> ToolResult:
    registry = ToolRegistry([item])
    call = ToolCall(id="run/1/0", tool_call_id="c1", tool_name=registry.names()[0], input={})
    return await ToolExecutor(registry).execute(call, ToolContext())


async def raise_asyncio_cancellation() -> None:
    raise asyncio.CancelledError


async def raise_leaked_cancellation() -> None:
    """Raise a cancellation outside the scope that it belongs to, as a client does whose connection died."""
    leaked: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            leaked = error
            raise
    assert leaked is not None
    raise leaked


async def raise_group_with_cancellation() -> None:
    raise BaseExceptionGroup("mixed", [ValueError("x"), asyncio.CancelledError()])


def raise_cancellation_in_thread() -> None:
    raise asyncio.CancelledError


@proves("TOL-20", "TOL-14")
@pytest.mark.parametrize(
    "fn",
    [
        raise_asyncio_cancellation,
        raise_leaked_cancellation,
        raise_group_with_cancellation,
        raise_cancellation_in_thread,
    ],
)
async def test_cancellation_from_inside_is_an_error_and_the_caller_goes_on(fn: Callable[[], Any]) -> None:
    result = await run(fn)
    await anyio.lowlevel.checkpoint()

    assert result.is_error
    assert "threw an error: it was cancelled" in str(result.data)


@proves("TOL-20")
@asyncio_only
async def test_cancellation_from_inside_is_told_apart_after_an_earlier_one_was_caught() -> None:
    async def caller() -> Any:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return await run(raise_asyncio_cancellation)

    task = asyncio.ensure_future(caller())
    await anyio.wait_all_tasks_blocked()
    task.cancel()

    assert (await task).is_error


async def wait() -> None:
    await anyio.sleep_forever()


async def swallow() -> Any:
    try:
        await anyio.sleep_forever()
    except BaseException:
        return "swallowed"


async def convert() -> None:
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        raise ValueError("converted") from error


async def regroup() -> None:
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        raise BaseExceptionGroup("mixed", [ValueError("cleanup"), error]) from None


async def spread() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        group.start_soon(convert)


@proves("TOL-20")
@pytest.mark.parametrize("fn", [wait, swallow, convert, regroup, spread])
async def test_cancelled_scope_of_the_caller_is_left_without_an_error(fn: Callable[[], Any]) -> None:
    went_on = False

    async def caller() -> None:
        nonlocal went_on
        await run(fn)
        await anyio.lowlevel.checkpoint()
        went_on = True

    async with anyio.create_task_group() as group:
        group.start_soon(caller)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert not went_on


@proves("TOL-20")
@asyncio_only
@pytest.mark.parametrize("fn", [wait, swallow, convert, regroup, spread])
async def test_native_cancellation_of_the_callers_task_propagates(fn: Callable[[], Any]) -> None:
    task = asyncio.ensure_future(run(fn))
    await anyio.wait_all_tasks_blocked()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@proves("TOL-20")
async def test_caller_that_is_cancelled_already_runs_no_tool() -> None:
    ran = False

    @tool
    async def mark() -> None:
        nonlocal ran
        ran = True

    with anyio.CancelScope() as scope:
        scope.cancel()
        await run(mark)

    assert scope.cancelled_caught
    assert not ran


@proves("TOL-20")
async def test_function_in_a_thread_is_left_behind_and_can_notice() -> None:
    started, noticed = anyio.Event(), threading.Event()

    @tool
    def work() -> None:
        anyio.from_thread.run_sync(started.set)
        while True:
            try:
                anyio.from_thread.check_cancelled()
            except BaseException:
                noticed.set()
                raise

    async with anyio.create_task_group() as group:
        group.start_soon(run, work)
        await started.wait()
        group.cancel_scope.cancel()

    assert noticed.wait(10)


class Stop(BaseException):
    pass


@proves("TOL-21")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Stop])
async def test_what_is_no_exception_propagates(error: type[BaseException]) -> None:
    async def end() -> None:
        raise error

    async def end_in_group() -> None:
        raise BaseExceptionGroup("mixed", [ValueError(), error(), asyncio.CancelledError()])

    with pytest.raises(error):
        await run(end)
    with pytest.raises(BaseExceptionGroup):
        await run(end_in_group)

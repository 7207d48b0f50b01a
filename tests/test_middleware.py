"""How steps are put around an operation, and what each of them sees of the call and of the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from openmultiagent._middleware import compose, compose_run, isolate_results
from tests.support import proves


class Note:
    """A call: a list that is copied when it is forked."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def fork(self) -> Note:
        return Note(list(self.words))


Next = Callable[[Note], Awaitable[list[str]]]
RunNext = Callable[[], Awaitable[list[str]]]


async def core(call: Note) -> list[str]:
    return call.words


def named(name: str, log: list[str]) -> Callable[[Note, Next], Awaitable[list[str]]]:
    async def middleware(call: Note, call_next: Next) -> list[str]:
        log.append(f"{name} in")
        result = await call_next(call)
        log.append(f"{name} out")
        return result

    return middleware


@proves("MID-1")
async def test_the_first_middleware_is_the_outermost() -> None:
    log: list[str] = []
    await compose([named("a", log), named("b", log)], core)(Note([]))
    assert log == ["a in", "b in", "b out", "a out"]


@proves("MID-1")
async def test_the_first_run_middleware_is_the_outermost() -> None:
    log: list[str] = []

    def step(name: str) -> Callable[[Note, RunNext], Awaitable[list[str]]]:
        async def middleware(call: Note, call_next: RunNext) -> list[str]:
            log.append(f"{name} in")
            result = await call_next()
            log.append(f"{name} out")
            return result

        return middleware

    await compose_run([step("a"), step("b")], core)(Note([]))
    assert log == ["a in", "b in", "b out", "a out"]


@proves("MID-2")
@pytest.mark.parametrize("composed", [compose([], core), compose_run([], core)])
async def test_even_without_middleware_the_operation_gets_a_call_of_its_own(composed: Any) -> None:
    call = Note(["x"])
    result = await composed(call)
    assert result == ["x"]
    assert result is not call.words


@proves("MID-1")
async def test_a_chain_is_used_again_and_a_list_that_changes_later_changes_nothing() -> None:
    log: list[str] = []
    chain = [named("a", log)]
    operation = compose(chain, core)
    chain.append(named("late", log))
    assert [await operation(Note(["x"])) for _ in range(2)] == [["x"], ["x"]]
    assert log == ["a in", "a out"] * 2


@proves("MID-3")
async def test_what_a_middleware_passes_on_reaches_everything_inside() -> None:
    async def rewriting(call: Note, call_next: Next) -> list[str]:
        return await call_next(Note([*call.words, "rewritten"]))

    async def in_place(call: Note, call_next: Next) -> list[str]:
        call.words.append("changed")
        return await call_next(call)

    original = Note(["x"])
    assert await compose([rewriting, in_place], core)(original) == ["x", "rewritten", "changed"]
    assert original.words == ["x"]


@proves("MID-2", "MID-3")
async def test_what_a_middleware_does_to_its_call_without_passing_it_on_reaches_nobody() -> None:
    seen: list[list[str]] = []

    async def hoarding(call: Note, call_next: Next) -> list[str]:
        other = call.fork()
        result = await call_next(call)
        call.words.append("after")
        seen.append(other.words)
        return result

    async def poisoning(call: Note, call_next: Next) -> list[str]:
        fresh = Note(list(call.words))
        call.words.clear()
        return await call_next(fresh)

    original = Note(["x"])
    assert await compose([hoarding, poisoning, hoarding], core)(original) == ["x"]
    assert seen == [["x"], ["x"]]
    assert original.words == ["x"]


@proves("MID-4")
async def test_a_second_attempt_does_not_see_what_the_first_did_to_its_call() -> None:
    attempts: list[list[str]] = []

    async def retrying(call: Note, call_next: Next) -> list[str]:
        await call_next(call)
        return await call_next(call)

    async def spoiling(call: Note) -> list[str]:
        attempts.append(list(call.words))
        call.words.append("spoilt")
        return call.words

    async def spoiling_step(call: Note, call_next: Next) -> list[str]:
        result = await call_next(call)
        call.words.clear()
        return result

    await compose([retrying, spoiling_step], spoiling)(Note(["x"]))
    assert attempts == [["x"], ["x"]]


@proves("MID-4")
async def test_attempts_at_the_same_time_have_calls_of_their_own() -> None:
    seen: list[int] = []

    async def racing(call: Note, call_next: Next) -> list[str]:
        async def attempt() -> None:
            await call_next(call)

        async with anyio.create_task_group() as group:
            group.start_soon(attempt)
            group.start_soon(attempt)
        return []

    async def last(call: Note) -> list[str]:
        call.words.append("mine")
        await anyio.lowlevel.checkpoint()
        seen.append(len(call.words))
        return call.words

    await compose([racing], last)(Note([]))
    assert seen == [1, 1]


@proves("MID-5")
async def test_a_run_middleware_cannot_rewrite_the_call() -> None:
    async def poisoning(call: Note, call_next: RunNext) -> list[str]:
        call.words.append("poison")
        first = await call_next()
        call.words.append("more poison")
        return [*first, *(await call_next())]

    assert await compose_run([poisoning, poisoning], core)(Note(["x"])) == ["x"] * 4


@proves("MID-5")
async def test_call_next_of_a_run_takes_no_call() -> None:
    async def wrong(call: Note, call_next: Any) -> list[str]:
        result: list[str] = await call_next(call)
        return result

    with pytest.raises(TypeError):
        await compose_run([wrong], core)(Note([]))


@proves("MID-6")
async def test_a_middleware_may_answer_without_the_operation() -> None:
    async def cached(call: Note, call_next: Next) -> list[str]:
        return ["cached"]

    async def never(call: Note) -> list[str]:
        raise AssertionError

    assert await compose([cached], never)(Note([])) == ["cached"]


@proves("MID-7")
@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), anyio.EndOfStream()])
async def test_an_exception_passes_through_the_chain_as_it_is(error: BaseException) -> None:
    async def failing(call: Note) -> list[str]:
        raise error

    log: list[str] = []
    with pytest.raises(type(error)) as caught:
        await compose([named("a", log), named("b", log)], failing)(Note([]))
    assert caught.value is error
    assert log == ["a in", "b in"]


@proves("MID-7")
async def test_a_cancellation_passes_through_the_chain() -> None:
    log: list[str] = []

    async def sleeping(call: Note) -> list[str]:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.CancelScope() as scope:
        await compose([named("a", log)], sleeping)(Note([]))
    assert scope.cancelled_caught
    assert log == ["a in"]


@proves("MID-7")
async def test_the_chain_runs_in_the_callers_task() -> None:
    tasks = []

    async def looking(call: Note) -> list[str]:
        tasks.append(anyio.get_current_task().id)
        return []

    await compose([named("a", [])], looking)(Note([]))
    assert tasks == [anyio.get_current_task().id]


@proves("MID-8")
async def test_a_middleware_shares_no_result_with_the_steps_around_it() -> None:
    kept: list[list[str]] = []
    made: list[list[str]] = []

    async def making(call: Note) -> list[str]:
        made.append(["answer"])
        return made[-1]

    async def hoarding(call: Note, call_next: RunNext) -> list[str]:
        first = await call_next()
        second = await call_next()
        second.append("added")
        kept.extend([first, second])
        return second

    step = isolate_results(hoarding, list)
    result = await compose_run([step, step], making)(Note([]))
    assert result == ["answer", "added", "added"]
    for item in kept:
        item.append("poison")
    assert result == ["answer", "added", "added"]
    assert made == [["answer"]] * 4


@proves("MID-8")
async def test_what_cannot_be_copied_as_a_result_is_an_error_of_that_middleware() -> None:
    async def wrong(call: Note, call_next: RunNext) -> Any:
        return None

    with pytest.raises(TypeError):
        await compose_run([isolate_results(wrong, list)], core)(Note([]))

"""Caps per tool, and calls that run alone."""

from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmultiagent.tools import ToolCall, ToolContext, ToolDecision, ToolExecutor, ToolRegistry, ToolResult, tool
from openmultiagent.tools._admission import CallCaps, CallLine
from tests.support import proves


def call_of(name: str, place: int = 1, /, **passed: Any) -> ToolCall:
    return ToolCall(id=f"run/1/{place}", tool_call_id=f"c{place}", tool_name=name, input=passed)


async def run_turn(executor: ToolExecutor, calls: list[ToolCall]) -> list[ToolResult]:
    results: dict[str, ToolResult] = {}

    async def one(call: ToolCall) -> None:
        results[call.id] = await executor.execute(call, ToolContext())

    executor.announce(calls)
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    return [results[call.id] for call in calls]


class Log:
    """Tools that write down when they start and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tool(self, name: str, **settings: Any) -> Any:
        async def work(number: int = 0) -> str:
            self.lines.append(f"{name}{number} in")
            await anyio.wait_all_tasks_blocked()
            self.lines.append(f"{name}{number} out")
            return name

        return tool(work, name=name, **settings)

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        names = {line.split()[0] for line in self.lines}
        return {name: (self.lines.index(f"{name} in"), self.lines.index(f"{name} out")) for name in names}


@proves("TOL-31")
async def test_calls_over_the_cap_are_refused_in_the_order_of_the_turn() -> None:
    log = Log()
    executor = ToolExecutor(ToolRegistry([log.tool("a", max_calls=2), log.tool("b")]))
    names = ["a", "b", "a", "a", "b", "a"]

    results = await run_turn(executor, [call_of(name, number, number=number) for number, name in enumerate(names)])

    assert [result.is_error for result in results] == [False, False, False, True, False, True]
    assert results[3].data == 'Tool "a" was not run: it may be called at most 2 time(s) in a run'
    assert {line for line in log.lines if line.startswith("a")} == {"a0 in", "a0 out", "a2 in", "a2 out"}


@proves("TOL-31")
async def test_the_cap_counts_all_turns_of_a_run() -> None:
    executor = ToolExecutor(ToolRegistry([Log().tool("a", max_calls=3)]))
    first = await run_turn(executor, [call_of("a", 1), call_of("a", 2)])
    second = await run_turn(executor, [call_of("a", 3), call_of("a", 4)])

    assert [result.is_error for result in [*first, *second]] == [False, False, False, True]


@proves("TOL-31")
async def test_calls_that_were_not_announced_are_counted_as_they_come() -> None:
    executor = ToolExecutor(ToolRegistry([Log().tool("a", max_calls=1)]))

    assert not (await executor.execute(call_of("a"), ToolContext())).is_error
    assert (await executor.execute(call_of("a"), ToolContext())).is_error


@proves("TOL-32")
async def test_invalid_and_denied_calls_do_not_count() -> None:
    def gate(call: Any) -> ToolDecision:
        if call.input["number"] == 1:
            return ToolDecision.deny()
        return ToolDecision.rewrite({"number": "x"}) if call.input["number"] == 2 else ToolDecision.allow()

    executor = ToolExecutor(ToolRegistry([Log().tool("a", max_calls=1), Log().tool("b")]), on_tool_call=gate)
    texts = []
    for name, number in (("a", "x"), ("a", 1), ("a", 2), ("b", 1), ("a", 3), ("a", 4)):
        (result,) = await run_turn(executor, [call_of(name, number=number)])
        texts.append(str(result.data))

    assert texts[0].startswith("Invalid input")
    assert texts[1] == 'Tool "a" was denied'
    assert texts[2].startswith("Invalid input")
    assert texts[3] == 'Tool "b" was denied'
    assert texts[4] == "a"
    assert "at most 1 time(s)" in texts[5]


@proves("TOL-32")
async def test_a_call_that_is_made_again_counts_again_and_one_that_was_answered_elsewhere_does_not() -> None:
    executor = ToolExecutor(ToolRegistry([Log().tool("a", max_calls=2)]))
    executor.announce([call_of("a", 1), call_of("a", 2), call_of("a", 3)])
    answers = [await executor.execute(call_of("a", number), ToolContext()) for number in (3, 1, 1)]
    assert [answer.is_error for answer in answers] == [True, False, True]  # the second place is taken by call 2

    (last,) = await run_turn(executor, [call_of("a", 4)])  # which was never made
    assert not last.is_error


@proves("TOL-32", "TOL-33")
@pytest.mark.parametrize("exclusive", [True, False])
async def test_a_call_that_was_cancelled_while_it_waited_does_not_count(*, exclusive: bool) -> None:
    log = Log()
    tools = [log.tool("busy", exclusive=exclusive), log.tool("a", max_calls=1)]
    executor = ToolExecutor(ToolRegistry(tools), max_concurrency=1)
    async with anyio.create_task_group() as group:
        group.start_soon(executor.execute, call_of("busy"), ToolContext())
        while not log.lines:
            await anyio.lowlevel.checkpoint()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await executor.execute(call_of("a"), ToolContext())

    assert scope.cancelled_caught
    assert (await executor.execute(call_of("a"), ToolContext())).data == "a"


@proves("TOL-33")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=st.lists(st.booleans(), min_size=1, max_size=7), width=st.integers(1, 4))
async def test_an_exclusive_call_runs_alone_and_in_its_place(shapes: list[bool], width: int) -> None:
    log = Log()
    executor = ToolExecutor(ToolRegistry([log.tool("read"), log.tool("edit", exclusive=True)]), max_concurrency=width)
    names = ["edit" if is_exclusive else "read" for is_exclusive in shapes]
    with anyio.fail_after(10):
        await run_turn(executor, [call_of(name, number, number=number) for number, name in enumerate(names)])

    spans = log.spans
    assert len(spans) == len(names)
    for place, name in enumerate(names):
        if name == "edit":
            begin, end = spans[f"edit{place}"]
            assert end == begin + 1
            assert all(spans[f"{names[number]}{number}"][1] < begin for number in range(place))
            assert all(spans[f"{names[number]}{number}"][0] > end for number in range(place + 1, len(names)))


@proves("TOL-33")
async def test_calls_without_an_exclusive_one_among_them_run_together() -> None:
    log = Log()
    executor = ToolExecutor(ToolRegistry([log.tool("read"), log.tool("edit", exclusive=True)]))
    await run_turn(executor, [call_of("read", 1, number=1), call_of("read", 2, number=2)])

    assert {line.split()[1] for line in log.lines[:2]} == {"in"}


@proves("TOL-33")
async def test_exclusive_calls_that_were_not_announced_run_alone_too() -> None:
    log = Log()
    executor = ToolExecutor(ToolRegistry([log.tool("read"), log.tool("edit", exclusive=True)]))
    async with anyio.create_task_group() as group:
        for number, name in enumerate(["read", "edit", "read", "edit"]):
            group.start_soon(executor.execute, call_of(name, number, number=number), ToolContext())

    for name, (begin, end) in log.spans.items():
        assert not name.startswith("edit") or end == begin + 1


@proves("TOL-34")
async def test_a_call_that_waits_for_its_gate_holds_nobody_up() -> None:
    log, answered = Log(), anyio.Event()

    async def gate(call: Any) -> ToolDecision:
        if call.tool_name == "edit":
            await answered.wait()
        return ToolDecision.allow()

    executor = ToolExecutor(
        ToolRegistry([log.tool("read"), log.tool("edit", exclusive=True)]), max_concurrency=1, on_tool_call=gate
    )
    async with anyio.create_task_group() as group:
        group.start_soon(run_turn, executor, [call_of("edit", 1), call_of("read", 2), call_of("read", 3, number=1)])
        await anyio.wait_all_tasks_blocked()
        while len(log.lines) < 4:
            await anyio.wait_all_tasks_blocked()
        answered.set()

    assert log.lines[-2:] == ["edit0 in", "edit0 out"]


class Line:
    """Calls that hold a line until they are told to leave."""

    def __init__(self) -> None:
        self.line = CallLine()
        self.inside: set[str] = set()
        self.leave: dict[str, anyio.Event] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}

    async def hold(self, name: str, *, exclusive: bool) -> None:
        self.leave[name] = anyio.Event()
        with anyio.CancelScope() as self.scopes[name]:
            if not self.line.enter_nowait(exclusive=exclusive, ordered=False):
                await self.line.enter(None, exclusive=exclusive)
            try:
                self.inside.add(name)
                await self.leave[name].wait()
            finally:
                self.line.leave()
        self.inside.discard(name)


@proves("TOL-33")
@pytest.mark.parametrize("whom", ["first edit", "second edit", "late read"])
async def test_a_cancelled_call_leaves_the_line_to_the_others(whom: str) -> None:
    holding = Line()
    everybody = {"read": False, "first edit": True, "second edit": True, "late read": False}
    async with anyio.create_task_group() as group:
        for name, exclusive in everybody.items():
            group.start_soon(partial(holding.hold, name, exclusive=exclusive))
            await anyio.wait_all_tasks_blocked()
        assert holding.inside == {"read"}
        holding.scopes[whom].cancel()
        await anyio.wait_all_tasks_blocked()
        assert holding.inside == {"read"}
        for name in everybody:
            if name != whom:
                assert holding.inside == {name}
                holding.leave[name].set()
                await anyio.wait_all_tasks_blocked()
        assert not holding.inside


@proves("TOL-33")
async def test_a_call_that_is_let_in_and_cancelled_at_the_same_moment_does_not_stay_in() -> None:
    holding = Line()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(holding.hold, "edit", exclusive=True))
        await anyio.wait_all_tasks_blocked()
        group.start_soon(partial(holding.hold, "next", exclusive=True))
        await anyio.wait_all_tasks_blocked()
        holding.leave["edit"].set()
        holding.scopes["next"].cancel()
        await anyio.wait_all_tasks_blocked()
        group.start_soon(partial(holding.hold, "last", exclusive=True))
        await anyio.wait_all_tasks_blocked()
        assert holding.inside == {"last"}
        holding.leave["last"].set()


@proves("TOL-31")
@given(
    caps=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=2, max_size=2),
    turns=st.lists(st.lists(st.integers(0, 1), max_size=5), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_which_calls_are_over_the_cap_does_not_depend_on_who_comes_first(
    caps: list[int | None], turns: list[list[int]], order: Any
) -> None:
    tools = [Log().tool(name, max_calls=cap) for name, cap in zip("ab", caps, strict=True)]
    counted = CallCaps()
    made = [0, 0]
    for turn in turns:
        calls = [(f"c{place}", tools[which]) for place, which in enumerate(turn)]
        counted.reserve(calls)
        expected = {}
        for (call_id, _), which in zip(calls, turn, strict=True):
            cap = caps[which]
            expected[call_id] = cap is None or made[which] < cap
            made[which] += expected[call_id]
        shuffled = list(calls)
        order.shuffle(shuffled)
        assert {call_id: counted.take(call_id, item) for call_id, item in shuffled} == expected

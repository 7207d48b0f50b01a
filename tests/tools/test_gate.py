"""The gate before each call: what it is asked, what it may say, and what happens when it says nothing clear."""

import asyncio
import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any

import anyio
import pytest
import structlog
from pydantic import BaseModel, Field, model_serializer
from typing_extensions import TypedDict

from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import (
    Tool,
    ToolCall,
    ToolCallContext,
    ToolContext,
    ToolDecision,
    ToolExecutor,
    ToolGate,
    ToolRegistry,
    ToolResult,
    tool,
)
from tests.support import proves

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])
CONTEXT = ToolContext(
    agent="worker", run_id="run", tool_call_id="c1", tool_name="pay", turn=2, metadata={"tenant": "a", "tags": ["x"]}
)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


class Item(BaseModel):
    sku: str = Field(alias="itemCode")
    amount: int = 1


class Shop:
    def __init__(self) -> None:
        self.paid: list[Any] = []

    async def pay(self, item: Item, day: date, note: str = "none") -> str:
        """Pay for an item."""
        self.paid.append((item.sku, item.amount, day, note))
        return f"paid {item.sku}"


GOOD: dict[str, Any] = {"item": {"itemCode": "tea", "amount": "3"}, "day": "2026-11-05"}
SEEN: dict[str, Any] = {"item": {"itemCode": "tea", "amount": 3}, "day": "2026-11-05", "note": "none"}


async def run(gate: ToolGate, shop: Shop, passed: Mapping[str, Any] = GOOD, **settings: Any) -> ToolResult:
    executor = ToolExecutor(ToolRegistry([tool(shop.pay, **settings)]), on_tool_call=gate)
    call = ToolCall(id="run/1/0", tool_call_id="c1", tool_name="pay", input=dict(passed))
    return await executor.execute(call, CONTEXT)


def gate_of(result: ToolResult) -> Any:
    return (result.metadata or {}).get("tool_call_gate")


@proves("TOL-40", "TOL-41")
async def test_the_gate_sees_the_checked_input_and_whose_call_it_is() -> None:
    asked: list[ToolCallContext] = []

    def gate(call: ToolCallContext) -> ToolDecision:
        asked.append(call)
        return ToolDecision.allow()

    shop = Shop()
    result = await run(gate, shop, consequential=True)

    assert result.data == "paid tea"
    assert shop.paid == [("tea", 3, date(2026, 11, 5), "none")]
    assert asked == [
        ToolCallContext(
            tool_name="pay",
            input=SEEN,
            agent="worker",
            consequential=True,
            run_id="run",
            tool_call_id="c1",
            turn=2,
            metadata={"tenant": "a", "tags": ["x"]},
        )
    ]


@proves("TOL-41")
async def test_what_the_gate_does_to_its_copy_reaches_nobody() -> None:
    def gate(call: ToolCallContext) -> ToolDecision:
        call.input["item"]["itemCode"] = "gold"
        call.input["note"] = "changed"
        call.metadata["tags"].append("y")
        return ToolDecision.allow()

    shop = Shop()
    await run(gate, shop)
    assert shop.paid == [("tea", 3, date(2026, 11, 5), "none")]
    assert CONTEXT.metadata["tags"] == ["x"]

    def plain_gate(call: ToolCallContext) -> ToolDecision:
        call.input["rows"].append(2)
        return ToolDecision.allow()

    got: list[Any] = []
    plain = Tool("plain", input_schema={}, execute=lambda given, _: got.append(given))
    call = ToolCall(id="1", tool_call_id="c1", tool_name="plain", input={"rows": [1]})
    await ToolExecutor(ToolRegistry([plain]), on_tool_call=plain_gate).execute(call, ToolContext())
    assert got == [{"rows": [1]}]


class Given(TypedDict):
    rows: list[int]


@proves("TOL-41")
async def test_the_gate_sees_the_input_of_any_kind_of_tool() -> None:
    asked: list[Any] = []

    def gate(call: ToolCallContext) -> ToolDecision:
        asked.append(call.input)
        return ToolDecision.allow()

    async def echo(given: Any, context: ToolContext) -> Any:
        return given

    typed = Tool("typed", input_schema=Given, execute=echo)
    call = ToolCall(id="1", tool_call_id="c1", tool_name="typed", input={"rows": ["1"]})
    await ToolExecutor(ToolRegistry([typed]), on_tool_call=gate).execute(call, ToolContext())
    assert asked == [{"rows": [1]}]


class Sealed(BaseModel):
    word: str

    @model_serializer
    def seal(self) -> str:
        return self.word


@proves("TOL-44")
async def test_input_that_cannot_be_shown_is_not_let_through() -> None:
    ran: list[Any] = []
    sealed = Tool("sealed", input_schema=Sealed, execute=lambda given, _: ran.append(given))
    call = ToolCall(id="1", tool_call_id="c1", tool_name="sealed", input={"word": "x"})
    executor = ToolExecutor(ToolRegistry([sealed]), on_tool_call=lambda _: ToolDecision.allow())
    result = await executor.execute(call, ToolContext())

    assert "on_tool_call hook threw TypeError: the input is written out as str" in str(result.data)
    assert not ran


@proves("TOL-40")
async def test_calls_that_cannot_run_anyway_are_not_asked_about() -> None:
    def gate(call: ToolCallContext) -> ToolDecision:
        raise AssertionError(call)

    shop = Shop()
    assert "Invalid input" in str((await run(gate, shop, {})).data)
    executor = ToolExecutor(ToolRegistry([tool(shop.pay, max_calls=1)]), on_tool_call=gate)
    unknown = ToolCall(id="1", tool_call_id="c1", tool_name="nobody", input={})
    assert "not granted" in str((await executor.execute(unknown, CONTEXT)).data)
    calls = [ToolCall(id=f"{n}", tool_call_id=f"c{n}", tool_name="pay", input=GOOD) for n in range(2)]
    executor.announce(calls)
    assert "at most 1 time(s)" in str((await executor.execute(calls[1], CONTEXT)).data)


@proves("TOL-42")
async def test_deny_tells_the_model_why_and_runs_nothing() -> None:
    shop = Shop()
    result = await run(lambda _: ToolDecision.deny("too much"), shop)

    assert result == ToolResult(
        'Tool "pay" was denied: too much',
        is_error=True,
        metadata={"tool_call_gate": {"action": "deny", "reason": "too much"}},
    )
    assert (await run(lambda _: ToolDecision.deny(), shop)).data == 'Tool "pay" was denied'
    assert not shop.paid


@proves("TOL-43")
async def test_rewritten_input_is_checked_and_replaces_the_models() -> None:
    asked = 0

    def gate(call: ToolCallContext) -> ToolDecision:
        nonlocal asked
        asked += 1
        return ToolDecision.rewrite({**call.input, "item": {"itemCode": "milk", "amount": "2"}}, "cheaper")

    shop = Shop()
    result = await run(gate, shop)

    assert result.data == "paid milk"
    assert shop.paid == [("milk", 2, date(2026, 11, 5), "none")]
    assert gate_of(result) == {"action": "rewrite", "reason": "cheaper"}
    assert asked == 1


@proves("TOL-43", "TOL-47")
async def test_rewritten_input_that_does_not_fit_runs_nothing() -> None:
    shop = Shop()
    result = await run(lambda _: ToolDecision.rewrite({"item": 3}), shop)

    assert 'Invalid input for tool "pay":\n- item' in str(result.data)
    assert gate_of(result) == {"action": "rewrite"}
    assert not shop.paid


@proves("TOL-43")
async def test_the_gate_cannot_change_its_rewritten_input_afterwards() -> None:
    kept: dict[str, Any] = {"rows": [1]}
    got: list[Any] = []

    async def keep(given: Any, context: ToolContext) -> None:
        kept["rows"].append(2)
        got.append(given)

    plain = Tool("plain", input_schema={}, execute=keep)
    call = ToolCall(id="1", tool_call_id="c1", tool_name="plain", input={})
    await ToolExecutor(ToolRegistry([plain]), on_tool_call=lambda _: ToolDecision.rewrite(kept)).execute(
        call, ToolContext()
    )
    assert got == [{"rows": [1]}]


@proves("TOL-46")
async def test_suspend_is_an_error_that_says_so() -> None:
    shop = Shop()
    result = await run(lambda _: ToolDecision.suspend("ask the boss"), shop)

    assert result.is_error
    assert "it would have to be suspended, which this run cannot be: ask the boss" in str(result.data)
    assert gate_of(result) == {"action": "suspend", "reason": "ask the boss"}
    assert not shop.paid


@proves("TOL-42")
@pytest.mark.parametrize(
    ("decision", "action"),
    [
        ({"action": "allow"}, "allow"),
        ({"action": "allow", "reason": None, "updated_input": None}, "allow"),
        ({"action": "deny", "reason": "no"}, "deny"),
        ({"action": "rewrite", "updated_input": GOOD}, "rewrite"),
        ({"action": "suspend"}, "suspend"),
    ],
)
async def test_a_mapping_is_as_good_as_a_decision(decision: Any, action: str) -> None:
    result = await run(lambda _: decision, Shop())
    assert gate_of(result)["action"] == action


class Asking:
    """A gate that is falsy, and an object."""

    def __len__(self) -> int:
        return 0

    async def __call__(self, call: ToolCallContext) -> ToolDecision:
        await anyio.lowlevel.checkpoint()
        return ToolDecision.deny("object")


async def deny_for(reason: str, call: ToolCallContext) -> ToolDecision:
    return ToolDecision.deny(reason)


@proves("TOL-42")
@pytest.mark.parametrize("gate", [Asking(), functools.partial(deny_for, "object"), lambda c: deny_for("object", c)])
async def test_a_gate_may_be_anything_that_can_be_called(gate: Any) -> None:
    shop = Shop()
    assert (await run(gate, shop)).data == 'Tool "pay" was denied: object'
    assert not shop.paid


class Broken(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("broken mapping")

    def __iter__(self) -> Iterator[str]:
        return iter(["action"])

    def __len__(self) -> int:
        return 1


async def cancel_itself(call: ToolCallContext) -> Any:
    raise asyncio.CancelledError


def throw(call: ToolCallContext) -> Any:
    raise ValueError("no idea")


@proves("TOL-44")
@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (throw, "ValueError: no idea"),
        (lambda _: Broken(), "RuntimeError: broken mapping"),
        (cancel_itself, "a cancellation of its own"),
    ],
)
async def test_a_gate_that_raises_lets_nothing_through(gate: Any, text: str, logged: list[Any]) -> None:
    shop = Shop()
    result = await run(gate, shop)

    assert result.is_error
    assert result.data == f'Tool "pay" was not run: on_tool_call hook threw {text}'
    assert gate_of(result) is None
    assert not shop.paid
    assert [(line["event"], line["tool"], line["run_id"]) for line in logged] == [("tool_gate_failed", "pay", "run")]


@proves("TOL-45")
@pytest.mark.parametrize(
    ("decision", "fault"),
    [
        (None, "it is of type NoneType"),
        (True, "it is of type bool"),
        ("allow", "it is of type str"),
        ({}, "action None is none of allow, deny, rewrite, suspend"),
        ({"action": "maybe"}, "action 'maybe' is none of"),
        ({"action": ["allow"]}, "is none of"),
        (ToolDecision("maybe"), "action 'maybe' is none of"),  # type: ignore[arg-type]
        ({"action": "deny", "reason": 3}, "reason must be a string"),
        ({"action": "allow", "raeson": "x"}, "the key 'raeson' is unknown"),
        ({"action": "allow", 3: "x"}, "the key 3 is unknown"),
        ({"action": "rewrite"}, "rewrite needs updated_input"),
        ({"action": "rewrite", "updated_input": [1]}, "rewrite needs updated_input"),
        ({"action": "allow", "updated_input": {}}, "allow takes no updated_input; use rewrite"),
    ],
)
async def test_what_is_no_clear_decision_lets_nothing_through(decision: Any, fault: str) -> None:
    shop = Shop()
    result = await run(lambda _: decision, shop)

    assert result.is_error
    assert str(result.data).startswith('Tool "pay" was not run: invalid on_tool_call decision: ')
    assert fault in str(result.data)
    assert "ToolDecision.allow()" in str(result.data)
    assert gate_of(result) is None
    assert not shop.paid


@proves("TOL-47")
async def test_the_decision_is_kept_with_whatever_the_tool_returned() -> None:
    results = {
        "fine": ToolResult("ok", metadata={"mine": 1, "tool_call_gate": "forged"}),
        "bad": ToolResult({"no": "schema"}),
    }

    @tool
    async def work(kind: str) -> Any:
        if kind == "throw":
            raise ValueError("x")
        return results[kind]

    executor = ToolExecutor(ToolRegistry([work]), on_tool_call=lambda _: ToolDecision.allow("fits"))
    decided = {"action": "allow", "reason": "fits"}
    for kind, metadata in (("fine", {"mine": 1}), ("bad", {}), ("throw", {})):
        call = ToolCall(id="1", tool_call_id="c1", tool_name="work", input={"kind": kind})
        result = await executor.execute(call, CONTEXT)
        assert result.metadata == {**metadata, "tool_call_gate": decided}
        assert result.is_error is (kind != "fine")
    assert results["fine"].metadata == {"mine": 1, "tool_call_gate": "forged"}


async def swallow(call: ToolCallContext) -> ToolDecision:
    with suppress(BaseException):
        await anyio.sleep_forever()
    return ToolDecision.allow()


async def convert(call: ToolCallContext) -> None:
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        raise ValueError("converted") from error


async def wait(call: ToolCallContext) -> None:
    await anyio.sleep_forever()


@proves("TOL-48")
@pytest.mark.parametrize("gate", [wait, swallow, convert])
async def test_a_run_that_is_cancelled_while_the_gate_is_asked_runs_nothing(gate: ToolGate) -> None:
    shop = Shop()
    async with anyio.create_task_group() as group:
        group.start_soon(run, gate, shop)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert not shop.paid


@proves("TOL-48")
@asyncio_only
@pytest.mark.parametrize("gate", [wait, swallow, convert])
async def test_a_native_cancellation_while_the_gate_is_asked_propagates(gate: ToolGate) -> None:
    shop = Shop()
    task = asyncio.ensure_future(run(gate, shop))
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not shop.paid


@proves("TOL-42")
def test_a_gate_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_tool_call must be a function"):
        ToolExecutor(ToolRegistry(), on_tool_call="allow")  # type: ignore[arg-type]

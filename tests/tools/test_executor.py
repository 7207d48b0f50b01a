import contextvars
import functools
import math
import threading
from collections.abc import Awaitable, Iterator
from typing import Annotated, Any

import anyio
import anyio.from_thread
import pytest
import structlog
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter

from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import Tool, ToolCall, ToolContext, ToolExecutor, ToolRegistry, ToolResult, tool
from tests.support import proves

CONTEXT = ToolContext(agent="worker", run_id="run", tool_call_id="c1", tool_name="t", turn=1)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def run(item: Any, passed: Any = None, *, input_error: str | None = None, **settings: Any) -> ToolResult:
    registry = ToolRegistry([item])
    return await ToolExecutor(registry, **settings).execute(
        call_of(registry.names()[0], {} if passed is None else passed, input_error), CONTEXT
    )


def call_of(name: str, passed: Any, input_error: str | None = None) -> ToolCall:
    return ToolCall(id="run/1/0", tool_call_id="c1", tool_name=name, input=passed, input_error=input_error)


def text_of(result: ToolResult) -> str:
    assert result.is_error
    assert isinstance(result.data, str)
    return result.data


@tool
async def add(a: Annotated[int, Field(le=100)], b: int = 2) -> int:
    return a + b


@proves("TOL-15", "TOL-14")
async def test_unknown_tool_is_named_with_those_that_exist() -> None:
    executor = ToolExecutor(ToolRegistry([add]))
    text = text_of(await executor.execute(call_of("subtract" * 100, {}), CONTEXT))

    assert text.startswith('Tool "subtractsubtract')
    assert text.endswith('" is not registered, or not granted to this agent. Available tools: add.')
    assert len(text) < 200


@proves("TOL-15")
async def test_list_of_available_tools_is_bounded() -> None:
    none = ToolExecutor(ToolRegistry())
    many = ToolExecutor(ToolRegistry(Tool(f"t{n}", input_schema={}, execute=print) for n in range(52)))

    assert text_of(await none.execute(call_of("x", {}), CONTEXT)).endswith("Available tools: none.")
    assert text_of(await many.execute(call_of("x", {}), CONTEXT)).endswith("t48, t49 and 2 more.")


@proves("TOL-15")
async def test_tools_are_looked_up_anew_at_each_call() -> None:
    registry = ToolRegistry()
    executor = ToolExecutor(registry)
    registry.add(add)
    assert (await executor.execute(call_of("add", {"a": 1}), CONTEXT)).data == 3
    registry.remove("add")
    assert (await executor.execute(call_of("add", {"a": 1}), CONTEXT)).is_error


@proves("TOL-16", "TOL-24")
async def test_defaults_and_conversions_are_applied() -> None:
    assert await run(add, {"a": "40"}) == ToolResult(42, model_output="42")


@proves("TOL-16")
async def test_alias_and_context_reach_their_parameters() -> None:
    def pick(
        ctx: ToolContext, class_: Annotated[str, Field(alias="class")], *, again: ToolContext | None = None
    ) -> str:
        assert ctx is again
        return f"{ctx.agent} {class_}"

    assert (await run(pick, {"class": "first"})).data == "worker first"


@proves("TOL-4")
async def test_context_cannot_be_passed_by_the_model() -> None:
    def who(ctx: ToolContext) -> str:
        return ctx.agent

    assert "- ctx: Extra inputs are not permitted" in text_of(await run(who, {"ctx": {"agent": "boss"}}))


class Item(BaseModel):
    price: float


@proves("TOL-16")
async def test_each_fault_of_the_input_has_a_line_with_its_path() -> None:
    ran = False

    def order(items: list[Item], note: str) -> str:
        nonlocal ran
        ran = True
        return note

    text = text_of(await run(order, {"items": [{"price": 1}, {"price": "x"}], "extra": 1}))

    assert text.splitlines() == [
        'Invalid input for tool "order":',
        "- items[1].price: Input should be a valid number, unable to parse string as a number",
        "- note: Field required",
        "- extra: Extra inputs are not permitted",
    ]
    assert not ran


@proves("TOL-16")
async def test_many_faults_are_cut_short() -> None:
    lines = text_of(await run(add, {f"x{n}": n for n in range(1000)})).splitlines()

    assert len(lines) == 22
    assert lines[-1] == "- ... and 981 more"


def explode(value: int) -> int:
    raise KeyError("boom")


@proves("TOL-16")
async def test_validator_that_breaks_is_an_input_fault() -> None:
    def fragile(a: Annotated[int, AfterValidator(explode)]) -> int:
        return a

    assert "Invalid input for tool \"fragile\":\n- input: KeyError: 'boom'" in text_of(await run(fragile, {"a": 1}))


@proves("TOL-17")
async def test_arguments_that_could_not_be_read_do_not_run_the_tool() -> None:
    text = text_of(await run(lambda_tool(), {}, input_error="Expecting value: line 1 column 1"))

    assert 'Invalid input for tool "one"' in text
    assert "could not be read: Expecting value" in text
    assert "not run" in text


def lambda_tool() -> Tool:
    return tool(lambda: 1, name="one")


@proves("TOL-17")
@pytest.mark.parametrize("passed", [[], "x", 0, [{}]])
async def test_input_that_is_no_object_does_not_run_the_tool(passed: Any) -> None:
    plain = Tool("one", input_schema={}, execute=lambda given, _: given)

    assert "- input: must be an object" in text_of(await run(lambda_tool(), passed))
    assert "- input: must be an object" in text_of(await run(plain, passed))


@proves("TOL-17")
async def test_empty_object_is_an_input() -> None:
    assert (await run(lambda_tool(), {})).data == 1
    assert "- a: Field required" in text_of(await run(add, {}))


@proves("TOL-8")
async def test_plain_schema_passes_a_private_copy_on() -> None:
    def keep(given: dict[str, Any], ctx: ToolContext) -> str:
        given["a"].append(ctx.agent)
        return str(given)

    passed: dict[str, Any] = {"a": [1], "unknown": True}
    result = await run(Tool("keep", input_schema={"properties": {"a": {}}}, execute=keep), passed)

    assert result.data == "{'a': [1, 'worker'], 'unknown': True}"
    assert passed == {"a": [1], "unknown": True}


@proves("TOL-8")
async def test_type_as_schema_passes_its_value_on() -> None:
    async def price(item: Item, _: ToolContext) -> float:
        return item.price

    assert (await run(Tool("price", input_schema=Item, execute=price), {"price": "3"})).data == 3.0


class PaymentError(Exception):
    pass


@proves("TOL-18", "TOL-14")
async def test_exception_is_told_and_logged_without_traceback(logged: list[Any]) -> None:
    async def pay() -> None:
        raise PaymentError("card refused")

    text = text_of(await run(pay))

    assert text == 'Tool "pay" threw an error: PaymentError: card refused'
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("tool_failed", "warning")
    assert (line["agent"], line["run_id"], line["tool_call_id"]) == ("worker", "run", "c1")
    assert line["error"] == "PaymentError: card refused"
    assert 'raise PaymentError("card refused")' in line["traceback"]
    assert "exc_info" not in line


@proves("TOL-18", "RUN-15")
async def test_what_is_logged_of_an_exception_has_no_secret(logged: list[Any]) -> None:
    async def pay() -> None:
        key = "sk-" + "a1b2" * 10
        raise PaymentError(f"refused for {key}") from ValueError(key)

    await run(pay)
    (line,) = logged
    assert "a1b2" * 10 not in repr(line)
    assert line["error"] == "PaymentError: refused for [redacted]"


@proves("TOL-18")
async def test_exception_in_a_thread_is_told_too() -> None:
    def pay() -> None:
        raise StopIteration

    assert "threw an error" in text_of(await run(pay))


@proves("TOL-18")
async def test_group_from_an_inner_task_group_tells_what_is_in_it() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail, ValueError("inner"))

    assert text_of(await run(both)) == 'Tool "both" threw an error: ValueError: inner'


@proves("TOL-19")
async def test_slow_tool_times_out() -> None:
    @tool(timeout=0.01)
    async def slow() -> None:
        await anyio.sleep_forever()

    assert text_of(await run(slow)) == 'Tool "slow" timed out after 0.01s'


@proves("TOL-19")
async def test_limit_of_the_executor_is_for_tools_without_their_own() -> None:
    async def slow() -> None:
        await anyio.sleep_forever()

    @tool(timeout=math.inf)
    async def patient() -> str:
        await anyio.sleep(0.02)
        return "done"

    assert "timed out after 0.01s" in text_of(await run(slow, default_timeout=0.01))
    assert (await run(patient, default_timeout=0.001)).data == "done"


@proves("TOL-19")
async def test_error_that_the_timeout_provokes_is_a_timeout() -> None:
    @tool(timeout=0.01)
    async def clumsy() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("cleanup failed")

    assert "timed out" in text_of(await run(clumsy))


@proves("TOL-19")
async def test_result_that_is_ready_in_spite_of_the_timeout_is_kept() -> None:
    @tool(timeout=0.01)
    async def partial_answer() -> Any:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "half"  # the tool's own decision; nothing waits after it

    assert (await run(partial_answer)).data == "half"


@proves("TOL-19")
async def test_function_in_a_thread_is_abandoned_and_said_to_be() -> None:
    release, ended = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def stuck() -> None:
        release.wait(10)
        ended.set()

    try:
        text = text_of(await run(stuck))
    finally:
        release.set()
    assert text.startswith('Tool "stuck" timed out after 0.01s')
    assert "may still be working" in text
    await anyio.to_thread.run_sync(ended.wait, 10)


@proves("TOL-19")
async def test_timeout_inside_the_tool_is_the_tools_own() -> None:
    async def impatient() -> str:
        with anyio.move_on_after(0.001):
            await anyio.sleep_forever()
        with anyio.fail_after(0.001):
            await anyio.sleep_forever()
        return "never"

    assert "threw an error: TimeoutError" in text_of(await run(impatient))


@proves("TOL-22")
async def test_sync_functions_run_in_a_thread_with_the_callers_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("seen")

    def look() -> list[object]:
        return [variable.get(), threading.get_ident() == here]

    here = threading.get_ident()
    assert (await run(look)).data == ["seen", False]


@proves("TOL-22")
async def test_async_functions_run_in_the_callers_task() -> None:
    async def look() -> int:
        return anyio.get_current_task().id

    assert (await run(look)).data == anyio.get_current_task().id


class Late:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def __call__(self, suffix: str = "") -> str:
        await anyio.lowlevel.checkpoint()
        return self.answer + suffix

    def __bool__(self) -> bool:
        return False


def deferred() -> Awaitable[str]:
    return Late("deferred")()


@proves("TOL-22")
@pytest.mark.parametrize(
    ("fn", "answer"),
    [(Late("object"), "object"), (functools.partial(Late("partial"), suffix="!"), "partial!"), (deferred, "deferred")],
)
async def test_whatever_is_awaitable_is_awaited(fn: Any, answer: str) -> None:
    assert (await run(fn)).data == answer


@proves("TOL-23")
async def test_no_more_calls_run_at_a_time_than_allowed() -> None:
    running = peak = 0

    @tool(timeout=5)
    async def busy() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await anyio.wait_all_tasks_blocked()
        running -= 1

    executor = ToolExecutor(ToolRegistry([busy]), max_concurrency=2)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(executor.execute, call_of("busy", {}), CONTEXT)

    assert peak == 2


@proves("TOL-23")
async def test_waiting_for_a_turn_is_not_the_tools_time() -> None:
    @tool(timeout=1)
    async def nap() -> str:
        await anyio.sleep(0.6)
        return "rested"

    executor = ToolExecutor(ToolRegistry([nap]), max_concurrency=1)
    results: list[ToolResult] = []

    async def one() -> None:
        results.append(await executor.execute(call_of("nap", {}), CONTEXT))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)

    assert [result.data for result in results] == ["rested", "rested"]


@proves("TOL-23")
def test_one_executor_serves_several_event_loops() -> None:
    executor = ToolExecutor(ToolRegistry([add]), max_concurrency=1)

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(executor.execute, call_of("add", {"a": 1}), CONTEXT, backend=backend).data == 3


@proves("TOL-14")
async def test_one_failure_does_not_touch_the_others() -> None:
    async def ok() -> str:
        await anyio.wait_all_tasks_blocked()
        return "ok"

    async def bad() -> str:
        raise ValueError("bad")

    executor = ToolExecutor(ToolRegistry([ok, bad]))
    results: dict[str, ToolResult] = {}

    async def one(name: str) -> None:
        results[name] = await executor.execute(call_of(name, {}), CONTEXT)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "ok")
        group.start_soon(one, "bad")

    assert results["ok"].data == "ok"
    assert results["bad"].is_error


@proves("TOL-27")
async def test_output_schema_of_the_tool_is_checked() -> None:
    @tool(output_schema=Item)
    def price(value: Any) -> Any:
        return {"price": value}

    adapted = tool(price.fn, output_schema=TypeAdapter(Item))
    assert (await run(price, {"value": 3})).data == {"price": 3}
    assert (await run(adapted, {"value": 3})).data == {"price": 3}
    assert 'Invalid output for tool "price":\n- price:' in text_of(await run(price, {"value": "x"}))


@proves("TOL-35")
async def test_a_tool_may_hand_on_what_its_schema_made_of_the_data() -> None:
    @tool(output_schema=Item, use_validated_output=True)
    def price(value: Any) -> Any:
        return {"price": value}

    assert (await run(price, {"value": "3"})).data == Item(price=3)


@proves("TOL-28")
async def test_limit_of_the_tool_beats_the_executors() -> None:
    def long() -> str:
        return "x" * 1000

    async def fail() -> None:
        raise ValueError("x" * 1000)

    short, wide = tool(long, max_output_chars=10), tool(long, max_output_chars=500)

    assert (await run(short, max_output_chars=500)).data == "x" * 10
    assert 490 <= len(str((await run(wide, max_output_chars=10)).data)) <= 500
    assert 190 <= len(str((await run(long, max_output_chars=200)).data)) <= 200
    assert len(str((await run(long)).data)) == 1000
    assert len(text_of(await run(fail, max_output_chars=100))) <= 100
    assert len(text_of(await run(fail, {"y" * 1000: 1}, max_output_chars=100))) <= 100


@proves("TOL-7")
@pytest.mark.parametrize(
    "settings", [{"max_concurrency": 0}, {"default_timeout": 0}, {"default_timeout": math.nan}, {"max_output_chars": 0}]
)
def test_senseless_limits_are_refused(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ConfigurationError, match=name):
        ToolExecutor(ToolRegistry(), **settings)

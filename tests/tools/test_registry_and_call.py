from typing import Any

import pytest

from openmultiagent._middleware import compose
from openmultiagent.errors import ConfigurationError
from openmultiagent.tools import (
    Tool,
    ToolCall,
    ToolContext,
    ToolExecutor,
    ToolMiddleware,
    ToolNext,
    ToolRegistry,
    ToolResult,
    tool,
)
from openmultiagent.tools._call import copy_json
from tests.support import proves


def first() -> str:
    return ""


def second() -> str:
    return ""


@proves("TOL-11")
def test_registry_keeps_order_and_makes_tools_of_functions() -> None:
    made = tool(second)
    registry = ToolRegistry([first, made])

    assert registry.names() == ("first", "second")
    assert [item.name for item in registry.definitions()] == ["first", "second"]
    assert registry.get("second") is made
    assert registry.get("third") is None


@proves("TOL-11")
def test_registry_refuses_duplicates_and_what_is_no_tool() -> None:
    registry = ToolRegistry([first])

    with pytest.raises(ConfigurationError, match="'first' is already registered"):
        registry.add(Tool("first", input_schema={}, execute=print))
    with pytest.raises(ConfigurationError, match="expected a Tool or a function, got 'read_file'"):
        registry.add("read_file")  # type: ignore[arg-type]


@proves("TOL-11")
def test_removing_is_no_fault() -> None:
    registry = ToolRegistry([first])
    registry.remove("first")
    registry.remove("first")

    assert registry.names() == ()
    registry.add(first)
    assert registry.names() == ("first",)


def call_of(source: Any, **changes: Any) -> ToolCall:
    facts: dict[str, Any] = {"id": "r/1/0", "tool_call_id": "c1", "tool_name": "first", "agent": "a", "turn": 1}
    return ToolCall(**{**facts, **changes}, input=source)


@proves("TOL-12")
def test_input_is_a_copy_of_its_own_made_when_read() -> None:
    source = {"a": [1, {"b": 2}], "c": "text"}
    call = call_of(source)

    assert call.source is source
    assert call.input == source
    assert call.input is call.input
    call.input["a"][1]["b"] = 3
    assert source == {"a": [1, {"b": 2}], "c": "text"}
    assert call.source is call.input


@proves("TOL-12")
def test_fork_shares_until_read_and_then_is_apart() -> None:
    source: dict[str, Any] = {"a": [1]}
    call = call_of(source, run_id="r", input_error="bad")
    unread = call.fork()
    call.input["a"].append(2)
    rewritten = call.fork()
    call.input["a"].append(3)

    assert unread.source is source
    assert unread.input == {"a": [1]}
    assert rewritten.input == {"a": [1, 2]}
    assert (rewritten.id, rewritten.tool_call_id, rewritten.tool_name) == ("r/1/0", "c1", "first")
    assert (rewritten.agent, rewritten.run_id, rewritten.turn, rewritten.input_error) == ("a", "r", 1, "bad")


@proves("TOL-13")
def test_replace_copies_the_new_input_and_clears_the_fault() -> None:
    new: dict[str, Any] = {"a": []}
    call = call_of({}, input_error="no JSON")
    repaired = call.replace(input=new)
    new["a"].append(1)

    assert repaired.input == {"a": []}
    assert repaired.input_error is None
    assert call.input_error == "no JSON"
    assert call.input == {}


def test_repr_does_not_show_the_input() -> None:
    assert repr(call_of({"password": "x"})) == "ToolCall(id='r/1/0', tool_name='first', agent='a', turn=1)"


def test_copy_handles_depth_cycles_and_sharing() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    shared: dict[str, Any] = {}
    cyclic: dict[str, Any] = {"one": shared, "two": shared}
    cyclic["self"] = cyclic

    assert copy_json(deep) is not deep
    copied = copy_json(cyclic)
    assert copied is not cyclic
    assert copied["self"] is copied
    assert copied["one"] is copied["two"]
    assert copied["one"] is not shared
    while deep:  # unwound by hand: a destructor that recurses is slow
        deep = deep.pop()


def test_context_has_defaults_for_tests() -> None:
    context = ToolContext(agent="a")

    assert (context.agent, context.run_id, context.turn, context.metadata) == ("a", "", 0, {})
    assert hash(context) == hash(ToolContext(agent="a"))


@proves("TOL-12", "TOL-13", "TOL-16")
async def test_middleware_rewrites_the_input_and_a_second_attempt_starts_afresh() -> None:
    seen: list[Any] = []

    async def retry(call: ToolCall, call_next: ToolNext) -> ToolResult:
        await call_next(call)
        return await call_next(call.replace(input={"a": "7"}))

    async def meddle(call: ToolCall, call_next: ToolNext) -> ToolResult:
        seen.append(dict(call.input))
        call.input["meddled"] = True
        return await call_next(call)

    @tool
    def echo(a: int = 0, *, meddled: bool = False) -> str:
        return f"{a!r} {meddled}"

    chain: list[ToolMiddleware] = [retry, meddle]
    executor = ToolExecutor(ToolRegistry([echo]))
    run = compose(chain, lambda call: executor.execute(call, ToolContext()))

    result = await run(call_of({}, tool_name="echo"))

    assert result.data == "7 True"
    assert seen == [{}, {"a": "7"}]

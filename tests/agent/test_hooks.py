"""The two hooks of an agent."""

from collections.abc import Callable
from typing import Any

import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    BeforeRunContext,
    ContentBlock,
    ImageBlock,
    LLMMessage,
    RunStatus,
    TextBlock,
)
from openmultiagent.adapters import LLMResponse
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

IMAGE = ImageBlock.from_base64("iVBORw0KGgo=", "image/png")
OTHER = ImageBlock.from_base64("AAAA", "image/png")


def agent(adapter: ScriptedAdapter, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


@proves("AGT-20")
async def test_before_run_sees_both_views_of_the_input() -> None:
    seen: list[BeforeRunContext] = []
    tester = agent(ScriptedAdapter(["ok"]), before_run=seen.append, after_run=lambda result: None, description="d")
    given = [
        LLMMessage.user("earlier"),
        LLMMessage.assistant("yes"),
        LLMMessage.user_with_blocks([TextBlock(text="first"), IMAGE, TextBlock(text="second")]),
    ]
    await tester.run(given)
    (context,) = seen
    assert context.messages == given
    assert context.prompt == "firstsecond"
    assert context.agent.name == "tester"
    assert context.agent.description == "d"
    assert context.agent.before_run is None
    assert context.agent.after_run is None


@proves("AGT-20")
@pytest.mark.parametrize(
    "given", [[LLMMessage.user_with_blocks([IMAGE])], [LLMMessage.assistant("I said")]], ids=["image only", "no user"]
)
async def test_a_turn_without_text_has_an_empty_prompt(given: list[LLMMessage]) -> None:
    seen: list[BeforeRunContext] = []
    await agent(ScriptedAdapter(["ok"]), before_run=seen.append).run(given)
    assert seen[0].prompt == ""
    assert seen[0].messages == given


async def async_rewrite(context: BeforeRunContext) -> BeforeRunContext:
    return context.replace(prompt="rewritten")


@proves("AGT-21")
@pytest.mark.parametrize(
    "hook",
    [
        lambda context: context.replace(prompt="rewritten"),
        async_rewrite,
        lambda context: {"prompt": "rewritten"},
        lambda context: {"messages": [{"role": "user", "content": [{"type": "text", "text": "rewritten"}]}]},
        lambda context: context.replace(messages=[LLMMessage.user("rewritten")]),
    ],
)
async def test_the_ways_to_rewrite_the_input(hook: Callable[..., object]) -> None:
    adapter = ScriptedAdapter(["ok"])
    await agent(adapter, before_run=hook).run("original")
    assert adapter.calls[0].messages == [LLMMessage.user("rewritten")]


@proves("AGT-21")
@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ({"prompt": 3}, "before_run.prompt must be a string"),
        ({"promt": "x"}, "'promt'"),
        ("text", "before_run must return"),
        ({"messages": "text"}, "before_run.messages must be an array"),
        ({"messages": []}, "before_run.messages"),
    ],
)
async def test_nonsense_from_before_run_fails_the_run(returned: object, text: str) -> None:
    adapter = ScriptedAdapter(["never"])
    result = await agent(adapter, before_run=lambda context: returned).run("q")
    assert not result.success
    assert text in result.output
    assert adapter.calls == []


@proves("AGT-22")
async def test_messages_are_replaced_first_and_then_the_prompt() -> None:
    def hook(context: BeforeRunContext) -> BeforeRunContext:
        blocks: list[ContentBlock] = [IMAGE, TextBlock(text="a"), OTHER, TextBlock(text="b")]
        return context.replace(messages=[LLMMessage.user_with_blocks(blocks)], prompt="new")

    adapter = ScriptedAdapter(["ok"])
    await agent(adapter, before_run=hook).run("old")
    assert adapter.calls[0].messages == [LLMMessage.user_with_blocks([IMAGE, TextBlock(text="new"), OTHER])]


@proves("AGT-22")
async def test_a_prompt_for_a_turn_without_text_comes_in_front() -> None:
    adapter = ScriptedAdapter(["ok"])
    await agent(adapter, before_run=lambda c: {"prompt": "new"}).run([LLMMessage.user_with_blocks([IMAGE])])
    assert adapter.calls[0].messages == [LLMMessage.user_with_blocks([TextBlock(text="new"), IMAGE])]


@proves("AGT-22")
async def test_a_prompt_without_any_user_message_changes_nothing() -> None:
    adapter = ScriptedAdapter(["ok"])
    await agent(adapter, before_run=lambda c: {"prompt": "new"}).run([LLMMessage.assistant("I said")])
    assert adapter.calls[0].messages == [LLMMessage.assistant("I said")]


@proves("AGT-22")
async def test_an_unchanged_prompt_leaves_replaced_messages_alone() -> None:
    replaced = [LLMMessage.user_with_blocks([TextBlock(text="a"), TextBlock(text="b")])]
    adapter = ScriptedAdapter(["ok"])
    await agent(adapter, before_run=lambda c: {"messages": replaced, "prompt": c.prompt}).run("q")
    assert adapter.calls[0].messages == replaced


@proves("AGT-22")
async def test_only_the_latest_user_message_changes() -> None:
    adapter = ScriptedAdapter(["ok"])
    given = [LLMMessage.user_with_blocks([IMAGE]), LLMMessage.assistant("yes"), LLMMessage.user("q")]
    await agent(adapter, before_run=lambda c: {"prompt": "new"}).run(given)
    assert adapter.calls[0].messages == [*given[:2], LLMMessage.user("new")]


@proves("AGT-23")
async def test_a_rewrite_reaches_neither_caller_nor_history() -> None:
    def hook(context: BeforeRunContext) -> BeforeRunContext:
        context.messages[0].content.clear()
        return context.replace(prompt="rewritten")

    adapter = ScriptedAdapter(["ok"])
    tester = agent(adapter, before_run=hook)
    given: list[Any] = [IMAGE, TextBlock(text="original")]
    await tester.prompt(given)
    assert given == [IMAGE, TextBlock(text="original")]
    assert tester.get_history()[0] == LLMMessage.user_with_blocks([IMAGE, TextBlock(text="original")])


@proves("AGT-23")
async def test_what_the_hook_keeps_is_its_own() -> None:
    kept: list[LLMMessage] = []

    def hook(context: BeforeRunContext) -> dict[str, object]:
        kept.extend(context.messages)
        return {"messages": kept}

    def tamper(messages: list[LLMMessage], options: object) -> str:
        kept[0].content.clear()
        return "ok"

    adapter = ScriptedAdapter([tamper, "again"])
    tester = agent(adapter, before_run=hook)
    await tester.run("q")
    assert adapter.calls[0].messages == [LLMMessage.user("q")]


@proves("AGT-24")
async def test_a_raising_before_run_is_a_failed_result() -> None:
    def hook(context: BeforeRunContext) -> None:
        raise RuntimeError("no")

    after: list[object] = []
    adapter = ScriptedAdapter(["never"])
    result = await agent(adapter, before_run=hook, after_run=after.append).run("q")
    assert not result.success
    assert result.output == "no"
    assert result.error_info is not None
    assert result.error_info.kind == "callback"
    assert adapter.calls == []
    assert after == []


@proves("AGT-24")
async def test_a_raising_hook_ends_a_stream_with_an_error() -> None:
    def hook(context: BeforeRunContext) -> None:
        raise RuntimeError("no")

    async with agent(ScriptedAdapter(["never"]), before_run=hook).stream("q") as stream:
        events = [event async for event in stream]
    assert [event.type for event in events] == ["error"]


@proves("AGT-25")
async def test_after_run_may_change_the_output() -> None:
    tester = agent(ScriptedAdapter(["answer"] * 2), after_run=lambda result: result.replace(output="changed"))
    assert (await tester.run("q")).output == "changed"
    async with tester.stream("q") as stream:
        events = [event async for event in stream]
    done: Any = events[-1]
    assert done.data.output == "changed"


@proves("AGT-25")
async def test_after_run_gets_a_copy() -> None:
    def hook(result: AgentRunResult[Any]) -> None:
        result.messages.clear()

    result = await agent(ScriptedAdapter(["answer"]), after_run=hook).run("q")
    assert result.messages == [LLMMessage.assistant("answer")]


@proves("AGT-25")
async def test_success_and_status_fit_each_other() -> None:
    failing = agent(ScriptedAdapter(["answer"]), after_run=lambda result: result.replace(success=False))
    failed = await failing.run("q")
    assert (failed.success, failed.status.code) == (False, "error")
    claiming = agent(
        ScriptedAdapter(["answer"]),
        after_run=lambda result: result.replace(success=True, status=RunStatus("error", "leftover")),
    )
    done = await claiming.run("q")
    assert (done.success, done.status.code, done.error_info) == (True, "ok", None)


@proves("AGT-25")
async def test_nothing_undoes_an_exhausted_budget() -> None:
    usage = TokenUsage(input_tokens=30, output_tokens=5)
    adapter = ScriptedAdapter([LLMResponse([TextBlock(text="answer")], usage=usage)])
    tester = agent(adapter, max_token_budget=30, after_run=lambda r: r.replace(success=True, status=RunStatus("ok")))
    result = await tester.run("q")
    assert (result.success, result.status.code) == (False, "budget_exhausted")


@proves("AGT-25")
async def test_after_run_is_not_called_after_an_exception() -> None:
    seen: list[object] = []
    await agent(ScriptedAdapter([RuntimeError("down")]), after_run=seen.append).run("q")
    assert seen == []


@proves("AGT-26")
@pytest.mark.parametrize("bad", ["raise", "text", {"success": None}, {"flags": None}, {"token_usage": 5}])
async def test_a_failing_after_run_is_a_failed_result(bad: str | dict[str, Any]) -> None:
    def hook(result: AgentRunResult[Any]) -> object:
        if bad == "raise":
            raise RuntimeError("no")
        return result.replace(**bad) if isinstance(bad, dict) else bad

    usage = TokenUsage(input_tokens=3, output_tokens=4)
    adapter = ScriptedAdapter([LLMResponse([TextBlock(text="answer")], usage=usage)])
    result = await agent(adapter, after_run=hook).run("q")
    assert not result.success
    assert result.error_info is not None
    assert result.error_info.kind == "callback"
    assert result.messages == [LLMMessage.assistant("answer")]
    assert result.token_usage == usage


@proves("AGT-21", "AGT-25")
async def test_hooks_run_once_for_each_prompt_in_order() -> None:
    order: list[str] = []
    tester = agent(
        ScriptedAdapter(["1", "2"]),
        before_run=lambda context: order.append(f"before {context.prompt}"),
        after_run=lambda result: order.append(f"after {result.output}"),
    )
    await tester.prompt("a")
    await tester.prompt("b")
    assert order == ["before a", "after 1", "before b", "after 2"]


@proves("AGT-25")
async def test_after_run_may_return_nothing_and_a_failure_stays_one() -> None:
    def hook(result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        return result.replace(success=False, status=RunStatus("rejected", "not good enough"))

    result = await agent(ScriptedAdapter(["answer"]), after_run=hook).run("q")
    assert (result.success, result.status) == (False, RunStatus("rejected", "not good enough"))


@proves("AGT-26")
async def test_an_async_after_run_is_awaited() -> None:
    async def hook(result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        return result.replace(output="changed")

    assert (await agent(ScriptedAdapter(["answer"]), after_run=hook).run("q")).output == "changed"

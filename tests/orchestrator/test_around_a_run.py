"""Progress events, budgets and run middleware around a run."""

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from openmultiagent import (
    AgentConfig,
    AgentRunResult,
    BudgetExceeded,
    CostBudgetExceededError,
    LLMMessage,
    OpenMultiAgent,
    RunCall,
    RunStatus,
    TextBlock,
    TokenBudgetExceededError,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse
from openmultiagent.agent import RunNext
from openmultiagent.budget import CostEstimateContext
from openmultiagent.evaluation import OnlineEvaluation
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves


def spend(text: str, *, tokens: int) -> LLMResponse:
    return LLMResponse([TextBlock(text=text)], usage=TokenUsage(input_tokens=tokens))


@proves("ORC-20", "ORC-21")
async def test_a_string_run_tells_prompt_and_result() -> None:
    events: list[Any] = []
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["answer"]), on_progress=events.append)
    result = await oma.run_agent({"name": "x"}, "q", run_id="r")
    assert [(event.sequence, event.type, event.agent, event.run_id) for event in events] == [
        (1, "agent_start", "x", "r"),
        (2, "agent_complete", "x", "r"),
    ]
    assert events[0].data == {"prompt": "q"}
    assert events[1].data == result


@proves("ORC-21")
async def test_a_structured_run_tells_its_messages() -> None:
    events: list[Any] = []
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["answer"]), on_progress=events.append)
    given_messages = [LLMMessage.user_with_image("look", "https://example.com/cat.png")]
    await oma.run_agent({"name": "x"}, given_messages)
    assert events[0].data == {"messages": given_messages}
    assert events[0].data["messages"][0] is not given_messages[0]


@proves("ORC-20")
@pytest.mark.parametrize("path", ["failure", "hook", "middleware", "timeout"])
async def test_the_last_event_comes_on_every_path(path: str) -> None:
    events: list[Any] = []

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    def broken(*args: object) -> None:
        raise RuntimeError("no")

    async def breaking(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        raise RuntimeError("no")

    script: Any = {"failure": [RuntimeError("down")], "timeout": hang}.get(path, ["ok"])
    config = AgentConfig(
        "x",
        adapter=ScriptedAdapter(script),
        before_run=broken if path == "hook" else None,
        timeout=0.02 if path == "timeout" else None,
    )
    oma = OpenMultiAgent(on_progress=events.append, middleware=[breaking] if path == "middleware" else [])
    result = await oma.run_agent(config, "q")
    assert not result.success
    assert [event.type for event in events] == ["agent_start", "agent_complete"]
    assert events[1].data.status == result.status


@proves("ORC-20")
async def test_a_cancelled_caller_still_gets_the_last_event_out() -> None:
    events: list[Any] = []

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(hang), on_progress=events.append)
    with anyio.move_on_after(0.02) as scope:
        await oma.run_agent({"name": "x"}, "q")
    assert scope.cancelled_caught
    assert [event.type for event in events] == ["agent_start", "agent_complete"]
    assert events[1].data.status.code == "cancelled"


@proves("ORC-22")
async def test_a_raising_listener_is_left_out_and_harms_nobody() -> None:
    calls: list[str] = []
    events: list[Any] = []

    def broken(event: Any) -> None:
        calls.append(event.type)
        raise RuntimeError("no")

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(["a", "b"]), on_progress=broken, listeners=[broken, events.append]
    )
    assert (await oma.run_agent({"name": "x"}, "q")).output == "a"
    assert calls == ["agent_start"] * 2
    assert [event.type for event in events] == ["agent_start", "agent_complete"]
    await oma.run_agent({"name": "x"}, "q")
    assert len(calls) == 4


@proves("ORC-23")
async def test_an_async_listener_is_served_while_the_run_goes_on() -> None:
    heard = anyio.Event()

    async def listener(event: Any) -> None:
        heard.set()

    async def wait(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await heard.wait()
        return "ok"

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(wait), on_progress=listener)
    with anyio.fail_after(5):
        assert (await oma.run_agent({"name": "x"}, "q")).output == "ok"


@proves("ORC-23")
async def test_a_listener_that_never_returns_delays_a_run_by_its_grace_only() -> None:
    async def never(event: Any) -> None:
        await anyio.sleep_forever()

    events: list[Any] = []
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), on_progress=never, listeners=[events.append])
    with anyio.fail_after(5):
        assert (await oma.run_agent({"name": "x"}, "q")).output == "ok"
    assert len(events) == 2


@proves("ORC-12")
async def test_the_steps_stand_in_their_order() -> None:
    order: list[str] = []

    def sampled(call: RunCall) -> bool:
        order.append("evaluation")
        return False

    async def user(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        order.append("user")
        result = await call_next()
        order.append("user out")
        return result

    def model(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        order.append("agent")
        return "ok"

    class Spans(SpanProcessor):
        def on_start(self, span: Span, parent_context: Any = None) -> None:
            order.append(span.name)

        def on_end(self, span: ReadableSpan) -> None:
            order.append(f"{span.name} out")

    provider = TracerProvider()
    provider.add_span_processor(Spans())
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter(model),
        default_model="m",
        on_progress=lambda event: order.append(event.type),
        middleware=[user],
        evaluation=OnlineEvaluation([lambda context: 1.0], sample=sampled),
        tracer_provider=provider,
    )
    await oma.run_agent({"name": "x"}, "q")
    inner = ["user", "chat m", "agent", "chat m out", "user out"]
    around = ["agent_start", *inner, "agent_complete"]
    assert order == ["evaluation", "invoke_agent x", *around, "invoke_agent x out"]


@proves("ORC-13")
async def test_a_middleware_may_repeat_the_run() -> None:
    async def retry(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        result = await call_next()
        return result if result.success else await call_next()

    adapter = ScriptedAdapter([RuntimeError("down"), spend("ok", tokens=7)])
    oma = OpenMultiAgent(default_adapter=adapter, middleware=[retry])
    result = await oma.run_agent({"name": "x"}, "q")
    assert result.output == "ok"
    assert result.token_usage == TokenUsage(input_tokens=7, unknown_calls=1)
    assert [call.messages for call in adapter.calls] == [[LLMMessage.user("q")]] * 2


@proves("ORC-13")
async def test_a_middleware_may_answer_itself() -> None:
    first = await OpenMultiAgent(default_adapter=ScriptedAdapter([spend("cached", tokens=9)])).run_agent(
        {"name": "x"}, "q", metadata={"a": 1}
    )

    async def cached(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        return first

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([]), middleware=[cached])
    result = await oma.run_agent({"name": "x"}, "q", run_id="own")
    assert result.output == "cached"
    assert result.identity.run_id == "own"
    assert result.token_usage == TokenUsage()
    assert result.metadata is None
    assert result.messages[0] is not first.messages[0]


@proves("ORC-14")
@pytest.mark.parametrize(
    "bad", ["raise", None, "text", {"status": None}, {"success": "yes"}, {"output": None}, {"error_info": {}}]
)
async def test_a_broken_middleware_is_a_failed_result(bad: object) -> None:
    async def broken(call: RunCall, call_next: RunNext) -> Any:
        result = await call_next()
        if bad == "raise":
            raise RuntimeError("no")
        return result.replace(**bad) if isinstance(bad, dict) else bad

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([spend("ok", tokens=7)]), middleware=[broken])
    result = await oma.run_agent({"name": "x"}, "q")
    assert not result.success
    assert result.error_info is not None
    assert result.error_info.kind == "callback"
    assert result.token_usage.input_tokens == 7


@proves("ORC-30")
@pytest.mark.parametrize(
    ("orchestrator", "call", "agent"), [(30, None, None), (99, 30, None), (99, 99, 30), (30, 99, 99)]
)
async def test_the_least_token_budget_holds(orchestrator: int, call: int | None, agent: int | None) -> None:
    oma = OpenMultiAgent(default_adapter=ScriptedAdapter([spend("answer", tokens=35)]), max_token_budget=orchestrator)
    result = await oma.run_agent({"name": "x", "max_token_budget": agent}, "q", max_token_budget=call)
    assert isinstance(result.error, TokenBudgetExceededError)
    assert (result.error.tokens_used, result.error.budget) == (35, 30)
    assert result.status.code == "budget_exhausted"
    assert result.output == "answer"


@proves("ORC-31")
async def test_an_exhausted_budget_is_told_once_before_the_end() -> None:
    events: list[Any] = []
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter([spend("answer", tokens=35)]), max_token_budget=30, on_progress=events.append
    )
    result = await oma.run_agent({"name": "x"}, "q")
    assert [event.type for event in events] == ["agent_start", "budget_exceeded", "agent_complete"]
    assert isinstance(events[1], BudgetExceeded)
    assert events[1].data is not result.error
    assert vars(events[1].data) == vars(result.error)
    assert events[2].data.status.code == "budget_exhausted"


@proves("ORC-32", "ORC-30")
async def test_each_call_is_priced_once() -> None:
    priced: list[tuple[TokenUsage, CostEstimateContext]] = []

    def price(usage: TokenUsage, context: CostEstimateContext) -> float:
        priced.append((usage, context))
        return usage.total_tokens / 10

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    call = LLMResponse([ToolUseBlock(id="c", name="look", input={})], usage=TokenUsage(input_tokens=20))
    adapter = ScriptedAdapter([call, spend("answer", tokens=15)])
    oma = OpenMultiAgent(estimate_cost=price, max_cost_budget=3.0)
    result = await oma.run_agent(AgentConfig("x", adapter=adapter, model="m", tools=[look]), "q")
    context = CostEstimateContext(agent="x", model="m", provider=adapter.name, phase="agent")
    assert priced == [(TokenUsage(input_tokens=20), context), (TokenUsage(input_tokens=15), context)]
    assert isinstance(result.error, CostBudgetExceededError)
    assert (result.error.cost_used, result.error.budget) == (3.5, 3.0)


@proves("ORC-32")
@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), None, "1", True])
async def test_a_senseless_price_fails_the_run(price: Any) -> None:
    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter([spend("answer", tokens=5)]), estimate_cost=lambda usage, context: price
    )
    result = await oma.run_agent({"name": "x"}, "q")
    assert not result.success
    assert "invalid cost" in result.output
    assert result.error_info is not None
    assert result.error_info.kind == "callback"
    assert result.token_usage.input_tokens == 5


@tool
def noop() -> str:
    """Do nothing."""
    return "done"


STEPS = st.lists(
    st.tuples(st.sampled_from(["tool", "fail", "unknown"]), st.integers(0, 50), st.integers(0, 50)), max_size=6
)


@proves("ORC-33")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_usage_of_a_run_is_the_sum_of_its_calls(steps: list[tuple[str, int, int]]) -> None:
    script: list[Any] = []
    expected = TokenUsage()
    for kind, tokens_in, tokens_out in steps:
        usage = TokenUsage(input_tokens=tokens_in, output_tokens=tokens_out)
        if kind == "fail":
            script.append(RuntimeError("down"))
            expected += TokenUsage.unknown()
            break
        known = usage if kind == "tool" else None
        script.append(LLMResponse([ToolUseBlock(id="c", name="noop", input={})], usage=known))
        expected += TokenUsage.unknown() if known is None else known
    else:
        script.append("done")
        expected += TokenUsage.unknown()
    oma = OpenMultiAgent()
    config = AgentConfig("x", adapter=ScriptedAdapter(script), tools=[noop])
    result = anyio.run(oma.run_agent, config, "q")
    assert result.token_usage == expected


@proves("ORC-13", "ORC-31")
async def test_a_middleware_cannot_hide_an_exhausted_budget() -> None:
    events: list[str] = []

    async def forgive(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        result = await call_next()
        return result.replace(success=True, status=RunStatus("ok"), error=None, error_info=None)

    oma = OpenMultiAgent(
        default_adapter=ScriptedAdapter([spend("answer", tokens=35)]),
        max_token_budget=30,
        middleware=[forgive],
        on_progress=lambda event: events.append(event.type),
    )
    result = await oma.run_agent({"name": "x"}, "q")
    assert (result.success, result.status.code) == (False, "budget_exhausted")
    assert events == ["agent_start", "budget_exceeded", "agent_complete"]


@proves("ORC-20", "ORC-23")
async def test_what_ends_the_process_goes_through_as_it_is() -> None:
    events: list[str] = []

    async def listener(event: Any) -> None:
        events.append(event.type)

    async def leave(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        raise KeyboardInterrupt

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), on_progress=listener, middleware=[leave])
    with pytest.raises(KeyboardInterrupt):
        await oma.run_agent({"name": "x"}, "q")
    assert events == ["agent_start", "agent_complete"]


@proves("ORC-23")
async def test_a_plain_listener_that_returns_an_awaitable_is_awaited() -> None:
    heard: list[str] = []

    async def hear(event: Any) -> None:
        heard.append(event.type)

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), on_progress=lambda event: hear(event))  # noqa: PLW0108 - it looks plain
    await oma.run_agent({"name": "x"}, "q")
    assert heard == ["agent_start", "agent_complete"]


@proves("ORC-20")
async def test_a_cancelled_caller_with_an_async_listener() -> None:
    heard: list[str] = []

    async def hear(event: Any) -> None:
        heard.append(event.type)

    async def hang(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        await anyio.sleep_forever()
        return ""

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(hang), on_progress=hear)
    with anyio.move_on_after(0.02) as scope:
        await oma.run_agent({"name": "x"}, "q")
    assert scope.cancelled_caught
    assert heard == ["agent_start", "agent_complete"]


@proves("ORC-14", "AGT-49")
async def test_a_run_middleware_that_is_cancelled_by_what_it_uses() -> None:
    async def leave(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        raise asyncio.CancelledError

    result = await OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), middleware=[leave]).run_agent(
        {"name": "x"}, "q"
    )
    assert "a run middleware was cancelled by something that it uses" in result.output


class Empty:
    """Looks like nothing, and does something all the same."""

    def __init__(self, function: Any = lambda *_: None) -> None:
        self.function = function
        self.calls = 0

    def __len__(self) -> int:
        return 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.function(*arguments)


class EmptyStore:
    def __init__(self) -> None:
        self.stored: list[Any] = []

    def __bool__(self) -> bool:
        return False

    async def append(self, records: Sequence[Any]) -> None:
        self.stored += records


@proves("ORC-15")
async def test_what_looks_like_nothing_is_asked_and_told_all_the_same() -> None:
    look = tool(name="look")(lambda: "rain")
    usage = TokenUsage(input_tokens=1, output_tokens=1)
    answers = [
        LLMResponse([ToolUseBlock.new("1", "look", {})], usage=usage),
        LLMResponse([TextBlock.new("x")], usage=usage),
    ]
    told, listener, told_result, gate = Empty(), Empty(), Empty(), Empty(lambda *_: True)
    around_run, price = Empty(lambda call, call_next: call_next()), Empty(lambda *_: 0.0)
    around_call, around_tool = (Empty(lambda call, call_next: call_next(call)) for _ in range(2))
    before, after, judge, store = Empty(), Empty(), Empty(lambda context: 1.0), EmptyStore()
    oma = OpenMultiAgent(
        on_progress=told,
        listeners=[listener],
        middleware=[around_run],
        model_middleware=[around_call],
        tool_middleware=[around_tool],
        estimate_cost=price,
        evaluation=OnlineEvaluation([judge], store=store, on_result=told_result, sample=Empty(lambda call: True)),
    )
    agent = AgentConfig(
        "x", adapter=ScriptedAdapter(answers), tools=[look], before_run=before, after_run=after, on_tool_call=gate
    )
    assert (await oma.run_agent(agent, "q")).output == "x"
    assert await oma.evaluation.flush()
    once = (around_run, around_tool, before, after, gate, judge, told_result)
    assert [each.calls for each in once] == [1] * len(once)
    assert [each.calls for each in (told, listener, around_call, price)] == [2, 2, 2, 2]
    assert len(store.stored) == 1


@proves("ORC-12")
async def test_a_middleware_whose_result_contradicts_itself_fails_the_run() -> None:
    async def contradict(call: RunCall, call_next: RunNext) -> AgentRunResult[Any]:
        return (await call_next()).replace(status=RunStatus("error"))

    oma = OpenMultiAgent(default_adapter=ScriptedAdapter(["ok"]), middleware=[contradict])
    result = await oma.run_agent({"name": "x"}, "q")
    assert (result.success, result.status.code) == (False, "error")
    assert "success=True and status 'error'" in (result.status.message or "")

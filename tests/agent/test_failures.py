"""How runs fail, stop, and are cancelled."""

import asyncio
import math
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    Agent,
    AgentConfig,
    AgentRunResult,
    CancelToken,
    ConfigurationError,
    LLMAuthenticationError,
    LLMCallTimeoutError,
    LLMMessage,
    TextBlock,
    TokenBudgetExceededError,
    ToolResultBlock,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMChatOptions, LLMResponse, ModelCall, ModelNext
from openmultiagent.testing import ScriptedAdapter
from openmultiagent.usage import TokenUsage
from tests.support import proves

SECRET = "sk-abcdefghijklmnop1234"
CALL = ToolUseBlock(id="c1", name="work", input={})


def agent(adapter: Any, **fields: Any) -> Agent:
    return Agent(AgentConfig("tester", adapter=adapter, **fields))


def spend(content: list[Any] | str, *, tokens: int) -> LLMResponse:
    blocks = [TextBlock(text=content)] if isinstance(content, str) else content
    return LLMResponse(blocks, usage=TokenUsage(input_tokens=tokens - 5, output_tokens=5))


def assert_closed(result: AgentRunResult[Any]) -> None:
    """Every call in the messages has its result in the message after it."""
    for position, message in enumerate(result.messages):
        calls = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
        if calls:
            answers = [b.tool_use_id for b in result.messages[position + 1].content if isinstance(b, ToolResultBlock)]
            assert answers == calls


@tool
def work() -> str:
    """Work."""
    return "worked"


@proves("AGT-40")
async def test_a_failing_provider_is_a_result_that_keeps_what_there_was() -> None:
    down = LLMAuthenticationError(f"bad key {SECRET}", provider="openai", status=401)
    adapter = ScriptedAdapter([spend([CALL], tokens=20), down])
    result = await agent(adapter, tools=[work]).run("q")
    assert (result.success, result.status.code, result.stop_reason) == (False, "error", "error")
    assert result.error is down
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.http_status, result.error_info.retryable) == (
        "provider",
        401,
        False,
    )
    assert result.error_info.provider == "openai"
    assert SECRET not in str(result.to_dict())
    assert "bad key" in result.output
    assert result.token_usage.total_tokens == 20
    assert result.token_usage.unknown_calls == 1
    assert len(result.messages) == 2
    assert_closed(result)


@proves("AGT-40")
async def test_an_exception_without_text_is_named() -> None:
    result = await agent(ScriptedAdapter([KeyError()])).run("q")
    assert result.output == "KeyError"


@proves("AGT-41", "AGT-46")
async def test_tools_of_the_turn_that_went_over_budget_are_not_run() -> None:
    ran: list[str] = []

    @tool
    def effect() -> str:
        """Have an effect."""
        ran.append("x")
        return "done"

    blocks = [TextBlock(text="working"), ToolUseBlock(id="c1", name="effect", input={})]
    adapter = ScriptedAdapter([spend(blocks, tokens=35)])
    result = await agent(adapter, tools=[effect], max_token_budget=30).run("q")
    assert (result.success, result.status.code, result.stop_reason) == (False, "budget_exhausted", "budget")
    assert isinstance(result.error, TokenBudgetExceededError)
    assert (result.error.tokens_used, result.error.budget, result.error.agent) == (35, 30, "tester")
    assert result.output == "working"
    assert ran == []
    assert_closed(result)
    (answer,) = result.messages[-1].content
    assert isinstance(answer, ToolResultBlock)
    assert answer.is_error
    assert "budget" in str(answer.content)


@proves("AGT-46")
async def test_a_used_up_budget_refuses_the_next_call() -> None:
    adapter = ScriptedAdapter([spend([CALL], tokens=30), "never"])
    result = await agent(adapter, tools=[work], max_token_budget=30).run("q")
    assert len(adapter.calls) == 1
    assert result.status.code == "budget_exhausted"
    assert_closed(result)


@proves("AGT-46")
async def test_a_budget_that_is_just_met_by_the_last_call_is_fine() -> None:
    result = await agent(ScriptedAdapter([spend("answer", tokens=30)]), max_token_budget=30).run("q")
    assert result.success


@proves("AGT-42", "AGT-41")
async def test_a_run_that_takes_too_long_times_out() -> None:
    @tool
    async def stuck() -> str:
        """Never return."""
        await anyio.sleep_forever()
        return ""

    block = ToolUseBlock(id="c1", name="stuck", input={})
    result = await agent(ScriptedAdapter([spend([block], tokens=10)]), tools=[stuck], timeout=0.05).run("q")
    assert (result.success, result.status.code, result.stop_reason) == (False, "timeout", "timeout")
    assert isinstance(result.error, TimeoutError)
    assert "tester" in str(result.error)
    assert result.error_info is not None
    assert result.error_info.retryable
    assert result.token_usage.total_tokens == 10
    assert_closed(result)


class Hanging:
    name = "hanging"

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        await anyio.sleep_forever()
        raise AssertionError


@proves("AGT-43")
async def test_a_model_call_that_takes_too_long_times_out() -> None:
    result = await agent(Hanging(), call_timeout=0.02).run("q")
    assert result.status.code == "timeout"
    assert isinstance(result.error, LLMCallTimeoutError)
    assert (result.error.timeout, result.error.agent) == (0.02, "tester")
    assert "per-call timeout" in result.output
    assert result.token_usage.unknown_calls == 1


@proves("AGT-43")
async def test_every_call_has_its_own_time(anyio_backend_name: str) -> None:
    if anyio_backend_name == "asyncio":
        pytest.skip("calls with the same limit share a timer, so there is no deadline to see")
    deadlines: list[float] = []

    async def note(messages: list[LLMMessage], options: LLMChatOptions) -> Any:
        deadlines.append(anyio.current_effective_deadline())
        await anyio.sleep(0.01)
        return [CALL] if len(deadlines) == 1 else "done"

    await agent(ScriptedAdapter(note), tools=[work], call_timeout=20).run("q")
    assert deadlines[1] >= deadlines[0] + 0.01
    deadlines.clear()
    await agent(ScriptedAdapter(note), tools=[work], call_timeout=None).run("q")
    assert deadlines[-1] == math.inf


@proves("AGT-43")
async def test_calls_that_take_longer_together_than_one_may_are_in_time() -> None:
    async def slow(messages: list[LLMMessage], options: LLMChatOptions) -> Any:
        await anyio.sleep(0.2)
        return [CALL] if len(messages) < 5 else "done"

    began = anyio.current_time()
    result = await agent(ScriptedAdapter(slow), tools=[work], call_timeout=0.5).run("q")
    assert result.output == "done"
    assert anyio.current_time() - began > 0.5


@proves("AGT-43")
async def test_a_scope_around_the_call_is_no_timeout_of_the_call() -> None:
    with anyio.move_on_after(0.02) as scope:
        await agent(Hanging(), call_timeout=20).run("q")
    assert scope.cancelled_caught


@proves("AGT-44")
async def test_a_cancelled_token_ends_the_run_with_what_there_was() -> None:
    token = CancelToken()

    async def stop(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        token.cancel("enough")
        await anyio.sleep_forever()
        return ""

    adapter = ScriptedAdapter([spend([CALL], tokens=10), stop])
    result = await agent(adapter, tools=[work]).run("q", cancel=token)
    assert (result.success, result.status.code, result.stop_reason) == (False, "cancelled", "cancelled")
    assert result.status.message == "enough"
    assert result.error_info is not None
    assert (result.error_info.kind, result.error_info.retryable) == ("cancellation", False)
    assert result.token_usage == TokenUsage(input_tokens=5, output_tokens=5, unknown_calls=1)
    assert_closed(result)
    assert len(result.messages) == 2


@proves("AGT-44")
async def test_a_token_cancelled_before_calls_no_model() -> None:
    token = CancelToken()
    token.cancel()
    adapter = ScriptedAdapter(["never"])
    result = await agent(adapter).run("q", cancel=token)
    assert result.status.code == "cancelled"
    assert adapter.calls == []


@proves("AGT-44")
async def test_a_token_can_be_cancelled_from_a_thread() -> None:
    token = CancelToken()
    thread = threading.Timer(0.02, token.cancel)
    thread.start()
    result = await agent(Hanging()).run("q", cancel=token)
    thread.join()
    assert result.status.code == "cancelled"


@proves("AGT-44", "AGT-41")
async def test_calls_in_flight_are_answered_when_a_token_is_cancelled() -> None:
    token = CancelToken()

    @tool
    async def stop() -> str:
        """Stop the run."""
        token.cancel()
        await anyio.sleep_forever()
        return ""

    blocks = [CALL, ToolUseBlock(id="c2", name="stop", input={})]
    result = await agent(ScriptedAdapter([blocks]), tools=[work, stop]).run("q", cancel=token)
    assert result.status.code == "cancelled"
    assert_closed(result)


@proves("AGT-45")
async def test_cancellation_of_the_caller_goes_on_and_touches_no_history() -> None:
    tester = agent(Hanging(), history=[LLMMessage.user("a"), LLMMessage.assistant("b")])
    with anyio.move_on_after(0.02) as scope:
        await tester.prompt("q")
    assert scope.cancelled_caught
    assert len(tester.get_history()) == 2
    with anyio.fail_after(1):  # and the next prompt does not wait for the cancelled one
        with anyio.move_on_after(0.02):
            await tester.prompt("q")


async def run_cancelled_after(steps: int) -> AgentRunResult[Any]:
    """Run two turns of two tool calls each, and cancel the run after some steps."""
    token = CancelToken()
    taken = 0

    async def step() -> None:
        nonlocal taken
        taken += 1
        if taken > steps:
            token.cancel()
        await anyio.lowlevel.checkpoint()

    @tool
    async def busy(name: str) -> str:
        """Be busy."""
        await step()
        return name

    async def model(messages: list[LLMMessage], options: LLMChatOptions) -> Any:
        await step()
        if len(messages) > 4:
            return "done"
        return [ToolUseBlock(id=f"{len(messages)}-{n}", name="busy", input={"name": str(n)}) for n in range(2)]

    return await agent(ScriptedAdapter(model), tools=[busy]).run("q", cancel=token)


@proves("AGT-41", "AGT-44")
async def test_a_run_cancelled_at_any_step_leaves_a_history_that_can_go_on() -> None:
    """Cancel the same run at its n-th step, for every n, until it finishes."""
    for steps in range(200):
        result = await run_cancelled_after(steps)
        assert_closed(result)
        after = await agent(ScriptedAdapter(["fine"])).run([LLMMessage.user("q"), *result.messages])
        assert after.success
        if result.success:
            break
    assert result.output == "done"
    assert steps > 5


class Closable:
    name = "closable"

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self.error = error

    async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
        return LLMResponse([TextBlock(text="ok")])

    async def aclose(self) -> None:
        self.closed += 1


@proves("AGT-47")
async def test_a_given_adapter_is_never_closed() -> None:
    adapter = Closable()
    async with agent(adapter) as tester:
        await tester.run("q")
    await agent(adapter).run("q")
    assert adapter.closed == 0


@proves("AGT-40")
@pytest.mark.parametrize("kind", [asyncio.CancelledError, None], ids=["asyncio", "own loop"])
async def test_a_cancellation_that_nobody_asked_for_is_a_failure(kind: type[BaseException] | None) -> None:
    async def leave(messages: list[LLMMessage], options: LLMChatOptions) -> str:
        if kind is not None:
            raise kind
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        return "went on"

    result = await agent(ScriptedAdapter(leave)).run("q")
    if kind is None:
        assert result.output == "went on"
    else:
        assert not result.success
        assert "was cancelled by something" in result.output


@proves("AGT-42")
async def test_an_answer_after_the_limit_comes_too_late() -> None:
    async def swallow(call: ModelCall, call_next: ModelNext) -> LLMResponse:
        try:
            return await call_next(call)
        except BaseException:  # what no middleware should do
            return LLMResponse([TextBlock(text="late")])

    result = await agent(Hanging(), model_middleware=[swallow], timeout=0.02).run("q")
    assert result.status.code == "timeout"


@proves("AGT-48")
@pytest.mark.parametrize("method", ["run", "stream", "prompt"])
def test_what_is_no_token_is_refused_at_the_call(method: str) -> None:
    with pytest.raises(ConfigurationError, match="cancel must be a CancelToken"):
        getattr(agent(ScriptedAdapter([])), method)("q", cancel="now")


@proves("AGT-49")
@pytest.mark.parametrize("hook", ["before_run", "after_run"])
async def test_a_hook_that_is_cancelled_by_what_it_uses_fails_the_run(hook: str) -> None:
    async def leave(_: object) -> None:
        raise asyncio.CancelledError

    result = await agent(ScriptedAdapter(["ok"]), **{hook: leave}).run("q")
    assert not result.success
    assert f"{hook} was cancelled by something that it uses" in result.output
    assert result.error_info is not None
    assert result.error_info.kind == "callback"


@proves("AGT-49")
async def test_a_cancelled_caller_goes_through_a_hook() -> None:
    async def hang(_: object) -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.02) as scope:
        await agent(ScriptedAdapter(["ok"]), before_run=hang).run("q")
    assert scope.cancelled_caught


@proves("AGT-45")
async def test_a_caller_that_is_cancelled_already_pays_for_no_call() -> None:
    asked: list[int] = []

    class Instant:
        name = "instant"

        async def chat(self, messages: Sequence[LLMMessage], options: LLMChatOptions) -> LLMResponse:
            asked.append(len(messages))
            return LLMResponse([TextBlock(text="ok")])

    with anyio.CancelScope() as scope:
        scope.cancel()
        await agent(Instant()).run("q")
    assert scope.cancelled_caught
    assert asked == []

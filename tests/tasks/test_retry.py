"""Trying tasks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import (
    AgentRunResult,
    CancelToken,
    ConfigurationError,
    DependencyPayloadError,
    DurableApprovalError,
    ErrorInfo,
    LLMCallTimeoutError,
    LLMMessage,
    LLMRateLimitError,
    LLMServerError,
    RunIdentity,
    RunStatus,
    TaskSpec,
    TokenBudgetExceededError,
    TokenUsage,
    UsageEntry,
)
from openmultiagent.tasks import (
    TaskRetry,
    compute_retry_delay,
    create_task,
    execute_with_retry,
    failed_result,
    is_retryable_result,
)
from tests.support import proves

pytestmark = pytest.mark.anyio

WHO = RunIdentity("run")


def entry(tokens: int, phase: str = "agent") -> UsageEntry:
    return UsageEntry("w", "m", "p", phase, TokenUsage(input_tokens=tokens), cost=0.5, requests=1)


def ok(tokens: int = 0, **fields: Any) -> AgentRunResult[Any]:
    return AgentRunResult(
        success=True,
        status=RunStatus("ok"),
        stop_reason="end_turn",
        output="done",
        identity=WHO,
        token_usage=TokenUsage(input_tokens=tokens),
        usage_report=(entry(tokens),),
        **fields,
    )


def failed(text: str = "no", tokens: int = 0, **fields: Any) -> AgentRunResult[Any]:
    given = {"status": RunStatus("error", text), "stop_reason": "error", "output": text, **fields}
    return ok(tokens).replace(success=False, **given)


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Script:
    """Attempts that come to these outcomes, in turn; and what was waited and told in between."""

    def __init__(self, *outcomes: AgentRunResult[Any] | BaseException) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0
        self.waits: list[float] = []
        self.told: list[TaskRetry] = []

    async def run(self) -> AgentRunResult[Any]:
        self.calls += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def execute(self, rng: Callable[[], float] = lambda: 1.0, **fields: Any) -> AgentRunResult[Any]:
        policy = TaskSpec("t", "d", **{"retry_delay": 0.1, **fields})
        return await execute_with_retry(self.run, policy, self.told.append, sleep=self.sleep, rng=rng, identity=WHO)


@proves("TSK-40")
@pytest.mark.parametrize(
    ("base", "backoff", "attempt", "delay"),
    [
        (1, 2, 1, 1.0),
        (1, 2, 2, 2.0),
        (1, 2, 3, 4.0),
        (1, 2, 21, 30.0),
        (1, 1, 9, 1.0),
        (50, 2, 1, 30.0),
        (1, 2, 10**6, 30.0),
        (0, 2, 10**6, 0.0),
        (1, 0.5, 3, 1.0),
    ],
)
def test_the_delay(base: float, backoff: float, attempt: int, delay: float) -> None:
    assert compute_retry_delay(base, backoff, attempt) == delay


@proves("TSK-40")
@given(st.floats(0, 1e6), st.floats(1, 1e6), st.integers(1, 10**6))
def test_a_delay_grows_up_to_its_bound(base: float, backoff: float, attempt: int) -> None:
    delay = compute_retry_delay(base, backoff, attempt)
    assert 0 <= delay <= 30
    assert delay <= compute_retry_delay(base, backoff, attempt + 1)


@proves("TSK-41")
async def test_a_success_is_not_tried_again() -> None:
    script = Script(ok())
    assert (await script.execute(max_retries=3)).success
    assert (script.calls, script.waits, script.told) == (1, [], [])


@proves("TSK-41")
async def test_nothing_is_tried_again_unless_asked() -> None:
    script = Script(failed())
    assert not (await script.execute()).success
    assert script.calls == 1


@proves("TSK-40", "TSK-41")
async def test_an_exception_is_a_failed_attempt() -> None:
    script = Script(RuntimeError("transient error"), ok())
    assert (await script.execute(max_retries=2)).success
    assert script.told == [TaskRetry(attempt=1, max_attempts=3, error="transient error", next_delay=0.1)]
    assert script.waits == [0.1]


@proves("TSK-41", "TSK-42")
async def test_an_exception_that_persists_becomes_a_result() -> None:
    error = RuntimeError("still")
    script = Script(RuntimeError("a"), RuntimeError("b"), error)
    result = await script.execute(max_retries=2)
    assert (script.calls, len(script.told)) == (3, 2)
    assert (result.success, result.output, result.status) == (False, "still", RunStatus("error", "still"))
    assert (result.identity, result.error) == (WHO, error)
    assert result.error_info is not None
    assert result.error_info.name == "RuntimeError"


@proves("TSK-40")
@pytest.mark.parametrize(
    ("chance", "waits"), [(1.0, [0.1, 0.2, 0.4]), (0.0, [0.05, 0.1, 0.2]), (0.5, [0.075, 0.15, 0.3])]
)
async def test_waits_are_between_half_and_all_of_the_delay(chance: float, waits: list[float]) -> None:
    script = Script(*[failed()] * 4)
    await script.execute(rng=lambda: chance, max_retries=3)
    assert script.waits == pytest.approx(waits)
    assert [told.next_delay for told in script.told] == script.waits
    assert [told.error for told in script.told] == ["no"] * 3


@proves("TSK-42")
async def test_usage_is_that_of_all_attempts_and_the_rest_of_the_last() -> None:
    last = ok(200, messages=[LLMMessage.assistant("last")])
    script = Script(failed("a", 100, messages=[LLMMessage.assistant("x")]), RuntimeError("b"), last)
    result = await script.execute(max_retries=5)
    assert result.token_usage == TokenUsage(input_tokens=300)
    [merged] = result.usage_report
    assert (merged.usage.input_tokens, merged.cost, merged.requests) == (300, 1.0, 2)
    assert (result.messages, result.output) == (last.messages, "done")


@proves("TSK-42")
async def test_usage_of_attempts_that_all_fail() -> None:
    script = Script(failed("a", 50, usage_report=(entry(50), entry(0, "summary"))), failed("b", 30))
    result = await script.execute(max_retries=1)
    assert result.token_usage.input_tokens == 80
    assert [(each.phase, each.usage.input_tokens) for each in result.usage_report] == [("agent", 80), ("summary", 0)]
    assert result.output == "b"


INFO = ErrorInfo(kind="provider", message="x", retryable=True)
TERMINAL: list[AgentRunResult[Any] | Exception] = [
    StatusError(401),
    failed(error=StatusError(401)),
    failed(error=StatusError(404)),
    failed(error_info=ErrorInfo(kind="provider", retryable=False)),
    failed(error_info=ErrorInfo(kind="validation", retryable=True)),
    failed(error_info=ErrorInfo(kind="callback")),
    failed(error_info=ErrorInfo(kind="budget")),
    failed(error_info=INFO, error=StatusError(400)),
    failed(status=RunStatus("cancelled")),
    failed(status=RunStatus("budget_exhausted")),
    failed(status=RunStatus("rejected")),
    failed(status=RunStatus("suspended")),
    TokenBudgetExceededError(agent="w", tokens_used=2, budget=1),
    DependencyPayloadError("x", code="DEPENDENCY_PAYLOAD_TOO_LARGE"),
    ConfigurationError("x"),
]
RETRIED: list[AgentRunResult[Any] | Exception] = [
    StatusError(429),
    StatusError(503),
    failed(),
    failed(error=StatusError(408)),
    failed(error_info=INFO),
    failed(error_info=INFO, error=LLMServerError("x", provider="p", status=500)),
    failed(status=RunStatus("timeout"), error_info=ErrorInfo(kind="timeout", retryable=True)),
    LLMRateLimitError("x", provider="p", status=429),
    LLMCallTimeoutError(timeout=1),
]


@proves("TSK-41")
@pytest.mark.parametrize("outcome", TERMINAL, ids=repr)
async def test_what_cannot_succeed_is_not_tried_again(outcome: AgentRunResult[Any] | Exception) -> None:
    script = Script(outcome, ok())
    assert not (await script.execute(max_retries=3)).success
    assert (script.calls, script.told) == (1, [])


@proves("TSK-41")
@pytest.mark.parametrize("outcome", RETRIED, ids=repr)
async def test_what_may_succeed_is_tried_again(outcome: AgentRunResult[Any] | Exception) -> None:
    script = Script(outcome, ok())
    assert (await script.execute(max_retries=1)).success
    assert script.calls == 2


@proves("TSK-41")
async def test_a_suspension_is_raised() -> None:
    with pytest.raises(DurableApprovalError):
        await Script(DurableApprovalError("wait")).execute(max_retries=3)
    assert not is_retryable_result(ok())


@proves("TSK-43")
async def test_no_attempt_is_made_after_the_token_was_cancelled() -> None:
    script, token = Script(), CancelToken()
    token.cancel("enough")
    result = await execute_with_retry(script.run, TaskSpec("t", "d"), cancel=token)
    assert script.calls == 0
    assert (result.status, result.stop_reason) == (RunStatus("cancelled", "Run aborted: enough"), "cancelled")
    assert (result.output, result.token_usage.total_tokens) == ("Run aborted: enough", 0)
    bare = CancelToken()
    bare.cancel()
    again = await execute_with_retry(script.run, TaskSpec("t", "d"), cancel=bare, identity=WHO)
    assert (again.output, again.identity) == ("Run aborted", WHO)
    assert again.error_info == ErrorInfo(kind="cancellation", message="Run aborted", retryable=False)


@proves("TSK-42", "TSK-43")
async def test_cancelling_ends_a_wait_and_keeps_what_the_last_attempt_had() -> None:
    script, token = Script(failed("a", 10), failed("partial", 5)), CancelToken()

    async def sleep(seconds: float) -> None:
        if script.calls == 1:
            return
        token.cancel()
        await anyio.sleep_forever()

    task = create_task(TaskSpec("t", "d", max_retries=3))
    with anyio.fail_after(10):
        result = await execute_with_retry(script.run, task, sleep=sleep, cancel=token)
    assert script.calls == 2
    assert (result.status.code, result.stop_reason, result.output) == ("cancelled", "cancelled", "partial")
    assert result.token_usage.input_tokens == 15
    assert not is_retryable_result(result)


@proves("TSK-43")
async def test_a_native_cancellation_propagates() -> None:
    began = anyio.Event()

    async def run() -> AgentRunResult[Any]:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError

    returned = False
    async with anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal returned
            await execute_with_retry(run, TaskSpec("t", "d", max_retries=3))
            returned = True

        group.start_soon(call)
        await began.wait()
        group.cancel_scope.cancel()
    assert not returned


@proves("TSK-41")
def test_results_that_no_agent_made() -> None:
    error = TokenBudgetExceededError(agent="w", tokens_used=2, budget=1)
    result = failed_result(error, identity=WHO, attempt=2)
    assert (result.status.code, result.stop_reason, result.error) == ("budget_exhausted", "budget", error)
    assert result.error_info is not None
    assert result.error_info.attempt == 2
    refused = failed_result(ValueError("x"), identity=WHO, kind="validation")
    assert refused.stop_reason == "error"
    assert not is_retryable_result(refused)

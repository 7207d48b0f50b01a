"""Tasks that are tried again, perhaps with another model, and the time that each attempt may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import (
    AgentConfig,
    CancelToken,
    InvalidTaskRequirementsError,
    ModelCall,
    OpenMultiAgent,
    TeamRunResult,
)
from openmultiagent.adapters import AdapterCapabilities, LLMChatOptions, LLMResponse
from openmultiagent.errors import AdapterError
from tests.support import proves
from tests.support.teams import Model, Seen, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


class RejectedError(Exception):
    """What a server says that will not change its mind."""

    status_code = 401


class BusyError(AdapterError):
    """What a server says that may do better later."""

    def __init__(self, status: int = 429) -> None:
        super().__init__("busy", status=status, provider="model", retryable=True)


@proves("DSP-22")
async def test_a_task_is_tried_again_and_its_usage_is_that_of_all_attempts() -> None:
    model, seen = Model({"A": (answer("", tokens=3), ValueError("x"), answer("yes", tokens=4))}), Seen()
    agents = [AgentConfig("a", after_run=_refuse_empty)]
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks({"name": "crew", "agents": agents}, [task("A", max_retries=2, retry_delay=0.001)])
    assert result.success
    assert result.final_output == "yes"
    assert result.task_results["A"].token_usage.input_tokens == result.total_token_usage.input_tokens == 7
    assert result.tasks[0].metrics is not None
    assert result.tasks[0].metrics.retries == 2
    assert result.metrics is not None
    assert result.metrics.total_retries == 2
    kinds = ["task_start", "agent_start", "task_retry", "task_retry", "task_complete", "agent_complete"]
    assert seen.kinds("A") == kinds
    retry = seen.of("task_retry")[0]
    assert (retry.agent, retry.task, retry.data.attempt, retry.data.max_attempts) == ("a", "A", 1, 3)
    assert 0.0005 <= retry.data.next_delay <= 0.001


def _refuse_empty(result: Any) -> Any:
    if not result.output:
        return result.replace(success=False, status=type(result.status)("error", "empty"))
    return result


@proves("DSP-22")
async def test_what_cannot_succeed_is_not_tried_again() -> None:
    model, seen = Model({"A": RejectedError("who are you"), "B": ValueError("no")}), Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    tasks = [task("A", max_retries=3, retry_delay=0), task("B", max_retries=1, retry_delay=0), task("C")]
    result = await oma.run_tasks(team(), tasks)
    assert [record.status for record in result.tasks] == ["failed", "failed", "completed"]
    assert sorted(model.calls) == ["A", "B", "B", "C"]
    assert len(seen.of("task_retry")) == 1


@proves("DSP-22")
async def test_every_attempt_begins_anew() -> None:
    model = Model({"A": (ValueError("no"), "yes")})
    await OpenMultiAgent(default_adapter=model).run_tasks(team("a"), [task("A", max_retries=1, retry_delay=0)])
    assert model.prompts == ["# Task: A\n\nDo A."] * 2
    assert [len(sent) for sent in model.sent] == [1, 1]


@proves("DSP-23")
async def test_a_cancellation_ends_the_wait_for_another_attempt() -> None:
    token, results = CancelToken(), []
    model = Model({"A": ValueError("no")}, tokens=1)

    def on_progress(event: Any) -> None:
        if event.type == "task_retry":
            token.cancel("enough")

    oma = OpenMultiAgent(default_adapter=model, on_progress=on_progress)
    with anyio.fail_after(10):
        results.append(await oma.run_tasks(team(), [task("A", max_retries=5, retry_delay=600)], cancel=token))
    assert model.calls == ["A"]
    assert str(results[0].status) == "cancelled"
    assert results[0].tasks[0].status == "failed"


@proves("DSP-23")
async def test_the_time_limit_of_the_run_ends_the_wait_for_another_attempt() -> None:
    model = Model({"A": ValueError("no")})
    with anyio.fail_after(10):
        result = await OpenMultiAgent(default_adapter=model).run_tasks(
            team(), [task("A", max_retries=5, retry_delay=600), task("B", "A")], limits={"seconds": 0.05}
        )
    assert str(result.status) == "budget_exhausted"
    assert model.calls == ["A"]


@proves("DSP-24")
async def test_a_timeout_is_for_each_attempt_and_the_narrower_one_counts() -> None:
    async def hangs(_messages: object, _options: object) -> Any:
        await anyio.sleep_forever()

    model = Model({"A": (hangs, "in time"), "B": hangs})
    agents = [AgentConfig("a", timeout=0.05), AgentConfig("b")]
    with anyio.fail_after(10):
        result = await OpenMultiAgent(default_adapter=model).run_tasks(
            {"name": "crew", "agents": agents},
            [
                task("A", assignee="b", timeout=0.05, max_retries=1, retry_delay=0),
                task("B", assignee="a", timeout=600),
                task("C", assignee="b"),
            ],
        )
    assert [record.status for record in result.tasks] == ["completed", "failed", "completed"]
    assert str(result.task_results["B"].status) == str(result.status) == "timeout"
    failed = result.task_results["B"]
    assert failed.error_info is not None
    assert failed.error_info.message == str(failed.error) == failed.status.message
    assert failed.status.message == "task 'B': Agent \"a\" exceeded its run timeout of 0.05s"


# --- models ----------------------------------------------------------------------------------------------------------


class Routed:
    """An adapter that tells models apart."""

    name = "routed"
    capabilities = AdapterCapabilities(read_only=True)

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.models: list[str] = []

    async def chat(self, messages: Sequence[Any], options: LLMChatOptions) -> LLMResponse:
        self.models.append(options.model)
        wanted = self.answers.get(options.model.replace("-", "_"), "ok")
        if isinstance(wanted, Exception):
            raise wanted
        return answer(wanted, tokens=1)


def routing(*rules: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {"rules": [{"match": match, "route": route} for match, route in rules]}


FALLBACKS = routing(({"phase": "worker"}, {"model": "first", "fallback": [{"model": "second"}, {"model": "third"}]}))


async def routed(adapter: Routed, retries: int, policy: dict[str, Any] = FALLBACKS, **config: Any) -> TeamRunResult:
    agents = [AgentConfig("a", model="own", adapter=adapter, **config)]
    oma = OpenMultiAgent()
    return await oma.run_tasks(
        {"name": "crew", "agents": agents}, [task("A", max_retries=retries, retry_delay=0)], model_routing=policy
    )


@proves("DSP-25")
async def test_a_provider_that_is_busy_is_a_reason_for_the_next_model() -> None:
    adapter = Routed(first=BusyError(), second="from second")
    result = await routed(adapter, 1)
    assert adapter.models == ["first", "second"]
    assert result.final_output == "from second"
    assert {entry.model for entry in result.usage_report} == {"first", "second"}
    adapter = Routed(first=BusyError(), second=BusyError(503), third=BusyError())
    assert not (await routed(adapter, 3)).success
    assert adapter.models == ["first", "second", "third", "third"]


@proves("DSP-25")
async def test_no_other_failure_is_a_reason_for_another_model() -> None:
    adapter = Routed(first=RejectedError("no"))
    assert not (await routed(adapter, 3)).success
    assert adapter.models == ["first"]

    def hook(_context: Any) -> Any:
        raise ValueError("out of order")

    adapter = Routed()
    assert not (await routed(adapter, 2, before_run=hook)).success
    assert adapter.models == []
    adapter = Routed()
    refused = await routed(adapter, 1, after_run=lambda each: each.replace(success=False, status=_error(each)))
    assert not refused.success
    assert adapter.models == ["first", "first"]


def _error(result: Any) -> Any:
    return type(result.status)("error", "not good enough")


@proves("DSP-25")
async def test_rules_look_at_the_place_of_a_task_in_the_graph() -> None:
    adapter = Routed()
    agents = [AgentConfig("a", model="own", adapter=adapter)]
    policy = routing(
        ({"task_priority": "critical", "has_dependencies": True}, {"model": "premium"}),
        ({"leaf": True}, {"model": "cheap"}),
    )
    oma = OpenMultiAgent(max_concurrency=1)
    tasks = [task("A", priority="critical"), task("B", "A", priority="critical"), task("C", "A")]
    assert (await oma.run_tasks({"name": "crew", "agents": agents}, tasks, model_routing=policy)).success
    assert adapter.models == ["own", "premium", "cheap"]


@proves("DSP-26")
async def test_a_model_that_breaks_a_requirement_is_refused_at_the_call_and_left_out_as_a_fallback() -> None:
    oma = OpenMultiAgent(default_model="m", default_provider="anthropic")
    crew = {"name": "crew", "agents": [{"name": "a", "api_key": "k"}]}
    needs = [task("A", requires={"required_provider": "anthropic"})]
    wrong = routing(({"phase": "worker"}, {"model": "gpt", "provider": "openai", "api_key": "k"}))
    with pytest.raises(InvalidTaskRequirementsError, match="NO_ELIGIBLE_AGENT"):
        oma.run_tasks(crew, needs, model_routing=wrong)  # type: ignore[unused-coroutine]  # there is none
    leaves = routing(({"leaf": True}, {"model": "gpt", "provider": "openai", "api_key": "k"}))
    oma.run_tasks(crew, [*needs, task("B", "A")], model_routing=leaves).close()
    with pytest.raises(InvalidTaskRequirementsError):
        oma.run_tasks(crew, needs, model_routing=leaves)  # type: ignore[unused-coroutine]  # there is none


@proves("DSP-26")
async def test_who_is_chosen_meets_the_requirements_with_the_model_of_its_route() -> None:
    """The rule leads one of two agents away from the provider that the task needs."""
    used: list[tuple[str, str]] = []

    async def answers(call: ModelCall, _call_next: Any) -> LLMResponse:
        used.append((call.agent, call.options.model))
        return answer("from a cache")

    policy = routing(({"agent": "a"}, {"model": "gpt", "provider": "openai", "api_key": "k"}))
    needs = {"required_provider": "anthropic"}
    oma = OpenMultiAgent(default_model="m", default_provider="anthropic", model_middleware=[answers])
    tasks = [task("A", requires=needs), task("B", requires=needs), task("C", "B")]
    crew = {"name": "crew", "agents": [{"name": "a", "api_key": "k"}, {"name": "b", "api_key": "k"}]}
    result = await oma.run_tasks(crew, tasks, model_routing=policy)
    assert [record.assignee for record in result.tasks][:2] == ["b", "b"]
    assert used[:2] == [("b", "m"), ("b", "m")]

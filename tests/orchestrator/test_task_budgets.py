"""What a run of tasks, its tasks and its agents may use, and what happens at these limits."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from openmultiagent import AgentConfig, OpenMultiAgent, TeamRunResult, ToolUseBlock, tool
from tests.support import proves
from tests.support.teams import Model, Seen, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def statuses(result: TeamRunResult) -> list[str]:
    return [record.status for record in result.tasks]


@tool
def look() -> str:
    """Look around."""
    return "seen"


def looks(tokens: int) -> Any:
    return answer("", blocks=[ToolUseBlock.new("1", "look", {})], tokens=tokens)


@proves("DSP-80")
async def test_a_run_that_is_over_its_budget_starts_nothing_more() -> None:
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=Model(tokens=35), listeners=[seen], max_concurrency=1, max_token_budget=60)
    result = await oma.run_tasks(team(), [task("A"), task("B"), task("C"), task("D")])
    assert statuses(result) == ["completed", "completed", "skipped", "skipped"]
    assert (str(result.status), result.success) == ("budget_exhausted", False)
    assert result.total_token_usage.total_tokens == 70
    told = seen.of("budget_exceeded")
    assert [(event.agent, event.task, event.data.budget) for event in told] == [("b", "B", 60)]
    assert str(result.error) == 'Team "crew" exceeded token budget: 70 tokens used (budget: 60)'
    assert seen.kinds("B") == ["task_start", "agent_start", "budget_exceeded", "task_complete", "agent_complete"]
    assert "60" in (result.tasks[2].result or "")
    assert seen.kinds("C") == seen.kinds("D") == ["task_skipped"]
    assert result.error_info is not None
    assert result.error_info.code == "TOKEN_BUDGET_EXCEEDED"


@proves("DSP-80")
async def test_siblings_of_the_task_that_was_too_much_come_to_their_own_end() -> None:
    first, over = anyio.Event(), anyio.Event()
    seen = Seen()

    async def waits(_messages: object, _options: object) -> Any:
        first.set()
        await over.wait()
        return answer("B is done")

    async def uses(_messages: object, _options: object) -> Any:
        await first.wait()
        return answer("A is done", tokens=11)

    def on_progress(event: Any) -> None:
        if event.type == "budget_exceeded":
            over.set()

    oma = OpenMultiAgent(
        default_adapter=Model({"A": uses, "B": waits}), listeners=[seen], on_progress=on_progress, max_token_budget=10
    )
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")])
    assert statuses(result) == ["completed", "completed", "skipped"]
    kinds = seen.kinds()
    assert kinds.count("budget_exceeded") == 1
    b_done = next(place for place, event in enumerate(seen) if (event.type, event.task) == ("task_complete", "B"))
    assert kinds.index("budget_exceeded") < b_done


@proves("DSP-80")
async def test_a_limit_that_is_just_reached_only_stops_what_would_come_next() -> None:
    oma = OpenMultiAgent(default_adapter=Model(tokens=5), max_concurrency=1)
    done = await oma.run_tasks(team(), [task("A"), task("B")], max_token_budget=10)
    assert done.success
    more = await oma.run_tasks(team(), [task("A"), task("B"), task("C")], max_token_budget=10)
    assert (str(more.status), statuses(more)) == ("budget_exhausted", ["completed", "completed", "skipped"])
    once = await oma.run_tasks(team(), [task("A"), task("B", "A")], limits={"requests": 1})
    assert (str(once.status), statuses(once)) == ("budget_exhausted", ["completed", "skipped"])


@proves("DSP-81")
async def test_the_budget_of_the_run_holds_inside_a_task_too() -> None:
    model, seen = Model({"A": looks(6)}), Seen()
    agents = [AgentConfig("a", tools=[look])]
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks({"name": "crew", "agents": agents}, [task("A"), task("B", "A")], max_token_budget=10)
    assert model.calls == ["A", "A"]
    assert (str(result.status), statuses(result)) == ("budget_exhausted", ["failed", "failed"])
    assert seen.kinds().count("budget_exceeded") == 1


@proves("DSP-82")
async def test_an_agents_own_budget_and_that_of_a_task_hold_for_all_attempts_of_a_task() -> None:
    seen = Seen()
    agents = [AgentConfig("a", max_token_budget=30), AgentConfig("b")]
    model = Model({"A": answer("x", tokens=35), "B": (ValueError("no"), answer("", tokens=9))}, tokens=1)
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks(
        {"name": "crew", "agents": agents},
        [
            task("A", assignee="a", max_retries=2, retry_delay=0),
            task("B", assignee="b", max_token_budget=5, max_retries=2, retry_delay=0),
            task("C", assignee="a"),
            task("D", "A"),
        ],
    )
    assert statuses(result) == ["failed", "failed", "completed", "failed"]
    assert str(result.status) == "budget_exhausted"
    assert sorted(model.calls) == ["A", "B", "B", "C"]
    told = [(event.agent, event.task, event.data.budget) for event in seen.of("budget_exceeded")]
    assert sorted(told) == [("a", "A", 30), ("b", "B", 5)]
    assert result.task_results["A"].output == "x"


@proves("DSP-82")
async def test_attempts_share_the_budget_of_their_task() -> None:
    def refuses(result: Any) -> Any:
        return result.replace(success=False, status=type(result.status)("error", "no"))

    model, seen = Model(tokens=4), Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks(
        {"name": "crew", "agents": [AgentConfig("a", after_run=refuses)]},
        [task("A", max_token_budget=6, max_retries=5, retry_delay=0)],
    )
    assert len(model.calls) == 2
    assert str(result.task_results["A"].status) == "budget_exhausted"
    assert result.task_results["A"].token_usage.input_tokens == 8
    assert len(seen.of("budget_exceeded")) == 1


def price(usage: Any, context: Any) -> float:
    return float(usage.total_tokens) / 100


@proves("DSP-83")
async def test_money_is_a_budget_like_tokens() -> None:
    seen = Seen()
    oma = OpenMultiAgent(
        default_adapter=Model(tokens=35), listeners=[seen], max_concurrency=1, estimate_cost=price, max_cost_budget=0.6
    )
    result = await oma.run_tasks(team(), [task("A"), task("B"), task("C")])
    assert (str(result.status), statuses(result)) == ("budget_exhausted", ["completed", "completed", "skipped"])
    assert result.error_info is not None
    assert result.error_info.code == "COST_BUDGET_EXCEEDED"
    assert len(seen.of("budget_exceeded")) == 1
    own = await oma.run_tasks(team(), [task("A", max_cost_budget=0.1), task("B", "A")])
    assert (str(own.status), statuses(own)) == ("budget_exhausted", ["failed", "failed"])


@proves("DSP-83")
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, "free"])
async def test_a_price_that_is_none_fails_the_task(wrong: Any) -> None:
    def estimate(_usage: Any, context: Any) -> Any:
        assert (context.agent, context.phase, context.model, context.provider) == ("a", "worker", "m", "model")
        return wrong

    seen = Seen()
    oma = OpenMultiAgent(default_adapter=Model(), default_model="m", estimate_cost=estimate, listeners=[seen])
    result = await oma.run_tasks(team("a"), [task("A"), task("B", "A")])
    assert statuses(result) == ["failed", "failed"]
    assert "invalid cost" in result.task_results["A"].output
    assert "invalid cost" in seen.of("task_failed")[0].data.message


@proves("DSP-84")
async def test_a_run_ends_when_its_time_is_up() -> None:
    async def hangs(_messages: object, _options: object) -> Any:
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model({"A": hangs}))
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")], limits={"seconds": 0.05})
    assert statuses(result) == ["failed", "completed", "failed"]
    assert str(result.status) == "budget_exhausted"
    assert isinstance(result.error_info.code if result.error_info else None, str)


@proves("DSP-80")
async def test_a_hard_budget_is_never_exceeded() -> None:
    model = Model(tokens=40)
    oma = OpenMultiAgent(default_adapter=model, budget_mode="hard", max_token_budget=200)
    agents = [{"name": "a", "max_tokens": 20}]
    result = await oma.run_tasks({"name": "crew", "agents": agents}, [task(f"T{number}") for number in range(9)])
    assert str(result.status) == "budget_exhausted"
    assert result.total_token_usage.total_tokens <= 200
    assert "completed" in statuses(result)

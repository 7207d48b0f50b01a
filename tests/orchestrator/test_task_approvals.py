"""The application's say in a run of tasks: before each task, or between rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from openmultiagent import CancelToken, ConfigurationError, OpenMultiAgent, TeamRunResult, ToolUseBlock
from openmultiagent.tasks import Task
from tests.support import proves
from tests.support.teams import Model, Seen, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def statuses(result: TeamRunResult) -> list[str]:
    return [record.status for record in result.tasks]


# --- before each task ------------------------------------------------------------------------------------------------


@proves("DSP-50")
async def test_the_gate_is_asked_before_each_task_with_the_one_who_will_do_it() -> None:
    asked: list[tuple[str, str | None, str]] = []
    model, is_asking = Model(), False

    async def gate(about: Task) -> object:
        nonlocal is_asking
        assert not is_asking
        is_asking = True
        await anyio.lowlevel.checkpoint()
        is_asking = False
        asked.append((about.title, about.assignee, about.status))
        return {"action": "allow"}

    oma = OpenMultiAgent(default_adapter=model, on_task_dispatch=gate)
    result = await oma.run_tasks(team(), [task("A"), task("B"), task("C", "A", "B")])
    assert result.success
    assert [title for title, _, _ in asked] == ["A", "B", "C"]
    assert [(record.title, record.assignee, "pending") for record in result.tasks] == asked


@proves("DSP-51")
@pytest.mark.parametrize(
    ("no", "text"),
    [
        (False, "rejected by on_task_dispatch"),
        ({"action": "deny", "reason": "too dear"}, "rejected by on_task_dispatch: too dear"),
    ],
)
async def test_a_refusal_lets_what_is_at_work_end_and_skips_the_rest(no: object, text: str) -> None:
    asked: list[str] = []

    def gate(about: Task) -> object:
        asked.append(about.title)
        return no if about.title == "B" else True

    model, seen = Model(), Seen()
    oma = OpenMultiAgent(default_adapter=model, on_task_dispatch=gate, listeners=[seen])
    result = await oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")])
    assert statuses(result) == ["completed", "skipped", "skipped"]
    assert asked == ["A", "B"]
    assert (str(result.status), result.status.message, result.tasks[1].result) == ("rejected", text, text)
    assert result.error_info is None
    assert seen.kinds("B") == ["task_skipped"]
    assert seen.of("task_skipped")[0].data.status == "skipped"
    assert seen.kinds("C") == ["task_skipped"]


def raises(_about: object) -> object:
    raise ValueError("no idea")


async def raises_later(_about: object) -> object:
    await anyio.lowlevel.checkpoint()
    raise ValueError("late")


@proves("DSP-52")
@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (raises, "no idea"),
        (raises_later, "late"),
        (lambda _about: None, "must answer True, False"),
        (lambda _about: 1, "must answer True, False"),
        (lambda _about: {"action": "maybe"}, "must answer True, False"),
        (lambda _about: {"action": "deny", "reason": 5}, "must answer True, False"),
        (lambda _about: {"action": "suspend"}, "durable"),
    ],
)
async def test_a_gate_that_fails_or_says_nothing_stops_the_run(gate: Callable[..., object], text: str) -> None:
    model = Model()
    result = await OpenMultiAgent(default_adapter=model, on_task_dispatch=gate).run_tasks(
        team(), [task("A"), task("B", "A")]
    )
    assert statuses(result) == ["skipped", "skipped"]
    assert str(result.status) == "error"
    assert text in (result.status.message or "")
    assert result.error_info is not None
    assert result.error_info.kind == "callback"
    assert model.calls == []


@proves("DSP-52")
async def test_a_gate_whose_own_work_is_cancelled_has_failed() -> None:
    async def gate(_about: object) -> object:
        raise asyncio.CancelledError

    result = await OpenMultiAgent(default_adapter=Model(), on_task_dispatch=gate).run_tasks(team(), [task("A")])
    assert (str(result.status), statuses(result)) == ("error", ["skipped"])
    assert "was cancelled" in (result.status.message or "")


@proves("DSP-53")
@pytest.mark.parametrize("how", ["answers", "waits"])
async def test_a_cancellation_wins_over_the_gate(how: str) -> None:
    token, model = CancelToken(), Model()

    async def gate(_about: object) -> object:
        token.cancel("never mind")
        if how == "waits":
            await anyio.sleep_forever()
        return False

    oma = OpenMultiAgent(default_adapter=model, on_task_dispatch=gate)
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A")], cancel=token)
    assert (str(result.status), statuses(result)) == ("cancelled", ["skipped"])
    assert "never mind" in (result.tasks[0].result or "")


@proves("DSP-53")
async def test_a_budget_that_is_used_up_meanwhile_wins_over_the_gate() -> None:
    done = anyio.Event()

    async def gate(about: Task) -> object:
        if about.title == "B":
            await done.wait()
            return False
        return True

    def on_progress(event: Any) -> None:
        if event.type == "task_complete":
            done.set()

    oma = OpenMultiAgent(default_adapter=Model(tokens=5), on_task_dispatch=gate, on_progress=on_progress)
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A"), task("B")], max_token_budget=4)
    assert (str(result.status), statuses(result)) == ("budget_exhausted", ["completed", "skipped"])


@proves("DSP-53")
async def test_a_run_does_not_wait_for_its_gate_longer_than_it_has_time() -> None:
    async def gate(_about: object) -> None:
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model(), on_task_dispatch=gate)
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A")], limits={"seconds": 0.05})
    assert (str(result.status), statuses(result)) == ("budget_exhausted", ["skipped"])
    assert result.error_info is not None
    assert result.error_info.kind == "budget"


@proves("DSP-54")
async def test_a_slot_is_kept_while_the_gate_is_asked() -> None:
    """An agent that delegates twice meanwhile does not get it, so that never more agents work than may."""
    asked, delegated = anyio.Event(), anyio.Event()

    async def gate(about: Task) -> object:
        if about.title == "B":
            asked.set()
            await delegated.wait()
        return True

    async def delegates(messages: Sequence[Any], _options: object) -> Any:
        if len(messages) > 1:
            delegated.set()
            return "done"
        await asked.wait()
        calls = [
            ToolUseBlock.new(prompt, "delegate_to_agent", {"target_agent": "b", "prompt": prompt})
            for prompt in ("Help.", "Help again.")
        ]
        return answer("", blocks=calls)

    async def helps(_messages: object, _options: object) -> str:
        await anyio.wait_all_tasks_blocked()  # the other one has been answered by then
        return "helped"

    model = Model({"A": delegates, "Help.": helps, "Help again.": helps})
    crew = {"name": "crew", "agents": [{"name": "a", "tools": ["delegate_to_agent"]}, {"name": "b"}]}
    oma = OpenMultiAgent(default_adapter=model, on_task_dispatch=gate, max_concurrency=2)
    with anyio.fail_after(10):
        result = await oma.run_tasks(crew, [task("A", assignee="a"), task("B", assignee="b")])
    assert result.success
    assert model.peak <= 2
    outputs = sorted(str(call.output)[:11] for call in result.task_results["A"].tool_calls)
    assert outputs == ["all 2 agent", "helped"]


# --- between rounds --------------------------------------------------------------------------------------------------


class Rounds:
    """A gate between rounds that keeps what it was asked."""

    def __init__(self, say: object = True) -> None:
        self.say = say
        self.asked: list[tuple[list[str], list[tuple[str, str | None]]]] = []

    def __call__(self, completed: Sequence[Task], following: Sequence[Task]) -> object:
        assert isinstance(completed, list)
        assert isinstance(following, list)
        self.asked.append(([each.title for each in completed], [(each.title, each.assignee) for each in following]))
        completed.clear()
        following.clear()
        if isinstance(self.say, Exception):
            raise self.say
        return self.say


@proves("DSP-55")
async def test_rounds_are_approved_with_what_is_done_and_what_comes() -> None:
    rounds, model = Rounds(), Model()
    oma = OpenMultiAgent(default_adapter=model, on_approval=rounds)
    tasks = [task("A", assignee="a"), task("B", assignee="b"), task("C", "A"), task("D", "C")]
    result = await oma.run_tasks(team(), tasks)
    assert result.success
    assert [titles for titles, _ in rounds.asked] == [["A", "B"], ["C"]]
    by_title = {record.title: record.assignee for record in result.tasks}
    assert [following for _, following in rounds.asked] == [[("C", by_title["C"])], [("D", by_title["D"])]]
    assert by_title["C"] is not None


@proves("DSP-55")
async def test_a_round_ends_before_the_next_one_begins_and_is_not_wider_than_may_be() -> None:
    model = Model()
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=model, on_approval=Rounds(), max_concurrency=2, listeners=[seen])
    tasks = [task("low", priority="low"), *(task(f"T{number}") for number in range(4)), task("urgent", "T0")]
    assert (await oma.run_tasks(team(), tasks)).success
    assert model.peak <= 2
    ends = [place for place, each in enumerate(seen) if each.type == "task_complete" and each.task != "urgent"]
    begin = next(place for place, each in enumerate(seen) if each.type == "task_start" and each.task == "urgent")
    assert begin > max(ends)
    begun = [each.task for each in seen.of("task_start")]
    assert begun[0] == "T0"  # another one waits for it
    assert begun[-2:] == ["low", "urgent"]


@proves("DSP-55")
async def test_a_single_round_and_one_without_success_are_not_asked_about() -> None:
    rounds = Rounds()
    oma = OpenMultiAgent(default_adapter=Model({"X": ValueError("no")}), on_approval=rounds)
    assert (await oma.run_tasks(team(), [task("A"), task("B")])).success
    assert statuses(await oma.run_tasks(team(), [task("X"), task("Y", "X")])) == ["failed", "failed"]
    assert rounds.asked == []
    mixed = await oma.run_tasks(team(), [task("X"), task("A"), task("B", "A")])
    assert statuses(mixed) == ["failed", "completed", "completed"]
    assert [titles for titles, _ in rounds.asked] == [["A"]]


@proves("DSP-55")
async def test_the_tasks_of_a_round_are_spread_by_load() -> None:
    rounds = Rounds()
    oma = OpenMultiAgent(default_adapter=Model(), on_approval=rounds, scheduling_strategy="least-busy")
    tasks = [task("A"), task("B"), task("C", "A"), task("D", "A")]
    result = await oma.run_tasks(team(), tasks)
    assert [record.assignee for record in result.tasks] == ["a", "b", "a", "b"]


@proves("DSP-56")
@pytest.mark.parametrize(
    ("say", "status", "text"),
    [
        (False, "rejected", "rejected by on_approval"),
        (ValueError("no idea"), "error", "no idea"),
        ("yes", "error", "must answer True, False"),
    ],
)
async def test_a_refusal_between_rounds_skips_the_rest(say: object, status: str, text: str) -> None:
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=Model(), on_approval=Rounds(say), listeners=[seen])
    result = await oma.run_tasks(team(), [task("A"), task("B", "A"), task("C", "B")])
    assert statuses(result) == ["completed", "skipped", "skipped"]
    assert (str(result.status), result.success) == (status, False)
    assert text in (result.status.message or "")
    assert "b" not in result.agent_results or result.tasks[0].assignee == "b"
    assert seen.kinds("B") == seen.kinds("C") == ["task_skipped"]


@proves("DSP-56")
async def test_a_cancellation_wins_over_the_gate_between_rounds() -> None:
    token = CancelToken()

    async def gate(_completed: object, _following: object) -> None:
        token.cancel()
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model(), on_approval=gate)
    with anyio.fail_after(10):
        result = await oma.run_tasks(team(), [task("A"), task("B", "A")], cancel=token)
    assert (str(result.status), statuses(result)) == ("cancelled", ["completed", "skipped"])


@proves("DSP-56")
async def test_a_budget_ends_a_round() -> None:
    rounds = Rounds()
    oma = OpenMultiAgent(default_adapter=Model(tokens=5), on_approval=rounds, max_concurrency=1)
    result = await oma.run_tasks(team(), [task("A"), task("B"), task("C", "A")], max_token_budget=4)
    assert (str(result.status), statuses(result)) == ("budget_exhausted", ["completed", "skipped", "skipped"])
    assert rounds.asked == []


@proves("DSP-57")
def test_both_gates_together_and_what_cannot_be_called_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="give one of them"):
        OpenMultiAgent(on_approval=Rounds(), on_task_dispatch=bool)
    with pytest.raises(ConfigurationError, match="on_approval must be callable"):
        OpenMultiAgent(on_approval=True)  # type: ignore[arg-type]  # that is the point

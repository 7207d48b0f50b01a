"""The events of runs of tasks, for listeners and in streams."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from openmultiagent import CancelToken, OpenMultiAgent, TeamRunResult, ToolUseBlock
from openmultiagent.tasks import Task
from tests.support import proves
from tests.support.teams import Model, Seen, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


@proves("DSP-60")
async def test_events_say_what_happens_with_the_task_as_it_is_then() -> None:
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=Model({"B": ValueError("no")}), listeners=[seen], max_concurrency=1)
    before = datetime.now(UTC)
    await oma.run_tasks(team(), [task("A", assignee="a"), task("B", "A", assignee="b"), task("C", "B")], run_id="r")
    assert [(event.type, event.task, event.agent) for event in seen] == [
        ("task_start", "A", "a"),
        ("agent_start", "A", "a"),
        ("task_complete", "A", "a"),
        ("agent_complete", "A", "a"),
        ("task_start", "B", "b"),
        ("agent_start", "B", "b"),
        ("task_failed", "B", "b"),
        ("task_failed", "C", None),
        ("agent_complete", "B", "b"),
    ]
    assert [event.sequence for event in seen] == list(range(1, 10))
    assert {event.run_id for event in seen} == {"r"}
    assert before <= seen[0].timestamp <= seen[-1].timestamp
    started = seen[0].data
    assert isinstance(started, Task)
    assert (started.status, started.assignee) == ("in_progress", "a")
    assert seen[1].data == {"phase": "worker", "task": started}
    assert seen[2].data.output == seen[3].data.output == "A is done"
    failure = seen[6].data
    assert (failure.message, failure.error_info.name, failure.result.success) == ("no", "ValueError", False)
    assert (seen[7].data.result, "dependency 'B'" in seen[7].data.message) == (None, True)
    assert not seen[8].data.success


@proves("DSP-62")
async def test_a_listener_that_fails_costs_the_run_nothing() -> None:
    def broken(_event: Any) -> None:
        raise ValueError("no")

    last = Seen()
    oma = OpenMultiAgent(default_adapter=Model(), listeners=[broken, last])
    assert (await oma.run_tasks(team(), [task("A"), task("B", "A")])).success
    assert len(last) == 8


@proves("DSP-63")
async def test_a_stream_has_progress_and_what_the_agents_write_told_apart_by_task() -> None:
    model = Model({"A": "first", "B": "second", "C": "third"})
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    async with oma.stream_tasks(team("a"), [task("A"), task("B"), task("C", "A", "B")], run_id="r") as stream:
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = stream.result
        events = [event async for event in stream]
    assert {(event.task, event.data) for event in events if event.type == "text"} == {
        ("A", "first"),
        ("B", "second"),
        ("C", "third"),
    }
    assert {event.agent for event in events if event.type == "text"} == {"a"}
    assert {event.run_id for event in events} == {"r"}
    assert events[-1].type == "done"
    assert [event.type for event in events].count("done") == 1
    result = events[-1].data
    assert isinstance(result, TeamRunResult)
    assert result.success
    assert stream.result.final_output == "third"
    progress = ("task_start", "agent_start", "task_complete", "agent_complete")
    assert [(event.type, event.task) for event in events if event.type in progress] == [
        (event.type, event.task) for event in seen
    ]
    for name in "ABC":
        kinds = [event.type for event in events if event.task == name]
        assert kinds[:2] == ["task_start", "agent_start"]
        assert kinds[-2:] == ["task_complete", "agent_complete"]
        assert "turn_start" in kinds
        assert "text" in kinds


@proves("DSP-63")
async def test_a_failed_run_says_so_in_the_result_of_its_stream() -> None:
    oma = OpenMultiAgent(default_adapter=Model({"A": ValueError("no")}))
    async with oma.stream_tasks(team(), [task("A"), task("B")]) as stream:
        events = [event async for event in stream]
    assert events[-1].type == "done"
    assert not stream.result.success
    assert {record.id: record.status for record in stream.result.tasks} == {"A": "failed", "B": "completed"}


@proves("DSP-64")
async def test_a_stream_that_is_left_ends_its_run() -> None:
    reached, ended = anyio.Event(), anyio.Event()
    seen = Seen()

    async def hangs(_messages: object, _options: object) -> Any:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    oma = OpenMultiAgent(default_adapter=Model({"A": hangs}), listeners=[seen])
    with anyio.fail_after(10):
        async with oma.stream_tasks(team(), [task("A"), task("B", "A")]) as stream:
            async for event in stream:
                if event.type == "turn_start":
                    await reached.wait()
                    break
        assert ended.is_set()
    assert seen.kinds("A") == ["task_start", "agent_start", "task_failed", "agent_complete"]
    assert seen.kinds("B") == ["task_failed"]


@proves("DSP-64")
async def test_a_token_ends_a_stream_with_its_result() -> None:
    token = CancelToken()

    async def hangs(_messages: object, _options: object) -> Any:
        token.cancel("enough")
        await anyio.sleep_forever()

    oma = OpenMultiAgent(default_adapter=Model({"A": hangs}))
    with anyio.fail_after(10):
        async with oma.stream_tasks(team(), [task("A"), task("B", "A")], cancel=token) as stream:
            events = [event async for event in stream]
    assert events[-1].type == "done"
    assert str(stream.result.status) == "cancelled"


@proves("DSP-63")
async def test_two_streams_at_the_same_time_never_mix() -> None:
    model = Model({"A": lambda messages, _options: f"of {messages[0].content[0].text[-2:]}"})
    oma = OpenMultiAgent(default_adapter=model)
    group = oma.create_team("crew", team())
    texts: dict[str, set[Any]] = {}

    async def read(number: int) -> None:
        tasks = [task("A", description=f"Number {number:02}"), task("B", "A")]
        async with oma.stream_tasks(group, tasks, run_id=str(number)) as stream:
            events = [event async for event in stream]
        assert {event.run_id for event in events} == {str(number)}
        texts[str(number)] = {event.data for event in events if event.type == "text" and event.task == "A"}

    async with anyio.create_task_group() as runs:
        for number in range(20):
            runs.start_soon(read, number)
    assert texts == {str(number): {f"of {number:02}"} for number in range(20)}


@proves("DSP-65")
async def test_the_team_is_told_what_becomes_of_tasks() -> None:
    oma = OpenMultiAgent(default_adapter=Model({"B": ValueError("no")}), max_concurrency=1)
    group = oma.create_team("crew", team())
    told: list[tuple[str, Any]] = []
    for name in ("task:ready", "task:complete", "task:failed", "task:skipped", "all:complete"):
        group.on(name, lambda data, name=name: told.append((name, getattr(data, "title", data))))  # type: ignore[misc]
    group.on("task:complete", lambda _task: 1 / 0)
    result = await oma.run_tasks(group, [task("A"), task("B", "A"), task("C", "B")])
    assert [record.status for record in result.tasks] == ["completed", "failed", "failed"]
    assert told == [
        ("task:complete", "A"),
        ("task:ready", "B"),
        ("task:failed", "B"),
        ("task:failed", "C"),
        ("all:complete", None),
    ]


@proves("DSP-66")
async def test_tool_calls_of_workers_are_in_the_stream_in_their_order() -> None:
    call = ToolUseBlock.new("1", "send_message", {"recipient": "b", "content": "Hello."})
    model = Model({"A": (answer("", blocks=[call]), "end")})
    crew = {"name": "crew", "agents": [{"name": "a", "tools": ["send_message"]}, {"name": "b"}]}
    oma = OpenMultiAgent(default_adapter=model)
    async with oma.stream_tasks(crew, [task("A", assignee="a"), task("B", "A", assignee="b")]) as stream:
        events = [event async for event in stream]
    kinds = [event.type for event in events if event.task == "A"]
    assert kinds.index("tool_use") < kinds.index("tool_result") < kinds.index("task_complete")
    assert "**a**: Hello." in model.prompts[-1]

"""The queue of a run's tasks."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import pickle
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from openmultiagent import ConfigurationError
from openmultiagent.tasks import (
    QueueProgress,
    Task,
    TaskBoard,
    TaskQueue,
    TaskRequirements,
    TaskSpec,
    create_task,
    new_task_id,
)
from tests.support import proves

EVENTS = ("task:ready", "task:complete", "task:failed", "task:skipped")


def spec(task_id: str, *depends_on: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id.upper(), "d", id=task_id, depends_on=depends_on, **fields)


def queue_of(*specs: TaskSpec) -> TaskQueue:
    queue = TaskQueue()
    queue.add_batch(specs)
    return queue


def statuses(queue: TaskQueue) -> dict[str, str]:
    return {task.id: task.status for task in queue.list()}


def record(queue: TaskQueue) -> list[str]:
    """What the queue's handlers are told from now on."""
    told: list[str] = []

    def teller(event: str) -> Callable[[Task], None]:
        return lambda task: told.append(f"{event} {task.id}")

    for event in EVENTS:
        queue.on(event, teller(event))  # type: ignore[call-overload]
    queue.on("all:complete", lambda: told.append("all:complete"))
    return told


# --- adding and completing -------------------------------------------------------------------------------------------


@proves("TSK-20", "TSK-22", "TSK-28")
def test_tasks_become_ready_when_all_that_they_depend_on_is_completed() -> None:
    queue = TaskQueue()
    told = record(queue)
    assert queue.add(spec("a")).status == "pending"
    assert queue.add(spec("b", "a")).status == "blocked"
    assert queue.add(spec("c", "a", "b")).status == "blocked"
    assert told == ["task:ready a"]
    assert queue.complete("a", "done").result == "done"
    assert statuses(queue) == {"a": "completed", "b": "pending", "c": "blocked"}
    queue.start("b", "w")
    queue.complete("b")
    queue.complete("c")
    assert told == [
        *["task:ready a", "task:complete a", "task:ready b", "task:complete b", "task:ready c"],
        *["task:complete c", "all:complete"],
    ]


@proves("TSK-20")
def test_tasks_that_are_added_together_may_come_in_any_order() -> None:
    queue = queue_of(spec("b", "a"), spec("a"), spec("c"))
    assert statuses(queue) == {"b": "blocked", "a": "pending", "c": "pending"}
    queue.complete("a")
    assert statuses(queue)["b"] == "pending"


@proves("TSK-20", "TSK-30")
def test_a_dependency_that_is_not_there_counts_as_open() -> None:
    queue = queue_of(spec("b", "a"))
    assert statuses(queue) == {"b": "blocked"}
    assert queue.is_stalled()
    queue.add(spec("a"))
    assert not queue.is_stalled()
    queue.complete("a")
    assert statuses(queue)["b"] == "pending"


@proves("TSK-20")
def test_a_task_that_has_ended_already_is_added_as_it_is() -> None:
    done = create_task(spec("a", "x")).replace(status="completed", result="kept")
    queue = queue_of(spec("early", "a"))
    added, late = queue.add_batch([done, spec("late", "a")])
    assert (added, late.status) == (done, "pending")
    assert statuses(queue) == {"early": "pending", "a": "completed", "late": "pending"}


@proves("TSK-20", "TSK-26")
def test_tasks_are_added_all_or_none() -> None:
    queue = queue_of(spec("a"))
    told = record(queue)
    for batch in ([spec("b"), spec("a")], [spec("b"), spec("b")]):
        with pytest.raises(ConfigurationError, match="is taken"):
            queue.add_batch(batch)
    assert (len(queue), told) == (1, [])
    with pytest.raises(ConfigurationError, match="has no field"):
        queue.add({"title": "t", "description": "d", "x": 1})
    queue.add({"title": "t", "description": "d", "id": "b"})
    assert "b" in queue
    assert "c" not in queue


@proves("TSK-21", "TSK-29")
def test_the_order_of_the_list_never_changes_and_tasks_that_were_handed_out_stay() -> None:
    queue = queue_of(spec("c", "a"), spec("a"), spec("b"))
    before = queue.list()
    queue.start("a", "w")
    queue.complete("a", "x")
    queue.complete("c")
    assert [task.id for task in queue.list()] == ["c", "a", "b"]
    assert [task.status for task in before] == ["blocked", "pending", "pending"]
    before.clear()
    assert len(queue.list()) == 3
    assert queue.get("nobody") is None
    done = queue.get("a")
    assert done is not None
    assert (done.assignee, done.result, done.is_terminal) == ("w", "x", True)
    assert done.updated_at >= done.created_at
    assert [task.id for task in queue.get_by_status("completed")] == ["c", "a"]
    assert [task.id for task in queue.get_by_status("pending")] == ["b"]


# --- failing and skipping --------------------------------------------------------------------------------------------


@proves("TSK-23")
@pytest.mark.parametrize(("status", "verb"), [("failed", "failed"), ("skipped", "was skipped")])
def test_what_waits_for_a_task_ends_with_it(status: str, verb: str) -> None:
    queue = queue_of(spec("a"), spec("b", "a"), spec("c", "b", "d"), spec("d"), spec("e", "d"))
    told = record(queue)
    ended = queue.fail("a", "no luck") if status == "failed" else queue.skip("a", "no luck")
    assert (ended.status, ended.result, ended.failed_through) == (status, "no luck", None)
    assert statuses(queue) == {"a": status, "b": status, "c": status, "d": "pending", "e": "blocked"}
    assert told == [f"task:{status} {each}" for each in "abc"]
    b, c = queue.get("b"), queue.get("c")
    assert b is not None
    assert c is not None
    assert (b.result, b.failed_through) == (f"dependency 'A' (a) {verb}: no luck", "a")
    assert (c.result, c.failed_through) == (f"dependency 'A' (a) {verb}: no luck (through 'B')", "b")
    queue.complete("d")
    assert statuses(queue)["e"] == "pending"
    queue.complete("e")
    assert told[-1] == "all:complete"
    assert told.count("all:complete") == 1


@proves("TSK-23", "TSK-28")
def test_the_last_failure_completes_the_queue_once() -> None:
    queue = queue_of(spec("a"), spec("b", "a"))
    told = record(queue)
    queue.fail("a", "x")
    assert told == ["task:failed a", "task:failed b", "all:complete"]
    assert queue.is_complete()


@proves("TSK-23")
def test_the_reason_of_a_long_chain_stays_short() -> None:
    queue = queue_of(spec("t0"), *(spec(f"t{index}", f"t{index - 1}") for index in range(1, 1000)))
    queue.fail("t0", "x" * 10_000)
    last = queue.get("t999")
    assert last is not None
    assert len(last.result or "") < 1000


@proves("TSK-24")
@pytest.mark.parametrize("together", [True, False])
def test_a_task_added_behind_one_that_failed_fails(together: bool) -> None:
    queue = TaskQueue()
    told = record(queue)
    first = create_task(spec("a")).replace(status="failed", result="why")
    rest = [spec("c", "b"), spec("b", "a"), spec("d", "a", "x")]
    queue.add_batch([first, *rest] if together else [first])
    if not together:
        assert queue.add_batch(rest)[0].status == "failed"
    assert statuses(queue) == dict.fromkeys(statuses(queue), "failed")
    c = queue.get("c")
    assert c is not None
    assert c.failed_through == "b"
    assert "all:complete" in told


@proves("TSK-25", "TSK-28")
def test_skip_remaining() -> None:
    queue = queue_of(spec("a"), spec("b"), spec("c", "x"), spec("d"), spec("e"), spec("f", "e"))
    queue.complete("a", "ok")
    queue.fail("b", "bad")
    queue.start("d")
    told = record(queue)
    skipped = queue.skip_remaining("stopped")
    assert [(task.id, task.status, task.result) for task in skipped] == [
        (each, "skipped", "stopped") for each in "cdef"
    ]
    assert told == [*(f"task:skipped {each}" for each in "cdef"), "all:complete"]
    assert statuses(queue) | {"a": "completed", "b": "failed"} == statuses(queue)
    assert queue.skip_remaining("again") == []
    assert len(told) == 5


# --- what is not allowed ---------------------------------------------------------------------------------------------


def in_every_state() -> TaskQueue:
    queue = queue_of(
        spec("pending"), spec("blocked", "pending"), *map(spec, ("working", "completed", "failed", "skipped"))
    )
    queue.start("working", "w")
    queue.complete("completed", "r")
    queue.fail("failed", "r")
    queue.skip("skipped", "r")
    return queue


ALLOWED: dict[str, set[str]] = {
    "pending": {"start", "complete", "fail", "skip", "update", "again"},
    "blocked": {"fail", "skip", "update"},
    "working": {"complete", "fail", "skip", "update", "again", "start"},
}
ACTIONS: dict[str, Callable[[TaskQueue, str], object]] = {
    "start": lambda queue, key: queue.start(key, "x"),
    "complete": lambda queue, key: queue.complete(key, "x"),
    "fail": lambda queue, key: queue.fail(key, "x"),
    "skip": lambda queue, key: queue.skip(key, "x"),
    "update": lambda queue, key: queue.update(key, assignee="x"),
    "again": lambda queue, key: queue.update(key, status="pending"),
    "block": lambda queue, key: queue.update(key, status="blocked", result="x"),
    "end": lambda queue, key: queue.update(key, status="completed"),
}


@proves("TSK-26")
@pytest.mark.parametrize(
    ("state", "action"),
    [
        (state, action)
        for state in ("pending", "blocked", "working", "completed", "failed", "skipped")
        for action in ACTIONS
        if (state, action) != ("blocked", "block")  # no change
    ],
)
def test_what_a_task_may_become(state: str, action: str) -> None:
    queue = in_every_state()
    told = record(queue)
    before = queue.snapshot()
    if action in ALLOWED.get(state, set()):
        ACTIONS[action](queue, state)
        assert queue.snapshot() != before
        return
    with pytest.raises(ConfigurationError, match=state if state != "working" else "working|in_progress"):
        ACTIONS[action](queue, state)
    assert queue.snapshot() == before
    assert told == []


@proves("TSK-26")
@pytest.mark.parametrize("action", ACTIONS)
def test_a_task_that_is_not_there_is_told(action: str) -> None:
    with pytest.raises(ConfigurationError, match="'nobody' not found"):
        ACTIONS[action](in_every_state(), "nobody")


@proves("TSK-26", "TSK-28")
def test_update_changes_only_what_it_is_given_and_tells_nobody() -> None:
    queue = queue_of(spec("a", assignee="w"))
    told = record(queue)
    queue.update("a", status="in_progress", result="half")
    queue.update("a", assignee=None)
    task = queue.update("a", status="pending")
    assert (task.status, task.result, task.assignee) == ("pending", "half", None)
    assert queue.update("a", status="pending").status == "pending"
    assert told == []
    assert [each.id for each in queue.ready()] == ["a"]


@proves("TSK-26")
def test_the_text_of_a_refusal_says_what_may_be_done() -> None:
    queue = queue_of(spec("a"), spec("b", "a"))
    with pytest.raises(
        ConfigurationError, match=r"task 'B' \(b\) is blocked and cannot become completed; it may become fai"
    ):
        queue.complete("b")
    queue.complete("a")
    with pytest.raises(ConfigurationError, match="it may become nothing else"):
        queue.complete("a")
    with pytest.raises(ConfigurationError, match="call complete, fail or skip"):
        queue.update("b", status="failed")


# --- choosing --------------------------------------------------------------------------------------------------------


@proves("TSK-27")
def test_which_task_is_next() -> None:
    queue = queue_of(
        spec("late", "first"), spec("first", assignee="ann"), spec("bobs", assignee="bob"), spec("free"), spec("other")
    )

    def chosen(assignee: str | None = None) -> str | None:
        task = queue.next(assignee)
        return task.id if task is not None else None

    assert (chosen("bob"), chosen("ann"), chosen("eve")) == ("bobs", "first", None)
    assert (chosen(), chosen()) == ("free", "free")
    queue.update("free", assignee="eve")
    assert (chosen("eve"), chosen()) == ("free", "other")
    queue.update("free", assignee=None)
    queue.start("other")
    assert (chosen("eve"), chosen()) == (None, "free")
    queue.complete("free")
    assert chosen() == "first"
    queue.complete("first")
    assert chosen() == "late"
    queue.start("late")
    queue.update("late", status="pending")
    assert [task.id for task in queue.ready()] == ["late", "bobs"]
    available = queue.next_available()
    assert available is not None
    assert available.id == "late"
    queue.skip_remaining("x")
    assert (chosen(), chosen("bob"), queue.next_available()) == (None, None, None)


@proves("TSK-30")
def test_the_progress() -> None:
    assert TaskQueue().is_complete()
    assert TaskQueue().get_progress().total == 0
    queue = in_every_state()
    progress = queue.get_progress()
    assert progress == QueueProgress(total=6, completed=1, failed=1, skipped=1, in_progress=1, pending=1, blocked=1)
    assert progress.to_dict()["in_progress"] == 1
    assert (queue.open_count, queue.is_complete()) == (3, False)
    assert isinstance(queue, TaskBoard)


# --- handlers --------------------------------------------------------------------------------------------------------


@proves("TSK-28")
def test_a_handler_may_change_the_queue() -> None:
    queue = TaskQueue()
    seen: list[str] = []

    def complete(task: Task) -> None:
        seen.append(f"{task.id} {statuses(queue)[task.id]}")
        queue.complete(task.id)

    queue.on("task:ready", complete)
    told = record(queue)
    queue.add_batch([spec("b", "a"), spec("a"), spec("c", "b")])
    assert seen == ["a pending", "b pending", "c pending"]
    assert told == [
        *["task:ready a", "task:complete a", "task:ready b", "task:complete b", "task:ready c", "task:complete c"],
        "all:complete",
    ]


@proves("TSK-28")
def test_a_handler_that_raises_disturbs_nobody() -> None:
    queue = TaskQueue()

    def broken(task: Task) -> None:
        raise ValueError(f"no {task.id}")

    def cancelled(task: Task) -> None:
        raise asyncio.CancelledError

    queue.on("task:ready", broken)
    queue.on("task:complete", cancelled)
    told = record(queue)
    with capture_logs() as logs:
        queue.add(spec("a"))
        queue.complete("a")
    assert told == ["task:ready a", "task:complete a", "all:complete"]
    assert [(log["event"], log["queue_event"], log["error"]) for log in logs] == [
        ("queue_handler_failed", "task:ready", "ValueError: no a"),
        ("queue_handler_failed", "task:complete", "CancelledError"),
    ]


@proves("TSK-28")
def test_unsubscribing() -> None:
    queue = TaskQueue()
    told: list[str] = []
    handler = told.append
    stop = queue.on("task:ready", lambda task: handler(task.id))
    queue.on("task:ready", lambda task: handler(task.id.upper()))
    queue.add(spec("a"))
    stop()
    stop()
    queue.add(spec("b"))
    assert told == ["a", "A", "B"]
    with pytest.raises(ConfigurationError, match="event must be one of task:ready"):
        queue.on("ready", print)  # type: ignore[call-overload]


# --- snapshots -------------------------------------------------------------------------------------------------------


def full_queue() -> TaskQueue:
    queue = in_every_state()
    queue.add(
        TaskSpec(
            "Full",
            [{"type": "text", "text": "x"}],
            id="full",
            depends_on=["working", "completed"],
            metadata={"k": ["a"]},
            requires=TaskRequirements(required_tools=["grep"]),
            retry_delay=0.5,
            priority="high",
        )
    )
    queue.add(create_task(TaskSpec("By title", "d", depends_on=["Completed"], assignee="x"), depends_on=["completed"]))
    queue.update(queue.list()[-1].id, assignee="y")
    return queue


@proves("TSK-31")
def test_a_queue_is_restored_as_it_stood() -> None:
    queue = full_queue()
    snapshot = json.loads(json.dumps(queue.snapshot(), allow_nan=False))
    before = copy.deepcopy(snapshot)
    restored = TaskQueue.from_snapshot(snapshot)
    assert snapshot == before
    assert restored.list() == queue.list()
    assert restored.snapshot() == queue.snapshot()
    assert snapshot["in_progress"] == ["working"]
    for each in (queue, restored):
        each.complete("working", "w")
        each.complete("pending", "p")
    assert statuses(restored) == statuses(queue)
    assert restored.get_progress() == queue.get_progress()
    assert restored.next("y") == restored.list()[-1]


@proves("TSK-31")
def test_tasks_in_progress_are_started_again_on_request() -> None:
    queue = full_queue()
    restored = TaskQueue.from_snapshot(queue.snapshot(), reset_in_progress=True)
    assert statuses(restored) == statuses(queue) | {"working": "pending"}
    snapshot = queue.snapshot()
    snapshot["tasks"][2]["depends_on"] = ["pending"]
    assert statuses(TaskQueue.from_snapshot(snapshot, reset_in_progress=True))["working"] == "blocked"


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    snapshot = json.loads(json.dumps(full_queue().snapshot()))
    change(snapshot)
    return dict(snapshot)


@proves("TSK-31")
@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        ([], "must be a mapping"),
        ({"version": 3, "tasks": []}, "version 1 or 2"),
        ({"version": 1}, "list of tasks"),
        ({"version": 1, "tasks": [3]}, r"tasks\[0\] must be a mapping"),
        (changed(lambda s: s["tasks"].append(s["tasks"][0])), "two tasks of one id"),
        (changed(lambda s: s["tasks"][0].update(status="blocked")), "'pending' is blocked, which its dependencies"),
        (changed(lambda s: s["tasks"][1].update(status="pending")), "'blocked' is pending, which its dependencies"),
        (changed(lambda s: s["tasks"][0].update(status="ready")), r"tasks\[0\] must have an id and a status"),
        (changed(lambda s: s["tasks"][0].pop("id")), r"tasks\[0\] must have an id and a status"),
        (changed(lambda s: s["tasks"][0].update(created_at="now")), r"tasks\[0\].created_at must be a time"),
        (changed(lambda s: s["tasks"][0].update(updated_at="2025-01-01T00:00:00")), r"tasks\[0\].updated_at must be a"),
        (changed(lambda s: s["tasks"][0].update(updated_at=3)), r"tasks\[0\].updated_at must be a"),
        (changed(lambda s: s["tasks"][0].update(result=3)), r"tasks\[0\].result must be a string or null"),
        (changed(lambda s: s["tasks"][0].update(max_retries=-1)), r"tasks\[0\].max_retries"),
        (changed(lambda s: s["tasks"][0].update(verify=True)), r"tasks\[0\] has no field 'verify'"),
        (changed(lambda s: s["tasks"][0].update(depends_on="a")), "depends_on must be a list"),
    ],
)
def test_a_snapshot_that_makes_no_sense_is_refused(snapshot: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TaskQueue.from_snapshot(snapshot)


# --- tasks -----------------------------------------------------------------------------------------------------------


@proves("TSK-29")
def test_a_task_never_changes() -> None:
    task = create_task(TaskSpec("T", "d", role="r", metadata={"a": 1}), depends_on=iter(["x", "x", "y"]))
    assert task.depends_on == ("x", "y")
    assert (task.title, task.description, task.text, task.role, task.priority) == ("T", "d", "d", "r", "normal")
    assert (task.memory_scope, task.dependency_payload, task.requires) == ("dependencies", "output", None)
    assert (task.max_retries, task.retry_delay, task.retry_backoff, task.timeout) == (0, 1.0, 2.0, None)
    assert (task.max_token_budget, task.max_cost_budget) == (None, None)
    assert dict(task.metadata or {}) == {"a": 1}
    for name in ("title", "text"):
        with pytest.raises((AttributeError, TypeError)):  # which one differs between versions of Python
            setattr(task, name, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.result = "x"  # type: ignore[misc]
    assert copy.copy(task) is task
    assert copy.deepcopy(task) is task
    assert pickle.loads(pickle.dumps(task)) == task
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task
    assert Task.title is Task.title


@proves("TSK-29")
def test_ids_are_random() -> None:
    made = {new_task_id() for _ in range(100)}
    assert len(made) == 100
    assert all(len(each) == 32 and each[12] == "4" and each[16] in "89ab" for each in made)
    assert create_task(TaskSpec("t", "d", id="a"), id="b").id == "b"


# --- size ------------------------------------------------------------------------------------------------------------


@proves("TSK-20", "TSK-22")
def test_large_queues_are_quick_and_small() -> None:
    """Bounds far above what it needs: a queue that looks through its tasks at each step takes minutes."""
    chain = [spec(f"t{index}", *([f"t{index - 1}"] if index else [])) for index in range(10_000)]
    wide = [spec(f"w{index}", assignee=f"a{index % 5}") for index in range(10_000)]
    began = time.process_time()
    for specs in (chain, wide):
        queue = queue_of(*specs)
        while (task := queue.next()) is not None:
            queue.start(task.id)
            queue.complete(task.id, "x")
        assert queue.get_progress().completed == 10_000
    failing = queue_of(*chain)
    failing.fail("t0", "x")
    assert failing.get_progress().failed == 10_000
    assert time.process_time() - began < 10
    tracemalloc.start()
    try:
        queue = queue_of(*(spec(f"t{index}", *([f"t{index - 1}"] if index else [])) for index in range(2000)))
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(queue) == 2000
    assert used < 3000 * 2000


# --- any graph, any order --------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> list[TaskSpec]:
    names = [f"t{index}" for index in range(draw(st.integers(1, 8)))]
    specs = [
        spec(name, *(draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []))
        for index, name in enumerate(names)
    ]
    return draw(st.permutations(specs))


class Model:
    """The same rules, looked up anew each time."""

    def __init__(self, specs: list[TaskSpec]) -> None:
        self.depends_on = {str(each.id): set(each.depends_on) for each in specs}
        self.ended: dict[str, str] = {}

    def end(self, task_id: str, status: str) -> None:
        self.ended[task_id] = status
        if status != "completed":
            for key, deps in self.depends_on.items():
                if task_id in deps and key not in self.ended:
                    self.end(key, status)

    def statuses(self) -> dict[str, str]:
        def status(key: str) -> str:
            is_open = any(self.ended.get(each) != "completed" for each in self.depends_on[key])
            return self.ended.get(key, "blocked" if is_open else "pending")

        return {key: status(key) for key in self.depends_on}


@proves("TSK-20", "TSK-22", "TSK-23", "TSK-27", "TSK-28", "TSK-30", "TSK-31")
@given(graphs(), st.data())
def test_any_order_of_events(specs: list[TaskSpec], data: st.DataObject) -> None:
    queue, model = TaskQueue(), Model(specs)
    told = record(queue)
    cut = data.draw(st.integers(0, len(specs)))
    queue.add_batch(specs[:cut])
    for each in specs[cut:]:
        queue.add(each)
    while not queue.is_complete():
        open_tasks = [task for task in queue.list() if not task.is_terminal]
        task = data.draw(st.sampled_from(open_tasks))
        actions = ["failed", "skipped"] + ["completed"] * 4 * (task.status == "pending")
        status = data.draw(st.sampled_from(actions))
        {"failed": queue.fail, "skipped": queue.skip, "completed": queue.complete}[status](task.id, "r")
        model.end(task.id, status)
        assert statuses(queue) == model.statuses()
        assert [each.id for each in queue.ready()] == [key for key, is_ in model.statuses().items() if is_ == "pending"]
        assert queue.next() == next(iter(queue.ready()), None)
        assert TaskQueue.from_snapshot(queue.snapshot()).list() == queue.list()
    counts = queue.get_progress()
    assert counts.completed + counts.failed + counts.skipped == counts.total == len(specs)
    assert told.count("all:complete") == 1
    assert told[-1] == "all:complete"
    ends = [line.split()[1] for line in told if not line.startswith(("task:ready", "all"))]
    assert sorted(ends) == sorted(model.depends_on)

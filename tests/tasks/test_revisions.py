"""Changes to the plan of a queue."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import ConfigurationError, InvalidMessageError
from openmultiagent.tasks import (
    PlanPatch,
    PlanPatchTaskSpec,
    PlanRetarget,
    PlanRevision,
    PlanTrigger,
    TaskExecutionRecord,
    TaskQueue,
    TaskSpec,
    validate_task_dependencies,
)
from tests.support import proves

DONE: PlanTrigger = "success"
FAILED: PlanTrigger = "failure"


def spec(task_id: str, *depends_on: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id.upper(), "d", id=task_id, depends_on=depends_on, **fields)


def addition(key: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "title": key.upper(), "description": "d", "depends_on": list(depends_on), **fields}


def search() -> TaskQueue:
    """A task in progress, one that waits for it, one behind that, and one that is ready."""
    queue = TaskQueue()
    queue.add_batch(
        [spec("done"), spec("search"), spec("old", "search", assignee="w"), spec("report", "old"), spec("free")]
    )
    queue.complete("done", "r")
    queue.start("search", "w")
    return queue


def statuses(queue: TaskQueue) -> dict[str, str]:
    return {task.id: task.status for task in queue.list()}


def record(queue: TaskQueue) -> list[str]:
    """What the queue's handlers are told from now on."""
    told: list[str] = []

    def teller(event: str) -> Callable[..., None]:
        return lambda task=None: told.append(event if task is None else f"{event} {task.id}")

    for event in ("task:ready", "task:complete", "task:failed", "task:skipped", "all:complete"):
        queue.on(event, teller(event))
    return told


REPLACE = PlanPatch(
    "found nothing",
    add_tasks=[
        PlanPatchTaskSpec(
            "Fallback", "d", key="fallback", depends_on=["done"], assignee="v", priority="high", metadata={"k": "v"}
        ),
        PlanPatchTaskSpec("New", "d", key="new", depends_on=["fallback"]),
    ],
    supersede_pending=["old", "report"],
)


# --- applying --------------------------------------------------------------------------------------------------------


@proves("TSK-32", "TSK-34", "TSK-36")
def test_a_failed_task_is_made_up_for() -> None:
    queue = search()
    told = record(queue)
    revision = queue.apply_plan_patch(REPLACE, "search", FAILED)
    fallback, new = (queue[revision.added_tasks[key]] for key in ("fallback", "new"))
    assert (fallback.status, new.status, new.depends_on) == ("pending", "blocked", (fallback.id,))
    assert (fallback.assignee, fallback.priority, dict(fallback.metadata or {})) == ("v", "high", {"k": "v"})
    assert (type(fallback.spec), len(fallback.id)) == (TaskSpec, 32)
    old, report = queue["old"], queue["report"]
    for task in (old, report):
        assert (task.status, task.superseded_by_revision, task.failed_through) == ("skipped", 1, None)
        assert task.result == "Superseded by plan revision 1: found nothing"
    assert (queue["search"].status, queue["search"].recovered_by_revision) == ("in_progress", 1)
    assert told == []
    queue.publish_plan_revision(revision)
    assert told == ["task:skipped old", "task:skipped report", f"task:ready {fallback.id}"]
    assert queue.fail("search", "no").recovered_by_revision == 1
    assert TaskExecutionRecord(task=queue["search"]).recovered_by_revision == 1
    assert TaskExecutionRecord(task=queue["old"]).superseded_by_revision == 1
    queue.complete(fallback.id)
    queue.complete(new.id)
    queue.complete("free")
    assert told[-1] == "all:complete"
    assert told.count("all:complete") == 1


@proves("TSK-32", "TSK-36")
def test_a_success_may_change_only_who_does_what() -> None:
    queue = search()
    patch = {"reason": "busy", "retarget_pending": [{"task_id": "old", "assignee": "v"}, PlanRetarget("free", "v")]}
    revision = queue.apply_plan_patch(patch, "search", DONE)
    assert (queue["old"].assignee, queue["old"].status) == ("v", "blocked")
    first = queue.next("v")
    assert first is not None
    assert first.id == "free"
    assert queue["search"].recovered_by_revision is None
    assert revision.retargeted_tasks == (PlanRetarget("old", "v"), PlanRetarget("free", "v"))
    assert (queue.get_plan_revision(), queue.get_plan_revisions()) == (1, [revision])
    queue.get_plan_revisions().clear()
    assert queue.get_plan_revision() == 1


@proves("TSK-32")
def test_what_waits_for_a_superseded_task_is_skipped_with_it() -> None:
    queue = search()
    revision = queue.apply_plan_patch(PlanPatch("no need", supersede_pending=["old"]), "search", DONE)
    report = queue["report"]
    assert (report.status, report.superseded_by_revision, report.failed_through) == ("skipped", None, "old")
    assert report.result == "dependency 'OLD' (old) was skipped: Superseded by plan revision 1: no need"
    assert revision.superseded_task_ids == ("old",)
    told = record(queue)
    queue.publish_plan_revision(revision)
    assert told == ["task:skipped old", "task:skipped report"]


@proves("TSK-32", "TSK-34")
def test_an_added_task_may_depend_on_the_task_that_the_patch_is_for() -> None:
    queue = search()
    told = record(queue)
    patch = PlanPatch("more", add_tasks=[PlanPatchTaskSpec("More", "d", key="more", depends_on=["search", "done"])])
    revision = queue.apply_plan_patch(patch, "search", "verification_rejected")
    more = revision.added_tasks["more"]
    assert statuses(queue)[more] == "blocked"
    queue.complete("search", "r")
    assert statuses(queue)[more] == "pending"
    assert more not in [task.id for task in queue.ready()]
    assert told == ["task:complete search", "task:ready old"]
    queue.publish_plan_revision(revision)
    assert told[2:] == [f"task:ready {more}"]
    assert [task.id for task in queue.ready()] == ["old", "free", more]


# --- refusing --------------------------------------------------------------------------------------------------------

ADD = [addition("k")]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"reason": " ", "add_tasks": ADD}, r"PlanPatch.reason must be a string with a visible character"),
    ({"add_tasks": ADD}, "reason"),
    ({"reason": "r"}, "a patch must do something"),
    ({"reason": "r", "add": ADD}, "PlanPatch has no field 'add'; its fields are reason, add_tasks"),
    ({"reason": "r", "add_tasks": ADD[0]}, "PlanPatch.add_tasks must be a list"),
    ({"reason": "r", "add_tasks": [{"title": "t", "description": "d"}]}, r"add_tasks\[0\] lacks 'key'"),
    ({"reason": "r", "add_tasks": [addition(" ")]}, r"add_tasks\[0\].key must be a string of 1 to 128"),
    ({"reason": "r", "add_tasks": [addition("k", max_retries=-1)]}, r"add_tasks\[0\].max_retries"),
    ({"reason": "r", "add_tasks": [addition("k", id="x")]}, r"add_tasks\[0\].id must be left out.*key is 'k'"),
    ({"reason": "r", "add_tasks": [spec("x")]}, r"add_tasks\[0\] must be a PlanPatchTaskSpec"),
    ({"reason": "r", "add_tasks": ADD * 2}, r"add_tasks\[1\]: key 'k' is there already"),
    ({"reason": "r", "add_tasks": [addition("free")]}, r"add_tasks\[0\].key 'free' is the id of a task"),
    ({"reason": "r", "add_tasks": [addition("k", "ghost")]}, r"add_tasks\[0\] \(k\) depends on 'ghost', which is nei"),
    ({"reason": "r", "add_tasks": [addition("k", "FREE")]}, "depends on 'FREE', which is neither a key"),
    ({"reason": "r", "add_tasks": [addition("k", "lost")]}, "depends on 'lost', which is failed"),
    ({"reason": "r", "add_tasks": [addition("k", "left")]}, "depends on 'left', which is skipped"),
    ({"reason": "r", "add_tasks": [addition("k", "old")], "supersede_pending": ["old"]}, "which the patch supersedes"),
    ({"reason": "r", "add_tasks": [addition("k", "report")], "supersede_pending": ["old"]}, "or which waits for one"),
    ({"reason": "r", "add_tasks": [addition("k", "done", "done")]}, r"depends_on\[1\]: task 'done' is there already"),
    ({"reason": "r", "add_tasks": [addition("k", "k")]}, "in a circle: 'k' -> 'k'"),
    ({"reason": "r", "add_tasks": [addition("k", "l"), addition("l", "k")]}, "in a circle: '[kl]' -> '[kl]' -> '[kl]'"),
    ({"reason": "r", "supersede_pending": ["old"]}, "a patch after failure must have add_tasks"),
    ({"reason": "r", "retarget_pending": [{"task_id": "old", "assignee": "v"}]}, "after failure must have add_tasks"),
    ({"reason": "r", "add_tasks": ADD, "supersede_pending": "old"}, "supersede_pending must be a list"),
    ({"reason": "r", "add_tasks": ADD, "supersede_pending": ["old", "old"]}, "'old' is there already"),
    ({"reason": "r", "add_tasks": ADD, "supersede_pending": ["ghost"]}, r"supersede_pending\[0\]: task 'ghost' not fo"),
    ({"reason": "r", "add_tasks": ADD, "supersede_pending": ["search"]}, "'search' is in_progress; it must be pend"),
    ({"reason": "r", "add_tasks": ADD, "supersede_pending": ["done"]}, "'done' is completed; it must be pending or"),
    ({"reason": "r", "add_tasks": ADD, "retarget_pending": [{"task_id": "done", "assignee": "v"}]}, "is completed"),
    ({"reason": "r", "add_tasks": ADD, "retarget_pending": [{"task_id": "old"}]}, "assignee"),
    ({"reason": "r", "add_tasks": ADD, "retarget_pending": [{"task_id": "old", "assignee": ""}]}, "PlanRetarget.assi"),
    ({"reason": "r", "add_tasks": ADD, "retarget_pending": ["old"]}, r"retarget_pending\[0\] must be a PlanRetarget"),
    ({"reason": "r", "add_tasks": ADD, "retarget_pending": [PlanRetarget("old", w) for w in "vw"]}, "'old' is there"),
    (
        {"reason": "r", "add_tasks": ADD, "retarget_pending": [PlanRetarget("old", "v")], "supersede_pending": ["old"]},
        "'old' is in supersede_pending too",
    ),
    (
        {
            "reason": "r",
            "add_tasks": ADD,
            "retarget_pending": [PlanRetarget("report", "v")],
            "supersede_pending": ["old"],
        },
        "'report' waits for one that the patch supersedes",
    ),
]


@proves("TSK-33")
@pytest.mark.parametrize(("patch", "text"), BAD)
def test_a_patch_that_makes_no_sense_is_refused(patch: dict[str, Any], text: str) -> None:
    queue = search()
    queue.add_batch([spec("lost"), spec("left")])
    queue.fail("lost", "r")
    queue.skip("left", "r")
    told = record(queue)
    before, given = queue.snapshot(), copy.deepcopy(patch)
    with pytest.raises(ConfigurationError, match=text):
        queue.apply_plan_patch(patch, "search", FAILED)
    assert (queue.snapshot(), told, patch) == (before, [], given)
    assert queue.get_plan_revision() == 0


@proves("TSK-33")
def test_what_a_patch_is_for_must_be_in_progress() -> None:
    queue = search()
    before = queue.snapshot()
    for task_id, trigger, text in [
        ("free", DONE, r"'FREE' \(free\) is pending; a plan is patched for a task that is in progress"),
        ("done", DONE, "is completed; a plan"),
        ("ghost", DONE, "'ghost' not found"),
        ("search", "timeout", "trigger must be one of success, failure, verification_rejected"),
    ]:
        with pytest.raises(ConfigurationError, match=text):
            queue.apply_plan_patch(PlanPatch("r", supersede_pending=["report"]), task_id, trigger)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="patch must be a PlanPatch or a mapping"):
        queue.apply_plan_patch(None, "search", DONE)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match=r"add_tasks\[0\].description"):
        queue.apply_plan_patch({"reason": "r", "add_tasks": [addition("k", description=[])]}, "search", DONE)
    assert queue.snapshot() == before


# --- publishing and withdrawing --------------------------------------------------------------------------------------


@proves("TSK-34")
def test_before_it_is_published_nobody_can_begin_with_what_a_patch_adds() -> None:
    queue = search()
    revision = queue.apply_plan_patch(REPLACE, "search", FAILED)
    fallback = revision.added_tasks["fallback"]
    assert [task.id for task in queue.ready()] == ["free"]
    assert queue.next("v") is None
    assert [task.id for task in queue.get_by_status("pending")] == ["free", fallback]
    for begin in (queue.start, queue.complete):
        with pytest.raises(ConfigurationError, match="before its plan revision is published"):
            begin(fallback)
    queue.update(fallback, assignee="x")
    with pytest.raises(ConfigurationError, match="plan revision 1 is neither published nor withdrawn"):
        queue.apply_plan_patch(REPLACE, "search", FAILED)
    queue.publish_plan_revision(revision)
    assert [task.id for task in queue.ready()] == ["free", fallback]
    first = queue.next("x")
    assert first is not None
    assert queue.start(first.id).id == fallback
    for close in (queue.publish_plan_revision, queue.withdraw_plan_revision):
        with pytest.raises(ConfigurationError, match="not the plan revision that the queue is to publish"):
            close(revision)


@proves("TSK-28", "TSK-34")
def test_all_is_told_even_if_all_ends_before_the_revision_is_published() -> None:
    queue = search()
    told = record(queue)
    revision = queue.apply_plan_patch(REPLACE, "search", FAILED)
    new = revision.added_tasks["new"]
    queue.fail(revision.added_tasks["fallback"], "r")
    queue.skip_remaining("stopped")
    assert told == ["task:skipped search", "task:skipped free"]
    queue.publish_plan_revision(revision)
    assert told[2:] == [
        *("task:skipped old", "task:skipped report"),
        *(f"task:failed {revision.added_tasks['fallback']}", f"task:failed {new}", "all:complete"),
    ]


@proves("TSK-28")
@pytest.mark.parametrize("is_published", [True, False])
def test_the_end_of_all_tasks_is_told_once(is_published: bool) -> None:
    queue = search()
    told = record(queue)
    revision = queue.apply_plan_patch(PlanPatch("r", retarget_pending=[PlanRetarget("free", "v")]), "search", DONE)
    queue.skip_remaining("stopped")
    assert told[-1] == "all:complete"
    (queue.publish_plan_revision if is_published else queue.withdraw_plan_revision)(revision)
    assert told.count("all:complete") == 1


@proves("TSK-35")
def test_a_withdrawn_revision_leaves_no_trace() -> None:
    queue = search()
    told = record(queue)
    before = queue.snapshot()
    patch = PlanPatch(
        "r", add_tasks=REPLACE.add_tasks, supersede_pending=["old"], retarget_pending=[PlanRetarget("free", "v")]
    )
    queue.withdraw_plan_revision(queue.apply_plan_patch(patch, "search", FAILED))
    assert queue.snapshot() == before
    assert told == []
    assert queue.next("v") is None
    queue.complete("search")
    queue.complete("old")
    assert told == ["task:complete search", "task:ready old", "task:complete old", "task:ready report"]
    queue.start("free")
    assert queue.apply_plan_patch(PlanPatch("again", supersede_pending=["report"]), "free", DONE).version == 1


@proves("TSK-35")
def test_what_happened_before_a_revision_is_withdrawn_stays() -> None:
    queue = search()
    queue.add_batch([spec("other"), spec("late", "other"), spec("later", "late"), spec("side", "free")])
    patch = PlanPatch(
        "r",
        add_tasks=REPLACE.add_tasks,
        supersede_pending=["old", "late"],
        retarget_pending=[PlanRetarget("side", "v"), PlanRetarget("free", "v")],
    )
    told = record(queue)
    revision = queue.apply_plan_patch(patch, "search", FAILED)
    behind = queue.add(spec("behind", revision.added_tasks["new"]))
    queue.complete("search", "after all")
    queue.fail("other", "lost")
    queue.complete("free", "by v")
    assert told == ["task:complete search", "task:failed other", "task:complete free", "task:ready side"]
    queue.withdraw_plan_revision(revision)
    assert told[4:] == ["task:ready old", "task:failed late", "task:failed later"]
    assert (queue["search"].result, queue["search"].recovered_by_revision) == ("after all", None)
    assert (queue["free"].assignee, queue["side"].assignee, queue["old"].assignee) == ("v", None, "w")
    assert (queue["late"].failed_through, queue["later"].failed_through) == ("other", "late")
    assert queue["behind"] == behind
    assert {task.id for task in queue.get_by_status("failed")} == {"other", "late", "later"}
    assert [task.id for task in queue.ready()] == ["old", "side"]
    assert [task.id for task in queue.get_by_status("blocked")] == ["report", "behind"]
    assert queue.get_plan_revisions() == []


# --- keeping ---------------------------------------------------------------------------------------------------------


def revised() -> TaskQueue:
    queue = search()
    queue.publish_plan_revision(queue.apply_plan_patch(REPLACE, "search", FAILED))
    patch = PlanPatch("done by v", retarget_pending=[PlanRetarget("free", "v")])
    queue.publish_plan_revision(queue.apply_plan_patch(patch, "search", DONE))
    queue.fail("search", "no")
    return queue


@proves("TSK-36", "TSK-37")
def test_the_snapshot_of_a_revised_queue() -> None:
    queue = revised()
    snapshot = json.loads(json.dumps(queue.snapshot(), allow_nan=False))
    assert (snapshot["version"], snapshot["plan_revision"]) == (2, 2)
    assert [item["version"] for item in snapshot["plan_revisions"]] == [1, 2]
    assert snapshot["plan_revisions"][1]["retargeted_tasks"] == [{"task_id": "free", "assignee": "v"}]
    given = copy.deepcopy(snapshot)
    restored = TaskQueue.from_snapshot(snapshot)
    assert snapshot == given
    assert restored.snapshot() == queue.snapshot()
    assert restored.list() == queue.list()
    assert restored.get_plan_revisions() == queue.get_plan_revisions()
    assert restored["old"].superseded_by_revision == 1
    assert restored["search"].recovered_by_revision == 1
    assert search().snapshot()["version"] == 1
    assert "plan_revisions" not in search().snapshot()


@proves("TSK-37")
def test_a_snapshot_that_was_taken_before_its_revision_was_published() -> None:
    queue = search()
    revision = queue.apply_plan_patch(REPLACE, "search", FAILED)
    restored = TaskQueue.from_snapshot(queue.snapshot(), reset_in_progress=True)
    assert [task.id for task in restored.ready()] == ["search", "free", revision.added_tasks["fallback"]]
    assert restored["search"].recovered_by_revision == 1
    with pytest.raises(ConfigurationError, match="either was done already"):
        restored.publish_plan_revision(revision)


@proves("TSK-36")
def test_a_revision_never_changes() -> None:
    (revision, _) = revised().get_plan_revisions()
    assert (revision.version, revision.trigger_task_id, revision.trigger) == (1, "search", "failure")
    assert (revision.reason, revision.superseded_task_ids) == ("found nothing", ("old", "report"))
    with pytest.raises(TypeError):
        revision.added_tasks["x"] = "y"  # type: ignore[index]
    assert {revision} == {copy.deepcopy(revision), pickle.loads(pickle.dumps(revision))}
    assert PlanRevision.from_dict(json.loads(json.dumps(revision.to_dict()))) == revision
    assert pickle.loads(pickle.dumps(REPLACE)) == copy.deepcopy(REPLACE) == REPLACE


def changed(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> dict[str, Any]:
    snapshot = json.loads(json.dumps(revised().snapshot()))
    change(snapshot, snapshot["plan_revisions"][0])
    return dict(snapshot)


@proves("TSK-37")
@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        (changed(lambda s, r: s.update(plan_revision=3)), "invalid plan revision sequence"),
        (changed(lambda s, r: s.update(plan_revision=10**15)), "invalid plan revision sequence"),
        (changed(lambda s, r: s.update(plan_revision=True)), "a number plan_revision and a list plan_revisions"),
        (changed(lambda s, r: s.pop("plan_revisions")), "a number plan_revision and a list plan_revisions"),
        (changed(lambda s, r: s.update(plan_revision=0, plan_revisions=[])), "invalid plan revision sequence"),
        (changed(lambda s, r: r.update(version=2)), "invalid plan revision sequence.* got .2, 2."),
        (changed(lambda s, r: s["plan_revisions"].reverse()), "invalid plan revision sequence"),
        (changed(lambda s, r: s["plan_revisions"].append(3)), r"plan_revisions\[2\] must be a mapping"),
        (changed(lambda s, r: r.update(trigger_task_id="ghost")), "revision 1 has an unknown task: 'ghost'"),
        (changed(lambda s, r: r["added_tasks"].update(fallback="ghost")), "unknown task: 'ghost'"),
        (changed(lambda s, r: r["superseded_task_ids"].append("ghost")), "unknown task: 'ghost'"),
        (
            changed(lambda s, r: r["retargeted_tasks"].append({"task_id": "ghost", "assignee": "v"})),
            "unknown task: 'ghost'",
        ),
        (changed(lambda s, r: r["superseded_task_ids"].pop()), "invalid plan revision history: task 'report'"),
        (changed(lambda s, r: r.update(trigger="success")), "invalid plan revision history: task 'search'"),
        (changed(lambda s, r: s.update(version=1)), "invalid plan revision history"),
        (changed(lambda s, r: s["tasks"][4].update(superseded_by_revision=2)), "history: task 'free' is pending"),
        (changed(lambda s, r: s["tasks"][2].update(status="completed")), "history: task 'old' is completed"),
        (changed(lambda s, r: s["tasks"][2].update(superseded_by_revision=0)), r"tasks\[2\].superseded_by_revision"),
        (changed(lambda s, r: r.update(trigger="x")), r"plan_revisions\[0\].trigger must be one of"),
        (changed(lambda s, r: r.update(reason="")), r"plan_revisions\[0\].reason must be"),
        (changed(lambda s, r: r.update(created_at="now")), r"plan_revisions\[0\].created_at must be a time"),
        (changed(lambda s, r: r.update(retargeted_tasks=None)), r"plan_revisions\[0\].retargeted_tasks must be a list"),
        (changed(lambda s, r: r.update(added_tasks=[])), r"plan_revisions\[0\].added_tasks must be a mapping"),
        (changed(lambda s, r: r.update(extra=1)), r"plan_revisions\[0\] has no field 'extra'"),
    ],
)
def test_a_snapshot_whose_revisions_make_no_sense_is_refused(snapshot: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TaskQueue.from_snapshot(snapshot)


# --- any graph, any patch --------------------------------------------------------------------------------------------

KEYS = ("k0", "k1", "k2")


@st.composite
def queues(draw: st.DrawFn) -> TaskQueue:
    """Queues in which the first task is in progress and perhaps another one has ended."""
    names = [f"t{index}" for index in range(draw(st.integers(2, 7)))]
    queue = TaskQueue()
    queue.add_batch(
        spec(name, *(draw(st.lists(st.sampled_from(names[:index]), unique=True, max_size=2)) if index else []))
        for index, name in enumerate(names)
    )
    queue.start("t0")
    for task in queue.ready()[:1]:
        action = draw(st.sampled_from([queue.complete, lambda each: queue.fail(each, "r"), queue.get]))
        action(task.id)
    return queue


@st.composite
def patches(draw: st.DrawFn, queue: TaskQueue) -> dict[str, Any]:
    """Patches, many of which fit: mostly of tasks that wait, and of dependencies without a circle."""
    names = [task.id for task in queue.list()]
    waiting = [task.id for task in queue.list() if task.status in ("pending", "blocked")]
    known = st.sampled_from(waiting * 3 + names)
    keys = KEYS[: draw(st.integers(0, 3))]
    depends_on = [
        st.lists(st.sampled_from([*names, *keys[:index]] * 3 + [*keys]), unique=True, max_size=2)
        for index, _ in enumerate(keys)
    ]
    return {
        "reason": "r",
        "add_tasks": [addition(key, *draw(each)) for key, each in zip(keys, depends_on, strict=True)],
        "supersede_pending": draw(st.lists(known, max_size=2)),
        "retarget_pending": [PlanRetarget(each, "v") for each in draw(st.lists(known, max_size=1))],
    }


def finish(queue: TaskQueue) -> None:
    for task in queue.get_by_status("in_progress"):
        queue.complete(task.id)
    while queue.ready():
        queue.complete(queue.ready()[0].id)


@proves("TSK-28", "TSK-32", "TSK-33", "TSK-34", "TSK-35", "TSK-37")
@given(st.data(), queues(), st.sampled_from([DONE, FAILED]))
def test_any_patch_fits_or_changes_nothing(data: st.DataObject, queue: TaskQueue, trigger: PlanTrigger) -> None:
    before = queue.snapshot()
    told = record(queue)
    try:
        revision = queue.apply_plan_patch(data.draw(patches(queue)), "t0", trigger)
    except ConfigurationError:
        assert (queue.snapshot(), told) == (before, [])
        finish(queue)
        assert queue.is_complete()
        return
    assert validate_task_dependencies(queue.list()) == []
    assert told == []
    snapshot = queue.snapshot()
    assert TaskQueue.from_snapshot(snapshot).snapshot() == snapshot
    old = {record["id"]: record["status"] for record in before["tasks"]}
    if data.draw(st.booleans()):
        queue.withdraw_plan_revision(revision)
        assert (queue.snapshot(), told) == (before, [])
    else:
        queue.publish_plan_revision(revision)
        skipped = {f"task:skipped {key}" for key, now in statuses(queue).items() if old.get(key, now) != now}
        ready = [f"task:ready {key}" for key, now in statuses(queue).items() if key not in old and now == "pending"]
        assert set(told[: len(skipped)]) == skipped
        assert told[len(skipped) :] == ready
    finish(queue)
    assert queue.is_complete()
    assert told.count("all:complete") == 1
    assert told[-1] == "all:complete"


@proves("TSK-35")
@given(st.data(), queues())
def test_a_withdrawn_revision_is_as_if_it_had_never_been(data: st.DataObject, queue: TaskQueue) -> None:
    twin = TaskQueue.from_snapshot(queue.snapshot())
    names = [task.id for task in queue.list()]
    try:
        revision = queue.apply_plan_patch(data.draw(patches(queue)), "t0", DONE)
    except ConfigurationError:
        return
    for name in data.draw(st.permutations(names)):
        if queue[name].status in ("pending", "in_progress") and twin[name].status in ("pending", "in_progress"):
            is_lost = data.draw(st.booleans())
            for each in (queue, twin):
                each.fail(name, "r") if is_lost else each.complete(name, "r")
    queue.withdraw_plan_revision(revision)
    assert statuses(queue) == statuses(twin)
    assert [task.id for task in queue.ready()] == [task.id for task in twin.ready()]
    for each in (queue, twin):
        finish(each)
    assert statuses(queue) == statuses(twin)
    assert queue.is_complete()

"""The queue of a run's tasks: their states, changes of the plan that they are, and snapshots.

Not here: what tasks may become (``TaskStates``), and which patches make sense (``_revisions``). Invariants: a patch is
applied as a whole or not at all, and nobody is told of it, nor can begin with what it adds, before it is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, get_args

from .._record import record
from .._shown import shown
from .._spec import as_spec
from ..errors import ConfigurationError
from ._board import TaskBoard
from ._fields import read_mapping
from ._patches import PlanPatch, PlanTrigger
from ._revisions import PlanRevision, check_history, check_patch, make_tasks, read_history, read_trigger, revise, undone
from ._states import QueueEvent, TaskStates
from ._task import TERMINAL_STATUSES, Task, TaskStatus

__all__ = ["TaskQueue"]

_TOLD: Final[Mapping[TaskStatus, QueueEvent]] = {
    "pending": "task:ready",
    "failed": "task:failed",
    "skipped": "task:skipped",
}
"""What there is to tell of a task when its revision is published."""


@record
class _Draft:
    """A revision that has been applied, and not been published yet."""

    revision: PlanRevision
    before: Mapping[str, Task]
    """The tasks that it changed as they stood before it."""
    after: Mapping[str, Task]
    """And as it left them."""


class TaskQueue(TaskStates):
    """The tasks of one run, and what has become of them.

    A method that asks for a change which a task's status does not allow raises a ``ConfigurationError`` and changes
    nothing; so does one that names a task which is not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._revisions: list[PlanRevision] = []
        self._draft: _Draft | None = None

    # --- changing the plan -------------------------------------------------------------------------------------------

    def get_plan_revision(self) -> int:
        """Return how often the plan was revised; an applied revision counts before it is published."""
        return len(self._revisions)

    def get_plan_revisions(self) -> list[PlanRevision]:
        """Return the revisions of the plan in their order."""
        return self._revisions.copy()

    def apply_plan_patch(
        self, patch: PlanPatch | Mapping[str, Any], trigger_task_id: str, trigger: PlanTrigger
    ) -> PlanRevision:
        """Change the plan as a whole, or raise and change nothing; no handler is told before it is published.

        Superseded tasks are skipped, and with them all that waits for them. After any outcome but ``success`` the task
        that it is for counts as recovered, whatever it ends as. Between this and ``publish_plan_revision`` there is
        time to store a snapshot; if that fails, ``withdraw_plan_revision`` undoes the change.

        Args:
            patch: The change, or a mapping with its fields.
            trigger_task_id: Id of the task that it is for; it is in progress.
            trigger: What that task has come to.

        Returns:
            The revision that it makes.

        Raises:
            ConfigurationError: The patch is not valid or does not fit the tasks, or an earlier one was neither
                published nor withdrawn.
        """
        patch = as_spec(PlanPatch, patch, where="patch")
        trigger = read_trigger(trigger, "trigger")
        if self._draft is not None:
            raise ConfigurationError(
                f"plan revision {len(self._revisions)} is neither published nor withdrawn; do so before the next one"
            )
        trigger_task = self._existing(trigger_task_id)
        doomed = self._behind(patch.supersede_pending)
        check_patch(patch, trigger_task, trigger, self._tasks, doomed)
        added = make_tasks(patch)
        now = datetime.now(UTC)
        version = len(self._revisions) + 1
        revision = revise(patch, version, trigger_task_id, trigger, added, now)
        leaving = dict.fromkeys([*patch.supersede_pending, *doomed])
        changing = [*leaving, *(item.task_id for item in patch.retarget_pending), trigger_task_id]
        before = {each: self._tasks[each] for each in changing}
        self._held = leaving | dict.fromkeys(task.id for task in added.values())
        self._apply(revision, added.values(), now)
        self._revisions.append(revision)
        self._draft = _Draft(revision, before, {each: self._tasks[each] for each in changing})
        return revision

    def publish_plan_revision(self, revision: PlanRevision) -> None:
        """Tell the handlers of an applied revision: what was skipped, then what it added and can be started.

        Args:
            revision: What ``apply_plan_patch`` returned.

        Raises:
            ConfigurationError: It was published or withdrawn already, or is another queue's.
        """
        self._close(revision)
        held, self._held = self._held, {}
        for task_id in held:
            task = self._tasks[task_id]
            if task.status == "pending":
                self._offer(task, None)
            if task.status in _TOLD:
                self._note(_TOLD[task.status], task)
        self._ready = None
        if held:  # otherwise it was told in its time
            self._note_completion()
        self._tell()

    def withdraw_plan_revision(self, revision: PlanRevision) -> None:
        """Undo an applied revision that was not published, and nothing that happened to other tasks since.

        Args:
            revision: What ``apply_plan_patch`` returned.

        Raises:
            ConfigurationError: It was published or withdrawn already, or is another queue's.
        """
        draft = self._close(revision)
        self._revisions.pop()
        now = datetime.now(UTC)
        added = {*revision.added_tasks.values()}
        tasks = {key: task for key, task in self._tasks.items() if key not in added}
        for key, before in draft.before.items():
            tasks[key] = undone(tasks[key], before, draft.after[key])
        held = self._held
        back = [key for key in held if key in tasks]
        for key in back:  # what it waited for may have ended meanwhile
            waits = any(each not in tasks or tasks[each].status != "completed" for each in tasks[key].depends_on)
            status: TaskStatus = "blocked" if waits else "pending"
            if tasks[key].status != status:
                tasks[key] = tasks[key].replace(status=status, updated_at=now)
        self._load(tasks.values())
        for key in back:
            task = self._tasks[key]
            if task.status == "pending" and draft.before[key].status == "blocked":
                self._note("task:ready", task)
            self._fail_if_hopeless(key, now)
        if held:
            self._note_completion()
        self._tell()

    def _behind(self, task_ids: Iterable[str]) -> list[str]:
        """Return the ids of all that waits for tasks, directly or through others, but for the tasks themselves."""
        found = dict.fromkeys(task_ids)
        given = len(found)
        chain = [*found]
        for task_id in chain:
            for each in self._dependents.get(task_id, ()):
                if each not in found and not self._tasks[each].is_terminal:
                    found[each] = None
                    chain.append(each)
        return [*found][given:]

    def _apply(self, revision: PlanRevision, added: Iterable[Task], now: datetime) -> None:
        version = revision.version
        reason = f"Superseded by plan revision {version}: {revision.reason}"
        gone = [
            self._end(self._tasks[each].replace(superseded_by_revision=version), "skipped", reason, None, now)
            for each in revision.superseded_task_ids
        ]
        for task in gone:  # after all of them: one that waits for another is superseded all the same
            self._settle(task, now)
        for item in revision.retargeted_tasks:
            self.update(item.task_id, assignee=item.assignee)
        if revision.trigger != "success":
            self._put(self._tasks[revision.trigger_task_id].replace(recovered_by_revision=version))
        for task in added:
            self._insert(task, now)

    def _close(self, revision: PlanRevision) -> _Draft:
        draft = self._draft
        if draft is None or draft.revision != revision:
            raise ConfigurationError(
                "this is not the plan revision that the queue is to publish or withdraw: either was done already, "
                "or it is another queue's"
            )
        self._draft = None
        return draft

    # --- keeping -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the tasks, their state and the revisions of the plan as plain JSON data, for ``from_snapshot``.

        An applied revision is in it before it is published; where it is restored, it is as good as published.
        """
        lists: dict[str, list[str]] = {status: [] for status in get_args(TaskStatus)}
        for task in self._tasks.values():
            lists[task.status].append(task.id)
        kept = {"version": 1, "tasks": [task.to_dict() for task in self._tasks.values()], **lists}
        if not self._revisions:
            return kept
        revisions = [revision.to_dict() for revision in self._revisions]
        return kept | {"version": 2, "plan_revision": len(revisions), "plan_revisions": revisions}

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], *, reset_in_progress: bool = False) -> TaskQueue:
        """Return a queue as it stood when the snapshot was taken; the mapping is left as it is.

        Args:
            snapshot: What ``snapshot`` returned, possibly after a trip through JSON.
            reset_in_progress: Whether tasks that were being worked on are to be started again.

        Raises:
            ConfigurationError: It is no such snapshot.
        """
        version = read_mapping(snapshot, "the snapshot of a queue").get("version")
        if version not in (1, 2):
            raise ConfigurationError(f"the snapshot of a queue must have version 1 or 2, got {shown(version)}")
        records = snapshot.get("tasks")
        if not isinstance(records, list | tuple):
            raise ConfigurationError("the snapshot of a queue must have a list of tasks")
        tasks = [Task.from_dict(record, where=f"tasks[{index}]") for index, record in enumerate(records)]
        known = {task.id: task for task in tasks}
        if len(known) != len(tasks):
            raise ConfigurationError("the snapshot of a queue has two tasks of one id")
        queue = cls()
        queue._revisions = read_history(snapshot) if version == 2 else []
        check_history(queue._revisions, known)
        queue._load(tasks, reset_in_progress=reset_in_progress)
        return queue

    def _load(self, tasks: Iterable[Task], *, reset_in_progress: bool = False) -> None:
        """Take tasks in their states for those of the queue."""
        TaskBoard.__init__(self)
        self._unmet, self._dependents = {}, {}
        tasks = [*tasks]
        statuses = {task.id: task.status for task in tasks}
        for task in tasks:
            waiting = [each for each in dict.fromkeys(task.depends_on) if statuses.get(each) != "completed"]
            status = task.status
            if status == "in_progress" and reset_in_progress:
                status = "blocked" if waiting else "pending"
            self._put(task if status == task.status else task.replace(status=status))
            if status in TERMINAL_STATUSES:
                continue
            if bool(waiting) is not (status == "blocked"):
                raise ConfigurationError(
                    f"the snapshot says that task {shown(task.id, 150)} is {status}, which its dependencies contradict"
                )
            for each in waiting:
                self._dependents.setdefault(each, []).append(task.id)
            if waiting:
                self._unmet[task.id] = len(waiting)

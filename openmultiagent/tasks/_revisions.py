"""Changes to a plan as they were made, and what they depend on. Pure functions of tasks.

Not here: the state of a queue. Invariants: a revision never changes; the marks that revisions leave on tasks and the
revisions themselves say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, cast, get_args

from .._record import record
from .._shown import shown
from .._spec import as_spec
from ..errors import ConfigurationError
from ._fields import one_of, read_mapping, read_names, refuse_unknown_keys, safely_shown, short_name, whole
from ._patches import PlanPatch, PlanRetarget, PlanTrigger
from ._spec import read_title
from ._task import Task, create_task, new_task_id, read_time

__all__ = [
    "PlanRevision",
    "check_history",
    "check_patch",
    "make_tasks",
    "read_history",
    "read_trigger",
    "revise",
    "undone",
]

_WAITING = ("pending", "blocked")


@record(kw_only=True)
class PlanRevision:
    """A change that was made to the plan of a queue."""

    id: str
    """A random id of 32 hexadecimal digits."""
    version: int
    """1 for the first revision of a queue, and one more for each that follows."""
    trigger_task_id: str
    """Id of the task whose outcome gave rise to it."""
    trigger: PlanTrigger
    """That outcome."""
    reason: str
    added_tasks: Mapping[str, str] = field(hash=False)
    """Ids by the keys that the patch gave; read-only."""
    retargeted_tasks: tuple[PlanRetarget, ...] = ()
    superseded_task_ids: tuple[str, ...] = ()
    """Without those that waited for them."""
    created_at: datetime

    def to_dict(self) -> dict[str, Any]:
        """Return the revision as plain JSON data, which ``from_dict`` reads."""
        return {
            "id": self.id,
            "version": self.version,
            "trigger_task_id": self.trigger_task_id,
            "trigger": self.trigger,
            "reason": self.reason,
            "added_tasks": dict(self.added_tasks),
            "retargeted_tasks": [item.to_dict() for item in self.retargeted_tasks],
            "superseded_task_ids": list(self.superseded_task_ids),
            "created_at": self.created_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], *, where: str = "revision") -> PlanRevision:
        """Return the revision that ``to_dict`` described; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.
            where: What errors call it.

        Raises:
            ConfigurationError: It describes no revision.
        """
        names = [item.name for item in fields(cls)]
        refuse_unknown_keys(read_mapping(record, where), names, where)
        given = {name: record.get(name) for name in names}
        added = read_mapping(given["added_tasks"], f"{where}.added_tasks")
        retargeted = given["retargeted_tasks"]
        if not isinstance(retargeted, list | tuple):
            raise ConfigurationError(f"{where}.retargeted_tasks must be a list, got {safely_shown(retargeted)}")
        return cls(
            id=short_name(given["id"], f"{where}.id"),
            version=whole(1, "revisions")(given["version"], f"{where}.version"),
            trigger_task_id=short_name(given["trigger_task_id"], f"{where}.trigger_task_id"),
            trigger=read_trigger(given["trigger"], f"{where}.trigger"),
            reason=read_title(given["reason"], f"{where}.reason"),
            added_tasks=MappingProxyType(
                {
                    short_name(key, f"{where}.added_tasks"): short_name(value, f"{where}.added_tasks[{shown(key)}]")
                    for key, value in added.items()
                }
            ),
            retargeted_tasks=tuple(
                as_spec(PlanRetarget, item, where=f"{where}.retargeted_tasks[{index}]")
                for index, item in enumerate(retargeted)
            ),
            superseded_task_ids=read_names(given["superseded_task_ids"], f"{where}.superseded_task_ids"),
            created_at=read_time(given["created_at"], f"{where}.created_at"),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return PlanRevision.from_dict, (self.to_dict(),)


def read_trigger(value: object, where: str) -> PlanTrigger:
    """Read what the task that a plan is changed for has come to.

    Args:
        value: Anything.
        where: What errors call it.

    Raises:
        ConfigurationError: It is no such word.
    """
    return cast("PlanTrigger", one_of(*get_args(PlanTrigger))(value, where))


def check_patch(
    patch: PlanPatch, trigger_task: Task, trigger: PlanTrigger, tasks: Mapping[str, Task], doomed: Collection[str]
) -> None:
    """Refuse a patch that does not fit the tasks of a queue.

    Args:
        patch: The patch.
        trigger_task: The task that it is for.
        trigger: What that has come to.
        tasks: The tasks of the queue, by id.
        doomed: Ids of the tasks that would end with those that the patch supersedes.

    Raises:
        ConfigurationError: It does not; all faults are told.
    """
    faults = [*_misplaced(patch, trigger_task, trigger, tasks, doomed)]
    leaving = {*doomed, *patch.supersede_pending}
    keys = {task.key for task in patch.add_tasks}
    for index, task in enumerate(patch.add_tasks):
        if task.key in tasks:
            faults.append(f"add_tasks[{index}].key {task.key!r} is the id of a task; choose another")
        faults += [
            f"add_tasks[{index}] ({task.key}) depends on {shown(given, 150)}, {fault}"
            for given in task.depends_on
            if given not in keys and (fault := _unusable(given, tasks, leaving))
        ]
    if faults:
        raise ConfigurationError("; ".join(faults))


def _misplaced(
    patch: PlanPatch, trigger_task: Task, trigger: PlanTrigger, tasks: Mapping[str, Task], doomed: Collection[str]
) -> Iterator[str]:
    if trigger_task.status != "in_progress":
        yield (
            f"task {shown(trigger_task.title)} ({trigger_task.id}) is {trigger_task.status}; "
            "a plan is patched for a task that is in progress"
        )
    if trigger != "success" and not patch.add_tasks:
        yield f"a patch after {trigger} must have add_tasks: something has to make up for it"
    named = [("retarget_pending", index, item.task_id) for index, item in enumerate(patch.retarget_pending)]
    named += [("supersede_pending", index, task_id) for index, task_id in enumerate(patch.supersede_pending)]
    for where, index, task_id in named:
        known = tasks.get(task_id)
        if known is None:
            yield f"{where}[{index}]: task {shown(task_id, 150)} not found in the queue"
        elif known.status not in _WAITING:
            yield f"{where}[{index}]: task {shown(task_id, 150)} is {known.status}; it must be pending or blocked"
        elif where == "retarget_pending" and task_id in doomed:
            yield f"{where}[{index}]: task {shown(task_id, 150)} waits for one that the patch supersedes"


def _unusable(task_id: str, tasks: Mapping[str, Task], leaving: Collection[str]) -> str | None:
    known = tasks.get(task_id)
    if known is None:
        return "which is neither a key of the patch nor the id of a task"
    if known.status in ("failed", "skipped"):
        return f"which is {known.status}"
    return "which the patch supersedes, or which waits for one that it does" if task_id in leaving else None


def make_tasks(patch: PlanPatch) -> dict[str, Task]:
    """Return the tasks that a patch adds, by their keys, each with an id of its own.

    Args:
        patch: A patch that fits its queue.
    """
    ids = {task.key: new_task_id() for task in patch.add_tasks}
    made = {}
    for task in patch.add_tasks:
        spec = task.to_task_spec([ids.get(each, each) for each in task.depends_on])
        made[task.key] = create_task(spec, id=ids[task.key])
    return made


def revise(
    patch: PlanPatch,
    version: int,
    trigger_task_id: str,
    trigger: PlanTrigger,
    added: Mapping[str, Task],
    now: datetime,
) -> PlanRevision:
    """Return the revision that a patch makes.

    Args:
        patch: The patch.
        version: Number of the revision.
        trigger_task_id: Id of the task that it is for.
        trigger: What that has come to.
        added: The tasks that it adds, by their keys.
        now: The time.
    """
    return PlanRevision(
        id=new_task_id(),
        version=version,
        trigger_task_id=trigger_task_id,
        trigger=trigger,
        reason=patch.reason,
        added_tasks=MappingProxyType({key: task.id for key, task in added.items()}),
        retargeted_tasks=tuple(patch.retarget_pending),
        superseded_task_ids=tuple(patch.supersede_pending),
        created_at=now,
    )


def undone(task: Task, before: Task, after: Task) -> Task:
    """Return a task without what a revision did to it; what others have done since stays.

    Args:
        task: The task as it stands.
        before: As it stood before the revision.
        after: As the revision left it.
    """
    if task is after:
        return before
    is_ours = task.status in _WAITING and task.assignee == after.assignee
    return replace(
        task,
        assignee=before.assignee if is_ours else task.assignee,
        recovered_by_revision=before.recovered_by_revision,
    )


def read_history(snapshot: Mapping[str, Any]) -> list[PlanRevision]:
    """Read the revisions in the snapshot of a queue.

    Args:
        snapshot: One of version 2.

    Raises:
        ConfigurationError: They are not numbered one after the other from 1, or are not as many as they should be.
    """
    count, records = snapshot.get("plan_revision"), snapshot.get("plan_revisions")
    if not isinstance(records, list | tuple) or isinstance(count, bool) or not isinstance(count, int):
        raise ConfigurationError("the snapshot of a queue must have a number plan_revision and a list plan_revisions")
    history = [PlanRevision.from_dict(each, where=f"plan_revisions[{at}]") for at, each in enumerate(records)]
    versions = [revision.version for revision in history]
    if not versions or len(versions) != count or versions != [*range(1, count + 1)]:
        raise ConfigurationError(
            "the snapshot has an invalid plan revision sequence: the versions of plan_revisions must be 1 to "
            f"plan_revision, which is {count}, got {shown(versions)}"
        )
    return history


def check_history(history: Sequence[PlanRevision], tasks: Mapping[str, Task]) -> None:
    """Refuse revisions that do not fit the tasks of a queue.

    Args:
        history: The revisions, in their order.
        tasks: The tasks, by id.

    Raises:
        ConfigurationError: They name a task that is not there, or tasks and revisions contradict each other.
    """
    superseded: dict[str, int] = {}
    recovered: dict[str, int] = {}
    for revision in history:
        retargeted = (item.task_id for item in revision.retargeted_tasks)
        added, gone = revision.added_tasks.values(), revision.superseded_task_ids
        for task_id in (revision.trigger_task_id, *added, *retargeted, *gone):
            if task_id not in tasks:
                raise ConfigurationError(
                    f"plan revision {revision.version} has an unknown task: {shown(task_id, 150)} is not in the queue"
                )
        superseded.update(dict.fromkeys(gone, revision.version))
        if revision.trigger != "success":
            recovered[revision.trigger_task_id] = revision.version
    for task in tasks.values():
        marks = (task.superseded_by_revision, task.recovered_by_revision)
        is_left_out = marks[0] is None or task.status == "skipped"
        if marks != (superseded.get(task.id), recovered.get(task.id)) or not is_left_out:
            raise ConfigurationError(
                f"the snapshot has an invalid plan revision history: task {shown(task.id, 150)} is {task.status}, "
                f"superseded by {marks[0]} and recovered by {marks[1]}, which the revisions contradict"
            )

"""Changes to a plan that is being worked on, as they are asked for.

Not here: what a change does to a queue (``TaskQueue``), and whether it fits its tasks (``_revisions``). Invariant: a
patch is consistent in itself and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal

from pydantic import SkipValidation

from .._shown import shown
from .._spec import as_spec, spec
from ..errors import ConfigurationError
from ._cycles import find_cycles
from ._fields import Reader, read_names, safely_shown, short_name
from ._spec import TaskSpec, read_title

__all__ = ["PlanPatch", "PlanPatchTaskSpec", "PlanRetarget", "PlanTrigger"]

PlanTrigger = Literal["success", "failure", "verification_rejected"]
"""What the task that a plan is changed for has come to."""


@spec
class PlanRetarget:
    """A task that another agent is to do.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    task_id: SkipValidation[str]
    """Id of the task."""
    assignee: SkipValidation[str]
    """Name of the agent."""

    def __post_init__(self) -> None:
        short_name(self.task_id, "PlanRetarget.task_id")
        short_name(self.assignee, "PlanRetarget.assignee")

    def to_dict(self) -> dict[str, str]:
        """Return both as plain JSON data."""
        return {"task_id": self.task_id, "assignee": self.assignee}


@spec
class PlanPatchTaskSpec(TaskSpec):
    """A task that a patch adds. It gets an id of its own; ``depends_on`` are keys of the patch and ids, never titles.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
        InvalidMessageError: ``description`` has a message or a block that is not valid.
    """

    __readers__: ClassVar[dict[str, Reader]] = TaskSpec.__readers__ | {"key": short_name}

    _: KW_ONLY
    key: SkipValidation[str]
    """What the other tasks of the patch call it."""

    def to_task_spec(self, depends_on: Sequence[str]) -> TaskSpec:
        """Return the specification without what means something in its patch only.

        Args:
            depends_on: The ids that its dependencies mean.
        """
        return TaskSpec(**{name: getattr(self, name) for name in TaskSpec.__readers__} | {"depends_on": depends_on})


@spec
class PlanPatch:
    """What is to become of the tasks that nobody has begun with.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense, nothing is to be done, a key or a
            task occurs twice, or tasks that are added depend on each other in a circle; all faults are told.
        InvalidMessageError: A description has a message or a block that is not valid.
    """

    reason: SkipValidation[str]
    """Why, for people; it is the result of tasks that are superseded."""
    _: KW_ONLY
    add_tasks: SkipValidation[Sequence[PlanPatchTaskSpec]] = ()
    """Tasks to add; mappings with the fields are as good. Kept as a tuple, as are the next two."""
    retarget_pending: SkipValidation[Sequence[PlanRetarget]] = ()
    """Tasks that other agents are to do; mappings with the fields are as good."""
    supersede_pending: SkipValidation[Sequence[str]] = ()
    """Ids of tasks to leave out, and with them all that waits for them."""

    def __post_init__(self) -> None:
        where = "PlanPatch"
        added = [
            PlanPatchTaskSpec.of(item, where=f"add_tasks[{index}]")
            for index, item in enumerate(_items(self.add_tasks, f"{where}.add_tasks"))
        ]
        retargeted = [
            as_spec(PlanRetarget, item, where=f"retarget_pending[{index}]")
            for index, item in enumerate(_items(self.retarget_pending, f"{where}.retarget_pending"))
        ]
        read = {
            "reason": read_title(self.reason, f"{where}.reason"),
            "add_tasks": tuple(added),
            "retarget_pending": tuple(retargeted),
            "supersede_pending": read_names(self.supersede_pending, f"{where}.supersede_pending"),
        }
        self.__dict__.update(read)
        faults = [*_faults(self)]
        if faults:
            raise ConfigurationError("; ".join(faults))


def _items(value: object, where: str) -> Sequence[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ConfigurationError(f"{where} must be a list, got {safely_shown(value)}")
    return value


def _faults(patch: PlanPatch) -> list[str]:
    if not (patch.add_tasks or patch.retarget_pending or patch.supersede_pending):
        return ["a patch must do something: give it add_tasks, retarget_pending or supersede_pending"]
    faults = [
        f"add_tasks[{index}].id must be left out: the task gets an id of its own, and its key is {task.key!r}"
        for index, task in enumerate(patch.add_tasks)
        if task.id is not None
    ]
    faults += _doubled("add_tasks", "key", [task.key for task in patch.add_tasks])
    faults += _doubled("retarget_pending", "task", [item.task_id for item in patch.retarget_pending])
    faults += _doubled("supersede_pending", "task", patch.supersede_pending)
    superseded = set(patch.supersede_pending)
    faults += [
        f"retarget_pending[{index}]: task {shown(item.task_id, 150)} is in supersede_pending too; choose one"
        for index, item in enumerate(patch.retarget_pending)
        if item.task_id in superseded
    ]
    for index, task in enumerate(patch.add_tasks):
        faults += _doubled(f"add_tasks[{index}].depends_on", "task", task.depends_on)
    for cycle in find_cycles({task.key: task.depends_on for task in patch.add_tasks}):
        path = " -> ".join(map(repr, [*cycle, cycle[0]][:20]))
        faults.append(f"add_tasks depend on each other in a circle: {path}")
    return faults


def _doubled(where: str, what: str, names: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    faults = []
    for index, name in enumerate(names):
        if name in seen:
            faults.append(f"{where}[{index}]: {what} {shown(name, 150)} is there already; name each once")
        seen.add(name)
    return faults

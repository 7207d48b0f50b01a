"""A plan that can be stored, looked at, changed and run: a goal and its tasks.

Not here: who makes plans, and who runs them. Invariants: a plan never changes, and is equal to what its JSON is read
as; one that was edited since it was made says so, whether it was edited in memory or in its JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

from pydantic import SkipValidation

from .._shown import shown
from .._spec import spec
from ..errors import ConfigurationError, InvalidTaskDependenciesError
from ._fields import read_mapping, safely_shown
from ._graph import plan_graph
from ._input import GivenTaskInput, TaskInput, read_task_input
from ._spec import TaskSpec
from ._task import Task

__all__ = ["PlanArtifact"]


@spec
class PlanArtifact:
    """A goal and the tasks that lead to it.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
        InvalidMessageError: ``goal`` has a message or a block that is not valid.
    """

    VERSION: ClassVar[int] = 1

    tasks: SkipValidation[Sequence[TaskSpec]]
    """Each with an id, to which the others refer; mappings with the fields of ``TaskSpec`` are as good."""
    _: KW_ONLY
    goal: SkipValidation[GivenTaskInput | TaskInput | None] = None
    """What the tasks are for; kept as a str or as a ``TaskInput``."""
    content_hash: SkipValidation[str | None] = field(default=None, compare=False)
    """The ``fingerprint`` of the plan as it was made; None in a plan that has just been made. Empty when its JSON had
    none."""

    def __post_init__(self) -> None:
        if isinstance(self.tasks, str | bytes | Mapping) or not isinstance(self.tasks, Sequence):
            raise ConfigurationError(f"PlanArtifact.tasks must be a list, got {safely_shown(self.tasks)}")
        tasks = tuple(TaskSpec.of(task, where=f"tasks[{index}]") for index, task in enumerate(self.tasks))
        for index, task in enumerate(tasks):
            if task.id is None:
                raise ConfigurationError(f"tasks[{index}] {task.title!r:.100} has no id; the tasks of a plan need one")
        object.__setattr__(self, "tasks", tasks)
        if self.goal is not None:
            object.__setattr__(self, "goal", read_task_input(self.goal, "goal"))
        if self.content_hash is not None and not isinstance(self.content_hash, str):
            raise ConfigurationError(f"a plan's content_hash must be a string, got {shown(self.content_hash)}")

    @cached_property
    def fingerprint(self) -> str:
        """``sha256:`` and the hash of goal and tasks as they are now; equal for plans that are equal."""
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"

    @property
    def is_edited(self) -> bool:
        """Whether goal or tasks are not those that the plan was made with, or nobody can tell."""
        return self.content_hash is not None and self.content_hash != self.fingerprint

    def replace(self, **changes: Any) -> Self:
        """Return the plan with some fields changed; it is an edited one then, unless it is given a ``content_hash``.

        Args:
            changes: Field values by name.
        """
        made_as = self.fingerprint if self.content_hash is None else self.content_hash
        return replace(self, **{"content_hash": made_as, **changes})

    @classmethod
    def of_tasks(cls, tasks: Sequence[Task], *, goal: str | TaskInput | None = None) -> PlanArtifact:
        """Return the plan that tasks are, with their present assignees and the ids that they depend on.

        Args:
            tasks: The tasks of a run.
            goal: What they are for.
        """
        specs = [task.spec.settled(id=task.id, depends_on=task.depends_on, assignee=task.assignee) for task in tasks]
        return cls(specs, goal=goal)

    def to_tasks(self) -> list[Task]:
        """Return new tasks of the plan.

        Raises:
            InvalidTaskDependenciesError: A task depends on an id that is none of the plan's, or there is a circle.
        """
        ids = {task.id for task in self.tasks}
        strange = [
            {
                "code": "UNKNOWN_DEPENDENCY",
                "task_id": task.id,
                "task_title": task.title,
                "reference": each,
                "message": f"tasks[{index}] {task.title!r:.100} depends on {each!r:.100}, which is the id of no task",
            }
            for index, task in enumerate(self.tasks)
            for each in task.depends_on
            if each not in ids
        ]
        if strange:  # a plan's tasks are never told apart by their titles
            raise InvalidTaskDependenciesError("; ".join(str(issue["message"]) for issue in strange), issues=strange)
        return plan_graph(self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data, which ``from_dict`` reads."""
        made_as = self.fingerprint if self.content_hash is None else self.content_hash
        return self._content() | {"content_hash": made_as}

    def _content(self) -> dict[str, Any]:
        goal = cast("str | TaskInput | None", self.goal)
        return {
            "version": self.VERSION,
            "goal": goal.to_list() if isinstance(goal, TaskInput) else goal,
            "tasks": [task.to_dict() for task in self.tasks],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the plan that ``to_dict`` described, perhaps edited since; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.

        Raises:
            ConfigurationError: It describes no plan of version 1.
        """
        version = read_mapping(record, "a plan").get("version")
        if version != cls.VERSION or isinstance(version, bool):
            raise ConfigurationError(f"a plan must be a mapping with version {cls.VERSION}, got {shown(version)}")
        strange = sorted(set(map(str, record)) - {"version", "goal", "tasks", "content_hash"})
        if strange or "tasks" not in record:
            found = ", ".join(map(str, record))
            raise ConfigurationError(f"a plan has version, goal and tasks, and a content_hash, got {found:.200}")
        made_as = record.get("content_hash")
        return cls(record["tasks"], goal=record.get("goal"), content_hash="" if made_as is None else made_as)

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that ``to_json`` wrote.

        Args:
            text: JSON.

        Raises:
            ConfigurationError: It is no plan.
        """
        try:
            record = json.loads(text)
        except (RecursionError, TypeError, ValueError) as error:
            raise ConfigurationError(f"a plan must be JSON: {error}") from None
        return cls.from_dict(record)

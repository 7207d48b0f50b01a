"""A task as it stands in a run: what was asked for, and what has become of it.

Not here: what may become of it when (``TaskQueue``). Invariant: a ``Task`` never changes; each change of a task's state
is another ``Task``, so whoever holds one may keep it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

from .._record import record
from ..errors import ConfigurationError
from ._fields import TaskMetadataValue, optional, read_mapping, safely_shown, whole
from ._spec import DependencyPayload, MemoryScope, TaskPriority, TaskRequirements, TaskSpec

__all__ = [
    "OPEN_STATUSES",
    "TERMINAL_STATUSES",
    "AskedFields",
    "Task",
    "TaskStatus",
    "create_task",
    "in_state",
    "new_task_id",
    "read_time",
]

TaskStatus = Literal["pending", "in_progress", "blocked", "completed", "failed", "skipped"]
"""``pending`` can be started, ``blocked`` waits for other tasks, and the last three are ends."""

TERMINAL_STATUSES: Final = frozenset[TaskStatus](("completed", "failed", "skipped"))
"""Those that a task never leaves."""
OPEN_STATUSES: Final = frozenset[TaskStatus](("pending", "in_progress", "blocked"))
"""The others."""


class AskedFields:
    """The fields of a specification as attributes of who has one."""

    __slots__ = ()

    @property
    def _asked(self) -> TaskSpec:
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What people call the task."""
        return self._asked.title

    @property
    def description(self) -> str:
        """What is to be done, as text; ``spec.content`` is the whole of it."""
        return self._asked.text

    @property
    def text(self) -> str:
        """The same."""
        return self._asked.text

    @property
    def memory_scope(self) -> MemoryScope:
        """What its agent sees of other tasks."""
        return self._asked.memory_scope

    @property
    def dependency_payload(self) -> DependencyPayload:
        """What its agent gets of the results that it depends on."""
        return self._asked.dependency_payload

    @property
    def metadata(self) -> Mapping[str, TaskMetadataValue] | None:
        """Entries for records and spans, read-only."""
        return self._asked.metadata

    @property
    def max_retries(self) -> int:
        """How often it is tried again."""
        return self._asked.max_retries

    @property
    def retry_delay(self) -> float:
        """Seconds before the first retry."""
        return self._asked.retry_delay

    @property
    def retry_backoff(self) -> float:
        """What each further delay is multiplied by."""
        return self._asked.retry_backoff

    @property
    def timeout(self) -> float | None:
        """Seconds for each attempt."""
        return self._asked.timeout

    @property
    def max_token_budget(self) -> int | None:
        """The most tokens that it may use."""
        return self._asked.max_token_budget

    @property
    def max_cost_budget(self) -> float | None:
        """The most that it may cost."""
        return self._asked.max_cost_budget

    @property
    def role(self) -> str | None:
        """What it is in the team's work."""
        return self._asked.role

    @property
    def priority(self) -> TaskPriority:
        """How urgent it is."""
        return self._asked.priority

    @property
    def requires(self) -> TaskRequirements | None:
        """What its agent must have."""
        return self._asked.requires


@record(kw_only=True)
class Task(AskedFields):
    """One task of a run, as it stands at one moment."""

    spec: TaskSpec
    """What was asked for; its fields are attributes of the task, too."""
    id: str
    """The specification's own id, or a random one of 32 hexadecimal digits."""
    depends_on: tuple[str, ...] = ()
    """Ids of the tasks that have to be completed before."""
    assignee: str | None = None
    """Name of the agent that is to do it, or does."""
    status: TaskStatus = "pending"
    result: str | None = None
    """The output when it is completed, the reason when it failed or was skipped."""
    failed_through: str | None = None
    """Id of the dependency that it failed or was skipped with; None when the reason is its own."""
    superseded_by_revision: int | None = None
    """Number of the plan revision that left it out."""
    recovered_by_revision: int | None = None
    """Number of the plan revision that makes up for what it came to."""
    created_at: datetime
    updated_at: datetime
    """When it got its status, result or assignee."""

    @property
    def _asked(self) -> TaskSpec:
        return self.spec

    @property
    def is_terminal(self) -> bool:
        """Whether it has come to its end."""
        return self.status in TERMINAL_STATUSES

    def to_dict(self) -> dict[str, Any]:
        """Return the task as plain JSON data, which ``from_dict`` reads.

        It has the fields of the specification that are set and those of the state; ``depends_on`` are ids.
        """
        revisions = {name: number for name in _REVISIONS if (number := getattr(self, name)) is not None}
        return self.spec.to_dict() | {
            "id": self.id,
            "given_id": self.spec.id,
            "depends_on": list(self.depends_on),
            "references": list(self.spec.depends_on),
            "assignee": self.assignee,
            "given_assignee": self.spec.assignee,
            "status": self.status,
            "result": self.result,
            "failed_through": self.failed_through,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            **revisions,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], *, where: str = "task") -> Task:
        """Return the task that ``to_dict`` described; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.
            where: What errors call it.

        Raises:
            ConfigurationError: It describes no task.
        """
        state = dict(read_mapping(record, where))
        given = {
            "id": state.pop("given_id", None),
            "depends_on": state.pop("references", ()),
            "assignee": state.pop("given_assignee", None),
        }
        own = {name: state.pop(name) for name in _STATE if name in state}
        spec = TaskSpec.of(state | given, where=where)
        # The ids and the name are checked by the rules that hold for those of specifications.
        checked = spec.replace(id=own.get("id"), depends_on=own.get("depends_on", ()), assignee=own.get("assignee"))
        if checked.id is None or own.get("status") not in get_args(TaskStatus):
            raise ConfigurationError(f"{where} must have an id and a status, one of {', '.join(get_args(TaskStatus))}")
        return cls(
            spec=spec,
            id=checked.id,
            depends_on=tuple(checked.depends_on),
            assignee=checked.assignee,
            status=own["status"],
            result=_optional_text(own.get("result"), f"{where}.result"),
            failed_through=_optional_text(own.get("failed_through"), f"{where}.failed_through"),
            created_at=read_time(own.get("created_at"), f"{where}.created_at"),
            updated_at=read_time(own.get("updated_at"), f"{where}.updated_at"),
            **{name: _optional_number(own.get(name), f"{where}.{name}") for name in _REVISIONS},
        )

    def replace(self, **changes: Any) -> Task:
        """Return the task with some fields changed.

        Args:
            changes: Field values by name.
        """
        return replace(self, **changes)

    def __copy__(self) -> Task:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Task:
        return self  # nothing in it can change

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, ({item.name: getattr(self, item.name) for item in fields(self)},)


_REVISIONS: Final = ("superseded_by_revision", "recovered_by_revision")
_optional_number = optional(whole(1, "revisions"))
_STATE = tuple(item.name for item in fields(Task) if item.name != "spec")


def _remade(state: dict[str, Any]) -> Task:
    return Task(**state)


def _optional_text(value: object, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{where} must be a string or null, got {safely_shown(value)}")
    return value


def read_time(value: object, where: str) -> datetime:
    """Read a time from plain data.

    Args:
        value: An ISO 8601 text with an offset.
        where: What errors call it.

    Raises:
        ConfigurationError: It is no such text.
    """
    try:
        read = datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError):
        read = None
    if read is None or read.tzinfo is None:
        raise ConfigurationError(f"{where} must be a time in ISO 8601 form with an offset, got {safely_shown(value)}")
    return read.astimezone(UTC)


def new_task_id() -> str:
    """Return a random id of 32 hexadecimal digits: a UUID of version 4 without its hyphens."""
    digits = os.urandom(16).hex()  # uuid.uuid4() takes twice the time
    return f"{digits[:12]}4{digits[13:16]}{'89ab'[int(digits[16], 16) & 3]}{digits[17:]}"


_KEEP: Final[Any] = object()


def in_state(
    task: Task,
    status: TaskStatus,
    result: str | None,
    now: datetime,
    *,
    assignee: str | None = _KEEP,
    failed_through: str | None = None,
) -> Task:
    """Return a task in another state; ``replace`` takes several times as long.

    Args:
        task: The task.
        status: Its new status.
        result: Its new result.
        now: The time.
        assignee: Its new assignee; the same unless given.
        failed_through: Id of the dependency that it ended with.
    """
    return Task(
        spec=task.spec,
        id=task.id,
        depends_on=task.depends_on,
        assignee=task.assignee if assignee is _KEEP else assignee,
        status=status,
        result=result,
        failed_through=failed_through,
        superseded_by_revision=task.superseded_by_revision,
        recovered_by_revision=task.recovered_by_revision,
        created_at=task.created_at,
        updated_at=now,
    )


def create_task(
    spec: TaskSpec | Mapping[str, Any],
    *,
    id: str | None = None,  # noqa: A002 - the field's name
    depends_on: Iterable[str] | None = None,
) -> Task:
    """Make the task of a specification.

    Args:
        spec: The specification, or a mapping with its fields.
        id: Its id; the specification's own, or a random one, unless given.
        depends_on: Ids of the tasks that it depends on; the specification's references unless given.

    Raises:
        ConfigurationError: The specification is not valid.
    """
    asked = TaskSpec.of(spec)
    now = datetime.now(UTC)
    return Task(
        spec=asked,
        id=id or asked.id or new_task_id(),
        depends_on=tuple(dict.fromkeys(asked.depends_on if depends_on is None else depends_on)),
        assignee=asked.assignee,
        created_at=now,
        updated_at=now,
    )

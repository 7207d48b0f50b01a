"""A task as it is asked for.

Not here: what becomes of it (``Task``), and which other tasks its references mean (``plan_graph``). Invariant: a
specification is valid and never changes; nothing that its maker does later reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from pydantic import SkipValidation

from .._spec import as_spec, spec
from ..errors import ConfigurationError, InvalidMessageError
from ._condition import TaskCondition
from ._fields import (
    Reader,
    TaskMetadataValue,
    above_zero,
    at_least,
    one_of,
    optional,
    read_metadata,
    read_names,
    refuse_unknown_keys,
    safely_shown,
    short_name,
    whole,
)
from ._input import GivenTaskInput, TaskInput, read_task_input, task_input_text

T = TypeVar("T")

__all__ = [
    "DependencyPayload",
    "MemoryScope",
    "RequiredBackend",
    "TaskPriority",
    "TaskRequirements",
    "TaskSpec",
    "read_title",
]

MemoryScope = Literal["dependencies", "all"]
"""What a task's agent sees of other tasks: those that it depends on, or the team's memory as well."""
DependencyPayload = Literal["output", "structured", "both"]
"""What a task's agent gets of the results that it depends on."""
TaskPriority = Literal["low", "normal", "high", "critical"]
"""How urgent a task is among those that are ready."""
RequiredBackend = Literal["llm", "process", "acp"]
"""The kinds of agents: model, program, agent behind the Agent Client Protocol."""


@spec
class TaskRequirements:
    """What an agent must have to be given a task.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    _: KW_ONLY
    required_tools: SkipValidation[Sequence[str]] = ()
    """Names of tools that it must be granted; kept as a tuple."""
    required_capabilities: SkipValidation[Sequence[str]] = ()
    """Capabilities that it must declare; kept as a tuple."""
    required_backend: SkipValidation[RequiredBackend | None] = None
    """The kind of agent that it must be."""
    required_provider: SkipValidation[str | None] = None
    """The provider that its model must come from."""

    def __post_init__(self) -> None:
        _read_fields(self, self.__dict__, _REQUIREMENT_READERS, "TaskRequirements")

    @classmethod
    def of(cls, value: TaskRequirements | Mapping[str, Any], *, where: str = "requires") -> TaskRequirements:
        """Return the requirements themselves, or those that a mapping with their fields describes.

        Args:
            value: Requirements or a mapping; the mapping is left as it is.
            where: What errors call it.

        Raises:
            ConfigurationError: It is neither, or a field is wrong.
        """
        if isinstance(value, TaskRequirements):
            return value
        return _made(cls, value, _REQUIREMENT_READERS, where)

    def __bool__(self) -> bool:
        return bool(
            self.required_tools or self.required_capabilities or self.required_backend or self.required_provider
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is required as plain JSON data."""
        values = ((name, getattr(self, name)) for name in _REQUIREMENT_READERS)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values if value}


@spec
class TaskSpec:
    """A task of a graph: frozen, checked when it is made, good for any number of runs.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
        InvalidMessageError: ``description`` has a message or a block that is not valid.
    """

    __readers__: ClassVar[dict[str, Reader]]
    """By field; those of a class that adds fields to these are more."""
    __unknown_fields__: ClassVar[dict[str, str]] = {
        "agent": "who does it is its assignee",
        "context": "the results of the tasks in depends_on are handed on",
        "dependencies": "what comes before it is in depends_on",
        "name": "it has a title and, for programs, an id",
        "prompt": "what is to be done is its description",
        "tools": "tools belong to agents; what its agent must have is in requires",
    }

    title: SkipValidation[str]
    """What people call it; other tasks may refer to it by this, in any case."""
    description: SkipValidation[GivenTaskInput | TaskInput]
    """What is to be done: a text, messages, or the blocks of one user turn. Kept as a str or as a ``TaskInput``."""
    _: KW_ONLY
    id: SkipValidation[str | None] = None
    """A name of its own in a run; a random one unless given."""
    assignee: SkipValidation[str | None] = None
    """Name of the agent that is to do it; None leaves the choice to the scheduler."""
    depends_on: SkipValidation[Sequence[str]] = ()
    """Ids or titles of the tasks that have to be completed before; kept as a tuple."""
    memory_scope: SkipValidation[MemoryScope] = "dependencies"
    """Whether its agent also sees the team's shared memory."""
    dependency_payload: SkipValidation[DependencyPayload] = "output"
    """Whether its agent gets the texts of the results that it depends on, their structured values, or both."""
    metadata: SkipValidation[Mapping[str, TaskMetadataValue] | None] = field(default=None, hash=False)
    """Up to 16 entries for records and spans; kept redacted and read-only."""
    max_retries: SkipValidation[int] = 0
    """How often it is tried again."""
    retry_delay: SkipValidation[float] = 1.0
    """Seconds before the first retry."""
    retry_backoff: SkipValidation[float] = 2.0
    """What each further delay is multiplied by, up to 30 seconds."""
    timeout: SkipValidation[float | None] = None
    """Seconds for each attempt; None is no limit but the agent's."""
    max_token_budget: SkipValidation[int | None] = None
    """The most tokens, in and out, that all its attempts together may use."""
    max_cost_budget: SkipValidation[float | None] = None
    """The most that they may cost, in the unit of ``estimate_cost``."""
    role: SkipValidation[str | None] = None
    """What it is in the team's work, such as ``reviewer``; for routing and spans."""
    priority: SkipValidation[TaskPriority] = "normal"
    """How urgent it is among tasks that are ready."""
    requires: SkipValidation[TaskRequirements | None] = None
    """What its agent must have; a mapping with the fields of ``TaskRequirements`` is as good."""
    run_if: SkipValidation[TaskCondition | None] = None
    """What the results that it depends on have to be for it to be done; a mapping with the fields is as good. Otherwise
    it is left out, and so is all that waits for it."""
    text: str = field(init=False, repr=False, compare=False)
    """The text view of ``description``."""

    def __post_init__(self) -> None:
        _read_fields(self, self.__dict__, self.__readers__, type(self).__name__)

    @classmethod
    def of(cls, value: TaskSpec | Mapping[str, Any], *, where: str = "task") -> Self:
        """Return the specification itself, or the one that a mapping with its fields describes.

        Args:
            value: A specification or a mapping; the mapping is left as it is.
            where: What errors call it, such as ``tasks[3]``.

        Raises:
            ConfigurationError: It is neither, or a field is wrong; the text names it, as ``tasks[3].retry_delay``.
            InvalidMessageError: ``description`` has a message or a block that is not valid.
        """
        return value if isinstance(value, cls) else _made(cls, value, cls.__readers__, where)

    @property
    def content(self) -> str | TaskInput:
        """The description, as it is kept."""
        return cast("str | TaskInput", self.description)

    def replace(self, **changes: Any) -> Self:
        """Return the specification with some fields changed.

        Args:
            changes: Field values by name.
        """
        return replace(self, **changes)

    def settled(self, *, id: str, depends_on: Sequence[str], assignee: str | None) -> Self:  # noqa: A002 - the field
        """Return the specification with what a run has made of its references; nothing is checked again.

        Args:
            id: Id of the task.
            depends_on: Ids of the tasks that it depends on.
            assignee: Name of its agent.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, id=id, depends_on=tuple(depends_on), assignee=assignee)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set as plain JSON data, which ``of`` reads."""
        content = self.content
        record: dict[str, Any] = {
            "title": self.title,
            "description": content if isinstance(content, str) else content.to_list(),
        }
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in record and item.init and value != item.default:
                record[item.name] = _plain(value)
        return record

    def __copy__(self) -> TaskSpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSpec:
        return self  # nothing in it can change

    def __reduce__(self) -> tuple[Any, ...]:
        state = {item.name: getattr(self, item.name) for item in fields(self)}
        if state["metadata"] is not None:
            state["metadata"] = dict(state["metadata"])
        return _remade, (type(self), state)


def _remade(cls: type[TaskSpec], state: dict[str, Any]) -> TaskSpec:
    made = object.__new__(cls)
    if state["metadata"] is not None:
        state["metadata"] = MappingProxyType(state["metadata"])
    made.__dict__.update(state)
    return made


def _plain(value: object) -> Any:
    if isinstance(value, TaskRequirements | TaskCondition):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _made(cls: type[T], value: object, readers: Mapping[str, Reader], where: str) -> T:
    if not isinstance(value, Mapping):
        given = safely_shown(value)
        raise ConfigurationError(f"{where} must be a {cls.__name__} or a mapping with its fields, got {given}")
    refuse_unknown_keys(value, tuple(readers), where, hints=getattr(cls, "__unknown_fields__", {}))
    for item in ("key", "title", "description"):
        if item in readers and item not in value:
            raise ConfigurationError(f"{where} lacks {item!r}")
    made = object.__new__(cls)
    _read_fields(made, _defaults(cast("Any", cls)) | dict(value), readers, where)
    return made


def _defaults(cls: Any) -> dict[str, Any]:
    found = _DEFAULTS.get(cls)
    if found is None:
        found = _DEFAULTS[cls] = {item.name: item.default for item in fields(cls) if item.init}
    return found


_DEFAULTS: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def _read_fields(made: Any, values: Mapping[str, Any], readers: Mapping[str, Reader], where: str) -> None:
    """Give a new specification its checked fields; itself, since it is frozen for everybody else."""
    defaults = type(made).__dict__
    # By far the most fields are not given, and a default need not be read.
    read: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        try:
            read[name] = value if value is defaults.get(name, _REQUIRED) else readers[name](value, f"{where}.{name}")
        except InvalidMessageError:
            raise
        except ConfigurationError as error:
            faults.append(error.message)
    if faults:
        raise ConfigurationError("; ".join(faults))
    if "description" in read:
        read["text"] = task_input_text(read["description"])
        if read["run_if"] is not None and not read["depends_on"]:
            raise ConfigurationError(f"{where}.run_if is about the results of other tasks; name them in depends_on")
    made.__dict__.update(read)


_REQUIRED = object()


def read_title(value: object, where: str) -> str:
    """Read a text for people.

    Args:
        value: Anything.
        where: What errors call it.

    Raises:
        ConfigurationError: It is no text, or a blank one.
    """
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where} must be a string with a visible character, got {safely_shown(value)}")
    return read_names([value], where)[0]


def _read_requirements(value: object, where: str) -> TaskRequirements:
    return TaskRequirements.of(cast("Mapping[str, Any]", value), where=where)


def _read_condition(value: object, where: str) -> TaskCondition:
    try:
        return as_spec(TaskCondition, value, where=where)
    except ConfigurationError as error:
        raise ConfigurationError(error.message if where in error.message else f"{where}: {error.message}") from None


_REQUIREMENT_READERS: dict[str, Reader] = {
    "required_tools": read_names,
    "required_capabilities": read_names,
    "required_backend": optional(one_of("llm", "process", "acp")),
    "required_provider": optional(short_name),
}

TaskSpec.__readers__ = {
    "title": read_title,
    "description": read_task_input,
    "id": optional(short_name),
    "assignee": optional(short_name),
    "depends_on": read_names,
    "memory_scope": one_of("dependencies", "all"),
    "dependency_payload": one_of("output", "structured", "both"),
    "metadata": optional(read_metadata),
    "max_retries": whole(0, "retries"),
    "retry_delay": at_least(0, "seconds"),
    "retry_backoff": at_least(1, "a factor"),
    "timeout": optional(above_zero("seconds")),
    "max_token_budget": optional(whole(1, "tokens")),
    "max_cost_budget": optional(above_zero("a cost")),
    "role": optional(short_name),
    "priority": one_of("low", "normal", "high", "critical"),
    "requires": optional(_read_requirements),
    "run_if": optional(_read_condition),
}

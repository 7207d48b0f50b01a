"""Reading the plan that a coordinator wrote: all of it is right, or it is refused with a text that says what is wrong.

Not here: asking for the plan, asking again, or running it. Invariants: a plan is never repaired by leaving tasks or
dependencies out or by adding some; the time is linear in the answer, and the text bounded whatever the answer is.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, NoReturn

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from ..._record import record
from ..._shown import shown
from ...agent import AgentConfig
from ...errors import (
    ConfigurationError,
    InvalidTaskDependenciesError,
    PlanInvalidError,
    StructuredOutputValidationError,
)
from ...tasks import TaskSpec, plan_graph
from .._answers import TooDeepError, json_fault, json_values, snake_fields

__all__ = [
    "DEFAULT_MAX_TASKS",
    "CoordinatorPlan",
    "PlanRules",
    "PlannedTask",
    "UnknownAssignee",
    "as_plan_error",
    "check_plan",
    "plan_rules",
    "plan_schema",
    "read_plan",
]

DEFAULT_MAX_TASKS: Final = 200
"""The most tasks that a plan may have, unless another number is given."""

_CODE: Final = "COORDINATOR_PLAN_INVALID"
_SHOWN: Final = 20
"""Faults that a text lists."""
_MAX_FAULT: Final = 300
_FORM: Final = 'write {"tasks": [{"title": ..., "description": ...}, ...]}'
_WRAPPERS: Final = ("tasks", "plan", "value")
"""Names that models give to the list when they write an object."""


class PlannedRequirements(BaseModel):
    """What the agent of a task must have."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    required_tools: list[str] | None = Field(None, description="Names of tools that the agent must have")
    required_capabilities: list[str] | None = Field(None, description="Capabilities that the agent must have")
    required_backend: Literal["llm", "process", "acp"] | None = None
    required_provider: str | None = None


class PlannedTask(BaseModel):
    """A task as a coordinator writes it."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    title: str = Field(description="Short and unique in the plan")
    description: str = Field(description="Everything that the agent needs to know to do it")
    assignee: str | None = Field(None, description="Exact name of an agent; null leaves the choice open")
    depends_on: list[str] | None = Field(None, description="Titles of the tasks whose results it needs")
    memory_scope: Literal["dependencies", "all"] | None = None
    max_retries: Annotated[int, Field(ge=0)] | None = None
    retry_delay: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(None, description="Seconds")
    retry_backoff: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    role: str | None = Field(None, description="What it is in the work as a whole, such as reviewer")
    priority: Literal["low", "normal", "high", "critical"] | None = None
    requires: PlannedRequirements | None = None


class _Plan(BaseModel):
    """A plan as a coordinator is asked to write it."""

    model_config = ConfigDict(extra="forbid", title="Plan", defer_build=True)

    tasks: list[PlannedTask]


class PlanRules(NamedTuple):
    """What a plan has to keep, besides its form."""

    agents: tuple[str, ...]
    """Names of the roster."""
    strict_assignees: bool = True
    """Whether a task for an unknown agent makes the plan invalid; else the choice is left open."""
    max_tasks: int = DEFAULT_MAX_TASKS


class _Fault(NamedTuple):
    """What is wrong with a plan: a stable word for programs, and a text that names the place."""

    code: str
    text: str


class UnknownAssignee(NamedTuple):
    """A task that was meant for an agent that there is not."""

    title: str
    assignee: str


@record
class CoordinatorPlan:
    """A valid plan. Its tasks refer to each other by their titles, exactly as the coordinator wrote."""

    tasks: tuple[TaskSpec, ...]
    unknown_assignees: tuple[UnknownAssignee, ...] = ()
    """Whose assignee was left out, since assignees need not be known."""


def plan_rules(
    agents: Sequence[AgentConfig], *, strict_assignees: bool = True, max_tasks: int = DEFAULT_MAX_TASKS
) -> PlanRules:
    """Return the rules for the plans of a team.

    Args:
        agents: The roster.
        strict_assignees: Whether a task for an unknown agent makes a plan invalid.
        max_tasks: The most tasks that a plan may have.
    """
    return PlanRules(tuple(agent.name for agent in agents), strict_assignees, max_tasks)


@lru_cache(maxsize=64)
def plan_schema(rules: PlanRules) -> TypeAdapter[CoordinatorPlan]:
    """Return the ``output_schema`` of a coordinator: its form for the model, and ``check_plan`` for the answer.

    Args:
        rules: What a plan has to keep.
    """

    def check(value: Any) -> CoordinatorPlan:
        try:
            return check_plan(value, rules)
        except PlanInvalidError as error:
            raise PydanticCustomError(
                "plan_invalid", "{text}", {"text": error.message, "issues": error.issues}
            ) from None

    return TypeAdapter(Annotated[CoordinatorPlan, PlainValidator(check, json_schema_input_type=_Plan)])


def read_plan(text: str, rules: PlanRules) -> CoordinatorPlan:
    """Return the plan in an answer: JSON, possibly in a fence or between prose.

    Args:
        text: The answer.
        rules: What a plan has to keep.

    Raises:
        PlanInvalidError: There is none in it, or it is not as it has to be. The text is what the coordinator can be
            told, and ``issues`` has the faults, each with ``code`` and ``message``.
    """
    likeliest: Any = None
    try:
        for value in json_values(text):
            if _task_list(value) is not None and _has_objects(_task_list(value)):
                return check_plan(value, rules)
            likeliest = value if likeliest is None else likeliest
    except TooDeepError:
        _refuse([_Fault("INVALID_JSON", f"the JSON is nested too deeply; {_FORM}")])
    if likeliest is None:
        _refuse([_Fault("INVALID_JSON", json_fault(text))])
    return check_plan(likeliest, rules)


def check_plan(value: object, rules: PlanRules) -> CoordinatorPlan:
    """Return the plan that JSON data describes.

    Args:
        value: A list of tasks, or an object with one as ``tasks``; names in snake_case or camelCase.
        rules: What a plan has to keep.

    Raises:
        PlanInvalidError: It is not as it has to be; as for ``read_plan``.
    """
    items = _task_list(value)
    if items is None:
        _refuse([_Fault("NO_TASK_LIST", f"the plan is no list of tasks; {_FORM}")])
    if not items:
        _refuse([_Fault("NO_TASKS", "the plan has no tasks; give at least one")])
    if len(items) > rules.max_tasks:
        text = f"the plan has {len(items):,} tasks, of {rules.max_tasks:,} at most; join tasks, or leave some out"
        _refuse([_Fault("TOO_MANY_TASKS", text)])
    reader = _Reader(rules)
    specs = [reader.read(item, f"tasks[{index}]") for index, item in enumerate(items)]
    tasks = tuple(spec for spec in specs if spec is not None)
    faults = [*reader.faults, *_title_faults(specs)]
    if len(tasks) == len(specs):
        faults += _graph_faults(tasks)
    if faults:
        _refuse(faults)
    return CoordinatorPlan(tasks, tuple(reader.unknown))


def as_plan_error(error: BaseException) -> PlanInvalidError:
    """Return the error of a run whose coordinator wrote no valid plan, also when it was asked again.

    Args:
        error: What the coordinator's run failed with.
    """
    cause: object = error
    while isinstance(cause, StructuredOutputValidationError) and cause.cause is not None:
        cause = cause.cause
    text, issues = str(cause), ()
    if isinstance(cause, ValidationError):  # of ``plan_schema``, which tells everything in one
        first = cause.errors(include_url=False, include_input=False)[0]
        text, issues = first["msg"], first.get("ctx", {}).get("issues", ())
    made = PlanInvalidError(text, issues=issues)
    made.code = _CODE
    return made


def _refuse(faults: Sequence[_Fault]) -> NoReturn:
    issues = [{"code": code, "message": _clipped(text)} for code, text in faults[:_SHOWN]]
    lines = [f"- {issue['message']}" for issue in issues]
    if len(faults) > _SHOWN:
        lines.append(f"- ... and {len(faults) - _SHOWN:,} more")
    error = PlanInvalidError("The plan cannot be used:\n" + "\n".join(lines), issues=issues)
    error.code = _CODE
    raise error


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_FAULT else f"{text[: _MAX_FAULT - 3]}..."


def _task_list(value: object) -> list[Any] | None:
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in _WRAPPERS:
        value = value[name]
    return value if isinstance(value, list) else None


def _has_objects(items: list[Any] | None) -> bool:
    return any(isinstance(item, dict) for item in items or ())


class _Reader:
    """Reads the tasks of one plan, and notes what is wrong with them."""

    def __init__(self, rules: PlanRules) -> None:
        self._rules = rules
        self._agents = frozenset(rules.agents)
        self.faults: list[_Fault] = []
        self.unknown: list[UnknownAssignee] = []

    def read(self, item: object, where: str) -> TaskSpec | None:
        """Return the task that an object describes, or None after noting what is wrong with it."""
        if not isinstance(item, Mapping):
            text = f"{where}: must be an object with title and description, got {_shown(item)}"
            self.faults.append(_Fault("INVALID_TASK", text))
            return None
        fields, faults = _fields(item, where)
        if not faults:
            try:
                planned = PlannedTask.model_validate(fields)
                spec = TaskSpec.of(_without_null(planned.model_dump()), where=where)
            except ValidationError as error:
                faults = [_field_fault(where, each) for each in error.errors(include_url=False, include_context=False)]
            except ConfigurationError as error:
                faults = [error.message]
            else:
                return self._with_known_assignee(spec, where)
        self.faults += [_Fault("INVALID_TASK", text) for text in faults]
        return None

    def _with_known_assignee(self, spec: TaskSpec, where: str) -> TaskSpec:
        assignee = spec.assignee
        if assignee is None or assignee in self._agents:
            return spec
        if not self._rules.strict_assignees:
            self.unknown.append(UnknownAssignee(spec.title, assignee))
            return spec.replace(assignee=None)
        agents = ", ".join(self._rules.agents[:_SHOWN])
        text = f"{where}.assignee: there is no agent {shown(assignee, 60)}; the agents are {agents:.160}"
        self.faults.append(_Fault("INVALID_ASSIGNEE", text))
        return spec


def _fields(item: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a task under their own names, without space around texts, and which are there twice."""
    fields, twice = snake_fields(item)
    requires = fields.get("requires")
    if isinstance(requires, Mapping):
        fields["requires"], doubled = snake_fields(requires)
        twice += [f"requires.{name}" for name in doubled]
    if "retry_delay_ms" in fields:
        delay = fields.pop("retry_delay_ms")
        if "retry_delay" in fields:
            twice.append("retry_delay")
        is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
        fields["retry_delay"] = delay / 1000 if is_number and abs(delay) < 1e300 else delay
    for name in ("title", "description", "assignee"):
        if isinstance(fields.get(name), str):
            fields[name] = fields[name].strip()
    return fields, [f"{where}.{name}: is there twice, in two spellings" for name in twice]


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return value


def _field_fault(where: str, error: Any) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step:.60}" for step in error["loc"])
    if error["type"] == "extra_forbidden":
        names = PlannedTask if len(error["loc"]) == 1 else PlannedRequirements
        return f"{where}{steps}: there is no such field; the fields are {', '.join(names.model_fields)}"
    if error["type"] == "missing":
        return f"{where}{steps}: is missing"
    return f"{where}{steps}: {error['msg']}, got {_shown(error['input'])}"


def _shown(value: object) -> str:
    return f"{reprlib.repr(value):.60}"  # of however large a value, and however deep


def _title_faults(specs: Sequence[TaskSpec | None]) -> list[_Fault]:
    first: dict[str, int] = {}
    faults = []
    for index, spec in enumerate(specs):
        if spec is None:
            continue
        title = spec.title.strip().casefold()
        if title in first:
            text = f"tasks[{index}].title: {shown(spec.title)} is the title of tasks[{first[title]}], too"
            faults.append(_Fault("DUPLICATE_TITLE", text))
        first.setdefault(title, index)
    return faults


def _graph_faults(tasks: Sequence[TaskSpec]) -> list[_Fault]:
    try:
        plan_graph(tasks)
    except InvalidTaskDependenciesError as error:
        return [_Fault(str(issue["code"]), str(issue["message"])) for issue in error.issues]
    return []

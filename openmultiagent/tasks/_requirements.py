"""What tasks demand of the agent that works on them, and which agents offer it.

Not here: choosing among those that do. Invariants: a requirement is never weakened, and an agent offers only what is
known without running it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, Protocol, TypeAlias

from .._record import record
from .._shown import shown
from ..agent import DEFAULT_PROVIDER, AgentConfig
from ..errors import ConfigurationError
from ._spec import TaskRequirements
from ._task import TERMINAL_STATUSES

__all__ = [
    "Offer",
    "ProviderOf",
    "SchedulableTask",
    "Subject",
    "TaskRequirementIssue",
    "TaskRequirementIssueCode",
    "checked_roster",
    "declared_provider",
    "exclusion",
    "no_eligible_agent",
    "required",
    "validate_task_requirements",
]

_BACKEND = "llm"
"""What every agent runs on: a definition has no place for anything else."""


class Subject(Protocol):
    """What an agent is chosen for: any text with a title and perhaps requirements, such as a ``TaskSpec``."""

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    @property
    def text(self) -> str:
        """What it is about."""
        ...

    @property
    def requires(self) -> TaskRequirements | None:
        """What its agent must have."""
        ...


class SchedulableTask(Subject, Protocol):
    """What of a task counts for scheduling; a ``Task`` has it all."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def status(self) -> str:
        """``pending``, ``in_progress``, ..."""
        ...

    @property
    def assignee(self) -> str | None:
        """Name of the agent that it was given to."""
        ...

    @property
    def depends_on(self) -> Sequence[str]:
        """Ids of the tasks that it waits for."""
        ...

    @property
    def priority(self) -> str | None:
        """``critical``, ``high``, ``normal`` (also None) or ``low``."""
        ...


ProviderOf: TypeAlias = Callable[[AgentConfig, Any], str | None]
"""Tells which provider an agent would use for a subject; None when nobody can know, as with an adapter of its own."""

TaskRequirementIssueCode: TypeAlias = Literal["NO_ELIGIBLE_AGENT", "ASSIGNEE_REQUIREMENTS_MISMATCH", "INVALID_ASSIGNEE"]
"""What is the matter: nobody can, the assignee cannot, or there is no such agent."""


@record
class TaskRequirementIssue:
    """Why a task cannot be given to anybody, or not to the agent that it was given to."""

    code: TaskRequirementIssueCode
    task_id: str
    task_title: str
    _: KW_ONLY
    assignee: str | None = None
    reasons: tuple[str, ...] = ()
    """One text per agent that was looked at, or what is wrong with the assignee."""

    def to_dict(self) -> dict[str, Any]:
        """Return the issue as plain data, as in ``InvalidTaskRequirementsError.issues``."""
        return {
            "code": self.code,
            "task_id": self.task_id,
            "task_title": self.task_title,
            "assignee": self.assignee,
            "reasons": list(self.reasons),
        }


class Offer:
    """What an agent offers to tasks.

    Args:
        config: The agent, with the defaults that it will run with.
    """

    __slots__ = ("backend", "capabilities", "config", "name", "tools")

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.name = config.name
        self.tools = frozenset(config.grants.names)
        self.capabilities = frozenset(config.capabilities)
        self.backend = _BACKEND


def declared_provider(config: AgentConfig, _subject: object = None) -> str | None:
    """Return the provider that an agent declares; None with an adapter of its own, which may talk to anybody.

    Args:
        config: The agent, with the defaults that it will run with.
    """
    if config.adapter is not None:
        return None
    return DEFAULT_PROVIDER if config.provider is None else config.provider


def required(subject: Subject) -> TaskRequirements | None:
    """Return the requirements of a subject, None when it demands nothing.

    Args:
        subject: A task.
    """
    return subject.requires or None  # requirements that demand nothing are false


def exclusion(
    needs: TaskRequirements, offer: Offer, subject: object, provider_of: ProviderOf = declared_provider
) -> str | None:
    """Return why an agent does not meet requirements, None when it does.

    Args:
        needs: The requirements.
        offer: What the agent offers.
        subject: The task, for ``provider_of``.
        provider_of: Tells the agent's provider.
    """
    faults = []
    if tools := _missing(needs.required_tools, offer.tools):
        hint = " (tools of toolsets are known only during a run)" if offer.config.grants.toolsets else ""
        faults.append(f"has no tool {tools}{hint}")
    if capabilities := _missing(needs.required_capabilities, offer.capabilities):
        faults.append(f"does not declare the capability {capabilities}")
    if needs.required_backend and needs.required_backend != offer.backend:
        faults.append(f"runs on the backend {offer.backend!r}, not {needs.required_backend!r}")
    if needs.required_provider:
        provider = provider_of(offer.config, subject)
        if provider is None:
            faults.append(f"declares no provider, so it is not known to use {needs.required_provider!r}")
        elif provider != needs.required_provider:
            faults.append(f"uses the provider {provider!r}, not {needs.required_provider!r}")
    return f"{offer.name} excluded: {'; '.join(faults)}" if faults else None


def no_eligible_agent(task: Subject, reasons: Iterable[str]) -> TaskRequirementIssue:
    """Return the issue of a task that no agent can be given.

    Args:
        task: The task.
        reasons: Why each agent is excluded; none when there are no agents.
    """
    told = tuple(reasons) or ("there are no agents",)
    return TaskRequirementIssue("NO_ELIGIBLE_AGENT", getattr(task, "id", None) or "", task.title, reasons=told)


def checked_roster(agents: Sequence[AgentConfig]) -> Sequence[AgentConfig]:
    """Return the agents that may be chosen from.

    Args:
        agents: The team.

    Raises:
        ConfigurationError: Something else is among them, or two have the same name.
    """
    names = set()
    for agent in agents:
        if not isinstance(agent, AgentConfig):
            raise ConfigurationError(f"agents takes AgentConfig objects, got {shown(agent)}")
        if agent.name in names:
            raise ConfigurationError(f"two agents are named {agent.name!r}; rename one, tasks are assigned by name")
        names.add(agent.name)
    return agents


def validate_task_requirements(
    tasks: Iterable[SchedulableTask],
    agents: Sequence[AgentConfig],
    *,
    strict_assignees: bool = True,
    provider_of: ProviderOf = declared_provider,
) -> list[TaskRequirementIssue]:
    """Return what makes tasks impossible for a team, before anything runs; empty when nothing does.

    A task that is assigned must suit its assignee, another one at least one agent. Tasks that have ended are left out.

    Args:
        tasks: The tasks.
        agents: The team, each agent with the defaults that it will run with.
        strict_assignees: Whether an assignee that is no agent of the team is an issue; else it counts as none.
        provider_of: Tells which provider an agent uses for a task; what the agent declares unless given.

    Raises:
        ConfigurationError: The agents are none, or two have the same name.
    """
    offers = {agent.name: Offer(agent) for agent in checked_roster(agents)}
    issues = (
        _issue(task, offers, strict=strict_assignees, provider_of=provider_of)
        for task in tasks
        if task.status not in TERMINAL_STATUSES
    )
    return [issue for issue in issues if issue is not None]


def _issue(
    task: SchedulableTask, offers: Mapping[str, Offer], *, strict: bool, provider_of: ProviderOf
) -> TaskRequirementIssue | None:
    assignee = task.assignee
    if assignee is not None and assignee not in offers:
        if strict:
            known = ", ".join(map(repr, offers)) or "there are none"
            reason = f"{assignee!r} is no agent of the team; its agents: {known}"
            return TaskRequirementIssue("INVALID_ASSIGNEE", task.id, task.title, assignee=assignee, reasons=(reason,))
        assignee = None
    needs = required(task)
    if needs is None:
        return None
    if assignee is not None:
        reason_against = exclusion(needs, offers[assignee], task, provider_of)
        if reason_against is None:
            return None
        return TaskRequirementIssue(
            "ASSIGNEE_REQUIREMENTS_MISMATCH", task.id, task.title, assignee=assignee, reasons=(reason_against,)
        )
    reasons = []
    for offer in offers.values():
        reason_against = exclusion(needs, offer, task, provider_of)
        if reason_against is None:
            return None
        reasons.append(reason_against)
    return no_eligible_agent(task, reasons)


def _missing(wanted: Collection[str], offered: Collection[str]) -> str:
    return ", ".join(repr(item) for item in dict.fromkeys(wanted) if item not in offered)

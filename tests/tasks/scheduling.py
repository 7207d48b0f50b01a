"""Tasks and agents for the tests of scheduling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from openmultiagent import AgentConfig
from openmultiagent.tasks import TaskRequirements


@dataclass
class Job:
    """What the scheduler needs to know of a task."""

    id: str
    title: str = "Do it"
    text: str = ""
    _: KW_ONLY
    depends_on: Sequence[str] = ()
    status: str = "pending"
    assignee: str | None = None
    priority: str | None = None
    requires: TaskRequirements | None = None
    role: str | None = None


def jobs(*ids: str) -> list[Job]:
    """Return tasks that differ in their ids only."""
    return [Job(item) for item in ids]


def agent(name: str, system_prompt: str | None = None, **fields: Any) -> AgentConfig:
    """Return an agent that would work."""
    return AgentConfig(name, **{"model": "m", "system_prompt": system_prompt, **fields})


def agents(*names: str) -> list[AgentConfig]:
    """Return agents that differ in their names only."""
    return [agent(name) for name in names]

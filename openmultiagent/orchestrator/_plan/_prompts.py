"""What a coordinator is told: who is in the team, and how a plan has to be written.

Not here: what a worker is told, and the prompt for the final answer. Invariant: of an agent a coordinator learns what
it is for and may do; never its key, its credentials, or more of its prompt than one line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ...agent import AgentConfig
from ...messages import LLMMessage
from ...redaction import redact_sensitive_text
from ...tasks import TaskInput
from ._coordinator import CoordinatorConfig

__all__ = ["coordinator_prompt", "decomposition_prompt", "goal_input", "roster_manifest", "team_context"]

_MAX_SUMMARY: Final = 140
_MAX_MODEL: Final = 120
_MAX_CAPABILITIES: Final = 20
_MAX_TOOLS: Final = 24

_PREAMBLE: Final = """\
You are the coordinator of a team of agents. You turn a goal into tasks, give each task to the agent that fits it \
best, and later write the answer from what the agents found. You do none of the tasks yourself."""

_FORMAT: Final = """\
## Output Format

A plan is one JSON object, {{"tasks": [...]}}, whose "tasks" is a JSON array of 1 to {max_tasks} objects. The fields \
of a task are:
- "title" (required): short, and no two tasks have the same
- "description" (required): everything that the agent needs to know; it sees neither the goal nor the plan
- "assignee": the exact name of an agent of the roster; leave it out to leave the choice open
- "depends_on": array of the titles of the tasks whose results this one needs
- "requires": what the agent must have, with any of "required_tools", "required_capabilities", "required_backend" \
("llm", "process" or "acp") and "required_provider"; name capabilities rather than tools or providers, and only what \
the task cannot do without
- "priority": "low", "normal", "high" or "critical"
- "role": what the task is in the work as a whole, such as "reviewer"
- "memory_scope": "dependencies" (the default) or "all", to show it the team's shared memory
- "max_retries", "retry_delay" (in seconds), "retry_backoff": how often a failed task is tried again, and when
There are no other fields. Write no other text and no code fences."""

_DEPENDENCIES: Final = """\
## Dependency Guidance

Give a task as few dependencies as it can do with: only those tasks whose results it uses. Tasks without a path \
between them are done at the same time. A dependency on a task that another dependency depends on already adds \
nothing, unless its result is used, too. No task may depend on itself, directly or through others."""

_SYNTHESIS: Final = """\
## When synthesising results

When you are given the results of the tasks, answer the goal from them, for the person who set it. Do not describe the \
plan or the agents. Say what is missing where tasks failed or were skipped, and make nothing up in its place."""


def coordinator_prompt(
    config: CoordinatorConfig, agents: Sequence[AgentConfig], *, default_model: str | None = None
) -> str:
    """Return the system prompt of a coordinator.

    Args:
        config: Its definition.
        agents: The roster.
        default_model: The model of agents that name none.
    """
    roster = json.dumps(roster_manifest(agents, default_model=default_model), indent=2, ensure_ascii=False)
    parts = [
        _PREAMBLE if config.system_prompt is None else config.system_prompt,
        f"## Team Roster\n\n{roster}",
        _FORMAT.format(max_tasks=config.max_tasks),
        _DEPENDENCIES,
        _SYNTHESIS,
    ]
    if config.instructions and config.system_prompt is None:
        parts.append(f"## Additional Instructions\n\n{config.instructions}")
    return "\n\n".join(parts)


def roster_manifest(agents: Sequence[AgentConfig], *, default_model: str | None = None) -> list[dict[str, Any]]:
    """Return what a coordinator learns of each agent, as JSON data; its size does not depend on their prompts.

    Args:
        agents: The roster.
        default_model: The model of agents that name none.
    """
    return [_entry(agent, default_model) for agent in agents]


def decomposition_prompt(agents: Sequence[AgentConfig], goal: str) -> str:
    """Return the request for a plan.

    Args:
        agents: The roster.
        goal: The text of the goal.
    """
    names = ", ".join(agent.name for agent in agents)
    return (
        f"Break this goal into tasks for the team: {names}.\n\n## Goal\n\n{goal}\n\n"
        'Answer with the plan only: {"tasks": [...]}, a JSON array of tasks in an object.'
    )


def goal_input(goal: str | TaskInput, prompt: str) -> str | list[LLMMessage]:
    """Return what a coordinator is run with: a prompt, with the messages or media of the goal if any.

    Args:
        goal: The goal, as ``read_task_input`` returned it.
        prompt: What stands for its text.
    """
    return prompt if isinstance(goal, str) else goal.with_prompt(prompt)


def team_context(agents: Sequence[AgentConfig], agent: AgentConfig, goal: str) -> str:
    """Return what a worker is told of the team where the coordinator is revealed.

    Args:
        agents: The roster.
        agent: The worker.
        goal: The text of the goal.
    """
    lines = [
        "## Team context",
        f"Goal: {goal}",
        f"Team: {', '.join(member.name for member in agents)}",
        f"Your role in this team: {_summary(agent) or agent.name}",
        "Assignment: the task below; others do the rest.",
    ]
    return "\n".join(lines)


def _entry(agent: AgentConfig, default_model: str | None) -> dict[str, Any]:
    capabilities = [item for item in agent.capabilities if item.strip()]
    entry = {
        "name": agent.name,
        "model": (agent.model or default_model or "unspecified")[:_MAX_MODEL],
        "role_summary": _summary(agent),
        "capabilities": capabilities[:_MAX_CAPABILITIES],
        "tools": [tool.name for tool in agent.grants.tools[:_MAX_TOOLS]],
        "cost_tier": agent.cost_tier,
    }
    return {key: value for key, value in entry.items() if value}


def _summary(agent: AgentConfig) -> str:
    text = (agent.description or "").strip() or (agent.system_prompt or "").strip()
    first = text.partition("\n")[0].strip() if not (agent.description or "").strip() else " ".join(text[:1_000].split())
    return redact_sensitive_text(first[:1_000])[:_MAX_SUMMARY]

"""What a run of tasks came to.

Results are frozen values. What they hold (messages, the inputs of tool calls) is the holder's own: whoever is handed a
result is handed a copy of it (``copy_team_result``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from typing import Any

from .._record import record
from ..errors import ConfigurationError
from ..identity import MetadataValue, RunIdentity, copy_metadata
from ..outcome import (
    AgentRunResult,
    ErrorInfo,
    RunStatus,
    can_pickle,
    check_result,
    copy_result,
    describe_error,
    identity_dict,
    plain_data,
    read_identity,
    read_status,
    read_usage_entry,
)
from ..usage import TokenUsage, UsageEntry
from ._input import TaskInput, read_task_input
from ._plan import PlanArtifact
from ._records import RunMetrics, TaskExecutionRecord

__all__ = ["TeamRunResult", "copy_team_result"]


@record(kw_only=True)
class TeamRunResult:
    """What a run of a team or of a graph of tasks came to."""

    success: bool
    """True exactly when the status is ``ok``."""
    status: RunStatus
    final_output: str = ""
    """The answer to the goal. Without one, how far the tasks got: what the completed ones came to that no completed one
    built on, in their order (nothing, if none was completed). Of a single agent, its output. Of a run that failed
    before it had tasks, the text of the failure."""
    goal: str | TaskInput | None = None
    """What a team was run for; None for a graph of tasks."""
    tasks: tuple[TaskExecutionRecord, ...] = ()
    """All tasks, in the order in which they were given."""
    task_results: dict[str, AgentRunResult[Any]] = field(default_factory=dict)
    """What each task that was run came to, by its id."""
    agent_results: dict[str, AgentRunResult[Any]] = field(default_factory=dict)
    """What each agent's tasks came to together, by its name; with a coordinator, under ``coordinator`` what it was last
    asked for, with the usage of all that it was asked for."""
    decomposition: AgentRunResult[Any] | None = None
    """The coordinator's run that made the plan."""
    synthesis: AgentRunResult[Any] | None = None
    """The coordinator's run that answered the goal."""
    total_token_usage: TokenUsage = field(default_factory=TokenUsage)
    """All model calls of the run together."""
    usage_report: tuple[UsageEntry, ...] = ()
    """``total_token_usage`` by agent, model, provider and phase, in the order of their first calls."""
    plan: PlanArtifact | None = None
    """The tasks as they can be run again."""
    plan_only: bool = False
    """Whether the plan was all that was asked for."""
    routing_decision: Any = None
    """Why one agent was run, or a team; plain data in a result that was read back."""
    metrics: RunMetrics | None = None
    """Figures of the tasks; None without tasks."""
    identity: RunIdentity
    error_info: ErrorInfo | None = None
    error: BaseException | None = None
    """The original exception."""
    metadata: dict[str, MetadataValue] | None = None
    """The metadata that the caller gave."""
    flags: tuple[str, ...] = ()
    """As in the result of an agent, and ``no-synthesis``: the coordinator was asked for an answer, and gave none."""

    @property
    def output(self) -> str:
        """``final_output``, under the name that it has in the result of an agent."""
        return self.final_output

    @property
    def token_usage(self) -> TokenUsage:
        """``total_token_usage``, under the name that it has in the result of an agent."""
        return self.total_token_usage

    def usage_by_phase(self) -> dict[str, TokenUsage]:
        """Return ``total_token_usage`` by what the calls were for: ``coordinator``, ``worker``, ..."""
        return _added((entry.phase, entry.usage) for entry in self.usage_report)

    def usage_by_agent(self) -> dict[str, TokenUsage]:
        """Return ``total_token_usage`` by the agents that made the calls."""
        return _added((entry.agent, entry.usage) for entry in self.usage_report)

    def replace(self, **changes: Any) -> TeamRunResult:
        """Return the result with some fields changed.

        Args:
            changes: Field values by name.
        """
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON data; ``error`` is represented by ``error_info``."""
        decision = getattr(self.routing_decision, "to_dict", None)
        return {
            "success": self.success,
            "status": {"code": self.status.code, "message": self.status.message},
            "final_output": self.final_output,
            "goal": self.goal.to_list() if isinstance(self.goal, TaskInput) else self.goal,
            "tasks": [task.to_dict() for task in self.tasks],
            "task_results": {key: result.to_dict() for key, result in self.task_results.items()},
            "agent_results": {key: result.to_dict() for key, result in self.agent_results.items()},
            "decomposition": None if self.decomposition is None else self.decomposition.to_dict(),
            "synthesis": None if self.synthesis is None else self.synthesis.to_dict(),
            "total_token_usage": self.total_token_usage.to_dict(),
            "usage_report": [entry.to_dict() for entry in self.usage_report],
            "plan": None if self.plan is None else self.plan.to_dict(),
            "plan_only": self.plan_only,
            "routing_decision": plain_data(self.routing_decision if decision is None else decision()),
            "metrics": None if self.metrics is None else self.metrics.to_dict(),
            "identity": identity_dict(self.identity),
            "error_info": None if self.error_info is None else self.error_info.to_dict(),
            "metadata": copy_metadata(self.metadata),
            "flags": list(self.flags),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TeamRunResult:
        """Return the result that ``to_dict`` described, without ``error``; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON. Structured values stay plain data.

        Raises:
            ConfigurationError: It describes no result.
        """
        try:
            result = cls(**_read(record))
        except ConfigurationError:
            raise
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the record of a result cannot be read: {describe_error(error)}") from None
        check_result(result, "the record")
        return result

    def to_json(self) -> str:
        """Return the result as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> TeamRunResult:
        """Return the result that ``to_json`` wrote.

        Args:
            text: JSON.

        Raises:
            ConfigurationError: It is no result.
        """
        try:
            record = json.loads(text)
        except (RecursionError, TypeError, ValueError) as error:
            raise ConfigurationError(f"a result must be JSON: {error}") from None
        return cls.from_dict(record)

    def __copy__(self) -> TeamRunResult:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> TeamRunResult:
        return copy_team_result(self)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {item.name: getattr(self, item.name) for item in fields(self)}
        if not can_pickle(state["error"]):
            state["error"] = None  # error_info still says what happened
        return _remade, (state,)


def _remade(state: dict[str, Any]) -> TeamRunResult:
    return TeamRunResult(**state)


def _added(usages: Iterable[tuple[str, TokenUsage]]) -> dict[str, TokenUsage]:
    added: dict[str, TokenUsage] = {}
    for key, usage in usages:
        added[key] = added.get(key, TokenUsage()) + usage
    return added


def _read(record: Mapping[str, Any]) -> dict[str, Any]:
    goal, plan, metrics, info = (record.get(key) for key in ("goal", "plan", "metrics", "error_info"))
    return {
        "success": record["success"],
        "status": read_status(record["status"]),
        "final_output": record["final_output"],
        "goal": None if goal is None else read_task_input(goal, "goal"),
        "tasks": tuple(TaskExecutionRecord.from_dict(task) for task in record["tasks"]),
        "task_results": {key: AgentRunResult.from_dict(item) for key, item in record["task_results"].items()},
        "agent_results": {key: AgentRunResult.from_dict(item) for key, item in record["agent_results"].items()},
        "decomposition": _read_run(record.get("decomposition")),
        "synthesis": _read_run(record.get("synthesis")),
        "total_token_usage": TokenUsage.from_dict(record["total_token_usage"]),
        "usage_report": tuple(read_usage_entry(entry) for entry in record["usage_report"]),
        "plan": None if plan is None else PlanArtifact.from_dict(plan),
        "plan_only": bool(record["plan_only"]),
        "routing_decision": plain_data(record.get("routing_decision")),
        "metrics": None if metrics is None else RunMetrics(**metrics),
        "identity": read_identity(record["identity"]),
        "error_info": None if info is None else ErrorInfo(**info),
        "metadata": copy_metadata(record.get("metadata")),
        "flags": tuple(record.get("flags", ())),
    }


def _read_run(record: Mapping[str, Any] | None) -> AgentRunResult[Any] | None:
    return None if record is None else AgentRunResult.from_dict(record)


def copy_team_result(result: TeamRunResult) -> TeamRunResult:
    """Return a result that shares nothing mutable with the given one, apart from exceptions.

    Args:
        result: The result to copy.
    """
    return replace(
        result,
        tasks=tuple(task.copy() for task in result.tasks),
        task_results={key: copy_result(item) for key, item in result.task_results.items()},
        agent_results={key: copy_result(item) for key, item in result.agent_results.items()},
        decomposition=None if result.decomposition is None else copy_result(result.decomposition),
        synthesis=None if result.synthesis is None else copy_result(result.synthesis),
        routing_decision=copy.deepcopy(result.routing_decision),
        metadata=copy_metadata(result.metadata),
    )

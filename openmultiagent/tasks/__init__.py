"""Tasks: what is asked for, the graph they make up, who does them when, what became of them, and the run's result."""

from ._board import QueueProgress, TaskBoard
from ._condition import TaskCondition
from ._events import (
    RunFailed,
    RunFailure,
    RunWarning,
    TaskCompleted,
    TaskEvent,
    TaskFailed,
    TaskRetried,
    TaskSkipped,
    TaskStarted,
    copy_failure,
)
from ._fields import TaskMetadataValue
from ._graph import (
    GraphNode,
    critical_path,
    dependency_order,
    is_task_ready,
    plan_graph,
    transitive_dependent_counts,
    validate_task_dependencies,
)
from ._input import GivenTaskInput, TaskInput, read_task_input, task_input_text
from ._keywords import extract_keywords, keyword_score
from ._model_routing import (
    ModelRoute,
    ModelRoutingMatch,
    ModelRoutingPolicy,
    ModelRoutingRule,
    RoutablePhase,
    RoutableTask,
    route_for,
    routed_provider,
    with_route,
)
from ._outcomes import cancelled_result, derive_run_status, failed_result, merge_agent_results, merge_usage_reports
from ._patches import PlanPatch, PlanPatchTaskSpec, PlanRetarget, PlanTrigger
from ._payloads import (
    MAX_PAYLOAD_BYTES,
    DependencyResult,
    canonical_json,
    dependency_context,
    worker_input,
    worker_prompt,
)
from ._plan import PlanArtifact
from ._queue import TaskQueue
from ._records import RunMetrics, TaskExecutionMetrics, TaskExecutionRecord, run_metrics
from ._requirements import (
    ProviderOf,
    SchedulableTask,
    Subject,
    TaskRequirementIssue,
    TaskRequirementIssueCode,
    declared_provider,
    validate_task_requirements,
)
from ._results import TeamRunResult, copy_team_result
from ._retry import RetryPolicy, TaskRetry, compute_retry_delay, execute_with_retry, is_retryable_result
from ._revisions import PlanRevision
from ._scheduler import (
    AssignableQueue,
    ReadyOrder,
    Scheduler,
    SchedulingStrategy,
    SchedulingWeights,
    running_tasks,
)
from ._selector import AgentSelection, AgentSelector
from ._spec import DependencyPayload, MemoryScope, RequiredBackend, TaskPriority, TaskRequirements, TaskSpec
from ._states import QueueEvent
from ._task import OPEN_STATUSES, TERMINAL_STATUSES, Task, TaskStatus, create_task, new_task_id

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "OPEN_STATUSES",
    "TERMINAL_STATUSES",
    "AgentSelection",
    "AgentSelector",
    "AssignableQueue",
    "DependencyPayload",
    "DependencyResult",
    "GivenTaskInput",
    "GraphNode",
    "MemoryScope",
    "ModelRoute",
    "ModelRoutingMatch",
    "ModelRoutingPolicy",
    "ModelRoutingRule",
    "PlanArtifact",
    "PlanPatch",
    "PlanPatchTaskSpec",
    "PlanRetarget",
    "PlanRevision",
    "PlanTrigger",
    "ProviderOf",
    "QueueEvent",
    "QueueProgress",
    "ReadyOrder",
    "RequiredBackend",
    "RetryPolicy",
    "RoutablePhase",
    "RoutableTask",
    "RunFailed",
    "RunFailure",
    "RunMetrics",
    "RunWarning",
    "SchedulableTask",
    "Scheduler",
    "SchedulingStrategy",
    "SchedulingWeights",
    "Subject",
    "Task",
    "TaskBoard",
    "TaskCompleted",
    "TaskCondition",
    "TaskEvent",
    "TaskExecutionMetrics",
    "TaskExecutionRecord",
    "TaskFailed",
    "TaskInput",
    "TaskMetadataValue",
    "TaskPriority",
    "TaskQueue",
    "TaskRequirementIssue",
    "TaskRequirementIssueCode",
    "TaskRequirements",
    "TaskRetried",
    "TaskRetry",
    "TaskSkipped",
    "TaskSpec",
    "TaskStarted",
    "TaskStatus",
    "TeamRunResult",
    "cancelled_result",
    "canonical_json",
    "compute_retry_delay",
    "copy_failure",
    "copy_team_result",
    "create_task",
    "critical_path",
    "declared_provider",
    "dependency_context",
    "dependency_order",
    "derive_run_status",
    "execute_with_retry",
    "extract_keywords",
    "failed_result",
    "is_retryable_result",
    "is_task_ready",
    "keyword_score",
    "merge_agent_results",
    "merge_usage_reports",
    "new_task_id",
    "plan_graph",
    "read_task_input",
    "route_for",
    "routed_provider",
    "run_metrics",
    "running_tasks",
    "task_input_text",
    "transitive_dependent_counts",
    "validate_task_dependencies",
    "validate_task_requirements",
    "with_route",
    "worker_input",
    "worker_prompt",
]

"""Tasks: what is asked for, the graph they make up, what has become of them, and what a run of them came to."""

from ._board import QueueProgress, TaskBoard
from ._events import (
    ApprovalRequested,
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
    read_specs,
    transitive_dependent_counts,
    validate_task_dependencies,
)
from ._input import GivenTaskInput, TaskInput, read_task_input, task_input_text
from ._outcomes import cancelled_result, derive_run_status, failed_result, merge_agent_results, merge_usage_reports
from ._payloads import (
    MAX_PAYLOAD_BYTES,
    DependencyResult,
    canonical_json,
    dependency_context,
    worker_input,
    worker_prompt,
)
from ._plan import PlanArtifact
from ._queue import QueueEvent, TaskQueue
from ._records import RunMetrics, TaskExecutionMetrics, TaskExecutionRecord, run_metrics
from ._results import TeamRunResult, copy_team_result
from ._retry import RetryPolicy, TaskRetry, compute_retry_delay, execute_with_retry, is_retryable_result
from ._spec import DependencyPayload, MemoryScope, RequiredBackend, TaskPriority, TaskRequirements, TaskSpec
from ._task import OPEN_STATUSES, TERMINAL_STATUSES, Task, TaskStatus, create_task, new_task_id

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "OPEN_STATUSES",
    "TERMINAL_STATUSES",
    "ApprovalRequested",
    "DependencyPayload",
    "DependencyResult",
    "GivenTaskInput",
    "GraphNode",
    "MemoryScope",
    "PlanArtifact",
    "QueueEvent",
    "QueueProgress",
    "RequiredBackend",
    "RetryPolicy",
    "RunFailed",
    "RunFailure",
    "RunMetrics",
    "RunWarning",
    "Task",
    "TaskBoard",
    "TaskCompleted",
    "TaskEvent",
    "TaskExecutionMetrics",
    "TaskExecutionRecord",
    "TaskFailed",
    "TaskInput",
    "TaskMetadataValue",
    "TaskPriority",
    "TaskQueue",
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
    "dependency_context",
    "dependency_order",
    "derive_run_status",
    "execute_with_retry",
    "failed_result",
    "is_retryable_result",
    "is_task_ready",
    "merge_agent_results",
    "merge_usage_reports",
    "new_task_id",
    "plan_graph",
    "read_specs",
    "read_task_input",
    "run_metrics",
    "task_input_text",
    "transitive_dependent_counts",
    "validate_task_dependencies",
    "worker_input",
    "worker_prompt",
]

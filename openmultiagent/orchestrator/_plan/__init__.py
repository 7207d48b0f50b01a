"""Plans: asking a coordinator for one, reading what it wrote, and having it answer the goal from the results."""

from ._coordinator import COORDINATOR, CoordinatorConfig, as_coordinator_config, coordinator_agent
from ._prompts import coordinator_prompt, decomposition_prompt, goal_input, roster_manifest, team_context
from ._reading import (
    DEFAULT_MAX_TASKS,
    CoordinatorPlan,
    PlannedTask,
    PlanRules,
    UnknownAssignee,
    as_plan_error,
    check_plan,
    plan_rules,
    plan_schema,
    read_plan,
)
from ._synthesis import MAX_SYNTHESIS_CHARS, MAX_TASK_CHARS, TaskOutcome, shorten, synthesis_prompt

__all__ = [
    "COORDINATOR",
    "DEFAULT_MAX_TASKS",
    "MAX_SYNTHESIS_CHARS",
    "MAX_TASK_CHARS",
    "CoordinatorConfig",
    "CoordinatorPlan",
    "PlanRules",
    "PlannedTask",
    "TaskOutcome",
    "UnknownAssignee",
    "as_coordinator_config",
    "as_plan_error",
    "check_plan",
    "coordinator_agent",
    "coordinator_prompt",
    "decomposition_prompt",
    "goal_input",
    "plan_rules",
    "plan_schema",
    "read_plan",
    "roster_manifest",
    "shorten",
    "synthesis_prompt",
    "team_context",
]

"""Stored plans: whole, and honest about what was changed."""

import json
from typing import Any

import pytest

from openmultiagent import ConfigurationError, InvalidTaskDependenciesError, LLMMessage, TextBlock
from openmultiagent.orchestrator import PlanArtifact
from openmultiagent.tasks import TaskCondition, TaskRequirements, TaskSpec, plan_graph
from tests.support import proves

TASKS = [
    TaskSpec("First", "do it", id="stable-first-id", assignee="a", max_retries=3, retry_delay=0.5, retry_backoff=2),
    TaskSpec(
        "Second",
        "do more",
        id="second",
        depends_on=["stable-first-id"],
        memory_scope="all",
        metadata={"n": [1, 2]},
        requires=TaskRequirements(required_tools=["grep"]),
        run_if=TaskCondition(contains="yes"),
    ),
]
PLAN = PlanArtifact(TASKS, goal="g")


@proves("PLN-30")
def test_a_plan_is_equal_to_what_its_json_is_read_as() -> None:
    read = PlanArtifact.from_json(PLAN.to_json())
    assert read == PLAN
    assert read.tasks == tuple(TASKS)
    assert read.to_dict() == PLAN.to_dict() == json.loads(PLAN.to_json())
    assert (read.is_edited, PLAN.is_edited) == (False, False)
    assert [task.id for task in read.to_tasks()] == ["stable-first-id", "second"]


@proves("PLN-30")
def test_a_goal_of_messages_is_stored_as_messages() -> None:
    plan = PlanArtifact(TASKS, goal=[LLMMessage.user("earlier"), LLMMessage.assistant("yes"), LLMMessage.user("now")])
    assert [message["role"] for message in plan.to_dict()["goal"]] == ["user", "assistant", "user"]
    assert PlanArtifact.from_json(plan.to_json()) == plan
    assert PlanArtifact(TASKS, goal=[TextBlock(text="g")]).fingerprint != PLAN.fingerprint


@proves("PLN-30")
def test_the_plan_of_a_run_has_its_ids_and_assignees() -> None:
    tasks = plan_graph([TaskSpec("A", "a"), TaskSpec("B", "b", depends_on=["a"])])
    plan = PlanArtifact.of_tasks([tasks[0].replace(assignee="writer"), tasks[1]], goal="g")
    assert [task.depends_on for task in plan.tasks] == [(), (tasks[0].id,)]
    assert plan.tasks[0].assignee == "writer"
    assert [task.id for task in plan.to_tasks()] == [task.id for task in tasks]


@proves("PLN-31")
def test_the_hash_is_of_the_content_alone() -> None:
    same = PlanArtifact([TaskSpec.of(dict(reversed(task.to_dict().items()))) for task in TASKS], goal="g")
    assert same.fingerprint == PLAN.fingerprint
    assert PLAN.fingerprint.startswith("sha256:")
    assert len(PLAN.fingerprint) == 71
    assert PlanArtifact(TASKS[::-1], goal="g").fingerprint != PLAN.fingerprint
    assert PlanArtifact(TASKS).fingerprint != PLAN.fingerprint


@proves("PLN-31")
@pytest.mark.parametrize(
    ("field", "value"),
    [("assignee", "b"), ("description", "do less"), ("title", "1st"), ("max_retries", 4), ("depends_on", ["second"])],
)
def test_an_edit_of_the_json_shows(field: str, value: Any) -> None:
    record = json.loads(PLAN.to_json())
    record["tasks"][0][field] = value
    edited = PlanArtifact.from_dict(record)
    assert edited.is_edited
    assert edited != PLAN
    assert edited.content_hash == PLAN.fingerprint
    assert PlanArtifact.from_json(edited.to_json()).is_edited


@proves("PLN-31")
def test_an_edit_in_memory_shows_and_can_be_undone_or_accepted() -> None:
    edited = PLAN.replace(tasks=TASKS[:1])
    assert edited.is_edited
    assert not PLAN.is_edited
    assert edited.replace(goal="other").content_hash == PLAN.fingerprint
    assert not edited.replace(tasks=TASKS).is_edited
    assert not edited.replace(content_hash=None).is_edited


@proves("PLN-31")
def test_a_plan_whose_json_has_no_hash_counts_as_edited() -> None:
    record = PLAN.to_dict()
    del record["content_hash"]
    plan = PlanArtifact.from_dict(record)
    assert plan == PLAN
    assert plan.is_edited
    assert PlanArtifact.from_dict(plan.to_dict()).is_edited


@proves("PLN-32")
@pytest.mark.parametrize("version", [0, 2, "1", None, True, [1] * 10_000])
def test_an_unknown_version_is_refused(version: Any) -> None:
    with pytest.raises(ConfigurationError, match="a plan must be a mapping with version 1, got") as caught:
        PlanArtifact.from_dict(PLAN.to_dict() | {"version": version})
    assert len(caught.value.message) < 200


@proves("PLN-32")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a plan must be JSON"),
        ("[" * 100_000, "a plan must be JSON"),
        ("[]", "a plan must be a mapping"),
        ('{"version": 1}', "a plan has version, goal and tasks, and a content_hash"),
        ('{"version": 1, "tasks": [], "note": 1}', "a plan has version, goal and tasks, and a content_hash"),
        ('{"version": 1, "tasks": 7}', "tasks must be a list"),
        ('{"version": 1, "tasks": [], "content_hash": 7}', "content_hash must be a string"),
        ('{"version": 1, "tasks": [{"title": "A", "description": "a"}]}', "has no id"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        PlanArtifact.from_json(text)


@proves("PLN-33")
def test_dependencies_of_a_stored_plan_are_ids_never_titles() -> None:
    with pytest.raises(InvalidTaskDependenciesError, match="depends on 'First', which is the id of no task"):
        PLAN.replace(tasks=[TASKS[0], TASKS[1].replace(depends_on=["First"])]).to_tasks()
    with pytest.raises(InvalidTaskDependenciesError, match="in a circle"):
        PLAN.replace(tasks=[TASKS[0].replace(depends_on=["second"]), TASKS[1]]).to_tasks()

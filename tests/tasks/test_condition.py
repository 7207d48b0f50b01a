"""Conditions of tasks."""

from __future__ import annotations

import json
import pickle
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from openmultiagent import AgentRunResult, ConfigurationError, RunIdentity, RunStatus, TaskCondition, TaskSpec
from openmultiagent.tasks import TaskQueue
from tests.support import proves


class Kind(Enum):
    BUG = "bug"


class Report(BaseModel):
    kind: Kind = Kind.BUG
    count: int = 1
    open: bool = True
    note: str | None = None


def result(output: str = "", structured: Any = None) -> AgentRunResult[Any]:
    return AgentRunResult(
        success=True,
        status=RunStatus("ok"),
        stop_reason="end_turn",
        output=output,
        structured=structured,
        identity=RunIdentity("run"),
    )


@proves("TSK-8")
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"contains": "urgent"}, True),
        ({"contains": "Urgent"}, False),
        ({"field": "kind", "equals": "bug"}, True),
        ({"field": "kind", "equals": "BUG"}, False),
        ({"field": "count", "equals": 1}, True),
        ({"field": "count", "equals": 1.0}, True),
        ({"field": "count", "equals": True}, False),
        ({"field": "open", "equals": True}, True),
        ({"field": "open", "equals": 1}, False),
        ({"field": "note"}, True),
        ({"field": "nothing"}, False),
    ],
)
@pytest.mark.parametrize("structured", [Report(), Report().model_dump(mode="json")])
def test_a_condition_is_about_the_results_before(condition: dict[str, Any], holds: bool, structured: Any) -> None:
    results = [result("nothing"), result("it is urgent", structured)]
    assert TaskCondition(**condition).holds(results) is holds
    assert TaskCondition(**condition, negate=True).holds(results) is not holds
    assert not TaskCondition(**condition).holds([])


@proves("TSK-8")
@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({}, "either contains"),
        ({"contains": "a", "field": "b"}, "either contains"),
        ({"contains": "a", "equals": "b"}, "equals belongs to field"),
        ({"contains": ""}, "contains"),
        ({"field": "a", "equals": [1]}, "equals"),
        ({"field": "a", "equals": float("nan")}, "equals"),
        ({"contain": "a"}, "contains"),
        ("urgent", "run_if must be a TaskCondition"),
    ],
)
def test_what_is_no_condition_is_refused(condition: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        TaskSpec.of({"title": "A", "description": "d", "depends_on": ["B"], "run_if": condition}, where="tasks[1]")
    assert "tasks[1].run_if" in str(caught.value)


@proves("TSK-8")
def test_a_value_that_cannot_be_written_has_no_fields() -> None:
    endless: dict[str, Any] = {"kind": "bug"}
    endless["self"] = endless
    assert not TaskCondition(field="kind", equals="bug").holds([result("x", endless)])


@proves("TSK-8")
def test_a_condition_needs_results() -> None:
    with pytest.raises(ConfigurationError, match=r"TaskSpec\.run_if is about the results of other tasks"):
        TaskSpec("A", "d", run_if=TaskCondition(contains="x"))


@proves("TSK-7", "TSK-31")
@pytest.mark.parametrize("condition", [{"contains": "x", "negate": True}, {"field": "f", "equals": None}])
def test_a_condition_survives_json(condition: dict[str, Any]) -> None:
    spec = TaskSpec("B", "d", id="b", depends_on=["a"], run_if=TaskCondition(**condition))
    assert spec.to_dict()["run_if"] == condition
    assert TaskSpec.of(json.loads(json.dumps(spec.to_dict()))) == spec == pickle.loads(pickle.dumps(spec))
    queue = TaskQueue()
    queue.add_batch([TaskSpec("A", "d", id="a"), spec])
    restored = TaskQueue.from_snapshot(json.loads(json.dumps(queue.snapshot())))
    assert restored["b"].spec.run_if == TaskCondition(**condition)

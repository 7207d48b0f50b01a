"""The graph that tasks make up."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import InvalidTaskDependenciesError
from openmultiagent.tasks import (
    Task,
    TaskSpec,
    create_task,
    critical_path,
    dependency_order,
    is_task_ready,
    plan_graph,
    transitive_dependent_counts,
    validate_task_dependencies,
)
from tests.support import proves


def graph(edges: dict[str, list[str]]) -> list[Task]:
    """Tasks without a check, whose titles are their ids in upper case."""
    return [create_task(TaskSpec(key.upper(), "d", id=key, depends_on=deps)) for key, deps in edges.items()]


def ids(tasks: list[Task]) -> list[str]:
    return [task.id for task in tasks]


@proves("TSK-10", "TSK-12")
def test_references_are_ids_or_titles() -> None:
    a, b, c, d = plan_graph(
        [
            TaskSpec("Fetch Data", "d"),
            TaskSpec("Clean", "d", id="clean", depends_on=["  fetch data "]),
            TaskSpec("Report", "d", depends_on=["clean", "Clean", "FETCH DATA"]),
            TaskSpec("Last", "d", id="other", depends_on=["known", "Earlier"]),
        ],
        known={"known": "x", "k2": "earlier"},
    )
    assert len(a.id) == 32
    assert a.depends_on == ()
    assert (b.id, b.depends_on) == ("clean", (a.id,))
    assert c.depends_on == ("clean", a.id)
    assert d.depends_on == ("known", "k2")
    assert [task.status for task in (a, b, c, d)] == ["pending"] * 4


@proves("TSK-12")
def test_specifications_can_be_planned_again() -> None:
    specs = [TaskSpec("A", "d"), TaskSpec("B", "d", depends_on=["A"])]
    first, second = plan_graph(specs), plan_graph(specs)
    assert [task.spec for task in first] == [task.spec for task in second] == specs
    assert not {task.id for task in first} & {task.id for task in second}
    assert second[1].depends_on == (second[0].id,)


@proves("TSK-10")
def test_an_id_is_preferred_to_a_title() -> None:
    tasks = plan_graph([TaskSpec("b", "d", id="a"), TaskSpec("x", "d", id="b"), TaskSpec("c", "d", depends_on=["b"])])
    assert tasks[2].depends_on == ("b",)


@proves("TSK-11")
def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidTaskDependenciesError) as caught:
        plan_graph(
            [
                TaskSpec("A", "d", depends_on=["nobody", "B"]),
                TaskSpec("B", "d"),
                TaskSpec("b ", "d"),
                TaskSpec("C", "d", id="c", depends_on=["c", "C"]),
                TaskSpec("D", "d", id="d", depends_on=["E"]),
                TaskSpec("E", "d", id="e", depends_on=["F"]),
                TaskSpec("F", "d", id="f", depends_on=["D"]),
                TaskSpec("G", "d", id="g", depends_on=["H"]),
                TaskSpec("H", "d", id="h", depends_on=["D", "G"]),
            ]
        )
    issues = caught.value.issues
    assert [(issue["code"], issue["task_title"], issue.get("reference")) for issue in issues] == [
        ("UNKNOWN_DEPENDENCY", "A", "nobody"),
        ("AMBIGUOUS_DEPENDENCY", "A", "B"),
        ("SELF_DEPENDENCY", "C", "c"),
        ("SELF_DEPENDENCY", "C", "C"),
        ("DEPENDENCY_CYCLE", "D", None),
        ("DEPENDENCY_CYCLE", "G", None),
    ]
    assert [issue["path"] for issue in issues[4:]] == [["d", "e", "f", "d"], ["g", "h", "g"]]
    text = str(caught.value)
    assert text.startswith("tasks[0] 'A' depends on 'nobody', which is the id or title of no task; ")
    assert "which 2 tasks have as title; refer to the id" in text
    assert text.endswith("in a circle: D -> E -> F -> D; tasks depend on each other in a circle: G -> H -> G")


@proves("TSK-11")
def test_ids_that_occur_twice_are_refused() -> None:
    with pytest.raises(
        InvalidTaskDependenciesError, match=r"tasks\[1\] has the id 'a', .*tasks\[2\] has the id 'k'"
    ) as caught:
        plan_graph(
            [TaskSpec("A", "d", id="a"), TaskSpec("B", "d", id="a"), TaskSpec("C", "d", id="k")], known={"k": "K"}
        )
    assert [issue["code"] for issue in caught.value.issues] == ["DUPLICATE_TASK_ID"] * 2


@proves("TSK-11")
def test_a_message_stays_short() -> None:
    with pytest.raises(InvalidTaskDependenciesError) as caught:
        plan_graph([TaskSpec(f"t{index}", "d", depends_on=["x"]) for index in range(1000)])
    assert len(caught.value.issues) == 1000
    assert str(caught.value).endswith("; and 980 more")
    ring = [TaskSpec("t", "d", id=f"t{index}", depends_on=[f"t{(index + 1) % 1000}"]) for index in range(1000)]
    with pytest.raises(InvalidTaskDependenciesError) as again:
        plan_graph(ring)
    assert len(again.value.issues[0]["path"]) == 1001
    assert len(str(again.value)) < 300


@proves("TSK-11")
@pytest.mark.parametrize(
    ("edges", "codes"),
    [
        ({"a": [], "b": ["a"]}, []),
        ({"a": ["a"]}, ["SELF_DEPENDENCY"]),
        ({"a": ["x"]}, ["UNKNOWN_DEPENDENCY"]),
        ({"a": ["b"], "b": ["a"]}, ["DEPENDENCY_CYCLE"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, ["DEPENDENCY_CYCLE"]),
        ({"a": ["B"], "b": []}, ["UNKNOWN_DEPENDENCY"]),
    ],
)
def test_the_dependencies_of_tasks_are_checked_by_id(edges: dict[str, list[str]], codes: list[str]) -> None:
    assert [problem["code"] for problem in validate_task_dependencies(graph(edges))] == codes


@proves("TSK-11")
def test_two_tasks_of_one_id_are_noticed() -> None:
    [problem] = validate_task_dependencies(graph({"a": []}) * 2)
    assert problem["code"] == "DUPLICATE_TASK_ID"


@proves("TSK-13")
@pytest.mark.parametrize(
    ("edges", "order"),
    [
        ({"b": ["a"], "a": []}, ["a", "b"]),
        ({"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}, ["a", "c", "b", "d"]),
        ({"a": ["b"], "b": ["a"], "c": ["b"], "d": ["x"]}, ["d"]),
        ({"a": [], "b": ["a", "a"]}, ["a", "b"]),
        ({}, []),
    ],
)
def test_dependency_order(edges: dict[str, list[str]], order: list[str]) -> None:
    assert ids(dependency_order(graph(edges))) == order


@proves("TSK-14")
def test_dependents_are_counted_once() -> None:
    counts = transitive_dependent_counts(graph({"a": [], "b": ["a"], "c": ["a", "x"], "d": ["b", "c"], "e": []}))
    assert counts == {"a": 3, "b": 1, "c": 1, "d": 0, "e": 0}


@proves("TSK-15")
def test_the_critical_path_takes_longest() -> None:
    tasks = graph({"a": [], "b": ["a"], "c": ["b"], "long": ["a"]})
    assert ids(critical_path(tasks)) == ["a", "b", "c"]
    assert ids(critical_path(tasks, durations={"long": 20.0, "b": 5.0, "c": 5.0})) == ["a", "long"]
    assert critical_path([]) == []
    assert ids(critical_path(graph({"a": ["a"], "b": []}))) == ["b"]


@proves("TSK-17")
def test_when_a_task_is_ready() -> None:
    a, b = graph({"a": [], "b": ["a"]})
    tasks = {"a": a, "b": b}
    assert is_task_ready(a, tasks)
    assert not is_task_ready(b, tasks)
    assert is_task_ready(b, tasks | {"a": a.replace(status="completed")})
    assert not is_task_ready(b, {"b": b})
    for status in ("blocked", "in_progress", "completed"):
        assert not is_task_ready(a.replace(status=status), tasks)


@proves("TSK-16")
def test_large_graphs_are_quick() -> None:
    """A bound far above what they need: a quadratic algorithm takes minutes, a recursive one fails."""
    chain = graph({f"t{index}": [f"t{index - 1}"] if index else [] for index in range(10_000)})
    began = time.process_time()
    assert validate_task_dependencies(chain) == []
    assert ids(dependency_order(chain[::-1])) == ids(chain)
    assert transitive_dependent_counts(chain)["t0"] == 9999
    assert critical_path(chain) == chain
    ring = [*chain[1:], chain[0].replace(depends_on=("t9999",))]
    [problem] = validate_task_dependencies(ring)
    assert len(problem["path"]) == 10_001
    layers = graph(
        {f"{row}-{n}": [f"{row - 1}-{m}" for m in range(20)] if row else [] for row in range(500) for n in range(20)}
    )
    assert transitive_dependent_counts(layers)["0-0"] == 499 * 20
    assert time.process_time() - began < 10


@st.composite
def edges(draw: st.DrawFn, *, acyclic: bool) -> dict[str, list[str]]:
    size = draw(st.integers(0, 12))
    names = [f"t{index}" for index in range(size)]
    made = {}
    for index, name in enumerate(names):
        others = names[:index] if acyclic else [each for each in names if each != name]
        made[name] = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    return dict(draw(st.permutations(list(made.items()))))


def reachable(edges: dict[str, list[str]], start: str) -> set[str]:
    """What a task depends on, directly or through others, by following the edges."""
    found: set[str] = set()
    pending = list(edges[start])
    while pending:
        each = pending.pop()
        if each not in found:
            found.add(each)
            pending += edges[each]
    return found


@proves("TSK-13", "TSK-14", "TSK-15")
@given(edges(acyclic=True))
def test_graphs_without_circles(made: dict[str, list[str]]) -> None:
    tasks = graph(made)
    assert validate_task_dependencies(tasks) == []
    order = ids(dependency_order(tasks))
    assert sorted(order) == sorted(made)
    assert all(order.index(each) < order.index(key) for key, deps in made.items() for each in deps)
    behind = {key: reachable(made, key) for key in made}
    assert transitive_dependent_counts(tasks) == {key: sum(key in found for found in behind.values()) for key in made}
    path = critical_path(tasks)
    assert all(before.id in after.depends_on for before, after in itertools.pairwise(path))

    def depth(key: str) -> int:
        return 1 + max(map(depth, made[key]), default=0)

    assert len(path) == max(map(depth, made), default=0)


@proves("TSK-11", "TSK-13")
@given(edges(acyclic=False))
def test_graphs_with_circles(made: dict[str, list[str]]) -> None:
    tasks = graph(made)
    in_circle = {key for key in made if key in reachable(made, key)}
    problems = validate_task_dependencies(tasks)
    for problem in problems:
        path = problem["path"]
        assert path[0] == path[-1]
        assert all(after in made[before] for before, after in itertools.pairwise(path))
    told = [set(problem["path"]) for problem in problems]
    groups = {
        frozenset(each for each in in_circle if each in reachable(made, key) and key in reachable(made, each))
        for key in in_circle
    }
    assert len(told) == len(groups)
    assert all(any(found <= group for found in told) for group in groups)
    expected = {key for key in made if key not in in_circle and not (reachable(made, key) & in_circle)}
    assert set(ids(dependency_order(tasks))) == expected


@proves("TSK-10", "TSK-12")
@given(edges(acyclic=True))
def test_titles_and_ids_mean_the_same(made: dict[str, list[str]]) -> None:
    by_title: list[Any] = [
        TaskSpec(key.upper(), "d", id=key, depends_on=[each.upper() for each in deps]) for key, deps in made.items()
    ]
    assert {task.id: list(task.depends_on) for task in plan_graph(by_title)} == made

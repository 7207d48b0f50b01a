"""In which order tasks come, and who gets them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import AgentConfig, ConfigurationError, InvalidTaskRequirementsError
from openmultiagent.tasks import (
    Scheduler,
    SchedulingStrategy,
    SchedulingWeights,
    TaskQueue,
    TaskRequirements,
    create_task,
    running_tasks,
)
from tests.support import proves
from tests.tasks.scheduling import Job, agent, agents, jobs

STRATEGIES: list[SchedulingStrategy] = [
    "round-robin",
    "least-busy",
    "capability-match",
    "dependency-first",
    "composite",
]


class TestWhatIsScheduled:
    @proves("SCH-10")
    def test_the_default_strategy_is_dependency_first(self) -> None:
        assert Scheduler().strategy == "dependency-first"

    @proves("SCH-10")
    @pytest.mark.parametrize("strategy", ["", "random", None, "Round-Robin"])
    def test_an_unknown_strategy_is_refused(self, strategy: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"round-robin, least-busy, capability-match, dependency-first"):
            Scheduler(strategy)

    @proves("SCH-11")
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_only_tasks_that_are_pending_and_not_assigned(self, strategy: SchedulingStrategy) -> None:
        tasks = [Job("own", assignee="x"), Job("free"), *(Job(s, status=s) for s in ("blocked", "failed", "skipped"))]
        assert set(Scheduler(strategy).schedule(tasks, agents("a", "b"))) == {"free"}
        assert Scheduler(strategy).schedule([], agents("a")) == {}
        assert Scheduler(strategy).schedule_task(tasks[0], agents("a", "b")) == "x"

    @proves("SCH-11")
    def test_a_queue_is_filled_and_its_assignees_stay_even_if_nobody_has_the_name(self) -> None:
        queue = TaskQueue()
        queue.add_batch([create_task({"title": "T", "description": "D", "id": name}) for name in ("1", "2", "3")])
        queue.update("2", assignee="x")
        assert Scheduler("round-robin").auto_assign(queue, agents("a", "b")) == {"1": "a", "3": "b"}
        assert [task.assignee for task in queue.list()] == ["a", "x", "b"]
        assert {task.status for task in queue.list()} == {"pending"}

    @proves("SCH-5", "SCH-11")
    def test_a_queue_with_an_impossible_task_is_left_as_it_was(self) -> None:
        queue = TaskQueue()
        queue.add({"title": "1", "description": "D"})
        queue.add({"title": "2", "description": "D", "requires": {"required_tools": ["edit"]}})
        with pytest.raises(InvalidTaskRequirementsError):
            Scheduler().auto_assign(queue, agents("a"))
        assert [task.assignee for task in queue.list()] == [None, None]

    @proves("SCH-12", "SCH-13", "SCH-14", "SCH-15")
    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            ("round-robin", {"implement": "researcher", "research": "coder", "summarize": "researcher"}),
            ("least-busy", {"implement": "researcher", "research": "coder", "summarize": "researcher"}),
            ("capability-match", {"implement": "coder", "research": "researcher", "summarize": "researcher"}),
            ("dependency-first", {"implement": "coder", "research": "researcher", "summarize": "researcher"}),
        ],
    )
    def test_one_after_the_other_as_they_become_ready(
        self, strategy: SchedulingStrategy, expected: dict[str, str]
    ) -> None:
        team = [
            agent("researcher", "You research topics and summarize the findings of others."),
            agent("coder", "You implement features in Python code."),
        ]
        tasks = [
            Job("implement", "Implement the parser", "Write the Python code"),
            Job("research", "Research the formats", "Find out about the topics"),
            Job("summarize", "Summarize the findings", "Say what was found", depends_on=["research"], status="blocked"),
        ]
        assert run_to_the_end(Scheduler(strategy), tasks, team) == expected

    @proves("SCH-15")
    def test_what_others_wait_for_gets_the_first_agent(self) -> None:
        tasks = [Job("independent"), Job("root"), Job("dependent", depends_on=["root"], status="blocked")]
        found = run_to_the_end(Scheduler(), tasks, agents("a", "b"))
        assert found == {"root": "a", "independent": "b", "dependent": "a"}


def run_to_the_end(scheduler: Scheduler, tasks: list[Job], team: Sequence[AgentConfig]) -> dict[str, str]:
    """Run tasks in rounds, as if all that are ready started together and ended together."""
    found: dict[str, str] = {}
    while ready := [task for task in tasks if task.status == "pending"]:
        for task in scheduler.order_ready_tasks(ready, tasks):
            name = scheduler.schedule_task(task, team, loads=running_tasks(tasks))
            assert name is not None
            task.assignee = found[task.id] = name
            task.status = "in_progress"
        for task in ready:
            task.status = "completed"
        done = {task.id for task in tasks if task.status == "completed"}
        for task in tasks:
            if task.status == "blocked" and done.issuperset(task.depends_on):
                task.status = "pending"
    return found


class TestRoundRobin:
    @proves("SCH-12")
    def test_agents_in_turn_also_over_several_calls(self) -> None:
        scheduler = Scheduler("round-robin")
        team = agents("a", "b", "c")
        assert list(scheduler.schedule(jobs("1", "2", "3", "4"), team).values()) == ["a", "b", "c", "a"]
        assert list(scheduler.schedule(jobs("5", "6"), team).values()) == ["b", "c"]
        assert scheduler.schedule_task(Job("7"), team) == "a"
        assert scheduler.schedule_task(Job("8"), team) == "b"
        assert scheduler.schedule(jobs("9"), team) == {"9": "c"}

    @proves("SCH-12")
    def test_the_turn_is_among_those_that_can(self) -> None:
        scheduler = Scheduler("round-robin")
        team = [agent("a"), agent("b", capabilities=["law"]), agent("c", capabilities=["law"])]
        tasks = [Job(str(number), requires=TaskRequirements(required_capabilities=["law"])) for number in range(3)]
        assert list(scheduler.schedule(tasks, team).values()) == ["b", "c", "b"]

    @proves("SCH-12")
    def test_a_team_may_get_smaller(self) -> None:
        scheduler = Scheduler("round-robin")
        scheduler.schedule(jobs("1", "2"), agents("a", "b", "c"))
        assert scheduler.schedule(jobs("3", "4"), agents("a", "b")) == {"3": "a", "4": "b"}


class TestLeastBusy:
    @proves("SCH-13")
    def test_who_works_on_fewer_tasks_gets_the_next_one(self) -> None:
        tasks = [Job("0", status="in_progress", assignee="a"), Job("1")]
        assert Scheduler("least-busy").schedule(tasks, agents("a", "b")) == {"1": "b"}
        assert Scheduler("least-busy").schedule_task(Job("1"), agents("a", "b"), loads={"a": 1}) == "b"

    @proves("SCH-13")
    def test_what_the_call_assigns_counts_and_ties_follow_the_team(self) -> None:
        found = Scheduler("least-busy").schedule(jobs("1", "2", "3", "4"), agents("z", "a"))
        assert list(found.values()) == ["z", "a", "z", "a"]

    @proves("SCH-13")
    def test_only_running_tasks_count(self) -> None:
        tasks = [
            Job("1", status="completed", assignee="a"),
            Job("2", assignee="a"),
            Job("3", status="in_progress"),
            Job("4", status="in_progress", assignee="b"),
        ]
        assert running_tasks(tasks) == {"b": 1}


class TestCapabilityMatch:
    TEAM = (agent("alpha", "Paint pictures"), agent("beta", "Compose music"))

    @proves("SCH-14")
    def test_who_suits_best(self) -> None:
        tasks = [Job("1", "Compose a song"), Job("2", "Paint the wall"), Job("3", "Music")]
        assert list(Scheduler("capability-match").schedule(tasks, self.TEAM).values()) == ["beta", "alpha", "beta"]

    @proves("SCH-14")
    def test_in_turn_where_nobody_does_also_in_the_next_call(self) -> None:
        scheduler = Scheduler("capability-match")
        tasks = [Job(name, name) for name in ("xxxx", "yyyy", "zzzz")]
        assert list(scheduler.schedule(tasks, self.TEAM).values()) == ["alpha", "beta", "alpha"]
        assert scheduler.schedule([Job("w", "wwww")], self.TEAM) == {"w": "beta"}

    @proves("SCH-14")
    def test_ties_follow_the_team(self) -> None:
        team = [agent("zoe", "Compose"), agent("adam", "Compose")]
        assert Scheduler("capability-match").schedule([Job("1", "Compose")], team) == {"1": "zoe"}

    @proves("SCH-23")
    def test_the_words_of_agents_are_found_out_once(self) -> None:
        scheduler = Scheduler("capability-match")
        scheduler.schedule_task(Job("1", "Compose"), self.TEAM)
        found = [vars(item)["keywords"] for item in scheduler._candidates.of(self.TEAM)]
        for number in range(20):
            scheduler.schedule_task(Job(str(number), f"Task {number}"), list(self.TEAM))
        scheduler.schedule(jobs("a", "b"), self.TEAM)
        again = scheduler._candidates.of(self.TEAM)
        assert all(vars(item)["keywords"] is words for item, words in zip(again, found, strict=True))

    @proves("SCH-23")
    @pytest.mark.parametrize(
        ("strategy", "looked_at"),
        [(name, name in {"capability-match", "composite"}) for name in STRATEGIES],
    )
    def test_strategies_that_need_no_words_look_at_none(self, strategy: SchedulingStrategy, looked_at: bool) -> None:
        scheduler = Scheduler(strategy)
        scheduler.schedule(jobs("1", "2"), self.TEAM)
        assert [bool(vars(item)) for item in scheduler._candidates.of(self.TEAM)] == [looked_at] * 2


class TestComposite:
    CODER = agent("coder", "Write Python code")
    POET = agent("poet", "Write poems")

    @proves("SCH-16")
    def test_the_most_critical_task_comes_first_and_goes_to_who_suits_best(self) -> None:
        tasks = [Job("later", "Poems"), Job("root", "Python code"), Job("leaf", "Poems", depends_on=["root"])]
        assert list(Scheduler("composite").schedule(tasks, [self.POET, self.CODER]).items()) == [
            ("root", "coder"),
            ("later", "poet"),
            ("leaf", "poet"),
        ]

    @proves("SCH-16")
    def test_of_two_that_suit_equally_the_one_with_less_to_do(self) -> None:
        team = [agent("a", "Python"), agent("b", "Python")]
        tasks = [Job("0", status="in_progress", assignee="a"), Job("1", "Python")]
        assert Scheduler("composite").schedule(tasks, team) == {"1": "b"}
        assert Scheduler("composite").schedule_task(Job("1", "Python"), team[::-1]) == "a"

    @proves("SCH-16")
    @pytest.mark.parametrize(("fit", "load", "name"), [(1, 0, "coder"), (0, 1, "idle"), (0.7, 0.3, "coder")])
    def test_weights_decide(self, fit: float, load: float, name: str) -> None:
        team = [agent("jdle"), self.CODER, agent("idle")]
        scheduler = Scheduler("composite", weights={"fit": fit, "load": load})
        assert scheduler.schedule_task(Job("1", "Python code"), team, loads={"coder": 2, "jdle": 0}) == name

    @proves("SCH-16")
    def test_a_long_text_in_common_does_not_outweigh_everything(self) -> None:
        words = "review contracts clauses liability insurance renewal penalties"
        busy = agent("busy", capabilities=[words])
        idle = agent("idle", capabilities=[words.removesuffix(" penalties")])
        scheduler = Scheduler("composite")
        assert scheduler.schedule_task(Job("1", words), [busy, idle], loads={"busy": 3}) == "idle"
        assert scheduler.schedule_task(Job("1", words), [busy, idle]) == "busy"

    @proves("SCH-16")
    def test_loads_are_those_at_the_time_of_the_call(self) -> None:
        tasks = [Job("0", status="in_progress", assignee="coder"), Job("1"), Job("2")]
        found = Scheduler("composite", weights=SchedulingWeights(0, 1)).schedule(tasks, [self.CODER, self.POET])
        assert found == {"1": "poet", "2": "poet"}

    @proves("SCH-17")
    def test_the_default_weights(self) -> None:
        assert Scheduler().weights == SchedulingWeights(0.7, 0.3)
        assert Scheduler(weights={"load": 1}).weights == SchedulingWeights(fit=0.7, load=1)

    @proves("SCH-17")
    @pytest.mark.parametrize(
        ("weights", "text"),
        [
            ({"fit": -1}, "fit"),
            ({"load": float("nan")}, "load"),
            ({"fit": float("inf")}, "fit"),
            ({"fit": 0, "load": 0}, "one must count"),
            ({"fits": 1}, "did you mean 'fit'"),
            ((0.7, 0.3), "SchedulingWeights or a mapping"),
        ],
    )
    def test_senseless_weights_are_refused(self, weights: Any, text: str) -> None:
        with pytest.raises(ConfigurationError, match=text):
            Scheduler("composite", weights=weights)


class TestOrder:
    @proves("SCH-18")
    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            (name, ["critical", "later"] if name in {"dependency-first", "composite"} else ["later", "critical"])
            for name in STRATEGIES
        ],
    )
    def test_what_most_tasks_wait_for_comes_first_where_the_strategy_looks_at_it(
        self, strategy: SchedulingStrategy, expected: list[str]
    ) -> None:
        later, critical = Job("later"), Job("critical")
        chain = [Job("x", depends_on=["critical"]), Job("y", depends_on=["x"])]
        for waiting in chain:
            waiting.status = "blocked"
        tasks = [later, critical, *chain]
        assert [task.id for task in Scheduler(strategy).order_ready_tasks(tasks, tasks)] == expected

    @proves("SCH-19")
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_priority_comes_before_everything_else(self, strategy: SchedulingStrategy) -> None:
        tasks = [
            Job("low", priority="low"),
            Job("none"),
            Job("normal", priority="normal"),
            Job("high", priority="high"),
            Job("critical", priority="critical"),
            Job("leaf", depends_on=["low"], status="blocked"),
        ]
        scheduler = Scheduler(strategy)
        expected = ["critical", "high", "none", "normal", "low"]
        assert [task.id for task in scheduler.order_ready_tasks(tasks, tasks)] == expected
        assert list(scheduler.schedule(tasks, agents("a"))) == expected

    @proves("SCH-18")
    def test_tasks_that_are_not_pending_are_left_out_and_none_comes_twice(self) -> None:
        tasks = [Job("a"), Job("b", status="in_progress"), Job("c")]
        ready = [tasks[2], tasks[1], tasks[0], tasks[2]]
        assert [task.id for task in Scheduler().order_ready_tasks(ready, tasks)] == ["a", "c"]
        assert Scheduler().order_ready_tasks([], []) == []

    @proves("SCH-24")
    def test_a_task_may_be_pushed_again_once_it_is_out(self) -> None:
        task = Job("a")
        order = Scheduler().ready_order([task])
        assert not order
        order.push(task)
        order.push(task)
        assert len(order) == 1
        assert order.pop() == "a"
        order.push(task)
        assert order.pop() == "a"
        with pytest.raises(IndexError):
            order.pop()

    @proves("SCH-24")
    def test_tasks_that_are_not_of_the_graph_come_after_those_that_are(self) -> None:
        order = Scheduler().ready_order(jobs("a", "b"))
        for task in jobs("y", "x", "b", "a"):
            order.push(task)
        assert [order.pop() for _ in range(4)] == ["a", "b", "y", "x"]

    @proves("SCH-18", "SCH-19", "SCH-24")
    @given(
        st.lists(
            st.tuples(st.sampled_from(["low", "normal", "high", "critical", None]), st.sets(st.integers(0, 30))),
            max_size=12,
        ),
        st.randoms(use_true_random=False),
    )
    def test_one_by_one_is_the_same_as_sorting(self, drawn: list[tuple[str | None, set[int]]], chance: Any) -> None:
        tasks = [
            Job(str(at), priority=priority, depends_on=[str(d) for d in sorted(depends) if d < at])
            for at, (priority, depends) in enumerate(drawn)
        ]
        ranks = {"critical": 0, "high": 1, "normal": 2, None: 2, "low": 3}
        expected = sorted(tasks, key=lambda task: (ranks[task.priority], -len(waiting(task.id, tasks))))
        pushed = list(tasks)
        chance.shuffle(pushed)
        scheduler = Scheduler()
        order = scheduler.ready_order(tasks)
        for task in pushed:
            order.push(task)
        assert [order.pop() for _ in tasks] == [task.id for task in expected]
        assert scheduler.order_ready_tasks(pushed, tasks) == expected


def waiting(task_id: str, tasks: list[Job]) -> set[str]:
    direct = {task.id for task in tasks if task_id in task.depends_on}
    return direct.union(*(waiting(other, tasks) for other in direct))


class Counted:
    """Counts how often its tasks are looked at."""

    def __init__(self, tasks: list[Job]) -> None:
        self.tasks = tasks
        self.looks = count()

    def __iter__(self) -> Any:
        for task in self.tasks:
            next(self.looks)
            yield task


@proves("SCH-24")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("number", [10, 200])
def test_a_run_looks_at_the_graph_once(strategy: SchedulingStrategy, number: int) -> None:
    graph = Counted(jobs(*map(str, range(number))))
    scheduler = Scheduler(strategy)
    order = scheduler.ready_order(graph)
    for task in graph.tasks:
        order.push(task)
    team = agents("a", "b", "c")
    loads: dict[str, int] = {}
    while order:
        name = scheduler.schedule_task(graph.tasks[int(order.pop())], team, loads=loads)
        assert name is not None
        loads[name] = loads.get(name, 0) + 1
    assert next(graph.looks) == number
    assert max(loads.values()) - min(loads.values()) <= 1

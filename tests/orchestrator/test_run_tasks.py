"""Runs of task graphs: what is refused at the call, what a run comes to, and that runs share nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from openmultiagent import (
    AgentConfig,
    CancelToken,
    ConfigurationError,
    ImageBlock,
    InvalidMessageError,
    InvalidTaskDependenciesError,
    InvalidTaskRequirementsError,
    LLMMessage,
    OpenMultiAgent,
    RunCall,
    TaskSpec,
    Team,
    TeamRunResult,
    TokenUsage,
    ToolUseBlock,
    tool,
)
from openmultiagent.adapters import LLMResponse
from openmultiagent.stores import InMemoryStore
from tests.support import proves
from tests.support.teams import Model, Seen, answer


def team(*names: str, **fields: Any) -> dict[str, Any]:
    return {"name": "crew", "agents": [{"name": name} for name in names or ("a", "b")], **fields}


def task(title: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    return {"id": title, "title": title, "description": f"Do {title}.", "depends_on": depends_on, **fields}


def wrong_tasks() -> Sequence[tuple[Any, type[Exception], str]]:
    return [
        ({"title": "A"}, ConfigurationError, "tasks must be a list"),
        ("A", ConfigurationError, "tasks must be a list"),
        ([{"title": "A"}], ConfigurationError, r"tasks\[0\]"),
        ([{"title": "A", "description": "x", "retries": 2}], ConfigurationError, "max_retries"),
        (
            [{"title": "A", "description": [{"role": "robot", "content": "x"}]}],
            InvalidMessageError,
            r"tasks\[0\].description\[0\]",
        ),
        ([task("A", "B"), task("B", "A")], InvalidTaskDependenciesError, "A"),
        ([task("A", "Z"), task("B", "Y")], InvalidTaskDependenciesError, "'Z'.*'Y'"),
        ([task("A", assignee="nobody"), task("B", assignee="who")], InvalidTaskRequirementsError, "nobody.*who"),
        ([task("A", requires={"required_tools": ["bash"]})], InvalidTaskRequirementsError, "bash"),
        ([task("A", max_cost_budget=1.0)], ConfigurationError, r"tasks\[0\] has a cost budget"),
    ]


@proves("DSP-1", "DSP-2")
@pytest.mark.parametrize(("tasks", "error", "text"), wrong_tasks())
def test_wrong_tasks_are_refused_by_the_call_itself(tasks: Any, error: type[Exception], text: str) -> None:
    model, seen, around = Model(), Seen(), []

    async def middleware(call: RunCall, call_next: Any) -> Any:
        around.append(call)
        return await call_next()

    oma = OpenMultiAgent(default_adapter=model, listeners=[seen], middleware=[middleware])
    for entry in (oma.run_tasks, oma.stream_tasks, oma.run_tasks_sync):
        with pytest.raises(error, match=text):
            entry(team(), tasks)
    assert (model.calls, seen, around) == ([], [], [])


@proves("DSP-1")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_tokens_budget": 5}, "did you mean 'max_token_budget'"),
        ({"zzz": 5}, "there are run_id"),
        ({"max_token_budget": 0}, "token"),
        ({"max_cost_budget": 1.0}, "cost"),
        ({"run_id": ""}, "run_id"),
        ({"metadata": {"x": object()}}, "metadata"),
        ({"cancel": anyio.Event}, "cancel"),
        ({"model_routing": 7}, "model_routing"),
    ],
)
def test_wrong_options_are_refused_by_the_call_itself(options: dict[str, Any], text: str) -> None:
    oma = OpenMultiAgent(default_adapter=Model())
    with pytest.raises(ConfigurationError, match=text):
        oma.run_tasks(team(), [task("A")], **options)  # type: ignore[unused-coroutine]  # there is none
    with pytest.raises(ConfigurationError, match=text):
        oma.stream_tasks(team(), [task("A")], **options)


@proves("DSP-1")
def test_a_wrong_team_is_refused_by_the_call_itself() -> None:
    oma = OpenMultiAgent(default_adapter=Model())
    for wrong in ({"name": "x"}, 5, {"name": "x", "agents": [{"name": "a"}, {"name": "A"}]}):
        with pytest.raises(ConfigurationError):
            oma.run_tasks(wrong, [task("A")])  # type: ignore[arg-type,unused-coroutine]  # that is the point
    with pytest.raises(ConfigurationError, match="model"):
        OpenMultiAgent().run_tasks(team(), [task("A")])  # type: ignore[unused-coroutine]  # there is none


@proves("DSP-3")
async def test_nothing_that_is_done_after_the_call_reaches_the_run() -> None:
    model = Model()
    blocks: list[Any] = [{"type": "text", "text": "Look."}]
    asked = task("A", description=blocks, metadata={"kind": "x"})
    tasks = [asked, task("B", "A")]
    crew = team("a")
    run = OpenMultiAgent(default_adapter=model).run_tasks(crew, tasks)
    blocks[0]["text"] = "Look away."
    asked["title"] = "Z"
    tasks.clear()
    crew["agents"].clear()
    result = await run
    assert model.calls == ["A", "B"]
    assert "Look." in model.prompts[0]
    assert [record.title for record in result.tasks] == ["A", "B"]


@proves("DSP-4")
async def test_no_tasks_are_done_at_once() -> None:
    result = await OpenMultiAgent(default_adapter=Model()).run_tasks(team(), [])
    assert result.success
    assert (result.tasks, result.metrics, result.final_output) == ((), None, "")


@proves("DSP-5")
async def test_an_unknown_assignee_is_replaced_where_that_is_allowed() -> None:
    model, seen = Model(), Seen()
    oma = OpenMultiAgent(default_adapter=model, strict_assignees=False, listeners=[seen])
    result = await oma.run_tasks(team("a"), [task("A", assignee="nobody")])
    assert result.success
    assert result.tasks[0].assignee == "a"
    assert [(event.task, event.data["assignee"]) for event in seen.of("warning")] == [("A", "nobody")]


@proves("DSP-8")
async def test_the_tasks_of_a_team_without_agents_fail() -> None:
    seen = Seen()
    asked: list[Any] = []
    oma = OpenMultiAgent(default_adapter=Model(), listeners=[seen], on_task_dispatch=asked.append)
    empty = {"name": "crew", "agents": []}
    result = await oma.run_tasks(empty, [task("A"), task("B", "A")])
    assert [record.status for record in result.tasks] == ["failed", "failed"]
    assert seen.kinds() == ["task_failed", "task_failed"]
    assert (seen[0].data.code, seen[0].data.result, asked) == ("INVALID_ASSIGNEE", None, [])
    assert "has no assignee" in seen[0].data.message
    assert (await oma.run_tasks(empty, [])).success


@proves("DSP-20")
async def test_a_result_has_what_every_task_came_to() -> None:
    model = Model(tokens=3)
    tasks = [task("B", "A", assignee="b"), task("A", assignee="a"), task("C", "A", assignee="b")]
    result = await OpenMultiAgent(default_adapter=model).run_tasks(team(), tasks, metadata={"who": "x"}, run_id="r1")
    assert result.success
    assert str(result.status) == "ok"
    assert [record.id for record in result.tasks] == ["B", "A", "C"]
    assert list(result.task_results) == ["B", "A", "C"]
    assert result.task_results["A"].output == "A is done"
    assert set(result.agent_results) == {"a", "b"}
    assert result.agent_results["b"].output == "B is done\n\n---\n\nC is done"
    assert result.agent_results["b"].token_usage.input_tokens == 6
    assert result.total_token_usage == model.used == TokenUsage(input_tokens=9)
    assert result.final_output == "B is done\n\n---\n\nC is done"
    assert result.metrics is not None
    assert (result.metrics.completed_count, result.metrics.total_retries) == (3, 0)
    assert (result.identity.run_id, result.metadata, result.goal) == ("r1", {"who": "x"}, None)
    for record in result.tasks:
        assert record.metrics is not None
        assert record.metrics.duration >= 0
        assert record.metrics.ended_at >= record.metrics.started_at


@proves("DSP-20")
@pytest.mark.parametrize(
    ("fails", "output"),
    [
        ("", "D\n\n---\n\nE"),
        ("D", "B\n\n---\n\nE"),  # as far as each branch got
        ("DE", "B\n\n---\n\nC"),
        ("BC", "A"),
        ("A", ""),
    ],
)
async def test_the_output_of_a_run_that_failed_is_how_far_it_got(fails: str, output: str) -> None:
    model = Model({title: RuntimeError("down") if title in fails else title for title in "ABCDE"})
    tasks = [task("A"), task("B", "A"), task("C", "A"), task("D", "B", "C"), task("E", "C")]
    result = await OpenMultiAgent(default_adapter=model).run_tasks(team(), tasks)
    assert (result.success, result.final_output) == (not fails, output)


@proves("DSP-21")
async def test_a_failure_takes_with_it_what_waits_for_it_and_nothing_else() -> None:
    model, seen = Model({"A": ValueError("broken")}), Seen()
    tasks = [task("A", assignee="a"), task("B", "A"), task("C", "B"), task("D", assignee="b")]
    result = await OpenMultiAgent(default_adapter=model, listeners=[seen]).run_tasks(team(), tasks)
    assert not result.success
    assert str(result.status) == "error"
    assert [record.status for record in result.tasks] == ["failed", "failed", "failed", "completed"]
    assert sorted(model.calls) == ["A", "D"]
    assert result.tasks[2].task.failed_through == "B"
    assert "dependency 'A'" in (result.tasks[2].result or "")
    assert result.error_info is not None
    assert result.error_info.name == "ValueError"
    assert isinstance(result.error, ValueError)
    assert result.metrics is not None
    assert (result.metrics.failure_count, result.metrics.completed_count) == (3, 1)
    assert seen.kinds("A") == ["task_start", "agent_start", "task_failed", "agent_complete"]
    assert seen.kinds("B") == ["task_failed"]


@proves("DSP-14")
async def test_a_prompt_has_the_task_and_the_results_of_what_it_depends_on() -> None:
    model = Model({"First": "the facts", "Empty": ""})
    tasks = [
        task("First", assignee="a"),
        task("Empty", assignee="a"),
        task("Second", "First", "Empty", assignee="b"),
        task("Third", "Second", assignee="b"),
    ]
    await OpenMultiAgent(default_adapter=model, max_concurrency=1).run_tasks(team(), tasks)
    prompts = dict(zip(model.calls, model.prompts, strict=True))
    assert prompts["First"] == "# Task: First\n\nDo First."
    assert prompts["Second"] == (
        "# Task: Second\n\nDo Second.\n\n## Context from prerequisite tasks\n\n### First (by a)\nthe facts"
    )
    assert "the facts" not in prompts["Third"]


class Facts(BaseModel):
    z: int
    a: str


@proves("DSP-15")
async def test_structured_results_are_handed_on_and_what_cannot_be_fails_the_task() -> None:
    model, seen = Model({"F": '{"z": 1, "a": "ü"}', "T": "only text"}), Seen()
    agents = [AgentConfig("a", output_schema=Facts), AgentConfig("b")]
    tasks = [
        task("F", assignee="a"),
        task("T", assignee="b"),
        task("S", "F", assignee="b", dependency_payload="structured"),
        task("N", "T", assignee="b", dependency_payload="structured"),
        task("M", "N", assignee="b"),
    ]
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks({"name": "crew", "agents": agents}, tasks)
    prompts = dict(zip(model.calls, model.prompts, strict=True))
    assert '{"a":"ü","z":1}' in prompts["S"]
    assert {record.id: record.status for record in result.tasks} == {
        "F": "completed",
        "T": "completed",
        "S": "completed",
        "N": "failed",
        "M": "failed",
    }
    info = result.task_results["N"].error_info
    assert info is not None
    assert (info.code, info.kind, info.retryable) == ("DEPENDENCY_STRUCTURED_RESULT_MISSING", "validation", False)
    assert result.task_results["N"].token_usage == TokenUsage()
    assert result.tasks[3].metrics is not None
    assert {"N", "M"}.isdisjoint(model.calls)
    assert seen.kinds("N") == ["task_start", "agent_start", "task_failed", "agent_complete"]


@proves("DSP-16")
async def test_the_memory_of_the_team_has_the_results_and_is_shown_to_who_asks() -> None:
    store, model = InMemoryStore(), Model({"First": "the facts"})
    crew = team("a", "b", shared_memory_store=store)
    tasks = [task("First", assignee="a"), task("Other", "First", assignee="b", memory_scope="all"), task("Plain")]
    result = await OpenMultiAgent(default_adapter=model, max_concurrency=1).run_tasks(
        crew, [*tasks, task("Z", "Other")]
    )
    assert result.success
    prompts = dict(zip(model.calls, model.prompts, strict=True))
    assert "### First (by a)" in prompts["Other"]  # what it depends on comes in full, and only once
    assert prompts["Other"].count("the facts") == 1
    assert prompts["Plain"] == "# Task: Plain\n\nDo Plain."
    entry = await store.get("a/task:First:result")
    assert entry is not None
    assert entry.value == "the facts"


@proves("TEM-34")
@pytest.mark.parametrize(("settings", "shown"), [({}, "x" * 197 + "…"), ({"memory_value_chars": 10}, "x" * 7 + "…")])
async def test_a_team_says_how_much_of_a_value_prompts_show(settings: dict[str, Any], shown: str) -> None:
    model = Model({"A": "x" * 300})
    crew = team("a", shared_memory=True, **settings)
    tasks = [task("A"), task("B", "A"), task("C", "B", memory_scope="all")]
    assert (await OpenMultiAgent(default_adapter=model).run_tasks(crew, tasks)).success
    assert f"- task:A:result: {shown}" in model.prompts[-1].splitlines()


@proves("DSP-17")
async def test_unread_messages_are_in_the_prompt_until_a_task_has_succeeded_with_them() -> None:
    model = Model({"A": (ValueError("no"), "yes")})
    group = Team(team("a", "b"))
    group.send_message("b", "a", "Mind the gap.")
    oma = OpenMultiAgent(default_adapter=model)
    tasks = [
        task("A", assignee="a", max_retries=1, retry_delay=0),
        task("B", "A", assignee="a"),
        task("C", assignee="b"),
    ]
    assert (await oma.run_tasks(group, tasks)).success
    shown = [(title, "Mind the gap." in prompt) for title, prompt in zip(model.calls, model.prompts, strict=True)]
    assert sorted(shown) == [("A", True), ("A", True), ("B", False), ("C", False)]
    assert [message.content for message in group.get_unread_messages("a")] == ["Mind the gap."]  # the run had a copy


@proves("DSP-18")
async def test_pictures_of_a_description_reach_the_agent_after_its_prompt() -> None:
    model = Model()
    picture = ImageBlock.from_url("https://example.com/x.png")
    before = LLMMessage.user("Earlier.")
    asked = LLMMessage.user_with_blocks([picture, {"type": "text", "text": "What is this?"}])
    spec = TaskSpec("Look", [before, LLMMessage.assistant([{"type": "text", "text": "Yes?"}]), asked])
    result = await OpenMultiAgent(default_adapter=model).run_tasks(team("a"), [spec])
    assert result.success
    sent = model.sent[0]
    assert [message.role for message in sent] == ["user", "assistant", "user"]
    assert [block.type for block in sent[-1].content] == ["text", "image"]
    assert "# Task: Look\n\nWhat is this?" in sent[-1].content[0].text  # type: ignore[union-attr]  # a text block


@proves("DSP-90")
async def test_two_runs_go_on_at_the_same_time() -> None:
    here: list[int] = []
    both = anyio.Event()

    async def meet(messages: Sequence[LLMMessage], _options: object) -> Any:
        here.append(1)
        if len(here) == 2:
            both.set()
        with anyio.fail_after(5):
            await both.wait()
        return answer("met", tokens=1)

    oma = OpenMultiAgent(default_adapter=Model({"A": meet}), max_concurrency=1)
    results: list[TeamRunResult] = []

    async def one(name: str) -> None:
        results.append(await oma.run_tasks(oma.create_team(name, team("a")), [task("A")]))

    async with anyio.create_task_group() as runs:
        runs.start_soon(one, "one")
        runs.start_soon(one, "two")
    assert [result.success for result in results] == [True, True]


@proves("DSP-90")
async def test_runs_at_the_same_time_never_mix() -> None:
    async def echo(messages: Sequence[LLMMessage], _options: object) -> Any:
        await anyio.lowlevel.checkpoint()
        return answer(f"echo of {messages[0].content[0].text}", tokens=1)  # type: ignore[union-attr]  # a text block

    model = Model(dict.fromkeys("ABC", echo))
    seen = Seen()
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    group = oma.create_team("crew", team("a", "b", shared_memory=True))
    results: dict[str, TeamRunResult] = {}

    async def one(number: int) -> None:
        run_id = f"run-{number}"
        tasks = [task("A", description=f"[{number}]"), task("B", "A"), task("C", "A", memory_scope="all")]
        results[run_id] = await oma.run_tasks(group, tasks, run_id=run_id)

    async with anyio.create_task_group() as runs:
        for number in range(200):
            runs.start_soon(one, number)
    assert len(results) == 200
    for number in range(200):
        result = results[f"run-{number}"]
        assert result.success
        assert result.identity.run_id == f"run-{number}"
        assert result.total_token_usage.input_tokens == 3
        for each in result.task_results.values():
            assert each.output.count("[") == each.output.count(f"[{number}]") == 1
        mine = [event for event in seen if event.run_id == f"run-{number}"]
        assert sorted(event.sequence for event in mine) == list(range(1, 13))


def shape(result: TeamRunResult) -> Any:
    return (
        result.status,
        result.final_output,
        [(record.id, record.status, record.assignee, record.result) for record in result.tasks],
        {key: (each.output, each.token_usage) for key, each in result.task_results.items()},
        {key: each.output for key, each in result.agent_results.items()},
        result.total_token_usage,
    )


@proves("DSP-91")
async def test_a_second_run_is_like_the_first() -> None:
    model = Model({"B": ValueError("no")}, tokens=2)
    oma = OpenMultiAgent(default_adapter=model, max_concurrency=1)
    group = oma.create_team("crew", team("a", "b", "c", shared_memory=True))
    tasks = [TaskSpec.of(task(name)) for name in "ABC"] + [TaskSpec.of(task("D", "B"))]
    first = await oma.run_tasks(group, tasks)
    assert shape(await oma.run_tasks(group, tasks)) == shape(first)
    assert model.prompts[:3] == model.prompts[3:]


def mutilate(value: Any, seen: set[int] | None = None) -> None:
    """Change whatever can be changed in a value."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for each in list(value.values()):
            mutilate(each, seen)
        value.clear()
    elif isinstance(value, list):
        for each in value:
            mutilate(each, seen)
        value.clear()
    elif isinstance(value, tuple):
        for each in value:
            mutilate(each, seen)
    elif type(value).__module__.startswith("openmultiagent"):
        own = getattr(value, "__dict__", None)
        for name in [name for name in (dir(value) if own is None else own) if not name.startswith("_")]:
            mutilate(getattr(value, name), seen)
            with_suppress(lambda name=name: setattr(value, name, "poison"))  # type: ignore[misc]  # bound at once


def with_suppress(action: Callable[[], object]) -> None:
    with suppress(Exception):  # what cannot be changed is fine
        action()


@proves("DSP-92")
async def test_whoever_changes_what_it_gets_changes_nothing_for_others() -> None:
    def poison(event: Any) -> None:
        mutilate(event.data)

    async def middleware(call: RunCall, call_next: Any) -> Any:
        mutilate(call.messages)
        mutilate(call.metadata)
        result = await call_next()
        given = (dict(result.task_results), dict(result.agent_results))
        copies = [each.replace() for each in given[0].values()]
        for each in copies:
            mutilate(each.messages)
        return result

    def gate(about: Any) -> bool:
        mutilate(about.metadata)
        with_suppress(lambda: setattr(about, "title", "poison"))
        return True

    def oma_for(model: Model, *listeners: Any, **fields: Any) -> OpenMultiAgent:
        return OpenMultiAgent(default_adapter=model, max_concurrency=1, listeners=listeners, **fields)

    tasks = [
        task("A", metadata={"kind": ["x", "y"]}),
        task("B", "A", description=[{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]),
        task("C", "B", max_retries=1, retry_delay=0),
    ]
    answers = {"C": (ValueError("once"), "C is done")}
    quiet, loud = Model(answers), Model(answers)
    first, last = Seen(), Seen()
    plain = await oma_for(quiet, first).run_tasks(team(), tasks, metadata={"m": "n"})
    poisoned = oma_for(loud, poison, last, on_task_dispatch=gate)
    result = await poisoned.run_tasks(team(), tasks, metadata={"m": "n"})
    assert shape(result) == shape(plain)
    assert loud.prompts == quiet.prompts
    assert last.kinds() == first.kinds()
    for mine, theirs in zip(last, first, strict=True):
        if isinstance(mine.data, dict):
            assert mine.data.keys() == theirs.data.keys()
        elif hasattr(mine.data, "messages"):
            assert mine.data.messages == theirs.data.messages
    assert all(each.messages for each in result.task_results.values())
    assert result.tasks[0].metadata == {"kind": ("x", "y")} or result.tasks[0].metadata == {"kind": ["x", "y"]}
    around = await oma_for(Model(answers), middleware=[middleware]).run_tasks(team(), tasks, metadata={"m": "n"})
    assert shape(around) == shape(plain)
    assert around.metadata == {"m": "n"}


async def test_a_run_that_was_never_awaited_begins_nothing() -> None:
    model = Model()
    run = OpenMultiAgent(default_adapter=model).run_tasks(team(), [task("A")])
    run.close()
    gc.collect()
    assert model.calls == []


@proves("DSP-6")
def test_the_sync_form_comes_to_the_same() -> None:
    oma = OpenMultiAgent(default_adapter=Model())
    for _ in range(2):
        assert oma.run_tasks_sync(team(), [task("A"), task("B", "A")]).final_output == "B is done"


@proves("DSP-7")
async def test_user_middleware_stands_around_the_whole_run_once() -> None:
    kinds: list[tuple[str, str]] = []

    async def middleware(call: RunCall, call_next: Any) -> Any:
        kinds.append((call.kind, call.name))
        return await call_next()

    oma = OpenMultiAgent(default_adapter=Model(), middleware=[middleware])
    assert (await oma.run_tasks(team(), [task("A"), task("B", "A")])).success
    assert kinds == [("tasks", "crew")]


@proves("DSP-7")
async def test_middleware_that_fails_or_returns_nonsense_is_a_failed_run() -> None:
    async def broken(_call: RunCall, _call_next: Any) -> Any:
        raise ValueError("out of order")

    async def strange(_call: RunCall, call_next: Any) -> Any:
        await call_next()
        return 5

    async def half(_call: RunCall, call_next: Any) -> Any:
        return (await call_next()).replace(status=None)

    async def again(_call: RunCall, call_next: Any) -> Any:
        await call_next()
        return await call_next()

    for step in (broken, strange, half):
        result = await OpenMultiAgent(default_adapter=Model(), middleware=[step]).run_tasks(team(), [task("A")])
        assert (result.success, str(result.status)) == (False, "error")
        assert result.error_info is not None
    model = Model(tokens=1)
    twice = await OpenMultiAgent(default_adapter=model, middleware=[again]).run_tasks(team(), [task("A")])
    assert twice.success
    assert model.calls == ["A", "A"]
    assert twice.total_token_usage.input_tokens == 2


@proves("DSP-30")
async def test_a_token_that_is_cancelled_already_skips_everything() -> None:
    token, seen, model = CancelToken(), Seen(), Model()
    token.cancel("too late")
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks(team(), [task("A"), task("B", "A")], cancel=token)
    assert (result.success, str(result.status)) == (False, "cancelled")
    assert [record.status for record in result.tasks] == ["skipped", "skipped"]
    assert "too late" in (result.tasks[0].result or "")
    assert seen.kinds() == ["task_skipped", "task_skipped"]
    assert model.calls == []
    assert result.error_info is not None
    assert result.error_info.kind == "cancellation"


@tool
def look() -> str:
    """Look."""
    return "seen"


def turn(text: str) -> Any:
    return answer(text, blocks=[ToolUseBlock.new("1", "look", {})])


@proves("DSP-19")
@pytest.mark.parametrize(
    ("said", "handed_on"),
    [
        ((turn("the facts"), ""), "the facts"),
        ((turn("the facts"), turn(" "), ""), "the facts"),
        ((turn("first"), "the facts"), "the facts"),
        ((turn(""), ""), ""),
    ],
)
async def test_what_an_agent_said_before_an_empty_turn_is_handed_on(said: tuple[Any, ...], handed_on: str) -> None:
    model, seen = Model({"A": said}), Seen()
    crew = {"name": "crew", "agents": [{"name": "a", "tools": [look]}, {"name": "b"}]}
    oma = OpenMultiAgent(default_adapter=model, listeners=[seen])
    result = await oma.run_tasks(crew, [task("A", assignee="a"), task("B", "A", assignee="b")])
    assert result.success
    assert (result.task_results["A"].output, result.tasks[0].result) == (handed_on, handed_on)
    assert ("### A (by a)\nthe facts" in model.prompts[-1]) == bool(handed_on)
    warnings = [(event.task, event.data["code"]) for event in seen.of("warning")]
    assert warnings == ([] if handed_on else [("A", "EMPTY_OUTPUT")])


@proves("DSP-19")
async def test_what_a_hook_or_a_filter_has_emptied_stays_empty() -> None:
    filtered = LLMResponse([], stop_reason="content_filter", usage=TokenUsage())
    model = Model({"A": "secret", "C": (turn("secret"), filtered)})
    emptied = {"name": "a", "after_run": lambda result: result.replace(output="")}
    crew = {"name": "crew", "agents": [emptied, {"name": "c", "tools": [look]}]}
    tasks = [task("A", assignee="a"), task("C", assignee="c"), task("D", "A", "C")]
    result = await OpenMultiAgent(default_adapter=model).run_tasks(crew, tasks)
    assert (result.task_results["A"].output, result.task_results["C"].output) == ("", "")
    assert "secret" not in model.prompts[-1]

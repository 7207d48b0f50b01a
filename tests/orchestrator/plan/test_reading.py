"""Plans that coordinators wrote: right ones, and wrong ones of every kind."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmultiagent import Agent, AgentConfig, PlanInvalidError, StructuredOutputValidationError
from openmultiagent.orchestrator import CoordinatorConfig
from openmultiagent.orchestrator._answers import TooDeepError, json_fault, json_values, snake_fields
from openmultiagent.orchestrator._plan import (
    DEFAULT_MAX_TASKS,
    CoordinatorPlan,
    PlanRules,
    UnknownAssignee,
    as_plan_error,
    check_plan,
    coordinator_agent,
    plan_rules,
    plan_schema,
    read_plan,
)
from openmultiagent.tasks import TaskRequirements, TaskSpec
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves

RULES = PlanRules(("writer", "reader"))
A = {"title": "A", "description": "do a"}
B = {"title": "B", "description": "do b", "depends_on": ["A"]}
PLAN = [A, B]


def fault_of(value: Any, rules: PlanRules = RULES) -> str:
    with pytest.raises(PlanInvalidError) as caught:
        read_plan(value if isinstance(value, str) else json.dumps(value), rules)
    message = caught.value.message
    assert caught.value.code == "COORDINATOR_PLAN_INVALID"
    assert message.startswith("The plan cannot be used:\n- ")
    assert len(message) < 7_000
    assert 1 <= len(caught.value.issues) <= 20
    return message.removeprefix("The plan cannot be used:\n- ")


@proves("PLN-1")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PLAN),
        json.dumps({"tasks": PLAN}),
        json.dumps({"plan": PLAN}),
        json.dumps({"value": PLAN}),
        f"```json\n{json.dumps(PLAN)}\n```",
        f"```\n{json.dumps(PLAN, indent=2)}\n```",
        f"```python\nprint([1])\n```\n```json\n{json.dumps(PLAN)}\n```",
        f"Here is the plan: {json.dumps(PLAN)} Good luck!",
        f"As said in [1], {{so}}: {json.dumps({'tasks': PLAN})}",
        f'{{"note": 1}} then {json.dumps(PLAN)}',
    ],
)
def test_a_plan_is_found_however_it_is_wrapped(text: str) -> None:
    plan = read_plan(text, RULES)
    assert plan.tasks == (TaskSpec("A", "do a"), TaskSpec("B", "do b", depends_on=["A"]))
    assert plan.unknown_assignees == ()


@proves("PLN-1")
def test_prose_around_a_single_task_does_not_hide_that_it_is_a_list() -> None:
    assert read_plan(f"I made this: {json.dumps([A])}. Fine?", RULES).tasks == (TaskSpec("A", "do a"),)


FULL = {
    "title": " Check ",
    "description": " check it ",
    "assignee": "reader",
    "depends_on": ["A"],
    "memory_scope": "all",
    "max_retries": 2,
    "retry_delay": 0.5,
    "retry_backoff": 3,
    "role": "reviewer",
    "priority": "high",
    "requires": {
        "required_tools": ["grep"],
        "required_capabilities": ["law"],
        "required_backend": "llm",
        "required_provider": "openai",
    },
}
CAMEL = {
    "title": "Check",
    "description": "check it",
    "assignee": "reader",
    "dependsOn": ["A"],
    "memoryScope": "all",
    "maxRetries": 2,
    "retryDelayMs": 500,
    "retryBackoff": 3.0,
    "role": "reviewer",
    "priority": "high",
    "requires": {
        "requiredTools": ["grep"],
        "requiredCapabilities": ["law"],
        "requiredBackend": "llm",
        "requiredProvider": "openai",
    },
}


@proves("PLN-2")
@pytest.mark.parametrize("written", [FULL, CAMEL])
def test_all_fields_are_read_in_both_spellings(written: dict[str, Any]) -> None:
    _, task = check_plan([A, written], RULES).tasks
    assert task == TaskSpec(
        "Check",
        "check it",
        assignee="reader",
        depends_on=["A"],
        memory_scope="all",
        max_retries=2,
        retry_delay=0.5,
        retry_backoff=3.0,
        role="reviewer",
        priority="high",
        requires=TaskRequirements(
            required_tools=["grep"],
            required_capabilities=["law"],
            required_backend="llm",
            required_provider="openai",
        ),
    )


@proves("PLN-2")
def test_null_means_not_set() -> None:
    empty = dict.fromkeys(set(FULL) - {"title", "description"})
    (task,) = check_plan([A | empty], RULES).tasks
    assert task == TaskSpec("A", "do a")
    (task,) = check_plan([A | {"requires": dict.fromkeys(FULL["requires"])}], RULES).tasks  # type: ignore[call-overload]
    assert not task.requires


@proves("PLN-3")
def test_dependencies_stay_exactly_as_they_were_written() -> None:
    few = [A, B, {"title": "C", "description": "c", "depends_on": ["B"]}]
    many = [A, B, {"title": "C", "description": "c", "depends_on": [" b ", "A"]}]
    assert [task.depends_on for task in check_plan(few, RULES).tasks] == [(), ("A",), ("B",)]
    assert [task.depends_on for task in check_plan(many, RULES).tasks] == [(), ("A",), (" b ", "A")]


def task(**fields: Any) -> list[Any]:
    return [A | fields]


WRONG = [
    ("", "there is no JSON in the answer"),
    ("I cannot do that.", "there is no JSON in the answer"),
    ('[{"title": "A"', "the answer is no valid JSON: Expecting ',' delimiter at line 1 column 15"),
    ('Well:\n```json\n[{"title": "A",}]\n```', "the answer is no valid JSON: "),
    ("[" * 200_000, "the JSON is nested too deeply; write "),
    ('{"tasks": ' + "[" * 200_000, "the JSON is nested too deeply; write "),
    ({"title": "A", "description": "a"}, 'the plan is no list of tasks; write {"tasks": ['),
    ({"tasks": PLAN, "note": 1}, "the plan is no list of tasks; write "),
    ({"tasks": "A, B"}, "the plan is no list of tasks; write "),
    ([], "the plan has no tasks; give at least one"),
    ({"tasks": []}, "the plan has no tasks; give at least one"),
    ([A] * 10_000, "the plan has 10,000 tasks, of 200 at most; join tasks, or leave some out"),
    ([1], "tasks[0]: must be an object with title and description, got 1"),
    ([A, None], "tasks[1]: must be an object with title and description, got None"),
    ([[A]], "tasks[0]: must be an object with title and description, got [{"),
    ([{"title": "A"}], "tasks[0].description: is missing"),
    (task(title=None), "tasks[0].title: Input should be a valid string, got None"),
    (task(title=7), "tasks[0].title: Input should be a valid string, got 7"),
    (task(title="  "), "tasks[0].title must be a string with a visible character"),
    (task(description=["a"]), "tasks[0].description: Input should be a valid string, got ['a']"),
    (task(assignee="ghost"), "tasks[0].assignee: there is no agent 'ghost'; the agents are writer, reader"),
    (task(assignee=""), "tasks[0].assignee must be "),
    (task(depends_on="A"), "tasks[0].depends_on: Input should be a valid list, got 'A'"),
    (task(depends_on=[None]), "tasks[0].depends_on[0]: Input should be a valid string, got None"),
    (task(depends_on=["A"]), "tasks[0] 'A' depends on 'A', which is the task itself"),
    (task(depends_on=["Z"]), "tasks[0] 'A' depends on 'Z', which is the id or title of no task"),
    (task(max_retries=True), "tasks[0].max_retries: Input should be a valid integer, got True"),
    (task(max_retries="2"), "tasks[0].max_retries: Input should be a valid integer, got '2'"),
    (task(max_retries=-1), "tasks[0].max_retries: Input should be greater than or equal to 0, got -1"),
    (task(retry_delay=-1), "tasks[0].retry_delay: "),
    (task(retryDelayMs="500"), "tasks[0].retry_delay: Input should be a valid number, got '500'"),
    (task(retryDelayMs=True), "tasks[0].retry_delay: Input should be a valid number, got True"),
    (task(retryDelayMs=10**400), "tasks[0].retry_delay: "),
    (task(retry_delay=float("nan")), "tasks[0].retry_delay: "),
    (task(retry_backoff=0), "tasks[0].retry_backoff: "),
    (task(priority="urgent"), "tasks[0].priority: "),
    (task(memory_scope="none"), "tasks[0].memory_scope: "),
    (task(requires=["grep"]), "tasks[0].requires: "),
    (task(requires={"tools": []}), "tasks[0].requires.tools: there is no such field; the fields are required_tools, "),
    (task(requires={"requiredTools": [], "required_tools": []}), "tasks[0].requires.required_tools: is there twice"),
    (task(verify=True), "tasks[0].verify: there is no such field; the fields are title, description, "),
    (task(metadata={}), "tasks[0].metadata: there is no such field"),
    (task(dependency_payload="both"), "tasks[0].dependency_payload: there is no such field"),
    (task(**{"x" * 100_000: 1}), "tasks[0]." + "x" * 60 + ": there is no such field"),
    (task(dependsOn=[], depends_on=[]), "tasks[0].depends_on: is there twice, in two spellings"),
    (task(retryDelayMs=1, retry_delay=1), "tasks[0].retry_delay: is there twice, in two spellings"),
    (task(title="x" * 100_000, depends_on=["y" * 100_000]), "tasks[0] 'xxx"),
    (task(description=json.loads("[" * 500 + "]" * 500)), "tasks[0].description: Input should be a valid string"),
    ([A, A], "tasks[1].title: 'A' is the title of tasks[0], too"),
    ([A, A | {"title": " a "}], "tasks[1].title: 'a' is the title of tasks[0], too"),
    ([A | {"depends_on": ["B"]}, B], "tasks depend on each other in a circle: A -> B -> A"),
]


@proves("PLN-4")
@pytest.mark.parametrize(("value", "fault"), WRONG, ids=[fault[:50] for _, fault in WRONG])
def test_a_wrong_plan_is_told_its_fault(value: Any, fault: str) -> None:
    assert fault_of(value).startswith(fault)


@proves("PLN-4")
def test_all_faults_are_told_at_once() -> None:
    faults = fault_of(
        [
            A,
            A,
            {"title": "C", "description": "c", "assignee": "ghost", "depends_on": ["C", "D", "A"]},
            {"title": "E", "description": "e", "depends_on": ["F"]},
            {"title": "F", "description": "f", "depends_on": ["E"]},
        ]
    ).split("\n- ")
    assert faults == [
        "tasks[2].assignee: there is no agent 'ghost'; the agents are writer, reader",
        "tasks[1].title: 'A' is the title of tasks[0], too",
        "tasks[2] 'C' depends on 'C', which is the task itself",
        "tasks[2] 'C' depends on 'D', which is the id or title of no task",
        "tasks[2] 'C' depends on 'A', which 2 tasks have as title; refer to the id",
        "tasks depend on each other in a circle: E -> F -> E",
    ]


@proves("PLN-4")
def test_of_many_faults_the_first_twenty_are_told() -> None:
    faults = fault_of([{"title": i, "description": None} for i in range(100)]).split("\n- ")
    assert len(faults) == 21
    assert faults[0] == "tasks[0].title: Input should be a valid string, got 0"
    assert faults[-1] == "... and 180 more"


@proves("PLN-5")
def test_a_plan_has_at_most_as_many_tasks_as_the_rules_say() -> None:
    tasks = [{"title": f"t{i}", "description": "d"} for i in range(DEFAULT_MAX_TASKS + 1)]
    assert len(check_plan(tasks[:-1], RULES).tasks) == 200
    assert fault_of(tasks).startswith("the plan has 201 tasks, of 200 at most")
    assert len(check_plan(tasks, RULES._replace(max_tasks=201)).tasks) == 201


@proves("PLN-5")
def test_a_long_chain_of_tasks_can_be_allowed() -> None:
    rules = RULES._replace(max_tasks=3_000)
    tasks = [{"title": f"t{i}", "description": "d", "depends_on": [f"t{i - 1}"][: i > 0]} for i in range(3_000)]
    assert len(check_plan(tasks, rules).tasks) == 3_000
    tasks[0]["depends_on"] = ["t2999"]
    assert "in a circle: t" in fault_of(tasks, rules)


@proves("PLN-6")
def test_unknown_agents_can_be_left_to_the_scheduler() -> None:
    rules = plan_rules([AgentConfig("writer")], strict_assignees=False, max_tasks=3)
    assert rules == PlanRules(("writer",), False, 3)
    plan = check_plan([A | {"assignee": "ghost"}, B | {"assignee": "writer"}], rules)
    assert [task.assignee for task in plan.tasks] == [None, "writer"]
    assert plan.unknown_assignees == (UnknownAssignee("A", "ghost"),)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*FULL, *CAMEL, "tasks", "x"]), inner, max_size=5)
    ),
    max_leaves=20,
)


@proves("PLN-4")
@given(json_data | st.lists(st.dictionaries(st.sampled_from([*FULL, *CAMEL]), json_data, max_size=8), max_size=4))
def test_any_data_is_a_plan_or_is_refused(value: Any) -> None:
    outcome: CoordinatorPlan | PlanInvalidError
    try:
        outcome = check_plan(value, RULES)
    except PlanInvalidError as error:
        outcome = error
    is_bounded = isinstance(outcome, PlanInvalidError) and len(outcome.message) < 7_000
    assert is_bounded or (isinstance(outcome, CoordinatorPlan) and outcome.tasks)


@proves("PLN-4")
@given(st.text(alphabet='[]{}",:\\ \n`ab1', max_size=200))
def test_any_text_is_a_plan_or_is_refused(text: str) -> None:
    with pytest.raises(PlanInvalidError):
        read_plan(text, RULES)


@proves("PLN-4")
@pytest.mark.parametrize("piece", ["[", "{", '{"a":', '[{"title": "A", ', "```json\n[", '"', "[1]", '{"a": 1} '])
def test_a_long_answer_is_read_in_linear_time(piece: str) -> None:
    fault_of(piece * (400_000 // len(piece)))  # anything quadratic would meet the time limit of the test


def coordinator(adapter: ScriptedAdapter) -> Agent[Any]:
    config = coordinator_agent(CoordinatorConfig(adapter=adapter), "You plan.", output_schema=plan_schema(RULES))
    return Agent(config)


@proves("PLN-7")
async def test_the_schema_reads_the_answer_of_an_agent() -> None:
    adapter = ScriptedAdapter([json.dumps(PLAN)])
    result = await coordinator(adapter).run("Plan it")
    assert result.structured == check_plan(PLAN, RULES)
    prompt = adapter.calls[0].options.system_prompt
    assert prompt is not None
    assert '"depends_on"' in prompt


@proves("PLN-7")
async def test_a_wrong_plan_is_given_back_once_with_its_faults() -> None:
    adapter = ScriptedAdapter([json.dumps([A | {"depends_on": ["B"]}, B]), f"```json\n{json.dumps(PLAN)}\n```"])
    result = await coordinator(adapter).run("Plan it")
    assert result.structured == check_plan(PLAN, RULES)
    sent = adapter.calls[1].messages
    assert [message.role for message in sent] == ["user", "assistant", "user"]
    assert "in a circle: A -> B -> A" in str(sent[-1].content[0])


@proves("PLN-7")
async def test_a_plan_that_is_wrong_twice_fails_with_its_faults() -> None:
    adapter = ScriptedAdapter(["no plan", json.dumps([A, {"title": "B"}])])
    result = await coordinator(adapter).run("Plan it")
    assert len(adapter.calls) == 2
    assert not result.success
    assert isinstance(result.error, StructuredOutputValidationError)
    error = as_plan_error(result.error)
    assert (type(error), error.code) == (PlanInvalidError, "COORDINATOR_PLAN_INVALID")
    assert error.message == "The plan cannot be used:\n- tasks[1].description: is missing"
    assert error.issues == [{"code": "INVALID_TASK", "message": "tasks[1].description: is missing"}]


@proves("PLN-7")
async def test_an_answer_without_a_plan_twice_says_so() -> None:
    result = await coordinator(ScriptedAdapter(["no plan", "still none"])).run("Plan it")
    assert result.error is not None
    assert as_plan_error(result.error).message == "Failed to extract JSON from the answer: 'still none'"
    assert as_plan_error(TimeoutError("late")).message == "late"


@proves("PLN-7")
def test_the_schema_is_an_object_in_snake_case_and_kept() -> None:
    schema = plan_schema(RULES).json_schema()
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"tasks"}
    assert set(schema["$defs"]["PlannedTask"]["properties"]) == set(FULL)
    assert plan_schema(PlanRules(("writer", "reader"))) is plan_schema(RULES)


@proves("PLN-4")
def test_what_stands_in_a_text_is_found_from_the_left() -> None:
    assert list(json_values('a [1] b {"c": 2} "d" 3')) == [[1], {"c": 2}]
    assert list(json_values("3")) == []
    assert list(json_values('["\\ud83d\\ude00", "\\ud800"]')) == [["😀", "\ufffd"]]
    with pytest.raises(TooDeepError):
        list(json_values("x " + "[" * 100_000))
    assert json_fault("```\n3\n```[") == "the JSON in the answer is neither an object nor an array"
    assert json_fault("[" * 100_000) == "the JSON in the answer is nested too deeply"
    assert snake_fields({"aBc": 1, "x" * 101 + "Y": 2}) == ({"a_bc": 1, "x" * 101 + "Y": 2}, [])

"""Specifications of tasks."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import re
import weakref
from typing import Any

import pytest

from openmultiagent import ConfigurationError, ImageBlock, InvalidMessageError, LLMMessage, TextBlock
from openmultiagent.tasks import TaskCondition, TaskInput, TaskRequirements, TaskSpec, read_task_input, task_input_text
from tests.support import proves


@proves("TSK-1")
def test_a_task_needs_a_title_and_a_description() -> None:
    spec = TaskSpec("Read", "Read the file.")
    assert (spec.title, spec.description, spec.text, spec.content) == ("Read", *["Read the file."] * 3)
    assert (spec.id, spec.assignee, spec.depends_on, spec.metadata, spec.requires) == (None, None, (), None, None)
    assert (spec.memory_scope, spec.dependency_payload, spec.priority) == ("dependencies", "output", "normal")
    assert (spec.max_retries, spec.retry_delay, spec.retry_backoff) == (0, 1.0, 2.0)
    assert (spec.timeout, spec.max_token_budget, spec.max_cost_budget, spec.role) == (None,) * 4


@proves("TSK-1")
def test_a_mapping_is_as_good_and_stays_as_it_is() -> None:
    given: dict[str, Any] = {
        "title": "Read",
        "description": "d",
        "depends_on": ["A"],
        "retry_delay": 2,
        "requires": {"required_tools": ["grep"]},
        "metadata": {"team": ["a", "b"]},
        "run_if": {"field": "ok", "equals": True},
    }
    before = copy.deepcopy(given)
    spec = TaskSpec.of(given)
    assert given == before
    assert spec == TaskSpec(
        "Read",
        "d",
        depends_on=("A",),
        retry_delay=2.0,
        run_if=TaskCondition(field="ok", equals=True),
        requires=TaskRequirements(required_tools=("grep",)),
        metadata={"team": ("a", "b")},
    )
    given["depends_on"].append("B")
    given["requires"]["required_tools"].append("x")
    given["metadata"]["team"].append("c")
    assert spec.depends_on == ("A",)
    assert spec.requires is not None
    assert spec.requires.required_tools == ("grep",)
    assert dict(spec.metadata or {}) == {"team": ("a", "b")}
    assert TaskSpec.of(spec) is spec


@proves("TSK-1")
def test_a_specification_is_frozen() -> None:
    spec = TaskSpec("a", "b", metadata={"k": 1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.title = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        spec.metadata["k"] = 2  # type: ignore[index]
    assert spec.replace(title="other") == TaskSpec("other", "b", metadata={"k": 1})
    assert hash(spec) == hash(spec.replace(metadata=None))


NAN, INF = float("nan"), float("inf")
WRONG: dict[str, tuple[Any, ...]] = {
    "title": ("", " \n", None, 3, b"x", "\ud800"),
    "description": (None, 3, b"x", {"role": "user"}),
    "id": ("", " a", "a\n", 3, "n" * 129, b"x", "\ud800"),
    "assignee": ("", 3, "n" * 129),
    "depends_on": ("A", b"A", 3, [3], [""], ["\ud800"], {"A"}, None),
    "memory_scope": ("shared", None, ["all"]),
    "dependency_payload": ("text",),
    "metadata": ([], "k"),
    "max_retries": (-1, 1.0, True, "1", NAN, None),
    "retry_delay": (-0.1, NAN, INF, True, "1", b"1", None, 10**400),
    "retry_backoff": (0.99, NAN, INF, True),
    "timeout": (0, -1, NAN, INF, True, "1"),
    "max_token_budget": (0, 1.5, True),
    "max_cost_budget": (0, NAN, False),
    "role": ("", 3),
    "priority": ("urgent", None, 1),
    "requires": ("grep", 3, [("required_tools", ["grep"])]),
    "run_if": ("done", {}, {"contains": "x", "unless": "y"}),
}


@proves("TSK-2", "TSK-3")
@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named_with_its_place(field: str, value: object) -> None:
    fields = {"title": "t", "description": "d", field: value}
    with pytest.raises(ConfigurationError, match=rf"^tasks\[3\]\.{field}"):
        TaskSpec.of(fields, where="tasks[3]")
    with pytest.raises(ConfigurationError, match=rf"^TaskSpec\.{field}"):
        TaskSpec(**fields)  # type: ignore[arg-type]


@proves("TSK-3")
@pytest.mark.parametrize(
    ("field", "value"),
    [("max_retries", 0), ("retry_delay", 0), ("retry_backoff", 1), ("timeout", 0.001), ("max_token_budget", 1)],
)
def test_the_least_values(field: str, value: float) -> None:
    assert getattr(TaskSpec.of({"title": "t", "description": "d", field: value}), field) == value


@proves("TSK-2")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"title": "t", "description": "d", "dependsOn": []},
            "tasks[0] has no field 'dependsOn'; did you mean 'depends_on'?",
        ),
        (
            {"title": "t", "description": "d", "zzz": 1},
            "tasks[0] has no field 'zzz'; its fields are title, description, id",
        ),
        ({"title": "t", "description": "d", 3: 1}, "tasks[0] must be a mapping with field names as keys, got 3"),
        ({"title": "t"}, "tasks[0] lacks 'description'"),
        ({"description": "t"}, "tasks[0] lacks 'title'"),
        ("text", "tasks[0] must be a TaskSpec or a mapping with its fields, got str"),
        (
            {"title": "t", "description": "d", "requires": {"require_tools": []}},
            "tasks[0].requires has no field 'require_tools'; did you mean 'required_tools'?",
        ),
        (
            {"title": "t", "description": "d", "requires": {"required_backend": "cpu"}},
            "tasks[0].requires.required_backend must be one of llm, process, acp, got 'cpu'",
        ),
        (
            {"title": "t", "description": "d", "depends_on": ["a", 3]},
            "tasks[0].depends_on[1] must be a string with a visible character, got 3",
        ),
    ],
)
def test_a_wrong_key_is_told_with_the_one_that_was_meant(given: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(text)}"):
        TaskSpec.of(given, where="tasks[0]")


@proves("TSK-2")
def test_words_of_other_libraries_are_answered_with_ours() -> None:
    for word, ours in {
        "agent": "assignee",
        "context": "depends_on",
        "prompt": "description",
        "tools": "requires",
    }.items():
        with pytest.raises(ConfigurationError, match=rf"^TaskSpec has no field '{word}': .*{ours}"):
            TaskSpec("a", "b", **{word: "x"})  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=rf"^tasks\[1\] has no field '{word}': .*{ours}"):
            TaskSpec.of({"title": "a", "description": "b", word: "x"}, where="tasks[1]")


@proves("TSK-2")
def test_all_faults_are_told_at_once_and_no_value_that_may_be_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        TaskSpec.of({"title": ["secret"], "description": "d", "role": b"secret", "timeout": -1}, where="tasks[1]")
    assert str(caught.value) == (
        "tasks[1].title must be a string with a visible character, got list; "
        "tasks[1].timeout must be seconds above 0, got -1; "
        "tasks[1].role must be a string of 1 to 128 printable characters without spaces at its ends, got bytes"
    )


@proves("TSK-2")
def test_the_constructor_names_a_wrong_key_and_a_missing_field() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'depends_on'"):
        TaskSpec("a", "b", depend_on=["x"])  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="description"):
        TaskSpec("a")  # type: ignore[call-arg]


@proves("TSK-5")
def test_requirements() -> None:
    given = ["grep"]
    requires = TaskRequirements(required_tools=given, required_capabilities=["sql"], required_backend="acp")
    given.append("x")
    assert (requires.required_tools, requires.required_capabilities) == (("grep",), ("sql",))
    assert (requires.required_backend, requires.required_provider) == ("acp", None)
    assert requires.to_dict() == {
        "required_tools": ["grep"],
        "required_capabilities": ["sql"],
        "required_backend": "acp",
    }
    assert TaskRequirements.of(requires.to_dict()) == requires
    assert TaskRequirements.of(requires) is requires
    assert bool(requires)
    assert not TaskRequirements()
    assert TaskRequirements(required_provider="openai")
    with pytest.raises(ConfigurationError, match=r"^TaskRequirements\.required_tools must be a list of strings"):
        TaskRequirements(required_tools="grep")


# --- descriptions ----------------------------------------------------------------------------------------------------

IMAGE = ImageBlock.from_url("https://example.com/a.png")


@proves("TSK-4")
def test_a_description_of_blocks() -> None:
    blocks: list[Any] = [TextBlock.new("Look "), IMAGE, {"type": "text", "text": "here"}]
    spec = TaskSpec("t", blocks)
    blocks.clear()
    assert spec.text == "Look here"
    content = spec.content
    assert isinstance(content, TaskInput)
    [message] = content.messages()
    assert [block.type for block in message.content] == ["text", "image", "text"]
    message.content.clear()
    assert len(content.messages()[0].content) == 3


@proves("TSK-4")
def test_a_description_of_messages() -> None:
    first = LLMMessage.user("First")
    messages = [
        first,
        LLMMessage.assistant("Yes?"),
        {"role": "user", "content": [{"type": "text", "text": "Go"}, IMAGE]},
    ]
    spec = TaskSpec("t", messages)  # type: ignore[arg-type]  # a mapping like a message is as good
    first.content.clear()
    assert spec.text == "Go"
    content = spec.content
    assert isinstance(content, TaskInput)
    assert [message.role for message in content.messages()] == ["user", "assistant", "user"]
    assert content.messages()[0] == LLMMessage.user("First")
    sent = content.with_prompt("# Task")
    assert sent[:2] == content.messages()[:2]
    assert sent[2] == LLMMessage.user_with_blocks([TextBlock.new("# Task"), IMAGE])
    assert repr(content) == "TaskInput(3 messages, text='Go')"


@proves("TSK-4")
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([], "goal"),
        ([{"type": "text", "text": "a"}, LLMMessage.user("b")], "goal[1]"),
        ([LLMMessage.user("b"), TextBlock.new("a")], "goal[1]"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": 3}], "goal[1].text"),
        ([{"type": "tool_use", "id": "1", "name": "n", "input": {}}], "goal[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "goal[0].content[0].text"),
        ([LLMMessage.user("a"), LLMMessage.assistant("b")], "goal[1].role"),
        ([3], "goal[0]"),
        ("\ud800", "goal"),
    ],
)
def test_a_fault_in_a_description_is_told_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        read_task_input(value, "goal")
    assert caught.value.path == path
    assert caught.value.message.startswith(f"{path} ") or caught.value.message.startswith(f"{path}.role ")
    with pytest.raises(InvalidMessageError) as again:
        TaskSpec("t", value)
    assert again.value.path == path.replace("goal", "TaskSpec.description", 1)


@proves("TSK-4")
def test_a_read_description_is_read_as_it_is() -> None:
    content = read_task_input([TextBlock.new("a")], "goal")
    assert isinstance(content, TaskInput)
    assert read_task_input(content, "goal") is content
    assert (task_input_text(content), task_input_text("b")) == ("a", "b")
    assert copy.copy(content) is content
    assert copy.deepcopy(content) is content
    assert pickle.loads(pickle.dumps(content)) == content
    assert len({content, read_task_input([TextBlock.new("a")], "goal")}) == 1
    assert content != "a"


# --- metadata --------------------------------------------------------------------------------------------------------


@proves("TSK-6")
def test_metadata_is_kept_redacted() -> None:
    given: dict[str, Any] = {"Team.name": "x", "n": 1, "share": 0.5, "on": True, "ids": [1, 2], "e": []}
    given["note"] = f"key sk-{'a' * 24}"
    spec = TaskSpec("t", "d", metadata=given)
    assert dict(spec.metadata or {}) == {**given, "ids": (1, 2), "note": "key [redacted]", "e": ()}


@proves("TSK-6")
@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({f"k{index}": 1 for index in range(17)}, "at most 16 entries, got 17"),
        ({"1k": 1}, "a letter and up to 63"),
        ({"k" * 65: 1}, "a letter and up to 63"),
        ({3: 1}, "a letter and up to 63"),
        ({"OpenMultiAgent.x": 1}, "reserved"),
        ({"oma.x": 1}, "reserved"),
        ({"apiKey": "x"}, "credential-like"),
        ({"k": "x" * 1025}, r"metadata\['k'\] must be a string of at most 1024"),
        ({"k": "\ud800"}, "must be a string"),
        ({"k": None}, "must be a string"),
        ({"k": NAN}, "a finite number"),
        ({"k": 2**63}, "a finite number"),
        ({"k": [1, "a"]}, "of one type"),
        ({"k": [True, 1]}, "of one type"),
        ({"k": [[1]]}, r"metadata\['k'\]\[0\] must be"),
        ({"k": [1] * 17}, "at most 16 items, got 17"),
        ({"k": {"a": 1}}, "must be a string"),
    ],
)
def test_metadata_that_is_refused(metadata: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TaskSpec("t", "d", metadata=metadata)


# --- keeping ---------------------------------------------------------------------------------------------------------

FULL = TaskSpec(
    "Title",
    [TextBlock.new("a"), IMAGE],
    id="t1",
    assignee="w",
    depends_on=["x", "y"],
    memory_scope="all",
    dependency_payload="both",
    metadata={"k": ["a"], "n": 1},
    max_retries=2,
    retry_delay=0.5,
    retry_backoff=3,
    timeout=10,
    max_token_budget=100,
    max_cost_budget=1.5,
    role="reviewer",
    priority="high",
    requires=TaskRequirements(required_tools=["grep"], required_provider="openai"),
    run_if=TaskCondition(field="ok", equals=True),
)


@proves("TSK-7")
@pytest.mark.parametrize("spec", [FULL, TaskSpec("t", "d")], ids=["full", "bare"])
def test_a_specification_is_equal_to_what_its_json_is_read_as(spec: TaskSpec) -> None:
    record = json.loads(json.dumps(spec.to_dict(), allow_nan=False))
    assert TaskSpec.of(record) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) is spec
    assert copy.copy(spec) is spec


@proves("TSK-7")
def test_only_what_is_set_is_written() -> None:
    assert TaskSpec("t", "d").to_dict() == {"title": "t", "description": "d"}
    assert set(FULL.to_dict()) == {item.name for item in dataclasses.fields(TaskSpec) if item.init}


def test_reading_a_specification_keeps_no_class_alive() -> None:
    def read() -> weakref.ref[type]:
        class Own(TaskSpec):
            pass

        Own.of({"title": "t", "description": "d"})
        return weakref.ref(Own)

    kept = read()
    gc.collect()
    assert kept() is None

"""What coordinators are told, and how they are defined."""

import json
from typing import Any

import pytest

from openmultiagent import AgentConfig, ConfigurationError, ImageBlock, LLMMessage, ModelSettings, TextBlock, tool
from openmultiagent.orchestrator import CoordinatorConfig
from openmultiagent.orchestrator._plan import (
    as_coordinator_config,
    coordinator_agent,
    coordinator_prompt,
    decomposition_prompt,
    goal_input,
    roster_manifest,
    team_context,
)
from openmultiagent.tasks import read_task_input
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


@tool
def look(query: str) -> str:
    """Look something up."""
    return query


@tool
def send(text: str) -> str:
    """Send something."""
    return text


WRITER = AgentConfig(
    "writer", model="m", description=" Writes reports. ", tools=[look, send], disallowed_tools=["send"]
)
READER = AgentConfig("reader", system_prompt="You read.\nSECOND LINE", api_key="KEY", base_url="https://KEY.example")


def roster_of(prompt: str) -> Any:
    return json.loads(prompt.partition("## Team Roster\n\n")[2].partition("\n\n## Output Format")[0])


@proves("PLN-10")
def test_the_roster_says_what_agents_are_for_and_may_do() -> None:
    assert roster_manifest([WRITER, READER], default_model="d") == [
        {"name": "writer", "model": "m", "role_summary": "Writes reports.", "tools": ["look"]},
        {"name": "reader", "model": "d", "role_summary": "You read."},
    ]
    assert roster_manifest([AgentConfig("a")]) == [{"name": "a", "model": "unspecified"}]


@proves("PLN-10")
def test_the_roster_holds_no_secret_and_no_more_of_a_prompt_than_a_line() -> None:
    prompt = coordinator_prompt(CoordinatorConfig(), [WRITER, READER])
    assert roster_of(prompt) == roster_manifest([WRITER, READER])
    assert "SECOND LINE" not in prompt
    assert "KEY" not in prompt
    (entry,) = roster_manifest([AgentConfig("a", description="uses password: hunter2hunter2")])
    assert "hunter2" not in entry["role_summary"]


@proves("PLN-10")
def test_the_size_of_the_roster_does_not_depend_on_prompts() -> None:
    agents = [AgentConfig(f"agent-{i}", system_prompt="word " * 100_000, model="m" * 1_000) for i in range(10)]
    roster = roster_manifest(agents)
    assert {len(entry["role_summary"]) for entry in roster} == {140}
    assert {len(entry["model"]) for entry in roster} == {120}
    assert len(json.dumps(roster, indent=2)) < 5_000
    many = AgentConfig("a", tools=[tool(name=f"t{i}")(lambda: "x") for i in range(30)])
    assert len(roster_manifest([many])[0]["tools"]) == 24


@proves("PLN-10")
def test_capabilities_are_listed_where_agents_declare_them() -> None:
    declared = AgentConfig("a", capabilities=("law", " ", *map(str, range(30))), cost_tier="low")
    (entry,) = roster_manifest([declared])
    assert entry["capabilities"] == ["law", *map(str, range(19))]
    assert entry["cost_tier"] == "low"


SECTIONS = ["## Team Roster", "## Output Format", "## Dependency Guidance", "## When synthesising results"]


@proves("PLN-11")
def test_the_system_prompt_has_its_sections_in_order() -> None:
    prompt = coordinator_prompt(CoordinatorConfig(max_tasks=7, instructions="Use few tasks."), [WRITER])
    places = [prompt.index(section) for section in [*SECTIONS, "## Additional Instructions"]]
    assert places == sorted(places)
    assert prompt.startswith("You are the coordinator")
    assert prompt.endswith("\n\nUse few tasks.")
    assert "array of 1 to 7 objects" in prompt
    assert "name capabilities rather than tools" in prompt
    assert '"depends_on"' in prompt
    assert "verify" not in prompt


@proves("PLN-11")
def test_a_system_prompt_of_the_users_replaces_the_opening_alone() -> None:
    prompt = coordinator_prompt(CoordinatorConfig(system_prompt="Mine.", instructions="Ignored."), [WRITER])
    assert prompt.startswith("Mine.\n\n## Team Roster")
    assert all(section in prompt for section in SECTIONS)
    assert "Ignored." not in prompt
    assert "## Additional Instructions" not in prompt


@proves("PLN-11")
def test_the_request_names_team_goal_and_form() -> None:
    prompt = decomposition_prompt([WRITER, READER], "Write {it} up.")
    assert "the team: writer, reader." in prompt
    assert "## Goal\n\nWrite {it} up.\n\n" in prompt
    assert "JSON array" in prompt


@proves("PLN-14")
def test_a_goal_of_messages_keeps_its_media_and_what_was_said_before() -> None:
    image = ImageBlock.from_url("https://example.com/a.png")
    said = [LLMMessage.user("earlier"), LLMMessage.assistant("yes")]
    goal = read_task_input([*said, LLMMessage.user_with_blocks([TextBlock(text="Describe it."), image])], "goal")
    assert goal_input("Describe it.", "the prompt") == "the prompt"
    messages = goal_input(goal, "the prompt")
    assert messages[:2] == said
    assert messages[2:] == [LLMMessage.user_with_blocks([TextBlock(text="the prompt"), image])]


@proves("PLN-12")
def test_a_worker_can_be_told_of_the_team() -> None:
    assert team_context([WRITER, READER], WRITER, "Write it up.").split("\n")[:4] == [
        "## Team context",
        "Goal: Write it up.",
        "Team: writer, reader",
        "Your role in this team: Writes reports.",
    ]
    assert "Your role in this team: a\n" in team_context([AgentConfig("a")], AgentConfig("a"), "g")


@proves("PLN-13")
def test_the_coordinator_is_an_agent_with_what_its_config_says() -> None:
    adapter = ScriptedAdapter([])
    config = CoordinatorConfig(
        adapter=adapter,
        model="cheap",
        max_tokens=1234,
        settings={"temperature": 0},
        tools=[look, send],
        disallowed_tools=["send"],
        timeout=9,
    )
    agent = coordinator_agent(config, "You plan.", output_schema=int)
    assert (agent.name, agent.model, agent.adapter, agent.system_prompt) == (
        "coordinator",
        "cheap",
        adapter,
        "You plan.",
    )
    assert (agent.max_turns, agent.max_tokens, agent.timeout, agent.output_schema) == (3, 1234, 9, int)
    assert agent.settings == ModelSettings(temperature=0)
    assert [each.name for each in agent.grants.tools] == ["look"]
    assert coordinator_agent(CoordinatorConfig(), "").grants.tools == ()
    assert coordinator_agent(config, "You write.").output_schema is None


@proves("PLN-13")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"temperature": 0}, "settings"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_turns": 0}, "max_turns"),
        ({"timeout": -1}, "timeout"),
        ({"tools": ["nonsense"]}, "nonsense"),
        ({"adapter": "openai"}, "adapter must have a name"),
        ({"instruction": "x"}, "did you mean 'instructions'"),
        ({"tool_preset": "all"}, "preset"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        as_coordinator_config(fields)


@proves("PLN-13")
def test_a_config_may_be_a_mapping_and_hides_its_key() -> None:
    config = CoordinatorConfig(model="m", api_key="KEY")
    assert as_coordinator_config({"model": "m", "api_key": "KEY"}) == config == as_coordinator_config(config)
    assert as_coordinator_config(None) == CoordinatorConfig()
    assert "KEY" not in repr(config)
    assert "model='m'" in repr(config)
    with pytest.raises(
        ConfigurationError, match="coordinator must be a CoordinatorConfig or a mapping with its fields, got 'm'"
    ):
        as_coordinator_config("m")

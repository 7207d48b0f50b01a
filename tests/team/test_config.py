"""Definitions of teams: what is refused, where, and what a copy shares."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from openmultiagent import AgentConfig, ConfigurationError, InvalidMessageError, Team, TeamConfig
from openmultiagent.stores import InMemoryStore, RedactingStore
from openmultiagent.team import SharedMemory
from tests.support import proves


def config(*names: str, **fields: Any) -> TeamConfig:
    return TeamConfig("t", agents=[{"name": name, "model": "m"} for name in names], **fields)


@proves("TEM-1")
def test_agents_are_configs_or_mappings() -> None:
    given: list[AgentConfig[Any] | dict[str, Any]] = [
        AgentConfig("a", model="m"),
        {"name": "b", "model": "m", "system_prompt": "Be brief."},
    ]
    team = TeamConfig("t", agents=given)
    assert [agent.name for agent in team.roster] == ["a", "b"]
    assert team.agents[0] is team.roster[0] is given[0]
    assert team.roster[1].system_prompt == "Be brief."
    assert TeamConfig("empty", agents=[]).agents == ()
    with pytest.raises(AttributeError):
        team.name = "other"  # type: ignore[misc]  # that is the point


@proves("TEM-1")
def test_a_config_is_made_of_a_mapping() -> None:
    given = {"name": "t", "agents": [{"name": "a"}], "max_concurrency": 2}
    team = TeamConfig.of(given)
    assert (team.name, team.max_concurrency, [agent.name for agent in team.roster]) == ("t", 2, ["a"])
    assert TeamConfig.of(team) is team
    assert given == {"name": "t", "agents": [{"name": "a"}], "max_concurrency": 2}
    assert Team(given).config == team
    with pytest.raises(ConfigurationError, match="TeamConfig or a mapping"):
        TeamConfig.of(3)  # type: ignore[arg-type]  # that is the point


@proves("TEM-1")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"agent": []}, "no field 'agent'; did you mean 'agents'"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_concurrency": -1}, "max_concurrency"),
        ({"max_concurrency": 1.5}, "max_concurrency"),
        ({"max_concurrency": True}, "max_concurrency"),
        ({"memory_value_chars": 2}, "memory_value_chars"),
        ({"shared_memory": "yes"}, "shared_memory"),
        ({"agents": "ab"}, "team 't': agents must be a list"),
        ({"agents": None}, "team 't': agents must be a list"),
        ({"agents": {"a": {}}}, "team 't': agents must be a list"),
        ({"agents": [{"name": "a"}, 3]}, r"team 't': agents\[1\]: config must be an AgentConfig"),
        ({"agents": [{"name": "a"}, {"name": "b", "model": 3}]}, r"team 't': agents\[1\]: AgentConfig .*model"),
        ({"agents": [{"name": "a", "temperature": 1}]}, r"agents\[0\]: .*settings=ModelSettings"),
        ({"agents": [{}]}, r"agents\[0\]: .*name"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(fields: Mapping[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TeamConfig.of({"name": "t", "agents": [], **fields})


@proves("TEM-1")
def test_agents_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="agents"):
        TeamConfig("t")  # type: ignore[call-arg]  # that is the point


@proves("TEM-1")
def test_a_fault_in_a_history_is_told_with_its_path() -> None:
    agents = [{"name": "a"}, {"name": "b", "history": [{"role": "user", "content": [{"type": "text"}]}]}]
    with pytest.raises(InvalidMessageError, match=r"team 't': agents\[1\]\.history\[0\]\.content\[0\]") as caught:
        TeamConfig.of({"name": "t", "agents": agents})
    assert caught.value.path.startswith("team 't': agents[1].history[0].content[0]")


GOOD_NAMES = ["a", "Ü", "web researcher", "a.b-c_d", "研究员", "🤖", "x" * 128, "coordinator 2", "_a", "null", "a*"]
BAD_NAMES = [
    ("a:b", "must not contain ':'"),
    ("a/b", "must not contain '/'"),
    ("a\nb", r"must not contain '\\n'"),
    ("a\x00", "must not contain"),
    ("a\u202eb", r"must not contain '\\u202e'"),
    ("a\ud83d", r"must not contain '\\ud83d'"),
    (" a", "begin or end with a space"),
    ("a ", "begin or end with a space"),
    (" ", "begin or end with a space"),
    ("*", "stands for all agents"),
    ("__oma_checkpoint__", "begins with '__'"),
    ("x" * 128 + "y", "128"),
    ("", "name"),
]


@proves("TEM-2")
@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_are_good(name: str) -> None:
    assert TeamConfig(name, agents=[AgentConfig(name)]).roster[0].name == name


@proves("TEM-2")
@pytest.mark.parametrize(("name", "text"), BAD_NAMES)
def test_names_that_are_not(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TeamConfig(name, agents=[])
    with pytest.raises(ConfigurationError) as caught:
        TeamConfig.of({"name": "t", "agents": [{"name": "ok"}, {"name": name}]})
    assert "team 't': agents[1]" in str(caught.value)


@proves("TEM-2")
@pytest.mark.parametrize(
    "name", ["coordinator", "Coordinator", "semantic-router", "SEMANTIC-ROUTER", "\uff43oordinator"]
)
def test_reserved_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"agents\[0\]\.name .* is reserved"):
        config(name)
    assert TeamConfig(name, agents=[]).name == name


@proves("TEM-3")
@pytest.mark.parametrize(
    ("one", "other"), [("a", "a"), ("writer", "Writer"), ("STRASSE", "straße"), ("a1", "\uff41\uff11")]
)
def test_names_that_would_be_confused_are_refused_with_both_places(one: str, other: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config("x", one, "y", other)
    assert all(text in str(caught.value) for text in ("agents[1]", "agents[3]", repr(one), repr(other)))


@proves("TEM-4")
async def test_who_has_shared_memory() -> None:
    store = InMemoryStore()
    assert not config().has_shared_memory
    assert Team(config()).get_shared_memory() is None
    assert Team(config()).get_shared_memory_instance() is None
    for given in (config(shared_memory=False, shared_memory_store=store), config(shared_memory_store=store)):
        assert given.has_shared_memory
        assert Team(given).get_shared_memory() is store
    own = Team(config(shared_memory=True))
    assert isinstance(own.get_shared_memory(), InMemoryStore)
    memory = own.get_shared_memory_instance()
    assert isinstance(memory, SharedMemory)
    assert memory.get_store() is own.get_shared_memory()


class NoClear:
    get = set = list = delete = print


@proves("TEM-4")
@pytest.mark.parametrize("store", [None, object(), NoClear(), InMemoryStore])
def test_what_is_no_store_is_refused(store: Any) -> None:
    with pytest.raises(ConfigurationError, match="team 't': shared_memory_store must be a store"):
        config(shared_memory_store=store)
    with pytest.raises(ConfigurationError, match="SharedMemory store must be a store"):
        SharedMemory(store)


@proves("TEM-5")
async def test_a_copied_definition_uses_the_same_store() -> None:
    store = RedactingStore(InMemoryStore())
    shared = config("a", shared_memory_store=store, max_concurrency=3, memory_value_chars=9)
    for given in (shared, config("a", "b", shared_memory=True)):
        other = copy.deepcopy(given)
        assert other == given
        assert other.shared_memory_store is given.shared_memory_store
        assert other.agents[0] is not given.agents[0]
        assert copy.copy(given) == given


@proves("TEM-5")
async def test_a_copied_team_goes_its_own_way() -> None:
    team = Team(config("a", "b", shared_memory=True))
    heard: list[object] = []
    team.on("message", heard.append)
    team.send_message("user", "a", "one")
    memory = team.get_shared_memory_instance()
    assert memory is not None
    await memory.write("user", "k", 1)
    memory.advance_turn()
    other = copy.deepcopy(team)
    other.send_message("user", "a", "two")
    other_memory = other.get_shared_memory_instance()
    assert other_memory is not None
    await other_memory.write("user", "k", 2)
    assert [message.content for message in team.get_messages("a")] == ["one"]
    assert [message.content for message in other.get_messages("a")] == ["one", "two"]
    assert [entry.value for entry in await memory.list_all()] == [1]
    assert [entry.value for entry in await other_memory.list_all()] == [2]
    assert other_memory.get_turn_count() == 1
    assert len(heard) == 1
    assert copy.deepcopy(Team(config())).get_shared_memory() is None

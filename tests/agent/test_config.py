"""Definitions of agents."""

import copy
import dataclasses
from typing import Any

import pytest

from openmultiagent import Agent, AgentConfig, ConfigurationError, LLMMessage, ModelSettings, Tool, tool
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@proves("AGT-50")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"modle": "m"}, "did you mean 'model'"),
        ({"temperature": 0.5}, "settings=ModelSettings(temperature=...)"),
        ({"stop": ["x"]}, "settings"),
        ({"instructions": "x"}, "write system_prompt=..."),
        ({"model": 3}, "model"),
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": -1}, "max_turns"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"call_timeout": float("inf")}, "call_timeout"),
        ({"max_token_budget": 0}, "max_token_budget"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"before_run": "text"}, "before_run"),
        ({"adapter": object()}, "adapter"),
        ({"settings": {"temprature": 1}}, "temperature"),
        ({"settings": 3}, "settings must be a ModelSettings"),
        ({"model_middleware": ["text"]}, "model_middleware"),
        ({"tool_middleware": 3}, "tool_middleware"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text.replace("(", r"\(").replace(")", r"\)")):
        AgentConfig("x", **{"model": "m", **fields})


@proves("AGT-50")
@pytest.mark.parametrize("name", ["", None, 3, "n" * 129])
def test_a_name_is_needed(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        AgentConfig(name, model="m")


@proves("AGT-50")
def test_a_definition_is_frozen() -> None:
    config = AgentConfig("x", model="m")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.model = "n"  # type: ignore[misc]
    assert config.replace(model="n").model == "n"
    assert config.model == "m"


@proves("AGT-50")
def test_falsy_settings_are_settings() -> None:
    config = AgentConfig("x", model="m", settings=ModelSettings(temperature=0.0, seed=0, parallel_tool_calls=False))
    assert config.settings is not None
    assert (config.settings.temperature, config.settings.seed, config.settings.parallel_tool_calls) == (0.0, 0, False)


@proves("AGT-51")
def test_a_mapping_is_as_good_and_stays_as_it_is() -> None:
    fields = {"name": "x", "model": "m", "provider": "openai", "settings": {"temperature": 1}}
    before = copy.deepcopy(fields)
    assert Agent(fields).config == AgentConfig("x", model="m", provider="openai", settings=ModelSettings(temperature=1))
    assert fields == before


@proves("AGT-51")
@pytest.mark.parametrize("config", [None, "name", 3, {3: "x"}])
def test_anything_else_is_no_definition(config: Any) -> None:
    with pytest.raises(ConfigurationError):
        Agent(config)


@proves("AGT-52")
def test_a_model_and_a_known_provider_are_needed() -> None:
    with pytest.raises(ConfigurationError, match="no model"):
        Agent(AgentConfig("x", provider="openai"))
    with pytest.raises(ConfigurationError, match="Unsupported LLM provider: nobody"):
        Agent(AgentConfig("x", model="m", provider="nobody"))
    assert Agent(AgentConfig("x", adapter=ScriptedAdapter([]))).name == "x"
    assert Agent(AgentConfig("x", provider="embedded")).name == "x"


@proves("AGT-53")
def test_tools_are_tools_and_functions() -> None:
    def plain(text: str) -> str:
        """Repeat."""
        return text

    config = AgentConfig("x", model="m", tools=[add, plain], disallowed_tools=["add"])
    assert [item.name for item in config.granted_tools] == ["plain"]
    assert all(isinstance(item, Tool) for item in config.tools)


@proves("AGT-53")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tools": ["bash"]}, "'bash'"),
        ({"tools": [add, add]}, "two tools named 'add'"),
        ({"tools": [3]}, "3"),
        ({"tools": "add"}, "must be a list"),
        ({"tools": [add], "disallowed_tools": ["sub"]}, "'sub'"),
    ],
)
def test_tools_that_make_no_sense_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AgentConfig("x", model="m", **fields)


@proves("AGT-54")
async def test_copies_share_the_live_parts_only() -> None:
    adapter = ScriptedAdapter(["one", "two"])
    config = AgentConfig("x", adapter=adapter, tools=[add], history=[LLMMessage.user("a"), LLMMessage.assistant("b")])
    other = copy.deepcopy(config)
    assert other == config
    assert other.adapter is adapter
    assert other.history[0] is not config.history[0]
    first = Agent(config)
    await first.prompt("q")
    second = copy.deepcopy(first)
    assert second.get_history() == first.get_history()
    await second.prompt("r")
    assert len(first.get_history()) == 4
    assert len(second.get_history()) == 6
    assert adapter.calls[1].messages[-1] == LLMMessage.user("r")


@proves("AGT-50")
@pytest.mark.parametrize("field", ["system_prompt", "description", "name"])
def test_texts_that_no_provider_can_be_sent_are_refused(field: str) -> None:
    fields: dict[str, Any] = {"name": "x", "model": "m", field: "broken \ud83d"}
    with pytest.raises(ConfigurationError, match=r"surrogate|unicode"):
        AgentConfig(**fields)


@proves("AGT-52")
def test_an_unknown_provider_is_told_before_a_missing_model() -> None:
    with pytest.raises(ConfigurationError, match="nobody"):
        Agent(AgentConfig("x", provider="nobody"))


@proves("AGT-50")
@pytest.mark.parametrize("field", ["model", "provider", "base_url", "api_key", "region", "api"])
def test_an_empty_text_is_no_setting(field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        AgentConfig.of({"name": "x", "model": "m", field: ""})


@proves("STR-1")
@pytest.mark.parametrize("kind", [{}, {"type": "object"}, "", "City", 3])
def test_a_schema_is_no_type(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="output_schema must be a type"):
        AgentConfig("x", model="m", output_schema=kind)

"""Which model does which part of a run."""

from __future__ import annotations

from typing import Any

import pytest

from openmultiagent import AgentConfig, ConfigurationError, ModelSettings
from openmultiagent.tasks import (
    ModelRoute,
    ModelRoutingMatch,
    ModelRoutingPolicy,
    ModelRoutingRule,
    RoutablePhase,
    TaskRequirements,
    declared_provider,
    route_for,
    routed_provider,
    validate_task_requirements,
    with_route,
)
from openmultiagent.testing import ScriptedAdapter
from tests.support import proves
from tests.tasks.scheduling import Job, agent


def policy(*rules: tuple[dict[str, Any], str]) -> ModelRoutingPolicy:
    return ModelRoutingPolicy(
        [ModelRoutingRule(ModelRoutingMatch(**match), ModelRoute(model)) for match, model in rules]
    )


def model_for(rules: ModelRoutingPolicy | None, phase: RoutablePhase, **seen: Any) -> str | None:
    route = route_for(rules, phase=phase, agent=seen.pop("agent", "a"), **seen)
    return None if route is None else route.model


@proves("SCH-30")
def test_the_first_rule_that_matches_decides() -> None:
    rules = policy(
        ({"task_priority": "critical", "has_dependencies": True}, "premium"),
        ({"phase": "worker"}, "cheap"),
        ({}, "any"),
    )
    later = Job("t", priority="critical", depends_on=["s"])
    assert model_for(rules, "worker", task=later) == "premium"
    assert model_for(rules, "worker", task=Job("s", priority="critical")) == "cheap"
    assert model_for(rules, "synthesis") == "any"


@proves("SCH-30")
def test_nothing_changes_where_no_rule_matches() -> None:
    assert model_for(None, "worker") is None
    assert model_for(ModelRoutingPolicy(), "worker") is None
    assert model_for(policy(({"agent": "b"}, "x")), "worker") is None


@proves("SCH-31")
@pytest.mark.parametrize(
    ("match", "matching", "other"),
    [
        ({"phase": "delegated"}, {"phase": "delegated"}, {"phase": "worker"}),
        ({"agent": "a"}, {"agent": "a"}, {"agent": "b"}),
        ({"task_role": "review"}, {"task": Job("t", role="review")}, {"task": Job("t")}),
        ({"task_priority": "high"}, {"task": Job("t", priority="high")}, {"task": Job("t", priority="low")}),
        ({"task_priority": "normal"}, {"task": Job("t")}, {"task": Job("t", priority="high")}),
        ({"leaf": True}, {"task": Job("t"), "leaf": True}, {"task": Job("t"), "leaf": False}),
        ({"leaf": False}, {"task": Job("t"), "leaf": False}, {"task": Job("t"), "leaf": None}),
        ({"has_dependencies": False}, {"task": Job("t")}, {"task": Job("t", depends_on=["s"])}),
        ({"has_dependencies": True}, {"task": Job("t", depends_on=["s"])}, {"task": Job("t")}),
    ],
)
def test_each_field_matches_alone(match: dict[str, Any], matching: dict[str, Any], other: dict[str, Any]) -> None:
    rules = policy((match, "x"))
    assert model_for(rules, **{"phase": "worker", **matching}) == "x"
    assert model_for(rules, **{"phase": "worker", **other}) is None


@proves("SCH-31")
def test_everything_that_a_rule_asks_must_be_so() -> None:
    rules = policy(({"phase": "worker", "agent": "a", "leaf": True}, "x"))
    assert model_for(rules, "worker", task=Job("t"), leaf=True) == "x"
    assert model_for(rules, "worker", task=Job("t"), leaf=True, agent="b") is None
    assert model_for(rules, "delegated", task=Job("t"), leaf=True) is None


@proves("SCH-31")
@pytest.mark.parametrize("match", [{"leaf": False}, {"has_dependencies": False}, {"task_priority": "normal"}])
@pytest.mark.parametrize("phase", ["coordinator", "synthesis", "short-circuit"])
def test_what_is_asked_of_a_task_is_never_so_without_one(match: dict[str, Any], phase: RoutablePhase) -> None:
    rules = policy((match, "x"))
    assert model_for(rules, phase, task=Job("t"), leaf=False) is None
    assert model_for(rules, "worker") is None
    assert model_for(rules, "delegated", task=Job("t"), leaf=False) == "x"


@proves("SCH-32")
def test_a_routed_definition_is_a_new_one_with_the_fields_that_the_route_gives() -> None:
    config = agent("a", "Be brief", provider="openai", api_key="sk-1", settings=ModelSettings(temperature=0.5))
    routed = with_route(config, ModelRoute("small"))
    assert (config.model, routed.model) == ("m", "small")
    assert routed == config.replace(model="small")
    moved = with_route(config, ModelRoute("n", base_url="http://localhost:1/v1", api_key="k", region="eu"))
    assert (moved.provider, moved.base_url, moved.api_key, moved.region) == (
        "openai",
        "http://localhost:1/v1",
        "k",
        "eu",
    )


@proves("SCH-33")
def test_what_is_for_one_provider_does_not_go_to_another() -> None:
    config = agent(
        "a", provider="openai", api_key="sk-1", base_url="http://localhost:1/v1", region="eu", api="responses"
    )
    moved = with_route(config, ModelRoute("n", provider="gemini"))
    assert (moved.provider, moved.api_key, moved.base_url, moved.region, moved.api) == (
        "gemini",
        None,
        None,
        None,
        None,
    )
    kept = with_route(config, ModelRoute("n", provider="openai"))
    assert (kept.api_key, kept.base_url, kept.api) == ("sk-1", "http://localhost:1/v1", "responses")
    default = agent("a", api_key="k")
    assert with_route(default, ModelRoute("n", provider="anthropic")).api_key == "k"


@proves("SCH-33")
def test_an_adapter_stays_unless_the_route_names_a_provider() -> None:
    config = agent("a", adapter=ScriptedAdapter([]))
    assert with_route(config, ModelRoute("n")).adapter is config.adapter
    assert with_route(config, ModelRoute("n", provider="openai")).adapter is None


@proves("SCH-3", "SCH-32")
def test_requirements_hold_for_what_a_route_leads_to() -> None:
    rules = ModelRoutingPolicy([{"match": {"phase": "worker"}, "route": {"model": "n", "provider": "openai"}}])  # type: ignore[list-item]

    def provider_of(config: AgentConfig, task: Any) -> str | None:
        return routed_provider(config, route_for(rules, phase="worker", agent=config.name, task=task))

    tasks = [
        Job("1", requires=TaskRequirements(required_provider="anthropic")),
        Job("2", requires=TaskRequirements(required_provider="openai")),
    ]
    issues = validate_task_requirements(tasks, [agent("a")], provider_of=provider_of)
    assert [(issue.code, issue.task_id) for issue in issues] == [("NO_ELIGIBLE_AGENT", "1")]


@proves("SCH-32")
@pytest.mark.parametrize("route", [None, ModelRoute("n"), ModelRoute("n", provider="openai")])
@pytest.mark.parametrize("config", [agent("a"), agent("a", provider="gemini"), agent("a", adapter=ScriptedAdapter([]))])
def test_the_provider_of_a_route_is_that_of_the_routed_definition(
    route: ModelRoute | None, config: AgentConfig
) -> None:
    routed = config if route is None else with_route(config, route)
    assert routed_provider(config, route) == declared_provider(routed)


@proves("SCH-34")
def test_mappings_are_as_good() -> None:
    given: Any = [
        {"match": {"agent": "a"}, "route": {"model": "x", "fallback": [{"model": "y", "provider": "openai"}]}}
    ]
    made = ModelRoutingPolicy(given)
    assert made == ModelRoutingPolicy(
        [ModelRoutingRule(ModelRoutingMatch(agent="a"), ModelRoute("x", fallback=[ModelRoute("y", provider="openai")]))]
    )
    given.clear()
    assert [item.model for item in made.rules[0].route.routes] == ["x", "y"]


@proves("SCH-34")
@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("x", r"rules must be a list, got 'x'"),
        ([3], r"rules\[0\] must be a ModelRoutingRule or a mapping with its fields, got 3"),
        ([{"match": {}}], "ModelRoutingRule is invalid: route"),
        ([{"match": 3, "route": {"model": "x"}}], "match must be a ModelRoutingMatch or a mapping"),
        ([{"match": {}, "route": {}}], "ModelRoute is invalid: model"),
        ([{"match": {"phases": "worker"}, "route": {"model": "x"}}], "did you mean 'phase'"),
        ([{"match": {"phase": "workers"}, "route": {"model": "x"}}], "phase"),
        ([{"match": {}, "route": {"model": ""}}], "model"),
        ([{"match": {}, "route": {"model": "x", "fallback": {"model": "y"}}}], "fallback must be a list"),
        (
            [{"match": {}, "route": {"model": "x", "fallback": [{"model": "y", "fallback": [{"model": "z"}]}]}}],
            "one list",
        ),
    ],
)
def test_a_wrong_policy_is_refused(rules: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ModelRoutingPolicy(rules)


@proves("SCH-34")
def test_the_key_of_a_route_is_not_shown() -> None:
    assert "secret" not in repr(
        ModelRoutingPolicy([ModelRoutingRule(ModelRoutingMatch(), ModelRoute("x", api_key="secret"))])
    )

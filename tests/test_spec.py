"""Specifications: checked when they are made, and errors that say what to write instead."""

import copy
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, FrozenInstanceError, field, replace
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field

from openmultiagent import AgentConfig, OpenMultiAgent
from openmultiagent._spec import from_mapping, spec
from openmultiagent.adapters import EmbeddedAdapter, ModelSettings, ThinkingConfig
from openmultiagent.budget import Limits
from openmultiagent.errors import ConfigurationError, InvalidMessageError
from openmultiagent.evaluation import OnlineEvaluation, scorer
from openmultiagent.tracing import TraceContent
from tests.support import proves


@spec
class Drink:
    name: str
    litres: float = 0.5


@spec
class Recipe:
    __unknown_fields__: ClassVar[dict[str, str]] = {"heat": "write temperature=... in degrees"}

    name: Annotated[str, Field(min_length=1)]
    _: KW_ONLY
    temperature: Annotated[float, Field(gt=0)] | None = None
    steps: tuple[str, ...] = ()
    portions: Annotated[int, Field(ge=1)] = 1
    amounts: Mapping[str, float] | None = None
    is_hot: bool = True
    goes_with: Drink | None = None
    hook: Callable[..., object] | None = None
    secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.name == "poison":
            raise ConfigurationError("no poison, please")
        if self.name == "message":
            raise InvalidMessageError("is no message", path="messages[0]")
        if self.name == "bug":
            raise ValueError("something is wrong with it")


class Anything:
    """A type that pydantic does not know."""


@spec
class Holder:
    item: Anything


@proves("RUN-30")
def test_a_specification_is_a_frozen_value() -> None:
    recipe = Recipe("soup", temperature=90, steps=("cut", "boil"))
    assert recipe == Recipe("soup", temperature=90.0, steps=["cut", "boil"])  # type: ignore[arg-type]
    assert hash(recipe) == hash(replace(recipe))
    with pytest.raises(FrozenInstanceError):
        recipe.name = "stew"  # type: ignore[misc]
    assert replace(recipe, temperature=0.5).temperature == 0.5
    assert copy.deepcopy(recipe) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe


@proves("RUN-30")
def test_what_is_kept_out_of_the_repr_stays_out() -> None:
    assert "hidden" not in repr(Recipe("soup", secret="hidden"))


@proves("RUN-31")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "name: Field required"),
        ({"name": ""}, "name: "),
        ({"name": None}, "name: "),
        ({"name": "x", "temperature": 0}, "temperature: "),
        ({"name": "x", "temperature": math.nan}, "temperature: "),
        ({"name": "x", "temperature": math.inf}, "temperature: "),
        ({"name": "x", "steps": "cut"}, "steps: "),
        ({"name": "x", "steps": ["cut", 1]}, "steps.1: "),
        ({"name": "x", "hook": 1}, "hook: "),
    ],
)
def test_a_wrong_value_is_told_with_class_and_field(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Recipe(**arguments)
    assert str(caught.value).startswith(f"Recipe is invalid: {expected}")
    assert caught.value.__cause__ is None
    with pytest.raises(ConfigurationError, match="Recipe is invalid"):
        from_mapping(Recipe, arguments)


@proves("RUN-31")
def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"name: .*; temperature: "):
        Recipe("", temperature=-1)


@proves("RUN-31")
def test_values_are_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Recipe("x", secret=["hunter2"])  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


@proves("RUN-35")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": b"x"}, "name: "),
        ({"name": bytearray(b"x")}, "name: "),
        ({"temperature": True}, "temperature: "),
        ({"temperature": "90"}, "temperature: "),
        ({"portions": True}, "portions: "),
        ({"portions": 2.0}, "portions: "),
        ({"portions": "2"}, "portions: "),
        ({"is_hot": 1}, "is_hot: "),
        ({"is_hot": "yes"}, "is_hot: "),
        ({"steps": [b"cut"]}, "steps.0: "),
        ({"amounts": {"salt": True}}, "amounts.salt: "),
        ({"amounts": {b"salt": 1}}, "amounts"),
        ({"goes_with": {"name": b"tea"}}, "goes_with.name: "),
        ({"goes_with": {"name": "tea", "litres": True}}, "goes_with.litres: "),
    ],
)
def test_nothing_is_taken_for_something_else(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match="Recipe is invalid") as caught:
        Recipe(**{"name": "soup", **arguments})
    assert f": {expected}" in str(caught.value)


@proves("RUN-35")
def test_what_stands_for_itself_is_taken() -> None:
    class Word(str):
        __slots__ = ()

    recipe = Recipe(Word("soup"), temperature=90, amounts={"salt": 1}, goes_with={"name": "tea", "litres": 1})  # type: ignore[arg-type]
    assert type(recipe.name) is str
    assert (recipe.temperature, recipe.amounts, recipe.goes_with) == (90.0, {"salt": 1.0}, Drink("tea", 1.0))


@proves("RUN-35")
@pytest.mark.parametrize(
    ("make", "field_name"),
    [
        (lambda: AgentConfig(b"x"), "name"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", model=b"m"), "model"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", system_prompt=b"m"), "system_prompt"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", api_key=b"m"), "api_key"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", max_turns=True), "max_turns"),
        (lambda: AgentConfig("x", timeout=True), "timeout"),
        (lambda: AgentConfig("x", call_timeout="5"), "call_timeout"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", disallowed_tools=[b"a"]), "disallowed_tools"),  # type: ignore[list-item]
        (lambda: AgentConfig("x", settings={"temperature": True}), "temperature"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", loop_detection={"max_repetitions": True}), "max_repetitions"),  # type: ignore[arg-type]
        (lambda: AgentConfig("x", context_strategy={"type": "sliding-window", "max_turns": True}), "max_turns"),  # type: ignore[arg-type]
        (lambda: ModelSettings(stop=(b"x",)), "stop"),  # type: ignore[arg-type]
        (lambda: ModelSettings(parallel_tool_calls=1), "parallel_tool_calls"),  # type: ignore[arg-type]
        (lambda: ModelSettings(seed=True), "seed"),
        (lambda: ThinkingConfig(budget_tokens=True), "budget_tokens"),
        (lambda: Limits(tokens=True), "tokens"),
        (lambda: Limits(seconds=True), "seconds"),
        (lambda: OnlineEvaluation([len], sample=True), "sample"),
        (lambda: OnlineEvaluation([len], max_queue=True), "max_queue"),
        (lambda: TraceContent(max_chars=512.0), "max_chars"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(default_model=b"m"), "default_model"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(default_provider=""), "default_provider"),
        (lambda: OpenMultiAgent(max_token_budget=True), "tokens"),
        (lambda: OpenMultiAgent(default_adapter=5), "default_adapter must be an adapter"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(estimate_cost=5), "estimate_cost must be a function"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(tracer_provider=5), "tracer_provider must be"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(default_adapter=EmbeddedAdapter), "default_adapter must be an adapter or None"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(meter_provider="otel"), "meter_provider must be"),  # type: ignore[arg-type]
        (lambda: OpenMultiAgent(default_tool_preset=[]), "tool preset"),  # type: ignore[arg-type]
        (lambda: scorer(timeout=True), "timeout"),
        (lambda: scorer(timeout="5"), "timeout"),  # type: ignore[call-overload]
    ],
)
def test_the_field_is_named_everywhere(make: Callable[[], object], field_name: str) -> None:
    with pytest.raises(ConfigurationError, match=field_name):
        make()


@proves("RUN-31")
def test_too_many_positional_arguments_are_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="Recipe is invalid"):
        Recipe("soup", 90)  # type: ignore[call-arg]


@proves("RUN-32")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("temprature", "Recipe has no field 'temprature'; did you mean 'temperature'?"),
        (
            "zzz",
            (
                "Recipe has no field 'zzz'; its fields are name, temperature, steps, portions, "
                "amounts, is_hot, goes_with, hook, secret"
            ),
        ),
        ("heat", "Recipe has no field 'heat': write temperature=... in degrees"),
    ],
)
def test_an_unknown_field_is_told_with_what_to_write_instead(key: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as constructed:
        Recipe("soup", **{key: 1})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as mapped:
        from_mapping(Recipe, {"name": "soup", key: 1})
    assert str(constructed.value) == str(mapped.value) == expected


@proves("RUN-32")
@pytest.mark.parametrize("key", [1, None, ("name",)])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(ConfigurationError, match="Recipe: keys must be field names"):
        from_mapping(Recipe, {"name": "soup", key: 1})


@proves("RUN-30")
def test_a_mapping_is_left_as_it_is() -> None:
    given = {"name": "soup", "steps": ["cut"]}
    assert from_mapping(Recipe, given) == Recipe("soup", steps=("cut",))
    assert given == {"name": "soup", "steps": ["cut"]}


@proves("RUN-31")
def test_errors_of_the_library_inside_a_check_are_passed_on_as_they_are() -> None:
    with pytest.raises(ConfigurationError, match=r"^no poison, please$"):
        Recipe("poison")
    with pytest.raises(InvalidMessageError) as caught:
        Recipe("message")
    assert caught.value.path == "messages[0]"


@proves("RUN-31")
def test_other_errors_inside_a_check_are_configuration_errors() -> None:
    with pytest.raises(ConfigurationError, match=r"Recipe is invalid: .*something is wrong with it"):
        Recipe("bug")


@proves("RUN-30")
def test_objects_of_any_class_are_kept_by_identity() -> None:
    item = Anything()
    assert Holder(item).item is item
    with pytest.raises(ConfigurationError, match="Holder is invalid: item"):
        Holder(object())  # type: ignore[arg-type]


@proves("RUN-33")
def test_zero_and_false_are_settings() -> None:
    settings = ModelSettings(temperature=0, top_p=0.0, seed=0, parallel_tool_calls=False, stop=(), extra_body={})
    assert (settings.temperature, settings.top_p, settings.seed) == (0.0, 0.0, 0)
    assert settings.parallel_tool_calls is False
    assert settings.stop == ()
    assert settings.extra_body == {}
    assert ModelSettings().temperature is None


@proves("RUN-33")
@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": math.nan},
        {"top_p": math.inf},
        {"stop": "END"},
        {"seed": 1.5},
        {"thinking": {"budget_tokens": 0}},
        {"thinking": {"effort": "enormous"}},
        {"temprature": 1},
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ModelSettings(**arguments)


@proves("RUN-33")
def test_thinking_may_be_written_as_a_mapping() -> None:
    thinking: Any = {"effort": "high"}
    assert ModelSettings(thinking=thinking).thinking == ThinkingConfig(effort="high")


@proves("RUN-34")
def test_extra_body_is_a_copy_of_what_was_given() -> None:
    given: dict[str, Any] = {"provider": {"order": ["a"]}, "text": "äöü 😀 \x00"}
    settings = ModelSettings(extra_body=given)
    assert settings.extra_body == given
    given["provider"]["order"].append("b")
    assert settings.extra_body == {"provider": {"order": ["a"]}, "text": "äöü 😀 \x00"}


def cyclic() -> dict[str, Any]:
    body: dict[str, Any] = {}
    body["self"] = body
    return body


def deep() -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(100_000):
        body = {"x": body}
    return body


@proves("RUN-34")
@pytest.mark.parametrize(
    "body",
    [{"x": math.nan}, {"x": object()}, {"x": {1}}, {"x": "\ud800"}, {("a",): 1}, cyclic(), deep()],
    ids=["nan", "object", "set", "surrogate", "key", "cycle", "depth"],
)
def test_extra_body_that_is_no_json_data_is_refused(body: Any) -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        ModelSettings(extra_body=body)

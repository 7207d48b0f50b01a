"""The coordinator as the user defines it, and as an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar

from pydantic import Field, SkipValidation

from ..._spec import as_spec, spec
from ...adapters import LLMAdapter, ModelSettings
from ...agent import AgentConfig, LoopDetection
from ...tools import GivenTool
from ._reading import DEFAULT_MAX_TASKS

__all__ = ["COORDINATOR", "CoordinatorConfig", "as_coordinator_config", "coordinator_agent"]

COORDINATOR = "coordinator"
"""Name of the coordinator, in events, spans and results."""

_OWN = ("instructions", "max_tasks", "system_prompt")
"""Fields that are not simply those of an ``AgentConfig``."""

Seconds = Annotated[float, Field(gt=0)]
PositiveInt = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


@spec
class CoordinatorConfig:
    """Who makes the plans of teams and writes their answers; None leaves a field to the orchestrator's defaults.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    __unknown_fields__: ClassVar[dict[str, str]] = AgentConfig.__unknown_fields__

    _: KW_ONLY
    model: Text | None = None
    """Model name, as the provider knows it."""
    provider: Text | None = None
    """Key of the provider."""
    adapter: SkipValidation[LLMAdapter | None] = None
    """An adapter to use as it is; it stays its giver's, who closes it."""
    base_url: Text | None = None
    """Another server that speaks the provider's protocol."""
    api_key: Text | None = None
    """The provider's key; its environment variable unless given."""
    region: Text | None = None
    """Region of the provider, for ``bedrock``."""
    system_prompt: str | None = None
    """In place of the opening of the system prompt; roster, output format and guidance still follow."""
    instructions: str | None = None
    """Added at the end of the system prompt; not used together with ``system_prompt``."""
    max_tasks: PositiveInt = DEFAULT_MAX_TASKS
    """The most tasks that a plan may have."""
    max_turns: PositiveInt = 3
    """The most model calls for a plan, and for an answer."""
    max_tokens: PositiveInt | None = None
    """The most tokens that a plan or an answer may have."""
    settings: SkipValidation[ModelSettings | Mapping[str, Any] | None] = None
    """Sampling and provider settings."""
    tools: SkipValidation[Sequence[GivenTool | Callable[..., object]]] = ()
    """What it may call; nothing unless given."""
    tool_preset: str | None = None
    """A group of built-in tools that it may call, besides ``tools``."""
    disallowed_tools: Sequence[str] = ()
    """Names of tools that are taken away again."""
    on_tool_call: Callable[..., object] | None = None
    """The gate, asked before each of its tool calls; the orchestrator's unless given."""
    loop_detection: SkipValidation[LoopDetection | None] = None
    """What happens when it repeats itself; None looks for nothing."""
    timeout: Seconds | None = None
    """Seconds for a plan, and for an answer; None is no limit."""
    call_timeout: Seconds | None = 600.0
    """Seconds for each model call; None is no limit."""

    def __post_init__(self) -> None:
        coordinator_agent(self, "")  # what is wrong with the agent's fields shows now

    def __repr__(self) -> str:
        shown = {name: value for name, value in vars(self).items() if name != "api_key" and value not in (None, ())}
        return f"CoordinatorConfig({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def as_coordinator_config(value: object) -> CoordinatorConfig:
    """Return what was given as ``coordinator=``.

    Args:
        value: The config, a mapping with its fields, or None for the defaults.

    Raises:
        ConfigurationError: It is none of these, or a field makes no sense.
    """
    return CoordinatorConfig() if value is None else as_spec(CoordinatorConfig, value, where="coordinator")


def coordinator_agent(config: CoordinatorConfig, system_prompt: str, *, output_schema: Any = None) -> AgentConfig:
    """Return the coordinator as an agent: with ``plan_schema(...)`` for a plan, without a schema for an answer.

    A plan that is not valid is given back to it once.

    Args:
        config: Its definition.
        system_prompt: From ``coordinator_prompt``.
        output_schema: What the answer has to be.

    Raises:
        ConfigurationError: A field makes no sense.
    """
    fields = {name: value for name, value in vars(config).items() if name not in _OWN}
    return AgentConfig(COORDINATOR, system_prompt=system_prompt, output_schema=output_schema, **fields)

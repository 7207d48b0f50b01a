"""What an agent is made of, as the user writes it down."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field, fields, replace
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, ClassVar, Generic, Self

from pydantic import Field, SkipValidation, TypeAdapter
from typing_extensions import TypeVar

from .._shown import shown
from .._spec import as_spec, from_mapping, spec
from ..adapters import LLMAdapter, ModelMiddleware, ModelSettings
from ..egress import EgressPolicy, normalize_egress_policy
from ..errors import ConfigurationError
from ..messages import LLMMessage, coerce_messages
from ..tools import GivenTool, Grants, Tool, ToolMiddleware, as_given_tools
from ._context import ContextStrategy, ToolResultCompression, as_context_strategy, as_tool_result_compression
from ._loops import LoopDetection, as_loop_detection
from ._structured import output_format
from ._wrap_up import WrapUp, as_wrap_up

__all__ = ["AgentConfig"]

T = TypeVar("T", default=Any)

Seconds = Annotated[float, Field(gt=0)]
_TEXTS = ("name", "model", "provider", "base_url", "api_key", "region", "api", "system_prompt", "description")

Text = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(ge=1)]


@spec
class AgentConfig(Generic[T]):
    """The definition of an agent: frozen, checked when it is made, good for any number of runs.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
        InvalidMessageError: ``history`` holds something that is no message.
    """

    __unknown_fields__: ClassVar[dict[str, str]] = {
        item.name: f"it is a model setting; write settings=ModelSettings({item.name}=...)"
        for item in fields(ModelSettings)
    } | {"instructions": "what an agent is told is its system_prompt; write system_prompt=..."}

    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the agent, in events, spans and errors."""
    _: KW_ONLY
    model: Text | None = None
    """Model name, as the provider knows it; not needed with ``adapter`` or the provider ``embedded``."""
    provider: Text | None = None
    """Key of the provider; else the orchestrator's default, else ``anthropic``. Never guessed from the model."""
    adapter: SkipValidation[LLMAdapter | None] = None
    """An adapter to use as it is; it stays its giver's, who closes it."""
    base_url: Text | None = None
    """Another server that speaks the provider's protocol."""
    api_key: Text | None = field(default=None, repr=False)
    """The provider's key; its environment variable unless given."""
    region: Text | None = None
    """Region of the provider, for ``bedrock``."""
    api: Text | None = None
    """Protocol of the provider, for ``openai``: ``chat`` (the default) or ``responses``."""
    egress_policy: SkipValidation[EgressPolicy | None] = None
    """Which addresses the provider may be reached at; the orchestrator's and the run's hold as well."""
    system_prompt: str | None = None
    """What the agent is told before every conversation."""
    description: str | None = None
    """One sentence on what the agent is for, for the rosters of teams."""
    capabilities: Sequence[Text] = ()
    """What the agent declares that it can do, for tasks that require it; never inferred from its texts."""
    cost_tier: Text | None = None
    """How dear the agent is, in a word of yours, for routers and coordinators."""
    latency_class: Text | None = None
    """How quick the agent is, in a word of yours, for routers."""
    permission_boundary: Text | None = None
    """Name of the rights that it acts with; where those of a team differ, routing may ask for a declaration."""
    history: SkipValidation[Sequence[LLMMessage | Mapping[str, Any]]] = field(default=(), repr=False)
    """Earlier turns that ``Agent.prompt`` goes on from: messages or message-shaped mappings."""
    tools: SkipValidation[Sequence[GivenTool | Callable[..., object]]] = ()
    """What the agent may call: ``Tool`` objects, typed functions, toolsets, and names of built-in tools."""
    tool_preset: str | None = None
    """A group of built-in tools that the agent may call, besides ``tools``."""
    disallowed_tools: Sequence[str] = ()
    """Names of tools that are taken away again."""
    settings: SkipValidation[ModelSettings | None] = None
    """Sampling and provider settings."""
    output_schema: SkipValidation[type[T] | TypeAdapter[T] | UnionType | None] = None
    """What the answer has to be: any type that pydantic can describe, or a ``TypeAdapter``; see ``structured``."""
    max_output_corrections: Annotated[int, Field(ge=0)] = 1
    """How often an answer that does not match ``output_schema`` is given back to the model to be corrected."""
    max_turns: PositiveInt = 50
    """The most model calls in a run."""
    max_tokens: PositiveInt | None = None
    """The most tokens that one answer may have."""
    max_token_budget: PositiveInt | None = None
    """The most tokens, in and out, that a run may use."""
    timeout: Seconds | None = None
    """Seconds for a whole run; None is no limit."""
    call_timeout: Seconds | None = 600.0
    """Seconds for each model call; None is no limit."""
    context_strategy: SkipValidation[ContextStrategy | None] = None
    """What of a long conversation is sent; None sends all of it. A mapping with ``type`` is as good."""
    compress_tool_results: SkipValidation[ToolResultCompression | None] = None
    """Whether old tool results are sent as a short note; True uses the defaults."""
    loop_detection: SkipValidation[LoopDetection | None] = None
    """What happens when the agent repeats itself; None looks for nothing."""
    wrap_up: SkipValidation[WrapUp | bool | None] = None
    """Whether a run that is about to reach a limit gets one last turn, without tools; True uses the defaults."""
    before_run: Callable[..., object] | None = None
    """Called with a ``BeforeRunContext`` before each run; may rewrite what this run sends."""
    on_tool_call: Callable[..., object] | None = None
    """The gate, asked before each tool call with a ``ToolCallContext``; the orchestrator's unless given."""
    after_run: Callable[..., object] | None = None
    """Called with the ``AgentRunResult`` of each run that got an answer; may return another."""
    model_middleware: SkipValidation[Sequence[ModelMiddleware]] = ()
    """Advice around this agent's model calls, inside the orchestrator's."""
    tool_middleware: SkipValidation[Sequence[ToolMiddleware]] = ()
    """Advice around this agent's tool calls, inside the orchestrator's."""
    max_parallel_tools: PositiveInt = 16
    """The most tool calls of a run at a time; further ones of a turn wait."""
    max_tool_output_chars: PositiveInt | None = None
    """The most characters that the model gets of a tool's text, for tools that have no limit of their own."""

    def __post_init__(self) -> None:
        for name in _TEXTS:
            _check_text(self.name, name, getattr(self, name))
        if self.adapter is not None:
            _check_adapter(self.name, self.adapter)
        if self.output_schema is not None:
            output_format(self.output_schema)
        own = {
            "history": () if self.history == () else tuple(coerce_messages(self.history, root="history")),
            "tools": as_given_tools(self.name, _sequence(self.name, "tools", self.tools)),
            "disallowed_tools": tuple(self.disallowed_tools),
            "capabilities": tuple(self.capabilities),
            "context_strategy": as_context_strategy(self.context_strategy, where=f"agent {self.name!r}"),
            "compress_tool_results": as_tool_result_compression(
                self.compress_tool_results, where=f"agent {self.name!r}"
            ),
            "wrap_up": as_wrap_up(self.wrap_up, agent=self.name),
            "loop_detection": as_loop_detection(self.loop_detection),
            "egress_policy": normalize_egress_policy(self.egress_policy),
            "settings": _as_settings(self.name, self.settings),
            "model_middleware": _callables(self.name, "model_middleware", self.model_middleware),
            "tool_middleware": _callables(self.name, "tool_middleware", self.tool_middleware),
        }
        for key, value in own.items():
            object.__setattr__(self, key, value)
        _ = self.grants  # what is wrong with the names shows now

    @classmethod
    def of(cls, config: AgentConfig[T] | Mapping[str, Any]) -> AgentConfig[T]:
        """Return the config itself, or one made from a mapping with its fields.

        Args:
            config: A config or a mapping; the mapping is left as it is.

        Raises:
            ConfigurationError: It is neither, or a field is wrong.
        """
        return as_spec(AgentConfig, config, where="config")

    @property
    def granted_tools(self) -> tuple[Tool, ...]:
        """The tools that the model is offered, without those of toolsets."""
        return self.grants.tools

    @cached_property
    def grants(self) -> Grants:
        """What the model is offered: the tools that are granted, and the toolsets that further ones come from."""
        given = as_given_tools(self.name, self.tools)
        return Grants(self.name, given, preset=self.tool_preset, denied=self.disallowed_tools)

    def replace(self, **changes: Any) -> Self:
        """Return the config with some fields changed.

        Args:
            changes: Field values by name.
        """
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        # What runs have kept here to be quicker belongs to no copy: it may refer to an orchestrator's live handles.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __deepcopy__(self, memo: dict[int, Any]) -> AgentConfig[T]:
        # Adapters, hooks and tools are live handles: a copied definition uses the same ones.
        shared = {
            "adapter",
            "after_run",
            "before_run",
            "compress_tool_results",
            "context_strategy",
            "loop_detection",
            "model_middleware",
            "on_tool_call",
            "output_schema",
            "tool_middleware",
            "tools",
        }
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return AgentConfig(**{k: v if k in shared else copy.deepcopy(v, memo) for k, v in values.items()})


def _check_text(agent: str, field_name: str, text: str | None) -> None:
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"agent {agent!r}: {field_name} has a lone surrogate at position {error.start}, "
            "which no provider can be sent"
        ) from None


def _check_adapter(name: str, adapter: object) -> None:
    if not isinstance(getattr(adapter, "name", None), str) or not callable(getattr(adapter, "chat", None)):
        raise ConfigurationError(
            f"agent {name!r}: adapter must have a name and an async chat(messages, options), got {shown(adapter)}"
        )


def _as_settings(name: str, settings: object) -> ModelSettings | None:
    if settings is None or isinstance(settings, ModelSettings):
        return settings
    if isinstance(settings, Mapping):
        return from_mapping(ModelSettings, settings)
    raise ConfigurationError(f"agent {name!r}: settings must be a ModelSettings or a mapping, got {shown(settings)}")


def _sequence(name: str, what: str, items: object) -> Sequence[object]:
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise ConfigurationError(f"agent {name!r}: {what} must be a list, got {shown(items)}")
    return items


def _callables(name: str, what: str, items: Sequence[object]) -> tuple[object, ...]:
    for item in _sequence(name, what, items):
        if not callable(item):
            raise ConfigurationError(
                f"agent {name!r}: {what} takes async callables (call, call_next), got {shown(item)}"
            )
    return tuple(items)

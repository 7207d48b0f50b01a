"""How a model should answer: sampling, reasoning and provider extras, as the user writes them down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from pydantic import Field

from .._spec import spec
from ..errors import ConfigurationError

__all__ = ["ModelSettings", "ReasoningCompression", "ThinkingConfig"]


@spec
class ThinkingConfig:
    """Whether and how long the model reasons before it answers."""

    _: KW_ONLY
    enabled: bool = True
    """Whether it reasons at all."""
    mode: Literal["budget", "adaptive"] = "budget"
    """Who decides how long to reason, where the provider has both: ``budget_tokens``, or the model itself."""
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens to reason with, for providers that take a number."""
    effort: Literal["low", "medium", "high", "max"] | None = None
    """How hard to reason, for providers that take a word."""


@spec
class ReasoningCompression:
    """How much of a reasoning text is kept when it is sent as text."""

    _: KW_ONLY
    min_chars: Annotated[int, Field(ge=1)] = 1_200
    """Characters that a text may have uncut; a longer one is cut to that many."""


@spec
class ModelSettings:
    """Sampling and provider settings; None leaves the provider's own default.

    Numbers are sent as they are: what a provider accepts is its business. NaN and infinity alone are refused.
    """

    _: KW_ONLY
    temperature: float | None = None
    """How much chance there is in the choice of words."""
    top_p: float | None = None
    """The share of the likeliest words that are chosen from."""
    top_k: int | None = None
    """The number of the likeliest words that are chosen from."""
    min_p: float | None = None
    """How likely a word must be, compared with the likeliest."""
    frequency_penalty: float | None = None
    """How much less likely a word gets each time that it occurs."""
    presence_penalty: float | None = None
    """How much less likely a word gets once it has occurred."""
    stop: tuple[str, ...] | None = None
    """Texts that end the answer."""
    seed: int | None = None
    """Makes answers repeatable, as far as the provider goes."""
    parallel_tool_calls: bool | None = None
    """Whether the model may ask for several tools in one turn."""
    tool_choice: str | None = None
    """``auto``, ``required``, ``none``, or the name of a tool."""
    thinking: ThinkingConfig | None = None
    """Whether and how long the model reasons."""
    cache: Literal["auto"] | None = None
    """``auto`` lets the provider cache what calls of one conversation have in common, where it must be told to."""
    preserve_reasoning_as_text: bool | None = None
    """Whether reasoning that cannot go back to its provider as such is sent as text; otherwise it is left out."""
    compress_reasoning_text: bool | ReasoningCompression | None = None
    """Whether reasoning that is sent as text is cut: None and True to 1,200 characters, False not at all."""
    check_history: bool | None = None
    """False sends a history as it is; else one that the provider would refuse is told with its fault and the fix."""
    extra_body: Mapping[str, Any] | None = None
    """Further fields of the request body, as JSON data; never the model, messages, tools or stream flags."""

    def __post_init__(self) -> None:
        if self.extra_body is not None:
            object.__setattr__(self, "extra_body", _own_json(dict(self.extra_body)))


def _own_json(body: dict[str, Any]) -> dict[str, Any]:
    """Return a copy that the giver cannot change any more."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        text.encode()  # a lone surrogate is no UTF-8
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"ModelSettings.extra_body must be JSON data: {error}") from None
    own: dict[str, Any] = json.loads(text)
    return own

"""How a model should answer: sampling, reasoning and provider extras, as the user writes them down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from pydantic import Field

from .._spec import spec
from ..errors import ConfigurationError

__all__ = ["ModelSettings", "ThinkingConfig"]


@spec
class ThinkingConfig:
    """Whether and how long the model reasons before it answers."""

    _: KW_ONLY
    enabled: bool = True
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens to reason with, for providers that take a number."""
    effort: Literal["low", "medium", "high", "max"] | None = None
    """How hard to reason, for providers that take a word."""


@spec
class ModelSettings:
    """Sampling and provider settings; None leaves the provider's own default.

    Numbers are sent as they are: what a provider accepts is its business. NaN and infinity alone are refused.
    """

    _: KW_ONLY
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: str | None = None
    """``auto``, ``required``, ``none``, or the name of a tool."""
    thinking: ThinkingConfig | None = None
    preserve_reasoning_as_text: bool | None = None
    compress_reasoning_text: bool | None = None
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

"""Context strategies as the user writes them down: frozen, checked when they are made, good for any number of runs.

Not here: what they do, and the state that a run keeps for it (``_window``, ``_summarize``, ``_compact``, ``_custom``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, TypeAlias

from pydantic import Field, SkipValidation

from ..._shown import shown
from ..._spec import from_mapping, spec
from ...errors import ConfigurationError
from ...messages import LLMMessage

__all__ = [
    "Compact",
    "ContextStrategy",
    "CustomContext",
    "SlidingWindow",
    "Summarize",
    "ToolResultCompression",
    "as_context_strategy",
    "as_tool_result_compression",
]

PositiveInt = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
TokenCounter = Callable[[LLMMessage], int]


@spec
class SlidingWindow:
    """Send the first user message, the prompt of the run, and the newest exchanges.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    max_turns: PositiveInt
    """Turns to keep, of two messages each; a call and its results that straddle the border are kept whole."""


@spec
class Summarize:
    """Let a model write a summary of the older exchanges when the conversation grows over a limit.

    The first user message and the newest exchanges are sent as they are. When the call for the summary fails, the older
    exchanges are shortened as ``Compact`` does.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    max_tokens: SkipValidation[int | float]
    """The limit: tokens as an int, or the share of ``context_window`` as a float below 1."""
    _: KW_ONLY
    context_window: PositiveInt | None = None
    """Tokens that fit into the model's window."""
    summary_model: Annotated[str, Field(min_length=1)] | None = None
    """The model that writes the summary; the agent's own unless given."""
    summary_max_tokens: PositiveInt = 2_048
    """The most tokens that the summary may have."""
    count_tokens: TokenCounter | None = None
    """Called with a copy of each message, once; returns its tokens. Characters over four unless given."""

    def __post_init__(self) -> None:
        _check_limit("Summarize", self.max_tokens, self.context_window)

    @property
    def limit(self) -> int:
        """The limit in tokens."""
        return _tokens(self.max_tokens, self.context_window)


@spec
class Compact:
    """Shorten old tool results, long texts and media when the conversation grows over a limit; calls no model.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    max_tokens: SkipValidation[int | float]
    """The limit: tokens as an int, or the share of ``context_window`` as a float below 1."""
    _: KW_ONLY
    context_window: PositiveInt | None = None
    """Tokens that fit into the model's window."""
    preserve_recent_turns: Count = 4
    """The newest turns (a message of the model and the user's or tools' reply to it) that stay as they are."""
    min_tool_result_chars: PositiveInt = 200
    """Characters from which on a tool result is replaced by a marker."""
    min_text_block_chars: PositiveInt = 2_000
    """Characters from which on a text of the model is cut."""
    text_block_excerpt_chars: Count = 200
    """Characters that are left of such a text."""
    count_tokens: TokenCounter | None = None
    """Called with a copy of each message, once; returns its tokens. Characters over four unless given."""

    def __post_init__(self) -> None:
        _check_limit("Compact", self.max_tokens, self.context_window)

    @property
    def limit(self) -> int:
        """The limit in tokens."""
        return _tokens(self.max_tokens, self.context_window)


@spec
class CustomContext:
    """Let a function decide before each model call what it sends.

    ``compress(messages, estimated_tokens)``, sync or async, gets copies of what would be sent and returns what is to be
    sent instead. What it returned, and what the run has added since, is what it gets the next time.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    compress: Callable[..., object]
    _: KW_ONLY
    count_tokens: TokenCounter | None = None
    """Called with a copy of each message, once; returns its tokens. Characters over four unless given."""


@spec
class ToolResultCompression:
    """Send a marker for each large tool result that the model has already answered to.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    min_chars: PositiveInt = 500
    """Characters from which on a result is replaced."""


ContextStrategy: TypeAlias = SlidingWindow | Summarize | Compact | CustomContext
"""Any context strategy."""

_KINDS: Mapping[str, type[ContextStrategy]] = {
    "sliding-window": SlidingWindow,
    "summarize": Summarize,
    "compact": Compact,
    "custom": CustomContext,
}


def as_context_strategy(value: object, *, where: str = "context_strategy") -> ContextStrategy | None:
    """Return the strategy that a value describes, or None for None.

    Args:
        value: A strategy; a mapping with its fields and ``type``, which is left as it is; or None.
        where: What errors call the value.

    Raises:
        ConfigurationError: It is none of these, or a field is wrong.
    """
    if value is None or isinstance(value, ContextStrategy):
        return value
    if not isinstance(value, Mapping):
        names = ", ".join(kind.__name__ for kind in _KINDS.values())
        raise ConfigurationError(f"{where} must be one of {names}, or a mapping with type, got {shown(value)}")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigurationError(f"{where}.type must be one of {', '.join(_KINDS)}, got {shown(kind)}")
    return from_mapping(_KINDS[kind], {key: item for key, item in value.items() if key != "type"})


def as_tool_result_compression(value: object, *, where: str = "compress_tool_results") -> ToolResultCompression | None:
    """Return the compression that a value describes, or None where it is off.

    Args:
        value: A compression; a mapping with its fields; True for the default; False or None for none.
        where: What errors call the value.

    Raises:
        ConfigurationError: It is none of these, or a field is wrong.
    """
    if value is None or value is False:
        return None
    if value is True:
        return ToolResultCompression()
    if isinstance(value, ToolResultCompression):
        return value
    if isinstance(value, Mapping):
        return from_mapping(ToolResultCompression, value)
    raise ConfigurationError(f"{where} must be a bool, a ToolResultCompression or a mapping, got {shown(value)}")


def _check_limit(name: str, limit: Any, window: int | None) -> None:
    if type(limit) is int and limit >= 1:
        if window is not None and limit > window:
            raise ConfigurationError(
                f"{name}: max_tokens ({limit}) is over the context_window ({window}), so it would never be reached"
            )
        return
    if type(limit) is not float or not 0 < limit < 1:
        raise ConfigurationError(
            f"{name}: max_tokens must be tokens (an int of at least 1) or a share of the model's window (a float "
            f"between 0 and 1), got {shown(limit)}"
        )
    if window is None:
        raise ConfigurationError(
            f"{name}: max_tokens={shown(limit)} is a share of the model's window; give its size as context_window=..."
        )


def _tokens(limit: float, window: int | None) -> int:
    # A share was only accepted together with a window.
    return limit if isinstance(limit, int) else max(1, int(limit * (window or 0)))

"""Token counts, and who used them, as immutable values that add up.

*Unknown* is not zero: a model call that reported no usage adds one to ``unknown_calls`` and nothing to the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ._record import maker, record
from ._shown import shown

__all__ = ["NO_USAGE", "TokenUsage", "UsageEntry", "make_usage_entry"]

_NO_COUNT = 2**63
"""More than spans and metrics can express."""


@record(kw_only=True)
class TokenUsage:
    """Tokens that model calls used.

    Values add up with ``+`` (``sum(usages, TokenUsage())``) and are never changed in place.
    """

    input_tokens: int = 0
    """All prompt tokens, cached ones included."""
    output_tokens: int = 0
    """All tokens that the model wrote, reasoning included."""
    cache_read_tokens: int = 0
    """The part of ``input_tokens`` that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of ``input_tokens`` that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of ``output_tokens`` that was spent on reasoning."""
    unknown_calls: int = 0
    """Model calls that reported no usage; their tokens are in no other field."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def is_sound(self) -> bool:
        """Whether all counts are whole numbers from 0, of 63 bits at most: sums of others would bound nothing."""
        read, written, unknown = self.cache_read_tokens, self.cache_write_tokens, self.unknown_calls
        taken, given, thought = self.input_tokens, self.output_tokens, self.reasoning_tokens
        kinds = type(taken) is type(given) is type(thought) is type(read) is type(written) is type(unknown) is int
        return (
            kinds
            and 0 <= taken < _NO_COUNT
            and 0 <= given < _NO_COUNT
            and 0 <= thought < _NO_COUNT
            and 0 <= read < _NO_COUNT
            and 0 <= written < _NO_COUNT
            and 0 <= unknown < _NO_COUNT
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TokenUsage:
        """Return the usage that ``to_dict`` described.

        Args:
            record: Counts by name; one that is missing is 0.

        Raises:
            TypeError: It has other names.
            ValueError: It has other values.
        """
        usage = cls(**record)
        if not usage.is_sound:
            raise ValueError(f"counts of tokens must be whole numbers from 0, got {shown(dict(record))}")
        return usage

    @classmethod
    def unknown(cls) -> TokenUsage:
        """Return the usage of one call that reported none."""
        return cls(unknown_calls=1)

    def __add__(self, other: object) -> TokenUsage:
        if not isinstance(other, TokenUsage):
            return NotImplemented
        if self is NO_USAGE:  # where every sum begins; values never change, so one may stand for both
            return other
        return _make_usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.unknown_calls + other.unknown_calls,
        )

    def to_dict(self) -> dict[str, int]:
        """Return the counts as plain JSON data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_make_usage: Callable[..., TokenUsage] = maker(TokenUsage)
NO_USAGE = TokenUsage()
"""Where a ledger begins."""


@record
class UsageEntry:
    """What the model calls of one agent, with one model of one provider and for one purpose, used together."""

    agent: str
    model: str
    """The model that was asked for."""
    provider: str
    """Name of the adapter."""
    phase: str
    """What the calls were for: ``agent``, ``summary``, ``wrap-up``, ..."""
    usage: TokenUsage
    cost: float = 0.0
    """In the unit of ``estimate_cost``; 0 without it."""
    requests: int = 0
    """Model calls that were made, failed ones included."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON data."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"usage": self.usage.to_dict()}


make_usage_entry: Callable[..., UsageEntry] = maker(UsageEntry)
"""Makes an entry of all its fields; every run has one."""

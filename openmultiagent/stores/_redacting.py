"""A store that keeps credentials out of another one.

Not here: what is taken for a credential (``redaction``). Invariants: nothing reaches the inner store before it was
redacted; what is JSON stays JSON; a method is there only if the inner store has it, and ``compare_and_set`` never is,
since the stored value is not the one that a caller would compare with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .._shown import shown
from ..errors import ConfigurationError
from ..redaction import redact_sensitive_object, redact_sensitive_text
from ._entry import VALUE_ENCODING, MemoryEntry
from ._protocol import require_store

__all__ = ["RedactingStore"]

_Entries: TypeAlias = list[MemoryEntry]

_OPTIONAL = ("set_with_expiry", "restore")
_OURS = ("agent", VALUE_ENCODING)
"""Metadata that shared memory itself adds, and reads again."""


class RedactingStore:
    """Masks credentials in the values and the metadata of what is written; keys and reads pass through.

    It has ``set_with_expiry`` and ``restore`` if the inner store has them.

    Args:
        inner: Where everything is kept.
        patterns: Further regular expressions whose every match is a secret.

    Raises:
        ConfigurationError: The inner store is none, or a pattern is no regular expression.
    """

    def __init__(self, inner: Any, patterns: Sequence[str | re.Pattern[str]] = ()) -> None:
        self._inner: Any = require_store(inner, where="RedactingStore inner")
        if isinstance(patterns, str):
            raise ConfigurationError(f"RedactingStore patterns must be a list of patterns, got {shown(patterns)}")
        try:
            self._patterns = tuple(re.compile(pattern) for pattern in patterns)
        except (re.error, TypeError) as error:
            raise ConfigurationError(f"RedactingStore patterns: {error}") from error
        for name in _OPTIONAL:
            if callable(getattr(inner, name, None)):
                setattr(self, name, getattr(self, f"_{name}"))

    async def get(self, key: str) -> MemoryEntry | None:
        """Return what the inner store has under a key.

        Args:
            key: The key.
        """
        found: MemoryEntry | None = await self._inner.get(key)
        return found

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Set the redacted value and metadata of a key.

        Args:
            key: The key, which is not redacted.
            value: The value.
            metadata: JSON-like data; none unless given.

        Raises:
            ConfigurationError: An argument cannot be stored.
            StoreError: The inner store failed.
        """
        await self._inner.set(key, self._value(value, metadata), self._metadata(metadata))

    async def list(self) -> _Entries:
        """Return all entries of the inner store."""
        found: _Entries = await self._inner.list()
        return found

    async def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one.

        Args:
            key: The key.
        """
        await self._inner.delete(key)

    async def clear(self) -> None:
        """Delete everything."""
        await self._inner.clear()

    async def _set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        await self._inner.set_with_expiry(key, self._value(value, metadata), expires_at_turn, self._metadata(metadata))

    async def _restore(self, entries: Sequence[MemoryEntry], *, keep: Sequence[str] = ()) -> None:
        clean = [
            MemoryEntry(
                entry.key,
                self._value(entry.value, entry.metadata),
                metadata=self._clean(entry.metadata),
                created_at=entry.created_at,
                expires_at_turn=entry.expires_at_turn,
            )
            for entry in entries
        ]
        await self._inner.restore(clean, keep=keep)

    def _value(self, value: Any, metadata: Any) -> Any:
        if not isinstance(value, str):
            return value  # for the inner store to refuse
        is_json = isinstance(metadata, Mapping) and metadata.get(VALUE_ENCODING) == "json"
        if is_json or value.lstrip().startswith(("{", "[")):
            try:
                data = json.loads(value)
            except (ValueError, RecursionError):
                return redact_sensitive_text(value, self._patterns)
            clean = redact_sensitive_object(data, self._patterns)
            # What has no credential in it stays as it was written.
            return value if clean == data else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
        return redact_sensitive_text(value, self._patterns)

    def _metadata(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return self._clean(metadata) if isinstance(metadata, Mapping) else metadata

    def _clean(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        clean: dict[str, Any] = redact_sensitive_object(metadata, self._patterns)
        return clean | {name: metadata[name] for name in _OURS if name in metadata}

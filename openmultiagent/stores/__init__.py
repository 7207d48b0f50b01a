"""Stores: small texts under keys, in this process or in a file, for shared memory and for what outlives a run."""

from ._entry import (
    APPROVAL_PREFIX,
    CHECKPOINT_PREFIX,
    RESERVED_PREFIXES,
    VALUE_ENCODING,
    MemoryEntry,
    is_reserved,
)
from ._in_memory import InMemoryStore
from ._protocol import AtomicStore, ExpiringStore, MemoryStore, RestorableStore, require_store
from ._redacting import RedactingStore
from ._sqlite_store import SQLiteStore

__all__ = [
    "APPROVAL_PREFIX",
    "CHECKPOINT_PREFIX",
    "RESERVED_PREFIXES",
    "VALUE_ENCODING",
    "AtomicStore",
    "ExpiringStore",
    "InMemoryStore",
    "MemoryEntry",
    "MemoryStore",
    "RedactingStore",
    "RestorableStore",
    "SQLiteStore",
    "is_reserved",
    "require_store",
]

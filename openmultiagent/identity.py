"""Who a run is: the ids and the metadata that its results, events, spans and log lines carry."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence

from ._patterns import lazy_pattern
from ._record import maker, record
from ._shown import shown
from .errors import ConfigurationError

__all__ = [
    "MetadataValue",
    "RunIdentity",
    "RunLink",
    "copy_metadata",
    "make_identity",
    "new_identity",
    "new_ids",
    "new_run_id",
    "new_span_id",
    "new_trace_id",
    "validate_metadata",
    "validate_run_id",
]

MetadataValue = str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float] | Sequence[bool]
"""What a metadata entry may hold: a span attribute's value."""

_MAX_RUN_ID = 128
_MAX_METADATA_KEYS = 32
_MAX_METADATA_TEXT = 1024
_METADATA_KEY = lazy_pattern(r"[a-z0-9_.]{1,64}")
_RESERVED_PREFIX = "openmultiagent."
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The digit of a UUID that says how it is laid out, by a random one."""
_ROW = lazy_pattern("((.{8})(.{4}).(.{3})(.)(.{3})(.{12}))(.{16})")
"""The random digits of a run: those of its trace id, and in them of its UUID between the dashes, and of its span id."""
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_BYTES = 24
"""Random bytes for the ids of a run."""
_AT_ONCE = 32
_IDS: list[tuple[str, str, str]] = []
"""Run, trace and span ids that nobody has taken yet."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDS.clear)  # else parent and child would give the same ids
_INT64 = 2**63
"""Where the integers of span attributes end; one that does not fit makes an exporter drop the whole batch."""


@record
class RunLink:
    """A pointer to another run that this one goes on from."""

    trace_id: str
    span_id: str
    relation: str


@record
class RunIdentity:
    """The ids of one attempt at a run.

    ``trace_id`` and ``root_span_id`` are those of the run's span when it is recorded, else random; they are empty on
    the call that a middleware sees before tracing has filled them in.
    """

    run_id: str
    """The caller's id, or a random UUID; 1 to 128 characters."""
    attempt: int = 1
    """1 for a first attempt; a restored run counts up."""
    trace_id: str = ""
    """32 lower-case hexadecimal digits."""
    root_span_id: str = ""
    """16 lower-case hexadecimal digits."""
    links: tuple[RunLink, ...] = ()
    """The runs that this one continues."""

    def with_trace(self, trace_id: str, span_id: str) -> RunIdentity:
        """Return the identity with the ids of its span.

        Args:
            trace_id: 32 hexadecimal digits.
            span_id: 16 hexadecimal digits.
        """
        return make_identity(self.run_id, self.attempt, trace_id, span_id, self.links)


make_identity: Callable[..., RunIdentity] = maker(RunIdentity)
"""Makes an identity of all its fields; every run has two."""


def new_identity(run_id: str | None = None) -> RunIdentity:
    """Return the identity of a first attempt, with random ids.

    Args:
        run_id: Its run id, if it has one already.
    """
    run_id, trace_id, span_id = new_ids(run_id)
    return make_identity(run_id, 1, trace_id, span_id, ())


def new_ids(run_id: str | None = None) -> tuple[str, str, str]:
    """Return a run id, a trace id and a span id; every run needs them, so they are made for many at once.

    Args:
        run_id: The run id, if there is one already.
    """
    try:
        ids = _IDS.pop()
    except IndexError:
        ids, *others = [
            (f"{low}-{mid}-4{high}-{_VARIANT[variant]}{clock}-{node}", trace, span)
            for trace, low, mid, high, variant, clock, node, span in _ROW.findall(os.urandom(_BYTES * _AT_ONCE).hex())
            if trace != _NO_TRACE and span != _NO_SPAN  # zeros are no ids
        ]
        _IDS.extend(others)
    return ids if run_id is None else (run_id, ids[1], ids[2])


def new_run_id() -> str:
    """Return a random run id (a UUID, version 4)."""
    return new_ids()[0]


def new_trace_id() -> str:
    """Return a random trace id in the form that OpenTelemetry uses; never all zero."""
    return os.urandom(15).hex() + "01"


def new_span_id() -> str:
    """Return a random span id in the form that OpenTelemetry uses; never all zero."""
    return os.urandom(7).hex() + "01"


def validate_run_id(run_id: object) -> str:
    """Return the caller's run id, or a new one for None.

    Args:
        run_id: The id that the caller gave.

    Raises:
        ConfigurationError: It is not a string of 1 to 128 characters.
    """
    if run_id is None:
        return new_run_id()
    if not isinstance(run_id, str) or not 1 <= len(run_id) <= _MAX_RUN_ID:
        got = f"{len(run_id)} characters" if isinstance(run_id, str) else type(run_id).__name__
        raise ConfigurationError(f"run_id must be a string of between 1 and {_MAX_RUN_ID} characters, got {got}")
    if not run_id.isprintable():
        raise ConfigurationError(f"run_id must have printable characters only, got {shown(run_id)}")
    return run_id


def validate_metadata(metadata: object) -> dict[str, MetadataValue] | None:
    """Return a checked copy of a run's metadata, with long texts cut to 1,024 characters.

    Args:
        metadata: Up to 32 entries; keys match ``[a-z0-9_.]{1,64}``; values are strings, finite numbers (integers of at
            most 64 bits), booleans, or lists of one of these.

    Raises:
        ConfigurationError: It is anything else; the text names the key.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise ConfigurationError(f"metadata must be a mapping, got {type(metadata).__name__}")
    if len(metadata) > _MAX_METADATA_KEYS:
        raise ConfigurationError(f"metadata may have at most {_MAX_METADATA_KEYS} keys, got {len(metadata)}")
    return {_metadata_key(key): _metadata_value(key, value) for key, value in metadata.items()}


def copy_metadata(metadata: Mapping[str, MetadataValue] | None) -> dict[str, MetadataValue] | None:
    """Return an independent copy of checked metadata.

    Args:
        metadata: What ``validate_metadata`` returned.
    """
    if metadata is None:
        return None
    return {key: list(value) if isinstance(value, list) else value for key, value in metadata.items()}


def _metadata_key(key: object) -> str:
    if not isinstance(key, str) or _METADATA_KEY.fullmatch(key) is None:
        raise ConfigurationError(f"metadata key {shown(key)} must match [a-z0-9_.]{{1,64}}")
    if key.startswith(_RESERVED_PREFIX) or key == "_overridden":
        raise ConfigurationError(f"metadata key {shown(key)} is reserved; choose another name")
    return key


def _metadata_value(key: str, value: object) -> MetadataValue:
    if isinstance(value, list | tuple):
        items = [_metadata_scalar(key, item) for item in value]
        if len({type(item) for item in items}) > 1:
            raise ConfigurationError(f"metadata[{shown(key)}] must be a list of values of one type")
        return items  # type: ignore[return-value]  # one type throughout, checked above
    return _metadata_scalar(key, value)


def _metadata_scalar(key: str, value: object) -> str | int | float | bool:
    if isinstance(value, str):
        if _LONE_SURROGATE.search(value) is not None:
            raise ConfigurationError(f"metadata[{shown(key)}] must be well-formed Unicode: it has a lone surrogate")
        return value[:_MAX_METADATA_TEXT]
    if isinstance(value, int):
        if -_INT64 <= value < _INT64:  # a bool passes, too
            return value
        raise ConfigurationError(f"metadata[{shown(key)}] must be an integer of at most 64 bits; write it as a string")
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ConfigurationError(
        f"metadata[{shown(key)}] must be a string, a finite number, a boolean or a list of these, got {shown(value)}"
    )

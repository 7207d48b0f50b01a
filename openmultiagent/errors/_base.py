"""What all errors have in common: a text, a code, fields, and a record that can be stored.

Not here: what the library raises, save ``ConfigurationError``, which reading a record may raise. Invariant: an error
that was pickled, copied or read back from its record has the class, code, text and fields that it had.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "ConfigurationError",
    "OpenMultiAgentError",
]


class OpenMultiAgentError(Exception):
    """Base of every error that the library raises.

    Args:
        message: What went wrong, where, and how to mend it.
        code: A stable code for programs; the class's own unless given.
    """

    code: str = "OPENMULTIAGENT_ERROR"
    """Stable, upper-case name of the kind of error."""

    field_names: ClassVar[tuple[str, ...]] = ()
    """The typed attributes that belong to the error's record, besides its message and code."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        """The text that the error was made with."""
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not the class's own constructor: it takes other arguments than Exception.args holds.
        return _rebuild, (type(self), self.message, {name: _portable(value) for name, value in self.__dict__.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON data: ``type``, ``code``, ``message`` and ``fields``."""
        fields = {name: _plain(getattr(self, name)) for name in self.field_names}
        return {"type": type(self).__name__, "code": self.code, "message": self.message, "fields": fields}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> OpenMultiAgentError:
        """Make the error that ``to_dict`` described; the mapping is left as it is.

        Args:
            record: What ``to_dict`` returned, possibly after a trip through JSON.

        Raises:
            ConfigurationError: The record names no error of this library.
        """
        name = record.get("type")
        cls = _registry().get(name) if isinstance(name, str) else None
        if cls is None:
            raise ConfigurationError(f"error record has type {name!r}, which is no error of openmultiagent")
        fields = record.get("fields")
        if not isinstance(fields, Mapping):
            fields = {}
        state = {name: fields[name] for name in cls.field_names if name in fields}
        code = record.get("code")
        if isinstance(code, str) and code != cls.code:
            state["code"] = code
        return _rebuild(cls, str(record.get("message", "")), copy.deepcopy(state))


class ConfigurationError(OpenMultiAgentError):
    """Something was asked for that cannot be done as asked; nothing has happened yet."""

    code = "CONFIGURATION_ERROR"


def _registry() -> dict[str, type[OpenMultiAgentError]]:
    found: dict[str, type[OpenMultiAgentError]] = {}
    pending: list[type[OpenMultiAgentError]] = [OpenMultiAgentError]
    while pending:
        cls = pending.pop()
        if cls.__module__.partition(".")[0] == "openmultiagent":
            found[cls.__name__] = cls
        pending.extend(cls.__subclasses__())
    return found


def _rebuild(cls: type[OpenMultiAgentError], message: str, state: Mapping[str, Any]) -> OpenMultiAgentError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    for name in cls.field_names:
        setattr(error, name, None)
    error.__dict__.update(state)
    return error


def _plain(value: object) -> object:
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=str))
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _portable(value: object) -> object:
    # A foreign exception may hold anything, or have a constructor that pickle cannot call: its text is left of it then.
    if not isinstance(value, BaseException) or isinstance(value, OpenMultiAgentError):
        return value
    import pickle  # noqa: PLC0415 - import time

    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301 - what was dumped on this line
    except Exception:  # noqa: BLE001 - isolation boundary: it may fail in any way
        return str(value)
    return value

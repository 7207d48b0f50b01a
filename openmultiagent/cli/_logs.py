"""The library's log lines, as prose on stderr: left alone, structlog writes them to stdout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from ._console import Console

__all__ = ["logs_on"]


@contextmanager
def logs_on(console: Console) -> Iterator[None]:
    """Have log lines written as prose, unless the program that calls ``main`` has its own idea.

    Args:
        console: Where they go.
    """
    if structlog.is_configured():
        yield
        return

    def render(_logger: object, level: str, event: structlog.typing.EventDict) -> str:
        name = event.pop("event")
        return f"{level}: {name}" + "".join(f"  {key}={value!r}" for key, value in event.items())

    structlog.configure(
        processors=[render],
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=lambda *_: _ProseLogger(console),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()


class _ProseLogger:
    """The end of structlog's chain."""

    def __init__(self, console: Console) -> None:
        self.warning = self.error = console.note

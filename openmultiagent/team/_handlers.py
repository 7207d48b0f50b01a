"""Functions that are told what happens in a team.

Invariant: what a handler does cannot fail, nor change, what it is told of: one that raises is logged, and the others
are told.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from .._log import get_logger
from .._shown import shown
from ..errors import ConfigurationError
from ..outcome import describe_error

__all__ = ["Handler", "Handlers", "Unsubscribe"]

Handler = Callable[[Any], object]
"""A plain function that is called in place, with what happened."""

Unsubscribe = Callable[[], None]
"""Ends a subscription; a second call does nothing."""

_log = get_logger(__name__)


class Handlers:
    """Handlers by topic.

    Args:
        what: What they handle, for log lines and errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._by_topic: dict[str, dict[object, Handler]] = {}

    def add(self, topic: str, handler: Handler) -> Unsubscribe:
        """Have a handler told of a topic; returns what ends that.

        Args:
            topic: The topic.
            handler: A plain function of one argument; the same one may be added twice.

        Raises:
            ConfigurationError: It cannot be called, or is async.
        """
        _check_handler(handler, f"handler of {self._what}, {shown(topic)}")
        key = object()
        with self._lock:
            self._by_topic.setdefault(topic, {})[key] = handler

        def unsubscribe() -> None:
            with self._lock:
                handlers = self._by_topic.get(topic, {})
                handlers.pop(key, None)
                if not handlers:
                    self._by_topic.pop(topic, None)

        return unsubscribe

    def topics(self) -> list[str]:
        """Return the topics that somebody handles."""
        with self._lock:
            return list(self._by_topic)

    def tell(self, topic: str, what: Any) -> None:
        """Call the handlers of a topic, in the order in which they were added.

        Args:
            topic: The topic.
            what: What they get.
        """
        with self._lock:
            handlers = list(self._by_topic.get(topic, {}).values())
        for handler in handlers:
            try:
                returned = handler(what)
                if inspect.iscoroutine(returned):
                    returned.close()
                    raise TypeError("it returned a coroutine, which nobody awaits")  # noqa: TRY301 - told like others
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: users' functions
                _log.error("team_handler_failed", what=self._what, topic=topic, error=describe_error(error))


def _check_handler(handler: object, where: str) -> None:
    call = getattr(handler, "__call__", None)  # noqa: B004 - an object may have an async one
    if call is None or inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        raise ConfigurationError(f"{where} must be a plain function of one argument, got {shown(handler)}")

"""Tells a run as it happens: its answer on stdout, its events on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from openmultiagent import AgentRunResult, Event
from openmultiagent.evaluation import EvalRecord

from ._console import Console
from ._render import event_facts, event_line, usage_line, verdict_line
from ._spans import span_tree

__all__ = ["Teller"]

_LAST = frozenset({"done", "error"})
"""The events that end a stream."""
_IN_PIECES = frozenset({"reasoning", "tool_input_delta"})


class Teller:
    """Writes events as they come, and keeps what is told about them.

    Args:
        console: Where they are written.
        writes_answer: Whether the answer is written, too.
    """

    def __init__(self, console: Console, *, writes_answer: bool) -> None:
        self._console = console
        self._writes_answer = writes_answer
        self._previous = ""
        self._held: list[Event[Any]] = []
        self.events: list[dict[str, Any]] = []
        """What was told, as plain JSON data."""

    def progress(self, event: Event[Any]) -> None:
        """Tell a progress event.

        Args:
            event: It may be told later: a run is ahead of who reads its stream, and its end has no place in its answer.
        """
        if event.type == "agent_start":
            self._tell("progress", event)
        else:
            self._held.append(event)

    def stream(self, event: Event[Any]) -> None:
        """Tell an event of the stream, or write its piece of the answer.

        Args:
            event: The next one.

        Raises:
            BrokenPipeError: Nobody reads the answer any more.
            OutputError: It cannot be written.
        """
        if event.type in _LAST:
            for earlier in self._held:
                self._tell("progress", earlier)
        self._tell("stream", event)

    def report(self, result: AgentRunResult[Any], spans: Sequence[ReadableSpan], records: Sequence[EvalRecord]) -> None:
        """Tell what the run came to.

        Args:
            result: Its result.
            spans: Its spans, in the order of their starts.
            records: What the scorers say.
        """
        note = self._console.note
        note(usage_line(result.token_usage))
        for record in records:
            note(verdict_line(record))
        note("spans:")
        for line in span_tree(spans, draws=self._console.draws):
            note(f"  {line}")

    def _tell(self, source: str, event: Event[Any]) -> None:
        self.events.append(_event_dict(source, event))
        is_first, self._previous = event.type != self._previous, event.type
        if event.type == "text":
            self._write_piece(event.data)
        elif event.type not in _IN_PIECES:
            self._end_answer()
            self._console.note(event_line(source, event))
        elif is_first and not self._console.is_mid_answer:  # of many pieces the first says enough
            self._console.note(event_line(source, event))

    def _write_piece(self, text: str) -> None:
        if self._writes_answer:
            if not self._console.is_mid_answer:
                self._console.note("")
            self._console.write(text)

    def _end_answer(self) -> None:
        if self._console.is_mid_answer:
            self._console.end_answer()
            self._console.note("")


def _event_dict(source: str, event: Event[Any]) -> dict[str, Any]:
    return {
        "source": source,
        "sequence": event.sequence,
        "type": event.type,
        "timestamp": event.timestamp.isoformat(),
        "agent": event.agent,
        "data": event_facts(event),
    }

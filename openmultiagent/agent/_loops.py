"""Loop detection: does the model do the same thing over and over again?

Not here: what a run does about it (``_runner``). Invariant: a detector remembers hashes of as many turns as its window
has, and nothing else of them.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from .._record import record
from .._shown import shown
from .._spec import from_mapping, spec
from ..errors import ConfigurationError, RunError
from ..messages import LLMMessage, Role, TextBlock, ToolUseBlock

__all__ = [
    "LoopAction",
    "LoopDetection",
    "LoopDetector",
    "LoopInfo",
    "LoopKind",
    "as_loop_detection",
    "loop_warning",
]

LoopKind = Literal["tool_repetition", "text_repetition"]
"""What is repeated: the tool calls of a turn, or its text."""
LoopAction = Literal["continue", "inject", "terminate"]
"""What to do: nothing, warn the model, or end the run."""

_ACTIONS: tuple[LoopAction, ...] = ("continue", "inject", "terminate")
_NAMED_TOOLS = 5
_NAME_CHARS = 64


@record
class LoopInfo:
    """A loop that was detected."""

    kind: LoopKind
    repetitions: int
    """How often the turns of the loop were repeated, as far as the window reaches."""
    detail: str
    """What is repeated, in words."""
    cycle: int = 1
    """Turns in one round of the loop."""


@spec
class LoopDetection:
    """When a model goes round in circles, and what to do then.

    Raises:
        ConfigurationError: A field is unknown or has a value that makes no sense.
    """

    max_repetitions: Annotated[int, Field(ge=2)] = 3
    """How often the same turn in a row is a loop."""
    loop_detection_window: Annotated[int, Field(ge=1)] = 4
    """Turns to look back; at least ``max_repetitions``. A cycle of several turns is a loop when it is gone through
    ``max_repetitions`` times, or as often as the window can hold: at least twice."""
    on_loop_detected: SkipValidation[Literal["warn", "terminate"] | Callable[[LoopInfo], object]] = "warn"
    """``warn`` tells the model once and ends the run if the next turn is in the loop still; ``terminate`` ends it at
    once; a callable, sync or async, gets the ``LoopInfo`` and returns ``continue``, ``inject`` or ``terminate``."""

    def __post_init__(self) -> None:
        action: object = self.on_loop_detected
        if not callable(action) and action not in ("warn", "terminate"):
            raise ConfigurationError(
                f"LoopDetection: on_loop_detected must be 'warn', 'terminate' or a callable, got {shown(action)}"
            )


def as_loop_detection(value: object, *, where: str = "loop_detection") -> LoopDetection | None:
    """Return the loop detection that a value describes, or None for None.

    Args:
        value: A ``LoopDetection``; a mapping with its fields, which is left as it is; or None.
        where: What errors call the value.

    Raises:
        ConfigurationError: It is none of these, or a field is wrong.
    """
    if value is None or isinstance(value, LoopDetection):
        return value
    if isinstance(value, Mapping):
        return from_mapping(LoopDetection, value)
    raise ConfigurationError(f"{where} must be a LoopDetection or a mapping with its fields, got {shown(value)}")


class LoopDetector:
    """Watches the turns of one run.

    Args:
        settings: What a loop is, and what to do.
        agent: Name of the agent, for errors.
    """

    def __init__(self, settings: LoopDetection, *, agent: str) -> None:
        self._settings = settings
        self._agent = agent
        self._length = max(settings.loop_detection_window, settings.max_repetitions)
        self._calls: deque[bytes] = deque(maxlen=self._length)
        self._texts: deque[bytes] = deque(maxlen=self._length)
        self._warned = False
        self.warnings = 0
        """Turns so far that were found to be in a loop."""

    def replay(self, history: Sequence[LLMMessage]) -> None:
        """Remember what the model did in earlier turns; it is not judged.

        Args:
            history: The conversation that the run goes on from; only its end is looked at.
        """
        calls: list[bytes] = []
        texts: list[bytes] = []
        for index in range(len(history) - 1, -1, -1):
            if len(calls) >= self._length and len(texts) >= self._length:
                break
            message = history[index]
            if message.role != Role.ASSISTANT:
                continue
            if len(calls) < self._length:
                calls += _signatures(_call_signature([b for b in message.content if isinstance(b, ToolUseBlock)]))
            if len(texts) < self._length:
                text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
                texts += _signatures(_text_signature(text))
        self._calls.extend(reversed(calls))
        self._texts.extend(reversed(texts))

    def record(self, calls: Sequence[ToolUseBlock], text: str) -> LoopInfo | None:
        """Remember a turn, and return the loop that it is in, if any.

        Args:
            calls: The tool calls of the turn.
            text: Its text.
        """
        in_calls = self._seen(self._calls, _call_signature(calls))
        in_texts = self._seen(self._texts, _text_signature(text))
        if in_calls is not None:
            info = LoopInfo("tool_repetition", in_calls[1], _told(calls, *in_calls), in_calls[0])
        elif in_texts is not None:
            info = LoopInfo("text_repetition", in_texts[1], _told((), *in_texts), in_texts[0])
        else:
            self._warned = False
            return None
        self.warnings += 1
        return info

    async def decide(self, info: LoopInfo) -> LoopAction:
        """Return what to do about a loop; the second warning in a row ends the run.

        Args:
            info: What ``record`` returned.

        Raises:
            RunError: The user's callable returned something else than an action.
        """
        action = await self._action(info)
        if action != "inject":
            return action
        if self._warned:
            return "terminate"
        self._warned = True
        return "inject"

    async def _action(self, info: LoopInfo) -> LoopAction:
        choice = self._settings.on_loop_detected
        if not callable(choice):
            return "inject" if choice == "warn" else "terminate"
        returned = choice(info)
        if inspect.isawaitable(returned):
            returned = await returned
        for action in _ACTIONS:
            if isinstance(returned, str) and returned == action:
                return action
        raise RunError(
            f"agent {self._agent!r}: on_loop_detected must return one of {', '.join(_ACTIONS)}, got {shown(returned)}"
        )

    def _seen(self, turns: deque[bytes], signature: bytes | None) -> tuple[int, int] | None:
        """Remember a signature; return the length of the cycle that it closes, and how often that was gone through."""
        if signature is None:
            return None
        turns.append(signature)
        newest = list(turns)[::-1]
        wanted = self._settings.max_repetitions
        for cycle in range(1, self._length // 2 + 1):
            if cycle > 1:
                wanted = min(self._settings.max_repetitions, self._length // cycle)
                if cycle * wanted < self._settings.max_repetitions:
                    continue  # a longer cycle is no reason to be stricter
            repetitions = _repetitions(newest, cycle)
            if repetitions >= wanted:
                return cycle, repetitions
        return None


def loop_warning(info: LoopInfo) -> str:
    """Return what the model is told about a loop.

    Args:
        info: The loop.
    """
    if info.kind == "tool_repetition":
        return (
            f"WARNING: You are repeating the same tool calls ({info.repetitions} times) without getting further. "
            "Do something else: change the arguments, use another tool, or answer with what you know."
        )
    return (
        f"WARNING: You are repeating the same answer ({info.repetitions} times) without getting further. "
        "Take another approach, or finish with your best answer."
    )


def _signatures(signature: bytes | None) -> list[bytes]:
    return [] if signature is None else [signature]


def _call_signature(calls: Sequence[ToolUseBlock]) -> bytes | None:
    if not calls:
        return None
    # Neither the order of the calls nor that of the keys makes a difference.
    return _hash(json.dumps(sorted((call.name, json.dumps(call.input, sort_keys=True)) for call in calls)))


def _text_signature(text: str) -> bytes | None:
    folded = " ".join(text.split())
    return _hash(folded) if folded else None


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _repetitions(newest: Sequence[bytes], cycle: int) -> int:
    """Return how often the newest ``cycle`` entries stand in a row at the newest end."""
    matching = cycle
    while matching < len(newest) and newest[matching] == newest[matching - cycle]:
        matching += 1
    return matching // cycle


def _told(calls: Sequence[ToolUseBlock], cycle: int, repetitions: int) -> str:
    what = "text"
    if calls:
        names = sorted({f"{call.name:.{_NAME_CHARS}}" for call in calls})
        what = f"tool calls ({', '.join(names[:_NAMED_TOOLS])}{', ...' if len(names) > _NAMED_TOOLS else ''})"
    if cycle == 1:
        return f"the same {what} {repetitions} times in a row"
    return f"the same {what} in every {cycle} turns, {repetitions} times"

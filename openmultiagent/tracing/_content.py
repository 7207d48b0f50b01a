"""What was said, as span attributes, when the application asks for it.

Not here: when it is asked for (``_spans``), and what counts as a secret (``redaction``). Invariants: reasoning and the
bytes of media are in no attribute, whatever is asked for; an attribute is valid JSON (a tool's result: text) of at most
``max_chars`` characters; the work for one is bounded by that number, not by the length of the conversation.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from opentelemetry.trace import Span
from pydantic import Field

from .._log import get_logger
from .._shown import shown
from .._spec import spec
from ..adapters import LLMResponse, ModelCall
from ..agent import RunCall
from ..errors import ConfigurationError
from ..messages import (
    Base64Source,
    FileBlock,
    ImageBlock,
    LLMMessage,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    replace_lone_surrogates,
    summarize_tool_result,
)
from ..outcome import AgentRunResult
from ..redaction import LOOK_AHEAD, REDACTED, is_sensitive_name, redact_sensitive_text
from ..tools import ToolCall, ToolResult, record_output
from . import _names as names

__all__ = ["ContentCapture", "TraceContent"]

T = TypeVar("T")

_log = get_logger(__name__)

_CUT = "…"
_MAX_DEPTH = 100
"""As deep as messages may be nested."""
_PART = 64
"""Characters that a part of a message counts for besides its texts."""
_ITEM = 4
"""Characters that an item of a list or mapping counts for besides its texts."""
_LEAST = 16
"""Nothing that is smaller is worth an attempt."""
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
}
"""The conventions' words for why a model stopped; others are handed on."""


@spec
class TraceContent:
    """Which texts reach spans: none unless asked for.

    Reasoning and the bytes of images and files never do.
    """

    _: KW_ONLY
    capture: Literal["none", "redacted", "full"] = "none"
    """``redacted`` masks credentials; ``full`` masks only what ``patterns`` and ``redact`` do."""
    max_chars: Annotated[int, Field(ge=256)] = 4096
    """The most characters of one attribute. Of a conversation the newest messages are kept."""
    patterns: tuple[str | re.Pattern[str], ...] = ()
    """Further regular expressions whose every match is masked; their speed is their author's matter."""
    redact: Callable[[str], str] | None = None
    """A further mask: gets every text, possibly cut, and returns what may be stored. When it fails, the attribute is
    left out."""

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                fault = f"{shown(pattern)} is no regular expression: {error}"
                raise ConfigurationError(f"TraceContent.patterns: {fault}") from None


class ContentCapture:
    """Makes the attributes with texts.

    Args:
        policy: What may reach a span.
    """

    def __init__(self, policy: TraceContent) -> None:
        self._policy = policy
        self._has_failed = False

    def record(self, span: Span, make: Callable[[T], dict[str, Any]], subject: T) -> None:
        """Put attributes on a span; when they cannot be made, it stays without them.

        Args:
            span: A recording span.
            make: One of this object's other methods.
            subject: Its argument.
        """
        try:
            span.set_attributes(make(subject))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - isolation boundary: a user's mask, and blocks of anybody's adapter
            if not self._has_failed:  # once is enough: it will go on like this
                self._has_failed = True
                _log.warning("trace_content_failed", error=type(error).__name__)

    def of_run(self, call: RunCall) -> dict[str, Any]:
        """Return what a run was asked.

        Args:
            call: The run.
        """
        source = call.source
        messages = source.messages if source.prompt is None else [LLMMessage.user(source.prompt)]
        return self._input(messages, None if call.source_config is None else call.source_config.system_prompt)

    def of_result(self, result: Any) -> dict[str, Any]:
        """Return the last answer of a run.

        Args:
            result: The run's result.
        """
        if not isinstance(result, AgentRunResult):  # of a team: it has an answer, but no conversation of its own
            return self._output([TextBlock.new(result.output)], "end_turn") if result.output else {}
        answer = next((message for message in reversed(result.messages) if message.role == "assistant"), None)
        return {} if answer is None else self._output(answer.content, result.stop_reason)

    def of_request(self, call: ModelCall) -> dict[str, Any]:
        """Return what a model was asked.

        Args:
            call: The model call.
        """
        options = call.source_options
        attributes = self._input(call.source, options.system_prompt)
        if options.tools:
            tools = [
                {"type": "function", "name": t.name, "description": t.description, "parameters": t.input_schema}
                for t in options.tools
            ]
            attributes.update(_attribute(names.TOOL_DEFINITIONS, self._fitting(lambda room: room.data(tools))))
        return attributes

    def of_response(self, response: LLMResponse) -> dict[str, Any]:
        """Return what a model answered.

        Args:
            response: The answer.
        """
        return self._output(response.content, response.stop_reason)

    def of_tool_call(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments of a tool call.

        Args:
            call: The tool call.
        """
        return _attribute(names.TOOL_CALL_ARGUMENTS, self._fitting(lambda room: room.data(call.source)))

    def of_tool_result(self, result: ToolResult) -> dict[str, Any]:
        """Return what a tool answered, as the model reads it.

        Args:
            result: The tool's result.
        """
        return {names.TOOL_CALL_RESULT: self.masked(record_output(result), self._policy.max_chars)}

    @property
    def masks_names(self) -> bool:
        """Whether the value of a sensitive name is masked."""
        return self._policy.capture == "redacted"

    def masked(self, text: str, limit: int) -> str:
        """Return what may be stored of a text, at most so many characters.

        Args:
            text: Any text.
            limit: The most characters.
        """
        policy = self._policy
        window = replace_lone_surrogates(text[: limit + LOOK_AHEAD])
        cut = len(window) < len(text)
        if policy.capture == "redacted":
            window = redact_sensitive_text(window)
        for pattern in policy.patterns:
            window = re.sub(pattern, REDACTED, window)
        if policy.redact is not None:
            window = policy.redact(window)
            if not isinstance(window, str):
                raise TypeError("the mask of a TraceContent must return a str")
            window = replace_lone_surrogates(window)
        return _cut(window[: max(0, len(window) - LOOK_AHEAD)] + _CUT if cut else window, limit)

    def _input(self, messages: Sequence[LLMMessage], system_prompt: str | None) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if system_prompt:
            instructions = self._fitting(lambda room: [{"type": "text", "content": room.text(system_prompt)}])
            attributes.update(_attribute(names.SYSTEM_INSTRUCTIONS, instructions))
        kept: list[str] = []
        left = self._policy.max_chars - 2  # the brackets
        for message in reversed(messages):  # the newest first: the cost of a turn must not grow with the conversation
            text = self._fitting(partial(_message, role=message.role, content=message.content), left)
            if text is None:
                break
            kept.append(text)
            left -= len(text) + 1
        attributes[names.INPUT_MESSAGES] = f"[{','.join(reversed(kept))}]"
        if len(kept) < len(messages):
            attributes[names.OMITTED_MESSAGES] = len(messages) - len(kept)
        return attributes

    def _output(self, content: Iterable[object], stop_reason: str) -> dict[str, Any]:
        def build(room: _Room) -> Any:
            message = _message(room, "assistant", content)
            return [{**message, "finish_reason": _FINISH_REASONS.get(stop_reason, stop_reason)}]

        return _attribute(names.OUTPUT_MESSAGES, self._fitting(build))

    def _fitting(self, build: Callable[[_Room], Any], limit: int | None = None) -> str | None:
        """Return the JSON text of what is built, which is built smaller until the text is short enough."""
        limit = self._policy.max_chars if limit is None else limit
        size = limit
        masked: dict[int, tuple[str, str]] = {}
        while size >= _LEAST:
            room = _Room(self, size, masked)
            text = json.dumps(build(room), ensure_ascii=False, separators=(",", ":"))
            over = len(text) - limit
            if over <= 0:
                return text
            # Escapes and structure take space, too. Each character less shortens the text by one at least.
            size = max(min(size, room.used) - over, size // 2)
        return None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(0, limit - len(_CUT))] + _CUT


def _attribute(name: str, value: str | None) -> dict[str, Any]:
    return {} if value is None else {name: value}


@dataclass(slots=True)
class _Room:
    """What is left of the space for one text of JSON."""

    capture: ContentCapture
    size: int
    masked: dict[int, tuple[str, str]]
    """The texts that have been masked already, by identity, each with itself; they only ever get shorter."""
    used: int = 0

    @property
    def is_full(self) -> bool:
        return self.used >= self.size

    def text(self, value: object) -> str:
        if not isinstance(value, str):  # the fields of a message can hold anything
            return f"<{type(value).__name__}>"
        limit = max(0, self.size - self.used)
        known = self.masked.get(id(value))
        if known is None:
            known = self.masked[id(value)] = (value, self.capture.masked(value, limit))
        kept = _cut(known[1], limit)
        self.used += len(kept)
        return kept

    def data(self, value: Any, depth: int = 0) -> Any:
        """Return a copy of JSON-like data that may be stored."""
        if isinstance(value, str):
            return self.text(value)
        self.used += _ITEM
        if isinstance(value, Mapping | list | tuple):
            if depth >= _MAX_DEPTH:
                return _CUT
            return self._mapping(value, depth) if isinstance(value, Mapping) else self._list(value, depth)
        if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            self.used += len(str(value))
            return value
        return f"<{value if isinstance(value, float) else type(value).__name__}>"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in value.items():
            if self.is_full:
                made[_CUT] = _CUT
                break
            name = self.text(key)
            hidden = self.capture.masks_names and isinstance(key, str) and is_sensitive_name(key)
            made[name] = REDACTED if hidden else self.data(item, depth + 1)
        return made

    def _list(self, value: Sequence[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        for item in value:
            if self.is_full:
                made.append(_CUT)
                break
            made.append(self.data(item, depth + 1))
        return made


def _message(room: _Room, role: str, content: Iterable[object]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, ReasoningBlock):
            continue
        if room.is_full:
            parts.append({"type": "omitted"})
            break
        room.used += _PART
        parts.append(_part(room, block))
    if parts and all(part["type"] == "tool_call_response" for part in parts):
        role = "tool"
    return {"role": str(role), "parts": parts}


def _part(room: _Room, block: object) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "content": room.text(block.text)}
    if isinstance(block, ToolUseBlock):
        called = {"type": "tool_call", "id": room.text(block.id), "name": room.text(block.name)}
        return {**called, "arguments": room.data(block.input)}
    if isinstance(block, ToolResultBlock):
        response = room.text(summarize_tool_result(block.content))
        return {"type": "tool_call_response", "id": room.text(block.tool_use_id), "response": response}
    if isinstance(block, ImageBlock):
        return _media(room, "image", block.source)
    if isinstance(block, FileBlock):
        return {**_media(room, "document", block.source), "filename": room.text(block.filename)}
    return {"type": type(block).__name__}


def _media(room: _Room, modality: str, source: object) -> dict[str, Any]:
    # What is not a blob's `content` is a part of its own kind to the conventions: the bytes stay where they are.
    if isinstance(source, UrlSource):
        return {"type": "uri", "modality": modality, "mime_type": source.media_type, "uri": _address(room, source.url)}
    if isinstance(source, Base64Source):
        return {"type": "blob", "modality": modality, "mime_type": source.media_type, "size": len(source.data) * 3 // 4}
    return {"type": "blob", "modality": modality}


def _address(room: _Room, url: str) -> str:
    if room.capture.masks_names:
        url = re.split(r"[?#]", url, maxsplit=1)[0]  # what signs a URL stands behind its path
    return room.text(url)

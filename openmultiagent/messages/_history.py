"""Whether a conversation is one that a provider takes: calls and results in pairs, ids, roles, texts, media.

Not here: the shape of messages and blocks, which every entry point checks (``_validation``), and the mending of what
is found (``_repair``). Invariants: nothing that an adapter can send is refused by ``require_valid_history``; every
check is linear, and for a run's own conversation costs what is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from .._record import record
from .._shown import shown
from ..errors import ConfigurationError, InvalidMessageError
from ._dialects import DIALECTS, Dialect, Finding, HistoryDialect, HistoryFaultCode, HistoryWalk, Place
from ._explain_messages import takes_messages
from ._images import ImageBlock
from ._input import Conversation
from ._models import (
    ContentBlock,
    FileBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    ToolResultBlock,
    ToolUseBlock,
)
from ._parts import ToolResultFilePart, ToolResultImagePart
from ._sources import MediaSource, UrlSource
from ._validation import as_list, read_messages

__all__ = ["HistoryFault", "check_history", "is_signed", "require_valid_history", "suspended_ids", "unsigned_calls"]

_LEFT_TO_ADAPTERS = frozenset({"unsupported_media", "unsigned_reasoning", "unsigned_call"})
"""Faults that do not keep a conversation from being sent: the adapter refuses media with an error of its own, leaves
unsigned reasoning out, and sends unsigned calls, which older models take."""


@record
class HistoryFault:
    """Something in a conversation that a provider would refuse."""

    path: str
    """Where it is, such as ``messages[1].content[0]``."""
    code: HistoryFaultCode
    message: str
    """What is wrong; the text begins with the path."""
    repair: str
    """What would mend it."""


def check_history(
    messages: Sequence[LLMMessage | Mapping[str, Any]],
    *,
    dialect: HistoryDialect = "any",
    suspended: Collection[str] = (),
) -> list[HistoryFault]:
    """Return what a provider would refuse in a conversation, in document order; empty when there is nothing.

    What adapters put right by themselves when they write a request is no fault. An empty conversation has none.

    Args:
        messages: The conversation; it is not changed.
        dialect: Whose rules it must keep; ``any`` asks for those of all providers.
        suspended: Ids of calls that still wait, for an approval for example, and need no result yet.

    Raises:
        ConfigurationError: The dialect is unknown, or ``suspended`` is a single string.
    """
    names, held = _chosen(dialect), suspended_ids(suspended)
    try:
        known = messages if isinstance(messages, Conversation) else _read(messages)
    except InvalidMessageError as error:
        return [HistoryFault(error.path, "invalid_message", str(error), "write it as the text says")]
    found: dict[tuple[Place, HistoryFaultCode], Finding] = {}
    for name in names:
        rules = DIALECTS[name]
        for finding in chain(HistoryWalk(rules, held).advance(known), _left_to_adapters(known, rules)):
            found.setdefault((finding.place, finding.code), finding)
    if not found:
        return []
    ids = _Ids(known)
    return [ids.explain(found[key]) for key in sorted(found)]


@takes_messages
def require_valid_history(messages: Sequence[LLMMessage], dialect: HistoryDialect) -> None:
    """Refuse a conversation that a provider would refuse; for adapters, before a request is written.

    A ``Conversation`` remembers how far it was found valid, so each further check looks at what is new.

    Args:
        messages: A conversation whose shape was checked; it is not changed.
        dialect: Whose rules it must keep.

    Raises:
        InvalidMessageError: It breaks one; the text names the first fault and what would mend it.
        ConfigurationError: The dialect is unknown.
    """
    marks: dict[str, object] = {}
    if isinstance(messages, Conversation):
        marks = messages._history_marks  # noqa: SLF001 - the conversation keeps them for this function
    for name in _chosen(dialect):
        walk = marks.pop(name, None)  # put back only when all is well: a walk does not find a fault twice
        if not isinstance(walk, HistoryWalk):
            walk = HistoryWalk(DIALECTS[name])
        if walk.advance(messages):
            faults = check_history(messages, dialect=dialect)
            fault = next(fault for fault in faults if fault.code not in _LEFT_TO_ADAPTERS)
            raise InvalidMessageError(f"{fault.message}; {fault.repair}", path=fault.path)
        marks[name] = walk


def suspended_ids(ids: Collection[str]) -> frozenset[str]:
    """Return ids as a set.

    Args:
        ids: The ids.

    Raises:
        ConfigurationError: They are no collection of ids, or one string, which would be taken for one id per character.
    """
    if isinstance(ids, str):
        raise ConfigurationError("suspended must be a collection of the ids of calls, got a string; put it into a list")
    try:
        return frozenset(ids)
    except TypeError:
        raise ConfigurationError(
            f"suspended must be a collection of the ids of calls, got {type(ids).__name__}; put them into a list"
        ) from None


def is_signed(block: ReasoningBlock) -> bool:
    """Say whether reasoning has what its provider needs to take it back.

    Args:
        block: The reasoning.
    """
    return bool(block.signature or block.redacted_data)


def unsigned_calls(messages: Sequence[LLMMessage]) -> list[Place]:
    """Return where signatures were lost: the first call of a step without one, while other calls have theirs.

    Only the steps behind the last thing that the user said matter; the provider forgets the others.

    Args:
        messages: A valid conversation.
    """
    signed = any(isinstance(block, ToolUseBlock) and block.signature for item in messages for block in item.content)
    if not signed:
        return []
    found: list[Place] = []
    within_step = False
    for index, message in enumerate(messages):
        if message.role != Role.ASSISTANT:
            within_step = False
            if any(not isinstance(block, ToolResultBlock) for block in message.content):
                found = []
            continue
        for position, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock) and not within_step:
                within_step = True
                if not block.signature:
                    found.append((index, position))
    return found


def _read(messages: object) -> list[LLMMessage]:
    return read_messages(as_list(messages, "messages"), "messages")


def _chosen(dialect: object) -> Sequence[str]:
    if dialect == "any":
        return tuple(DIALECTS)
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        raise ConfigurationError(f"unknown dialect {shown(dialect)}; known are {', '.join(DIALECTS)}, any")
    return (dialect,)


def _left_to_adapters(messages: Sequence[LLMMessage], rules: Dialect) -> Iterator[Finding]:
    for index, message in enumerate(messages):
        for position, block in enumerate(message.content):
            if isinstance(block, ReasoningBlock):
                if block.provenance and block.provenance == rules.signed_reasoning and not is_signed(block):
                    yield Finding("unsigned_reasoning", (index, position), block.provenance)
            else:
                refused = [what for what, taken in _media(block, rules) if not taken]
                if refused:
                    yield Finding("unsupported_media", (index, position), refused[0])
    if rules.signed_calls:
        yield from (Finding("unsigned_call", place) for place in unsigned_calls(messages))


def _media(block: ContentBlock, rules: Dialect) -> Iterator[tuple[str, bool]]:
    """Yield the media of a block, and whether the provider takes each."""
    parts = block.content if isinstance(block, ToolResultBlock) and not isinstance(block.content, str) else [block]
    for part in parts:
        if isinstance(part, ImageBlock | ToolResultImagePart):
            yield _described("image", part.source), _takes(part.source, rules.images, urls=rules.image_urls)
        elif isinstance(part, FileBlock | ToolResultFilePart):
            yield _described("file", part.source), _takes(part.source, rules.files, urls=rules.file_urls)


def _takes(source: MediaSource, types: frozenset[str] | None, *, urls: bool) -> bool:
    if isinstance(source, UrlSource) and not urls:
        return False
    return types is None or source.media_type is None or source.media_type in types


def _described(kind: str, source: MediaSource) -> str:
    form = "given as URL" if isinstance(source, UrlSource) else "given as base64"
    return f"{kind} of type {source.media_type}, {form}" if source.media_type else f"{kind} {form}"


class _Ids:
    """Where the calls and results of a conversation are, for telling what is wrong with one."""

    def __init__(self, messages: Sequence[LLMMessage]) -> None:
        self._messages = messages
        self._calls: dict[str, Place] = {}
        self._results: dict[str, Place] = {}
        for index, message in enumerate(messages):
            for position, block in enumerate(message.content):
                if isinstance(block, ToolUseBlock):
                    self._calls.setdefault(block.id, (index, position))
                elif isinstance(block, ToolResultBlock):
                    self._results.setdefault(block.tool_use_id, (index, position))

    def explain(self, finding: Finding) -> HistoryFault:
        code = finding.code
        if code == "unknown_result" and finding.detail in self._calls:
            first = self._results[finding.detail] == finding.place
            code = "misplaced_result" if first else "duplicate_result"
        where, text, repair = self._words(code, finding)
        path = _path(finding.place) + where
        return HistoryFault(path, code, f"{path} {text}", repair)

    def _words(self, code: HistoryFaultCode, finding: Finding) -> tuple[str, str, str]:
        """Return the field, what is wrong with it, and what would mend it."""
        call = f"the call with id {shown(finding.detail)}"
        where = self._calls.get(finding.detail)
        turn = "" if where is None else _path((where[0], -1))
        if code == "unanswered_call":
            return "", f"is {call}, which no result answers before the next turn", self._answer(finding)
        if code == "misplaced_result":
            return "", f"answers {call}, but does not stand right behind {turn}", f"move it right behind {turn}"
        if code == "duplicate_call":
            told = "give each call an id of its own, and its result the same"
            return ".id", f"is {shown(finding.detail)}, which another call has: {_path(where or finding.place)}", told
        return {
            "late_system": (".role", "must not be system after another role", "put system messages first"),
            "leading_assistant": (".role", "must not be assistant in the first turn", "put a user message before it"),
            "nothing_to_send": ("", "have nothing in them that would be sent", "add a user message with a text"),
            "unknown_result": ("", f"answers {call}, which does not exist", "put the call back, or remove the result"),
            "duplicate_result": ("", f"answers {call} once more", "remove it"),
            "empty_id": (".id", "must not be blank", "give the call an id, and its result the same"),
            "empty_name": (".name", "must not be blank", "write the name of the tool"),
            "empty_error": (".content", "must say how the tool failed", "write a text"),
            "unsupported_media": (
                "",
                f"has an {finding.detail}, which is not taken",
                "send another form of it, or text",
            ),
            "unsigned_reasoning": (
                "",
                f"has lost the signature that {shown(finding.detail)} wants back with its reasoning",
                "keep the signature, or clear the provenance",
            ),
            "unsigned_call": (
                "",
                "is the first call of its step and has lost its signature, which other calls have",
                "pass calls on with the signatures that they came with",
            ),
        }[code]

    def _answer(self, finding: Finding) -> str:
        result = self._results.get(finding.detail)
        turn = _path((finding.place[0], -1))
        if result is None:
            return f"add a tool_result for it right behind {turn}, or see repair_history"
        return f"move {_path(result)} right behind {turn}, or see repair_history"


def _path(place: Place) -> str:
    index, position = place
    if index < 0:
        return "messages"
    return f"messages[{index}]" if position < 0 else f"messages[{index}].content[{position}]"

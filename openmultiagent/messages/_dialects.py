"""What the providers' protocols demand of a conversation, and the walk that finds where one falls short.

It is about what an adapter cannot put right by itself: neighbours of one role, results that stand behind a text or in
several messages, blank texts beside others and an answer at the end are dealt with when the request is written. The
rules follow the providers' documentation and the refusals of their servers as they were in November 2026.

Invariant: a walk looks at each message once, whatever was found; the same walk can go on when messages were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from .._record import record
from ._models import ContentBlock, LLMMessage, ReasoningBlock, Role, TextBlock, ToolResultBlock, ToolUseBlock

__all__ = ["DIALECTS", "Dialect", "Finding", "HistoryDialect", "HistoryFaultCode", "HistoryWalk", "Place", "is_blank"]

HistoryDialect = Literal["openai", "anthropic", "gemini", "bedrock", "any"]
"""Whose rules a conversation must keep; ``any`` means those of all of them."""

HistoryFaultCode = Literal[
    "invalid_message",
    "late_system",
    "leading_assistant",
    "nothing_to_send",
    "unanswered_call",
    "unknown_result",
    "misplaced_result",
    "duplicate_result",
    "duplicate_call",
    "empty_id",
    "empty_name",
    "empty_error",
    "unsupported_media",
    "unsigned_reasoning",
    "unsigned_call",
]
"""What can be wrong with a conversation."""

Place = tuple[int, int]
"""The number of a message and of a block in it; -1 stands for the whole."""

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_BEDROCK_FILES = frozenset(
    {"application/pdf", "text/csv", "text/html", "text/markdown", "text/plain"}
    | {"application/msword", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"}
    | {"application/vnd.ms-excel", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
)


@record(kw_only=True)
class Dialect:
    """The rules of one protocol."""

    merges: bool = True
    """Neighbours of one role become one turn, so results may follow any message of the turn that made the calls."""
    unique_ids: bool = False
    """No two calls of a conversation may have one id; otherwise, no two calls of a turn."""
    user_first: Literal["never", "with_calls", "always"] = "never"
    """Whether the first turn must be the user's: always, or when it would be one with tool calls."""
    drops: Literal["blank", "empty", "nothing"] = "nothing"
    """Which texts are not sent, so that a message of nothing else does not count: blank ones, or empty ones but for the
    user's."""
    error_needs_text: bool = False
    """A failed tool must say something."""
    system_counts: bool = False
    """A request may consist of system texts alone."""
    images: frozenset[str] | None = None
    """Media types of images; None takes any."""
    image_urls: bool = True
    files: frozenset[str] | None = None
    """Media types of files; None takes any."""
    file_urls: bool = True
    signed_reasoning: str | None = None
    """The provenance of reasoning that goes back only with its signature."""
    signed_calls: bool = False
    """Calls may carry signatures, and a turn in which some do must keep the first of each step."""

    def counts(self, message: LLMMessage) -> bool:
        """Say whether anything of a message may be sent, so that what stands before and behind it is apart.

        Args:
            message: A valid message.
        """
        return any(isinstance(block, ReasoningBlock) or self._sends(block, message.role) for block in message.content)

    def says(self, message: LLMMessage) -> bool:
        """Say whether anything of a message is sent for certain; reasoning is not, when it is another provider's.

        Args:
            message: A valid message.
        """
        sent = (block for block in message.content if not isinstance(block, ReasoningBlock))
        return any(self._sends(block, message.role) for block in sent)

    def _sends(self, block: ContentBlock, role: Role) -> bool:
        if not isinstance(block, TextBlock) or self.drops == "nothing":
            return True
        if self.drops == "blank":
            return not is_blank(block.text)
        return bool(block.text) or role == Role.USER


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(merges=False, drops="empty", system_counts=True, file_urls=False),
    "anthropic": Dialect(
        unique_ids=True,
        drops="blank",
        error_needs_text=True,
        images=_IMAGES,
        files=frozenset({"application/pdf"}),
        signed_reasoning="anthropic",
    ),
    "gemini": Dialect(user_first="with_calls", signed_calls=True),
    "bedrock": Dialect(
        unique_ids=True,
        user_first="always",
        drops="blank",
        error_needs_text=True,
        images=_IMAGES,
        image_urls=False,
        files=_BEDROCK_FILES,
        file_urls=False,
        signed_reasoning="bedrock",
    ),
}
"""The protocols by their names in ``HistoryDialect``."""


@record
class Finding:
    """A place at which a conversation falls short."""

    code: HistoryFaultCode
    place: Place
    detail: str = ""
    """The id that it is about."""


class HistoryWalk:
    """A walk along a conversation by the rules of one protocol.

    Args:
        dialect: The protocol.
        suspended: Ids of calls that may stay without a result.
    """

    __slots__ = (
        "_answered",
        "_answering",
        "_begun",
        "_dialect",
        "_ids",
        "_open",
        "_past_system",
        "_started",
        "_suspended",
        "_system",
        "seen",
    )

    def __init__(self, dialect: Dialect, suspended: Iterable[str] = ()) -> None:
        self.seen = 0
        """How many messages the walk has passed."""
        self._dialect = dialect
        self._suspended = frozenset(suspended)
        self._ids: set[str] = set()
        self._open: dict[str, Place] = {}
        self._answered: set[str] = set()
        self._answering = False
        self._system = False
        self._past_system = False
        self._started = False
        """Whether a message that counts has passed."""
        self._begun = False
        """Whether a user's message that counts has passed, or its lack was told."""

    def advance(self, messages: Sequence[LLMMessage]) -> list[Finding]:
        """Pass the messages that the walk has not seen yet, and return what they lack if they are the last ones.

        Args:
            messages: The conversation; what was passed before is not looked at.
        """
        found: list[Finding] = []
        for index in range(self.seen, len(messages)):
            found.extend(self._pass(index, messages[index]))
        self.seen = len(messages)
        found.extend(self._unanswered())
        if self.seen and not self._started and not (self._dialect.system_counts and self._system):
            found.append(Finding("nothing_to_send", (-1, -1)))
        return found

    def _pass(self, index: int, message: LLMMessage) -> Iterator[Finding]:
        if message.role == Role.SYSTEM:
            self._system = self._system or self._dialect.counts(message)
            if self._past_system:
                yield Finding("late_system", (index, -1))
            return
        self._past_system = True
        if not self._dialect.counts(message):
            return
        if message.role == Role.ASSISTANT:
            yield from self._turn(index, message)
        else:
            self._started = self._begun = self._answering = True
            for position, block in enumerate(message.content):
                if isinstance(block, ToolResultBlock):
                    yield from self._result((index, position), block)

    def _turn(self, index: int, message: LLMMessage) -> Iterator[Finding]:
        calls = [(n, block) for n, block in enumerate(message.content) if isinstance(block, ToolUseBlock)]
        wanted = self._dialect.user_first
        if not self._begun and (wanted == "always" or (wanted == "with_calls" and calls)):
            yield Finding("leading_assistant", (index, -1))
            self._begun = True
        self._started = self._started or self._dialect.says(message)
        if self._answering or not self._dialect.merges:
            yield from self._unanswered()
            self._open, self._answered = {}, set()
        self._answering = False
        for position, call in calls:
            yield from self._call((index, position), call)

    def _call(self, place: Place, call: ToolUseBlock) -> Iterator[Finding]:
        if is_blank(call.id):
            yield Finding("empty_id", place)
        if is_blank(call.name):
            yield Finding("empty_name", place)
        known = self._ids if self._dialect.unique_ids else self._open
        if call.id in known:
            yield Finding("duplicate_call", place, call.id)
        if self._dialect.unique_ids:
            self._ids.add(call.id)
        self._open.setdefault(call.id, place)

    def _result(self, place: Place, result: ToolResultBlock) -> Iterator[Finding]:
        key = result.tool_use_id
        if self._open.pop(key, None) is not None:
            self._answered.add(key)
        else:
            yield Finding("duplicate_result" if key in self._answered else "unknown_result", place, key)
        if self._dialect.error_needs_text and result.is_error and is_blank(str(result.content)):
            yield Finding("empty_error", place, key)

    def _unanswered(self) -> Iterator[Finding]:
        for key, place in self._open.items():
            if key not in self._suspended:
                yield Finding("unanswered_call", place, key)


def is_blank(text: str) -> bool:
    """Say whether a text has nothing but spaces in it.

    Args:
        text: The text.
    """
    return not text or text.isspace()

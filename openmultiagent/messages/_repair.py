"""The mending of conversations: what comes out is one that every provider takes.

A call without a result gets one that says so, a result goes to its call, and what nobody asked for is left out: as a
text it would have the weight of a user's words. Invariants: what comes in is never changed; a conversation without
faults comes out equal, so mending twice is mending once; the work is linear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ._dialects import DIALECTS, is_blank
from ._history import check_history, is_signed, suspended_ids, unsigned_calls
from ._input import coerce_messages
from ._models import (
    ContentBlock,
    LLMMessage,
    ReasoningBlock,
    Role,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["repair_history"]

_NO_RESULT = "This call has no result: it was interrupted, or its result was lost."
_NO_REASON = "The tool failed and did not say why."
_NO_BEGINNING = "[The beginning of this conversation is missing.]"
_NO_NAME = "unknown_tool"
_NO_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini's documentation gives as the signature of calls that its model did not make."""


def repair_history(
    messages: Sequence[LLMMessage | Mapping[str, Any]], *, suspended: Collection[str] = ()
) -> list[LLMMessage]:
    """Return a copy of a conversation that every provider takes, with as little changed as possible.

    Calls without a result get an error result. Results go right behind the turn that made the calls, in one message and
    in the order of the calls; those of no call, and second ones, are left out. Calls whose ids occur twice get new ids,
    and their results with them. System messages go to the front, and a beginning that is not the user's gets a user
    message before it. Media are not touched: what to send in their place is for the caller to say.

    Args:
        messages: The conversation; it is not changed.
        suspended: Ids of calls that still wait, for an approval for example: they keep their ids and get no result.

    Raises:
        InvalidMessageError: A message is not one, which nothing here can mend.
        ConfigurationError: ``suspended`` is a single string.
    """
    held = suspended_ids(suspended)
    own = coerce_messages(messages)
    if all(fault.code == "unsupported_media" for fault in check_history(own, suspended=held)):
        return own
    system = [message for message in own if message.role == Role.SYSTEM]
    turns = [message for message in own if message.role != Role.SYSTEM]
    calls = _paired(turns)
    _rename([call for made in calls.values() for call in made], held)
    _fill_blanks(turns)
    mended = list(_arranged(turns, calls, held))
    if _lacks_beginning(mended) and own:
        mended.insert(0, LLMMessage.user(_NO_BEGINNING))
    for index, position in unsigned_calls(mended):
        content = mended[index].content
        content[position] = content[position].model_copy(update={"signature": _NO_SIGNATURE})
    return [*system, *mended]


class _Call:
    """A call, and the result that belongs to it."""

    __slots__ = ("block", "result")

    def __init__(self, block: ToolUseBlock) -> None:
        self.block = block
        self.result: ToolResultBlock | None = None

    def rename(self, call_id: str) -> None:
        self.block.id = call_id
        if self.result is not None:
            self.result.tool_use_id = call_id


def _paired(turns: Sequence[LLMMessage]) -> dict[int, list[_Call]]:
    """Return the calls of each message, with their results.

    A result belongs to the last turn before it that has an open call of its id, and in it to the first such call. When
    there is no call of its id yet, it belongs to the first one that comes.
    """
    calls: dict[int, list[_Call]] = {}
    waiting: dict[str, list[tuple[int, deque[_Call]]]] = {}
    early: dict[str, deque[ToolResultBlock]] = {}
    step, answering = 0, True
    for index, message in enumerate(turns):
        if message.role != Role.ASSISTANT:
            answering = True
        elif answering:
            step, answering = step + 1, False
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                call = _Call(block)
                calls.setdefault(index, []).append(call)
                first = early.get(block.id)
                stack = waiting.setdefault(block.id, [])
                if first:
                    call.result = first.popleft()
                elif stack and stack[-1][0] == step:
                    stack[-1][1].append(call)
                else:
                    stack.append((step, deque([call])))
            elif isinstance(block, ToolResultBlock):
                known = waiting.get(block.tool_use_id)
                if known is None:
                    early.setdefault(block.tool_use_id, deque()).append(block)
                    continue
                while known and not known[-1][1]:
                    known.pop()
                if known:
                    known[-1][1].popleft().result = block
    return calls


def _rename(calls: Sequence[_Call], held: frozenset[str]) -> None:
    """Give every call an id of its own; of a suspended id, the last open call keeps it, else the first call does."""
    keepers: dict[str, _Call] = {}
    for call in calls:
        key = call.block.id
        if not is_blank(key) and (key not in keepers or (key in held and call.result is None)):
            keepers[key] = call
    taken, numbers = set(keepers), dict.fromkeys(keepers, 1)
    for call in calls:
        key = call.block.id
        if keepers.get(key) is call:
            continue
        base = "call" if is_blank(key) else key
        number = numbers.get(base, 1)
        while (made := f"{base}-{number + 1}") in taken:
            number += 1
        numbers[base] = number + 1
        taken.add(made)
        call.rename(made)


def _fill_blanks(turns: Sequence[LLMMessage]) -> None:
    """Mend what is wrong with single blocks."""
    signed = {rules.signed_reasoning for rules in DIALECTS.values()}
    for message in turns:
        for block in message.content:
            if isinstance(block, ToolUseBlock) and is_blank(block.name):
                block.name = _NO_NAME
            elif isinstance(block, ToolResultBlock) and block.is_error and is_blank(str(block.content)):
                block.content = _NO_REASON
            elif isinstance(block, ReasoningBlock) and block.provenance in signed and not is_signed(block):
                block.provenance = None  # nobody's, so it can still be sent as text


def _arranged(
    turns: Sequence[LLMMessage], calls: Mapping[int, list[_Call]], held: frozenset[str]
) -> Iterator[LLMMessage]:
    """Yield the messages, with the results where they belong."""
    owed: list[ContentBlock] = []
    for index, message in enumerate(turns):
        if message.role == Role.ASSISTANT:
            yield from _results(owed)
            owed = [result for call in calls.get(index, ()) for result in _settled(call, held)]
            yield message
            continue
        rest = [block for block in message.content if not isinstance(block, ToolResultBlock)]
        if len(rest) == len(message.content):
            yield from _results(owed)
            yield message
        elif owed or rest:
            message.content = [*owed, *rest]
            message.role = Role.USER if rest else message.role
            yield message
        owed = []
    yield from _results(owed)


def _results(blocks: list[ContentBlock]) -> Iterator[LLMMessage]:
    if blocks:
        yield LLMMessage.new(Role.USER, blocks)


def _settled(call: _Call, held: frozenset[str]) -> Iterator[ToolResultBlock]:
    if call.result is not None:
        yield call.result
    elif call.block.id not in held:
        yield ToolResultBlock(tool_use_id=call.block.id, content=_NO_RESULT, is_error=True)


def _lacks_beginning(turns: Sequence[LLMMessage]) -> bool:
    strictest = DIALECTS["bedrock"]
    first = next((message for message in turns if strictest.counts(message)), None)
    return first is None or first.role == Role.ASSISTANT

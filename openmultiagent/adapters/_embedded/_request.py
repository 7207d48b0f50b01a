"""What a conversation asks for and about what: the instruction, the material, and what cannot be read.

Rules, in this order. The instruction is the text of the latest user message that asks for something. The material is
what else that message brings: further text blocks, text files, or the rest of the one text block. When it brings
nothing, it is all earlier text of users and tools; when there is none, the assistant's text; when there is none, the
instruction itself if it is long. When the last message holds tool results, they are the material. Invariant: reads
messages, never changes them.
"""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from ..._patterns import lazy_pattern
from ...messages import (
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    LLMMessage,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolResultFilePart,
    ToolResultTextPart,
    UrlSource,
)
from ._intent import asks
from ._text import split_sentences
from ._words import count_tokens

__all__ = ["LONG_INSTRUCTION", "Request", "read_request"]

LONG_INSTRUCTION = 40
"""Word tokens from which a text that stands alone is read as the material."""
_LONGEST_INSTRUCTION = 1_000  # characters of a block that may be the instruction to other blocks
_LONGEST_LEAD = 400  # characters of a paragraph or sentence that may be the instruction to the rest of its block
_LEAST_REST = 12  # word tokens that make the rest of a sentence's block a text of its own

Source = Base64Source | UrlSource


@dataclass(slots=True)
class Request:
    """A conversation as the engine sees it."""

    system_prompt: str = ""
    instruction: str = ""
    material: list[str] = field(default_factory=list)
    images: Counter[str] = field(default_factory=Counter)
    """How many images of each media type the conversation has."""
    unread_files: list[str] = field(default_factory=list)
    """Names of the files that are no text."""
    texts: list[str] = field(default_factory=list)
    """Everything that was read, for the usage."""

    @property
    def size(self) -> int:
        """Characters of everything that was read."""
        return sum(map(len, self.texts))


@dataclass(slots=True)
class _Turn:
    """What one message brings, by kind."""

    role: Role
    texts: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


def read_request(system_prompt: str | None, messages: Sequence[LLMMessage]) -> Request:
    """Return what a conversation asks for.

    Args:
        system_prompt: The system prompt, when there is one.
        messages: The conversation, normalised: user and assistant messages.
    """
    request = Request(system_prompt or "")
    turns = [_read_turn(message, request) for message in messages]
    request.texts = [
        request.system_prompt,
        *(text for turn in turns for text in (*turn.texts, *turn.files, *turn.results)),
    ]
    asking = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].role == Role.USER and turns[at].texts), None)
    own: list[str] = []
    if asking is not None:
        request.instruction, own = _split_blocks(turns[asking].texts)
    if turns and turns[-1].results:
        request.material = turns[-1].results
    else:
        latest = turns[asking:] if asking is not None else turns
        own += [text for turn in latest for text in (*turn.files, *turn.results)]
        request.material = own or list(_earlier(turns[:asking]))
    if not any(map(str.strip, request.material)):
        _without_material(request, turns[:asking])
    return request


def _without_material(request: Request, earlier: list[_Turn]) -> None:
    request.material = [text for turn in earlier if turn.role == Role.ASSISTANT for text in turn.texts]
    if not request.material and count_tokens(request.instruction[: 100 * LONG_INSTRUCTION]) >= LONG_INSTRUCTION:
        request.material, request.instruction = [request.instruction], ""


def _earlier(turns: list[_Turn]) -> Iterator[str]:
    for turn in turns:
        if turn.role == Role.USER and turn.texts:
            instruction, material = _split_blocks(turn.texts)
            if not asks(instruction):
                yield instruction
            yield from material
        yield from turn.files
        yield from turn.results


# --- blocks ----------------------------------------------------------------------------------------------------------


def _read_turn(message: LLMMessage, request: Request) -> _Turn:
    turn = _Turn(message.role)
    for block in message.content:
        _read_block(block, turn, request)
    return turn


def _read_block(block: ContentBlock, turn: _Turn, request: Request) -> None:
    if isinstance(block, TextBlock):
        turn.texts.append(block.text)
    elif isinstance(block, ImageBlock):
        _count_image(block.source, request)
    elif isinstance(block, FileBlock):
        turn.files.extend(_file_text(block.filename, block.source, request))
    elif isinstance(block, ToolResultBlock):
        for part in [block.content] if isinstance(block.content, str) else block.content:
            if isinstance(part, str):
                turn.results.append(part)
            elif isinstance(part, ToolResultTextPart):
                turn.results.append(part.text)
            elif isinstance(part, ToolResultFilePart):
                turn.results.extend(_file_text(part.filename, part.source, request))
            else:
                _count_image(part.source, request)


def _count_image(source: Source, request: Request) -> None:
    request.images[source.media_type or "given by URL"] += 1


def _file_text(name: str, source: Source, request: Request) -> Iterator[str]:
    kind = source.media_type or ""
    if isinstance(source, Base64Source) and (
        kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "toml"))
    ):
        data = source.data
        yield binascii.a2b_base64(data + "=" * (-len(data) % 4)).decode(errors="replace")
    else:
        request.unread_files.append(f"{name} ({kind or 'given by URL'})")


# --- instruction and material ----------------------------------------------------------------------------------------

_BLANK_LINE = lazy_pattern(r"\n[ \t]*\n")
_HEADINGS = lazy_pattern(r"(?:#{1,6} [^\n]*\n\s*)+")
_FIRST_LINE = lazy_pattern(r"[^\n]{1,400}[:.?!\uff1a\u3002\uff1f\uff01]\s*\n")
_LEAD = lazy_pattern(r"[^\n]{1,200}?(?:[:.?!]\s|[\uff1a\u3002\uff1f\uff01])")


def _split_blocks(texts: list[str]) -> tuple[str, list[str]]:
    if len(texts) == 1:
        return _split_text(texts[0])
    short = [at for at, text in enumerate(texts) if len(text) <= _LONGEST_INSTRUCTION and text.strip()]
    asking = [at for at in short if asks(texts[at])]
    at = min(asking, key=lambda index: len(texts[index])) if asking else next(iter(short), None)
    if at is None:
        return "", texts
    return texts[at], [*texts[:at], *texts[at + 1 :]]


def _split_text(text: str) -> tuple[str, list[str]]:
    """Take the instruction off the start or the end of a text; when there is none, all of it is the instruction.

    Headings above the instruction belong to neither: they are what tasks and forms put there.
    """
    text = text.strip()
    headings = _HEADINGS.match(text)
    ways = _ways_to_split(text)
    if headings is not None:
        ways = chain(islice(_ways_to_split(text[headings.end() :]), 1), ways)
    for instruction, rest in ways:
        if instruction and rest and len(instruction) <= _LONGEST_LEAD and asks(instruction):
            return instruction, [rest]
    return text, []


def _ways_to_split(text: str) -> Iterator[tuple[str, str]]:
    blank = _BLANK_LINE.search(text)
    if blank is not None:
        yield text[: blank.start()], text[blank.end() :]
        last = text.rstrip().rfind("\n\n")
        yield text[last:].strip() if last >= 0 else "", text[:last]
    line = _FIRST_LINE.match(text)
    if line is not None:
        yield line[0].strip(), text[line.end() :]
    lead = _LEAD.match(text)
    if lead is not None and count_tokens(text[lead.end() :][:2_000]) >= _LEAST_REST:
        yield lead[0].strip(), text[lead.end() :]
    tail = " ".join(text[-_LONGEST_LEAD:].split())
    closing = split_sentences(tail)[-1:]
    if (
        closing
        and len(closing[0]) < len(tail)
        and count_tokens(text[-2_000:]) >= _LEAST_REST + count_tokens(closing[0])
    ):
        yield closing[0], text[: text.rfind(closing[0][:20])]

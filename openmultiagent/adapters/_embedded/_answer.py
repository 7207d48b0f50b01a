"""An answer to a request, as the pieces that it is streamed in.

The answer is made of sentences of the material and a few fixed sentences of the engine's own, which say what it could
not do. Invariant: the same request gives the same pieces, and the pieces joined are the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..._record import record
from ._intent import Intent, read_intent
from ._rank import Document, key_terms, representative, summarize
from ._request import Request
from ._search import find_sentences
from ._text import Sentence, join_sentences, read_sentences
from ._words import count_tokens

__all__ = ["CHARACTERS_PER_TOKEN", "Answer", "make_answer"]

CHARACTERS_PER_TOKEN = 4
"""What ``max_tokens`` is multiplied with to get a limit in characters."""

_ABOUT = [
    "This is the embedded text engine, which is no language model.",
    "It can summarise a text, list its key terms, and find the sentences that answer a question about it.",
]
_NOTHING = [*_ABOUT, "There is no text to work on: send one along with the instruction, or attach a file."]
_CANNOT = [
    *_ABOUT,
    "It cannot do what the instruction asks, and no sentence of the text matches it; here is a summary instead.",
]
_NO_MATCH = "No sentence of the text matches the question."

_FOUND = 3  # sentences that answer a question at most, unless the instruction says how many
_TERMS = 10  # key terms, unless the instruction says how many


@record
class Answer:
    """A finished answer."""

    pieces: tuple[str, ...]
    is_cut: bool
    """Whether the token limit cut it."""
    read_tokens: int
    """Word tokens of everything that was read."""
    written_tokens: int
    """Word tokens of the answer."""


def make_answer(request: Request, max_tokens: int | None) -> Answer:
    """Answer a request.

    Args:
        request: What is asked for and about what.
        max_tokens: The limit of the answer, at four characters a token.
    """
    pieces = _pieces(request)
    kept = pieces if max_tokens is None else _within(pieces, max(max_tokens, 1) * CHARACTERS_PER_TOKEN)
    return Answer(
        tuple(kept),
        is_cut=kept != pieces,
        read_tokens=sum(map(count_tokens, request.texts)),
        written_tokens=count_tokens("".join(kept)),
    )


def _pieces(request: Request) -> list[str]:
    parts = [join_sentences(notes)] if (notes := _notes(request)) else []
    sentences = [sentence for text in request.material for sentence in read_sentences(text)]
    if not sentences:
        parts.append(join_sentences(_NOTHING))
    else:
        intent = read_intent(request.instruction, request.system_prompt)
        parts.extend(_answer(sentences, request.instruction, intent))
    return _paragraphs(parts)


def _notes(request: Request) -> list[str]:
    notes = []
    if request.images:
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(request.images.items()))
        total = request.images.total()
        notes.append(
            f"The embedded engine cannot see images; {total} {'was' if total == 1 else 'were'} left out ({kinds})."
        )
    if request.unread_files:
        notes.append(f"It can read text files only; left out: {', '.join(request.unread_files)}.")
    return notes


def _answer(sentences: Sequence[Sentence], instruction: str, intent: Intent) -> list[list[str]]:
    """Return the paragraphs of the answer, each as its pieces."""
    if intent.kind == "terms":
        return [_bullets(key_terms(Document(representative(sentences)), intent.count or _TERMS))]
    if intent.kind == "summary" or not instruction.strip():
        return [_summary(sentences, intent)]
    document = Document(sentences)
    found = find_sentences(
        document, instruction, intent.count or _FOUND, least=0.7 if intent.kind == "question" else 0.5
    )
    if found:
        return [_told(document, found, intent)]
    if intent.kind == "question":
        return [join_sentences([_NO_MATCH, *_topic(sentences)])]
    return [join_sentences(_CANNOT), _summary(sentences, intent)]


def _summary(sentences: Sequence[Sentence], intent: Intent) -> list[str]:
    # 10 sentences give 2, 30 give 3, 100 give 4, and none gives more than 6 unless more are asked for.
    wanted = intent.count or min(max(round(1 + math.log(len(sentences)) / 1.6), 2), 6)
    document = Document(representative(sentences))
    return _told(document, summarize(document, wanted), intent)


def _told(document: Document, indexes: list[int], intent: Intent) -> list[str]:
    texts = [document.sentences[index].text for index in indexes]
    return _bullets(texts) if intent.bullets else join_sentences(texts)


def _topic(sentences: Sequence[Sentence]) -> list[str]:
    terms = key_terms(Document(representative(sentences)), 5)
    return [f"Its key terms are: {', '.join(terms)}."] if terms else []


def _bullets(items: list[str]) -> list[str]:
    return [f"{'' if at == 0 else chr(10)}- {item}" for at, item in enumerate(items)]


def _paragraphs(parts: list[list[str]]) -> list[str]:
    pieces: list[str] = []
    for part in parts:
        first, *rest = part or [""]
        pieces += [f"\n\n{first}" if pieces else first, *rest]
    return pieces


def _within(pieces: list[str], limit: int) -> list[str]:
    """Return the pieces that fit, or the start of the first one, cut at a word."""
    kept: list[str] = []
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            break
        kept.append(piece)
    if kept or not pieces:
        return kept
    start = pieces[0][: limit + len(pieces[0])]
    return [start[: start.rfind(" ")] if " " in start else start]

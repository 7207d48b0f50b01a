"""What an agent is sent: the prompt, the texts of files, and images.

Everything is read and checked before anything runs. The prompt comes first: so the embedded engine knows it from the
texts behind it whatever it says, and to a language model either order means the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from openmultiagent import ContentBlock, ImageBlock, LLMMessage, TextBlock

__all__ = ["InputError", "read_input"]

_STDIN = "-"
_MAX_FILE_BYTES = 4 * 2**20
"""Bytes of a text file, about a million tokens: more than a model reads at once."""


class InputError(Exception):
    """An argument or a file is not as it must be; the message names it and the fix."""


def read_input(prompt: str, files: Sequence[str], images: Sequence[str]) -> str | list[LLMMessage]:
    """Return the input of a run.

    Args:
        prompt: What is asked.
        files: Paths of text files; ``-`` is stdin.
        images: Paths of image files.

    Raises:
        InputError: The prompt is blank, or a text file cannot be read, is no text, is empty or too large.
        InvalidMessageError: An image cannot be read, or is of an unknown kind.
    """
    if not prompt.strip():
        raise InputError("PROMPT is empty; say what the agent is to do")
    if files.count(_STDIN) > 1:
        raise InputError("--file - was given more than once; stdin can be read only once")
    if not files and not images:
        return prompt
    blocks: list[ContentBlock] = [TextBlock.new(prompt)]
    texts = [(_shown(path), _read_text(path)) for path in files]
    # Several texts are told apart by their names; beside a single one, a name is one more thing to trip over.
    blocks.extend(TextBlock.new(text if len(texts) == 1 else f"File {name}:\n\n{text}") for name, text in texts)
    blocks.extend(ImageBlock.from_file_path(path) for path in images)
    return [LLMMessage.user_with_blocks(blocks)]


def _read_text(path: str) -> str:
    name = _shown(path)
    try:
        content = _read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(f"cannot read the file {name}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise InputError(f"the file {name} has more than {_MAX_FILE_BYTES // 2**20} MiB; send a part of it")
    if b"\0" in content:
        raise InputError(f"the file {name} is binary; --file takes text in UTF-8, and --image takes images")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the file {name} is not UTF-8 text: byte 0x{content[error.start]:02x} at position {error.start}; "
            "--file takes text in UTF-8, and --image takes images"
        ) from None
    if not text.strip():
        raise InputError(f"the file {name} is empty")
    return text


def _read_bytes(path: str) -> bytes:
    if path != _STDIN:
        with Path(path).open("rb") as file:
            return file.read(_MAX_FILE_BYTES + 1)
    if sys.stdin is None:
        raise InputError("--file - reads stdin, which is closed")
    return sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)


def _shown(path: str) -> str:
    """Return a path as text: its bytes may be no UTF-8."""
    return "standard input" if path == _STDIN else os.fsencode(path).decode("utf-8", "replace")

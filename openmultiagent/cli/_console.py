"""Where ``oma`` writes: answers and JSON on stdout, prose on stderr.

Invariants: text from models, servers and files is never interpreted by a terminal; no character that the encoding lacks
is an error; a stderr that nobody reads loses the prose and nothing else.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["Console", "OutputError", "escaped"]

# C0, DEL and C1, which move cursors, set titles and type commands; in a text newline and tab may stay.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputError(Exception):
    """Stdout cannot be written to, though somebody is still reading."""


class Console:
    """The two streams of the process, as they are when it is made."""

    def __init__(self) -> None:
        self._out = _prepared(sys.stdout)
        self._err = _prepared(sys.stderr)
        self._escapes = self._out.isatty()
        self._last = ""
        self.is_quiet = False
        """Whether prose is left out."""

    @property
    def writes_unicode(self) -> bool:
        """Whether stdout can hold every character."""
        return _is_unicode(self._out)

    @property
    def draws(self) -> bool:
        """Whether stderr can hold line drawing characters."""
        return _is_unicode(self._err)

    @property
    def is_mid_answer(self) -> bool:
        """Whether an answer has begun that has not been ended."""
        return self._last != ""

    def write(self, text: str) -> None:
        """Write a piece of an answer to stdout, at once.

        Args:
            text: Control characters in it are spelled out on a terminal, and written as they are to anything else.

        Raises:
            BrokenPipeError: Nobody reads stdout any more.
            OutputError: It cannot be written for another reason, such as a full disk.
        """
        self._last = text or self._last
        self._write(escaped(text, keep_lines=True) if self._escapes else text)

    def end_answer(self) -> None:
        """End the answer on stdout with a newline, unless it ends with one.

        Raises:
            BrokenPipeError: Nobody reads stdout any more.
            OutputError: It cannot be written for another reason.
        """
        self._write("" if self._last.endswith("\n") else "\n")
        self._last = ""

    def write_document(self, text: str) -> None:
        """Write a document of plain characters to stdout.

        Args:
            text: All of it but the last newline.

        Raises:
            BrokenPipeError: Nobody reads stdout any more.
            OutputError: It cannot be written for another reason.
        """
        self._write(f"{text}\n")

    def flush(self) -> None:
        """Pass on what others have left in the buffer of stdout.

        Raises:
            BrokenPipeError: Nobody reads stdout any more.
            OutputError: It cannot be written for another reason.
        """
        with self._guarded():
            self._out.flush()

    def note(self, line: str) -> None:
        """Write a line of prose to stderr, unless the console is quiet; never raises.

        Args:
            line: One line; control characters in it are spelled out.
        """
        if not self.is_quiet:
            self._write_line(escaped(line))

    def error(self, message: str) -> None:
        """Write what went wrong to stderr, as one line; never raises.

        Args:
            message: The message, with its fix.
        """
        self._write_line(f"oma: {escaped(' '.join(message.split()))}")

    def _write(self, text: str) -> None:
        with self._guarded():
            self._out.write(text)
            self._out.flush()

    def _write_line(self, line: str) -> None:
        try:
            self._err.write(f"{line}\n")
            self._err.flush()
        except OSError:
            _discard(self._err)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _discard(self._out)
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"cannot write to stdout: {error.strerror or error}") from None


def escaped(text: str, *, keep_lines: bool = False) -> str:
    r"""Return a text with its control characters spelled out, such as ``\x1b``.

    Args:
        text: Any text.
        keep_lines: Whether newlines and tabs stay as they are.
    """
    pattern = _CONTROL_IN_TEXT if keep_lines else _CONTROL
    return pattern.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _prepared(stream: Any) -> TextIO:
    """Return a stream that a character its encoding lacks does not break; a missing one becomes a sink."""
    if stream is None:  # the process was started with it closed
        return io.StringIO()
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="replace")
    text: TextIO = stream
    return text


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().startswith("utf")


def _discard(stream: TextIO) -> None:
    """Send the rest of a broken stream nowhere, or the interpreter complains when it flushes it at its end."""
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing to flush into
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)

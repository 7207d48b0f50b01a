"""Where and how ``oma`` writes: terminals, encodings, pipes and logs."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest
import structlog

from openmultiagent.cli import main
from openmultiagent.testing import FakeProviderServer
from tests.cli.program import ROOT, environment, run_oma, start_oma
from tests.cli.test_server import WAIT, options
from tests.support import proves

LICENSE = str(ROOT / "LICENSE")
HOSTILE = "a\tb\x1b]0;owned\x07\x1b[31mred\x9b2J\x7f\r\nend"


@proves("CLI-30")
@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
def test_a_terminal_sees_control_characters_spelled_out() -> None:
    ours, theirs = os.openpty()
    with FakeProviderServer(lambda _: HOSTILE) as server:
        process = start_oma("agent", "x", *options(server), stdout=theirs)
        _, err = process.communicate(timeout=WAIT)
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert process.returncode == 0, err
    # The terminal itself turns a newline into CR LF.
    assert shown == b"a\tb\\x1b]0;owned\\x07\\x1b[31mred\\x9b2J\\x7f\\x0d\r\nend\r\n"


@proves("CLI-30")
def test_a_pipe_gets_the_answer_as_it_is() -> None:
    with FakeProviderServer(lambda _: HOSTILE) as server:
        ran = run_oma("agent", "x", *options(server))
    assert ran.stdout.decode() == HOSTILE + "\n"


@proves("CLI-30")
def test_prose_never_has_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeProviderServer(lambda _: "Hello") as server:
        assert main(["agent", "x", *options(server), "--model", "m\x1b[1m\n"]) == 0
    assert "chat m\\x1b[1m\\x0a  " in capsys.readouterr().err


@proves("CLI-31")
@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "Gr??e ?"), ("cp1252", "Grüße ?"), ("utf-8", "Grüße 日")])
def test_what_the_encoding_lacks_is_no_error(encoding: str, shown: str) -> None:
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    with FakeProviderServer(lambda _: "Grüße 日") as server:
        ran = run_oma("agent", "Grüße\u2026", *options(server), variables=variables)
    assert (ran.returncode, ran.stdout.decode(encoding)) == (0, shown + "\n")
    assert ("└─ " if encoding == "utf-8" else "`- ") + "chat m" in ran.stderr.decode(encoding)


@proves("CLI-4", "CLI-31")
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_loses_nothing_to_the_encoding(encoding: str) -> None:
    with FakeProviderServer(lambda _: "Grüße 日\x1b") as server:
        ran = run_oma("agent", "x", "--json", *options(server), variables={"PYTHONIOENCODING": encoding})
    assert json.loads(ran.stdout.decode(encoding))["result"]["output"] == "Grüße 日\x1b"


@proves("CLI-1")
@pytest.mark.parametrize(("answer", "written"), [("One\n", "One\n"), ("One", "One\n"), ("", "")])
def test_the_answer_ends_with_one_newline(answer: str, written: str, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeProviderServer(lambda _: answer) as server:
        assert main(["agent", "x", *options(server)]) == 0
    captured = capsys.readouterr()
    assert captured.out == written
    assert ("answered passed" in captured.err) is bool(answer)


@proves("CLI-25")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start_oma("agent", "Summarise", "--file", "LICENSE", "--quiet", stdout=full)
        _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 1
    assert err == b"oma: cannot write to stdout: No space left on device\n"


@proves("CLI-25")
@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_streams_that_are_closed_from_the_start_are_no_error(closed: str) -> None:
    command = f'exec "$0" -m openmultiagent agent "Is there a warranty?" --file LICENSE {closed}'
    process = subprocess.Popen(
        ["sh", "-c", command, sys.executable],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == 0, err
    assert (b"WARRANTY" in out) is (closed != ">&-")
    assert (b"usage:" in err) is (closed != "2>&-")


class Stream(io.TextIOWrapper):
    """Text in memory, whose writes fail as a test wants."""

    def __init__(self, failure: OSError | None = None) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.failure = failure

    def write(self, text: str) -> int:
        if self.failure is not None:
            raise self.failure
        return super().write(text)

    @property
    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


Streams = Callable[[TextIO | None, TextIO | None], None]


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    def use(out: TextIO | None, err: TextIO | None) -> None:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)

    return use


@proves("CLI-24", "CLI-25")
@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 1, "oma: cannot write to stdout: No space left on device\n"),
    ],
)
@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_stdout_that_breaks_ends_it(failure: OSError, code: int, message: str, option: str, streams: Streams) -> None:
    out, err = Stream(failure), Stream()
    streams(out, err)
    assert main(["agent", "Summarise", "--file", LICENSE, "--quiet", option]) == code
    assert err.text == message


@proves("CLI-24")
def test_a_broken_pipe_is_replaced_so_that_nothing_complains_later(streams: Streams) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    class Pipe(Stream):
        def fileno(self) -> int:
            return writing

    streams(Pipe(BrokenPipeError()), Stream())
    assert main(["agent", "Summarise", "--file", LICENSE]) == 141
    os.write(writing, b"more")
    os.close(writing)


@proves("CLI-25")
def test_a_missing_stream_is_no_error(streams: Streams) -> None:
    streams(None, None)
    assert main(["agent", "Summarise", "--file", LICENSE]) == 0


@proves("CLI-25")
def test_stderr_that_breaks_ends_nothing(streams: Streams) -> None:
    out, err = Stream(), Stream(BrokenPipeError())
    streams(out, err)
    assert main(["agent", "Is there a warranty?", "--file", LICENSE]) == 0
    assert "WARRANTY" in out.text


@proves("CLI-23")
def test_an_interruption_while_stdin_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any, /) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Interrupted())))
    assert main(["agent", "x", "--file", "-"]) == 130
    assert capsys.readouterr().err == "oma: interrupted\n"


LARGE = b"\x89PNG" + bytes(16 * 2**20)


@proves("CLI-7")
def test_a_line_of_the_log_is_prose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    (tmp_path / "large.png").write_bytes(LARGE)
    assert main(["agent", "Summarise", "--file", LICENSE, "--image", str(tmp_path / "large.png"), "--json"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    (line,) = [line for line in captured.err.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: large_image  ")
    assert "media_type='image/png'" in line
    assert not structlog.is_configured()


@proves("CLI-7")
def test_a_program_that_has_configured_its_log_gets_the_lines(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(LARGE)
    with structlog.testing.capture_logs() as lines:
        assert main(["agent", "Summarise", "--image", str(tmp_path / "large.png"), "--quiet"]) == 0
    assert [line["event"] for line in lines] == ["large_image"]


def test_the_standard_log_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(logging.getLogger().handlers)
    assert main(["--version"]) == 0
    assert logging.getLogger().handlers == before
    assert capsys.readouterr().out.startswith("oma ")

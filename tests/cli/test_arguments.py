"""What ``oma`` takes, and what it refuses before anything runs."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import openmultiagent
from openmultiagent.cli import main
from openmultiagent.testing import FakeProviderServer
from tests.cli.program import run_oma
from tests.support import proves

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Sent = Callable[..., Any]


@pytest.fixture
def sent(capsys: pytest.CaptureFixture[str]) -> Sent:
    """Runs ``oma agent`` against a server, and returns the content of the user message that it was sent."""

    def run(*arguments: str) -> Any:
        with FakeProviderServer(lambda _: "Hello") as server:
            options = ["--provider", "openai", "--base-url", server.openai_url, "--model", "m", "--quiet"]
            assert main(["agent", *arguments, *options]) == 0, capsys.readouterr().err
        (request,) = server.requests
        (message,) = request.body["messages"]
        assert message["role"] == "user"
        return message["content"]

    return run


def stdin_of(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="ascii")


@proves("CLI-10")
def test_a_prompt_alone_is_sent_as_it_is(sent: Sent) -> None:
    assert sent("  Say “hello”\n") == "  Say “hello”\n"


@proves("CLI-10")
def test_a_file_stands_behind_the_prompt_without_its_name(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffÄ 日本\r\n".encode())
    assert sent("Translate", "--file", str(tmp_path / "a.txt")) == [
        {"type": "text", "text": "Translate"},
        {"type": "text", "text": "Ä 日本\r\n"},
    ]


@proves("CLI-10", "CLI-11", "CLI-13")
def test_several_files_have_their_names_and_images_stand_last(
    sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("One.")
    (tmp_path / "dot.PNG").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", stdin_of("Zwei ü.".encode()))
    content = sent("Compare", "--image", "dot.PNG", "--file", "a.txt", "--file", "-")
    assert content == [
        {"type": "text", "text": "Compare"},
        {"type": "text", "text": "File a.txt:\n\nOne."},
        {"type": "text", "text": "File standard input:\n\nZwei ü."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}},
    ]


@proves("CLI-12", "CLI-13", "CLI-14", "CLI-22")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--file", "good.txt"], "PROMPT is empty"),
        ([" \n"], "PROMPT is empty"),
        (["a\udcffb"], "PROMPT is not valid UTF-8"),
        (["x", "--system", "\udcff"], "--system is not valid UTF-8"),
        (["x", "--file", "gone.txt"], "cannot read the file gone.txt: No such file"),
        (["x", "--file", "gone\udcff\x1b[1m.txt"], "cannot read the file gone\ufffd\\x1b[1m.txt"),
        (["x", "--file", "a\0b"], "cannot read the file a\\x00b: embedded null byte"),
        (["x", "--file", "."], "cannot read the file .: Is a directory"),
        (["x", "--file", "binary"], "the file binary is binary; --file takes text in UTF-8, and --image takes images"),
        (["x", "--file", "latin-1"], "the file latin-1 is not UTF-8 text: byte 0xe4 at position 2; --file takes"),
        (["x", "--file", "blank"], "the file blank is empty"),
        (["x", "--file", "large"], "the file large has more than 4 MiB; send a part of it"),
        (["x", "--file", "-", "--file", "good.txt", "--file", "-"], "--file - was given more than once"),
        (["x", "--file", "-"], "--file - reads stdin, which is closed"),
        (["x", "--image", "good.txt"], "supported: jpg, jpeg, png"),
        (["x", "--image", "gone.png"], "Failed to read image file 'gone.png'"),
    ],
)
def test_input_that_cannot_be_sent_is_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, content in {
        "good.txt": b"Good.",
        "binary": b"\x7fELF\0\1",
        "latin-1": "zu \u00e4ndern".encode("latin-1").replace(b"zu ", b"zu"),
        "blank": b"\n \n",
        "large": b"x" * (4 * 2**20 + 1),
    }.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    with FakeProviderServer(lambda _: "Hello") as server:
        options = ["--provider", "openai", "--base-url", server.openai_url, "--model", "m"]
        assert main(["agent", *arguments, *options]) == 2
        assert server.requests == []
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert message in line


@proves("CLI-12")
def test_a_file_of_the_greatest_size_is_read(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (4 * 2**20))
    content = sent("Count", "--file", str(tmp_path / "large"))
    assert len(content[1]["text"]) == 4 * 2**20


@proves("CLI-22", "CLI-15", "CLI-16")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "m"], "--model is not for the provider embedded; name another one, such as --provider openai"),
        (["--provider", "embedded", "--base-url", "http://x/v1"], "--base-url is not for the provider embedded"),
        (["--provider", "openai"], "--model is missing; provider openai has no default model"),
        (["--provider", "aol", "--model", "m"], "--provider aol is unknown; known are "),
        (["--provider", "openai", "--model", "m", "--base-url", "localhost:1/v1"], "base_url must be an absolute http"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", "Hello", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert message in line


@proves("CLI-22")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["agents"], "invalid choice: 'agents'"),
        (["agent"], "required: PROMPT"),
        (["agent", "x", "--mod", "m"], "unrecognized arguments: --mod"),
        (["agent", "x", "--max-tokens", "0"], "--max-tokens: must be a positive whole number, got '0'"),
        (["agent", "x", "--max-tokens", "1.5"], "must be a positive whole number"),
        (["agent", "x", "--max-token-budget", "-1"], "must be a positive whole number"),
        (["agent", "x", "--timeout", "nan"], "--timeout: must be a positive number, got 'nan'"),
        (["agent", "x", "--timeout", "inf"], "must be a positive number"),
        (["agent", "x", "--timeout", "soon"], "must be a positive number"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@proves("CLI-17")
def test_a_key_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "x", "--api-key", "sk-1"]) == 2
    assert "unrecognized arguments" in capsys.readouterr().err


def test_the_version_is_the_packages() -> None:
    ran = run_oma("--version")
    assert (ran.returncode, ran.stdout.decode()) == (0, f"oma {openmultiagent.__version__}\n")


@proves("CLI-26")
@pytest.mark.parametrize("arguments", [["--help"], ["agent", "--help"]])
def test_the_help_says_what_the_exit_codes_mean(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    described = captured.out[captured.out.index("exit codes:") :]
    assert [line.split()[0] for line in described.splitlines()[1:]] == ["0", "1", "2", "130", "141"]
    assert captured.err == ""

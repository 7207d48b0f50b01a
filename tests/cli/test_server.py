"""``oma agent`` against a real server that speaks the OpenAI chat protocol."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from openmultiagent.cli import main
from openmultiagent.messages import TextBlock, ToolUseBlock
from openmultiagent.testing import FakeProviderServer, RawBody, Refused, Served, ServerReply, Silence
from openmultiagent.usage import TokenUsage
from tests.cli.program import run_oma, start_oma
from tests.cli.test_arguments import PNG
from tests.support import proves

WAIT = 20.0
USAGE = TokenUsage(input_tokens=7, output_tokens=3)


def options(server: FakeProviderServer) -> list[str]:
    return ["--provider", "openai", "--base-url", server.openai_url, "--model", "m"]


@proves("CLI-1", "CLI-20")
def test_the_answer_is_written_while_it_comes() -> None:
    with FakeProviderServer(lambda _: Served("One two three four", usage=USAGE, chunk_size=4, pause_after=3)) as server:
        process = start_oma("agent", "Count", *options(server), bufsize=0)
        assert process.stdout is not None
        first = b""
        while len(first) < len(b"One two "):
            first += process.stdout.read(100)
        assert first == b"One two "
        assert process.poll() is None
        server.release()
        rest, err = process.communicate(timeout=WAIT)
    assert (process.returncode, rest) == (0, b"three four\n")
    assert b"usage: 7 tokens in, 3 out" in err
    assert server.requests[0].body["stream"] is True


@proves("CLI-13", "CLI-17")
def test_key_image_and_options_arrive_as_the_protocol_wants_them(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    arguments = ["agent", "What is shown?", "--image", str(tmp_path / "dot.png"), "--system", "Be brief."]
    with FakeProviderServer(["A dot."], api_key="sk-test-0123456789abcdef") as server:
        ran = run_oma(
            *arguments, "--max-tokens", "9", *options(server), variables={"OPENAI_API_KEY": "sk-test-0123456789abcdef"}
        )
    assert (ran.returncode, ran.stdout) == (0, b"A dot.\n")
    assert b"images=1" in ran.stderr
    body = server.requests[0].body
    assert body["max_tokens"] == 9
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    text, image = body["messages"][1]["content"]
    assert text == {"type": "text", "text": "What is shown?"}
    assert list(image) == ["type", "image_url"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")


@proves("CLI-21")
@pytest.mark.parametrize(
    ("script", "variables", "message"),
    [
        (["x"], {"OPENAI_API_KEY": "sk-wrong"}, "Incorrect API key provided"),
        ([Refused(400, "no such model", headers={"x-should-retry": "false"})], {}, "no such model"),
        ([Refused(500, "out of order", headers={"x-should-retry": "false"})], {}, "out of order"),
        ([Served("One two three", chunk_size=4, cut_after=3)], {}, "broke off"),
        ([Served("One two three", chunk_size=4, end_after=3)], {}, "ended"),
    ],
)
def test_a_failing_server_is_a_failed_run(
    script: list[ServerReply], variables: Mapping[str, str], message: str
) -> None:
    with FakeProviderServer(script, api_key="sk-right" if variables else None) as server:
        ran = run_oma("agent", "Count", *options(server), variables=variables)
    err = ran.stderr.decode()
    assert ran.returncode == 1, err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("oma: ")
    assert message in last
    assert "sk-wrong" not in err
    assert ran.stdout in (b"", b"One two \n")  # what had come before is not lost


@proves("CLI-21")
def test_a_dead_server_is_a_failed_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = run_oma("agent", "x", "--provider", "ollama", "--base-url", f"http://127.0.0.1:{port}/v1", "--model", "m")
    assert ran.returncode == 1
    assert "could not be reached" in ran.stderr.decode().splitlines()[-1]


@proves("CLI-4", "CLI-21")
def test_a_failed_run_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeProviderServer(lambda _: Refused(400, "no\nsuch model")) as server:
        assert main(["agent", "x", "--json", *options(server)]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["result"]["status"]["code"] == "error"
    assert document["result"]["error_info"]["http_status"] == 400
    assert document["events"][-1]["type"] == "error"
    assert [span["status"] for span in document["spans"]] == ["error", "error"]
    assert document["evaluation"][0]["passed"] is False
    assert re.fullmatch(r"oma: .*no such model.*", captured.err.splitlines()[-1])


@proves("CLI-17")
def test_a_missing_key_is_a_failed_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "x", "--provider", "groq", "--model", "m"]) == 1
    assert "groq needs an API key" in capsys.readouterr().err.splitlines()[-1]


@proves("CLI-2")
def test_a_call_of_a_tool_that_was_not_offered_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    script: list[ServerReply] = [
        [TextBlock.new("Wait."), ToolUseBlock.new("c1", "search", {"q": "secret words"})],
        "Done.",
    ]
    with FakeProviderServer(script) as server:
        assert main(["agent", "x", *options(server)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "Wait.\nDone.\n"
    assert captured.err.count("tool_input_delta") <= 1
    assert "tool=search" in captured.err
    assert "is_error=True" in captured.err
    assert "secret" not in captured.err


@proves("CLI-2")
def test_reasoning_is_told_once_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    deltas = [{"reasoning_content": "secret "}, {"reasoning_content": "thoughts"}, {"content": "One"}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = "".join(f"data: {data}\n\n" for data in [*map(json.dumps, chunks), "[DONE]"])
    with FakeProviderServer(lambda _: RawBody(body.encode(), content_type="text/event-stream")) as server:
        assert main(["agent", "x", *options(server)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "One\n"
    (line,) = [line for line in captured.err.splitlines() if " reasoning " in line]
    assert line.endswith("characters=7")
    assert "usage: 0 tokens in, 0 out; not counted: 1 model call without usage" in captured.err


@proves("CLI-23")
def test_an_interruption_ends_it_at_once() -> None:
    with FakeProviderServer(lambda _: Silence()) as server:
        process = start_oma("agent", "x", *options(server), interruptible=True)
        assert server.pausing.wait(WAIT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT)
        assert server.client_left.wait(WAIT)
    assert process.returncode == 130
    assert out == b""
    assert err.decode().splitlines()[-1] == "oma: interrupted"
    assert b"Traceback" not in err
    assert b"Exception" not in err


@proves("CLI-24")
def test_a_closed_pipe_ends_it_quietly() -> None:
    with FakeProviderServer(lambda _: Served("One two three four", usage=USAGE, chunk_size=4, pause_after=3)) as server:
        process = start_oma("agent", "x", *options(server), bufsize=0)
        assert process.stdout is not None
        assert process.stderr is not None
        assert server.pausing.wait(WAIT)
        process.stdout.close()
        server.release()
        err = process.stderr.read()
        assert process.wait(WAIT) == 141
        process.stderr.close()
    assert b"Traceback" not in err
    assert b"Exception" not in err


@proves("CLI-25")
def test_a_closed_stderr_loses_the_prose_only() -> None:
    with FakeProviderServer(lambda _: Served("One two three four", usage=USAGE, chunk_size=4, pause_after=3)) as server:
        process = start_oma("agent", "x", *options(server), bufsize=0)
        assert process.stdout is not None
        assert process.stderr is not None
        assert server.pausing.wait(WAIT)
        process.stderr.close()
        server.release()
        assert process.stdout.read() == b"One two three four\n"
        process.stdout.close()
        assert process.wait(WAIT) == 0

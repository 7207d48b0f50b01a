"""``oma agent`` with the embedded engine, on files of the repository."""

from __future__ import annotations

import json
import re

import pytest
from opentelemetry import trace

from openmultiagent.cli import main
from tests.cli.program import ROOT, run_oma
from tests.support import proves

LICENSE = str(ROOT / "LICENSE")
CONTRIBUTING = str(ROOT / "CONTRIBUTING.md")


@proves("CLI-1", "CLI-2", "CLI-3", "CLI-15", "CLI-20")
def test_the_answer_is_on_stdout_and_everything_else_on_stderr() -> None:
    ran = run_oma("agent", "Is there a warranty?", "--file", "LICENSE")
    assert ran.returncode == 0
    assert ran.stdout.startswith(b'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY')
    assert ran.stdout.endswith(b".\n")
    lines = ran.stderr.decode().splitlines()
    kinds = [line.split()[:3] for line in lines if line.startswith(("progress", "stream"))]
    assert kinds[0] == ["progress", "1", "agent_start"]
    assert kinds[1] == ["stream", "1", "turn_start"]
    assert [kind for source, _, kind in kinds if source == "progress"] == ["agent_start", "agent_complete"]
    assert kinds[-1][2] == "done"
    assert b"WARRANTY" not in ran.stderr.upper()
    assert re.search(r"^usage: \d+ tokens in, \d+ out$", ran.stderr.decode(), re.MULTILINE)
    assert "evaluation: answered passed, score 1" in lines
    tree = lines[lines.index("spans:") + 1 :]
    assert re.match(
        r"  invoke_agent assistant  \d+\.\d ms  ok  provider=embedded  in=\d+  out=\d+  stop=end_turn", tree[0]
    )
    assert re.match(r"  └─ chat embedded  \d+\.\d ms  ok  provider=embedded", tree[1])


def test_the_answer_depends_on_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    answers = set()
    for name in (LICENSE, CONTRIBUTING):
        assert main(["agent", "Summarise this in two sentences", "--file", name]) == 0
        answers.add(capsys.readouterr().out)
    assert len(answers) == 2


@proves("CLI-4")
def test_json_is_one_document_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "Is there a warranty?", "--file", LICENSE, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["result"]["success"] is True
    assert "WITHOUT WARRANTY" in document["result"]["output"]
    events = document["events"]
    assert [event["type"] for event in events if event["source"] == "progress"] == ["agent_start", "agent_complete"]
    sequence = [event["sequence"] for event in events if event["source"] == "stream"]
    assert sequence == list(range(1, len(sequence) + 1))
    assert {event["type"] for event in events} >= {"turn_start", "text", "turn_complete", "done"}
    assert "warranty" not in json.dumps(events).lower()
    root, chat = document["spans"]
    assert (root["name"], root["parent_id"], chat["parent_id"]) == ("invoke_agent assistant", None, root["span_id"])
    assert chat["attributes"]["gen_ai.usage.input_tokens"] == document["result"]["token_usage"]["input_tokens"]
    assert 0 < chat["duration"] <= root["duration"]
    (record,) = document["evaluation"]
    assert (record["scorer"], record["passed"]) == ("answered", True)
    assert "usage: " in captured.err


@proves("CLI-5")
def test_quiet_leaves_stderr_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "Is there a warranty?", "--file", LICENSE, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert "WITHOUT WARRANTY" in captured.out
    assert captured.err == ""


@proves("CLI-6")
def test_the_spans_do_not_depend_on_the_settings_for_other_programs() -> None:
    variables = {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"}
    ran = run_oma("agent", "Summarise", "--file", "LICENSE", "--json", "--quiet", variables=variables)
    assert len(json.loads(ran.stdout)["spans"]) == 2


@proves("CLI-6")
def test_the_global_tracer_provider_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = trace.get_tracer_provider()
    assert main(["agent", "Summarise", "--file", LICENSE, "--quiet"]) == 0
    assert trace.get_tracer_provider() is before


@proves("CLI-10", "CLI-11")
def test_stdin_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_oma(
        "agent", "When did the pump fail?", "--file", "-", stdin="Der Kran war grün. The pump failed at noon.".encode()
    )
    assert ran.stdout.decode() == "The pump failed at noon.\n"


@proves("CLI-21")
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--max-token-budget", "1", "exceeded token budget"), ("--timeout", "0.000001", "exceeded its run timeout")],
)
def test_a_run_over_a_limit_has_failed(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", "Summarise", "--file", LICENSE, option, value]) == 1
    err = capsys.readouterr().err
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("oma: ")
    assert "evaluation: answered not passed, score 0" in err


def test_the_answer_can_be_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "Summarise", "--file", LICENSE, "--max-tokens", "10"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out) <= 41
    assert "stop_reason=max_tokens" in captured.err

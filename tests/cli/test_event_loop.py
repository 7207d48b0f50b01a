"""The event loop that the library starts by itself."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import proves

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, json, os, sys
for descriptor in map(int, sys.argv[1:]):
    os.close(descriptor)
from openmultiagent.orchestrator._sync import _new_event_loop
loop = _new_event_loop()
module = type(loop).__module__
loop.close()
with open(os.environ["ANSWER"], "w", encoding="utf-8") as file:
    json.dump(module, file)
"""


@proves("MOD-58")
@pytest.mark.parametrize("closed", [[], ["0"]], ids=["all open", "no standard input"])
def test_uvloop_is_used_where_it_is_installed_and_safe(closed: list[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    environment = {**os.environ, "ANSWER": str(answer), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", PROGRAM, *closed], check=True, env=environment, timeout=25)
    module = json.loads(answer.read_text(encoding="utf-8"))
    expected = "uvloop" if find_spec("uvloop") is not None and not closed else "asyncio"
    assert module.startswith(expected)

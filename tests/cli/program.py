"""``oma`` as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# The last line of what a shell does with Ctrl-C: a test runner in the background has its children ignore it.
_INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from openmultiagent.cli import main; sys.exit(main())"
)


def environment(**variables: str) -> dict[str, str]:
    """The environment of the process: this one's without what changes Python's streams, and the given variables."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OTEL_", "LC_", "LANG"))}
    return {**base, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **variables}


def run_oma(
    *arguments: str | bytes, stdin: bytes | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m openmultiagent`` to its end."""
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "openmultiagent", *arguments],
        cwd=ROOT,
        env=environment(**(variables or {})),
        capture_output=True,
        timeout=25,
        check=False,
        **given,
    )


def start_oma(*arguments: str, interruptible: bool = False, **streams: Any) -> subprocess.Popen[bytes]:
    """Start ``oma`` with pipes, or the streams that are given."""
    program: Sequence[str] = ["-c", _INTERRUPTIBLE] if interruptible else ["-m", "openmultiagent"]
    return subprocess.Popen(
        [sys.executable, "-W", "error", *program, *arguments],
        cwd=ROOT,
        env=environment(),
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )

"""How long importing this library takes, beside the other libraries, each in a new interpreter.

Run it with ``python benchmarks/bench_import.py``; libraries that are not installed are left out. It should print at
most 0.25 s for ``import openmultiagent``, which loads no part before it is asked for. The others are measured with the
class that a program begins with, and so is this library, beside them: less than 1 of the fastest. ``dependencies`` is
what it cannot be faster than: pydantic's models, anyio, asyncio and the OpenTelemetry API.

All have their bytecode, as an installation leaves it; a checkout whose bytecode is missing, in a process that may not
write any, would be compiled at each import.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
from pathlib import Path

import openmultiagent
from benchmarks.timing import ratio_table

ROUNDS = 7
STATEMENTS = {
    "bare": "import openmultiagent",
    "openmultiagent": "from openmultiagent import AgentConfig, OpenMultiAgent",
    "dependencies": "import asyncio, anyio, pydantic.main, opentelemetry.trace, opentelemetry.metrics",
    "pydantic-ai": "from pydantic_ai import Agent",
    "openai-agents": "from agents import Agent, Runner",
    "agno": "from agno.agent import Agent",
    "langgraph": "from langgraph.prebuilt import create_react_agent",
    "autogen": "from autogen_agentchat.agents import AssistantAgent",
    "strands": "from strands import Agent",
}
PROGRAM = """
import time
start = time.process_time()
{statement}
print(time.process_time() - start)
"""


def seconds_of(statement: str) -> float | None:
    """Return the seconds of an import, or None when there is nothing to import.

    Args:
        statement: The import.
    """
    program = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(statement=statement)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def main() -> None:
    """Measure and print."""
    compileall.compile_dir(Path(openmultiagent.__file__).parent, quiet=1)
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            seconds = seconds_of(statement)
            if seconds is not None:
                found[name] = min(found.get(name, seconds), seconds)
    for name in STATEMENTS.keys() - found.keys():
        print(f"skipped {name}: it cannot be imported")
    bare, floor = found.pop("bare"), found.pop("dependencies")
    print(f"\nimport openmultiagent, in microseconds (at most 250,000)\n  {bare * 1e6:41.1f}")
    times = {name: seconds * 1e6 for name, seconds in found.items()}
    ratio_table("importing what a program begins with (less than 1)", times, "openmultiagent")
    print(f"  its dependencies alone            {floor * 1e6:10.1f}")


if __name__ == "__main__":
    main()

"""Importing the package is quick and quiet: what a program does not use is not loaded, and nothing else changes."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import openmultiagent

ROOT = Path(__file__).parents[1]

PROBE = """
import faulthandler, gc, json, logging, os, signal, sys, threading, warnings

def state():
    root = logging.getLogger()
    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD") if hasattr(signal, name)]
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "signal handlers": [repr(signal.getsignal(each)) for each in signals],
        "fault handler": faulthandler.is_enabled(),
        "logging": [root.level, repr(root.handlers), root.manager.disable, repr(logging.getLoggerClass())],
        "handlers of own loggers": [
            name for name, logger in root.manager.loggerDict.items()
            if name.startswith("openmultiagent") and getattr(logger, "handlers", ())
        ],
        "warning filters": list(map(repr, warnings.filters)),
        "hooks": [repr(each) for each in (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook)],
        "streams": [repr(each) for each in (sys.stdout, sys.stderr, sys.stdin)],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "recursion limit": sys.getrecursionlimit(),
        "garbage collector": [gc.isenabled(), gc.get_threshold()],
        "open files": sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else [],
    }

modules, before = set(sys.modules), state()
from openmultiagent import *
after = state()
from opentelemetry import trace, metrics
providers = [type(trace.get_tracer_provider()).__name__, type(metrics.get_meter_provider()).__name__]
print(json.dumps({
    "modules": sorted(set(sys.modules) - modules),
    "changes": {name: [before[name], after[name]] for name in before if before[name] != after[name]},
    "providers": providers,
}))
"""

CORE = ("anyio", "pydantic", "opentelemetry-api")
"""The dependencies that the package's classes are made of; they may be loaded, with what they themselves depend on."""

ON_USE = ("httpx", "httpcore", "structlog", "opentelemetry.sdk", "opentelemetry.exporter", "trio", "openmultiagent.cli")
"""Installed with the package or beside it, and loaded when they are first used."""


@pytest.fixture(scope="module")
def imported() -> dict[str, Any]:
    # An empty environment: no tool that measures or patches the tests is loaded into the probe.
    environment = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "HOME") if name in os.environ}
    environment["PYTHONPATH"] = str(ROOT)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.count("\n") == 1, "the import printed something"
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", ON_USE)
def test_import_does_not_load(name: str, imported: dict[str, Any]) -> None:
    assert [module for module in imported["modules"] if f"{module}.".startswith(f"{name}.")] == []


def with_dependencies(*names: str) -> set[str]:
    """Distributions and all that they need, without extras."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = canonicalize_name(pending.pop())
        if name not in found:
            found.add(name)
            needed = map(Requirement, metadata.requires(name) or ())
            pending += [item.name for item in needed if item.marker is None or item.marker.evaluate({"extra": ""})]
    return found


def test_import_loads_nothing_but_the_core_dependencies(imported: dict[str, Any]) -> None:
    core = with_dependencies(*CORE) | {"sniffio"}  # a module of 100 lines that anyio takes up where it is installed
    owners = metadata.packages_distributions()
    loaded = {module.partition(".")[0] for module in imported["modules"]} - {"openmultiagent"}
    installed = {name: set(map(canonicalize_name, owners[name])) for name in loaded & owners.keys()}
    assert {name: by for name, by in installed.items() if not by & core} == {}


def test_import_changes_nothing_in_the_process(imported: dict[str, Any]) -> None:
    assert imported["changes"] == {}


def test_import_sets_no_telemetry_provider(imported: dict[str, Any]) -> None:
    assert imported["providers"] == ["ProxyTracerProvider", "_ProxyMeterProvider"]


def run_program(program: str) -> tuple[str, str]:
    """What a new interpreter prints, and complains about."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    return ran.stdout, ran.stderr


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
import openmultiagent

assert not openmultiagent.LLMMessage.__pydantic_complete__, "the import built what only a validation needs"
barrier, failures = threading.Barrier(16), []

def use():
    barrier.wait()
    try:
        message = openmultiagent.Message.user_with_blocks([{"type": "text", "text": "x"}])
        assert openmultiagent.LLMMessage.model_validate(message.to_dict()) == message
        assert openmultiagent.ToolUseBlock.new("a", "b", {"x": 1}).model_dump()["input"] == {"x": 1}
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=use) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures)
"""


FIRST_IN_A_LOOP = """
import asyncio, os
from openmultiagent import AgentConfig, Message

async def main():
    os.stat = os.listdir = os.scandir = None  # what looks at the disk now fails
    Message.user_with_blocks([{"type": "text", "text": "x"}])
    AgentConfig("a", provider="embedded")

asyncio.run(main())
"""


def test_the_first_use_looks_for_no_plugins_in_the_event_loop() -> None:
    assert run_program(FIRST_IN_A_LOOP) == ("", "")


def test_what_the_import_left_to_the_first_use_is_built_once_for_all_threads() -> None:
    assert run_program(FIRST_USE) == ("[]\n", "")


BARE = """
import sys
before = set(sys.modules)
import openmultiagent
print(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names))
parts = [getattr(openmultiagent, name).__name__ for name in sorted(openmultiagent._PARTS)]
print(parts)
"""


def test_the_package_alone_loads_nothing_and_its_parts_are_at_hand() -> None:
    parts = {path.stem for path in (ROOT / "openmultiagent").iterdir() if path.stem[0] != "_"}
    names = [f"openmultiagent.{name}" for name in sorted(parts - {"cli", "py", "testing"})]
    assert run_program(BARE) == (f"['openmultiagent', 'openmultiagent._version']\n{names}\n", "")


NEEDED = """
import sys
from openmultiagent import LLMMessage
print("openmultiagent.messages" in sys.modules, "openmultiagent.agent" in sys.modules)
"""


def test_a_name_loads_only_what_it_needs() -> None:
    assert run_program(NEEDED) == ("True False\n", "")


def test_the_names_that_are_loaded_are_those_that_type_checkers_know() -> None:
    stub = ast.parse((ROOT / "openmultiagent" / "__init__.pyi").read_text(encoding="utf-8"))
    known = {
        alias.name: f"openmultiagent.{node.module}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert openmultiagent.__all__ == sorted(known)
    for name, home in known.items():
        assert getattr(openmultiagent, name) is getattr(importlib.import_module(home), name)
    assert set(openmultiagent.__all__) | {"messages", "orchestrator"} <= set(dir(openmultiagent))
    assert "import_module" not in dir(openmultiagent)


def test_a_name_that_there_is_not_is_told_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'openmultiagent' has no attribute 'Agnet'"):
        openmultiagent.Agnet  # type: ignore[attr-defined]  # that is what is tested  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Agnet' from 'openmultiagent'"):
        from openmultiagent import Agnet  # type: ignore[attr-defined]  # noqa: F401 - that is what is tested

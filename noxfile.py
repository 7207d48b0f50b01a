"""The gates. ``nox`` runs what must pass before a change is merged, ``nox -s NAME`` one of them.

Every session has an environment of its own, kept in ``.nox`` and reused. What stands after ``--`` goes to pytest, or
names benchmarks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "tests", "speed", "docs", "wheel"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True

# Hypothesis then draws the same examples every time and knows no deadline, and pytest shows whole differences.
STABLE = {"CI": "1"}

SPEED = (
    "tests/adapters/test_local_server.py",
    "tests/adapters/test_memory.py",
    "tests/adapters/test_speed.py",
    "tests/adapters/test_streamed_body.py",
    "tests/orchestrator/test_sync.py",
    "tests/testing/test_conformance.py",
)
# The extra changes nothing on trio, where aiohttp does not run; where loops meet, both are wanted.
SPEED_ONLY = "not [trio or test_local_server or test_sync"

# Where it is set, every process would compile the dependencies anew: tests that start Python several times get slow.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _tell_uv_about_pips_index() -> None:
    """Give uv, which reads none of pip's settings, the package index that pip is configured with."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    index = re.search(r"^(?:global|install|:env:)\.index-url='(.+)'$", listed.stdout, re.MULTILINE)
    if index:
        os.environ.setdefault("UV_DEFAULT_INDEX", index[1])


_tell_uv_about_pips_index()


def _group(name: str) -> tuple[str, ...]:
    return nox.project.dependency_groups(PYPROJECT, name)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format of the whole repository."""
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types: everything with mypy, and what users write (``tests/typing``) with pyright as well."""
    session.install("-e", ".", *_group("types"))
    session.run("mypy")
    session.run("pyright", env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})  # else it advertises newer versions of itself


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on asyncio and trio, with branch coverage and its floor."""
    session.install("-e", ".", *_group("test"))
    if not session.posargs:
        # Compiles the tests once: below, each worker would do it for itself, and at a third of the speed.
        session.run("pytest", "--collect-only", "-qq", "--ignore=tests/docs", env=STABLE, silent=True)
    chosen = session.posargs or ["-n", "auto", "--cov", "--cov-report=term", "--ignore=tests/docs"]
    session.run("pytest", *chosen, env=STABLE)


@nox.session
def speed(session: nox.Session) -> None:
    """Run the tests with real local servers again with the extra: over aiohttp, and the library's loops on uvloop.

    The others run without it: aiohttp does not ask respx.
    """
    session.install("-e", ".[speed]", *_group("test"))
    session.run("pytest", *(session.posargs or ["-n", "auto", *SPEED, "-k", SPEED_ONLY]), env=STABLE)


@nox.session
def docs(session: nox.Session) -> None:
    """Run every code block of the documentation and every example, and follow the links."""
    session.install("-e", ".", *_group("test"))
    session.run("pytest", "-n", "auto", "tests/docs", *session.posargs, env=STABLE)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the distributions, install the wheel far from the sources, as a user would, and run it."""
    session.install(*_group("build"))
    with tempfile.TemporaryDirectory(prefix="openmultiagent-wheel-") as scratch:
        built, site, work = (Path(scratch, name) for name in ("dist", "venv", "work"))
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(built), str(ROOT))
        (sdist,), (binary,) = built.glob("*.tar.gz"), built.glob("*.whl")
        _check_sdist(session, sdist)
        _check_wheel(session, binary)

        work.mkdir()
        shutil.copy(ROOT / "README.md", work)
        session.run("python", "-m", "venv", str(site))
        python, oma = (str(site / ("Scripts" if os.name == "nt" else "bin") / name) for name in ("python", "oma"))
        clean = {"PYTHONPATH": None, "VIRTUAL_ENV": None}
        with session.chdir(work):
            session.run(python, "-m", "pip", "install", "--quiet", str(binary), external=True, env=clean)
            session.run(python, "-m", "pip", "check", external=True, env=clean)
            session.run(python, "-W", "error", "-c", "from openmultiagent import *", external=True, env=clean)
            session.run(oma, "--version", external=True, env=clean)
            session.run(oma, "agent", "Summarise this", "--file", "README.md", external=True, env=clean)


def _check_sdist(session: nox.Session, path: Path) -> None:
    with tarfile.open(path) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    missing = {"openmultiagent", "tests", "docs", "examples", "benchmarks", "noxfile.py", "README.md", "LICENSE"} - tops
    if missing:
        session.error(f"{path.name} lacks {sorted(missing)}; see [tool.hatch.build.targets.sdist]")


def _check_wheel(session: nox.Session, path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for needed in ("openmultiagent/py.typed", "openmultiagent/__init__.pyi"):
        if needed not in names:
            session.error(f"{path.name} lacks {needed}: type checkers would know none of its names")
    strangers = [name for name in names if not re.match(r"openmultiagent(/|-[^/]+\.dist-info/)", name)]
    if strangers:
        session.error(f"{path.name} has files that are not the package's: {strangers}")
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        session.error(f"{path.name} has no licence")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks, or those named after ``--``; they print ratios and judge nothing.

    With ``--peers`` the libraries are installed that they can compare with.
    """
    peers = "--peers" in session.posargs
    session.install("-e", ".", *_group("bench"), *(_group("bench-peers") if peers else ()))
    for program in [argument for argument in session.posargs if argument != "--peers"] or sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("benchmarks/bench_*.py")
    ):
        session.run("python", program)

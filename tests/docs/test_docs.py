"""The documentation is true: its programs run, its links lead somewhere, its commands are the ones that CI calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.docs.reference import PAGE, reference

ROOT = Path(__file__).parents[2]

Rule: TypeAlias = Callable[[Path], list[str]]
"""Finds the faults of a repository."""

FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\s*\[[^\]\n]+\]:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages(root: Path) -> list[Path]:
    """The Markdown files of the repository."""
    folders = [folder for name in ("docs", "examples", "benchmarks") for folder in sorted((root / name).rglob("*.md"))]
    return sorted(root.glob("*.md")) + folders


def blocks(root: Path) -> Iterator[Block]:
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
            line = text.count("\n", 0, match.start("code")) + 1
            yield Block(str(page.relative_to(root)), line, match["language"].strip(), code)


def programs(root: Path) -> list[Block]:
    """The blocks that have to run, each on its own."""
    return [block for block in blocks(root) if block.language == "python"]


def examples(root: Path) -> list[Path]:
    return sorted(path for path in (root / "examples").rglob("*.py") if not path.name.startswith("_"))


def run(program: Path, folder: Path) -> str:
    """Run a program in a folder, with every warning an error; return what is wrong with it, or nothing."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=25,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return ran.stderr if ran.returncode or "Exception ignored" in ran.stderr else ""


def run_block(block: Block, folder: Path) -> str:
    program = folder / "block.py"
    program.write_text(block.code, encoding="utf-8")
    return run(program, folder)


@pytest.mark.parametrize("block", programs(ROOT), ids=str)
def test_a_block_of_code_runs(block: Block, tmp_path: Path) -> None:
    fault = run_block(block, tmp_path)
    assert not fault, fault


@pytest.mark.parametrize("program", examples(ROOT), ids=lambda path: path.stem)
def test_an_example_runs(program: Path, tmp_path: Path) -> None:
    fault = run(program, tmp_path)
    assert not fault, fault


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("raise SystemExit('broken')", "broken"),
        ("import openmultiagent.no_such_part", "no_such_part"),
        ("import warnings\nwarnings.warn('old')", "UserWarning: old"),
        ("class A:\n    def __del__(self): raise OSError('late')\nA()", "late"),
    ],
)
def test_a_broken_block_is_noticed(code: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"1. One:\n\n   ```python\n   import sys\n{_indented(code)}\n   ```\n")
    (block,) = programs(tmp_path)
    assert str(block) == "docs/a.md:4"
    assert fault in run_block(block, tmp_path)


def _indented(code: str) -> str:
    return "\n".join(f"   {line}" for line in code.split("\n"))


def unrun_blocks(root: Path) -> list[str]:
    """Blocks of Python under a name that keeps them from being run."""
    return [
        f"{block}: write ```python (the block is run), not ```{block.language}"
        for block in blocks(root)
        if re.match(r"py|python|Python", block.language) and block.language != "python"
    ]


def broken_links(root: Path) -> list[str]:
    """Relative links to files and headings that are not there."""
    faults = []
    for page in pages(root):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for match in LINK.finditer(re.sub(r"`[^`\n]*`", "", text)):
            link = match[1] or match[2]
            if re.match(r"[a-z][a-z+.-]*:", link):
                continue
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists():
                faults.append(f"{page.relative_to(root)}: {link} is not there")
            elif heading and heading not in headings(target):
                faults.append(f"{page.relative_to(root)}: {link} has no such heading")
    return faults


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8")) if page.suffix == ".md" else ""
    found = re.findall(r"^#+ +(.+?) *#*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def unlisted_pages(root: Path) -> list[str]:
    """Pages below ``docs/`` that its index does not link to."""
    index = root / "docs" / "README.md"
    links = {(index.parent / (match[1] or match[2])).resolve() for match in LINK.finditer(index.read_text("utf-8"))}
    found = (page for page in sorted((root / "docs").rglob("*.md")) if page != index)
    return [
        f"docs/README.md does not link to {page.relative_to(root)}" for page in found if page.resolve() not in links
    ]


def differing_commands(root: Path) -> list[str]:
    """Whether ``.ci/run`` ends with a command that the README does not show."""
    command = (root / ".ci" / "run").read_text("utf-8").splitlines()[-1]
    shown = {block.code.strip() for block in blocks(root) if block.page == "README.md"}
    return [] if command in shown else [f"README.md has no block with just the command of .ci/run: {command}"]


RULES = [unrun_blocks, broken_links, unlisted_pages, differing_commands]


@pytest.mark.parametrize("rule", RULES)
def test_the_documentation_keeps_the_rule(rule: Rule) -> None:
    faults = rule(ROOT)
    assert not faults, "\n".join(faults)


GOOD = {
    ".ci/run": "#!/bin/sh\nmake && make test\n",
    "README.md": (
        "# One & two: `x`\n[a](docs/README.md) [b](https://x.y/z) [c](#one--two-x) `[d](e)`\n\n"
        "```sh\nmake && make test\n```\n```text\n[f](g)\n```\n[h]: docs/a.md\n"
    ),
    "docs/README.md": "# Index\n- [A](a.md)\n",
    "docs/a.md": '# A\n[up](../README.md#one--two-x "title")\n```python\nprint()\n```\n',
}


@pytest.mark.parametrize(
    ("rule", "files", "fault"),
    [
        (unrun_blocks, {"docs/a.md": "```py\nx\n```\n"}, "docs/a.md:2: write ```python"),
        (unrun_blocks, {"docs/a.md": "```python no-run\nx\n```\n"}, "docs/a.md:2: write ```python"),
        (broken_links, {"docs/a.md": "[x](b.md)\n"}, "docs/a.md: b.md is not there"),
        (broken_links, {"docs/a.md": "[x](../README.md#three)\n"}, "docs/a.md: ../README.md#three has no such heading"),
        (broken_links, {"CHANGELOG.md": "[x]: nowhere.md\n"}, "CHANGELOG.md: nowhere.md is not there"),
        (unlisted_pages, {"docs/more/b.md": "# B\n"}, "docs/README.md does not link to docs/more/b.md"),
        (differing_commands, {".ci/run": "make\nmake tests\n"}, "command of .ci/run: make tests"),
    ],
)
def test_documentation_that_breaks_the_rule_is_noticed(
    rule: Rule, files: dict[str, str], fault: str, tmp_path: Path
) -> None:
    _write(tmp_path, GOOD)
    assert [found for each in RULES for found in each(tmp_path)] == []
    _write(tmp_path, files)
    (found,) = rule(tmp_path)
    assert fault in found


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def test_the_reference_is_what_the_definitions_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m tests.docs.reference"

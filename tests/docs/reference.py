"""Writes ``docs/reference.md`` from the definitions themselves: ``python -m tests.docs.reference`` from the root.

Names and defaults are those of the signatures, the words those of the docstrings, so nothing is kept up by hand.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from openmultiagent import (
    AgentConfig,
    CoordinatorConfig,
    Limits,
    ModelSettings,
    OpenMultiAgent,
    TaskSpec,
    TeamConfig,
    ThinkingConfig,
)
from openmultiagent.adapters import TransportOptions
from openmultiagent.evaluation import OnlineEvaluation
from openmultiagent.orchestrator._team_entry import TasksOptions, TeamOptions
from openmultiagent.orchestrator._team_settings import TeamSettings

__all__ = ["PAGE", "reference"]

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"

Row = tuple[str, str, str]
"""Name, default and what it is for."""

HEAD = """# Reference of options

Fields and arguments by name, with their defaults. The guides say what they are good for: [agents](agents.md),
[tasks](tasks.md), [teams](teams.md), [budgets](budgets.md), [models](models.md), [observability](observability.md).
"""


def reference() -> str:
    """Return the page."""
    sections = [
        ("AgentConfig", _fields(AgentConfig)),
        ("ModelSettings", _fields(ModelSettings)),
        ("ThinkingConfig", _fields(ThinkingConfig)),
        ("OpenMultiAgent", [*_arguments(OpenMultiAgent), *_keys(TeamSettings)]),
        ("Limits", _fields(Limits)),
        ("TeamConfig", _fields(TeamConfig)),
        ("TaskSpec", _fields(TaskSpec)),
        ("Options of run_tasks", _keys(TasksOptions)),
        ("Further options of run_team", _keys(TeamOptions)),
        ("CoordinatorConfig", _fields(CoordinatorConfig)),
        ("OnlineEvaluation", _fields(OnlineEvaluation)),
        ("TransportOptions", _fields(TransportOptions)),
    ]
    return HEAD + "".join(map(_table, *zip(*sections, strict=True)))


def _table(title: str, rows: list[Row]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(["", f"## {title}", "", "| name | default | |", "|---|---|---|", *lines, ""])


def _fields(cls: type[Any]) -> list[Row]:
    """The fields of a specification."""
    words = _words(cls)
    return [(f"`{item.name}`", _default(item), words[item.name]) for item in dataclasses.fields(cls) if item.init]


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default_factory is not dataclasses.MISSING:
        return f"`{item.default_factory()!r}`"
    if item.default is dataclasses.MISSING:
        return "*needed*"
    return f"`{item.default!r}`" if isinstance(item.default, str | int | float | tuple | None) else ""


def _keys(options: type[Any]) -> list[Row]:
    """The keys of a typed mapping of options; what they are without being given stands in the text."""
    return [(f"`{name}`", "", text) for name, text in _words(options).items()]


def _arguments(cls: type[Any]) -> list[Row]:
    """The arguments of a constructor that are in its signature by name."""
    described = inspect.getdoc(cls) or ""
    words = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", described, re.MULTILINE))
    parameters = inspect.signature(cls.__init__).parameters.values()
    return [
        (f"`{parameter.name}`", f"`{parameter.default!r}`", _text(words[parameter.name]))
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    ]


def _words(cls: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    return {name: _text(text) for name, text in _documented(tree.body)}


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for item, after in pairwise(body):
        match item, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, text


def _text(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

"""How big things may get."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, Function, Modules, Rule, decorators, functions, load, write_tree

MODULE_LINES = 500
FUNCTION_LINES = 60
FUNCTION_LINES_P90 = 30
PUBLIC_METHODS = 15
PUBLIC_METHODS_OF = {"OpenMultiAgent": 25}
"""The facade has an entry point per kind of run, each with its stream and its synchronous form."""


def long_modules(modules: Modules) -> list[str]:
    """Modules that are too long."""
    sizes = ((module.name, len(module.text.splitlines())) for module in modules.values())
    return [f"{name}: {size} lines, {MODULE_LINES} at most" for name, size in sizes if size > MODULE_LINES]


def long_functions(modules: Modules) -> list[str]:
    """Functions that are too long, docstring included; an ``@overload`` has no body and does not count."""
    return [
        f"{name}: {size} lines, {FUNCTION_LINES} at most"
        for name, size in _function_sizes(modules).items()
        if size > FUNCTION_LINES
    ]


def long_as_a_rule(modules: Modules) -> list[str]:
    """Whether the functions as a whole are too long: nine of ten keep to ``FUNCTION_LINES_P90``."""
    sizes = sorted(_function_sizes(modules).values())
    p90 = sizes[math.ceil(0.9 * len(sizes)) - 1] if sizes else 0
    return [f"one function in ten has {p90} lines or more"] if p90 > FUNCTION_LINES_P90 else []


def _function_sizes(modules: Modules) -> dict[str, int]:
    return {
        f"{module.name}:{node.lineno} {name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules.values()
        for name, node in functions(module.tree)
        if not _is_overload(node)
    }


def _is_overload(node: Function) -> bool:
    return any(name.split(".")[-1] == "overload" for name in decorators(node))


def wide_classes(modules: Modules) -> list[str]:
    """Classes with too many public methods, properties included."""
    faults = []
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                allowed = PUBLIC_METHODS_OF.get(node.name, PUBLIC_METHODS)
                found = {item.name for item in node.body if isinstance(item, Function) and item.name[0] != "_"}
                if len(found) > allowed:
                    faults.append(f"{module.name}: {node.name} has {len(found)} public methods, {allowed} at most")
    return faults


RULES = [long_modules, long_functions, long_as_a_rule, wide_classes]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    faults = rule(load(ROOT))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("rule", "text", "fault"),
    [
        (long_modules, "x = 1\n" * 501, "openmultiagent.errors: 501 lines"),
        (long_functions, "class A:\n    def f(self):\n" + "        pass\n" * 60, "errors:2 A.f: 61 lines"),
        (long_functions, "if x:\n    async def g():\n" + "        pass\n" * 60, "errors:2 g: 61 lines"),
        (long_as_a_rule, ("def f():\n" + "    pass\n" * 30) * 2 + "def g(): pass\n" * 8, "has 31 lines"),
        (wide_classes, "class A:\n" + "".join(f"    def m{i}(self): pass\n" for i in range(16)), "A has 16 public"),
    ],
)
def test_a_tree_that_breaks_the_rule_is_noticed(rule: Rule, text: str, fault: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/errors.py": text})
    faults = rule(load(tmp_path))
    assert len(faults) == 1
    assert fault in faults[0]


def test_what_the_rules_allow(tmp_path: Path) -> None:
    text = (
        "class A:\n"
        + "".join(f"    def m{i}(self): pass\n" for i in range(15))
        + "    def _m(self): pass\n"
        + "class OpenMultiAgent:\n"
        + "".join(f"    def m{i}(self): pass\n" for i in range(25))
        + "def f():\n"
        + "    pass\n" * 59
    )
    write_tree(tmp_path, {f"{PACKAGE}/errors.py": text})
    assert [fault for rule in RULES for fault in rule(load(tmp_path))] == []

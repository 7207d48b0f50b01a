"""The source tree as the architecture tests see it: parsed, never imported.

Every rule is a function from a tree to the list of its faults, so that the tests can show that a rule holds for the
package *and* that it notices a small tree that breaks it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
PACKAGE = "openmultiagent"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Module:
    """A module of the package."""

    name: str
    """Dotted, such as ``openmultiagent.adapters._protocol``; a package has the name of its folder."""
    path: Path
    is_package: bool
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that the module belongs to; itself, for a package."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))


Modules: TypeAlias = Mapping[str, Module]
Rule: TypeAlias = Callable[[Modules], list[str]]
"""Finds the faults of a tree, each with its place."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports from the package itself."""

    importer: Module
    target: str
    """The module that it comes from."""
    name: str | None
    """The name taken from that module; None when the module itself is imported."""
    alias: str
    """What the name is called in the importer."""
    line: int
    at_top: bool
    """Whether it stands in the module's body itself: in no function, class, ``if`` or ``try``."""

    @property
    def place(self) -> str:
        return f"{self.importer.name}:{self.line}"


@cache
def parse(text: str) -> ast.Module:
    """Parse a source text; many rules look at the same ones, and none changes what it gets."""
    return ast.parse(text)


def load(root: Path) -> dict[str, Module]:
    """Parse the package that lies in a folder."""
    modules = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, is_package, text, _with_stub(path, parse(text)))
    return modules


def _with_stub(path: Path, tree: ast.Module) -> ast.Module:
    """A module whose names are loaded when they are asked for: its docstring, and what its stub says of its names."""
    stub = path.with_suffix(".pyi")
    if not stub.exists():
        return tree
    return ast.Module([*tree.body[:1], *parse(stub.read_text(encoding="utf-8")).body], [])


def own_imports(module: Module, modules: Modules) -> Iterator[Import]:
    """Every import of the package's own modules, wherever it stands."""
    top = set(map(id, module.tree.body))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == PACKAGE:
                    bound = alias.asname or PACKAGE
                    yield Import(module, alias.name, None, bound, node.lineno, id(node) in top)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(module, node)
            if source.partition(".")[0] != PACKAGE:
                continue
            for alias in node.names:
                bound = alias.asname or alias.name
                submodule = f"{source}.{alias.name}"
                target, name = (submodule, None) if submodule in modules else (source, alias.name)
                yield Import(module, target, name, bound, node.lineno, id(node) in top)


def all_own_imports(modules: Modules) -> Iterator[Import]:
    for module in modules.values():
        yield from own_imports(module, modules)


def foreign_imports(module: Module) -> Iterator[tuple[str, int]]:
    """The dotted name and line of every import of somebody else's module, wherever it stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.partition(".")[0] != PACKAGE)
        elif isinstance(node, ast.ImportFrom) and _absolute(module, node).partition(".")[0] != PACKAGE:
            # `from opentelemetry import sdk` imports opentelemetry.sdk
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def entry(name: str) -> str:
    """The part of the layout that a module belongs to: the name below the root package; its own is ``__init__``."""
    return name.split(".")[1] if "." in name else "__init__"


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Every function, nested ones too, with its dotted name within the module."""
    yield from _functions(tree, "")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def decorators(node: ast.ClassDef | Function) -> Iterator[str]:
    """The dotted names of the decorators, without their arguments."""
    for item in node.decorator_list:
        yield ast.unparse(item.func if isinstance(item, ast.Call) else item)


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write a small tree, for showing that a rule can be broken; folders of the package become packages."""
    for name, text in {f"{PACKAGE}/__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        folder = path.parent
        while PACKAGE in folder.relative_to(root).parts:
            (folder / "__init__.py").touch()
            folder = folder.parent
    return root

"""What the package offers: every public name is listed once, in order, and documented where it is defined."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import (
    PACKAGE,
    ROOT,
    Definition,
    Function,
    Import,
    Module,
    Modules,
    Rule,
    decorators,
    load,
    own_imports,
    write_tree,
)


def listed(module: Module) -> list[str] | None:
    """The names in ``__all__``; None when there is none."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in _targets(node) and node.value is not None:
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def defined(module: Module) -> dict[str, Definition]:
    """What the module itself defines at its top level, by name; not type variables, which are for annotations only."""
    found: dict[str, Definition] = {}
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | Function):
            found[node.name] = node  # the last one: what stands before it under the same name are its overloads
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not _is_type_variable(node.value):
            found.update(dict.fromkeys(_targets(node), node))
    return found


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [item.id for item in names if isinstance(item, ast.Name)]


def _is_type_variable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in {"TypeVar", "ParamSpec"}


def order(name: str) -> tuple[object, ...]:
    """The place of a name in ``__all__``, as ruff sorts it: constants, classes, the rest; numbers by their value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def unlisted_names(modules: Modules) -> list[str]:
    """Public names that ``__all__`` forgets, names that it invents, and lists out of order or missing."""
    return [fault for module in modules.values() if module.is_public for fault in _unlisted(module, modules)]


def _unlisted(module: Module, modules: Modules) -> Iterator[str]:
    names = listed(module)
    visible = set(defined(module))
    imported = list(own_imports(module, modules))
    available = visible | {item.alias for item in imported}
    if module.is_package:  # what a package takes from its own modules, and the root from everywhere, is what it offers
        visible |= {item.alias for item in imported if item.target.startswith(f"{module.name}.") and item.name}
    public = {name for name in visible if not name.startswith("_")}
    if names is None:
        if public:
            yield f"{module.name}: has no __all__ for {sorted(public)}"
        return
    yield from (f"{module.name}: {name} is not in __all__" for name in sorted(public - set(names)))
    yield from (f"{module.name}: __all__ has {name}, which is not there" for name in sorted(set(names) - available))
    if names != sorted(set(names), key=order):
        yield f"{module.name}: __all__ is not sorted, or has a name twice"


def undocumented_names(modules: Modules) -> list[str]:
    """Public names, and public methods of public classes, without a docstring."""
    faults = {
        fault: None
        for module in modules.values()
        if module.is_public
        for name in listed(module) or ()
        for fault in _undocumented(module, name, modules)
    }
    return list(faults)


def _undocumented(module: Module, name: str, modules: Modules) -> Iterator[str]:
    found = resolve(module, name, modules)
    if found is None or name.startswith("__"):
        return
    home, node = found
    if isinstance(node, ast.Assign | ast.AnnAssign):
        if not _has_docstring_below(home, node):
            yield f"{home.name}: {name} has no docstring below it"
        return
    if not ast.get_docstring(node):
        yield f"{home.name}: {name} has no docstring"
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, Function) and not _is_exempt(method) and not _documented(home, node, method, modules):
                yield f"{home.name}: {name}.{method.name} has no docstring"


def resolve(module: Module, name: str, modules: Modules) -> tuple[Module, Definition] | None:
    """Where a name of the package is defined, through every re-export; None for a name from elsewhere."""
    while True:
        definition = defined(module).get(name)
        if definition is not None:
            return module, definition
        source = _imported_as(module, name, modules)
        if source is None or source.name is None or source.target not in modules:
            return None
        module, name = modules[source.target], source.name


def _imported_as(module: Module, name: str, modules: Modules) -> Import | None:
    return next((item for item in own_imports(module, modules) if item.alias == name), None)


def _has_docstring_below(module: Module, node: ast.stmt) -> bool:
    after = module.tree.body[module.tree.body.index(node) + 1 :][:1]
    return bool(after) and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant)


def _is_exempt(method: Function) -> bool:
    names = [name.split(".")[-1] for name in decorators(method)]
    return method.name.startswith("_") or any(name in {"overload", "setter", "deleter"} for name in names)


def _documented(module: Module, cls: ast.ClassDef, method: Function, modules: Modules) -> bool:
    if ast.get_docstring(method):
        return True
    for base in cls.bases:  # what a base class says about the method holds for its subclasses
        found = resolve(module, ast.unparse(base).partition("[")[0], modules)
        home, parent = found or (module, None)
        if isinstance(parent, ast.ClassDef):
            inherited = (item for item in parent.body if isinstance(item, Function) and item.name == method.name)
            if any(_documented(home, parent, item, modules) for item in inherited):
                return True
    return False


def missing_from_layout(modules: Modules) -> list[str]:
    """Parts of the package that the layout, an indented list in the docstring of the root package, does not name."""
    docstring = ast.get_docstring(modules[PACKAGE].tree, clean=False) or ""
    words = {word for line in docstring.splitlines() if line.startswith(" ") for word in line.split()}
    parts = sorted({name.split(".")[1] for name in modules if "." in name})
    return [f"{PACKAGE}/__init__.py: the layout lacks {part}" for part in parts if part not in words | {"__main__"}]


RULES = [unlisted_names, undocumented_names, missing_from_layout]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    faults = rule(load(ROOT))
    assert not faults, "\n".join(faults)


def test_every_listed_name_can_be_imported() -> None:
    for module in load(ROOT).values():
        if module.is_public and not module.name.endswith("__main__"):
            real = importlib.import_module(module.name)
            assert [name for name in listed(module) or () if not hasattr(real, name)] == []


@pytest.mark.parametrize(
    ("rule", "files", "fault"),
    [
        (unlisted_names, {"errors.py": "class E: ...\n"}, "errors: has no __all__ for ['E']"),
        (unlisted_names, {"errors.py": "__all__ = ['E']\nclass E: ...\nF = 1\n"}, "errors: F is not in __all__"),
        (unlisted_names, {"errors.py": "__all__ = ['E']\n"}, "errors: __all__ has E, which is not there"),
        (unlisted_names, {"errors.py": "__all__ = ['b', 'a']\na, b = 1, 2\n"}, "errors: __all__ is not sorted"),
        (unlisted_names, {"errors.py": "__all__ = ['a', 'B']\na, B = 1, 2\n"}, "errors: __all__ is not sorted"),
        (unlisted_names, {"tools/__init__.py": "from ._a import X\n__all__ = []\n"}, "tools: X is not in __all__"),
        (unlisted_names, {"__init__.py": "from .errors import E\n__all__ = []\n"}, "openmultiagent: E is not in"),
        (undocumented_names, {"errors.py": "__all__ = ['f']\ndef f(): ...\n"}, "errors: f has no docstring"),
        (undocumented_names, {"errors.py": "__all__ = ['K']\nK = int | str\n"}, "errors: K has no docstring below it"),
        (
            undocumented_names,
            {"errors.py": "__all__ = ['E']\nclass E:\n    'doc'\n    @property\n    def m(self): ...\n"},
            "errors: E.m has no docstring",
        ),
        (
            undocumented_names,
            {"tools/__init__.py": "__all__ = ['B']\nfrom ._a import A as B\n", "tools/_a.py": "class A: ...\n"},
            "tools._a: B has no docstring",
        ),
        (
            undocumented_names,
            {"errors.py": "__all__ = ['f']\n@overload\ndef f(x): 'doc'\ndef f(x=1): ...\n"},
            "errors: f has no docstring",
        ),
        (
            missing_from_layout,
            {"__init__.py": "'''The errors.\n\n    tools errors_\n'''", "errors.py": "", "tools/_a.py": ""},
            "lacks errors",
        ),
    ],
)
def test_a_tree_that_breaks_the_rule_is_noticed(rule: Rule, files: dict[str, str], fault: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/{name}": text for name, text in files.items()})
    faults = rule(load(tmp_path))
    assert len(faults) == 1, faults
    assert fault in faults[0]


def test_what_the_rules_allow(tmp_path: Path) -> None:
    files = {
        "__init__.py": (
            "'''All.\n\n    words errors\n    ports tools\n'''\n"
            "from .errors import MAX, E, Kind\nfrom .tools import A\n__all__ = ['MAX', 'A', 'E', 'Kind']\n"
        ),
        "errors.py": (
            "import json\n__all__ = ['MAX', 'E', 'Kind']\nT = TypeVar('T')\n_x = 1\n"
            "MAX: int = 1\n'doc'\nKind = int\n'doc'\n"
            "class E:\n    'doc'\n    @overload\n    def m(self): ...\n    def m(self, x=1):\n        'doc'\n"
            "    def _n(self): ...\n"
        ),
        "tools/__init__.py": "from ..errors import E\nfrom ._a import A\n__all__ = ['A']\n",
        "tools/_a.py": "from ..errors import E\nHELP = 1\nclass A(E[int]):\n    'doc'\n    def m(self): ...\n",
    }
    write_tree(tmp_path, {f"{PACKAGE}/{name}": text for name, text in files.items()})
    assert [fault for rule in RULES for fault in rule(load(tmp_path))] == []

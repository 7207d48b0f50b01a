"""Who may import whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import (
    PACKAGE,
    ROOT,
    Import,
    Modules,
    Rule,
    all_own_imports,
    entry,
    foreign_imports,
    load,
    write_tree,
)

LEVELS = (
    (
        "_version",
        "_log",
        "_patterns",
        "_record",
        "_shown",
        "errors",
        "_spec",
        "redaction",
        "messages",
        "usage",
        "identity",
        "_plain",
        "_failures",
        "outcome",
        "receipt",
    ),
    ("_sqlite", "_detached", "_deadlines", "cancellation", "egress", "budget", "events", "_middleware"),
    ("stores", "approvals", "adapters", "tools"),
    ("agent", "backends", "tracing", "evaluation"),
    ("tasks", "team", "checkpoint"),
    ("orchestrator",),
    ("__init__",),  # the root package gathers the public names of what is above
    ("testing", "viewer", "durable"),
    ("cli", "__main__"),
)
"""A module imports from lines above its own and, on its own line, from names to its left."""

PLACES = {name: (line, column) for line, names in enumerate(LEVELS) for column, name in enumerate(names)}

SDK = ("opentelemetry.sdk", "opentelemetry.exporter")
SDK_ALLOWED = (f"{PACKAGE}.tracing._export", f"{PACKAGE}.testing", f"{PACKAGE}.cli")
"""The modules that may import the OpenTelemetry SDK; the first stands for ``_export.py``, ``_export_file.py``, ..."""

OWN_DOORS = {f"{PACKAGE}.tracing.sqlite", f"{PACKAGE}.testing.conformance"}
"""Public modules inside a package: they load what ``import openmultiagent`` must not load, or are for few users."""


def upward_imports(modules: Modules) -> list[str]:
    """Imports from a lower line, or from the right on the same line."""
    faults = [f"{name}: no place in LEVELS" for name in modules if entry(name) not in PLACES]
    for item in all_own_imports(modules):
        own, other = entry(item.importer.name), entry(item.target)
        if own != other and own in PLACES and other in PLACES and PLACES[other] > PLACES[own]:
            faults.append(f"{item.place}: {own} imports {other}, which stands below it or to its right")
    return faults


def root_imports(modules: Modules) -> list[str]:
    """Imports of the root package by a module that is no program: its names are for users, and it could be a circle."""
    return [
        f"{item.place}: imports the root package; import {item.name or 'what is needed'} from where it is defined"
        for item in all_own_imports(modules)
        if item.target == PACKAGE and item.importer.name != PACKAGE and entry(item.importer.name) not in LEVELS[-1]
    ]


def private_imports(modules: Modules) -> list[str]:
    """Imports of a private module, or of a private name, from outside the package that it belongs to."""
    faults = []
    for item in all_own_imports(modules):
        parts = item.target.split(".")
        owners = [".".join(parts[:index]) for index, part in enumerate(parts) if _is_private(part)]
        if item.name and _is_private(item.name) and item.target in modules:
            owners.append(modules[item.target].package)
        what = f"{item.target}.{item.name}" if item.name else item.target
        outside = [owner for owner in owners if not f"{item.importer.name}.".startswith(f"{owner}.")]
        faults += [f"{item.place}: {what} is private to {owner}" for owner in outside]
    return faults


def cli_internals(modules: Modules) -> list[str]:
    """What the command line tool uses besides the public API."""
    return [
        f"{item.place}: cli uses the public API only, not {item.target}"
        for item in all_own_imports(modules)
        if entry(item.importer.name) == "cli" and entry(item.target) != "cli" and _is_private(entry(item.target))
    ]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def hidden_imports(modules: Modules) -> list[str]:
    """Own imports in a function, a class, an ``if`` or a ``try``, and own modules loaded by name."""
    faults = [f"{item.place}: {item.target} is not imported at the top" for item in _nested(modules)]
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and str(first.value).startswith((PACKAGE, ".")):
                    faults.append(f"{module.name}:{node.lineno}: loads {first.value!r} by name")
    return faults


def _nested(modules: Modules) -> Iterator[Import]:
    return (item for item in all_own_imports(modules) if not item.at_top)


def cycles(modules: Modules) -> list[str]:
    """Groups of modules that import each other."""
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for item in all_own_imports(modules):
        if item.target in modules and item.target != item.importer.name:
            edges[item.importer.name].add(item.target)
    # Take away, again and again, the modules that import none of those left: what stays is on a cycle or imports one.
    left = dict(edges)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while free := [name for name in left if not any(name in targets for targets in left.values())]:
        for name in free:
            del left[name]
    return [f"{name}: on an import cycle with {sorted(targets & left.keys())}" for name, targets in left.items()]


def public_submodules(modules: Modules) -> list[str]:
    """Modules inside a package that are not private: a package's names come from its ``__init__``."""
    return [
        f"{name}: a module inside a package is private; call it _{name.rpartition('.')[2]}"
        for name in modules
        if name.count(".") > 1 and not any(map(_is_private, name.split("."))) and not name.endswith("__main__")
        if name not in OWN_DOORS
    ]


def sdk_imports(modules: Modules) -> list[str]:
    """Imports of the OpenTelemetry SDK by modules that have to do with the API only."""
    return [
        f"{module.name}:{line}: imports {name}; the SDK belongs to {', '.join(SDK_ALLOWED)}"
        for module in modules.values()
        for name, line in foreign_imports(module)
        if f"{name}.".startswith(tuple(f"{part}." for part in SDK)) and not module.name.startswith(SDK_ALLOWED)
    ]


RULES = [
    upward_imports,
    root_imports,
    private_imports,
    cli_internals,
    hidden_imports,
    cycles,
    public_submodules,
    sdk_imports,
]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    faults = rule(load(ROOT))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("rule", "files", "fault"),
    [
        (upward_imports, {"errors.py": "from .adapters import X\n"}, "errors imports adapters"),
        (upward_imports, {"usage.py": "from . import outcome\n", "outcome.py": ""}, "usage imports outcome"),
        (upward_imports, {"tools/_a.py": "import openmultiagent.agent\n"}, "tools imports agent"),
        (upward_imports, {"helpers.py": ""}, "openmultiagent.helpers: no place in LEVELS"),
        (upward_imports, {"__init__.py": "from .testing import X\n"}, "__init__ imports testing"),
        (root_imports, {"agent/_a.py": "from openmultiagent import Agent\n"}, "imports the root package"),
        (root_imports, {"agent/_a.py": "from .. import Agent\n"}, "import Agent from where it is defined"),
        (private_imports, {"agent/_a.py": "from ..adapters._wire import X\n", "adapters/_wire.py": ""}, "_a:1: openm"),
        (private_imports, {"agent/_a.py": "from ..adapters import _wire\n", "adapters/_wire.py": ""}, "_wire is priv"),
        (
            private_imports,
            {"agent/_a.py": "from ..adapters import _name\n", "adapters/__init__.py": ""},
            "adapters._name is private to",
        ),
        (cli_internals, {"cli/_main.py": "from .._log import get_logger\n", "_log.py": ""}, "not openmultiagent._log"),
        (hidden_imports, {"tools/_a.py": "def f():\n    from ..errors import X\n"}, "_a:2"),
        (hidden_imports, {"tools/_a.py": "if TYPE_CHECKING:\n    from ..errors import X\n"}, "_a:2"),
        (hidden_imports, {"tools/_a.py": "importlib.import_module('.errors', 'x')\n"}, "loads '.errors' by name"),
        (cycles, {"tools/_a.py": "from ._b import X\n", "tools/_b.py": "from . import _a\n"}, "tools._a: on an import"),
        (cycles, {"tools/__init__.py": "from ._a import X\n", "tools/_a.py": "from . import Y\n"}, "tools._a: on an"),
        (public_submodules, {"adapters/openai.py": ""}, "call it _openai"),
        (sdk_imports, {"agent/_a.py": "def f():\n    from opentelemetry.sdk.trace import X\n"}, "_a:2: imports open"),
        (sdk_imports, {"tracing/_spans.py": "from opentelemetry import sdk\n"}, "imports opentelemetry.sdk"),
    ],
)
def test_a_tree_that_breaks_the_rule_is_noticed(rule: Rule, files: dict[str, str], fault: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/{name}": text for name, text in files.items()})
    faults = rule(load(tmp_path))
    assert any(fault in line for line in faults), faults


def test_what_the_rules_allow(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from .errors import E\nfrom .tools import X\n",
        "_log.py": "",
        "errors.py": "",
        "adapters/__init__.py": "from ._wire import X\n",
        "adapters/_wire/__init__.py": "from ._sse import X\n",
        "adapters/_wire/_sse.py": "from ..._log import get_logger\nfrom ._read import _y\n",
        "adapters/_wire/_read.py": "from ...errors import E\nimport opentelemetry.trace\n",
        "tools/__init__.py": "from ..adapters import X\n",
        "tracing/_export_file.py": "from opentelemetry.sdk.trace import X\n",
        "cli/_main.py": "from openmultiagent import X, __version__\nfrom ._args import y\nfrom ..testing import T\n",
        "cli/_args.py": "def f():\n    import opentelemetry.sdk\n",
        "testing/__init__.py": "",
    }
    write_tree(tmp_path, {f"{PACKAGE}/{name}": text for name, text in files.items()})
    assert [fault for rule in RULES for fault in rule(load(tmp_path))] == []

"""Where everything may be caught, and what must be in no file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.architecture.source import PACKAGE, ROOT, Module, Modules, load, write_tree

LOG_EVENT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

CATCH_ALL: dict[str, set[str]] = {
    "_detached": {"Detached._run"},  # whoever owns detached work looks at its error
    "adapters._bedrock": {"BedrockAdapter._credentials_now"},  # users' functions that get keys
    "adapters._aiohttp_transport": {  # raised again as httpx would
        "_transport_class.AiohttpTransport.handle_async_request",
        "_body_class.Body.__aiter__",
    },
    "adapters._owner": {"_close"},  # the run is over, and its result stands
    "_log": {"LazyLogger._write"},  # a broken sink must not fail what was worth a line
    "_shown": {"shown"},  # anybody's repr
    "agent._context._summarize": {"SummarizeStep._sum_up"},  # a failed summary falls back to compaction
    "agent._execution": {"_Run.with_hooks", "_Run.to_the_end"},  # users' hooks; a failing run is a result
    "agent._pool": {"AgentPool._run_all.run_one", "_result"},  # anybody's agents
    "agent._structured": {"OutputFormat.__init__"},  # the hooks of users' types
    "agent._turnstile": {"Turnstile.__aenter__"},  # gives its place back and raises again
    "agent._model_seam": {"ModelSeam._timed", "ModelSeam._send"},  # anybody's adapter
    "agent._tool_seam": {"ToolSeam._result_of"},  # users' middleware: a failed call, not a failed run
    "evaluation._judging": {"judge"},  # users' scorers
    "evaluation._sink": {  # users' samplers, stores and callbacks, and anybody's log exporter
        "EvaluationSink._sampled",
        "EvaluationSink._work",
        "EvaluationSink._emit",
        "_attempt",
    },
    "errors._base": {"_portable"},  # foreign exceptions pickle themselves
    "events": {"EventBus._call", "EventBus._finish"},  # users' listeners
    "messages._base": {"Model.__init__"},  # the repr of anybody's objects
    "messages._copy": {"copy_blocks", "copy_messages"},  # foreign objects copy themselves
    "orchestrator._delegation": {"_Delegation._recorded"},  # the application's store
    "orchestrator._gates": {"_asked"},  # users' gates
    "orchestrator._goal_run": {"GoalRun._routed"},  # users' routers and profilers
    "orchestrator._run_memory": {"recall", "remember"},  # the application's store
    "orchestrator._task_run": {"TaskRun._attempts"},  # what is handed on, which users' types write
    "orchestrator._team_steps": {"TeamSteps.guard"},  # users' middleware
    "orchestrator._routing._decision": {"_profiled"},  # users' profilers
    "orchestrator._routing._router": {"_watched", "ask_router"},  # users' routers
    "orchestrator._steps": {"run_around"},  # users' middleware
    "orchestrator._sync": {"LoopThread.run"},  # cancels the call and raises again
    "_failures": {"attribute_of", "error_text", "http_status", "word_of"},  # foreign exceptions describe themselves
    "_plain": {"plain_data"},  # structured answers write themselves
    "outcome": {"_copy_answer", "can_pickle"},  # foreign exceptions, and the application's answers
    "team._shared_memory": {"_adapter_of"},  # the hooks of users' types
    "team._handlers": {"Handlers.tell"},  # users' functions
    "tasks._payloads": {"canonical_json"},  # the types of structured answers write themselves
    "tasks._retry": {"_attempt"},  # anybody's run: a failed attempt
    "tasks._states": {"TaskStates._call"},  # users' handlers
    "receipt": {"build_execution_receipt"},  # results that somebody made
    "testing.conformance._rig": {"Check.__call__", "raised"},  # anybody's adapter
    "testing.conformance._stores": {"StoreCheck.__call__"},  # anybody's store
    "tools._executor": {"_checked_input"},  # users' validators
    "tools._isolation": {"run_isolated"},  # users' tools and gates
    "tools._result": {"as_tool_result", "_checked", "_describe_one", "_validated"},  # what users' tools return
    "tools._schema": {"function_body", "type_schema", "_hints", "_no_schema"},  # the hooks of users' types
    "tools._tool": {"_output_adapter"},  # the hooks of users' types
    "tracing._content": {"ContentCapture.record"},  # users' masks, and blocks of anybody's adapter
    "tracing._metrics": {"Metrics.is_active", "_Instruments.record"},  # the application's meter provider
    "tracing._spans": {  # the application's tracers, samplers and processors
        "Tracing._span",
        "Tracing.write",
        "OpenSpan.__exit__",
    },
}
"""The isolation boundaries: functions that may catch everything, since they call what is not ours."""

BROAD = {"Exception", "BaseException"}


def catch_alls(module: Module) -> Iterator[tuple[str, int]]:
    """The function and line of everything that catches, or suppresses, every exception."""
    yield from _catch_alls(module.tree, "")


def _catch_alls(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{function}.{child.name}".lstrip(".")
        elif _catches_all(child):
            yield function, child.lineno
        yield from _catch_alls(child, inner)


def _catches_all(node: ast.AST) -> TypeGuard[ast.ExceptHandler | ast.Call]:
    if isinstance(node, ast.Call):
        return _last_name(node.func) == "suppress" and any(map(_is_broad, node.args))
    return isinstance(node, ast.ExceptHandler) and (node.type is None or _is_broad(node.type))


def _is_broad(caught: ast.expr) -> bool:
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(_last_name(part) in BROAD for part in parts)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def unlisted_catch_alls(modules: Modules, boundaries: Mapping[str, set[str]]) -> list[str]:
    """Handlers of every exception outside the listed boundaries, and boundaries that no longer catch anything."""
    found = {(module.name, name): line for module in modules.values() for name, line in catch_alls(module)}
    allowed = {(f"{PACKAGE}.{module}", name) for module, names in boundaries.items() for name in names}
    faults = [f"{key[0]}:{line}: {key[1]} catches everything" for key, line in found.items() if key not in allowed]
    return faults + [f"{key[0]}: {key[1]} catches nothing any more" for key in sorted(allowed - found.keys())]


def test_only_isolation_boundaries_catch_everything() -> None:
    faults = unlisted_catch_alls(load(ROOT), CATCH_ALL)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "body",
    [
        "try: ...\n        except Exception: ...",
        "try: ...\n        except (OSError, BaseException) as e: ...",
        "try: ...\n        except: ...",
        "try: ...\n        except* builtins.Exception: ...",
        "with contextlib.suppress(Exception): ...",
    ],
)
def test_a_catch_all_outside_the_boundaries_is_noticed(body: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/errors.py": f"class A:\n    def f(self):\n        {body}\n"})
    (fault,) = unlisted_catch_alls(load(tmp_path), {})
    assert fault.startswith(f"{PACKAGE}.errors:")
    assert fault.endswith("A.f catches everything")
    assert unlisted_catch_alls(load(tmp_path), {"errors": {"A.f"}}) == []


def test_a_boundary_that_catches_nothing_is_noticed(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/errors.py": "def f():\n    try: ...\n    except ExceptionGroup: ...\n"})
    assert unlisted_catch_alls(load(tmp_path), {"errors": {"f"}}) == [f"{PACKAGE}.errors: f catches nothing any more"]


def odd_log_events(modules: Modules) -> list[str]:
    """Lines that are logged under a name that is not snake_case, or is put together."""
    return [
        f"{module.name}:{node.lineno}: {ast.unparse(node.args[0])}"
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_log.")
        if not (isinstance(node.args[0], ast.Constant) and LOG_EVENT.fullmatch(str(node.args[0].value)))
    ]


def test_what_is_logged_has_a_name_in_snake_case() -> None:
    assert odd_log_events(load(ROOT)) == []


@pytest.mark.parametrize("event", ['"tool failed"', '"Failed"', 'f"failed_{x}"', "name"])
def test_another_name_is_noticed(event: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{PACKAGE}/errors.py": f"_log.warning({event}, why=1)\n_log.info('fine_2')\n"})
    assert len(odd_log_events(load(tmp_path))) == 1


# Put together from pieces, so that this file does not match itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            "/wo" + "rk/",
            "/opt/" + "dev",
            r"\.lib" + "rary",
            "sub" + "agent",
            r"DEVEL" + r"OPERS\.md",
            "this " + "session",
        ]
    )
)

NOT_OURS = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}


def files(root: Path) -> Iterator[Path]:
    """The files that people read and git keeps: not the environments, caches and builds that tools leave behind."""
    for path in sorted(root.iterdir()):
        hidden_folder = path.name.startswith(".") and path.name not in {".ci", ".github"}
        if path.is_symlink() or path.name in NOT_OURS or path.name == ".git":  # which is a file in a worktree
            continue
        if path.is_dir() and not hidden_folder:
            yield from files(path)
        elif path.is_file() and not path.name.startswith(".coverage"):
            yield path


def forbidden_words(root: Path) -> list[str]:
    """Paths of one machine, and words about how the files came to be."""
    faults = []
    for path in files(root):
        text = path.read_bytes().decode("utf-8", errors="replace")
        for match in FORBIDDEN.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            faults.append(f"{path.relative_to(root)}:{line}: has {match[0]!r}")
    return faults


def test_no_file_has_forbidden_words() -> None:
    faults = forbidden_words(ROOT)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("words", ["see /wo" + "rk/main", "a sub" + "agent did", "in this " + "session"])
@pytest.mark.parametrize("name", ["README.md", "docs/a.md", ".ci/run", f"{PACKAGE}/a.py", ".pre-commit-config.yaml"])
def test_a_file_with_forbidden_words_is_noticed(name: str, words: str, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {name: f"one\n{words}\n", **dict.fromkeys((".git", ".venv/lib/a.py", "docs/__pycache__/a.pyc"), words)},
    )
    (fault,) = forbidden_words(tmp_path)
    assert fault.startswith(f"{name}:2: has ")

"""The behaviour pages and the tests agree: no rule without a test, no test of a rule that nobody wrote down."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.architecture.source import PACKAGE, ROOT, parse
from tests.support.behaviour import RULE_ID

PAGES = Path("docs/behaviour")
RULE = re.compile(rf"- \*\*({RULE_ID.pattern})\*\* \S")


Rule: TypeAlias = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Claim:
    """A test that says which rule it proves."""

    rule: str
    place: str
    is_test: bool


def rules(root: Path) -> dict[Path, list[str]]:
    """The ids on each page, in their order."""
    found = {}
    for page in sorted((root / PAGES).glob("*.md")):
        matches = map(RULE.match, page.read_text(encoding="utf-8").splitlines())
        found[page] = [match[1] for match in matches if match]
    return found


def definitions(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The classes and functions of a module, at any depth; expressions, of which most of it consists, have none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
            yield from definitions(node)


def claims(root: Path) -> Iterator[Claim]:
    """What the tests say that they prove."""
    for path in sorted((root / "tests").rglob("*.py")):
        for node in definitions(parse(path.read_text(encoding="utf-8"))):
            is_test = path.name.startswith("test_") and node.name.startswith(("test_", "Test"))
            for item in node.decorator_list:
                if isinstance(item, ast.Call) and ast.unparse(item.func).split(".")[-1] == "proves":
                    place = f"{path.relative_to(root)}:{node.lineno} {node.name}"
                    yield from (Claim(str(ast.literal_eval(arg)), place, is_test) for arg in item.args)


def stray_bullets(root: Path) -> list[str]:
    """Bullets at the margin of a page that are no rules."""
    return [
        f"{page.relative_to(root)}:{number}: a bullet is a rule: - **ABC-1** Text."
        for page in rules(root)
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"[-*+]\s|\*\*[A-Z]", line) and not RULE.match(line)
    ]


def repeated_rules(root: Path) -> list[str]:
    """Ids that stand for two rules."""
    counts = Counter(rule for page in rules(root).values() for rule in page)
    return [f"{rule} stands on the pages {count} times" for rule, count in counts.items() if count > 1]


def shared_prefixes(root: Path) -> list[str]:
    """Pages with several prefixes, and prefixes with several pages."""
    prefixes = {page.name: {rule.partition("-")[0] for rule in ids} for page, ids in rules(root).items()}
    faults = [f"{name} has the prefixes {sorted(found)}" for name, found in prefixes.items() if len(found) > 1]
    pages = Counter(prefix for found in prefixes.values() for prefix in found)
    return faults + [f"{prefix} is the prefix of {count} pages" for prefix, count in pages.items() if count > 1]


def unproven_rules(root: Path) -> list[str]:
    """Rules that no test proves."""
    proven = {claim.rule for claim in claims(root) if claim.is_test}
    return [
        f"{page.relative_to(root)}: no test proves {rule}"
        for page, ids in rules(root).items()
        for rule in ids
        if rule not in proven
    ]


def unknown_rules(root: Path) -> list[str]:
    """Ids that tests prove, or that pages and the package's comments refer to, and that are on no page."""
    known = {rule for ids in rules(root).values() for rule in ids}
    faults = [f"{claim.place}: {claim.rule} is on no page" for claim in claims(root) if claim.rule not in known]
    prefixes = {rule.partition("-")[0] for rule in known}  # UTF-8 and SHA-256 look like ids, too
    for path in [*rules(root), *sorted((root / PACKAGE).rglob("*.py"))]:
        named = set(re.findall(rf"\b{RULE_ID.pattern}\b", path.read_text(encoding="utf-8")))
        strange = sorted(rule for rule in named - known if rule.partition("-")[0] in prefixes)
        faults += [f"{path.relative_to(root)}: {rule} is on no page" for rule in strange]
    return faults


def misplaced_proofs(root: Path) -> list[str]:
    """Proofs that pytest does not collect."""
    return [f"{claim.place}: proves {claim.rule}, but is no test" for claim in claims(root) if not claim.is_test]


RULES = [stray_bullets, repeated_rules, shared_prefixes, unproven_rules, unknown_rules, misplaced_proofs]


@pytest.mark.parametrize("rule", RULES)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    faults = rule(ROOT)
    assert not faults, "\n".join(faults)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


GOOD = {
    "docs/behaviour/alpha.md": "# A\n\n- **ALF-1** One.\n  - a detail\n- **ALF-2** Two, as ALF-1\n  says in UTF-8.\n",
    "docs/behaviour/beta.md": "# B\n\n- **BET-1** One.\n",
    "tests/test_a.py": (
        "@proves('ALF-1', 'ALF-2')\ndef test_a(): ...\n"
        "class TestB:\n    @support.proves('BET-1')\n    async def test_b(s): ...\n"
    ),
    f"{PACKAGE}/a.py": "# ALF-2\n",
}


@pytest.mark.parametrize(
    ("rule", "files", "fault"),
    [
        (
            stray_bullets,
            {"docs/behaviour/beta.md": "- **BET-1** One.\n- BET-2 Two.\n"},
            "beta.md:2: a bullet is a rule",
        ),
        (stray_bullets, {"docs/behaviour/beta.md": "- **BET-1** One.\n**BET-2** Two.\n"}, "beta.md:2: a bullet"),
        (repeated_rules, {"docs/behaviour/beta.md": "- **BET-1** One.\n- **BET-1** Two.\n"}, "BET-1 stands"),
        (shared_prefixes, {"docs/behaviour/beta.md": "- **BET-1** One.\n- **GAM-1** Two.\n"}, "beta.md has the pref"),
        (shared_prefixes, {"docs/behaviour/gamma.md": "- **BET-2** One.\n"}, "BET is the prefix of 2 pages"),
        (unproven_rules, {"docs/behaviour/gamma.md": "- **GAM-1** One.\n"}, "gamma.md: no test proves GAM-1"),
        (unproven_rules, {"docs/behaviour/beta.md": "- **BET-1** One.\n- **BET-2** Two.\n"}, "no test proves BET-2"),
        (
            unknown_rules,
            {"tests/test_b.py": "@proves('GAM-1')\ndef test_a(): ...\n"},
            "test_b.py:2 test_a: GAM-1 is on",
        ),
        (unknown_rules, {f"{PACKAGE}/b.py": "# ALF-9: because\n"}, "b.py: ALF-9 is on no page"),
        (misplaced_proofs, {"tests/help.py": "@proves('ALF-1')\ndef test_a(): ...\n"}, "proves ALF-1, but is no test"),
        (misplaced_proofs, {"tests/test_b.py": "@proves('ALF-1')\ndef a(): ...\n"}, "proves ALF-1, but is no test"),
    ],
)
def test_a_repository_that_breaks_the_rule_is_noticed(
    rule: Rule, files: dict[str, str], fault: str, tmp_path: Path
) -> None:
    write(tmp_path, GOOD)
    assert [found for each in RULES for found in each(tmp_path)] == []
    write(tmp_path, files)
    faults = rule(tmp_path)
    assert len(faults) == 1, faults
    assert fault in faults[0]

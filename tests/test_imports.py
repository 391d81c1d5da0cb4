"""Imports point one way: what measures knows nothing of who asks or who shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import calipers

PACKAGE = Path(calipers.__file__).parent
LAYOUT = Path(__file__).parents[1] / "docs" / "architecture.md"


def _parts_in_order() -> list[str]:
    """The parts as the tables of the page about the layout name them, one below the other."""
    rows = [line for line in LAYOUT.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    return [name for row in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])]


ORDER = _parts_in_order()
# Results that print themselves ask those who show, inside a method.
SHOW = {"reporting", "pages"}
PRINT_THEMSELVES = set(
    "results comparisons audits gating reports agreeing explaining powering".split()
)
_MEASURE = {"sources", "engines", "sinks", "scoring", "tasks", "judgements", "auditing"}
# What the order alone would allow.
KNOWS_NOTHING_OF = {
    "texts": set(ORDER),
    "stats": {"config", "suites", "systems", "records"},
    "metrics": {"suites", "systems"},
    "gating": {"suites", "systems"},
    "judge": {"stats", "prices", "systems"},
    "sources": {"metrics", "results", "gating", "suites", "systems"},
    "engines": {"results", "gating", "suites", "systems"},
    "sizing": {"sources", "engines", "scoring"},
    "deciding": {"suites", "systems", "judge"},
    "reporting": {*_MEASURE, "systems", "judge"},
    "pages": {*_MEASURE, "systems", "judge", "runner"},
    "web": {"systems"},
    "api": {*SHOW, "web"},
}


def imported(tree: ast.Module) -> set[str]:
    """The parts of Calipers that a module names in an import, wherever in it the import stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.split(".")[1] for name in names if name.startswith("calipers.")}


def modules(part: str) -> list[Path]:
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{part}.py"]


def imports_of(part: str) -> dict[str, set[str]]:
    """What each module of a part imports from other parts."""
    return {
        str(path.relative_to(PACKAGE)): imported(ast.parse(path.read_text(encoding="utf-8")))
        - {part}
        for path in modules(part)
        if path.exists()
    }


@pytest.mark.parametrize("part", ORDER)
def test_a_part_imports_only_what_stands_before_it(part: str) -> None:
    later = set(ORDER[ORDER.index(part) + 1 :])
    allowed = SHOW if part in PRINT_THEMSELVES else set()
    forbidden = (later - allowed) | KNOWS_NOTHING_OF.get(part, set())
    found = {module: names & forbidden for module, names in imports_of(part).items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_every_part_has_its_place() -> None:
    parts = [
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__"))
        or (path / "__init__.py").exists()
    ]
    assert sorted(parts) == sorted(ORDER)


def test_the_check_sees_imports_everywhere() -> None:
    assert "metrics" in set().union(*imports_of("engines").values())
    assert "sources" in imports_of("scoring")["scoring/score.py"]
    assert "reporting" in imports_of("cli")["cli/score.py"]  # inside functions
    assert imported(ast.parse("def f():\n    from calipers import cli")) == {"cli"}
    assert imported(ast.parse("import calipers.dashboard.app as w")) == {"web"}

"""Imports point one way: what measures knows nothing of who asks or who shows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import calipers

PACKAGE = Path(calipers.__file__).parent

_SHOWS = {"api", "cli", "pages", "reporting", "web"}
_SIZES = {"sizing", "powering"}
_AUDITS = {"rubric_items", "judgements", "audits", "auditing"}
_ASKS = {"scoring", "thresholds", "explaining", "results", "sinks", "agreeing", "ratings", "tasks"}
_DECIDES = {"gating", "deciding", "scenario_table", "baseline_files", "suites", "starter"}
_CALLS = {"systems", "runner", "judge", "calibrating"}
_REPORTS = {"reports", "sampling", "presenting"}
_ASKS |= _REPORTS
_ASKS |= _SHOWS | _SIZES | _AUDITS | _DECIDES | _CALLS
_MEASURES = {"engines", "sources", "metrics", "stats", "prices", "records"}
FORBIDDEN = {
    "errors": {"*"},
    "patterns": {"*"},
    "version": {"*"},
    "records": {"*"},
    "config": {*_MEASURES, *_ASKS},
    "starter": {"config", *_MEASURES, *_ASKS} - {"starter"},
    "suites": {*_MEASURES, *_ASKS} - {"suites"},
    "timing": {"*"},
    "typed": {"*"},
    "systems": {"config", *_MEASURES, *_ASKS} - {"systems", "suites"},
    "runner": {"explaining", "agreeing", "calibrating", *_SIZES, *_SHOWS},
    "judge": {"engines", "sources", "stats", "prices", *_ASKS} - {"judge", "rubric_items"},
    "calibrating": {"engines", "scoring", "explaining", "sinks", *_SIZES, *_SHOWS},
    "judging_options": {"engines", "sources", "explaining", "tasks", *_SIZES, *_SHOWS},
    "calibrations": {"engines", "sources", "metrics", "prices", "records", *_ASKS},
    "correcting": {"sources", "scoring", "sinks", "thresholds", "tasks", *_SIZES, *_SHOWS},
    "prices": {"engines", "sources", "metrics", "stats", *_ASKS},
    "judgment_shape": {"engines", "sources", "metrics", "stats", *_ASKS},
    "traces": {"engines", "sources", "metrics", "prices", *_ASKS},
    "texts": {"*"},
    "semantic": {"engines", "sources", "metrics", "stats", "texts", "records", *_ASKS},
    "metrics": {"engines", "sources", *_ASKS},
    "stats": {"engines", "sources", "metrics", *_ASKS},
    "sources": {"engines", "metrics", *_ASKS},
    "engines": set(_ASKS),
    "results": {"engines", "sources", "metrics", "scoring", "explaining", "sinks", "api", "cli"},
    "json_lines": {"engines", "sources", "metrics", *_ASKS} - {"results"},
    "task_file": {"scoring", "explaining", "agreeing", "ratings", "tasks", *_SIZES, *_SHOWS},
    "picturing": {"sources", *_ASKS} - {"results"},
    "scoring": {"explaining", "api", "cli", "reporting"},
    "thresholds": {"explaining", "results", "sinks", "agreeing", "ratings", *_SIZES, *_SHOWS},
    "choices": {"explaining", "results", "sinks", "agreeing", "ratings", *_SIZES, *_SHOWS},
    "tiering": {"engines", "sources", "metrics", *_ASKS} - {"results", "tiering"},
    "frontier": {"sources", *_ASKS} - {"results"},
    "explaining": {"api", "cli"},
    "ratings": {"engines", "metrics", *_ASKS},
    "agreeing": {"engines", "sources", "metrics", "scoring", "explaining", "sinks", "api", "cli"},
    "tasks": {"explaining", "results", "sinks", "agreeing", "ratings", *_SIZES, *_SHOWS},
    "sizing": {"engines", "sources", "powering", *_ASKS} - {"tasks", "sizing"},
    "powering": {"explaining", "results", "sinks", "agreeing", "ratings", "api", "cli"},
    "comparisons": {"engines", "sources", "metrics", "scoring", "tasks", "comparing", "api", "cli"},
    "attributing": {"comparing", "explaining", "sinks", "agreeing", "ratings", "api", "cli"},
    "flips": {"engines", "comparing", "explaining", "sinks", "agreeing", "ratings", "api", "cli"},
    "comparing": {"explaining", "sinks", "agreeing", "ratings", "reporting", "api", "cli"},
    "gating": {"engines", "sources", *_ASKS} - {"gating", "results", "reporting"},
    "baseline_files": {"engines", "sources", *_ASKS} - {"baseline_files", "gating"},
    "scenario_table": {"explaining", "agreeing", "tasks", "deciding", *_SIZES, *_SHOWS, *_CALLS},
    "deciding": {"explaining", "agreeing", "tasks", "suites", *_SIZES, *_SHOWS, *_CALLS},
    "reporting": {
        *("engines", "sources", "scoring", "sinks", "ratings", "tasks", "judgements", "auditing"),
        *("api", "cli", "pages", "web", "systems", "judge"),
    },
    "pages": {
        *("engines", "sources", "scoring", "sinks", "ratings", "tasks", "judgements", "auditing"),
        *("explaining", "api", "cli", "systems", "judge", "runner"),
    },
    "result_folder": {"*"},
    "reports": {"engines", "sources", "metrics", "scoring", "sampling", "presenting", "api", "cli"},
    "sampling": {"explaining", "agreeing", "tasks", *_SIZES, *_SHOWS, *_CALLS} | {"presenting"},
    "presenting": {"explaining", "agreeing", "tasks", "suites", *_SIZES, *_SHOWS, *_CALLS},
    "rubric_items": {"engines", "sources", "metrics", "stats", *_ASKS} - {"rubric_items"},
    "judgements": {"engines", "metrics", "stats", *_ASKS} - {"rubric_items", "scoring"},
    "audits": {"engines", "sources", "metrics", "scoring", "judgements", "auditing", "api", "cli"},
    "auditing": {"engines", "sources", "explaining", "agreeing", "ratings", *_SHOWS},
    "web": {"api", "cli", "systems"},
    "api": {"cli", "pages", "reporting", "web"},
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


@pytest.mark.parametrize("part", sorted(FORBIDDEN))
def test_a_part_knows_nothing_of_those_above_it(part: str) -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    forbidden = parts if FORBIDDEN[part] == {"*"} else FORBIDDEN[part]
    found = {module: names & forbidden for module, names in imports_of(part).items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_every_part_has_its_place() -> None:
    parts = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__"))
        or (path / "__init__.py").exists()
    }
    assert parts - set(FORBIDDEN) == {"cli", "sinks"}


def test_the_check_sees_imports_everywhere() -> None:
    assert "metrics" in set().union(*imports_of("engines").values())
    assert "sources" in imports_of("scoring")["scoring.py"]
    assert "reporting" in imports_of("cli")["cli/score.py"]  # inside functions
    assert imported(ast.parse("def f():\n    from calipers import cli")) == {"cli"}
    assert imported(ast.parse("import calipers.web.app as w")) == {"web"}

"""The documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from calipers.metrics.checks.checks import read_checks
from tools.reference import PAGES as REFERENCE
from tools.reference import PARTS as WRITTEN_PARTS
from tools.reference import replace_part
from tools.reference.checks import list_kinds

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_is_what_the_declarations_say(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == REFERENCE[name](), "write it again: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_documentation_runs(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(page), "exec"), {})


@pytest.mark.parametrize("name", WRITTEN_PARTS)
def test_the_tables_within_pages_are_written_from_the_declarations(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    part, write = WRITTEN_PARTS[name]
    assert replace_part(page, part, write()) == page, "make reference writes it anew"


def test_every_example_of_a_check_can_be_read() -> None:
    for line in list_kinds().splitlines()[2:]:
        key, example = line.split("|")[1].strip(" `"), line.split("|")[-2].strip(" `")
        if key != "python":  # names a file
            read_checks([{"expect": "it", **yaml.safe_load(example)}])


def test_a_metric_of_ones_own_takes_ten_lines() -> None:
    page = (ROOT / "docs/write-a-metric.md").read_text(encoding="utf-8")
    code = page.partition("`polite.py`:")[2].partition("```")[2].partition("```")[0]
    assert len([line for line in code.splitlines()[1:] if line.strip()]) <= 10


def test_every_dependency_states_its_license() -> None:
    page = REFERENCE["docs/reference/licenses.md"]()
    rows = [line.split("|")[1:4] for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    assert not [name for name, license_, _ in rows if not license_.strip()], "pyproject.toml"

"""The documentation says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from calipers.metrics import metrics_of
from calipers.metrics.checks.checks import read_checks
from calipers.metrics.checks.page import list_kinds
from calipers.records.fields import FIELDS
from calipers.reports.catalogue import write_catalogue
from tests.commands import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_metrics_page_is_what_the_declarations_say() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert page == write_catalogue(metrics_of(None)), (
        "write it again: calipers metrics --format markdown > docs/metrics.md"
    )


def test_the_records_page_names_every_field() -> None:
    page = (ROOT / "docs/records.md").read_text(encoding="utf-8")
    named = {word for cell in re.findall(r"`([a-z_ ]+)`", page) for word in cell.split()}
    assert set(FIELDS) <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_documentation_runs(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(page), "exec"), {})


def test_the_table_in_the_readme_is_what_the_example_gives(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    script = ROOT / "examples" / "arithmetic" / "answer_tasks.py"
    subprocess.run([sys.executable, script, "-o", answers], check=True, timeout=120)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = page.partition("$ calipers score answers.jsonl ")[2].partition("```")[0]
    options, _, table = shown.partition("\n")
    given = run("score", answers, *options.split()).stdout
    lines = [
        [line.rstrip() for line in text.splitlines() if line.strip()] for text in (given, table)
    ]
    assert lines[0] == lines[1]


def test_the_page_of_checks_lists_every_kind() -> None:
    page = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
    table = page.partition("<!-- kinds -->\n")[2].partition("<!-- end -->")[0]
    assert table == list_kinds()
    for line in table.splitlines()[2:]:
        key, example = line.split("|")[1].strip(" `"), line.split("|")[-2].strip(" `")
        if key != "python":  # names a file
            read_checks([{"expect": "it", **yaml.safe_load(example)}])

"""CSV for spreadsheets: no text from outside is a formula there, and every number is one."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calipers.cli import app
from calipers.reports.formats.spreadsheets import escape_cell, write_csv
from tests.files import write_lines

EVIL = [
    '=HYPERLINK("http://evil")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\tx",
    "\r=1",
    "\n=",
]


@pytest.mark.parametrize("text", [*EVIL, "＝1", "--1", "-", "+", "-1e", "-٣", "1e5\n"[::-1]])
def test_what_would_run_gets_an_apostrophe(text: str) -> None:
    assert escape_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-0.5", "+3", "-1e-5", "-.5", "", "a=b", "'=x", -0.5, 7, True])
def test_everything_else_stays(value: object) -> None:
    assert escape_cell(value) is value


@given(st.lists(st.lists(st.text() | st.floats(allow_nan=False), min_size=1), max_size=5))
def test_a_reader_gets_back_what_was_written(rows: list[list[str | float]]) -> None:
    """But for the apostrophe; cells of several lines, quotes and commas are whole."""
    found = csv.reader(io.StringIO(write_csv(rows), newline=""))
    assert list(found) == [[str(escape_cell(cell)) for cell in row] for row in rows]


def cells(*arguments: object) -> set[str]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--format", "csv"])
    assert result.exit_code in (0, 1), result.output
    return {cell for row in csv.reader(io.StringIO(result.stdout, newline="")) for cell in row}


def test_no_command_writes_a_formula(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"=t{n}",
            "model": model,
            "correct": n % 2 == 0,
            "judgments": [{"judge": j, "passed": n % 2 == 0} for j in ("@a", "+b")],
        }
        for model in ("=evil()", "-0.5")
        for n in range(8)
    ]
    data = write_lines(tmp_path / "r.jsonl", rows)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"thresholds": {"blocking": {"accuracy": 90}}}))
    raters = write_lines(
        tmp_path / "k.jsonl", [{"id": str(n), "=a": n % 2, "b": 1} for n in range(9)]
    )
    told = {
        "score": cells("score", data, "--by", "model"),
        "gate": cells("gate", data, "--policy", policy, "--by", "model"),
        "power": cells("power", data, "--by", "model"),
        "audit": cells("judge", "audit", data, "--by", "model"),
        "compare": cells("compare", data, data, "--by", "model"),
        "agree": cells("agree", raters, "--raters", "=a,b"),
    }
    assert not {cell for found in told.values() for cell in found if cell.startswith(("=", "@"))}
    for name in ("score", "gate", "power", "audit", "compare"):
        assert {"'=evil()", "-0.5"} <= told[name], name
    assert "'@a" in told["audit"]
    assert "'=a" in told["agree"]


def test_a_score_is_wide_or_long_or_parquet(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "model": f"m{n % 2}", "correct": n % 3 == 0} for n in range(12)]
    write_lines(tmp_path / "a.jsonl", rows)
    asked = ["score", str(tmp_path / "a.jsonl"), "--by", "model", "--metric", "accuracy"]
    wide = CliRunner().invoke(app, [*asked, "--format", "csv-wide"])
    found = list(csv.DictReader(io.StringIO(wide.stdout)))
    assert [row["model"] for row in found] == ["m0", "m1"]
    assert list(found[0])[1:] == ["records", "errors", "accuracy", "accuracy_low", "accuracy_high"]
    file = tmp_path / "score.parquet"
    assert CliRunner().invoke(app, [*asked, "--format", "parquet", "-o", str(file)]).exit_code == 0
    kept = pl.read_parquet(file)
    assert kept["value"].to_list() == [float(row["accuracy"]) for row in found]
    refused = CliRunner().invoke(app, [*asked, "--format", "parquet"])
    assert refused.exit_code == 2
    assert "-o FILE.parquet" in refused.stderr

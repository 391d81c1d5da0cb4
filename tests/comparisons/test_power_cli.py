"""Power on the command line: mistakes, tables, and every format."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import calipers as cal
from tests import commands
from tests.comparisons.powered import (
    MANY,
    records,
    refused,
    run,
    tasks,
)
from tests.files import write_lines


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--delta", "0"), "--delta 0: must be above 0"),
        (("--delta", "-0.1"), "--delta -0.1: must be above 0"),
        (("--delta", "nan"), "--delta nan"),
        (("--delta", "inf"), "--delta inf"),
        (("--power", "1.5"), "--power 1.5: not between 0.05, which chance reaches, and 1"),
        (("--power", "0.05"), "--power 0.05"),
        (("--confidence", "95"), "--confidence 95: must be above 0 and below 1"),
        (("--correlation", "1"), "--correlation 1: must be at least -1 and below 1"),
        (("--correlation", "nan"), "--correlation nan"),
        (("--runs", "0,2"), "--runs 0,2: a task is run once or more"),
        (("--runs", "two"), "--runs two: not whole numbers"),
        (("--metric", "acuracy"), "did you mean accuracy?"),
        (("--by", "modle"), "did you mean model?"),
        (("--map", "correct=passed"), "--map correct=passed: no record has a value in passed"),
        (("--map", "id=task"), "--map id=NAME"),
        (("--delta", "much"), "not a valid float"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_refused(data: str, options: Sequence[str], said: str) -> None:
    assert said in refused(data, *options)


def test_files_that_share_no_task(data: str, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "b.jsonl", records({"q": (1,), "r": (0,)}, model="m2"))
    message = refused(data, other)
    assert "no id is in both" in message
    assert "--map id=NAME" in message
    assert "no group of --by model is in both" in refused(data, other, "--by", "model")


def test_data_without_anything_to_measure(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", [{"id": "1", "outcome": True}])
    assert "--map correct=passed" in refused(data)
    assert "no such file" in refused(tmp_path / "none.jsonl")
    assert "read once" in refused("-", "-")


@pytest.mark.parametrize("output_format", ["table", "json", "csv", "markdown"])
@pytest.mark.parametrize("emptied", [0, 1])
def test_no_records(data: str, tmp_path: Path, output_format: str, emptied: int) -> None:
    files = [data, data]
    files[emptied] = str(write_lines(tmp_path / "none.jsonl", []))
    result = run(*files, "--format", output_format)
    assert result.exit_code == 3
    assert "no records in" in result.stderr


def test_pooled_systems_are_said(data: str) -> None:
    assert "up to 2 models of a task count as its runs; --by model" in run(data).stderr
    assert run(data, "--by", "model").stderr == ""


TABLE = """\
m0: 20 tasks, 40 records

 metric       value   between   within   could see   to see   tasks at 1 run   at 2   at 8
 ─────────────────────────────────────────────────────────────────────────────────────────
 accuracy      50 %   0.00658    0.250    33.4 pts    5 pts            1,593    808    219
 stability     50 %     0.263        —    33.8 pts    5 pts                     829
 pass_at_2     75 %     0.197        —    29.3 pts    5 pts                     622
 pass_hat_2    25 %     0.197        —    29.3 pts    5 pts                     622

To detect a difference of 5 points in accuracy with power 0.8 you need 1,593 tasks at 1 run each, or 219 at 8.
With 20 tasks at 2 runs each, this run could have detected a difference of 33.4 points.
"""


def test_the_table(data: str, tmp_path: Path) -> None:
    result = run(data, "--by", "model", "--runs", "1,2", "--runs", "8")
    assert result.exit_code == 0
    shown = [line.rstrip() for line in result.stdout.splitlines()]
    wanted = TABLE.splitlines()
    assert shown[: len(wanted)] == wanted
    assert "m1: 1 task, 1 record" in shown
    text = result.stdout
    assert "(within): a task has one value, of all its runs [m0]" in " ".join(text.split())
    assert "accuracy: a single task does not show how much others vary [m1]" in text
    assert "correlated by 0.5 (--correlation)" in " ".join(text.split())
    assert "5 points for metrics in [0, 1], 5 % of the value for others" in " ".join(text.split())
    assert "mid-p McNemar" in text
    assert run(data, "--by", "model", "-o", tmp_path / "t.txt").stdout == ""
    assert "tasks at 1 run" in (tmp_path / "t.txt").read_text(encoding="utf-8")


def test_a_narrow_terminal_gets_two_tables(data: str) -> None:
    from rich.console import Console  # noqa: PLC0415

    from calipers.reports.dispatch import show  # noqa: PLC0415

    out = io.StringIO()
    show(cal.power(data, by="model"), Console(file=out, width=70))
    assert "…" not in out.getvalue()
    assert out.getvalue().count(" metric ") == 3  # two for m0, one for m1 without a plan


def test_json_csv_and_markdown(data: str) -> None:
    result = run(data, "--by", "model", "--metric", "accuracy", "--format", "json")

    found = commands.strict(result.stdout)
    assert found["schema"] == "calipers.power/1"
    assert found["settings"]["delta"] is None
    assert found["settings"]["runs"] == [1, 2, 4, 8, 16]
    assert found["candidate"] is None
    accuracy = found["groups"][0]["metrics"]["accuracy"]
    assert accuracy["plans"][0] == {"runs": 1, "tasks": 1593, "calls": 1593}
    api = cal.power(data, by="model", metrics=["accuracy"])
    assert api.to_json() + "\n" == result.stdout
    assert "&lt;" not in api._repr_html_()

    text = run(data, "--by", "model", "--metric", "accuracy", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["model"], row["planned_runs"]) for row in rows] == [
        *(("m0", str(runs)) for runs in (1, 2, 4, 8, 16)),
        ("m1", ""),
    ]
    assert float(rows[0]["within"]) == accuracy["within"]
    assert rows[-1]["reason"] == "a single task does not show how much others vary"

    lines = run(data, "--by", "model", "--format", "markdown").stdout.splitlines()
    assert lines[0] == "**m0: 20 tasks, 40 records**"
    widths = {line.count("|") for line in lines[2:6]}
    assert len(widths) == 1


def test_names_from_outside_cannot_drive_the_terminal() -> None:
    found = cal.power(records(tasks((1,), (0,)), model="\x1b[31m|<b>"), by="model")
    assert "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_()
    assert "\\|&lt;b>" in found.to_markdown()


def test_tables_in_python() -> None:
    frame = pl.DataFrame(MANY)
    assert cal.power(frame, frame).to_dict() == cal.power(frame.to_dicts(), MANY).to_dict() | {
        "base": "<table>",
        "candidate": "<table>",
    }

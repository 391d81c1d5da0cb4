"""Runs that end as soon as it is sure which of two systems is better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

SYSTEM = """
import pathlib

HERE = pathlib.Path(__file__).parent

def good(record):
    if (HERE / "broken.txt").exists():
        raise ValueError("broken")
    return "yes" if int(record["id"][1:]) % 10 else "no"

def poor(record):
    return "yes" if int(record["id"][1:]) % 3 == 0 else "no"

def same(record):
    return good(record)
"""


def suite(path: Path, names: tuple[str, ...] = ("good", "poor"), **more: Any) -> SuiteFolder:
    (path / "system.py").write_text(SYSTEM)
    given = [{"id": f"t{n}", "input": "?", "target": "yes"} for n in range(60)]
    systems = [{"name": name, "python": f"system.py:{name}"} for name in names]
    return suite_folder(path, given, systems, concurrency=1, **more)


def test_it_ends_when_one_is_better(tmp_path: Path) -> None:
    folder = suite(tmp_path)
    result = folder.run("--until-better", "accuracy")
    assert result.exit_code == 0, result.output
    found = folder.json("better.json")
    assert found["better"] == "good"
    assert found["calls"]["made"] < 90 < found["calls"]["planned"] == 120
    said = f"good is better than poor in accuracy (error rate 5 %, after {found['after']} of 60"
    assert said in result.stdout
    assert 0 < found["low"] < 0.57 < found["high"] < 1  # the difference over all tasks is 0.57
    again = folder.run("--until-better", "accuracy")
    assert said in again.stdout
    assert folder.json("better.json") == found
    assert folder.run().exit_code == 0  # the calls that were left out
    assert not (folder.results / "better.json").exists()
    assert len(cal.read(folder.results / "records.jsonl")) == 120


@pytest.mark.long
def test_lower_may_be_better_and_tiers_are_compared_too(tmp_path: Path) -> None:
    tiers = [{"name": "T0"}, {"name": "T1"}]
    (tmp_path / "a").mkdir()
    folder = suite(tmp_path / "a")
    result = cal.run(
        folder.path / "suite.yaml", tmp_path / "out", until_better="error_rate", report=False
    )
    assert result.better is not None
    assert (result.better.better, result.exit_code, result.was_decided_early) == (0, 0, True)
    assert result.better.difference.high < 0
    (tmp_path / "b").mkdir()
    alike = suite(tmp_path / "b", ("good",), tiers=tiers)
    said = alike.run("--until-better", "accuracy")
    assert said.exit_code == 0, said.output
    assert "T0 and T1 cannot be told apart in accuracy (error rate 5 %, after" in said.stdout
    assert alike.json("better.json")["better"] is None


@pytest.mark.long
def test_failed_calls_leave_it_open_and_are_made_again(tmp_path: Path) -> None:
    folder = suite(tmp_path)
    (tmp_path / "broken.txt").write_text("")
    result = folder.run("--until-better", "accuracy", "--evidence", "point")
    assert result.exit_code == 3, result.output
    assert "not decided yet" in result.stdout
    assert "--until-better accuracy --evidence point" in result.stderr
    (tmp_path / "broken.txt").unlink()
    again = folder.run("--until-better", "accuracy", "--evidence", "point")
    assert again.exit_code == 0, again.output
    assert "good is better than poor in accuracy on these tasks" in again.stdout


@pytest.mark.parametrize(
    ("names", "options", "why"),
    [
        (("good", "poor", "same"), ("accuracy",), "compares two systems, and the suite has 3"),
        (("good",), ("accuracy",), "compares two systems, and the suite has 1"),
        (("good", "poor"), ("latency_p95_ms",), "no mean over calls of values between 0 and 1"),
        (("good", "poor"), ("acuracy",), "no metric is called acuracy"),
        (("good", "poor"), ("accuracy", "--until-decided"), "one decides the gate"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    tmp_path: Path, names: tuple[str, ...], options: tuple[str, ...], why: str
) -> None:
    result = suite(tmp_path, names).run("--until-better", *options)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())
    assert not (tmp_path / "out" / "records.jsonl").exists()

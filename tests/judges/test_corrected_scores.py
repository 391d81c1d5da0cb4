"""Scores without the judges' error, by their calibration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import calipers
from tests import commands
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines
from tests.judges.licences_at_hand import (
    CALIBRATED,
    POLICY,
    Row,
    calibrated,
    check,
    judgment,
    records,
)


def test_a_gate_may_decide_on_what_is_corrected(tmp_path: Path) -> None:
    machine, human = records(400)
    for row in machine:
        kind = min(1.0, row["judgments"][0]["weighted_score"] + 0.1)
        row["judgments"] = [judgment(kind)]
    calibrated(tmp_path, machine[:200], human[:200])
    truth = sum(row["passed"] for row in human[200:]) / 200
    policy = POLICY | {"judges": {"calibrations": ["calibration.json"], "floor": 0.5}}
    kind = check(tmp_path, machine[200:], policy)
    policy["judges"] |= {"corrected": True}
    found = check(tmp_path, machine[200:], policy)
    assert kind["low"] > truth
    assert found["low"] < truth < found["high"]


def test_a_score_shows_means_without_the_judges_error(tmp_path: Path) -> None:
    machine, human = records(400)
    for row in machine:
        row["judgments"] = [judgment(min(1.0, row["judgments"][0]["weighted_score"] + 0.1))]
    calibrated(tmp_path, machine[:200], human[:200])
    path = tmp_path / "new.jsonl"
    write_lines(path, machine[200:])
    arguments = ["score", str(path), "--calibration", str(tmp_path / "calibration.json")]
    shown = commands.run(*arguments)
    assert "without the judge's error" in shown.stdout
    assert "where the judge says" in shown.stdout
    result = json.loads(commands.run(*arguments, "--format", "json").stdout)
    metrics = result["groups"][0]["metrics"]
    for name, field in (("pass_rate", "passed"), ("impl_rate", "weighted_score")):
        truth = sum(row[field] for row in human[200:]) / 200
        found = metrics[name]["corrected"]
        assert found["low"] < truth < found["high"]
        assert metrics[name]["low"] > truth  # as judged, it is not even within the interval
        assert found["n"] == 200
    assert "corrected" not in metrics["composite_score"]
    markdown = commands.run(*arguments, "--format", "markdown").stdout
    assert "without the judge's error" in markdown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[0].update(passed=True), "the others are recorded"),
        (lambda rows: rows[0]["judgments"][0].update(model="x"), "2 different judges"),
        (
            lambda rows: [r["judgments"][0].update(model="x") for r in rows],
            "no calibration is of x",
        ),
    ],
)
def test_what_cannot_be_corrected_says_why(
    tmp_path: Path, change: Callable[[list[Row]], None], said: str
) -> None:
    calibrated(tmp_path, *records())
    rows, _ = records(30, seed=2)
    change(rows)
    score = calipers.score(rows, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["pass_rate"].corrected
    assert found is not None
    assert found.value is None
    assert said in (found.reason or "")


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_a_correction_is_the_same_on_every_engine(tmp_path: Path, engine: str) -> None:
    calibrated(tmp_path, *records())
    rows = [{**row, "run": run} for run in (1, 2) for row in records(50, seed=run)[0]]
    path = tmp_path / "calibration.json"
    expected = calipers.score(rows, calibration=path).groups[0].metrics["impl_rate"].corrected
    score = calipers.score(rows, calibration=path, engine=engine)
    found = score.groups[0].metrics["impl_rate"].corrected
    assert expected is not None
    assert found is not None
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)


def test_a_calibration_may_say_nothing_of_scores(tmp_path: Path) -> None:
    machine, human = records()
    calibrated(tmp_path, machine, [{"id": row["id"], "passed": row["passed"]} for row in human])
    score = calipers.score(machine, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["impl_rate"].corrected
    assert found is not None
    assert found.reason == "people gave no score when the judge was calibrated"
    policy = {"thresholds": {"blocking": {"impl_rate": 0.1}}} | CALIBRATED
    assert "does not cover score" in check(tmp_path, machine, policy)["reason"]


def test_one_task_alone_gives_no_corrected_score(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    rows = [{**row, "id": "t", "run": n} for n, row in enumerate(records(5)[0])]
    score = calipers.score(rows, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["impl_rate"].corrected
    assert found is not None
    assert found.reason == "the judged mean has no standard error"


def test_the_report_on_a_folder_shows_what_its_score_was_corrected_by(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    path, folder = tmp_path / "calibration.json", tmp_path / "run"
    folder.mkdir()
    write_lines(folder / "records.jsonl", records(50, seed=1)[0])
    (folder / "manifest.json").write_text('{"schema": "calipers.run/1"}', encoding="utf-8")
    score = calipers.score(folder / "records.jsonl", calibration=path)
    (folder / "score.json").write_text(score.to_json(), encoding="utf-8")
    expected = score.groups[0].metrics["pass_rate"].corrected
    assert expected is not None
    assert calipers.report(folder).score.groups[0].metrics["pass_rate"].corrected == expected
    path.unlink()
    assert calipers.report(folder).score.groups[0].metrics["pass_rate"].corrected is None

"""Criteria of categories without the judge's error: as `score --by category` corrects them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers
from tests.judges.licences_at_hand import CALIBRATED, calibrated, gate, records

Row = dict[str, Any]

CORRECTED = {"judges": {**CALIBRATED["judges"], "corrected": True}}
CRITERIA: Row = {"pass_criteria": {"by_category": {"a": "≥ 30%", "b": "≥ 30%"}}, **CORRECTED}


def of_categories(runs: int, *, seed: int = 3) -> list[Row]:
    """What a judge says of tasks of two categories."""
    return [
        {**row, "category": "a" if n % 3 else "b", "run": run}
        for run in range(runs)
        for n, row in enumerate(records(90, seed=seed + run)[0])
    ]


def checks(folder: Path, rows: list[Row], policy: Row) -> dict[str, Row]:
    found = json.loads(gate(folder, rows, policy, "--format", "json").stdout)["checks"]
    return {check["name"]: check for check in found}


@pytest.mark.parametrize("runs", [1, 3])
def test_a_category_is_corrected_as_its_score_is(tmp_path: Path, runs: int) -> None:
    calibrated(tmp_path, *records(astray=0.2))
    rows = of_categories(runs)
    found = checks(tmp_path, rows, CRITERIA)
    score = calipers.score(rows, by=["category"], calibration=tmp_path / "calibration.json")
    for group in score.groups:
        expected = group.metrics["pass_rate"].corrected
        assert expected is not None
        assert expected.value != group.metrics["pass_rate"].value
        check = found[group.by["category"]]
        told = (check["value"], check["low"], check["high"])
        assert told == pytest.approx((expected.value, expected.low, expected.high))
    plain = checks(tmp_path, rows, {**CRITERIA, **CALIBRATED})
    assert plain["a"]["value"] == score.groups[0].metrics["pass_rate"].value


def test_what_cannot_be_corrected_fails_and_what_nobody_judged_stays(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    rows = [{**row, "passed": True} if row["category"] == "b" else row for row in of_categories(1)]
    found = checks(tmp_path, rows, CRITERIA)
    assert found["b"]["value"] == 1.0  # recorded
    assert found["a"]["value"] not in (None, 1.0)
    rows[1]["passed"] = True  # of category a
    part = checks(tmp_path, rows, CRITERIA)["a"]
    assert (part["verdict"], part["value"]) == ("fail", None)
    assert "it cannot be corrected: judges made 59 of the 60 values" in part["reason"]
    other = of_categories(1)
    other[0]["judgments"][0]["model"] = "x"  # of category b
    both = checks(tmp_path, other, CRITERIA)
    assert "2 different judges" in both["a"]["reason"]

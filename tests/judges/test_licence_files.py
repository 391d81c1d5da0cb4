"""Files of a calibration: what is none, forged or nonsense licenses nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calipers
from tests.judges.licences_at_hand import (
    CALIBRATED,
    POLICY,
    Row,
    answered_anew,
    calibrated,
    check,
    gate,
    records,
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "cannot be read as JSON"),
        ("[]", "no calibration"),
        ('{"schema": "calipers.calibration/1", "judges": [{}]}', "no calibration"),
        ('{"schema": "calipers.calibration/1", "judges": NaN}', "cannot be read as JSON"),
        ('{"schema": "other", "judges": []}', "no calibration"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "calibration.json").write_text(content, encoding="utf-8")
    result = gate(tmp_path, records(3)[0], POLICY | CALIBRATED)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def _forge(file: Row) -> None:
    file["judges"][0]["aspects"]["passed"]["cohen_kappa"]["low"] = "1.0"


def _unbind(file: Row) -> None:
    file["judges"][0]["members"] = []


def _put(value: Any, *keys: str) -> Callable[[Row], None]:
    def change(file: Row) -> None:
        within = file["judges"][0]
        for key in keys[:-1]:
            within = within[key]
        within[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _forge,
        _unbind,
        _put(7.0, "aspects", "passed", "cohen_kappa", "low"),
        _put(0.99, "aspects", "passed", "cohen_kappa", "low"),
        _put(10**400, "aspects", "passed", "cohen_kappa", "low"),
        _put(None, "verdicts", "passed"),
        _put(0, "verdicts", "passed"),
        _put(-5, "verdicts", "failed"),
        _put(1_000_000, "verdicts", "both_passed"),
        _put(None, "moments", "score", "judge"),
        _put(2.5, "moments", "score", "clusters"),
        _put(-1.0, "moments", "score", "judge_spread"),
        lambda file: file.update(confidence=2),
        lambda file: file.pop("confidence"),
    ],
)
def test_a_file_of_nonsense_licenses_nobody(tmp_path: Path, change: Callable[[Row], None]) -> None:
    calibrated(tmp_path, *records())
    path = tmp_path / "calibration.json"
    file = json.loads(path.read_text())
    change(file)
    path.write_text(json.dumps(file))
    for name in ("pass_rate", "impl_rate"):
        judges = {**CALIBRATED["judges"], "corrected": True}
        policy = {"thresholds": {"blocking": {name: 30}}, "judges": judges}
        result = gate(tmp_path, records()[0], policy)
        assert result.exit_code == 2, result.exception
        assert "make it again" in result.stderr


def test_a_bound_that_is_less_sure_than_the_gate_licenses_nobody(tmp_path: Path) -> None:
    """With intervals of no width every judge would pass the floor."""
    machine, human = records(astray=0.15)
    calibrated(tmp_path, machine, human)
    machine = answered_anew(machine)
    assert gate(tmp_path, machine, POLICY | CALIBRATED).exit_code == 1
    narrow = calipers.calibrate_judges(tmp_path / "j.jsonl", tmp_path / "h.jsonl", confidence=0.01)
    (tmp_path / "calibration.json").write_text(narrow.to_json())
    held = check(tmp_path, machine, {**POLICY, "judges": {**CALIBRATED["judges"], "floor": 0.3}})
    assert held["verdict"] == "fail"
    assert "was calibrated with 1 % intervals" in held["reason"]
    assert "--confidence 0.95" in held["reason"]

"""Grades on T's scale, and on one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import calipers as cal
from calipers.cli import app
from tests.files import write_lines

SCYLLA = {"S": 1.0, "A": 0.8, "B": 0.6, "C": 0.4, "D": 0.2}


def runs(composite: float) -> list[dict[str, Any]]:
    return [
        {"id": f"test-{n:03}", "tier": "T0", "passed": True, "impl_rate": 2 * composite - 1}
        if composite >= 0.5
        else {"id": f"test-{n:03}", "tier": "T0", "passed": False, "impl_rate": 2 * composite}
        for n in range(6)
    ]


def grade(composite: float, **options: Any) -> str | None:
    return cal.score(runs(composite), by="tier", profile="tiers", **options).groups[0].grade


@pytest.mark.parametrize(
    ("composite", "ours", "theirs"),
    [(1.0, "A", "S"), (0.95, "A", "A"), (0.8, "C", "A"), (0.5, "F", "C"), (0.125, "F", "F")],
)
@pytest.mark.parametrize("form", ["mapping", "file", "text"])
def test_a_scale_of_ones_own(
    composite: float, ours: str, theirs: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "Größe scale.yaml"
    path.write_text(json.dumps(SCYLLA), encoding="utf-8")
    given = {"mapping": SCYLLA, "file": path, "text": json.dumps(SCYLLA)}[form]
    assert grade(composite) == ours
    assert grade(composite, grade_scale=given) == theirs


def test_the_scale_is_in_the_output(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "01.jsonl", runs(0.9))
    told = ["score", str(path), "--by", "tier", "--profile", "tiers", "--format", "json"]
    for more, scale in (
        ((), {"A": 0.95, "B": 0.85, "C": 0.75, "D": 0.65}),
        (("--set", "grade_scale={S: 0.9, T: 0.5}"), {"S": 0.9, "T": 0.5}),
    ):
        result = CliRunner().invoke(app, [*told, *more])
        assert json.loads(result.stdout)["settings"]["grade_scale"] == scale


def test_the_figure_has_the_letters_of_the_scale() -> None:
    told = cal.report(runs(0.9), by="tier", grade_scale=SCYLLA).to_html()
    assert '"letter":"S"' in told.replace(" ", "").replace("&#34;", '"')


@pytest.mark.parametrize(
    ("scale", "why"),
    [
        ({}, "no letters"),
        ({"A": 2}, "above 1"),
        ({"A": -1}, "negative"),
        ({1: 0.5}, "is not a letter"),
        ({"A": 0.5, "B": 0.5}, "same score"),
        ("{A: ", "grade_scale"),
    ],
)
def test_what_is_no_scale_is_refused(scale: Any, why: str) -> None:
    with pytest.raises(cal.UsageError, match=why):
        grade(0.5, grade_scale=scale)

"""What agree refuses, and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.comparisons.ratings_at_hand import JUDGED, LONG, WIDE, refused, run, wide
from tests.files import write_lines

__all__ = ["wide"]


def test_units_are_never_pooled(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [*WIDE, {**WIDE[0], "run": 2}])
    told = refused(path, "--raters", "human,judge", "--unit", "id")
    assert told == (
        "error: more than one row is the unit id=q1\n"
        "  a unit is one rated thing, never several pooled or averaged: "
        "name every field that identifies units, as in --unit task,run\n"
    )
    path = write_lines(tmp_path / "l.jsonl", [*LONG, {**LONG[0], "run": 2}])
    long = ("--rater-field", "by", "--value", "mark")
    assert "error: j1 rates the unit task=q0 twice\n" in refused(path, *long, "--unit", "task")
    assert run(path, *long, "--unit", "task,run").exit_code == 0
    twice = {"id": "x", "judgments": JUDGED[0]["judgments"][:1] * 2}
    path = write_lines(tmp_path / "j.jsonl", [*JUDGED, twice])
    assert "error: j1 rates record 7 twice\n" in refused(path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--raters", "human"], "--raters human: agreement is between different raters"),
        (["--raters", "human,human"], "--raters human,human: agreement is between different"),
        (["--raters", "human,jugde"], "--raters: no record has jugde\n  did you mean judge?"),
        (["--raters", "human,judge", "--unit", "nr"], "--unit: no record has nr"),
        (
            ["--raters", "human,judge", "--cluster", "idd"],
            "--cluster: no record has idd\n  did you",
        ),
        (["--raters", "human,judge", "--unit", "other"], "1 of 4 records have no other"),
        (
            ["--raters", "human,judge", "--confidence", "95"],
            "--confidence 95: must be above 0 and below 1",
        ),
        (["--raters", "human,judge", "--value", "x"], "no ratings: no record has"),
        ([], "no ratings: no record has judgments"),
        (["--rater-field", "judge"], "--rater-field needs --value and --unit"),
        (
            ["--rater-field", "jduge", "--value", "human", "--unit", "id"],
            "--rater-field: no record has jduge\n  did you mean judge?",
        ),
        (
            ["--rater-field", "other", "--value", "human", "--unit", "id"],
            "1 records have no other",
        ),
        (
            ["--rater-field", "judge", "--value", "human", "--unit", "id", "--raters", "good,god"],
            "--raters: no rating is by god\n  did you mean good?",
        ),
    ],
)
def test_mistakes(options: list[str], told: str, wide: Path) -> None:
    assert f"error: {told}" in refused(wide, *options)


@pytest.mark.parametrize(
    ("record", "options", "told"),
    [
        ({"judgments": "none"}, [], 'r.jsonl:1: judgments: "none" is not JSON'),
        ({"judgments": {"judge": "j"}}, [], 'judgments: {"judge": "j"} is not a list of judgments'),
        ({"judgments": [{"passed": True}]}, [], 'judgments: [{"passed": true}] is not a list'),
        ({"judgments": [{"judge": "j", "scores": 3}]}, [], "judgments: [{"),
        (
            {"judgments": [{"judge": "j", "passed": True}]},
            [],
            "--value weighted_score: no judgment",
        ),
        (
            {"judgments": [{"judge": "j", "scores": {"clear": 1}}]},
            ["--value", "scores.claer"],
            "--value scores.claer: no judgment has it\n  did you mean scores.clear?",
        ),
        ({"judgments": [{"judge": "j", "weighted_score": 1}]}, [], "j is the only rater"),
        ({"a": "Infinity", "b": 1}, ["--raters", "a,b"], "a: Infinity is not a finite number"),
    ],
)
def test_ratings_that_cannot_be_read(
    record: dict[str, Any], options: list[str], told: str, tmp_path: Path
) -> None:
    said = refused(write_lines(tmp_path / "r.jsonl", [record]), *options)
    assert said.startswith("error: ")
    assert told in said


def test_judgments_in_a_cell_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("id,judgments\n1,[1\n")
    assert 'r.csv:1: judgments: "[1" is not JSON\n' in refused(path)


def test_an_unknown_level_in_python() -> None:
    with pytest.raises(cal.UsageError, match="--level ratio: no such choice"):
        cal.agree(JUDGED, level="ratio")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "human,judge\n"])
def test_nothing_to_measure(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(text)
    result = run(path, "--raters", "human,judge")
    assert result.exit_code == 3
    assert f"empty: no records in {path}" in result.stderr

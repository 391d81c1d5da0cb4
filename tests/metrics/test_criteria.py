"""Each criterion of a rubric of one's own is a metric, with an interval, by the name of the rubric."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from calipers import score
from calipers.metrics import metric_named
from calipers.support.errors import UsageError
from tests.commands import run
from tests.files import write_lines

NAMES = ("clarity", "ton & Länge", "is (polite)")


def judged(count: int = 30) -> list[dict[str, Any]]:
    """Records of two judges; the second leaves one criterion out, and some fail."""
    found = []
    for n in range(count):
        first = {NAMES[0]: 1 + n % 5, NAMES[1]: 2.5, NAMES[2]: n % 3 > 0}
        second = {NAMES[0]: 1 + (n * 3) % 5, NAMES[1]: None}
        judges: list[dict[str, Any]] = [
            {"judge": "a", "scores": first},
            {"judge": "b", "scores": second},
        ]
        if n % 7 == 0:
            judges = [{"judge": "a", "scores": None, "failed": True}]
        found.append({"id": f"t{n}", "answer": "x", "judgments": judges})
    return found


def mean_plainly(records: list[dict[str, Any]], name: str) -> float:
    """The mean over records of the mean over judges, in plain Python."""
    rows = []
    for record in records:
        given = [(each["scores"] or {}).get(name) for each in record["judgments"]]
        known = [float(each) for each in given if each is not None]
        rows += [fmean(known)] if known else []
    return fmean(rows)


def test_each_criterion_is_measured_as_in_plain_python() -> None:
    records = judged()
    found = score(records).groups[0].metrics
    for name in NAMES:
        measured = found[f"judged({name})"]
        assert measured.value == pytest.approx(mean_plainly(records, name), rel=1e-12)
    clarity = found["judged(clarity)"]
    assert clarity.low is not None
    assert clarity.value is not None
    assert clarity.high is not None
    assert clarity.low < clarity.value < clarity.high


def test_a_criterion_can_be_named_by_itself(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "j.jsonl", judged())
    for name in ("clarity", "judged(clarity)", "is (polite)"):
        outcome = run("score", path, "--metric", name, "--format", "json")
        assert outcome.exit_code == 0, outcome.output
        [group] = json.loads(outcome.stdout)["groups"]
        [label] = group["metrics"]
        assert label == (name if name.startswith("judged") else f"judged({name})")
    wrong = run("score", path, "--metric", "clarty")
    assert wrong.exit_code == 2
    assert "no metric is called clarty" in wrong.output
    with pytest.raises(UsageError):
        metric_named("clarity")  # without records nobody knows it


def test_tables_have_them_too(tmp_path: Path) -> None:
    records = judged()
    as_text = [{**each, "judgments": json.dumps(each["judgments"])} for each in records]
    frame = pl.DataFrame(as_text)
    frame.write_parquet(tmp_path / "j.parquet")
    expected = mean_plainly(records, "clarity")
    for data in (frame, str(tmp_path / "j.parquet")):
        found = score(data, metrics=["clarity"]).groups[0].metrics
        assert found["judged(clarity)"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    "judgments",
    [
        [{"judge": "a", "scores": {"": 4, " x": 4, "a\nb": 4, "y" * 200: 4, "text": "good"}}],
        [{"judge": "a", "scores": [1, 2]}, {"judge": "b", "scores": 7}, {"judge": "c"}],
    ],
)
def test_what_is_no_criterion_is_no_metric(judgments: Any) -> None:
    records = [
        {"id": f"t{n}", "answer": "x", "target": "x", "judgments": judgments} for n in range(3)
    ]
    found = score(records).groups[0].metrics
    assert not [name for name in found if name.startswith("judged(")]

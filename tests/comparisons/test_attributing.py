"""Why a number moved: the model, the scorer, or the tasks."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given

import calipers as cal
from calipers.comparisons.compare_result import MetricComparison
from tests.commands import strict
from tests.comparisons.runs_at_hand import Record, answered, by_id, run, slowly, the_only, two_runs
from tests.conformance.reference import REFERENCES, Options
from tests.files import write_lines


def parts_sum(found: MetricComparison) -> None:
    parts = found.attribution
    assert parts is not None
    assert parts.total == parts.candidate - parts.base
    whole = parts.model + (parts.scorer or 0) + parts.tasks_removed + parts.tasks_added
    assert whole == pytest.approx(parts.total, abs=1e-12)


def test_a_new_scorer_shows_as_the_scorer() -> None:
    answers = {f"t{n}": "7" if n < 4 else "seven" for n in range(10)}
    base = answered(answers)
    candidate = [{**row, "correct": True} for row in answered(answers)]  # "seven" is 7 to it
    found = the_only(cal.compare(base, candidate, attribute=True))
    assert found.difference == pytest.approx(0.6)
    parts = found.attribution
    assert parts is not None
    assert (parts.base, parts.candidate) == (0.4, 1.0)
    assert (parts.model, parts.scorer) == pytest.approx((0.0, 0.6))
    assert (parts.tasks_removed, parts.tasks_added, parts.reason) == (0.0, 0.0, None)
    parts_sum(found)


def test_a_new_model_shows_as_the_model() -> None:
    base = answered({f"t{n}": "7" if n < 4 else "8" for n in range(10)})
    candidate = answered({f"t{n}": "7" if n < 9 else "8" for n in range(10)})
    parts = the_only(cal.compare(base, candidate, attribute=True)).attribution
    assert parts is not None
    assert (parts.model, parts.scorer) == pytest.approx((0.5, 0.0))


def test_tasks_removed_and_added() -> None:
    base = answered({**dict.fromkeys("abcd", "7"), "e": "8", "f": "8"})
    candidate = answered({**dict.fromkeys("abcd", "7"), "g": "8"})
    found = the_only(cal.compare(base, candidate, attribute=True))
    assert found.difference == 0.0, "over the pairs nothing changed"
    parts = found.attribution
    assert parts is not None
    assert parts.total == pytest.approx(4 / 5 - 4 / 6)
    assert (parts.tasks_removed, parts.tasks_added) == pytest.approx((1 - 4 / 6, 4 / 5 - 1))
    assert (parts.model, parts.scorer) == (0.0, 0.0)
    parts_sum(found)


def test_the_base_was_compared_as_text() -> None:
    base = answered({"a": "7", "b": "7.0", "c": "7.00", "d": "8"})
    candidate = answered({"a": "7", "b": "7.0", "c": "7.00", "d": "7"})
    found = the_only(cal.compare(base, candidate, attribute=True, base_normalize="text"))
    assert found.difference == 0.25, "both sides scored alike"
    parts = found.attribution
    assert parts is not None
    assert (parts.base, parts.candidate) == (0.25, 1.0)
    assert (parts.model, parts.scorer) == pytest.approx((0.25, 0.5))
    parts_sum(found)


def compared(base: list[dict[str, Any]], candidate: list[dict[str, Any]]) -> cal.Compared:
    return cal.compare(base, candidate, attribute=True, metrics=["accuracy"])


@pytest.mark.parametrize("field", ["answer", "target"])
def test_what_cannot_be_scored_anew(field: str) -> None:
    base = [{**row, "correct": row["id"] in "abc"} for row in answered(dict.fromkeys("abcd", "7"))]
    candidate = [{**row, "correct": True} for row in answered(dict.fromkeys("abcd", "7"))]
    if field == "target":
        del base[0]["target"]
        parts = the_only(compared(base, candidate)).attribution
        assert parts is not None
        assert (parts.model, parts.scorer) == (0.25, None)
        assert parts.reason is not None
        assert parts.reason.startswith("not every common task can be scored again")
    else:
        for row in (*base, *candidate):
            del row["answer"], row["target"]
        found = compared(base, candidate)
        parts = the_only(found).attribution
        assert parts is not None
        assert (parts.model, parts.scorer) == (0.25, None)
        assert "not every common task" in str(found)
        assert strict(found.to_json())["metrics"]["accuracy"]["attribution"]["scorer"] is None
    parts_sum(the_only(compared(base, candidate)))


@slowly
@given(sides=two_runs())
def test_the_parts_sum_to_the_whole(sides: tuple[list[Record], list[Record]]) -> None:
    for rows in sides:
        rows[0]["prob_correct"] = 0.5
    found = cal.compare(*sides, attribute=True, metrics=["accuracy", "brier", "usr"]).pairs[0]
    for name, metric in found.metrics.items():
        parts = metric.attribution
        assert parts is not None
        for rows, value in zip(sides, (parts.base, parts.candidate), strict=True):
            values = [REFERENCES[name](task, Options()).value for task in by_id(rows).values()]
            assert value == pytest.approx(fmean(value for value in values if value is not None))
        parts_sum(metric)


def test_attribution_in_every_output(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", answered({"a": "7", "b": "8"}))
    other = write_lines(tmp_path / "b.jsonl", answered({"a": "7", "b": "7", "c": "8"}))
    asked = (base, other, "--attribute", "--metric", "accuracy")
    assert "why it moved" in run(*asked).stdout
    assert "why it moved" in run(*asked, "--format", "markdown").stdout
    found = cal.compare(base, other, attribute=True, metrics=["accuracy"])
    assert "why it moved" in found._repr_html_()
    text = run(*asked, "--format", "csv").stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert float(row["attribution_model"]) == 0.5
    assert float(row["attribution_tasks_added"]) == pytest.approx(2 / 3 - 1)
    told = strict(run(*asked, "--format", "json").stdout)
    assert told["metrics"]["accuracy"]["attribution"]["total"] == pytest.approx(2 / 3 - 1 / 2)


def test_rows_that_can_be_read_once_are_kept() -> None:
    rows = answered({"a": "7", "b": "8"})
    found = the_only(cal.compare(iter(rows), iter(rows), attribute=True))
    assert found.attribution is not None

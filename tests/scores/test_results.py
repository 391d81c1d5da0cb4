"""What a score can be turned into."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest

import calipers as cal
from tests.files import write_lines
from tests.scores.scored_records import FROM_THEIR_FIELDS, RECORDS


def test_a_score_is_a_table_a_frame_and_a_page() -> None:
    score = cal.score(RECORDS, by="model")
    frame = score.to_polars()
    assert frame.columns == [
        "model",
        "metric",
        "value",
        "low",
        "high",
        "stderr",
        "interval",
        "n",
        "missing",
        "reason",
    ]
    assert frame.height == 2 * len(FROM_THEIR_FIELDS)
    row = frame.row(
        by_predicate=(pl.col("model") == "m1") & (pl.col("metric") == "brier"), named=True
    )
    assert (row["value"], row["n"], row["missing"]) == (0.0, 1, 2)
    page = score._repr_html_()
    assert '>m0</th><th scope="col" class="number">m1</th>' in page
    assert ">33 % <small>[0, 99]</small><" in page
    assert "accuracy" in str(score)
    assert "33 % [0, 99]" in str(score)


def test_a_measured_null_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="a null needs a reason"):
        cal.Measured(value=None, n=0, missing=1)
    with pytest.raises(ValueError, match="only a null has one"):
        cal.Measured(value=1.0, n=1, missing=0, reason="none")


def test_results_are_frozen() -> None:
    score = cal.score(RECORDS)
    with pytest.raises(AttributeError):
        score.seed = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        score.groups[0].metrics["accuracy"].value = 1.0  # type: ignore[misc]


def test_records_that_no_metric_can_use_are_told_so() -> None:
    with pytest.raises(cal.DataError, match="among id, output, gold") as refused:
        cal.score([{"id": "1", "output": "4", "gold": "4"}])
    assert "--map answer=output --map target=gold" in refused.value.fix
    failed = cal.score([{"id": "1", "error": "timeout: 60 s"}])
    assert failed.notices == ()


def test_a_model_that_never_answers_is_wrong_each_time(tmp_path: Path) -> None:
    asked = [{"id": "1", "target": "4", "answer": None}, {"id": "2", "target": "5", "answer": None}]
    for data in (asked, write_lines(tmp_path / "a.jsonl", asked), pl.DataFrame(asked)):
        metrics = cal.score(data).groups[0].metrics
        assert (metrics["accuracy"].value, metrics["accuracy"].n) == (0.0, 2)
        assert metrics["accuracy"].extras["unanswered"] == 2
        assert metrics["sce"].value is None
    tasks = [{"id": "1", "target": "4", "passed": True}]  # nobody was asked for an answer
    assert "accuracy" not in cal.score(tasks).groups[0].metrics


def test_a_subclass_prints_as_its_class_does() -> None:
    class Annotated(cal.Score):
        """A result of a user's own."""

    score = cal.score([{"answer": "4", "target": "4"}])
    own = Annotated(**{field.name: getattr(score, field.name) for field in fields(score)})
    assert str(own) == str(score)
    assert own.to_markdown() == score.to_markdown()

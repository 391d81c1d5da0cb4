"""Of small files only the metrics are planned whose fields are there: with the same result."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import calipers as cal
from calipers.records.limits import limit_reading
from calipers.records.readers import lines
from calipers.records.readers.lines import JsonLines
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.score import make_plan
from tests.conformance.strategies import data_sets
from tests.examples import examples
from tests.files import write_lines
from tests.scores.scored_records import RECORDS

TRACED = {"answer": "a", "tool_calls": [{"name": "search"}], "judgments": [{"passed": True}]}
TIMED = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:02Z"}


def score_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[str]:
    """Return the score as a small file's, and as if it were not small; or what is wrong."""
    quick = score_or_refuse(path, **options)
    with monkeypatch.context() as patched:
        patched.setattr(lines, "_QUICKLY_READ", -1)
        return [quick, score_or_refuse(path, **options)]


def score_or_refuse(path: Path, **options: Any) -> str:
    try:
        return cal.score(path, **options).to_json()
    except cal.DataError as error:
        return str(error)


@pytest.mark.parametrize(
    "records",
    [
        RECORDS,
        [{"id": "a", "answer": "1", "target": "1"}, {"id": "b", "answer": "2", "target": "1"}],
        [{"model": "m", "latency_ms": 4}, {"model": "n", "output": "x"}],
        [TRACED, {"answer": None}],
        [TIMED],
        [{"unknown": 1}],
        [{"prob_correct": 1.5}],  # alone it measures nothing, and still is wrong
        [{"scores": {"quality": 0.5}, "prob_correct": {"p_true": 0.5}, "correct": True}],
        *([{name: value}] for record in RECORDS for name, value in record.items()),
    ],
)
def test_the_score_is_the_same(
    records: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "r.jsonl", records)
    quick, thorough = score_both_ways(path, monkeypatch)
    assert quick == thorough


@given(groups=data_sets(groups=2, rows=5))
@examples(60)
def test_the_score_of_any_records_is_the_same(
    groups: list[list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_lines(tmp_path_factory.mktemp("any") / "r.jsonl", chain.from_iterable(groups))
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, thorough = score_both_ways(path, monkeypatch)
    assert quick == thorough


def test_fewer_metrics_are_planned(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [{"id": "a", "answer": "1", "target": "1"}])
    few = make_plan(open_sources(path), Options())
    every = make_plan(open_sources([{"id": "a", "answer": "1", "target": "1"}]), Options())
    assert "accuracy" in {each.name for each in few.metrics}
    assert len(few.features) < 0.4 * len(every.features)


def test_later_rows_and_bad_ones_are_looked_at(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": str(at), "answer": "1"} for at in range(300)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    assert JsonLines(path).shows_all_columns
    with_more = write_lines(tmp_path / "more.jsonl", [*rows, {"id": "x", "latency_ms": 4}])
    assert not JsonLines(with_more).shows_all_columns
    assert cal.score(with_more)["latency_p50_ms"].value == 4
    path.write_text(path.read_text() + "{no JSON\n")
    assert not JsonLines(path).shows_all_columns


def test_a_mapped_field_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [{"answer": "1"}])
    with pytest.raises(cal.UsageError, match="--map latency_ms=nothing: no record has a value"):
        cal.score(path, map={"latency_ms": "nothing"})


@pytest.mark.parametrize("where", [3, 60, 99])
def test_a_field_behind_the_first_block_is_measured(
    where: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block ends long before as many rows are seen as tell the columns."""
    rows = [{"id": str(n), "answer": "x" * 500, "target": "x"} for n in range(100)]
    rows[where]["latency_ms"] = 4  # type: ignore[assignment]
    path = write_lines(tmp_path / "r.jsonl", rows)
    with limit_reading(max_record_mb=0.01):
        quick, thorough = score_both_ways(path, monkeypatch)
    assert quick == thorough
    assert '"latency_p50_ms"' in quick


def test_a_bad_row_behind_the_first_block_is_seen(tmp_path: Path) -> None:
    rows = "".join(f'{{"id": "{n}", "answer": "{"x" * 500}"}}\n' for n in range(100))
    path = tmp_path / "r.jsonl"
    path.write_text(f"{rows}no JSON\n", encoding="utf-8")
    with limit_reading(max_record_mb=0.01):
        assert not JsonLines(path).shows_all_columns

"""Reading: a table's columns say beforehand which metrics no row can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers
from calipers.engines.read_rows import list_possible
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.score import make_plan

ROWS: list[dict[str, Any]] = [
    {
        "id": f"q{number % 7}",
        "system": "ab"[number % 2],
        "gold": "1",
        "answer": str(number % 3),
        "start_time": 10.0,
        "end_time": 10.0 + number,
        "meta": {"sure": number / 20},
    }
    for number in range(20)
]
MAP = {"target": "gold", "model": "system", "prob_correct": "meta.sure"}


def test_fields_that_a_table_may_have_are_those_of_its_columns() -> None:
    sources = open_sources(pl.DataFrame(ROWS))
    options = Options(map=MAP, by=("model",))
    plan = make_plan(sources, options)
    possible = list_possible(sources, plan.list_wanted(MAP), plan)
    assert possible is not None
    derived = {"duration_seconds"}
    assert possible >= {"id", "model", "target", "answer", "prob_correct"} | derived
    assert possible.isdisjoint({"latency_ms", "cot", "passed", "correct"})


def test_nobody_can_say_it_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    pl.DataFrame(ROWS).write_ndjson(path)
    sources = [*open_sources(path), *open_sources(pl.DataFrame(ROWS))]
    plan = make_plan(sources, Options())
    assert list_possible(sources, plan.list_wanted({}), plan) is None


@pytest.mark.parametrize("per_task", [True, False])
def test_a_table_has_the_score_of_its_rows(tmp_path: Path, *, per_task: bool) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame(ROWS).write_parquet(path)
    options: dict[str, Any] = {"map": MAP, "by": "model"}
    if per_task:
        options["per_task"] = tmp_path / "tasks.parquet"
    of_table, of_rows = calipers.score(path, **options), calipers.score(ROWS, **options)
    assert [group.metrics for group in of_table.groups] == [
        group.metrics for group in of_rows.groups
    ]
    assert of_table.notices == of_rows.notices

"""The tasks that flipped: right in one run and wrong in the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import TASK, Feature
from calipers.scores.tasks import TaskRows
from calipers.support.errors import UsageError, make_write_error

LOST, WON = "base right, candidate wrong", "base wrong, candidate right"
_OCCURRENCE = "_occurrence"
_RUN = "_run"


def write_flips(base: TaskRows, candidate: TaskRows, path: Path | None) -> Mapping[str, int]:
    """Return how many rows flipped in the first binary metric; write them to a file if named.

    Rows are paired by id, and by run where both sides have runs; else in their order.
    """
    feature = _find_binary(base, candidate)
    if feature is None:
        if path is not None:
            raise UsageError("--flips needs a metric of right or wrong", fix="--metric accuracy")
        return {}
    sides = [_select_known(side.rows, feature) for side in (base, candidate)]
    by_run = all(side[_RUN].null_count() == 0 for side in sides)
    keys = (TASK, _RUN) if by_run else (TASK,)
    # A run may be there twice, of two models say: the first is paired with the first.
    ours, theirs = (
        side.with_columns(pl.int_range(pl.len()).over(keys).alias(_OCCURRENCE)) for side in sides
    )
    both = (
        ours.join(theirs, on=[*keys, _OCCURRENCE], suffix="_candidate")
        .filter(pl.col(feature) != pl.col(f"{feature}_candidate"))
        .sort("id", *keys, _OCCURRENCE)
    )
    lost = int(both[feature].sum())
    if path is not None:
        _write(both, feature, path)
    return {"lost": lost, "won": both.height - lost}


def _find_binary(*sides: TaskRows) -> str | None:
    """Return the first binary feature of which one value is better, or None."""
    for metric in sides[0].plan.metrics:
        averaged = metric.averaged
        yes_or_no = isinstance(averaged, Feature) and averaged.dtype == pl.Boolean
        if yes_or_no and metric.better and all(side.has_fields(metric) for side in sides):
            assert isinstance(averaged, Feature)
            return averaged.name
    return None


def _select_known(rows: pl.DataFrame, feature: str) -> pl.DataFrame:
    known = rows.filter(pl.col(feature).is_not_null())
    run = pl.col("run").cast(pl.String).str.replace(r"\.0$", "")  # 1.0 is the "1" of a CSV
    return known.select(TASK, "id", feature, "run", run.alias(_RUN), "target", "answer")


def _format_run(run: Any) -> Any:
    """Return a run's number as it was written."""
    return int(run) if isinstance(run, float) and run.is_integer() else run


def _write(both: pl.DataFrame, feature: str, path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in both.iter_rows(named=True):
                line = {
                    "id": row["id"],
                    "run": _format_run(row["run"]),
                    "flip": LOST if row[feature] else WON,
                    "target": row["target"],
                    "base": row["answer"],
                    "candidate": row["answer_candidate"],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise make_write_error(path, error) from error

"""The tasks that flipped: right in one run and wrong in the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import TASK, Feature
from calipers.scores.tasks import TaskRows
from calipers.support.errors import UsageError, make_write_error

LOST, WON = "base right, candidate wrong", "base wrong, candidate right"
_OCCURRENCE = "_occurrence"
_RUN = "_run"


def find_flips(base: TaskRows, candidate: TaskRows) -> pl.DataFrame | None:
    """Return the rows that flipped in the first binary metric; None if there is none.

    Rows are paired by id, and by run where both sides have runs; else in their order. Columns are
    `id`, `run`, whether the candidate `lost` it, `target`, and the answers of both sides.
    """
    feature = _find_binary(base, candidate)
    if feature is None:
        return None
    sides = [_select_known(side.rows, feature) for side in (base, candidate)]
    by_run = all(side[_RUN].null_count() == 0 for side in sides)
    keys: tuple[str, ...] = (TASK, _RUN) if by_run else (TASK,)
    if not (base.is_one_per_task and candidate.is_one_per_task):
        # A run may occur twice, as of two models: the first is paired with the first.
        occurrence = pl.int_range(pl.len()).over(keys).alias(_OCCURRENCE)
        sides = [side.with_columns(occurrence) for side in sides]
        keys = (*keys, _OCCURRENCE)
    ours, theirs = sides
    return (
        ours.join(theirs, on=keys, suffix="_candidate")
        .filter(pl.col(feature) != pl.col(f"{feature}_candidate"))
        .sort("id", *keys)
        .select(
            "id",
            "run",
            pl.col(feature).alias("lost"),
            "target",
            pl.col("answer").alias("base"),
            pl.col("answer_candidate").alias("candidate"),
        )
    )


def write_flips(flips: pl.DataFrame | None, path: Path) -> None:
    """Write the rows that flipped to a file, a line each."""
    if flips is None:
        raise UsageError("--flips needs a metric of right or wrong", fix="--metric accuracy")
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in flips.iter_rows(named=True):
                line = {
                    "id": row["id"],
                    "run": format_run(row["run"]),
                    "flip": LOST if row["lost"] else WON,
                    "target": row["target"],
                    "base": row["base"],
                    "candidate": row["candidate"],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise make_write_error(path, error) from error


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
    known = rows.select(TASK, "id", feature, "run", "target", "answer").drop_nulls(feature)
    run = pl.col("run").cast(pl.String).str.replace(r"\.0$", "")  # 1.0 is the "1" of a CSV
    return known.with_columns(run.alias(_RUN))


def format_run(run: Any) -> Any:
    """Return a run's number as it was written."""
    return int(run) if isinstance(run, float) and run.is_integer() else run

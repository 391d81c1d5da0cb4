"""The tasks that flipped: right in one run and wrong in the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from calipers.errors import UsageError
from calipers.metrics.declaration import TASK, Feature
from calipers.tasks import TaskRows

LOST, WON = "base right, candidate wrong", "base wrong, candidate right"
_OCCURRENCE = "_occurrence"


def write_flips(base: TaskRows, candidate: TaskRows, path: Path | None) -> Mapping[str, int]:
    """How many rows flipped, in the first yes-or-no metric; written to a file if one is named.

    Rows are paired by id, and by run where both sides have runs; else in their order.
    """
    feature = _yes_or_no(base)
    if feature is None:
        if path is not None:
            raise UsageError("--flips needs a metric of right or wrong", fix="--metric accuracy")
        return {}
    sides = [_keyed(side.rows, feature) for side in (base, candidate)]
    by_run = all(side["run"].null_count() == 0 for side in sides)
    keys = [TASK, "run"] if by_run else [TASK, _OCCURRENCE]
    both = (
        sides[0]
        .join(sides[1], on=keys, suffix="_candidate")
        .filter(pl.col(feature) != pl.col(f"{feature}_candidate"))
    )
    both = both.sort("id", *keys[1:])
    lost = int(both[feature].sum())
    if path is not None:
        _write(both, feature, path)
    return {"lost": lost, "won": both.height - lost}


def _yes_or_no(side: TaskRows) -> str | None:
    for metric in side.plan.metrics:
        averaged = metric.averaged
        if isinstance(averaged, Feature) and averaged.dtype == pl.Boolean:
            return averaged.name if side.measures(metric) else None
    return None


def _keyed(rows: pl.DataFrame, feature: str) -> pl.DataFrame:
    occurrence = pl.int_range(pl.len()).over(TASK).alias(_OCCURRENCE)
    known = rows.filter(pl.col(feature).is_not_null()).with_columns(occurrence)
    fields = [name for name in ("run", "target", "answer") if name in rows.columns]
    return known.select(TASK, "id", _OCCURRENCE, feature, pl.col(fields).cast(pl.String))


def _write(both: pl.DataFrame, feature: str, path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in both.iter_rows(named=True):
                line = {
                    "id": row["id"],
                    "run": row.get("run"),
                    "flip": LOST if row[feature] else WON,
                    "target": row.get("target"),
                    "base": row.get("answer"),
                    "candidate": row.get("answer_candidate"),
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", fix="check the folder and its rights"
        ) from error

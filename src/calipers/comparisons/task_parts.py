"""A ranking broken down: each system's value on the tasks of a category, or on each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calipers.comparisons.options.rank import AUTO
from calipers.comparisons.ranked_estimates import estimate_mean
from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.rankings import TaskPart
from calipers.comparisons.task_matrix import CommonTasks, TaskMatrix
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK
from calipers.records.sources import Source
from calipers.scores.keys import split_natural
from calipers.scores.options import Options
from calipers.statistics.arrays import Floats
from calipers.support.errors import UsageError, nearest

MOST_PARTS = 40  # columns of a table that can still be read
_CATEGORY, _ID = "category", "id"
_PART = "_part"
_NONE = "(none)"


def choose_field(sources: Sequence[Source], *, asked: str | bool) -> tuple[str, ...]:
    """Return the field to break tasks down by, if that was asked for: category, else the id."""
    if isinstance(asked, str) and asked != AUTO:
        return (asked,)
    if not asked:
        return ()
    columns = {name for source in sources for name in source.columns()}
    return (_CATEGORY if _CATEGORY in columns else _ID,)


def break_down(
    systems: Systems,
    matrix: TaskMatrix,
    common: CommonTasks,
    metric: Metric,
    field: str,
    options: Options,
) -> tuple[list[dict[str, TaskPart]], list[str]]:
    """Return each system's value by the field's values, and what to say of those left out.

    Raises:
        UsageError: No record has the field.
    """
    labels = _label_tasks(systems, common, field)
    parts = sorted(set(labels), key=split_natural)
    notices = []
    if len(parts) > MOST_PARTS:
        notices.append(
            f"--tasks {field}: the {MOST_PARTS} of {len(parts):,} that tell the systems apart most"
        )
        means = {each: matrix.values[:, labels == each].mean(axis=1) for each in parts}
        kept = sorted(parts, key=lambda each: -means[each].var())[:MOST_PARTS]
        parts = sorted(kept, key=split_natural)
    found = [
        {each: _measure_part(row[labels == each], metric, options) for each in parts}
        for row in matrix.values
    ]
    return found, notices


def _label_tasks(systems: Systems, common: CommonTasks, field: str) -> NDArray[np.str_]:
    rows = systems.rows.rows
    if rows[field].is_null().all():
        raise UsageError(
            f"--tasks {field}: no record has a value in {field}",
            fix=f"{nearest(field, rows.columns)}; files are named before --tasks",
        )
    known = rows.group_by(TASK).agg(
        pl.col(field).drop_nulls().sort().first().cast(pl.String).alias(_PART)
    )
    joined = common.tasks.join(known, on=TASK, how="left", maintain_order="left")
    return joined[_PART].fill_null(_NONE).to_numpy().astype(np.str_)


def _measure_part(values: Floats, metric: Metric, options: Options) -> TaskPart:
    found = estimate_mean(values, metric, options.confidence)
    return TaskPart(**asdict(found), n_tasks=values.size)

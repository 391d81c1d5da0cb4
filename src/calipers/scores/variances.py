"""The sources of an interval's width: tasks, the runs of each, and the judges of a run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import variance
from typing import Any

import numpy as np
import polars as pl

from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK, Feature
from calipers.metrics.judged.who import IMPL_RATE, PASSED, list_judged_parts
from calipers.records.judgment_shape import read_list, read_score, read_vote
from calipers.statistics.power import Components, estimate_spread, split_variance
from calipers.support.errors import DataError

JUDGMENTS = "judgments"
_TWO = 2


def is_judged(metric: Metric) -> bool:
    """Say whether a metric may be based on judges' votes or scores."""
    return not {PASSED, IMPL_RATE}.isdisjoint(list_judged_parts(metric))


def judge_noise(metric: Metric, judgments: pl.Series) -> list[float]:
    """Return, of each record with two judgments or more, the variance that they leave in its value.

    The variance among a record's judges, divided by their number.
    """
    value_of = read_vote if PASSED in list_judged_parts(metric) else read_score
    found = []
    for row in judgments.is_not_null().arg_true():
        values = [value_of(each) for each in read_list(judgments[row])]
        known = [float(each) for each in values if each is not None]
        if len(known) >= _TWO:
            found.append(variance(known) / len(known))
    return found


def split_by_source(
    metric: Metric, rows: pl.DataFrame, noise: Sequence[float]
) -> Components | None:
    """Return the parts of the variance of a mean over rows; None if they cannot be told apart."""
    if not isinstance(metric.averaged, Feature):
        return None
    known: Any = rows.select(TASK, pl.col(metric.averaged.name).cast(pl.Float64)).drop_nulls()
    try:
        spread = estimate_spread(known[metric.averaged.name].to_numpy(), known[TASK].to_numpy())
    except DataError:  # a single task
        return None
    share = float(np.mean(1 / known[TASK].unique_counts().to_numpy()))
    return split_variance(spread, share, float(np.mean(noise)) if noise else None)

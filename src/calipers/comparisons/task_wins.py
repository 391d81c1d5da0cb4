"""Wins on common tasks: on each task, every system meets every other one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from calipers.comparisons.normal_estimates import estimate_values
from calipers.comparisons.rankings import Strength
from calipers.comparisons.task_matrix import TaskMatrix
from calipers.scores.options import Options
from calipers.statistics.bradley_terry import Comparisons, Strengths, fit_strengths

_ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie


def strengths_of_wins(
    matrix: TaskMatrix, names: Sequence[str], options: Options, *, higher_is_better: bool
) -> dict[str, Strength]:
    """Return the strength of each system by its wins, by name; equal values are a tie."""
    systems, tasks = matrix.values.shape
    first, second = np.triu_indices(systems, 1)
    ours, theirs = matrix.values[first], matrix.values[second]
    apart = ours - theirs
    size = np.maximum(np.abs(ours), np.abs(theirs))
    won = np.sign(np.where(np.abs(apart) > _ROUNDING * size, apart, 0.0))
    result = (1 + (won if higher_is_better else -won)) / 2
    clusters = np.arange(tasks) if matrix.clusters is None else matrix.clusters
    met = Comparisons(
        first=np.repeat(first, tasks),
        second=np.repeat(second, tasks),
        result=result.ravel(),
        clusters=np.tile(clusters, first.size),
    )
    return dict(zip(names, estimate_strengths(fit_strengths(met, systems), options), strict=True))


def estimate_strengths(found: Strengths, options: Options) -> list[Strength]:
    """Return each strength with an interval that holds for all at once, and how often it won."""
    values = estimate_values(found.values, found.covariance, found.clusters, options)
    return [
        Strength(**asdict(each), win_rate=rate)
        for each, rate in zip(values, found.win_rates.tolist(), strict=True)
    ]

"""Systems ranked by a metric without a value per task, an entropy say: tasks are resampled."""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.comparisons.normal_estimates import compare_values, estimate_values
from calipers.comparisons.ranked_estimates import Estimates
from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.resampled import RESAMPLED_CELLS, RESAMPLES, code_units
from calipers.comparisons.sides import resamples
from calipers.comparisons.task_matrix import CommonTasks, find_common
from calipers.engines.resampling import CODE, WeightedValues
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.scores.options import Options
from calipers.scores.tasks import select_counted
from calipers.statistics.bootstrap import weights
from calipers.support.errors import UsageError

_TEST = "t on a paired bootstrap"
_FEWEST = 2


def resample_systems(
    systems: Systems, metric: Metric, options: Options
) -> tuple[Estimates, CommonTasks]:
    """Return each system's value on the common tasks; all are drawn from the same resamples."""
    counted = select_counted(systems.rows, metric)
    common = find_common(systems, metric, counted.select(GROUP, TASK))
    codes = code_units(common.tasks, (systems.rows,) if options.cluster else ())
    units = codes[CODE].n_unique()
    rows = counted.join(codes, on=TASK, maintain_order="left")
    under_weights = [
        WeightedValues(
            rows.filter(pl.col(GROUP) == text).select(*systems.rows.plan.schema, CODE),
            [metric],
            units,
        )
        for text in common.systems
    ]
    observed = np.array([each(np.ones((1, units)))[metric.name][0] for each in under_weights])
    names = [systems.names[text] for text in common.systems]
    for name, value in zip(names, observed, strict=True):
        if not np.isfinite(value):
            raise UsageError(
                f"{metric.name}: {name} has no value on the common tasks ({metric.empty})",
                fix="rank by another metric: --metric NAME",
            )
    wanted = resamples(options, units, RESAMPLES, RESAMPLED_CELLS)
    drawn = np.concatenate(
        [
            np.stack([each(block)[metric.name] for each in under_weights], axis=1)
            for block in weights(units, wanted, (options.seed, 0))
        ]
    )
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    covariance = np.zeros((len(names), len(names)))
    if units >= _FEWEST and len(drawn) >= _FEWEST:
        covariance = np.cov(drawn, rowvar=False)
    return Estimates(
        values=estimate_values(observed, covariance, units, options, ends=metric.range),
        pairs=compare_values(observed, covariance, units, options, names=names, test=_TEST),
        interval="bootstrap",
        n_tasks=common.tasks.height,
    ), common

"""Systems ranked by a metric without a value per task, such as an entropy: tasks are resampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from calipers.comparisons.linearised import MANY, find_effects
from calipers.comparisons.normal_estimates import compare_values, estimate_values
from calipers.comparisons.ranked_estimates import Estimates
from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.resampled import (
    RESAMPLED_CELLS,
    RESAMPLES,
    add_codes,
    number_units,
    put_in_parcels,
)
from calipers.comparisons.sides import count_resamples
from calipers.comparisons.task_matrix import CommonTasks, find_common
from calipers.engines.weighted_values import CODE, WeightedValues
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.scores.options import Options
from calipers.scores.tasks import select_counted
from calipers.statistics.arrays import Floats
from calipers.statistics.bootstrap import draw_weights, explain_too_few
from calipers.support.errors import UsageError

_TEST = "t on a paired bootstrap"


def resample_systems(
    systems: Systems, metric: Metric, options: Options
) -> tuple[Estimates, CommonTasks]:
    """Return each system's value on the common tasks; all are drawn from the same resamples."""
    counted = select_counted(systems.rows, metric)
    common = find_common(systems, metric, counted.select(GROUP, TASK).unique(maintain_order=True))
    codes = number_units(common.tasks, (systems.rows,) if options.cluster else ())
    units = codes[CODE].n_unique()
    coded = add_codes(counted, codes)
    rows = [coded.filter(pl.col(GROUP) == text) for text in common.systems]
    values = [WeightedValues(each, [metric], units) for each in rows]
    observed = np.array([each(np.ones((1, units)))[metric.name][0] for each in values])
    names = [systems.names[text] for text in common.systems]
    for name, value in zip(names, observed, strict=True):
        if not np.isfinite(value):
            raise UsageError(
                f"{metric.name}: {name} has no value on the common tasks ({metric.empty})",
                fix="rank by another metric: --metric NAME",
            )
    covariance = _linearize_covariance(rows, values)
    if covariance is None:
        covariance = _resample_covariance(rows, metric, units, options)
    return Estimates(
        values=estimate_values(observed, covariance, units, options, ends=metric.range),
        pairs=compare_values(observed, covariance, units, options, names=names, test=_TEST),
        interval="bootstrap",
        n_tasks=common.tasks.height,
    ), common


def _linearize_covariance(
    rows: Sequence[pl.DataFrame], values: Sequence[WeightedValues]
) -> Floats | None:
    """Return the covariance from the linearised effects of many tasks, or None if unknown."""
    effects = [find_effects(*each) for each in zip(rows, values, strict=True)]
    known = [each for each in effects if each is not None and not explain_too_few(each)]
    if len(known) < len(effects):
        return None
    found: Floats = values[0].clusters * np.cov(np.stack(known))
    return found


def _resample_covariance(
    rows: Sequence[pl.DataFrame], metric: Metric, units: int, options: Options
) -> Floats:
    """Return the covariance of the values in resamples of the tasks, or of parcels of many."""
    nothing = np.zeros((len(rows), len(rows)))
    if units <= 1:
        return nothing
    units = min(units, MANY)
    values = [WeightedValues(put_in_parcels(each), [metric], units) for each in rows]
    wanted = count_resamples(options, units, RESAMPLES, RESAMPLED_CELLS)
    blocks = draw_weights(units, wanted, (options.seed, 0))
    drawn = np.concatenate(
        [np.stack([each(block)[metric.name] for each in values], axis=1) for block in blocks]
    )
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    return np.cov(drawn, rowvar=False) if len(drawn) > 1 else nothing

"""Comparison of metrics without a value per task, such as an entropy: tasks are resampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from calipers.comparisons.linearised import MANY, find_effects, linearize
from calipers.comparisons.results import MetricComparison
from calipers.comparisons.sides import (
    NO_PAIR,
    TOO_LARGE,
    count_resamples,
    explain_missing,
    list_clusters,
    make_null,
)
from calipers.engines.weighted_values import CODE, WeightedValues
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK
from calipers.scores.options import Options
from calipers.scores.tasks import TaskRows, select_counted
from calipers.statistics.arrays import Floats
from calipers.statistics.bootstrap import draw_weights
from calipers.statistics.intervals import t_quantile

RESAMPLES = 2_000
RESAMPLED_CELLS = 10_000_000  # resamples × tasks: bounds the time
_ROUNDING = 1e-12
_INFINITE = "the value of a side is infinite: it divides by zero"


def compare_resampled(
    base: TaskRows, candidate: TaskRows, metric: Metric, common: pl.DataFrame, options: Options
) -> MetricComparison:
    """Return the difference over common tasks, with a bootstrap interval and a permutation test."""
    counts = [select_counted(_narrow(side, metric), metric) for side in (base, candidate)]
    for rows in counts:
        common = common.filter(common[TASK].is_in(rows[TASK].implode()))
    if not common.height:
        return make_null(explain_missing(base, candidate, metric) or NO_PAIR, n_pairs=0)
    codes = number_units(common.sort(TASK), (base, candidate) if options.cluster else ())
    ours, theirs = (add_codes(rows, codes) for rows in counts)
    units = codes[CODE].n_unique()
    values = [WeightedValues(rows, [metric], units) for rows in (ours, theirs)]
    before, after = (float(each(np.ones((1, units)))[metric.name][0]) for each in values)
    if not np.isfinite(after - before):
        reason = metric.empty if np.isnan(after - before) else _INFINITE
        return make_null(reason, n_pairs=common.height)
    rounding = _ROUNDING * max(abs(before), abs(after))
    difference = 0.0 if abs(after - before) <= rounding else after - before
    found = MetricComparison(
        base=before,
        candidate=after,
        difference=difference,
        n_pairs=common.height,
        reason="a single value or cluster does not show how much others vary",
    )
    if units <= 1:
        return found
    if units >= MANY and not options.resamples:
        effects = [find_effects(*each) for each in zip((ours, theirs), values, strict=True)]
        if (quick := linearize(found, effects, options.confidence)) is not None:
            return quick
    sides = put_in_parcels(ours), put_in_parcels(theirs)
    units = min(units, MANY)
    drawn, swapped = _resample_changes(*sides, metric, units, options, rounding)
    return _bootstrap(found, drawn, swapped, t_quantile(units, options.confidence), rounding)


def _narrow(side: TaskRows, metric: Metric) -> TaskRows:
    """Return the rows with only the columns that the metric reads, since they are copied often."""
    own = {feature.name for feature in metric.features}
    others = {feature.name for feature in side.plan.features} - own
    kept = [name for name in side.plan.schema if name not in others]
    return replace(side, rows=side.rows.select(kept))


def _bootstrap(
    found: MetricComparison, drawn: Floats, swapped: Floats, quantile: float, rounding: float
) -> MetricComparison:
    """Return the comparison with the interval and the test that the changes in resamples give."""
    difference = found.difference
    assert difference is not None
    if drawn.size <= 1 or np.ptp(drawn) <= rounding:
        return replace(found, reason="no resample differs")
    with np.errstate(over="ignore", invalid="ignore"):
        stderr = float(drawn.std(ddof=1))
    if not np.isfinite(stderr):
        return replace(found, reason=TOO_LARGE)
    # Not BCa: a sum of absolute gaps, as in ece, grows in every resample. BCa covered a known
    # difference in 87 to 91 of 100 simulations, this interval in 90 to 98.
    reach = quantile * stderr
    as_far = np.sum(np.abs(swapped) >= abs(difference) - rounding)
    return replace(
        found,
        low=difference - reach,
        high=difference + reach,
        stderr=stderr,
        interval="paired bootstrap",
        p_value=float((as_far + 1) / (swapped.size + 1)),
        test="permutation of sides per task",
        reason=None,
    )


def number_units(common: pl.DataFrame, clustered: Sequence[TaskRows]) -> pl.DataFrame:
    """Return each task with the number of its unit: its own, or that of its cluster."""
    if not clustered:
        return common.with_row_index(CODE).with_columns(pl.col(CODE).cast(pl.Int64))
    numbers = np.unique(list_clusters(common, *clustered), return_inverse=True)[1]
    return common.with_columns(pl.Series(CODE, numbers).cast(pl.Int64))


def add_codes(rows: pl.DataFrame, codes: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of tasks that have a code, with it; a search is quicker than a join."""
    known, own = codes[TASK].to_numpy(), rows[TASK].to_numpy()
    place = np.minimum(np.searchsorted(known, own), known.size - 1)
    coded = rows.with_columns(pl.Series(CODE, codes[CODE].to_numpy()[place]))
    among = known[place] == own
    return coded if among.all() else coded.filter(among)


def put_in_parcels(rows: pl.DataFrame) -> pl.DataFrame:
    """Group many units into `MANY` parcels to resample; units are assigned by hash, at random."""
    return rows.with_columns(pl.col(CODE) % MANY)


def _resample_changes(
    base: pl.DataFrame,
    candidate: pl.DataFrame,
    metric: Metric,
    units: int,
    options: Options,
    rounding: float,
) -> tuple[Floats, Floats]:
    """Return the change in each resample of the units, and with sides swapped at random.

    Both sides' rows carry the `CODE` of their unit, a task or a cluster of them.
    """
    both = pl.concat([base, candidate.with_columns(pl.col(CODE) + units)])
    of_base, of_candidate = (WeightedValues(rows, [metric], units) for rows in (base, candidate))
    of_either = WeightedValues(both, [metric], 2 * units)  # the base's units, then the candidate's

    def change(towards: Mapping[str, Floats], away: Mapping[str, Floats]) -> Floats:
        moved = towards[metric.name] - away[metric.name]
        return np.where(np.abs(moved) <= rounding, 0.0, moved)

    drawn, swapped = [], []
    wanted = count_resamples(options, units, RESAMPLES, RESAMPLED_CELLS)
    for number, block in enumerate(draw_weights(units, wanted, (options.seed, 0))):
        drawn.append(change(of_candidate(block), of_base(block)))
        chance = np.random.default_rng([options.seed, 1, number])
        swap = chance.integers(0, 2, size=(units, len(block))).astype(np.float64)
        # Transposed, as products with the weights want them.
        either = (np.vstack(each).T for each in ((swap, 1 - swap), (1 - swap, swap)))
        swapped.append(change(*map(of_either, either)))
    of_drawn, of_swapped = map(np.concatenate, (drawn, swapped))
    return of_drawn[np.isfinite(of_drawn)], of_swapped[np.isfinite(of_swapped)]

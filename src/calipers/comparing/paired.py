"""Two runs of the same tasks: each metric's difference over the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calipers.comparing.resampled import resampled
from calipers.comparing.sides import (
    NO_PAIR,
    TOO_LARGE,
    clusters_of,
    is_binary,
    lacking,
    nothing,
    resamples,
    too_large,
)
from calipers.comparing.weighing import PairedTasks, joined
from calipers.comparisons import MetricComparison, Pair, Weights
from calipers.metrics import Metric
from calipers.metrics.declaration import TASK, Feature
from calipers.metrics.intervals import Wilson
from calipers.scoring import Options
from calipers.stats.paired import Comparison, paired
from calipers.stats.power import Spread, detectable
from calipers.tasks import TaskRows, per_task

SIGN_FLIPS = 10_000
_FLIPPED_CELLS = 1_000_000_000  # resamples × tasks: bounds the time


def paired_runs(
    base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options
) -> Pair:
    """Compare two runs on the tasks that both have."""
    ours, theirs = (side.rows.select(TASK, "id").unique(TASK) for side in (base, candidate))
    common = ours.join(theirs, on=TASK, how="semi").select(TASK).sort(TASK)
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=common.height,
        only_base=_ids_without(ours, common),
        only_candidate=_ids_without(theirs, common),
        metrics={
            metric.name: _compared(base, candidate, metric, common, options) for metric in metrics
        },
    )


def _ids_without(tasks: pl.DataFrame, common: pl.DataFrame) -> tuple[str, ...]:
    return tuple(tasks.join(common, on=TASK, how="anti")["id"].sort())


def _compared(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
) -> MetricComparison:
    values = per_task(base, metric)
    others = per_task(candidate, metric)
    if values is None or others is None:
        return _without_values(base, candidate, metric, common, options)
    both = joined(values, others)
    if not both.height:
        return nothing(lacking(base, candidate, metric) or NO_PAIR, n_pairs=0)
    tasks = PairedTasks.of(both)
    if too_large(tasks.base, tasks.candidate):
        return nothing(TOO_LARGE, n_pairs=both.height)
    clusters = clusters_of(both, base, candidate) if options.cluster else None
    return compare_tasks(tasks, metric, options, clusters)


def compare_tasks(
    tasks: PairedTasks,
    metric: Metric,
    options: Options,
    clusters: NDArray[np.int64] | None = None,
) -> MetricComparison:
    """Return the difference of a metric over paired tasks, with its evidence."""
    by_row = tasks.by_row if options.weight == "row" and tasks.weights_matter else None
    before, after, worth = (
        (tasks.base, tasks.candidate, None) if by_row is None else tasks.weigh_rows()
    )
    found = paired(
        before,
        after,
        binary=by_row is None and is_binary(metric, before, after),
        higher_is_better=None if metric.better is None else metric.better == "higher",
        confidence=options.confidence,
        seed=options.seed,
        resamples=resamples(options, before.size, SIGN_FLIPS, _FLIPPED_CELLS),
        clusters=clusters,
        **_what_can_be(metric),
        repeats=None if by_row is not None and options.tasks == "sampled" else tasks.repeats,
        fixed=options.tasks == "fixed",
        freedom=None if worth is None else max(1.0, worth - 1),
    )
    counts = found
    if by_row is not None:  # a task that counts more is no further win
        counts = paired(
            tasks.base,
            tasks.candidate,
            binary=False,
            higher_is_better=None if metric.better is None else metric.better == "higher",
            resamples=1,
        )
    of_task = tasks.by_task
    shown = of_task if by_row is None else by_row
    return MetricComparison(
        base=shown[0],
        candidate=shown[1],
        difference=found.difference,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=found.interval,
        p_value=found.p_value,
        test=found.test,
        permutation_p=found.permutation_p,
        wins=counts.wins,
        losses=counts.losses,
        ties=counts.ties,
        n_pairs=found.n_pairs,
        effect=found.effect,
        effect_name=found.effect_name,
        detectable=_detectable(found, options.confidence),
        reason=found.reason,
        weights=_weights(tasks, options),
    )


def _weights(tasks: PairedTasks, options: Options) -> Weights | None:
    """Return both values of each side, where rows and tasks give different ones."""
    by_row = tasks.by_row
    if by_row is None or not tasks.weights_matter:
        return None
    return Weights(used=options.weight or "task", by_task=tasks.by_task, by_row=by_row)


def _what_can_be(metric: Metric) -> dict[str, float | None]:
    """Return the largest difference of a task, and what one run can do to it."""
    low, high = metric.range
    reach = high - low
    if not isfinite(reach):
        return {"reach": None, "step": None}
    yes_or_no = isinstance(metric.averaged, Feature) and metric.averaged.dtype == pl.Boolean
    a_share = yes_or_no or isinstance(metric.interval, Wilson)
    return {"reach": reach, "step": reach if a_share else reach / 2}


def _without_values(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
) -> MetricComparison:
    """Return the comparison of a metric that no single task has."""
    if options.tasks == "fixed":
        return nothing("no value per task, so its runs cannot be told apart: --tasks sampled")
    return resampled(base, candidate, metric, common, options)


def _detectable(found: Comparison, confidence: float) -> float | None:
    """The smallest difference that these pairs could have shown."""
    if not found.stderr:
        return None
    spread = Spread(between=found.stderr**2 * found.n_pairs, within=None, tasks=found.n_pairs)
    return detectable(found.n_pairs, spread, confidence=confidence)

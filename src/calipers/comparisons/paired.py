"""Two runs of the same tasks: each metric's difference over the pairs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.comparisons.resampled import resampled
from calipers.comparisons.results import MetricComparison, Pair, ValuesByWeight
from calipers.comparisons.sides import (
    NO_PAIR,
    TOO_LARGE,
    clusters_of,
    lacking,
    nothing,
    resamples,
    too_large,
)
from calipers.comparisons.weighing import pair_tasks
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK
from calipers.metrics.declare.pairs import pair_scale
from calipers.scores.options import Options
from calipers.scores.tasks import TaskRows, per_task
from calipers.statistics.paired import Comparison
from calipers.statistics.paired_tasks import PairedTasks, compare_tasks
from calipers.statistics.power import Spread, find_detectable

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
    both, tasks = pair_tasks(values, others)
    if not both.height:
        return nothing(lacking(base, candidate, metric) or NO_PAIR, n_pairs=0)
    if too_large(tasks.base, tasks.candidate):
        return nothing(TOO_LARGE, n_pairs=both.height)
    weight = options.weight or "task"
    found = compare_tasks(
        tasks,
        pair_scale(metric),
        weight=weight,
        confidence=options.confidence,
        seed=options.seed,
        resamples=resamples(options, both.height, SIGN_FLIPS, _FLIPPED_CELLS),
        fixed=options.tasks == "fixed",
        clusters=clusters_of(both, base, candidate) if options.cluster else None,
    )
    weights = _weights(tasks, options)
    before, after = tasks.by_task
    if weights is not None and weight == "row":
        before, after = weights.by_row
    return MetricComparison(
        base=before,
        candidate=after,
        difference=found.difference,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=found.interval,
        p_value=found.p_value,
        test=found.test,
        permutation_p=found.permutation_p,
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
        n_pairs=found.n_pairs,
        effect=found.effect,
        effect_name=found.effect_name,
        detectable=_detectable(found, options.confidence),
        reason=found.reason,
        weights=weights,
    )


def _weights(tasks: PairedTasks, options: Options) -> ValuesByWeight | None:
    """Return both values of each side, where rows and tasks give different ones."""
    by_row = tasks.by_row
    if by_row is None or not tasks.weights_matter:
        return None
    return ValuesByWeight(used=options.weight or "task", by_task=tasks.by_task, by_row=by_row)


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
    return find_detectable(found.n_pairs, spread, confidence=confidence)

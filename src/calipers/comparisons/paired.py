"""Two runs of the same tasks: each metric's difference over the pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict

import polars as pl

from calipers.comparisons.resampled import compare_resampled
from calipers.comparisons.results import MetricComparison, Pair, ValuesByWeight
from calipers.comparisons.sides import (
    NO_PAIR,
    TOO_LARGE,
    count_resamples,
    explain_missing,
    is_too_large,
    list_clusters,
    make_null,
)
from calipers.engines.threads import map_in_order
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import RUNS, TASK
from calipers.metrics.declare.pairs import pair_scale
from calipers.scores.options import Options
from calipers.scores.tasks import SQUARES, VALUE, TaskRows, measure_tasks
from calipers.statistics.paired import Comparison
from calipers.statistics.paired_tasks import PairedTasks, compare_tasks
from calipers.statistics.power import Spread, find_detectable

SIGN_FLIPS = 10_000
_FLIPPED_CELLS = 300_000_000  # resamples × tasks: bounds the time
_THREADS = 4  # metrics compared at once
_OTHER = "_candidate"  # after the names of the second side's columns


def compare_pairs(
    base: TaskRows,
    candidate: TaskRows,
    metrics: Sequence[Metric],
    options: Options,
    *,
    flip_signs: bool = True,
) -> Pair:
    """Compare two runs on the tasks that both have.

    Without `flip_signs` the p-value of flipped signs is None unless all of them can be enumerated.
    """
    ours, theirs = (side.rows.select(TASK, "id").unique(TASK) for side in (base, candidate))
    common = ours.join(theirs, on=TASK, how="semi").select(TASK).sort(TASK)

    def compare_metric(metric: Metric) -> MetricComparison:
        flips = SIGN_FLIPS if flip_signs else 0
        return _compare_metric(base, candidate, metric, common, options, flips)

    found = map_in_order(compare_metric, metrics, min(_THREADS, os.cpu_count() or 1))
    unpaired = [side.join(common, on=TASK, how="anti")["id"].sort() for side in (ours, theirs)]
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=common.height,
        only_base=tuple(unpaired[0]),
        only_candidate=tuple(unpaired[1]),
        metrics=dict(zip((metric.name for metric in metrics), found, strict=True)),
    )


def _compare_metric(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
    sign_flips: int,
) -> MetricComparison:
    values = measure_tasks(base, metric)
    others = measure_tasks(candidate, metric)
    if values is None or others is None:
        if options.tasks == "fixed":
            return make_null("no value per task, so its runs cannot be told apart: --tasks sampled")
        return compare_resampled(base, candidate, metric, common, options)
    both, tasks = pair_tasks(values, others)
    if not both.height:
        return make_null(explain_missing(base, candidate, metric) or NO_PAIR, n_pairs=0)
    if is_too_large(tasks.base, tasks.candidate):
        return make_null(TOO_LARGE, n_pairs=both.height)
    weight = options.weight or "task"
    found = compare_tasks(
        tasks,
        pair_scale(metric),
        weight=weight,
        confidence=options.confidence,
        seed=options.seed,
        resamples=sign_flips and count_resamples(options, both.height, sign_flips, _FLIPPED_CELLS),
        fixed=options.tasks == "fixed",
        clusters=list_clusters(both, base, candidate) if options.cluster else None,
    )
    weights = None
    before, after = tasks.by_task
    if tasks.by_row is not None and tasks.weights_matter:
        weights = ValuesByWeight(used=weight, by_task=tasks.by_task, by_row=tasks.by_row)
        before, after = tasks.by_row if weight == "row" else tasks.by_task
    return MetricComparison(
        base=before,
        candidate=after,
        detectable=_find_detectable(found, options.confidence),
        weights=weights,
        **asdict(found),
    )


def pair_tasks(values: pl.DataFrame, others: pl.DataFrame) -> tuple[pl.DataFrame, PairedTasks]:
    """Return the tasks that both sides have a value of, in order, as a table and as numbers."""
    if values[TASK].is_sorted() and values[TASK].equals(others[TASK]):  # most often
        theirs = others.drop(TASK).select(pl.all().name.suffix(_OTHER))
        both = pl.concat([values, theirs], how="horizontal")
    else:
        both = values.join(others, on=TASK, suffix=_OTHER).sort(TASK)
    squares = None
    if SQUARES in values.columns and SQUARES in others.columns:
        squares = (both[SQUARES] + both[f"{SQUARES}{_OTHER}"]).to_numpy()
    return both, PairedTasks(
        base=both[VALUE].to_numpy(),
        candidate=both[f"{VALUE}{_OTHER}"].to_numpy(),
        base_runs=both[RUNS].cast(pl.Float64).to_numpy(),
        candidate_runs=both[f"{RUNS}{_OTHER}"].cast(pl.Float64).to_numpy(),
        squares=squares,
    )


def _find_detectable(found: Comparison, confidence: float) -> float | None:
    if not found.stderr:
        return None
    spread = Spread(between=found.stderr**2 * found.n_pairs, within=None, tasks=found.n_pairs)
    return find_detectable(found.n_pairs, spread, confidence=confidence)

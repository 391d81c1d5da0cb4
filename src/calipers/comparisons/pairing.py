"""Two runs compared task by task or as independent samples; systems ranked as samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite

import numpy as np
import polars as pl

from calipers.comparisons.compare_result import (
    NO_PAIR,
    TOO_LARGE,
    MetricComparison,
    Pair,
    ValuesByWeight,
    count_resamples,
    explain_missing,
    is_binary,
    is_too_large,
    list_clusters,
    make_null,
)
from calipers.comparisons.rank_result import Estimates, MetricRanking, estimate_all, rank_estimates
from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.task_bootstrap import compare_resampled
from calipers.engines.store import map_in_order
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Metric
from calipers.metrics.declare.interval_methods import Wilson
from calipers.scores.crossed import TASK_FIELD, name_factors
from calipers.scores.options import Options
from calipers.scores.task_values import (
    SQUARES,
    VALUE,
    TaskRows,
    measure_tasks,
    name_kept_field,
)
from calipers.statistics.all_pairs import compare_all_samples
from calipers.statistics.clusters import Floats, Labels
from calipers.statistics.crossed import cross_error
from calipers.statistics.paired import (
    ROUNDING,
    Comparison,
    PairedTasks,
    ValueScale,
    compare_tasks,
    student,
)
from calipers.statistics.power import Spread, find_detectable
from calipers.statistics.ranking import covariance_of_means
from calipers.statistics.unpaired import KruskalWallis, compare_unpaired, kruskal_wallis
from calipers.support.errors import UsageError


def pair_scale(metric: Metric) -> ValueScale:
    """Return how far two values of a task can lie apart, and what one run can do to one."""
    low, high = metric.range
    reach = high - low if isfinite(high - low) else None
    return ValueScale(
        yes_or_no=isinstance(metric.interval, Wilson),
        reach=reach,
        step=None if reach is None else metric.step * reach,
        higher_is_better=None if metric.better is None else metric.better == "higher",
    )


SIGN_FLIPS = 10_000
_FLIPPED_CELLS = 300_000_000  # resamples × tasks: bounds the time
_THREADS = 4  # metrics compared at once
_ONE_BY_ONE = 1_000_000  # tasks, from which on they are not: each takes some memory
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
    ours, theirs = (_list_tasks(side) for side in (base, candidate))
    is_same = ours.equals(theirs)
    shared = ours if is_same else ours.filter(ours.is_in(theirs.implode()))
    common = shared.to_frame()

    are_many = common.height >= _ONE_BY_ONE

    def compare_metric(metric: Metric) -> MetricComparison:
        flips = SIGN_FLIPS if flip_signs else 0
        found = _compare_paired_metric(base, candidate, metric, common, options, flips)
        if are_many:
            base.forget_sums()
            candidate.forget_sums()
        return found

    at_once = 1 if are_many else min(_THREADS, os.cpu_count() or 1)
    found = map_in_order(compare_metric, metrics, at_once)
    unpaired = [() if is_same else _list_unpaired(side, shared) for side in (base, candidate)]
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=common.height,
        only_base=unpaired[0],
        only_candidate=unpaired[1],
        metrics=dict(zip((metric.name for metric in metrics), found, strict=True)),
    )


def _list_tasks(side: TaskRows) -> pl.Series:
    """Return each task once, in order."""
    tasks = side.rows[TASK]
    return tasks if tasks.flags["SORTED_ASC"] and side.is_one_per_task else tasks.unique().sort()


def _list_unpaired(side: TaskRows, shared: pl.Series) -> tuple[str, ...]:
    """Return the ids of the tasks that the other side lacks."""
    alone = side.rows.filter(~pl.col(TASK).is_in(shared.implode())).select(TASK, "id").unique(TASK)
    return tuple(alone["id"].sort())


def _compare_paired_metric(
    base: TaskRows,
    candidate: TaskRows,
    metric: Metric,
    common: pl.DataFrame,
    options: Options,
    sign_flips: int,
) -> MetricComparison:
    if options.random:
        return compare_crossed(base, candidate, metric, options)
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
        guarantee=options.guarantee,
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


ONE_VALUE = "a crossed field has one value only, which does not show how far others would lie"


def compare_crossed(
    base: TaskRows, candidate: TaskRows, metric: Metric, options: Options
) -> MetricComparison:
    """Compare two runs cell by cell: each task with each prompt, say, that both sides have.

    The interval is for further values of every crossed field (`statistics.crossed`).
    """
    fields = name_factors(options)
    names = [f"_factor_{place}" for place in range(len(fields))]
    sides = [_split_cells(side, fields, names) for side in (base, candidate)]
    values, others = (measure_tasks(side, metric) for side in sides)
    if values is None or others is None:
        return make_null("it has no value per task, so that its cells cannot be compared")
    both, cells = pair_tasks(values, others)
    if not both.height:
        return make_null(explain_missing(base, candidate, metric) or NO_PAIR, n_pairs=0)
    if is_too_large(cells.base, cells.candidate):
        return make_null(TOO_LARGE, n_pairs=both.height)
    scale = pair_scale(metric)
    labels = sides[0].rows.select(TASK, *names).unique(TASK)
    known = both.select(TASK).join(labels, on=TASK, how="left", maintain_order="left")
    apart = cells.candidate - cells.base
    size = np.maximum(np.abs(cells.base), np.abs(cells.candidate))
    apart = np.where(np.abs(apart) > ROUNDING * size, apart, 0.0)
    error = cross_error(apart, [known[name].to_numpy() for name in names])
    mean, worse = float(apart.mean()), scale.higher_is_better is False
    low, high, p_value, reason = (
        (None, None, None, ONE_VALUE)
        if error is None
        else student(
            mean,
            error.stderr,
            error.degrees,
            largest=float(size.max()),
            confidence=options.confidence,
        )
    )
    if scale.reach is not None and low is not None and high is not None:
        low, high = max(-scale.reach, low), min(scale.reach, high)
    up, down = int((apart > 0).sum()), int((apart < 0).sum())
    return MetricComparison(
        base=float(cells.base.mean()),
        candidate=float(cells.candidate.mean()),
        difference=mean,
        low=low,
        high=high,
        stderr=None if error is None else error.stderr,
        interval=f"t over {' × '.join(options.random)}",
        p_value=p_value,
        test=f"t over {' × '.join(options.random)}",
        wins=down if worse else up,
        losses=up if worse else down,
        ties=both.height - up - down,
        n_pairs=both.height,
        reason=reason,
    )


def _split_cells(side: TaskRows, fields: Sequence[str], names: Sequence[str]) -> TaskRows:
    """Return the rows with each combination of the fields' values in the place of the task."""
    columns = [TASK if field == TASK_FIELD else name_kept_field(field) for field in fields]
    rows = side.rows.with_columns(
        pl.col(column).cast(pl.String).alias(name)
        for column, name in zip(columns, names, strict=True)
    ).drop_nulls(names)
    cell = pl.struct(TASK, *names).hash().reinterpret(signed=True)
    return replace(side, rows=rows.with_columns(cell.alias(TASK)).sort(GROUP, TASK))


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


def compare_independent(
    base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options
) -> Pair:
    """Compare two runs, whatever tasks they have."""
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=0,
        only_base=(),
        only_candidate=(),
        metrics={
            metric.name: _compare_unpaired_metric(base, candidate, metric, options)
            for metric in metrics
        },
    )


def _compare_unpaired_metric(
    base: TaskRows, candidate: TaskRows, metric: Metric, options: Options
) -> MetricComparison:
    values, others = measure_tasks(base, metric), measure_tasks(candidate, metric)
    if values is None or others is None:
        return make_null("it has no value per task; calipers score gives its interval")
    if reason := explain_missing(base, candidate, metric):
        return make_null(reason)
    before, after = values[VALUE].to_numpy(), others[VALUE].to_numpy()
    if is_too_large(before, after):
        return make_null(TOO_LARGE)
    found = compare_unpaired(
        before,
        after,
        binary=is_binary(metric, before, after),
        confidence=options.confidence,
        base_clusters=list_clusters(values, base) if options.cluster else None,
        candidate_clusters=list_clusters(others, candidate) if options.cluster else None,
        endless=pair_scale(metric).reach is None,
    )
    evidence = asdict(found)
    if found.p_value is None and found.difference == 0:
        evidence["p_value"] = 1.0  # all values are equal, but for the rounding of tasks' means
    return MetricComparison(
        base=float(before.mean()) if before.size else None,
        candidate=float(after.mean()) if after.size else None,
        **evidence,
    )


def compare_across(
    sides: Sequence[TaskRows], metrics: Sequence[Metric]
) -> Iterator[tuple[str, KruskalWallis]]:
    """Yield, by metric, whether any of the runs differs from the others."""
    for metric in metrics:
        tables = [measure_tasks(side, metric) for side in sides]
        samples = [table[VALUE].to_numpy() for table in tables if table is not None]
        if len(samples) == len(sides) and not is_too_large(*samples):
            yield metric.name, kruskal_wallis(samples)


@dataclass(frozen=True, kw_only=True)
class SystemSample:
    """The values of one system, one per task, and which of the tasks depend on each other."""

    text: str  # in `GROUP`
    values: Floats
    clusters: Labels | None


def rank_independent(
    systems: Systems, metric: Metric, options: Options
) -> tuple[MetricRanking, list[str]]:
    """Return the ranking by a metric, whatever tasks each system has, and what to say of it.

    Raises:
        UsageError: The metric has no value per task, or fewer than two systems have a value.
    """
    samples = _list_samples(systems, metric, options)
    names = [systems.names[each.text] for each in samples]
    without = [name for text, name in systems.names.items() if name not in names]
    notices = [f"{metric.name}: not ranked for want of a value: {', '.join(without)}"]
    estimates = estimate_samples(samples, metric, options)
    texts = [each.text for each in samples]
    ranked = rank_estimates(systems, metric, texts, estimates, options)
    return ranked, notices if without else []


def _list_samples(systems: Systems, metric: Metric, options: Options) -> list[SystemSample]:
    table = measure_tasks(systems.rows, metric)
    if table is None:
        raise UsageError(
            f"{metric.name}: no single task has a value of it, which --unpaired needs",
            fix="name a metric that is a mean: --metric accuracy",
        )
    samples = []
    for text in systems.keys:
        own = table.filter(pl.col(GROUP) == text)
        clusters = list_clusters(own, systems.rows) if options.cluster else None
        samples.append(SystemSample(text=text, values=own[VALUE].to_numpy(), clusters=clusters))
    samples = [each for each in samples if each.values.size]
    if len(samples) <= 1:
        raise UsageError(
            f"{metric.name}: fewer than two systems have a value ({metric.empty})",
            fix="rank by another metric: --metric NAME; calipers score shows which have values",
        )
    if is_too_large(*(each.values for each in samples)):
        raise UsageError(f"{metric.name}: {TOO_LARGE}", fix="rank by another metric")
    return samples


def estimate_samples(samples: list[SystemSample], metric: Metric, options: Options) -> Estimates:
    """Return the mean of each system and the difference of each pair of independent samples."""
    pairs = [(each.values, each.clusters) for each in samples]
    variances = [
        covariance_of_means(values[None, :], clusters).item() for values, clusters in pairs
    ]
    tasks = [each.values.size for each in samples]
    covariance = np.diag(variances)
    compare = partial(compare_all_samples, pairs, pair_scale(metric))
    return estimate_all(pairs, covariance, compare, metric, options, n_tasks=tasks)

"""Independent samples: runs compared, and systems ranked, with no task paired with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl

from calipers.comparisons.ranked_estimates import Estimates, estimate_all, rank_estimates
from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.rankings import MetricRanking
from calipers.comparisons.results import MetricComparison, Pair
from calipers.comparisons.sides import (
    TOO_LARGE,
    explain_missing,
    is_binary,
    is_too_large,
    list_clusters,
    make_null,
)
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP
from calipers.scores.options import Options
from calipers.scores.tasks import VALUE, TaskRows, measure_tasks
from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.paired import Difference
from calipers.statistics.task_means import covariance_of_means
from calipers.statistics.unpaired import KruskalWallis, compare_unpaired, kruskal_wallis
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass


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
            metric.name: _compare_metric(base, candidate, metric, options) for metric in metrics
        },
    )


def _compare_metric(
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
    )
    evidence = asdict(found)
    rank_p, rank_test = evidence.pop("rank_p"), evidence.pop("rank_test")
    if rank_p is not None:
        evidence |= {"p_value": rank_p, "test": rank_test}
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
    estimates = estimate_samples(samples, names, metric, options)
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


def estimate_samples(
    samples: list[SystemSample], names: list[str], metric: Metric, options: Options
) -> Estimates:
    """Return the mean of each system and the difference of each pair of independent samples."""

    def compare(one: int, other: int, confidence: float) -> Difference:
        base, candidate = samples[other], samples[one]
        return compare_unpaired(
            base.values,
            candidate.values,
            binary=is_binary(metric, base.values, candidate.values),
            confidence=confidence,
            base_clusters=base.clusters,
            candidate_clusters=candidate.clusters,
        )

    pairs = [(each.values, each.clusters) for each in samples]
    variances = [
        covariance_of_means(values[None, :], clusters).item() for values, clusters in pairs
    ]
    tasks = [each.values.size for each in samples]
    covariance = np.diag(variances)
    return estimate_all(pairs, covariance, compare, names, metric, options, n_tasks=tasks)

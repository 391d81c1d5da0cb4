"""Runs compared as independent samples: no task is paired with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

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
from calipers.scores.options import Options
from calipers.scores.tasks import VALUE, TaskRows, measure_tasks
from calipers.statistics.unpaired import KruskalWallis, compare_unpaired, kruskal_wallis


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

"""Runs as independent samples: no task is paired with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calipers.comparisons.results import Across, MetricComparison, Pair
from calipers.comparisons.sides import (
    TOO_LARGE,
    clusters_of,
    is_binary,
    lacking,
    nothing,
    too_large,
)
from calipers.metrics import Metric
from calipers.scores.options import Options
from calipers.scores.tasks import VALUE, TaskRows, per_task
from calipers.statistics.unpaired import compare_unpaired, kruskal_wallis


def independent_runs(
    base: TaskRows, candidate: TaskRows, metrics: Sequence[Metric], options: Options
) -> Pair:
    """Compare two runs, whatever tasks they have."""
    return Pair(
        base=base.name,
        candidate=candidate.name,
        n_pairs=0,
        only_base=(),
        only_candidate=(),
        metrics={metric.name: _compared(base, candidate, metric, options) for metric in metrics},
    )


def _compared(
    base: TaskRows, candidate: TaskRows, metric: Metric, options: Options
) -> MetricComparison:
    values, others = per_task(base, metric), per_task(candidate, metric)
    if values is None or others is None:
        return nothing("no value per task: its intervals are in calipers score")
    if reason := lacking(base, candidate, metric):
        return nothing(reason)
    before, after = values[VALUE].to_numpy(), others[VALUE].to_numpy()
    if too_large(before, after):
        return nothing(TOO_LARGE)
    clusters: dict[str, Any] = {}
    if options.cluster:
        clusters = {
            "base_clusters": clusters_of(values, base),
            "candidate_clusters": clusters_of(others, candidate),
        }
    found = compare_unpaired(
        before,
        after,
        binary=is_binary(metric, before, after),
        confidence=options.confidence,
        **clusters,
    )
    by_rank = found.rank_p is not None
    return MetricComparison(
        base=float(before.mean()) if before.size else None,
        candidate=float(after.mean()) if after.size else None,
        difference=found.difference,
        low=found.low,
        high=found.high,
        stderr=found.stderr,
        interval=found.interval,
        p_value=found.rank_p if by_rank else found.p_value,
        test=found.rank_test if by_rank else found.test,
        n_base=found.n_base,
        n_candidate=found.n_candidate,
        effect=found.effect,
        effect_name=found.effect_name,
        effect_low=found.effect_low,
        effect_high=found.effect_high,
        reason=found.reason,
    )


def across(sides: Sequence[TaskRows], metrics: Sequence[Metric]) -> Iterator[tuple[str, Across]]:
    """By metric, whether any of the runs differs from the others."""
    for metric in metrics:
        tables = [per_task(side, metric) for side in sides]
        samples = [table[VALUE].to_numpy() for table in tables if table is not None]
        if len(samples) == len(sides) and not too_large(*samples):
            found = kruskal_wallis(samples)
            yield (
                metric.name,
                Across(
                    h=found.h,
                    p_value=found.p_value,
                    epsilon_squared=found.epsilon_squared,
                    n=found.n,
                    reason=found.reason,
                ),
            )

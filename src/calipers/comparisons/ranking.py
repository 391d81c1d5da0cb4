"""Rank systems: read them, compare all pairs on common tasks, and adjust for all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calipers.comparisons.independent import rank_independent
from calipers.comparisons.options.rank import RankOptions
from calipers.comparisons.ranked_estimates import Estimates, estimate_all, rank_estimates
from calipers.comparisons.ranked_systems import Systems, choose_metrics, open_sets, read_systems
from calipers.comparisons.rankings import MetricRanking, Ranking
from calipers.comparisons.resampled import resample_systems
from calipers.comparisons.sides import TOO_LARGE, is_too_large
from calipers.comparisons.strengths import has_judged_pairs, rank_judged_pairs, strengths_of_wins
from calipers.comparisons.task_matrix import TaskMatrix, make_matrix, note_runs
from calipers.comparisons.task_parts import break_down, choose_field
from calipers.metrics import Metric
from calipers.metrics.declare.pairs import pair_scale
from calipers.scores.options import Options
from calipers.statistics.paired import Difference
from calipers.statistics.paired_tasks import compare_tasks
from calipers.statistics.task_means import covariance_of_means
from calipers.support.errors import UsageError


def rank_data(data: Sequence[Any], options: Options, asked: RankOptions) -> Ranking:
    """Rank the systems in the data by each metric, or by pairwise judgments."""
    sets = open_sets(data)
    sources = [source for several in sets for source in several]
    if has_judged_pairs(sources):
        return rank_judged_pairs(sources, options)
    fields = choose_field(sources, asked=asked.tasks)
    systems = read_systems(sets, options, keep=fields, paired=not asked.unpaired)
    return rank_systems(systems, choose_metrics(systems, options), options, asked, fields)


def rank_systems(
    systems: Systems,
    metrics: Sequence[Metric],
    options: Options,
    asked: RankOptions,
    fields: Sequence[str] = (),
) -> Ranking:
    """Rank systems that have been read by each of the metrics.

    Raises:
        UsageError: A metric has values of fewer than two systems, or no task is common to all.
    """
    notices = [*options.notices, *systems.notices]
    ranked = []
    for metric in metrics:
        if metric.better is None and asked.better is None:
            notices.append(
                f"{metric.name} does not say what is better: higher values are ranked first "
                "(--better lower turns it round)"
            )
        directed = replace(metric, better=metric.better or asked.better or "higher")
        found, said = _rank_metric(systems, directed, options, asked, fields)
        ranked.append(found)
        notices += said
    return Ranking(
        metrics=tuple(ranked),
        by=systems.by,
        confidence=options.confidence,
        seed=options.seed,
        notices=tuple(notices),
    )


def _rank_metric(
    systems: Systems, metric: Metric, options: Options, asked: RankOptions, fields: Sequence[str]
) -> tuple[MetricRanking, list[str]]:
    """Return the ranking by a metric, and what to say of it."""
    if asked.unpaired:
        return rank_independent(systems, metric, options)
    made = make_matrix(systems, metric, options)
    if made is None:
        if asked.bradley_terry or fields:
            raise UsageError(
                f"{metric.name}: no single task has a value of it, which --tasks and "
                "--bradley-terry need",
                fix="leave them out, or name a metric that is a mean: --metric accuracy",
            )
        estimates, common = resample_systems(systems, metric, options)
        ranked = rank_estimates(systems, metric, common.systems, estimates, options)
        return ranked, [*common.notices]
    matrix, common = made
    if is_too_large(matrix.values):
        raise UsageError(f"{metric.name}: {TOO_LARGE}", fix="rank by another metric")
    notices = [*common.notices, *note_runs(matrix, metric)]
    names = [systems.names[text] for text in common.systems]
    estimates = estimate_means(matrix, metric, names, options)
    ranked = rank_estimates(systems, metric, common.systems, estimates, options)
    if asked.bradley_terry:
        higher = metric.better == "higher"
        strengths = strengths_of_wins(matrix, names, options, higher_is_better=higher)
        ranked = _with_each(ranked, "strength", strengths)
    if fields:
        parts, said = break_down(systems, matrix, common, metric, fields[0], options)
        ranked = _with_each(ranked, "tasks", dict(zip(names, parts, strict=True)))
        ranked = replace(ranked, tasks_by=fields[0])
        notices += said
    return ranked, notices


def _with_each(ranked: MetricRanking, field: str, values: Mapping[str, Any]) -> MetricRanking:
    """Return the ranking with a further value of each system, by name."""
    systems = (replace(each, **{field: values[each.name]}) for each in ranked.systems)
    return replace(ranked, systems=tuple(systems))


def estimate_means(
    matrix: TaskMatrix, metric: Metric, names: Sequence[str], options: Options
) -> Estimates:
    """Return the mean of each system and the difference of each pair on the common tasks."""
    scale = pair_scale(metric)

    def compare(one: int, other: int, confidence: float) -> Difference:
        return compare_tasks(
            matrix.pair(one, other),
            scale,
            weight="task",
            confidence=confidence,
            seed=options.seed,
            resamples=1,  # more signs are flipped only where all of them are
            clusters=matrix.clusters,
        )

    covariance = covariance_of_means(matrix.values, matrix.clusters)
    samples = ((row, matrix.clusters) for row in matrix.values)
    tasks = matrix.values.shape[1]
    return estimate_all(samples, covariance, compare, names, metric, options, n_tasks=tasks)

"""Rank systems: all pairs on common tasks, by category or task, and by Bradley–Terry strength.

Strengths come from wins on common tasks, or from pairwise judgments: records that name two systems
and which of them a judge preferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calipers.comparisons.agree import read_fields
from calipers.comparisons.compare_result import TOO_LARGE, is_too_large
from calipers.comparisons.comparison_options import AUTO, RankOptions
from calipers.comparisons.pairing import pair_scale, rank_independent
from calipers.comparisons.rank_result import (
    Estimates,
    MetricRanking,
    RankedValue,
    Ranking,
    Strength,
    TaskPart,
    compare_values,
    estimate_all,
    estimate_mean,
    estimate_values,
    order_systems,
    rank_estimates,
)
from calipers.comparisons.ranked_systems import (
    CommonTasks,
    Systems,
    choose_metrics,
    make_matrix,
    note_runs,
    open_sets,
    read_systems,
)
from calipers.comparisons.task_bootstrap import resample_systems
from calipers.engines.plan import list_cluster_fields
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK
from calipers.records.batch import Source
from calipers.records.fields import VARIANT
from calipers.scores.options import Options
from calipers.scores.task_values import name_kept_field
from calipers.scores.variants import FEW_TASKS
from calipers.statistics import special
from calipers.statistics.all_pairs import PairColumns, TaskMatrix, compare_all
from calipers.statistics.clusters import Floats, Whole
from calipers.statistics.paired import holm
from calipers.statistics.paired_tests import t_reach
from calipers.statistics.ranking import (
    Comparisons,
    Strengths,
    covariance_of_means,
    fit_strengths,
    fixed_interval,
)
from calipers.support.errors import DataError, EmptyError, UsageError, nearest, quote_name
from calipers.support.names import split_natural

MOST_PARTS = 40  # columns of a table that can still be read
_CATEGORY, _ID = "category", "id"
_PART = "_part"
_NONE = "(none)"


def choose_field(sources: Sequence[Source], *, asked: str | bool) -> tuple[str, ...]:
    """Return the field to break tasks down by, if that was asked for: category, else the id."""
    if isinstance(asked, str) and asked != AUTO:
        return (asked,)
    if not asked:
        return ()
    columns = {name for source in sources for name in source.columns()}
    return (_CATEGORY if _CATEGORY in columns else _ID,)


def break_down(
    systems: Systems,
    matrix: TaskMatrix,
    common: CommonTasks,
    metric: Metric,
    field: str,
    options: Options,
) -> tuple[list[dict[str, TaskPart]], list[str]]:
    """Return each system's value by the field's values, and what to say of those left out.

    Raises:
        UsageError: No record has the field.
    """
    labels = _label_tasks(systems, common, field)
    parts = sorted(set(labels), key=split_natural)
    notices = []
    if len(parts) > MOST_PARTS:
        notices.append(
            f"--tasks {field}: the {MOST_PARTS} of {len(parts):,} that tell the systems apart most"
        )
        means = {each: matrix.values[:, labels == each].mean(axis=1) for each in parts}
        kept = sorted(parts, key=lambda each: -means[each].var())[:MOST_PARTS]
        parts = sorted(kept, key=split_natural)
    found = [
        {each: _measure_part(row[labels == each], metric, options) for each in parts}
        for row in matrix.values
    ]
    return found, notices


def _label_tasks(systems: Systems, common: CommonTasks, field: str) -> NDArray[np.object_]:
    rows = systems.rows.rows
    column = name_kept_field(field)
    if rows[column].is_null().all():
        raise UsageError(
            f"--tasks {quote_name(field)}: no record has a value in {quote_name(field)}",
            fix=f"{nearest(field, rows.columns)}; files are named before --tasks",
        )
    known = rows.group_by(TASK).agg(
        pl.col(column).drop_nulls().sort().first().cast(pl.String).alias(_PART)
    )
    joined = common.tasks.join(known, on=TASK, how="left", maintain_order="left")
    # As objects: NumPy's own texts lose a NUL at their end.
    return joined[_PART].fill_null(_NONE).to_numpy().astype(object)


def _measure_part(values: Floats, metric: Metric, options: Options) -> TaskPart:
    found = estimate_mean(values, metric, options.confidence)
    return TaskPart(**asdict(found), n_tasks=values.size)


METRIC = "bradley_terry"
WINNER = "winner"
_SIDES = (("model_a", "model_b"), ("a", "b"))
_FIRST, _SECOND = ("a", "model_a"), ("b", "model_b")
_TIES = ("tie", "draw", "both", "neither", "tie (bothbad)")
_RESULTS = dict.fromkeys(_FIRST, 1.0) | dict.fromkeys(_SECOND, 0.0) | dict.fromkeys(_TIES, 0.5)
_SHOWN = 60  # characters of a text from outside
_ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie


def has_judged_pairs(sources: Sequence[Source]) -> bool:
    """Say whether the records are pairwise judgments, by their fields."""
    columns = {name for source in sources for name in source.columns()}
    return WINNER in columns and any(columns.issuperset(sides) for sides in _SIDES)


def rank_judged_pairs(sources: Sequence[Source], options: Options) -> Ranking:
    """Rank the systems of pairwise judgments by their strengths; a tie is half a win for both.

    Raises:
        DataError: A judgment names neither of its systems, or one system twice.
        EmptyError: There is not a judgment.
        UsageError: A metric is asked for, or no chain of judgments joins all systems.
    """
    if options.metrics or options.by:
        raise UsageError(
            "pairwise judgments are ranked by the systems they name, and by who won",
            fix="leave --metric and --by out",
        )
    columns = {name for source in sources for name in source.columns()}
    sides = next(each for each in _SIDES if columns.issuperset(each))
    [cluster] = list_cluster_fields(options.cluster)[:1] or ["id" if "id" in columns else None]
    frame = read_fields(sources, (*sides, WINNER, *([cluster] if cluster else [])))
    judged = frame.drop_nulls([*sides, WINNER])
    if not judged.height:
        raise EmptyError("no pairwise judgment has a winner", fix="check the file")
    texts = judged.select(pl.col(*sides, WINNER).cast(pl.String))
    systems = sorted({*texts[sides[0]], *texts[sides[1]]}, key=split_natural)
    place = {name: number for number, name in enumerate(systems)}
    met = Comparisons(
        first=[place[name] for name in texts[sides[0]]],
        second=[place[name] for name in texts[sides[1]]],
        result=list(map(_score_result, *(texts[name] for name in (*sides, WINNER)))),
        clusters=None if cluster is None else _number_clusters(judged[cluster]),
    )
    try:
        found = fit_strengths(met, len(systems))
    except ValueError:
        raise UsageError(
            "the judgments fall into parts: no chain of comparisons joins all systems",
            fix="judge pairs of systems from different parts, or rank each part alone",
        ) from None
    strengths = _estimate_strengths(found, options)
    ranked = order_systems(
        Estimates(
            values=strengths,
            pairs=compare_values(
                found.values,
                found.covariance,
                found.clusters,
                options,
                test="t on Bradley-Terry strengths",
            ),
            interval="t",
            n_tasks=found.clusters,
        ),
        by=[{"model": name} for name in systems],
        names=systems,
        metric=METRIC,
        better="higher",
        confidence=options.confidence,
        unit="log odds",
    )
    of = dict(zip(systems, strengths, strict=True))
    ordered = tuple(replace(each, strength=of[each.name]) for each in ranked.systems)
    return Ranking(
        metrics=(replace(ranked, systems=ordered),),
        by=("model",),
        confidence=options.confidence,
        seed=options.seed,
        notices=tuple(_note_judgments(frame.height - judged.height, ties_added=found.ties_added)),
    )


def _score_result(first: str, second: str, winner: str) -> float:
    """Return 1 where the first system won, 0 where the second did, ½ for a tie.

    A side goes before a name: a system may be called b and stand on side a.
    """
    if first == second:
        raise DataError(
            f"a judgment compares {first[:_SHOWN]} with itself", fix="name two systems per record"
        )
    said = winner.strip().lower()
    if said in _RESULTS:
        return _RESULTS[said]
    if winner not in (first, second):
        raise DataError(
            f"{WINNER}: {winner[:_SHOWN]} is neither {first[:_SHOWN]} nor {second[:_SHOWN]}",
            fix=f"write the name of the system, or one of {', '.join(_FIRST + _SECOND)}, tie",
        )
    return float(winner == first)


def _number_clusters(values: pl.Series) -> Whole:
    """Return a number per value; a judgment without one stands alone."""
    row = pl.int_range(pl.len()).cast(pl.String)
    text = values.cast(pl.String).to_frame("text")
    keys = text.select(pl.coalesce(pl.lit("=") + pl.col("text"), row)).to_series()
    return keys.rank("dense").cast(pl.Int64).to_numpy()


def _note_judgments(lost: int, *, ties_added: bool) -> Iterator[str]:
    if lost:
        yield f"{lost} judgments without a winner or without two systems are left out"
    if ties_added:
        yield (
            "some systems won, or lost, every comparison with the others, so that no finite "
            "strength fits best: each system counts one further tie, with an average one"
        )


def estimate_win_strengths(
    matrix: TaskMatrix, names: Sequence[str], options: Options, *, higher_is_better: bool
) -> dict[str, Strength]:
    """Return the strength of each system by its wins, by name; equal values are a tie."""
    systems, tasks = matrix.values.shape
    first, second = np.triu_indices(systems, 1)
    ours, theirs = matrix.values[first], matrix.values[second]
    apart = ours - theirs
    size = np.maximum(np.abs(ours), np.abs(theirs))
    won = np.sign(np.where(np.abs(apart) > _ROUNDING * size, apart, 0.0))
    result = (1 + (won if higher_is_better else -won)) / 2
    clusters = np.arange(tasks)
    if matrix.clusters is not None:
        clusters = np.unique(matrix.clusters, return_inverse=True)[1].ravel()
    met = Comparisons(
        first=np.repeat(first, tasks),
        second=np.repeat(second, tasks),
        result=result.ravel(),
        clusters=np.tile(clusters, first.size),
    )
    return dict(zip(names, _estimate_strengths(fit_strengths(met, systems), options), strict=True))


def _estimate_strengths(found: Strengths, options: Options) -> list[Strength]:
    values = estimate_values(found.values, found.covariance, found.clusters, options)
    return [
        Strength(**asdict(each), win_rate=rate)
        for each, rate in zip(values, found.win_rates.tolist(), strict=True)
    ]


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
    if VARIANT in systems.by and has_few_tasks(matrix):
        estimates = estimate_runs(matrix, metric, options)
        notices.append(
            f"{metric.name}: too few tasks ({matrix.values.shape[1]}) for intervals over tasks: "
            "they are of the runs of each task, and hold for the tasks at hand only"
        )
    else:
        estimates = estimate_means(matrix, metric, options)
    ranked = rank_estimates(systems, metric, common.systems, estimates, options)
    if asked.bradley_terry:
        higher = metric.better == "higher"
        strengths = estimate_win_strengths(matrix, names, options, higher_is_better=higher)
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


def has_few_tasks(matrix: TaskMatrix) -> bool:
    """Say whether tasks are too few, and each has runs that show the noise of its value."""
    has_runs = matrix.squares is not None and bool((matrix.runs > 1).all())
    return has_runs and matrix.clusters is None and matrix.values.shape[1] < FEW_TASKS


def estimate_runs(matrix: TaskMatrix, metric: Metric, options: Options) -> Estimates:
    """Return the mean of each system and the difference of each pair on these very tasks.

    Only the runs of a task vary. Intervals hold for all systems, and for all pairs, at once
    (Bonferroni; tests by Holm).
    """
    assert matrix.squares is not None
    systems, tasks = matrix.values.shape
    means = matrix.values.mean(axis=1)
    spread = matrix.squares / (matrix.runs - 1)  # of a single run
    variances = (spread / matrix.runs).sum(axis=1) / tasks**2
    freedom = (matrix.runs - 1).sum(axis=1)
    low, high = metric.range
    bounds = (low, high) if isfinite(high - low) else None
    level = 1 - (1 - options.confidence) / systems
    values = [
        RankedValue(value=float(mean), low=around.low, high=around.high)
        for mean, variance, rows, free in zip(
            means, variances, matrix.runs.sum(axis=1), freedom, strict=True
        )
        for around in [
            fixed_interval(
                float(mean),
                float(variance),
                rows=int(rows),
                freedom=int(free),
                bounds=bounds,
                confidence=level,
            )
        ]
    ]
    return Estimates(
        values=values,
        pairs=_compare_runs(means, variances, freedom, options.confidence),
        interval="fixed tasks",
        n_tasks=tasks,
    )


def _compare_runs(
    means: Floats, variances: Floats, freedom: Floats, confidence: float
) -> PairColumns:
    """Return the difference of each pair of means of which only the runs vary."""
    found = PairColumns.of_systems(means.size)
    one, other = np.triu_indices(means.size, 1)
    difference, error = means[one] - means[other], np.sqrt(variances[one] + variances[other])
    found.fill(slice(None), difference=difference, test="t on the runs of each task")
    known = error > 0
    found.fill(~known, reason="no run differs from the others of its task")
    difference, error = difference[known], error[known]
    free = (freedom[one] + freedom[other])[known]
    level = 1 - (1 - confidence) / known.size
    reach = np.array([t_reach(each, level) for each in free.tolist()]) * error
    statistics = zip(free.tolist(), (np.abs(difference) / error).tolist(), strict=True)
    p_values = [2 * special.stdtr(each, -statistic) for each, statistic in statistics]
    found.fill(
        known,
        low=difference - reach,
        high=difference + reach,
        p_value=p_values,
        p_adjusted=np.array(holm(p_values), dtype=np.float64),
    )
    return found


def estimate_means(matrix: TaskMatrix, metric: Metric, options: Options) -> Estimates:
    """Return the mean of each system and the difference of each pair on the common tasks."""
    compare = partial(compare_all, matrix, pair_scale(metric))
    covariance = covariance_of_means(matrix.values, matrix.clusters)
    samples = ((row, matrix.clusters) for row in matrix.values)
    tasks = matrix.values.shape[1]
    return estimate_all(samples, covariance, compare, metric, options, n_tasks=tasks)

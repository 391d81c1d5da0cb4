"""A row per task: totals over its runs.

`finished` turns the totals into the columns that `--per-task` writes. A task is flaky when some of
its runs pass and some fail; whether a run passed is its `passed`, or `correct` in tasks without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf

import polars as pl

from calipers.engines.plan import FAILED, Plan
from calipers.engines.totals import ERRORS, sum_keys
from calipers.metrics.answers.accuracy import correct
from calipers.metrics.answers.normalize import answer_key
from calipers.metrics.answers.repeats import ANSWERS, measure_agreement
from calipers.metrics.cost.cost import cost_usd
from calipers.metrics.cost.tiers import (
    COSTS_OF_PASSES,
    composite_score,
    cost_of_pass,
    duration_seconds,
    impl_rate,
)
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Aggregate, Feature, Frame
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.scenarios.passing import passed
from calipers.support.quick_dataclasses import dataclass

ID = "id"
TASKS, REPEATED_TASKS, FLAKY = "tasks", "tasks_repeated", "tasks_flaky"
VERDICTS, PASSES = "_verdicts", "_passes"
MOST_RUNS = 10_000  # to resample: of more runs, tiers are compared by their totals
FLAKIEST = 5  # so many flaky tasks are named

_JUDGED = (passed, correct)
_AVERAGED = (impl_rate, cost_usd, duration_seconds, composite_score)
_AGREED = "most_common_share"
_AT_LEAST = 2


def _hash_input(_: object) -> pl.Expr:
    text = pl.col("input").str.strip_chars()
    return pl.when(text != "").then(text.hash().reinterpret(signed=True))


same_input = Feature(
    name="_same_input",
    reads=("input",),
    dtype=pl.Int64(),
    expression=_hash_input,
    listed=False,
)


@dataclass(frozen=True)
class TaskSums:
    """What is added up of each task's runs; declared once, where features are known by identity."""

    totals: Aggregate
    judged: tuple[Feature, ...]  # what says whether a run passed, the first that is known
    answers: Aggregate | None  # counts a task's answers, where there are any


def declare_task_sums(plan: Plan, *, in_full: bool) -> TaskSums:
    """Return what is added up of each task's runs under a plan; in full for a row of each."""
    answered = answer_key in plan.features and correct in plan.features
    return TaskSums(
        totals=_declare_totals(plan.features, in_full=in_full),
        judged=tuple(each for each in _JUDGED if each in plan.features),
        answers=ANSWERS if answered else None,
    )


def sum_tasks(rows: Frame, sums: TaskSums) -> Frame:
    """Return the totals of each task's runs, and how many of the known ones passed."""
    tasks = sum_keys(rows, sums.totals)
    known, right = pl.lit(0), pl.lit(0)
    for feature in reversed(sums.judged):
        some = pl.col(_count(feature)) > 0
        known = pl.when(some).then(pl.col(_count(feature))).otherwise(known)
        right = pl.when(some).then(pl.col(_sum(feature))).otherwise(right)
    return tasks.with_columns(
        known.cast(pl.Int64).alias(VERDICTS), right.cast(pl.Int64).alias(PASSES)
    )


def _declare_totals(features: Collection[Feature], *, in_full: bool) -> Aggregate:
    totals = {ID: pl.col(ID).first()}  # it is the same in all
    for feature in _JUDGED:
        totals |= declare_sums(feature).totals if feature in features else {}
    if cost_of_pass in features:
        totals |= COSTS_OF_PASSES
    totals |= _declare_columns(features) if in_full else {}
    return Aggregate(
        features=(), keys=(TASK,), where=lambda: ~pl.col(TASK).is_null(), totals=totals
    )


def _declare_columns(features: Collection[Feature]) -> dict[str, pl.Expr]:
    """Return the totals that nothing but a task's row in a file is made of."""
    failed = pl.col(FAILED).cast(pl.Int64)
    totals = {RUNS: (1 - failed).sum(), ERRORS: failed.sum()}
    for feature in _AVERAGED:
        totals |= declare_sums(feature).totals if feature in features else {}
    if same_input in features:
        totals[same_input.name] = pl.col(same_input.name).min()
    if cost_usd in features:
        cost = pl.col(cost_usd.name)
        totals |= {"cost_usd__min": cost.min(), "cost_usd__max": cost.max()}
    return totals


def _count(feature: Feature) -> str:
    return f"{feature.name}__n"


def _sum(feature: Feature) -> str:
    return f"{feature.name}__sum"


def add_answers(tasks: Frame, rows: Frame, sums: TaskSums) -> Frame:
    """Return the totals with the share of each repeated task's runs that give its top answer."""
    if sums.answers is None:
        return tasks
    shares = measure_agreement(sum_keys(rows, sums.answers)).select(GROUP, TASK, _AGREED)
    return tasks.join(shares, on=[GROUP, TASK], how="left")


def list_task_columns(plan: Plan) -> list[str]:
    """Return the columns of the compact table from which a row per task is made."""
    used = {*_JUDGED, *_AVERAGED, cost_of_pass, answer_key, same_input}.intersection(plan.features)
    return [GROUP, TASK, FAILED, ID, *sorted(feature.name for feature in used)]


def count_flaky(tasks: Frame) -> Frame:
    """Return each group's tasks, those with two known runs or more, and the flaky ones."""
    known, right = pl.col(VERDICTS), pl.col(PASSES)
    flags = {REPEATED_TASKS: known >= _AT_LEAST, FLAKY: (right > 0) & (right < known)}
    return (
        tasks.with_columns(**{name: flag.cast(pl.Int64) for name, flag in flags.items()})
        .group_by(GROUP)
        .agg(pl.len().cast(pl.Int64).alias(TASKS), *(pl.col(name).sum() for name in flags))
    )


def count_single(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the same of tasks of one row each, none of which is flaky."""
    none = (pl.lit(0, pl.Int64).alias(name) for name in (REPEATED_TASKS, FLAKY))
    counted = rows.group_by(GROUP).agg(pl.len().cast(pl.Int64).alias(TASKS))
    return counted.with_columns(none).sort(GROUP)


def find_flakiest(tasks: Frame) -> Frame:
    """Return the few tasks whose runs pass and fail most evenly, those with more runs first."""
    known, right = pl.col(VERDICTS), pl.col(PASSES)
    uneven = ((2 * right - known) * (2 * right - known)).cast(pl.Float64) / (known * known)
    return (
        tasks.filter((right > 0) & (right < known))
        .with_columns(_uneven=uneven, _fewer=-known)
        .sort("_uneven", "_fewer", GROUP, ID)
        .head(FLAKIEST)
        .select(GROUP, ID, VERDICTS, PASSES)
    )


def price_tasks(tasks: Frame) -> Frame | None:
    """Return each task's cost of pass in its group; null if it passed at unknown cost only.

    Tasks whose outcome is not known, or that failed at unknown cost only, are not there.
    """
    if _count(cost_of_pass) not in tasks.collect_schema().names():
        return None
    spent, passes = pl.col("cost_of_pass__cost"), pl.col("cost_of_pass__passes")
    some = pl.when(passes > 0).then(passes).otherwise(1)
    solved = pl.col(_sum(passed)) > 0
    cost = pl.when(passes > 0).then(spent / some).otherwise(pl.when(~solved).then(pl.lit(inf)))
    known = tasks.filter((pl.col(_count(cost_of_pass)) > 0) | solved)
    return known.select(ID, GROUP, cost.alias(cost_of_pass.name))


def list_run_columns(plan: Plan, rows: int) -> list[str] | None:
    """Return the columns kept of each run to compare tiers by task; None with too many runs.

    Nor where tasks depend on each other: then totals tell more.
    """
    if not plan.medians or rows > MOST_RUNS or plan.cluster is not None:
        return None
    return [GROUP, ID, composite_score.name]


def sort_runs(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that have the value, in an order independent of how they were read."""
    return runs.drop_nulls(composite_score.name).sort(GROUP, composite_score.name, ID)


def finish_columns(totals: pl.LazyFrame) -> Iterator[pl.Expr]:
    """Yield the columns of a row per task over the totals: those that any task has a value for."""
    names = totals.collect_schema().names()
    present = _find_present(totals, names)
    yield from (pl.col(ID), pl.col(RUNS), pl.col(ERRORS))
    if passed.name in present:
        some = pl.col(_count(passed)) > 0
        yield pl.when(some).then(pl.col(_sum(passed)).cast(pl.Int64)).alias("passes")
        yield _average(passed).alias("pass_rate")
    if correct.name in present:
        yield _average(correct).alias("accuracy")
    yield from _measure_agreement(present)
    for feature in _AVERAGED:
        if feature.name in present:
            yield _average(feature).alias(feature.name)
            if feature is cost_usd:
                yield pl.col("cost_usd__min").alias("cost_usd_min")
                yield pl.col("cost_usd__max").alias("cost_usd_max")
    if cost_of_pass.name in present:
        spent, passes = pl.col("cost_of_pass__cost"), pl.col("cost_of_pass__passes")
        solved = pl.col(_sum(passed)) > 0  # at unknown cost: null, and not infinite
        ratio = pl.when(passes > 0).then(spent / passes).when(~solved).then(inf)
        yield pl.when(pl.col(_count(cost_of_pass)) > 0).then(ratio).alias("cost_of_pass")
    if _AGREED in present:
        yield pl.col(_AGREED).alias("most_common_answer_share")


def _find_present(totals: pl.LazyFrame, names: Collection[str]) -> set[str]:
    """Return the features, and the agreement on answers, that at least one task has."""
    features = (*_JUDGED, *_AVERAGED, cost_of_pass)
    counts = {each.name: pl.col(_count(each)).sum() for each in features if _count(each) in names}
    counts |= {_AGREED: pl.col(_AGREED).count()} if _AGREED in names else {}
    if not counts:
        return set()
    found = totals.select(**counts).collect().row(0, named=True)
    return {name for name, count in found.items() if count}


def _average(feature: Feature) -> pl.Expr:
    count = pl.col(_count(feature))
    return pl.when(count > 0).then(pl.col(_sum(feature)) / count)


def _measure_agreement(present: Collection[str]) -> Iterator[pl.Expr]:
    """Yield how far the runs of a task agree: on passing, on being right, or on the answer."""
    known, right = pl.col(VERDICTS), pl.col(PASSES)
    most = pl.max_horizontal(right, known - right) / known
    same: pl.Expr = pl.when(known >= _AT_LEAST).then(most)
    judged = any(feature.name in present for feature in _JUDGED)
    if _AGREED in present:
        same = pl.when(known == 0).then(_AGREED).otherwise(same)
    if judged or _AGREED in present:
        yield same.alias("consistency")
    if judged:
        yield pl.when(known > 0).then((right > 0) & (right < known)).alias("flaky")

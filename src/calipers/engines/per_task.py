"""A row per task: totals over its runs.

`finish_columns` turns the totals into the columns that `--per-task` writes. A task is flaky when
some of its runs pass and some fail; whether a run passed is its `passed`, or `correct` in tasks
without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import inf

import polars as pl

from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.plan import FAILED, Plan
from calipers.engines.store import GroupedRows
from calipers.engines.tasks import TaskCounts
from calipers.engines.totals import ERRORS, add_totals, sum_keys, sum_tables
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
_KNOWN, _RIGHT = pl.col(VERDICTS), pl.col(PASSES)
_IS_FLAKY = (_RIGHT > 0) & (_RIGHT < _KNOWN)


def _hash_input(_: object) -> pl.Expr:
    text = pl.col("input").str.strip_chars()
    return pl.when(text != "").then(text.hash().reinterpret(signed=True))


same_input = Feature(
    name="_same_input", reads=("input",), dtype=pl.Int64(), expression=_hash_input, listed=False
)


@dataclass(frozen=True)
class TaskSums:
    """What is added up of each task's runs; declared once, where features are known by identity."""

    totals: Aggregate
    judged: tuple[Feature, ...]  # what says whether a run passed, the first that is known
    answers: Aggregate | None  # counts a task's answers, where these are wanted


def declare_task_sums(plan: Plan, *, in_full: bool) -> TaskSums:
    """Return what is added up of each task's runs under a plan; in full for a row in a file."""
    features = plan.features
    judged = tuple(each for each in _JUDGED if each in features)
    averaged = tuple(each for each in _AVERAGED if in_full and each in features)
    totals = {ID: pl.col(ID).first()}  # it is the same in all
    for feature in (*judged, *averaged):
        totals |= declare_sums(feature).totals
    if cost_of_pass in features:
        totals |= COSTS_OF_PASSES
    if in_full:
        failed = pl.col(FAILED).cast(pl.Int64)
        totals |= {RUNS: (1 - failed).sum(), ERRORS: failed.sum()}
        if same_input in features:
            totals[same_input.name] = pl.col(same_input.name).min()
        if cost_usd in features:
            cost = pl.col(cost_usd.name)
            totals |= {"cost_usd__min": cost.min(), "cost_usd__max": cost.max()}
    known = Aggregate(
        features=(), keys=(TASK,), where=lambda: ~pl.col(TASK).is_null(), totals=totals
    )
    answered = in_full and answer_key in features and correct in features
    return TaskSums(known, judged, ANSWERS if answered else None)


def sum_tasks(rows: Frame, sums: TaskSums) -> Frame:
    """Return the totals of each task's runs, and how many of the known ones passed.

    With the share of a repeated task's runs that give its top answer, where that is wanted.
    """
    tasks = sum_keys(rows, sums.totals)
    known, right = pl.lit(0), pl.lit(0)
    for feature in reversed(sums.judged):
        some = pl.col(_count(feature)) > 0
        known = pl.when(some).then(pl.col(_count(feature))).otherwise(known)
        right = pl.when(some).then(pl.col(_sum(feature))).otherwise(right)
    tasks = tasks.with_columns(
        known.cast(pl.Int64).alias(VERDICTS), right.cast(pl.Int64).alias(PASSES)
    )
    if sums.answers is None:
        return tasks
    shares = measure_agreement(sum_keys(rows, sums.answers)).select(GROUP, TASK, _AGREED)
    return tasks.join(shares, on=[GROUP, TASK], how="left")


def _count(feature: Feature) -> str:
    return f"{feature.name}__n"


def _sum(feature: Feature) -> str:
    return f"{feature.name}__sum"


def list_task_columns(plan: Plan) -> list[str]:
    """Return the columns of the compact table from which a row per task is made."""
    used = {*_JUDGED, *_AVERAGED, cost_of_pass, answer_key, same_input}.intersection(plan.features)
    return [GROUP, TASK, FAILED, ID, *sorted(feature.name for feature in used)]


def count_flaky(tasks: Frame) -> Frame:
    """Return each group's tasks, those with two known runs or more, and the flaky ones."""
    flags = {REPEATED_TASKS: _KNOWN >= _AT_LEAST, FLAKY: _IS_FLAKY}
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
    apart = 2 * _RIGHT - _KNOWN
    uneven = (apart * apart).cast(pl.Float64) / (_KNOWN * _KNOWN)
    return (
        tasks.filter(_IS_FLAKY)
        .with_columns(_uneven=uneven, _fewer=-_KNOWN)
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
    known = tasks.filter((pl.col(_count(cost_of_pass)) > 0) | (pl.col(_sum(passed)) > 0))
    return known.select(ID, GROUP, _express_cost_of_pass().alias(cost_of_pass.name))


def _express_cost_of_pass() -> pl.Expr:
    """Return the cost per pass: infinite without a pass, null if it passed at unknown cost only."""
    spent, passes = pl.col("cost_of_pass__cost"), pl.col("cost_of_pass__passes")
    solved = pl.col(_sum(passed)) > 0
    return pl.when(passes > 0).then(spent / passes).when(~solved).then(inf)


def gather_runs(rows: GroupedRows, plan: Plan) -> pl.DataFrame | None:
    """Return each run's task and composite, to compare tiers by task; None with too many runs.

    Nor where tasks depend on each other: then totals tell more. The order does not depend on how
    the runs were read.
    """
    if not plan.medians or rows.rows > MOST_RUNS or plan.cluster is not None:
        return None
    value = composite_score.name
    runs = rows.codes.decode_groups(pl.concat(rows.parts([GROUP, ID, value])))
    return runs.drop_nulls(value).sort(GROUP, value, ID)


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
        is_known = pl.col(_count(cost_of_pass)) > 0
        yield pl.when(is_known).then(_express_cost_of_pass()).alias("cost_of_pass")
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
    most = pl.max_horizontal(_RIGHT, _KNOWN - _RIGHT) / _KNOWN
    same: pl.Expr = pl.when(_KNOWN >= _AT_LEAST).then(most)
    judged = any(feature.name in present for feature in _JUDGED)
    if _AGREED in present:
        same = pl.when(_KNOWN == 0).then(_AGREED).otherwise(same)
    if judged or _AGREED in present:
        yield same.alias("consistency")
    if judged:
        yield pl.when(_KNOWN > 0).then(_IS_FLAKY).alias("flaky")


class TaskTables:
    """Tables over tasks that are added up part by part; their rows go to a file if it is wanted."""

    def __init__(self, plan: Plan, sinks: Sinks | None) -> None:
        self._plan = plan
        self._sinks = sinks if sinks is not None and sinks.wants_tasks else None
        self._sums = declare_task_sums(plan, in_full=self._sinks is not None)
        self._wants_each = self._sinks is not None or cost_of_pass in plan.features
        self._counts: list[pl.DataFrame] = []
        self._flakiest: list[pl.DataFrame] = []
        self._attempts: list[pl.DataFrame] = []

    def add(self, rows: GroupedRows) -> None:
        """Take the tasks of rows that have all runs of each in one part."""
        sums, codes, are_single = self._sums, rows.codes, rows.are_tasks_single

        def tasks_of(part: pl.DataFrame) -> list[pl.DataFrame]:
            counts = TaskCounts(part, are_single=are_single)
            single = counts.single.clear() if self._wants_each else counts.single
            frame = (part if self._wants_each else counts.repeated).lazy()
            tables = _collect(sum_tasks(frame, sums)).sort(TASK), count_single(single)
            return [codes.decode_groups(table) for table in tables]

        for tasks, single in rows.map_parts(tasks_of, list_task_columns(self._plan)):
            frame = tasks.lazy()
            self._counts += [_collect(count_flaky(frame)), single]
            self._flakiest.append(_collect(find_flakiest(frame)))
            if (costs := price_tasks(frame)) is not None:
                self._attempts.append(_collect(costs))
            if self._sinks is not None:
                self._sinks.take_tasks(tasks)

    def complete(self, outcome: Outcome, rows: GroupedRows) -> Outcome:
        """Return the outcome with what was found; of few rows, with the runs themselves."""
        add_totals(outcome.groups, sum_tables(self._counts, [GROUP]))
        return replace(
            outcome,
            flakiest=_collect(find_flakiest(pl.concat(self._flakiest).lazy())),
            attempts=pl.concat(self._attempts) if self._attempts else None,
            runs=gather_runs(rows, self._plan),
        )


def _collect(frame: Frame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")

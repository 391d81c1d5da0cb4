"""A row per task: totals over its runs, its worth as an item of a test, and the file of rows.

`finish_columns` turns the totals into the columns that `--per-task` writes. A task is flaky when
some of its runs pass and some fail; whether a run passed is its `passed`, or `correct` in tasks
without. The rest is over the systems that have the task, and the same in each of its rows. A system
is a group, and its score on a task is the share of its runs that passed (or were right):

- `difficulty`: 1 minus the mean of their scores;
- `discrimination`: the correlation between their scores and their means over all other tasks (the
  item-rest point-biserial), null for fewer than five systems, or where either does not vary;
- `solved_by`: nobody, some or everybody, over all runs;
- `duplicate_of`: the first id whose input is the same text.

The file is written beside its place and moved there when whole, or becomes a table of Spark's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import polars as pl

from calipers.engines.group_totals import add_totals
from calipers.engines.item_counts import FEWEST_SYSTEMS, Items
from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.plan import FAILED, Plan
from calipers.engines.store import GroupedRows
from calipers.engines.totals import ERRORS, TaskCounts, sum_keys, sum_tables
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Aggregate, Feature, Frame
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.families.answers import answer_key, correct
from calipers.metrics.families.cost import (
    COSTS_OF_PASSES,
    composite_score,
    cost_of_pass,
    cost_usd,
    duration_seconds,
    impl_rate,
)
from calipers.metrics.families.repeated_runs import ANSWERS, measure_agreement
from calipers.metrics.families.scenarios import passed
from calipers.records.sinks import check_table_place, find_table, write_lines
from calipers.support.files import stage_file

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
    judged = tuple(name for name in _JUDGED if name in features)
    averaged = tuple(name for name in _AVERAGED if in_full and name in features)
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
        some = pl.col(_name_count(feature)) > 0
        known = pl.when(some).then(pl.col(_name_count(feature))).otherwise(known)
        right = pl.when(some).then(pl.col(_name_sum(feature))).otherwise(right)
    tasks = tasks.with_columns(
        known.cast(pl.Int64).alias(VERDICTS), right.cast(pl.Int64).alias(PASSES)
    )
    if sums.answers is None:
        return tasks
    shares = measure_agreement(sum_keys(rows, sums.answers)).select(GROUP, TASK, _AGREED)
    return tasks.join(shares, on=[GROUP, TASK], how="left")


def _name_count(feature: Feature) -> str:
    return f"{feature.name}__n"


def _name_sum(feature: Feature) -> str:
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
    if _name_count(cost_of_pass) not in tasks.collect_schema().names():
        return None
    known = tasks.filter((pl.col(_name_count(cost_of_pass)) > 0) | (pl.col(_name_sum(passed)) > 0))
    return known.select(ID, GROUP, _express_cost_of_pass().alias(cost_of_pass.name))


def _express_cost_of_pass() -> pl.Expr:
    """Return the cost per pass: infinite without a pass, null if it passed at unknown cost only."""
    spent, passes = pl.col("cost_of_pass__cost"), pl.col("cost_of_pass__passes")
    solved = pl.col(_name_sum(passed)) > 0
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
        some = pl.col(_name_count(passed)) > 0
        yield pl.when(some).then(pl.col(_name_sum(passed)).cast(pl.Int64)).alias("passes")
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
        is_known = pl.col(_name_count(cost_of_pass)) > 0
        yield pl.when(is_known).then(_express_cost_of_pass()).alias("cost_of_pass")
    if _AGREED in present:
        yield pl.col(_AGREED).alias("most_common_answer_share")


def _find_present(totals: pl.LazyFrame, names: Collection[str]) -> set[str]:
    """Return the features, and the agreement on answers, that at least one task has."""
    features = (*_JUDGED, *_AVERAGED, cost_of_pass)
    counts = {
        feature.name: pl.col(_name_count(feature)).sum()
        for feature in features
        if _name_count(feature) in names
    }
    counts |= {_AGREED: pl.col(_AGREED).count()} if _AGREED in names else {}
    if not counts:
        return set()
    counted = totals.select(**counts).collect().row(0, named=True)
    return {name for name, count in counted.items() if count}


def _average(feature: Feature) -> pl.Expr:
    count = pl.col(_name_count(feature))
    return pl.when(count > 0).then(pl.col(_name_sum(feature)) / count)


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


DIFFICULTY, DISCRIMINATION = "difficulty", "discrimination"
SOLVED_BY, DUPLICATE_OF = "solved_by", "duplicate_of"
NOBODY, SOME, EVERYBODY = "nobody", "some", "everybody"
_SCORE, _REST = "_score", "_rest"
_SAME = 1e-9  # what rounding may leave of scores that are all the same


def add_items(totals: pl.LazyFrame) -> tuple[pl.LazyFrame, list[str]]:
    """Return totals of each group's tasks with the numbers of items, and the names of these."""
    names = []
    has_inputs = same_input.name in totals.collect_schema().names()
    known = [pl.col(VERDICTS).sum(), *([pl.col(same_input.name).count()] if has_inputs else [])]
    verdicts, *inputs = totals.select(known).collect().row(0)
    if verdicts:
        totals = _add_statistics(totals)
        names += [DIFFICULTY, DISCRIMINATION, SOLVED_BY]
    if any(inputs):
        first = pl.col(ID).min().over(same_input.name)
        is_copy = pl.col(same_input.name).is_not_null() & (first != pl.col(ID))
        totals = totals.with_columns(pl.when(is_copy).then(first).alias(DUPLICATE_OF))
        names += [DUPLICATE_OF]
    return totals, names


def _add_statistics(totals: pl.LazyFrame) -> pl.LazyFrame:
    known, right, score = pl.col(VERDICTS), pl.col(PASSES), pl.col(_SCORE)
    others = score.count().over(GROUP) - 1
    rest = pl.when(others > 0).then((score.sum().over(GROUP) - score) / others)
    scored = totals.with_columns(pl.when(known > 0).then(right / known).alias(_SCORE))
    scored = scored.with_columns(rest.alias(_REST))
    all_right, all_known = right.sum().over(ID), known.sum().over(ID)
    solved = (
        pl.when(all_known == 0)
        .then(None)
        .when(all_right == 0)
        .then(pl.lit(NOBODY))
        .when(all_right == all_known)
        .then(pl.lit(EVERYBODY))
        .otherwise(pl.lit(SOME))
    )
    return scored.with_columns(
        (1 - score.mean().over(ID)).alias(DIFFICULTY),
        _correlate(score, pl.col(_REST)).alias(DISCRIMINATION),
        solved.alias(SOLVED_BY),
    ).drop(_SCORE, _REST)


def _correlate(score: pl.Expr, rest: pl.Expr) -> pl.Expr:
    """Return Pearson's correlation over the systems of a task; null where it says nothing."""
    both = score.is_not_null() & rest.is_not_null()
    one, other = pl.when(both).then(score), pl.when(both).then(rest)
    varies = pl.lit(value=True)
    for values in (one, other):
        varies = varies & ((values.max() - values.min()).over(ID) > _SAME)
    left, right = one - one.mean().over(ID), other - other.mean().over(ID)
    together = (left * right).sum().over(ID)
    spread = ((left * left).sum().over(ID) * (right * right).sum().over(ID)).sqrt()
    is_known = varies & (one.count().over(ID) >= FEWEST_SYSTEMS)
    return pl.when(is_known).then((together / spread).clip(-1, 1))


def count_items(rows: pl.LazyFrame, systems: int) -> Items:
    """Return how many different tasks have each flag; `systems` is how many groups there are."""
    there = rows.collect_schema().names()
    flags = [name for name in (SOLVED_BY, DUPLICATE_OF) if name in there]
    tasks = rows.group_by(ID).agg(pl.col(flags).drop_nulls().first()).sort(ID).collect()
    solved = tasks[SOLVED_BY] if SOLVED_BY in there else pl.Series([], dtype=pl.String)
    copies = []
    if DUPLICATE_OF in there:
        copies = tasks.drop_nulls(DUPLICATE_OF).select(ID, DUPLICATE_OF).rows()
    return Items(
        tasks=tasks.height,
        systems=systems,
        nobody=int((solved == NOBODY).sum()),
        everybody=int((solved == EVERYBODY).sum()),
        duplicates=len(copies),
        examples=tuple(copies[:3]),
    )


_PLACE = "_place"  # of a task's group among the groups
_BY = "_by_"  # before the name of a group field: the totals may have a column of that name


class TaskFile:
    """Totals of tasks go in, in any order; the file comes out sorted by group and id."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self._folder = folder
        self._parts = 0

    def add(self, totals: pl.DataFrame) -> None:
        """Keep the totals of some tasks."""
        if totals.height:
            totals.write_parquet(self._folder / f"{self._parts:08}.parquet", compression="lz4")
            self._parts += 1

    def write(self, groups: Mapping[str, Mapping[str, Any]]) -> Items:
        """Write the file; `groups` are the fields of each group, in the order to show them.

        Return what the tasks are worth as items of a test.
        """
        rows = self._rows(_list_groups(groups))
        if (name := find_table(self.path)) is not None:
            from calipers.engines.spark.spark_output import save_parquet  # noqa: PLC0415 (an extra)

            table = self._folder / "sorted.parquet"
            rows.sink_parquet(table)
            save_parquet(table, name, option="--per-task")
            return count_items(pl.scan_parquet(table), len(groups))
        with stage_file(self.path) as beside:
            is_text = self.path.suffix == ".jsonl"
            table = self._folder / "sorted.parquet" if is_text else beside
            rows.sink_parquet(table)
            if is_text:
                write_lines(pl.scan_parquet(table), beside)
            return count_items(pl.scan_parquet(table), len(groups))

    def _rows(self, groups: pl.DataFrame) -> pl.LazyFrame:
        if not self._parts:
            empty = {ID: pl.String(), RUNS: pl.Int64(), ERRORS: pl.Int64()}
            return pl.LazyFrame(schema=empty)
        totals = pl.scan_parquet(self._folder / "*.parquet")
        totals, items = add_items(totals)
        values = {
            expression.meta.output_name(): expression for expression in finish_columns(totals)
        }
        values |= {name: pl.col(name) for name in items}
        fields = (name.removeprefix(_BY) for name in groups.columns if name.startswith(_BY))
        named = {
            f"by_{name}" if name in values else name: pl.col(f"{_BY}{name}")
            for name in fields
            if name != ID
        }
        ordered = totals.join(groups.lazy(), on=GROUP).sort(_PLACE, ID)
        rows = ordered.select(values.pop(ID), **named, **values)
        if "cost_of_pass" not in values or groups.height == 1:
            return rows
        cost = pl.col("cost_of_pass")
        solved = pl.col("pass_rate") > 0 if "pass_rate" in values else pl.lit(value=False)
        unknown = (cost.is_null() & solved).fill_null(value=False).any().over(ID)
        best = cost.min().over(ID)
        best = pl.when(~(best.is_infinite() & unknown)).then(best)
        on = pl.when(cost.is_not_null()).then(cost.is_finite() & (cost == best))
        return rows.with_columns(frontier_cost_of_pass=best, on_frontier=on)


def _list_groups(groups: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row per group: its text, its place, its fields."""
    rows = [
        {GROUP: text, _PLACE: place} | {f"{_BY}{name}": value for name, value in by.items()}
        for place, (text, by) in enumerate(groups.items())
    ]
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


@contextmanager
def open_task_file(path: Path | None) -> Iterator[TaskFile | None]:
    """Open a folder for the parts of the file, if one is asked for."""
    if path is None:
        yield None
        return
    if find_table(path) is None:
        check_table_place(path, "--per-task")
    with tempfile.TemporaryDirectory(prefix="calipers-") as folder:
        yield TaskFile(path, Path(folder))

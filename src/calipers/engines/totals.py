"""Output of an engine: every group's totals, by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from calipers.engines.plan import FAILED, FAILURE, IDENTITY, TRUNCATED, Plan
from calipers.metrics.cost.tiers import TIER
from calipers.metrics.declare.columns import sum_by_group
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Rank,
    Step,
    TaskValues,
    name_kept_total,
)
from calipers.metrics.declare.description import list_positions
from calipers.metrics.declare.intervals import SIZES, name_size_total, read_spread
from calipers.statistics.intervals import effective_size, quantile_ranks

RECORDS = "records"
ERRORS = "errors"
TRUNCATED_REPLIES = "truncated"
FAILURES = "failures"  # failed calls that count as such
REPEATED = "repeated_identity"

_TASKS, _ALIKE = "_tasks", "_alike"
_FEW = 500_000  # so many rows more may wait to be added up

GroupTotals = dict[str, dict[str, float]]


def list_housekeeping(plan: Plan) -> tuple[Aggregate, ...]:
    """Return what every run counts: records, failed calls, repeated ids."""
    counted = Aggregate(
        features=(),
        totals={
            RECORDS: nw.len().cast(nw.Int64),
            ERRORS: nw.col(FAILED).cast(nw.Int64).sum(),
            TRUNCATED_REPLIES: nw.col(TRUNCATED).cast(nw.Int64).sum(),
            **({FAILURES: nw.col(FAILURE).cast(nw.Int64).sum()} if plan.counts_failures else {}),
            **{
                rank.count_name: nw.col(rank.feature.name).count().cast(nw.Int64)
                for rank in plan.ranks
            },
        },
    )
    identities = Aggregate(
        features=(),
        keys=(TASK, IDENTITY),
        where=lambda: ~nw.col(TASK).is_null(),
        totals={"n": nw.len().cast(nw.Int64)},
        finish=(_count_repeated,),
    )
    return counted, identities


def _count_repeated(identities: Frame) -> Frame:
    return (
        identities.filter(nw.col("n") > 1)
        .group_by(GROUP)
        .agg((nw.col("n") - 1).sum().alias(REPEATED))
    )


def sum_keys(rows: Frame, aggregate: Aggregate, by: Sequence[str] | None = None) -> Frame:
    """Return the first step of an aggregate: totals per group and key, or by some of these."""
    if aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    named = [total.alias(name) for name, total in aggregate.totals.items()]
    if by is not None:
        return rows.group_by(*by).agg(*named)
    return sum_within_groups(rows, *aggregate.keys, totals=named)


def sum_within_groups(rows: Frame, *keys: str, totals: Sequence[nw.Expr]) -> Frame:
    """Return totals per group and key; a task or a cluster belongs to one group.

    Quickest where the rows are in the order of their groups, or of their tasks.
    """
    if TASK in keys or CLUSTER in keys:
        return rows.group_by(*keys).agg(nw.col(GROUP).min(), *totals)
    return rows.group_by(GROUP, *keys).agg(*totals)


def merge_aggregates(aggregates: Iterable[Aggregate], plan: Plan) -> list[Aggregate]:
    """Return aggregates without keys as one, for one pass; likewise those that count alike.

    The one carries the variance of each feature whose mean is wanted; `pooled` puts them together.
    """
    aggregates = list(aggregates)
    plain = dict(merge_plain(aggregates).totals)
    for name in _list_averaged(plan):
        plain[_name_variance(name)] = nw.col(name).cast(nw.Float64).var(ddof=0)
    alike: dict[Any, Aggregate] = {}
    for each in aggregates:
        if each.keys:
            same = (each.keys, each.where, id(each.totals)) if each.tasks else each
            tasks = alike[same].tasks if same in alike else ()
            alike[same] = replace(each, tasks=(*tasks, *each.tasks)) if tasks else each
    return [Aggregate(features=(), totals=plain), *alike.values()]


def merge_plain(aggregates: Iterable[Aggregate]) -> Aggregate:
    """Return the totals of all aggregates without keys."""
    plain = (each.totals for each in aggregates if not each.keys)
    return Aggregate(
        features=(), totals={name: total for one in plain for name, total in one.items()}
    )


def pool_parts(parts: Iterable[pl.DataFrame], plan: Plan) -> pl.DataFrame:
    """Return the sum of the parts' totals, and Σ (x − mean)² of each averaged feature."""
    rows = pl.concat(parts)
    names = _list_averaged(plan)
    sums = sum_tables([rows.drop(_name_variance(name) for name in names)], [GROUP])
    means = sums.select(
        GROUP,
        *(
            (pl.col(f"{name}__sum") / pl.col(f"{name}__n")).alias(_name_mean(name))
            for name in names
        ),
    )
    squares = [
        (
            pl.col(f"{name}__n")
            * (
                pl.col(_name_variance(name))
                + (pl.col(f"{name}__sum") / pl.col(f"{name}__n") - pl.col(_name_mean(name))) ** 2
            )
        ).alias(f"{name}__squares")
        for name in names
    ]
    around = rows.join(means, on=GROUP, maintain_order="left").select(GROUP, *squares)
    around = around.with_columns(pl.exclude(GROUP).fill_nan(None))
    return sums.join(sum_tables([around], [GROUP]), on=GROUP, maintain_order="left")


def _list_averaged(plan: Plan) -> list[str]:
    of_means = (influence.feature for influence in plan.influences)
    features = (*(feature for feature in of_means if feature is not None), *plan.described)
    return list(dict.fromkeys(feature.name for feature in features))


def _name_variance(name: str) -> str:
    return f"{name}__variance"


def _name_mean(name: str) -> str:
    return f"{name}__mean"


def add_kept(groups: GroupTotals, table: pl.DataFrame, aggregate: Aggregate) -> None:
    """Put each key's totals into the groups', under the key; the keys are few."""
    prefix, [key] = aggregate.kept_as, aggregate.keys
    assert prefix is not None
    for row in table.iter_rows(named=True):
        totals = groups.setdefault(row[GROUP], {})
        totals |= {name_kept_total(prefix, row[key], name): row[name] for name in aggregate.totals}


def add_totals(groups: GroupTotals, table: pl.DataFrame) -> None:
    """Put a table with one row per group into the groups' totals."""
    for row in table.iter_rows(named=True):
        totals = groups.setdefault(row.pop(GROUP), {})
        totals.update((name, 0 if total is None else total) for name, total in row.items())


class Sum:
    """Additive tables, added up as they come: never many more rows are held than it has."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._held: list[pl.DataFrame] = []
        self._added_up = 0

    def add(self, table: pl.DataFrame) -> None:
        """Take one more."""
        self._held.append(table)
        if sum(each.height for each in self._held) > 2 * self._added_up + _FEW:
            self._held = [self._sum()]
            self._added_up = self._held[0].height

    @property
    def table(self) -> pl.DataFrame:
        """A row per key, always in the same order."""
        return self._sum().sort(self._keys)

    def _sum(self) -> pl.DataFrame:
        by_key = pl.concat(self._held).group_by(self._keys, maintain_order=True)
        return by_key.agg(pl.exclude(self._keys).sum())


def sum_tables(tables: Iterable[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """Return the sum of additive tables, a row per key, always in the same order."""
    sums = Sum(keys)
    for table in tables:
        sums.add(table)
    return sums.table


def count_alike(tasks: Frame, aggregate: Aggregate) -> Frame:
    """Return tasks of equal totals counted, so that what follows is computed once.

    For tasks that are clusters of their own, and totals per task alone.
    """
    return tasks.group_by(GROUP, *aggregate.totals).agg(nw.len().cast(nw.Int64).alias(_ALIKE))


def count_alike_rows(rows: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return the same of rows that are tasks of their own: those of equal values are one task."""
    values = [GROUP, *(feature.name for feature in aggregate.features)]
    counted = rows.lazy().group_by(values).agg(pl.len().cast(pl.Int64).alias(_ALIKE))
    alike = counted.collect(engine="streaming").sort(values)  # counts are the same in any order
    alike = alike.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(TASK))
    totals: pl.LazyFrame = sum_keys(nw.from_native(alike.lazy()), aggregate).to_native()
    joined = totals.join(alike.lazy().select(TASK, _ALIKE), on=TASK)
    return joined.group_by(GROUP, *aggregate.totals).agg(pl.col(_ALIKE).sum()).collect()


def are_counted_alike(aggregate: Aggregate, plan: Plan) -> bool:
    """Say whether `count_alike` may replace its tasks."""
    return plan.cluster is None and aggregate.keys == (TASK,)


def make_task_steps(values: TaskValues) -> tuple[Step, Step]:
    """Return the steps from a row per task to one per cluster, and on to totals per group.

    Where the tasks carry no cluster, each is one of its own.
    """
    names = values.values

    def sum_clusters(tasks: Frame) -> Frame:
        columns = tasks.collect_schema().names()
        tasks = tasks.with_columns(nw.lit(1.0).alias(_TASKS), nw.col(*names).cast(nw.Float64))
        if CLUSTER in columns:  # which parts of a table may share: what is kept adds up
            return tasks.group_by(GROUP, CLUSTER).agg(nw.col(RUNS, _TASKS, *names).sum())
        counted = nw.col(_ALIKE) if _ALIKE in columns else nw.lit(1)
        return tasks.select(GROUP, RUNS, _TASKS, *names, counted.alias(_ALIKE))

    def sum_groups(clusters: Frame) -> Frame:
        is_counted = _ALIKE in clusters.collect_schema().names()
        return sum_by_group(clusters, partial(_express_task_totals, values, is_counted=is_counted))

    return sum_clusters, sum_groups


def _express_task_totals(values: TaskValues, library: Any, *, is_counted: bool) -> dict[str, Any]:
    """Return what tasks or clusters of these add to the totals of their group."""
    size, alike = library.col(_TASKS), library.col(_ALIKE) if is_counted else library.lit(1)
    totals = {
        f"{values.name}__rows": library.col(RUNS),
        f"{values.name}__tasks": size,
        **{name_size_total(values.name, power): size**power for power in SIZES},
        f"{values.name}__clusters": library.lit(1),
    }
    for name in values.values:
        value = library.col(name)
        totals[f"{name}__sum"] = value
        totals[f"{name}__squares"] = value * value
        totals[f"{name}__cross"] = value * size
    return {name: each * alike for name, each in totals.items()}


def add_task_spreads(groups: GroupTotals, plan: Plan) -> None:
    """Add the spread of task clusters around the mean of each value over the tasks."""
    for values in (each for aggregate in plan.aggregates for each in aggregate.tasks):
        for totals in groups.values():
            tasks = totals.get(f"{values.name}__tasks", 0)
            for name in values.values if tasks else ():
                mean = totals[f"{name}__sum"] / tasks
                squares = (
                    totals[f"{name}__squares"]
                    - 2 * mean * totals[f"{name}__cross"]
                    + mean * mean * totals[name_size_total(values.name, 2)]
                )
                rounding = 1e-14 * totals[f"{name}__squares"]
                totals[f"{name}__spread"] = squares / tasks**2 if squares > rounding else 0.0
                totals[f"{name}__clusters"] = totals[f"{values.name}__clusters"]
                totals[f"{name}__size"] = tasks
                for power in SIZES:
                    totals[name_size_total(name, power)] = totals[
                        name_size_total(values.name, power)
                    ]


def locate_ranks(groups: GroupTotals, rank: Rank, confidence: float) -> list[tuple[str, str, int]]:
    """Return each group's position of the rank, and of its bounds if rows are independent."""
    found: list[tuple[str, str, int]] = []
    for group, count in count_values(groups, rank.feature).items():
        found.append((group, rank.value_name, rank.locate(count)))
        found += _locate_bounds(group, rank, count, float(count), confidence)
    return found


def locate_clustered_ranks(
    groups: GroupTotals, rank: Rank, confidence: float
) -> list[tuple[str, str, int]]:
    """Return the positions of the bounds in groups whose rows come in clusters."""
    found: list[tuple[str, str, int]] = []
    for group, count in count_values(groups, rank.feature).items():
        spread, clusters = read_spread(rank.influence.name, groups[group])
        if clusters.count < count:
            for name in (rank.low_name, rank.high_name):
                groups[group].pop(name, None)
            size = effective_size(rank.percent / 100, count, spread, clusters)
            found += _locate_bounds(group, rank, count, size, confidence)
    return found


def adjust_confidence(groups: Collection[str], confidence: float) -> float:
    """Return the confidence of each interval for all tiers of a family to be covered at once.

    Bonferroni's: the families are the groups that differ in nothing but their tier.
    """
    others = (
        json.dumps({name: value for name, value in json.loads(text).items() if name != TIER})
        for text in groups
    )
    largest = max(Counter(others).values(), default=1)
    return 1 - (1 - confidence) / largest


def _locate_bounds(
    group: str, rank: Rank, count: int, size: float, confidence: float
) -> list[tuple[str, str, int]]:
    low, high = quantile_ranks(rank.percent / 100, count, size, confidence)
    found = ((rank.low_name, low), (rank.high_name, high))
    return [(group, name, position) for name, position in found if position is not None]


def locate_described(groups: GroupTotals, feature: Feature) -> list[tuple[str, str, int]]:
    """Return where in each group the statistics of a feature are among its sorted values."""
    return [
        (group, name, position)
        for group, count in count_values(groups, feature).items()
        for name, position in list_positions(feature.name, count).items()
    ]


def count_values(groups: GroupTotals, feature: Feature) -> dict[str, int]:
    """Return how many values of a feature each group has, if any."""
    counts = {group: int(totals.get(f"{feature.name}__n", 0)) for group, totals in groups.items()}
    return {group: count for group, count in counts.items() if count}

"""The engine: totals over the rows that were read, part by part.

Parts are measured in threads here, or in a cluster's workers. The first pass gives all totals that
add up and counts what is needed beside them; ranks and clusters of several rows take further
passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice

import polars as pl

from calipers.engines.cluster_variance import add_spreads, sum_second_pass
from calipers.engines.group_codes import Codes
from calipers.engines.group_totals import (
    GroupTotals,
    add_kept,
    add_totals,
    add_values,
    allow_unknown,
    are_groups_many,
    join_totals,
    list_blocks,
    open_totals,
)
from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.per_task import TaskTables
from calipers.engines.plan import Plan
from calipers.engines.quantiles import (
    RANKED_ROWS,
    Count,
    CountedRanks,
    Positions,
    SortedGroups,
    ValueCounts,
    adjust_confidence,
    count_part,
    locate_clustered_ranks,
    locate_described,
    locate_ranks,
)
from calipers.engines.read_rows import MeasuredRows, list_possible, read_rows
from calipers.engines.store import GroupedRows, MakeTables, map_in_order
from calipers.engines.totals import (
    Sum,
    TaskCounts,
    add_task_spreads,
    apply_steps,
    are_counted_alike,
    collect_sorted,
    count_alike,
    count_alike_rows,
    has_boolean_totals,
    list_housekeeping,
    make_task_steps,
    merge_aggregates,
    pool_parts,
    sum_by_keys,
    sum_tables,
)
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK, Aggregate, Feature
from calipers.records.batch import Source, Wanted

_REPEATED = "_repeated"


@dataclass(frozen=True, kw_only=True)
class FirstPass:
    """What the first pass over the parts gives."""

    groups: GroupTotals  # all additive totals
    keyed_tables: dict[Aggregate, pl.DataFrame]  # of the totals per key; groups are numbers
    counts: dict[Feature, pl.DataFrame]  # of values, by the upper bits of their sort keys; likewise
    repeated: int  # rows of tasks that have several


def sum_first_pass(
    store: GroupedRows,
    plan: Plan,
    modes: Sequence[Aggregate],
    counts: Mapping[Feature, Count],
    *,
    are_many: bool,
) -> FirstPass:
    """Return the additive totals of the groups, in columns if many, and what is counted too."""
    aggregates = merge_aggregates((*list_housekeeping(plan), *plan.aggregates, *modes), plan)
    sums = {
        summed: Sum([GROUP, *summed.keys], are_distinct=True)
        for summed in aggregates
        if _is_kept(summed)
    }
    parts: dict[Aggregate, list[list[pl.DataFrame]]] = {
        summed: [] for summed in aggregates if summed not in sums
    }
    value_counts = ValueCounts(counts)
    repeated = 0
    work = _sum_parts(aggregates, plan, counts, are_single=store.are_tasks_single)
    columns = [name for name in plan.schema if name not in plan.having]
    for made in store.map_parts(work, columns):
        tables_made = iter(made)
        repeated += next(tables_made).item()
        for aggregate in aggregates:
            tables = list(islice(tables_made, _count_tables(aggregate, plan)))
            if aggregate in sums:
                sums[aggregate].add(tables[0])
            else:
                parts[aggregate].append(tables)
        value_counts.add(tables_made)
    keyed_tables = {aggregate: running.table for aggregate, running in sums.items()}
    groups = open_totals(store.codes, are_many=are_many)
    for aggregate, made_of_parts in parts.items():
        for finished in _finish_parts(made_of_parts, aggregate, plan):
            add_totals(groups, finished, store.codes)
    for aggregate, table in keyed_tables.items():
        if aggregate.kept_as is not None:
            add_kept(groups, table, aggregate, store.codes)
        for step in aggregate.finish:
            add_totals(groups, apply_steps(table, step), store.codes)
    return FirstPass(
        groups=groups,
        keyed_tables=keyed_tables,
        counts=value_counts.tables,
        repeated=repeated,
    )


def _is_kept(aggregate: Aggregate) -> bool:
    """Return True if its totals stay apart by key; a task's are finished within its part."""
    return bool(aggregate.keys) and TASK not in aggregate.keys


def _count_tables(aggregate: Aggregate, plan: Plan) -> int:
    """Return how many tables `_sum_part` makes."""
    if TASK not in aggregate.keys:
        return 1
    of_tasks = len(aggregate.tasks)
    return len(aggregate.finish) + (
        min(1, of_tasks) if are_counted_alike(aggregate, plan) else of_tasks
    )


def _sum_parts(
    aggregates: Sequence[Aggregate],
    plan: Plan,
    counts: Mapping[Feature, Count],
    *,
    are_single: bool,
) -> MakeTables:
    """Return what makes a part's tables: its rows of repeated tasks, all totals, and counts."""
    without_repeated: dict[Aggregate, list[pl.DataFrame]] = {}  # the same for every part

    def make_tables(part: pl.DataFrame) -> list[pl.DataFrame]:
        tasks = TaskCounts(part, are_single=are_single)

        def sum_part(aggregate: Aggregate) -> list[pl.DataFrame]:
            if tasks.have_any(aggregate):
                return _sum_part(tasks, aggregate, plan)
            if aggregate not in without_repeated:
                without_repeated[aggregate] = _sum_part(tasks, aggregate, plan)
            return without_repeated[aggregate]

        with ThreadPoolExecutor(2) as pool:
            summed = pool.map(sum_part, aggregates)
            rows = pl.DataFrame({_REPEATED: [tasks.repeated.height]})
            return [rows, *chain.from_iterable(summed), *count_part(part, counts)]

    return make_tables


def _sum_part(tasks: TaskCounts, aggregate: Aggregate, plan: Plan) -> list[pl.DataFrame]:
    """Return a part's tables; finished if the key is a task, which is whole within its part."""
    if TASK not in aggregate.keys:
        return [sum_by_keys(tasks.part, aggregate)]
    alike = bool(aggregate.tasks) and are_counted_alike(aggregate, plan)
    if alike and not aggregate.finish and has_boolean_totals(aggregate):
        return [sum_tables(_count_tasks(tasks, aggregate), [GROUP, *aggregate.totals])]
    table = sum_by_keys(tasks.select(aggregate), aggregate)
    tables = [apply_steps(table, step) for step in aggregate.finish]
    if alike:
        return [*tables, count_alike(table, aggregate)]
    for values in aggregate.tasks:
        per_cluster, per_group = make_task_steps(values)
        table_now = collect_sorted(values.step(table.lazy()))
        if plan.cluster is not None:
            clusters = tasks.part.group_by(TASK).agg(
                pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK))
            )
            table_now = table_now.join(clusters, on=TASK, maintain_order="left")
        steps = (per_cluster,) if plan.cluster is not None else (per_cluster, per_group)
        tables.append(apply_steps(table_now, *steps))
    return tables


def _count_tasks(tasks: TaskCounts, aggregate: Aggregate) -> Iterator[pl.DataFrame]:
    """Yield tasks of equal totals, counted: those of several rows, and those of one."""
    yield count_alike(sum_by_keys(tasks.repeated, aggregate), aggregate)
    if aggregate.every_task:
        yield count_alike_rows(tasks.single, aggregate)


def _finish_parts(
    parts: Sequence[Sequence[pl.DataFrame]], aggregate: Aggregate, plan: Plan
) -> Iterator[pl.DataFrame]:
    """Yield the groups' totals from the finished tables of all parts."""
    if not aggregate.keys:
        yield pool_parts((tables[0] for tables in parts), plan)
        return
    plain = len(aggregate.finish)
    for number, tables in enumerate(zip(*parts, strict=True)):
        if number < plain:
            yield sum_tables(tables, [GROUP])
        elif are_counted_alike(aggregate, plan):
            tasks = sum_tables(tables, [GROUP, *aggregate.totals])
            for values in aggregate.tasks:
                yield apply_steps(tasks, values.step, *make_task_steps(values))
        elif plan.cluster is None:
            yield sum_tables(tables, [GROUP])
        else:
            _, per_group = make_task_steps(aggregate.tasks[number - plain])
            yield apply_steps(sum_tables(tables, [GROUP, CLUSTER]), per_group)


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Read every source once and measure its groups."""
    there = None if sinks.wants_samples else list_possible(sources, wanted, plan)
    least = plan if there is None else plan.restrict(there)
    with read_rows(sources, wanted, least, sinks) as rows:
        outcome = measure(rows, least, sinks)
    return replace(outcome, having={**dict.fromkeys(plan.watched, 0), **outcome.having})


def measure(read: MeasuredRows, plan: Plan, sinks: Sinks | None = None) -> Outcome:
    """Measure rows that were read by the groups, and with the metrics, of a plan."""
    plan = plan.restrict([name for name, count in read.having.items() if count])
    rows = read.group(plan.by)
    parts: list[GroupTotals] = []
    tables = TaskTables(plan, sinks)
    has_repeats = False
    for share, measured, repeated in _sum_shares(rows, plan):
        parts.append(measured)
        has_repeats |= repeated > 0
        if plan.per_task:
            tables.add(share)
    groups = join_totals(parts)
    tallies = {feature.name: read.tally(rows, feature) for feature in plan.tallied}
    outcome = Outcome(groups, read.readings, read.having, has_repeats, tallies=tallies)
    if plan.resamples:
        outcome = outcome.add_resampled(read.resample(rows, plan, groups))
    return tables.complete(outcome, rows) if plan.per_task else outcome


def sum_store(store: GroupedRows, plan: Plan) -> GroupTotals:
    """Return the totals of all groups."""
    return join_totals([measured for _, measured, _ in _sum_shares(store, plan)])


def _sum_shares(store: GroupedRows, plan: Plan) -> Iterator[tuple[GroupedRows, GroupTotals, int]]:
    """Yield rows of some groups at a time, their totals, and how many are of repeated tasks."""
    of_family = any(rank.of_family for rank in plan.ranks)
    level = adjust_confidence(store.groups, plan.confidence) if of_family else plan.confidence
    are_many = are_groups_many(store.codes)

    def sum_share(share: GroupedRows) -> tuple[GroupedRows, GroupTotals, int]:
        return share, *_sum_groups(share, plan, level, are_many=are_many)

    return map_in_order(sum_share, store.split_groups(), threads=2)


def _sum_groups(
    store: GroupedRows, plan: Plan, of_family: float, *, are_many: bool
) -> tuple[GroupTotals, int]:
    fits = store.is_local and store.rows <= RANKED_ROWS
    held = SortedGroups(store, plan.described) if plan.sorted_features and fits else None
    counted = CountedRanks(store)
    ranks = held or counted
    counts = {} if held else counted.declare_first(plan.sorted_features)
    modes = () if held else plan.find_modes
    first = sum_first_pass(store, plan, modes, counts, are_many=are_many)
    counted.take_first(first.counts)
    with allow_unknown(first.groups):
        _complete_totals(store, plan, first, ranks, of_family)
    return first.groups, first.repeated


def _complete_totals(
    store: GroupedRows,
    plan: Plan,
    first: FirstPass,
    ranks: SortedGroups | CountedRanks,
    of_family: float,
) -> None:
    """Add to the totals of the first pass the values at ranks, and how far clusters spread."""
    groups, codes = first.groups, store.codes
    levels = {rank: of_family if rank.of_family else plan.confidence for rank in plan.ranks}
    located = [
        (rank.feature, locate_ranks(groups, rank, level, codes)) for rank, level in levels.items()
    ]
    located += [(feature, locate_described(groups, feature, codes)) for feature in plan.described]
    _add_ranks(groups, ranks, located, codes)
    add_task_spreads(list_blocks(groups), plan)
    if first.repeated or plan.cluster is not None:
        for table in sum_second_pass(store, plan, groups, first.keyed_tables):
            add_totals(groups, table, codes)
    add_spreads(list_blocks(groups), plan.influences)
    clustered = [
        (rank.feature, locate_clustered_ranks(groups, rank, level, codes))
        for rank, level in levels.items()
    ]
    _add_ranks(groups, ranks, clustered, codes)


def _add_ranks(
    groups: GroupTotals,
    ranks: SortedGroups | CountedRanks,
    located: Iterable[tuple[Feature, Iterable[Positions]]],
    codes: Codes,
) -> None:
    """Add features' values at positions within each group: sorted, or found by counting."""
    wanted: dict[Feature, list[Positions]] = {}
    for feature, positions in located:
        wanted.setdefault(feature, []).extend(positions)
    for name, numbers, values in ranks.select(wanted):
        add_values(groups, name, numbers, values, codes)

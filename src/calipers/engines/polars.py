"""Totals over the rows that were read, part by part: in threads here, or in a cluster's workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

import narwhals as nw
import polars as pl

from calipers.engines.codes import Codes
from calipers.engines.keyed_sums import collect_sorted, sum_by_keys
from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.plan import Plan, sort_key
from calipers.engines.ranks import BUCKET, KEY, Count, CountedRanks, Position
from calipers.engines.reading import MeasuredRows, list_possible, read_rows
from calipers.engines.sorted_groups import RANKED_ROWS, SortedGroups
from calipers.engines.spreads import (
    add_effects,
    add_spreads,
    join_table,
    look_up,
    select_key_totals,
    sum_beyond_rows,
    sum_clusters,
)
from calipers.engines.store import GroupedRows, encode_groups
from calipers.engines.task_tables import TaskTables
from calipers.engines.tasks import TaskCounts, has_few_values
from calipers.engines.threads import map_in_order
from calipers.engines.totals import (
    GroupTotals,
    Sum,
    add_kept,
    add_task_spreads,
    add_totals,
    adjust_confidence,
    are_counted_alike,
    count_alike,
    count_alike_rows,
    list_housekeeping,
    locate_clustered_ranks,
    locate_described,
    locate_ranks,
    make_task_steps,
    merge_aggregates,
    pool_parts,
    sum_tables,
)
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Step,
)
from calipers.records.sources import Source, Wanted

_REPEATED = "_repeated"


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
    groups: GroupTotals = {}
    tables = TaskTables(plan, sinks)
    for share, found in _sum_shares(rows, plan):
        groups |= found
        if plan.per_task:
            tables.add(share)
    tallies = {feature.name: read.tally(rows, feature) for feature in plan.tallied}
    outcome = Outcome(groups, read.readings, read.having, tallies=tallies)
    if plan.resamples:
        outcome = outcome.add_resampled(read.resample(rows, plan, groups))
    return tables.complete(outcome, rows) if plan.per_task else outcome


def sum_store(store: GroupedRows, plan: Plan) -> GroupTotals:
    """Return every group's totals over the whole store, with the spread of its clusters."""
    groups: GroupTotals = {}
    for _, found in _sum_shares(store, plan):
        groups |= found
    return groups


def _sum_shares(store: GroupedRows, plan: Plan) -> Iterator[tuple[GroupedRows, GroupTotals]]:
    """Yield the totals of some groups at a time, beside their rows."""
    level = adjust_confidence(store.groups, plan.confidence)

    def sum_share(share: GroupedRows) -> tuple[GroupedRows, GroupTotals]:
        return share, _sum_groups(share, plan, level)

    return map_in_order(sum_share, store.split_groups(), threads=2)


def _sum_groups(store: GroupedRows, plan: Plan, of_family: float) -> GroupTotals:
    fits = store.is_local and store.rows <= RANKED_ROWS
    held = SortedGroups(store, plan.described) if plan.sorted_features and fits else None
    counted = CountedRanks(
        partial(_tally, store=store), partial(_join_small, store.codes), store.rows
    )
    ranks = held or counted
    counts = {} if held else counted.declare_first(plan.sorted_features)
    first = _sum_first_pass(store, plan, () if held else plan.find_modes, counts)
    groups = first.groups
    counted.take_first(first.counts)
    levels = {rank: of_family if rank.of_family else plan.confidence for rank in plan.ranks}
    located = [(rank.feature, locate_ranks(groups, rank, levels[rank])) for rank in plan.ranks]
    located += [(feature, locate_described(groups, feature)) for feature in plan.described]
    _add_ranks(groups, ranks, located, modes=plan.described if held else ())
    add_task_spreads(groups, plan)
    if first.repeated or plan.cluster is not None:
        for table in _sum_clusters(store, plan, groups, first.keyed_tables):
            add_totals(groups, table)
    add_spreads(groups, plan.influences)
    _add_ranks(
        groups,
        ranks,
        [(rank.feature, locate_clustered_ranks(groups, rank, levels[rank])) for rank in plan.ranks],
    )
    return groups


@dataclass(frozen=True, kw_only=True)
class _FirstPass:
    """What the first pass over the parts gives."""

    groups: GroupTotals  # all additive totals
    keyed_tables: dict[Aggregate, pl.DataFrame]  # of the totals that are kept per key
    counts: dict[Feature, pl.DataFrame]  # of values, by the upper bits of their sort keys
    repeated: int  # rows of tasks that have several


def _sum_first_pass(
    store: GroupedRows, plan: Plan, modes: Sequence[Aggregate], counts: Mapping[Feature, Count]
) -> _FirstPass:
    """Return the additive totals of the groups, and what is counted on the way."""
    groups: GroupTotals = {}
    aggregates = merge_aggregates((*list_housekeeping(plan), *plan.aggregates, *modes), plan)
    sums = {each: Sum([GROUP, *each.keys]) for each in aggregates if _is_kept(each)}
    parts: dict[Aggregate, list[list[pl.DataFrame]]] = {
        each: [] for each in aggregates if each not in sums
    }
    tallies = _start_tallies(counts)
    repeated = 0
    are_single = store.are_tasks_single
    without_repeated: dict[Aggregate, list[pl.DataFrame]] = {}  # the same for every part

    def tables_of(part: pl.DataFrame) -> list[pl.DataFrame]:
        tasks = TaskCounts(part, are_single=are_single)

        def sum_part(aggregate: Aggregate) -> list[pl.DataFrame]:
            if tasks.have_any(aggregate):
                return _sum_part(tasks, aggregate, plan=plan)
            if aggregate not in without_repeated:
                without_repeated[aggregate] = _sum_part(tasks, aggregate, plan=plan)
            return without_repeated[aggregate]

        with ThreadPoolExecutor(2) as pool:
            found = pool.map(sum_part, aggregates)
            rows = pl.DataFrame({_REPEATED: [tasks.repeated.height]})
            return [rows, *chain.from_iterable(found), *_count_part(part, counts)]

    columns = [name for name in plan.schema if name not in plan.having]
    for made in store.map_parts(tables_of, columns):
        found = iter(made)
        repeated += next(found).item()
        for aggregate in aggregates:
            tables = list(islice(found, _count_tables(aggregate, plan)))
            if aggregate in sums:
                sums[aggregate].add(tables[0])
            else:
                parts[aggregate].append([store.decode_groups(table) for table in tables])
        _add_tables(tallies, found)
    keyed_tables = {
        aggregate: store.decode_groups(each.table).sort(GROUP, *aggregate.keys)
        for aggregate, each in sums.items()
    }
    for aggregate in aggregates:
        if aggregate in sums:
            finished = _apply_each(keyed_tables[aggregate], aggregate.finish)
            if aggregate.kept_as is not None:
                add_kept(groups, keyed_tables[aggregate], aggregate)
        elif aggregate.keys:
            finished = list(_sum_tasks(parts[aggregate], aggregate, plan))
        else:
            finished = [pool_parts((tables[0] for tables in parts[aggregate]), plan)]
        for table in finished:
            add_totals(groups, table)
    return _FirstPass(
        groups=groups,
        keyed_tables=keyed_tables,
        counts=_finish_tallies(tallies, store),
        repeated=repeated,
    )


def _is_kept(aggregate: Aggregate) -> bool:
    """Say whether its totals stay apart by key; a task's are finished within its part."""
    return bool(aggregate.keys) and TASK not in aggregate.keys


def _count_tables(aggregate: Aggregate, plan: Plan) -> int:
    """Return how many tables `_sum_part` makes."""
    if TASK not in aggregate.keys:
        return 1
    of_tasks = len(aggregate.tasks)
    return len(aggregate.finish) + (
        min(1, of_tasks) if are_counted_alike(aggregate, plan) else of_tasks
    )


def _sum_part(tasks: TaskCounts, aggregate: Aggregate, *, plan: Plan) -> list[pl.DataFrame]:
    """Return a part's tables; finished if the key is a task, which is whole within its part."""
    if TASK not in aggregate.keys:
        return [sum_by_keys(tasks.part, aggregate)]
    alike = bool(aggregate.tasks) and are_counted_alike(aggregate, plan)
    if alike and not aggregate.finish and has_few_values(aggregate):
        return [sum_tables(_count_tasks(tasks, aggregate), [GROUP, *aggregate.totals])]
    table = sum_by_keys(tasks.select(aggregate), aggregate)
    tables = _apply_each(table, aggregate.finish)
    if alike:
        return [*tables, _count_alike(table, aggregate)]
    for values in aggregate.tasks:
        per_cluster, per_group = make_task_steps(values)
        each = collect_sorted(values.step(nw.from_native(table.lazy())))
        if plan.cluster is not None:
            clusters = tasks.part.group_by(TASK).agg(
                pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK))
            )
            each = each.join(clusters, on=TASK, maintain_order="left")
        steps = (per_cluster,) if plan.cluster is not None else (per_cluster, per_group)
        tables.append(_apply_steps(each, *steps))
    return tables


def _count_tasks(tasks: TaskCounts, aggregate: Aggregate) -> Iterator[pl.DataFrame]:
    """Yield tasks of equal totals, counted: those of several rows, and those of one."""
    yield _count_alike(sum_by_keys(tasks.repeated, aggregate), aggregate)
    if aggregate.every_task:
        yield count_alike_rows(tasks.single, aggregate)


def _count_alike(table: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    counted = count_alike(nw.from_native(table.lazy()), aggregate)
    return collect_sorted(counted, *aggregate.totals)


def _sum_tasks(
    parts: Sequence[Sequence[pl.DataFrame]], aggregate: Aggregate, plan: Plan
) -> Iterator[pl.DataFrame]:
    """Yield the groups' totals from the finished tables of all parts."""
    plain = len(aggregate.finish)
    for number, tables in enumerate(zip(*parts, strict=True)):
        if number < plain:
            yield sum_tables(tables, [GROUP])
        elif are_counted_alike(aggregate, plan):
            tasks = sum_tables(tables, [GROUP, *aggregate.totals])
            for values in aggregate.tasks:
                yield _apply_steps(tasks, values.step, *make_task_steps(values))
        elif plan.cluster is None:
            yield sum_tables(tables, [GROUP])
        else:
            _, per_group = make_task_steps(aggregate.tasks[number - plain])
            yield _apply_steps(sum_tables(tables, [GROUP, CLUSTER]), per_group)


def _apply_each(table: pl.DataFrame, steps: Sequence[Step]) -> list[pl.DataFrame]:
    return [_apply_steps(table, step) for step in steps]


def _apply_steps(table: pl.DataFrame, *steps: Step) -> pl.DataFrame:
    for step in steps:
        table = collect_sorted(step(nw.from_native(table.lazy())))
    return table


def _sum_clusters(
    store: GroupedRows,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Yield what clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside = {
        aggregate: collect_sorted(found, *aggregate.keys)
        for aggregate, table in keyed_tables.items()
        if (found := select_key_totals(nw.from_native(table.lazy()), aggregate, wanted)) is not None
    }
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]
    codes = store.codes

    def join(rows: Frame, table: pl.DataFrame, on: Sequence[str]) -> Frame:
        coded = encode_groups(table, codes)
        return look_up(rows, coded, len(codes)) if [*on] == [GROUP] else join_table(rows, coded, on)

    def clusters_of(part: pl.DataFrame) -> list[pl.DataFrame]:
        rows = TaskCounts(part).repeated if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height:
            return []
        moved = add_effects(nw.from_native(rows.lazy()), wanted, groups, beside, join).to_native()
        effects: pl.DataFrame = moved.collect(engine="in-memory")
        clusters = sum_clusters(effects.sort(CLUSTER, maintain_order=True), wanted)
        return [_apply_steps(clusters, step) if cluster == TASK else clusters]

    if not wanted:
        return
    step = partial(sum_beyond_rows, wanted=wanted)
    of_parts = store.map_parts(clusters_of, [GROUP, cluster, *features])
    tables = [table for found in of_parts for table in found]
    if tables and cluster == TASK:
        yield store.decode_groups(sum_tables(tables, [GROUP]))
    elif tables:
        yield store.decode_groups(_apply_steps(sum_tables(tables, [GROUP, CLUSTER]), step))


def _add_ranks(
    groups: GroupTotals,
    ranks: SortedGroups | CountedRanks,
    located: Iterable[tuple[Feature, Sequence[Position]]],
    modes: Collection[Feature] = (),
) -> None:
    """Add features' values at positions within each group: sorted, or found by counting."""
    wanted: dict[Feature, list[Position]] = {feature: [] for feature in modes}
    for feature, positions in located:
        wanted.setdefault(feature, []).extend(positions)
    found: Iterator[tuple[str, str, float]]
    if isinstance(ranks, SortedGroups):
        found = chain.from_iterable(
            chain(
                ranks.select(feature, positions),
                ranks.find_modes(feature) if feature in modes else (),
            )
            for feature, positions in wanted.items()
        )
    else:
        found = ranks.select(wanted)
    for group, name, value in found:
        groups[group][name] = value


def _tally(counts: Mapping[Feature, Count], *, store: GroupedRows) -> dict[Feature, pl.DataFrame]:
    """Return each feature's counts over the whole store."""
    tallies = _start_tallies(counts)
    columns = [GROUP, *(feature.name for feature in counts)]
    for tables in store.map_parts(partial(_count_part, counts=counts), columns):
        _add_tables(tallies, tables)
    return _finish_tallies(tallies, store)


def _start_tallies(counts: Iterable[Feature]) -> dict[Feature, Sum]:
    return {feature: Sum([GROUP, BUCKET, KEY]) for feature in counts}


def _add_tables(tallies: Mapping[Feature, Sum], tables: Iterable[pl.DataFrame]) -> None:
    for each, table in zip(tallies.values(), tables, strict=True):
        each.add(table)


def _count_part(part: pl.DataFrame, counts: Mapping[Feature, Count]) -> list[pl.DataFrame]:
    """Return each feature's counts over a part."""
    return [
        collect_sorted(
            count(nw.from_native(part.lazy().with_columns(sort_key(feature)))), BUCKET, KEY
        )
        for feature, count in counts.items()
    ]


def _finish_tallies(
    tallies: Mapping[Feature, Sum], store: GroupedRows
) -> dict[Feature, pl.DataFrame]:
    return {feature: store.decode_groups(each.table) for feature, each in tallies.items()}


def _join_small(codes: Codes, rows: Frame, few: pl.DataFrame) -> Frame:
    return rows.join(nw.from_native(encode_groups(few, codes).lazy()), on=GROUP)

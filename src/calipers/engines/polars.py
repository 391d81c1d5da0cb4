"""The engine for one machine: totals over the rows that were read, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import narwhals as nw
import polars as pl

from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.per_task import (
    add_answers,
    count_flaky,
    find_flakiest,
    list_run_columns,
    list_task_columns,
    price_tasks,
    sort_runs,
    sum_tasks,
)
from calipers.engines.plan import IDENTITY, Plan, sort_key
from calipers.engines.ranks import BUCKET, KEY, Tally, select_ranks
from calipers.engines.reading import ReadRows, map_in_order, read_rows
from calipers.engines.sorted_groups import DESCRIBED_ROWS, RANKED_ROWS, SortedGroups
from calipers.engines.spreads import (
    add_effects,
    add_spreads,
    join_table,
    select_key_totals,
    sum_beyond_rows,
    sum_clusters,
)
from calipers.engines.store import GroupedRows
from calipers.engines.totals import (
    GroupTotals,
    Sum,
    add_kept,
    add_task_spreads,
    add_totals,
    are_counted_alike,
    count_alike,
    count_values,
    list_housekeeping,
    locate_clustered_ranks,
    locate_described,
    locate_ranks,
    make_task_steps,
    merge_aggregates,
    pool_parts,
    sum_keys,
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
from calipers.metrics.declare.description import name_mode
from calipers.records.sources import Source, Wanted

if TYPE_CHECKING:
    from calipers.engines.resampling import Resampled

T = TypeVar("T")


def _map_parts(work: Callable[[pl.DataFrame], T], parts: Iterator[pl.DataFrame]) -> Iterator[T]:
    """Yield `work` on each part, in order; few at a time, since a part may fill much memory."""
    return map_in_order(work, parts, threads=2)


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Read every source once and measure its groups."""
    with read_rows(sources, wanted, plan, sinks) as rows:
        return measure(rows, plan, sinks)


def measure(read: ReadRows, plan: Plan, sinks: Sinks | None = None) -> Outcome:
    """Measure rows that were read by the groups, and with the metrics, of a plan."""
    plan = plan.restrict([name for name, count in read.having.items() if count])
    rows = read.group(plan.by)
    groups = sum_store(rows, plan)
    tallies = {feature.name: read.tally(rows, feature) for feature in plan.tallied}
    outcome = Outcome(groups, read.readings, read.having, tallies=tallies)
    if plan.resamples:
        outcome = outcome.add_resampled(_bootstrap(rows, plan, groups))
    return _write_tasks(rows, plan, outcome, sinks) if plan.per_task else outcome


def _write_tasks(store: GroupedRows, plan: Plan, outcome: Outcome, sinks: Sinks | None) -> Outcome:
    """Count the flaky tasks and find some, part by part; write a row per task to its file."""
    counts, few, tried = [], [], []
    wants_tasks = sinks is not None and sinks.wants_tasks

    def tasks_of(part: pl.DataFrame) -> pl.DataFrame:
        rows = nw.from_native(part.lazy())
        totals = sum_tasks(rows, plan)
        wanted = add_answers(totals, rows, plan) if wants_tasks else totals
        return store.decode_groups(_collect_sorted(wanted))

    for tasks in _map_parts(tasks_of, store.parts(list_task_columns(plan))):
        counts.append(_apply_steps(tasks, count_flaky))
        few.append(_apply_steps(tasks, find_flakiest))
        if (costs := price_tasks(nw.from_native(tasks.lazy()))) is not None:
            tried.append(_collect_sorted(costs))
        if sinks is not None and wants_tasks:
            sinks.take_tasks(tasks)
    add_totals(outcome.groups, sum_tables(counts, [GROUP]))
    columns = list_run_columns(plan, store.rows)
    runs = None if columns is None else store.decode_groups(pl.concat(store.parts(columns)))
    found: pl.LazyFrame = find_flakiest(nw.from_native(pl.concat(few).lazy())).to_native()
    return replace(
        outcome,
        flakiest=found.collect(engine="in-memory"),
        attempts=pl.concat(tried) if tried else None,
        runs=None if runs is None else sort_runs(runs),
    )


def _bootstrap(store: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
    """Return each group's intervals by resampling; the group is gathered from all parts."""
    from calipers.engines.resampling import bootstrap, seed_of  # noqa: PLC0415 (only where asked)

    return {
        group: bootstrap(rows, plan, groups[group], seed_of(plan, group))
        for group in groups
        if (rows := _gather_rows(group, store)).height
    }


def _gather_rows(group: str, store: GroupedRows) -> pl.DataFrame:
    code = store.encode(group)
    return store.decode_groups(
        pl.concat(part.filter(pl.col(GROUP) == code) for part in store.parts())
    )


def sum_store(store: GroupedRows, plan: Plan) -> GroupTotals:
    """Return every group's totals over the whole store, with the spread of its clusters."""
    fits = store.rows <= (DESCRIBED_ROWS if plan.described else RANKED_ROWS)
    held = SortedGroups(store) if plan.sorted_features and fits else None
    groups, keyed_tables = _sum_first_pass(store, plan, () if held else plan.find_modes)
    add_ranks = partial(_add_ranks, groups, held or store)
    for rank in plan.ranks:
        add_ranks(rank.feature, locate_ranks(groups, rank, plan.confidence))
    for feature in plan.described:
        add_ranks(feature, locate_described(groups, feature))
        for group, mode in held.find_modes(feature) if held else ():
            groups[group][name_mode(feature)] = mode
    add_task_spreads(groups, plan)
    for table in _sum_clusters(store, plan, groups, keyed_tables):
        add_totals(groups, table)
    add_spreads(groups, plan.influences)
    for rank in plan.ranks:
        add_ranks(rank.feature, locate_clustered_ranks(groups, rank, plan.confidence))
    return groups


def _sum_first_pass(
    store: GroupedRows, plan: Plan, modes: Sequence[Aggregate]
) -> tuple[GroupTotals, dict[Aggregate, pl.DataFrame]]:
    """Return all additive totals of the groups, and the tables of those kept per key."""
    groups: GroupTotals = {}
    aggregates = merge_aggregates((*list_housekeeping(plan), *plan.aggregates, *modes), plan)
    sums = {each: Sum([GROUP, *each.keys]) for each in aggregates if _is_kept(each)}
    parts: dict[Aggregate, list[list[pl.DataFrame]]] = {
        each: [] for each in aggregates if each not in sums
    }

    def tables_of(part: pl.DataFrame) -> list[list[pl.DataFrame]]:
        repeated = _keep_repeated(part, TASK)
        shares = [_share(part, repeated, aggregate) for aggregate in aggregates]
        with ThreadPoolExecutor() as pool:
            return list(pool.map(partial(_sum_part, plan=plan), shares, aggregates))

    columns = [name for name in plan.schema if name not in plan.having]
    for found in _map_parts(tables_of, store.parts(columns)):
        for aggregate, tables in zip(aggregates, found, strict=True):
            if aggregate in sums:
                sums[aggregate].add(tables[0])
            else:
                parts[aggregate].append([store.decode_groups(table) for table in tables])
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
    return groups, keyed_tables


def _is_kept(aggregate: Aggregate) -> bool:
    """Say whether its totals stay apart by key; a task's are finished within its part."""
    return bool(aggregate.keys) and TASK not in aggregate.keys


def _share(part: pl.DataFrame, repeated: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return the rows that can count; a task or call that occurs once is never repeated."""
    if TASK not in aggregate.keys or aggregate.every_task:
        return part
    if IDENTITY not in aggregate.keys:
        return repeated
    return _keep_repeated(repeated, IDENTITY)


def _keep_repeated(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return the rows whose key occurs twice or more; a quick check first."""
    if rows[key].n_unique() == rows.height:
        return rows.clear()
    return rows.filter(pl.col(key).is_duplicated())


def _sum_part(part: pl.DataFrame, aggregate: Aggregate, *, plan: Plan) -> list[pl.DataFrame]:
    """Return a part's tables; finished if the key is a task, which is whole within its part."""
    table = _collect_sorted(sum_keys(nw.from_native(part.lazy()), aggregate), *aggregate.keys)
    if TASK not in aggregate.keys:
        return [table]
    tables = _apply_each(table, aggregate.finish)
    if aggregate.tasks and are_counted_alike(aggregate, plan):
        counted = count_alike(nw.from_native(table.lazy()), aggregate)
        return [*tables, _collect_sorted(counted, *aggregate.totals)]
    for values in aggregate.tasks:
        per_cluster, per_group = make_task_steps(values)
        tasks = _collect_sorted(values.step(nw.from_native(table.lazy())))
        if plan.cluster is not None:
            clusters = part.group_by(TASK).agg(pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK)))
            tasks = tasks.join(clusters, on=TASK, maintain_order="left")
        steps = (per_cluster,) if plan.cluster is not None else (per_cluster, per_group)
        tables.append(_apply_steps(tasks, *steps))
    return tables


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
        table = _collect_sorted(step(nw.from_native(table.lazy())))
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
        aggregate: _collect_sorted(found, *aggregate.keys)
        for aggregate, table in keyed_tables.items()
        if (found := select_key_totals(nw.from_native(table.lazy()), aggregate, wanted)) is not None
    }
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]

    def join(rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str]) -> Frame:
        assert isinstance(table, pl.DataFrame)
        return join_table(rows, store.encode_groups(table), on)

    def clusters_of(part: pl.DataFrame) -> pl.DataFrame | None:
        rows = _keep_repeated(part, TASK) if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height or not wanted:
            return None
        moved = add_effects(nw.from_native(rows.lazy()), wanted, groups, beside, join)
        clusters = _collect_sorted(sum_clusters(moved, wanted), CLUSTER)
        return _apply_steps(clusters, step) if cluster == TASK else clusters

    step = partial(sum_beyond_rows, wanted=wanted)
    of_parts = _map_parts(clusters_of, store.parts([GROUP, cluster, *features]))
    tables = [table for table in of_parts if table is not None]
    if tables and cluster == TASK:
        yield store.decode_groups(sum_tables(tables, [GROUP]))
    elif tables:
        yield store.decode_groups(_apply_steps(sum_tables(tables, [GROUP, CLUSTER]), step))


def _add_ranks(
    groups: GroupTotals,
    values: SortedGroups | GroupedRows,
    feature: Feature,
    positions: Sequence[tuple[str, str, int]],
) -> None:
    """Add the feature's values at positions within each group: sorted, or found by counting."""
    if isinstance(values, SortedGroups):
        found = values.select(feature, positions)
    else:
        rows = sum(count_values(groups, feature).values())
        join = partial(_join_small, store=values)
        found = select_ranks(feature, positions, _tally(values, feature), join, rows)
    for group, name, value in found:
        groups[group][name] = value


def _tally(store: GroupedRows, feature: Feature) -> Tally:
    def tally(count: Callable[[Frame], Frame]) -> pl.DataFrame:
        parts = (
            part.with_columns(sort_key(feature)) for part in store.parts((GROUP, feature.name))
        )
        tables = (
            _collect_sorted(count(nw.from_native(part.lazy())), BUCKET, KEY) for part in parts
        )
        return store.decode_groups(sum_tables(tables, [GROUP, BUCKET, KEY]))

    return tally


def _join_small(rows: Frame, few: pl.DataFrame, *, store: GroupedRows) -> Frame:
    return rows.join(nw.from_native(store.encode_groups(few).lazy()), on=GROUP)


def _collect_sorted(frame: Frame, *keys: str) -> pl.DataFrame:
    """Return the table in the order of its keys, so that sums over it are reproducible."""
    native: pl.LazyFrame = frame.to_native()
    columns = native.collect_schema()
    first = TASK if TASK in columns else GROUP  # a task is of one group
    order = [name for name in (first, *keys) if name in columns]
    return native.sort(order).collect(engine="in-memory")

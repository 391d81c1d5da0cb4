"""The engine for one machine: totals over the rows that were read, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import narwhals as nw
import polars as pl

from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.per_task import (
    attempts,
    flakiest,
    flaky_counts,
    run_columns,
    sorted_runs,
    task_columns,
    task_totals,
    with_answers,
)
from calipers.engines.plan import IDENTITY, Plan, sort_key
from calipers.engines.ranks import BUCKET, KEY, Tally, select_ranks
from calipers.engines.reading import ReadRows, in_order, read_rows
from calipers.engines.resampling import Resampled, bootstrap, seed_of
from calipers.engines.sorted_groups import DESCRIBED_ROWS, RANKED_ROWS, SortedGroups
from calipers.engines.spreads import (
    add_spreads,
    beside_rows,
    beyond_rows,
    effects,
    join_table,
    per_cluster,
)
from calipers.engines.store import GroupedRows
from calipers.engines.totals import (
    GroupTotals,
    Sum,
    add_kept,
    add_task_spreads,
    add_totals,
    alike,
    are_counted_alike,
    clustered_positions,
    described_positions,
    housekeeping,
    keyed,
    merged,
    pooled,
    rank_positions,
    summed,
    task_steps,
    value_counts,
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

T = TypeVar("T")


def _of_parts(work: Callable[[pl.DataFrame], T], parts: Iterator[pl.DataFrame]) -> Iterator[T]:
    """`work` on each part, in order; few at a time, since a part may fill much memory."""
    return in_order(work, parts, threads=2)


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Read every source once and measure its groups."""
    with read_rows(sources, wanted, plan, sinks) as rows:
        return measure(rows, plan, sinks)


def measure(read: ReadRows, plan: Plan, sinks: Sinks | None = None) -> Outcome:
    """Measure rows that were read by the groups, and with the metrics, of a plan."""
    plan = plan.present([name for name, count in read.having.items() if count])
    rows = read.grouped(plan.by)
    groups = totals(rows, plan)
    tallies = {feature.name: read.tally(rows, feature) for feature in plan.tallied}
    outcome = Outcome(groups, read.readings, read.having, tallies=tallies)
    if plan.resamples:
        outcome = outcome.resampled(_bootstrapped(rows, plan, groups))
    return _per_task(rows, plan, outcome, sinks) if plan.per_task else outcome


def _per_task(store: GroupedRows, plan: Plan, outcome: Outcome, sinks: Sinks | None) -> Outcome:
    """Count the flaky tasks and find some, part by part; a row per task goes to its file."""
    counts, few, tried = [], [], []
    wants_tasks = sinks is not None and sinks.wants_tasks

    def tasks_of(part: pl.DataFrame) -> pl.DataFrame:
        rows = nw.from_native(part.lazy())
        totals = task_totals(rows, plan)
        wanted = with_answers(totals, rows, plan) if wants_tasks else totals
        return store.named(_collected(wanted))

    for tasks in _of_parts(tasks_of, store.parts(task_columns(plan))):
        counts.append(_after(tasks, flaky_counts))
        few.append(_after(tasks, flakiest))
        if (costs := attempts(nw.from_native(tasks.lazy()))) is not None:
            tried.append(_collected(costs))
        if sinks is not None and wants_tasks:
            sinks.tasks(tasks)
    add_totals(outcome.groups, summed(counts, [GROUP]))
    columns = run_columns(plan, store.rows)
    runs = None if columns is None else store.named(pl.concat(store.parts(columns)))
    found: pl.LazyFrame = flakiest(nw.from_native(pl.concat(few).lazy())).to_native()
    return replace(
        outcome,
        flakiest=found.collect(engine="in-memory"),
        attempts=pl.concat(tried) if tried else None,
        runs=None if runs is None else sorted_runs(runs),
    )


def _bootstrapped(store: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
    """Each group's intervals by resampling; the group is gathered from all parts."""
    return {
        group: bootstrap(rows, plan, groups[group], seed_of(plan, group))
        for group in groups
        if (rows := _rows_of(group, store)).height
    }


def _rows_of(group: str, store: GroupedRows) -> pl.DataFrame:
    code = store.code(group)
    return store.named(pl.concat(part.filter(pl.col(GROUP) == code) for part in store.parts()))


def totals(store: GroupedRows, plan: Plan) -> GroupTotals:
    """Every group's totals over the whole store, and how far its clusters spread."""
    fits = store.rows <= (DESCRIBED_ROWS if plan.described else RANKED_ROWS)
    held = SortedGroups(store) if plan.sorted_features and fits else None
    groups, keyed_tables = _first_pass(store, plan, () if held else plan.modes)
    add_ranks = partial(_add_ranks, groups, held or store)
    for rank in plan.ranks:
        add_ranks(rank.feature, rank_positions(groups, rank, plan.confidence))
    for feature in plan.described:
        add_ranks(feature, described_positions(groups, feature))
        for group, mode in held.modes(feature) if held else ():
            groups[group][name_mode(feature)] = mode
    add_task_spreads(groups, plan)
    for table in _of_clusters(store, plan, groups, keyed_tables):
        add_totals(groups, table)
    add_spreads(groups, plan.influences)
    for rank in plan.ranks:
        add_ranks(rank.feature, clustered_positions(groups, rank, plan.confidence))
    return groups


def _first_pass(
    store: GroupedRows, plan: Plan, modes: Sequence[Aggregate]
) -> tuple[GroupTotals, dict[Aggregate, pl.DataFrame]]:
    """All additive totals of the groups, and the tables of those that are kept per key."""
    groups: GroupTotals = {}
    aggregates = merged((*housekeeping(plan), *plan.aggregates, *modes), plan)
    sums = {each: Sum([GROUP, *each.keys]) for each in aggregates if _is_kept(each)}
    parts: dict[Aggregate, list[list[pl.DataFrame]]] = {
        each: [] for each in aggregates if each not in sums
    }

    def tables_of(part: pl.DataFrame) -> list[list[pl.DataFrame]]:
        repeated = _repeated(part, TASK)
        shares = [_share(part, repeated, aggregate) for aggregate in aggregates]
        with ThreadPoolExecutor() as pool:
            return list(pool.map(partial(_of_part, plan=plan), shares, aggregates))

    columns = [name for name in plan.schema if name not in plan.having]
    for found in _of_parts(tables_of, store.parts(columns)):
        for aggregate, tables in zip(aggregates, found, strict=True):
            if aggregate in sums:
                sums[aggregate].add(tables[0])
            else:
                parts[aggregate].append([store.named(table) for table in tables])
    keyed_tables = {
        aggregate: store.named(each.table).sort(GROUP, *aggregate.keys)
        for aggregate, each in sums.items()
    }
    for aggregate in aggregates:
        if aggregate in sums:
            finished = _stepped(keyed_tables[aggregate], aggregate.finish)
            if aggregate.kept_as is not None:
                add_kept(groups, keyed_tables[aggregate], aggregate)
        elif aggregate.keys:
            finished = list(_of_tasks(parts[aggregate], aggregate, plan))
        else:
            finished = [pooled((tables[0] for tables in parts[aggregate]), plan)]
        for table in finished:
            add_totals(groups, table)
    return groups, keyed_tables


def _is_kept(aggregate: Aggregate) -> bool:
    """Whether its totals stay apart by key: a task's are finished within its part."""
    return bool(aggregate.keys) and TASK not in aggregate.keys


def _share(part: pl.DataFrame, repeated: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """The rows that can count: a task or a call that is there once is never repeated."""
    if TASK not in aggregate.keys or aggregate.every_task:
        return part
    if IDENTITY not in aggregate.keys:
        return repeated
    return _repeated(repeated, IDENTITY)


def _repeated(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """The rows whose key is there twice or more; that none is can be seen sooner."""
    if rows[key].n_unique() == rows.height:
        return rows.clear()
    return rows.filter(pl.col(key).is_duplicated())


def _of_part(part: pl.DataFrame, aggregate: Aggregate, *, plan: Plan) -> list[pl.DataFrame]:
    """A part's tables: finished where the key is a task, which is whole within its part."""
    table = _collected(keyed(nw.from_native(part.lazy()), aggregate), *aggregate.keys)
    if TASK not in aggregate.keys:
        return [table]
    tables = _stepped(table, aggregate.finish)
    if aggregate.tasks and are_counted_alike(aggregate, plan):
        counted = alike(nw.from_native(table.lazy()), aggregate)
        return [*tables, _collected(counted, *aggregate.totals)]
    for values in aggregate.tasks:
        per_cluster, per_group = task_steps(values)
        tasks = _collected(values.step(nw.from_native(table.lazy())))
        if plan.cluster is not None:
            clusters = part.group_by(TASK).agg(pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK)))
            tasks = tasks.join(clusters, on=TASK, maintain_order="left")
        steps = (per_cluster,) if plan.cluster is not None else (per_cluster, per_group)
        tables.append(_after(tasks, *steps))
    return tables


def _of_tasks(
    parts: Sequence[Sequence[pl.DataFrame]], aggregate: Aggregate, plan: Plan
) -> Iterator[pl.DataFrame]:
    """The groups' totals from the finished tables of all parts."""
    plain = len(aggregate.finish)
    for number, tables in enumerate(zip(*parts, strict=True)):
        if number < plain:
            yield summed(tables, [GROUP])
        elif are_counted_alike(aggregate, plan):
            tasks = summed(tables, [GROUP, *aggregate.totals])
            for values in aggregate.tasks:
                yield _after(tasks, values.step, *task_steps(values))
        elif plan.cluster is None:
            yield summed(tables, [GROUP])
        else:
            _, per_group = task_steps(aggregate.tasks[number - plain])
            yield _after(summed(tables, [GROUP, CLUSTER]), per_group)


def _stepped(table: pl.DataFrame, steps: Sequence[Step]) -> list[pl.DataFrame]:
    return [_after(table, step) for step in steps]


def _after(table: pl.DataFrame, *steps: Step) -> pl.DataFrame:
    for step in steps:
        table = _collected(step(nw.from_native(table.lazy())))
    return table


def _of_clusters(
    store: GroupedRows,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """What clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside = {
        aggregate: _collected(found, *aggregate.keys)
        for aggregate, table in keyed_tables.items()
        if (found := beside_rows(nw.from_native(table.lazy()), aggregate, wanted)) is not None
    }
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]

    def join(rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str]) -> Frame:
        assert isinstance(table, pl.DataFrame)
        return join_table(rows, store.coded(table), on)

    def clusters_of(part: pl.DataFrame) -> pl.DataFrame | None:
        rows = _repeated(part, TASK) if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height or not wanted:
            return None
        moved = effects(nw.from_native(rows.lazy()), wanted, groups, beside, join)
        clusters = _collected(per_cluster(moved, wanted), CLUSTER)
        return _after(clusters, step) if cluster == TASK else clusters

    step = partial(beyond_rows, wanted=wanted)
    of_parts = _of_parts(clusters_of, store.parts([GROUP, cluster, *features]))
    tables = [table for table in of_parts if table is not None]
    if tables and cluster == TASK:
        yield store.named(summed(tables, [GROUP]))
    elif tables:
        yield store.named(_after(summed(tables, [GROUP, CLUSTER]), step))


def _add_ranks(
    groups: GroupTotals,
    values: SortedGroups | GroupedRows,
    feature: Feature,
    positions: Sequence[tuple[str, str, int]],
) -> None:
    """The feature's values at positions among those of a group: sorted, or found by counting."""
    if isinstance(values, SortedGroups):
        found = values.at(feature, positions)
    else:
        rows = sum(value_counts(groups, feature).values())
        join = partial(_join_small, store=values)
        found = select_ranks(feature, positions, _tally(values, feature), join, rows)
    for group, name, value in found:
        groups[group][name] = value


def _tally(store: GroupedRows, feature: Feature) -> Tally:
    def tally(count: Callable[[Frame], Frame]) -> pl.DataFrame:
        parts = (
            part.with_columns(sort_key(feature)) for part in store.parts((GROUP, feature.name))
        )
        tables = (_collected(count(nw.from_native(part.lazy())), BUCKET, KEY) for part in parts)
        return store.named(summed(tables, [GROUP, BUCKET, KEY]))

    return tally


def _join_small(rows: Frame, few: pl.DataFrame, *, store: GroupedRows) -> Frame:
    return rows.join(nw.from_native(store.coded(few).lazy()), on=GROUP)


def _collected(frame: Frame, *keys: str) -> pl.DataFrame:
    """The table in the order of its keys: sums over it then give the same bits every time."""
    native: pl.LazyFrame = frame.to_native()
    columns = native.collect_schema()
    first = TASK if TASK in columns else GROUP  # a task is of one group
    order = [name for name in (first, *keys) if name in columns]
    return native.sort(order).collect(engine="in-memory")

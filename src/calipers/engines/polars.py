"""Totals over the rows that were read, part by part: in threads here, or in a cluster's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from calipers.engines.first_pass import sum_first_pass
from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.per_task import TaskTables
from calipers.engines.plan import Plan
from calipers.engines.ranks import (
    CountedRanks,
    Position,
    adjust_confidence,
    locate_clustered_ranks,
    locate_described,
    locate_ranks,
)
from calipers.engines.reading import MeasuredRows, list_possible, read_rows
from calipers.engines.sorted_groups import RANKED_ROWS, SortedGroups
from calipers.engines.spreads import add_spreads, sum_second_pass
from calipers.engines.store import GroupedRows
from calipers.engines.tasks import add_task_spreads
from calipers.engines.threads import map_in_order
from calipers.engines.totals import GroupTotals, add_totals
from calipers.metrics.declare.declaration import Feature
from calipers.records.sources import Source, Wanted


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
    counted = CountedRanks(store)
    ranks = held or counted
    counts = {} if held else counted.declare_first(plan.sorted_features)
    first = sum_first_pass(store, plan, () if held else plan.find_modes, counts)
    groups = first.groups
    counted.take_first(first.counts)
    levels = {rank: of_family if rank.of_family else plan.confidence for rank in plan.ranks}
    located = [(rank.feature, locate_ranks(groups, rank, level)) for rank, level in levels.items()]
    located += [(feature, locate_described(groups, feature)) for feature in plan.described]
    _add_ranks(groups, ranks, located)
    add_task_spreads(groups, plan)
    if first.repeated or plan.cluster is not None:
        for table in sum_second_pass(store, plan, groups, first.keyed_tables):
            add_totals(groups, table)
    add_spreads(groups, plan.influences)
    clustered = [
        (rank.feature, locate_clustered_ranks(groups, rank, level))
        for rank, level in levels.items()
    ]
    _add_ranks(groups, ranks, clustered)
    return groups


def _add_ranks(
    groups: GroupTotals,
    ranks: SortedGroups | CountedRanks,
    located: Iterable[tuple[Feature, Iterable[Position]]],
) -> None:
    """Add features' values at positions within each group: sorted, or found by counting."""
    wanted: dict[Feature, list[Position]] = {}
    for feature, positions in located:
        wanted.setdefault(feature, []).extend(positions)
    for group, name, value in ranks.select(wanted):
        groups[group][name] = value

"""Counts of values over the parts of a table, from which their ranks are found (`ranks`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import polars as pl

from calipers.engines.codes import Codes
from calipers.engines.ranks import BUCKET, KEY, Count, CountedRanks, sort_key
from calipers.engines.steps import collect_sorted
from calipers.engines.store import GroupedRows, encode_groups
from calipers.engines.totals import Sum
from calipers.metrics.declare.declaration import GROUP, Feature, Frame


class ValueCounts:
    """Features' counts over all parts, added up as they come."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._sums = {feature: Sum([GROUP, BUCKET, KEY]) for feature in features}

    def add(self, tables: Iterable[pl.DataFrame]) -> None:
        """Take the counts over one more part, of each feature."""
        for each, table in zip(self._sums.values(), tables, strict=True):
            each.add(table)

    def finish(self, store: GroupedRows) -> dict[Feature, pl.DataFrame]:
        """Return each feature's counts by the names of the store's groups."""
        return {feature: store.decode_groups(each.table) for feature, each in self._sums.items()}


def count_ranks(store: GroupedRows) -> CountedRanks:
    """Return the ranks in a store, which are found by counting."""
    return CountedRanks(
        partial(_count_store, store=store), partial(_join_small, store.codes), store.rows
    )


def count_part(part: pl.DataFrame, counts: Mapping[Feature, Count]) -> list[pl.DataFrame]:
    """Return each feature's counts over a part."""
    return [
        collect_sorted(count(part.lazy().with_columns(sort_key(feature))), BUCKET, KEY)
        for feature, count in counts.items()
    ]


def _count_store(
    counts: Mapping[Feature, Count], *, store: GroupedRows
) -> dict[Feature, pl.DataFrame]:
    """Return each feature's counts over the whole store."""
    found = ValueCounts(counts)
    columns = [GROUP, *(feature.name for feature in counts)]
    for tables in store.map_parts(partial(count_part, counts=counts), columns):
        found.add(tables)
    return found.finish(store)


def _join_small(codes: Codes, rows: Frame, few: pl.DataFrame) -> Frame:
    return rows.join(encode_groups(few, codes).lazy(), on=GROUP)

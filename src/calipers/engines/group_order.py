"""Rows in the order of their groups, which small numbers stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.support.late import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW_GROUPS = 64  # so many pieces of each table are put together one by one
FEW_ROWS = 50_000  # that are sorted at once, and not by task


def order_codes(codes: NDArray[np.integer[Any]]) -> NDArray[np.int64] | None:
    """Return the order of a part's groups; None if they are in order."""
    if _are_in_order(codes):
        return None
    few = codes.max() < 2**16  # so few are sorted by counting
    return np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")


def order_tasks(rows: pl.DataFrame) -> NDArray[np.int64] | None:
    """Return the order of groups and, within each, of tasks; None if they are in order."""
    groups = rows[GROUP].to_numpy()
    if rows[TASK].null_count():
        return order_codes(groups)
    tasks = rows.select(pl.arg_sort_by(TASK, maintain_order=True)).to_series().to_numpy()
    order = order_codes(groups[tasks])
    return tasks if order is None else tasks[order]


def _are_in_order(codes: NDArray[np.integer[Any]]) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())


def mark_changes(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where another number begins than stood before."""
    return np.concatenate((np.ones(min(1, len(numbers)), bool), numbers[1:] != numbers[:-1]))


def sort_groups(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in the order of their groups."""
    if rows.height < FEW_ROWS:
        return rows.sort(GROUP, maintain_order=True)
    return _take_in_order(rows, order_codes(rows[GROUP].to_numpy()))


def merge_groups(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all tables in the order of groups, in one piece."""
    if sum(table.height for table in tables) <= FEW_ROWS:
        return combine_rows(tables).sort(GROUP, maintain_order=True)
    codes = [table[GROUP].to_numpy() for table in tables]
    last = max((int(each.max()) for each in codes if len(each)), default=0)
    if last >= FEW_GROUPS or not all(map(_are_in_order, codes)):
        return _take_in_order(combine_rows(tables), order_codes(np.concatenate(codes)))
    if len(tables) == 1:
        return _take_in_order(tables[0], None)
    bounds = [np.searchsorted(each, np.arange(last + 2, dtype=each.dtype)) for each in codes]
    pieces = [
        table[start:end]
        for code in range(last + 1)
        for table, bound in zip(tables, bounds, strict=True)
        for start, end in [bound[code : code + 2].tolist()]
        if start < end
    ]
    return _take_in_order(combine_rows(pieces or tables), None)


def _take_in_order(rows: pl.DataFrame, order: NDArray[np.int64] | None) -> pl.DataFrame:
    rows = rows if order is None else rows[pl.Series(order, dtype=pl.UInt32)]
    return rows.with_columns(pl.col(GROUP).set_sorted())


def combine_rows(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return all rows in one piece, from which some are taken several times as fast.

    Columns may be missing in some tables, and in some of a narrower type.
    """
    return pl.concat(tables, how="diagonal_relaxed").rechunk()

"""The rows of an index that a query selects, in its order: computed once, then paged."""

from __future__ import annotations

import polars as pl

from calipers.dashboard.filters import Query, check_column, mask
from calipers.dashboard.index import Index
from calipers.dashboard.kept import Kept
from calipers.dashboard.search import Search
from calipers.support.quick_dataclasses import dataclass

PAGE_ROWS = 50
SEARCH_SECONDS = 0.15  # of one request; the page asks for the rest by itself


@dataclass(frozen=True, slots=True)
class Selected:
    """Rows in order; `searched` is below `of` while a search goes on."""

    rows: pl.Series
    searched: int
    of: int

    @property
    def complete(self) -> bool:
        """Say whether all rows are known."""
        return self.searched >= self.of

    def page(self, number: int) -> list[int]:
        """Return the rows of a page."""
        return self.rows.slice((number - 1) * PAGE_ROWS, PAGE_ROWS).to_list()

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-len(self.rows) // PAGE_ROWS))

    def find_neighbours(self, row: int) -> tuple[int | None, int | None, int | None]:
        """Return the position of a row, from 1, and the rows before and after it."""
        found = self.rows.index_of(row)
        if found is None:
            return None, None, None
        before = self.rows[found - 1] if found else None
        behind = self.rows[found + 1] if found + 1 < len(self.rows) else None
        return found + 1, before, behind


class Selector:
    """Selections of one index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._masks: Kept[pl.Series | None] = Kept()
        self._orders: Kept[pl.Series] = Kept()
        self._searches: Kept[Search] = Kept()
        self._selected: Kept[Selected] = Kept()

    def mask(self, query: Query) -> pl.Series | None:
        """Return which rows the filters keep, regardless of the search."""
        return self._masks.get(query.filters, lambda: mask(query, self.index))

    def select(self, query: Query, *, seconds: float = SEARCH_SECONDS) -> Selected:
        """Return the rows in order; of an unsorted search as many as the page needs."""
        key = query.rows, query.sort
        if not query.text:
            return self._selected.get(key, lambda: self._select_by_filters(query))
        search = self.search(query)
        wanted = None if query.sort else query.page * PAGE_ROWS + 1
        search.go_on(seconds=seconds, hits=wanted)
        if search.done:
            return self._selected.get(key, lambda: self._select_by_search(query, search))
        return self._select_by_search(query, search)

    def search(self, query: Query) -> Search:
        """Return the search for the query's text, in its present state."""
        return self._searches.get(
            query.rows, lambda: Search(self.index, query.text, self.mask(query))
        )

    def select_all(self, query: Query) -> pl.Series:
        """Return every row that the query keeps, in file order, however long the search takes."""
        plain = query.rows
        if query.text:
            self.search(plain).go_on(seconds=float("inf"))
        return self.select(plain).rows

    def _select_by_filters(self, query: Query) -> Selected:
        kept = self.mask(query)
        sort = query.sort
        order = self._orders.get(sort, lambda: self._sort(sort)) if sort else None
        if kept is None:
            every = pl.int_range(self.index.rows, dtype=pl.UInt32, eager=True)
            rows = every if order is None else order
        else:
            rows = kept.arg_true() if order is None else order.filter(kept.gather(order))
        return Selected(rows, self.index.rows, self.index.rows)

    def _select_by_search(self, query: Query, search: Search) -> Selected:
        rows = search.list_rows()
        if query.sort:
            name, largest_first = _split_sort(query.sort)
            values = check_column(name, self.index).gather(rows)
            rows = rows.gather(values.arg_sort(descending=largest_first, nulls_last=True))
        return Selected(rows, search.rows_done, self.index.rows)

    def _sort(self, sort: str) -> pl.Series:
        """Return rows by ascending or descending value; rows without a value come last."""
        name, largest_first = _split_sort(sort)
        missing = check_column(name, self.index).null_count()
        order = self.index.order(name)
        if not largest_first:
            return order
        known = len(order) - missing
        return pl.concat([order.head(known).reverse(), order.tail(missing)])


def _split_sort(text: str) -> tuple[str, bool]:
    return text.removeprefix("-"), text.startswith("-")

"""The rows of an index that a query selects, in its order: computed once, then paged.

A search resumes where it stopped: parts are searched in order, as many as fit into some time, or
until there are enough hits. What was found stays; the next request goes on from there.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic

import polars as pl

from calipers.dashboard.filters import Query, check_column, mask
from calipers.dashboard.index import SEARCHED, Index
from calipers.dashboard.kept import Kept
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


class Search:
    """The rows whose texts contain some text, as far as they are known."""

    def __init__(self, index: Index, text: str, among: pl.Series | None) -> None:
        self._index = index
        self._pattern = f"(?i){pl.escape_regex(text)}"
        self._among = among
        self._found: list[pl.Series] = []
        self._lock = Lock()
        self.hits = 0
        self.parts_done = 0

    @property
    def done(self) -> bool:
        """Say whether every part was searched."""
        return self.parts_done == len(self._index.summary.parts)

    @property
    def rows_done(self) -> int:
        """How many rows were searched."""
        return sum(self._index.summary.parts[: self.parts_done])

    def go_on(self, *, seconds: float, hits: int | None = None) -> None:
        """Search on until the time is up or `hits` rows are found."""
        until = monotonic() + seconds
        with self._lock:
            while not self.done and (hits is None or self.hits < hits):
                self._search_part(self.parts_done)
                self.parts_done += 1
                if monotonic() > until:
                    break

    def list_rows(self) -> pl.Series:
        """Return the numbers of the rows found, in their order."""
        with self._lock:
            return pl.concat([pl.Series([], dtype=pl.UInt32), *self._found])

    def _search_part(self, part: int) -> None:
        start = self._index.list_part_starts()[part]
        count = self._index.summary.parts[part]
        among = None if self._among is None else self._among.slice(start, count)
        if among is not None and not among.any():
            return
        names = [name for name in SEARCHED if name in self._index.summary.fields]
        texts = self._index.scan("records", part).select(pl.col(names).cast(pl.String))
        contains = pl.any_horizontal(pl.all().str.contains(self._pattern).fill_null(value=False))
        found = texts.select(contains.alias("hit")).collect().to_series()
        if among is not None:
            found &= among
        rows = found.arg_true()
        self.hits += len(rows)
        self._found.append((rows + start).cast(pl.UInt32))


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

"""What a page shows: the filters, search, order and page in its address, and the rows they select.

`model=a&model=b&correct=false&latency_ms>=500&answer~=sorry&q=text&sort=-latency_ms&page=3`

Values of one field given twice are alternatives, different fields all hold. `!=` is not, `~=`
contains, `(none)` stands for no value. Nothing of it is ever evaluated as code.

Rows are selected once, then paged. A search resumes where it stopped: parts are searched in order,
as many as fit into some time, or until there are enough hits; the next request goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from threading import Lock
from time import monotonic
from urllib.parse import urlencode

import polars as pl

from calipers.dashboard.caches import Memo
from calipers.dashboard.index import SEARCHED, Index
from calipers.support.errors import UsageError, nearest

NONE = "(none)"
OPERATORS = {"=": "is", "!=": "is not", ">=": "at least", "<=": "at most", "~=": "contains"}
_SUFFIXES = {"!": "!=", ">": ">=", "<": "<=", "~": "~="}  # what stands before the = in an address
RESERVED = (
    "q",
    "sort",
    "page",
    "by",
    "show",
    "columns",
    "metric",
    "add_field",
    "add_op",
    "add_value",
)
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
_MOST_FILTERS = 40
_LONGEST_VALUE = 500  # characters of a value
_FEW_GROUPS = 30  # groups that can be taken in at once
MOST_GROUPS = 200  # that a page has room for


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on one field."""

    field: str
    operator: str
    value: str

    @property
    def pair(self) -> tuple[str, str]:
        """As the address has it: the name before the equals sign, and the value."""
        return f"{self.field}{self.operator[:-1]}", self.value

    def __str__(self) -> str:
        return f"{self.field} {OPERATORS[self.operator]} {self.value}"


@dataclass(frozen=True, slots=True)
class Query:
    """Everything an address says about which rows to show, and how."""

    filters: tuple[Filter, ...] = ()
    text: str = ""
    sort: str = ""  # a column; with a minus before it, the largest first
    page: int = 1
    by: tuple[str, ...] = ()
    show: str = ""  # which of the tasks, of answers side by side

    def to_pairs(self) -> list[tuple[str, str]]:
        """Return the names and values of the address, in one order."""
        found = [each.pair for each in self.filters]
        found += [("q", self.text)] if self.text else []
        found += [("sort", self.sort)] if self.sort else []
        found += [("by", name) for name in self.by]
        found += [("show", self.show)] if self.show else []
        return found + ([("page", str(self.page))] if self.page > 1 else [])

    def to_url(self) -> str:
        """Return the query string with its question mark; empty without any condition."""
        pairs = self.to_pairs()
        return f"?{urlencode(pairs)}" if pairs else ""

    def set_filters(self, values: Mapping[str, object]) -> Query:
        """Return the query with these as the only conditions on their fields."""
        others = (each for each in self.filters if each.field not in values)
        own = (Filter(field, "=", format_value(value)) for field, value in values.items())
        return replace(self, filters=(*others, *own), page=1)

    def drop_filter(self, unwanted: Filter) -> Query:
        """Return the query without one condition."""
        kept = tuple(each for each in self.filters if each != unwanted)
        return replace(self, filters=kept, page=1)

    @property
    def rows(self) -> Query:
        """The conditions that select rows, without the order and the page."""
        return Query(filters=self.filters, text=self.text)

    @property
    def narrows(self) -> bool:
        """Say whether it leaves any row out."""
        return bool(self.filters or self.text)


def format_value(value: object) -> str:
    """Return a field's value as in an address."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_query(pairs: Iterable[tuple[str, str]]) -> Query:
    """Return the query of an address; empty values, as forms send them, are ignored."""
    filters: list[Filter] = []
    found: dict[str, str] = {}
    by: list[str] = []
    for name, value in pairs:
        if name == "by":
            by += [value] if value else []
        elif name in RESERVED:
            found[name] = value
        elif value:
            filters.append(_read_filter(name, value))
    if found.get("add_field") and found.get("add_value"):
        filters.append(_read_added(found))
    if len(filters) > _MOST_FILTERS:
        raise UsageError(f"{len(filters)} filters at once", fix=f"at most {_MOST_FILTERS}")
    return Query(
        filters=tuple(dict.fromkeys(filters)),
        text=_check_length(found.get("q", "").strip(), "q"),
        sort=_check_length(found.get("sort", ""), "sort"),
        page=_read_page(found.get("page", "")),
        by=tuple(dict.fromkeys(by)),
        show=_check_length(found.get("show", ""), "show"),
    )


def _read_filter(name: str, value: str) -> Filter:
    operator = _SUFFIXES.get(name[-1:], "=")
    field = name if operator == "=" else name[:-1]
    return Filter(_check_length(field, "a field"), operator, _check_length(value, field))


def _read_added(found: Mapping[str, str]) -> Filter:
    """Return the filter from the form for a further one."""
    operator = found.get("add_op", "=")
    if operator not in OPERATORS:
        raise UsageError(f"no filter is called {operator}", fix=f"one of {' '.join(OPERATORS)}")
    return Filter(
        found["add_field"], operator, _check_length(found["add_value"], found["add_field"])
    )


def _check_length(text: str, name: str) -> str:
    if len(text) > _LONGEST_VALUE:
        raise UsageError(f"{name}: {len(text)} characters", fix=f"at most {_LONGEST_VALUE}")
    return text


def _read_page(text: str) -> int:
    if not text:
        return 1
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) < 10**9:
        raise UsageError("page: not a page's number", fix="pages are counted from 1")
    return int(text)


def make_mask(query: Query, index: Index) -> pl.Series | None:
    """Return which rows the filters keep; None for all."""
    by_field: dict[tuple[str, str], list[Filter]] = {}
    for each in query.filters:
        # Values of one field are alternatives; exclusions of one field all hold.
        key = each.field, each.operator if each.operator in ("=", "~=") else str(each)
        by_field.setdefault(key, []).append(each)
    if not by_field:
        return None
    groups = [
        reduce(or_, (_match(each, check_column(each.field, index)) for each in alternatives))
        for alternatives in by_field.values()
    ]
    return reduce(and_, groups)


def check_column(name: str, index: Index) -> pl.Series:
    """Return a column that can be filtered by; raise UsageError with the nearest name."""
    if name not in index.columns:
        raise UsageError(f"no record has a field {name}", fix=nearest(name, index.columns))
    return index.read_column(name)


def _match(condition: Filter, column: pl.Series) -> pl.Series:
    operator, value = condition.operator, condition.value
    if value == NONE and operator in ("=", "!="):
        return column.is_null() if operator == "=" else column.is_not_null()
    if operator == "~=":
        pattern = f"(?i){pl.escape_regex(value)}"
        return column.cast(pl.String).str.contains(pattern).fill_null(value=False)
    if operator in (">=", "<="):
        number = _read_number(condition)
        if not column.dtype.is_numeric():
            raise UsageError(
                f"{condition}: not a field of numbers", fix="compare texts with = or ~="
            )
        found = column >= number if operator == ">=" else column <= number
        return found.fill_null(value=False)
    same = _match_value(condition, column).fill_null(value=False)
    return same if operator == "=" else ~same


def _match_value(condition: Filter, column: pl.Series) -> pl.Series:
    if column.dtype == pl.Boolean:
        word = condition.value.lower()
        if word not in (*_TRUE, *_FALSE):
            raise UsageError(f"{condition}: not true or false", fix=f"true, false or {NONE}")
        return column if word in _TRUE else ~column
    if column.dtype.is_numeric():
        return column == _read_number(condition)
    return column == condition.value


def _read_number(condition: Filter) -> float:
    try:
        number = float(condition.value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"{condition}: not a number", fix="for example 500 or 0.25")
    return number


def has_few_values(index: Index, name: str, most: int = _FEW_GROUPS) -> bool:
    """Say whether a column has several values, and not too many to be groups."""
    return name in index.columns and 1 < index.count_distinct(name) <= most


def count_pooled(query: Query, index: Index) -> tuple[str, int] | None:
    """Return the field that distinguishes systems, and their number, if a view pools several."""
    pinned = {each.field for each in query.filters}
    for name in ("model", "tier"):
        if not query.by and name not in pinned and name in index.columns:
            count = index.count_distinct(name)
            if _FEW_GROUPS < count <= MOST_GROUPS:
                return name, count
    return None


def add_groups(query: Query, index: Index) -> Query:
    """Return the view grouped by model, tier and the like, unless it names a grouping.

    Raises:
        UsageError: There is no such field, or it has too many values for a page.
    """
    for name in query.by:
        check_column(name, index)
        if (values := index.count_distinct(name)) > MOST_GROUPS:
            raise UsageError(
                f"{name} has {values:,} values: too many groups for a page",
                fix=f"at most {MOST_GROUPS}; calipers score --by {name} measures them all",
            )
    if query.by:
        return query
    pinned = {each.field for each in query.filters if each.operator == "="}
    by = [name for name in ("model", "tier") if name not in pinned and has_few_values(index, name)]
    return replace(query, by=tuple(by[:1]))


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
        self._masks: Memo[pl.Series | None] = Memo()
        self._orders: Memo[pl.Series] = Memo()
        self._searches: Memo[Search] = Memo()
        self._selected: Memo[Selected] = Memo()

    def mask(self, query: Query) -> pl.Series | None:
        """Return which rows the filters keep, regardless of the search."""
        return self._masks.get(query.filters, lambda: make_mask(query, self.index))

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

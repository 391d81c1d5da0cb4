"""Totals of many groups as columns, and how declarations are evaluated on them.

A declaration's functions take a group's totals. Those that only compute take columns as well; those
that branch on a number, or make a text, are asked group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from calipers.statistics.elementwise import is_one
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ALIKE = 64  # kinds of groups that are told apart before each is asked by itself


class Columns(Mapping[str, Any]):
    """A column per total, a place per group: 0 where a group lacks it, unless `get` says what."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._values: dict[str, NDArray[Any]] = {}
        self._known: dict[str, NDArray[np.bool_]] = {}  # of columns that some groups lack

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column with the default where a group lacks the total; NaN for None."""
        if name not in self._values:
            return default
        values = self._values[name]
        if name not in self._known or (is_one(default) and default == 0):
            return values
        return np.where(self._known[name], values, np.nan if default is None else default)

    def put(self, name: str, values: NDArray[Any], places: Any = None) -> None:
        """Set a column, or its values at some places."""
        if places is None:
            self._values[name] = values
            self._known.pop(name, None)
            return
        if name not in self._values:
            self._values[name] = np.zeros(self.rows, dtype=values.dtype)
            self._known[name] = np.zeros(self.rows, dtype=bool)
        column = self._values[name]
        dtype = np.result_type(column, values) if column.dtype != object else column.dtype
        column = column.astype(dtype)  # a copy: others may share it
        column[places] = values
        self._values[name] = column
        if (known := self._known.get(name)) is not None:
            known[places] = True
            if known.all():
                del self._known[name]

    def remove(self, name: str, where: NDArray[np.bool_]) -> None:
        """Take a total from the groups where that is said."""
        if name in self._values:
            self._known[name] = self.find_known(name) & ~where

    def find_known(self, name: str) -> NDArray[np.bool_]:
        """Return where groups have a total."""
        if name not in self._values:
            return np.zeros(self.rows, dtype=bool)
        return self._known.get(name, np.ones(self.rows, dtype=bool))

    def has(self, name: str, place: int) -> bool:
        """Say whether a group has a total."""
        return name in self._values and (name not in self._known or bool(self._known[name][place]))

    def take(self, name: str, place: int) -> Any:
        """Return a group's total.

        Raises:
            KeyError: The group lacks it.
        """
        if not self.has(name, place):
            raise KeyError(name)
        return pick(self._values[name], place)


def pick(column: Any, place: int) -> Any:
    """Return one of a column's numbers or texts; what is no column is the same for all."""
    value = column[place] if getattr(column, "ndim", 0) else column
    return value.item() if isinstance(value, np.generic) else value


def shorten_column(column: Any) -> Any:
    """Return what all groups have in the place of a column that is the same in all."""
    if isinstance(column, Mapping):
        return {name: shorten_column(part) for name, part in column.items()}
    if not getattr(column, "ndim", 0) or not len(column):
        return column
    return pick(column, 0) if np.equal(column, column[0]).all() else column


def put_where(totals: Any, values: Mapping[str, Any], where: Any) -> None:
    """Set totals of a group if the condition holds, or those of the groups where it does."""
    if not isinstance(totals, Columns):
        totals.update(values if where else {})
        return
    places = None if where.all() else np.flatnonzero(where)
    for name, value in values.items():
        column = np.full(totals.rows, value) if is_one(value) else value
        totals.put(name, column if places is None else column[places], places)


def remove_where(totals: Any, name: str, where: Any) -> None:
    """Take a total from a group if the condition holds, or from the groups where it does."""
    if isinstance(totals, Columns):
        totals.remove(name, where)
    elif where:
        totals.pop(name, None)


class GroupRow(Mapping[str, Any]):
    """The totals of one group among many; what is set is set in the columns."""

    __slots__ = ("_columns", "_place", "read")

    def __init__(self, columns: Columns, place: int) -> None:
        self._columns = columns
        self._place = place
        self.read: dict[str, None] = {}  # the totals that were asked for

    def __getitem__(self, name: str) -> Any:
        self.read[name] = None
        return self._columns.take(name, self._place)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._columns if self._columns.has(name, self._place))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> None:
        self._columns.put(name, np.array([value]), np.array([self._place]))

    def update(self, totals: Mapping[str, Any]) -> None:
        """Set several totals."""
        for name, value in totals.items():
            self[name] = value


def evaluate(work: Callable[[Any], Any], totals: Mapping[str, Any], where: Any) -> Any:
    """Return what a function makes of a group's totals, or the column of what it makes of each.

    In a column NaN stands for null, and what is not asked for `where` is of no meaning.
    """
    if not isinstance(totals, Columns):
        return work(totals)
    try:
        with np.errstate(all="ignore"):
            return work(totals)
    except (TypeError, ValueError):  # it branches on a number
        made = np.full(totals.rows, np.nan)
        for place in np.flatnonzero(where).tolist():
            value = work(GroupRow(totals, place))
            made[place] = np.nan if value is None else value
        return made


def tell(work: Callable[[Mapping[str, Any]], Any], totals: Mapping[str, Any]) -> Any:
    """Return what a function says of a group, or the column of what it says of each.

    Of many groups, those that are alike in all it reads of them are asked once.
    """
    if not isinstance(totals, Columns):
        return work(totals)
    with suppress(TypeError, ValueError):  # unless it branches on a number
        return work(totals)
    said = np.empty(totals.rows, dtype=object)
    places = np.arange(totals.rows)
    for _ in range(_MOST_ALIKE):
        if not len(places):
            return said
        row = GroupRow(totals, int(places[0]))
        answer = work(row)
        alike = np.ones(len(places), dtype=bool)
        for name in row.read:
            alike &= _is_like_first(totals, name, places)
        said[places[alike]] = answer
        places = places[~alike]
    for place in places.tolist():
        said[place] = work(GroupRow(totals, place))
    return said


def _is_like_first(totals: Columns, name: str, places: NDArray[Any]) -> Any:
    if name not in totals:
        return True
    values, known = totals[name][places], totals.find_known(name)[places]
    return (known == known[0]) & ((values == values[0]) | ~known[0])


def list_having(blocks: Iterable[Mapping[str, Any]], name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the totals of each group in which a count is not 0."""
    for totals in blocks:
        count = totals.get(name, 0)
        if isinstance(totals, Columns):
            yield from (GroupRow(totals, place) for place in np.flatnonzero(count).tolist())
        elif count:
            yield totals

"""The totals of each group: a mapping per group while they are few, columns of all where many.

What is computed from totals is written once, for numbers and for columns of them (`elementwise`):
`list_blocks` gives a mapping of numbers per group, or one of columns for all groups. A column has 0
where a group lacks the total, as `add_totals` has it; `get` with a default says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from calipers.engines.group_codes import FEW_GROUPS, Codes
from calipers.metrics.declare.columns import Columns, GroupRow
from calipers.metrics.declare.declaration import GROUP, Aggregate, Totals, name_kept_total
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Few: TypeAlias = dict[str, dict[str, Any]]


class ManyGroups(Mapping[str, Totals]):
    """The totals of many groups, in columns; a group by itself is a view of its row."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts  # by the groups' places
        self.columns = Columns(len(texts))
        self._places: dict[str, int] | None = None

    @classmethod
    def join(cls, parts: Sequence[ManyGroups]) -> ManyGroups:
        """Return the groups of all, in order."""
        if len(parts) == 1:
            return parts[0]
        whole = cls([text for part in parts for text in part.texts])
        for name in dict.fromkeys(name for part in parts for name in part.columns):
            pieces = (part.columns.get(name, np.zeros(len(part), dtype=bool)) for part in parts)
            known = np.concatenate([part.columns.find_known(name) for part in parts])
            whole.columns.put(name, np.concatenate([*pieces]))
            if not known.all():
                whole.columns.remove(name, ~known)
        return whole

    def __getitem__(self, text: str) -> Totals:
        return GroupRow(self.columns, self.find(text))

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, text: str) -> int:
        """Return the place of a group."""
        if self._places is None:
            self._places = {text: place for place, text in enumerate(self.texts)}
        return self._places[text]


def open_groups(groups: Mapping[str, Any]) -> Callable[[str], Totals]:
    """Return what gives a group's totals by its text, for a visit of each group."""
    if not isinstance(groups, ManyGroups):
        return groups.__getitem__
    columns = groups.columns
    lists = [
        (name, column.tolist(), None if known.all() else known.tolist())
        for name, column in columns.items()
        for known in [columns.find_known(name)]
    ]

    def read(text: str) -> Totals:
        place = groups.find(text)
        return {
            name: values[place] for name, values, known in lists if known is None or known[place]
        }

    return read


GroupTotals: TypeAlias = Few | ManyGroups


def open_totals(codes: Codes, *, are_many: bool) -> GroupTotals:
    """Return what the totals of these groups go into."""
    return ManyGroups(codes.texts) if are_many else {}


def are_groups_many(codes: Codes) -> bool:
    """Say whether the totals of these groups are columns."""
    return len(codes) > FEW_GROUPS


def join_totals(parts: Sequence[GroupTotals]) -> GroupTotals:
    """Return the totals of the groups of all parts."""
    many = [part for part in parts if isinstance(part, ManyGroups)]
    if many:
        return ManyGroups.join(many)
    return {text: totals for part in parts for text, totals in part.items()}  # type: ignore[misc]


def list_blocks(groups: Mapping[str, Any]) -> list[Any]:
    """Return the totals of each group, or those of all groups as columns."""
    if isinstance(groups, ManyGroups):
        return [groups.columns] if groups.texts else []
    return list(groups.values())


def allow_unknown(groups: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Return a context in which columns may have NaN where a group lacks what a formula needs."""
    return np.errstate(all="ignore") if isinstance(groups, ManyGroups) else nullcontext()


def add_totals(groups: GroupTotals, table: pl.DataFrame, codes: Codes | None = None) -> None:
    """Put a table with a row per group into the groups' totals.

    Groups are told by their numbers, or by their texts where there are no codes.
    """
    if isinstance(groups, ManyGroups):
        places = _find_places(table[GROUP], groups)
        for column in table.drop(GROUP):
            groups.columns.put(column.name, _read_column(column), places)
        return
    named = table if codes is None else codes.decode_groups(table).sort(GROUP)
    for row in named.iter_rows(named=True):
        totals = groups.setdefault(row.pop(GROUP), {})
        totals.update((name, 0 if total is None else total) for name, total in row.items())


def _find_places(named: pl.Series, groups: ManyGroups) -> NDArray[Any] | None:
    """Return the place of each row's group; None where these are all in order."""
    if named.dtype == pl.String:
        return np.fromiter(map(groups.find, named.to_list()), dtype=np.int64, count=len(named))
    places = named.to_numpy()
    in_order = len(places) == len(groups.texts) and bool((places == np.arange(len(places))).all())
    return None if in_order else places


def _read_column(column: pl.Series) -> NDArray[Any]:
    """Return the values, 0 for null."""
    if column.dtype == pl.String:
        return np.array([0 if text is None else text for text in column.to_list()], dtype=object)
    if column.dtype.is_integer():
        column = column.cast(pl.Int64)
    null = False if column.dtype == pl.Boolean else 0
    return (column.fill_null(null) if column.null_count() else column).to_numpy()


def add_kept(groups: GroupTotals, table: pl.DataFrame, aggregate: Aggregate, codes: Codes) -> None:
    """Put each key's totals into the groups', under the key; the keys are few."""
    prefix, [key] = aggregate.kept_as, aggregate.keys
    assert prefix is not None
    for [value], rows in table.group_by([key], maintain_order=True):
        named = {name: name_kept_total(prefix, value, name) for name in aggregate.totals}
        add_totals(groups, rows.select(GROUP, *named).rename(named), codes)


def add_values(
    groups: GroupTotals, name: str, numbers: NDArray[Any], values: NDArray[Any], codes: Codes
) -> None:
    """Put a value into each of some groups, told by their numbers."""
    if isinstance(groups, ManyGroups):
        groups.columns.put(name, values, numbers)
        return
    texts = codes.texts
    for number, value in zip(numbers.tolist(), values.tolist(), strict=True):
        groups[texts[number]][name] = value
